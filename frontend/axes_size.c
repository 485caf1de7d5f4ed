/* Sizes of the axes of a pattern: what the operands and the numbers given by name say, until nothing new follows. Two
 * sources that differ are an error with both of them. `...` and, in a data mapping, the batch become axes like the
 * others first, so the functions that move axes know nothing of either. */
#include <string.h>

#include "frontend/fe_axes.h"

/* --- arguments --- */

static bool is_listed(const fe_call *c, const fe_ast *value) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->ast[i] == value) return true;
    return false;
}

static void take_size(fe_call *c, fe_pattern *p, const fe_ast *arg, fe_value v) {
    fe_suggestion near = fe_suggest(arg->text);
    for (uint32_t i = 0; i < p->axis_count; i++) {
        fe_suggest_try(&near, p->axes[i].word);
        if (strcmp(p->axes[i].word, arg->text) != 0) continue;
        if (v.kind == FE_INT && v.i > 0) {
            p->axes[i].size = v.i;
            p->axes[i].sized = arg->span;
            return;
        }
        fe_error(c->e->d, v.kind == FE_INT ? "E017" : "E014", arg->kid[0]->span,
                 "the size of an axis is a constant integer of at least 1, this is %s", fe_kind_name(v.kind));
        p->bad = true;
        return;
    }
    p->bad = true;
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E028", arg->name_span, "the pattern has no axis `%s`", arg->text);
    fe_second(&r, p->at->span, "axes are named here");
    if (near.best) fe_help(&r, "did you mean `%s`?", near.best);
    fe_send(&r);
}

bool fe_pattern_arguments(fe_call *c, fe_pattern *p, fe_value *operands, const fe_ast **operand_at) {
    uint32_t count = 0;
    for (const fe_ast *arg = c->at->list.first; arg && !p->bad; arg = arg->next) {
        bool first = arg->kid[0] == c->ast[1];
        if (!first && is_listed(c, arg->kid[0])) continue;
        fe_value v = first ? c->v[1] : fe_eval(c->e, arg->kid[0], NULL);
        if (v.kind == FE_POISON) return false;
        if (arg->text && !first) {
            take_size(c, p, arg, v);
            continue;
        }
        if (v.kind != FE_TENSOR) {
            fe_error(c->e->d, "E014", arg->kid[0]->span, "%s works on tensors; this is %s", c->fn->name,
                     fe_kind_name(v.kind));
            return false;
        }
        if (count < FE_MAX_TERMS) {
            operands[count] = v;
            operand_at[count] = arg->kid[0];
        }
        count++;
    }
    if (p->bad || count == p->in_count) return !p->bad;
    fe_report r =
        fe_begin(c->e->d, MPC_SEV_ERROR, "E028", p->at->span, "the pattern is for %u tensor%s, but %s %u", p->in_count,
                 p->in_count == 1 ? "" : "s", count < p->in_count ? "there is only" : "there are", count);
    fe_help(&r, "one term for each tensor, with commas between them: \"i k, k j -> i j\"");
    fe_send(&r);
    return false;
}

/* --- `...` and the batch --- */

static uint32_t new_axis(fe_pattern *p, const char *word, mpc_span span) {
    if (p->axis_count == FE_MAX_AXES) {
        fe_error(p->e->d, "E028", span, "this text names more axes than tensors have");
        p->bad = true;
        return 0;
    }
    p->axes[p->axis_count] = (fe_axis){.word = word, .span = span, .size = -1};
    return p->axis_count++;
}

/* Puts one group with one axis at place `index` of the term. */
static void insert_group(fe_pattern *p, fe_term *t, uint32_t index, uint32_t axis, mpc_span span) {
    if (p->bad || t->group_count == FE_MAX_GROUPS || t->axis_count == FE_MAX_AXES) return;
    uint32_t first = index < t->group_count ? t->groups[index].first : t->axis_count;
    memmove(t->groups + index + 1, t->groups + index, (t->group_count - index) * sizeof *t->groups);
    memmove(t->axes + first + 1, t->axes + first, (t->axis_count - first) * sizeof *t->axes);
    t->groups[index] = (fe_group){.span = span, .first = first, .count = 1};
    t->axes[first] = axis;
    t->group_count++;
    t->axis_count++;
    for (uint32_t i = index + 1; i < t->group_count; i++) t->groups[i].first++;
}

