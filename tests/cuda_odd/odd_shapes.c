/* Ops at the odd ends of the cuda device: every axis set of a reduction, rows of 1 to 40 elements and of a hundred
 * thousand, broadcasting along every axis, images smaller than their kernels, attention over one position, and operands
 * full of NaN, infinities, subnormal numbers and -0. Arguments: the groups to run, of those in `groups`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "passes/pass.h"
#include "runtime/device.h"
#include "tests/ops/registry.h"

enum { MOST_CASES = 700 };

typedef enum fill { PLAIN, POSITIVE, SPECIAL, ORDERED, IDS, BITS, ZEROS } fill; /* ORDERED: SPECIAL without -0 */

typedef struct operand {
    mpc_type type;
    fill fill;
    double ids; /* 0 to this, exclusive */
} operand;

typedef struct maker {
    mpc_context *ctx;
    ops_list list;
} maker;

static const mpc_format floats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};

#define DIMS(...) \
    (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define INTS(name, ...) \
    MPC_A_INTS(name, ((const int64_t[]){__VA_ARGS__}), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

static operand of(mpc_format format, uint32_t rank, const int64_t *dims) {
    operand o = {.type = {.format = format, .rank = rank}};
    memcpy(o.type.dims, dims, rank * sizeof *dims);
    return o;
}

static operand ids(mpc_format format, double below, uint32_t rank, const int64_t *dims) {
    operand o = of(format, rank, dims);
    o.fill = IDS;
    o.ids = below;
    return o;
}

static double special(double u, uint64_t i) {
    const double values[] = {NAN,    INFINITY, -INFINITY, 0.0,   -0.0,    1e-40,   -1e-45, 6e-8,
                             -3e-6,  65504,    65520,     1e30,  -3.4e38, 1.0,     -1.0,   0.5,
                             3.0e-39, 1e-38,   -65519,    2047.5, 1e-20,  -1e-7,   256.5,  -0.3};
    return u < 0.3 ? u : values[i % COUNT(values)];
}

static double element(const operand *o, uint64_t seed, uint32_t index, int64_t i) {
    double u = (double)mpc_random_uniform(seed, index, 0, (uint64_t)i);
    if (o->fill == IDS) return (double)(int64_t)(u * o->ids);
    if (o->fill == BITS) return u < 0.5;
    if (o->fill == ZEROS) return u < 0.5 ? -0.0 : 0.0;
    if (o->fill == POSITIVE) return u + 0.25;
    if (o->fill == SPECIAL || o->fill == ORDERED) return special(u, (uint64_t)(u * 1e6) + 7 * index);
    return u * 2 - 1;
}

static void add(maker *m, mpc_op_id op, const operand *operands, uint32_t count, const mpc_attr_arg *attrs,
                uint32_t attr_count) {
    ops_case *c = &m->list.cases[m->list.count];
    mpc_builder *b = mpc_builder_create(m->ctx, "case");
    mpc_value_id values[OPS_MAX_OPERANDS];
    *c = (ops_case){.ctx = m->ctx,
                    .arena = m->list.arena,
                    .op = mpc_op_get(m->ctx, op),
                    .id = op,
                    .format = operands[0].type.format,
                    .operand_count = count};
    int n = snprintf(c->label, sizeof c->label, "case %zu, %s", m->list.count, c->op->name);
    for (uint32_t k = 0; k < count; k++) {
        const mpc_type *t = &operands[k].type;
        c->operands[k] = mpc_tensor_make(m->list.arena, t);
        for (int64_t i = 0; i < mpc_type_elements(t); i++)
            c->operands[k].data[i] = mpc_round_to(t->format, element(&operands[k], m->list.count, k, i)) +
                                     (operands[k].fill == ORDERED ? 0.0 : -0.0);
        values[k] = mpc_build_input(b, (const char[]){(char)('a' + k), 0},
                                    mpc_type_make(m->ctx, t->format, t->rank, t->dims), NULL, 0);
        for (uint32_t d = 0; d < t->rank && n < 100; d++)
            n += snprintf(c->label + n, sizeof c->label - (size_t)n, "%s%lld", d ? "x" : " ", (long long)t->dims[d]);
    }
    mpc_value_id first = mpc_build_as(b, op, values, count, attrs, attr_count, MPC_FMT_none);
    for (uint32_t r = 0; first != MPC_NONE && r < c->op->result_count; r++)
        mpc_build_output(b, (const char[]){'r', (char)('0' + r), 0}, first + r);
    c->result_count = c->op->result_count;
    c->graph = mpc_builder_finish(b);
    if (c->graph == NULL || ++m->list.count >= MOST_CASES) {
        fprintf(stderr, "%s: no graph\n", c->label);
        exit(1);
    }
}

/* ---- groups ---- */

static void rows(maker *m) {
    for (int64_t n = 1; n <= 40; n += n < 20 ? 1 : 3) {
        mpc_format f = floats[n % 3];
        add(m, MPC_OP_sum, (operand[]){of(f, DIMS(5, n))}, 1, (mpc_attr_arg[]){INTS("axes", 1)}, 1);
        add(m, MPC_OP_max, (operand[]){of(f, DIMS(3, n))}, 1, (mpc_attr_arg[]){INTS("axes", 1)}, 1);
        add(m, MPC_OP_softmax, (operand[]){of(f, DIMS(7, n))}, 1, (mpc_attr_arg[]){MPC_A_INT("axis", 1)}, 1);
        add(m, MPC_OP_argmax, (operand[]){of(f, DIMS(3, n))}, 1, (mpc_attr_arg[]){MPC_A_INT("axis", 1)}, 1);
        add(m, MPC_OP_layer_norm,
            (operand[]){of(f, DIMS(2, n)), of(MPC_FMT_f32, DIMS(n)), of(MPC_FMT_f32, DIMS(n))}, 3, NULL, 0);
        add(m, MPC_OP_cross_entropy,
            (operand[]){of(f, DIMS(3, n)), ids(MPC_FMT_i32, (double)n + 1, DIMS(3))}, 2, NULL, 0);
    }
}

static void long_rows(maker *m) {
    static const int64_t shapes[][2] = {{1, 100003}, {3, 70001}, {2, 8193}, {1, 1}, {1, 1025}, {100003, 1}, {4097, 3}};
    for (uint32_t i = 0; i < COUNT(shapes); i++) {
        mpc_format f = floats[i % 3];
        operand x = of(f, 2, shapes[i]), c = of(MPC_FMT_f32, 1, &shapes[i][1]);
        const mpc_attr_arg last[] = {MPC_A_INT("axis", 1)}, first[] = {MPC_A_INT("axis", 0)};
        add(m, MPC_OP_sum, &x, 1, (mpc_attr_arg[]){INTS("axes", 1)}, 1);
        add(m, MPC_OP_sum, &x, 1, (mpc_attr_arg[]){INTS("axes", 0)}, 1);
        add(m, MPC_OP_max, &x, 1, (mpc_attr_arg[]){INTS("axes", 0, 1)}, 1);
        add(m, MPC_OP_min, &x, 1, (mpc_attr_arg[]){INTS("axes", 0)}, 1);
        add(m, MPC_OP_softmax, &x, 1, last, 1);
        add(m, MPC_OP_log_softmax, &x, 1, first, 1);
        add(m, MPC_OP_argmax, &x, 1, last, 1);
        add(m, MPC_OP_layer_norm, (operand[]){x, c, c}, 3, NULL, 0);
        add(m, MPC_OP_global_norm, (operand[]){x, c}, 2, NULL, 0);
        add(m, MPC_OP_cross_entropy,
            (operand[]){x, ids(MPC_FMT_i32, (double)shapes[i][1], 1, &shapes[i][0])}, 2, NULL, 0);
    }
}

static void axes(maker *m) {
    static const int64_t shapes[][4] = {{3, 5, 7, 2}, {1, 17, 1, 65}, {257, 1, 3, 1}, {2, 3, 65, 17}};
    for (uint32_t i = 0; i < COUNT(shapes); i++)
        for (uint32_t set = 1; set < 16; set++) {
            int64_t list[4];
            uint32_t n = 0;
            for (uint32_t d = 0; d < 4; d++)
                if (set >> d & 1) list[n++] = d;
            operand x = of(floats[(set + i) % 3], 4, shapes[i]);
            mpc_attr_arg a[] = {MPC_A_INTS("axes", list, n), MPC_A_BOOL("keep", set & 1)};
            x.fill = POSITIVE; /* the bound is of the result: nothing may cancel */
            add(m, MPC_OP_sum, &x, 1, a, 2);
            x.fill = ORDERED;
            add(m, set & 2 ? MPC_OP_max : MPC_OP_min, &x, 1, a, 2);
        }
    int64_t eight[8] = {2, 1, 3, 2, 1, 2, 3, 2};
    for (int64_t d = 0; d < 8; d++) {
        operand x = of(floats[d % 3], 8, eight);
        add(m, MPC_OP_sum, &x, 1, (mpc_attr_arg[]){INTS("axes", d)}, 1);
        add(m, MPC_OP_max, &x, 1, (mpc_attr_arg[]){INTS("axes", d / 2, d / 2 + 4)}, 1);
        add(m, MPC_OP_transpose, &x, 1, (mpc_attr_arg[]){INTS("perm", 3, 2, 1, 0, 4, 5, 6, 7)}, 1);
    }
}

static void broadcasts(maker *m) {
    static const int64_t full[] = {3, 5, 2, 17}, eight[] = {2, 3, 1, 2, 3, 2, 1, 5};
    static const mpc_op_id ops[] = {MPC_OP_add, MPC_OP_mul, MPC_OP_sub, MPC_OP_maximum, MPC_OP_div, MPC_OP_lt};
    for (uint32_t set = 0; set < 16; set++) {
        int64_t a[4], b[4];
        for (uint32_t d = 0; d < 4; d++) {
            a[d] = set >> d & 1 ? 1 : full[d];
            b[d] = (set * 7) >> d & 1 && a[d] > 1 ? 1 : full[d];
        }
        operand x = of(floats[set % 3], 4, a), y = of(floats[set % 3], 4, b);
        x.fill = y.fill = SPECIAL;
        add(m, ops[set % COUNT(ops)], (operand[]){x, y}, 2, NULL, 0);
        operand c = of(MPC_FMT_bool, 4, full);
        c.fill = BITS;
        add(m, MPC_OP_where, (operand[]){c, x, y}, 3, NULL, 0);
        add(m, MPC_OP_expand, &x, 1, (mpc_attr_arg[]){MPC_A_INTS("shape", full, 4)}, 1);
    }
    for (uint32_t d = 0; d < 8; d++) {
        int64_t a[8];
        memcpy(a, eight, sizeof a);
        a[d] = 1;
        add(m, MPC_OP_sub, (operand[]){of(floats[d % 3], 8, eight), of(floats[d % 3], 8, a)}, 2, NULL, 0);
        add(m, MPC_OP_add, (operand[]){of(floats[d % 3], 8, eight), of(floats[d % 3], 8 - d, eight + d)}, 2, NULL, 0);
    }
}

static void specials(maker *m) {
    static const mpc_op_id one[] = {MPC_OP_neg,  MPC_OP_abs,     MPC_OP_relu,  MPC_OP_sqrt,      MPC_OP_rsqrt, MPC_OP_exp,
                                    MPC_OP_tanh, MPC_OP_sigmoid, MPC_OP_erf,   MPC_OP_is_finite, MPC_OP_is_nan};
    static const mpc_op_id two[] = {MPC_OP_add, MPC_OP_sub, MPC_OP_mul, MPC_OP_div, MPC_OP_maximum, MPC_OP_minimum,
                                    MPC_OP_eq,  MPC_OP_ne,  MPC_OP_lt,  MPC_OP_le,  MPC_OP_gt,      MPC_OP_ge};
    for (uint32_t f = 0; f < 3; f++) {
        operand x = of(floats[f], DIMS(13, 40)), y = x;
        x.fill = y.fill = SPECIAL;
        for (uint32_t i = 0; i < COUNT(one); i++) add(m, one[i], &x, 1, NULL, 0);
        for (uint32_t i = 0; i < COUNT(two); i++) add(m, two[i], (operand[]){x, y}, 2, NULL, 0);
        for (uint32_t to = 0; to < 3; to++)
            add(m, MPC_OP_cast, &x, 1, (mpc_attr_arg[]){MPC_A_FORMAT("to", floats[to])}, 1);
        add(m, MPC_OP_argmax, &x, 1, (mpc_attr_arg[]){MPC_A_INT("axis", 1)}, 1);
        add(m, MPC_OP_argmax, &x, 1, (mpc_attr_arg[]){MPC_A_INT("axis", 0)}, 1);
        operand image = of(floats[f], DIMS(2, 5, 5, 9));
        image.fill = SPECIAL;
        add(m, MPC_OP_max_pool, &image, 1, (mpc_attr_arg[]){INTS("kernel", 3, 3), INTS("stride", 2, 2), INTS("pad", 1, 1)}, 3);
        add(m, MPC_OP_pad, &image, 1, (mpc_attr_arg[]){INTS("before", 1, 0, 2, 3), INTS("after", 0, 1, 0, 4), MPC_A_FLOAT("value", -0.5)}, 3);
        add(m, MPC_OP_concat, (operand[]){image, of(floats[(f + 1) % 3], DIMS(2, 5, 5, 1))}, 2, (mpc_attr_arg[]){MPC_A_INT("axis", 3)}, 1);
        add(m, MPC_OP_embedding, (operand[]){image.type.rank ? of(floats[f], DIMS(1, 3)) : x, ids(MPC_FMT_i32, 3, DIMS(70))}, 2, NULL, 0);
    }
    static const mpc_format integers[] = {MPC_FMT_i32, MPC_FMT_i64, MPC_FMT_u8};
    for (uint32_t f = 0; f < 3; f++) {
        operand x = ids(integers[f], 200, DIMS(7, 33)), y = ids(integers[f], 50, DIMS(7, 1));
        add(m, MPC_OP_maximum, (operand[]){x, y}, 2, NULL, 0);
        add(m, MPC_OP_eq, (operand[]){x, y}, 2, NULL, 0);
        add(m, MPC_OP_max, &x, 1, (mpc_attr_arg[]){INTS("axes", 0)}, 1);
        add(m, MPC_OP_cast, &x, 1, (mpc_attr_arg[]){MPC_A_FORMAT("to", floats[f])}, 1);
    }
}

/* The sign of a zero that is the maximum of a window. (Of a reduction it isn't promised: parts are folded as threads have
 * them.) */
static void zeros(maker *m) {
    for (uint32_t f = 0; f < 3; f++) {
        operand image = of(floats[f], DIMS(2, 5, 5, 9)), x = of(floats[f], DIMS(20, 65));
        image.fill = x.fill = ZEROS;
        add(m, MPC_OP_max_pool, &image, 1,
            (mpc_attr_arg[]){INTS("kernel", 3, 3), INTS("stride", 2, 2), INTS("pad", 1, 1)}, 3);
        add(m, MPC_OP_maximum, (operand[]){x, x}, 2, NULL, 0);
        add(m, MPC_OP_relu, &x, 1, NULL, 0);
    }
}

static void empties(maker *m) {
    for (uint32_t f = 0; f < 3; f++) {
        operand none = of(floats[f], DIMS(5, 0, 3)), some = of(floats[f], DIMS(5, 2, 3));
        add(m, MPC_OP_slice, &some, 1, (mpc_attr_arg[]){INTS("start", 0, 1, 0), INTS("stop", 5, 1, 3)}, 2);
        add(m, MPC_OP_concat, (operand[]){some, none, some}, 3, (mpc_attr_arg[]){MPC_A_INT("axis", 1)}, 1);
        add(m, MPC_OP_transpose, &none, 1, (mpc_attr_arg[]){INTS("perm", 2, 0, 1)}, 1);
        add(m, MPC_OP_pad, &none, 1, (mpc_attr_arg[]){INTS("before", 0, 1, 0), INTS("after", 0, 2, 0)}, 2);
        add(m, MPC_OP_add, (operand[]){none, none}, 2, NULL, 0);
        add(m, MPC_OP_sum, &none, 1, (mpc_attr_arg[]){INTS("axes", 1)}, 1);
        add(m, MPC_OP_sum, &none, 1, (mpc_attr_arg[]){INTS("axes", 2)}, 1);
        add(m, MPC_OP_max, &none, 1, (mpc_attr_arg[]){INTS("axes", 2)}, 1);
    }
}

typedef struct conv_shape {
    int64_t n, h, w, c, kh, kw, out, stride, pad, dilation, groups;
} conv_shape;

static void convs(maker *m) {
    static const conv_shape shapes[] = {
        {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},   {2, 9, 9, 3, 1, 1, 5, 3, 0, 1, 1},   {2, 4, 4, 3, 3, 3, 4, 1, 3, 1, 1},
        {1, 3, 3, 2, 3, 3, 2, 1, 5, 1, 1},   {2, 9, 8, 4, 3, 3, 6, 1, 2, 2, 1},   {1, 9, 9, 8, 3, 3, 8, 2, 1, 1, 8},
        {2, 5, 5, 6, 2, 2, 12, 1, 0, 1, 6},  {1, 1, 1, 17, 3, 3, 17, 1, 1, 1, 1}, {3, 7, 1, 5, 3, 1, 7, 1, 1, 1, 1},
        {1, 13, 13, 3, 2, 2, 65, 5, 0, 1, 1}, {1, 6, 6, 4, 3, 3, 4, 1, 4, 3, 2},   {1, 17, 3, 33, 5, 2, 9, 2, 1, 1, 3},
        {1, 1, 40, 16, 1, 7, 16, 1, 3, 1, 4}, {5, 2, 2, 1, 2, 2, 1, 2, 1, 1, 1},
    };
    for (uint32_t i = 0; i < COUNT(shapes); i++)
        for (uint32_t f = 0; f < 3; f++) {
            const conv_shape *s = &shapes[i];
            int64_t oh = (s->h + 2 * s->pad - s->dilation * (s->kh - 1) - 1) / s->stride + 1;
            int64_t ow = (s->w + 2 * s->pad - s->dilation * (s->kw - 1) - 1) / s->stride + 1;
            operand x = of(floats[f], DIMS(s->n, s->h, s->w, s->c));
            operand w = of(floats[f], DIMS(s->kh, s->kw, s->c / s->groups, s->out));
            operand dy = of(floats[f], DIMS(s->n, oh, ow, s->out)), b = of(MPC_FMT_f32, DIMS(s->out));
            const mpc_attr_arg a[] = {INTS("stride", s->stride, s->stride), INTS("pad", s->pad, s->pad),
                                      INTS("dilation", s->dilation, s->dilation), MPC_A_INT("groups", s->groups),
                                      MPC_A_INT("h", s->h), MPC_A_INT("w", s->w)};
            add(m, MPC_OP_conv2d, (operand[]){x, w, b}, i % 2 ? 2 : 3, a, 4);
            add(m, MPC_OP_conv2d_grad_input, (operand[]){dy, w}, 2, a, 6);
            const mpc_attr_arg k[] = {a[0], a[1], a[2], a[3], MPC_A_INT("kh", s->kh), MPC_A_INT("kw", s->kw)};
            add(m, MPC_OP_conv2d_grad_weight, (operand[]){x, dy}, 2, k, 6);
        }
}

typedef struct attention_shape {
    int64_t b, t, s, h, d;
    int mask; /* 0 none, 1 causal, 2 random, 3 nothing is seen */
} attention_shape;

static void attentions(maker *m) {
    static const attention_shape shapes[] = {
        {1, 1, 1, 1, 1, 0},   {1, 1, 1, 1, 1, 1},   {2, 1, 17, 3, 8, 0},  {1, 17, 1, 2, 5, 0},  {1, 65, 65, 1, 1, 1},
        {1, 33, 65, 2, 3, 2}, {2, 3, 3, 2, 128, 1}, {1, 70, 5, 1, 127, 3}, {1, 5, 130, 1, 65, 2}, {1, 64, 64, 1, 64, 1},
        {3, 16, 16, 1, 32, 3}, {1, 129, 129, 1, 17, 1}, {1, 2, 257, 1, 96, 0},
    };
    for (uint32_t i = 0; i < COUNT(shapes); i++)
        for (uint32_t f = 0; f < 3; f++) {
            const attention_shape *s = &shapes[i];
            operand q = of(floats[f], DIMS(s->b, s->t, s->h, s->d)), k = of(floats[f], DIMS(s->b, s->s, s->h, s->d));
            operand mask = ids(MPC_FMT_bool, s->mask == 3 ? 1 : 2, DIMS(s->b, s->h, s->t, s->s));
            const mpc_attr_arg a[] = {MPC_A_FLOAT("scale", 0.25), MPC_A_BOOL("causal", s->mask == 1)};
            add(m, MPC_OP_attention, (operand[]){q, k, k, mask}, s->mask > 1 ? 4 : 3, a, 2);
        }
}

static void products(maker *m) {
    static const int64_t sizes[] = {1, 3, 17, 65, 257};
    for (uint32_t i = 0; i < 25; i++) {
        int64_t rows_ = sizes[i % 5], k = sizes[i / 5], n = sizes[(i * 3 + 1) % 5];
        mpc_format f = floats[i % 3];
        const mpc_attr_arg act[] = {MPC_A_STR("act", i % 2 ? "relu" : "none")};
        add(m, MPC_OP_linear, (operand[]){of(f, DIMS(rows_, k)), of(f, DIMS(k, n)), of(MPC_FMT_f32, DIMS(n))}, i % 4 ? 3 : 2, act, 1);
        add(m, MPC_OP_matmul, (operand[]){of(f, DIMS(2, k, rows_)), of(f, DIMS(2, n, k))}, 2,
            (mpc_attr_arg[]){MPC_A_BOOL("ta", true), MPC_A_BOOL("tb", true)}, 2);
        add(m, MPC_OP_batch_norm,
            (operand[]){of(f, DIMS(rows_, n)), of(MPC_FMT_f32, DIMS(n)), of(MPC_FMT_f32, DIMS(n)), of(MPC_FMT_f32, DIMS(n)),
                        of(MPC_FMT_f32, DIMS(n))},
            5, NULL, 0);
        add(m, MPC_OP_embedding_grad, (operand[]){of(f, DIMS(rows_, n)), ids(MPC_FMT_i32, i % 2 ? 1 : (double)k + 1, DIMS(rows_))}, 2,
            (mpc_attr_arg[]){MPC_A_INT("rows", i % 2 ? 1 : k)}, 1);
        add(m, MPC_OP_loss_mean, (operand[]){of(MPC_FMT_f32, DIMS(rows_, n)), ids(MPC_FMT_bool, i % 3 ? 2 : 1, DIMS(rows_, n))}, 2, NULL, 0);
    }
}

typedef struct group {
    const char *name;
    void (*make)(maker *m);
} group;

static const group groups[] = {{"rows", rows},         {"long_rows", long_rows}, {"axes", axes},
                               {"broadcasts", broadcasts}, {"specials", specials}, {"zeros", zeros}, {"empties", empties},   {"convs", convs},
                               {"attentions", attentions}, {"products", products}};

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    if (diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

static int run(mpc_context *ctx, const group *g) {
    maker m = {.ctx = ctx, .list = {.arena = mpc_arena_create(), .cases = calloc(MOST_CASES, sizeof *m.list.cases)}};
    if (m.list.arena == NULL || m.list.cases == NULL) return 1;
    g->make(&m);
    fprintf(stderr, "%s: ", g->name);
    return ops_check_list(ctx, OPS_ON_CUDA, m.list);
}

int main(int argc, char **argv) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    int result = 0;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    if (!mpc_cuda_available(&sink)) {
        fprintf(stderr, "skipped: no GPU and no stand-in\n");
        return 77;
    }
    for (uint32_t i = 0; i < COUNT(groups); i++) {
        bool wanted = argc < 2;
        for (int k = 1; k < argc; k++) wanted = wanted || strcmp(argv[k], groups[i].name) == 0;
        if (wanted) result |= run(ctx, &groups[i]);
    }
    mpc_context_destroy(ctx);
    return result;
}
