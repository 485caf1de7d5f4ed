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

/* One field at a time: a field that can't be bound says nothing of the others. */
static inline void fuzz_arrays(mpc_dataset *d) {
    uint32_t count = mpc_dataset_array_count(d);
    for (uint32_t i = 0; i < count && i < FUZZ_FIELDS; i++) {
        mpc_data_array a = mpc_dataset_array(d, i);
        char source[300];
        snprintf(source, sizeof source, "field[\"%.200s\"]", a.name);
        mpc_data_field f = {.source = source, .where = "", .row_type = {MPC_FMT_f32, a.rank, {0}}};
        int64_t elements = 1;
        bool small = true;
        for (uint32_t k = 0; k < a.rank; k++) {
            f.row_type.dims[k] = a.dims[k];
            small = small && a.dims[k] <= FUZZ_ROW_ELEMENTS && (elements *= a.dims[k]) <= FUZZ_ROW_ELEMENTS;
        }
        if (!small) continue;
        fuzz_gather(d, &f, 1);
        f.row_type.format = MPC_FMT_i32;
        f.hi = 10;
        fuzz_gather(d, &f, 1);
    }
}

static inline void fuzz_windows(mpc_dataset *d, int64_t length) {
    mpc_data_field fields[2] = {{.source = "window", .where = "", .row_type = {MPC_FMT_i32, 1, {length}}},
                                {.source = "next(window)", .where = "", .row_type = {MPC_FMT_i32, 1, {length}}}};
    fuzz_gather(d, fields, 2);
}

#endif