static uint32_t rest_of(const fe_term *t) {
    for (uint32_t i = 0; i < t->group_count; i++)
        if (t->groups[i].rest) return i;
    return UINT32_MAX;
}

static void write_out_rest(fe_pattern *p, fe_term *t, const uint32_t *axes, uint32_t count) {
    uint32_t at = rest_of(t);
    if (at == UINT32_MAX) return;
    mpc_span span = t->groups[at].span;
    memmove(t->groups + at, t->groups + at + 1, (t->group_count - at - 1) * sizeof *t->groups);
    t->group_count--;
    for (uint32_t i = count; i-- > 0;) insert_group(p, t, at, axes[i], span);
}

static void wrong_rank(fe_call *c, fe_pattern *p, uint32_t i, fe_value v, const fe_ast *at) {
    const fe_term *t = &p->in[i];
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E029", t->span, "`%s` names %u ax%s, but %s has %u",
                           fe_source_text(c->e->m, t->span), t->group_count, t->group_count == 1 ? "is" : "es",
                           fe_source_text(c->e->m, at->span), fe_type(v)->rank - fe_lead(c->e, v));
    fe_label(&r, "%u", t->group_count);
    fe_second(&r, at->span, "%s", fe_shape_text(c->e, v));
    fe_help(&r, "`...` stands for any number of axes");
    fe_send(&r);
    p->bad = true;
}

/* Three dots stand for the same axes wherever they stand. */
static void expand_rest(fe_call *c, fe_pattern *p, const fe_value *operands, const fe_ast *const *operand_at) {
    uint32_t axes[MPC_MAX_RANK], count = 0;
    bool known = false;
    for (uint32_t i = 0; i < p->in_count && !p->bad; i++) {
        uint32_t at = rest_of(&p->in[i]), rank = fe_type(operands[i])->rank - fe_lead(c->e, operands[i]);
        if (at == UINT32_MAX) continue;
        uint32_t own = rank + 1 >= p->in[i].group_count ? rank + 1 - p->in[i].group_count : UINT32_MAX;
        if (own > MPC_MAX_RANK || (known && own != count)) {
            wrong_rank(c, p, i, operands[i], operand_at[i]);
            return;
        }
        for (; count < own; count++) axes[count] = new_axis(p, "...", p->in[i].groups[at].span);
        known = true;
    }
    if (!known && rest_of(&p->out) != UINT32_MAX && !p->bad) {
        fe_error(c->e->d, "E028", p->out.groups[rest_of(&p->out)].span, "`...` has no source: no operand has it");
        p->bad = true;
    }
    for (uint32_t i = 0; i < p->in_count && !p->bad; i++) write_out_rest(p, &p->in[i], axes, count);
    write_out_rest(p, &p->out, axes, count);
}

/* In a data mapping all operands become rows when one is; the batch is the first axis of every term. */
static void add_batch(fe_call *c, fe_pattern *p, fe_value *operands) {
    bool rows = false;
    for (uint32_t i = 0; i < p->in_count; i++) rows = rows || fe_lead(c->e, operands[i]);
    if (!rows) return;
    uint32_t batch = new_axis(p, "batch", p->at->span);
    for (uint32_t i = 0; i < p->in_count; i++) {
        operands[i] = fe_lift(c->e, c->at, operands[i]);
        p->bad = p->bad || operands[i].kind != FE_TENSOR;
        insert_group(p, &p->in[i], 0, batch, p->at->span);
    }
    insert_group(p, &p->out, 0, batch, p->at->span);
}

/* --- sizes --- */

