/* See gradient_graph.h. */
#include "gradient_graph.h"

#include <string.h>

#include "base/rng.h"

/* Results that carry no gradient by definition: running statistics, what attention and some norms save for their
 * backward pass. */
typedef struct exempt {
    const char *op;
    uint32_t first, last;
} exempt;
static const exempt exempts[] = {{"batch_norm", 3, 4}, {"attention", 1, 1}, {"rms_norm", 1, 1}, {"group_norm", 1, 2}, {"lstm", 2, 2}, {"gru", 2, 2}};

double ops_gradient_weight(uint32_t result, int64_t i) {
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

mpc_graph *ops_gradient_loss(const ops_case *c) {
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

/* By a rule, or by differentiating the expansion. */
static bool has_gradient(const mpc_op *op) {
    return op->grad != NULL || (op->expand != NULL && (op->flags & MPC_OPF_NO_GRAD) == 0);
}

bool ops_gradient_exists(const ops_case *c) {
    bool parameter = false, result = false;
    for (uint32_t i = 0; i < c->operand_count; i++) parameter = parameter || is_parameter(c, i);
    for (uint32_t i = 0; i < c->result_count; i++) result = result || is_projected(c, i);
    return c->format == MPC_FMT_f32 && parameter && result && has_gradient(c->op);
}

mpc_tensor ops_gradient_state(void *user, const mpc_graph *g, const mpc_node *state) {
    const mpc_tensor *operands = user;
    return operands[mpc_attr_str(g, state, "name")[1] - 'a'];
}

void ops_gradient_inputs(const ops_case *c, const mpc_tensor *operands, const mpc_graph *g, mpc_tensor *inputs) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        const char *name = mpc_value_name(g, g->inputs[i].value);
        uint32_t index = (uint32_t)(name[1] - (name[0] == 'w' ? '0' : 'a'));
        if (name[0] != 'w') inputs[i] = operands[index];
        if (name[0] != 'w') continue;
        inputs[i] = mpc_tensor_make(c->arena, mpc_value_type(g, g->inputs[i].value));
        int64_t count = mpc_type_elements(&inputs[i].type);
        for (int64_t k = 0; k < count; k++) inputs[i].data[k] = ops_gradient_weight(index, k);
    }
}
