/* Token files: there is nothing in them to be wrong but their length and numbers that the model has no class for. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_narrow(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_tokens(path, FUZZ_WINDOW, 2, sink);
}
static mpc_dataset *open_wide(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_tokens(path, FUZZ_WINDOW, 4, sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_narrow, fuzz_windows);
    fuzz_data(data, size, open_wide, fuzz_windows);
    return 0;
}
