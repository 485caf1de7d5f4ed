/* The builder: names, defaults, the sticky error, replaced ends, copies; and the accessors that read what it wrote. */
#include "tests/ir/ir_test.h"

static void names_are_unique_and_deterministic(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_type_id type = type2(s->ctx, MPC_FMT_f32, 2, 2);
    mpc_value_id x = mpc_build_input(b, "x", type, NULL, 0);
    mpc_value_id a = mpc_build1(b, MPC_OP_relu, x), c = mpc_build1(b, MPC_OP_relu, a);
    mpc_builder_set_name(b, "x");
    mpc_value_id d = mpc_build1(b, MPC_OP_neg, c);
    mpc_builder_set_name(b, "x");
    mpc_value_id e = mpc_build1(b, MPC_OP_neg, d);
    mpc_builder_set_name(b, "norm");
    mpc_value_id gamma =
        mpc_build_state(b, "norm.scale", mpc_type_make(s->ctx, MPC_FMT_f32, 1, (const int64_t[]){2}), NULL, 0);
    mpc_builder_set_name(b, "norm");
    mpc_value_id y = mpc_build3(b, MPC_OP_layer_norm, e, gamma, gamma);
    mpc_value_id w = mpc_build_state(b, "fc.weight", type, NULL, 0);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g);
    if (!g) return;
    const mpc_value_id values[] = {a, c, d, e, gamma, y, y + 1, y + 2, w};
    static const char *const names[] = {"relu_1", "relu_2",   "x:2",      "x:3",      "norm",
                                        "norm:2", "norm:2.1", "norm:2.2", "fc.weight"};
    for (size_t i = 0; i < 9; i++) CHECK_STR(mpc_value_name(g, values[i]), names[i]);
    CHECK(mpc_graph_find_value(g, "x:3") == e && mpc_graph_find_value(g, "nothing") == MPC_NONE);
    mpc_graph_destroy(g);
}

static void defaults_are_not_stored_but_read(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_value_id w = mpc_build_state(
        b, "w", type2(s->ctx, MPC_FMT_f32, 4, 4),
        (const mpc_attr_arg[]){MPC_A_STR("skip", "keep"), MPC_A_FLOAT("lr", 2), MPC_A_BOOL("trainable", 0)}, 3);
    mpc_value_id y = mpc_build(
        b, MPC_OP_matmul, (const mpc_value_id[]){w, w}, 2,
        (const mpc_attr_arg[]){MPC_A_BOOL("tb", 1), MPC_A_BOOL("ta", 0), MPC_A_FORMAT("acc", MPC_FMT_f32)}, 3);
    mpc_value_id r = mpc_build_reduce(b, MPC_OP_sum, y, (const int64_t[]){1}, 1, true);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g);
    if (!g) return;
    const mpc_node *state = mpc_producer(g, w), *matmul = mpc_producer(g, y), *sum = mpc_producer(g, r);
    CHECK(state->attr_count == 2 && matmul->attr_count == 1 && sum->attr_count == 2);
    CHECK_STR(mpc_attr_str(g, state, "skip"), "keep");
    CHECK_STR(mpc_attr_str(g, state, "name"), "w");
    CHECK(mpc_attr_float(g, state, "lr") == 2 && mpc_attr_float(g, state, "decay") == -1 &&
          !mpc_attr_bool(g, state, "trainable"));
    CHECK(mpc_attr_bool(g, matmul, "tb") && !mpc_attr_bool(g, matmul, "ta") &&
          mpc_attr_format(g, matmul, "acc") == MPC_FMT_f32);
    CHECK(mpc_attr_ints(g, sum, "axes").count == 1 && mpc_attr_ints(g, sum, "axes").data[0] == 1 &&
          mpc_attr_bool(g, sum, "keep"));
    CHECK(mpc_graph_verify(g) == MPC_OK);
    mpc_graph_destroy(g);
}

static void input_attributes_know_what_was_said(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_type_id type = type2(s->ctx, MPC_FMT_i32, 2, 2);
    mpc_build_input(b, "a", type, (const mpc_attr_arg[]){MPC_A_INT("lo", 0), MPC_A_STR("source", "window")}, 2);
    mpc_build_input(b, "b", type, NULL, 0);
    mpc_graph *g = mpc_builder_finish(b);
    int64_t value = 7;
    CHECK(g && mpc_input_attr_int(g, &g->inputs[0], "lo", &value) && value == 0);
    CHECK(g && !mpc_input_attr_int(g, &g->inputs[0], "hi", &value) &&
          !mpc_input_attr_int(g, &g->inputs[1], "lo", &value));
    CHECK_STR(mpc_input_attr_str(g, &g->inputs[0], "source"), "window");
    CHECK_STR(mpc_input_attr_str(g, &g->inputs[1], "source"), "");
    CHECK_STR(mpc_input_attr_str(g, &g->inputs[1], "lo"), "");
    mpc_graph_destroy(g);
}

typedef struct mistake {
    const char *says;
    void (*make)(session *s, mpc_builder *b, mpc_value_id x);
} mistake;

