/* What the backward graph looks like: names, origins, formats, `prec`, one sum for a tied weight, nothing for what
 * needs no gradient, no superfluous node; and what the pass says when there is nothing to do. */
#include "base/alloc.h"
#include "passes/grad.h"
#include "support.h"

#define MLP \
    HEAD("%x: f32[4,3], %i: i32[4]") \
    PARAM("w", "3,5") \
    PARAM("b", "5") \
    PARAM("v", "5,2") \
    "  %h = linear(%x, %w, %b) {act=relu} : f32[4,5]\n  %z = linear(%h, %v) : f32[4,2]\n" \
    "  %l, %lse = cross_entropy(%z, %i) : f32[4], f32[4]\n  %loss, %n = loss_mean(%l) : f32[], f32[]\n"
#define END "  return(\"loss\": %loss)\n}\n"

static mpc_graph *differentiate(fixture *f, const char *text) {
    mpc_graph *g = parse(f, text), *dg = apply(f, mpc_pass_grad, g);
    mpc_graph_destroy(g);
    return dg;
}

static const char *origin_of(const mpc_graph *g, const char *value) {
    mpc_value_id v = mpc_graph_find_value(g, value);
    CHECK_MSG(v != MPC_NONE, "no value %s", value);
    return v == MPC_NONE ? "" : mpc_sym_text(g->ctx, mpc_producer(g, v)->origin);
}

