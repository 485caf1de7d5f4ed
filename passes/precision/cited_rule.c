/* Which rule of docs/precision.md a reason cites, and which one range evidence cites against a node. Reasons are text,
 * so a rule in them is a word of its own: a newcomer would take what a value is called ("N12x", "conv.N43") for one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "passes/precision/cost.h"
#include "passes/precision/precision.h"

bool mpc_find_rule(const char *text, char rule[MPC_RULE_SIZE]) {
    for (const char *at = strchr(text, 'N'); at != NULL; at = strchr(at + 1, 'N')) {
        bool number = isdigit((unsigned char)at[1]) && isdigit((unsigned char)at[2]) && !isalnum((unsigned char)at[3]);
        if (!number || (at > text && at[-1] != '(' && at[-1] != ' ')) continue;
        snprintf(rule, MPC_RULE_SIZE, "%.3s", at);
        return true;
    }
    return false;
}

void mpc_find_range_rule(const mpc_plan *p, mpc_node_id id, mpc_format low, char rule[MPC_RULE_SIZE]) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_format lows[2];
    uint32_t count = mpc_plan_lows(p, lows);
    snprintf(rule, MPC_RULE_SIZE, "N45");
    for (uint32_t i = 0; i < (n->operand_count + n->result_count) * count; i++) {
        uint32_t k = i / count;
        mpc_value_id v = k < n->operand_count ? mpc_operand(p->g, n, k) : mpc_result(n, k - n->operand_count);
        mpc_sym why = mpc_plan_forced(p, v, lows[i % count]);
        if (low != MPC_FMT_none && low != lows[i % count]) continue;
        if (why != 0 && mpc_find_rule(mpc_sym_text(p->g->ctx, why), rule)) return;
    }
}
