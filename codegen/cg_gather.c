/* Embedding, its gradient, the global norm, and reductions whose axes fit no loop kernel. Whatever is summed is summed
 * in an order that depends on shapes only. */
#include "codegen/reduce.h"

enum { ROW_ELEMENTS = 8192, NORM_ELEMENTS = 16384, REDUCE_AXES = 4 };

static void launch_text(mpc_cg *cg, const mpc_node *n, mpc_str *body, mpc_cg_args *args) {
    if (body->failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(body), args, 0);
    mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, args);
    mpc_str_free(body);
}

static const mpc_format_info *format_of(const mpc_cg *cg, mpc_value_id v) {
    return mpc_format_get(mpc_value_format(cg->g, v));
}

static void embedding(mpc_cg *cg, const mpc_node *n) {
    mpc_value_id table = mpc_operand(cg->g, n, 0), ids = mpc_operand(cg->g, n, 1), result = mpc_result(n, 0);
    const mpc_format_info *ft = format_of(cg, table), *fi = format_of(cg, ids), *fr = format_of(cg, result);
    const int64_t *dims = mpc_value_type(cg->g, table)->dims;
    int64_t count = mpc_type_elements(mpc_value_type(cg->g, ids)),
            per = dims[1] >= ROW_ELEMENTS ? 1 : ROW_ELEMENTS / dims[1];
    mpc_cg_args args = {.units = (count + per - 1) / per};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, table));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, ids));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    int64_t ints[] = {per, count, dims[1], dims[0]};
    for (int i = 0; i < 4; i++) mpc_cg_add_int(&args, ints[i]);
    bool rounds = mpc_cg_rounds(mpc_value_format(cg->g, result)) && ft != fr;
    mpc_str o = {0};
    mpc_str_append(&o, "    for (int64_t r = begin * n[0]; r < n[1] && r < end * n[0]; r++) {\n");
    mpc_str_printf(&o, "        const int64_t id = (int64_t)mpc_one_%s((const char *)p[1] + r * %u)[0];\n", fi->name,
                   fi->bytes);
    mpc_str_append(&o,
                   "        const int ok = id >= 0 && id < n[3];\n        for (int64_t c = 0; c < n[2]; c += 16) {\n");
    mpc_str_append(&o, "            vf x = mpc_splat(__builtin_nanf(\"\"));\n");
    mpc_str_printf(&o, "            if (ok) x = mpc_load_%s((const char *)p[0] + (id * n[2] + c) * %u, n[2] - c);\n",
                   ft->name, ft->bytes);
    if (rounds) mpc_str_printf(&o, "            x = mpc_round_%s(x);\n", fr->name);
    mpc_str_printf(&o, "            mpc_store_%s((char *)p[2] + (r * n[2] + c) * %u, x, n[2] - c);\n        }\n    }\n",
                   fr->name, fr->bytes);
    launch_text(cg, n, &o, &args);
}

/* Units are blocks of columns: each goes through all ids in order, so no two units write the same element. */
static void embedding_grad(mpc_cg *cg, const mpc_node *n) {
    mpc_value_id dy = mpc_operand(cg->g, n, 0), ids = mpc_operand(cg->g, n, 1), result = mpc_result(n, 0);
    const mpc_format_info *fd = format_of(cg, dy), *fi = format_of(cg, ids);
    const int64_t *dims = mpc_value_type(cg->g, result)->dims;
    if (mpc_value_format(cg->g, result) != MPC_FMT_f32)
        mpc_cg_fail(cg, "embedding_grad %s must give f32", mpc_value_name(cg->g, result));
    int64_t per = dims[1] <= 256 ? 16 : 64;
    mpc_cg_args args = {.units = (dims[1] + per - 1) / per};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, dy));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, ids));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    int64_t ints[] = {per, mpc_type_elements(mpc_value_type(cg->g, ids)), dims[1], dims[0]};
    for (int i = 0; i < 4; i++) mpc_cg_add_int(&args, ints[i]);
    mpc_str o = {0};
    mpc_str_append(&o, "    float *const y = p[2];\n    for (int64_t u = begin; u < end; u++) {\n");
    mpc_str_append(&o, "        const int64_t lo = u * n[0], hi = lo + n[0] < n[2] ? lo + n[0] : n[2];\n");
    mpc_str_append(&o,
                   "        for (int64_t r = 0; r < n[3]; r++) memset(y + r * n[2] + lo, 0, (size_t)(hi - lo) * 4);\n");
    mpc_str_append(&o, "        for (int64_t r = 0; r < n[1]; r++) {\n");
    mpc_str_printf(&o, "            const int64_t id = (int64_t)mpc_one_%s((const char *)p[1] + r * %u)[0];\n",
                   fi->name, fi->bytes);
    mpc_str_append(
        &o, "            if (id < 0 || id >= n[3]) continue;\n            for (int64_t c = lo; c < hi; c += 16) {\n");
    mpc_str_append(&o, "                float *const t = y + id * n[2] + c;\n");
    mpc_str_printf(&o,
                   "                mpc_store_f32(t, mpc_load_f32(t, hi - c) + mpc_load_%s((const char *)p[0] + (r * "
                   "n[2] + c) * %u, hi - c), hi - c);\n",
                   fd->name, fd->bytes);
    mpc_str_append(&o, "            }\n        }\n    }\n");
    launch_text(cg, n, &o, &args);
}