static void test_text_of_an_mlp(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(f, MLP END);
    mpc_str text = {0};
    if (dg != NULL) mpc_graph_print(dg, MPC_PRINT_ORIGIN, &text);
    const char *body = strstr(mpc_str_cstr(&text), "  %loss.seed");
    CHECK_STR(body != NULL ? body : mpc_str_cstr(&text),
              "  %loss.seed = const() {value=1.0} : f32[] origin(\"loss\")\n"
              "  %d.l = loss_mean_grad(%loss.seed, %n) {shape=[4]} : f32[4] origin(\"loss\")\n"
              "  %d.z = cross_entropy_grad(%z, %i, %lse, %d.l) : f32[4,2] origin(\"l\")\n"
              "  %d.h = matmul(%d.z, %v) {tb=true} : f32[4,5] origin(\"z\")\n"
              "  %d.v = matmul(%h, %d.z) {ta=true} : f32[5,2] origin(\"z\")\n"
              "  %d.h.const = const() {value=0.0} : f32[] origin(\"h\")\n"
              "  %d.h.le = le(%h, %d.h.const) : bool[4,5] origin(\"h\")\n"
              "  %d.h.where = where(%d.h.le, %d.h.const, %d.h) : f32[4,5] origin(\"h\")\n"
              "  %d.w = matmul(%x, %d.h.where) {ta=true} : f32[3,5] origin(\"h\")\n"
              "  %d.b = sum(%d.h.where) {axes=[0]} : f32[5] origin(\"h\")\n"
              "  return(\"loss\": %loss, \"grad:w\": %d.w, \"grad:b\": %d.b, \"grad:v\": %d.v)\n}\n");
    mpc_str_free(&text);
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void test_tied_weight_has_one_summed_gradient(void) {
    static const char text[] = HEAD("%i: i32[2,4], %p: f32[2,4,5]")
        PARAM("t", "5,3") "  %e = embedding(%t, %i) : f32[2,4,3]\n  %y = matmul(%e, %t) {tb=true} : f32[2,4,5]\n" LOSS(
            "2,4,5", "0,1,2");
    fixture *f = open_fixture();
    check_gradients(f, "tied weight", text);
    mpc_graph *dg = differentiate(f, text);
    if (dg != NULL) {
        CHECK(count_op(dg, "add") == 1 && count_op(dg, "embedding_grad") == 1 && count_op(dg, "matmul") == 3);
        mpc_value_id sum = mpc_graph_find_output(dg, "grad:t");
        CHECK(sum != MPC_NONE && strcmp(mpc_node_op(dg, dg->values[sum].producer)->name, "add") == 0);
        CHECK_STR(origin_of(dg, mpc_value_name(dg, sum)), "t");
    }
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void test_unreached_parameter_is_warned_about(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(
        f, HEAD("") PARAM("a", "2") PARAM("b", "2") "  %y = add(%a, %a) : f32[2]\n"
                                                    "  %c = stop_gradient(%b) : f32[2]\n  %z = mul(%y, %c) : f32[2]\n"
                                                    "  %loss = sum(%z) {axes=[0]} : f32[]\n" END);
    if (dg != NULL) {
        CHECK(mpc_graph_find_output(dg, "grad:a") != MPC_NONE && mpc_graph_find_output(dg, "grad:b") == MPC_NONE);
        CHECK(mpc_diag_list_count(f->diags) == 1);
        const mpc_diag *d = mpc_diag_list_get(f->diags, 0);
        CHECK(d->severity == MPC_SEV_WARNING && strcmp(d->code, "W154") == 0 &&
              strstr(d->message, "parameter b") != NULL);
    }
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void refuse(const char *text) {
    fixture *f = open_fixture();
    mpc_pass_env env = {.ctx = f->ctx};
    mpc_graph *g = parse(f, text), *dg = g != NULL ? mpc_pass_grad(g, NULL, &env) : NULL;
    CHECK(dg == NULL && mpc_diag_list_count(f->diags) == 1);
    if (mpc_diag_list_count(f->diags) == 1) CHECK_STR(mpc_diag_list_get(f->diags, 0)->code, "E108");
    mpc_graph_destroy(dg);
    mpc_graph_destroy(g);
    close_fixture(f);
}

static void test_loss_must_be_there_and_scalar(void) {
    refuse(HEAD("") PARAM("a", "2") "  %y = add(%a, %a) : f32[2]\n  return(\"y\": %y)\n}\n");
    refuse(HEAD("") PARAM("a", "2") "  %loss = add(%a, %a) : f32[2]\n" END);
}

/* Inputs, ids, masks, running statistics: none of them costs a node. */
static void test_nothing_is_differentiated_in_vain(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(
        f, HEAD("%x: f32[4,3]")
               PARAM("b", "3") "  %u = state() {name=u} : f32[3]\n"
                               "  %e = exp(%x) : f32[4,3]\n  %q = mul(%e, %u) : f32[4,3]\n"
                               "  %y = add(%q, %b) : f32[4,3]\n  %loss = sum(%y) {axes=[0,1]} : f32[]\n" END);
    if (dg != NULL) CHECK_MSG(dg->node_count == 6 + 3, "%u nodes", dg->node_count); /* seed, expand, sum */
    mpc_graph_destroy(dg);
    close_fixture(f);
}

/* One piece is `d.NAME`; of several, each says what it came through, and the sum is `d.NAME`. */
static void test_names_of_sums(void) {
    fixture *f = open_fixture();
    mpc_graph *dg =
        differentiate(f, HEAD("%p: f32[2]") PARAM("a", "2") "  %h = exp(%a) : f32[2]\n  %u = neg(%h) : f32[2]\n"
                                                            "  %v = tanh(%h) : f32[2]\n  %w = mul(%u, %v) : f32[2]\n"
                                                            "  %y = mul(%w, %h) : f32[2]\n" LOSS("2", "0"));
    static const char *const names[] = {"d.h.via.y", "d.h.via.v", "d.h.via.u", "d.h.sum", "d.h", "d.u", "d.a"};
    for (size_t i = 0; dg != NULL && i < sizeof names / sizeof *names; i++)
        CHECK_MSG(mpc_graph_find_value(dg, names[i]) != MPC_NONE, "no value %s", names[i]);
    if (dg != NULL) CHECK_STR(origin_of(dg, "d.h"), "h");
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void test_queries_keys_values_are_joined_again(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(
        f, HEAD("%x: f32[4,3], %p: f32[4,2]")
               PARAM("w", "3,6") "  %h = linear(%x, %w) : f32[4,6]\n"
                                 "  %q = slice(%h) {start=[0,0] stop=[4,2]} : f32[4,2]\n"
                                 "  %k = slice(%h) {start=[0,2] stop=[4,4]} : f32[4,2]\n"
                                 "  %v = slice(%h) {start=[0,4] stop=[4,6]} : f32[4,2]\n"
                                 "  %s = mul(%q, %k) : f32[4,2]\n  %y = mul(%s, %v) : f32[4,2]\n" LOSS("4,2", "0,1"));
    if (dg != NULL) {
        CHECK(count_op(dg, "concat") == 1 && count_op(dg, "pad") == 0 && count_op(dg, "add") == 0);
        CHECK_STR(origin_of(dg, "d.h"), "h");
        CHECK(mpc_producer(dg, mpc_graph_find_value(dg, "d.h"))->operand_count == 3);
    }
    mpc_graph_destroy(dg);
    close_fixture(f);
}

/* The erf of gelu's gradient is the forward one: to keep a large f32 tensor for it costs more than to compute it again.
 */
static void test_large_values_are_not_kept_for_the_backward_pass(void) {
    static const struct {
        const char *text;
        uint32_t erfs;
    } cases[] = {{HEAD("") PARAM("a", "4,3") "  %y = gelu(%a) : f32[4,3]\n" SUM("4,3", "0,1"), 1},
                 {HEAD("") PARAM("a", "400,300") "  %y = gelu(%a) : f32[400,300]\n" SUM("400,300", "0,1"), 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture *f = open_fixture();
        mpc_pass_env env = {.ctx = f->ctx};
        mpc_graph *g = parse(f, cases[i].text);
        mpc_graph *low = g != NULL ? mpc_pipeline_run(g, "grad,expand,fold,cse,dce", &env, NULL) : NULL;
        CHECK(low != NULL && count_op(low, "erf") == cases[i].erfs);
        mpc_graph_destroy(low);
        mpc_graph_destroy(g);
        close_fixture(f);
    }
}

static void check_sum_to(mpc_builder *b, mpc_value_id from, uint32_t rank, const int64_t *dims) {
    mpc_value_id like =
        mpc_build_input(b, "like", mpc_type_make(mpc_builder_context(b), MPC_FMT_f32, rank, dims), NULL, 0);
    const mpc_type *t = mpc_builder_type(b, mpc_grad_sum_to(b, from, like));
    CHECK(t->rank == rank && memcmp(t->dims, dims, rank * sizeof *dims) == 0);
}

static void test_a_gradient_is_summed_to_any_operand_it_came_from(void) {
    fixture *f = open_fixture();
    mpc_builder *b = mpc_builder_create(f->ctx, "g");
    const int64_t full[3] = {2, 3, 4}, inner[2] = {3, 1}, same_rank[3] = {1, 3, 4}, last[1] = {4};
    mpc_value_id from = mpc_build_input(b, "from", mpc_type_make(f->ctx, MPC_FMT_f32, 3, full), NULL, 0);
    check_sum_to(b, from, 2, inner);
    check_sum_to(b, from, 3, same_rank);
    check_sum_to(b, from, 1, last);
    check_sum_to(b, from, 0, last);
    CHECK(mpc_grad_sum_to(b, from, from) == from);
    mpc_builder_destroy(b);
    close_fixture(f);
}

static void test_stretched_axes_need_no_reshape(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(f, HEAD("%p: f32[2,3]") PARAM("a", "2,1")
                                         PARAM("b", "1,3") "  %y = mul(%a, %b) : f32[2,3]\n" LOSS("2,3", "0,1"));
    if (dg != NULL) CHECK(count_op(dg, "reshape") == 0 && count_op(dg, "sum") == 3 && count_op(dg, "mul") == 5);
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void test_prec_is_inherited(void) {
    fixture *f = open_fixture();
    mpc_graph *dg =
        differentiate(f, HEAD("%p: f32[2,3]")
                             PARAM("a", "2,3") "  %t = tanh(%a) {prec=bf16} : f32[2,3]\n"
                                               "  %y = softmax(%t) {axis=1 prec=f32} : f32[2,3]\n" LOSS("2,3", "0,1"));
    for (uint32_t i = 0; dg != NULL && i < dg->node_count; i++) {
        const mpc_node *n = &dg->nodes[i];
        const char *origin = mpc_sym_text(dg->ctx, n->origin), *op = mpc_node_op(dg, i)->name;
        if (strcmp(origin, "t") == 0 && strcmp(op, "const") != 0)
            CHECK_MSG(mpc_attr_format(dg, n, "prec") == MPC_FMT_bf16, "%s of t", op);
        if (strcmp(origin, "y") == 0) CHECK_MSG(mpc_attr_format(dg, n, "prec") == MPC_FMT_f32, "%s of y", op);
    }
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static mpc_format format_of(const mpc_graph *g, const char *value) {
    mpc_value_id v = mpc_graph_find_value(g, value);
    CHECK_MSG(v != MPC_NONE, "no value %s", value);
    return v == MPC_NONE ? MPC_FMT_none : mpc_value_format(g, v);
}

/* The user's casts: a gradient has its value's format, but nothing is rounded on the way to a parameter. */
static void test_formats_follow_the_values(void) {
    fixture *f = open_fixture();
    mpc_graph *dg = differentiate(
        f,
        HEAD("%x: bf16[4,3]") PARAM("w", "3,2") PARAM(
            "s", "2") "  %wl = cast(%w) {to=bf16} : bf16[3,2]\n"
                      "  %m = matmul(%x, %wl) : bf16[4,2]\n  %t = tanh(%m) : bf16[4,2]\n  %q = mul(%t, %s) : f32[4,2]\n"
                      "  %loss = sum(%q) {axes=[0,1]} : f32[]\n" END);
    if (dg != NULL) {
        CHECK(format_of(dg, "d.q") == MPC_FMT_f32 && format_of(dg, "d.t") == MPC_FMT_bf16);
        CHECK(format_of(dg, "d.t.sub") == MPC_FMT_f32 && format_of(dg, "d.m") == MPC_FMT_bf16);
        CHECK(format_of(dg, "d.wl") == MPC_FMT_f32);
        CHECK_MSG(count_op(dg, "cast") == 1, "%u casts", count_op(dg, "cast"));
    }
    mpc_graph_destroy(dg);
    close_fixture(f);
}

static void test_every_failed_allocation_is_survived(void) {
    fixture *f = open_fixture();
    mpc_graph *g = parse(f, MLP END);
    mpc_pass_env env = {.ctx = f->ctx};
    bool done = false;
    for (uint64_t n = 1; g != NULL && !done && n < 5000; n++) {
        mpc_alloc_fail_after(n);
        mpc_graph *dg = mpc_pass_grad(g, NULL, &env), *low = dg != NULL ? mpc_pass_expand(dg, NULL, &env) : NULL;
        mpc_alloc_fail_after(0);
        done = low != NULL;
        mpc_graph_destroy(low);
        mpc_graph_destroy(dg);
    }
    CHECK(done);
    mpc_graph_destroy(g);
    close_fixture(f);
}

int main(void) {
    test_text_of_an_mlp();
    test_tied_weight_has_one_summed_gradient();
    test_unreached_parameter_is_warned_about();
    test_loss_must_be_there_and_scalar();
    test_nothing_is_differentiated_in_vain();
    test_names_of_sums();
    test_queries_keys_values_are_joined_again();
    test_large_values_are_not_kept_for_the_backward_pass();
    test_a_gradient_is_summed_to_any_operand_it_came_from();
    test_stretched_axes_need_no_reshape();
    test_prec_is_inherited();
    test_formats_follow_the_values();
    test_every_failed_allocation_is_survived();
    return check_result();
}
