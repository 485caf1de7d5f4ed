/* The completed file: what was run, readable and loadable. Constants and the train section are written with their final
 * values, the rest as it stands in the file. With origins, each line says where its value came from. */
#include <string.h>

#include "frontend/fe_params.h"
#include "frontend/fe_train.h"

static void print_origin(const mpc_model *m, bool origins, mpc_span span, fe_origin origin, const char *command,
                         mpc_str *out) {
    if (origins && origin == FE_FROM_DEFAULT) mpc_str_append(out, "  # default");
    else if (origins && origin == FE_FROM_COMMAND) mpc_str_printf(out, "  # %s", command);
    else if (origins) {
        uint32_t line = 0, column = 0;
        fe_locate(m, span, &line, &column);
        mpc_str_printf(out, "  # %s:%u", mpc_sources_name(mpc_context_sources(m->ctx), span.file), line);
    }
    mpc_str_append(out, "\n");
}

static void append_source(const mpc_model *m, mpc_span span, mpc_str *out) {
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(m->ctx), span.file, &length);
    if (text && span.end <= length) mpc_str_append_n(out, text + span.begin, span.end - span.begin);
}

static void print_quoted(const char *text, mpc_str *out) {
    mpc_str_append(out, "\"");
    for (; *text; text++) {
        if (*text == '\n' || *text == '\t') mpc_str_append(out, *text == '\n' ? "\\n" : "\\t");
        else {
            if (*text == '"' || *text == '\\') mpc_str_append(out, "\\");
            mpc_str_append_n(out, text, 1);
        }
    }
    mpc_str_append(out, "\"");
}

/* `use` by the name that the file's copy has in a run's folder. */
static void print_copy(const mpc_model *m, const fe_ast *use, const char *folder, mpc_str *out) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s%s", folder, m->files.data[use->integer].copy);
    print_quoted(mpc_str_cstr(&path), out);
    out->failed = out->failed || path.failed;
    mpc_str_free(&path);
}

static void print_uses(const mpc_model *m, bool origins, bool copies, mpc_str *out) {
    for (const fe_ast *i = m->items.first; i; i = i->next) {
        if (i->kind != AST_USE) continue;
        mpc_str_append(out, "use ");
        for (const fe_ast *n = i->list.first; n; n = n->next)
            mpc_str_printf(out, "%s%s", n->text, n->next ? ", " : " from ");
        if (copies) print_copy(m, i, "used/", out);
        else print_quoted(i->text, out);
        print_origin(m, origins, i->span, FE_FROM_FILE, NULL, out);
    }
    for (size_t i = 0; i < m->consts.count && !copies; i++) {
        const fe_const *c = &m->consts.data[i];
        if (!c->command || c->item->span.file == m->file) continue;
        mpc_str_printf(out, "# const %s of %s  # %s\n", c->item->text,
                       mpc_sources_name(mpc_context_sources(m->ctx), c->item->span.file), c->command);
    }
}

static void print_items(const mpc_model *m, bool origins, mpc_str *out) {
    for (size_t i = 0; i < m->consts.count; i++) {
        const fe_const *c = &m->consts.data[i];
        if (c->item->span.file != m->file) continue;
        mpc_str_printf(out, "const %s = ", c->item->text);
        append_source(m, c->expr->span, out);
        print_origin(m, origins, c->item->span, c->command ? FE_FROM_COMMAND : FE_FROM_FILE, c->command, out);
    }
    for (const fe_ast *i = m->items.first; i; i = i->next) {
        if (i->kind != AST_BLOCK && i->kind != AST_MODEL) continue;
        mpc_str_append(out, "\n");
        append_source(m, i->span, out);
        mpc_str_append(out, "\n");
    }
}

/* The resolved path that a quoted text in a source stands for; NULL: that text is no path. */
static const char *resolved_path(const mpc_data_source *s, const char *text, size_t n) {
    const char *paths[] = {s->path, s->labels};
    for (size_t i = 0; i < 2 && n > 0; i++) {
        size_t whole = paths[i] ? strlen(paths[i]) : 0;
        bool ends = n <= whole && memcmp(paths[i] + whole - n, text, n) == 0;
        if (ends && (n == whole || paths[i][whole - n - 1] == '/')) return paths[i];
    }
    for (uint32_t i = 0; i < s->part_count; i++) {
        const char *path = resolved_path(&s->parts[i], text, n);
        if (path) return path;
    }
    return NULL;
}

/* A source's text with its paths, which end like the resolved ones, made absolute. */
static void print_source(const char *text, const mpc_data_source *s, const char *folder, mpc_str *out) {
    for (const char *open; folder && (open = strchr(text, '"')) != NULL;) {
        const char *close = strchr(open + 1, '"');
        const char *path = close ? resolved_path(s, open + 1, (size_t)(close - open - 1)) : NULL;
        if (!close) break;
        mpc_str_append_n(out, text, (size_t)(open + 1 - text));
        if (path) mpc_str_printf(out, "%s%s%s", *path == '/' ? "" : folder, *path == '/' ? "" : "/", path);
        else mpc_str_append_n(out, open + 1, (size_t)(close - open - 1));
        mpc_str_append(out, "\"");
        text = close + 1;
    }
    mpc_str_append(out, text);
}

