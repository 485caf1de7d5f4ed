/* Passes: a const graph in, a new graph out; a failed pass changes nothing. Pipelines are text:
 *   "@train,autocast{format=bf16 solver=list},insert-casts,@lower"
 * Rows of passes are in passes/passes.def, named pipelines in passes/pipelines.def. */
#ifndef MPC_PASSES_PASS_H
#define MPC_PASSES_PASS_H

#include "ir/builder.h"

/* Adds gradient and expansion rules to the context's op registry. Call once per context. */
mpc_status mpc_passes_register(mpc_context *ctx);

typedef struct mpc_pass_options { /* parsed "{key=value ...}", checked against the pass's row */
    const struct mpc_pass *pass;
    const char *const *keys;
    const char *const *values;
    uint32_t count;
} mpc_pass_options;
const char *mpc_option_str(const mpc_pass_options *o, const char *key); /* the row's default when not given */
int64_t mpc_option_int(const mpc_pass_options *o, const char *key);
double mpc_option_float(const mpc_pass_options *o, const char *key);
bool mpc_option_bool(const mpc_pass_options *o, const char *key);

/* The precision assignment of the nominal training batch, by node name: made once, applied to every elaboration. */
typedef struct mpc_assignment mpc_assignment;
mpc_assignment *mpc_assignment_create(void);
void mpc_assignment_destroy(mpc_assignment *a);
size_t mpc_assignment_count(const mpc_assignment *a);
/* Text of assignment.txt in the run folder, and back. */
void mpc_assignment_print(const mpc_assignment *a, mpc_str *out);
mpc_status mpc_assignment_parse(mpc_assignment *a, const char *text, const mpc_sink *sink);

typedef struct mpc_pass_env { /* what passes of one pipeline run share */
    mpc_context *ctx;
    mpc_assignment *assignment; /* may be NULL; autocast reads it when not empty, fills it when empty */
    const struct mpc_device_profile *profile; /* passes/precision/cost.h: what costs are for; NULL: a built-in one */
    struct mpc_plan_choices *choices; /* passes/precision/cost.h: filled by solvers that weigh costs; NULL: nobody asks */
    const struct mpc_sensitivity *sensitivity; /* passes/precision/sensitivity.h: read by the solver mincut when there is a budget; NULL: none */
    double loss_budget; /* standard deviation of the loss that rounding may cause; 0: no budget */
    struct mpc_dial *dial; /* what came of the budget; NULL: nobody asks */
    double f32_seconds; /* what a step of f32 costs, for solvers that compare theirs with it; 0: that of the same graph, loss scale and all */
    const struct mpc_observations *observed; /* values seen in a run (precision/range.h); NULL: none */
} mpc_pass_env;

typedef mpc_graph *(*mpc_pass_run)(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env);

typedef struct mpc_pass {
    const char *name, *doc;
    const char *options; /* "format:str=f32 solver:str=list" */
    unsigned requires, provides, destroys; /* bits MPC_HAS_xxx */
    mpc_pass_run run;
} mpc_pass;

enum {
    MPC_HAS_GRAD = 1,
    MPC_HAS_UPDATE = 2,
    MPC_HAS_GUARD = 4,
    MPC_HAS_DECISIONS = 8,
    MPC_HAS_CASTS = 16,
    MPC_HAS_MASTERS = 32,
    MPC_HAS_PRIMITIVES = 64,
    MPC_HAS_GROUPS = 128,
    MPC_HAS_ORDER = 256,
    MPC_HAS_PLACES = 512,
    MPC_HAS_LOSS_SCALE = 1024,
};

typedef struct mpc_pipeline_hooks { /* instrumentation; any may be NULL */
    void (*before)(void *user, const mpc_pass *pass, const mpc_graph *g);
    void (*after)(void *user, const mpc_pass *pass, const mpc_graph *before, const mpc_graph *after, double seconds);
    void (*failed)(void *user, const mpc_pass_options *options, const mpc_graph *in); /* a pass failed on `in` */
    void *user;
    bool verify_each;
} mpc_pipeline_hooks;

/* Runs a pipeline. `in` stays the caller's. NULL on failure. */
mpc_graph *mpc_pipeline_run(const mpc_graph *in, const char *pipeline, mpc_pass_env *env, const mpc_pipeline_hooks *hooks);

/* Built-in passes, then those of plugins. NULL: none. */
const mpc_pass *mpc_pass_of(const mpc_context *ctx, uint32_t index);
const mpc_pass *mpc_pass_named(const mpc_context *ctx, const char *name);
uint32_t mpc_pipeline_count(void);
const char *mpc_pipeline_name(uint32_t index);
const char *mpc_pipeline_text(uint32_t index);

/* Bytes at the worst moment, from liveness alone; checks the memory pass independently of it: fails with V6x when a value
 * has no storage, two live ones overlap, or a state is overwritten too early. */
mpc_status mpc_memory_check(const mpc_graph *g, uint64_t *lower_bound);

#endif
