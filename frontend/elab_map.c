/* The data mapping: expressions over the source's fields become the first nodes of the graph. Fields are the graph's
 * inputs; an expression sees one row, the batch axis in front is implied (reshape adds it). Integers remember which
 * field they come from, so that what the model needs of them (class ids, token ids) becomes a range the data are
 * checked against. */
#include <string.h>

#include "frontend/fe_data.h"

bool fe_is_field_name(const fe_elab *e, const fe_ast *at) {
    const fe_ast *name = at->kind == AST_INDEX || at->kind == AST_CALL ? at->kid[0] : at;
    if (!e->mapping || name->kind != AST_NAME) return false;
    static const char *const words[] = {"columns", "column", "window", "next", "field", "images", "labels"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name->text) == 0) return true;
    return false;
}

static mpc_value_id field_input(fe_elab *e, const fe_ast *at, const fe_field *f) {
    const fe_ast *whole = at;
    bool direct = false;
    for (size_t i = 0; i < e->m->mappings.count; i++) {
        const fe_ast *entry = e->m->mappings.data[i];
        direct = direct || (entry->kid[0] == whole && entry->sym == e->mapping->sym);
    }
    fe_set_place(e, at->span);
    const char *name = direct ? e->mapping->text : fe_format(e, "%s.field", e->mapping->text);
    mpc_builder_set_name(e->b, name);
    mpc_attr_arg attrs[] = {MPC_A_STR("source", f->source), MPC_A_STR("model", f->inputs)};
    return mpc_build_input(e->b, name, f->type, attrs, 2);
}

/* One field may go into several inputs. */
static void add_input(fe_elab *e, fe_field *f, const char *input) {
    for (const char *at = f->inputs; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length == strlen(input) && memcmp(at, input, length) == 0) return;
        at += length + (at[length] == ',');
    }
    f->inputs = fe_format(e, "%s,%s", f->inputs, input);
}

fe_value fe_field_value(fe_elab *e, const fe_ast *at, const char *source, uint32_t rank, const int64_t *dims) {
    if (!fe_want_builder(e, at)) return FE_POISONED;
    fe_field f = {.source = source, .input = e->mapping->text, .inputs = e->mapping->text, .span = at->span};
    f.type = mpc_type_make(e->ctx, e->mapping_format, rank, dims);
    if (!f.type) {
        fe_error(e->d, "E203", at->span, "this field would be too large");
        return FE_POISONED;
    }
    uint32_t index = UINT32_MAX;
    for (size_t i = 0; i < e->fields.count; i++)
        if (strcmp(e->fields.data[i].source, source) == 0 && e->fields.data[i].type == f.type) index = (uint32_t)i;
    if (index == UINT32_MAX) {
        index = (uint32_t)e->fields.count;
        f.id = field_input(e, at, &f);
        if (f.id == MPC_NONE) e->failed = true;
        if (e->failed || !mpc_array_push(&e->fields, f)) return fe_no_memory_value(e);
    } else add_input(e, &e->fields.data[index], f.input);
    fe_value v = fe_tensor_value(e, e->fields.data[index].id, at->span);
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(e, v.t) : NULL;
    if (!t) return FE_POISONED;
    t->row = true;
    if (mpc_format_get(e->mapping_format)->kind == MPC_FORMAT_INT) t->field = index + 1;
    v.t = t;
    return v;
}

static bool column_count_known(const fe_elab *e) { return e->facts && e->facts->known && e->facts->columns > 0; }

