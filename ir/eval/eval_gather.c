/* Table look-ups and random numbers. An index out of range reads NaN and writes nothing: it is seen in the loss, and no
 * memory outside the table is touched. Random numbers are base/rng.h's, element by element, so every device has the
 * same. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static bool in_range(double index, int64_t count) { return index >= 0 && index < (double)count; }

bool mpc_eval_embedding(mpc_eval *e) {
    const mpc_tensor *table = &e->operands[0], *ids = &e->operands[1];
    int64_t rows = table->type.dims[0], c = table->type.dims[1], count = mpc_type_elements(&ids->type);
    for (int64_t i = 0; i < count; i++) {
        bool ok = in_range(ids->data[i], rows);
        const double *row = table->data + (ok ? (int64_t)ids->data[i] * c : 0);
        for (int64_t j = 0; j < c; j++) e->results[0].data[i * c + j] = ok ? row[j] : (double)NAN;
    }
    return true;
}

bool mpc_eval_embedding_grad(mpc_eval *e) {
    const mpc_tensor *dy = &e->operands[0], *ids = &e->operands[1];
    int64_t rows = e->results[0].type.dims[0], c = e->results[0].type.dims[1], count = mpc_type_elements(&ids->type);
    for (int64_t i = 0; i < count; i++) {
        if (!in_range(ids->data[i], rows)) continue;
        double *row = e->results[0].data + (int64_t)ids->data[i] * c;
        for (int64_t j = 0; j < c; j++) row[j] += dy->data[i * c + j];
    }
    return true;
}

bool mpc_eval_gather(mpc_eval *e) {
    mpc_axis_view v = mpc_axis_view_of(&e->operands[0].type, mpc_attr_int(e->graph, e->node, "axis"));
    const double *x = e->operands[0].data, *index = e->operands[1].data;
    for (int64_t i = 0; i < v.outer * v.inner; i++) {
        int64_t base = i / v.inner * v.n * v.inner + i % v.inner;
        bool ok = in_range(index[i], v.n);
        e->results[0].data[i] = ok ? x[base + (int64_t)index[i] * v.inner] : (double)NAN;
    }
    return true;
}

bool mpc_eval_one_hot(mpc_eval *e) {
    int64_t depth = mpc_attr_int(e->graph, e->node, "depth"), count = mpc_type_elements(&e->operands[0].type);
    for (int64_t i = 0; i < count; i++)
        if (in_range(e->operands[0].data[i], depth))
            e->results[0].data[i * depth + (int64_t)e->operands[0].data[i]] = 1;
    return true;
}

bool mpc_eval_random_uniform(mpc_eval *e) {
    mpc_draw d = mpc_eval_draw(e, 0);
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++)
        e->results[0].data[i] = (double)mpc_random_uniform(d.seed, d.stream, d.step, (uint64_t)i);
    return true;
}

/* The comparison is in f32 in every mode: which elements are dropped is not a matter of accuracy. */
bool mpc_eval_dropout(mpc_eval *e) {
    mpc_draw d = mpc_eval_draw(e, 1);
    double rate = mpc_attr_float(e->graph, e->node, "rate");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        bool kept = mpc_random_uniform(d.seed, d.stream, d.step, (uint64_t)i) >= (float)rate;
        e->results[0].data[i] = kept ? e->operands[0].data[i] / (1 - rate) : 0;
    }
    return true;
}
