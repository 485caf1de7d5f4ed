/* Fused attention on the cuda device, forward and backward, against the f64 evaluation of the same nodes: formats,
 * causality, windows, heads that share keys, masks and rows that see nothing, head sizes, odd lengths, operands read in
 * place, values that are not finite. All cases are one program. Skipped without a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "../ops/device_run.h"
#include "../ops/harness.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "runtime/device.h"

typedef enum mask_kind { NO_MASK, KEY_MASK, FULL_MASK } mask_kind; /* FULL_MASK: some queries see nothing */
typedef enum packing { DENSE, PACKED } packing;                    /* PACKED: q, k, v are slices of one tensor */
/* TWINS: batch entries 0 and 2 are equal; WIDENED: results are f32 */
typedef enum twist { PLAIN, TWINS, WIDENED, NAN_QUERY, INF_QUERY } twist;

typedef struct test_case {
    mpc_format format;
    bool tf32, causal;
    mask_kind mask;
    packing packed;
    twist twist;
    int64_t b, t, s, h, d;
    int64_t share, window; /* query heads that read one head of keys; 0: no window */
} test_case;

#define BF16 MPC_FMT_bf16, false
#define F16 MPC_FMT_f16, false
#define F32 MPC_FMT_f32, false
#define TF32 MPC_FMT_f32, true
static const test_case cases[] = {
    {BF16, false, NO_MASK, DENSE, WIDENED, 2, 70, 131, 2, 64, 1, 0},
    {BF16, true, NO_MASK, PACKED, PLAIN, 2, 130, 130, 2, 64, 1, 0},
    {BF16, true, FULL_MASK, DENSE, PLAIN, 2, 67, 67, 2, 32, 1, 0},
    {BF16, true, NO_MASK, DENSE, PLAIN, 1, 65, 65, 2, 128, 1, 0},
    {BF16, false, KEY_MASK, DENSE, PLAIN, 2, 33, 97, 1, 96, 1, 0},
    {BF16, true, NO_MASK, PACKED, PLAIN, 1, 19, 19, 3, 20, 1, 0},
    {BF16, true, NO_MASK, DENSE, TWINS, 3, 70, 70, 2, 128, 1, 0},
    {BF16, true, NO_MASK, DENSE, NAN_QUERY, 1, 70, 70, 1, 128, 1, 0},
    {F16, true, NO_MASK, DENSE, PLAIN, 1, 81, 81, 2, 64, 1, 0},
    {F16, false, FULL_MASK, DENSE, WIDENED, 1, 9, 70, 2, 40, 1, 0},
    {F16, false, FULL_MASK, DENSE, INF_QUERY, 1, 9, 70, 2, 40, 1, 0},
    {F32, true, NO_MASK, PACKED, PLAIN, 1, 40, 40, 2, 32, 1, 0},
    {F32, false, FULL_MASK, DENSE, PLAIN, 2, 21, 70, 2, 7, 1, 0},
    {F32, true, NO_MASK, DENSE, PLAIN, 1, 35, 35, 1, 128, 1, 0},
    {TF32, true, KEY_MASK, DENSE, PLAIN, 2, 66, 66, 1, 48, 1, 0},
    {BF16, false, NO_MASK, DENSE, PLAIN, 1, 1, 1, 1, 1, 1, 0},
    {BF16, true, NO_MASK, DENSE, PLAIN, 2, 200, 200, 4, 64, 2, 0},
    {BF16, true, NO_MASK, DENSE, PLAIN, 1, 300, 300, 2, 32, 1, 50}, /* whole tiles are out of sight */
    {BF16, false, NO_MASK, DENSE, WIDENED, 1, 150, 270, 6, 96, 3, 33},
    {F16, true, FULL_MASK, DENSE, PLAIN, 2, 90, 90, 4, 40, 4, 17},
    {F16, false, NO_MASK, DENSE, PLAIN, 1, 260, 70, 2, 32, 2, 64}, /* the last queries see no key */
    {F32, false, KEY_MASK, DENSE, PLAIN, 2, 70, 131, 4, 20, 2, 0},
    {F32, true, NO_MASK, DENSE, PLAIN, 1, 100, 100, 2, 128, 2, 2},
    {TF32, false, NO_MASK, DENSE, PLAIN, 1, 130, 130, 2, 48, 2, 70},
    {BF16, true, NO_MASK, DENSE, NAN_QUERY, 1, 140, 140, 2, 64, 2, 9},
};
enum { CASES = sizeof cases / sizeof *cases, MOST_INPUTS = 5 };