static fe_value field_columns(fe_elab *e, const fe_ast *at) {
    const fe_ast *sub = at->kind == AST_INDEX ? at->list.first : NULL;
    fe_value a = fe_int(0), b = fe_int(column_count_known(e) ? e->facts->columns : 0);
    bool ok = sub && at->list.count == 1 && sub->integer != FE_SUB_ELLIPSIS;
    if (ok && sub->kid[0]) a = fe_eval(e, sub->kid[0], NULL);
    bool index = ok && sub->integer == FE_SUB_INDEX;
    if (index) b = a.kind == FE_INT && a.i < INT32_MAX ? fe_int(a.i + 1) : a;
    else if (ok && sub->kid[1]) b = fe_eval(e, sub->kid[1], NULL);
    ok = ok && a.kind == FE_INT && b.kind == FE_INT && a.i >= 0 && a.i < b.i && b.i <= INT32_MAX;
    if (!ok) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E204", at->span,
                               "columns are chosen by constant numbers: columns[64], or columns[0:64] for 0 to 63");
        fe_send(&r);
        return FE_POISONED;
    }
    if (column_count_known(e) && b.i > e->facts->columns) {
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E204", at->span, "the data have no column %lld", (long long)b.i - 1);
        fe_label(&r, "there are %lld columns, 0 to %lld", (long long)e->facts->columns,
                 (long long)e->facts->columns - 1);
        fe_send(&r);
        return FE_POISONED;
    }
    int64_t dims[] = {e->batch, b.i - a.i};
    if (index) return fe_field_value(e, at, fe_format(e, "columns[%lld]", (long long)a.i), 1, dims);
    return fe_field_value(e, at, fe_format(e, "columns[%lld:%lld]", (long long)a.i, (long long)b.i), 2, dims);
}

static fe_value field_column(fe_elab *e, const fe_ast *at) {
    const fe_ast *sub = at->kind == AST_INDEX && at->list.count == 1 ? at->list.first->kid[0] : NULL;
    if (!sub || sub->kind != AST_STRING) {
        fe_error(e->d, "E204", at->span, "a column is chosen by its name in the header: column[\"label\"]");
        return FE_POISONED;
    }
    bool known = column_count_known(e);
    bool found = !known;
    fe_suggestion s = fe_suggest(sub->text);
    for (int64_t i = 0; known && e->facts->column_names && i < e->facts->columns; i++) {
        found = found || strcmp(e->facts->column_names[i], sub->text) == 0;
        fe_suggest_try(&s, e->facts->column_names[i]);
    }
    if (!found) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E204", sub->span,
                               e->facts->column_names ? "the data have no column \"%s\""
                                                      : "the data have no header, so no column \"%s\"",
                               sub->text);
        if (s.best) fe_help(&r, "did you mean column[\"%s\"]?", s.best);
        fe_send(&r);
        return FE_POISONED;
    }
    return fe_field_value(e, at, fe_format(e, "column[\"%s\"]", sub->text), 1, &e->batch);
}

const mpc_data_source *fe_text_source(const mpc_model *m) {
    for (size_t i = 0; i < m->sources.count; i++)
        if (m->sources.data[i].kind == MPC_SOURCE_TEXT || m->sources.data[i].kind == MPC_SOURCE_TOKENS)
            return &m->sources.data[i];
    return NULL;
}

static fe_value field_window(fe_elab *e, const fe_ast *at, const char *source) {
    const mpc_data_source *s = fe_text_source(e->m);
    if (!s) {
        fe_error(e->d, "E204", at->span, "`%s` needs a source of text or tokens: train = text(\"file.txt\", length = 128)",
                 source);
        return FE_POISONED;
    }
    int64_t dims[] = {e->batch, s->length};
    return fe_field_value(e, at, source, 2, dims);
}

fe_value fe_eval_field(fe_elab *e, const fe_ast *at) {
    const fe_ast *name = at->kind == AST_NAME ? at : at->kid[0];
    if (strcmp(name->text, "columns") == 0) return field_columns(e, at);
    if (strcmp(name->text, "column") == 0) return field_column(e, at);
    if (strcmp(name->text, "window") == 0 && at->kind == AST_NAME) return field_window(e, at, "window");
    if (strcmp(name->text, "next") == 0) {
        const fe_ast *arg = at->kind == AST_CALL && at->list.count == 1 ? at->list.first->kid[0] : NULL;
        if (arg && arg->kind == AST_NAME && strcmp(arg->text, "window") == 0)
            return field_window(e, at, "next(window)");
        fe_error(e->d, "E204", at->span, "`next` is written next(window)");
        return FE_POISONED;
    }
    return fe_array_field(e, at);
}

/* --- model inputs --- */

