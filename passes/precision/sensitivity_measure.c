/* Sensitivities from one f32 step. A value's gradient is the output each:NAME of grad{each=true}; its rounding error is the actual one, element by element:
 * what rounding changes, with its sign taken as random. So what a format holds exactly (zeros, pixels, dropout masks) costs nothing, f16's subnormals lose
 * more than digits do, and an overflow is infinite. What is easy to get wrong: a relu of a rounded value is exact, so `stored` runs such an op again. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "passes/precision/sensitivity.h"

enum { NAME_SIZE = 512, MOST_OPERANDS = 16 };

typedef struct measuring {
    const mpc_graph *g;
    const mpc_tensor *values;
    mpc_arena *scratch; /* of one value */
    bool failed; /* out of memory */
} measuring;

static const mpc_format FORMATS[] = {[MPC_SENSE_BF16] = MPC_FMT_bf16, [MPC_SENSE_F16] = MPC_FMT_f16};

/* Of a number with u = 1: uniform within half a unit in the last place. */
static double unit_error(double x) {
    double binade = x == 0 || !isfinite(x) ? 0 : ldexp(1, ilogb(x));
    return binade * binade / 3;
}

static double squared_error(mpc_sense_column column, double x) {
    if (column == MPC_SENSE_UNIT) return unit_error(x);
    double error = mpc_round_to(FORMATS[column], x) - x;
    return error == 0 ? 0 : error * error;
}

static double sum_of_errors(mpc_sense_column column, const mpc_tensor *x, const double *gradient) {
    double sum = 0;
    int64_t count = mpc_type_elements(&x->type);
    for (int64_t i = 0; i < count; i++)
        if (gradient[i] != 0) sum += gradient[i] * gradient[i] * squared_error(column, x->data[i]);
    return isnan(sum) ? HUGE_VAL : sum;
}

static void round_operands(measuring *m, const mpc_node *n, mpc_format f, mpc_tensor *out) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_tensor *from = &m->values[mpc_operand(m->g, n, i)];
        out[i] = *from;
        int64_t count = mpc_type_elements(&from->type);
        if (from->data == NULL || !mpc_format_is_float(from->type.format) || count <= 1) continue;
        out[i] = mpc_tensor_make(m->scratch, &from->type);
        m->failed = m->failed || out[i].data == NULL;
        if (m->failed) return;
        for (int64_t k = 0; k < count; k++) out[i].data[k] = mpc_round_to(f, from->data[k]);
    }
}

static bool knows_operands(const measuring *m, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (m->values[mpc_operand(m->g, n, i)].data == NULL) return false;
    return n->operand_count <= MOST_OPERANDS;
}

/* The node on operands in the format; data NULL where it can't be run. */
static mpc_tensor run_rounded(measuring *m, mpc_node_id id, mpc_value_id v, mpc_format f) {
    const mpc_node *n = &m->g->nodes[id];
    mpc_tensor operands[MOST_OPERANDS], *results;
    if (!knows_operands(m, n)) return (mpc_tensor){0};
    results = mpc_arena_alloc(m->scratch, ((size_t)n->result_count + 1) * sizeof *results);
    m->failed = m->failed || results == NULL;
    round_operands(m, n, f, operands);
    if (m->failed) return (mpc_tensor){0};
    m->failed = mpc_evaluate_node(m->g, id, operands, false, m->scratch, results) != MPC_OK;
    return m->failed ? (mpc_tensor){0} : results[v - mpc_result(n, 0)];
}

/* N43: such an op stores low only what it reads low. */
static bool follows_operands(const mpc_graph *g, mpc_node_id id) {
    if (id == MPC_NONE || g->nodes[id].operand_count == 0) return false;
    mpc_class cls = mpc_node_op(g, id)->cls;
    return (cls == MPC_CLASS_FOLLOW || cls == MPC_CLASS_CLEAR) && mpc_node_op(g, id)->kind != MPC_KIND_STRUCT;
}

static mpc_sensitive measure(measuring *m, mpc_value_id v, const double *gradient) {
    const mpc_tensor *x = &m->values[v];
    mpc_node_id id = m->g->values[v].producer;
    mpc_sensitive e = {0};
    for (int c = 0; c < MPC_SENSE_COLUMNS; c++) e.cast[c] = e.stored[c] = sum_of_errors((mpc_sense_column)c, x, gradient);
    if (!follows_operands(m->g, id)) return e;
    for (int c = 0; c < MPC_SENSE_UNIT; c++) {
        mpc_tensor y = run_rounded(m, id, v, FORMATS[c]);
        if (y.data != NULL) e.stored[c] = sum_of_errors((mpc_sense_column)c, &y, gradient);
    }
    if (e.stored[MPC_SENSE_BF16] == 0 && e.stored[MPC_SENSE_F16] == 0) e.stored[MPC_SENSE_UNIT] = 0;
    return e;
}

static void multiply(mpc_sensitive *e, double weight) {
    for (int c = 0; c < MPC_SENSE_COLUMNS; c++) {
        e->cast[c] *= weight;
        e->stored[c] *= weight;
    }
}

/* The gradient of a value; NULL: the loss doesn't depend on it, or it is no float. */
static const double *gradient_of(const measuring *m, mpc_value_id v) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "each:%s", mpc_value_name(m->g, v));
    mpc_value_id gradient = mpc_graph_find_output(m->g, name);
    if (gradient == MPC_NONE || m->values[v].data == NULL || !mpc_format_is_float(mpc_value_format(m->g, v))) return NULL;
    const mpc_tensor *t = &m->values[gradient];
    if (t->data == NULL || mpc_type_elements(&t->type) != mpc_type_elements(&m->values[v].type)) return NULL;
    return t->data;
}

mpc_status mpc_sensitivity_measure(mpc_sensitivity *s, const mpc_graph *g, const mpc_tensor *values, double weight) {
    bool ok = true;
    for (mpc_value_id v = 0; ok && v < g->value_count; v++) {
        measuring m = {.g = g, .values = values, .scratch = mpc_arena_create()};
        const double *gradient = m.scratch != NULL ? gradient_of(&m, v) : NULL;
        ok = m.scratch != NULL;
        if (gradient != NULL) {
            mpc_sensitive e = measure(&m, v, gradient);
            multiply(&e, weight);
            ok = !m.failed && mpc_sensitivity_add(s, mpc_value_name(g, v), &e);
        }
        mpc_arena_destroy(m.scratch);
    }
    if (ok) return MPC_OK;
    mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    return MPC_NO_MEMORY;
}
