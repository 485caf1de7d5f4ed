/* Nodes. Every node of an elaboration is made by fe_op_end: it asks the shape rule first, so that a refusal becomes a
 * message at the right place and the builder's sticky error is left for real failures; it sets names, locations and the
 * format a region asks for. */
#include <string.h>

#include "frontend/fe_elab.h"
#include "ir/infer.h"

void fe_locate(const mpc_model *m, mpc_span span, uint32_t *line, uint32_t *column) {
    *line = *column = 0;
    if (span.file) mpc_sources_locate(mpc_context_sources(m->ctx), span.file, span.begin, line, column);
}

bool fe_want_builder(fe_elab *e, const fe_ast *at) {
    if (e->b) return true;
    fe_error(e->d, "E016", at->span, "a constant is needed here; tensors exist only inside the model");
    return false;
}

fe_op fe_op_begin(fe_elab *e, const fe_ast *at, mpc_op_id op, const char *name) {
    return (fe_op){.e = e, .at = at, .name = name, .op = op};
}

void fe_op_in(fe_op *o, fe_value v) {
    if (o->in_count < FE_MAX_OP_IN) o->in[o->in_count++] = v;
}

void fe_op_attr(fe_op *o, mpc_attr_arg attr) {
    if (o->attr_count < FE_MAX_OP_ATTRS) o->attrs[o->attr_count++] = attr;
}

/* Path, name and bare indices; in e->scratch, valid until the next call. */
static const char *value_name(fe_elab *e, const char *name) {
    mpc_str_clear(&e->scratch);
    if (e->mapping && strcmp(name, e->mapping->text) == 0) return name; /* the input itself */
    const char *path = e->frame ? e->frame->path : "";
    mpc_str_append(&e->scratch, path);
    if (*path) mpc_str_append(&e->scratch, ".");
    mpc_str_append(&e->scratch, name);
    if (e->frame) mpc_str_append(&e->scratch, e->frame->bare);
    return mpc_str_cstr(&e->scratch);
}

static bool has_attr(fe_elab *e, const mpc_op *op, const char *key) {
    mpc_sym sym = mpc_intern(e->ctx, key);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].key == sym) return true;
    return false;
}

static mpc_attr attr_of(fe_elab *e, const mpc_attr_arg *a) {
    mpc_attr out = {.key = mpc_intern(e->ctx, a->key), .kind = a->kind};
    switch (a->kind) {
    case MPC_ATTR_INT:
        out.i = a->i;
        break;
    case MPC_ATTR_FLOAT:
        out.f = a->f;
        break;
    case MPC_ATTR_BOOL:
        out.b = a->i != 0;
        break;
    case MPC_ATTR_STR:
        out.s = mpc_intern(e->ctx, a->s);
        break;
    case MPC_ATTR_FORMAT:
        out.format = a->format;
        break;
    case MPC_ATTR_INTS:
        out.ints = (mpc_int_list){a->ints, a->count};
        break;
    }
    return out;
}

/* Asks the op's shape rule; reports its sentence. `result`: the format of the first result. */
static bool shapes_agree(fe_op *o, const mpc_type_id *types, const mpc_op *op, mpc_format *result) {
    mpc_attr attrs[FE_MAX_OP_ATTRS + 1];
    for (uint32_t i = 0; i < o->attr_count; i++) attrs[i] = attr_of(o->e, &o->attrs[i]);
    mpc_infer infer = {.ctx = o->e->ctx,
                       .op = op,
                       .operands = types,
                       .operand_count = o->in_count,
                       .attrs = attrs,
                       .attr_count = o->attr_count,
                       .bad_operand = MPC_NONE};
    if (mpc_infer_types(&infer)) {
        *result = mpc_type_get(o->e->ctx, infer.results[0])->format;
        return true;
    }
    fe_report r = fe_begin(o->e->d, MPC_SEV_ERROR, "E021", o->at->span, "%s: %s",
                           o->e->callee ? o->e->callee : op->name, infer.message);
    const fe_value *in = o->many ? o->many : o->in;
    if (infer.bad_operand < o->in_count && in[infer.bad_operand].kind == FE_TENSOR)
        fe_label(&r, "operand %u is %s", infer.bad_operand + 1, fe_shape_text(o->e, in[infer.bad_operand]));
    fe_send(&r);
    return false;
}

