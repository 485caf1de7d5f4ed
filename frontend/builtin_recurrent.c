/* Recurrent layers over x [batch, time, channels]: all steps are one op. Weights, gates and their order are PyTorch's,
 * transposed, with one bias for an lstm; a gru needs a second one, since its hidden part of n is multiplied by r. */
#include <string.h>

#include "frontend/fe_builtins.h"

typedef struct recurrent {
    fe_value x;
    int64_t batch, time, channels, hidden;
    bool reverse;
} recurrent;

static bool read_recurrent(fe_call *c, recurrent *r) {
    r->x = fe_arg_float_tensor(c, 0);
    r->hidden = fe_arg_int(c, 1, 1);
    r->reverse = fe_arg_bool(c, 2, false);
    const mpc_type *t = r->x.kind == FE_TENSOR ? fe_type(r->x) : NULL;
    if (c->bad || !t) return false;
    if (t->rank != 3 || t->dims[1] < 1) {
        fe_error(c->e->d, "E021", fe_arg_span(c, 0), "%s runs over [batch, time, channels]; this is %s", c->fn->name,
                 fe_shape_text(c->e, r->x));
        return false;
    }
    if (r->hidden < 1) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 1), "%s: the hidden size must be at least 1, not %lld", c->fn->name,
                 (long long)r->hidden);
        return false;
    }
    r->batch = t->dims[0];
    r->time = t->dims[1];
    r->channels = t->dims[2];
    return true;
}

/* The state of argument i, or zeros; f32 where it is carried on as it is. */
static fe_value first_state(fe_call *c, uint32_t i, const recurrent *r, bool f32) {
    fe_elab *e = c->e;
    int64_t dims[] = {r->batch, r->hidden};
    if (!fe_given(c, i))
        return fe_typed(e, c->at, MPC_OP_const, mpc_type_make(e->ctx, MPC_FMT_f32, 2, dims), 0, "zeros");
    fe_value v = fe_arg_float_tensor(c, i);
    if (v.kind != FE_TENSOR) return FE_POISONED;
    if (fe_type(v)->rank == 2 && memcmp(fe_type(v)->dims, dims, sizeof dims) == 0)
        return f32 ? fe_cast(e, c->at, v, MPC_FMT_f32, "front") : v;
    fe_error(e->d, "E021", fe_arg_span(c, i), "%s starts from a state [batch, %lld]; this is %s", c->fn->name,
             (long long)r->hidden, fe_shape_text(e, v));
    c->bad = true;
    return FE_POISONED;
}

/* x, both weights and the bias, for `gates` gates; then whatever the caller adds. */
static fe_op begin_recurrent(fe_call *c, const recurrent *r, mpc_op_id op, int64_t gates, uint32_t init_at) {
    fe_init fan = {FE_INIT_FAN_IN, (double)r->hidden, 0};
    const fe_init *init = fe_arg_init(c, init_at, &fan);
    int64_t input[] = {r->channels, gates * r->hidden}, hidden[] = {r->hidden, gates * r->hidden};
    fe_op o = fe_op_begin(c->e, c->at, op, c->name);
    fe_op_in(&o, r->x);
    fe_op_in(&o, fe_make_param(c, "weight_input", 2, input, init));
    fe_op_in(&o, fe_make_param(c, "weight_hidden", 2, hidden, init));
    fe_op_in(&o, fe_make_param(c, "bias", 1, input + 1, &fan));
    fe_op_attr(&o, MPC_A_BOOL("reverse", r->reverse));
    return o;
}

/* Of the step that was taken last, [batch, hidden]. */
static fe_value last_step(fe_call *c, const recurrent *r, fe_value steps) {
    int64_t at = r->reverse ? 0 : r->time - 1, dims[] = {r->batch, r->hidden};
    return fe_reshape(c->e, c->at, fe_slice(c->e, c->at, steps, 1, at, at + 1), 2, dims);
}

/* y, or y and the last states: as many as there are names for. */
static fe_value results(fe_call *c, const recurrent *r, fe_value y, uint32_t count) {
    fe_value v = fe_list_value(c->e, FE_TUPLE, count);
    if (v.kind != FE_TUPLE || y.kind != FE_TENSOR) return FE_POISONED;
    v.or_first = true;
    v.items[0] = y;
    v.items[1] = last_step(c, r, y);
    if (count > 2) v.items[2] = last_step(c, r, fe_other_result(c->e, y, 1));
    return v;
}

fe_value fe_fn_lstm(fe_call *c) {
    recurrent r;
    if (!read_recurrent(c, &r)) return FE_POISONED;
    fe_value h = first_state(c, 3, &r, false), cell = first_state(c, 4, &r, true);
    if (c->bad) return FE_POISONED;
    fe_op o = begin_recurrent(c, &r, MPC_OP_lstm, 4, 5);
    if (c->bad) return FE_POISONED;
    fe_op_in(&o, h);
    fe_op_in(&o, cell);
    return results(c, &r, fe_op_end(&o), 3);
}

fe_value fe_fn_gru(fe_call *c) {
    recurrent r;
    if (!read_recurrent(c, &r)) return FE_POISONED;
    fe_init fan = {FE_INIT_FAN_IN, (double)r.hidden, 0};
    fe_value h = first_state(c, 3, &r, true);
    if (c->bad) return FE_POISONED;
    fe_op o = begin_recurrent(c, &r, MPC_OP_gru, 3, 4);
    if (c->bad) return FE_POISONED;
    fe_op_in(&o, fe_make_param(c, "bias_hidden", 1, &r.hidden, &fan));
    fe_op_in(&o, h);
    return results(c, &r, fe_op_end(&o), 2);
}