static void set_size(fe_call *c, fe_pattern *p, uint32_t axis, int64_t size, mpc_span span, mpc_span value) {
    fe_axis *a = &p->axes[axis];
    if (a->size < 0) {
        a->size = size;
        a->sized = value;
    }
    if (a->size == size || p->bad) return;
    p->bad = true;
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E029", span, "the axis `%s` is %lld here and %lld elsewhere",
                           a->word, (long long)size, (long long)a->size);
    fe_label(&r, "%s", a->word);
    fe_second(&r, value, "%lld", (long long)size);
    if (a->sized.file) fe_second(&r, a->sized, "%lld", (long long)a->size);
    fe_send(&r);
}

/* "h = 12, d = 8": the parts whose size is known. */
static const char *known_parts(fe_call *c, const fe_pattern *p, const fe_term *t, const fe_group *g) {
    const char *text = "";
    for (uint32_t k = 0; k < g->count; k++) {
        const fe_axis *a = &p->axes[t->axes[g->first + k]];
        if (a->size >= 0) text = fe_format(c->e, "%s%s%s = %lld", text, *text ? ", " : "", a->word, (long long)a->size);
    }
    return text;
}

static void does_not_divide(fe_call *c, fe_pattern *p, const fe_term *t, const fe_group *g, int64_t dim,
                            const fe_ast *at) {
    int64_t known = 1;
    for (uint32_t k = 0; k < g->count; k++) {
        const fe_axis *a = &p->axes[t->axes[g->first + k]];
        if (a->size >= 0 && __builtin_mul_overflow(known, a->size, &known)) known = INT64_MAX;
    }
    p->bad = true;
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, known > 0 && dim % known ? "E022" : "E029", g->span,
                           known > 0 && dim % known ? "%lld can't be divided by %lld here"
                                                    : "this axis is %lld, but its parts make %lld",
                           (long long)dim, (long long)known);
    fe_label(&r, "%s", known_parts(c, p, t, g));
    fe_second(&r, at->span, "the axis has %lld", (long long)dim);
    fe_send(&r);
}

/* `(h d)` against one dim: checks it, or finds the size of the part that isn't known. True: something new is known. */
static bool solve_group(fe_call *c, fe_pattern *p, const fe_term *t, const fe_group *g, int64_t dim, const fe_ast *at) {
    int64_t known = 1;
    uint32_t open = UINT32_MAX, opens = 0;
    for (uint32_t k = 0; k < g->count; k++) {
        const fe_axis *a = &p->axes[t->axes[g->first + k]];
        if (a->size < 0) open = t->axes[g->first + k], opens++;
        else if (__builtin_mul_overflow(known, a->size, &known)) known = INT64_MAX;
    }
    if (opens > 1) return false;
    bool fits = opens ? known > 0 && dim % known == 0 : known == dim;
    if (!fits) does_not_divide(c, p, t, g, dim, at);
    if (!fits || !opens) return false;
    p->axes[open].size = dim / known;
    p->axes[open].sized = at->span;
    return true;
}

static bool solve_operand(fe_call *c, fe_pattern *p, uint32_t i, fe_value v, const fe_ast *at) {
    const fe_term *t = &p->in[i];
    const mpc_type *type = fe_type(v);
    bool news = false;
    for (uint32_t k = 0; k < t->group_count && !p->bad; k++) {
        const fe_group *g = &t->groups[k];
        uint32_t axis = g->count == 1 ? t->axes[g->first] : 0;
        if (g->count == 1) {
            set_size(c, p, axis, type->dims[k], g->span, at->span);
            if (!p->axes[axis].dim) p->axes[axis].dim = v.t->names[k];
        } else news = solve_group(c, p, t, g, type->dims[k], at) || news;
    }
    return news;
}

static void report_open(fe_call *c, fe_pattern *p) {
    for (uint32_t i = 0; i < p->axis_count && !p->bad; i++) {
        if (p->axes[i].size >= 0) continue;
        p->bad = true;
        fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E029", p->axes[i].span,
                               "the size of the axis `%s` is not known", p->axes[i].word);
        fe_help(&r, "say it: %s(..., %s = 4)", c->fn->name, p->axes[i].word);
        fe_send(&r);
    }
}

