// The primitives of codegen/cuda/device.h for the stand-in: the same names with the same meaning, on a host compiler. Threads that wait
// for each other do it through the machine (machine.h). Stricter than a GPU: misaligned accesses, addresses outside shared memory and lanes
// that do not come are errors; asynchronous copies are delivered when they are waited for and hold NaN until then.
#include "machine.h"

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
#define MPC_FN static inline
#define MPC_BIG static __attribute__((noinline, unused))
#define MPC_UNROLL
#define MPC_ROLLED
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define MPC_SIM_INLINE static inline __attribute__((always_inline))

template <int P, int N, int F> struct mpc_args {
    int64_t units;
    uint32_t first_block, blocks;
    void *p[P];
    int64_t n[N];
    float f[F];
};

static cudasim_machine *mpc_machine;
extern "C" __attribute__((visibility("default"))) int cudasim_bind(cudasim_machine *machine) {
    mpc_machine = machine;
    return CUDASIM_ABI;
}
template <int P, int N, int F> void mpc_sim_each_pointer(void *block, cudasim_translate *translate, void *user) {
    mpc_args<P, N, F> *args = (mpc_args<P, N, F> *)block;
    for (int i = 0; i < P; i++) {
        translate(user, &args->p[i], i);
    }
}
#define MPC_SIM_DECLARE(name, threads, segmented, count, s0, s1, s2, P, N, F) \
    static void name##_run(void *const *params); \
    extern "C" __attribute__((visibility("default"))) const cudasim_kernel cudasim_kernel_##name; \
    extern "C" const cudasim_kernel cudasim_kernel_##name = { \
        threads, count, {s0, s1, s2}, sizeof(mpc_args<P, N, F>), segmented, name##_run, mpc_sim_each_pointer<P, N, F>};
#define MPC_KERNEL(name, threads, P, N, F) \
    static void name(const mpc_args<P, N, F> &args, const uint8_t *when); \
    MPC_SIM_DECLARE(name, threads, 0, 2, sizeof(mpc_args<P, N, F>), 8, 0, P, N, F) \
    static void name##_run(void *const *params) { name(*(const mpc_args<P, N, F> *)params[0], *(const uint8_t *const *)params[1]); } \
    static void name(const mpc_args<P, N, F> &args, const uint8_t *when)
#define MPC_SEGMENTED(name, threads, P, N, F) \
    static void name(const mpc_args<P, N, F> *table, int32_t count, const uint8_t *when); \
    MPC_SIM_DECLARE(name, threads, 1, 3, 8, 4, 8, P, N, F) \
    static void name##_run(void *const *params) { \
        name(*(const mpc_args<P, N, F> *const *)params[0], *(const int32_t *)params[1], *(const uint8_t *const *)params[2]); \
    } \
    static void name(const mpc_args<P, N, F> *table, int32_t count, const uint8_t *when)

// --- who am I ---
MPC_FN int mpc_thread() { return mpc_machine->thread; }
MPC_FN int mpc_threads() { return mpc_machine->threads; }
MPC_FN int mpc_block() { return mpc_machine->block; }

// --- together ---
MPC_FN void mpc_barrier() { mpc_machine->barrier(); }
MPC_FN void mpc_warp_barrier(uint32_t members) {
    cudasim_exchange e;
    mpc_machine->together(CUDASIM_SYNC_WARP, members, &e);
}
MPC_FN uint32_t mpc_shuffle_xor(uint32_t members, uint32_t v, int mask) {
    cudasim_exchange e;
    e.in[0] = v;
    e.in[1] = (uint32_t)mask;
    mpc_machine->together(CUDASIM_SHUFFLE_XOR, members, &e);
    return e.out[0];
}
MPC_FN uint32_t mpc_shuffle(uint32_t members, uint32_t v, int lane) {
    cudasim_exchange e;
    e.in[0] = v;
    e.in[1] = (uint32_t)lane;
    mpc_machine->together(CUDASIM_SHUFFLE, members, &e);
    return e.out[0];
}

