/* The kernel that puts the parts of a reduction over rows together: [units, cols] to [cols]. A block takes a few
 * columns and adds the units in interleaved runs, then the runs in one tree; both depend on shapes only. Neighbouring
 * threads read neighbouring columns, so a single column is the case to look at: there all threads are runs. */
#include "base/alloc.h"
#include "codegen/cg.h"

enum { THREADS = 256, MOST_PACKS = 8 };

/* Columns a thread adds side by side: 16 bytes. */
static unsigned width_of(const mpc_cg_fold *f) {
    unsigned width = f->lanes == 'l' ? 2 : 4;
    return f->cols % width == 0 ? width : 1;
}

static void print_fold(const mpc_cg_fold *f, mpc_format format, unsigned packs, mpc_str *o) {
    const char *lane = f->lanes == 'f' ? "f32" : f->lanes == 'l' ? "i64" : "i32";
    const char *name = mpc_format_get(format)->name;
    unsigned width = width_of(f), bytes = f->lanes == 'l' ? 8 : 4, runs = THREADS / packs, own = width * bytes;
    char pack = f->lanes == 'f' ? 'f' : f->lanes == 'l' ? 'l' : 'i';
    bool rounds = mpc_cg_rounds(format);
    mpc_str_printf(o,
                   "    const int units_ = (int)n[0], run = mpc_thread() / %u;\n    const int64_t cols = n[1], c = "
                   "((int64_t)block * %u + "
                   "mpc_thread() %% %u) * %u;\n",
                   packs, packs, packs, width);
    mpc_str_printf(o,
                   "    const char *const x = (const char *)p[0] + c * %u;\n    char *const s = mpc_shared() + "
                   "mpc_thread() * %u;\n"
                   "    mpc_%c<%u> t = mpc_all<%s, %u>(0);\n",
                   bytes, own, pack, width,
                   f->lanes == 'f'   ? "float"
                   : f->lanes == 'l' ? "int64_t"
                                     : "int32_t",
                   width);
    mpc_str_printf(
        o,
        "    if (c < cols && run < units_) {\n        t = mpc_load_%s<%u, true>(x + run * cols * %u, %u);\n        for "
        "(int u = run "
        "+ %u; u < units_; u += %u) t = mpc_%s_%c(t, mpc_load_%s<%u, true>(x + u * cols * %u, %u));\n    }\n",
        lane, width, bytes, width, runs, runs, f->op, f->lanes, lane, width, bytes, width);
    mpc_str_printf(
        o, "    mpc_store_%s<%u, true>(s, t, %u);\n    for (int h = %u; h > 0; h /= 2) {\n        mpc_barrier();\n",
        lane, width, width, runs / 2);
    mpc_str_printf(o,
                   "        if (run >= h || run + h >= units_) continue;\n        t = mpc_%s_%c(t, mpc_load_%s<%u, "
                   "true>(s + h * %u, "
                   "%u));\n        mpc_store_%s<%u, true>(s, t, %u);\n    }\n",
                   f->op, f->lanes, lane, width, packs * own, width, lane, width, width);
    mpc_str_printf(o, "    if (run == 0 && c < cols) mpc_store_%s<%u>((char *)p[1] + c * %u, %s%s%st%s, %u);\n", name,
                   width, (unsigned)mpc_format_get(format)->bytes, rounds ? "mpc_round_" : "", rounds ? name : "",
                   rounds ? "(" : "", rounds ? ")" : "", width);
}

uint32_t mpc_cuda_fold_kernel(mpc_cg *cg, const mpc_cg_fold *f, mpc_cg_args *args) {
    mpc_str body = {0};
    unsigned width = width_of(f), packs = 1;
    while (packs * width < f->cols && packs < MOST_PACKS) packs *= 2;
    mpc_cg_add_pointer(args, f->partial);
    mpc_cg_add_pointer(args, mpc_cg_pointer(cg, f->result));
    mpc_cg_add_int(args, f->units);
    mpc_cg_add_int(args, f->cols);
    args->units = 1;
    args->blocks = (uint32_t)((f->cols + packs * width - 1) / (packs * width));
    print_fold(f, mpc_value_format(cg->g, f->result), packs, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    const mpc_cg_cuda_shape shape = {.threads = THREADS,
                                     .shared_bytes = THREADS * 16,
                                     .note = width == 1 ? "rows of parts are no multiple of a 16-byte access" : NULL};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), args, &shape);
    mpc_str_free(&body);
    return kernel;
}
