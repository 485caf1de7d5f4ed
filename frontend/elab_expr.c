/* Expressions. Poison in, poison out: what follows from a reported mistake says nothing. Constants never become nodes
 * by themselves; a number becomes a `const` node where it meets a tensor. */
#include <math.h>
#include <string.h>

#include "frontend/fe_elab.h"

const char *fe_kind_name(fe_kind kind) {
    static const char *const names[] = {"a mistake", "an integer", "a float",        "a truth value",
                                        "a text",    "a quantity", "a list",         "several results",
                                        "a tensor",  "a layer",    "an initialiser", "a hole `_`"};
    return names[kind];
}

fe_value fe_list_value(fe_elab *e, fe_kind kind, uint32_t count) {
    fe_value v = {.kind = kind, .count = count};
    e->work += count;
    v.items = fe_alloc(e, (count + 1) * sizeof *v.items);
    return v.items ? v : FE_POISONED;
}

fe_value fe_shape_list(fe_elab *e, const fe_tensor *t) {
    const mpc_type *type = &t->shape;
    uint32_t lead = e->mapping && t->row;
    fe_value v = fe_list_value(e, FE_LIST, type->rank - lead);
    for (uint32_t i = lead; v.kind == FE_LIST && i < type->rank; i++) v.items[i - lead] = fe_int(type->dims[i]);
    return v;
}

/* --- operators on tensors --- */

typedef struct operator_row {
    const char *text;
    mpc_op_id op;
    const char *verb;             /* "can't be added" */
    bool compares, logic, floats; /* floats: integers are converted first */
} operator_row;

static const operator_row *find_operator(const char *text) {
    static const operator_row rows[] = {
        {"+", MPC_OP_add, "added", false, false, false},
        {"-", MPC_OP_sub, "subtracted", false, false, false},
        {"*", MPC_OP_mul, "multiplied", false, false, false},
        {"/", MPC_OP_div, "divided", false, false, true},
        {"**", MPC_OP_pow, "raised to a power", false, false, true},
        {"==", MPC_OP_eq, "compared", true, false, false},
        {"!=", MPC_OP_ne, "compared", true, false, false},
        {"<", MPC_OP_lt, "compared", true, false, false},
        {"<=", MPC_OP_le, "compared", true, false, false},
        {">", MPC_OP_gt, "compared", true, false, false},
        {">=", MPC_OP_ge, "compared", true, false, false},
        {"and", MPC_OP_and, "combined", false, true, false},
        {"or", MPC_OP_or, "combined", false, true, false},
        {"maximum", MPC_OP_maximum, "compared", false, false, false},
        {"minimum", MPC_OP_minimum, "compared", false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].text, text) == 0) return &rows[i];
    return NULL;
}

static const char *differing_axes(const mpc_type *a, const mpc_type *b, fe_elab *e) {
    static const char *const image[] = {"batch", "height", "width", "channels"};
    if (a->rank != b->rank) return fe_format(e, "one has %u axes, the other %u", a->rank, b->rank);
    const char *text = "";
    uint32_t total = 0, seen = 0;
    for (uint32_t i = 0; i < a->rank; i++) total += a->dims[i] != b->dims[i];
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] == b->dims[i]) continue;
        const char *name = a->rank == 4 ? image[i] : fe_format(e, "axis %u", i);
        seen++;
        text = seen == 1 ? name : fe_format(e, "%s%s%s", text, seen == total ? " and " : ", ", name);
    }
    return fe_format(e, "%s %s", text, total == 1 ? "differs" : "differ");
}

