/* Expansions of the recurrent layers, unrolled. One product takes the inputs of all steps; a step has one product with
 * the hidden weights and elementwise work in f32. The backward pass collects the gradients of all steps' sums, so that
 * a weight's gradient is one product, summed in f32 over examples and steps (N60). What is multiplied is rounded once,
 * to the format of the weights; what is carried on besides (an lstm's cell state, a gru's hidden state) stays f32. */
#include "base/alloc.h"
#include "passes/expand_build.h"
#include "passes/rules.h"

enum { PARTS = 4 }; /* in the saved gates: i f g o, or r z n and the hidden part of n */

typedef struct layer {
    mpc_expand *e;
    int64_t b, t, c, h, gates;
    bool reverse;
    mpc_format low;            /* what the hidden product reads */
    mpc_value_id *list[PARTS]; /* room for PARTS t values each, by place */
    mpc_value_id *room;
} layer;

static bool begin_layer(layer *l, mpc_expand *e, int64_t gates) {
    mpc_type x = mpc_expand_type(e, e->operands[0]), hidden = mpc_expand_type(e, e->operands[2]);
    *l = (layer){.e = e, .b = x.dims[0], .t = x.dims[1], .c = x.dims[2], .h = hidden.dims[0], .gates = gates};
    l->reverse = mpc_attr_bool(e->from, e->node, "reverse");
    l->low = hidden.format;
    size_t each = PARTS * (size_t)l->t + 1;
    l->room = mpc_alloc(PARTS * each * sizeof *l->room);
    if (l->room == NULL) mpc_builder_fail(e->b, "out of memory");
    for (size_t i = 0; i < PARTS && l->room != NULL; i++) l->list[i] = l->room + i * each;
    return l->room != NULL;
}

static int64_t place(const layer *l, int64_t k) { return l->reverse ? l->t - 1 - k : k; }

/* --- pieces --- */

typedef struct product {
    mpc_value_id a, b;
    bool ta, tb;
} product;

/* The accumulator, and tf32 where the layer computes so: no type says it. */
static uint32_t add_arithmetic(const mpc_expand *e, mpc_attr_arg *attrs) {
    attrs[0] = MPC_A_FORMAT("acc", mpc_attr_format(e->from, e->node, "acc"));
    attrs[1] = MPC_A_FORMAT("prec", MPC_FMT_tf32);
    return e->prec == MPC_FMT_none && mpc_attr_format(e->from, e->node, "prec") == MPC_FMT_tf32 ? 2 : 1;
}

static mpc_value_id multiply(mpc_expand *e, product p, mpc_format format) {
    mpc_attr_arg attrs[4] = {MPC_A_BOOL("ta", p.ta), MPC_A_BOOL("tb", p.tb)};
    mpc_expand_expr expr = {MPC_OP_matmul, (mpc_value_id[]){p.a, p.b}, 2, attrs, 2 + add_arithmetic(e, attrs + 2)};
    return mpc_expand_build(e, &expr, format);
}

static mpc_value_id cut(mpc_expand *e, mpc_value_id a, uint32_t axis, int64_t begin, int64_t end) {
    mpc_type t = mpc_expand_type(e, a);
    int64_t start[MPC_MAX_RANK] = {0};
    if (begin == 0 && end == t.dims[axis]) return a;
    start[axis] = begin;
    t.dims[axis] = end;
    mpc_attr_arg attrs[2] = {MPC_A_INTS("start", start, t.rank), MPC_A_INTS("stop", t.dims, t.rank)};
    return mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_slice, &a, 1, attrs, 2}, MPC_FMT_none);
}

static mpc_value_id join(mpc_expand *e, const mpc_value_id *list, uint32_t count, int64_t axis) {
    mpc_attr_arg attr = MPC_A_INT("axis", axis);
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    return count == 1 ? list[0]
                      : mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_concat, list, count, &attr, 1}, MPC_FMT_none);
}

