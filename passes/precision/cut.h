/* Minimum s-t cuts. Costs are integers, so a cut is exact and the same everywhere. Private to passes/precision. */
#ifndef MPC_PASSES_CUT_H
#define MPC_PASSES_CUT_H

#include <stdbool.h>
#include <stdint.h>

#define MPC_CUT_INFINITE ((int64_t)1 << 58)

typedef struct mpc_cut mpc_cut;
mpc_cut *mpc_cut_create(void); /* NULL: out of memory */
void mpc_cut_destroy(mpc_cut *cut);
/* Failures to allocate are remembered and reported by mpc_cut_solve. */
uint32_t mpc_cut_node(mpc_cut *cut);
/* Costs of leaving the node on either side, from 0. */
void mpc_cut_side(mpc_cut *cut, uint32_t node, int64_t on_source, int64_t on_sink);
/* Cost when `a` is on the source side and `b` on the sink side. */
void mpc_cut_edge(mpc_cut *cut, uint32_t a, uint32_t b, int64_t cost);
/* The cheapest cut; of several, the one with the fewest nodes on the source side. false: out of memory. */
bool mpc_cut_solve(mpc_cut *cut, int64_t *value);
bool mpc_cut_on_source(const mpc_cut *cut, uint32_t node);

#endif
