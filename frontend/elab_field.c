/* Fields that are arrays of numbers: field["x"] of NPY and NPZ, images and labels of IDX. Their shape is the file's;
 * where no file is at hand, or the rows to predict lack a field, it is taken to be the input's. */
#include <string.h>

#include "frontend/fe_data.h"

static const char *field_name(const fe_ast *at) {
    if (at->kind == AST_NAME) return strcmp(at->text, "field") == 0 ? NULL : at->text;
    const fe_ast *sub = at->kind == AST_INDEX && at->list.count == 1 ? at->list.first->kid[0] : NULL;
    return sub && sub->kind == AST_STRING && strcmp(at->kid[0]->text, "field") == 0 ? sub->text : NULL;
}

static const mpc_array_fact *find_fact(const fe_elab *e, const char *name) {
    for (uint32_t i = 0; e->facts && i < e->facts->array_count; i++)
        if (strcmp(e->facts->arrays[i].name, name) == 0) return &e->facts->arrays[i];
    return NULL;
}

static fe_value no_such_field(fe_elab *e, const fe_ast *at, const char *name) {
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E204", at->span, "the data have no field `%s`", name);
    fe_suggestion s = fe_suggest(name);
    for (uint32_t i = 0; i < e->facts->array_count; i++) fe_suggest_try(&s, e->facts->arrays[i].name);
    if (s.best) fe_help(&r, "did you mean `%s`?", s.best);
    mpc_str have = {0};
    for (uint32_t i = 0; i < e->facts->array_count && i < 20; i++)
        mpc_str_printf(&have, "%s%s", i ? ", " : "", e->facts->arrays[i].name);
    if (have.length) fe_note(&r, (mpc_span){0}, "there are %s", mpc_str_cstr(&have));
    fe_send(&r);
    mpc_str_free(&have);
    return FE_POISONED;
}

fe_value fe_array_field(fe_elab *e, const fe_ast *at) {
    const char *name = field_name(at);
    bool quoted = at->kind == AST_INDEX;
    if (!name) {
        fe_error(e->d, "E204", at->span, "a field is chosen by its name: field[\"x\"]");
        return FE_POISONED;
    }
    int64_t dims[MPC_MAX_RANK] = {e->batch};
    const mpc_array_fact *fact = find_fact(e, name);
    const mpc_type *want = mpc_type_get(e->ctx, e->mapping_type);
    if (!fact && e->facts && e->facts->known) return no_such_field(e, at, name);
    uint32_t rank = fact ? fact->rank + 1 : want->rank;
    for (uint32_t i = 1; i < rank; i++) dims[i] = fact ? fact->dims[i - 1] : want->dims[i];
    return fe_field_value(e, at, quoted ? fe_format(e, "field[\"%s\"]", name) : name, rank, dims);
}

static bool mentions(const fe_ast *at, const char *name) {
    for (; at; at = at->next) {
        const char *own = at->kind == AST_INDEX || at->kind == AST_NAME ? field_name(at) : NULL;
        if (own && strcmp(own, name) == 0) return true;
        for (int i = 0; i < 3; i++)
            if (at->kid[i] && mentions(at->kid[i], name)) return true;
        if (mentions(at->list.first, name)) return true;
    }
    return false;
}

bool mpc_model_maps_field(const mpc_model *m, const char *name) {
    for (size_t i = 0; i < m->mappings.count; i++)
        if (mentions(m->mappings.data[i]->kid[0], name)) return true;
    return false;
}
