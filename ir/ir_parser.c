/* The text form read back: "mpir 1", the graph's head with its inputs, node lines, and the ends (next, place, arena,
 * return). Recursive descent with one token of look-ahead; the first error ends the parse and nothing of the graph
 * survives it. No input may crash it. */
#include "ir/ir_parser.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/attrs.h"
#include "ir/context_internal.h"

mpc_span mpc_ir_span(const mpc_ir_parser *p) { return (mpc_span){p->file, p->token.begin, p->token.end}; }

bool mpc_ir_fail(mpc_ir_parser *p, const char *code, mpc_span span, const char *format, ...) {
    if (p->failed) return false;
    p->failed = true;
    mpc_str text = {0};
    va_list args;
    va_start(args, format);
    mpc_str_vprintf(&text, format, args);
    va_end(args);
    mpc_error_at(p->ctx->sink, code, span, "%s", text.failed ? format : mpc_str_cstr(&text));
    mpc_str_free(&text);
    return false;
}

bool mpc_ir_no_memory(mpc_ir_parser *p) {
    if (!p->failed && !(p->b && mpc_builder_failed(p->b))) mpc_error(p->ctx->sink, "E901", "out of memory");
    p->failed = true;
    return false;
}

void mpc_ir_advance(mpc_ir_parser *p) { p->token = mpc_ir_lex(&p->lexer); }

bool mpc_ir_at_punct(const mpc_ir_parser *p, char punct) {
    return p->token.kind == MPC_TOK_PUNCT && p->token.punct == punct;
}

bool mpc_ir_at_word(const mpc_ir_parser *p, const char *word) {
    return p->token.kind == MPC_TOK_WORD && p->token.length == strlen(word) &&
           memcmp(p->token.text, word, p->token.length) == 0;
}

bool mpc_ir_unexpected(mpc_ir_parser *p, const char *wanted) {
    if (p->token.kind == MPC_TOK_BAD && !p->lexer.error) return mpc_ir_no_memory(p);
    if (p->token.kind == MPC_TOK_BAD) return mpc_ir_fail(p, p->lexer.code, mpc_ir_span(p), "%s", p->lexer.error);
    if (p->token.kind == MPC_TOK_END)
        return mpc_ir_fail(p, "E501", mpc_ir_span(p), "%s is expected, but the text ends here", wanted);
    return mpc_ir_fail(p, "E501", mpc_ir_span(p), "%s is expected here", wanted);
}

bool mpc_ir_accept(mpc_ir_parser *p, char punct) {
    bool there = mpc_ir_at_punct(p, punct);
    if (there) mpc_ir_advance(p);
    return there;
}

bool mpc_ir_expect(mpc_ir_parser *p, char punct) {
    if (mpc_ir_accept(p, punct)) return true;
    char wanted[] = {'`', punct, '`', '\0'};
    return mpc_ir_unexpected(p, wanted);
}

static bool expect_word(mpc_ir_parser *p, const char *word) {
    if (!mpc_ir_at_word(p, word)) return mpc_ir_unexpected(p, word);
    mpc_ir_advance(p);
    return true;
}

static bool parse_version(mpc_ir_parser *p) {
    if (!mpc_ir_at_word(p, "mpir"))
        return mpc_ir_fail(p, "E502", mpc_ir_span(p), "a graph file begins with the line `mpir 1`");
    mpc_ir_advance(p);
    bool one = p->token.kind == MPC_TOK_NUMBER && p->token.length == 1 && p->token.text[0] == '1';
    if (!one) return mpc_ir_fail(p, "E502", mpc_ir_span(p), "this version of mpc reads `mpir 1`");
    mpc_ir_advance(p);
    return true;
}

