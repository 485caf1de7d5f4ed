/* Expansions against the composites' own evaluation, where values are special (masks that hide everything, labels out
 * of range, ties, NaN), where f32 is delicate (bias correction), and in low formats; and what of the composite its
 * primitives keep. */
#include "support.h"

/* The expanded graph gives the same outputs; `tolerance` relative to 1 + |value|. Returns the expanded graph. */
static mpc_graph *check_expansion(fixture *f, const char *label, const char *text, double tolerance) {
    mpc_graph *g = parse(f, text), *low = apply(f, mpc_pass_expand, g);
    if (low != NULL) {
        CHECK_MSG(only_primitives(low), "%s: composites are left", label);
        check_same_outputs(f, label, g, low, tolerance);
    }
    mpc_graph_destroy(g);
    return low;
}

static void expand_in(bool exact, const char *label, const char *text, double tolerance) {
    fixture *f = open_fixture();
    f->exact = exact;
    mpc_graph_destroy(check_expansion(f, label, text, tolerance));
    close_fixture(f);
}

#define RETURN1 "  return(\"y\": %y)\n}\n"
#define RETURN2 "  return(\"y\": %y, \"z\": %z)\n}\n"

static void test_positions(void) {
    fixture *f = open_fixture();
    fix(f, "x", (double[]){1, 3, 3, 2, (double)NAN, 7, -1, -1, -1, 0, 1, 2});
    fix(f, "i", (double[]){1, 0, 2, 3});
    mpc_graph_destroy(check_expansion(
        f, "argmax takes the first maximum or NaN",
        HEAD("%x: f32[4,3]") "  %y = argmax(%x) {axis=1} : i32[4]\n  %z = argmax(%x) {axis=0} : i32[3]\n" RETURN2, 0));
    mpc_graph_destroy(check_expansion(
        f, "accuracy", HEAD("%x: f32[4,3], %i: i64[4]") "  %y = accuracy(%x, %i) : f32[4]\n" RETURN1, 0));
    mpc_graph_destroy(
        check_expansion(f, "one_hot", HEAD("%i: i32[4]") "  %y = one_hot(%i) {depth=3} : f32[4,3]\n" RETURN1, 0));
    mpc_graph_destroy(
        check_expansion(f, "gather keeps NaN out and reads NaN beyond the end",
                        HEAD("%x: f32[4,3], %i: i32[4]") "  %y = gather(%x, %i) {axis=1} : f32[4]\n" RETURN1, 0));
    mpc_graph_destroy(check_expansion(
        f, "a label out of range",
        HEAD("%x: f32[4,3], %i: i32[4]") "  %y, %z = cross_entropy(%x, %i) : f32[4], f32[4]\n" RETURN2, 1e-12));
    close_fixture(f);
}

#define MASKED \
    HEAD("%x: f32[3], %m: bool[3]") \
    "  %y, %z = loss_mean(%x, %m) : f32[], f32[]\n" \
    "  %d = loss_mean_grad(%y, %z, %m) {shape=[3]} : f32[3]\n  return(\"y\": %y, \"z\": %z, \"d\": %d)\n}\n"

static void test_masked_means(void) {
    fixture *f = open_fixture();
    fix(f, "x", (double[]){4, (double)NAN, 6});
    fix(f, "m", (double[]){1, 0, 1});
    mpc_graph_destroy(check_expansion(f, "NaN under the mask", MASKED, 1e-12));
    close_fixture(f);
    f = open_fixture();
    fix(f, "m", (double[]){0, 0, 0});
    mpc_graph *low = check_expansion(f, "nothing counts", MASKED, 1e-12);
    mpc_arena *arena = mpc_arena_create();
    if (low != NULL) CHECK(evaluate_output(f, low, "y", arena).data[0] == 0);
    mpc_arena_destroy(arena);
    mpc_graph_destroy(low);
    close_fixture(f);
}

