/* The kernel that puts the parts of a reduction over rows together: [units, cols] to [cols]. A block takes a few
 * columns and adds the units in interleaved runs, then the runs in one tree; both depend on shapes only. Neighbouring
 * threads read neighbouring columns, so a single column is the case to look at: there all threads are runs. */
#include "base/alloc.h"
#include "codegen/cg.h"

enum { THREADS = 256, MOST_COLUMNS = 32 };

static void print_fold(const mpc_cg_fold *f, mpc_format format, unsigned columns, mpc_str *o) {
    const char *type = f->lanes == 'f' ? "float" : f->lanes == 'l' ? "int64_t" : "int32_t";
    const char *name = mpc_format_get(format)->name;
    bool rounds = mpc_cg_rounds(format);
    unsigned runs = THREADS / columns;
    mpc_str_printf(o,
                   "    const int units_ = (int)n[0];\n    const int64_t cols = n[1], c = (int64_t)block * %u + "
                   "mpc_thread() %% %u;\n"
                   "    const int run = mpc_thread() / %u;\n    %s *const s = (%s *)mpc_shared();\n",
                   columns, columns, columns, type, type);
    mpc_str_printf(o, "    const %s *const x = (const %s *)p[0];\n    %s t = 0;\n", type, type, type);
    mpc_str_printf(
        o,
        "    if (c < cols && run < units_) {\n        t = x[(int64_t)run * cols + c];\n        for (int u = run + "
        "%u; u < units_; u += %u) t = mpc_%s1_%c(t, x[(int64_t)u * cols + c]);\n    }\n",
        runs, runs, f->op, f->lanes);
    mpc_str_append(o, "    s[mpc_thread()] = t;\n");
    mpc_str_printf(o, "    for (int h = %u; h > 0; h /= 2) {\n        mpc_barrier();\n", runs / 2);
    mpc_str_printf(o,
                   "        if (run < h && run + h < units_) s[mpc_thread()] = mpc_%s1_%c(s[mpc_thread()], "
                   "s[mpc_thread() + h * %u]);\n"
                   "    }\n",
                   f->op, f->lanes, columns);
    mpc_str_printf(o,
                   "    if (run == 0 && c < cols) mpc_store_%s<1>((char *)p[1] + c * %u, %s%s%smpc_all<%s, "
                   "1>(s[mpc_thread()])%s, 1);\n",
                   name, (unsigned)mpc_format_get(format)->bytes, rounds ? "mpc_round_" : "", rounds ? name : "",
                   rounds ? "(" : "", type, rounds ? ")" : "");
}

uint32_t mpc_cuda_fold_kernel(mpc_cg *cg, const mpc_cg_fold *f, mpc_cg_args *args) {
    mpc_str body = {0};
    unsigned columns = 1;
    while (columns < f->cols && columns < MOST_COLUMNS) columns *= 2;
    mpc_cg_add_pointer(args, f->partial);
    mpc_cg_add_pointer(args, mpc_cg_pointer(cg, f->result));
    mpc_cg_add_int(args, f->units);
    mpc_cg_add_int(args, f->cols);
    args->units = 1;
    args->blocks = (uint32_t)((f->cols + columns - 1) / columns);
    print_fold(f, mpc_value_format(cg->g, f->result), columns, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    const mpc_cg_cuda_shape shape = {.threads = THREADS, .shared_bytes = THREADS * 8};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), args, &shape);
    mpc_str_free(&body);
    return kernel;
}
