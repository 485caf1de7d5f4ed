/* An IDX file, as images and as labels: four bytes of magic, dimensions, and numbers of any size. */
#include "tests/fuzz/rows.h"

static void read_as(const char *source, const uint8_t *data, size_t size, bool images) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = mpc_dataset_open_idx(images ? f.path : NULL, images ? NULL : f.path, false, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) {
        mpc_data_array a = mpc_dataset_array(set, 0);
        mpc_data_field field = {.source = source, .where = "", .row_type = {MPC_FMT_f32, a.rank, {0}}};
        int64_t elements = 1;
        bool small = true;
        for (uint32_t k = 0; k < a.rank; k++) {
            field.row_type.dims[k] = a.dims[k];
            small = small && a.dims[k] <= FUZZ_ROW_ELEMENTS && (elements *= a.dims[k]) <= FUZZ_ROW_ELEMENTS;
        }
        if (small) fuzz_gather(set, &field, 1);
    }
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_as("images", data, size, true);
    read_as("labels", data, size, false);
    return 0;
}
