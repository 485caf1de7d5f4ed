/* Range evidence: what can be proven about the numbers that a value holds (intervals), what was seen in a run (a profile),
 * and what follows: values that must not be held in 16 bits, and findings for `mpc lint`. */
#ifndef MPC_PASSES_RANGE_H
#define MPC_PASSES_RANGE_H

#include "passes/pass.h"

struct mpc_plan;

/* ---- intervals ---- */

/* Every element is in [lo, hi], or is NaN where `nan` says so. A bound may be infinite; then the element may be, too. */
typedef struct mpc_interval {
    double lo, hi;
    bool nan;
    bool counted; /* only whole numbers, and this is known from integers or flags, not from a literal alone */
    double unit; /* where `counted`: a power of two that divides all of them; below 1: 1 */
} mpc_interval;

typedef struct mpc_range_options {
    mpc_format low; /* every value may also be stored in this format; none or f32: as typed */
    const mpc_interval *inputs; /* by input index; NULL: from the inputs' lo and hi, unknown where they have none */
    const mpc_interval *states; /* by value, read for results of state nodes; NULL: unknown */
} mpc_range_options;

/* By value, in `arena`; NULL when out of memory. Bounds are rounded outwards, so they hold for
 * every device that computes in f32 and rounds as the types say. */
mpc_interval *mpc_range_analyze(const mpc_graph *g, const mpc_range_options *options, mpc_arena *arena);

/* Elements that a value has for certain, as far as literals and integer ranges can say: not bounds, but numbers that are
 * reached. Nothing is known of what comes of data or parameters. */
typedef struct mpc_reach {
    double lo, hi;
    bool known;
    bool literal; /* a literal that stands for an element, as a mask's does; else ends of an integer range */
    double whole; /* the largest whole number among the elements that is known from integers or flags; 0: none */
    double steps; /* `whole` in multiples of what divides all of them: 600 of 0, 300, 600 is 150 times 4 */
} mpc_reach;
/* By value, in `arena`; NULL when out of memory. `range`: mpc_range_analyze of the same graph. */
const mpc_reach *mpc_reach_find(const mpc_graph *g, const mpc_interval *range, mpc_arena *arena);
double mpc_reach_largest(mpc_reach r); /* magnitude; 0: nothing is known */
double mpc_reach_extreme(mpc_reach r); /* the element that has it */

/* Bounds from here on are those of a type, not of the values. */
#define MPC_ANY_INTEGER (0x1p31 - 1)
static inline bool mpc_interval_is_finite(mpc_interval a) { return !a.nan && a.hi - a.lo < 1e300 && a.lo > -1e300 && a.hi < 1e300; }
static inline double mpc_interval_unit(mpc_interval a) { return a.counted && a.unit > 1 ? a.unit : 1; }
static inline double mpc_interval_largest(mpc_interval a) { return -a.lo > a.hi ? -a.lo : a.hi; }

/* ---- what a format does to numbers ---- */

/* What becomes of a literal that the format doesn't hold (N45): "overflows", "becomes 0", "becomes 1"; NULL: it survives. */
const char *mpc_constant_loss(double c, mpc_format f);
/* Digits in which a message shows such a literal: 0.9999999, which becomes 1, is not to be read as 1. */
int mpc_constant_digits(const char *loss);
/* Whole numbers up to here are exact: 256 in bf16, 2048 in f16. */
double mpc_exact_integers(mpc_format f);

/* ---- observations (`mpc profile`) ---- */

enum { MPC_EXPONENT_MIN = -149, MPC_EXPONENT_COUNT = 278 }; /* of f32, subnormals included: 2^-149 .. 2^128 */

typedef struct mpc_observed { /* of one value, over all elements of all steps */
    uint64_t count, zeros, infinite, nan;
    uint64_t subnormal_f16; /* not 0 and below 2^-14 */
    double smallest, largest; /* magnitudes of finite elements that aren't 0; 0 when there are none */
    uint64_t exponents[MPC_EXPONENT_COUNT]; /* [e - MPC_EXPONENT_MIN]: magnitudes in [2^e, 2^(e+1)) */
} mpc_observed;

typedef struct mpc_observations mpc_observations;
mpc_observations *mpc_observations_create(void); /* NULL: out of memory */
void mpc_observations_destroy(mpc_observations *o);
size_t mpc_observations_count(const mpc_observations *o);
const mpc_observed *mpc_observations_find(const mpc_observations *o, const char *value); /* NULL: not seen */
/* Adds elements to what is known of a value; false when out of memory. */
bool mpc_observations_add(mpc_observations *o, const char *value, const double *data, int64_t count);
/* One line a value (docs/precision.md), and back: E155 with the line. */
void mpc_observations_print(const mpc_observations *o, mpc_str *out);
mpc_status mpc_observations_parse(mpc_observations *o, const char *text, const char *file, const mpc_sink *sink);

/* ---- what follows for the plan ---- */

/* Fills plan->forced_f32 for `low`, forced_also for `also`; `seen` may be NULL. After the given nodes are decided,
 * before a solver is asked. */
mpc_status mpc_range_force(struct mpc_plan *plan, const mpc_observations *seen);
/* The decision with f32 in place of a format that forced_f32 rules out for an operand or a result; sets the node's reason then. */
mpc_decision mpc_range_keep(struct mpc_plan *plan, mpc_node_id id, mpc_decision decision);
/* What begins the reason of such a decision. */
#define MPC_RANGE_REASON "f32: "
/* The rest of it, "whole numbers up to 511, bf16 is exact to 256 (N44)", for a forward node; NULL where there is none, and for a node that only
 * reads what has the same. */
const char *mpc_range_reason(const mpc_graph *decided, mpc_node_id id);
/* W189, a note about all of them, if there is one that can't be expected. */
void mpc_range_tell(const mpc_graph *decided);

/* ---- lint ---- */

typedef struct mpc_finding {
    const char *code; /* a row of diag_codes.def */
    const char *rule; /* "N45" */
    mpc_node_id node; /* of the graph that was looked at */
    bool kept_f32; /* the assignment keeps this in f32 already: correct, but it costs time */
    const char *what, *fix; /* sentences without a full stop */
} mpc_finding;

typedef struct mpc_findings {
    mpc_finding *data; /* texts in the arena given to mpc_lint; in order of nodes */
    size_t count, capacity;
} mpc_findings;
void mpc_findings_free(mpc_findings *f);
/* Hazards of a graph with decisions (after autocast), for training in `low`. `seen` may be NULL. */
mpc_status mpc_lint(const mpc_graph *g, mpc_format low, const mpc_observations *seen, mpc_arena *arena, mpc_findings *out);

#endif
