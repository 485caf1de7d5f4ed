/* Every gradient rule against central differences in f64. The loss is a random projection of all results: a plain sum
 * cannot see a scale error in a softmax. Differences are taken along single elements and along one random direction of
 * each operand. */
#include <math.h>

#include "../check.h"
#include "base/rng.h"
#include "gradient_graph.h"
#include "passes/pass.h"

typedef struct trial { /* a graph with states p0, p1, ... for the operands and an output `loss` */
    const ops_case *c;
    const mpc_tensor *operands; /* current values */
} trial;

static bool evaluate(const trial *t, const mpc_graph *g, mpc_tensor *values) {
    mpc_eval_options options = {.f64 = true};
    mpc_tensor inputs[OPS_MAX_OPERANDS + OPS_MAX_RESULTS];
    ops_gradient_inputs(t->c, t->operands, g, inputs);
    return mpc_evaluate(g, inputs, ops_gradient_state, (void *)t->operands, &options, t->c->arena, values) == MPC_OK;
}

static double loss_at(const trial *t, const mpc_graph *g) {
    mpc_tensor *values = mpc_arena_alloc(t->c->arena, (g->value_count + 1) * sizeof *values);
    return evaluate(t, g, values) ? values[mpc_graph_find_output(g, "loss")].data[0] : (double)NAN;
}

/* Slope of the loss along `direction` from operand i's value, by central difference. */
static double slope(const ops_case *c, const mpc_graph *g, uint32_t i, const double *direction, double step) {
    mpc_tensor operands[OPS_MAX_OPERANDS];
    memcpy(operands, c->operands, sizeof operands);
    double loss[2];
    int64_t count = mpc_type_elements(&c->operands[i].type);
    for (int k = 0; k < 2; k++) {
        operands[i] = mpc_tensor_make(c->arena, &c->operands[i].type);
        for (int64_t e = 0; e < count; e++)
            operands[i].data[e] = c->operands[i].data[e] + (k == 0 ? -step : step) * direction[e];
        loss[k] = loss_at(&(trial){c, operands}, g);
    }
    return (loss[1] - loss[0]) / (2 * step);
}

static void check_direction(const ops_case *c, const mpc_graph *g, uint32_t i, const mpc_tensor *gradient,
                            const double *direction) {
    int64_t count = mpc_type_elements(&gradient->type);
    double analytic = 0, scale = 1e-3;
    for (int64_t e = 0; e < count; e++) {
        analytic += gradient->data[e] * direction[e];
        scale += fabs(gradient->data[e] * direction[e]);
    }
    double numeric = slope(c, g, i, direction, 1e-5);
    CHECK_MSG(fabs(analytic - numeric) <= 2e-6 * scale, "%s: gradient of operand %u is %.12g, by difference %.12g",
              c->label, i, analytic, numeric);
}

enum { PROBES = 6 };

static void check_operand(const ops_case *c, const mpc_graph *g, uint32_t i, const mpc_tensor *gradient) {
    int64_t count = mpc_type_elements(&gradient->type);
    double *direction = mpc_arena_alloc(c->arena, (size_t)count * sizeof *direction);
    for (uint64_t k = 0; k < PROBES; k++) {
        int64_t at = (int64_t)(mpc_random_uniform(7, k, i, 0) * (float)count);
        memset(direction, 0, (size_t)count * sizeof *direction);
        direction[at < count ? at : 0] = 1;
        check_direction(c, g, i, gradient, direction);
    }
    for (int64_t e = 0; e < count; e++) direction[e] = ops_gradient_weight(50, e);
    check_direction(c, g, i, gradient, direction);
}

static void check_case(const ops_case *c, const mpc_graph *loss, const mpc_graph *step) {
    mpc_tensor *values = mpc_arena_alloc(c->arena, (step->value_count + 1) * sizeof *values);
    CHECK(evaluate(&(trial){c, c->operands}, step, values));
    for (uint32_t i = 0; i < c->operand_count; i++) {
        if (!c->sample.differentiable[i]) continue;
        mpc_value_id gradient =
            mpc_graph_find_output(step, (const char[]){'g', 'r', 'a', 'd', ':', 'p', (char)('a' + i), 0});
        mpc_tensor zero = mpc_tensor_make(c->arena, &c->operands[i].type); /* no output: no influence */
        check_operand(c, loss, i, gradient != MPC_NONE ? &values[gradient] : &zero);
    }
}

typedef struct tally {
    int cases, ops;
    mpc_op_id last;
} tally;

static void visit(const ops_case *c, void *user) {
    tally *t = user;
    if (!ops_gradient_exists(c)) return;
    mpc_graph *loss = ops_gradient_loss(c);
    CHECK_MSG(loss != NULL, "%s: no loss", c->label);
    mpc_pass_env env = {.ctx = c->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *step = loss != NULL ? mpc_pipeline_run(loss, "grad", &env, &hooks) : NULL;
    CHECK_MSG(step != NULL, "%s: grad fails", c->label);
    if (step != NULL) check_case(c, loss, step);
    mpc_graph_destroy(step);
    mpc_graph_destroy(loss);
    t->cases++;
    t->ops += t->last != c->id;
    t->last = c->id;
}

/* An op that has a gradient must have a sample that is differentiable somewhere. */
static void check_coverage(mpc_context *ctx, int tested) {
    int expected = 0;
    for (mpc_op_id id = 0; id < mpc_op_count(ctx); id++) expected += mpc_op_get(ctx, id)->grad != NULL;
    CHECK_MSG(tested >= expected, "%d ops have a gradient rule, only %d were tested", expected, tested);
}

int main(int argc, char **argv) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    tally t = {.last = UINT32_MAX};
    ops_walk(ctx, argc > 1 ? argv[1] : NULL, visit, &t);
    if (argc == 1) check_coverage(ctx, t.ops);
    fprintf(stderr, "%d cases of %d ops\n", t.cases, t.ops);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
