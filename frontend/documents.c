/* `##` comments document the constant, block, model or input that they stand beside or above. With them a model file
 * describes itself: what `mpc train FILE.mpg --help` says before the options that every model has. Only the text is
 * read, so a file whose data or sizes are not in order is described all the same. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_tokens.h"
#include "frontend/frontend.h"
#include "mpg_parser.h"

typedef struct describer {
    const fe_text *text;
    mpc_str *out;
} describer;

enum { COLUMN = 40 }; /* where documents begin, beside what is short enough */

static bool is_document(const fe_text *t, const fe_token *token) {
    return token->kind == FE_TOKEN_COMMENT && token->width >= 2 && t->text[token->begin + 1] == '#';
}

static void add_document(const fe_text *t, const fe_token *token, mpc_str *out) {
    uint32_t begin = token->begin;
    while (begin < token->end && strchr("# \t", t->text[begin])) begin++;
    if (begin == token->end) return;
    if (out->length) mpc_str_append(out, " ");
    mpc_str_append_n(out, t->text + begin, token->end - begin);
}

size_t fe_document_begin(const fe_text *t, const fe_ast *at) {
    const fe_token *tokens = t->tokens.data;
    size_t above = fe_token_at(t, at->span.begin);
    while (above > 0 && is_document(t, &tokens[above - 1]) && tokens[above].newlines == 1 &&
           (above == 1 || tokens[above - 1].newlines > 0))
        above--;
    return above;
}

/* Documents of an item above it, and the one behind token `last` (a comma or brace may stand between). */
static void document(const fe_text *t, const fe_ast *at, size_t last, mpc_str *out) {
    const fe_token *tokens = t->tokens.data;
    size_t first = fe_token_at(t, at->span.begin);
    for (size_t i = fe_document_begin(t, at); i < first; i++) add_document(t, &tokens[i], out);
    size_t beside = last + 1;
    if (beside < t->tokens.count && tokens[beside].kind == ',') beside++;
    bool there = beside < t->tokens.count && tokens[beside].newlines == 0 && is_document(t, &tokens[beside]);
    if (there) add_document(t, &tokens[beside], out);
}

void fe_document(const fe_text *t, const fe_ast *at, mpc_str *out) {
    size_t first = fe_token_at(t, at->span.begin), last = fe_token_at(t, at->span.end - 1);
    bool has_body = at->kind == AST_BLOCK || at->kind == AST_MODEL;
    for (size_t i = first; has_body && i < t->tokens.count; i++) {
        if (t->tokens.data[i].kind != '{') continue;
        last = i;
        break;
    }
    document(t, at, last, out);
}

/* A piece of the text on one line, without comments. */
static void add_source(const fe_text *t, mpc_span span, mpc_str *out) {
    for (size_t i = fe_token_at(t, span.begin); i < t->tokens.count && t->tokens.data[i].begin < span.end; i++) {
        const fe_token *token = &t->tokens.data[i];
        if (token->kind == FE_TOKEN_COMMENT) continue;
        const fe_token *before = token - 1;
        bool apart = token->begin > span.begin && (token->newlines > 0 || before->end < token->begin);
        bool hugs = apart && (strchr("([", t->text[before->begin]) || strchr(")],", t->text[token->begin]));
        if (apart && !hugs) mpc_str_append(out, " ");
        mpc_str_append_n(out, t->text + token->begin, token->end - token->begin);
    }
}

static void add_entry(const describer *d, const mpc_str *head, const mpc_str *about) {
    mpc_str_printf(d->out, "  %s", mpc_str_cstr(head));
    if (about->length && head->length + 2 > COLUMN) mpc_str_printf(d->out, "\n%*s", COLUMN, "");
    else if (about->length) mpc_str_printf(d->out, "%*s", (int)(COLUMN - 2 - head->length), "");
    if (about->length) mpc_str_printf(d->out, "  %s", mpc_str_cstr(about));
    mpc_str_append(d->out, "\n");
    d->out->failed = d->out->failed || head->failed || about->failed;
}

