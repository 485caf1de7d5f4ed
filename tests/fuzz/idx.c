/* An IDX file, as images and as labels: four bytes of magic, dimensions, and numbers of any size. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_images(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_idx(path, NULL, false, sink);
}
static mpc_dataset *open_labels(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_idx(NULL, path, false, sink);
}

static void gather_all(mpc_dataset *set, const char *source) {
    mpc_data_array a = mpc_dataset_array(set, 0);
    mpc_data_field field = {.source = source, .where = ""};
    if (fuzz_row_type(&a, &field.row_type)) fuzz_gather(set, &field, 1);
}
static void use_images(mpc_dataset *set) { gather_all(set, "images"); }
static void use_labels(mpc_dataset *set) { gather_all(set, "labels"); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_images, use_images);
    fuzz_data(data, size, open_labels, use_labels);
    return 0;
}
