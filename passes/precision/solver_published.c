/* Solvers that decide as systems with one look at each op do: PyTorch's autocast (two lists), Apex O1, TVM's Relay and
 * Relax. Nodes are decided in topological order, from their lists and their operands' formats alone; nothing looks at
 * readers. The one thing to know: PyTorch's and Apex's lists hold in the forward pass only, a gradient runs in the
 * formats that its forward op had. */
#include <stdio.h>

#include "passes/precision/baseline.h"

enum { WHY_SIZE = 160 };

/* "PyTorch CUDA: softmax is on fp32_set_opt_dtype" */
static void say(const mpc_baseline *b, mpc_node_id id, const char *then, char why[WHY_SIZE]) {
    const mpc_op *op = mpc_node_op(b->p->g, id);
    const char *names = mpc_published_names(b->system, op->name);
    snprintf(why, WHY_SIZE, "%s: %s is %s%s", mpc_system_name(b->system),
             names == NULL || *names == '\0' ? op->name : names, mpc_listed_name(b->system, mpc_baseline_listed(b, id)),
             then);
}

static bool is_view(const mpc_baseline *b, mpc_node_id id) { return mpc_node_op(b->p->g, id)->kind == MPC_KIND_VIEW; }

/* --- PyTorch, Apex: forward --- */

static void decide_torch(const mpc_baseline *b, mpc_node_id id) {
    mpc_plan *p = b->p;
    const mpc_node *n = &p->g->nodes[id];
    mpc_listed listed = mpc_baseline_listed(b, id);
    mpc_format widest = mpc_baseline_widest(p, n, listed == MPC_LISTED_PROMOTE), operand = widest, result = widest;
    char why[WHY_SIZE];
    say(b, id,
        listed == MPC_LISTED_PROMOTE ? ": the widest of its inputs"
        : listed == MPC_LISTED_NOT   ? ": its input's type"
                                     : "",
        why);
    if (listed == MPC_LISTED_LOW) operand = result = p->low;
    else if (listed == MPC_LISTED_HIGH || listed == MPC_LISTED_BANNED) operand = result = MPC_FMT_f32;
    else if (listed == MPC_LISTED_SETS) operand = MPC_FMT_none, result = MPC_FMT_f32;
    else if (listed != MPC_LISTED_PROMOTE && !is_view(b, id)) operand = MPC_FMT_none;
    mpc_baseline_decide(b, id, operand, result, why);
}

/* --- PyTorch, Apex: gradients --- */

static bool is_high(mpc_listed listed) {
    return listed == MPC_LISTED_HIGH || listed == MPC_LISTED_SETS || listed == MPC_LISTED_BANNED;
}

/* What a gradient of the forward node's operand is cast back to: that operand's own format. */
static mpc_format format_of_target(const mpc_plan *p, const mpc_node *forward, mpc_value_id gradient) {
    int64_t elements = mpc_type_elements(mpc_value_type(p->g, gradient));
    for (uint32_t i = 0; i < forward->operand_count; i++) {
        mpc_value_id x = mpc_operand(p->g, forward, i);
        if (mpc_format_is_float(p->format[x]) && mpc_type_elements(mpc_value_type(p->g, x)) == elements)
            return p->format[x];
    }
    return MPC_FMT_f32;
}

/* An add whose operands come from other ops' gradients: where a value has several readers, their gradients meet. */
static bool is_sum_of_gradients(const mpc_graph *g, const mpc_node *n) {
    if (n->op != MPC_OP_add) return false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *producer = mpc_producer(g, mpc_operand(g, n, i));
        if (producer != NULL && producer->origin == n->origin) return false;
    }
    return true;
}