static void meet_help(fe_elab *e, fe_report *r, const fe_ast *at, const mpc_type *a, const mpc_type *b) {
    const fe_ast *left = at->kid[0], *right = at->kid[1];
    if (!left || !right || at->kind != AST_BINARY) return;
    const char *x = fe_source_text(e->m, left->span), *y = fe_source_text(e->m, right->span);
    if (a->rank == 4 && b->rank == 4 && a->dims[0] == b->dims[0]) {
        const mpc_type *small = a->dims[1] <= b->dims[1] ? a : b, *large = small == a ? b : a;
        int64_t stride = small->dims[1] ? large->dims[1] / small->dims[1] : 1;
        fe_help(r, "bring %s to the same shape first: conv2d(%s, %lld, kernel = 1, stride = %lld) as proj",
                small == a ? y : x, small == a ? y : x, (long long)small->dims[3], (long long)stride);
    } else if (a->rank == b->rank + 1 && a->dims[a->rank - 1] == 1) {
        fe_help(r, "drop the last axis: %s[..., 0]", x);
    } else if (b->rank == a->rank + 1 && b->dims[b->rank - 1] == 1) {
        fe_help(r, "drop the last axis: %s[..., 0]", y);
    } else {
        fe_help(
            r, "an operand may be repeated only up to the other's shape; expand(x, shape) says it where that is meant");
    }
}

static void report_meeting(fe_elab *e, const fe_ast *at, const operator_row *row, fe_value a, fe_value b) {
    const mpc_type *ta = fe_type(a), *tb = fe_type(b);
    bool two = at->kind == AST_BINARY;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E020", two ? at->kid[0]->span : at->span,
                           "these two shapes can't be %s", row->verb);
    const char *differ = differing_axes(ta, tb, e);
    if (two) {
        fe_label(&r, "%s   %s", fe_shape_text(e, a), differ);
        fe_second(&r, at->kid[1]->span, "%s", fe_shape_text(e, b));
    } else fe_label(&r, "%s and %s: %s", fe_shape_text(e, a), fe_shape_text(e, b), differ);
    if (two && b.t->stride && at->kid[1]->kind == AST_NAME)
        fe_note(&r, b.t->made, "%s was made here, with %s", at->kid[1]->text, b.t->stride);
    else if (two && a.t->stride && at->kid[0]->kind == AST_NAME)
        fe_note(&r, a.t->made, "%s was made here, with %s", at->kid[0]->text, a.t->stride);
    meet_help(e, &r, at, ta, tb);
    fe_send(&r);
}

/* The language's rule: the result has the shape of one operand. */
static bool shapes_meet(fe_value a, fe_value b) {
    const mpc_type *x = fe_type(a), *y = fe_type(b);
    const mpc_type *big = x->rank >= y->rank ? x : y, *small = big == x ? y : x;
    for (int turn = 0; turn < 2; turn++) {
        bool ok = small->rank <= big->rank;
        for (uint32_t i = 0; ok && i < small->rank; i++) {
            int64_t s = small->dims[small->rank - 1 - i], d = big->dims[big->rank - 1 - i];
            ok = s == d || s == 1;
        }
        if (ok) return true;
        const mpc_type *swap = big;
        big = small;
        small = swap;
    }
    return false;
}

static fe_value number_like(fe_elab *e, const fe_ast *at, fe_value number, const operator_row *row, mpc_format other) {
    bool whole = (number.kind == FE_INT ||
                  (number.kind == FE_FLOAT && row->compares && fabs(number.f) < 1e9 && number.f == floor(number.f))) &&
                 !row->floats;
    mpc_format_kind kind = mpc_format_get(other)->kind;
    if (number.kind == FE_BOOL) return fe_scalar(e, at, number, kind == MPC_FORMAT_BOOL ? MPC_FMT_bool : MPC_FMT_f32);
    if (kind == MPC_FORMAT_INT && whole) return fe_scalar(e, at, number, other);
    return fe_scalar(e, at, number, MPC_FMT_f32);
}

