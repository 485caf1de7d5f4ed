/* Shapes of random ops, normalisation, attention and the optimizer's ops. Statistics, gamma, beta, masters and
 * moments are f32 by type (N30, N70): a pass that narrows one of them is refused here. */
#include <string.h>

#include "ir/rules.h"
#include "ir/shape_util.h"
#include "ir/schedule_rate.h"

static bool want_rng(mpc_infer *in, uint32_t i) {
    return mpc_infer_want_scalar(in, i, MPC_FMT_i64) && mpc_infer_want_scalar(in, i + 1, MPC_FMT_i32);
}

bool mpc_shape_random(mpc_infer *in) {
    mpc_int_list shape = mpc_infer_ints(in, "shape");
    return want_rng(in, 0) && mpc_infer_set(in, 0, MPC_FMT_f32, shape.count, shape.data);
}

bool mpc_shape_dropout(mpc_infer *in) {
    double rate = mpc_infer_float(in, "rate");
    if (!(rate >= 0 && rate < 1)) return mpc_infer_fail(in, MPC_NO_OPERAND, "rate must lie in [0, 1), it is %g", rate);
    return mpc_infer_want_float(in, 0) && want_rng(in, 1) &&
           mpc_infer_set_like(in, 0, mpc_infer_operand(in, 0)->format, mpc_infer_operand(in, 0));
}

/* x [..., c] and f32 [c] at operands first..last */
static bool want_channels(mpc_infer *in, uint32_t first, uint32_t last) {
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_min_rank(in, 0, 1)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    for (uint32_t i = first; i <= last; i++)
        if (!mpc_infer_want(in, i, MPC_FMT_f32, 1, x->dims + x->rank - 1)) return false;
    return true;
}

static bool set_channels(mpc_infer *in, uint32_t result) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_set(in, result, MPC_FMT_f32, 1, x->dims + x->rank - 1);
}

static bool set_like_x(mpc_infer *in) {
    return mpc_infer_set_like(in, 0, mpc_infer_operand(in, 0)->format, mpc_infer_operand(in, 0));
}

