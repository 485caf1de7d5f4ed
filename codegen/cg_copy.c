/* Moving elements: transposes, slices, pads, concats that could not be absorbed, and constants that need storage. Both
 * sides of a copy are strided; axes that lie together on both sides are one. The kernel knows five axes, the last one
 * in the inner loop. */
#include <string.h>

#include "codegen/copy.h"

enum { COPY_AXES = 5, COPY_ELEMENTS = 8192 };

mpc_copy_axes mpc_copy_merge_axes(const mpc_strided *from, const mpc_strided *to) {
    mpc_copy_axes a = {.count = 0};
    for (uint32_t i = 0; i < from->rank; i++) {
        if (from->dims[i] == 1) continue;
        bool joins = a.count > 0 && a.from[a.count - 1] == from->strides[i] * from->dims[i] &&
                     a.to[a.count - 1] == to->strides[i] * to->dims[i];
        if (joins) a.dims[a.count - 1] *= from->dims[i];
        else a.dims[a.count++] = from->dims[i];
        a.from[a.count - 1] = from->strides[i];
        a.to[a.count - 1] = to->strides[i];
    }
    return a;
}

/* n: per unit, rows, then extents, strides from, strides to. */
static void add_axes(mpc_cg_args *args, const mpc_copy_axes *a) {
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < a->count; i++) rows *= a->dims[i];
    int64_t length = a->count > 0 ? a->dims[a->count - 1] : 1;
    int64_t per = length >= COPY_ELEMENTS ? 1 : COPY_ELEMENTS / length;
    mpc_cg_add_int(args, per);
    mpc_cg_add_int(args, rows);
    uint32_t skip = COPY_AXES - a->count;
    for (uint32_t i = 0; i < COPY_AXES; i++) mpc_cg_add_int(args, i < skip ? 1 : a->dims[i - skip]);
    for (uint32_t i = 0; i < COPY_AXES; i++) mpc_cg_add_int(args, i < skip ? 1 : a->from[i - skip]);
    for (uint32_t i = 0; i < COPY_AXES; i++) mpc_cg_add_int(args, i < skip ? 1 : a->to[i - skip]);
    args->units = (rows + per - 1) / per;
}

static void print_move(const mpc_copy_side *from, const mpc_copy_side *to, mpc_str *o) {
    const mpc_format_info *f = mpc_format_get(from->format), *t = mpc_format_get(to->format);
    if (from->format == to->format) {
        mpc_str_printf(o, "        if (n[11] == 1 && n[16] == 1 && n[6] * %u == 64) memcpy(y, x, 64);\n", t->bytes);
        mpc_str_printf(o, "        else if (n[11] == 1 && n[16] == 1) memcpy(y, x, (size_t)n[6] * %u);\n        else\n",
                       t->bytes);
        mpc_str_printf(
            o, "            for (int64_t i = 0; i < n[6]; i++) memcpy(y + i * n[16] * %u, x + i * n[11] * %u, %u);\n",
            t->bytes, t->bytes, t->bytes);
        return;
    }
    char lanes = mpc_cg_lanes(to->format), have = mpc_cg_lanes(from->format);
    mpc_str_append(o, "        for (int64_t i = 0; i < n[6]; i++) {\n");
    mpc_str_printf(o, "            const %s v = mpc_one_%s(x + i * n[11] * %u);\n",
                   have == 'f'   ? "vf"
                   : have == 'l' ? "vl"
                                 : "vi",
                   f->name, f->bytes);
    mpc_str_printf(o, "            mpc_store_%s(y + i * n[16] * %u, ", t->name, t->bytes);
    if (mpc_cg_rounds(to->format)) mpc_str_printf(o, "mpc_round_%s(", t->name);
    if (lanes != have) mpc_str_printf(o, "mpc_%c_from_%c(v)", lanes, have);
    else mpc_str_append(o, "v");
    mpc_str_append(o, mpc_cg_rounds(to->format) ? "), 1);\n        }\n" : ", 1);\n        }\n");
}