/* --- the graph: inputs of case i are q, k, v (or x), dy, mask with its number; outputs y, lse, dq, dk, dv --- */

typedef struct text {
    mpc_str head, body, ends;
} text;

static void add_input(text *o, const char *name, size_t i, const char *type, const int64_t *dims) {
    mpc_str_printf(&o->head, "%s%%%s%zu: %s[%lld,%lld,%lld,%lld]", o->head.length > 0 ? ", " : "", name, i, type,
                   (long long)dims[0], (long long)dims[1], (long long)dims[2], (long long)dims[3]);
}

static int64_t key_heads(const test_case *c) { return c->h / c->share; }

static void add_operands(text *o, const test_case *c, size_t i, const char *type) {
    int64_t queries[] = {c->b, c->t, c->h, c->d}, keys[] = {c->b, c->s, key_heads(c), c->d},
            all[] = {c->b, c->t, 3 * c->h, c->d};
    int64_t mask[] = {c->b, c->mask == FULL_MASK ? c->h : 1, c->mask == FULL_MASK ? c->t : 1, c->s};
    if (c->packed == PACKED) add_input(o, "x", i, type, all);
    for (int k = 0; k < 3 && c->packed == DENSE; k++)
        add_input(o, (const char *[]){"q", "k", "v"}[k], i, type, k == 0 ? queries : keys);
    for (int k = 0; k < 3 && c->packed == PACKED; k++)
        mpc_str_printf(
            &o->body,
            "  %%%c%zu = slice(%%x%zu) {start=[0,0,%lld,0] stop=[%lld,%lld,%lld,%lld]} : %s[%lld,%lld,%lld,%lld]\n",
            "qkv"[k], i, i, (long long)(k * c->h), (long long)c -> b, (long long)c -> t, (long long)((k + 1) * c->h),
            (long long)c -> d, type, (long long)c -> b, (long long)c -> t, (long long)c -> h, (long long)c -> d);
    add_input(o, "dy", i, type, queries);
    if (c->mask != NO_MASK) add_input(o, "m", i, "bool", mask);
}

static void add_case(text *o, const test_case *c, size_t i) {
    char mask[32] = "", shape[96], keys[96], attrs[96];
    const char *type = c->twist == WIDENED ? "f32" : mpc_format_get(c->format)->name;
    add_operands(o, c, i, mpc_format_get(c->format)->name);
    if (c->mask != NO_MASK) snprintf(mask, sizeof mask, ", %%m%zu", i);
    snprintf(shape, sizeof shape, "%s[%lld,%lld,%lld,%lld]", type, (long long)c->b, (long long)c->t, (long long)c->h,
             (long long)c->d);
    snprintf(keys, sizeof keys, "%s[%lld,%lld,%lld,%lld]", type, (long long)c->b, (long long)c->s,
             (long long)key_heads(c), (long long)c->d);
    snprintf(attrs, sizeof attrs, "{causal=%s window=%lld scale=%.9g%s}", c->causal ? "true" : "false",
             (long long)c->window, 1 / sqrt((double)c->d), c->tf32 ? " prec=tf32" : "");
    mpc_str_printf(&o->body, "  %%y%zu, %%l%zu = attention(%%q%zu, %%k%zu, %%v%zu%s) %s : %s, f32[%lld,%lld,%lld]\n", i,
                   i, i, i, i, mask, attrs, shape, (long long)c->b, (long long)c->h, (long long)c->t);
    mpc_str_printf(&o->body,
                   "  %%dq%zu, %%dk%zu, %%dv%zu = attention_grad(%%q%zu, %%k%zu, %%v%zu, %%y%zu, %%l%zu, %%dy%zu%s) %s "
                   ": %s, %s, %s\n",
                   i, i, i, i, i, i, i, i, i, mask, attrs, shape, keys, keys);
    for (int k = 0; k < 5; k++)
        mpc_str_printf(&o->ends, "%s\"%s%zu\": %%%s%zu", o->ends.length > 0 ? ", " : "",
                       (const char *[]){"y", "l", "dq", "dk", "dv"}[k], i,
                       (const char *[]){"y", "l", "dq", "dk", "dv"}[k], i);
}

