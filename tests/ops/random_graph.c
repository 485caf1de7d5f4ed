/* See random_graph.h. A step picks a recipe and operands from the values so far; one that finds no fitting operands
 * does nothing, so a graph has at most `size` nodes. */
#include "random_graph.h"

#include <string.h>

#include "base/rng.h"
#include "ir/infer.h"

enum { MAX_VALUES = 256, MAX_ELEMENTS = 2000, INPUTS = 7 };

typedef struct maker {
    mpc_builder *b;
    uint64_t seed, draws;
    mpc_value_id values[MAX_VALUES];
    uint32_t count;
} maker;

static uint32_t pick(maker *m, uint32_t n) {
    return (uint32_t)(mpc_random_uniform(m->seed, 1, 0, m->draws++) * (float)n) % n;
}

static mpc_type type_of(const maker *m, mpc_value_id v) { return *mpc_builder_type(m->b, v); }

static void add(maker *m, mpc_value_id v) {
    if (v != MPC_NONE && m->count < MAX_VALUES) m->values[m->count++] = v;
}

/* A value of float (or bool) type, MPC_NONE after a few misses; later values are likelier. */
static mpc_value_id any(maker *m, bool wants_bool) {
    for (int tries = 0; tries < 12; tries++) {
        uint32_t i = pick(m, m->count), j = pick(m, m->count);
        mpc_value_id v = m->values[i > j ? i : j];
        if ((type_of(m, v).format == MPC_FMT_bool) == wants_bool) return v;
    }
    return MPC_NONE;
}

static mpc_value_id fitting(maker *m, mpc_value_id a, bool wants_bool) {
    mpc_type ta = type_of(m, a), out;
    for (int tries = 0; tries < 12; tries++) {
        mpc_value_id v = any(m, wants_bool);
        if (v == MPC_NONE) return MPC_NONE;
        mpc_type tv = type_of(m, v);
        if (mpc_broadcast(&ta, &tv, &out) && mpc_type_elements(&out) <= MAX_ELEMENTS) return v;
    }
    return MPC_NONE;
}

static mpc_format any_format(maker *m) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    return formats[pick(m, 3)];
}

/* Half of the results are stored in another format than the inferred one. */
static mpc_value_id build(maker *m, mpc_op_id op, const mpc_value_id *operands, uint32_t count) {
    return mpc_build_as(m->b, op, operands, count, NULL, 0, pick(m, 2) == 0 ? any_format(m) : MPC_FMT_none);
}

static mpc_value_id make_unary(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_neg, MPC_OP_abs, MPC_OP_relu, MPC_OP_sqrt, MPC_OP_rsqrt};
    mpc_value_id a = any(m, false);
    return a == MPC_NONE ? MPC_NONE : build(m, ops[pick(m, sizeof ops / sizeof *ops)], &a, 1);
}

static mpc_value_id make_binary(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_add, MPC_OP_sub, MPC_OP_mul, MPC_OP_div, MPC_OP_maximum, MPC_OP_minimum};
    mpc_value_id v[2] = {any(m, false)};
    v[1] = v[0] == MPC_NONE ? MPC_NONE : fitting(m, v[0], false);
    return v[1] == MPC_NONE ? MPC_NONE : build(m, ops[pick(m, sizeof ops / sizeof *ops)], v, 2);
}

static mpc_value_id make_constant(maker *m) {
    static const double values[] = {0, 1, -0.5, 0.3, 2, 1e-3};
    mpc_value_id v[2] = {any(m, false), mpc_build_const(m->b, values[pick(m, 6)], MPC_FMT_f32)};
    return v[0] == MPC_NONE ? MPC_NONE : build(m, pick(m, 2) == 0 ? MPC_OP_mul : MPC_OP_add, v, 2);
}

static mpc_value_id make_compare(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_lt, MPC_OP_ge, MPC_OP_eq, MPC_OP_ne};
    mpc_value_id a = any(m, false), b = a == MPC_NONE ? MPC_NONE : fitting(m, a, false);
    return b == MPC_NONE ? MPC_NONE : mpc_build2(m->b, ops[pick(m, 4)], a, b);
}

