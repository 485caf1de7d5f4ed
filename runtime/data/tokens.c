/* Token files: nothing but token numbers, two or four bytes each, little endian. Such a file may be larger than memory:
 * opening it looks at its size only. */
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"

static mpc_status load(mpc_dataset *d, const char *path, int64_t length, int bytes) {
    mpc_array *a = mpc_dataset_add_array(d, "tokens", path, path);
    if (!a) return MPC_NO_MEMORY;
    int fd = mpc_data_open_regular(path, &d->sink, &a->file_size);
    if (fd < 0) return MPC_FAILED;
    close(fd);
    if (a->file_size % (uint64_t)bytes != 0)
        return mpc_error(&d->sink, "E219", "%s has %llu bytes, which are no whole tokens of %d bytes", path,
                         (unsigned long long)a->file_size, bytes);
    a->element = (mpc_element){.kind = MPC_ELEMENT_UINT, .size = (uint8_t)bytes};
    a->rank = 1;
    a->bytes = a->file_size;
    a->dims[0] = (int64_t)(a->bytes / (uint64_t)bytes);
    if (a->dims[0] < length + 1)
        return mpc_data_error(d, "E216", 0, 0, NULL, "a shorter `length`, or more tokens",
                              "%lld tokens, but one window and the token after it take %lld", (long long)a->dims[0],
                              (long long)length + 1);
    d->rows = (a->dims[0] - 1) / length;
    if (d->rows < UINT32_MAX) return MPC_OK;
    return mpc_data_error(d, "E219", 0, 0, NULL, "a larger `length`", "more than %u windows", UINT32_MAX - 1);
}

mpc_dataset *mpc_dataset_open_tokens(const char *path, int64_t length, int bytes, const mpc_sink *sink) {
    mpc_dataset *d = mpc_dataset_create(path, sink);
    mpc_status status = MPC_NO_MEMORY;
    if (d) {
        d->is_sequence = true;
        d->tokens.length = length > 0 ? length : 1;
        status = load(d, path, d->tokens.length, bytes);
    }
    return mpc_dataset_opened(d, status, path, sink);
}