bool mpc_shape_layer_norm(mpc_infer *in) {
    if (!want_channels(in, 1, 2) || !set_like_x(in)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_set(in, 1, MPC_FMT_f32, x->rank - 1, x->dims) &&
           mpc_infer_set(in, 2, MPC_FMT_f32, x->rank - 1, x->dims);
}

/* (x, gamma, mean [...], rstd [...], dy) */
bool mpc_shape_layer_norm_grad(mpc_infer *in) {
    if (!want_channels(in, 1, 1)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_want(in, 2, MPC_FMT_f32, x->rank - 1, x->dims) &&
           mpc_infer_want(in, 3, MPC_FMT_f32, x->rank - 1, x->dims) && mpc_infer_want_float(in, 4) &&
           mpc_infer_want_like(in, 4, 0) && set_like_x(in) && set_channels(in, 1) && set_channels(in, 2);
}

bool mpc_shape_batch_norm(mpc_infer *in) {
    return want_channels(in, 1, 4) && set_like_x(in) && set_channels(in, 1) && set_channels(in, 2) &&
           set_channels(in, 3) && set_channels(in, 4);
}

bool mpc_shape_batch_norm_grad(mpc_infer *in) {
    return want_channels(in, 1, 3) && mpc_infer_want_float(in, 4) && mpc_infer_want_like(in, 4, 0) && set_like_x(in) &&
           set_channels(in, 1) && set_channels(in, 2);
}

bool mpc_shape_batch_norm_eval(mpc_infer *in) { return want_channels(in, 1, 4) && set_like_x(in); }

/* q [b,t,h,d], k and v [b,s,kv,d] */
static bool want_qkv(mpc_infer *in) {
    for (uint32_t i = 0; i < 3; i++)
        if (!mpc_infer_want_float(in, i) || !mpc_infer_want_rank(in, i, 4)) return false;
    const int64_t *q = mpc_infer_operand(in, 0)->dims, *k = mpc_infer_operand(in, 1)->dims;
    bool shared = k[2] > 0 && q[2] % k[2] == 0;
    int64_t expected[4] = {q[0], k[1], shared ? k[2] : q[2], q[3]}, window = mpc_infer_int(in, "window");
    if (!mpc_infer_want_shape(in, 1, 4, expected) || !mpc_infer_want_like(in, 2, 1)) return false;
    if (window < 0)
        return mpc_infer_fail(in, MPC_NO_OPERAND, "window must be at least 1, or 0 for none; it is %lld",
                              (long long)window);
    if (!mpc_infer_bool(in, "causal") || q[1] == k[1]) return true;
    return mpc_infer_fail(in, 1, "causal attention needs as many keys as queries, there are %lld and %lld",
                          (long long)k[1], (long long)q[1]);
}

static bool want_mask(mpc_infer *in, uint32_t i) {
    if (in->operand_count <= i) return true;
    const int64_t *q = mpc_infer_operand(in, 0)->dims, *k = mpc_infer_operand(in, 1)->dims;
    const mpc_type *mask = mpc_infer_operand(in, i);
    mpc_type scores = {.format = MPC_FMT_bool, .rank = 4, .dims = {q[0], q[2], q[1], k[1]}}, out;
    if (!mpc_infer_want_bool(in, i)) return false;
    if (mpc_broadcast(mask, &scores, &out) && out.rank == 4 && memcmp(out.dims, scores.dims, 4 * sizeof *out.dims) == 0)
        return true;
    return mpc_infer_fail(in, i, "mask %s doesn't broadcast to [batch,heads,queries,keys] %s",
                          mpc_shape_text_of(mask->rank, mask->dims).text, mpc_shape_text_of(4, scores.dims).text);
}

bool mpc_shape_attention(mpc_infer *in) {
    if (!want_qkv(in) || !want_mask(in, 3)) return false;
    const mpc_type *q = mpc_infer_operand(in, 0);
    int64_t lse[3] = {q->dims[0], q->dims[2], q->dims[1]};
    return mpc_infer_set_like(in, 0, mpc_infer_join(in, 3), q) && mpc_infer_set(in, 1, MPC_FMT_f32, 3, lse);
}

/* (q, k, v, y, lse, dy, mask?): each gradient has its value's format */
bool mpc_shape_attention_grad(mpc_infer *in) {
    if (!want_qkv(in) || !want_mask(in, 6)) return false;
    const mpc_type *q = mpc_infer_operand(in, 0);
    int64_t lse[3] = {q->dims[0], q->dims[2], q->dims[1]};
    if (!mpc_infer_want_float(in, 3) || !mpc_infer_want_like(in, 3, 0) || !mpc_infer_want(in, 4, MPC_FMT_f32, 3, lse) ||
        !mpc_infer_want_float(in, 5) || !mpc_infer_want_like(in, 5, 0))
        return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!mpc_infer_set_like(in, i, mpc_infer_operand(in, i)->format, mpc_infer_operand(in, i))) return false;
    return true;
}

bool mpc_shape_global_norm(mpc_infer *in) {
    for (uint32_t i = 0; i < in->operand_count; i++)
        if (!mpc_infer_want_float(in, i)) return false;
    return mpc_infer_set_scalar(in, 0, MPC_FMT_f32);
}

/* Operands 0..count-1 are f32 and shaped as the parameter. */
static bool want_update(mpc_infer *in, uint32_t count) {
    const mpc_type *w = mpc_infer_operand(in, 0);
    for (uint32_t i = 0; i < count; i++)
        if (!mpc_infer_want(in, i, MPC_FMT_f32, w->rank, w->dims)) return false;
    return mpc_infer_want_scalar(in, count, MPC_FMT_f32);
}

/* (w, g, m, rate) */
bool mpc_shape_sgd(mpc_infer *in) {
    const mpc_type *w = mpc_infer_operand(in, 0);
    return want_update(in, 3) && mpc_infer_set_like(in, 0, MPC_FMT_f32, w) && mpc_infer_set_like(in, 1, MPC_FMT_f32, w);
}

/* (w, g, m, v, rate, t) */
bool mpc_shape_adamw(mpc_infer *in) {
    const mpc_type *w = mpc_infer_operand(in, 0);
    return want_update(in, 4) && mpc_infer_want_scalar(in, 5, MPC_FMT_i32) &&
           mpc_infer_set_like(in, 0, MPC_FMT_f32, w) && mpc_infer_set_like(in, 1, MPC_FMT_f32, w) &&
           mpc_infer_set_like(in, 2, MPC_FMT_f32, w);
}

/* (x, u): two f32 tensors of one shape */
static bool stochastic(mpc_infer *in, mpc_format format) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_want(in, 0, MPC_FMT_f32, x->rank, x->dims) && mpc_infer_want(in, 1, MPC_FMT_f32, x->rank, x->dims) &&
           mpc_infer_set_like(in, 0, format, x);
}

bool mpc_shape_stochastic_bf16(mpc_infer *in) { return stochastic(in, MPC_FMT_bf16); }

bool mpc_shape_stochastic_f16(mpc_infer *in) { return stochastic(in, MPC_FMT_f16); }

bool mpc_shape_schedule(mpc_infer *in) {
    const char *kind = mpc_infer_str(in, "kind");
    if (!mpc_schedule_is_known(kind))
        return mpc_infer_fail(in, MPC_NO_OPERAND, "kind must be constant, cosine, linear or step, it is %s", kind);
    return mpc_infer_want_scalar(in, 0, MPC_FMT_i32) && mpc_infer_set_scalar(in, 0, MPC_FMT_f32);
}

bool mpc_shape_scaler_update(mpc_infer *in) {
    return mpc_infer_want_scalar(in, 0, MPC_FMT_f32) && mpc_infer_want_scalar(in, 1, MPC_FMT_i32) &&
           mpc_infer_want_scalar(in, 2, MPC_FMT_bool) && mpc_infer_want_scalar(in, 3, MPC_FMT_bool) &&
           mpc_infer_set_scalar(in, 0, MPC_FMT_f32) && mpc_infer_set_scalar(in, 1, MPC_FMT_i32);
}
