/* Prelude of CUDA kernels. It mirrors prelude_c.h name by name: where a C kernel has one vector of 16 lanes, a CUDA
 * thread has a *pack* of W numbers, and every function that isn't told by its arguments takes W as a template argument:
 * mpc_load_bf16<W>(address, m), mpc_splat<W>(x). A pack is loaded and stored by 16-byte accesses when W numbers make them and
 * the address is aligned; `m` is the number of valid numbers (W or more: all). */
#include "mpc_device.h"

/* Entry of bodies: p, n, f, units, and this block's number among the `blocks` of its instance. */
#define MPC_ENTER \
    if (when != nullptr && !mpc_load1(when)) return; \
    const auto &a_ = args; \
    MPC_NAMES
#define MPC_ENTER_SEGMENT \
    if (when != nullptr && !mpc_load1(when)) return; \
    const auto &a_ = table[mpc_find_segment(table, count)]; \
    MPC_NAMES
#define MPC_NAMES \
    void *const *const p = a_.p; \
    const int64_t *const n = a_.n; \
    const float *const f = a_.f; \
    const int64_t units = a_.units; \
    const int block = mpc_block() - (int)a_.first_block, blocks = (int)a_.blocks; \
    (void)p, (void)n, (void)f, (void)units, (void)block, (void)blocks;
template <class T> MPC_FN int mpc_find_segment(const T *table, int32_t count) {
    int lo = 0, hi = count; /* table[lo].first_block <= block < table[hi].first_block */
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if ((int)table[mid].first_block <= mpc_block()) lo = mid;
        else hi = mid;
    }
    return lo;
}
