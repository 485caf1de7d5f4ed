/* The data section: where each split comes from, and which expression feeds each input of the model. Opening files is
 * the driver's. */
#include <string.h>

#include "frontend/fe_data.h"
#include "frontend/fe_train.h"

static void add_source(mpc_model *m, const char *split, mpc_span at, const fe_setting *setting) {
    static const char *const splits[] = {"train", "valid", "test", "predict"};
    bool known = false;
    for (size_t i = 0; i < 4; i++) known = known || strcmp(splits[i], split) == 0;
    if (!known) {
        fe_error(&m->diag, "E205", at, "there is no split `%s`; splits are train, valid, test and predict", split);
        return;
    }
    mpc_data_source s = {.split = split, .span = at};
    if (!fe_read_source(m, setting->expr, &s)) return;
    for (size_t i = 0; i < m->sources.count; i++) {
        if (strcmp(m->sources.data[i].split, split) != 0) continue;
        if (setting->origin != FE_FROM_COMMAND) {
            fe_error(&m->diag, "E205", at, "the split `%s` has two sources", split);
            return;
        }
        m->sources.data[i] = s;
        m->source_settings.data[i] = *setting;
        return;
    }
    if (!mpc_array_push(&m->sources, s) || !mpc_array_push(&m->source_settings, *setting)) m->diag.no_memory = true;
}

static void add_mapping(mpc_model *m, const fe_ast *e) {
    const fe_ast *input = NULL;
    fe_suggestion near = fe_suggest(e->text);
    for (const fe_ast *p = m->item->list.first; p; p = p->next) {
        if (p->sym == e->sym) input = p;
        fe_suggest_try(&near, p->text);
    }
    if (!input) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E202", e->name_span, "model `%s` has no input `%s`",
                               m->item->text, e->text);
        if (near.best) fe_help(&r, "did you mean `%s`?", near.best);
        fe_send(&r);
        return;
    }
    for (size_t i = 0; i < m->mappings.count; i++)
        if (m->mappings.data[i]->sym == e->sym) {
            fe_error(&m->diag, "E202", e->name_span, "`%s` is mapped twice", e->text);
            return;
        }
    if (!mpc_array_push(&m->mappings, e)) m->diag.no_memory = true;
}

static void check_splits(mpc_model *m) {
    for (size_t i = 0; i < m->sources.count; i++) {
        const mpc_data_source *s = &m->sources.data[i];
        bool found = s->kind != MPC_SOURCE_SPLIT;
        for (size_t k = 0; k < m->sources.count; k++) {
            const mpc_data_source *o = &m->sources.data[k];
            found = found || (o->kind != MPC_SOURCE_SPLIT && strcmp(o->split, s->of) == 0);
        }
        if (!found) fe_error(&m->diag, "E205", s->span, "`%s` is split from `%s`, which has no file", s->split, s->of);
    }
}

static void apply_overrides(mpc_model *m) {
    for (size_t i = 0; i < m->override_count; i++) {
        const mpc_override *o = &m->overrides[i];
        if (o->is_const || strncmp(o->key, "data.", 5) != 0) continue;
        const char *title = fe_override_title(m, o);
        const fe_ast *e = fe_parse_text(m, title, o->value);
        const char *split = mpc_arena_strdup(m->arena, o->key + 5);
        fe_setting s = {.key = split, .expr = e, .text = o->value, .origin = FE_FROM_COMMAND, .command = title};
        if (split) s.text = mpc_arena_strdup(m->arena, o->value);
        if (!split || !s.text) m->diag.no_memory = true;
        else if (e) add_source(m, split, e->span, &s);
    }
}

void fe_read_data(mpc_model *m) {
    const fe_ast *section = fe_find_section(m, "data");
    m->has_data = section != NULL;
    for (const fe_ast *e = section ? section->list.first : NULL; e; e = e->next) {
        if (e->kind == AST_INPUT_ENTRY) add_mapping(m, e);
        else if (e->kind == AST_ENTRY) {
            fe_setting s = {
                .key = e->text, .expr = e->kid[0], .text = fe_source_text(m, e->kid[0]->span), .span = e->span};
            add_source(m, e->text, e->name_span, &s);
        } else
            fe_error(&m->diag, "E205", e->span,
                     "the data section has sources and inputs: train = csv(...), input x = columns[0:8]");
    }
    apply_overrides(m);
    if (m->diag.errors || !section) return;
    check_splits(m);
}
