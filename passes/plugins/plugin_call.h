/* A call of a plugin's function: what it works on and what has become of it. Private to passes/plugins. */
#ifndef MPC_PASSES_PLUGIN_CALL_H
#define MPC_PASSES_PLUGIN_CALL_H

#define MPC_PLUGIN_HOST
#include "include/mpc/plugin.h"
#include "ir/eval/eval.h"
#include "ir/infer.h"
#include "passes/expand.h"
#include "passes/grad.h"
#include "passes/pass.h"
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"
#include "passes/rewrite.h"

typedef enum mpc_call_kind {
    MPC_CALL_PASS,
    MPC_CALL_SHAPE,
    MPC_CALL_EXPAND,
    MPC_CALL_GRAD,
    MPC_CALL_EVAL,
    MPC_CALL_SOLVE,
    MPC_CALL_PRICE
} mpc_call_kind;

struct mpc_call {
    mpc_call_kind kind;
    mpc_context *ctx;
    const char *who; /* "pass `double-add`", for messages */
    bool failed;
    mpc_arena *scratch; /* made with the first use; until the call ends */
    const mpc_graph *g; /* what is read; NULL for SHAPE */
    /* by kind; the others are NULL */
    const mpc_pass_options *options;
    mpc_rewrite *rw;
    mpc_infer *infer;
    mpc_expand *expand;
    mpc_id *widened; /* EXPAND: f32 casts of the operands, MPC_NO_ID: not made yet */
    mpc_grad *grad;
    mpc_eval *eval;
    mpc_plan *plan;
    const mpc_costs *costs;
};

extern const mpc_plugin_api mpc_plugin_functions;

/* The call fails: the first time with a message. */
void mpc_call_fail(mpc_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mpc_call_end(mpc_call *c);
/* Failed here or in the builder. */
bool mpc_call_failed(const mpc_call *c);
mpc_builder *mpc_call_builder(const mpc_call *c); /* NULL: nothing is built */
/* A format by name; MPC_FMT_none for "" and, after failing the call, for an unknown name. */
mpc_format mpc_call_format(mpc_call *c, const char *name);
const char *mpc_call_format_name(mpc_format format); /* "" for none */
/* Type of a value of the graph that is read; NULL after failing the call. */
const mpc_type *mpc_call_type(mpc_call *c, mpc_id value);
/* The node and the graph it is in; NULL after failing the call. */
const mpc_node *mpc_call_node(mpc_call *c, mpc_id id, const mpc_graph **g);

/* Where a plugin's rows hang in mpc's own tables. */
typedef struct mpc_plugin_pass_row {
    mpc_pass pass; /* first: the manager knows this part */
    const mpc_plugin_pass *theirs;
    const char *who; /* for messages */
} mpc_plugin_pass_row;
typedef struct mpc_plugin_solver_row {
    mpc_solver solver; /* first */
    const mpc_plugin_solver *theirs;
    const char *who;
} mpc_plugin_solver_row;

mpc_graph *mpc_plugin_run_pass(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env);
mpc_status mpc_plugin_run_solver(mpc_plan *plan, const mpc_solver_env *env);
bool mpc_plugin_run_shape(mpc_infer *infer);
bool mpc_plugin_run_eval(mpc_eval *eval);
void mpc_plugin_run_expand(mpc_expand *expand);
void mpc_plugin_run_grad(mpc_grad *grad);

#endif
