/* From a page of text (`.mpg`) to graphs. A file is parsed and its sections evaluated once (mpc_model_load); graphs are
 * then elaborated for concrete sizes as often as needed (nominal batch, last smaller batch, evaluation, prediction). */
#ifndef MPC_FRONTEND_FRONTEND_H
#define MPC_FRONTEND_FRONTEND_H

#include "ir/builder.h"

typedef struct mpc_model mpc_model;

typedef enum mpc_override_from {
    MPC_FROM_OPTION, /* --const or --set */
    MPC_FROM_RUN,    /* an earlier run: a constant that the model doesn't see any more is passed over */
    MPC_FROM_CHANGE  /* --change, for messages; else like --set */
} mpc_override_from;
/* From --set KEY=VALUE and --const NAME=VALUE; parsed with the file's own grammar. */
typedef struct mpc_override {
    bool is_const;
    const char *key, *value;
    mpc_override_from from;
} mpc_override;

typedef enum mpc_unit { MPC_UNIT_NONE, MPC_UNIT_STEPS, MPC_UNIT_EPOCHS, MPC_UNIT_MINUTES } mpc_unit;
typedef struct mpc_quantity {
    double value;
    mpc_unit unit;
} mpc_quantity;

typedef struct mpc_optimizer_config {
    const char *kind; /* "adamw", "adam", "sgd", "nesterov", "lion" */
    double lr, momentum, beta1, beta2, eps, weight_decay;
} mpc_optimizer_config;

typedef struct mpc_schedule_config {
    const char *kind; /* "constant", "cosine", "linear", "step" */
    mpc_quantity warmup;
    double final;       /* fraction of lr at the end */
    mpc_quantity every; /* step: how often lr is multiplied by `factor` */
    double factor;
} mpc_schedule_config;

typedef struct mpc_scale_config {
    bool written; /* by the user, who then has it whether anything is f16 or not */
    bool dynamic;
    double init; /* of static: the scale */
    double growth, backoff, max, min;
    int64_t interval;
} mpc_scale_config;

typedef struct mpc_train_config {   /* `train { ... }`, completed with defaults; what isn't there and wasn't overridden
                                       has the default */
    bool present;                   /* the file has a train section */
    const char *precision;          /* "f32" "tf32" "bf16" "f16", "auto" (the driver settles it); default bf16 */
    const char *also;               /* "none" "bf16" "f16": a second low format for solver mincut */
    const char *solver;             /* of the table of solvers, or a plugin's; default mincut */
    mpc_optimizer_config optimizer; /* default adamw(lr = 1e-3, weight_decay = 0.01) */
    mpc_schedule_config schedule;   /* default constant */
    mpc_scale_config loss_scale;    /* default dynamic(init = 65536, growth = 2, backoff = 0.5, interval = 2000, max =
                                       2^24, min = 2^-14) */
    int64_t batch, accumulate;      /* default 32, 1 */
    mpc_quantity length;            /* default 10 epochs */
    double clip_norm, clip_value;   /* 0: off */
    const char *monitor;            /* "valid.acc"; "": valid.loss, or train loss without a valid split */
    mpc_quantity eval_every;        /* default 1 epoch */
    mpc_quantity save_every;        /* default 1 epoch */
    int64_t keep;                   /* checkpoints kept besides best and last; default 2 */
    int64_t patience;               /* evaluations without improvement until stopping; 0: off */
    uint64_t seed;                  /* default 0 */
    double ema;                     /* of all trained parameters; 0: off */
    const char *weights;            /* "master", "stochastic", "none" */
    bool drops_last;                /* last_batch = drop: rows that don't fill a batch are left out of the epoch */
    const char *on_nonfinite;       /* "stop", "skip" */
    const char *nonfinite;          /* of data: "reject", "keep" */
} mpc_train_config;