static void print_copy(const mpc_copy_side *from, const mpc_copy_side *to, mpc_str *o) {
    unsigned f = mpc_format_get(from->format)->bytes, t = mpc_format_get(to->format)->bytes;
    mpc_str_append(o, "    int64_t d[4], q = begin * n[0], a = 0, b = 0;\n");
    mpc_str_append(o, "    for (int i = 3; i >= 0; i--) {\n        d[i] = q % n[2 + i];\n        q /= n[2 + i];\n");
    mpc_str_append(o, "        a += d[i] * n[7 + i];\n        b += d[i] * n[12 + i];\n    }\n");
    mpc_str_append(o, "    for (int64_t r = begin * n[0]; r < n[1] && r < end * n[0]; r++) {\n");
    mpc_str_printf(
        o,
        "        const char *const x = (const char *)p[0] + a * %u;\n        char *const y = (char *)p[1] + b * %u;\n",
        f, t);
    print_move(from, to, o);
    mpc_str_append(o, "        for (int i = 3; i >= 0; i--) { /* next row */\n            a += n[7 + i];\n            "
                      "b += n[12 + i];\n");
    mpc_str_append(o, "            if (++d[i] < n[2 + i]) break;\n            a -= d[i] * n[7 + i];\n            b -= "
                      "d[i] * n[12 + i];\n            d[i] = 0;\n        }\n    }\n");
}

/* One copy; joins the launch `*launch` if that one runs the same kernel. */
static void copy(mpc_cg *cg, const mpc_node *n, const mpc_copy_side *from, const mpc_copy_side *to,
                 mpc_launch **launch) {
    if (!mpc_cg_ok(cg)) return;
    mpc_cg_args args = {0};
    mpc_str body = {0};
    mpc_copy_axes axes = mpc_copy_merge_axes(&from->layout, &to->layout);
    if (axes.count > COPY_AXES) {
        mpc_cg_fail(cg, "%s moves %u axes at once, more than %d", mpc_value_name(cg->g, mpc_result(n, 0)), axes.count,
                    COPY_AXES);
        return;
    }
    int64_t bytes = mpc_format_get(to->format)->bytes;
    for (uint32_t i = 0; i < axes.count; i++) bytes *= axes.dims[i];
    mpc_cg_add_pointer(&args, from->at);
    mpc_cg_add_pointer(&args, to->at);
    add_axes(&args, &axes);
    print_copy(from, to, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(&body), &args, 0);
    if (*launch != NULL && (*launch)->kernel == kernel) mpc_cg_add_instance(cg, *launch, &args);
    else *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
    mpc_str_free(&body);
    if (*launch != NULL) (*launch)->bytes += 2.0 * (double)bytes;
}

static mpc_copy_side side_of(mpc_cg *cg, mpc_value_id v) {
    mpc_copy_side s = {.format = mpc_value_format(cg->g, v)};
    s.at = mpc_cg_layout(cg, v, &s.layout);
    return s;
}

/* The part of `s` that starts at `start` and has the extents of `dims`. */
static void narrow(mpc_copy_side *s, const int64_t *start, const int64_t *dims) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < s->layout.rank; i++) {
        offset += start[i] * s->layout.strides[i];
        s->layout.dims[i] = dims[i];
    }
    s->at.byte_offset += (uint64_t)offset * mpc_format_get(s->format)->bytes;
}

static bool is_empty(const mpc_cg *cg, mpc_value_id v) {
    return mpc_type_elements(mpc_value_type(cg->g, v)) == 0;
}

static void copy_parts(mpc_cg *cg, const mpc_node *n, const mpc_copy_emitter *emitter) {
    int64_t axis = mpc_attr_int(cg->g, n, "axis"), start[MPC_MAX_RANK] = {0};
    mpc_launch *launch = NULL;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_copy_side from = side_of(cg, mpc_operand(cg->g, n, i)), to = side_of(cg, mpc_result(n, 0));
        narrow(&to, start, from.layout.dims);
        if (!is_empty(cg, mpc_operand(cg->g, n, i))) emitter->move(cg, n, &from, &to, &launch);
        start[axis] += from.layout.dims[axis];
    }
}

