/* Samples of softmax, losses, normalisation, attention and the optimizer's ops. The saved operands of gradient ops are
 * made by the forward op, since an implementation may use either form of a redundant quantity. */
#include "ir/eval/sample_util.h"
#include "ir/rules.h"

static bool add_rows(mpc_sample *s, int64_t *axis) {
    *axis = s->variant == 0 ? 2 : s->variant == 1 ? 1 : s->variant == 2 ? 0 : 1;
    if (!mpc_sample_attr(s, MPC_A_INT("axis", *axis))) return false;
    if (s->variant < 3) return mpc_sample_reals(s, -3, 3, MPC_DIMS(3, 5, 7));
    return s->variant == 3 && mpc_sample_reals(s, -3, 3, MPC_DIMS(4, 130));
}

bool mpc_sample_rows(mpc_sample *s) {
    int64_t axis;
    if (s->variant < 4) return add_rows(s, &axis);
    return s->variant == 4 && mpc_sample_fixed(s, -90, 90, MPC_DIMS(6, 20)) && mpc_sample_attr(s, MPC_A_INT("axis", 1));
}

/* Replaces the logits by the forward result and adds dy. */
static bool rows_grad(mpc_sample *s, mpc_op_id forward) {
    int64_t axis;
    mpc_tensor y;
    if (s->variant > 3 || !add_rows(s, &axis) || !mpc_sample_forward(s, forward, 1, &y)) return false;
    s->operand_count = 0;
    return mpc_sample_append(s, &y) && mpc_sample_reals(s, -1, 1, y.type.rank, y.type.dims);
}

bool mpc_sample_softmax_grad(mpc_sample *s) { return rows_grad(s, MPC_OP_softmax); }
bool mpc_sample_log_softmax_grad(mpc_sample *s) { return rows_grad(s, MPC_OP_log_softmax); }

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
    default:
        return false;
    }
}

bool mpc_sample_cross_entropy_grad(mpc_sample *s) {
    mpc_tensor results[2];
    if (s->variant > 3 || !mpc_sample_cross_entropy(s) || !mpc_sample_forward(s, MPC_OP_cross_entropy, 2, results))
        return false;
    return mpc_sample_append(s, &results[1]) && mpc_sample_reals(s, -1, 1, results[1].type.rank, results[1].type.dims);
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

/* x of a few shapes; their channel counts */
static bool add_normed(mpc_sample *s, int64_t *c) {
    static const int64_t channels[] = {7, 40, 5};
    if (s->variant > 2) return false;
    *c = channels[s->variant];
    if (s->variant == 0) return mpc_sample_reals(s, -2, 3, MPC_DIMS(6, 7));
    if (s->variant == 1) return mpc_sample_reals(s, -2, 3, MPC_DIMS(3, 5, 40));
    return mpc_sample_reals(s, -2, 3, MPC_DIMS(2, 4, 3, 5));
}

bool mpc_sample_layer_norm(mpc_sample *s) {
    int64_t c;
    return add_normed(s, &c) && mpc_sample_reals(s, 0.5, 1.5, MPC_DIMS(c)) && mpc_sample_reals(s, -1, 1, MPC_DIMS(c));
}

bool mpc_sample_batch_norm(mpc_sample *s) {
    if (s->variant == 3) /* one row: the variance is 0 */
        return mpc_sample_fixed(s, -2, 3, MPC_DIMS(1, 6)) && mpc_sample_fixed(s, 0.5, 1.5, MPC_DIMS(6)) &&
               mpc_sample_fixed(s, -1, 1, MPC_DIMS(6)) && mpc_sample_fixed(s, -1, 1, MPC_DIMS(6)) &&
               mpc_sample_fixed(s, 0.5, 2, MPC_DIMS(6));
    int64_t c;
    return add_normed(s, &c) && mpc_sample_reals(s, 0.5, 1.5, MPC_DIMS(c)) && mpc_sample_reals(s, -1, 1, MPC_DIMS(c)) &&
           mpc_sample_fixed(s, -1, 1, MPC_DIMS(c)) && mpc_sample_fixed(s, 0.5, 2, MPC_DIMS(c)) &&
           (s->variant == 0 || mpc_sample_attr(s, MPC_A_FLOAT("momentum", 0.3)));
}

bool mpc_sample_batch_norm_eval(mpc_sample *s) {
    return s->variant < 3 && mpc_sample_batch_norm(s) && (s->attr_count = 0, true);
}

/* (x, gamma, mean, rstd, dy) after the forward op has run on its own operands */
static bool norm_grad(mpc_sample *s, mpc_op_id forward) {
    mpc_tensor results[MPC_MAX_RANK];
    if (!mpc_sample_forward(s, forward, s->operand_count, results)) return false;
    s->operand_count = 2;
    s->attr_count = 0;
    return mpc_sample_append(s, &results[1]) && mpc_sample_append(s, &results[2]) &&
           mpc_sample_reals(s, -1, 1, s->operands[0].type.rank, s->operands[0].type.dims);
}

bool mpc_sample_layer_norm_grad(mpc_sample *s) { return mpc_sample_layer_norm(s) && norm_grad(s, MPC_OP_layer_norm); }
bool mpc_sample_batch_norm_grad(mpc_sample *s) {
    return s->variant < 3 && mpc_sample_batch_norm(s) && norm_grad(s, MPC_OP_batch_norm);
}

static bool add_qkv(mpc_sample *s, int64_t t, int64_t keys) {
    return mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, t, 3, 8)) &&
           mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, keys, 3, 8)) &&
           mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, keys, 3, 8)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("scale", 0.35355339059327373));
}

