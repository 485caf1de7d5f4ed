/* The primitives of CUDA kernels: the only text in which PTX and the compiler's built-in names appear. Everything above
 * (prelude.h, generated kernels) is plain C++ on these names, so a host compiler can run the same text with another file in
 * this one's place. No vendor header: NVRTC has none on its path. Needs sm_80.
 *
 * A kernel is declared by MPC_KERNEL or MPC_SEGMENTED, nothing else; functions by MPC_FN. Shared memory is dynamic and one:
 * mpc_shared(). All threads of a block reach every mpc_barrier(); all lanes named in `members` reach a shuffle. */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef uint64_t uintptr_t;
#define MPC_FN static __device__ __forceinline__
#define MPC_BIG static __device__ __noinline__
#define MPC_UNROLL _Pragma("unroll")
#define MPC_ROLLED _Pragma("unroll 1")
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll

/* Arguments of one instance (ir/program.h, mpc_kernel). Entries of `p` may be the same memory. */
template <int P, int N, int F> struct mpc_args {
    int64_t units;
    uint32_t first_block, blocks;
    void *p[P];
    int64_t n[N];
    float f[F];
};
/* Bodies see `args`, `when`; of segmented kernels `table`, `count`, `when`. */
#define MPC_KERNEL(name, threads, P, N, F) \
    extern "C" __global__ void __launch_bounds__(threads) \
        name(const __grid_constant__ mpc_args<P, N, F> args, const uint8_t *when)
#define MPC_SEGMENTED(name, threads, P, N, F) \
    extern "C" __global__ void __launch_bounds__(threads) \
        name(const mpc_args<P, N, F> *__restrict__ table, int32_t count, const uint8_t *when)

/* --- who am I --- */
MPC_FN int mpc_thread() { return (int)threadIdx.x; }
MPC_FN int mpc_threads() { return (int)blockDim.x; }
MPC_FN int mpc_block() { return (int)blockIdx.x; } /* of the grid */

/* --- together: members has a bit for each lane of the warp that takes part --- */
MPC_FN void mpc_barrier() { __syncthreads(); }
MPC_FN void mpc_warp_barrier(uint32_t members) { __syncwarp(members); }
MPC_FN uint32_t mpc_shuffle_xor(uint32_t members, uint32_t v, int mask) { return __shfl_xor_sync(members, v, mask); }
MPC_FN uint32_t mpc_shuffle(uint32_t members, uint32_t v, int lane) { return __shfl_sync(members, v, lane); }

/* --- memory: the block's dynamic shared memory, 16-byte aligned; accesses of 16, 8, 4, 2, 1 aligned bytes --- */
MPC_FN char *mpc_shared() {
    extern __shared__ __align__(128) char shared_memory[];
    return shared_memory;
}
struct mpc_16 {
    uint32_t w[4];
};
struct mpc_8 {
    uint32_t w[2];
};
MPC_FN mpc_16 mpc_load16(const void *p) {
    const uint4 v = *(const uint4 *)p;
    return mpc_16{{v.x, v.y, v.z, v.w}};
}
MPC_FN mpc_8 mpc_load8(const void *p) {
    const uint2 v = *(const uint2 *)p;
    return mpc_8{{v.x, v.y}};
}
MPC_FN uint32_t mpc_load4(const void *p) { return *(const uint32_t *)p; }
MPC_FN uint16_t mpc_load2(const void *p) { return *(const uint16_t *)p; }
MPC_FN uint8_t mpc_load1(const void *p) { return *(const uint8_t *)p; }
MPC_FN void mpc_store16(void *p, mpc_16 v) { *(uint4 *)p = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]); }
MPC_FN void mpc_store8(void *p, mpc_8 v) { *(uint2 *)p = make_uint2(v.w[0], v.w[1]); }
MPC_FN void mpc_store4(void *p, uint32_t v) { *(uint32_t *)p = v; }
MPC_FN void mpc_store2(void *p, uint16_t v) { *(uint16_t *)p = v; }
MPC_FN void mpc_store1(void *p, uint8_t v) { *(uint8_t *)p = v; }

MPC_FN uint32_t mpc_shared_address(const void *shared) { return (uint32_t)__cvta_generic_to_shared(shared); }
/* Global to shared without registers: 16 bytes, both addresses aligned; only `bytes` (0 to 16) are read, the rest is zeros. */
MPC_FN void mpc_copy_async16(void *shared, const void *global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(mpc_shared_address(shared)), "l"(global), "r"(bytes));
}
/* The same with 4 aligned bytes. */
MPC_FN void mpc_copy_async4(void *shared, const void *global, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(mpc_shared_address(shared)), "l"(global), "r"(bytes));
}
MPC_FN void mpc_copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
/* Waits until at most `Pending` committed groups of this thread are still under way; a barrier makes them visible to others. */
template <int Pending> MPC_FN void mpc_copy_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending)); }

/* --- numbers --- */
MPC_FN uint32_t mpc_bits(float x) { return __float_as_uint(x); }
MPC_FN float mpc_float(uint32_t bits) { return __uint_as_float(bits); }
MPC_FN uint64_t mpc_bits64(double x) { return (uint64_t)__double_as_longlong(x); }
MPC_FN double mpc_double(uint64_t bits) { return __longlong_as_double((int64_t)bits); }
MPC_FN float mpc_fma1(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MPC_FN float mpc_sqrt1(float a) { return __fsqrt_rn(a); }
MPC_FN double mpc_sqrt_double(double a) { return __dsqrt_rn(a); }
MPC_FN float mpc_div1(float a, float b) { return __fdiv_rn(a, b); }
MPC_FN uint64_t mpc_wide_mul(uint32_t a, uint32_t b) { return (uint64_t)a * b; }
/* To nearest even, subnormals kept; NaN gives a NaN. */
MPC_FN uint16_t mpc_f16_bits(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
MPC_FN float mpc_f16_value(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
MPC_FN uint16_t mpc_bf16_bits(float x) {
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
MPC_FN float mpc_bf16_value(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
/* Two at once: lo in the low half. */
MPC_FN uint32_t mpc_f16_pair(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
MPC_FN uint32_t mpc_bf16_pair(float lo, float hi) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

/* --- tensor cores: fragments as the PTX manual draws them; all 32 lanes take part --- */
/* Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8 (16 aligned bytes). */
MPC_FN void mpc_ldmatrix4(uint32_t r[4], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mpc_shared_address(shared_row)));
}
MPC_FN void mpc_ldmatrix4_transposed(uint32_t r[4], const void *shared_row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(mpc_shared_address(shared_row)));
}
/* d += a b: a 16x16 (row), b 16x8 (col), d 16x8 in f32. */
#define MPC_MMA_16(name, type) \
    MPC_FN void name(float d[4], const uint32_t a[4], const uint32_t b[2]) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, " \
                     "{%8, %9}, {%0, %1, %2, %3};\n" \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }
MPC_MMA_16(mpc_mma_f16, "f16")
MPC_MMA_16(mpc_mma_bf16, "bf16")
/* d += a b: a 16x8 (row), b 8x8 (col) of f32 words whose low 13 bits are ignored: round them first (mpc_tf32_bits). */
MPC_FN void mpc_mma_tf32(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
