/* A session: one model file with its settings, data, precision assignment, states and compiled steps. This is where the
 * layers meet: frontend makes a graph, passes rewrite it, codegen makes a program, a device runs it. */
#ifndef MPC_DRIVER_SESSION_H
#define MPC_DRIVER_SESSION_H

#include "base/array.h"
#include "driver/cli.h"
#include "frontend/frontend.h"
#include "passes/pass.h"
#include "runtime/data.h"
#include "runtime/device.h"

typedef enum mpc_split {
    MPC_SPLIT_TRAIN,
    MPC_SPLIT_VALID,
    MPC_SPLIT_TEST,
    MPC_SPLIT_PREDICT,
    MPC_SPLIT_COUNT
} mpc_split;
const char *mpc_split_name(mpc_split split);
bool mpc_split_find(const char *name, mpc_split *split);

typedef enum mpc_device_kind { MPC_DEVICE_CPU, MPC_DEVICE_REF, MPC_DEVICE_CUDA } mpc_device_kind;
const char *mpc_device_name(mpc_device_kind device);

typedef struct mpc_session_plugin { /* texts live as long as the session */
    const char *path, *hash;        /* absolute; of its bytes when it was loaded */
} mpc_session_plugin;

typedef struct mpc_session {
    mpc_cli *cli;
    const mpc_sink *sink;
    mpc_sources *sources;
    mpc_context *ctx;
    mpc_model *model;
    const mpc_train_config *train;
    const char *text; /* of the model file, in sources */
    size_t text_length;
    mpc_data_facts facts;
    mpc_dataset *splits[MPC_SPLIT_COUNT]; /* NULL: not opened; borrowed from `datasets` */
    MPC_ARRAY(mpc_dataset *) datasets;    /* everything opened, in order of creation; destroyed in reverse */
    mpc_assignment *assignment;
    struct mpc_observations *observed; /* --profile-data; NULL: none */
    const struct mpc_device_profile *profile; /* what costs are for (passes/precision/cost.h) */
    struct mpc_plan_choices *plan_choices;    /* where the solver tells its choices; NULL: nobody asks */
    double loss_budget;                       /* 0: none; with it mincut decides, by `sensitivity` */
    struct mpc_sensitivity *sensitivity;      /* passes/precision/sensitivity.h; NULL: none */
    struct mpc_dial *dial;                    /* where the search for the budget tells its result; NULL: nobody asks */
    mpc_store *store; /* made with the first step; NULL before */
    mpc_device_kind device;
    bool device_settled;           /* it is here, with what it needs; cpu without a compiler was replaced by `ref` */
    mpc_exec_options exec_options; /* owns its `choices`: NULL but on `cuda` */
    double total_updates;          /* of the whole training, for the schedule; 0: not known */
    int64_t updates_per_epoch;
    bool formats_settled; /* whether f16 stays among the formats (format_choice.h) */
    const char *formats_asked; /* "f16,bf16": what was asked for where f16 was left out; NULL: all that was asked for may be used */
    mpc_str init_file;  /* the weights that --init found, once it has; "": none */
    bool cost_target_is_file;
    double f32_seconds;   /* of a step in f32 by the model, where f16 was weighed against it; 0: it wasn't */
    bool verify_each, time_passes;
    bool keep_composites; /* steps run the graph before it is lowered, whose values have the model's names; `ref` only */
    bool each_gradient;   /* training graphs have the gradient of every value as an output */
    bool watch_choices;   /* training graphs have what rounding may make fall out otherwise as outputs choice:NAME */
    bool given_choices;   /* training graphs take that from inputs choice:NAME, which whoever runs a step fills after mpc_step_feed */
    mpc_override_list overrides;
    struct json_t *run; /* run.json of the run that the command goes on with (run_recall.h); NULL: none */
    mpc_str run_folder; /* its folder, with a slash at its end */
    MPC_ARRAY(mpc_session_plugin) plugins;
    bool plugins_changed;       /* since the run that is gone on with was made */
    mpc_text_list added_passes; /* --add-pass, of the command line or the run */
} mpc_session;

/* Reads and loads the model file of the command line. false after diagnostics. */
bool mpc_session_open(mpc_session *s, mpc_cli *cli);
void mpc_session_close(mpc_session *s);
/* A session with the same model and data, without states or what was seen and sought for the first's assignment. Not to be closed: the
 * caller destroys its store and assignment. `config` outlives it. */
mpc_session mpc_session_beside(const mpc_session *s, const mpc_train_config *config, mpc_assignment *assignment);
/* Reads --profile-data, if given (observed_data.c). */
bool mpc_session_load_observed(mpc_session *s);

/* ---- what was chosen by timing (run_choices.c); nothing to do but on `cuda` ---- */
/* Takes the choices of the run that is gone on with, before the first step is made. */
bool mpc_session_load_choices(mpc_session *s);
/* Writes choices.txt into the folder of a run when there are new ones. */
bool mpc_session_save_choices(mpc_session *s, const char *folder);