#define ATTEND(format, mask) \
    HEAD("%q: " format "[2,3,2,4], %k: " format "[2,3,2,4], %v: " format "[2,3,2,4], %dy: " format \
         "[2,3,2,4], %m: bool[" mask "]") \
    "  %y, %l = attention(%q, %k, %v, %m) {causal=true scale=0.5} : " format "[2,3,2,4], f32[2,2,3]\n" \
    "  %dq, %dk, %dv = attention_grad(%q, %k, %v, %y, %l, %dy, %m) {causal=true scale=0.5} : " format \
    "[2,3,2,4], " format "[2,3,2,4], " format \
    "[2,3,2,4]\n  return(\"y\": %y, \"l\": %l, \"dq\": %dq, \"dk\": %dk, \"dv\": %dv)\n}\n"

static void test_blind_queries(void) {
    static const double none[9] = {0}, first_row_hidden[9] = {0, 0, 0, 1, 0, 0, 1, 1, 0};
    const double *masks[] = {none, first_row_hidden};
    for (int i = 0; i < 2; i++) {
        fixture *f = open_fixture();
        fix(f, "m", masks[i]);
        mpc_graph_destroy(check_expansion(f, "attention with hidden rows, f64", ATTEND("f32", "3,3"), 1e-12));
        f->exact = true;
        mpc_graph_destroy(check_expansion(f, "attention with hidden rows, f16", ATTEND("f16", "3,3"), 2e-3));
        mpc_graph_destroy(check_expansion(f, "attention with hidden rows, bf16", ATTEND("bf16", "3,3"), 2e-2));
        close_fixture(f);
    }
}

static void test_large_scores_do_not_overflow(void) {
    fixture *f = open_fixture();
    static const double big[8] = {3e4, -3e4, 2e4, 1, 6e4, 6e4, -6e4, 5};
    fix(f, "q", big);
    fix(f, "k", big);
    f->exact = true;
    mpc_graph_destroy(check_expansion(
        f, "scores beyond f16",
        HEAD("%q: f16[1,4,1,2], %k: f16[1,4,1,2], %v: f16[1,4,1,2]") "  %y, %z = attention(%q, %k, %v) {causal=true "
                                                                     "scale=1} : f16[1,4,1,2], f32[1,1,4]\n" RETURN2,
        1e-3));
    close_fixture(f);
}

#define ADAMW \
    HEAD("%w: f32[4], %g: f32[4], %posr: f32[], %posm: f32[4], %posv: f32[4], %t: i32[]") \
    "  %y, %z, %v = adamw(%w, %g, %posm, %posv, %posr, %t) {decay=0.01 lr=0.5} : f32[4], f32[4], f32[4]\n" \
    "  return(\"y\": %y, \"z\": %z, \"v\": %v)\n}\n"

/* In f32, 1 - 0.999^t computed by exp would be off by 3e-5 at t = 1, and the step with it. */
static void test_bias_correction_is_accurate(void) {
    static const double steps[] = {1, 2, 3, 10, 100, 1000, 12345, 1e6, 16777216};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        fixture *f = open_fixture();
        fix(f, "t", &steps[i]);
        mpc_graph_destroy(check_expansion(f, "adamw, f64", ADAMW, 1e-12));
        f->exact = true;
        mpc_graph_destroy(check_expansion(f, "adamw, f32", ADAMW, 4e-7));
        close_fixture(f);
    }
}

#define TWO_RATES \
    HEAD("%w: f32[4], %u: f32[4], %g: f32[4], %m: f32[4], %posr: f32[]") \
    "  %y, %a = sgd(%w, %g, %m, %posr) {momentum=0.9} : f32[4], f32[4]\n" \
    "  %z, %b = sgd(%u, %g, %m, %posr) {momentum=0.9 decay=0.1} : f32[4], f32[4]\n" RETURN2

/* Where another parameter decays, one that doesn't runs the same primitives, and an infinite weight stays one. */
static void test_no_decay_beside_decay(void) {
    fixture *f = open_fixture();
    fix(f, "w", (double[]){(double)INFINITY, -(double)INFINITY, 0, 3});
    mpc_graph *low = check_expansion(f, "sgd with and without decay", TWO_RATES, 1e-12);
    uint32_t selects = 0;
    for (mpc_node_id i = 0; low && i < low->node_count; i++) selects += low->nodes[i].op == MPC_OP_where;
    CHECK_MSG(selects == 2, "%u of 2 updates choose between decay and none", selects);
    mpc_graph_destroy(low);
    close_fixture(f);
}

