/* The global norm, and reductions whose axes fit no loop kernel, in CUDA. Teams of threads take what is added in
 * strides and put their parts together in one tree; team and tree depend on shapes only. */
#include <stdio.h>

#include "codegen/cuda/grid.h"
#include "codegen/reduce.h"

enum {
    NORM_ELEMENTS = 16384,
    TEAM_LEAST = 4 /* numbers a thread of a team adds */,
    TEAM_THREADS = MPC_GRID_BLOCKS * MPC_GRID_THREADS
};

/* --- global norm: squares in f64, one part per NORM_ELEMENTS elements, then all parts by one block --- */

/* t of all threads added up in sums[0]. */
static void print_sum(const char *indent, mpc_str *o) {
    mpc_str_printf(o, "%ssums[mpc_thread()] = t;\n%smpc_barrier();\n", indent, indent);
    mpc_str_printf(o, "%sfor (int h = %d; h > 0; h /= 2) {\n", indent, MPC_GRID_THREADS / 2);
    mpc_str_printf(
        o, "%s    if (mpc_thread() < h) sums[mpc_thread()] += sums[mpc_thread() + h];\n%s    mpc_barrier();\n%s}\n",
        indent, indent, indent);
}

/* n: 0 elements */
static void print_squares(const mpc_format_info *f, mpc_str *o) {
    int w = f->bytes == 1 ? 8 : 16 / (int)f->bytes;
    mpc_str_append(
        o, "    double *const sums = (double *)mpc_shared();\n    for (int64_t u = block; u < units; u += blocks) {\n");
    mpc_str_printf(o, "        const int64_t end = (u + 1) * %d < n[0] ? (u + 1) * %d : n[0];\n        double t = 0;\n",
                   NORM_ELEMENTS, NORM_ELEMENTS);
    mpc_str_printf(o, "        for (int64_t c = u * %d + mpc_thread() * %d; c < end; c += %d) {\n", NORM_ELEMENTS, w,
                   w * MPC_GRID_THREADS);
    mpc_str_printf(o, "            const auto x = mpc_load_%s<%d>((const char *)p[0] + c * %u, end - c);\n", f->name, w,
                   f->bytes);
    mpc_str_printf(o, "            MPC_EACH(%d) t += (double)x.v[i] * (double)x.v[i];\n        }\n", w);
    print_sum("        ", o);
    mpc_str_append(o, "        if (mpc_thread() == 0) ((double *)p[1])[u] = sums[0];\n    }\n");
}

static uint32_t add_kernel(mpc_cg *cg, mpc_str *body, const mpc_cg_args *args, uint32_t shared_bytes,
                           const char *note) {
    if (body->failed || args->failed) mpc_cg_no_memory(cg);
    mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS, .shared_bytes = shared_bytes, .note = note};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(body), args, &shape);
    mpc_str_free(body);
    return kernel;
}

static int64_t norm_units(const mpc_cg *cg, mpc_value_id v) {
    return (mpc_type_elements(mpc_value_type(cg->g, v)) + NORM_ELEMENTS - 1) / NORM_ELEMENTS;
}

/* Gradients of one format are instances of one launch. */
static void add_squares(mpc_cg *cg, const mpc_node *n, mpc_value_id v, mpc_pointer parts, mpc_launch **launch) {
    mpc_cg_args args = {.units = norm_units(cg, v)};
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, v));
    mpc_cg_add_pointer(&args, parts);
    mpc_cg_add_int(&args, mpc_type_elements(mpc_value_type(cg->g, v)));
    args.blocks = mpc_grid_blocks(args.units, 1);
    print_squares(mpc_format_get(mpc_value_format(cg->g, v)), &o);
    uint32_t kernel = add_kernel(cg, &o, &args, MPC_GRID_THREADS * sizeof(double), NULL);
    bool joins = *launch != NULL && (*launch)->kernel == kernel;
    mpc_grid_join(cg, n, launch, kernel, &args);
    if (*launch == NULL) return;
    if (!joins) (*launch)->result_count = 0; /* parts only */
    (*launch)->bytes += (double)mpc_type_bytes(mpc_value_type(cg->g, v));
}

