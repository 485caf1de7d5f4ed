/* Random operands: counter-based on (seed, op, variant, draw), so that a failing sample can be made again alone.
 * Everything is f32 or integer; whoever tests another format rounds. */
#include "ir/eval/sample_util.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

double mpc_sample_real(mpc_sample *s, double lo, double hi) {
    double u = (double)mpc_random_uniform(s->seed, mpc_hash_str(s->op->name), s->variant, s->draws++);
    return (double)(float)(lo + (hi - lo) * u);
}

int64_t mpc_sample_int(mpc_sample *s, int64_t lo, int64_t hi) {
    int64_t k = lo + (int64_t)(mpc_sample_real(s, 0, 1) * (double)(hi - lo));
    return k < hi ? k : hi - 1;
}

mpc_tensor *mpc_sample_operand(mpc_sample *s, mpc_format format, uint32_t rank, const int64_t *dims) {
    mpc_type type = {.format = format, .rank = rank};
    if (rank > 0) memcpy(type.dims, dims, rank * sizeof *dims);
    mpc_tensor *t = &s->operands[s->operand_count];
    *t = mpc_tensor_make(s->arena, &type);
    s->differentiable[s->operand_count++] = false;
    return t->data != NULL ? t : NULL;
}

bool mpc_sample_fixed(mpc_sample *s, double lo, double hi, uint32_t rank, const int64_t *dims) {
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, rank, dims);
    if (t == NULL) return false;
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) t->data[i] = mpc_sample_real(s, lo, hi);
    return true;
}

bool mpc_sample_reals(mpc_sample *s, double lo, double hi, uint32_t rank, const int64_t *dims) {
    s->differentiable[s->operand_count] = true;
    if (!mpc_sample_fixed(s, lo, hi, rank, dims)) return false;
    s->differentiable[s->operand_count - 1] = true;
    return true;
}

bool mpc_sample_spread(mpc_sample *s, double shift, uint32_t rank, const int64_t *dims) {
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, rank, dims);
    if (t == NULL) return false;
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) {
        double k = (double)mpc_sample_int(s, 1, 17) * (mpc_sample_int(s, 0, 2) == 0 ? -1 : 1);
        t->data[i] = (double)(float)(k / 8 + shift + mpc_sample_real(s, -0.02, 0.02));
    }
    s->differentiable[s->operand_count - 1] = true;
    return true;
}

bool mpc_sample_integers(mpc_sample *s, mpc_format format, int64_t lo, int64_t hi, uint32_t rank, const int64_t *dims) {
    mpc_tensor *t = mpc_sample_operand(s, format, rank, dims);
    if (t == NULL) return false;
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) t->data[i] = (double)mpc_sample_int(s, lo, hi);
    return true;
}

static const double specials[] = {
    (double)NAN, (double)INFINITY, -(double)INFINITY, 0.0,  -0.0, 1.0,   -1.0, 0x1p-149, -0x1.8p-130,
    0x1p-126,    (double)FLT_MAX,  -(double)FLT_MAX,  0.37, -2.6, 1e-20, 3e9};
const int64_t mpc_sample_special_count = sizeof specials / sizeof *specials;

bool mpc_sample_specials(mpc_sample *s, int64_t every, int64_t count) {
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, 1, &count);
    if (t == NULL) return false;
    for (int64_t i = 0; i < count; i++) t->data[i] = (double)(float)specials[i / every % mpc_sample_special_count];
    return true;
}

bool mpc_sample_bools(mpc_sample *s, uint32_t rank, const int64_t *dims) {
    return mpc_sample_integers(s, MPC_FMT_bool, 0, 2, rank, dims);
}

bool mpc_sample_number(mpc_sample *s, mpc_format format, double value) {
    mpc_tensor *t = mpc_sample_operand(s, format, MPC_SCALAR);
    if (t == NULL) return false;
    t->data[0] = mpc_round_to(format, value);
    return true;
}

bool mpc_sample_attr(mpc_sample *s, mpc_attr_arg attr) {
    s->attrs[s->attr_count++] = attr;
    return true;
}

bool mpc_sample_attr_ints(mpc_sample *s, const char *key, uint32_t count, const int64_t *values) {
    int64_t *copy = mpc_arena_alloc(s->arena, (count + 1) * sizeof *copy);
    if (copy == NULL) return false;
    if (count > 0) memcpy(copy, values, count * sizeof *copy);
    return mpc_sample_attr(s, MPC_A_INTS(key, copy, count));
}

static uint32_t known_attrs(const mpc_sample *s, const mpc_op *op, mpc_attr_arg *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->attr_count; i++)
        for (uint32_t k = 0; k < op->attr_count; k++)
            if (strcmp(mpc_sym_text(s->ctx, op->attrs[k].key), s->attrs[i].key) == 0) out[count++] = s->attrs[i];
    return count;
}

static mpc_graph *forward_graph(const mpc_sample *s, mpc_op_id op, uint32_t count) {
    mpc_builder *b = mpc_builder_create(s->ctx, "sample");
    mpc_value_id operands[12];
    mpc_attr_arg attrs[12];
    if (b == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const mpc_type *t = &s->operands[i].type;
        operands[i] = mpc_build_input(b, (const char[]){'o', (char)('a' + i), 0},
                                      mpc_type_make(s->ctx, t->format, t->rank, t->dims), NULL, 0);
    }
    mpc_build(b, op, operands, count, attrs, known_attrs(s, mpc_op_get(s->ctx, op), attrs));
    return mpc_builder_finish(b);
}

bool mpc_sample_forward(const mpc_sample *s, mpc_op_id op, uint32_t count, mpc_tensor *results) {
    mpc_graph *g = forward_graph(s, op, count);
    if (g == NULL) return false;
    mpc_status status = mpc_evaluate_node(g, 0, s->operands, true, s->arena, results);
    mpc_graph_destroy(g);
    return status == MPC_OK;
}

bool mpc_sample_append(mpc_sample *s, const mpc_tensor *t) {
    mpc_tensor *copy = mpc_sample_operand(s, t->type.format, t->type.rank, t->type.dims);
    if (copy == NULL) return false;
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) copy->data[i] = mpc_round_to(MPC_FMT_f32, t->data[i]);
    return true;
}
