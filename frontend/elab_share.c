/* Which losses always count alike: those without a mask, and those with the same one. A loss's own count is what its
 * sum over many micro-batches is divided by, so losses that count differently can't be added before that. A loss that
 * is one number counts once for each batch, whatever that holds: like the others only where all batches are of one
 * size. What a newcomer would get wrong: this decides which states the step has, so it must come out the same for every
 * batch size; sizes are not asked for. */
#include "frontend/fe_elab.h"
#include "ir/attrs.h"

enum { DEPTH = 6 }; /* of expressions that are compared; deeper ones are taken for different */

/* `y >= 0` written twice makes two values that are the same. */
static bool same_value(const mpc_graph *g, mpc_value_id x, mpc_value_id y, unsigned depth) {
    if (x == y) return true;
    const mpc_node *a = mpc_producer(g, x), *b = mpc_producer(g, y);
    if (!depth || !a || !b || a->op != b->op || a->op == MPC_OP_state || a->operand_count != b->operand_count)
        return false;
    if (g->values[x].type != g->values[y].type || g->values[x].index != g->values[y].index) return false;
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (!same_value(g, mpc_operand(g, a, i), mpc_operand(g, b, i), depth - 1)) return false;
    return mpc_attrs_same(g->attrs + a->attr_begin, a->attr_count, g->attrs + b->attr_begin, b->attr_count);
}

static bool count_alike(const fe_elab *e, const fe_loss *a, const fe_loss *b) {
    if (a->group != b->group || (a->mask == MPC_NONE) != (b->mask == MPC_NONE)) return false;
    if (a->mask != MPC_NONE) return same_value(mpc_builder_graph(e->b), a->mask, b->mask, DEPTH);
    bool one_number = a->rank == 0, other = b->rank == 0;
    return one_number == other || e->m->config.drops_last;
}

void fe_share_losses(fe_elab *e) {
    for (size_t i = 0; i < e->losses.count; i++) {
        fe_loss *l = &e->losses.data[i];
        uint32_t last = 0;
        for (size_t k = 0; k < i && !l->share; k++) {
            const fe_loss *before = &e->losses.data[k];
            if (count_alike(e, before, l)) l->share = before->share;
            else if (before->group == l->group && before->share > last) last = before->share;
        }
        if (!l->share) l->share = last + 1;
    }
}