/* [b,n] of a [b,t,n], widened */
static mpc_value_id at_step(const layer *l, mpc_value_id a, int64_t at) {
    int64_t n = mpc_expand_type(l->e, a).dims[2];
    mpc_value_id piece = mpc_expand_to_shape(l->e, cut(l->e, a, 1, at, at + 1), 2, (int64_t[]){l->b, n});
    return mpc_expand_as(l->e, piece, MPC_FMT_f32);
}

/* [b,h] of a [b,parts h] */
static mpc_value_id part(const layer *l, mpc_value_id a, int64_t i) {
    return cut(l->e, a, 1, i * l->h, (i + 1) * l->h);
}

static mpc_value_id as_step(const layer *l, mpc_value_id a) {
    int64_t n = mpc_expand_type(l->e, a).dims[1];
    return mpc_expand_to_shape(l->e, a, 3, (int64_t[]){l->b, 1, n});
}

static mpc_value_id op1(const layer *l, mpc_op_id op, mpc_value_id a) { return mpc_expand_op1(l->e, op, a); }
static mpc_value_id add(const layer *l, mpc_value_id a, mpc_value_id b) {
    return mpc_expand_op2(l->e, MPC_OP_add, a, b);
}
static mpc_value_id sub(const layer *l, mpc_value_id a, mpc_value_id b) {
    return mpc_expand_op2(l->e, MPC_OP_sub, a, b);
}
static mpc_value_id mul(const layer *l, mpc_value_id a, mpc_value_id b) {
    return mpc_expand_op2(l->e, MPC_OP_mul, a, b);
}

/* 1 - a */
static mpc_value_id rest(const layer *l, mpc_value_id a) { return sub(l, mpc_expand_number(l->e, 1), a); }

/* --- forward --- */

/* f32 [b,t,gates h]: x w_input + bias, of all steps */
static mpc_value_id input_sums(const layer *l) {
    mpc_attr_arg attrs[2];
    mpc_value_id operands[3] = {l->e->operands[0], l->e->operands[1], l->e->operands[3]};
    mpc_expand_expr expr = {MPC_OP_linear, operands, 3, attrs, add_arithmetic(l->e, attrs)};
    return mpc_expand_build(l->e, &expr, MPC_FMT_f32);
}

/* f32 [b,gates h] */
static mpc_value_id hidden_sums(const layer *l, mpc_value_id h) {
    return multiply(l->e, (product){.a = mpc_expand_as(l->e, h, l->low), .b = l->e->operands[2]}, MPC_FMT_f32);
}

/* Result r [b,t,n], from a list by place. */
static void emit_steps(const layer *l, uint32_t r, const mpc_value_id *list) {
    if (!l->e->used[r]) return;
    if (l->t > 1) mpc_expand_name_result(l->e, r);
    l->e->results[r] = join(l->e, list, (uint32_t)l->t, 1);
}

/* sigmoid, and tanh in the third quarter */
static mpc_value_id lstm_gates(const layer *l, mpc_value_id sums) {
    mpc_expand *e = l->e;
    mpc_value_id at = mpc_expand_positions(e, 4 * l->h, 2, 1);
    mpc_value_id from = mpc_expand_op2(e, MPC_OP_ge, at, mpc_expand_int(e, 2 * l->h));
    mpc_value_id to = mpc_expand_op2(e, MPC_OP_lt, at, mpc_expand_int(e, 3 * l->h));
    mpc_value_id fresh = mpc_expand_op2(e, MPC_OP_and, from, to);
    return mpc_expand_op3(e, MPC_OP_where, fresh, op1(l, MPC_OP_tanh, sums), op1(l, MPC_OP_sigmoid, sums));
}