typedef enum mpc_source_kind {
    MPC_SOURCE_CSV,
    MPC_SOURCE_TEXT,
    MPC_SOURCE_SPLIT,
    MPC_SOURCE_TOKENS,
    MPC_SOURCE_NPY,
    MPC_SOURCE_NPZ,
    MPC_SOURCE_IDX,
    MPC_SOURCE_ZIP
} mpc_source_kind;
typedef struct mpc_data_source { /* `train = csv("x.csv")`, `valid = split(train, 0.1, seed = 1)` */
    const char *split;           /* train valid test predict */
    mpc_source_kind kind;
    const char *path; /* resolved against the .mpg file's folder; idx: of the images; NULL: none */
    const char *labels; /* idx: of the labels; NULL: none */
    const char *field;  /* npy: name of its field */
    int token_bytes;    /* tokens: 2 or 4 */
    const struct mpc_data_source *parts; /* zip */
    uint32_t part_count;
    int header;       /* csv: 1 yes, 0 no, -1: found out (first row holds a field that isn't a number) */
    char delimiter;   /* csv: ',' */
    int64_t length;   /* text, tokens: window */
    const char *of;   /* split: which other */
    double fraction;
    uint64_t seed;
    mpc_span span;
} mpc_data_source;

typedef struct mpc_array_fact { /* one row of a field of numbers */
    const char *name;
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK];
} mpc_array_fact;

/* What the front end must know of the data; the driver finds it by opening the sources. */
typedef struct mpc_data_facts {
    bool known;                      /* false: no data at hand (dump-ir without files): column counts are not checked */
    int64_t columns;                 /* csv */
    const char *const *column_names; /* NULL without header */
    const struct mpc_array_fact *arrays; /* npy, npz, idx: fields by name */
    uint32_t array_count;
    int64_t vocabulary;              /* text: distinct characters; the constant `vocabulary` may be used in the file */
} mpc_data_facts;

typedef enum mpc_phase {
    MPC_PHASE_TRAIN,
    MPC_PHASE_EVAL,
    MPC_PHASE_PREDICT,
    MPC_PHASE_MEASURE /* the data mapping alone: an output PATH for each value that is standardized, PATH.mean its state */
} mpc_phase;

typedef struct mpc_metric_info {
    const char *name; /* log key */
    bool higher_is_better;
    bool exponential; /* perplexity: exp(num / den) */
} mpc_metric_info;

typedef struct mpc_field_info { /* a graph input: a field of the data */
    const char *source; /* canonical: "columns[0:64]" "columns[64]" "column[\"label\"]" "window" "next(window)"
                           "field[\"x\"]" "images" "labels" */
    mpc_span span;
} mpc_field_info;

/* A file of std/, which is part of mpc. */
typedef struct mpc_std_file {
    const char *name;        /* "std/resnet.mpg" */
    const char *const *text; /* ASCII */
} mpc_std_file;
const mpc_std_file *mpc_std_at(size_t index); /* NULL at the end */
const mpc_std_file *mpc_std_find(const char *name);

typedef struct mpc_block_info { /* lives for the visit */
    const char *name;
    const char *signature; /* "name(x: [n, c], width: int = 8)" */
    const char *document;  /* "": none */
    mpc_span span;         /* with its document */
} mpc_block_info;
typedef struct mpc_block_visitor {
    void (*visit)(void *user, const mpc_block_info *info);
    void *user;
} mpc_block_visitor;
/* All blocks of a file, which is registered in the context's sources; false after a diagnostic. */
bool mpc_std_blocks(mpc_context *ctx, const mpc_std_file *file, const mpc_block_visitor *visitor);

/* Where the files come from that a model uses. `open` gives the file that `said` names in the file `from` (an id),
 * registered in the context's sources, and for a file that it gave before the same id; `from` and the model's own file
 * count. 0: there is none, and `why` says so in a sentence. */
typedef struct mpc_other_files {
    uint32_t (*open)(void *user, uint32_t from, const char *said, mpc_str *why);
    void *user;
} mpc_other_files;

/* NULL on errors (up to 10 sent). `file` is registered in the context's sources. */
mpc_model *mpc_model_load_using(mpc_context *ctx, uint32_t file, const mpc_other_files *others,
                                const mpc_override *overrides, size_t override_count);
