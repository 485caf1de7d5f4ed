/* --check-nonfinite: steps run launch by launch, and the first value that isn't finite ends the run. What the loss
 * scale will answer (gradients that overflow while it can still fall) and infinities that the model writes itself (a
 * mask of -inf) are let through. */
#ifndef MPC_DRIVER_NONFINITE_CHECK_H
#define MPC_DRIVER_NONFINITE_CHECK_H

#include "driver/session.h"
#include "ir/eval/eval.h"

enum { MPC_NONFINITE_NOTES = 8 };
typedef struct mpc_nonfinite_found { /* zero: nothing */
    uint64_t step; /* that is begun next, set by who begins it; 0: there are no steps, only an evaluation */
    bool is;
    mpc_str message, place;
    mpc_str notes[MPC_NONFINITE_NOTES];
    uint32_t note_count;
    const char *help; /* or NULL */
} mpc_nonfinite_found;
/* Says it: E380. */
void mpc_nonfinite_say(const mpc_nonfinite_found *f, const mpc_sink *sink);
void mpc_nonfinite_deinit(mpc_nonfinite_found *f);

typedef struct mpc_nonfinite_check mpc_nonfinite_check;
/* For a step's executor; `found` outlives it. NULL: out of memory. */
mpc_nonfinite_check *mpc_nonfinite_check_create(mpc_step *step, mpc_nonfinite_found *found);
void mpc_nonfinite_check_destroy(mpc_nonfinite_check *c);
/* Begins and ends the step that was fed. false: `found` is filled, or a diagnostic was sent. */
bool mpc_nonfinite_check_run(mpc_nonfinite_check *c);

/* ---- nonfinite_values.c ---- */
/* Values of a launch, read from buffers and, inside a kernel, computed by the reference. */
typedef struct mpc_launch_values {
    const mpc_graph *g;
    const uint32_t *buffer_of;                        /* by value; MPC_NONE */
    const void *(*read)(void *user, uint32_t buffer); /* as before the launch, NULL: it can't be read */
    void *user;
    mpc_arena *arena;
    mpc_tensor *values; /* by value; data NULL: not known */
} mpc_launch_values;
/* The value that shares no other's storage, in which `v` lies. */
mpc_value_id mpc_storage_owner(const mpc_graph *g, mpc_value_id v);
/* Nodes [*begin, *end) that one kernel computes with this one. */
void mpc_group_of(const mpc_graph *g, mpc_node_id id, mpc_node_id *begin, mpc_node_id *end);
/* Fills in operands of a node, as far as they can be read. */
void mpc_launch_values_read(mpc_launch_values *v, mpc_node_id id);
/* Computes a node from operands that are filled in. false: some aren't, or there is no memory. */
bool mpc_launch_values_compute(mpc_launch_values *v, mpc_node_id id);

/* ---- nonfinite_words.c ---- */
enum { MPC_SIGN_PLUS = 1, MPC_SIGN_MINUS = 2, MPC_SIGN_NAN = 4 };
unsigned mpc_nonfinite_signs(const mpc_tensor *t); /* which of inf, -inf and NaN it holds */
typedef struct mpc_nonfinite_place {               /* of a value that isn't finite */
    const mpc_graph *g;
    mpc_node_id node;
    uint32_t result;
    const mpc_tensor *values; /* by value */
    const char *kernel;       /* of the value that the kernel is named after, where it computes more ops; or NULL */
} mpc_nonfinite_place;
void mpc_nonfinite_describe(mpc_nonfinite_found *f, mpc_phase phase, const mpc_nonfinite_place *at);
void mpc_nonfinite_describe_input(mpc_nonfinite_found *f, mpc_phase phase, const char *name, const mpc_tensor *t);

#endif