static void decide_torch_gradient(const mpc_baseline *b, mpc_node_id id) {
    mpc_plan *p = b->p;
    const mpc_node *n = &p->g->nodes[id], *forward = &p->g->nodes[b->forward[id]];
    mpc_listed listed = mpc_baseline_listed(b, b->forward[id]);
    mpc_value_id y = mpc_result(n, 0);
    mpc_format operand = is_view(b, id) ? mpc_baseline_widest(p, n, false) : MPC_FMT_none;
    mpc_format result = mpc_baseline_widest(p, n, false);
    bool sums = is_sum_of_gradients(p->g, n);
    if (is_view(b, id)) result = operand; /* of what the forward op saved: its low copy is shared */
    else if (listed == MPC_LISTED_LOW && !sums) operand = result = p->low;
    else if (mpc_node_op(p->g, id)->cls == MPC_CLASS_LOW) operand = result;
    else if (is_high(listed) && !sums)
        result = p->inside[y] && p->read[y] ? MPC_FMT_f32 : format_of_target(p, forward, y);
    char then[64];
    snprintf(then, sizeof then, "; backward as its forward %s", mpc_node_op(p->g, b->forward[id])->name);
    char why[WHY_SIZE];
    snprintf(why, sizeof why, "%s%s", mpc_system_name(b->system), then);
    mpc_baseline_decide(b, id, operand, result, why);
}

static mpc_status solve_torch(mpc_plan *p, mpc_system system) {
    mpc_baseline b;
    if (!mpc_baseline_init(&b, p, system)) return MPC_NO_MEMORY;
    for (mpc_node_id id = 0; id < p->g->node_count; id++) {
        if (!mpc_is_assigned(p->g, id) || p->given[id] || mpc_baseline_settle(&b, id)) continue;
        if (b.forward[id] == MPC_NONE) decide_torch(&b, id);
        else decide_torch_gradient(&b, id);
    }
    return MPC_OK;
}

mpc_status mpc_solver_list_pytorch(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_torch(p, MPC_SYSTEM_pytorch_cuda);
}

mpc_status mpc_solver_list_pytorch_cpu(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_torch(p, MPC_SYSTEM_pytorch_cpu);
}

mpc_status mpc_solver_o1(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_torch(p, MPC_SYSTEM_apex);
}

/* --- TVM --- */

/* Inputs, parameters and constants can be made in either format, so they keep no follower wide. */
static bool is_free(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n == NULL || n->op == MPC_OP_state || n->op == MPC_OP_const;
}

static bool all_low(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_format_is_float(p->format[v]) || p->fixed.operand[n->operand_begin + i] || is_free(p->g, v)) continue;
        if (p->format[v] != p->low) return false;
    }
    return true;
}

/* Relay takes an unlisted op for a follower; Relax leaves it alone. */
static bool goes_low(const mpc_baseline *b, mpc_node_id id) {
    mpc_listed listed = mpc_baseline_listed(b, id);
    if (listed == MPC_LISTED_LOW) return true;
    if (is_high(listed) || (listed == MPC_LISTED_NOT && b->system == MPC_SYSTEM_relax)) return false;
    return all_low(b->p, &b->p->g->nodes[id]);
}

static mpc_status solve_tvm(mpc_plan *p, mpc_system system) {
    mpc_baseline b;
    if (!mpc_baseline_init(&b, p, system)) return MPC_NO_MEMORY;
    for (mpc_node_id id = 0; id < p->g->node_count; id++) {
        if (!mpc_is_assigned(p->g, id) || p->given[id] || mpc_baseline_settle(&b, id)) continue;
        mpc_format f = goes_low(&b, id) ? p->low : MPC_FMT_f32;
        char why[WHY_SIZE];
        say(&b, id, f == MPC_FMT_f32 ? ": f32" : ": low", why);
        mpc_baseline_decide(&b, id, f, f, why);
    }
    return MPC_OK;
}

mpc_status mpc_solver_list_tvm(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_tvm(p, MPC_SYSTEM_relay);
}

mpc_status mpc_solver_list_relax(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_tvm(p, MPC_SYSTEM_relax);
}