static void print_fill(mpc_format format, bool range, mpc_str *o) {
    const mpc_format_info *info = mpc_format_get(format);
    char lanes = mpc_cg_lanes(format);
    mpc_str_append(o, "    for (int64_t c = begin * n[0]; c < n[1] && c < end * n[0]; c += 16) {\n");
    mpc_str_printf(o, "        mpc_store_%s((char *)p[0] + c * %u, ", info->name, info->bytes);
    if (range) mpc_str_append(o, "mpc_splat_i((int32_t)c) + mpc_lanes()");
    else if (lanes == 'f') mpc_str_append(o, "mpc_splat(f[0])");
    else mpc_str_append(o, lanes == 'l' ? "mpc_splat_l(n[2])" : "mpc_splat_i((int32_t)n[2])");
    mpc_str_append(o, ", n[1] - c);\n    }\n");
}

void mpc_copy_add_value(mpc_cg_args *args, mpc_format format, double value) {
    const mpc_format_info *info = mpc_format_get(format);
    double rounded = mpc_format_is_low(format) ? mpc_numfmt_round(&info->fmt, (double)(float)value) : value;
    mpc_cg_add_int(args, mpc_format_is_float(format) ? 0 : (int64_t)value);
    mpc_cg_add_float(args, (float)rounded);
}

static void fill(mpc_cg *cg, const mpc_node *n, double value, bool range) {
    mpc_value_id result = mpc_result(n, 0);
    mpc_format format = mpc_value_format(cg->g, result);
    mpc_cg_args args = {0};
    mpc_str body = {0};
    int64_t count = mpc_type_elements(mpc_value_type(cg->g, result));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    mpc_cg_add_int(&args, COPY_ELEMENTS);
    mpc_cg_add_int(&args, count);
    mpc_copy_add_value(&args, format, value);
    args.units = (count + COPY_ELEMENTS - 1) / COPY_ELEMENTS;
    print_fill(format, range, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(&body), &args, 0);
    mpc_cg_add_launch(cg, n, result, kernel, &args);
    mpc_str_free(&body);
}

void mpc_copy_emit_fill(mpc_cg *cg, const mpc_node *n, const mpc_copy_emitter *emitter) {
    bool range = n->op == MPC_OP_range;
    emitter->fill(cg, n, range ? 0 : mpc_attr_float(cg->g, n, "value"), range);
}

void mpc_copy_emit_view(mpc_cg *cg, const mpc_node *n, const mpc_copy_emitter *emitter) {
    mpc_launch *launch = NULL;
    if (is_empty(cg, mpc_result(n, 0))) return;
    if (n->op == MPC_OP_concat) {
        copy_parts(cg, n, emitter);
        return;
    }
    mpc_copy_side from = side_of(cg, mpc_operand(cg->g, n, 0)), to = side_of(cg, mpc_result(n, 0));
    if (n->op == MPC_OP_pad) {
        emitter->fill(cg, n, mpc_attr_float(cg->g, n, "value"), false);
        narrow(&to, mpc_attr_ints(cg->g, n, "before").data, from.layout.dims);
    } else {
        int64_t offset = from.layout.offset;
        if (!mpc_strided_apply(cg->g, n, &from.layout))
            mpc_cg_fail(cg, "%s can't be copied", mpc_value_name(cg->g, mpc_result(n, 0)));
        from.at.byte_offset += (uint64_t)(from.layout.offset - offset) * mpc_format_get(from.format)->bytes;
    }
    if (!is_empty(cg, mpc_operand(cg->g, n, 0))) emitter->move(cg, n, &from, &to, &launch);
}

static const mpc_copy_emitter c_emitter = {copy, fill};

void mpc_cg_fill(mpc_cg *cg, const mpc_node *n) { mpc_copy_emit_fill(cg, n, &c_emitter); }

void mpc_cg_copy(mpc_cg *cg, const mpc_node *n) { mpc_copy_emit_view(cg, n, &c_emitter); }
