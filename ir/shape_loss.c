/* Shapes of losses and metrics. Losses are f32 whatever their operands are (N12), and operands never broadcast: a loss
 * compares value by value. Gradients have the format of what they belong to. */
#include "ir/rules.h"
#include "ir/shape_util.h"

static bool want_classes(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return x->dims[x->rank - 1] > 0 || mpc_infer_fail(in, 0, "there are no classes");
}

static bool want_smooth(mpc_infer *in) {
    double smooth = mpc_infer_float(in, "smooth");
    return (smooth >= 0 && smooth <= 1) ||
           mpc_infer_fail(in, MPC_NO_OPERAND, "smooth must lie between 0 and 1, it is %g", smooth);
}

/* logits [..., k], labels [...] */
static bool want_logits(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_want_float(in, 0) && mpc_infer_want_min_rank(in, 0, 1) && mpc_infer_want_int(in, 1) &&
           want_classes(in) && mpc_infer_want_shape(in, 1, x->rank - 1, x->dims);
}

/* (logits, labels or target, lse, dloss); lse f32, dloss any float */
static bool set_logits_gradient(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return want_smooth(in) && mpc_infer_want(in, 2, MPC_FMT_f32, x->rank - 1, x->dims) && mpc_infer_want_float(in, 3) &&
           mpc_infer_want_shape(in, 3, x->rank - 1, x->dims) && mpc_infer_set_like(in, 0, x->format, x);
}

bool mpc_shape_cross_entropy(mpc_infer *in) {
    if (!want_logits(in) || !want_smooth(in)) return false;
    const mpc_type *labels = mpc_infer_operand(in, 1);
    return mpc_infer_set_like(in, 0, MPC_FMT_f32, labels) && mpc_infer_set_like(in, 1, MPC_FMT_f32, labels);
}

bool mpc_shape_cross_entropy_grad(mpc_infer *in) { return want_logits(in) && set_logits_gradient(in); }

bool mpc_shape_accuracy(mpc_infer *in) {
    return want_logits(in) && mpc_infer_set_like(in, 0, MPC_FMT_f32, mpc_infer_operand(in, 1));
}

/* mse: f32 whatever the operands are */
bool mpc_shape_equal_shapes(mpc_infer *in) {
    return mpc_infer_want_float(in, 0) && mpc_infer_want_float(in, 1) && mpc_infer_want_like(in, 1, 0) &&
           mpc_infer_set_like(in, 0, MPC_FMT_f32, mpc_infer_operand(in, 0));
}

bool mpc_shape_loss_mean(mpc_infer *in) {
    if (!mpc_infer_want_float(in, 0)) return false;
    if (in->operand_count == 2 && !(mpc_infer_want_bool(in, 1) && mpc_infer_want_like(in, 1, 0))) return false;
    return mpc_infer_set_scalar(in, 0, MPC_FMT_f32) && mpc_infer_set_scalar(in, 1, MPC_FMT_f32);
}

bool mpc_shape_loss_mean_grad(mpc_infer *in) {
    mpc_int_list shape = mpc_infer_ints(in, "shape");
    if (!mpc_infer_want_scalar(in, 0, MPC_FMT_f32) || !mpc_infer_want_scalar(in, 1, MPC_FMT_f32)) return false;
    if (in->operand_count == 3 && !(mpc_infer_want_bool(in, 2) && mpc_infer_want_shape(in, 2, shape.count, shape.data)))
        return false;
    return mpc_infer_set(in, 0, MPC_FMT_f32, shape.count, shape.data);
}

/* logits [..., k], target [..., k]: a weight for each class */
static bool want_soft(mpc_infer *in) {
    return mpc_infer_want_float(in, 0) && mpc_infer_want_min_rank(in, 0, 1) && mpc_infer_want_float(in, 1) &&
           mpc_infer_want_like(in, 1, 0) && want_classes(in);
}

bool mpc_shape_soft_cross_entropy(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return want_soft(in) && want_smooth(in) && mpc_infer_set(in, 0, MPC_FMT_f32, x->rank - 1, x->dims) &&
           mpc_infer_set(in, 1, MPC_FMT_f32, x->rank - 1, x->dims);
}

bool mpc_shape_soft_cross_entropy_grad(mpc_infer *in) { return want_soft(in) && set_logits_gradient(in); }

bool mpc_shape_top_k_accuracy(mpc_infer *in) {
    int64_t k = mpc_infer_int(in, "k");
    if (!want_logits(in)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    if (k < 1 || k > x->dims[x->rank - 1])
        return mpc_infer_fail(in, MPC_NO_OPERAND, "k must lie between 1 and the %lld classes, it is %lld",
                              (long long)x->dims[x->rank - 1], (long long)k);
    return mpc_infer_set_like(in, 0, MPC_FMT_f32, mpc_infer_operand(in, 1));
}

bool mpc_shape_huber(mpc_infer *in) {
    double delta = mpc_infer_float(in, "delta");
    if (!(delta > 0)) return mpc_infer_fail(in, MPC_NO_OPERAND, "delta must be positive, it is %g", delta);
    return mpc_shape_equal_shapes(in);
}
