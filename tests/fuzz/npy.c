/* An array of numpy: its header is a line of Python, and the shape may claim more than the file holds. */
#include "tests/fuzz/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = mpc_dataset_open_npy(f.path, "x", false, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) fuzz_arrays(set);
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
    return 0;
}
