/* What the files of runtime/data share: the parsed table of a CSV, the vocabulary of a text, arrays of numbers in
 * files, and a dataset as rows of these or a view of such rows. */
#ifndef MPC_RUNTIME_DATA_DATASET_IMPL_H
#define MPC_RUNTIME_DATA_DATASET_IMPL_H

#include "base/array.h"
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

typedef enum mpc_element_kind {
    MPC_ELEMENT_FLOAT,
    MPC_ELEMENT_INT,
    MPC_ELEMENT_UINT,
    MPC_ELEMENT_BOOL
} mpc_element_kind;

typedef struct mpc_element { /* how a file stores a number */
    mpc_element_kind kind;
    uint8_t size; /* bytes: 1 2 4 8 */
    bool swapped; /* the other byte order than this machine's */
} mpc_element;

/* Numbers of a file, row after row. Small ones are read into memory when a field asks for them, large ones stay in the
 * file and are read as rows are gathered: through the page cache, as a mapping would, but a file that shrinks meanwhile
 * is an error and not a signal, and pages that were read don't count as this process's memory. */
typedef struct mpc_array {
    char *name;  /* of the field */
    char *path;  /* of the file, an archive included */
    char *shown; /* for messages: "pairs.npz (x.npy)" */
    mpc_element element;
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK]; /* dims[0]: rows */
    uint64_t offset, bytes;     /* of the elements in the file, or in the inflated member */
    bool columns_first; /* in the file; turned around when it is prepared, which fits into memory then */
    int64_t member;     /* npz: number of the member that is unpacked; -1: the elements lie in the file as they are */
    uint64_t file_size; /* when it was opened */
    unsigned char *memory; /* owned: the elements; NULL: not read, or left in the file */
    int fd;                /* of a prepared array that is left in the file; -1 */
} mpc_array;

typedef struct mpc_tokens {
    int64_t length;   /* of one window; the tokens are the dataset's only array */
    uint32_t *points; /* sorted code points, [vocabulary] */
    char (*text)[8];  /* UTF-8 of each */
    int64_t vocabulary;
} mpc_tokens;

typedef struct mpc_bound_field {
    mpc_data_field field;
    int64_t begin, end;     /* columns; of an array: elements of a row, of windows 0 (window) or 1 (next) on */
    const mpc_array *array; /* NULL: columns of the table */
    int64_t stride;         /* elements from one row of the array to the next */
} mpc_bound_field;

typedef enum mpc_view_kind { MPC_VIEW_ALL, MPC_VIEW_RANGE, MPC_VIEW_LIST, MPC_VIEW_DRAWN } mpc_view_kind;

/* Rows of another dataset: consecutive ones, listed ones, or the positions `first` and following of an order that is
 * computed and not stored. */
typedef struct mpc_view {
    mpc_view_kind kind;
    int64_t first, rows;
    uint32_t *list;
    uint64_t seed;
} mpc_view;

struct mpc_dataset {
    mpc_dataset *root;     /* itself, or the dataset whose rows these are in the end */
    const mpc_dataset *of; /* what `view` chooses from; NULL: this is the root */
    mpc_sink sink;
    bool is_sequence; /* rows are windows of a text or token file */
    bool is_text;     /* a sequence with a vocabulary of characters */
    bool keep_nonfinite;
    char *path;
    int64_t rows; /* of a root */
    mpc_table table;
    mpc_tokens tokens;
    MPC_ARRAY(mpc_array) arrays;
    mpc_view view;
    mpc_bound_field *fields;
    uint32_t field_count;
    uint32_t *order; /* of the rows in epoch `order_epoch` by `order_seed`; NULL: not made, or too many rows for that */
    uint64_t order_seed;
    uint32_t order_epoch;
};

/* A whole file, gunzipped if it is gzip; `*data` is mpc_alloc'ed with a NUL after the last byte. */
mpc_status mpc_data_read_file(const char *path, const mpc_sink *sink, char **data, size_t *size);

/* Bytes of a text before the first one that isn't UTF-8. */
size_t mpc_data_utf8_prefix(const char *text, size_t size);

/* A decimal number at the start of [p, end): its end, or NULL when there is none. Accepts what strtod does, except
 * hexadecimal. */
const char *mpc_data_parse_number(const char *p, const char *end, double *value);

mpc_status mpc_csv_parse(mpc_dataset *d, const char *text, size_t size, const mpc_csv_options *options);
void mpc_table_free(mpc_table *table);
/* Exact value of a cell. */
double mpc_table_value(const mpc_table *table, int64_t row, int64_t column);

