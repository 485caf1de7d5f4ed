/* A parsed pipeline: rows of passes with their options, all of them filled in. Private to the manager. */
#ifndef MPC_PASSES_PIPELINE_H
#define MPC_PASSES_PIPELINE_H

#include "passes/pass.h"

typedef struct mpc_pipeline_item {
    const mpc_pass *pass;
    mpc_pass_options options; /* one entry per option of the row, in the row's order */
} mpc_pipeline_item;

typedef struct mpc_pipeline {
    mpc_pipeline_item *items; /* in the arena given to the parser */
    uint32_t count;
} mpc_pipeline;

/* E101 syntax, E102 unknown pass, E103 unknown pipeline, E104 unknown option, E105 ill-typed value. */
mpc_status mpc_pipeline_parse(const char *text, mpc_arena *arena, const mpc_context *ctx, mpc_pipeline *out);

/* One option of a row's list "format:str=f32 solver:str=list". */
typedef struct mpc_option_spec {
    const char *key, *kind, *fallback; /* not terminated: see the lengths */
    size_t key_length, kind_length, fallback_length;
} mpc_option_spec;
/* Advances `*cursor`; false at the end of the list. */
bool mpc_option_next(const char **cursor, mpc_option_spec *spec);
/* The value reads as the kind says. */
bool mpc_option_valid(const mpc_option_spec *spec, const char *value);

#endif