static void bad_shape(session *s, mpc_builder *b, mpc_value_id x) {
    mpc_build2(b, MPC_OP_matmul, x, mpc_build_state(b, "w", type2(s->ctx, MPC_FMT_f32, 7, 2), NULL, 0));
}
static void bad_count(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build1(b, MPC_OP_add, x); }
static void bad_operand(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build2(b, MPC_OP_add, x, MPC_NONE); }
static void bad_key(session *s, mpc_builder *b, mpc_value_id x) {
    (void)s, mpc_build(b, MPC_OP_relu, &x, 1, &MPC_A_INT("sharp", 1), 1);
}
static void bad_kind(session *s, mpc_builder *b, mpc_value_id x) {
    (void)s, mpc_build(b, MPC_OP_relu, &x, 1, &MPC_A_INT("prec", 1), 1);
}
static void bad_missing(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build1(b, MPC_OP_cast, x); }
static void bad_op(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build1(b, 100000, x); }
static void bad_next(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build_next(b, x, MPC_NONE); }
static void bad_output(session *s, mpc_builder *b, mpc_value_id x) { (void)s, mpc_build_output(b, "y", x + 9); }
static void bad_decision(session *s, mpc_builder *b, mpc_value_id x) {
    (void)s, mpc_build_decision(b, x, &(mpc_decision){.present = true});
}
static void bad_own(session *s, mpc_builder *b, mpc_value_id x) {
    (void)s, (void)x, mpc_builder_fail(b, "my %s", "own");
}

static void the_first_error_sticks_and_is_sent_once(session *s) {
    static const mistake mistakes[] = {
        {"matmul(f32[2,2], f32[7,2])", bad_shape},
        {"takes 2 operands, not 1", bad_count},
        {"operand 1 is no value", bad_operand},
        {"has no attribute `sharp`", bad_key},
        {"`prec` is format, not int", bad_kind},
        {"needs the attribute `to`", bad_missing},
        {"no such op", bad_op},
        {"is no value", bad_next},
        {"is no value", bad_output},
        {"not at an input", bad_decision},
        {"my own", bad_own},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        session_clear(s);
        mpc_builder *b = mpc_builder_create(s->ctx, "g");
        mpc_value_id x = mpc_build_input(b, "x", type2(s->ctx, MPC_FMT_f32, 2, 2), NULL, 0);
        mistakes[i].make(s, b, x);
        CHECK_MSG(mpc_builder_failed(b), "mistake %zu", i);
        uint32_t nodes = mpc_builder_graph(b)->node_count;
        CHECK(mpc_build1(b, MPC_OP_relu, x) == MPC_NONE && mpc_build_const(b, 1, MPC_FMT_f32) == MPC_NONE);
        CHECK(mpc_build_state(b, "n", type2(s->ctx, MPC_FMT_f32, 2, 2), NULL, 0) == MPC_NONE);
        CHECK(mpc_build_input(b, "z", type2(s->ctx, MPC_FMT_f32, 2, 2), NULL, 0) == MPC_NONE);
        mpc_build_output(b, "y", x);
        CHECK(mpc_builder_graph(b)->node_count == nodes);
        CHECK(!mpc_builder_finish(b));
        CHECK(mpc_diag_list_count(s->list) == 1 && session_has(s, "E900"));
        const char *message = mpc_diag_list_count(s->list) ? mpc_diag_list_get(s->list, 0)->message : "";
        CHECK_MSG(strstr(message, mistakes[i].says), "mistake %zu: %s", i, message);
    }
    session_clear(s);
    CHECK(!mpc_builder_finish(NULL) && mpc_builder_failed(NULL));
}

static void helpers_leave_out_what_does_nothing(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_value_id x = mpc_build_input(b, "x", type2(s->ctx, MPC_FMT_f32, 2, 3), NULL, 0);
    mpc_builder_set_name(b, "unused");
    CHECK(mpc_build_cast(b, x, MPC_FMT_f32, "user") == x);
    CHECK(mpc_build_reshape(b, x, 2, (const int64_t[]){2, 3}) == x);
    mpc_value_id y = mpc_build_cast(b, x, MPC_FMT_bf16, "autocast"),
                 z = mpc_build_reshape(b, y, 1, (const int64_t[]){6});
    mpc_value_id t = mpc_build_transpose(b, x, (const int64_t[]){1, 0}), k = mpc_build_const(b, 0.5, MPC_FMT_f32);
    mpc_value_id wide = mpc_build_as(b, MPC_OP_add, (const mpc_value_id[]){y, y}, 2, NULL, 0, MPC_FMT_f32);
    CHECK(mpc_builder_type(b, y)->format == MPC_FMT_bf16 && mpc_builder_type(b, z)->dims[0] == 6);
    CHECK(mpc_builder_type(b, t)->dims[0] == 3 && mpc_builder_type(b, k)->rank == 0 &&
          mpc_builder_type(b, wide)->format == MPC_FMT_f32);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g && mpc_graph_find_value(g, "unused") == MPC_NONE && g->node_count == 5 && mpc_graph_verify(g) == MPC_OK);
    mpc_graph_destroy(g);
}