static mpc_graph *parse_graph(mpc_context *ctx, mpc_sources *sources) {
    text o = {0};
    mpc_str all = {0};
    for (size_t i = 0; i < CASES; i++) add_case(&o, &cases[i], i);
    mpc_str_printf(&all, "mpir 1\ngraph @g(%s) {\n%s  return(%s)\n}\n", mpc_str_cstr(&o.head), mpc_str_cstr(&o.body),
                   mpc_str_cstr(&o.ends));
    uint32_t file = mpc_sources_add(sources, "test", mpc_str_cstr(&all), strlen(mpc_str_cstr(&all)));
    mpc_graph *g = mpc_graph_parse(ctx, file);
    mpc_str_free(&o.head), mpc_str_free(&o.body), mpc_str_free(&o.ends), mpc_str_free(&all);
    return g;
}

/* --- values --- */

static double next_real(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / (double)(1 << 24) * 3 - 1.5;
}

/* The mask lets the first key through, but for queries 3, 4 and 5 of a full one. */
static void fill_mask(mpc_tensor *m, const test_case *c, uint64_t *seed) {
    int64_t count = mpc_type_elements(&m->type);
    for (int64_t i = 0; i < count; i++) {
        int64_t query = i / c->s % c->t;
        bool blind = c->mask == FULL_MASK && query >= 3 && query <= 5;
        m->data[i] = !blind && (i % c->s == 0 || next_real(seed) > 0);
    }
}

static void fill_input(mpc_tensor *t, const char *name, const test_case *c, uint64_t *seed) {
    int64_t count = mpc_type_elements(&t->type), entry = count / c->b;
    if (t->type.format == MPC_FMT_bool) {
        fill_mask(t, c, seed);
        return;
    }
    for (int64_t i = 0; i < count; i++) t->data[i] = mpc_round_to(t->type.format, next_real(seed));
    if (c->twist == TWINS) memcpy(t->data + 2 * entry, t->data, (size_t)entry * sizeof *t->data);
    if (c->twist == NAN_QUERY && name[0] == 'q') t->data[7 * c->d + 3] = NAN;
    if (c->twist == INF_QUERY && name[0] == 'q') t->data[7 * c->d + 3] = INFINITY;
}

static mpc_tensor *make_inputs(const mpc_graph *g, mpc_arena *arena) {
    mpc_tensor *inputs = mpc_arena_alloc(arena, g->input_count * sizeof *inputs);
    uint64_t seed = 11;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const char *name = mpc_value_name(g, g->inputs[i].value);
        size_t number = strtoul(name + strcspn(name, "0123456789"), NULL, 10);
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        fill_input(&inputs[i], name, &cases[number], &seed);
    }
    return inputs;
}

/* --- running it --- */

static mpc_tensor *device_outputs(const ops_program *p, const mpc_tensor *inputs, mpc_arena *arena) {
    mpc_tensor *outputs = mpc_arena_alloc(arena, p->graph->output_count * sizeof *outputs);
    const char *why = outputs != NULL ? ops_program_run(p, inputs, arena, outputs) : "no memory";
    CHECK_MSG(why == NULL, "%s", why);
    return why == NULL ? outputs : NULL;
}

/* --- judging it --- */

/* Where only the expansion gives NaN, a hidden element's 0 met a NaN in a product: a kernel may form it or not. */
static void forgive_hidden_products(mpc_tensor *got, const mpc_tensor *want, const mpc_tensor *expanded) {
    int64_t count = mpc_type_elements(&got->type);
    for (int64_t i = 0; i < count; i++)
        if (isnan(got->data[i]) && isnan(expanded->data[i])) got->data[i] = want->data[i];
}