static void all_squares(mpc_cg *cg, const mpc_node *n, mpc_pointer parts) {
    for (mpc_format format = 0; format < MPC_FMT_count; format++) {
        mpc_launch *launch = NULL;
        mpc_pointer at = parts;
        for (uint32_t i = 0; i < n->operand_count && mpc_cg_ok(cg); i++) {
            mpc_value_id v = mpc_operand(cg->g, n, i);
            if (mpc_value_format(cg->g, v) == format) add_squares(cg, n, v, at, &launch);
            at.byte_offset += (uint64_t)norm_units(cg, v) * sizeof(double);
        }
    }
}

/* n: 0 parts */
void mpc_cuda_norm(mpc_cg *cg, const mpc_node *n) {
    int64_t parts = 0;
    for (uint32_t i = 0; i < n->operand_count; i++) parts += norm_units(cg, mpc_operand(cg->g, n, i));
    cg->workspace_used = 0;
    mpc_pointer workspace = mpc_cg_workspace(cg, (uint64_t)parts * sizeof(double));
    all_squares(cg, n, workspace);
    mpc_cg_args args = {.units = 1, .blocks = 1};
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, workspace);
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, 0)));
    mpc_cg_add_int(&args, parts);
    mpc_str_append(&o, "    double *const sums = (double *)mpc_shared();\n    double t = 0;\n");
    mpc_str_printf(&o, "    for (int64_t i = mpc_thread(); i < n[0]; i += %d) t += ((const double *)p[0])[i];\n",
                   MPC_GRID_THREADS);
    print_sum("    ", &o);
    mpc_str_append(&o, "    if (mpc_thread() == 0) *(float *)p[1] = (float)mpc_sqrt_double(sums[0]);\n");
    uint32_t kernel =
        add_kernel(cg, &o, &args, MPC_GRID_THREADS * sizeof(double), "one block adds one number per part");
    mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
}

/* --- reductions --- */

typedef struct reduction {
    mpc_axis_run kept, gone;
    int64_t results, terms; /* terms of one result */
    int team;               /* threads of a result */
    bool side_by_side;      /* neighbouring threads have neighbouring results, not neighbouring terms */
    mpc_format from, to;
    char lanes;
} reduction;

static int64_t product(const mpc_axis_run *run) {
    int64_t size = 1;
    for (uint32_t i = 0; i < run->count; i++) size *= run->dims[i];
    return size;
}

static reduction describe(mpc_cg *cg, const mpc_node *n) {
    reduction r = {.from = mpc_value_format(cg->g, mpc_operand(cg->g, n, 0)),
                   .to = mpc_value_format(cg->g, mpc_result(n, 0)),
                   .team = 1};
    mpc_reduce_split_axes(cg, n, &r.kept, &r.gone);
    r.results = product(&r.kept);
    r.terms = product(&r.gone);
    while (r.team < MPC_GRID_THREADS && r.team * 2 * TEAM_LEAST <= r.terms && r.results * r.team < TEAM_THREADS)
        r.team *= 2;
    r.side_by_side = r.kept.count > 0 && r.kept.strides[r.kept.count - 1] == 1;
    r.lanes = mpc_cg_lanes(r.to) == 'b' ? 'i' : mpc_cg_lanes(r.to);
    return r;
}

/* n from `at` on: by axis the extent as a divisor (3) and the step. */
static void add_run(const mpc_axis_run *run, mpc_cg_args *args) {
    for (uint32_t i = 0; i < run->count; i++) {
        mpc_grid_add_divisor(args, run->dims[i]);
        mpc_cg_add_int(args, run->strides[i]);
    }
}

/* "SUM += digit * step" for the digits of `q`, which is used up. */
static void print_offset(const mpc_axis_run *run, const char *indent, const char *q, const char *sum, uint32_t at,
                         mpc_str *o) {
    bool narrow = mpc_grid_is_narrow(product(run));
    mpc_str_printf(o, "%s%s %s_q = (%s)%s;\n", indent, narrow ? "uint32_t" : "int64_t", q,
                   narrow ? "uint32_t" : "int64_t", q);
    for (uint32_t i = run->count; i-- > 0;) {
        char digit[32], quotient[16];
        snprintf(quotient, sizeof quotient, "%s_q", q);
        snprintf(digit, sizeof digit, "%s%u", q, i);
        if (i > 0) mpc_grid_print_digit(o, indent, digit, quotient, at + 4 * i, narrow);
        mpc_str_printf(o, "%s%s += (int64_t)%s * n[%u];\n", indent, sum, i > 0 ? digit : quotient, at + 4 * i + 3);
    }
}