/* Brings both to one kind of format: floats win over integers, integers over bools. */
static void unify(fe_elab *e, const fe_ast *at, const operator_row *row, fe_value *a, fe_value *b) {
    if (a->kind != FE_TENSOR || b->kind != FE_TENSOR) return;
    mpc_format fa = fe_type(*a)->format, fb = fe_type(*b)->format;
    bool float_a = mpc_format_is_float(fa), float_b = mpc_format_is_float(fb);
    bool both_bool = fa == MPC_FMT_bool && fb == MPC_FMT_bool;
    if (float_a && float_b) return;
    if (row->logic || (both_bool && row->compares)) return;
    if (fa == fb && !row->floats && !both_bool) return;
    if (!float_a && !float_b && !row->floats && !both_bool) {
        mpc_format wide = fa == MPC_FMT_bool ? fb : fb == MPC_FMT_bool ? fa : MPC_FMT_i64;
        *a = fe_cast(e, at, *a, wide, "front");
        *b = fe_cast(e, at, *b, wide, "front");
        return;
    }
    *a = fe_to_float(e, at, *a);
    *b = fe_to_float(e, at, *b);
}

/* Integers plus a constant keep their tie to the data. */
static fe_value keep_field(fe_elab *e, fe_value v, const char *op, fe_value a, fe_value b) {
    fe_value tensor = a.kind == FE_TENSOR ? a : b, number = a.kind == FE_TENSOR ? b : a;
    bool fits = v.kind == FE_TENSOR && tensor.kind == FE_TENSOR && tensor.t->field && number.kind == FE_INT;
    if (!fits || (*op != '+' && (*op != '-' || a.kind != FE_TENSOR)) || number.i > INT32_MAX || number.i < INT32_MIN)
        return v;
    fe_tensor *t = fe_tensor_copy(e, v.t);
    if (!t) return FE_POISONED;
    t->field = tensor.t->field;
    t->offset = tensor.t->offset + (*op == '+' ? number.i : -number.i);
    v.t = t;
    return v;
}

