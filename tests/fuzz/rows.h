/* What the targets of data files do with a dataset that opened: bind fields to it, gather first and last rows, draw an
 * order. A buffer has exactly the size that the type says, so that a byte too many is seen. */
#ifndef MPC_TESTS_FUZZ_ROWS_H
#define MPC_TESTS_FUZZ_ROWS_H

#include "runtime/data.h"
#include "tests/fuzz/harness.h"

enum { FUZZ_ROW_ELEMENTS = 1 << 20, FUZZ_FIELDS = 8 };

static inline void fuzz_gather(mpc_dataset *d, const mpc_data_field *fields, uint32_t count) {
    int64_t rows = mpc_dataset_rows(d);
    if (mpc_dataset_bind(d, fields, count) != MPC_OK || rows <= 0) return;
    uint32_t picked[2] = {0, (uint32_t)(rows - 1)}, order[2];
    for (uint32_t i = 0; i < count; i++) {
        void *out = malloc(2 * (size_t)mpc_type_bytes(&fields[i].row_type) + 1);
        if (!out) abort();
        (void)mpc_dataset_gather(d, i, picked, 2, out);
        free(out);
    }
    if (mpc_dataset_order(d, 7, 1, 0, rows < 2 ? rows : 2, order) == MPC_OK)
        fuzz_require(order[0] < (uint64_t)rows, "an order lists rows that exist");
}

/* The type of one row of an array; false: too large to be worth gathering. */
static inline bool fuzz_row_type(const mpc_data_array *a, mpc_type *type) {
    *type = (mpc_type){MPC_FMT_f32, a->rank, {0}};
    int64_t elements = 1;
    for (uint32_t k = 0; k < a->rank; k++) {
        type->dims[k] = a->dims[k];
        if (a->dims[k] > FUZZ_ROW_ELEMENTS || (elements *= a->dims[k]) > FUZZ_ROW_ELEMENTS) return false;
    }
    return true;
}

/* One field at a time: a field that can't be bound says nothing of the others. */
static inline void fuzz_arrays(mpc_dataset *d) {
    uint32_t count = mpc_dataset_array_count(d);
    for (uint32_t i = 0; i < count && i < FUZZ_FIELDS; i++) {
        mpc_data_array a = mpc_dataset_array(d, i);
        char source[300];
        snprintf(source, sizeof source, "field[\"%.200s\"]", a.name);
        mpc_data_field f = {.source = source, .where = ""};
        if (!fuzz_row_type(&a, &f.row_type)) continue;
        fuzz_gather(d, &f, 1);
        f.row_type.format = MPC_FMT_i32;
        f.hi = 10;
        fuzz_gather(d, &f, 1);
    }
}

enum { FUZZ_WINDOW = 4 };

static inline void fuzz_windows(mpc_dataset *d) {
    const int64_t length = FUZZ_WINDOW;
    mpc_data_field fields[2] = {{.source = "window", .where = "", .row_type = {MPC_FMT_i32, 1, {length}}},
                                {.source = "next(window)", .where = "", .row_type = {MPC_FMT_i32, 1, {length}}}};
    fuzz_gather(d, fields, 2);
}

/* The input as a file: opened, used if it could be, closed. */
static inline void fuzz_data(const uint8_t *data, size_t size, mpc_dataset *(*open)(const char *path, const mpc_sink *sink),
                             void (*use)(mpc_dataset *set)) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = open(f.path, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) use(set);
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
}

#endif
