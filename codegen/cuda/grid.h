/* What kernels outside of loops share: how many blocks walk how much work, division by arguments, packs that fit a
 * layout. */
#ifndef MPC_CODEGEN_CUDA_GRID_H
#define MPC_CODEGEN_CUDA_GRID_H

#include "codegen/cg.h"

enum { MPC_GRID_THREADS = 256, MPC_GRID_BLOCKS = 2048 };

/* Blocks for `items` pieces of work when a block takes `per_block` at a time and comes again for more. Depends on
 * shapes only. */
uint32_t mpc_grid_blocks(int64_t items, int64_t per_block);
/* Adds what mpc_grid_print_digit needs for the divisor d (3 ints: d, and a factor and shift that divide numbers below
 * 2^31). */
uint32_t mpc_grid_add_divisor(mpc_cg_args *args, int64_t d);
/* "NAME = Q % d; Q /= d" for the divisor at n[at]; `narrow`: Q is a uint32_t below 2^31. */
void mpc_grid_print_digit(mpc_str *o, const char *indent, const char *name, const char *q, uint32_t at, bool narrow);
/* The opening line of a loop over the items below `units`, whose number is `i`; needs threads = MPC_GRID_THREADS. */
void mpc_grid_print_items(mpc_str *o, bool narrow);
bool mpc_grid_is_narrow(int64_t items);
/* Widest power of two up to `limit` that divides `count`. */
int64_t mpc_grid_width(int64_t count, int64_t limit);
/* The part of `width` for which packs of elements of `bytes` bytes from `p` on are aligned. */
int64_t mpc_grid_align(int64_t width, mpc_pointer p, uint32_t bytes);
/* The kernel with this body and its launch for `result`; frees `body` and `args`. NULL after an error. */
mpc_launch *mpc_grid_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, mpc_str *body, mpc_cg_args *args);
/* The same in a launch that may be there already: one more instance of it when the kernel is the same. */
void mpc_grid_join(mpc_cg *cg, const mpc_node *n, mpc_launch **launch, uint32_t kernel, mpc_cg_args *args);

#endif
