/* Samples of losses and metrics. The saved log-sum-exp of a gradient op is made by the forward op. */
#include <math.h>

#include "ir/eval/sample_util.h"
#include "ir/rules.h"

bool mpc_sample_cross_entropy(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_reals(s, -3, 3, MPC_DIMS(6, 10)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 10, MPC_DIMS(6));
    case 1:
        return mpc_sample_reals(s, -3, 3, MPC_DIMS(2, 3, 67)) &&
               mpc_sample_integers(s, MPC_FMT_i32, 0, 67, MPC_DIMS(2, 3));
    case 2:
        return mpc_sample_fixed(s, -90, 90, MPC_DIMS(5, 7)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 7, MPC_DIMS(5));
    case 3:
        return mpc_sample_fixed(s, -3, 3, MPC_DIMS(20, 4)) && mpc_sample_integers(s, MPC_FMT_i32, -2, 6, MPC_DIMS(20));
    case 4:
        return mpc_sample_reals(s, -3, 3, MPC_DIMS(6, 10)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 10, MPC_DIMS(6)) &&
               mpc_sample_attr(s, MPC_A_FLOAT("smooth", 0.1));
    case 5:
        return mpc_sample_reals(s, -3, 3, MPC_DIMS(3, 70)) &&
               mpc_sample_integers(s, MPC_FMT_i32, -1, 70, MPC_DIMS(3)) && mpc_sample_attr(s, MPC_A_FLOAT("smooth", 1));
    default:
        return false;
    }
}

static bool with_lse(mpc_sample *s, mpc_op_id forward) {
    mpc_tensor results[2];
    if (!mpc_sample_forward(s, forward, 2, results)) return false;
    return mpc_sample_append(s, &results[1]) && mpc_sample_reals(s, -1, 1, results[1].type.rank, results[1].type.dims);
}

bool mpc_sample_cross_entropy_grad(mpc_sample *s) {
    return mpc_sample_cross_entropy(s) && with_lse(s, MPC_OP_cross_entropy);
}

/* 0 plain, 1 smoothed, 2 classes without weight, one of them at -inf, 3 large logits, 4 smoothed to the uniform one */
bool mpc_sample_soft_cross_entropy(mpc_sample *s) {
    if (s->variant == 2 || s->variant == 3) {
        double size = s->variant == 2 ? 3 : 40;
        if (!mpc_sample_fixed(s, -size, size, MPC_DIMS(9, 5)) ||
            !mpc_sample_integers(s, MPC_FMT_f32, 0, 3, MPC_DIMS(9, 5)))
            return false;
        if (s->variant == 2) s->operands[0].data[7] = -(double)INFINITY, s->operands[1].data[7] = 0;
        return true;
    }
    if (s->variant > 4 || !mpc_sample_reals(s, -3, 3, MPC_DIMS(2, 3, 37)) ||
        !mpc_sample_reals(s, 0.05, 1, MPC_DIMS(2, 3, 37)))
        return false;
    return s->variant == 0 || mpc_sample_attr(s, MPC_A_FLOAT("smooth", s->variant == 1 ? 0.2 : 1));
}

bool mpc_sample_soft_cross_entropy_grad(mpc_sample *s) {
    return mpc_sample_soft_cross_entropy(s) && with_lse(s, MPC_OP_soft_cross_entropy);
}

bool mpc_sample_huber(mpc_sample *s) {
    return mpc_sample_pair_same(s) && (s->variant == 0 || mpc_sample_attr(s, MPC_A_FLOAT("delta", 0.3)));
}

/* 3: targets of 0 and 1, large logits; 4: the same with infinite ones */
bool mpc_sample_bce_with_logits(mpc_sample *s) {
    if (s->variant < 3) return mpc_sample_pair_same(s);
    if (s->variant > 4 || !mpc_sample_fixed(s, -90, 90, MPC_DIMS(3, 33)) ||
        !mpc_sample_integers(s, MPC_FMT_f32, 0, 2, MPC_DIMS(3, 33)))
        return false;
    for (int64_t i = 0; s->variant == 4 && i < 33; i++)
        s->operands[0].data[i] = i % 2 == 0 ? (double)INFINITY : -(double)INFINITY;
    return true;
}

/* 2: some targets are 0, and some log-probabilities -inf */
bool mpc_sample_kl(mpc_sample *s) {
    if (s->variant < 2)
        return mpc_sample_reals(s, -5, 0, MPC_DIMS(4, 33)) &&
               mpc_sample_reals(s, s->variant == 0 ? 0.05 : 1, 2, MPC_DIMS(4, 33));
    if (s->variant > 2 || !mpc_sample_fixed(s, -5, 0, MPC_DIMS(5, 9)) ||
        !mpc_sample_integers(s, MPC_FMT_f32, 0, 3, MPC_DIMS(5, 9)))
        return false;
    for (int64_t i = 0; i < 9; i++) s->operands[0].data[i] = -(double)INFINITY;
    return true;
}

bool mpc_sample_top_k_accuracy(mpc_sample *s) {
    static const int64_t best[] = {1, 3, 2, 10};
    if (s->variant > 3 || !mpc_sample_attr(s, MPC_A_INT("k", best[s->variant]))) return false;
    if (s->variant < 2)
        return mpc_sample_fixed(s, -1, 1, MPC_DIMS(30, 6)) && mpc_sample_integers(s, MPC_FMT_i32, -1, 7, MPC_DIMS(30));
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(3, 10, 10)); /* ties, and some NaN */
    for (int64_t i = 0; t != NULL && i < 300; i++)
        t->data[i] = i % 23 == 5 ? (double)NAN : (double)mpc_sample_int(s, 0, 4);
    return t != NULL && mpc_sample_integers(s, MPC_FMT_i32, 0, 10, MPC_DIMS(3, 10));
}

bool mpc_sample_accuracy(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_fixed(s, -1, 1, MPC_DIMS(30, 4)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 4, MPC_DIMS(30));
    mpc_tensor *t = s->variant == 1 ? mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(3, 10, 4)) : NULL; /* ties */
    for (int64_t i = 0; t != NULL && i < 120; i++) t->data[i] = (double)mpc_sample_int(s, 0, 3);
    return t != NULL && mpc_sample_integers(s, MPC_FMT_i32, 0, 4, MPC_DIMS(3, 10));
}

bool mpc_sample_loss_mean(mpc_sample *s) {
    if (s->variant > 3 || !mpc_sample_reals(s, -2, 2, MPC_DIMS(9, 13))) return false;
    if (s->variant == 0) return true;
    if (s->variant == 1) return mpc_sample_bools(s, MPC_DIMS(9, 13));
    return mpc_sample_integers(s, MPC_FMT_bool, s->variant == 2 ? 0 : 1, s->variant == 2 ? 1 : 2,
                               MPC_DIMS(9, 13)); /* none, all */
}

bool mpc_sample_loss_mean_grad(mpc_sample *s) {
    static const double counts[] = {117, 60, 0};
    if (s->variant > 2 || !mpc_sample_reals(s, 0.5, 2, MPC_SCALAR)) return false;
    if (!mpc_sample_number(s, MPC_FMT_f32, counts[s->variant]) || !mpc_sample_attr_ints(s, "shape", MPC_DIMS(9, 13)))
        return false;
    return s->variant == 0 || mpc_sample_integers(s, MPC_FMT_bool, 0, s->variant == 1 ? 2 : 1, MPC_DIMS(9, 13));
}
