/* From mpc's op table to a plugin's rules. A rule gets only the node at hand, so it finds its own functions through the
 * descriptor of the node's op (mpc_op.plugin). */
#include "passes/expand_build.h"
#include "passes/grad_build.h"
#include "passes/plugins/plugin_functions.h"

static const mpc_plugin_op *theirs(const mpc_op *op) { return op->plugin; }

static mpc_call call_for(mpc_call_kind kind, mpc_context *ctx, const mpc_op *op) {
    return (mpc_call){.kind = kind, .ctx = ctx, .who = op->name};
}

bool mpc_plugin_run_shape(mpc_infer *infer) {
    mpc_call c = call_for(MPC_CALL_SHAPE, infer->ctx, infer->op);
    c.infer = infer;
    theirs(infer->op)->shape(&mpc_plugin_functions, &c);
    mpc_call_end(&c);
    return !c.failed;
}

bool mpc_plugin_run_eval(mpc_eval *eval) {
    const mpc_op *op = mpc_op_get(eval->graph->ctx, eval->node->op);
    mpc_call c = call_for(MPC_CALL_EVAL, eval->graph->ctx, op);
    c.g = eval->graph;
    c.eval = eval;
    theirs(op)->eval(&mpc_plugin_functions, &c);
    mpc_call_end(&c);
    return !c.failed;
}

void mpc_plugin_run_expand(mpc_expand *e) {
    const mpc_op *op = mpc_op_get(e->from->ctx, e->node->op);
    mpc_call c = call_for(MPC_CALL_EXPAND, e->from->ctx, op);
    c.g = e->from;
    c.expand = e;
    c.scratch = mpc_arena_create();
    c.widened = c.scratch == NULL ? NULL : mpc_arena_alloc(c.scratch, (e->operand_count + 1) * sizeof *c.widened);
    if (c.widened == NULL) {
        mpc_builder_fail(e->b, "out of memory");
    } else {
        for (uint32_t i = 0; i < e->operand_count; i++) c.widened[i] = MPC_NO_ID;
        theirs(op)->expand(&mpc_plugin_functions, &c);
    }
    mpc_call_end(&c);
}

void mpc_plugin_run_grad(mpc_grad *grad) {
    mpc_context *ctx = mpc_builder_context(grad->b);
    const mpc_op *op = mpc_op_get(ctx, grad->node.op);
    mpc_call c = call_for(MPC_CALL_GRAD, ctx, op);
    c.grad = grad;
    theirs(op)->grad(&mpc_plugin_functions, &c);
    mpc_call_end(&c);
}

/* --- the functions of rules --- */

static bool is_kind(mpc_call *c, mpc_call_kind kind, const char *what) {
    if (c->kind != kind) mpc_call_fail(c, "%s can't be used here", what);
    return c->kind == kind && !mpc_call_failed(c);
}

void mpc_api_set_result(mpc_call *c, uint32_t result, const char *format, uint32_t rank, const int64_t *dims) {
    if (!is_kind(c, MPC_CALL_SHAPE, "set_result")) return;
    mpc_format f = mpc_call_format(c, format);
    if (result >= c->infer->op->result_count) mpc_call_fail(c, "there is no result %u", result);
    if (c->failed) return;
    c->infer->results[result] = mpc_type_make(c->ctx, f, rank, dims);
}

mpc_id mpc_api_dresult(mpc_call *c, uint32_t result) {
    if (!is_kind(c, MPC_CALL_GRAD, "dresult")) return MPC_NO_ID;
    if (result >= c->grad->node.result_count) mpc_call_fail(c, "there is no result %u", result);
    return c->failed ? MPC_NO_ID : c->grad->dresults[result];
}

bool mpc_api_wanted(mpc_call *c, uint32_t index) {
    if (c->kind == MPC_CALL_EXPAND) return index < c->expand->node->result_count && c->expand->used[index];
    return is_kind(c, MPC_CALL_GRAD, "wanted") && index < c->grad->node.operand_count && c->grad->wanted[index];
}

static void give_result(mpc_call *c, uint32_t index, mpc_id value) {
    mpc_type want = mpc_expand_result_type(c->expand, index), have = mpc_expand_type(c->expand, value);
    bool same = want.rank == have.rank;
    for (uint32_t i = 0; same && i < want.rank; i++) same = want.dims[i] == have.dims[i];
    if (same) c->expand->results[index] = value;
    else mpc_call_fail(c, "what the expansion gives for result %u has another shape than the shape rule says", index);
}

void mpc_api_give(mpc_call *c, uint32_t index, mpc_id value) {
    bool expand = c->kind == MPC_CALL_EXPAND;
    if ((!expand && !is_kind(c, MPC_CALL_GRAD, "give")) || mpc_call_failed(c)) return;
    uint32_t count = expand ? c->expand->node->result_count : c->grad->node.operand_count;
    if (index >= count) mpc_call_fail(c, "there is no %s %u", expand ? "result" : "operand", index);
    else if (value >= mpc_builder_graph(mpc_call_builder(c))->value_count)
        mpc_call_fail(c, "%u is no value that was built", value);
    else if (expand) give_result(c, index, value);
    else mpc_grad_put(c->grad, index, value);
}

const double *mpc_api_operand_data(mpc_call *c, uint32_t operand) {
    if (!is_kind(c, MPC_CALL_EVAL, "operand_data")) return NULL;
    if (operand >= c->eval->operand_count) mpc_call_fail(c, "there is no operand %u", operand);
    return c->failed ? NULL : c->eval->operands[operand].data;
}

double *mpc_api_result_data(mpc_call *c, uint32_t result) {
    if (!is_kind(c, MPC_CALL_EVAL, "result_data")) return NULL;
    if (result >= c->eval->node->result_count) mpc_call_fail(c, "there is no result %u", result);
    return c->failed ? NULL : c->eval->results[result].data;
}
