/* An archive of numpy: central directory, local headers, inflated members and their NPY headers may all contradict each
 * other. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_npz(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_npz(path, NULL, false, sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_npz, fuzz_arrays);
    return 0;
}