static void apply_precision(fe_op *o, const mpc_op *op, const char *name, mpc_format type) {
    fe_elab *e = o->e;
    const char *why = e->prec_why;
    mpc_format format = e->prec;
    bool takes = mpc_format_is_float(type) && has_attr(e, op, "prec");
    if (e->m->policy.count) {
        fe_worded worded = {.op = op->name, .path = name, .type = type, .at = o->at->span, .takes = takes};
        mpc_format said = fe_policy_format(e, &worded, &why);
        if (said != MPC_FMT_none) format = said;
    }
    if (format == MPC_FMT_none || !takes) return;
    e->words_taken++;
    o->attrs[o->attr_count++] = MPC_A_FORMAT("prec", format); /* one place is always left */
    if (format == MPC_FMT_f32) o->format = format;            /* stored so, of operands that were cast low too */
    mpc_builder_set_why(e->b, mpc_intern(e->ctx, why));
}

void fe_set_place(fe_elab *e, mpc_span span) {
    mpc_loc loc = {0};
    if (span.file) loc.file = mpc_intern(e->ctx, mpc_sources_name(mpc_context_sources(e->ctx), span.file));
    fe_locate(e->m, span, &loc.line, &loc.column);
    mpc_builder_set_loc(e->b, loc);
    mpc_builder_set_why(e->b, 0);
}

/* Dim names and what else is known of a result, from its operands. */
static void inherit(fe_op *o, fe_tensor *t, const mpc_op *op) {
    const mpc_type *type = &t->shape;
    const fe_value *in = o->many ? o->many : o->in;
    bool right = op->kind == MPC_KIND_EWISE;
    for (uint32_t i = 0; i < o->in_count; i++) {
        if (in[i].kind != FE_TENSOR) continue;
        const fe_tensor *from = in[i].t;
        t->row = t->row || from->row;
        const mpc_type *ft = &from->shape;
        uint32_t shift = right && type->rank > ft->rank ? type->rank - ft->rank : 0;
        for (uint32_t k = 0; k < ft->rank && k + shift < type->rank; k++) {
            if (ft->dims[k] != type->dims[k + shift]) {
                if (right) continue;
                break;
            }
            if (!t->names[k + shift]) t->names[k + shift] = from->names[k];
        }
        bool same_image =
            type->rank == 4 && ft->rank == 4 && ft->dims[1] == type->dims[1] && ft->dims[2] == type->dims[2];
        if (!t->history && same_image) t->history = from->history;
        if (!t->stride && right && same_image) t->stride = from->stride;
    }
    bool carries = op->kind == MPC_KIND_VIEW || o->op == MPC_OP_cast;
    if (carries && o->in_count == 1 && in[0].kind == FE_TENSOR &&
        mpc_format_get(type->format)->kind == MPC_FORMAT_INT) {
        t->field = in[0].t->field;
        t->offset = in[0].t->offset;
    }
}

static fe_value finish(fe_op *o, mpc_value_id id, const mpc_op *op) {
    fe_elab *e = o->e;
    if (id == MPC_NONE) {
        e->failed = true;
        return FE_POISONED;
    }
    fe_value v = fe_tensor_value(e, id, o->at->span);
    if (v.kind == FE_TENSOR) {
        fe_tensor *t = fe_tensor_copy(e, v.t);
        if (!t) return FE_POISONED;
        inherit(o, t, op);
        v.t = t;
    }
    return v;
}