static void test_optimizer_scalars(void) {
    for (double t = 0; t < 30; t += 1) {
        fixture *f = open_fixture();
        fix(f, "t", &t);
        mpc_graph_destroy(check_expansion(
            f, "schedules",
            HEAD("%t: i32[]") "  %y = schedule(%t) {kind=cosine rate=0.1 warmup=5 total=20 final=0.1} : f32[]\n"
                              "  %z = schedule(%t) {kind=constant rate=0.1 warmup=3} : f32[]\n" RETURN2,
            1e-12));
        close_fixture(f);
    }
    for (int i = 0; i < 8; i++) {
        fixture *f = open_fixture();
        double scale = 4, steps = (i & 4) != 0 ? 4 : 2, overflow = i & 1, clean = (i & 2) != 0;
        fix(f, "s", &scale);
        fix(f, "n", &steps);
        fix(f, "o", &overflow);
        fix(f, "c", &clean);
        mpc_graph_destroy(check_expansion(
            f, "scaler",
            HEAD("%s: f32[], %n: i32[], %o: bool[], %c: bool[]") "  %y, %z = scaler_update(%s, %n, %o, %c) {growth=4 "
                                                                 "interval=5 max=8} : f32[], i32[]\n" RETURN2,
            0));
        close_fixture(f);
    }
    expand_in(false, "sgd",
              HEAD("%w: f32[4], %g: f32[4], %m: f32[4], %r: f32[]") "  %y, %z = sgd(%w, %g, %m, %r) {momentum=0.9 "
                                                                    "decay=0.1 lr=0.5} : f32[4], f32[4]\n" RETURN2,
              1e-12);
    expand_in(false, "plain sgd",
              HEAD("%w: f32[4], %g: f32[4], %m: f32[4], %r: f32[]") "  %y, %z = sgd(%w, %g, %m, %r) : f32[4], "
                                                                    "f32[4]\n" RETURN2,
              1e-12);
}

#define NORM(format) \
    HEAD("%x: " format "[5,2,3], %g: f32[3], %b: f32[3], %rm: f32[3], %posv: f32[3], %dy: " format "[5,2,3]") \
    "  %y, %m, %r, %rm1, %rv1 = batch_norm(%x, %g, %b, %rm, %posv) : " format \
    "[5,2,3], f32[3], f32[3], f32[3], f32[3]\n" \
    "  %dx, %dg, %db = batch_norm_grad(%x, %g, %m, %r, %dy) : " format "[5,2,3], f32[3], f32[3]\n" \
    "  %u, %v, %w = layer_norm(%x, %g, %b) : " format "[5,2,3], f32[5,2], f32[5,2]\n" \
    "  %dx2, %dg2, %db2 = layer_norm_grad(%x, %g, %v, %w, %dy) : " format "[5,2,3], f32[3], f32[3]\n" \
    "  return(\"y\": %y, \"m\": %m, \"r\": %r, \"rm\": %rm1, \"rv\": %rv1, \"dx\": %dx, \"dg\": %dg, \"db\": %db, " \
    "\"u\": %u, " \
    "\"v\": %v, \"w\": %w, \"dx2\": %dx2, \"dg2\": %dg2, \"db2\": %db2)\n}\n"

static void test_normalisation(void) {
    expand_in(false, "norms, f64", NORM("f32"), 1e-12);
    expand_in(true, "norms, f32", NORM("f32"), 1e-5);
    expand_in(true, "norms, f16", NORM("f16"), 2e-3);
    expand_in(
        false, "batch norm of one row",
        HEAD("%x: f32[1,3], %g: f32[3], %b: f32[3], %rm: f32[3], %posv: f32[3]") "  %q, %m, %r, %y, %z = "
                                                                                 "batch_norm(%x, %g, %b, %rm, %posv) : "
                                                                                 "f32[1,3], f32[3], f32[3], f32[3], "
                                                                                 "f32[3]\n" RETURN2,
        1e-12);
    expand_in(false, "layer norm of a vector",
              HEAD("%x: f32[3], %g: f32[3], %b: f32[3]") "  %y, %m, %z = layer_norm(%x, %g, %b) : f32[3], f32[], "
                                                         "f32[]\n" RETURN2,
              1e-12);
}