static mpc_value_id make_logic(maker *m) {
    mpc_value_id a = any(m, true), b = a == MPC_NONE ? MPC_NONE : fitting(m, a, true);
    if (b == MPC_NONE) return MPC_NONE;
    uint32_t which = pick(m, 3);
    return which == 2 ? mpc_build1(m->b, MPC_OP_not, a) : mpc_build2(m->b, which == 0 ? MPC_OP_and : MPC_OP_or, a, b);
}

static mpc_value_id make_where(maker *m) {
    mpc_value_id v[3] = {any(m, true)};
    mpc_type c, pair, out;
    if (v[0] == MPC_NONE) return MPC_NONE;
    v[1] = fitting(m, v[0], false);
    v[2] = v[1] == MPC_NONE ? MPC_NONE : fitting(m, v[1], false);
    if (v[2] == MPC_NONE) return MPC_NONE;
    mpc_type a = type_of(m, v[1]), b = type_of(m, v[2]);
    c = type_of(m, v[0]);
    if (!mpc_broadcast(&a, &b, &pair) || !mpc_broadcast(&c, &pair, &out) || mpc_type_elements(&out) > MAX_ELEMENTS)
        return MPC_NONE;
    return build(m, MPC_OP_where, v, 3);
}

static mpc_value_id make_cast(maker *m) {
    mpc_value_id a = any(m, pick(m, 4) == 0);
    if (a == MPC_NONE) return MPC_NONE;
    return mpc_build_cast(m->b, a, any_format(m), pick(m, 2) == 0 ? "user" : "autocast");
}

static mpc_value_id make_transpose(maker *m) {
    mpc_value_id a = any(m, pick(m, 6) == 0);
    if (a == MPC_NONE) return MPC_NONE;
    mpc_type t = type_of(m, a);
    int64_t perm[MPC_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) perm[i] = t.rank - 1 - i;
    return t.rank < 2 ? MPC_NONE : mpc_build_transpose(m->b, a, perm);
}

static mpc_value_id make_reshape(maker *m) {
    mpc_value_id a = any(m, pick(m, 6) == 0);
    if (a == MPC_NONE) return MPC_NONE;
    mpc_type t = type_of(m, a);
    int64_t n = mpc_type_elements(&t), dims[3] = {n, 1, 1};
    for (int64_t d = 2; d <= 6; d++)
        if (n % d == 0 && pick(m, 2) == 0) dims[0] = d, dims[1] = n / d;
    return mpc_build_reshape(m->b, a, 1 + pick(m, 3) % (dims[1] > 1 ? 1 : 3) + (dims[1] > 1), dims);
}

/* Bounds of a part of every axis, or a frame around it. */
static mpc_value_id make_slice_or_pad(maker *m) {
    mpc_value_id a = any(m, false);
    if (a == MPC_NONE) return MPC_NONE;
    mpc_type t = type_of(m, a);
    bool pads = pick(m, 2) == 0 && mpc_type_elements(&t) < MAX_ELEMENTS / 8;
    int64_t first[MPC_MAX_RANK], second[MPC_MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        first[i] = t.dims[i] > 1 || pads ? pick(m, 2) : 0;
        second[i] = pads ? (int64_t)pick(m, 2) : t.dims[i];
    }
    mpc_attr_arg attrs[2] = {MPC_A_INTS(pads ? "before" : "start", first, t.rank),
                             MPC_A_INTS(pads ? "after" : "stop", second, t.rank)};
    return mpc_build(m->b, pads ? MPC_OP_pad : MPC_OP_slice, &a, 1, attrs, 2);
}

