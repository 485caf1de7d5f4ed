/* Contributions to the gradient of one value, and how they are put together. A contribution may cover only a part of
 * the value (the gradient of a slice): parts that tile the value are joined, others are padded with zeros and added. */
#ifndef MPC_PASSES_GRAD_PARTS_H
#define MPC_PASSES_GRAD_PARTS_H

#include "passes/rewrite.h"

typedef struct mpc_contribution {
    mpc_value_id gradient;
    bool is_part;
    int64_t start[MPC_MAX_RANK]; /* of a part: where it begins in the value */
    mpc_value_id via;            /* of a part: result of the forward node it came through */
    struct mpc_contribution *next;
} mpc_contribution;

/* The gradient of `value` from `count` contributions in the order of arrival: one, or a sum of several. *selected:
 * zeros were padded in. */
mpc_value_id mpc_grad_gather_contributions(mpc_rewrite *rw, mpc_value_id value, mpc_contribution *first,
                                           mpc_format prec, bool *selected);

#endif