static bool parse_input(mpc_ir_parser *p) {
    mpc_ir_name name;
    mpc_type_id type;
    uint32_t count;
    const mpc_attr_spec *specs = mpc_input_attr_specs(p->ctx, &count);
    if (!mpc_ir_parse_name(p, &name) || !mpc_ir_expect(p, ':') || !mpc_ir_parse_type(p, &type) ||
        !mpc_ir_parse_attrs(p, "an input", specs, count, false) ||
        !mpc_ir_define(p, &name, mpc_builder_graph(p->b)->value_count))
        return false;
    mpc_sym unique = mpc_builder_unique_name(p->b, mpc_sym_text(p->ctx, name.sym));
    return mpc_builder_add_input(p->b, unique, type, p->attrs.data, (uint32_t)p->attrs.count) != MPC_NONE;
}

static bool parse_head(mpc_ir_parser *p) {
    if (!parse_version(p) || !expect_word(p, "graph")) return false;
    if (p->token.kind != MPC_TOK_GRAPH) return mpc_ir_unexpected(p, "the graph's name (@name)");
    char *name = mpc_arena_strndup(p->scratch, p->token.text, p->token.length);
    if (!name || !(p->b = mpc_builder_create(p->ctx, name))) {
        p->failed = p->failed || name; /* the builder has said so itself */
        return mpc_ir_no_memory(p);
    }
    mpc_ir_advance(p);
    if (!mpc_ir_expect(p, '(')) return false;
    if (!mpc_ir_accept(p, ')')) {
        do
            if (!parse_input(p)) return false;
        while (mpc_ir_accept(p, ','));
        if (!mpc_ir_expect(p, ')')) return false;
    }
    return mpc_ir_expect(p, '{');
}

static bool parse_next(mpc_ir_parser *p) {
    mpc_value_id state, value;
    mpc_span span = mpc_ir_span(p);
    if (!mpc_ir_parse_ref(p, &state)) return false;
    const mpc_graph *g = mpc_builder_graph(p->b);
    const mpc_node *node = mpc_producer(g, state);
    if (!node || node->op != MPC_OP_state)
        return mpc_ir_fail(p, "E511", span, "`next` binds a state, and this isn't one");
    if (mpc_idmap_find(&p->b->nexts, state)) return mpc_ir_fail(p, "E511", span, "this state already has a next value");
    if (!mpc_ir_expect(p, ',') || !mpc_ir_parse_ref(p, &value)) return false;
    mpc_build_next(p->b, state, value);
    return true;
}

static bool parse_place(mpc_ir_parser *p) {
    mpc_ir_place entry = {.place.kind = MPC_PLACE_ARENA};
    mpc_span span = mpc_ir_span(p);
    if (!mpc_ir_parse_ref(p, &entry.value)) return false;
    if (mpc_idmap_find(&p->placed, entry.value)) return mpc_ir_fail(p, "E511", span, "this value already has a place");
    if (mpc_ir_at_word(p, "in")) {
        mpc_ir_advance(p);
        entry.place.kind = MPC_PLACE_IN_VALUE;
        if (!mpc_ir_parse_ref(p, &entry.place.value)) return false;
    } else if (!expect_word(p, "at") || !mpc_ir_parse_unsigned(p, UINT64_MAX, &entry.place.offset) ||
               !expect_word(p, "size") || !mpc_ir_parse_unsigned(p, UINT64_MAX, &entry.place.bytes)) {
        return false;
    }
    if (!mpc_idmap_add(&p->placed, entry.value, 0) || !mpc_array_push(&p->places, entry)) return mpc_ir_no_memory(p);
    return true;
}

static bool parse_output(mpc_ir_parser *p) {
    mpc_span span = mpc_ir_span(p);
    if (p->token.kind != MPC_TOK_STRING) return mpc_ir_unexpected(p, "an output's name in quotes");
    mpc_sym name = mpc_intern_n(p->ctx, p->token.text, p->token.length);
    if (!p->token.length) return mpc_ir_fail(p, "E511", span, "an output needs a name");
    if (!name) return mpc_ir_no_memory(p);
    if (mpc_idmap_find(&p->b->outputs, name))
        return mpc_ir_fail(p, "E511", span, "there are two outputs `%s`", mpc_sym_text(p->ctx, name));
    mpc_ir_advance(p);
    mpc_value_id value;
    if (!mpc_ir_expect(p, ':') || !mpc_ir_parse_ref(p, &value)) return false;
    mpc_build_output(p->b, mpc_sym_text(p->ctx, name), value);
    return true;
}

