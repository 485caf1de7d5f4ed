/* What the tests of ir share: a session (sources, collected diagnostics, context) and a random graph that uses most of
 * the text form. */
#ifndef MPC_TESTS_IR_TEST_H
#define MPC_TESTS_IR_TEST_H

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ir/builder.h"
#include "tests/check.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *list;
    mpc_sink sink;
    mpc_context *ctx;
} session;

static inline bool session_open(session *s) {
    *s = (session){.sources = mpc_sources_create(), .list = mpc_diag_list_create()};
    if (!s->sources || !s->list) return false;
    s->sink = mpc_diag_list_sink(s->list);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    return s->ctx != NULL;
}

static inline void session_close(session *s) {
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->list);
    mpc_sources_destroy(s->sources);
}

static inline void session_clear(session *s) {
    mpc_diag_list *fresh = mpc_diag_list_create();
    if (!fresh) return;
    mpc_diag_list_destroy(s->list);
    s->list = fresh;
    s->sink = mpc_diag_list_sink(fresh);
}

static inline void session_show(const session *s) {
    for (size_t i = 0; i < mpc_diag_list_count(s->list); i++) {
        mpc_str out = {0};
        mpc_diag_render(mpc_diag_list_get(s->list, i), s->sources, false, false, &out);
        fputs(mpc_str_cstr(&out), stderr);
        mpc_str_free(&out);
    }
}

static inline bool session_has(const session *s, const char *code) {
    for (size_t i = 0; i < mpc_diag_list_count(s->list); i++)
        if (strcmp(mpc_diag_list_get(s->list, i)->code, code) == 0) return true;
    return false;
}

static inline mpc_graph *parse_n(session *s, const char *text, size_t length) {
    uint32_t file = mpc_sources_add(s->sources, "test.mpir", text, length);
    return file ? mpc_graph_parse(s->ctx, file) : NULL;
}

static inline mpc_graph *parse(session *s, const char *text) { return parse_n(s, text, strlen(text)); }

static inline mpc_type_id type2(mpc_context *ctx, mpc_format format, int64_t rows, int64_t columns) {
    return mpc_type_make(ctx, format, 2, (const int64_t[]){rows, columns});
}

typedef struct dice {
    uint64_t seed, count;
} dice;

static inline uint32_t roll(dice *d, uint32_t sides) { return mpc_random_bits(d->seed, 77, 0, d->count++) % sides; }

/* Nodes on f32, bf16 and f16 matrices [4, 4], with states, decisions, odd names, locations, origins and reasons. */
static inline mpc_graph *random_graph(session *s, uint64_t seed, uint32_t node_count) {
    static const char *const names[] = {
        "x", "layer.0.w", "a b", "quo\"te", "ends:", "\xc3\xa4", "back\\slash\n", "dots..", "1"};
    static const mpc_op_id binary[] = {MPC_OP_add, MPC_OP_mul, MPC_OP_matmul, MPC_OP_maximum, MPC_OP_sub};
    static const mpc_op_id unary[] = {MPC_OP_relu, MPC_OP_exp, MPC_OP_tanh, MPC_OP_gelu, MPC_OP_stop_gradient};
    static const mpc_format floats[] = {MPC_FMT_none, MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    dice d = {seed, 0};
    mpc_context *ctx = s->ctx;
    mpc_builder *b = mpc_builder_create(ctx, seed % 2 ? "step" : "odd name");
    if (!b) return NULL;
    mpc_value_id some[64] = {0};
    uint32_t count = 0;
    mpc_value_id state = mpc_build_state(b, "fc1.weight", type2(ctx, MPC_FMT_f32, 4, 4),
                                         (const mpc_attr_arg[]){MPC_A_BOOL("trainable", 1), MPC_A_FLOAT("a", 0.1)}, 2);
    mpc_value_id input =
        mpc_build_input(b, "x", type2(ctx, MPC_FMT_f32, 4, 4),
                        (const mpc_attr_arg[]){MPC_A_STR("source", "columns[0:64]"), MPC_A_INT("hi", 0)}, 2);
    some[count++] = state;
    some[count++] = input;
    for (uint32_t i = 0; i < node_count && !mpc_builder_failed(b); i++) {
        if (roll(&d, 2)) mpc_builder_set_name(b, names[roll(&d, 9)]);
        if (roll(&d, 4) == 0)
            mpc_builder_set_loc(b, (mpc_loc){mpc_intern(ctx, "m\"odel.mpg"), roll(&d, 99), roll(&d, 99)});
        if (roll(&d, 4) == 0) mpc_builder_set_origin(b, mpc_intern(ctx, names[roll(&d, 9)]));
        if (roll(&d, 4) == 0) mpc_builder_set_why(b, mpc_intern(ctx, "N10: \"softmax\"\tin f32"));
        mpc_value_id v[2] = {some[roll(&d, count)], some[roll(&d, count)]};
        mpc_value_id made;
        uint32_t kind = roll(&d, 4);
        if (kind == 0) made = mpc_build_as(b, binary[roll(&d, 5)], v, 2, NULL, 0, floats[roll(&d, 4)]);
        else if (kind == 1) made = mpc_build_as(b, unary[roll(&d, 5)], v, 1, NULL, 0, floats[roll(&d, 4)]);
        else if (kind == 2) made = mpc_build_transpose(b, v[0], (const int64_t[]){1, 0});
        else
            made =
                mpc_build2(b, MPC_OP_mul, v[0], mpc_build_const(b, seed % 3 ? 1.0 / (i + 1) : -HUGE_VAL, MPC_FMT_f32));
        if (roll(&d, 3) == 0)
            mpc_build_decision(
                b, made, &(mpc_decision){true, floats[roll(&d, 4)], MPC_FMT_f32, MPC_FMT_none, floats[roll(&d, 4)]});
        some[count < 64 ? count++ : roll(&d, 64)] = made;
    }
    mpc_build_next(b, state, mpc_build_cast(b, mpc_build2(b, MPC_OP_add, some[count - 1], state), MPC_FMT_f32, "user"));
    mpc_build_output(b, "loss.\"ce\"", some[count - 1]);
    mpc_build_output(b, "x", input);
    return mpc_builder_finish(b);
}

/* Groups and places, as passes set them. */
static inline bool add_side_tables(mpc_graph *g, uint64_t seed) {
    dice d = {seed, 1000000};
    g->groups = mpc_arena_alloc(g->arena, (g->node_count + 1) * sizeof *g->groups);
    g->places = mpc_arena_alloc(g->arena, (g->value_count + 1) * sizeof *g->places);
    if (!g->groups || !g->places) return false;
    for (uint32_t i = 0, group = 0; i < g->node_count; i++) g->groups[i] = group += roll(&d, 3) == 0;
    for (uint32_t i = 0; i < g->value_count; i++) {
        uint64_t bytes = (uint64_t)mpc_type_bytes(mpc_value_type(g, i));
        if (roll(&d, 3) == 0) g->places[i] = (mpc_place){MPC_PLACE_ARENA, 64 * (uint64_t)i, bytes, 0};
        else if (i && roll(&d, 2)) g->places[i] = (mpc_place){MPC_PLACE_IN_VALUE, 0, 0, roll(&d, i)};
    }
    g->arena_bytes = 64 * (uint64_t)g->value_count + 64;
    return true;
}

#endif
