/* One interface for the devices that run steps: `ref` interprets the expanded graph, `cpu` runs a program. Executors of one store share
 * states: training, the last smaller batch and evaluation each have an executor, all have one set of states. They run one at a time and may share
 * the memory of values and outputs: read the outputs before another executor's step. Inputs stay as they were written. */
#ifndef MPC_RUNTIME_DEVICE_H
#define MPC_RUNTIME_DEVICE_H

#include "ir/program.h"

typedef struct mpc_store mpc_store; /* states by (name, derived format), in flat regions by class */
/* Lays out the states of `g` (the nominal training graph, or an evaluation graph), one memory block, touched. */
mpc_store *mpc_store_create(const mpc_graph *g, const mpc_sink *sink);
void mpc_store_destroy(mpc_store *store);
uint32_t mpc_store_count(const mpc_store *store);
typedef struct mpc_store_entry {
    const char *name; /* "fc1.weight", "fc1.weight/m", "rng.step" */
    mpc_format derived; /* none: a state of its own */
    const char *skip, *role;
    mpc_type type;
    void *data;
    uint64_t bytes;
    /* initial value */
    const char *init;
    double a, b;
    const char *path, *from; /* of a file that has it, under `name` or `from`; "": none */
    const char *numbered; /* "attend.linear=3": names in its own that a number tells apart (runtime/numbered.h) */
} mpc_store_entry;
mpc_store_entry *mpc_store_at(mpc_store *store, uint32_t index);
mpc_store_entry *mpc_store_find(mpc_store *store, const char *name, mpc_format derived);
/* Initial values by seed and path (counter-based, on the host); sets rng.seed; then remakes derived copies. */
mpc_status mpc_store_init(mpc_store *store, uint64_t seed);
/* Averages start again from their parameters; after parameters were given other initial values. */
void mpc_store_restart_averages(mpc_store *store);
/* Derived copies from their masters (after init, load); then hands everything to the device. */
mpc_status mpc_store_derive(mpc_store *store);

/* States may live in a device's memory; entries' `data` is then a host copy. Whoever reads entries asks for it first, whoever wrote
 * some hands it over. mpc_store_init, mpc_store_derive, checkpoint save and load do so themselves. Without a mirror: no-ops. */
typedef struct mpc_store_mirror {
    void *user;
    mpc_status (*to_host)(void *user);   /* after all steps that were begun */
    mpc_status (*to_device)(void *user);
    void (*destroy)(void *user); /* with the store */
} mpc_store_mirror;
void mpc_store_set_mirror(mpc_store *store, mpc_store_mirror mirror);
const mpc_store_mirror *mpc_store_get_mirror(const mpc_store *store); /* NULL: none */
mpc_status mpc_store_to_host(mpc_store *store);
mpc_status mpc_store_to_device(mpc_store *store);

typedef struct mpc_exec mpc_exec;
struct mpc_memory_report;
typedef enum mpc_record_state { MPC_RECORD_NONE, MPC_RECORD_PENDING, MPC_RECORD_READY, MPC_RECORD_FAILED } mpc_record_state;
/* A step leaves a record: its outputs. Steps may run ahead of the host; records come in the order of steps. */
typedef struct mpc_exec_vtable {
    void *(*input)(mpc_exec *e, uint32_t index); /* where to write input `index` of the next step, storage bytes of its type; as it was
                                                    written for the step before, unless `ahead` > 1 */
    const void *(*output)(mpc_exec *e, uint32_t index); /* storage bytes of the current record, valid until the next call of `record`
                                                           or, on devices with ahead = 1, the next step of any executor of the store */
    mpc_status (*step)(mpc_exec *e); /* begins it; on devices with ahead = 1 it is finished on return and its record is current */
    /* Makes the oldest record that wasn't fetched current: READY. Nothing was begun: NONE. Not finished: PENDING, or, with `wait`, waits.
     * NULL on devices with ahead = 1: mpc_exec_record answers for them. */
    mpc_record_state (*record)(mpc_exec *e, bool wait);
    void (*destroy)(mpc_exec *e);
    mpc_status (*find_nonfinite)(mpc_exec *e, mpc_str *what, mpc_loc *loc); /* through mpc_exec_find_nonfinite */
    void (*memory)(const mpc_exec *e, struct mpc_memory_report *report); /* through mpc_exec_memory */
} mpc_exec_vtable;
struct mpc_exec {
    const mpc_exec_vtable *vtable;
    uint32_t ahead; /* steps that may be begun before a record is fetched; step() fails beyond it. 1: synchronous */
    bool fetched;   /* ahead = 1: the last step's record was fetched (kept by mpc_exec_step and mpc_exec_record) */
    uint32_t input_count, output_count;
    const mpc_program_input *inputs; /* buffer ids meaningless for `ref` */
    const mpc_program_output *outputs;
    const mpc_type *input_types, *output_types;
};

