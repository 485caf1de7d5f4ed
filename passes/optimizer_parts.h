/* The parts of the pass `optimizer`: optimizer_window.c brings the gradients of micro-batches together and divides them,
 * optimizer.c clips them, optimizer_update.c makes new parameters of them. */
#ifndef MPC_PASSES_OPTIMIZER_PARTS_H
#define MPC_PASSES_OPTIMIZER_PARTS_H

#include "passes/passes.h"
#include "passes/rewrite.h"

/* What the losses of one share add to a parameter's gradient. */
typedef struct mpc_gradient_part {
    int64_t share;         /* from 1; 0: all losses that train the parameter count alike */
    mpc_value_id gradient; /* in the old graph */
    struct mpc_gradient_part *next;
} mpc_gradient_part;

typedef struct mpc_update_parameter {
    const char *name;
    const mpc_node *state;        /* in the old graph */
    mpc_gradient_part *parts;     /* at least one */
    mpc_value_id value, gradient; /* in the new graph */
} mpc_update_parameter;

typedef struct mpc_optimizer {
    mpc_rewrite rw;
    const mpc_pass_options *o;
    mpc_update_parameter *parameters;
    uint32_t count;
    int64_t accumulate;
    mpc_value_id flush;  /* bool input, with accumulation */
    mpc_value_id update; /* bool []: this micro-step ends a window */
    mpc_value_id zero;   /* f32 [] */
    mpc_value_id *sums;  /* by parameter: what the norm is taken of */
    mpc_value_id total;  /* f32 []: what all sums are divided by; MPC_NONE: nothing, or not all by the same */
    mpc_value_id norm, rate, applied, next_applied;
    mpc_value_id seed;        /* i64 [], where something is rounded at random */
    mpc_value_id lost, moved; /* f32 [], elements of parameters without master; MPC_NONE: there are none */
} mpc_optimizer;

/* State `name` of control, f32 or i32 or bool []. */
mpc_value_id mpc_optimizer_scalar(mpc_optimizer *p, const char *name, mpc_format format, const char *skip);
/* A state `NAME/suffix` shaped like the parameter: moments and accumulators are f32 (N60, N70). */
mpc_value_id mpc_optimizer_like(mpc_optimizer *p, const mpc_update_parameter *q, const char *suffix, const char *skip,
                                const char *role);
/* "NAME/suffix" */
const char *mpc_optimizer_path(mpc_optimizer *p, const mpc_update_parameter *q, const char *suffix);

mpc_value_id mpc_optimizer_named(mpc_optimizer *p, const char *name, mpc_op_id op, mpc_value_id a, mpc_value_id b);

/* `gradient` and `sums` of every parameter from its parts, at the end of a window; finds where it ends. */
void mpc_optimizer_accumulate(mpc_optimizer *p);

/* An optimizer or schedule that isn't known is E105. */
mpc_status mpc_optimizer_check_kind(const mpc_pass_options *o, const mpc_sink *sink);
/* The rate of this update, and the states that count updates. */
void mpc_optimizer_set_rate(mpc_optimizer *p);
/* New parameters, moments and their nexts, from `gradient` of every parameter. */
void mpc_optimizer_update(mpc_optimizer *p);

#endif
