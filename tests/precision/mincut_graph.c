/* Models are drawn as text: every value is a square matrix, so any op takes any value, and views, joins, norms, weights used twice and the user's words
 * mix freely. */
#include "mincut_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

uint32_t roll(dice *d, uint32_t below) {
    const uint32_t counter[4] = {d->drawn++, 77, 0, 0}, key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    uint32_t r[4];
    mpc_philox4x32(counter, key, r);
    return r[0] % below;
}

double roll_log(dice *d, double lo, double hi) {
    return lo * pow(hi / lo, (double)roll(d, 10001) / 10000.0);
}

typedef struct drawing {
    dice *d;
    mpc_str text;
    char type[32];
    int size;
    uint32_t count, weights;
} drawing;

static uint32_t any(drawing *x) { return roll(x->d, 2) ? x->count - 1 - roll(x->d, x->count < 3 ? x->count : 3) : roll(x->d, x->count); }

static void weight(drawing *x) {
    mpc_str_printf(&x->text, "  %%w%u = state() {name=\"w%u\" skip=keep trainable=%s} : %s\n", x->weights, x->weights,
                   roll(x->d, 4) ? "true" : "false", x->type);
    x->weights++;
}

static const char *word(drawing *x) {
    static const char *const words[] = {" {prec=f32}", " {prec=bf16}"};
    return roll(x->d, 25) == 0 ? words[roll(x->d, 2)] : "";
}

static void draw_op(drawing *x) {
    static const char *const unary[] = {"relu", "tanh", "gelu", "exp", "neg"};
    static const char *const binary[] = {"add", "mul", "sub", "maximum"};
    mpc_str *t = &x->text;
    uint32_t a = any(x), b = any(x), y = x->count;
    switch (roll(x->d, 12)) {
    case 0: case 1: case 2: case 3:
        if (x->weights == 0 || roll(x->d, 3)) weight(x);
        mpc_str_printf(t, "  %%v%u = matmul(%%v%u, %%w%u)%s : %s\n", y, a, roll(x->d, x->weights), word(x), x->type);
        break;
    case 4:
        mpc_str_printf(t, "  %%v%u = matmul(%%v%u, %%v%u) {tb=%s} : %s\n", y, a, b, roll(x->d, 2) ? "true" : "false", x->type);
        break;
    case 5: case 6:
        mpc_str_printf(t, "  %%v%u = %s(%%v%u, %%v%u)%s : %s\n", y, binary[roll(x->d, 4)], a, b, word(x), x->type);
        break;
    case 7: case 8:
        mpc_str_printf(t, "  %%v%u = %s(%%v%u) : %s\n", y, unary[roll(x->d, 5)], a, x->type);
        break;
    case 9:
        mpc_str_printf(t, "  %%v%u = softmax(%%v%u) {axis=1} : %s\n", y, a, x->type);
        break;
    case 10:
        if (roll(x->d, 2)) mpc_str_printf(t, "  %%v%u = transpose(%%v%u) {perm=[1,0]} : %s\n", y, a, x->type);
        else
            mpc_str_printf(t, "  %%r%u = reshape(%%v%u) {shape=[%d]} : f32[%d]\n  %%v%u = reshape(%%r%u) {shape=[%d,%d]} : %s\n", y, a,
                           x->size * x->size, x->size * x->size, y, y, x->size, x->size, x->type);
        break;
    default:
        mpc_str_printf(t, "  %%c%u = concat(%%v%u, %%v%u) {axis=0} : f32[%d,%d]\n", y, a, b, 2 * x->size, x->size);
        mpc_str_printf(t, "  %%v%u = slice(%%c%u) {start=[1,0] stop=[%d,%d]} : %s\n", y, y, x->size + 1, x->size, x->type);
    }
    x->count++;
}

mpc_graph *random_model(mpc_context *ctx, dice *d, uint32_t ops, int size) {
    drawing x = {.d = d, .size = size, .count = 2};
    snprintf(x.type, sizeof x.type, "f32[%d,%d]", size, size);
    mpc_str_printf(&x.text, "mpir 1\ngraph @g(%%v0: %s, %%v1: %s) {\n", x.type, x.type);
    for (uint32_t i = 0; i < ops; i++) draw_op(&x);
    mpc_str_printf(&x.text, "  %%q = mul(%%v%u, %%v%u) : %s\n  %%loss, %%count = loss_mean(%%q) : f32[], f32[]\n", x.count - 1,
                   any(&x), x.type);
    mpc_str_printf(&x.text, "  return(\"loss\": %%loss, \"count\": %%count, \"y\": %%v%u)\n}\n", any(&x));
    uint32_t file = mpc_sources_add(mpc_context_sources(ctx), "random", x.text.data, strlen(x.text.data));
    mpc_graph *g = mpc_graph_parse(ctx, file);
    if (g == NULL) fprintf(stderr, "%s\n", x.text.data);
    mpc_str_free(&x.text);
    return g;
}

mpc_device_profile random_device(dice *d) {
    mpc_device_profile p = {.name = "random"};
    p.bandwidth = roll_log(d, 1e9, 1e11);
    p.cache_bandwidth = p.bandwidth * roll_log(d, 1, 8);
    p.cache_bytes = roll_log(d, 256, 65536);
    p.gap = roll_log(d, 1e-9, 3e-6);
    p.convert = roll_log(d, 1e9, 1e11);
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    for (int k = 0; k < MPC_COST_KINDS; k++)
        for (int f = 0; f < 3; f++)
            p.rate[k][formats[f]] = (mpc_rate){.flops = roll_log(d, 1e10, 4e11),
                                               .setup = roll_log(d, 1e-9, 1e-6),
                                               .tile = {1u << roll(d, 5), 1u << roll(d, 5), 1u << roll(d, 5)},
                                               .align = 1u << roll(d, 4),
                                               .misaligned = 1 + roll(d, 3),
                                               .pack = roll(d, 2) ? roll_log(d, 1e-11, 1e-9) : 0,
                                               .store = roll(d, 2) ? roll_log(d, 1e-11, 1e-9) : 0};
    return p;
}

mpc_plan prepare_plan(const mpc_graph *g, mpc_format low, mpc_arena *arena) {
    mpc_plan p = mpc_plan_create(g, low, arena);
    if (p.g == NULL) return p;
    mpc_plan_read_backwards(&p);
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        mpc_format prec = mpc_node_prec(g, &g->nodes[id]);
        if (!mpc_is_assigned(g, id) || prec == MPC_FMT_none) continue;
        mpc_solve_user(&p, id, prec);
        p.given[id] = true;
    }
    return p;
}

void reopen_plan(mpc_plan *p) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (p->given[id]) continue;
        p->decisions[id] = (mpc_decision){0};
        for (uint32_t i = 0; i < g->nodes[id].result_count; i++) {
            mpc_value_id v = mpc_result(&g->nodes[id], i);
            p->format[v] = p->say[v] = mpc_value_format(g, v);
        }
    }
}