void fe_head(const fe_text *t, const fe_ast *at, mpc_str *head) {
    mpc_str_append(head, at->text);
    if (at->kind == AST_CONST || at->kind == AST_OUTPUT) {
        mpc_str_append(head, " = ");
        add_source(t, at->kid[0]->span, head);
        return;
    }
    if (at->kind == AST_PARM) {
        if (at->kid[0]) mpc_str_append(head, ": ");
        if (at->kid[0]) add_source(t, at->kid[0]->span, head);
        return;
    }
    mpc_str_append(head, "(");
    for (const fe_ast *p = at->list.first; p; p = p->next) {
        add_source(t, p->span, head);
        if (p->next) mpc_str_append(head, ", ");
    }
    mpc_str_append(head, ")");
    for (const fe_ast *r = at->kid[0]; r; r = r->next) {
        mpc_str_append(head, r == at->kid[0] ? " -> " : ", ");
        add_source(t, r->span, head);
    }
}

/* `also`: where the thing is mentioned again and may be documented, or NULL. */
static void describe(const describer *d, const fe_ast *at, const fe_ast *also) {
    mpc_str head = {0}, about = {0};
    if (at->text) fe_head(d->text, at, &head);
    else add_source(d->text, at->kid[0]->span, &head); /* an output without a name */
    fe_document(d->text, at, &about);
    if (also) fe_document(d->text, also, &about);
    add_entry(d, &head, &about);
    mpc_str_free(&head);
    mpc_str_free(&about);
}

static const fe_ast *mapping_of(const fe_text *t, const fe_ast *input) {
    for (const fe_ast *i = t->items.first; i; i = i->next) {
        if (i->kind != AST_SECTION || strcmp(i->text, "data") != 0) continue;
        for (const fe_ast *e = i->list.first; e; e = e->next)
            if (e->kind == AST_INPUT_ENTRY && strcmp(e->text, input->text) == 0) return e;
    }
    return NULL;
}

static void describe_kind(const describer *d, const fe_list *list, fe_ast_kind kind, const char *title) {
    bool any = false;
    for (const fe_ast *i = list->first; i; i = i->next) {
        if (i->kind != kind) continue;
        if (!any) mpc_str_printf(d->out, "\n%s\n", title);
        any = true;
        describe(d, i, kind == AST_PARM ? mapping_of(d->text, i) : NULL);
    }
}

static const fe_ast *find_model(const fe_list *items) {
    for (const fe_ast *i = items->first; i; i = i->next)
        if (i->kind == AST_MODEL) return i;
    return NULL;
}

static void describe_text(const describer *d) {
    const fe_ast *model = find_model(&d->text->items);
    if (model) {
        mpc_str about = {0};
        fe_document(d->text, model, &about);
        mpc_str_printf(d->out, "model %s%s%s\n", model->text, about.length ? ": " : "", mpc_str_cstr(&about));
        d->out->failed = d->out->failed || about.failed;
        mpc_str_free(&about);
    }
    describe_kind(d, &d->text->items, AST_CONST, "constants, for --const NAME=VALUE");
    if (model) describe_kind(d, &model->list, AST_PARM, "inputs");
    if (model) describe_kind(d, &model->other, AST_OUTPUT, "outputs");
    describe_kind(d, &d->text->items, AST_BLOCK, "blocks");
}

bool mpc_describe_file(mpc_context *ctx, uint32_t file, mpc_str *out) {
    mpc_arena *arena = mpc_arena_create();
    fe_text text = {0};
    bool ok = fe_text_read(ctx, arena, file, &text);
    if (ok) {
        describe_text(&(describer){&text, out});
        ok = !out->failed ||
             mpc_error(mpc_context_sink(ctx), "E901", "not enough memory to describe this file") == MPC_OK;
    }
    fe_text_free(&text);
    mpc_arena_destroy(arena);
    return ok;
}
