/* The program with one fault: a checkpoint that was loaded has another first byte in its last state. The linker puts
 * it before the real function (--wrap). */
#include "runtime/checkpoint.h"
#include "runtime/device.h"

mpc_status __real_mpc_checkpoint_load(const char *folder, mpc_store *store, mpc_load_mode mode, mpc_cursor *cursor,
                                      const mpc_sink *sink);
mpc_status __wrap_mpc_checkpoint_load(const char *folder, mpc_store *store, mpc_load_mode mode, mpc_cursor *cursor,
                                      const mpc_sink *sink);

mpc_status __wrap_mpc_checkpoint_load(const char *folder, mpc_store *store, mpc_load_mode mode, mpc_cursor *cursor,
                                      const mpc_sink *sink) {
    mpc_status status = __real_mpc_checkpoint_load(folder, store, mode, cursor, sink);
    mpc_store_entry *last = mpc_store_at(store, mpc_store_count(store) - 1);
    *(unsigned char *)last->data ^= 1;
    return status;
}
