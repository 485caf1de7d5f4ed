/* Data sources: CSV, NPY and NPZ, IDX, text as characters, token files, and several of them side by side. A source is
 * opened once; fields (the graph inputs' `source`) are bound to it; batches are gathered by row number into the executors'
 * input buffers. Sources may be larger than memory. */
#ifndef MPC_RUNTIME_DATA_H
#define MPC_RUNTIME_DATA_H

#include "ir/context.h"

typedef struct mpc_dataset mpc_dataset;

typedef struct mpc_data_field {
    const char *source; /* columns[0:64], columns[64], column["label"], field["x"], images, labels, window, next(window) */
    mpc_type row_type; /* of one row: f32[64], i32[] ... */
    int64_t lo, hi; /* integers must lie in [lo, hi) when hi > lo: E201 with file, row, column, text, counts */
    const char *where; /* for messages: "y -> cross_entropy(logits, y), logits is [batch, 10] (digits.mpg:12)"; may be "" */
    mpc_span span; /* of the mapping in the .mpg */
} mpc_data_field;

typedef struct mpc_csv_options {
    int header; /* 1, 0, -1 find out */
    char delimiter;
    bool keep_nonfinite;
} mpc_csv_options;

/* Reads the whole file. Errors E210..: file, row, column, text found, what was expected. NULL on failure. */
mpc_dataset *mpc_dataset_open_csv(const char *path, const mpc_csv_options *options, const mpc_sink *sink);
/* Windows of `length` characters; row i starts at i * length (next(window) one later). The vocabulary is the sorted set of distinct
 * code points of the training text; `like`: use that dataset's vocabulary (NULL: own). */
mpc_dataset *mpc_dataset_open_text(const char *path, int64_t length, const mpc_dataset *like, const mpc_sink *sink);
/* One array by rows; its field is named `name`. */
mpc_dataset *mpc_dataset_open_npy(const char *path, const char *name, bool keep_nonfinite, const mpc_sink *sink);
typedef struct mpc_field_filter { /* whether a mapping mentions a field */
    bool (*uses)(const void *user, const char *name);
    const void *user;
} mpc_field_filter;
/* The arrays of an archive, each a field. Those that `filter` lets through must have one number of rows (NULL: all); of
 * the others nothing but the name is read. */
mpc_dataset *mpc_dataset_open_npz(const char *path, const mpc_field_filter *filter, bool keep_nonfinite, const mpc_sink *sink);
/* Fields `images` and `labels` from a file each; NULL leaves one out. */
mpc_dataset *mpc_dataset_open_idx(const char *images, const char *labels, bool keep_nonfinite, const mpc_sink *sink);
/* Token numbers of `bytes` (2 or 4) bytes, little endian: windows as of a text, without vocabulary. */
mpc_dataset *mpc_dataset_open_tokens(const char *path, int64_t length, int bytes, const mpc_sink *sink);
/* The fields of several sources by row; takes the parts over, also on failure. An array of an NPY gets names[i] unless that
 * is NULL. */
mpc_dataset *mpc_dataset_zip(mpc_dataset **parts, const char *const *names, uint32_t count, const mpc_sink *sink);
/* Rows of `of` (which must outlive it): the last `fraction` part after a permutation by `seed` (for text and tokens: the last contiguous part); `rest`: the others. */
mpc_dataset *mpc_dataset_split(mpc_dataset *of, double fraction, uint64_t seed, bool rest);
void mpc_dataset_destroy(mpc_dataset *d);

int64_t mpc_dataset_rows(const mpc_dataset *d);
int64_t mpc_dataset_columns(const mpc_dataset *d);
const char *const *mpc_dataset_column_names(const mpc_dataset *d); /* NULL: no header */
typedef struct mpc_data_array { /* of one row */
    const char *name;
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK];
} mpc_data_array;
uint32_t mpc_dataset_array_count(const mpc_dataset *d); /* 0 for windows */
mpc_data_array mpc_dataset_array(const mpc_dataset *d, uint32_t index);
int64_t mpc_dataset_vocabulary(const mpc_dataset *d);
/* UTF-8 of a token, and a token of a character (-1: unknown); for sampling. */
const char *mpc_dataset_token_text(const mpc_dataset *d, int64_t token);
int64_t mpc_dataset_token_of(const mpc_dataset *d, const char *utf8, unsigned *length);

/* Checks every row for every field (types, ranges, non-finite values), but for large arrays left in their files: those are
 * checked as they are gathered. E201, E203, E212, E213, E218... */
mpc_status mpc_dataset_bind(mpc_dataset *d, const mpc_data_field *fields, uint32_t field_count);
/* Rows `rows[0..n)` of field `field` into `out`, dense. Fails when a large file holds a wrong value or can't be read. */
mpc_status mpc_dataset_gather(const mpc_dataset *d, uint32_t field, const uint32_t *rows, int64_t n, void *out);

/* Rows number first..first+n-1 of an epoch's order, a permutation of (seed, epoch): listed for up to 4 million rows, else
 * computed as asked for. */
mpc_status mpc_dataset_order(mpc_dataset *d, uint64_t seed, uint32_t epoch, int64_t first, int64_t n, uint32_t *rows);

#endif