/* ---- data (session_data.c) ---- */
/* The dataset of a split, opened on first use with everything it depends on; NULL with *missing set when the file has
 * no such split, NULL with a diagnostic otherwise. */
mpc_dataset *mpc_session_split(mpc_session *s, mpc_split split, bool *missing);
bool mpc_session_has_split(const mpc_session *s, mpc_split split);
/* Columns, names and vocabulary of an opened dataset as facts for elaboration. */
void mpc_session_learn_facts(mpc_session *s, const mpc_dataset *d);
/* For commands that only look: opens the training data when its file is there; facts stay unknown otherwise. */
bool mpc_session_try_facts(mpc_session *s);
/* Rows that an epoch takes: all, or those that fill batches (last_batch = drop). */
int64_t mpc_session_epoch_rows(const mpc_session *s, const mpc_dataset *train);
/* Rows of a full step over a dataset: the batch, or all rows where there are fewer. */
int64_t mpc_session_batch(const mpc_session *s, const mpc_dataset *d);
/* Updates per epoch and in all, from the rows of the training split. */
bool mpc_session_plan_length(mpc_session *s, const mpc_dataset *train);
/* Rows of another file, read as the split's source says (text files share the training text's vocabulary). */
mpc_dataset *mpc_session_open_file(mpc_session *s, const char *path);

/* ---- pipelines (pipeline_text.c) ---- */
typedef enum mpc_stage {
    MPC_STAGE_PARSED,
    MPC_STAGE_GRAD,
    MPC_STAGE_AUTOCAST,
    MPC_STAGE_LOWERED,
    MPC_STAGE_FUSED,
    MPC_STAGE_FINAL,
    MPC_STAGE_DECIDED /* autocast alone: decisions beside the graph */
} mpc_stage;
bool mpc_stage_find(const char *name, mpc_stage *stage);
/* Appends the pipeline of a phase up to a stage, with the options that the train section asks for. */
void mpc_pipeline_text_for(const mpc_session *s, mpc_phase phase, mpc_stage stage, mpc_str *out);

/* ---- steps (session_steps.c) ---- */
typedef struct mpc_step { /* one phase at one batch size, ready to run */
    mpc_session *session;
    mpc_phase phase;
    int64_t batch;
    mpc_graph *graph;
    mpc_program *program; /* NULL on `ref` */
    mpc_exec *exec;
    mpc_data_field *fields; /* what a dataset must be bound to */
    uint32_t field_count;
    uint32_t *field_of; /* by executor input; MPC_NONE: a control input */
    uint32_t flush;     /* executor input with source control:flush; MPC_NONE */
} mpc_step;

/* Graph of a phase after a stage's passes. The caller destroys it. NULL after diagnostics. */
mpc_graph *mpc_session_graph(mpc_session *s, mpc_phase phase, int64_t batch, mpc_stage stage);
/* Fills the assignment from the nominal training graph, for commands that don't train. */
bool mpc_session_assign(mpc_session *s);
/* What a device runs, also where there is none; NULL after diagnostics. `ref` has no programs: C for it. */
mpc_program *mpc_device_program(mpc_device_kind device, const mpc_graph *final);
/* Elaborates, compiles and loads. Makes the session's store if there is none. */
mpc_step *mpc_step_create(mpc_session *s, mpc_phase phase, int64_t batch);
void mpc_step_destroy(mpc_step *step);
/* Checks a dataset against the step's inputs. */
bool mpc_step_bind(mpc_step *step, mpc_dataset *d);
/* Fills all inputs of the next step, from `step->batch` rows of a dataset bound to a step of the same phase; control
 * inputs with 0. false after a wrong value in a file too large to be checked beforehand. */
bool mpc_step_feed(mpc_step *step, const mpc_dataset *d, const uint32_t *rows);
void mpc_step_set_flush(mpc_step *step, bool flush); /* after feeding */
/* A step whose launches are timed one by one (mpc_cuda_profile, mpc_cpu_profile). Not on `ref`. */
bool mpc_step_profile(mpc_step *step, mpc_launch_time *times);
/* One step from begin to end: its outputs can be read. */
bool mpc_step_run(mpc_step *step);
uint32_t mpc_step_output(const mpc_step *step, const char *name); /* MPC_NONE: none */
/* Scalar outputs as numbers; `fallback` when index is MPC_NONE. */
double mpc_step_scalar(mpc_step *step, uint32_t index, double fallback);

/* Initial values of all states of a training: by seed and path, and for `load` in params from files (load_parts.c). */
bool mpc_session_start_states(const mpc_session *s, mpc_store *store);
/* Parameters of the store, and their elements. */
void mpc_session_count_parameters(mpc_session *s, uint64_t *tensors, uint64_t *elements);

#endif
