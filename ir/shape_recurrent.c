/* Shapes of the recurrent layers, which take all steps at once: x [b,t,c], states [b,h]. What is carried from step to
 * step (an lstm's cell state, a gru's hidden state) is f32 by type, as biases are; y and the saved gates have the
 * format of what is multiplied. */
#include "ir/rules.h"
#include "ir/shape_util.h"

typedef struct layer {
    int64_t b, t, c, h;
} layer;

/* (x [b,t,c], w_input [c,gates h], w_hidden [h,gates h]) */
static bool read_layer(mpc_infer *in, int64_t gates, layer *l) {
    for (uint32_t i = 0; i < 3; i++)
        if (!mpc_infer_want_float(in, i) || !mpc_infer_want_rank(in, i, i == 0 ? 3 : 2)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0), *hidden = mpc_infer_operand(in, 2);
    *l = (layer){x->dims[0], x->dims[1], x->dims[2], hidden->dims[0]};
    if (l->t < 1) return mpc_infer_fail(in, 0, "there are no steps in %s", mpc_shape_text_of(x->rank, x->dims).text);
    return mpc_infer_want_shape(in, 1, 2, (int64_t[]){l->c, gates * l->h}) &&
           mpc_infer_want_shape(in, 2, 2, (int64_t[]){l->h, gates * l->h});
}

static bool want_state(mpc_infer *in, uint32_t i, const layer *l, bool f32) {
    int64_t dims[] = {l->b, l->h};
    return f32 ? mpc_infer_want(in, i, MPC_FMT_f32, 2, dims)
               : mpc_infer_want_float(in, i) && mpc_infer_want_shape(in, i, 2, dims);
}

/* Of every step: [b,t,parts h]. */
static bool want_steps(mpc_infer *in, uint32_t i, const layer *l, int64_t parts, bool f32) {
    int64_t dims[] = {l->b, l->t, parts * l->h};
    return f32 ? mpc_infer_want(in, i, MPC_FMT_f32, 3, dims)
               : mpc_infer_want_float(in, i) && mpc_infer_want_shape(in, i, 3, dims);
}

static bool set_steps(mpc_infer *in, uint32_t r, const layer *l, int64_t parts, mpc_format format) {
    return mpc_infer_set(in, r, format, 3, (int64_t[]){l->b, l->t, parts * l->h});
}

static bool set_forward(mpc_infer *in, const layer *l) {
    mpc_format format = mpc_infer_join(in, 3);
    return set_steps(in, 0, l, 1, format) && set_steps(in, 1, l, 1, MPC_FMT_f32) && set_steps(in, 2, l, 4, format);
}

/* (x, w_input, w_hidden, bias, h0, c0) */
bool mpc_shape_lstm(mpc_infer *in) {
    layer l;
    return read_layer(in, 4, &l) && mpc_infer_want(in, 3, MPC_FMT_f32, 1, (int64_t[]){4 * l.h}) &&
           want_state(in, 4, &l, false) && want_state(in, 5, &l, true) && set_forward(in, &l);
}

/* (x, w_input, w_hidden, bias, bias_hidden, h0) */
bool mpc_shape_gru(mpc_infer *in) {
    layer l;
    return read_layer(in, 3, &l) && mpc_infer_want(in, 3, MPC_FMT_f32, 1, (int64_t[]){3 * l.h}) &&
           mpc_infer_want(in, 4, MPC_FMT_f32, 1, (int64_t[]){l.h}) && want_state(in, 5, &l, true) &&
           set_forward(in, &l);
}

/* dx, dw_input, dw_hidden, dbias */
static bool set_gradients(mpc_infer *in, const layer *l, int64_t gates) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_set_like(in, 0, x->format, x) &&
           mpc_infer_set_like(in, 1, MPC_FMT_f32, mpc_infer_operand(in, 1)) &&
           mpc_infer_set_like(in, 2, MPC_FMT_f32, mpc_infer_operand(in, 2)) &&
           mpc_infer_set(in, 3, MPC_FMT_f32, 1, (int64_t[]){gates * l->h});
}

/* (x, w_input, w_hidden, h0, c0, y, c, gates, dy, dc?) */
bool mpc_shape_lstm_grad(mpc_infer *in) {
    layer l;
    if (!read_layer(in, 4, &l) || !want_state(in, 3, &l, false) || !want_state(in, 4, &l, true)) return false;
    if (!want_steps(in, 5, &l, 1, false) || !want_steps(in, 6, &l, 1, true) || !want_steps(in, 7, &l, 4, false) ||
        !want_steps(in, 8, &l, 1, false) || (in->operand_count > 9 && !want_steps(in, 9, &l, 1, true)))
        return false;
    const mpc_type *h0 = mpc_infer_operand(in, 3), *c0 = mpc_infer_operand(in, 4);
    return set_gradients(in, &l, 4) && mpc_infer_set_like(in, 4, h0->format, h0) &&
           mpc_infer_set_like(in, 5, MPC_FMT_f32, c0);
}

/* (x, w_input, w_hidden, h0, h, gates, dy, dh?) */
bool mpc_shape_gru_grad(mpc_infer *in) {
    layer l;
    if (!read_layer(in, 3, &l) || !want_state(in, 3, &l, true) || !want_steps(in, 4, &l, 1, true)) return false;
    if (!want_steps(in, 5, &l, 4, false) || !want_steps(in, 6, &l, 1, false) ||
        (in->operand_count > 7 && !want_steps(in, 7, &l, 1, true)))
        return false;
    return set_gradients(in, &l, 3) && mpc_infer_set(in, 4, MPC_FMT_f32, 1, (int64_t[]){l.h}) &&
           mpc_infer_set_like(in, 5, MPC_FMT_f32, mpc_infer_operand(in, 3));
}
