/* einsum, rearrange and reduce against loops over all values of all axes, for random patterns: values and, since an
 * einsum is linear in each operand, gradients too. Everything is f64, so equal up to the order of sums. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "passes/passes.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

enum { AXES = 6, OPERANDS = 3, RANK = 5, BATCH = 2 };

static const char *const words[AXES] = {"b", "time", "h", "d2", "key", "y"};

typedef struct term {
    int axes[RANK]; /* of one operand or the result; never one twice */
    int count;
} term;

typedef struct example {
    int size[AXES];
    term in[OPERANDS], out;
    int operands;
    double *data[OPERANDS], *weight;
} example;

static uint64_t seed = 1;
static int below(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

/* The value of element i of a state, from its name. */
static double made_up(const char *name, int64_t i) {
    uint64_t h = (mpc_hash_str(name) ^ (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return (double)((h ^ h >> 31) >> 12) * 0x1p-51 - 1;
}

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    mpc_tensor t = mpc_tensor_make(user, mpc_value_type(g, mpc_result(state, 0)));
    for (int64_t i = 0; i < mpc_type_elements(&t.type); i++) t.data[i] = made_up(mpc_attr_str(g, state, "name"), i);
    return t;
}

static int64_t elements(const example *x, const term *t) {
    int64_t n = 1;
    for (int i = 0; i < t->count; i++) n *= x->size[t->axes[i]];
    return n;
}

static int64_t offset(const example *x, const term *t, const int *at) {
    int64_t n = 0;
    for (int i = 0; i < t->count; i++) n = n * x->size[t->axes[i]] + at[t->axes[i]];
    return n;
}

static bool has(const term *t, int axis) {
    for (int i = 0; i < t->count; i++)
        if (t->axes[i] == axis) return true;
    return false;
}

static bool used(const example *x, int axis) {
    for (int i = 0; i < x->operands; i++)
        if (has(&x->in[i], axis)) return true;
    return false;
}

static void draw_term(const example *x, term *t, bool from_operands, int chance) {
    int order[AXES];
    for (int i = 0; i < AXES; i++) order[i] = i;
    for (int i = AXES - 1; i > 0; i--) {
        int k = below(i + 1), keep = order[i];
        order[i] = order[k];
        order[k] = keep;
    }
    t->count = 0;
    for (int i = 0; i < AXES && t->count < RANK; i++)
        if (below(100) < chance && (!from_operands || used(x, order[i]))) t->axes[t->count++] = order[i];
}

/* "b (time h) 1 d2"; sizes of the axes in brackets are told by name. */
static void print_term(const term *t, mpc_str *out, bool *told) {
    for (int i = 0; i < t->count;) {
        int joined = below(4) == 0 ? 1 + below(t->count - i) : 1;
        bool brackets = joined > 1 || below(8) == 0;
        if (below(6) == 0) mpc_str_append(out, "1 ");
        mpc_str_append(out, brackets ? "(" : "");
        for (int k = 0; k < joined; k++) {
            mpc_str_printf(out, "%s%s", words[t->axes[i + k]], k + 1 < joined ? " " : "");
            told[t->axes[i + k]] = told[t->axes[i + k]] || joined > 1;
        }
        mpc_str_append(out, brackets ? ") " : " ");
        i += joined;
    }
}

/* The dims of a printed term, from its text. */
static void print_dims(const example *x, const char *text, mpc_str *out) {
    bool inside = false, first = true;
    int64_t product = 1;
    mpc_str_append(out, "[");
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ()");
        inside = *p == '(' || (inside && *p != ')');
        for (int i = 0; i < AXES; i++)
            if (strlen(words[i]) == n && strncmp(p, words[i], n) == 0) product *= x->size[i];
        bool ends = (n > 0 && !inside) || *p == ')';
        if (ends) {
            mpc_str_printf(out, "%s%lld", first ? "" : ", ", (long long)product);
            first = false;
            product = 1;
        }
        p += n ? n : 1;
    }
    mpc_str_append(out, "]");
}

static void print_model(const example *x, const char *op, mpc_str *out) {
    bool told[AXES] = {false};
    mpc_str pattern = {0}, dims[OPERANDS + 1] = {0};
    for (int i = 0; i < x->operands; i++) {
        mpc_str one = {0};
        print_term(&x->in[i], &one, told);
        print_dims(x, mpc_str_cstr(&one), &dims[i]);
        mpc_str_printf(&pattern, "%s%s", i ? ", " : "", mpc_str_cstr(&one));
        mpc_str_free(&one);
    }
    mpc_str result = {0};
    bool ignore[AXES] = {false};
    print_term(&x->out, &result, ignore);
    print_dims(x, mpc_str_cstr(&result), &dims[OPERANDS]);
    mpc_str_append(out, "model m(x: f32[batch, 1]) {\n");
    for (int i = 0; i < x->operands; i++) mpc_str_printf(out, "    p%d = param(%s)\n", i, mpc_str_cstr(&dims[i]));
    mpc_str_printf(out, "    w = param(%s)\n    y = %s(\"%s-> %s\"", mpc_str_cstr(&dims[OPERANDS]),
                   strncmp(op, "reduce", 6) == 0 ? "reduce" : op, mpc_str_cstr(&pattern), mpc_str_cstr(&result));
    for (int i = 0; i < x->operands; i++) mpc_str_printf(out, ", p%d", i);
    for (int i = 0; i < AXES; i++)
        if (told[i]) mpc_str_printf(out, ", %s = %d", words[i], x->size[i]);
    if (op[6] == ' ') mpc_str_printf(out, ", op = %s", op + 7);
    mpc_str_append(out, ")\n    loss l = sum(y * w) + 0 * sum(x)\n}\n");
    mpc_str_free(&pattern);
    mpc_str_free(&result);
    for (int i = 0; i <= OPERANDS; i++) mpc_str_free(&dims[i]);
}

/* --- the loops --- */

static bool advance(const example *x, int *at) {
    for (int i = AXES; i-- > 0;) {
        if (++at[i] < (used(x, i) ? x->size[i] : 1)) return true;
        at[i] = 0;
    }
    return false;
}

static double product_without(const example *x, const int *at, int without) {
    double p = 1;
    for (int i = 0; i < x->operands; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%d", i);
        if (i != without) p *= made_up(name, offset(x, &x->in[i], at));
    }
    return p;
}

/* The result (which < 0), or the gradient of operand `which` of sum(result * w). */
static double *loop(const example *x, int which) {
    const term *t = which < 0 ? &x->out : &x->in[which];
    double *out = calloc((size_t)elements(x, t), sizeof *out);
    int at[AXES] = {0};
    do {
        double p = product_without(x, at, which);
        out[offset(x, t, at)] += which < 0 ? p : p * made_up("w", offset(x, &x->out, at));
    } while (advance(x, at));
    return out;
}

static double *loop_extreme(const example *x, double sign) {
    double *out = malloc((size_t)elements(x, &x->out) * sizeof *out);
    for (int64_t i = 0; i < elements(x, &x->out); i++) out[i] = -INFINITY;
    int at[AXES] = {0};
    do {
        double v = sign * made_up("p0", offset(x, &x->in[0], at)), *to = &out[offset(x, &x->out, at)];
        if (v > *to) *to = v;
    } while (advance(x, at));
    for (int64_t i = 0; i < elements(x, &x->out); i++) out[i] *= sign;
    return out;
}

/* --- comparison --- */

static void compare(const char *text, const mpc_graph *g, const mpc_tensor *values, const char *output,
                    double *expected, int64_t n, double scale) {
    mpc_value_id id = mpc_graph_find_output(g, output);
    const mpc_tensor *t = id == MPC_NONE ? NULL : &values[id];
    CHECK_MSG(t && mpc_type_elements(&t->type) == n, "%s: size of %s", text, output);
    for (int64_t i = 0; t && i < n && i < mpc_type_elements(&t->type); i++) {
        double want = expected[i] * scale;
        if (fabs(t->data[i] - want) <= 1e-10 * (1 + fabs(want))) continue;
        CHECK_MSG(false, "%s: %s[%lld] is %.17g, not %.17g", text, output, (long long)i, t->data[i], want);
        break;
    }
    free(expected);
}

static void check_example(const example *x, const char *op) {
    mpc_str text = {0};
    print_model(x, op, &text);
    session s;
    open_text(&s, "index.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_passes_register(s.ctx);
    mpc_graph *forward = elaborate(&s, MPC_PHASE_TRAIN, BATCH);
    mpc_pass_env env = {.ctx = s.ctx};
    mpc_graph *g = forward ? mpc_pass_grad(forward, NULL, &env) : NULL;
    if (!g) show_diagnostics(s.diags, s.sources);
    CHECK_MSG(g && mpc_graph_verify(g) == MPC_OK, "%s", mpc_str_cstr(&text));
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = g ? mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values) : NULL, input[1];
    if (values) {
        input[0] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[0].value));
        mpc_eval_options options = {.f64 = true};
        CHECK(mpc_evaluate(g, input, read_state, arena, &options, arena, values) == MPC_OK);
        bool mean = strstr(op, "mean"), max = strstr(op, "max"), min = strstr(op, "min");
        double scale = 1;
        for (int i = 0; mean && i < x->in[0].count; i++)
            if (!has(&x->out, x->in[0].axes[i])) scale /= x->size[x->in[0].axes[i]];
        double *y = max ? loop_extreme(x, 1) : min ? loop_extreme(x, -1) : loop(x, -1);
        compare(mpc_str_cstr(&text), g, values, "grad:w", y, elements(x, &x->out), scale);
        for (int i = 0; !max && !min && i < x->operands; i++) {
            char name[24];
            snprintf(name, sizeof name, "grad:p%d", i);
            compare(mpc_str_cstr(&text), g, values, name, loop(x, i), elements(x, &x->in[i]), scale);
        }
    }
    mpc_arena_destroy(arena);
    mpc_graph_destroy(g);
    mpc_graph_destroy(forward);
    close_session(&s);
    mpc_str_free(&text);
}

