/* Every gradient rule against central differences in f64. The loss is a random projection of all results: a plain sum
 * cannot see a scale error in a softmax. Differences are taken along single elements and along one random direction of
 * each operand. */
#include <math.h>

#include "../check.h"
#include "base/rng.h"
#include "harness.h"
#include "passes/pass.h"

/* Results that carry no gradient by definition: running statistics, the saved log-sum-exp of attention. */
typedef struct exempt {
    const char *op;
    uint32_t first, last;
} exempt;
static const exempt exempts[] = {{"batch_norm", 3, 4}, {"attention", 1, 1}};

typedef struct trial { /* a graph with states p0, p1, ... for the operands and an output `loss` */
    const ops_case *c;
    const mpc_tensor *operands; /* current values */
} trial;

static double weight_of(uint32_t result, int64_t i) {
    return (double)mpc_random_uniform(99, result, 0, (uint64_t)i) * 2 - 1;
}

static bool is_exempt(const mpc_op *op, uint32_t result) {
    for (size_t i = 0; i < sizeof exempts / sizeof *exempts; i++)
        if (strcmp(exempts[i].op, op->name) == 0 && result >= exempts[i].first && result <= exempts[i].last)
            return true;
    return false;
}

static bool is_projected(const ops_case *c, uint32_t result) {
    return !is_exempt(c->op, result) &&
           mpc_format_is_float(mpc_value_format(c->graph, c->graph->outputs[result].value));
}

static bool is_parameter(const ops_case *c, uint32_t i) { return c->sample.differentiable[i]; }

static mpc_value_id add_operand(mpc_builder *b, const ops_case *c, uint32_t i) {
    const mpc_type *t = &c->operands[i].type;
    mpc_type_id type = mpc_type_make(c->ctx, t->format, t->rank, t->dims);
    const char name[] = {'p', (char)('a' + i), 0};
    if (!is_parameter(c, i)) return mpc_build_input(b, name, type, NULL, 0);
    mpc_attr_arg attrs[] = {MPC_A_BOOL("trainable", true)};
    return mpc_build_state(b, name, type, attrs, 1);
}

static mpc_value_id project(mpc_builder *b, mpc_value_id result, uint32_t index) {
    mpc_type type = *mpc_builder_type(b, result);
    int64_t axes[MPC_MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) axes[i] = i;
    mpc_value_id weight =
        mpc_build_input(b, (const char[]){'w', (char)('0' + index), 0},
                        mpc_type_make(mpc_builder_context(b), MPC_FMT_f32, type.rank, type.dims), NULL, 0);
    return mpc_build_reduce(b, MPC_OP_sum, mpc_build2(b, MPC_OP_mul, result, weight), axes, type.rank, false);
}

static mpc_graph *build_loss(const ops_case *c) {
    mpc_builder *b = mpc_builder_create(c->ctx, "step");
    mpc_value_id operands[OPS_MAX_OPERANDS], loss = MPC_NONE;
    if (b == NULL) return NULL;
    for (uint32_t i = 0; i < c->operand_count; i++) operands[i] = add_operand(b, c, i);
    mpc_value_id first = mpc_build(b, c->id, operands, c->operand_count, c->sample.attrs, c->sample.attr_count);
    for (uint32_t i = 0; first != MPC_NONE && i < c->op->result_count; i++) {
        if (!is_projected(c, i)) continue;
        mpc_value_id part = project(b, first + i, i);
        loss = loss == MPC_NONE ? part : mpc_build2(b, MPC_OP_add, loss, part);
    }
    mpc_build_output(b, "loss", loss);
    return mpc_builder_finish(b);
}

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    const trial *t = user;
    return t->operands[mpc_attr_str(g, state, "name")[1] - 'a'];
}

static bool evaluate(const trial *t, const mpc_graph *g, mpc_tensor *values) {
    mpc_eval_options options = {.f64 = true};
    mpc_tensor inputs[OPS_MAX_OPERANDS + OPS_MAX_RESULTS];
    for (uint32_t i = 0; i < g->input_count; i++) {
        const char *name = mpc_value_name(g, g->inputs[i].value);
        uint32_t index = (uint32_t)(name[1] - (name[0] == 'w' ? '0' : 'a'));
        if (name[0] != 'w') inputs[i] = t->operands[index];
        if (name[0] != 'w') continue;
        inputs[i] = mpc_tensor_make(t->c->arena, mpc_value_type(g, g->inputs[i].value));
        int64_t count = mpc_type_elements(&inputs[i].type);
        for (int64_t k = 0; k < count; k++) inputs[i].data[k] = weight_of(index, k);
    }
    return mpc_evaluate(g, inputs, read_state, (void *)t, &options, t->c->arena, values) == MPC_OK;
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
    for (int64_t e = 0; e < count; e++) direction[e] = weight_of(50, e);
    check_direction(c, g, i, gradient, direction);
}

static void check_case(const ops_case *c, const mpc_graph *loss, const mpc_graph *step) {
    mpc_tensor *values = mpc_arena_alloc(c->arena, (step->value_count + 1) * sizeof *values);
    CHECK(evaluate(&(trial){c, c->operands}, step, values));
    for (uint32_t i = 0; i < c->operand_count; i++) {
        if (!is_parameter(c, i)) continue;
        mpc_value_id gradient =
            mpc_graph_find_output(step, (const char[]){'g', 'r', 'a', 'd', ':', 'p', (char)('a' + i), 0});
        mpc_tensor zero = mpc_tensor_make(c->arena, &c->operands[i].type); /* no output: no influence */
        check_operand(c, loss, i, gradient != MPC_NONE ? &values[gradient] : &zero);
    }
}

/* By a rule, or by differentiating the expansion. */
static bool has_gradient(const mpc_op *op) {
    return op->grad != NULL || (op->expand != NULL && (op->flags & MPC_OPF_NO_GRAD) == 0);
}

typedef struct tally {
    int cases, ops;
    mpc_op_id last;
} tally;

static void visit(const ops_case *c, void *user) {
    tally *t = user;
    bool parameter = false, result = false;
    for (uint32_t i = 0; i < c->operand_count; i++) parameter = parameter || is_parameter(c, i);
    for (uint32_t i = 0; i < c->result_count; i++) result = result || is_projected(c, i);
    if (c->format != MPC_FMT_f32 || !parameter || !result || !has_gradient(c->op)) return;
    mpc_graph *loss = build_loss(c);
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