static bool free_dim(fe_elab *e, const fe_ast *dim, int64_t *size) {
    const fe_const *c = fe_find_const(e->m, dim);
    if (c || fe_lookup(e, dim->sym)) return false;
    if (strcmp(dim->text, "batch") == 0) {
        *size = e->batch;
        return true;
    }
    const mpc_data_source *s = fe_text_source(e->m);
    if (s && strcmp(dim->text, "time") == 0) {
        *size = s->length;
        return true;
    }
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E050", dim->span, "the size `%s` has no source", dim->text);
    fe_help(&r,
            "`batch` comes from train, `time` from text(..., length = n) or tokens(...); anything else is a constant: const %s = ...",
            dim->text);
    fe_send(&r);
    *size = -1;
    return true;
}

static bool input_dims(fe_elab *e, const fe_ast *type, int64_t *dims, mpc_sym *names) {
    uint32_t i = 0;
    for (const fe_ast *d = type->list.first; d; d = d->next, i++) {
        names[i] = d->kind == AST_NAME ? d->sym : 0;
        if (d->kind == AST_NAME && free_dim(e, d, &dims[i])) {
            if (dims[i] < 0) return false;
            fe_bind(e, d, fe_int(dims[i]), true);
            continue;
        }
        fe_value v = fe_eval(e, d, NULL);
        if (v.kind == FE_POISON) return false;
        dims[i] = v.kind == FE_INT ? v.i : 0;
        if (v.kind == FE_INT && v.i > 0) continue;
        fe_error(e->d, "E014", d->span, "a size of an input is a positive constant integer");
        return false;
    }
    return true;
}

void fe_mapping_mismatch(fe_elab *e, const fe_ast *value_at, fe_value v, const int64_t *dims, uint32_t rank) {
    const mpc_type *t = fe_type(v);
    int64_t have = t->rank ? mpc_type_elements(t) / (t->dims[0] ? t->dims[0] : 1) : 1, want = 1;
    for (uint32_t i = 1; i < rank; i++) want *= dims[i];
    if (have == want) {
        fe_report same =
            fe_begin(e->d, MPC_SEV_ERROR, "E203", value_at->span, "the mapping gives %s where the input is %s",
                     fe_dims_text(e, t->dims, t->rank), fe_dims_text(e, dims, rank));
        fe_help(&same, "reshape(%s, %s): sizes of one row, without the batch", fe_source_text(e->m, value_at->span),
                fe_dims_text(e, dims + 1, rank - 1));
        fe_send(&same);
        return;
    }
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E203", value_at->span, "%lld value%s can't become %s (%lld)",
                           (long long)have, have == 1 ? "" : "s", fe_dims_text(e, dims + 1, rank - 1), (long long)want);
    const fe_ast *sub = value_at->kind == AST_INDEX ? value_at->list.first : NULL;
    fe_value a = sub && sub->kid[0] ? fe_eval(e, sub->kid[0], NULL) : fe_int(0);
    bool columns = sub && sub->integer == FE_SUB_RANGE && value_at->kid[0]->kind == AST_NAME &&
                   strcmp(value_at->kid[0]->text, "columns") == 0 && a.kind == FE_INT;
    if (columns) {
        fe_label(&r, "columns %lld to %lld; the end is not included", (long long)a.i, (long long)(a.i + have - 1));
        fe_help(&r, "columns[%lld:%lld]", (long long)a.i, (long long)(a.i + want));
    } else fe_label(&r, "%s", fe_shape_text(e, v));
    if (column_count_known(e)) {
        const char *file = e->m->sources.count ? e->m->sources.data[0].path : "the data";
        fe_note(&r, (mpc_span){0}, "%s has %lld columns and %s header", file ? mpc_path_name(file) : "the data",
                (long long)e->facts->columns, e->facts->column_names ? "a" : "no");
    }
    fe_send(&r);
}

