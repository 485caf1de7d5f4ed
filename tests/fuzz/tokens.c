/* Token files: there is nothing in them to be wrong but their length and numbers that the model has no class for. */
#include "tests/fuzz/rows.h"

static void read_as(const uint8_t *data, size_t size, int bytes) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = mpc_dataset_open_tokens(f.path, 4, bytes, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) fuzz_windows(set, 4);
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_as(data, size, 2);
    read_as(data, size, 4);
    return 0;
}
