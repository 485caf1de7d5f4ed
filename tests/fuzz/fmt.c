/* The canonical layout of a model file: what parses is formatted into the same tokens and comments, and stays so when
 * it is formatted again. */
#include "tests/fuzz/harness.h"
#include "tests/lang/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    mpc_str out = {0};
    const char *broken = layout_broken(&d.sink, (const char *)data, size, &out);
    fuzz_require(!broken, broken ? broken : "");
    mpc_str_free(&out);
    fuzz_diags_close(&d);
    return 0;
}