/* What an input of that many values a row could read: for the help of an input that nothing feeds. */
static const char *likely_field(fe_elab *e, const fe_ast *parm) {
    int64_t want = 1, have = column_count_known(e) ? e->facts->columns : 0;
    const fe_ast *type = parm->kid[0];
    bool single = type && type->list.count <= 1;
    if (fe_text_source(e->m)) return "window, or next(window)";
    for (const fe_ast *d = type && type->list.first ? type->list.first->next : NULL; d; d = d->next) {
        fe_value v = fe_eval(e, d, NULL);
        if (v.kind != FE_INT || v.i < 1 || __builtin_mul_overflow(want, v.i, &want)) return "columns[i:j]";
    }
    if (single) return have ? fe_format(e, "columns[%lld]", (long long)have - 1) : "columns[i]";
    if (have && want > have) return fe_format(e, "... (the data have %lld columns)", (long long)have);
    const char *columns = fe_format(e, "columns[0:%lld]", (long long)want);
    if (type->list.count == 2) return columns;
    mpc_span sizes = {type->span.file, type->list.first->next->span.begin, type->list.last->span.end};
    return fe_format(e, "reshape(%s, [%s])", columns, fe_source_text(e->m, sizes));
}

static fe_value unfed(fe_elab *e, const fe_ast *parm) {
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E202", parm->name_span, "nothing feeds the input `%s`", parm->text);
    fe_help(&r, "say in the data section where it comes from: input %s = %s", parm->text, likely_field(e, parm));
    fe_send(&r);
    return FE_POISONED;
}

static fe_value not_by_rows(fe_elab *e, const fe_ast *parm, const fe_ast *type) {
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E050", type->span, "the first size of an input that data feed is `batch`");
    mpc_str rest = {0};
    for (const fe_ast *d = type->list.first ? type->list.first->next : NULL; d; d = d->next)
        mpc_str_printf(&rest, ", %s", fe_source_text(e->m, d->span));
    fe_help(&r, "%s: %s[batch%s]; how many rows that are is said by `batch` in train", parm->text, type->text,
            mpc_str_cstr(&rest));
    fe_send(&r);
    mpc_str_free(&rest);
    return FE_POISONED;
}

static bool begins_with_batch(const fe_elab *e, const fe_ast *type) {
    const fe_ast *first = type->list.first;
    return first && first->kind == AST_NAME && strcmp(first->text, "batch") == 0 && !fe_find_const(e->m, first);
}

static const fe_ast *mapping_of(const mpc_model *m, mpc_sym sym) {
    for (size_t i = 0; i < m->mappings.count; i++)
        if (m->mappings.data[i]->sym == sym) return m->mappings.data[i];
    return NULL;
}

/* What the mapping gives, in the input's format. */
static fe_value convert(fe_elab *e, const fe_ast *at, fe_value v, mpc_format want) {
    if (v.kind != FE_TENSOR) return v;
    mpc_format have = fe_type(v)->format;
    if (have == want) return v;
    if (mpc_format_is_float(want)) return fe_cast(e, at, v, want, "front");
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E203", at->span, "the mapping gives %s, the input is %s",
                           mpc_format_get(have)->name, mpc_format_get(want)->name);
    fe_help(&r, "cast(%s, %s) cuts off what doesn't fit", fe_source_text(e->m, at->span), mpc_format_get(want)->name);
    fe_send(&r);
    return FE_POISONED;
}

static fe_value eval_mapping(fe_elab *e, const fe_ast *parm, const fe_ast *entry, mpc_type_id type) {
    const mpc_type want = *mpc_type_get(e->ctx, type);
    const fe_ast *expr = entry->kid[0];
    fe_frame *model = e->frame;
    if (!fe_push_frame(e, NULL, entry->span, parm->text)) return FE_POISONED;
    e->frame->caller = NULL; /* the mapping isn't called from the model */
    e->mapping = parm;
    e->mapping_format = want.format;
    e->mapping_type = type;
    fe_value v = fe_eval(e, expr, parm->text);
    if (v.kind != FE_TENSOR && v.kind != FE_POISON) {
        fe_error(e->d, "E203", expr->span, "an input is made from fields of the data; this is %s",
                 fe_kind_name(v.kind));
        v = FE_POISONED;
    }
    if (v.kind == FE_TENSOR && !fe_lead(e, v)) {
        fe_error(e->d, "E203", expr->span, "an input is made from fields of the data; this is the same for every row");
        v = FE_POISONED;
    }
    v = convert(e, expr, v, want.format);
    e->mapping = NULL;
    e->frame->caller = model;
    fe_pop_frame(e);
    if (v.kind != FE_TENSOR) return v;
    const mpc_type *got = fe_type(v);
    if (got->rank == want.rank && memcmp(got->dims, want.dims, want.rank * sizeof *want.dims) == 0) return v;
    fe_mapping_mismatch(e, expr, v, want.dims, want.rank);
    return FE_POISONED;
}