static void print_terms(const reduction *r, const char *op, mpc_str *o) {
    const mpc_format_info *f = mpc_format_get(r->from);
    const char *type = r->lanes == 'f' ? "float" : r->lanes == 'l' ? "int64_t" : "int32_t";
    char have = mpc_cg_lanes(r->from);
    int rows = MPC_GRID_THREADS / r->team;
    mpc_str_printf(o, "    const int row = mpc_thread() %s %d, part = mpc_thread() %s %d;\n",
                   r->side_by_side ? "%" : "/", r->side_by_side ? rows : r->team, r->side_by_side ? "/" : "%",
                   r->side_by_side ? rows : r->team);
    mpc_str_printf(o, "    %s *const parts = (%s *)mpc_shared();\n", type, type);
    mpc_str_printf(o, "    for (int64_t base = (int64_t)block * %d; base < units; base += (int64_t)blocks * %d) {\n",
                   rows, rows);
    mpc_str_printf(o,
                   "        const int64_t r = base + row < units ? base + row : units - 1;\n        int64_t at = 0;\n  "
                   "      %s t = 0;\n",
                   type);
    print_offset(&r->kept, "        ", "r", "at", 1, o);
    mpc_str_printf(o, "        for (int64_t k = part; k < n[0]; k += %d) {\n            int64_t x = at;\n", r->team);
    print_offset(&r->gone, "            ", "k", "x", 1 + 4 * r->kept.count, o);
    mpc_str_printf(o, "            const %s v = ", type);
    if (r->lanes != have && !(have == 'b' && r->lanes == 'i')) mpc_str_printf(o, "mpc_%c_from_%c(", r->lanes, have);
    else mpc_str_append(o, "(");
    mpc_str_printf(o, "mpc_load_%s<1>((const char *)p[0] + x * %u, 1)).v[0];\n", f->name, f->bytes);
    mpc_str_printf(o, "            t = k == part ? v : mpc_%s1_%c(t, v);\n        }\n", op, r->lanes);
}

static void print_team(const reduction *r, const char *op, mpc_str *o) {
    int rows = MPC_GRID_THREADS / r->team;
    if (r->team == 1) return;
    mpc_str_printf(o, "        parts[part * %d + row] = t;\n        mpc_barrier();\n", rows);
    mpc_str_printf(o, "        for (int h = %d; h > 0; h /= 2) {\n", r->team / 2);
    mpc_str_printf(o,
                   "            if (part < h) parts[part * %d + row] = mpc_%s1_%c(parts[part * %d + row], parts[(part "
                   "+ h) * %d + row]);\n",
                   rows, op, r->lanes, rows, rows);
    mpc_str_append(o, "            mpc_barrier();\n        }\n        t = parts[row];\n        mpc_barrier();\n");
}

/* n: 0 terms, then the kept axes, the reduced axes. Units: results. */
void mpc_cuda_reduce(mpc_cg *cg, const mpc_node *n) {
    reduction r = describe(cg, n);
    const char *op = mpc_op_get(cg->g->ctx, n->op)->name;
    const mpc_format_info *t = mpc_format_get(r.to);
    mpc_cg_args args = {.units = r.results, .blocks = mpc_grid_blocks(r.results, MPC_GRID_THREADS / r.team)};
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, 0)));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, 0)));
    mpc_cg_add_int(&args, r.terms);
    add_run(&r.kept, &args);
    add_run(&r.gone, &args);
    print_terms(&r, op, &o);
    print_team(&r, op, &o);
    mpc_str_append(&o, "        if (part != 0 || base + row >= units) continue;\n");
    const char *splat = r.lanes == 'f' ? "mpc_splat" : r.lanes == 'l' ? "mpc_splat_l" : "mpc_splat_i";
    mpc_str_printf(&o, "        mpc_store_%s((char *)p[1] + r * %u, ", t->name, t->bytes);
    if (mpc_cg_rounds(r.to)) mpc_str_printf(&o, "mpc_round_%s(%s<1>(t)), 1);\n    }\n", t->name, splat);
    else mpc_str_printf(&o, "%s<1>(t), 1);\n    }\n", splat);
    uint32_t shared_bytes = r.team > 1 ? MPC_GRID_THREADS * 8 : 0;
    uint32_t kernel = add_kernel(cg, &o, &args, shared_bytes, "elements are read one by one");
    mpc_launch *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
    if (launch != NULL) launch->bytes += (double)mpc_type_bytes(mpc_value_type(cg->g, mpc_operand(cg->g, n, 0)));
}