typedef struct mpc_exec_options {
    unsigned threads; /* 0: all cores */
    const char *cache_dir; /* of compiled programs; NULL: $XDG_CACHE_HOME/mpc or ~/.cache/mpc */
    const char *compiler; /* NULL: $MPC_CC, then cc */
    bool no_onednn;
    struct mpc_choices *choices; /* what was chosen by timing (runtime/choices.h); NULL: choose anew */
    bool separate_buffers; /* cuda: one allocation per buffer instead of one arena, for tests that look for wrong addresses */
} mpc_exec_options;

/* step and record, for every device. */
mpc_status mpc_exec_step(mpc_exec *e);
mpc_record_state mpc_exec_record(mpc_exec *e, bool wait);

/* Interprets. `g` is expanded; the graph must outlive the executor. */
mpc_exec *mpc_ref_load(const mpc_graph *g, mpc_store *store, const mpc_sink *sink);
/* Of an executor of `ref`: options (ir/eval/eval.h) of every later step, such as a hook that sees each value; NULL:
 * none again. They must outlive those steps. A hook that returns false ends the step: it stores nothing. */
struct mpc_eval_options;
void mpc_ref_observe(mpc_exec *e, const struct mpc_eval_options *options);
/* Compiles (or finds in the cache), plans memory, makes library primitives. The program must outlive the executor. */
mpc_exec *mpc_cpu_load(const mpc_program *program, mpc_store *store, const mpc_exec_options *options, const mpc_sink *sink);
/* Runs a program made for CUDA on the first NVIDIA GPU. The program must outlive the executor. */
mpc_exec *mpc_cuda_load(const mpc_program *program, mpc_store *store, const mpc_exec_options *options, const mpc_sink *sink);
/* Compiles the kernels of several programs at once into the cache, so that loading them finds everything there. */
mpc_status mpc_cuda_compile(const mpc_program *const *programs, uint32_t count, const mpc_exec_options *options, const mpc_sink *sink);
/* Where the time of a step goes: runs one step on the inputs of the next one, launch by launch, and fills `times` (one per launch of the
 * program, in its order). It counts as a step: its record comes with mpc_exec_record. Slower than a step. */
typedef struct mpc_launch_time {
    double seconds; /* on the device */
} mpc_launch_time;
mpc_status mpc_cuda_profile(mpc_exec *e, mpc_launch_time *times, uint32_t count);
mpc_status mpc_cpu_profile(mpc_exec *e, mpc_launch_time *times, uint32_t count); /* the same; seconds on the clock */
/* "own avx512", "onednn brg...": how launch `index` runs on `cpu`. */
const char *mpc_cpu_implementation(const mpc_exec *e, uint32_t index);
/* Can `cuda` run here? false with a diagnostic that says what is missing and what to do. */
bool mpc_cuda_available(const mpc_sink *sink);

/* After a step that set `stop`: runs the launches (or nodes) again on the same inputs and names the first whose result holds a value that is
 * not finite. None: `what` stays empty. `what` gets "layer.0.fc1: linear gives inf at element 12; its inputs reach 3.1e38". */
mpc_status mpc_exec_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc);

typedef struct mpc_memory_report {
    uint64_t by_class[MPC_BUF_CLASS_COUNT][MPC_FMT_count]; /* bytes planned */
    uint64_t state_bytes, arena_bytes, workspace_bytes; /* allocated */
} mpc_memory_report;
void mpc_exec_memory(const mpc_exec *e, mpc_memory_report *report);

/* What was found: "cpu: AMD EPYC 9B45, 2 threads, avx512_bf16", "oneDNN 2.6.3 (libdnnl.so.2)", "compiler cc 12.2". One line each. */
void mpc_runtime_info(mpc_str *out);

#endif