bool fe_pattern_sizes(fe_call *c, fe_pattern *p, fe_value *operands, const fe_ast **operand_at) {
    expand_rest(c, p, operands, operand_at);
    for (uint32_t i = 0; i < p->in_count && !p->bad; i++)
        if (p->in[i].group_count != fe_type(operands[i])->rank - fe_lead(c->e, operands[i]))
            wrong_rank(c, p, i, operands[i], operand_at[i]);
    if (!p->bad) add_batch(c, p, operands);
    for (bool news = true; news && !p->bad;) {
        news = false;
        for (uint32_t i = 0; i < p->in_count && !p->bad; i++)
            news = solve_operand(c, p, i, operands[i], operand_at[i]) || news;
    }
    report_open(c, p);
    return !p->bad;
}

/* --- moving --- */

static bool too_many(fe_call *c, uint32_t count) {
    if (count <= MPC_MAX_RANK) return false;
    fe_error(c->e->d, "E017", fe_arg_span(c, 0), "%u axes at once: tensors have at most %d", count, MPC_MAX_RANK);
    return true;
}

fe_labelled fe_axes_split(fe_call *c, const fe_pattern *p, uint32_t i, fe_value operand) {
    const fe_term *t = &p->in[i];
    fe_labelled x = {.v = FE_POISONED, .count = t->axis_count};
    int64_t dims[MPC_MAX_RANK];
    if (too_many(c, t->axis_count)) return x;
    for (uint32_t k = 0; k < t->axis_count; k++) {
        x.axes[k] = t->axes[k];
        dims[k] = p->axes[t->axes[k]].size;
    }
    x.v = fe_reshape(c->e, c->at, operand, x.count, dims);
    return x;
}

bool fe_axes_has(const fe_labelled *x, uint32_t axis) {
    for (uint32_t i = 0; i < x->count; i++)
        if (x->axes[i] == axis) return true;
    return false;
}

fe_labelled fe_axes_order(fe_call *c, fe_labelled x, const uint32_t *axes, const char *name) {
    int64_t perm[MPC_MAX_RANK];
    bool same = true;
    for (uint32_t i = 0; i < x.count; i++) {
        uint32_t k = 0;
        while (k + 1 < x.count && x.axes[k] != axes[i]) k++;
        perm[i] = k;
        same = same && k == i;
    }
    if (same || x.v.kind != FE_TENSOR) return x;
    memcpy(x.axes, axes, x.count * sizeof *axes);
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_transpose, name);
    fe_op_in(&o, x.v);
    fe_op_attr(&o, MPC_A_INTS("perm", perm, x.count));
    x.v = fe_op_end(&o);
    return x;
}

fe_value fe_axes_join(fe_call *c, const fe_pattern *p, fe_labelled x, const char *name) {
    const fe_term *t = &p->out;
    int64_t dims[MPC_MAX_RANK];
    if (too_many(c, t->group_count)) return FE_POISONED;
    bool joins = false;
    for (uint32_t k = 0; k < t->group_count; k++) joins = joins || t->groups[k].count != 1;
    x = fe_axes_order(c, x, t->axes, joins ? NULL : name);
    if (x.v.kind != FE_TENSOR) return FE_POISONED;
    for (uint32_t k = 0; k < t->group_count; k++) {
        dims[k] = 1;
        for (uint32_t n = 0; n < t->groups[k].count; n++) dims[k] *= p->axes[t->axes[t->groups[k].first + n]].size;
    }
    fe_value v = x.v;
    if (joins) {
        fe_op o = fe_op_begin(c->e, c->at, MPC_OP_reshape, name);
        fe_op_in(&o, v);
        fe_op_attr(&o, MPC_A_INTS("shape", dims, t->group_count));
        v = fe_op_end(&o);
    }
    fe_tensor *named = v.kind == FE_TENSOR ? fe_tensor_copy(c->e, v.t) : NULL;
    if (!named) return FE_POISONED;
    memset(named->names, 0, sizeof named->names);
    for (uint32_t k = 0; k < t->group_count; k++)
        if (t->groups[k].count == 1) named->names[k] = p->axes[t->axes[t->groups[k].first]].dim;
    v.t = named;
    return v;
}