static fe_value plain_input(fe_elab *e, const fe_ast *parm, mpc_type_id type) {
    fe_field f = {.source = "", .input = parm->text, .inputs = parm->text, .span = parm->span, .type = type};
    mpc_attr_arg attrs[] = {MPC_A_STR("model", parm->text)};
    fe_set_place(e, parm->span);
    mpc_builder_set_name(e->b, parm->text);
    f.id = mpc_build_input(e->b, parm->text, type, attrs, 1);
    if (f.id == MPC_NONE) e->failed = true;
    if (e->failed || !mpc_array_push(&e->fields, f)) return fe_no_memory_value(e);
    fe_value v = fe_tensor_value(e, f.id, parm->span);
    if (v.kind != FE_TENSOR || mpc_format_get(mpc_type_get(e->ctx, type)->format)->kind != MPC_FORMAT_INT) return v;
    fe_tensor *t = fe_tensor_copy(e, v.t);
    if (!t) return FE_POISONED;
    t->field = (uint32_t)e->fields.count;
    v.t = t;
    return v;
}

static void name_dims(fe_elab *e, fe_value *v, const mpc_sym *names) {
    if (v->kind != FE_TENSOR) return;
    fe_tensor *t = fe_tensor_copy(e, v->t);
    fe_history *h = fe_alloc(e, sizeof *h);
    if (!t || !h) return;
    const mpc_type *type = &t->shape;
    memcpy(t->names, names, sizeof t->names);
    if (type->rank == 4) {
        *h = (fe_history){.height = type->dims[1], .width = type->dims[2]};
        t->history = h;
    }
    v->t = t;
}

static void map_input(fe_elab *e, const fe_ast *parm) {
    const fe_ast *type = parm->kid[0];
    int64_t dims[MPC_MAX_RANK] = {0};
    mpc_sym names[MPC_MAX_RANK] = {0};
    mpc_format format = type && type->text ? mpc_format_find(type->text) : MPC_FMT_none;
    bool usable = format == MPC_FMT_f32 || format == MPC_FMT_i32 || format == MPC_FMT_bool || format == MPC_FMT_i64 ||
                  format == MPC_FMT_u8;
    if (!type || !type->integer || !usable || type->list.count > MPC_MAX_RANK) {
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E014", parm->span, "an input needs the format and shape of the data");
        fe_help(&r, "%s: f32[batch, 784]; formats are f32, i32, i64, u8 and bool", parm->text);
        fe_send(&r);
        fe_bind(e, parm, FE_POISONED, true);
        return;
    }
    fe_value v = FE_POISONED;
    if (input_dims(e, type, dims, names)) {
        mpc_type_id id = mpc_type_make(e->ctx, format, type->list.count, dims);
        const fe_ast *entry = mapping_of(e->m, parm->sym);
        bool fed = entry || !e->m->has_data, rows = !entry || begins_with_batch(e, type);
        if (!id) fe_error(e->d, "E017", type->span, "this input would be too large");
        else if (!fed) v = unfed(e, parm);
        else if (!rows) v = not_by_rows(e, parm, type);
        else v = entry ? eval_mapping(e, parm, entry, id) : plain_input(e, parm, id);
        name_dims(e, &v, names);
    }
    fe_bind(e, parm, v, false);
}

void fe_map_inputs(fe_elab *e) {
    for (const fe_ast *p = e->m->item->list.first; p; p = p->next) map_input(e, p);
}

void fe_limit_range(fe_elab *e, fe_value v, int64_t k, const char *what) {
    if (v.kind != FE_TENSOR || !v.t->field || e->masked || e->in_metric) return;
    fe_field *f = &e->fields.data[v.t->field - 1];
    int64_t lo = -v.t->offset, hi = k - v.t->offset;
    if (!f->ranged || lo > f->lo || hi < f->hi) f->where = fe_format(e, "%s -> %s", f->input, what);
    if (!f->ranged || lo > f->lo) f->lo = lo;
    if (!f->ranged || hi < f->hi) f->hi = hi;
    f->ranged = true;
}