fe_value fe_binary(fe_elab *e, const fe_ast *at, const char *op, fe_value a, fe_value b, const char *name) {
    const operator_row *row = find_operator(op);
    if (a.kind == FE_POISON || b.kind == FE_POISON) return FE_POISONED;
    bool usable_a = a.kind == FE_TENSOR || fe_is_number(a) || a.kind == FE_BOOL,
         usable_b = b.kind == FE_TENSOR || fe_is_number(b) || b.kind == FE_BOOL;
    if (!row || !usable_a || !usable_b) {
        fe_error(e->d, "E014", at->span, "`%s` has no meaning for %s and %s", op, fe_kind_name(a.kind),
                 fe_kind_name(b.kind));
        return FE_POISONED;
    }
    fe_value x = a, y = b;
    mpc_format single = MPC_FMT_none; /* a number next to a tensor leaves its format alone */
    if (a.kind != FE_TENSOR) single = fe_type(b)->format, x = number_like(e, at, a, row, single);
    if (b.kind != FE_TENSOR) single = fe_type(a)->format, y = number_like(e, at, b, row, single);
    unify(e, at, row, &x, &y);
    fe_value both[] = {x, y};
    if (e->mapping) fe_meet_rows(e, at, both, 2);
    x = both[0];
    y = both[1];
    if (x.kind != FE_TENSOR || y.kind != FE_TENSOR) return FE_POISONED;
    if (!shapes_meet(x, y)) {
        report_meeting(e, at, row, x, y);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(e, at, row->op, name);
    fe_op_in(&o, x);
    fe_op_in(&o, y);
    if (single != MPC_FMT_none && mpc_format_is_float(single) && !row->compares && !row->logic) o.format = single;
    return keep_field(e, fe_op_end(&o), op, a, b);
}

static fe_value eval_binary(fe_elab *e, const fe_ast *at, const char *name) {
    fe_value a = fe_eval(e, at->kid[0], NULL);
    bool decided =
        a.kind == FE_BOOL && ((strcmp(at->text, "and") == 0 && !a.i) || (strcmp(at->text, "or") == 0 && a.i));
    if (decided) return a;
    fe_value b = fe_eval(e, at->kid[1], NULL);
    if (a.kind == FE_POISON || b.kind == FE_POISON) return FE_POISONED;
    if (a.kind != FE_TENSOR && b.kind != FE_TENSOR) return fe_fold_binary(e, at, a, b);
    if (*at->text == '%') {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E014", at->span, "`%%` is for constants, not for tensors");
        const char *left = fe_source_text(e->m, at->kid[0]->span), *right = fe_source_text(e->m, at->kid[1]->span);
        fe_help(&r, "the remainder of whole numbers is %s - %s * floor(%s / %s)", left, right, left, right);
        fe_send(&r);
        return FE_POISONED;
    }
    return fe_binary(e, at, at->text, a, b, name);
}

static fe_value eval_unary(fe_elab *e, const fe_ast *at, const char *name) {
    fe_value a = fe_eval(e, at->kid[0], NULL);
    if (a.kind == FE_POISON) return a;
    if (a.kind != FE_TENSOR) return fe_fold_unary(e, at, a);
    bool negate = *at->text == '-', is_bool = fe_type(a)->format == MPC_FMT_bool;
    if (negate == is_bool) {
        fe_error(e->d, "E014", at->span, "`%s` needs %s", at->text, negate ? "numbers" : "truth values");
        return FE_POISONED;
    }
    return fe_emit1(e, at, negate ? MPC_OP_neg : MPC_OP_not, a, name);
}

/* --- names --- */

fe_binding *fe_lookup(fe_elab *e, mpc_sym sym) {
    if (!e->frame) return NULL;
    for (size_t i = e->frame->bindings.count; i-- > 0;)
        if (e->frame->bindings.data[i].sym == sym) return &e->frame->bindings.data[i];
    return NULL;
}

static fe_value value_of_const(fe_elab *e, fe_const *c) {
    size_t index = (size_t)(c - e->m->consts.data);
    c->used = true;
    if (e->const_busy[index]) {
        fe_error(e->d, "E018", c->expr->span, "`%s` is defined by itself", c->item ? c->item->text : "");
        return e->consts[index] = FE_POISONED;
    }
    if (e->consts[index].kind != FE_HOLE) return e->consts[index];
    fe_frame *frame = e->frame;
    mpc_builder *builder = e->b;
    e->const_busy[index] = true;
    e->frame = NULL;
    e->b = NULL;
    fe_value v = fe_eval(e, c->expr, NULL);
    e->frame = frame;
    e->b = builder;
    e->const_busy[index] = false;
    return e->consts[index] = v;
}

static fe_value predefined(fe_elab *e, const fe_ast *at, bool *found) {
    *found = true;
    if (strcmp(at->text, "training") == 0) {
        e->training_read = true;
        return fe_bool(e->phase == MPC_PHASE_TRAIN);
    }
    if (strcmp(at->text, "vocabulary") == 0) {
        if (e->facts && e->facts->known && e->facts->vocabulary > 0) return fe_int(e->facts->vocabulary);
        if (e->facts && !e->facts->known) return fe_int(256); /* without data at hand: bytes */
        fe_error(e->d, "E016", at->span,
                 "`vocabulary` comes from text data: it is known inside the model only, with a source text(...)");
        return FE_POISONED;
    }
    if (strcmp(at->text, "zeros") == 0)
        return (fe_value){.kind = FE_INIT, .init = fe_init_value(e, (fe_init){.kind = FE_INIT_ZEROS})};
    if (strcmp(at->text, "ones") == 0)
        return (fe_value){.kind = FE_INIT, .init = fe_init_value(e, (fe_init){.kind = FE_INIT_ONES})};
    if (strcmp(at->text, "kaiming") == 0)
        return (fe_value){.kind = FE_INIT, .init = fe_init_value(e, (fe_init){.kind = FE_INIT_KAIMING})};
    if (strcmp(at->text, "xavier") == 0)
        return (fe_value){.kind = FE_INIT, .init = fe_init_value(e, (fe_init){.kind = FE_INIT_XAVIER})};
    *found = false;
    return FE_POISONED;
}

static void help_name(fe_elab *e, const fe_ast *at, const char *near, fe_report *r) {
    const char *alias = fe_alias(at->text);
    if (fe_help_elsewhere(e->m, at, false, r)) return;
    if (fe_is_module(at->text)) fe_help(r, "ops are called by their name alone: linear(x, 8), relu(x)");
    else if (near || alias) fe_help(r, "did you mean `%s`?", alias ? alias : near);
    else if (!e->frame || !e->frame->item) fe_help(r, "constants are declared at the top: const %s = ...", at->text);
}

static void unknown_name(fe_elab *e, const fe_ast *at) {
    const fe_builtin *fn = fe_find_builtin(at->text);
    if (fn || fe_find_block(e->m, at)) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E007", at->span, "`%s` is %s, not a value", at->text,
                               fn ? "an op" : "a block");
        if (fn) fe_help(&r, "call it: %s(%s)", fn->name, fe_signature(e, fn));
        fe_send(&r);
        return;
    }
    fe_suggestion s = fe_suggest(at->text);
    for (size_t i = 0; e->frame && i < e->frame->bindings.count; i++)
        fe_suggest_try(&s, mpc_sym_text(e->ctx, e->frame->bindings.data[i].sym));
    fe_suggest_names(e->m, at, false, &s);
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E007", at->span, "there is no `%s` here", at->text);
    help_name(e, at, s.best, &r);
    fe_send(&r);
}