static void print_data(const mpc_model *m, bool origins, const char *folder, mpc_str *out) {
    if (!m->sources.count && !m->mappings.count) return;
    mpc_str_append(out, "\ndata {\n");
    for (size_t i = 0; i < m->source_settings.count; i++) {
        const fe_setting *s = &m->source_settings.data[i];
        mpc_str_printf(out, "    %s = ", s->key);
        print_source(s->text, &m->sources.data[i], folder, out);
        print_origin(m, origins, s->span, s->origin, s->command, out);
    }
    for (size_t i = 0; i < m->mappings.count; i++) {
        const fe_ast *e = m->mappings.data[i];
        mpc_str_printf(out, "    input %s = ", e->text);
        append_source(m, e->kid[0]->span, out);
        print_origin(m, origins, e->span, FE_FROM_FILE, NULL, out);
    }
    mpc_str_append(out, "}\n");
}

static void print_agreements(const mpc_model *m, bool origins, mpc_str *out) {
    for (size_t i = 0; i < m->agreements.count; i++) {
        const fe_agreement *a = &m->agreements.data[i];
        mpc_str_append(out, "    agree = [\"");
        for (const char *at = a->globs; *at; at++)
            if (*at == '|') mpc_str_append(out, "\", \"");
            else mpc_str_append_n(out, at, 1);
        mpc_str_append(out, "\"]");
        print_origin(m, origins, a->span, FE_FROM_FILE, NULL, out);
    }
}

/* As it stands in the file, but for the path of a file to load. */
static void print_value(const mpc_model *m, const fe_ast *entry, const char *folder, mpc_str *out) {
    const fe_ast *value = entry->kid[0];
    bool loads = strcmp(entry->text, "load") == 0 || strcmp(entry->text, "from") == 0;
    const char *path = loads && folder && value->kind == AST_STRING ? fe_beside_model(m, value->text) : NULL;
    mpc_str full = {0};
    if (path) mpc_str_printf(&full, "%s%s%s", *path == '/' ? "" : folder, *path == '/' ? "" : "/", path);
    if (path) print_quoted(mpc_str_cstr(&full), out);
    else append_source(m, value->span, out);
    out->failed = out->failed || full.failed;
    mpc_str_free(&full);
}

static void print_selectors(const mpc_model *m, bool origins, const char *folder, mpc_str *out) {
    if (m->params.count) mpc_str_append(out, "\nparams {\n");
    for (size_t i = 0; i < m->params.count; i++) {
        const fe_selector *s = &m->params.data[i];
        mpc_str_append(out, "    ");
        print_quoted(s->glob, out);
        mpc_str_append(out, " {");
        print_origin(m, origins, s->span, FE_FROM_FILE, NULL, out);
        for (const fe_ast *e = s->entries; e; e = e->next) {
            mpc_str_printf(out, "        %s = ", e->text);
            print_value(m, e, folder, out);
            mpc_str_append(out, "\n");
        }
        mpc_str_append(out, "    }\n");
    }
    if (m->params.count) mpc_str_append(out, "}\n");
    if (m->policy.count || m->agreements.count) mpc_str_append(out, "\npolicy {\n");
    for (size_t i = 0; i < m->policy.count; i++) {
        const fe_selector *s = &m->policy.data[i];
        mpc_str_append(out, "    ");
        if (s->is_op) mpc_str_append(out, s->glob);
        else print_quoted(s->glob, out);
        mpc_str_printf(out, " = %s", mpc_format_get(s->format)->name);
        print_origin(m, origins, s->span, FE_FROM_FILE, NULL, out);
    }
    print_agreements(m, origins, out);
    if (m->policy.count || m->agreements.count) mpc_str_append(out, "}\n");
}

static void print_all(const mpc_model *m, bool origins, const char *folder, mpc_str *out) {
    print_items(m, origins, out);
    print_data(m, origins, folder, out);
    print_selectors(m, origins, folder, out);
    mpc_str_append(out, "\ntrain {\n");
    for (size_t k = 0; fe_train_key_at(k); k++) {
        for (size_t i = 0; i < m->train.count; i++) {
            const fe_setting *s = &m->train.data[i];
            if (strcmp(s->key, fe_train_key_at(k)->name) != 0) continue;
            mpc_str_printf(out, "    %s = %s", s->key, s->text);
            print_origin(m, origins, s->span, s->origin, s->command, out);
        }
    }
    mpc_str_append(out, "}\n");
}

/* --- copies of the files that are used --- */

static const fe_const *const_of(const mpc_model *m, const fe_ast *item) {
    for (size_t i = 0; i < m->consts.count; i++)
        if (m->consts.data[i].item == item) return &m->consts.data[i];
    return NULL;
}

void mpc_model_print_used(const mpc_model *m, size_t index, mpc_str *out) {
    const fe_file *file = &m->files.data[index + 1];
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(m->ctx), file->id, &length);
    uint32_t at = 0;
    for (const fe_ast *i = file->items.first; i; i = i->next) {
        const fe_const *c = i->kind == AST_CONST ? const_of(m, i) : NULL;
        if (i->kind != AST_USE && (!c || !c->command)) continue;
        mpc_span old = c ? i->kid[0]->span : i->name_span;
        mpc_str_append_n(out, text + at, old.begin - at);
        if (c) append_source(m, c->expr->span, out);
        else print_copy(m, i, "", out);
        at = old.end;
    }
    mpc_str_append_n(out, text + at, length - at);
}

size_t mpc_model_used_count(const mpc_model *m) { return m->files.count - 1; }
uint32_t mpc_model_used_file(const mpc_model *m, size_t i) { return m->files.data[i + 1].id; }
const char *mpc_model_used_copy(const mpc_model *m, size_t i) { return m->files.data[i + 1].copy; }

void mpc_model_print_config(const mpc_model *m, bool origins, mpc_str *out) {
    print_uses(m, origins, false, out);
    print_all(m, origins, NULL, out);
}

void mpc_model_print_resolved(const mpc_model *m, const char *folder, mpc_str *out) {
    print_uses(m, true, true, out);
    print_all(m, true, folder, out);
}
