/* A text by characters: UTF-8, its vocabulary, and windows of four. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_text(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_text(path, FUZZ_WINDOW, NULL, sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_text, fuzz_windows);
    return 0;
}
