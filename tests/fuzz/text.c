/* A text by characters: UTF-8, its vocabulary, and windows of four. */
#include "tests/fuzz/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = mpc_dataset_open_text(f.path, 4, NULL, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) fuzz_windows(set, 4);
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
    return 0;
}
