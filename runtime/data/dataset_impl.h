/* What the files of runtime/data share: the parsed table of a CSV, the tokens of a text, and a dataset as a view of
 * either. */
#ifndef MPC_RUNTIME_DATA_DATASET_IMPL_H
#define MPC_RUNTIME_DATA_DATASET_IMPL_H

#include "runtime/data.h"

typedef enum mpc_cell_issue { MPC_CELL_OK, MPC_CELL_EMPTY, MPC_CELL_NOT_NUMBER, MPC_CELL_NONFINITE } mpc_cell_issue;

typedef struct mpc_column_issue { /* first cell of a column that can't be used as a number; reported when a field asks
                                     for it */
    mpc_cell_issue kind;
    uint32_t row;
    int64_t count;
    char text[48]; /* cut off when longer */
} mpc_column_issue;

typedef struct mpc_table {
    int64_t rows, columns;
    float *values;     /* [rows, columns]; NaN where there is an issue */
    double **wide;     /* per column: NULL, or [rows] exact values of a column with integers that f32 can't hold */
    int64_t wide_rows; /* capacity of each wide column */
    mpc_column_issue *issues; /* [columns] */
    char **names;             /* [columns]; NULL without header */
    uint32_t *lines;          /* [rows] line in the file; NULL: row + first_line */
    uint32_t first_line;
} mpc_table;

typedef struct mpc_tokens {
    int32_t *data;
    int64_t count, length; /* characters; of one window */
    uint32_t *points;      /* sorted code points, [vocabulary] */
    char (*text)[8];       /* UTF-8 of each */
    int64_t vocabulary;
} mpc_tokens;

typedef struct mpc_bound_field {
    mpc_data_field field;
    int64_t begin, end; /* columns; tokens: begin is 0 (window) or 1 (next) */
} mpc_bound_field;

struct mpc_dataset {
    mpc_dataset *root; /* itself, or the dataset whose table this is a view of */
    mpc_sink sink;
    bool is_text, keep_nonfinite;
    char *path;
    mpc_table table;
    mpc_tokens tokens;
    uint32_t *view; /* rows of the root; NULL: all */
    int64_t view_rows;
    mpc_bound_field *fields;
    uint32_t field_count;
};

/* A whole file, gunzipped if it is gzip; `*data` is mpc_alloc'ed with a NUL after the last byte. */
mpc_status mpc_data_read_file(const char *path, const mpc_sink *sink, char **data, size_t *size);

/* A decimal number at the start of [p, end): its end, or NULL when there is none. Accepts what strtod does, except
 * hexadecimal. */
const char *mpc_data_parse_number(const char *p, const char *end, double *value);

mpc_status mpc_csv_parse(mpc_dataset *d, const char *text, size_t size, const mpc_csv_options *options);
void mpc_table_free(mpc_table *table);
/* Exact value of a cell. */
double mpc_table_value(const mpc_table *table, int64_t row, int64_t column);

mpc_dataset *mpc_dataset_create(const char *path, const mpc_sink *sink);
int64_t mpc_dataset_root_row(const mpc_dataset *d, int64_t row);
uint32_t mpc_dataset_line(const mpc_dataset *d, int64_t root_row);
/* An error whose place is "FILE, row R, column C: `TEXT`"; row or column 0 and text NULL leave that part out. */
mpc_status mpc_data_error(const mpc_dataset *d, const char *code, uint32_t line, int64_t column, const char *text,
                          const char *help, const char *format, ...) __attribute__((format(printf, 7, 8)));
mpc_status mpc_data_no_memory(const mpc_dataset *d);

#endif
