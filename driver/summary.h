/* What a model is made of: a tree of blocks and layers with parameters, multiply-adds and formats, and its totals. */
#ifndef MPC_DRIVER_SUMMARY_H
#define MPC_DRIVER_SUMMARY_H

#include <jansson.h>

#include "base/array.h"
#include "driver/session.h"

typedef struct mpc_summary_row {
    const char *path, *label;                              /* label: what its parent's path lacks */
    uint32_t depth, parent, first_child, last_child, next; /* rows; MPC_NONE */
    mpc_node_id node;               /* of the parsed graph: the op of that name; MPC_NONE for a block */
    const mpc_type *shape;          /* of what it makes: a block's last value; NULL: not known */
    uint64_t parameters, trainable; /* of the row with all below it */
    double products;                /* multiply-adds forward, likewise */
    uint64_t numbered;              /* its name is a number among so many calls; 0: it isn't */
    bool decided;
    mpc_decision decision; /* of the op */
    mpc_format stored;
} mpc_summary_row;

typedef struct mpc_summary_param {
    const char *name;
    const mpc_type *type;
    mpc_node_id node; /* the state, in the parsed graph */
} mpc_summary_param;

typedef struct mpc_summary {
    mpc_session *session;
    mpc_arena *arena;
    mpc_graph *parsed, *decided;     /* the nominal training graph, as written and with decisions */
    mpc_map *by_path;                /* rows */
    mpc_map *planned;                /* nodes of `decided`, by the name of their first result */
    MPC_ARRAY(mpc_summary_row) rows; /* in order of appearance; children by links */
    MPC_ARRAY(mpc_summary_param) params;
    uint64_t parameters, trainable;
    double forward, step;                /* multiply-adds of a batch */
    uint64_t bytes[MPC_BUF_CLASS_COUNT]; /* states by class; of a training step */
    uint64_t arena_bytes;
} mpc_summary;

/* false after diagnostics; to be deinitialised in any case. */
bool mpc_summary_make(mpc_summary *s, mpc_session *session);
void mpc_summary_deinit(mpc_summary *s);

/* The row that is printed first, and the one behind it in the order of the tree; MPC_NONE at the end. */
uint32_t mpc_summary_first(const mpc_summary *s);
uint32_t mpc_summary_next(const mpc_summary *s, uint32_t row);

/* ---- summary_print.c, summary_params.c ---- */
bool mpc_summary_print(const mpc_summary *s);
bool mpc_summary_print_json(const mpc_summary *s, bool params);
bool mpc_summary_print_params(const mpc_summary *s);
/* An array of objects (jansson), one per parameter; NULL: out of memory. */
json_t *mpc_summary_params_json(const mpc_summary *s);
/* "[64, 10]"; "" for a scalar or NULL */
void mpc_append_dims(mpc_str *out, const mpc_type *type);
json_t *mpc_dims_json(const mpc_type *type);    /* [64, 10]; null for NULL */
int mpc_column_width(int width, size_t length); /* of a column that had `width`, with a text of that length */

#endif