static void draw_sizes(example *x) {
    for (int i = 0; i < AXES; i++) x->size[i] = 1 + below(4);
}

static void random_einsums(void) {
    for (int n = 0; n < 250; n++) {
        example x = {.operands = 1 + below(OPERANDS)};
        draw_sizes(&x);
        for (int i = 0; i < x.operands; i++) draw_term(&x, &x.in[i], false, 50);
        draw_term(&x, &x.out, true, 60);
        check_example(&x, "einsum");
    }
}

static void random_rearranges(void) {
    for (int n = 0; n < 120; n++) {
        example x = {.operands = 1};
        draw_sizes(&x);
        draw_term(&x, &x.in[0], false, 60);
        do draw_term(&x, &x.out, true, 100);
        while (x.out.count != x.in[0].count);
        check_example(&x, "rearrange");
    }
}

static void random_reductions(void) {
    static const char *const ops[] = {"reduce", "reduce sum", "reduce mean", "reduce max", "reduce min"};
    for (int n = 0; n < 100; n++) {
        example x = {.operands = 1};
        draw_sizes(&x);
        draw_term(&x, &x.in[0], false, 70);
        draw_term(&x, &x.out, true, 50);
        check_example(&x, ops[n % 5]);
    }
}

/* --- what it becomes --- */