void mpc_cg_gather(mpc_cg *cg, const mpc_node *n) {
    if (n->op == MPC_OP_embedding) embedding(cg, n);
    else if (n->op == MPC_OP_embedding_grad) embedding_grad(cg, n);
    else mpc_cg_fail(cg, "no kernel for %s", mpc_op_get(cg->g->ctx, n->op)->name);
}

/* --- global norm: squares in f64, one part per unit, then all parts in order --- */

static void print_squares(const mpc_format_info *f, mpc_str *o) {
    mpc_str_append(o, "    for (int64_t u = begin; u < end; u++) {\n        vd t = {0};\n");
    mpc_str_append(o, "        for (int64_t c = u * n[0]; c < n[1] && c < (u + 1) * n[0]; c += 16) {\n");
    mpc_str_printf(
        o,
        "            const vd x = __builtin_convertvector(mpc_load_%s((const char *)p[0] + c * %u, n[1] - c), vd);\n",
        f->name, f->bytes);
    mpc_str_append(o, "            t += x * x;\n        }\n        double sum = 0;\n");
    mpc_str_append(o, "        for (int i = 0; i < 16; i++) sum += t[i];\n        ((double *)p[1])[u] = sum;\n    }\n");
}

static int64_t add_squares(mpc_cg *cg, const mpc_node *n, mpc_value_id v, mpc_pointer parts, mpc_launch **launch) {
    mpc_cg_args args = {0};
    mpc_str o = {0};
    int64_t count = mpc_type_elements(mpc_value_type(cg->g, v)), units = (count + NORM_ELEMENTS - 1) / NORM_ELEMENTS;
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, v));
    mpc_cg_add_pointer(&args, parts);
    mpc_cg_add_int(&args, NORM_ELEMENTS);
    mpc_cg_add_int(&args, count);
    args.units = units;
    print_squares(format_of(cg, v), &o);
    if (o.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(&o), &args, 0);
    if (*launch != NULL && (*launch)->kernel == kernel) {
        mpc_cg_add_instance(cg, *launch, &args);
    } else {
        *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
        if (*launch != NULL) (*launch)->result_count = 0; /* parts only */
    }
    mpc_str_free(&o);
    return units;
}

void mpc_cg_norm(mpc_cg *cg, const mpc_node *n) {
    int64_t units = 0;
    for (uint32_t i = 0; i < n->operand_count; i++)
        units +=
            (mpc_type_elements(mpc_value_type(cg->g, mpc_operand(cg->g, n, i))) + NORM_ELEMENTS - 1) / NORM_ELEMENTS;
    cg->workspace_used = 0;
    mpc_pointer parts = mpc_cg_workspace(cg, (uint64_t)units * sizeof(double)), at = parts;
    mpc_launch *launch = NULL;
    for (uint32_t i = 0; i < n->operand_count && mpc_cg_ok(cg); i++)
        at.byte_offset += (uint64_t)add_squares(cg, n, mpc_operand(cg->g, n, i), at, &launch) * sizeof(double);
    mpc_cg_args args = {.units = 1};
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, parts);
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, 0)));
    mpc_cg_add_int(&args, units);
    mpc_str_append(&o, "    double sum = 0;\n    (void)begin, (void)end;\n");
    mpc_str_append(&o, "    for (int64_t i = 0; i < n[0]; i++) sum += ((const double *)p[0])[i];\n");
    mpc_str_append(&o, "    *(float *)p[1] = (float)__builtin_sqrt(sum);\n");
    launch_text(cg, n, &o, &args);
}

/* --- reductions over axes that no loop kernel takes --- */

static bool reduces(mpc_int_list axes, uint32_t axis) {
    for (uint32_t i = 0; i < axes.count; i++)
        if (axes.data[i] == (int64_t)axis) return true;
    return false;
}

void mpc_reduce_split_axes(const mpc_cg *cg, const mpc_node *n, mpc_axis_run *kept, mpc_axis_run *gone) {
    mpc_strided s = mpc_strided_dense(mpc_value_type(cg->g, mpc_operand(cg->g, n, 0)));
    mpc_int_list axes = mpc_attr_ints(cg->g, n, "axes");
    bool joins = false; /* the axis before is of the same kind */
    for (uint32_t i = 0; i < s.rank; i++) {
        mpc_axis_run *run = reduces(axes, i) ? gone : kept;
        joins = i > 0 && reduces(axes, i) == reduces(axes, i - 1);
        if (joins) run->dims[run->count - 1] *= s.dims[i];
        else run->dims[run->count++] = s.dims[i];
        run->strides[run->count - 1] = s.strides[i];
    }
}

