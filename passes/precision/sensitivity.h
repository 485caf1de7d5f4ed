/* How much the loss moves when a value is rounded, and the cheapest assignment whose predicted move stays within a budget. Predicted are variances: errors of
 * different elements and values count as independent, so variances add up; a budget is a standard deviation. */
#ifndef MPC_PASSES_SENSITIVITY_H
#define MPC_PASSES_SENSITIVITY_H

#include "ir/eval/eval.h"
#include "passes/pass.h"

struct mpc_costs;
struct mpc_plan;
struct mpc_solver_env;

/* bf16, f16, and any other format per u^2, u = 2^-(fraction bits + 1). */
typedef enum mpc_sense_column { MPC_SENSE_BF16, MPC_SENSE_F16, MPC_SENSE_UNIT, MPC_SENSE_COLUMNS } mpc_sense_column;

/* Variance of the loss. `cast`: the value as it is in f32 is rounded, and everybody reads it so. `stored`: the same where it was computed from rounded
 * operands already; less than `cast` where an op moves or selects (relu, max, views: 0). */
typedef struct mpc_sensitive {
    double cast[MPC_SENSE_COLUMNS], stored[MPC_SENSE_COLUMNS];
} mpc_sensitive;

typedef struct mpc_sensitivity mpc_sensitivity;
mpc_sensitivity *mpc_sensitivity_create(void); /* NULL: out of memory */
void mpc_sensitivity_destroy(mpc_sensitivity *s);
size_t mpc_sensitivity_count(const mpc_sensitivity *s);
const mpc_sensitive *mpc_sensitivity_find(const mpc_sensitivity *s, const char *value); /* NULL: the loss doesn't depend on it */
/* Adds to what is known of the value; false when out of memory. */
bool mpc_sensitivity_add(mpc_sensitivity *s, const char *value, const mpc_sensitive *more);
double mpc_sensitivity_of(const mpc_sensitive *e, bool stored, mpc_format f);
/* One line a value (docs/precision.md), and back: E156 with the line. */
void mpc_sensitivity_print(const mpc_sensitivity *s, mpc_str *out);
mpc_status mpc_sensitivity_parse(mpc_sensitivity *s, const char *text, const char *file, const mpc_sink *sink);

/* From one f32 step of a graph made with grad{each=true}: `values` by value id, data NULL for what wasn't kept. Everything is multiplied by `weight`
 * (1 / steps makes means). */
mpc_status mpc_sensitivity_measure(mpc_sensitivity *s, const mpc_graph *g, const mpc_tensor *values, double weight);

/* ---- the dial ---- */
typedef struct mpc_dial { /* what the search found; seconds per step by the model */
    bool present;
    double budget, predicted, free_predicted; /* standard deviations: allowed, of the assignment, of the one without budget */
    double seconds, free_seconds, f32_seconds;
    double bound;       /* no assignment within the budget is faster */
    double price;       /* seconds per unit of variance at which the assignment is the cheapest; 0: time alone */
    uint32_t rounds;    /* cuts solved */
} mpc_dial;
/* Charges every low choice its variance, as if it were seconds: mpc_plan_price(...).deviation is then the variance that a plan is predicted to have. The
 * charges are in the plan's arena. */
mpc_status mpc_sensitivity_charge(const struct mpc_plan *plan, const mpc_sensitivity *s, struct mpc_costs *costs);
/* Instead of one cut (solver_mincut.c) when the pass has sensitivities and a budget. E368 when nothing keeps the budget. */
mpc_status mpc_dial_solve(struct mpc_plan *plan, const struct mpc_solver_env *env);

#endif
