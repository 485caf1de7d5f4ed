/* What `mpc predict` is made of: rows to a table, or text or token numbers from a token model. */
#ifndef MPC_DRIVER_PREDICT_H
#define MPC_DRIVER_PREDICT_H

#include "driver/session.h"

typedef enum mpc_table_form { MPC_TABLE_CSV, MPC_TABLE_JSONL, MPC_TABLE_NPY } mpc_table_form;

typedef struct mpc_table_writer { /* rows of outputs to a file */
    mpc_table_form form;
    FILE *to;
    const mpc_sink *sink;
    const char *path;
    uint32_t *outputs; /* executor outputs that are written */
    uint32_t output_count;
    int64_t columns;
} mpc_table_writer;

/* `path` NULL or "-": stdout, CSV; else by the ending. Chooses the outputs that have a row per batch row. */
bool mpc_table_open(mpc_table_writer *w, mpc_step *step, const char *path, int64_t rows);
bool mpc_table_rows(mpc_table_writer *w, mpc_step *step);
bool mpc_table_close(mpc_table_writer *w);

/* Writes text that the model goes on with, character by character; without a vocabulary, token numbers. */
bool mpc_sample_text(mpc_session *s, mpc_step *step, const mpc_dataset *vocabulary);

#endif
