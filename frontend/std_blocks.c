/* What a file of std/ offers, for who chooses among its blocks: signature and document of each, and where its text
 * stands, which begins with the `##` lines above it. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_model.h"
#include "frontend/fe_tokens.h"

static const char *finish(mpc_arena *arena, mpc_str *s) {
    const char *text = s->failed ? NULL : mpc_arena_strdup(arena, mpc_str_cstr(s));
    mpc_str_free(s);
    return text;
}

static const char *document_text(mpc_arena *arena, const fe_text *t, const fe_ast *item) {
    mpc_str s = {0};
    fe_document(t, item, &s);
    return finish(arena, &s);
}

/* "name(x: [n, c], width: int = 8) -> [n, width]", in one line. */
static const char *signature_text(mpc_arena *arena, const fe_text *t, uint32_t begin) {
    mpc_str s = {0};
    for (const char *p = t->text + begin; *p && *p != '{'; p++) {
        bool blank = strchr(" \t\r\n", *p) != NULL;
        if (!blank) mpc_str_append_n(&s, p, 1);
        else if (p[1] && !strchr(" \t\r\n{", p[1])) mpc_str_append(&s, " ");
    }
    return finish(arena, &s);
}

static bool visit_blocks(mpc_arena *arena, const fe_text *t, const mpc_block_visitor *visitor) {
    for (const fe_ast *i = t->items.first; i; i = i->next) {
        if (i->kind != AST_BLOCK) continue;
        mpc_block_info info = {.name = i->text, .span = i->span};
        info.span.begin = t->tokens.data[fe_document_begin(t, i)].begin;
        info.signature = signature_text(arena, t, i->name_span.begin);
        info.document = document_text(arena, t, i);
        if (!info.signature || !info.document) return false;
        visitor->visit(visitor->user, &info);
    }
    return true;
}

bool mpc_std_blocks(mpc_context *ctx, const mpc_std_file *file, const mpc_block_visitor *visitor) {
    mpc_arena *arena = mpc_arena_create();
    fe_text text = {0};
    uint32_t id = mpc_sources_add(mpc_context_sources(ctx), file->name, *file->text, strlen(*file->text));
    bool ok = arena && id;
    if (ok && !fe_text_read(ctx, arena, id, &text)) ok = false;
    else if (!ok || !visit_blocks(arena, &text, visitor)) {
        mpc_error(mpc_context_sink(ctx), "E901", "not enough memory to read %s", file->name);
        ok = false;
    }
    fe_text_free(&text);
    mpc_arena_destroy(arena);
    return ok;
}