static void check_ops(const char *line, unsigned matmul, unsigned transpose, unsigned mul, unsigned sum) {
    mpc_str text = {0};
    mpc_str_printf(&text,
                   "model m(x: f32[batch, 6, 4, 8], z: f32[batch, 6, 4, 8]) {\n    w = param([8, 5])\n    y = %s\n"
                   "    output y = y\n    output w = w\n}\n",
                   line);
    session s;
    open_text(&s, "lowering.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_PREDICT, BATCH);
    if (!g) show_diagnostics(s.diags, s.sources);
    CHECK_MSG(g && count_op(g, MPC_OP_matmul) == matmul && count_op(g, MPC_OP_transpose) == transpose &&
                  count_op(g, MPC_OP_mul) == mul && count_op(g, MPC_OP_sum) == sum,
              "%s: matmul %u, transpose %u, mul %u, sum %u", line, count_op(g, MPC_OP_matmul),
              count_op(g, MPC_OP_transpose), count_op(g, MPC_OP_mul), count_op(g, MPC_OP_sum));
    mpc_graph_destroy(g);
    close_session(&s);
    mpc_str_free(&text);
}

static void lowering(void) {
    check_ops("einsum(\"b t h c, c d -> b t h d\", x, w)", 1, 0, 0, 0);
    check_ops("einsum(\"... c, c d -> ... d\", x, w)", 1, 0, 0, 0);
    check_ops("einsum(\"b q h d, b k h d -> b h q k\", x, z)", 1, 2, 0, 0);
    check_ops("einsum(\"b t h c, b t h c -> b t h c\", x, z)", 0, 0, 1, 0);
    check_ops("einsum(\"b t h c, b t h c -> b t\", x, z)", 0, 0, 1, 1);
    check_ops("einsum(\"b t h c -> h\", x)", 0, 0, 0, 1);
    check_ops("einsum(\"t, f -> t f\", range(3), range(2))", 0, 0, 1, 0);
    check_ops("rearrange(\"... -> ...\", x)", 0, 0, 0, 0);
    check_ops("rearrange(\"b t h d -> b t (h d)\", x)", 0, 0, 0, 0);
    check_ops("rearrange(\"b t h d -> b h t d\", x)", 0, 1, 0, 0);
    check_ops("reduce(\"b t h d -> b d\", x)", 0, 0, 0, 1);
}

/* In a mapping an expression is about one row: the batch in front is not written. */
static void rows(void) {
    static const char text[] = "model m(image: f32[batch, 3, 2], score: f32[batch]) {\n"
                               "    output image = image\n    output score = score\n}\n"
                               "data {\n    train = csv(\"none.csv\")\n"
                               "    input image = rearrange(\"(h w) -> w h\", columns[0:6], h = 2)\n"
                               "    input score = einsum(\"i, i ->\", columns[0:6], range(6))\n}\n";
    session s;
    open_text(&s, "rows.mpg", text, NULL, 0);
    mpc_data_facts facts = {.known = true, .columns = 6};
    mpc_graph *g = s.model ? mpc_model_elaborate(s.model, MPC_PHASE_PREDICT, BATCH, &facts) : NULL;
    if (!g) show_diagnostics(s.diags, s.sources);
    CHECK(g && mpc_graph_verify(g) == MPC_OK);
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = g ? mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values) : NULL, inputs[4];
    for (uint32_t i = 0; g && i < g->input_count && i < 4; i++) {
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        for (int64_t k = 0; k < mpc_type_elements(&inputs[i].type); k++) inputs[i].data[k] = (double)k;
    }
    mpc_eval_options options = {.f64 = true};
    if (values && mpc_evaluate(g, inputs, read_state, arena, &options, arena, values) == MPC_OK) {
        const double *image = values[mpc_graph_find_output(g, "output.image")].data,
                     *score = values[mpc_graph_find_output(g, "output.score")].data;
        CHECK(image[0] == 0 && image[1] == 3 && image[2] == 1 && image[6] == 6 && image[7] == 9);
        CHECK(score[0] == 55 && score[1] == 145);
    } else CHECK(false);
    mpc_arena_destroy(arena);
    mpc_graph_destroy(g);
    close_session(&s);
}

int main(void) {
    random_einsums();
    random_rearranges();
    random_reductions();
    lowering();
    rows();
    return check_result();
}