static bool parse_return(mpc_ir_parser *p) {
    if (!mpc_ir_expect(p, '(')) return false;
    if (!mpc_ir_accept(p, ')')) {
        do
            if (!parse_output(p)) return false;
        while (mpc_ir_accept(p, ','));
        if (!mpc_ir_expect(p, ')')) return false;
    }
    if (!mpc_ir_expect(p, '}')) return false;
    return p->token.kind == MPC_TOK_END || mpc_ir_unexpected(p, "the end of the text");
}

/* One line that isn't a node and isn't `return`. */
static bool parse_end_line(mpc_ir_parser *p) {
    bool is_next = mpc_ir_at_word(p, "next"), is_place = mpc_ir_at_word(p, "place");
    if (!is_next && !is_place && !mpc_ir_at_word(p, "arena"))
        return mpc_ir_unexpected(p, "a node, next, place, arena or return");
    mpc_ir_advance(p);
    if (is_next) return parse_next(p);
    return is_place ? parse_place(p) : mpc_ir_parse_unsigned(p, UINT64_MAX, &p->arena_bytes);
}

static bool parse_body(mpc_ir_parser *p) {
    while (!mpc_ir_at_word(p, "return")) {
        bool ok = p->token.kind == MPC_TOK_VALUE ? mpc_ir_parse_node(p) : parse_end_line(p);
        if (!ok || mpc_builder_failed(p->b)) return false;
    }
    mpc_ir_advance(p);
    return parse_return(p);
}

static bool set_groups(mpc_ir_parser *p, mpc_graph *g) {
    if (!p->any_group) return true;
    g->groups = mpc_arena_alloc(g->arena, (g->node_count + 1) * sizeof *g->groups);
    if (!g->groups) return mpc_ir_no_memory(p);
    memcpy(g->groups, p->groups.data, g->node_count * sizeof *g->groups);
    return true;
}

static bool set_places(mpc_ir_parser *p, mpc_graph *g) {
    g->arena_bytes = p->arena_bytes;
    if (!p->places.count) return true;
    g->places = mpc_arena_alloc(g->arena, (g->value_count + 1) * sizeof *g->places);
    if (!g->places) return mpc_ir_no_memory(p);
    for (size_t i = 0; i < p->places.count; i++) g->places[p->places.data[i].value] = p->places.data[i].place;
    return true;
}

static mpc_graph *finish(mpc_ir_parser *p) {
    mpc_graph *g = mpc_builder_finish(p->b);
    p->b = NULL;
    if (!g) return NULL;
    if (set_groups(p, g) && set_places(p, g)) return g;
    mpc_graph_destroy(g);
    return NULL;
}

static void free_parser(mpc_ir_parser *p) {
    mpc_builder_destroy(p->b);
    mpc_arena_destroy(p->scratch);
    mpc_str_free(&p->lexer.buffer);
    mpc_idmap_free(&p->values);
    mpc_idmap_free(&p->placed);
    mpc_array_free(&p->names);
    mpc_array_free(&p->operands);
    mpc_array_free(&p->operand_types);
    mpc_array_free(&p->types);
    mpc_array_free(&p->attrs);
    mpc_array_free(&p->ints);
    mpc_array_free(&p->groups);
    mpc_array_free(&p->places);
}

mpc_graph *mpc_graph_parse(mpc_context *ctx, uint32_t file) {
    size_t length;
    const char *text = mpc_sources_text(ctx->sources, file, &length);
    mpc_ir_parser p = {.ctx = ctx, .file = file, .lexer = {.text = text, .length = (uint32_t)length}};
    p.scratch = mpc_arena_create();
    if (!p.scratch) {
        mpc_error(ctx->sink, "E901", "out of memory");
        return NULL;
    }
    mpc_ir_advance(&p);
    bool ok = parse_head(&p) && parse_body(&p);
    mpc_graph *g = ok ? finish(&p) : NULL;
    free_parser(&p);
    return g;
}
