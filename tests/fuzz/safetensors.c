/* A safetensors file: read and checked, then every byte that a tensor claims is touched. The header is the attacker's:
 * names, offsets and shapes may say anything. */
#include "runtime/checkpoint.h"
#include "tests/fuzz/harness.h"

static void touch(const mpc_safetensors *file) {
    for (uint32_t i = 0; i < mpc_safetensors_count(file); i++) {
        const mpc_tensor_view *t = mpc_safetensors_at(file, i);
        int64_t bytes = mpc_type_bytes(&t->type);
        const volatile unsigned char *data = t->data; /* volatile: the reads happen */
        for (int64_t k = 0; k < bytes; k++) (void)data[k];
        fuzz_require(mpc_safetensors_find(file, t->name) != NULL, "a tensor is found by its name");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_safetensors *file = mpc_safetensors_read(f.path, &d.sink);
    fuzz_require(file || fuzz_said_error(&d), "a file that isn't read is explained");
    if (file) {
        touch(file);
        (void)mpc_safetensors_metadata(file, "cursor");
    }
    mpc_safetensors_destroy(file);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
    return 0;
}