/* ---- arrays (array_file.c) ---- */
enum {
    MPC_DATA_IN_MEMORY = 64 << 20, /* bytes up to which an array is read and checked as a whole */
    MPC_DATA_LISTED_ROWS = 1 << 22 /* rows up to which orders and splits are lists */
};
/* Opens a regular file for reading: -1 after an error that says what it is instead. */
int mpc_data_open_regular(const char *path, const mpc_sink *sink, uint64_t *size);
/* Exactly `n` bytes at `offset` of a file; false after E218 when they aren't there. */
bool mpc_data_pread(const mpc_sink *sink, const char *shown, int fd, uint64_t offset, void *out, uint64_t n);
/* Bytes that may be inflated into memory. */
uint64_t mpc_data_memory_limit(void);
/* Appends an array of which name, path and shown are copied; NULL when out of memory. */
mpc_array *mpc_dataset_add_array(mpc_dataset *d, const char *name, const char *path, const char *shown);
void mpc_array_free_parts(mpc_array *a);
int64_t mpc_array_width(const mpc_array *a); /* elements of a row */
/* Reads a small array, or opens a large one. */
mpc_status mpc_array_prepare(const mpc_dataset *d, mpc_array *a);
/* `count` elements from number `first` on, as the file has them. */
mpc_status mpc_array_read(const mpc_dataset *d, const mpc_array *a, int64_t first, int64_t count, void *out);
double mpc_element_number(mpc_element e, const unsigned char *p);
/* Exact; false when it is no whole number within i64. */
bool mpc_element_integer(mpc_element e, const unsigned char *p, int64_t *value);

/* ---- NPY (npy.c), NPZ (npz.c) ---- */
/* What one look at the first bytes of an NPY needs: `read` fills `out` with exactly `n` bytes at an offset or fails
 * with a diagnostic. Sets element, rank, dims, offset (from `begin`) and bytes; checks them against `end`. */
typedef struct mpc_npy_source {
    bool (*read)(void *user, uint64_t offset, void *out, uint64_t n);
    void *user;
    uint64_t begin, end;
} mpc_npy_source;
mpc_status mpc_npy_parse(const mpc_sink *sink, mpc_array *a, const mpc_npy_source *from);
/* Inflates member `a->member` into a->memory. */
mpc_status mpc_npz_inflate(const mpc_dataset *d, mpc_array *a);

/* ---- numbers of one row of an array (array_rows.c) ---- */
mpc_status mpc_array_gather(const mpc_dataset *d, const mpc_bound_field *b, const uint32_t *rows, int64_t n, void *out);
/* Every value of an array in memory, before the first step. */
mpc_status mpc_array_check(const mpc_dataset *d, const mpc_bound_field *b);

/* ---- orders that are computed (drawn_order.c) ---- */
/* Row at a position of a permutation of 0..n-1 that depends on (seed, stream, step) only. */
int64_t mpc_drawn_row(uint64_t seed, uint64_t stream, uint32_t step, uint64_t n, int64_t position);

/* ---- ranges of integers (range_check.c) ---- */
typedef struct mpc_range_check { /* what one pass over an integer field found */
    int64_t bad;                 /* values out of range */
    int64_t same;                /* values equal to the first bad one */
    int64_t row, element;        /* of the first bad value; row -1: none */
    int64_t total;               /* values seen */
    double value, smallest, largest;
} mpc_range_check;
mpc_range_check mpc_range_begin(void);
void mpc_range_see(mpc_range_check *c, const mpc_data_field *f, int64_t row, int64_t element, double v);
/* E201 at a place: "FILE, row R, column C". */
mpc_status mpc_range_report(const mpc_dataset *d, const mpc_data_field *f, const mpc_range_check *c, const char *place);
void mpc_format_bounds(mpc_format format, double *low, double *high);

mpc_dataset *mpc_dataset_create(const char *path, const mpc_sink *sink);
/* What an opening function returns: the dataset, or NULL after freeing it and saying when memory was short. */
mpc_dataset *mpc_dataset_opened(mpc_dataset *d, mpc_status status, const char *path, const mpc_sink *sink);
int64_t mpc_dataset_root_row(const mpc_dataset *d, int64_t row);
uint32_t mpc_dataset_line(const mpc_dataset *d, int64_t root_row);
/* An error whose place is "FILE, row R, column C: `TEXT`"; row or column 0 and text NULL leave that part out. */
mpc_status mpc_data_error(const mpc_dataset *d, const char *code, uint32_t line, int64_t column, const char *text,
                          const char *help, const char *format, ...) __attribute__((format(printf, 7, 8)));
mpc_status mpc_data_no_memory(const mpc_dataset *d);

#endif
