/* What range evidence has kept in f32, told once: values whose numbers the low format can't hold, where the solver or
 * the class would have narrowed them. The evidence stands in the reason of the decision (range_force.c); readers of
 * such a value have the same reason, and only the first of them is told. What passes put beside the model (no line)
 * isn't. */
#include <string.h>

#include "passes/precision/precision.h"
#include "passes/precision/range.h"

static bool is_reason(const char *why) { return strncmp(why, MPC_RANGE_REASON, strlen(MPC_RANGE_REASON)) == 0; }

/* A literal is told where it is put in. */
static bool reads_literal(const mpc_graph *g, const mpc_node *n, const char *reason) {
    if (strncmp(reason, "the constant", strlen("the constant")) != 0 || n->op == MPC_OP_pad) return false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *from = mpc_producer(g, mpc_operand(g, n, i));
        if (from != NULL && from->op == MPC_OP_const) return false;
    }
    return true;
}

const char *mpc_range_reason(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    if (n->why == 0 || n->origin != 0 || n->loc.file == 0) return NULL;
    const char *why = mpc_sym_text(g->ctx, n->why);
    if (!is_reason(why) || reads_literal(g, n, why + strlen(MPC_RANGE_REASON))) return NULL;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *from = mpc_producer(g, mpc_operand(g, n, i));
        if (from != NULL && from->why == n->why) return NULL;
    }
    return why + strlen(MPC_RANGE_REASON);
}

/* Sums and products that overflow and ids that run together (N44 ... N46). An eps or an angle in f32 is what anyone
 * would expect, and a mask's literal has a warning of its own where a class rule keeps it. */
static bool is_told(const char *reason) {
    return strstr(reason, "(N44)") != NULL || strstr(reason, "(N45)") != NULL || strstr(reason, "(N46)") != NULL;
}

static void append_value(const mpc_graph *g, mpc_node_id id, mpc_str *out) {
    const mpc_node *n = &g->nodes[id];
    mpc_str_printf(out, "`%s`", mpc_value_name(g, mpc_result(n, 0)));
    mpc_str_printf(out, " (%s:%u) is kept in f32: %s", mpc_sym_text(g->ctx, n->loc.file), n->loc.line,
                   mpc_range_reason(g, id));
}

void mpc_range_tell(const mpc_graph *decided) {
    mpc_str text = {0};
    uint32_t count = 0;
    for (mpc_node_id id = 0; id < decided->node_count; id++) {
        const char *reason = mpc_range_reason(decided, id);
        if (reason != NULL && is_told(reason) && count++ == 0) append_value(decided, id, &text);
    }
    if (count > 1) mpc_str_printf(&text, "; and %u more, which `mpc lint` lists", count - 1);
    const mpc_diag note = {.severity = MPC_SEV_NOTE, .code = "W189", .message = mpc_str_cstr(&text)};
    const mpc_sink *sink = mpc_context_sink(decided->ctx);
    if (count > 0 && sink != NULL) sink->emit(sink->user, &note);
    mpc_str_free(&text);
}
