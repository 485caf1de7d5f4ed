/* Register tiles for AVX-512: eight rows of two sixteen-float vectors. Compiled for that instruction set whatever the
 * build's own is, so nothing here may be called before the processor has been asked. */
#include "runtime/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

/* gcc's own intrinsics are macros without optimisation, and those convert signs */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
#endif

#define ISA_NAME "avx512"
#define LANES 16
#define ROW_COUNT 8
#define MULTIPLY_ADD(a, b, c) ((vec)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define F16_LOAD(p) ((vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p))))
#define F16_STORE(v, p) \
    _mm256_storeu_si256((__m256i *)(void *)(p), \
                        _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define U16X8(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define HALF_BF16(p, to) \
    _mm256_storeu_ps((to), _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(U16X8(p)), 16)))
#define HALF_F16(p, to) _mm256_storeu_ps((to), _mm256_cvtph_ps(U16X8(p)))
#define U16_LOAD(p) ((vec_bits)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))))
#define U16_STORE(v, p) _mm256_storeu_si256((__m256i *)(void *)(p), _mm512_cvtepi32_epi16((__m512i)(v)))
#include "runtime/cpu/gemm_isa.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const mpc_gemm_isa *mpc_gemm_isa_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")
               ? &isa_table
               : NULL;
}
#else
const mpc_gemm_isa *mpc_gemm_isa_avx512(void) { return NULL; }
#endif