static double judge_case(const mpc_context *ctx, size_t number, const mpc_tensor *got, const mpc_tensor *want) {
    const test_case *c = &cases[number];
    double worst = 0;
    static const char *const names[] = {"y", "lse", "dq", "dk", "dv"};
    for (int i = 0; i < 5; i++) {
        mpc_op op = *mpc_op_get(ctx, i < 2 ? MPC_OP_attention : MPC_OP_attention_grad);
        if (i < 2) op.name = "attention_fused";
        ops_bound bound = ops_bound_of(&op, c->tf32 ? MPC_FMT_tf32 : c->format);
        int64_t at;
        double error = ops_error(&got[i], &want[i], got[i].type.format, bound, &at);
        CHECK_MSG(error <= 1, "case %zu, %s: element %lld is %.9g, must be %.9g: %.3g times the bound", number,
                  names[i], (long long)at, got[i].data[at], want[i].data[at], error);
        if (error > worst) worst = error;
    }
    return worst;
}

static void twins_have_the_same_bits(size_t number, const mpc_tensor *got) {
    for (int i = 0; i < 5; i++) {
        int64_t entry = mpc_type_elements(&got[i].type) / 3;
        CHECK_MSG(memcmp(got[i].data, got[i].data + 2 * entry, (size_t)entry * sizeof(double)) == 0,
                  "case %zu, output %d", number, i);
    }
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

static mpc_tensor *evaluate(const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena) {
    mpc_eval_options options = {.f64 = true};
    mpc_tensor *values = mpc_arena_alloc(arena, g->value_count * sizeof *values);
    mpc_tensor *outputs = mpc_arena_alloc(arena, g->output_count * sizeof *outputs);
    if (mpc_evaluate(g, inputs, no_state, NULL, &options, arena, values) != MPC_OK) return NULL;
    for (uint32_t i = 0; i < g->output_count; i++) outputs[i] = values[g->outputs[i].value];
    return outputs;
}

static void compare(mpc_context *ctx, const mpc_graph *g, const ops_program *p, mpc_arena *arena) {
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *low = mpc_pipeline_run(g, "expand", &env, NULL);
    mpc_tensor *inputs = make_inputs(g, arena), *got = device_outputs(p, inputs, arena);
    mpc_tensor *want = evaluate(g, inputs, arena), *expanded = low != NULL ? evaluate(low, inputs, arena) : NULL;
    double worst = 0;
    CHECK(got != NULL && want != NULL && expanded != NULL);
    for (size_t i = 0; i < CASES && got != NULL && want != NULL && expanded != NULL; i++) {
        if (cases[i].twist == TWINS) twins_have_the_same_bits(i, got + 5 * i);
        for (size_t k = 5 * i; k < 5 * i + 5; k++) forgive_hidden_products(&got[k], &want[k], &expanded[k]);
        double error = judge_case(ctx, i, got + 5 * i, want + 5 * i);
        if (error > worst) worst = error;
    }
    fprintf(stderr, "worst %.2g of the bound\n", worst);
    mpc_graph_destroy(low);
}

static void attention_is_one_launch(const mpc_program *p) {
    size_t forward = 0, backward = 0, other = 0;
    for (uint32_t i = 0; i < p->launch_count; i++) {
        const mpc_launch *l = &p->launches[i];
        if (strcmp(l->op, "attention") == 0) forward += l->instance_count;
        else if (strcmp(l->op, "attention_grad") == 0) backward += l->instance_count;
        else other++;
    }
    CHECK_MSG(forward == CASES && backward == 2 * CASES && other == 0, "%zu forward, %zu backward, %zu others", forward,
              backward, other);
}

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str out = {0};
    mpc_diag_render(diag, user, true, false, &out);
    fprintf(stderr, "%s\n", mpc_str_cstr(&out));
    mpc_str_free(&out);
}

int main(void) {
    mpc_sources *sources = mpc_sources_create();
    mpc_sink sink = {print_diag, sources}, quiet = {0};
    if (!mpc_cuda_available(&quiet)) return fprintf(stderr, "skipped: no NVIDIA GPU\n"), 77;
    mpc_context *ctx = mpc_context_create(&sink, sources);
    mpc_arena *arena = mpc_arena_create();
    if (ctx == NULL || arena == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    mpc_graph *g = parse_graph(ctx, sources);
    ops_program p = {0};
    CHECK(g != NULL);
    const char *why = g != NULL ? ops_program_make(&p, OPS_ON_CUDA, g) : NULL;
    CHECK_MSG(why == NULL, "%s", why);
    if (p.program != NULL) {
        attention_is_one_launch(p.program);
        compare(ctx, g, &p, arena);
    }
    ops_program_free(&p);
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return check_result(); /* the harness only measures here, it checks nothing */
}