static void add_run(const mpc_axis_run *run, mpc_cg_args *args) {
    uint32_t skip = REDUCE_AXES - run->count;
    for (uint32_t i = 0; i < REDUCE_AXES; i++) mpc_cg_add_int(args, i < skip ? 1 : run->dims[i - skip]);
    for (uint32_t i = 0; i < REDUCE_AXES; i++) mpc_cg_add_int(args, i < skip ? 0 : run->strides[i - skip]);
}

/* Both walk the elements of one result in the same order, so they make the same bits. */
static void print_reduce(const mpc_cg *cg, const mpc_node *n, bool by_columns, mpc_str *o) {
    mpc_format from = mpc_value_format(cg->g, mpc_operand(cg->g, n, 0)), to = mpc_value_format(cg->g, mpc_result(n, 0));
    const mpc_format_info *f = mpc_format_get(from), *t = mpc_format_get(to);
    char lanes = mpc_cg_lanes(to), have = mpc_cg_lanes(from);
    const char *type = lanes == 'f' ? "vf" : lanes == 'l' ? "vl" : "vi", *name = mpc_op_get(cg->g->ctx, n->op)->name;
    const char *left = by_columns ? ", n[4] - c" : "";
    mpc_str_printf(o, "    for (int64_t r = begin%s; r < end%s; r%s) {\n", by_columns ? " * n[4]" : "",
                   by_columns ? " * n[4]" : "", by_columns ? " += n[4]" : "++");
    mpc_str_append(o, "        int64_t q = r, at = 0;\n");
    mpc_str_append(o, "        for (int i = 3; i >= 0; i--) at += q % n[1 + i] * n[5 + i], q /= n[1 + i];\n");
    mpc_str_printf(o, "        for (int64_t c = 0; c < %s; c += 16) {\n", by_columns ? "n[4]" : "1");
    mpc_str_printf(o, "        %s t = {0};\n        for (int64_t k = 0; k < n[0]; k++) {\n", type);
    mpc_str_append(o, "            int64_t w = k, x = at + c;\n");
    mpc_str_append(o, "            for (int i = 3; i >= 0; i--) x += w % n[9 + i] * n[13 + i], w /= n[9 + i];\n");
    mpc_str_printf(o, "            const %s v = ", type);
    if (lanes != have) mpc_str_printf(o, "mpc_%c_from_%c(", lanes, have);
    mpc_str_printf(o, "mpc_%s_%s((const char *)p[0] + x * %u%s)%s;\n", by_columns ? "load" : "one", f->name, f->bytes,
                   left, lanes != have ? ")" : "");
    mpc_str_printf(o, "            t = k == 0 ? v : mpc_%s_%c(t, v);\n        }\n", name, lanes);
    if (mpc_cg_rounds(to)) mpc_str_printf(o, "        t = mpc_round_%s(t);\n", t->name);
    mpc_str_printf(o, "        mpc_store_%s((char *)p[1] + (r + c) * %u, t, %s);\n        }\n    }\n", t->name,
                   t->bytes, by_columns ? "n[4] - c" : "1");
}

/* Results that lie side by side read numbers that lie side by side: a vector of them at a time, a row of results a
 * unit. */
static bool goes_by_columns(const mpc_axis_run *kept) {
    return kept->count > 0 && kept->strides[kept->count - 1] == 1 && kept->dims[kept->count - 1] >= 4;
}

void mpc_cg_reduce(mpc_cg *cg, const mpc_node *n) {
    mpc_axis_run kept = {0}, gone = {0};
    mpc_reduce_split_axes(cg, n, &kept, &gone);
    if (kept.count > REDUCE_AXES || gone.count > REDUCE_AXES) {
        mpc_cg_fail(cg, "%s reduces too many separate axes", mpc_value_name(cg->g, mpc_result(n, 0)));
        return;
    }
    bool by_columns = goes_by_columns(&kept);
    mpc_cg_args args = {.units = mpc_type_elements(mpc_value_type(cg->g, mpc_result(n, 0)))};
    if (by_columns) args.units /= kept.dims[kept.count - 1];
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, 0)));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, 0)));
    int64_t reduced = 1;
    for (uint32_t i = 0; i < gone.count; i++) reduced *= gone.dims[i];
    mpc_cg_add_int(&args, reduced);
    add_run(&kept, &args);
    add_run(&gone, &args);
    print_reduce(cg, n, by_columns, &o);
    launch_text(cg, n, &o, &args);
}
