/* Checkpoints: a folder with weights.safetensors (parameters only, by path) and state.safetensors (everything else that a
 * bit-exact resume needs, and the cursor in its metadata). Written to temporary files, synced, renamed as a folder; a crash at
 * any moment leaves the previous checkpoint whole. */
#ifndef MPC_RUNTIME_CHECKPOINT_H
#define MPC_RUNTIME_CHECKPOINT_H

#include "runtime/numbered.h"

#define MPC_WEIGHTS_FILE "weights.safetensors"
#define MPC_STATE_FILE "state.safetensors"

typedef struct mpc_tensor_view { /* one tensor of a safetensors file */
    const char *name;
    mpc_type type;
    const void *data;
} mpc_tensor_view;

typedef struct mpc_safetensors mpc_safetensors; /* a file read into memory and checked */
mpc_safetensors *mpc_safetensors_read(const char *path, const mpc_sink *sink); /* E41x: what is wrong, at which byte */
void mpc_safetensors_destroy(mpc_safetensors *file);
uint32_t mpc_safetensors_count(const mpc_safetensors *file);
const mpc_tensor_view *mpc_safetensors_at(const mpc_safetensors *file, uint32_t index);
const mpc_tensor_view *mpc_safetensors_find(const mpc_safetensors *file, const char *name);
const char *mpc_safetensors_metadata(const mpc_safetensors *file, const char *key); /* NULL: none */
/* Deterministic bytes. metadata: key, value, key, value, ..., NULL. Writes PATH.tmp, syncs, renames. */
mpc_status mpc_safetensors_write(const char *path, const mpc_tensor_view *tensors, uint32_t count,
                                 const char *const *metadata, const mpc_sink *sink);

typedef struct mpc_cursor { /* where training stood after the last finished step */
    uint64_t step; /* attempts */
    uint64_t epoch, row; /* next row of the epoch's order */
    uint64_t seed;
    const char *extra; /* JSON text of the driver's own (best metric, evaluations without improvement, log bytes); may be NULL */
} mpc_cursor;

/* Writes DIR/step-XXXXXXXX/. Derived copies are not saved. */
mpc_status mpc_checkpoint_save(const char *dir, mpc_store *store, const mpc_cursor *cursor, const mpc_sink *sink);
/* May a tensor of a file become this state? Shapes are equal, formats are, or both are of floats. */
bool mpc_store_takes(const mpc_store_entry *e, const mpc_tensor_view *t);
/* Copies it, converted where the formats differ. */
void mpc_store_take(mpc_store_entry *e, const mpc_tensor_view *t);

typedef enum mpc_load_mode {
    MPC_LOAD_ALL, /* every state: resume */
    MPC_LOAD_WEIGHTS, /* parameters and statistics: eval */
    MPC_LOAD_USED, /* the same, but the store may hold fewer than the checkpoint: predict drops what no output needs */
} mpc_load_mode;
/* Loads a checkpoint folder into the store by name and shape, all or nothing, E401 with the two lists when they differ; derived
 * copies are remade. `cursor` may be NULL; cursor->extra is mpc_alloc'ed (caller frees). */
mpc_status mpc_checkpoint_load(const char *folder, mpc_store *store, mpc_load_mode mode, mpc_cursor *cursor, const mpc_sink *sink);
/* The same; messages call the checkpoint `place`: "runs/digits-003 (best)". */
mpc_status mpc_checkpoint_load_from(const char *folder, const char *place, mpc_store *store, mpc_load_mode mode,
                                    mpc_cursor *cursor, const mpc_sink *sink);

/* The states that a checkpoint keeps beside `weights`, which is the path of its weights.safetensors; NULL where there
 * are none, as for files of other names. False when they can't be read. */
bool mpc_states_beside(const char *weights, mpc_safetensors **states, const mpc_sink *sink);

/* What a file and a model don't have in common, for the message E401. Names and types belong to others. */
typedef struct mpc_diff_line {
    const char *name;
    const mpc_type *type;
    const mpc_type *in_file; /* of another type there; NULL: not there */
} mpc_diff_line;
typedef struct mpc_diff_list {
    mpc_diff_line *data;
    size_t count, capacity;
} mpc_diff_list;
typedef struct mpc_checkpoint_diff {
    const char *place, *kind; /* kind: "parameters", "states" */
    uint32_t wanted;          /* of the model, in all */
    mpc_diff_list missing, unused;
    bool failed;   /* out of memory while filling the lists */
    bool settable; /* --rename and --allow-missing can settle it */
} mpc_checkpoint_diff;
/* An entry of the model that isn't in the file, or a tensor of the file that the model has no place for. */
void mpc_diff_missing(mpc_checkpoint_diff *diff, const char *name, const mpc_type *type, const mpc_type *in_file);
void mpc_diff_unused(mpc_checkpoint_diff *diff, const char *name, const mpc_type *type);
void mpc_diff_free(mpc_checkpoint_diff *diff);
/* Sends E401 with both lists, and with the renaming that would make them equal. */
mpc_status mpc_diff_report(mpc_checkpoint_diff *diff, const mpc_sink *sink);
/* Sends E402: there are more or fewer calls that only numbers tell apart. `missing` has the model's names, `unused` the
 * file's. */
mpc_status mpc_diff_report_numbered(const mpc_checkpoint_diff *diff, const mpc_numbered *here,
                                    const mpc_numbered *there, const mpc_sink *sink);

/* Removes all step-* folders but the newest `keep` and those named in `spare` (NULL-terminated), and leftovers of crashes. */
mpc_status mpc_checkpoint_prune(const char *dir, int64_t keep, const char *const *spare, const mpc_sink *sink);
/* Name of the newest step-* folder in DIR; "" when there is none. */
mpc_status mpc_checkpoint_newest(const char *dir, char *name, size_t size, const mpc_sink *sink);

#endif