/* The micro-batch as a number: what is said of "the batch" holds for each micro-batch. */
static void note_batch(fe_elab *e, const fe_ast *at) {
    if (e->phase != MPC_PHASE_TRAIN || e->m->config.accumulate <= 1 || e->m->batch_read || e->frame->item != e->m->item)
        return;
    e->m->batch_read = true;
    fe_report r =
        fe_begin(e->d, MPC_SEV_NOTE, "W105", at->span, "with accumulate = %lld, `batch` is the size of one micro-batch",
                 (long long)e->m->config.accumulate);
    fe_send(&r);
}

static fe_value eval_name(fe_elab *e, const fe_ast *at) {
    fe_binding *b = fe_lookup(e, at->sym);
    if (b) {
        b->used = true;
        if (b->quiet && strcmp(at->text, "batch") == 0) note_batch(e, at);
        if (!b->maybe) return b->value;
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E048", at->span, "`%s` has a value in one branch of an `if` only", at->text);
        fe_note(&r, b->span, "it is assigned here");
        fe_help(&r, "give it a value before the `if`, or in both branches");
        fe_send(&r);
        return FE_POISONED;
    }
    if (e->mapping && fe_is_field_name(e, at)) return fe_eval_field(e, at);
    fe_const *c = fe_find_const(e->m, at);
    if (c) return value_of_const(e, c);
    bool found = false;
    fe_value v = predefined(e, at, &found);
    if (!found) unknown_name(e, at);
    return v;
}

/* --- attributes --- */

static fe_value layer_parameter(fe_elab *e, const fe_ast *at, const fe_layer *layer, const char *dotted) {
    const char *path = fe_format(e, "%s.%s", layer->path, dotted);
    fe_param *p = fe_find_param(e, path);
    if (p) return p->value;
    if (!layer->applied) {
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E042", at->span, "the parameters of `%s` don't exist yet", layer->path);
        fe_note(&r, layer->at->span, "a layer's parameters are made where it is first applied");
        fe_send(&r);
        return FE_POISONED;
    }
    fe_suggestion s = fe_suggest(path);
    for (size_t i = 0; i < e->params.count; i++) fe_suggest_try(&s, e->params.data[i].path);
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E007", at->span, "the layer `%s` has no parameter `%s`", layer->path, dotted);
    if (s.best) fe_help(&r, "did you mean `%s`?", s.best);
    fe_send(&r);
    return FE_POISONED;
}