fe_value fe_op_end(fe_op *o) {
    fe_elab *e = o->e;
    if (!fe_want_builder(e, o->at) || e->failed) return FE_POISONED;
    const mpc_op *op = mpc_op_get(e->ctx, o->op);
    if (e->mapping && op->kind == MPC_KIND_EWISE && !o->many) fe_meet_rows(e, o->at, o->in, o->in_count);
    mpc_value_id few[FE_MAX_OP_IN];
    mpc_type_id few_types[FE_MAX_OP_IN];
    mpc_value_id *ids = few;
    mpc_type_id *types = few_types;
    if (o->many) {
        ids = fe_alloc(e, (o->in_count + 1) * sizeof *ids);
        types = fe_alloc(e, (o->in_count + 1) * sizeof *types);
        if (!ids || !types) return FE_POISONED;
    }
    for (uint32_t i = 0; i < o->in_count; i++) {
        fe_value v = o->many ? o->many[i] : o->in[i];
        if (v.kind != FE_TENSOR) return FE_POISONED;
        ids[i] = v.t->id;
        types[i] = v.t->type;
    }
    mpc_format result;
    if (!shapes_agree(o, types, op, &result)) return FE_POISONED;
    const char *name = value_name(e, o->name ? o->name : op->name);
    fe_set_place(e, o->at->span);
    apply_precision(o, op, name, result);
    mpc_builder_set_name(e->b, name);
    mpc_value_id id = mpc_build_as(e->b, o->op, ids, o->in_count, o->attrs, o->attr_count, o->format);
    return finish(o, id, op);
}

fe_value fe_emit1(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value a, const char *name) {
    fe_op o = fe_op_begin(e, at, op, name);
    fe_op_in(&o, a);
    return fe_op_end(&o);
}

fe_value fe_emit2(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value a, fe_value b, const char *name) {
    fe_op o = fe_op_begin(e, at, op, name);
    fe_op_in(&o, a);
    fe_op_in(&o, b);
    return fe_op_end(&o);
}

fe_value fe_other_result(fe_elab *e, fe_value first, uint32_t index) {
    if (first.kind != FE_TENSOR) return FE_POISONED;
    return fe_tensor_value(e, first.t->id + index, first.t->made);
}

fe_value fe_scalar(fe_elab *e, const fe_ast *at, fe_value number, mpc_format format) {
    if (!fe_want_builder(e, at) || e->failed) return FE_POISONED;
    double value = number.kind == FE_BOOL ? (double)number.i : fe_number(number);
    fe_set_place(e, at->span);
    mpc_builder_set_name(e->b, value_name(e, "const"));
    mpc_value_id id = mpc_build_const(e->b, value, format);
    if (id == MPC_NONE) e->failed = true;
    return id == MPC_NONE ? FE_POISONED : fe_tensor_value(e, id, at->span);
}

fe_value fe_typed(fe_elab *e, const fe_ast *at, mpc_op_id op, mpc_type_id type, double value, const char *name) {
    if (!fe_want_builder(e, at) || e->failed) return FE_POISONED;
    if (!type) {
        fe_error(e->d, "E017", at->span, "this value would be too large");
        return FE_POISONED;
    }
    fe_set_place(e, at->span);
    name = value_name(e, name ? name : mpc_op_get(e->ctx, op)->name);
    mpc_format format = mpc_type_get(e->ctx, type)->format;
    fe_worded worded = {.op = mpc_op_get(e->ctx, op)->name, .path = name, .type = format, .at = at->span};
    const char *why;
    if (e->m->policy.count && !mpc_format_is_float(format)) fe_policy_format(e, &worded, &why);
    mpc_builder_set_name(e->b, name);
    mpc_attr_arg attr = MPC_A_FLOAT("value", value);
    mpc_value_id id = mpc_build_typed(e->b, op, type, &attr, op == MPC_OP_const);
    if (id == MPC_NONE) e->failed = true;
    return id == MPC_NONE ? FE_POISONED : fe_tensor_value(e, id, at->span);
}

fe_value fe_cast(fe_elab *e, const fe_ast *at, fe_value v, mpc_format to, const char *by) {
    if (v.kind != FE_TENSOR) return FE_POISONED;
    if (fe_type(v)->format == to) return v;
    fe_op o = fe_op_begin(e, at, MPC_OP_cast, NULL);
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_FORMAT("to", to));
    fe_op_attr(&o, MPC_A_STR("by", by));
    return fe_op_end(&o);
}

