/* Linear layers, embeddings and initialisers. Default ones: weights and biases of linear uniform within 1 / sqrt(fan
 * in), embeddings normal with deviation 0.02; all can be replaced by `init =` or the params section. */
#include <string.h>

#include "frontend/fe_builtins.h"

/* --- initialisers --- */

static fe_value init_value(fe_call *c, fe_init init) {
    if (c->bad) return FE_POISONED;
    return (fe_value){.kind = FE_INIT, .init = fe_init_value(c->e, init)};
}

fe_value fe_fn_normal(fe_call *c) {
    fe_init init = {FE_INIT_NORMAL, fe_arg_float(c, 0, 0), fe_arg_float(c, 1, 1)};
    if (strcmp(c->fn->name, "truncated_normal") == 0) init.kind = FE_INIT_TRUNCATED;
    if (!c->bad && !(init.b >= 0)) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 1), "%s's std is a deviation from 0 on, this is %g", c->fn->name,
                 init.b);
        return FE_POISONED;
    }
    return init_value(c, init);
}

fe_value fe_fn_orthogonal(fe_call *c) {
    fe_init init = {FE_INIT_ORTHOGONAL, fe_arg_float(c, 0, 1), 0};
    return init_value(c, init);
}

fe_value fe_fn_uniform(fe_call *c) {
    fe_init init = {FE_INIT_UNIFORM, fe_arg_float(c, 0, -1), fe_arg_float(c, 1, 1)};
    if (!c->bad && !(init.a <= init.b)) {
        fe_error(c->e->d, "E017", fe_arg_span(c, fe_given(c, 1) ? 1 : 0),
                 "uniform draws from low = %g up to high = %g, which is less", init.a, init.b);
        return FE_POISONED;
    }
    return init_value(c, init);
}

fe_value fe_fn_constant(fe_call *c) {
    fe_init init = {FE_INIT_CONSTANT, fe_arg_float(c, 0, 0), 0};
    return init_value(c, init);
}

fe_value fe_fn_named_init(fe_call *c) {
    static const struct {
        const char *name;
        fe_init_kind kind;
    } named[] = {{"kaiming", FE_INIT_KAIMING},
                 {"xavier", FE_INIT_XAVIER},
                 {"kaiming_normal", FE_INIT_KAIMING_NORMAL},
                 {"xavier_normal", FE_INIT_XAVIER_NORMAL}};
    fe_init init = {0};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(c->fn->name, named[i].name) == 0) init.kind = named[i].kind;
    return init_value(c, init);
}

/* --- parameters --- */

fe_value fe_fn_param(fe_call *c) {
    static const fe_init fallback = {.kind = FE_INIT_FAN_IN};
    int64_t dims[MPC_MAX_RANK];
    uint32_t n = fe_arg_ints(c, 0, dims, MPC_MAX_RANK, 1);
    const fe_init *init = fe_arg_init(c, 1, &fallback);
    return c->bad ? FE_POISONED : fe_make_param(c, "", n, dims, init);
}

bool fe_want_positive(fe_call *c, uint32_t i, int64_t value, const char *what) {
    if (value >= 1) return true;
    fe_error(c->e->d, "E017", fe_arg_span(c, i), "%s: %s must be at least 1, not %lld", c->fn->name, what,
             (long long)value);
    return false;
}

fe_value fe_fn_linear(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    int64_t out = fe_arg_int(c, 1, 1);
    bool bias = fe_arg_bool(c, 2, true);
    const mpc_type *t = fe_arg_type(c, 0);
    if (c->bad || x.kind != FE_TENSOR || !fe_want_positive(c, 1, out, "the number of outputs")) return FE_POISONED;
    if (t->rank < 1) {
        fe_error(c->e->d, "E021", fe_arg_span(c, 0), "linear needs at least one axis; this is a single number");
        return FE_POISONED;
    }
    int64_t dims[] = {t->dims[t->rank - 1], out};
    fe_init fan = {FE_INIT_FAN_IN, (double)dims[0], 0};
    fe_value w = fe_make_param(c, "weight", 2, dims, fe_arg_init(c, 3, &fan));
    fe_value b = bias && !c->bad ? fe_make_param(c, "bias", 1, &out, &fan) : FE_POISONED;
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_linear, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, w);
    if (bias) fe_op_in(&o, b);
    return fe_op_end(&o);
}

/* --- embedding --- */

fe_value fe_fn_embedding(fe_call *c) {
    static const fe_init fallback = {FE_INIT_NORMAL, 0, 0.02};
    fe_elab *e = c->e;
    fe_value ids = fe_arg_tensor(c, 0);
    int64_t dims[] = {fe_arg_int(c, 1, 1), fe_arg_int(c, 2, 1)};
    const fe_init *init = fe_arg_init(c, 3, &fallback);
    if (c->bad || !fe_want_positive(c, 1, dims[0], "the number of rows") ||
        !fe_want_positive(c, 2, dims[1], "the width"))
        return FE_POISONED;
    if (mpc_format_get(fe_type(ids)->format)->kind != MPC_FORMAT_INT) {
        fe_error(e->d, "E021", fe_arg_span(c, 0), "embedding looks up whole numbers; this is %s",
                 mpc_format_get(fe_type(ids)->format)->name);
        return FE_POISONED;
    }
    fe_value w = fe_make_param(c, "weight", 2, dims, init);
    fe_op o = fe_op_begin(e, c->at, MPC_OP_embedding, c->name);
    fe_op_in(&o, w);
    fe_op_in(&o, ids);
    fe_value v = fe_op_end(&o);
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(e, v.t) : NULL;
    if (!t) return FE_POISONED;
    memset(t->names, 0, sizeof t->names);
    memcpy(t->names, ids.t->names, fe_type(ids)->rank * sizeof *t->names);
    v.t = t;
    bool kept = e->masked;
    e->masked = false; /* a token id outside the table is wrong wherever the loss looks */
    fe_limit_range(e, ids, dims[0],
                   fe_format(e, "%s, the table has %lld rows (%s)", fe_source_text(e->m, c->at->span),
                             (long long)dims[0], fe_place_text(e->d, c->at->span)));
    e->masked = kept;
    return v;
}