static mpc_value_id make_concat(maker *m) {
    mpc_value_id v[2] = {any(m, false)};
    if (v[0] == MPC_NONE) return MPC_NONE;
    mpc_type a = type_of(m, v[0]), b;
    v[1] = v[0];
    for (int tries = 0; tries < 8 && v[1] == v[0]; tries++) {
        mpc_value_id other = any(m, false);
        b = type_of(m, other == MPC_NONE ? v[0] : other);
        if (b.rank == a.rank && memcmp(a.dims + 1, b.dims + 1, (MPC_MAX_RANK - 1) * sizeof *a.dims) == 0) v[1] = other;
    }
    if (a.rank == 0 || v[1] == MPC_NONE || mpc_type_elements(&a) > MAX_ELEMENTS / 3) return MPC_NONE;
    return mpc_build(m->b, MPC_OP_concat, v, 2, &MPC_A_INT("axis", 0), 1);
}

static mpc_value_id make_maximum(maker *m) {
    mpc_value_id a = any(m, false);
    if (a == MPC_NONE) return MPC_NONE;
    mpc_type t = type_of(m, a);
    int64_t axis = t.rank > 0 ? (int64_t)pick(m, t.rank) : 0;
    if (t.rank == 0 || t.dims[axis] == 0) return MPC_NONE;
    return mpc_build_reduce(m->b, pick(m, 2) == 0 ? MPC_OP_max : MPC_OP_min, a, &axis, 1, pick(m, 2) == 0);
}

static void make_inputs(maker *m) {
    static const mpc_type types[INPUTS] = {
        {MPC_FMT_f32, 2, {4, 18}},     {MPC_FMT_bf16, 2, {4, 18}}, {MPC_FMT_f16, 1, {18}}, {MPC_FMT_f32, 2, {4, 1}},
        {MPC_FMT_bf16, 3, {3, 4, 18}}, {MPC_FMT_bool, 2, {4, 18}}, {MPC_FMT_f32, 0, {0}},
    };
    for (int i = 0; i < INPUTS; i++)
        add(m, mpc_build_input(m->b, (const char[]){'x', (char)('0' + i), 0},
                               mpc_type_make(mpc_builder_context(m->b), types[i].format, types[i].rank, types[i].dims),
                               NULL, 0));
}

static void make_outputs(maker *m) {
    char name[] = "r0";
    for (uint32_t i = 0; i < 6; i++, name[1]++) mpc_build_output(m->b, name, m->values[m->count - 1 - i * 2]);
}

mpc_graph *ops_random_graph(mpc_context *ctx, uint64_t seed, uint32_t size) {
    static mpc_value_id (*const recipes[])(maker *) = {
        make_unary,     make_binary,       make_binary, make_binary,  make_constant, make_compare,
        make_logic,     make_where,        make_where,  make_cast,    make_cast,     make_reshape,
        make_transpose, make_slice_or_pad, make_concat, make_maximum,
    };
    maker m = {.b = mpc_builder_create(ctx, "random"), .seed = seed};
    if (m.b == NULL) return NULL;
    make_inputs(&m);
    for (uint32_t i = 0; i < size; i++) add(&m, recipes[pick(&m, sizeof recipes / sizeof *recipes)](&m));
    for (uint32_t i = 0; i < 12; i++) add(&m, make_unary(&m));
    make_outputs(&m);
    return mpc_builder_finish(m.b);
}

void ops_random_inputs(const mpc_graph *g, uint64_t seed, mpc_arena *arena, mpc_tensor *inputs) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        int64_t count = mpc_type_elements(&inputs[i].type);
        for (int64_t k = 0; k < count; k++) {
            double u = (double)mpc_random_uniform(seed, 2, i, (uint64_t)k);
            inputs[i].data[k] =
                inputs[i].type.format == MPC_FMT_bool ? u < 0.5 : mpc_round_to(inputs[i].type.format, 4 * u - 2);
        }
    }
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

bool ops_graph_outputs(const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs) {
    mpc_tensor *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    if (values == NULL || mpc_evaluate(g, inputs, no_state, NULL, NULL, arena, values) != MPC_OK) return false;
    for (uint32_t i = 0; i < g->output_count; i++) outputs[i] = values[g->outputs[i].value];
    return true;
}
