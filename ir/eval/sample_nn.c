/* Samples of softmax, normalisation, attention and the optimizer's ops. The saved operands of gradient ops are
 * made by the forward op, since an implementation may use either form of a redundant quantity. */
#include <string.h>

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

typedef struct attention_case {
    int64_t t, s, heads, kv_heads, window;
    bool causal;
} attention_case;

/* 0 plain, 1 causal, 2 key mask, 3 full mask with one row all masked, 4 causal and mask, 5 more keys than queries,
 * 6 shared heads, 7 one head for all in a causal window, 8 a window that ends before the last queries: they see none */
static const attention_case attention_cases[] = {
    {5, 5, 3, 3, 0, false}, {5, 5, 3, 3, 0, true}, {5, 5, 3, 3, 0, false},
    {5, 5, 3, 3, 0, false}, {5, 5, 3, 3, 0, true}, {5, 9, 3, 3, 0, false},
    {5, 9, 4, 2, 0, false}, {7, 7, 3, 1, 3, true}, {9, 5, 4, 2, 2, false},
};

static bool add_qkv(mpc_sample *s, const attention_case *c) {
    return mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, c->t, c->heads, 8)) &&
           mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, c->s, c->kv_heads, 8)) &&
           mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(2, c->s, c->kv_heads, 8)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("scale", 0.35355339059327373)) &&
           (!c->causal || mpc_sample_attr(s, MPC_A_BOOL("causal", true))) &&
           (c->window == 0 || mpc_sample_attr(s, MPC_A_INT("window", c->window)));
}

bool mpc_sample_attention(mpc_sample *s) {
    if (s->variant >= sizeof attention_cases / sizeof *attention_cases || !add_qkv(s, &attention_cases[s->variant]))
        return false;
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
    if (s->variant > 3 || !add_tensors(s, 3) || !mpc_sample_number(s, MPC_FMT_f32, 0.05)) return false;
    if (s->variant == 0) return true;
    if (s->variant == 3 && !mpc_sample_attr(s, MPC_A_BOOL("nesterov", true))) return false;
    return mpc_sample_attr(s, MPC_A_FLOAT("momentum", 0.9)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("decay", s->variant == 2 ? 0.01 : 0)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("lr", s->variant == 2 ? 0.5 : 1));
}

bool mpc_sample_adamw(mpc_sample *s) {
    static const double steps[] = {1, 2, 1000, 3};
    if (s->variant > 3 || !add_tensors(s, 3) || !mpc_sample_reals(s, 0, 1, MPC_DIMS(5, 35))) return false;
    if (!mpc_sample_number(s, MPC_FMT_f32, 1e-3) || !mpc_sample_number(s, MPC_FMT_i32, steps[s->variant])) return false;
    if (s->variant == 3 && !mpc_sample_attr(s, MPC_A_BOOL("coupled", true))) return false;
    return s->variant == 0 ||
           (mpc_sample_attr(s, MPC_A_FLOAT("decay", 0.1)) && mpc_sample_attr(s, MPC_A_FLOAT("beta2", 0.95)));
}

/* Moments and gradients of one sign: where their mean is near 0, its sign is a matter of rounding. */
bool mpc_sample_lion(mpc_sample *s) {
    if (s->variant > 1) return false;
    double low = s->variant == 0 ? 0.1 : -1, high = s->variant == 0 ? 1 : -0.1;
    if (!add_tensors(s, 1) || !mpc_sample_reals(s, low, high, MPC_DIMS(5, 35)) ||
        !mpc_sample_reals(s, low, high, MPC_DIMS(5, 35)) || !mpc_sample_number(s, MPC_FMT_f32, 1e-3))
        return false;
    return s->variant == 0 ||
           (mpc_sample_attr(s, MPC_A_FLOAT("decay", 0.1)) && mpc_sample_attr(s, MPC_A_FLOAT("lr", 10)));
}

/* Normal numbers, infinities and NaN, f16's subnormals, the edge of f16's range. */
bool mpc_sample_stochastic(mpc_sample *s) {
    static const double bounds[] = {2, 0, 1e-6, 66000};
    if (s->variant > 3) return false;
    bool ok = s->variant == 1 ? mpc_sample_specials(s, 1, mpc_sample_special_count)
                              : mpc_sample_fixed(s, -bounds[s->variant], bounds[s->variant], MPC_DIMS(300));
    if (!ok) return false;
    const mpc_type *x = &s->operands[0].type;
    return mpc_sample_fixed(s, 0, 1 - 0x1p-24, x->rank, x->dims);
}

/* constant; warmup, at its end, after it; cosine and linear: begin, middle, end, beyond; step: in the first, second and
 * a late period */
bool mpc_sample_schedule(mpc_sample *s) {
    static const struct {
        const char *kind;
        double applied;
    } cases[] = {{"constant", 7}, {"constant", 3}, {"constant", 9}, {"constant", 10}, {"cosine", 0},
                 {"cosine", 55},  {"cosine", 99},  {"cosine", 300}, {"linear", 0},    {"linear", 55},
                 {"linear", 99},  {"linear", 300}, {"step", 5},     {"step", 29},     {"step", 30},
                 {"step", 3000}};
    if (s->variant >= sizeof cases / sizeof *cases || !mpc_sample_number(s, MPC_FMT_i32, cases[s->variant].applied) ||
        !mpc_sample_attr(s, MPC_A_STR("kind", cases[s->variant].kind)) || !mpc_sample_attr(s, MPC_A_FLOAT("rate", 0.3)))
        return false;
    if (s->variant > 0 && !mpc_sample_attr(s, MPC_A_FLOAT("warmup", 10))) return false;
    if (strcmp(cases[s->variant].kind, "constant") == 0) return true;
    if (strcmp(cases[s->variant].kind, "step") == 0)
        return mpc_sample_attr(s, MPC_A_FLOAT("every", 30)) && mpc_sample_attr(s, MPC_A_FLOAT("factor", 0.97));
    return mpc_sample_attr(s, MPC_A_FLOAT("total", 100)) && mpc_sample_attr(s, MPC_A_FLOAT("final", 0.1));
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
