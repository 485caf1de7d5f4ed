/* Samples of rms norm and group norm. The saved statistics of the gradient ops are made by the forward op. */
#include "ir/eval/sample_util.h"
#include "ir/rules.h"

static bool add_scale(mpc_sample *s, int64_t c) { return mpc_sample_reals(s, 0.5, 1.5, MPC_DIMS(c)); }

bool mpc_sample_rms_norm(mpc_sample *s) {
    if (s->variant == 0) return mpc_sample_reals(s, -2, 3, MPC_DIMS(6, 7)) && add_scale(s, 7);
    if (s->variant == 1) return mpc_sample_reals(s, -2, 3, MPC_DIMS(3, 5, 40)) && add_scale(s, 40);
    return s->variant == 2 && mpc_sample_reals(s, -2, 3, MPC_DIMS(9)) && add_scale(s, 9) &&
           mpc_sample_attr(s, MPC_A_FLOAT("eps", 1e-3));
}

/* (x, gamma, rstd, dy) */
bool mpc_sample_rms_norm_grad(mpc_sample *s) {
    mpc_tensor results[2];
    if (!mpc_sample_rms_norm(s) || !mpc_sample_forward(s, MPC_OP_rms_norm, 2, results)) return false;
    s->attr_count = 0;
    return mpc_sample_append(s, &results[1]) &&
           mpc_sample_reals(s, -1, 1, s->operands[0].type.rank, s->operands[0].type.dims);
}

/* Several channels in a group, one group for all, one channel in each (instance norm), no positions. */
static bool add_grouped(mpc_sample *s) {
    static const int64_t groups[] = {2, 1, 5, 3};
    if (s->variant > 3 || !mpc_sample_attr(s, MPC_A_INT("groups", groups[s->variant]))) return false;
    if (s->variant == 0) return mpc_sample_reals(s, -2, 3, MPC_DIMS(3, 4, 5, 8)) && add_scale(s, 8);
    if (s->variant == 1) return mpc_sample_reals(s, -2, 3, MPC_DIMS(2, 7, 6)) && add_scale(s, 6);
    if (s->variant == 2) return mpc_sample_reals(s, -2, 3, MPC_DIMS(2, 3, 6, 5)) && add_scale(s, 5);
    return mpc_sample_reals(s, -2, 3, MPC_DIMS(4, 12)) && add_scale(s, 12);
}

bool mpc_sample_group_norm(mpc_sample *s) {
    return add_grouped(s) && mpc_sample_reals(s, -1, 1, s->operands[1].type.rank, s->operands[1].type.dims);
}

/* (x, gamma, mean, rstd, dy) */
bool mpc_sample_group_norm_grad(mpc_sample *s) {
    mpc_tensor results[3];
    if (!mpc_sample_group_norm(s) || !mpc_sample_forward(s, MPC_OP_group_norm, 3, results)) return false;
    s->operand_count = 2;
    return mpc_sample_append(s, &results[1]) && mpc_sample_append(s, &results[2]) &&
           mpc_sample_reals(s, -1, 1, s->operands[0].type.rank, s->operands[0].type.dims);
}