// --- memory ---
MPC_FN char *mpc_shared() { return mpc_machine->shared; }
struct mpc_16 {
    uint32_t w[4];
};
struct mpc_8 {
    uint32_t w[2];
};
template <int Size> MPC_SIM_INLINE void mpc_sim_aligned(const void *p) {
    if (__builtin_expect(((uintptr_t)p & (Size - 1)) != 0, 0)) mpc_machine->fail("misaligned address");
}
template <class T> MPC_SIM_INLINE T mpc_sim_load(const void *p) {
    T v;
    mpc_sim_aligned<(int)sizeof(T)>(p);
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
template <class T> MPC_SIM_INLINE void mpc_sim_store(void *p, T v) {
    mpc_sim_aligned<(int)sizeof(T)>(p);
    __builtin_memcpy(p, &v, sizeof v);
}
MPC_FN mpc_16 mpc_load16(const void *p) { return mpc_sim_load<mpc_16>(p); }
MPC_FN mpc_8 mpc_load8(const void *p) { return mpc_sim_load<mpc_8>(p); }
MPC_FN uint32_t mpc_load4(const void *p) { return mpc_sim_load<uint32_t>(p); }
MPC_FN uint16_t mpc_load2(const void *p) { return mpc_sim_load<uint16_t>(p); }
MPC_FN uint8_t mpc_load1(const void *p) { return *(const uint8_t *)p; }
MPC_FN void mpc_store16(void *p, mpc_16 v) { mpc_sim_store(p, v); }
MPC_FN void mpc_store8(void *p, mpc_8 v) { mpc_sim_store(p, v); }
MPC_FN void mpc_store4(void *p, uint32_t v) { mpc_sim_store(p, v); }
MPC_FN void mpc_store2(void *p, uint16_t v) { mpc_sim_store(p, v); }
MPC_FN void mpc_store1(void *p, uint8_t v) { *(uint8_t *)p = v; }

MPC_FN uint32_t mpc_shared_address(const void *shared) { return (uint32_t)((const char *)shared - mpc_machine->shared); }
MPC_FN void mpc_copy_async16(void *shared, const void *global, int bytes) { mpc_machine->copy_async(shared, global, 16, bytes); }
MPC_FN void mpc_copy_async4(void *shared, const void *global, int bytes) { mpc_machine->copy_async(shared, global, 4, bytes); }
MPC_FN void mpc_copy_async_commit() { mpc_machine->copy_commit(); }
template <int Pending> MPC_FN void mpc_copy_async_wait() { mpc_machine->copy_wait(Pending); }

// --- numbers ---
MPC_FN uint32_t mpc_bits(float x) {
    uint32_t b;
    __builtin_memcpy(&b, &x, 4);
    return b;
}
MPC_FN float mpc_float(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}
MPC_FN uint64_t mpc_bits64(double x) {
    uint64_t b;
    __builtin_memcpy(&b, &x, 8);
    return b;
}
MPC_FN double mpc_double(uint64_t bits) {
    double x;
    __builtin_memcpy(&x, &bits, 8);
    return x;
}
MPC_FN float mpc_fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MPC_FN float mpc_sqrt1(float a) { return __builtin_sqrtf(a); }
MPC_FN double mpc_sqrt_double(double a) { return __builtin_sqrt(a); }
MPC_FN float mpc_div1(float a, float b) { return a / b; }
MPC_FN uint64_t mpc_wide_mul(uint32_t a, uint32_t b) { return (uint64_t)a * b; }
// A GPU's conversions give the canonical NaN 7fff, whatever NaN went in; the other way they keep it.
MPC_FN uint16_t mpc_f16_bits(float x) {
    const uint32_t bits = mpc_bits(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return 0x7fff;
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // 65520 and above
    if (a < 0x38800000u) // subnormal: the sum rounds to multiples of 2^-24
        return (uint16_t)(sign | (mpc_bits(mpc_float(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13));
}
MPC_FN float mpc_f16_value(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    if (a >= 0x7c00u) return mpc_float(sign | 0x7f800000u | (a & 0x3ffu) << 13);
    if (a < 0x400u) return mpc_float(sign | mpc_bits((float)a * 5.9604644775390625e-8f));
    return mpc_float(sign | (a << 13) + 0x38000000u);
}
MPC_FN uint16_t mpc_bf16_bits(float x) {
    const uint32_t bits = mpc_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
MPC_FN float mpc_bf16_value(uint16_t h) { return mpc_float((uint32_t)h << 16); }
MPC_FN uint32_t mpc_f16_pair(float lo, float hi) { return mpc_f16_bits(lo) | (uint32_t)mpc_f16_bits(hi) << 16; }
MPC_FN uint32_t mpc_bf16_pair(float lo, float hi) { return mpc_bf16_bits(lo) | (uint32_t)mpc_bf16_bits(hi) << 16; }

// --- tensor cores ---
MPC_SIM_INLINE void mpc_sim_ldmatrix(cudasim_collective what, uint32_t r[4], const void *shared_row) {
    cudasim_exchange e;
    e.address = shared_row;
    mpc_machine->together(what, 0xffffffffu, &e);
    for (int i = 0; i < 4; i++) r[i] = e.out[i];
}
MPC_FN void mpc_ldmatrix4(uint32_t r[4], const void *shared_row) { mpc_sim_ldmatrix(CUDASIM_LDMATRIX, r, shared_row); }
MPC_FN void mpc_ldmatrix4_transposed(uint32_t r[4], const void *shared_row) {
    mpc_sim_ldmatrix(CUDASIM_LDMATRIX_TRANSPOSED, r, shared_row);
}
MPC_SIM_INLINE void mpc_sim_mma(cudasim_collective what, float d[4], const uint32_t a[4], const uint32_t b[2]) {
    cudasim_exchange e;
    for (int i = 0; i < 4; i++) e.in[i] = mpc_bits(d[i]), e.in[4 + i] = a[i];
    e.in[8] = b[0], e.in[9] = b[1];
    mpc_machine->together(what, 0xffffffffu, &e);
    for (int i = 0; i < 4; i++) d[i] = mpc_float(e.out[i]);
}
MPC_FN void mpc_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2]) { mpc_sim_mma(CUDASIM_MMA_F16, d, a, b); }
MPC_FN void mpc_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) { mpc_sim_mma(CUDASIM_MMA_BF16, d, a, b); }
MPC_FN void mpc_mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2]) { mpc_sim_mma(CUDASIM_MMA_TF32, d, a, b); }