fe_value fe_to_float(fe_elab *e, const fe_ast *at, fe_value v) {
    if (fe_is_number(v) || v.kind == FE_BOOL) return fe_scalar(e, at, v, MPC_FMT_f32);
    if (v.kind != FE_TENSOR) return FE_POISONED;
    return mpc_format_is_float(fe_type(v)->format) ? v : fe_cast(e, at, v, MPC_FMT_f32, "front");
}

static fe_value emit_dims(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value v, mpc_int_list dims) {
    if (v.kind != FE_TENSOR) return FE_POISONED;
    const mpc_type *t = fe_type(v);
    if (t->rank == dims.count && (dims.count == 0 || memcmp(t->dims, dims.data, dims.count * sizeof *dims.data) == 0))
        return v;
    fe_op o = fe_op_begin(e, at, op, NULL);
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_INTS("shape", dims.data, dims.count));
    return fe_op_end(&o);
}

fe_value fe_reshape(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank, const int64_t *dims) {
    return emit_dims(e, at, MPC_OP_reshape, v, (mpc_int_list){dims, rank});
}

fe_value fe_expand(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank, const int64_t *dims) {
    return emit_dims(e, at, MPC_OP_expand, v, (mpc_int_list){dims, rank});
}

fe_value fe_reduce(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value v, const int64_t *axes, uint32_t count) {
    fe_op o = fe_op_begin(e, at, op, NULL);
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, count));
    return fe_op_end(&o);
}

fe_value fe_slice(fe_elab *e, const fe_ast *at, fe_value v, uint32_t axis, int64_t start, int64_t stop) {
    if (v.kind != FE_TENSOR) return FE_POISONED;
    const mpc_type *t = fe_type(v);
    if (start == 0 && stop == t->dims[axis]) return v;
    int64_t from[MPC_MAX_RANK] = {0}, to[MPC_MAX_RANK];
    memcpy(to, t->dims, sizeof to);
    from[axis] = start;
    to[axis] = stop;
    fe_op o = fe_op_begin(e, at, MPC_OP_slice, NULL);
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_INTS("start", from, t->rank));
    fe_op_attr(&o, MPC_A_INTS("stop", to, t->rank));
    return fe_op_end(&o);
}

fe_value fe_tensor_value(fe_elab *e, mpc_value_id id, mpc_span made) {
    fe_tensor *t = fe_alloc(e, sizeof *t);
    if (!t) return FE_POISONED;
    t->id = id;
    t->type = mpc_builder_graph(e->b)->values[id].type;
    t->shape = *mpc_type_get(e->ctx, t->type);
    t->made = made;
    return (fe_value){.kind = FE_TENSOR, .t = t};
}

fe_tensor *fe_tensor_copy(fe_elab *e, const fe_tensor *t) {
    fe_tensor *copy = fe_alloc(e, sizeof *copy);
    if (copy) *copy = *t;
    return copy;
}

const mpc_type *fe_type(fe_value v) { return &v.t->shape; }

const char *fe_dims_text(fe_elab *e, const int64_t *dims, uint32_t rank) {
    mpc_str s = {0};
    mpc_str_append(&s, "[");
    for (uint32_t i = 0; i < rank; i++) mpc_str_printf(&s, i ? ", %lld" : "%lld", (long long)dims[i]);
    mpc_str_append(&s, "]");
    const char *text = fe_format(e, "%s", mpc_str_cstr(&s));
    mpc_str_free(&s);
    return text;
}

const char *fe_shape_text(fe_elab *e, fe_value v) {
    if (v.kind != FE_TENSOR) return fe_kind_name(v.kind);
    const mpc_type *t = fe_type(v);
    mpc_str s = {0};
    mpc_str_append(&s, "[");
    uint32_t lead = fe_lead(e, v);
    for (uint32_t i = lead; i < t->rank; i++) {
        if (i > lead) mpc_str_append(&s, ", ");
        if (v.t->names[i]) mpc_str_append(&s, mpc_sym_text(e->ctx, v.t->names[i]));
        else mpc_str_printf(&s, "%lld", (long long)t->dims[i]);
    }
    mpc_str_append(&s, "]");
    const char *text = fe_format(e, "%s", mpc_str_cstr(&s));
    mpc_str_free(&s);
    return text;
}