static const mpc_node *producer_of(const mpc_graph *g, const char *name) {
    mpc_value_id v = g != NULL ? mpc_graph_find_value(g, name) : MPC_NONE;
    CHECK_MSG(v != MPC_NONE, "no value %s", name);
    return v != MPC_NONE ? mpc_producer(g, v) : NULL;
}

static void test_primitives_know_where_they_come_from(void) {
    fixture *f = open_fixture();
    mpc_graph *low = check_expansion(
        f, "softmax in bf16",
        HEAD(
            "%x: bf16[2,3]") "  %y = softmax(%x) {axis=1} : bf16[2,3] loc(\"a.mpg\":4:3) why(\"N10: softmax in f32\")\n"
                             "  %z = softmax(%y) {axis=1} : bf16[2,3] origin(\"q\")\n" RETURN2,
        1e-2);
    const mpc_node *y = producer_of(low, "y"), *e = producer_of(low, "y.exp"), *z = producer_of(low, "z");
    if (y != NULL && e != NULL && z != NULL) {
        CHECK_STR(mpc_node_op(low, (mpc_node_id)(y - low->nodes))->name, "div");
        CHECK(mpc_value_format(low, mpc_result(y, 0)) == MPC_FMT_bf16 &&
              mpc_value_format(low, mpc_result(e, 0)) == MPC_FMT_f32);
        CHECK_STR(mpc_sym_text(low->ctx, e->origin), "y");
        CHECK_STR(mpc_sym_text(low->ctx, z->origin), "q");
        const mpc_node *wide = producer_of(low, "y.cast");
        if (wide != NULL) CHECK_STR(mpc_attr_str(low, wide, "by"), "expand");
        CHECK_STR(mpc_sym_text(low->ctx, e->why), "N10: softmax in f32");
        CHECK(e->loc.line == 4 && e->loc.column == 3);
    }
    mpc_graph_destroy(low);
    close_fixture(f);
}

static void test_no_node_too_many(void) {
    fixture *f = open_fixture();
    mpc_graph *low = check_expansion(
        f, "attention",
        HEAD("%q: f32[2,3,2,4], %k: f32[2,3,2,4], %v: f32[2,3,2,4]") "  %y, %l = attention(%q, %k, %v) {scale=0.5} : "
                                                                     "f32[2,3,2,4], f32[2,2,3]\n" RETURN1,
        1e-12);
    if (low != NULL) {
        CHECK(count_op(low, "transpose") == 4 && count_op(low, "matmul") == 2 && count_op(low, "cast") == 0);
        CHECK_MSG(count_op(low, "log") == 0, "the log-sum-exp is not wanted");
        CHECK_MSG(count_op(low, "where") == 0, "there is no mask");
    }
    mpc_graph_destroy(low);
    close_fixture(f);
}

#define DROP \
    HEAD("%x: f32[64], %s: i64[], %t: i32[]") "  %y = dropout(%x, %s, %t) {rate=0.3 stream=5} : f32[64]\n" RETURN1

int main(void) {
    test_positions();
    test_masked_means();
    test_blind_queries();
    test_large_scores_do_not_overflow();
    test_bias_correction_is_accurate();
    test_no_decay_beside_decay();
    test_optimizer_scalars();
    test_normalisation();
    test_primitives_know_where_they_come_from();
    test_no_node_too_many();
    expand_in(true, "dropout", DROP, 1e-6);
    expand_in(false, "gelu at large values",
              HEAD("%x: f32[8]") "  %c = const() {value=30} : f32[]\n  %h = mul(%x, %c) : f32[8]\n"
                                 "  %y = gelu(%h) : f32[8]\n  %z = gelu_grad(%h, %x) : f32[8]\n" RETURN2,
              1e-12);
    return check_result();
}
