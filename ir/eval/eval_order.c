/* Prefix sums and the largest elements, along one axis seen as [outer, n, inner]. Sums run in doubles from one end to
 * the other. A NaN is larger than everything, so that it can't hide behind the k largest. */
#include "ir/eval/eval_util.h"
#include "ir/rules.h"

bool mpc_eval_cumsum(mpc_eval *e) {
    mpc_axis_view v = mpc_axis_view_of(&e->operands[0].type, mpc_attr_int(e->graph, e->node, "axis"));
    bool reverse = mpc_attr_bool(e->graph, e->node, "reverse");
    for (int64_t row = 0; row < v.outer * v.inner; row++) {
        int64_t base = row / v.inner * v.n * v.inner + row % v.inner;
        double sum = 0;
        for (int64_t j = 0; j < v.n; j++) {
            int64_t at = base + (reverse ? v.n - 1 - j : j) * v.inner;
            sum += e->operands[0].data[at];
            e->results[0].data[at] = sum;
        }
    }
    return true;
}

static bool is_larger(double a, double b) { return a > b || (a != a && b == b); }

/* The first largest of those not taken. */
static int64_t next_largest(const double *x, const mpc_axis_view *v, const double *taken) {
    int64_t best = -1;
    for (int64_t j = 0; j < v->n; j++)
        if (taken[j] == 0 && (best < 0 || is_larger(x[j * v->inner], x[best * v->inner]))) best = j;
    return best;
}

bool mpc_eval_top_k(mpc_eval *e) {
    mpc_axis_view v = mpc_axis_view_of(&e->operands[0].type, mpc_attr_int(e->graph, e->node, "axis"));
    int64_t k = mpc_attr_int(e->graph, e->node, "k");
    double *taken = mpc_eval_scratch(e, v.n);
    if (taken == NULL) return false;
    for (int64_t row = 0; row < v.outer * v.inner; row++) {
        int64_t outer = row / v.inner, inner = row % v.inner;
        const double *x = e->operands[0].data + outer * v.n * v.inner + inner;
        for (int64_t j = 0; j < v.n; j++) taken[j] = 0;
        for (int64_t i = 0; i < k; i++) {
            int64_t j = next_largest(x, &v, taken), at = (outer * k + i) * v.inner + inner;
            taken[j] = 1;
            e->results[0].data[at] = x[j * v.inner];
            e->results[1].data[at] = (double)j;
        }
    }
    return true;
}
