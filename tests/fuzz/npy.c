/* An array of numpy: its header is a line of Python, and the shape may claim more than the file holds. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_npy(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_npy(path, "x", false, sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_npy, fuzz_arrays);
    return 0;
}