/* The same where there are no other files but those of std/. */
mpc_model *mpc_model_load(mpc_context *ctx, uint32_t file, const mpc_override *overrides, size_t override_count);
void mpc_model_destroy(mpc_model *model);
const char *mpc_model_name(const mpc_model *model);
bool mpc_model_has_const(const mpc_model *model, const char *name); /* as --const takes them */
const mpc_train_config *mpc_model_train(const mpc_model *model);
/* Changes one key of the train section as if the override had been given; its texts live as long as the model. false after diagnostics. */
bool mpc_model_change_setting(mpc_model *model, const mpc_override *override);
/* `logits = linear(x, 3) as head`: the variable's value is called `head`. NULL when no assignment to it has a label. */
const char *mpc_model_label(const mpc_model *model, const char *variable);
/* Values that must have one format, as the option `agree` of autocast: groups "fc1|layer.*.out@m.mpg:12" joined by ';'. "": none;
 * NULL: out of memory. */
const char *mpc_model_agreements(mpc_model *model);
/* The line of params or train that decided `key` (init, decay, lr, freeze, ema, weights) for the parameter; file 0:
 * none did. */
mpc_span mpc_model_param_line(const mpc_model *model, const char *path, const char *key);
size_t mpc_model_source_count(const mpc_model *model);
const mpc_data_source *mpc_model_source(const mpc_model *model, size_t index);
/* Some mapping mentions field["name"], images or labels by that name. */
bool mpc_model_maps_field(const mpc_model *model, const char *name);
size_t mpc_model_metric_count(const mpc_model *model);
const mpc_metric_info *mpc_model_metric(const mpc_model *model, size_t index);
bool mpc_model_predicts(const mpc_model *model); /* it has an output */
size_t mpc_model_loss_count(const mpc_model *model);
const char *mpc_model_loss(const mpc_model *model, size_t index);
/* The completed file, each line with its origin (file:line, default, command line): resolved.mpg, `mpc config`. */
void mpc_model_print_config(const mpc_model *model, bool origins, mpc_str *out);
/* The same with origins, data files with absolute paths, so that the text can be loaded from any folder. `folder`: the
 * absolute path that relative ones start from; NULL: not known, paths stay as they are. */
void mpc_model_print_resolved(const mpc_model *model, const char *folder, mpc_str *out);

/* The files that the model uses, its own apart: id in the sources, a name for a copy that no other has, and the text of
 * the copy: constants as the command line has them, names of files as those of copies beside it. A resolved model finds
 * the copies in used/. */
size_t mpc_model_used_count(const mpc_model *model);
uint32_t mpc_model_used_file(const mpc_model *model, size_t index);
const char *mpc_model_used_copy(const mpc_model *model, size_t index);
void mpc_model_print_used(const mpc_model *model, size_t index, mpc_str *out);

/* A graph for one phase and batch size. Inputs have attributes source, model, lo, hi. Value names are paths: labels,
 * variables and loop indices joined by '.', the same in every elaboration. Outputs: TRAIN "loss" f32 [] (weighted
 * total), "count" f32 [] (valid elements of the first loss), "loss.NAME", "count.NAME", "weight.NAME" (of the loss in the
 * total, where it isn't 1), "metric.NAME.num", "metric.NAME.den"; groups and shares of losses as docs/architecture.md
 * has them; EVAL the same in evaluation mode, no gradients, no nexts but rng.step; PREDICT "output.NAME";
 * inputs that no output needs are left out States: parameters (role=param, name = path), running statistics (role=stat,
 * skip=keep, next bound in TRAIN), rng.seed (i64 [], role=rng, keep) and rng.step (i32 [], role=rng, advance, next = +
 * 1) when a random op is used. Notes, such as that `batch` is used as a value with accumulate > 1, are sent once per
 * model. NULL on errors. */
mpc_graph *mpc_model_elaborate(mpc_model *model, mpc_phase phase, int64_t batch, const mpc_data_facts *facts);

/* The file in canonical layout, appended to `out`; all comments stay, and the graph is the same. false after
 * diagnostics (syntax errors). Names mean nothing here: files that it uses are not read. `label`: calls that only a
 * number tells apart get labels, which renames their parameters. */
bool mpc_format_file(mpc_context *ctx, uint32_t file, bool label, mpc_str *out);
/* What the file has of its own, for people: constants with their defaults, inputs, outputs and blocks, each with its
 * `##` comments. false after diagnostics (syntax errors). */
bool mpc_describe_file(mpc_context *ctx, uint32_t file, mpc_str *out);

#endif
