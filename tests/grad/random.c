/* Random graphs of elementwise ops, reductions and views with shared values and broadcasting: gradients against central
 * differences, and no backward node too many. The seeds are fixed, so a failure can be repeated. */
#include "base/rng.h"
#include "support.h"

typedef struct maker {
    mpc_builder *b;
    uint64_t seed;
    uint32_t draw;
    mpc_value_id pool[64];
    uint32_t count;
} maker;

static uint32_t pick(maker *m, uint32_t n) { return mpc_random_bits(m->seed, 0, 0, m->draw++) % n; }

static mpc_value_id pick_value(maker *m) { return m->pool[pick(m, m->count)]; }

static void add_states(maker *m, mpc_context *ctx) {
    static const int64_t shapes[4][2] = {{2, 3}, {2, 1}, {1, 3}, {2, 3}};
    mpc_attr_arg trainable = MPC_A_BOOL("trainable", true);
    for (uint32_t i = 0; i < 4; i++) {
        const char name[] = {'s', (char)('0' + i), 0};
        m->pool[m->count++] =
            mpc_build_state(m->b, name, mpc_type_make(ctx, MPC_FMT_f32, 2, shapes[i]), &trainable, i != 3 ? 1 : 0);
    }
}

/* Smooth and bounded, so that differences are accurate. */
static mpc_value_id add_node(maker *m) {
    static const mpc_op_id unary[] = {MPC_OP_tanh, MPC_OP_sigmoid, MPC_OP_sin, MPC_OP_gelu, MPC_OP_neg, MPC_OP_erf};
    static const mpc_op_id binary[] = {MPC_OP_add, MPC_OP_sub, MPC_OP_mul};
    static const int64_t perm[2] = {1, 0};
    int64_t axis = pick(m, 2);
    mpc_attr_arg softmax = MPC_A_INT("axis", axis);
    switch (pick(m, 8)) {
    case 0:
    case 1:
    case 2:
        return mpc_build1(m->b, unary[pick(m, 6)], pick_value(m));
    case 3:
        return mpc_build_reduce(m->b, pick(m, 2) ? MPC_OP_sum : MPC_OP_mean, pick_value(m), &axis, 1, true);
    case 4:
        return mpc_build(m->b, MPC_OP_softmax, &(mpc_value_id){pick_value(m)}, 1, &softmax, 1);
    case 5:
        return mpc_build_transpose(m->b, mpc_build_transpose(m->b, pick_value(m), perm), perm);
    default:
        return mpc_build2(m->b, binary[pick(m, 3)], pick_value(m), pick_value(m));
    }
}

static mpc_graph *make_graph(fixture *f, uint64_t seed) {
    maker m = {.b = mpc_builder_create(f->ctx, "step"), .seed = seed};
    add_states(&m, f->ctx);
    while (m.count < 16) m.pool[m.count++] = add_node(&m);
    mpc_value_id last = mpc_build1(m.b, MPC_OP_tanh, mpc_build2(m.b, MPC_OP_add, pick_value(&m), m.pool[m.count - 1]));
    mpc_build_output(m.b, "loss", mpc_build_reduce(m.b, MPC_OP_sum, last, (const int64_t[]){0, 1}, 2, false));
    return mpc_builder_finish(m.b);
}

static void check_graph(uint64_t seed) {
    fixture *f = open_fixture();
    char label[64];
    snprintf(label, sizeof label, "seed %llu", (unsigned long long)seed);
    mpc_graph *g = make_graph(f, seed), *dg = apply(f, mpc_pass_grad, g), *low = apply(f, mpc_pass_expand, dg);
    if (low != NULL) {
        check_states(f, label, g, dg, false);
        check_no_dead_node(label, dg, g->node_count);
        check_same_outputs(f, label, dg, low, 1e-9);
    }
    mpc_graph_destroy(low);
    mpc_graph_destroy(dg);
    mpc_graph_destroy(g);
    close_fixture(f);
}

int main(void) {
    for (uint64_t seed = 1; seed <= 300; seed++) check_graph(seed);
    return check_result();
}