static void ends_are_replaced(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_value_id w = mpc_build_state(b, "w", type2(s->ctx, MPC_FMT_f32, 2, 2), NULL, 0);
    mpc_value_id a = mpc_build1(b, MPC_OP_neg, w), c = mpc_build1(b, MPC_OP_relu, w);
    mpc_build_next(b, w, a);
    mpc_build_next(b, w, c);
    mpc_build_output(b, "y", a);
    mpc_build_output(b, "z", a);
    mpc_build_output(b, "y", c);
    mpc_build_decision(b, a, &(mpc_decision){.present = true, .compute = MPC_FMT_bf16});
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g && g->next_count == 1 && g->output_count == 2 && mpc_graph_next_of(g, w) == c &&
          mpc_graph_next_of(g, a) == MPC_NONE);
    CHECK(g && mpc_graph_find_output(g, "y") == c && mpc_graph_find_output(g, "z") == a &&
          mpc_graph_find_output(g, "q") == MPC_NONE);
    CHECK(g && g->decisions && g->decisions[1].compute == MPC_FMT_bf16 && !g->decisions[0].present &&
          !g->decisions[2].present);
    mpc_graph_destroy(g);
}

static void decisions_cover_nodes_that_come_later(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_value_id x = mpc_build_input(b, "x", type2(s->ctx, MPC_FMT_f32, 2, 2), NULL, 0);
    x = mpc_build1(b, MPC_OP_neg, x);
    mpc_build_decision(b, x, &(mpc_decision){.present = true});
    for (int i = 0; i < 5000; i++) x = mpc_build1(b, MPC_OP_neg, x);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g && g->decisions && g->decisions[0].present);
    for (uint32_t i = 1; g && i < g->node_count; i++) CHECK(!g->decisions[i].present);
    mpc_graph_destroy(g);
}

static void copies_are_equal_and_independent(session *s) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        mpc_graph *g = random_graph(s, seed, 50);
        mpc_builder *b = mpc_builder_create(s->ctx, mpc_sym_text(s->ctx, g->name));
        mpc_value_id map[500];
        mpc_build_copy_all(b, g, map);
        mpc_graph *copy = mpc_builder_finish(b);
        CHECK(copy && mpc_graph_equal(g, copy));
        mpc_graph_destroy(g);
        CHECK(copy && mpc_graph_verify(copy) == MPC_OK); /* lists of integers are its own */
        mpc_graph_destroy(copy);
    }
}

static void a_copy_may_leave_states_out(session *s) {
    mpc_graph *g = parse(s, "mpir 1 graph @g(%x: f32[2]) { %w = state() {name=w} : f32[2] %y = relu(%x) : f32[2] "
                            "loc(\"f\":1:2) next %w, %y return(\"y\": %y) }");
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    mpc_value_id map[3] = {MPC_NONE, MPC_NONE, MPC_NONE};
    mpc_build_copy_inputs(b, g, map);
    map[2] = mpc_build_copy(b, g, 1, &map[0]);
    mpc_value_id again = mpc_build_copy(b, g, 1, &map[0]);
    mpc_build_copy_ends(b, g, map);
    mpc_graph *copy = mpc_builder_finish(b);
    CHECK(copy && copy->next_count == 0 && copy->output_count == 1 && copy->node_count == 2 &&
          copy->nodes[0].loc.line == 1);
    CHECK_STR(copy ? mpc_value_name(copy, again) : "", "y:2");
    mpc_graph_destroy(copy);
    mpc_graph_destroy(g);
}

static void uses_are_in_order_once_per_operand(session *s) {
    mpc_graph *g = parse(s, "mpir 1 graph @g(%x: f32[2]) { %a = add(%x, %x) : f32[2] %b = mul(%a, %x) : f32[2] %c = "
                            "neg(%b) : f32[2] return(\"y\": %c) }");
    mpc_arena *arena = mpc_arena_create();
    mpc_uses u = mpc_graph_uses(g, arena);
    CHECK(u.begin[0] == 0 && u.begin[1] == 3 && u.begin[2] == 4 && u.begin[3] == 5 && u.begin[4] == 5);
    CHECK(u.users[0] == 0 && u.users[1] == 0 && u.users[2] == 1 && u.users[3] == 1 && u.users[4] == 2);
    CHECK(mpc_producer(g, 0) == NULL && mpc_producer(g, 1) == &g->nodes[0] &&
          mpc_node_op(g, 1) == mpc_op_get(s->ctx, MPC_OP_mul));
    mpc_arena_destroy(arena);
    mpc_graph_destroy(g);
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    names_are_unique_and_deterministic(&s);
    defaults_are_not_stored_but_read(&s);
    input_attributes_know_what_was_said(&s);
    the_first_error_sticks_and_is_sent_once(&s);
    helpers_leave_out_what_does_nothing(&s);
    ends_are_replaced(&s);
    decisions_cover_nodes_that_come_later(&s);
    copies_are_equal_and_independent(&s);
    a_copy_may_leave_states_out(&s);
    uses_are_in_order_once_per_operand(&s);
    session_show(&s);
    session_close(&s);
    return check_result();
}