/* (x, w_input, w_hidden, bias, h0, c0) -> y, c, gates */
void mpc_expand_lstm(mpc_expand *e) {
    layer l;
    if (!begin_layer(&l, e, 4)) return;
    mpc_format format = mpc_expand_result_type(e, 0).format;
    mpc_value_id inputs = input_sums(&l), h = e->operands[4], c = mpc_expand_f32(e, 5);
    for (int64_t k = 0; k < l.t && !mpc_builder_failed(e->b); k++) {
        int64_t at = place(&l, k);
        mpc_value_id gates = lstm_gates(&l, add(&l, at_step(&l, inputs, at), hidden_sums(&l, h)));
        mpc_value_id fresh = mul(&l, part(&l, gates, 0), part(&l, gates, 2));
        c = add(&l, mul(&l, part(&l, gates, 1), c), fresh);
        h = mpc_expand_as(e, mul(&l, part(&l, gates, 3), op1(&l, MPC_OP_tanh, c)), format);
        l.list[0][at] = as_step(&l, h);
        l.list[1][at] = as_step(&l, c);
        l.list[2][at] = e->used[2] ? as_step(&l, mpc_expand_as(e, gates, format)) : MPC_NONE;
    }
    for (uint32_t r = 0; r < 3; r++) emit_steps(&l, r, l.list[r]);
    mpc_free(l.room);
}

/* (x, w_input, w_hidden, bias, bias_hidden, h0) -> y, h, gates */
void mpc_expand_gru(mpc_expand *e) {
    layer l;
    if (!begin_layer(&l, e, 3)) return;
    mpc_format format = mpc_expand_result_type(e, 0).format;
    mpc_value_id inputs = input_sums(&l), h = mpc_expand_f32(e, 5), bias = mpc_expand_f32(e, 4);
    for (int64_t k = 0; k < l.t && !mpc_builder_failed(e->b); k++) {
        int64_t at = place(&l, k);
        mpc_value_id input = at_step(&l, inputs, at), hidden = hidden_sums(&l, h);
        mpc_value_id both = add(&l, cut(e, input, 1, 0, 2 * l.h), cut(e, hidden, 1, 0, 2 * l.h));
        both = op1(&l, MPC_OP_sigmoid, both);
        mpc_value_id last = add(&l, part(&l, hidden, 2), bias);
        mpc_value_id fresh = add(&l, part(&l, input, 2), mul(&l, part(&l, both, 0), last));
        fresh = op1(&l, MPC_OP_tanh, fresh);
        h = add(&l, fresh, mul(&l, part(&l, both, 1), sub(&l, h, fresh)));
        l.list[0][at] = as_step(&l, mpc_expand_as(e, h, format));
        l.list[1][at] = as_step(&l, h);
        mpc_value_id saved[3] = {both, fresh, last};
        for (int i = 0; i < 3; i++) saved[i] = mpc_expand_as(e, saved[i], format);
        l.list[2][at] = e->used[2] ? as_step(&l, join(e, saved, 3, 1)) : MPC_NONE;
    }
    for (uint32_t r = 0; r < 3; r++) emit_steps(&l, r, l.list[r]);
    mpc_free(l.room);
}

/* --- backward --- */

/* [b,t,n] as [b t, n] */
static mpc_value_id as_rows(const layer *l, mpc_value_id a) {
    int64_t n = mpc_expand_type(l->e, a).dims[2];
    return mpc_expand_to_shape(l->e, a, 2, (int64_t[]){l->b * l->t, n});
}

/* The states that the steps start from, [b,t,h]: the first one, then all steps but the last. */
static mpc_value_id states_before(const layer *l, mpc_value_id first, mpc_value_id steps) {
    mpc_value_id start = as_step(l, mpc_expand_as(l->e, first, l->low));
    if (l->t == 1) return start;
    mpc_value_id kept = mpc_expand_as(l->e, steps, l->low);
    kept = l->reverse ? cut(l->e, kept, 1, 1, l->t) : cut(l->e, kept, 1, 0, l->t - 1);
    mpc_value_id list[2] = {l->reverse ? kept : start, l->reverse ? start : kept};
    return join(l->e, list, 2, 1);
}

/* Gradient r of the weight that was multiplied with `a` [b,t,n]. */
static void emit_weight(const layer *l, uint32_t r, mpc_value_id a, mpc_value_id dsums) {
    if (!l->e->used[r]) return;
    product p = {.a = as_rows(l, a), .ta = true, .b = as_rows(l, dsums)};
    mpc_expand_name_result(l->e, r);
    l->e->results[r] = multiply(l->e, p, MPC_FMT_f32);
}

