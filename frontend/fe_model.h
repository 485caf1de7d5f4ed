/* A loaded model: the tree with its sections evaluated. Everything lives in the model's arena. */
#ifndef MPC_FRONTEND_FE_MODEL_H
#define MPC_FRONTEND_FE_MODEL_H

#include "base/array.h"
#include "frontend/ast.h"
#include "frontend/fe_diag.h"
#include "frontend/fe_value.h"
#include "frontend/frontend.h"

typedef enum fe_origin { FE_FROM_FILE, FE_FROM_DEFAULT, FE_FROM_COMMAND } fe_origin;

typedef struct fe_const {
    const fe_ast *item;
    const fe_ast *expr;  /* the override's when there is one */
    const char *command; /* "--const width=64", or NULL */
    bool used;
} fe_const;

typedef struct fe_block {
    const fe_ast *item;
    bool used;
} fe_block;

typedef struct fe_file { /* the model's own (index 0), or one that it or another uses */
    uint32_t id;         /* in the sources */
    fe_list items;
    const fe_ast *use; /* that brought it first; NULL: the model's own */
    uint32_t user;     /* index of the file where that stands */
    const mpc_std_file *std;
    const char *copy; /* its name in a run's folder, other than that of any other file */
    bool complete;    /* read, with all that it uses */
} fe_file;

typedef struct fe_name { /* what a name means in one file */
    mpc_sym sym;
    uint32_t file; /* id */
    bool is_block;
    uint32_t index;  /* of the constant or block */
    mpc_span from;   /* the declaration, or the words of the `use` that brings it */
    bool whole;      /* brought with everything of its file */
    uint32_t before; /* index + 1 of another one of the same spelling; 0: there is none */
} fe_name;

/* One key of a section, with where its value came from. */
typedef struct fe_setting {
    const char *key;
    const fe_ast *expr;
    const char *text; /* of the value, as it stands where it was written */
    mpc_span span;    /* of the entry; file 0 for defaults */
    fe_origin origin;
    const char *command; /* "--set batch=8" */
} fe_setting;

typedef struct fe_selector { /* of params or policy: one glob or op name with what it says */
    const char *glob;
    mpc_span span;
    const fe_ast *entries; /* params: linked AST_ENTRY */
    mpc_format format;     /* policy */
    bool is_op;            /* policy by op name */
    bool command;          /* policy: a line of the command line */
    bool matched;          /* policy: a float */
    bool heard;            /* policy: a float that is computed */
    bool decided;          /* policy: it was the nearest word about some op, or the command line was */
    const char *beaten_by; /* policy: the nearer word that took another format, and its place */
    const char *refused_by; /* policy: the first value that it found and that is no float */
    mpc_format refused_type;
    mpc_span refused_at;
} fe_selector;

typedef struct fe_agreement { /* `agree = ["fc1", "layer.*.out"]` of a policy */
    const char *globs; /* "fc1|layer.*.out" */
    mpc_span span;
} fe_agreement;

typedef struct fe_mapping {
    const fe_ast *entry; /* AST_INPUT_ENTRY */
} fe_mapping;

struct mpc_model {
    mpc_context *ctx;
    mpc_arena *arena;
    fe_model_diag diag;
    uint32_t file;
    fe_list items;
    fe_ast *item; /* the model */
    bool has_data;
    const mpc_other_files *others; /* while it is loaded; NULL: there are none */
    MPC_ARRAY(fe_file) files;
    MPC_ARRAY(fe_name) names;
    MPC_ARRAY(uint32_t) latest; /* by symbol: index + 1 of the last name of that spelling */
    MPC_ARRAY(fe_const) consts; /* of all files */
    MPC_ARRAY(fe_block) blocks;
    MPC_ARRAY(fe_setting) train;
    MPC_ARRAY(fe_selector) params;
    MPC_ARRAY(fe_selector) freeze; /* of train */
    MPC_ARRAY(fe_selector) policy;
    MPC_ARRAY(fe_agreement) agreements;
    MPC_ARRAY(mpc_data_source) sources;
    MPC_ARRAY(fe_setting) source_settings;
    MPC_ARRAY(const fe_ast *) mappings;
    MPC_ARRAY(mpc_metric_info) metrics;
    MPC_ARRAY(const char *) losses;
    mpc_train_config config;
    const mpc_override *overrides;
    size_t override_count;
    bool params_checked, unused_checked;
    bool batch_read; /* `batch` was used as a value */
};

/* Written by CMake from std/. */
extern const mpc_std_file fe_std_files[];
extern const size_t fe_std_count;

/* What a name means where it is written: its file's declarations and what that file uses. */
fe_const *fe_find_const(mpc_model *m, const fe_ast *name);
fe_block *fe_find_block(mpc_model *m, const fe_ast *name);
fe_const *fe_const_named(const mpc_model *m, const char *name); /* seen by the model's own file */
/* Parses the model's file and all that it uses, and declares what they hold (use.c). Errors are counted in m->diag. */
void fe_load_files(mpc_model *m);
/* A file's items, or an expression; false after errors (model.c). */
bool fe_parse(mpc_model *m, uint32_t file, fe_list *items, const fe_ast **expression);
const fe_ast *fe_find_section(const mpc_model *m, const char *name); /* NULL: the file has none */
/* Parses text that isn't in the file: an override or a default. `name` is what messages call it. NULL after errors. */
const fe_ast *fe_parse_text(mpc_model *m, const char *name, const char *text);
/* A constant expression of a section. Poison after errors. */
fe_value fe_eval_constant(mpc_model *m, const fe_ast *expr);
/* The source text of a node, in the model's arena. */
const char *fe_source_text(mpc_model *m, mpc_span span);
/* Name of a loss, metric or output: its own, or the callee's; NULL when there is none. */
const char *fe_statement_name(const fe_ast *statement);

/* Sections, in the order they are read. Errors are counted in m->diag. */
void fe_read_train(mpc_model *m);
void fe_read_data(mpc_model *m);
void fe_read_params(mpc_model *m);
void fe_read_policy(mpc_model *m);
/* --const and --set that no section took are errors. */
void fe_apply_const_overrides(mpc_model *m);
void fe_apply_train_overrides(mpc_model *m);
const char *fe_override_title(mpc_model *m, const mpc_override *o);

#endif
