/* The generic op tests: walks the registry, makes a graph of inputs -> op -> outputs for each sample and format, runs
 * it on a device and judges the result. A new row of ir/ops.def is tested the day it is added. */
#ifndef MPC_TESTS_OPS_HARNESS_H
#define MPC_TESTS_OPS_HARNESS_H

#include "ir/builder.h"
#include "ir/eval/eval.h"
#include "ir/eval/sample.h"

enum { OPS_MAX_OPERANDS = 12, OPS_MAX_RESULTS = 8 };

typedef struct ops_case { /* one sample in one format */
    mpc_context *ctx;
    mpc_arena *arena;
    const mpc_op *op;
    mpc_op_id id;
    mpc_sample sample;
    mpc_format format;                     /* what float operands that may be low were rounded to */
    bool widened;                          /* low operands, f32 results */
    const mpc_graph *graph;                /* inputs a, b, ...; outputs r0, r1, ... */
    mpc_tensor operands[OPS_MAX_OPERANDS]; /* as stored */
    uint32_t operand_count, result_count;
    char label[128]; /* "conv2d, variant 3, bf16" */
} ops_case;

/* Called for every case of every op whose name is `only` (NULL: all), in f32, bf16 and f16. */
typedef void (*ops_visit)(const ops_case *c, void *user);
void ops_walk(mpc_context *ctx, const char *only, ops_visit visit, void *user);
void ops_walk_formats(mpc_context *ctx, const char *only, const mpc_format *formats, size_t count, ops_visit visit,
                      void *user);

/* Keeps the cases instead (for devices that compile: many cases become one program). The arena holds them all. */
typedef struct ops_list {
    mpc_arena *arena;
    ops_case *cases;
    size_t count, capacity;
} ops_list;
ops_list ops_collect(mpc_context *ctx, const char *only);
void ops_list_free(ops_list *list);

/* The checks of this file are counted apart from those of a test's own: the test ends with both. */
int ops_result(void);

/* What runs a case: fills results[i] (types as in the graph's outputs, data in c->arena). false: the device doesn't do
 * this case; then `why` says so. */
typedef struct ops_device {
    const char *name;
    bool (*run)(const struct ops_device *device, const ops_case *c, mpc_tensor *results, const char **why);
    void *user;
} ops_device;

/* The op's own evaluation; user: NULL exact, non-NULL f64. */
bool ops_run_ref(const ops_device *device, const ops_case *c, mpc_tensor *results, const char **why);
/* Evaluates `g`, a form of the case's graph with the same inputs and outputs. */
bool ops_evaluate(const ops_case *c, const mpc_graph *g, bool f64, mpc_tensor *results);

/* Worst error of `got` against `want`, in the units of the bound: |got - want| / (ulps * ulp(want) + norm * max
 * |want|); 0 when equal, 1 when just within, infinite when a NaN or an integer differs. `want` is rounded to `format`
 * first. */
typedef struct ops_bound {
    double ulps, norm;
} ops_bound;
double ops_error(const mpc_tensor *got, const mpc_tensor *want, mpc_format format, ops_bound bound, int64_t *where);
/* From tests/ops/bounds.def, by the case's format: the row of (op, format), else of (op, any), else the default of the
 * op's kind. */
ops_bound ops_bound_of(const mpc_op *op, mpc_format format);
bool ops_bound_has_row(const mpc_op *op, mpc_format format);
/* Bits of the stored form differ (NaNs are all equal): index of the first such element, -1 none. */
int64_t ops_first_difference(const mpc_tensor *a, const mpc_tensor *b);

/* CHECKs every result of a case of `device`: bit for bit against the exact evaluation when the op is flagged exact,
 * within the bounds against the f64 evaluation always. Counts cases in *ran and refusals in *refused. */
typedef struct ops_comparison {
    const ops_device *device;
    bool bits;              /* compare exactly rounded ops to the bit */
    bool f64;               /* the device rounds no floats: so the judge doesn't either */
    const ops_bound *bound; /* instead of the table's */
    int ran, refused;
    double worst; /* largest error / bound seen, and where */
    char worst_label[160];
} ops_comparison;
void ops_compare(const ops_case *c, void *comparison);
/* The same for results that are there already. */
void ops_judge(const ops_case *c, ops_comparison *cmp, const mpc_tensor *got);

#endif