/* dx, dw_input, dw_hidden, dbias; dinput and drecur [b,t,gates h] are the gradients of both kinds of sums. */
static void emit_products(const layer *l, mpc_value_id dinput, mpc_value_id drecur, mpc_value_id before) {
    mpc_expand *e = l->e;
    emit_weight(l, 1, e->operands[0], dinput);
    emit_weight(l, 2, before, drecur);
    if (e->used[0]) {
        mpc_value_id rows = as_rows(l, dinput);
        mpc_value_id dx =
            multiply(e, (product){.a = rows, .b = e->operands[1], .tb = true}, mpc_expand_result_type(e, 0).format);
        mpc_expand_name_result(e, 0);
        e->results[0] = mpc_expand_to_shape(e, dx, 3, (int64_t[]){l->b, l->t, l->c});
    }
    if (!e->used[3]) return;
    mpc_value_id wide = mpc_expand_as(e, as_rows(l, dinput), MPC_FMT_f32);
    mpc_expand_name_result(e, 3);
    e->results[3] = mpc_expand_sum_axes(e, wide, 1);
}

/* [b,n] of the gradients of a step's sums, rounded once to what is multiplied. */
static mpc_value_id sums_of(const layer *l, const mpc_value_id *parts) {
    mpc_value_id low[PARTS];
    for (int64_t i = 0; i < l->gates; i++) low[i] = mpc_expand_as(l->e, parts[i], l->low);
    return join(l->e, low, (uint32_t)l->gates, 1);
}

/* What goes through the hidden product to the step before: f32 [b,h]. */
static mpc_value_id through_hidden(const layer *l, mpc_value_id dsums) {
    return multiply(l->e, (product){.a = dsums, .b = l->e->operands[2], .tb = true}, MPC_FMT_f32);
}

static mpc_value_id add_some(const layer *l, mpc_value_id a, mpc_value_id b) {
    return a == MPC_NONE ? b : add(l, a, b);
}

/* The state that step k starts from, f32 [b,h]. */
static mpc_value_id state_before(const layer *l, mpc_value_id first, mpc_value_id steps, int64_t k) {
    return k > 0 ? at_step(l, steps, place(l, k - 1)) : mpc_expand_as(l->e, first, MPC_FMT_f32);
}

typedef struct carried { /* gradients on their way back; MPC_NONE at the last step */
    mpc_value_id state, hidden;
} carried;

/* (x, w_input, w_hidden, h0, c0, y, c, gates, dy, dc?) */
static carried lstm_back(const layer *l, int64_t k, carried from, mpc_value_id *dsums) {
    mpc_expand *e = l->e;
    int64_t at = place(l, k);
    mpc_value_id gates = at_step(l, e->operands[7], at), in = part(l, gates, 0), forget = part(l, gates, 1);
    mpc_value_id fresh = part(l, gates, 2), out = part(l, gates, 3);
    mpc_value_id squashed = op1(l, MPC_OP_tanh, at_step(l, e->operands[6], at));
    mpc_value_id old = state_before(l, e->operands[4], e->operands[6], k);
    mpc_value_id dh = add_some(l, from.hidden, at_step(l, e->operands[8], at));
    mpc_value_id dc = mul(l, mul(l, dh, out), rest(l, mul(l, squashed, squashed)));
    dc = add_some(l, from.state, dc);
    if (e->operand_count > 9) dc = add(l, dc, at_step(l, e->operands[9], at));
    mpc_value_id parts[PARTS] = {
        mul(l, mul(l, dc, fresh), mul(l, in, rest(l, in))), mul(l, mul(l, dc, old), mul(l, forget, rest(l, forget))),
        mul(l, mul(l, dc, in), rest(l, mul(l, fresh, fresh))), mul(l, mul(l, dh, squashed), mul(l, out, rest(l, out)))};
    *dsums = sums_of(l, parts);
    return (carried){mul(l, dc, forget), through_hidden(l, *dsums)};
}

