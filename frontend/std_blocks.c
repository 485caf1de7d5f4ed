/* What a file of std/ offers, for who chooses among its blocks: signature and document of each, and where its text
 * stands, which begins with the `##` lines above it. */
#include <string.h>

#include "frontend/fe_model.h"
#include "frontend/fe_tokens.h"

static bool visit_block(const fe_text *t, const fe_ast *block, const mpc_block_visitor *visitor) {
    mpc_str signature = {0}, document = {0};
    fe_head(t, block, &signature);
    fe_document(t, block, &document);
    bool ok = !signature.failed && !document.failed;
    mpc_block_info info = {.name = block->text,
                           .signature = mpc_str_cstr(&signature),
                           .document = mpc_str_cstr(&document),
                           .span = block->span};
    info.span.begin = t->tokens.data[fe_document_begin(t, block)].begin;
    if (ok) visitor->visit(visitor->user, &info);
    mpc_str_free(&signature);
    mpc_str_free(&document);
    return ok;
}

static bool visit_blocks(const fe_text *t, const mpc_block_visitor *visitor) {
    for (const fe_ast *i = t->items.first; i; i = i->next)
        if (i->kind == AST_BLOCK && !visit_block(t, i, visitor)) return false;
    return true;
}

bool mpc_std_blocks(mpc_context *ctx, const mpc_std_file *file, const mpc_block_visitor *visitor) {
    mpc_arena *arena = mpc_arena_create();
    fe_text text = {0};
    uint32_t id = mpc_sources_add(mpc_context_sources(ctx), file->name, *file->text, strlen(*file->text));
    bool ok = arena && id;
    if (ok && !fe_text_read(ctx, arena, id, &text)) ok = false;
    else if (!ok || !visit_blocks(&text, visitor)) {
        mpc_error(mpc_context_sink(ctx), "E901", "not enough memory to read %s", file->name);
        ok = false;
    }
    fe_text_free(&text);
    mpc_arena_destroy(arena);
    return ok;
}
