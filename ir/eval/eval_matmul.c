/* Matmul and linear: products and sums in doubles, exact enough to judge any f32 order of summation. An accumulator
 * format narrower than f32 (asked for by the `acc` attribute) is the one case where the order matters: then every
 * partial sum is rounded, k ascending. */
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct product { /* c[m,n] = sum_k a[m,k] b[k,n]; b dense, a by strides */
    int64_t m, n, k, a_row, a_col;
    mpc_format acc; /* none: no rounding of partial sums */
} product;

static void add_row(double *acc, double factor, const double *row, int64_t n) {
    for (int64_t j = 0; j < n; j++) acc[j] += factor * row[j];
}

static void add_row_rounded(double *acc, double factor, const double *row, int64_t n, mpc_format format) {
    for (int64_t j = 0; j < n; j++) acc[j] = mpc_round_to(format, acc[j] + factor * row[j]);
}

/* c is zeroed */
static void multiply(const product *p, const double *a, const double *b, double *c) {
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t k = 0; k < p->k; k++) {
            double factor = a[i * p->a_row + k * p->a_col];
            if (p->acc == MPC_FMT_none) add_row(c + i * p->n, factor, b + k * p->n, p->n);
            else add_row_rounded(c + i * p->n, factor, b + k * p->n, p->n, p->acc);
        }
    }
}

static mpc_format narrow_acc(const mpc_eval *e) {
    mpc_format acc = mpc_attr_format(e->graph, e->node, "acc");
    return e->exact && mpc_format_is_low(acc) ? acc : MPC_FMT_none;
}

/* b stored [n, k] to [k, n] */
static void transpose_into(double *out, const double *b, int64_t n, int64_t k) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) out[i * n + j] = b[j * k + i];
}

bool mpc_eval_matmul(mpc_eval *e) {
    const mpc_type *ta = &e->operands[0].type, *tb = &e->operands[1].type, *tc = &e->results[0].type;
    bool a_stored = mpc_attr_bool(e->graph, e->node, "ta"), b_stored = mpc_attr_bool(e->graph, e->node, "tb");
    int64_t m = tc->dims[tc->rank - 2], n = tc->dims[tc->rank - 1], k = ta->dims[ta->rank - (a_stored ? 2 : 1)];
    product p = {m, n, k, a_stored ? 1 : k, a_stored ? m : 1, narrow_acc(e)};
    double *turned = b_stored ? mpc_eval_scratch(e, n * k) : NULL;
    if (b_stored && turned == NULL) return false;
    int64_t batch = 1, b_step = tb->rank > 2 ? k * n : 0;
    for (uint32_t i = 0; i + 2 < tc->rank; i++) batch *= tc->dims[i];
    for (int64_t i = 0; i < batch; i++) {
        const double *b = e->operands[1].data + i * b_step;
        if (b_stored && (i == 0 || b_step != 0)) transpose_into(turned, b, n, k);
        multiply(&p, e->operands[0].data + i * m * k, b_stored ? turned : b, e->results[0].data + i * m * n);
    }
    return true;
}

void mpc_eval_epilogue(const mpc_eval *e, int64_t rows, int64_t n) {
    bool relu = strcmp(mpc_attr_str(e->graph, e->node, "act"), "relu") == 0;
    const double *bias = e->operand_count > 2 ? e->operands[2].data : NULL;
    double *c = e->results[0].data;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double v = c[i * n + j] + (bias != NULL ? bias[j] : 0);
            c[i * n + j] = relu ? mpc_max_nan(v, 0) : v;
        }
    }
}

bool mpc_eval_linear(mpc_eval *e) {
    const int64_t *w = e->operands[1].type.dims;
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < e->results[0].type.rank; i++) rows *= e->results[0].type.dims[i];
    product p = {rows, w[1], w[0], w[0], 1, narrow_acc(e)};
    multiply(&p, e->operands[0].data, e->operands[1].data, e->results[0].data);
    mpc_eval_epilogue(e, rows, w[1]);
    return true;
}