/* 0 plain, 1 causal, 2 key mask, 3 full mask with one row all masked, 4 causal and mask, 5 more keys than queries */
bool mpc_sample_attention(mpc_sample *s) {
    if (s->variant > 5 || !add_qkv(s, 5, s->variant == 5 ? 9 : 5)) return false;
    bool causal = s->variant == 1 || s->variant == 4;
    if (causal && !mpc_sample_attr(s, MPC_A_BOOL("causal", true))) return false;
    if (s->variant == 2 || s->variant == 4) {
        if (!mpc_sample_bools(s, MPC_DIMS(2, 1, 1, 5))) return false;
        s->operands[3].data[0] = s->operands[3].data[5] = 1; /* the first key is there for causal queries */
        return true;
    }
    if (s->variant != 3) return true;
    if (!mpc_sample_bools(s, MPC_DIMS(2, 3, 5, 5))) return false;
    for (int i = 0; i < 5; i++) s->operands[3].data[40 + i] = 0;
    return true;
}

bool mpc_sample_attention_grad(mpc_sample *s) {
    mpc_tensor results[2];
    if (!mpc_sample_attention(s) || !mpc_sample_forward(s, MPC_OP_attention, s->operand_count, results)) return false;
    bool masked = s->operand_count == 4;
    mpc_tensor mask = s->operands[3];
    s->operand_count = 3;
    if (!mpc_sample_append(s, &results[0]) || !mpc_sample_append(s, &results[1]) ||
        !mpc_sample_reals(s, -1, 1, results[0].type.rank, results[0].type.dims))
        return false;
    if (masked) s->operands[s->operand_count++] = mask;
    return true;
}

bool mpc_sample_global_norm(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 40)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(3)) &&
               mpc_sample_reals(s, -2, 2, MPC_SCALAR);
    if (s->variant == 1) return mpc_sample_fixed(s, -1e30, 1e30, MPC_DIMS(70)); /* squares overflow f32 */
    return s->variant == 2 && mpc_sample_specials(s, 1, mpc_sample_special_count);
}

static bool add_tensors(mpc_sample *s, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!mpc_sample_reals(s, -1, 1, MPC_DIMS(5, 35))) return false;
    return true;
}

bool mpc_sample_sgd(mpc_sample *s) {
    if (s->variant > 2 || !add_tensors(s, 3) || !mpc_sample_number(s, MPC_FMT_f32, 0.05)) return false;
    if (s->variant == 0) return true;
    return mpc_sample_attr(s, MPC_A_FLOAT("momentum", 0.9)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("decay", s->variant == 2 ? 0.01 : 0)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("lr", s->variant == 2 ? 0.5 : 1));
}

bool mpc_sample_adamw(mpc_sample *s) {
    static const double steps[] = {1, 2, 1000};
    if (s->variant > 2 || !add_tensors(s, 3) || !mpc_sample_reals(s, 0, 1, MPC_DIMS(5, 35))) return false;
    if (!mpc_sample_number(s, MPC_FMT_f32, 1e-3) || !mpc_sample_number(s, MPC_FMT_i32, steps[s->variant])) return false;
    return s->variant == 0 ||
           (mpc_sample_attr(s, MPC_A_FLOAT("decay", 0.1)) && mpc_sample_attr(s, MPC_A_FLOAT("beta2", 0.95)));
}

/* constant; warmup, at its end, after it; cosine: begin, middle, end, beyond */
bool mpc_sample_schedule(mpc_sample *s) {
    static const double applied[] = {7, 3, 9, 10, 0, 55, 99, 300};
    if (s->variant > 7 || !mpc_sample_number(s, MPC_FMT_i32, applied[s->variant])) return false;
    if (!mpc_sample_attr(s, MPC_A_FLOAT("rate", 0.3))) return false;
    if (s->variant > 0 && !mpc_sample_attr(s, MPC_A_FLOAT("warmup", 10))) return false;
    if (s->variant < 4) return true;
    return mpc_sample_attr(s, MPC_A_STR("kind", "cosine")) && mpc_sample_attr(s, MPC_A_FLOAT("total", 100)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("final", 0.1));
}

/* overflow; clean; clean at the interval; at the maximum; neither */
bool mpc_sample_scaler_update(mpc_sample *s) {
    static const double scale[] = {65536, 65536, 65536, 16777216, 0.5}, steps[] = {17, 17, 1999, 1999, 3};
    if (s->variant > 4) return false;
    return mpc_sample_number(s, MPC_FMT_f32, scale[s->variant]) &&
           mpc_sample_number(s, MPC_FMT_i32, steps[s->variant]) &&
           mpc_sample_number(s, MPC_FMT_bool, s->variant == 0) &&
           mpc_sample_number(s, MPC_FMT_bool, s->variant > 0 && s->variant < 4);
}
