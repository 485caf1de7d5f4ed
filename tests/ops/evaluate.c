/* The evaluator as a whole: states come from the reader, each mode rounds what it says, a hook can stop it, and tensors
 * survive the way to storage bytes and back in every format. */
#include <math.h>

#include "../check.h"
#include "ir/builder.h"
#include "ir/eval/eval.h"

typedef struct setting {
    mpc_context *ctx;
    mpc_arena *arena;
    mpc_graph *graph; /* y = cast(w * x, bf16); z = y + w */
    mpc_tensor x;
    double w;
    uint32_t seen; /* nodes that the hook has seen */
} setting;

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    setting *s = user;
    mpc_tensor t = mpc_tensor_make(s->arena, mpc_value_type(g, mpc_result(state, 0)));
    CHECK_STR(mpc_attr_str(g, state, "name"), "w");
    t.data[0] = s->w;
    return t;
}

static setting begin(void) {
    setting s = {.ctx = mpc_context_create(NULL, NULL), .arena = mpc_arena_create(), .w = 3};
    mpc_builder *b = mpc_builder_create(s.ctx, "g");
    mpc_type_id scalar = mpc_type_make(s.ctx, MPC_FMT_f32, 0, NULL);
    mpc_value_id x = mpc_build_input(b, "x", scalar, NULL, 0), w = mpc_build_state(b, "w", scalar, NULL, 0);
    mpc_value_id y = mpc_build_cast(b, mpc_build2(b, MPC_OP_mul, w, x), MPC_FMT_bf16, "user");
    mpc_build_output(b, "y", y);
    mpc_build_output(b, "z", mpc_build2(b, MPC_OP_add, y, w));
    s.graph = mpc_builder_finish(b);
    s.x = mpc_tensor_make(s.arena, &(mpc_type){.format = MPC_FMT_f32});
    s.x.data[0] = 1.01;
    return s;
}

static void end(setting *s) {
    mpc_graph_destroy(s->graph);
    mpc_arena_destroy(s->arena);
    mpc_context_destroy(s->ctx);
}

static double output(setting *s, const mpc_eval_options *options, const char *name) {
    mpc_tensor *values = mpc_arena_alloc(s->arena, s->graph->value_count * sizeof *values);
    CHECK(mpc_evaluate(s->graph, &s->x, read_state, s, options, s->arena, values) == MPC_OK);
    const mpc_tensor *t = &values[mpc_graph_find_output(s->graph, name)];
    return t->data != NULL ? t->data[0] : -1;
}

static void each_mode_rounds_what_it_says(void) {
    setting s = begin();
    mpc_eval_options f64 = {.f64 = true};
    CHECK(output(&s, NULL, "y") == 3.03125); /* 3.03 in bf16 */
    CHECK(output(&s, NULL, "z") == 6.03125);
    CHECK(fabs(output(&s, &f64, "z") - 6.03) < 1e-12);
    end(&s);
}

static bool stop_at_second(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    setting *s = user;
    CHECK(node == s->seen && results[0].type.format == mpc_value_format(g, g->nodes[node].result_begin));
    return ++s->seen < 2;
}

static void hook_sees_each_node_and_stops(void) {
    setting s = begin();
    mpc_eval_options options = {.after = stop_at_second, .user = &s};
    CHECK(output(&s, &options, "z") == -1);
    CHECK(s.seen == 2);
    end(&s);
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

static void missing_state_is_a_failure(void) {
    setting s = begin();
    mpc_tensor *values = mpc_arena_alloc(s.arena, s.graph->value_count * sizeof *values);
    CHECK(mpc_evaluate(s.graph, &s.x, no_state, NULL, NULL, s.arena, values) == MPC_NO_MEMORY);
    end(&s);
}

static void bytes_keep_every_value(void) {
    static const double x[] = {0, -0.0, 1, -1, 0.3, 1e-7, 240, 1e9, 1e300, -1e300, (double)INFINITY, (double)NAN};
    enum { COUNT = sizeof x / sizeof *x };
    mpc_arena *arena = mpc_arena_create();
    for (mpc_format f = MPC_FMT_none + 1; f < MPC_FMT_builtin_count; f++) {
        double bytes[COUNT];
        mpc_type type = {.format = f, .rank = 1, .dims = {COUNT}};
        mpc_tensor a = mpc_tensor_make(arena, &type), b = mpc_tensor_make(arena, &type);
        for (int i = 0; i < COUNT; i++) a.data[i] = mpc_round_to(f, x[i]);
        mpc_tensor_to_bytes(&a, bytes);
        mpc_tensor_from_bytes(&b, bytes);
        for (int i = 0; i < COUNT; i++) {
            bool same = a.data[i] == b.data[i] || (a.data[i] != a.data[i] && b.data[i] != b.data[i]);
            CHECK_MSG(same && signbit(a.data[i]) == signbit(b.data[i]), "%s: %.9g becomes %.9g",
                      mpc_format_get(f)->name, a.data[i], b.data[i]);
        }
    }
    mpc_arena_destroy(arena);
}

static void integers_saturate_and_truncate(void) {
    CHECK(mpc_round_to(MPC_FMT_i32, 2.9) == 2 && mpc_round_to(MPC_FMT_i32, -2.9) == -2);
    CHECK(mpc_round_to(MPC_FMT_i32, 1e10) == 2147483647 && mpc_round_to(MPC_FMT_i32, -1e10) == -2147483648.0);
    CHECK(mpc_round_to(MPC_FMT_i32, (double)NAN) == 0 && mpc_round_to(MPC_FMT_u8, -3) == 0);
    CHECK(mpc_round_to(MPC_FMT_bool, 0.5) == 1 && mpc_round_to(MPC_FMT_bool, (double)NAN) == 1);
}

int main(void) {
    each_mode_rounds_what_it_says();
    hook_sees_each_node_and_stops();
    missing_state_is_a_failure();
    bytes_keep_every_value();
    integers_saturate_and_truncate();
    return check_result();
}
