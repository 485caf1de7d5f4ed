/* Grids of kernels outside of loops. A grid is as large as the shapes want, up to a limit, and its blocks walk what is
 * left in strides, so results never depend on the GPU. Divisions by an extent are a multiplication: 32-bit division
 * takes some twenty instructions. */
#include "codegen/cuda/grid.h"

uint32_t mpc_grid_blocks(int64_t items, int64_t per_block) {
    int64_t blocks = (items + per_block - 1) / per_block;
    return blocks < 1 ? 1 : blocks > MPC_GRID_BLOCKS ? MPC_GRID_BLOCKS : (uint32_t)blocks;
}

bool mpc_grid_is_narrow(int64_t items) { return items < INT32_MAX - MPC_GRID_BLOCKS * MPC_GRID_THREADS; }

/* floor(q / d) = q * m >> (31 + s) for q < 2^31, where 2^s >= d and m = 2^(31 + s) / d rounded up (Granlund and
 * Montgomery, 1994). */
uint32_t mpc_grid_add_divisor(mpc_cg_args *args, int64_t d) {
    uint32_t s = 0, at = mpc_cg_add_int(args, d);
    bool fits = d > 0 && d <= INT32_MAX;
    while (fits && (int64_t)1 << s < d) s++;
    mpc_cg_add_int(args, fits ? (((int64_t)1 << (31 + s)) + d - 1) / d : 0);
    mpc_cg_add_int(args, 31 + (int64_t)s);
    return at;
}

void mpc_grid_print_digit(mpc_str *o, const char *indent, const char *name, const char *q, uint32_t at, bool narrow) {
    if (narrow)
        mpc_str_printf(o,
                       "%sconst uint32_t %s_ = (uint32_t)(mpc_wide_mul(%s, (uint32_t)n[%u]) >> (int)n[%u]), %s = %s - "
                       "%s_ * (uint32_t)n[%u];\n%s%s = %s_;\n",
                       indent, name, q, at + 1, at + 2, name, q, name, at, indent, q, name);
    else mpc_str_printf(o, "%sconst int64_t %s = %s %% n[%u];\n%s%s /= n[%u];\n", indent, name, q, at, indent, q, at);
}

void mpc_grid_print_items(mpc_str *o, bool narrow) {
    const char *type = narrow ? "uint32_t" : "int64_t";
    mpc_str_printf(o, "    for (%s i = (%s)block * %d + (%s)mpc_thread(); i < (%s)units; i += (%s)blocks * %d) {\n",
                   type, type, MPC_GRID_THREADS, type, type, type, MPC_GRID_THREADS);
}

int64_t mpc_grid_width(int64_t count, int64_t limit) {
    int64_t w = 1;
    while (w * 2 <= limit && count % (w * 2) == 0) w *= 2;
    return w;
}

int64_t mpc_grid_align(int64_t width, mpc_pointer p, uint32_t bytes) { /* buffers start at multiples of 64 */
    while (width > 1 && p.byte_offset % ((uint64_t)width * bytes) != 0) width /= 2;
    return width;
}

static uint32_t add_kernel(mpc_cg *cg, mpc_str *body, mpc_cg_args *args) {
    if (body->failed || args->failed) mpc_cg_no_memory(cg);
    mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(body), args, &shape);
    mpc_str_free(body);
    return kernel;
}

mpc_launch *mpc_grid_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, mpc_str *body, mpc_cg_args *args) {
    return mpc_cg_add_launch(cg, n, result, add_kernel(cg, body, args), args);
}

void mpc_grid_join(mpc_cg *cg, const mpc_node *n, mpc_launch **launch, uint32_t kernel, mpc_cg_args *args) {
    if (*launch != NULL && (*launch)->kernel == kernel) mpc_cg_add_instance(cg, *launch, args);
    else *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, args);
}
