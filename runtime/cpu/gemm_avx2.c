/* Register tiles for AVX2 with FMA: six rows of two eight-float vectors. Compiled for that instruction set whatever the
 * build's own is, so nothing here may be called before the processor has been asked. */
#include "runtime/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#define ISA_NAME "avx2"
#define LANES 8
#define ROW_COUNT 6
#define MULTIPLY_ADD(a, b, c) ((vec)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define F16_LOAD(p) ((vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define F16_STORE(v, p) \
    _mm_storeu_si128((__m128i *)(void *)(p), _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT))
#define U16_LOAD(p) ((vec_bits)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
/* saturation changes nothing: the values have 16 bits */
#define U16_STORE(v, p) \
    _mm_storeu_si128((__m128i *)(void *)(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64( \
                                                 _mm256_packus_epi32((__m256i)(v), (__m256i)(v)), 0x08)))
#include "runtime/cpu/gemm_isa.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const mpc_gemm_isa *mpc_gemm_isa_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &isa_table : NULL;
}
#else
const mpc_gemm_isa *mpc_gemm_isa_avx2(void) { return NULL; }
#endif