static fe_value eval_attr(fe_elab *e, const fe_ast *at) {
    const char *dotted = at->text;
    const fe_ast *base = at->kid[0];
    while (base->kind == AST_ATTR) {
        dotted = fe_format(e, "%s.%s", base->text, dotted);
        base = base->kid[0];
    }
    fe_value v = fe_eval(e, base, NULL);
    if (v.kind == FE_POISON) return v;
    if (v.kind == FE_LAYER) return layer_parameter(e, at, v.layer, dotted);
    if (v.kind == FE_TENSOR && strcmp(dotted, "shape") == 0) return fe_shape_list(e, v.t);
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E007", at->span, "%s has no `.%s`", fe_kind_name(v.kind), dotted);
    fe_help(&r, "tensors have `.shape`, layers their parameters: `.weight`");
    fe_send(&r);
    return FE_POISONED;
}

static fe_value eval_list(fe_elab *e, const fe_ast *at) {
    fe_value v = fe_list_value(e, FE_LIST, at->list.count);
    uint32_t i = 0;
    bool poison = false;
    for (const fe_ast *k = at->list.first; k && v.kind == FE_LIST; k = k->next, i++) {
        v.items[i] = fe_eval(e, k, NULL);
        if (v.items[i].kind == FE_TUPLE)
            fe_error(e->d, "E015", k->span, "several results can't be an element of a list");
        poison = poison || v.items[i].kind == FE_POISON || v.items[i].kind == FE_TUPLE;
    }
    return poison ? FE_POISONED : v;
}

static fe_value eval_kind(fe_elab *e, const fe_ast *at, const char *name) {
    switch (at->kind) {
    case AST_INT:
        return fe_int(at->integer);
    case AST_FLOAT:
        return fe_float(at->number);
    case AST_BOOL:
        return fe_bool(at->integer != 0);
    case AST_STRING:
        return (fe_value){.kind = FE_STRING, .s = at->text};
    case AST_QUANTITY:
        return (fe_value){.kind = FE_QUANTITY, .f = at->number, .unit = at->text};
    case AST_HOLE:
        return (fe_value){.kind = FE_HOLE};
    case AST_NAME:
        return eval_name(e, at);
    case AST_LIST:
        return eval_list(e, at);
    case AST_BINARY:
        return eval_binary(e, at, name);
    case AST_UNARY:
        return eval_unary(e, at, name);
    case AST_CALL:
        return fe_eval_call(e, at, name);
    case AST_INDEX:
        return fe_eval_index(e, at, name);
    case AST_ATTR:
        return eval_attr(e, at);
    default:
        break;
    }
    fe_error(e->d, "E002", at->span, "this can't be used as a value");
    return FE_POISONED;
}

fe_value fe_eval_all(fe_elab *e, const fe_ast *at, const char *name) {
    if (e->failed || e->d->no_memory || e->d->errors > FE_MAX_ERRORS) return FE_POISONED;
    if (e->depth >= FE_MAX_EVAL) {
        fe_error(e->d, "E051", at->span, "calls and expressions nest too deeply here");
        return FE_POISONED;
    }
    if (++e->work > FE_MAX_WORK) {
        fe_error(e->d, "E051", at->span, "this model takes more than %d evaluations to unroll", FE_MAX_WORK);
        e->failed = true;
        return FE_POISONED;
    }
    e->depth++;
    fe_value v = eval_kind(e, at, name);
    e->depth--;
    return v;
}

fe_value fe_eval(fe_elab *e, const fe_ast *at, const char *name) {
    fe_value v = fe_eval_all(e, at, name);
    return v.kind == FE_TUPLE && v.or_first ? v.items[0] : v;
}
