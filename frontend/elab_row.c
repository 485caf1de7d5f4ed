/* Rows: inside a data mapping an expression is about one row, while the graph holds a batch of them. A value that comes
 * from the data has the batch as a hidden first axis (`row` in fe_tensor); a constant such as zeros([5]) has none.
 * Whoever counts axes or compares ranks in a mapping asks fe_lead first, or the batch would be reduced or moved. */
#include <string.h>

#include "frontend/fe_elab.h"

uint32_t fe_lead(const fe_elab *e, fe_value v) { return e->mapping && v.kind == FE_TENSOR && v.t->row; }

fe_value fe_mark_row(fe_elab *e, fe_value v) {
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(e, v.t) : NULL;
    if (!t) return FE_POISONED;
    t->row = true;
    v.t = t;
    return v;
}

fe_value fe_lift(fe_elab *e, const fe_ast *at, fe_value v) {
    if (v.kind != FE_TENSOR || fe_lead(e, v)) return v;
    const mpc_type *t = fe_type(v);
    if (t->rank == MPC_MAX_RANK) {
        fe_error(e->d, "E017", at->span, "a row has at most %d axes", MPC_MAX_RANK - 1);
        return FE_POISONED;
    }
    int64_t dims[MPC_MAX_RANK] = {e->batch};
    memcpy(dims + 1, t->dims, t->rank * sizeof *dims);
    return fe_mark_row(e, fe_expand(e, at, v, t->rank + 1, dims));
}

/* [batch, a] to [batch, 1, a]: as many axes as `rank`. */
static fe_value widen(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank) {
    const mpc_type *t = fe_type(v);
    if (t->rank >= rank) return v;
    int64_t dims[MPC_MAX_RANK];
    uint32_t missing = rank - t->rank;
    dims[0] = t->dims[0];
    for (uint32_t i = 1; i < rank; i++) dims[i] = i <= missing ? 1 : t->dims[i - missing];
    return fe_reshape(e, at, v, rank, dims);
}

fe_value fe_widen_row(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank) {
    return fe_lead(e, v) ? widen(e, at, v, rank) : v;
}

void fe_meet_rows(fe_elab *e, const fe_ast *at, fe_value *v, uint32_t count) {
    uint32_t rank = 0, constant = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (v[i].kind != FE_TENSOR) return;
        uint32_t own = fe_type(v[i])->rank;
        if (fe_lead(e, v[i])) rank = own > rank ? own : rank;
        else constant = own > constant ? own : constant;
    }
    if (!rank) return;
    if (constant + 1 > rank && constant > 0) rank = constant + 1;
    for (uint32_t i = 0; i < count; i++) {
        /* a constant of fewer axes than a row never meets the batch */
        if (!fe_lead(e, v[i]) && fe_type(v[i])->rank > 0 && fe_type(v[i])->rank + 1 >= rank)
            v[i] = fe_lift(e, at, v[i]);
        v[i] = rank <= MPC_MAX_RANK ? fe_widen_row(e, at, v[i], rank) : FE_POISONED;
    }
}

void fe_lift_arguments(fe_call *c, uint32_t a, uint32_t b) {
    if (fe_lead(c->e, c->v[a]) == fe_lead(c->e, c->v[b])) return;
    c->v[a] = fe_lift(c->e, c->at, c->v[a]);
    c->v[b] = fe_lift(c->e, c->at, c->v[b]);
    c->bad = c->bad || c->v[a].kind == FE_POISON || c->v[b].kind == FE_POISON;
}
