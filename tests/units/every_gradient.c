/* Scale units of the gradient of every op, on every sample: nothing is refused, before and after expansion, every
 * gradient comes out as a true value, and twice the scale doubles what is scaled, to the bit. A rule of the wrong kind
 * for a new op is found here. */
#include <math.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/scale_units.h"
#include "tests/check.h"
#include "tests/ops/gradient_graph.h"

typedef struct trial {
    const ops_case *c;
    double scale;
} trial;

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *n) {
    const trial *t = user;
    const char *name = mpc_attr_str(g, n, "name");
    if (strncmp(name, "scaler.", 7) != 0) return ops_gradient_state((void *)(uintptr_t)t->c->operands, g, n);
    mpc_tensor own = mpc_tensor_make(t->c->arena, mpc_value_type(g, n->result_begin));
    own.data[0] = strcmp(name, "scaler.scale") == 0 ? t->scale : 0;
    return own;
}

static mpc_tensor *evaluate(const ops_case *c, const mpc_graph *g, double scale) {
    trial t = {c, scale};
    mpc_tensor inputs[OPS_MAX_OPERANDS + OPS_MAX_RESULTS];
    mpc_tensor *values = mpc_arena_alloc(c->arena, (g->value_count + 1) * sizeof *values);
    ops_gradient_inputs(c, c->operands, g, inputs);
    bool ok = values && mpc_evaluate(g, inputs, read_state, &t, NULL, c->arena, values) == MPC_OK;
    return ok ? values : NULL;
}

static bool doubles(const mpc_tensor *a, const mpc_tensor *b, int exponent) {
    for (int64_t k = 0; k < mpc_type_elements(&a->type); k++)
        if (b->data[k] != ldexp(a->data[k], exponent) && !(isnan(a->data[k]) && isnan(b->data[k]))) return false;
    return true;
}

/* How many values carried the scale. */
static unsigned check_doubling(const ops_case *c, const mpc_graph *g, const mpc_scale_unit *units) {
    mpc_tensor *once = evaluate(c, g, 4), *twice = evaluate(c, g, 8);
    unsigned scaled = 0;
    CHECK_MSG(once && twice, "%s: evaluation fails", c->label);
    for (mpc_value_id v = 0; once && twice && v < g->value_count; v++) {
        const mpc_scale_unit *u = &units[v];
        if (!mpc_format_is_float(mpc_value_format(g, v)) || u->kind == MPC_SCALE_UNIT_ANY) continue;
        if (strncmp(mpc_value_name(g, v), "scaler", 6) == 0) continue; /* the update stops at its bounds */
        int exponent = u->kind == MPC_SCALE_UNIT_SCALE ? 1 : u->exponent;
        CHECK_MSG(u->kind != MPC_SCALE_UNIT_OPEN, "%s: %s is open", c->label, mpc_value_name(g, v));
        CHECK_MSG(doubles(&once[v], &twice[v], exponent), "%s: %s isn't S^%d", c->label, mpc_value_name(g, v),
                  exponent);
        scaled += exponent == 1;
    }
    return scaled;
}

static void check_pipeline(const ops_case *c, const mpc_graph *loss, const char *pipeline, unsigned *scaled) {
    mpc_pass_env env = {.ctx = c->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *g = mpc_pipeline_run(loss, pipeline, &env, &hooks);
    mpc_scale_unit *units = NULL;
    CHECK_MSG(g && mpc_scale_units(g, c->arena, &units) == MPC_OK, "%s: %s", c->label, pipeline);
    if (g && units) *scaled += check_doubling(c, g, units);
    mpc_graph_destroy(g);
}

static void visit(const ops_case *c, void *user) {
    unsigned *scaled = user;
    if (c->format != MPC_FMT_f32 || !ops_gradient_exists(c)) return;
    mpc_graph *loss = ops_gradient_loss(c);
    CHECK_MSG(loss != NULL, "%s: no loss", c->label);
    if (loss) check_pipeline(c, loss, "grad,loss-scale{mode=dynamic}", scaled);
    if (loss) check_pipeline(c, loss, "grad,loss-scale{mode=dynamic},expand,@clean", scaled);
    mpc_graph_destroy(loss);
}

int main(int argc, char **argv) {
    mpc_diag_list *diags = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(diags);
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    unsigned scaled = 0;
    ops_walk(ctx, argc > 1 ? argv[1] : NULL, visit, &scaled);
    CHECK(scaled > 200 || argc > 1);
    for (size_t i = 0; i < mpc_diag_list_count(diags); i++)
        if (strcmp(mpc_diag_list_get(diags, i)->code, "V20") == 0)
            fprintf(stderr, "%s\n", mpc_diag_list_get(diags, i)->message);
    mpc_context_destroy(ctx);
    mpc_diag_list_destroy(diags);
    return ops_result() | check_result();
}