/* Result r: the gradient of the first state. */
static void emit_first(const layer *l, uint32_t r, mpc_value_id d) {
    mpc_expand *e = l->e;
    mpc_type t = mpc_expand_result_type(e, r);
    if (!e->used[r]) return;
    e->results[r] =
        d != MPC_NONE ? mpc_expand_as(e, d, t.format) : mpc_expand_broadcast(e, mpc_expand_number(e, 0), 2, t.dims);
}

void mpc_expand_lstm_grad(mpc_expand *e) {
    layer l;
    carried from = {MPC_NONE, MPC_NONE};
    if (!begin_layer(&l, e, 4)) return;
    for (int64_t k = l.t; k-- > 0 && !mpc_builder_failed(e->b);) {
        mpc_value_id dsums;
        from = lstm_back(&l, k, from, &dsums);
        l.list[0][place(&l, k)] = as_step(&l, dsums);
    }
    mpc_value_id all = join(e, l.list[0], (uint32_t)l.t, 1);
    emit_products(&l, all, all, states_before(&l, e->operands[3], e->operands[5]));
    emit_first(&l, 4, from.hidden);
    emit_first(&l, 5, from.state);
    mpc_free(l.room);
}

/* (x, w_input, w_hidden, h0, h, gates, dy, dh?) */
static carried gru_back(const layer *l, int64_t k, carried from, mpc_value_id *dsums) {
    mpc_expand *e = l->e;
    int64_t at = place(l, k);
    mpc_value_id gates = at_step(l, e->operands[5], at), reset = part(l, gates, 0), update = part(l, gates, 1);
    mpc_value_id fresh = part(l, gates, 2), last = part(l, gates, 3);
    mpc_value_id old = state_before(l, e->operands[3], e->operands[4], k);
    mpc_value_id dh = at_step(l, e->operands[6], at);
    if (from.hidden != MPC_NONE) dh = add(l, dh, add(l, from.state, from.hidden));
    if (e->operand_count > 7) dh = add(l, dh, at_step(l, e->operands[7], at));
    mpc_value_id dfresh = mul(l, mul(l, dh, rest(l, update)), rest(l, mul(l, fresh, fresh)));
    mpc_value_id parts[PARTS] = {mul(l, mul(l, dfresh, last), mul(l, reset, rest(l, reset))),
                                 mul(l, mul(l, dh, sub(l, old, fresh)), mul(l, update, rest(l, update))), dfresh};
    dsums[0] = sums_of(l, parts);
    parts[2] = mul(l, dfresh, reset);
    dsums[1] = sums_of(l, parts);
    return (carried){mul(l, dh, update), through_hidden(l, dsums[1])};
}

void mpc_expand_gru_grad(mpc_expand *e) {
    layer l;
    carried from = {MPC_NONE, MPC_NONE};
    if (!begin_layer(&l, e, 3)) return;
    for (int64_t k = l.t; k-- > 0 && !mpc_builder_failed(e->b);) {
        mpc_value_id dsums[2];
        from = gru_back(&l, k, from, dsums);
        for (int i = 0; i < 2; i++) l.list[i][place(&l, k)] = as_step(&l, dsums[i]);
    }
    mpc_value_id dinput = join(e, l.list[0], (uint32_t)l.t, 1), drecur = join(e, l.list[1], (uint32_t)l.t, 1);
    emit_products(&l, dinput, drecur, states_before(&l, e->operands[3], e->operands[4]));
    if (e->used[4]) {
        mpc_value_id last = mpc_expand_as(e, cut(e, as_rows(&l, drecur), 1, 2 * l.h, 3 * l.h), MPC_FMT_f32);
        mpc_expand_name_result(e, 4);
        e->results[4] = mpc_expand_sum_axes(e, last, 1);
    }
    emit_first(&l, 5, from.hidden != MPC_NONE ? add(&l, from.state, from.hidden) : MPC_NONE);
    mpc_free(l.room);
}
