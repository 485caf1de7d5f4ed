/* Prelude of generated kernels: 16-lane vectors, number formats in memory, and the functions that kernel expressions of
 * ir/ops.def name. It is text for the compiler of kernels, put into the library at build time. A vector always has 16
 * lanes, whatever the machine, so reductions have one tree everywhere; `m` is the number of valid lanes (16 or more:
 * all). A float format is widened when loaded; values in registers are already rounded to their format, so a store
 * never rounds twice. */
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define MPC_X512 1
#endif
#if defined(__x86_64__) && (defined(MPC_X512) || defined(__FMA__) || defined(__F16C__))
#include <immintrin.h>
#endif

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef int64_t vl __attribute__((vector_size(128)));
typedef uint64_t vul __attribute__((vector_size(128)));
typedef double vd __attribute__((vector_size(128)));
typedef uint16_t vh __attribute__((vector_size(32)));
typedef uint8_t vb __attribute__((vector_size(16)));
#define MPC_FN static inline __attribute__((always_inline, unused))
#define MPC_BIG static __attribute__((noinline, unused))

/* --- lanes --- */
MPC_FN vf mpc_splat(float x) { return (vf){0} + x; }
MPC_FN vi mpc_splat_i(int32_t x) { return (vi){0} + x; }
MPC_FN vl mpc_splat_l(int64_t x) { return (vl){0} + x; }
MPC_FN vi mpc_lanes(void) { return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
MPC_FN vi mpc_valid(int64_t m) { return mpc_lanes() < (int32_t)(m > 16 ? 16 : m); }
MPC_FN vi mpc_select_i(vi c, vi a, vi b) { return (c & a) | (~c & b); }
MPC_FN vf mpc_select_f(vi c, vf a, vf b) {
    return (vf)mpc_select_i(c, (vi)a, (vi)b);
} /* compilers see the mask in it */
MPC_FN vl mpc_select_l(vi c, vl a, vl b) {
    vl w = __builtin_convertvector(c, vl);
    return (w & a) | (~w & b);
}
#define mpc_select(c, a, b) _Generic((a), vf : mpc_select_f, vi : mpc_select_i, vl : mpc_select_l)((c), (a), (b))
MPC_FN vi mpc_mask_l(vl c) { return __builtin_convertvector(c, vi); }

/* --- choices by a comparison. Where there are mask registers, compilers make two operations of a select; these are one
 * --- */
#ifdef MPC_X512
#define MPC_CHOOSE(name, predicate, operator) \
    MPC_FN vf mpc_choose_##name(vf a, vf b, vf yes, vf no) { \
        return (vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, predicate), (__m512)no, (__m512)yes); \
    }
#else
#define MPC_CHOOSE(name, predicate, operator) \
    MPC_FN vf mpc_choose_##name(vf a, vf b, vf yes, vf no) { return mpc_select_f(a operator b, yes, no); }
#endif
MPC_CHOOSE(lt, _CMP_LT_OQ, <)
MPC_CHOOSE(ne, _CMP_NEQ_UQ, !=)
/* x > top ? top : x; NaN stays */
MPC_FN vf mpc_at_most(vf x, float top) {
#ifdef MPC_X512
    return (vf)_mm512_min_ps((__m512)mpc_splat(top), (__m512)x);
#else
    return mpc_select_f(x > top, mpc_splat(top), x);
#endif
}

/* --- integers of other widths; some compilers take 16 and 8-bit vectors apart by element --- */
MPC_FN vu mpc_from_u16(vh h) {
#ifdef MPC_X512
    return (vu)_mm512_cvtepu16_epi32((__m256i)h);
#else
    return __builtin_convertvector(h, vu);
#endif
}
MPC_FN vu mpc_from_u8(vb b) {
#ifdef MPC_X512
    return (vu)_mm512_cvtepu8_epi32((__m128i)b);
#else
    return __builtin_convertvector(b, vu);
#endif
}
MPC_FN vh mpc_to_u16(vu v) {
#ifdef MPC_X512
    return (vh)_mm512_cvtepi32_epi16((__m512i)v);
#else
    return __builtin_convertvector(v, vh);
#endif
}
MPC_FN vb mpc_to_u8(vu v) {
#ifdef MPC_X512
    return (vb)_mm512_cvtepi32_epi8((__m512i)v);
#else
    return __builtin_convertvector(v, vb);
#endif
}

/* --- fused multiply-add, where one is wanted: a * b + c, rounded once --- */
MPC_FN vf mpc_fma(vf a, vf b, vf c) {
#ifdef MPC_X512
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    union {
        vf v;
        __m256 h[2];
    } x = {a}, y = {b}, z = {c};
    z.h[0] = _mm256_fmadd_ps(x.h[0], y.h[0], z.h[0]);
    z.h[1] = _mm256_fmadd_ps(x.h[1], y.h[1], z.h[1]);
    return z.v;
#else
    for (int i = 0; i < 16; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#endif
}
MPC_FN vf mpc_sqrt(vf a) {
#ifdef MPC_X512
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif defined(__x86_64__)
    union {
        vf v;
        float __attribute__((vector_size(16))) h[4];
    } x = {a};
    for (int i = 0; i < 4; i++) x.h[i] = __builtin_ia32_sqrtps(x.h[i]);
    return x.v;
#else
    for (int i = 0; i < 16; i++) a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

/* --- comparisons that see NaN --- */
MPC_FN vf mpc_abs_f(vf a) { return (vf)((vi)a & 0x7fffffff); }
MPC_FN vi mpc_abs_i(vi a) { return mpc_select_i(a < 0, -a, a); }
MPC_FN vl mpc_abs_l(vl a) {
    vl n = a < 0;
    return (n & -a) | (~n & a);
}
#define mpc_abs(a) _Generic((a), vf : mpc_abs_f, vi : mpc_abs_i, vl : mpc_abs_l)(a)
#ifdef MPC_X512 /* the instructions give b when a or b is NaN, and when both are zeros */
MPC_FN vf mpc_max_f(vf a, vf b) { return mpc_choose_ne(a, a, a, (vf)_mm512_max_ps((__m512)a, (__m512)b)); }
MPC_FN vf mpc_min_f(vf a, vf b) { return mpc_choose_ne(a, a, a, (vf)_mm512_min_ps((__m512)a, (__m512)b)); }
#else
MPC_FN vf mpc_max_f(vf a, vf b) { return mpc_select_f((a > b) | (a != a), a, b); }
MPC_FN vf mpc_min_f(vf a, vf b) { return mpc_select_f((a < b) | (a != a), a, b); }
#endif
MPC_FN vi mpc_max_i(vi a, vi b) { return mpc_select_i(a > b, a, b); }
MPC_FN vi mpc_min_i(vi a, vi b) { return mpc_select_i(a < b, a, b); }
MPC_FN vl mpc_max_l(vl a, vl b) { return mpc_select_l(mpc_mask_l(a > b), a, b); }
MPC_FN vl mpc_min_l(vl a, vl b) { return mpc_select_l(mpc_mask_l(a < b), a, b); }
#define mpc_max(a, b) _Generic((a), vf : mpc_max_f, vi : mpc_max_i, vl : mpc_max_l)((a), (b))
#define mpc_min(a, b) _Generic((a), vf : mpc_min_f, vi : mpc_min_i, vl : mpc_min_l)((a), (b))
MPC_FN vf mpc_relu_f(vf a) { return mpc_max_f(a, mpc_splat(0.0f)); }
MPC_FN vi mpc_relu_i(vi a) { return a & (a > 0); }
MPC_FN vl mpc_relu_l(vl a) { return a & (a > 0); }
#define mpc_relu(a) _Generic((a), vf : mpc_relu_f, vi : mpc_relu_i, vl : mpc_relu_l)(a)
/* -1, 0, 1; NaN and zeros are themselves */
MPC_FN vf mpc_sign_f(vf a) {
    vf one = (vf)(((vi)a & INT32_MIN) | 0x3f800000);
    return mpc_select_f((a < 0.0f) | (a > 0.0f), one, a);
}
MPC_FN vi mpc_sign_i(vi a) { return (a < 0) - (a > 0); }
MPC_FN vl mpc_sign_l(vl a) { return (a < 0) - (a > 0); }
#define mpc_sign(a) _Generic((a), vf : mpc_sign_f, vi : mpc_sign_i, vl : mpc_sign_l)(a)
MPC_FN vi mpc_is_finite_f(vf a) { return ((vi)a & 0x7f800000) != 0x7f800000; }
MPC_FN vi mpc_is_finite_i(vi a) { return a | -1; }
MPC_FN vi mpc_is_finite_l(vl a) { return mpc_mask_l(a | -1); }
#define mpc_is_finite(a) _Generic((a), vf : mpc_is_finite_f, vi : mpc_is_finite_i, vl : mpc_is_finite_l)(a)
/* Integer division: 0 by 0 in unused lanes, and any division by 0, gives 0. */
MPC_FN vi mpc_div_i(vi a, vi b) {
    vi z = b == 0;
    return ~z & (a / (b | (z & 1)));
}
MPC_FN vl mpc_div_l(vl a, vl b) {
    vl z = b == 0;
    return ~z & (a / (b | (z & 1)));
}
#define mpc_div(a, b) _Generic((a), vi : mpc_div_i, vl : mpc_div_l)((a), (b))

/* --- conversions between classes of lanes; float to integer truncates and saturates, NaN gives 0 --- */
MPC_FN vf mpc_f_from_i(vi a) { return __builtin_convertvector(a, vf); }
MPC_FN vf mpc_f_from_l(vl a) { return __builtin_convertvector(a, vf); }
MPC_FN vf mpc_f_from_b(vi a) { return (vf)(a & 0x3f800000); }
MPC_FN vi mpc_i_from_f(vf a) {
    vi hi = a >= 2147483648.0f, lo = a < -2147483648.0f, bad = a != a;
    vi r = __builtin_convertvector(mpc_select_f(hi | lo | bad, mpc_splat(0.0f), a), vi);
    return mpc_select_i(hi, mpc_splat_i(INT32_MAX), mpc_select_i(lo, mpc_splat_i(INT32_MIN), r));
}
MPC_FN vi mpc_i_from_l(vl a) {
    a = mpc_min_l(mpc_max_l(a, mpc_splat_l(INT32_MIN)), mpc_splat_l(INT32_MAX));
    return __builtin_convertvector(a, vi);
}
MPC_FN vi mpc_i_from_b(vi a) { return a & 1; }
MPC_FN vl mpc_l_from_f(vf a) {
    vi hi = a >= 9223372036854775808.0f, lo = a < -9223372036854775808.0f, bad = a != a;
    vl r = __builtin_convertvector(mpc_select_f(hi | lo | bad, mpc_splat(0.0f), a), vl);
    return mpc_select_l(hi, mpc_splat_l(INT64_MAX), mpc_select_l(lo, mpc_splat_l(INT64_MIN), r));
}
MPC_FN vl mpc_l_from_i(vi a) { return __builtin_convertvector(a, vl); }
MPC_FN vl mpc_l_from_b(vi a) { return __builtin_convertvector(a & 1, vl); }
MPC_FN vi mpc_b_from_f(vf a) { return a != 0.0f; }
MPC_FN vi mpc_b_from_i(vi a) { return a != 0; }
MPC_FN vi mpc_b_from_l(vl a) { return mpc_mask_l(a != 0); }
MPC_FN vi mpc_round_u8(vi a) { return mpc_min_i(mpc_max_i(a, mpc_splat_i(0)), mpc_splat_i(255)); }

/* --- rounding in registers to a narrower float format, to nearest even --- */
MPC_FN vf mpc_round_bf16(vf a) {
    vu u = (vu)a;
    vu r = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
    vu q = (u | 0x00400000u) & 0xffff0000u;
    return mpc_choose_ne(a, a, (vf)q, (vf)r);
}
MPC_FN vf mpc_round_tf32(vf a) {
    vu u = (vu)a;
    vu r = (u + 0xfff + ((u >> 13) & 1)) & ~0x1fffu;
    return mpc_select_f(((vi)a & 0x7f800000) == 0x7f800000, a, (vf)r);
}
MPC_FN vf mpc_round_fraction(vf a, int drop, float magic, float tiny) {
    vu u = (vu)a;
    vf normal = (vf)((u + ((1u << (drop - 1)) - 1) + ((u >> drop) & 1)) & ~((1u << drop) - 1));
    vf mag = (mpc_abs_f(a) + magic) - magic;
    vf small = (vf)((vi)mag | ((vi)a & INT32_MIN));
    return mpc_select_f(mpc_abs_f(a) < tiny, small, normal);
}
MPC_FN vf mpc_round_f16(vf a) {
#ifdef MPC_X512
    return (vf)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)a, 0));
#else
    vf r = mpc_round_fraction(a, 13, 0.75f, 6.103515625e-5f);
    vf inf = (vf)(((vi)a & INT32_MIN) | 0x7f800000);
    r = mpc_select_f(mpc_abs_f(r) > 65504.0f, inf, r);
    return mpc_select_f(a != a, a, r);
#endif
}
/* Away from zero where 1 - u doesn't exceed the share that is cut off; u: a multiple of 2^-24 in [0, 1). Infinity and NaN
 * stay. */
MPC_FN vf mpc_stochastic_cut(vf a, vf u, int drop) {
    vu more = (vu)__builtin_convertvector(u * (float)(1 << drop), vi);
    vu r = ((vu)a + more) & ~((1u << drop) - 1);
    return mpc_select_f(((vi)a & 0x7f800000) == 0x7f800000, a, (vf)r);
}
MPC_FN vf mpc_stochastic_bf16(vf a, vf u) { return mpc_stochastic_cut(a, u, 16); }
MPC_FN vf mpc_stochastic_f16(vf a, vf u) {
    vf size = mpc_abs_f(a) * 16777216.0f; /* below f16's normal numbers: in units of its smallest one */
    vf low = __builtin_convertvector(__builtin_convertvector(mpc_select_f(size < 1024.0f, size, mpc_splat(0.0f)), vi), vf);
    vf units = low + mpc_select_f(1.0f - u <= size - low, mpc_splat(1.0f), mpc_splat(0.0f));
    vf small = (vf)((vi)(units * 5.9604644775390625e-8f) | ((vi)a & INT32_MIN));
    return mpc_select_f(size < 1024.0f, small, mpc_stochastic_cut(a, u, 13));
}
MPC_FN vf mpc_saturate(vf a, vf r, float max) {
    vf top = (vf)(((vi)a & INT32_MIN) | (vi)mpc_splat(max));
    return mpc_select_f(a != a, a, mpc_select_f(mpc_abs_f(r) > max, top, r));
}
MPC_FN vf mpc_round_f8e4m3(vf a) { return mpc_saturate(a, mpc_round_fraction(a, 20, 24576.0f, 0.015625f), 448.0f); }
MPC_FN vf mpc_round_f8e5m2(vf a) {
    return mpc_saturate(a, mpc_round_fraction(a, 21, 192.0f, 6.103515625e-5f), 57344.0f);
}

/* --- memory: load widens, store writes what is already rounded --- */
#ifdef MPC_X512
#define MPC_MASK(m) ((__mmask16)((m) >= 16 ? 0xffffu : (1u << (unsigned)(m)) - 1u))
MPC_FN vi mpc_load_32(const void *p, int64_t m) { return (vi)_mm512_maskz_loadu_epi32(MPC_MASK(m), p); }
MPC_FN void mpc_store_32(void *p, vi v, int64_t m) { _mm512_mask_storeu_epi32(p, MPC_MASK(m), (__m512i)v); }
MPC_FN vh mpc_load_16(const void *p, int64_t m) { return (vh)_mm256_maskz_loadu_epi16(MPC_MASK(m), p); }
MPC_FN void mpc_store_16(void *p, vh v, int64_t m) { _mm256_mask_storeu_epi16(p, MPC_MASK(m), (__m256i)v); }
MPC_FN vb mpc_load_8(const void *p, int64_t m) { return (vb)_mm_maskz_loadu_epi8(MPC_MASK(m), p); }
MPC_FN void mpc_store_8(void *p, vb v, int64_t m) { _mm_mask_storeu_epi8(p, MPC_MASK(m), (__m128i)v); }
#else
#define MPC_MEMORY(bits, type) \
    MPC_FN type mpc_load_##bits(const void *p, int64_t m) { \
        type v = {0}; \
        if (m >= 16) memcpy(&v, p, sizeof v); \
        else memcpy(&v, p, (size_t)m *(bits / 8)); \
        return v; \
    } \
    MPC_FN void mpc_store_##bits(void *p, type v, int64_t m) { \
        if (m >= 16) memcpy(p, &v, sizeof v); \
        else memcpy(p, &v, (size_t)m *(bits / 8)); \
    }
MPC_MEMORY(32, vi)
MPC_MEMORY(16, vh)
MPC_MEMORY(8, vb)
#endif
MPC_FN vf mpc_load_f32(const void *p, int64_t m) { return (vf)mpc_load_32(p, m); }
MPC_FN void mpc_store_f32(void *p, vf v, int64_t m) { mpc_store_32(p, (vi)v, m); }
MPC_FN vi mpc_load_i32(const void *p, int64_t m) { return mpc_load_32(p, m); }
MPC_FN void mpc_store_i32(void *p, vi v, int64_t m) { mpc_store_32(p, v, m); }
MPC_FN vf mpc_load_bf16(const void *p, int64_t m) { return (vf)(mpc_from_u16(mpc_load_16(p, m)) << 16); }
MPC_FN void mpc_store_bf16(void *p, vf v, int64_t m) { mpc_store_16(p, mpc_to_u16((vu)v >> 16), m); }
MPC_FN vf mpc_widen_f16(vh h) {
#ifdef MPC_X512
    return (vf)_mm512_cvtph_ps((__m256i)h);
#else
    vu w = __builtin_convertvector(h, vu), sign = (w & 0x8000u) << 16, mag = w & 0x7fffu;
    vf normal = (vf)((mag << 13) + 0x38000000u);
    vf small = __builtin_convertvector((vi)mag, vf) * 5.9604644775390625e-8f;
    vf special = (vf)((mag << 13) | 0x7f800000u);
    vf r = mpc_select_f((vi)(mag < 0x400u), small, mpc_select_f((vi)(mag >= 0x7c00u), special, normal));
    return (vf)((vu)r | sign);
#endif
}
MPC_FN vf mpc_load_f16(const void *p, int64_t m) { return mpc_widen_f16(mpc_load_16(p, m)); }
MPC_FN void mpc_store_f16(void *p, vf v, int64_t m) {
#ifdef MPC_X512
    mpc_store_16(p, (vh)_mm512_cvtps_ph((__m512)v, 0), m);
#else
    vu u = (vu)v, sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
    vu normal = (mag - 0x38000000u) >> 13;
    vu small = (vu) __builtin_convertvector((vf)mag * 16777216.0f, vi);
    vu special = 0x7c00u | ((mag >> 13) & 0x3ffu);
    vu r = (vu)mpc_select_i((vi)(mag < 0x38800000u), (vi)small,
                            mpc_select_i((vi)(mag >= 0x7f800000u), (vi)special, (vi)normal));
    mpc_store_16(p, __builtin_convertvector(r | sign, vh), m);
#endif
}
/* 8-bit floats: bias and fraction bits; the value is representable when stored. */
MPC_FN vf mpc_widen_f8(vb b, int fraction, int bias, uint32_t nan, uint32_t inf) {
    vu w = mpc_from_u8(b), sign = (w & 0x80u) << 24, mag = w & 0x7fu;
    vf normal = (vf)((mag << (23 - fraction)) + ((uint32_t)(127 - bias) << 23));
    vf small = __builtin_convertvector((vi)mag, vf) * (float)(1.0 / (double)(1u << (bias - 1 + fraction)));
    vf r = mpc_select_f((vi)(mag < (1u << fraction)), small, normal);
    r = mpc_select_f((vi)(mag == inf), (vf)((vu){0} + 0x7f800000u), r);
    r = mpc_select_f((vi)(mag >= nan), (vf)((vu){0} + 0x7fc00000u), r);
    return (vf)((vu)r | sign);
}
MPC_FN vb mpc_narrow_f8(vf v, int fraction, int bias, uint32_t nan, uint32_t inf) {
    vu u = (vu)v, sign = (u >> 24) & 0x80u, mag = u & 0x7fffffffu;
    vu normal = (mag - ((uint32_t)(127 - bias) << 23)) >> (23 - fraction);
    vf scaled = (vf)mag * (float)(1u << (bias - 1 + fraction));
    vu small = (vu) __builtin_convertvector(mpc_select_f((vi)(mag < 0x47000000u), scaled, mpc_splat(0.0f)), vi);
    vu r = (vu)mpc_select_i((vi)(mag < ((uint32_t)(128 - bias) << 23)), (vi)small, (vi)normal);
    r = (vu)mpc_select_i((vi)(mag == 0x7f800000u), (vi)((vu){0} + inf), (vi)r);
    r = (vu)mpc_select_i((vi)(mag > 0x7f800000u), (vi)((vu){0} + nan), (vi)r);
    return mpc_to_u8(r | sign);
}
MPC_FN vf mpc_load_f8e4m3(const void *p, int64_t m) { return mpc_widen_f8(mpc_load_8(p, m), 3, 7, 0x7f, 0x80); }
MPC_FN vf mpc_load_f8e5m2(const void *p, int64_t m) { return mpc_widen_f8(mpc_load_8(p, m), 2, 15, 0x7d, 0x7c); }
MPC_FN void mpc_store_f8e4m3(void *p, vf v, int64_t m) { mpc_store_8(p, mpc_narrow_f8(v, 3, 7, 0x7f, 0x7e), m); }
MPC_FN void mpc_store_f8e5m2(void *p, vf v, int64_t m) { mpc_store_8(p, mpc_narrow_f8(v, 2, 15, 0x7e, 0x7c), m); }
MPC_FN vi mpc_load_u8(const void *p, int64_t m) { return (vi)mpc_from_u8(mpc_load_8(p, m)); }
MPC_FN void mpc_store_u8(void *p, vi v, int64_t m) { mpc_store_8(p, mpc_to_u8((vu)v), m); }
MPC_FN vi mpc_load_bool(const void *p, int64_t m) { return mpc_load_u8(p, m) != 0; }
MPC_FN void mpc_store_bool(void *p, vi v, int64_t m) { mpc_store_u8(p, v & 1, m); }
MPC_FN vl mpc_load_i64(const void *p, int64_t m) {
    vl v = {0};
    memcpy(&v, p, m >= 16 ? sizeof v : (size_t)m * 8);
    return v;
}
MPC_FN void mpc_store_i64(void *p, vl v, int64_t m) { memcpy(p, &v, m >= 16 ? sizeof v : (size_t)m * 8); }
/* One element in every lane. */
MPC_FN vf mpc_one_f32(const void *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return mpc_splat(x);
}
MPC_FN vf mpc_one_bf16(const void *p) {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return (vf)((vu){0} + ((uint32_t)x << 16));
}
MPC_FN vf mpc_one_f16(const void *p) { return mpc_splat(mpc_load_f16(p, 1)[0]); }
MPC_FN vf mpc_one_f8e4m3(const void *p) { return mpc_splat(mpc_load_f8e4m3(p, 1)[0]); }
MPC_FN vf mpc_one_f8e5m2(const void *p) { return mpc_splat(mpc_load_f8e5m2(p, 1)[0]); }
MPC_FN vi mpc_one_i32(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return mpc_splat_i(x);
}
MPC_FN vl mpc_one_i64(const void *p) {
    int64_t x;
    memcpy(&x, p, sizeof x);
    return mpc_splat_l(x);
}
MPC_FN vi mpc_one_u8(const void *p) { return mpc_splat_i(*(const uint8_t *)p); }
MPC_FN vi mpc_one_bool(const void *p) { return mpc_splat_i(*(const uint8_t *)p) != 0; }
/* Elements `stride` apart, brought together for the loads above. */
MPC_FN const void *mpc_collect(void *to, const void *p, int64_t stride, int64_t m, size_t size) {
    for (int64_t i = 0; i < 16 && i < m; i++)
        memcpy((char *)to + (size_t)i * size, (const char *)p + i * stride * (int64_t)size, size);
    return to;
}

/* --- reductions: unused lanes hold the neutral element; 16 lanes are folded in one fixed tree, the result is in every
 * lane --- */
MPC_FN vf mpc_keep_f(vf v, int64_t m, float rest) {
    return m >= 16 ? v : mpc_select_f(mpc_valid(m), v, mpc_splat(rest));
}
MPC_FN vi mpc_keep_i(vi v, int64_t m, int32_t rest) {
    return m >= 16 ? v : mpc_select_i(mpc_valid(m), v, mpc_splat_i(rest));
}
MPC_FN vl mpc_keep_l(vl v, int64_t m, int64_t rest) {
    return m >= 16 ? v : mpc_select_l(mpc_valid(m), v, mpc_splat_l(rest));
}
MPC_FN vf mpc_sum_f(vf a, vf b) { return a + b; }
MPC_FN vi mpc_sum_i(vi a, vi b) { return a + b; }
MPC_FN vl mpc_sum_l(vl a, vl b) { return a + b; }
#define MPC_FOLD(name, type, step) \
    MPC_FN type name(type v) { \
        v = step(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
        v = step(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
        v = step(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
        return step(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)); \
    }
MPC_FOLD(mpc_fold_sum_f, vf, mpc_sum_f)
MPC_FOLD(mpc_fold_max_f, vf, mpc_max_f)
MPC_FOLD(mpc_fold_min_f, vf, mpc_min_f)
MPC_FOLD(mpc_fold_sum_i, vi, mpc_sum_i)
MPC_FOLD(mpc_fold_max_i, vi, mpc_max_i)
MPC_FOLD(mpc_fold_min_i, vi, mpc_min_i)
MPC_FOLD(mpc_fold_sum_l, vl, mpc_sum_l)
MPC_FOLD(mpc_fold_max_l, vl, mpc_max_l)
MPC_FOLD(mpc_fold_min_l, vl, mpc_min_l)

/* --- functions. Errors in units of the last place, found by running over all arguments (tests/codegen/math.c) --- */
MPC_FN vf mpc_rint_(vf a) { return (a + 12582912.0f) - 12582912.0f; } /* |a| < 2^22 */
MPC_FN vf mpc_exp2i_(vi n) { return (vf)((n + 127) << 23); }          /* 2^n, normal */

/* To whole numbers: the nearest, even at a tie; the one below; the one above. Zeros keep the sign of x. From 2^23 on all
 * are whole. */
MPC_FN vf mpc_round(vf x) {
    vf a = mpc_abs_f(x), whole = (vf)((vi)((a + 8388608.0f) - 8388608.0f) | ((vi)x & INT32_MIN));
    return mpc_choose_lt(a, mpc_splat(8388608.0f), whole, x);
}
MPC_FN vf mpc_floor(vf x) {
    vf r = mpc_round(x);
    return mpc_choose_lt(x, r, r - 1.0f, r);
}
MPC_FN vf mpc_ceil(vf x) {
    vf r = mpc_round(x);
    return (vf)((vi)mpc_choose_lt(r, x, r + 1.0f, r) | ((vi)x & INT32_MIN));
}

/* p * 2^n, rounded once, for whole n from -151 to 128; n is NaN where p is */
MPC_FN vf mpc_scale_(vf p, vf n) {
#ifdef MPC_X512
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vi k = __builtin_convertvector(mpc_select_f(n == n, n, mpc_splat(0.0f)), vi), h = k >> 1;
    return p * mpc_exp2i_(h) * mpc_exp2i_(k - h);
#endif
}

/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 */
MPC_FN vf mpc_exp_terms_(vf r) {
    vf p = mpc_fma(mpc_splat(1.99193775e-4f), r, mpc_splat(1.39472249e-3f));
    p = mpc_fma(p, r, mpc_splat(8.33326299e-3f));
    p = mpc_fma(p, r, mpc_splat(4.16662544e-2f));
    p = mpc_fma(p, r, mpc_splat(1.66666672e-1f));
    return mpc_fma(p, r, mpc_splat(0.5f));
}
/* log(2^e (1 + f)) for f from sqrt(1/2) - 1 to sqrt(2) - 1; low: what the upper part of log(2) lacks, times e, and other small terms */
MPC_FN vf mpc_log_sum_(vf e, vf f, vf low) {
    vf s = f / (2.0f + f), z = s * s;
    vf q = mpc_fma(mpc_splat(0.233556479f), z, mpc_splat(0.285498708f));
    q = mpc_fma(q, z, mpc_splat(0.400001317f));
    q = mpc_fma(q, z, mpc_splat(0.666666687f)) * z;
    vf h = 0.5f * f * f;
    vf r = mpc_fma(s, h + q, low);
    return mpc_fma(e, mpc_splat(0.693359375f), f - (h - r));
}

/* at most 1 ulp; results below 2^-126 too. What is certainly 0 (masked scores) is not computed as such: subnormal
 * arithmetic is slow. */
MPC_FN vf mpc_exp(vf x) {
    vf floor = mpc_splat(-104.0f), c = mpc_at_most(mpc_choose_lt(x, floor, mpc_splat(0.0f), x), 89.0f);
    vf n = mpc_rint_(c * 1.44269504f);
    vf r = mpc_fma(n, mpc_splat(-0.693359375f), c);
    r = mpc_fma(n, mpc_splat(2.12194440e-4f), r);
    vf p = mpc_exp_terms_(r);
    p = mpc_fma(p * r, r, r) + 1.0f;
    return mpc_choose_lt(x, floor, mpc_splat(0.0f), mpc_scale_(p, n));
}

/* at most 1 ulp; log(0) = -inf, log(x < 0) = NaN */
MPC_FN vf mpc_log(vf x) {
    vi sub = x < 1.17549435e-38f;
    vf y = mpc_select_f(sub, x * 8388608.0f, x);
    vi u = (vi)y - 0x3f3504f3; /* mantissa from sqrt(1/2) to sqrt(2) */
    vf e = __builtin_convertvector((u >> 23) - (sub & 23), vf);
    vf f = (vf)((u & 0x007fffff) + 0x3f3504f3) - 1.0f;
    vf r = mpc_log_sum_(e, f, e * -2.12194440e-4f);
    r = mpc_select_f(x == 0.0f, mpc_splat(-__builtin_inff()), r);
    r = mpc_select_f((x < 0.0f) | (x != x), mpc_splat(__builtin_nanf("")), r);
    return mpc_select_f(x == __builtin_inff(), x, r);
}

/* at most 1 ulp; log1p(-1) = -inf, below NaN. From sqrt(1/2) to sqrt(2) nothing is lost in 1 + x, since it isn't read;
 * elsewhere what its rounding cut off is put back (fdlibm's s_log1p.c). */
MPC_FN vf mpc_log1p(vf x) {
    vf u = 1.0f + x;
    vi i = (vi)u - 0x3f3504f3, k = i >> 23, whole = k == 0;
    vf e = __builtin_convertvector(k, vf);
    vf cut = mpc_select_f(k > 1, 1.0f - (u - x), x - (u - 1.0f)) / u;
    cut = mpc_select_f(whole, mpc_splat(0.0f), cut);
    vf f = mpc_select_f(whole, x, (vf)((i & 0x007fffff) + 0x3f3504f3) - 1.0f);
    vf r = mpc_log_sum_(e, f, mpc_fma(e, mpc_splat(-2.12194440e-4f), cut));
    r = mpc_choose_lt(mpc_abs_f(x), mpc_splat(0x1p-25f), x, r);
    r = mpc_select_f(x == -1.0f, mpc_splat(-__builtin_inff()), r);
    r = mpc_select_f((x < -1.0f) | (x != x), mpc_splat(__builtin_nanf("")), r);
    return mpc_select_f(x == __builtin_inff(), x, r);
}

/* at most 2 ulp: 2^n (e^r - 1 + (1 - 2^-n)), without the 1 ever being rounded away */
MPC_FN vf mpc_expm1(vf x) {
    vf floor = mpc_splat(-18.0f), c = mpc_at_most(mpc_choose_lt(x, floor, mpc_splat(0.0f), x), 89.0f);
    vf magic = c * 1.44269504f + 12582912.0f, n = magic - 12582912.0f;
    vi k = (vi)magic - 0x4b400000; /* of NaN: any; the result is NaN then */
    vf r = mpc_fma(n, mpc_splat(-0.693359375f), c);
    r = mpc_fma(n, mpc_splat(2.12194440e-4f), r);
    vf p = mpc_exp_terms_(r);
    vf rest = 1.0f - mpc_exp2i_(-mpc_min_i(k, mpc_splat_i(30)));
    p = mpc_scale_(mpc_fma(p * r, r, rest + r), n);
    return mpc_choose_ne(x, mpc_splat(0.0f), mpc_choose_lt(x, floor, mpc_splat(-1.0f), p), x);
}

/* at most 2 ulp */
MPC_FN vf mpc_tanh(vf x) {
    vf a = mpc_abs_f(x), z = x * x;
    vf p = mpc_fma(mpc_splat(2.13716272e-3f), z, mpc_splat(-8.17170460e-3f));
    p = mpc_fma(p, z, mpc_splat(2.16986910e-2f));
    p = mpc_fma(p, z, mpc_splat(-5.39464541e-2f));
    p = mpc_fma(p, z, mpc_splat(1.33332044e-1f));
    p = mpc_fma(p, z, mpc_splat(-3.33333313e-1f));
    vf small = mpc_fma(p * z, x, x);
    vf big = 1.0f - 2.0f / (mpc_exp(a + a) + 1.0f);
    big = (vf)((vi)big | ((vi)x & INT32_MIN));
    return mpc_choose_lt(a, mpc_splat(0.625f), small, big);
}

/* at most 3 ulp */
MPC_FN vf mpc_sigmoid(vf x) {
    vf e = mpc_exp((vf)((vi)x | INT32_MIN)); /* exp(-|x|) */
    return mpc_choose_lt(x, mpc_splat(0.0f), e, mpc_splat(1.0f)) / (1.0f + e);
}

/* at most 2 ulp */
MPC_FN vf mpc_erf(vf x) {
    vf a = mpc_abs_f(x), z = x * x;
    vf p = mpc_fma(mpc_splat(8.34522507e-5f), z, mpc_splat(-8.13743740e-4f));
    p = mpc_fma(p, z, mpc_splat(5.20063424e-3f));
    p = mpc_fma(p, z, mpc_splat(-2.68592704e-2f));
    p = mpc_fma(p, z, mpc_splat(1.12836942e-1f));
    p = mpc_fma(p, z, mpc_splat(-3.76126349e-1f));
    p = mpc_fma(p, z, mpc_splat(1.28379166e-1f));
    vf small = mpc_fma(p, x, x);
    vf t = mpc_at_most(a, 4.0f);
    vf q = mpc_fma(mpc_splat(1.12314656e-5f), t, mpc_splat(-3.22805397e-4f));
    q = mpc_fma(q, t, mpc_splat(3.64246499e-3f));
    q = mpc_fma(q, t, mpc_splat(-2.37620752e-2f));
    q = mpc_fma(q, t, mpc_splat(1.06236890e-1f));
    q = mpc_fma(q, t, mpc_splat(6.35151327e-1f));
    q = mpc_fma(q, t, mpc_splat(1.12864852f));
    vf big = 1.0f - mpc_exp(-(q * t));
    big = (vf)((vi)big | ((vi)x & INT32_MIN));
    return mpc_choose_lt(a, mpc_splat(0.93f), small, mpc_choose_ne(x, x, small, big));
}

/* Sine and cosine in f64, at most 1 ulp; infinity gives NaN. Large arguments are reduced with 96 bits of 2/pi, from the
 * bit that counts quarter turns modulo four (Payne and Hanek, 1983). */
MPC_BIG double mpc_reduce_large_(float x, int64_t *turns) {
    static const uint32_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                           0xdb629599, 0x3c439041, 0xfe5163ab, 0};
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    int e = (int)(u >> 23 & 0xff) - 150, at = e + 30; /* |x| = m * 2^e; a word of zeros comes first */
    uint64_t m = (u & 0x7fffff) | 0x800000, w[4];
    for (int i = 0; i < 4; i++) w[i] = at / 32 + i < 9 ? two_over_pi[at / 32 + i] : 0;
    int s = at % 32;
    uint64_t hi = w[0] << 32 | w[1], lo = w[2] << 32 | w[3];
    uint64_t top = s == 0 ? hi : hi << s | lo >> (64 - s), rest = s == 0 ? lo : lo << s;
    uint64_t r = m * top + (m * (rest >> 32) >> 32);
    int64_t k = (int64_t)((r + (1ull << 61)) >> 62);
    double t = (double)(int64_t)(r - ((uint64_t)k << 62)) * (1.57079632679489661923 / 4611686018427387904.0);
    *turns = u >> 31 ? -k : k;
    return u >> 31 ? -t : t;
}
MPC_FN vd mpc_sincos_(vf a, int quarter, vl *n) {
    vd x = __builtin_convertvector(a, vd), k = x * 0.63661977236758134308;
    vd r = (k + 6755399441055744.0) - 6755399441055744.0;
    *n = __builtin_convertvector(r, vl);
    vd t = x - r * 1.57079632673412561417 - r * 6.07710050650619224932e-11;
    for (int i = 0; i < 16; i++) {
        int64_t turns;
        if (!(a[i] >= 1e6f || a[i] <= -1e6f)) continue;
        t[i] = mpc_reduce_large_(a[i], &turns);
        (*n)[i] = turns;
    }
    *n = (*n + quarter) & 3;
    vd z = t * t;
    vd s = ((((-2.50521083854417187751e-8 * z + 2.75573192239858906526e-6) * z - 1.98412698412698412698e-4) * z +
             8.33333333333333333333e-3) *
                z -
            1.66666666666666666667e-1) *
               z * t +
           t;
    vd c = (((((2.08767569878680989792e-9 * z - 2.75573192239858906526e-7) * z + 2.48015873015873015873e-5) * z -
              1.38888888888888888889e-3) *
                 z +
             4.16666666666666666667e-2) *
                z -
            0.5) *
               z +
           1.0;
    vl odd = (*n & 1) != 0;
    return (vd)((odd & (vl)c) | (~odd & (vl)s));
}
MPC_FN vf mpc_sincos_f_(vf x, int quarter) {
    vi bad = ((vi)x & 0x7f800000) == 0x7f800000;
    vl n;
    vd v = mpc_sincos_(mpc_select_f(bad, mpc_splat(0.0f), x), quarter, &n);
    vf r = __builtin_convertvector(v, vf);
    r = (vf)((vi)r ^ (__builtin_convertvector(n & 2, vi) << 30));
    return mpc_select_f(bad, mpc_splat(__builtin_nanf("")), r);
}
MPC_BIG vf mpc_sin(vf x) { return mpc_select_f(mpc_abs_f(x) < 2e-4f, x, mpc_sincos_f_(x, 0)); }
MPC_BIG vf mpc_cos(vf x) { return mpc_sincos_f_(x, 1); }

/* a to the b, through f64: at most 1 ulp. Special cases as in C's pow. */
MPC_FN vd mpc_log_d_(vd x) { /* positive, normal */
    vl u = (vl)x - 0x3fe6a09e667f3bcdll;
    vd e = __builtin_convertvector(u >> 52, vd);
    vd f = (vd)((u & 0x000fffffffffffffll) + 0x3fe6a09e667f3bcdll) - 1.0;
    vd s = f / (2.0 + f), z = s * s;
    vd p =
        ((((((z * (1.0 / 15) + 1.0 / 13) * z + 1.0 / 11) * z + 1.0 / 9) * z + 1.0 / 7) * z + 1.0 / 5) * z + 1.0 / 3) *
        z;
    return e * 0.693147180559945309417 + 2.0 * (s + s * p);
}
MPC_FN vd mpc_exp_d_(vd x) { /* |x| < 700 */
    vd n = (x * 1.44269504088896340736 + 6755399441055744.0) - 6755399441055744.0;
    vd r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    vd p =
        (((((((((r / 10.0 + 1.0) * r / 9.0 + 1.0) * r / 8.0 + 1.0) * r / 7.0 + 1.0) * r / 6.0 + 1.0) * r / 5.0 + 1.0) *
               r / 4.0 +
           1.0) *
              r / 3.0 +
          1.0) *
             r / 2.0 +
         1.0) *
            r +
        1.0;
    return p * (vd)((__builtin_convertvector(n, vl) + 1023) << 52);
}
MPC_BIG vf mpc_pow(vf a, vf b) {
    vf m = mpc_abs_f(a);
    vi bad = (m == 0.0f) | ((vi)m >= 0x7f800000) | ((vi)mpc_abs_f(b) >= 0x7f800000);
    vd t = mpc_log_d_(__builtin_convertvector(mpc_select_f(bad, mpc_splat(1.0f), m), vd)) *
           __builtin_convertvector(mpc_select_f(bad, mpc_splat(1.0f), b), vd);
    vl hi = t > 690.0, lo = t < -690.0;
    t = (vd)((hi & (vl)((vd){0} + 690.0)) | (lo & (vl)((vd){0} - 690.0)) | (~(hi | lo) & (vl)t));
    vf r = __builtin_convertvector(mpc_exp_d_(t), vf);
    vi large = mpc_abs_f(b) >= 16777216.0f; /* even integers, infinity */
    vi n = __builtin_convertvector(mpc_select_f(large | (b != b), mpc_splat(0.0f), b), vi);
    vi is_int = large | (__builtin_convertvector(n, vf) == b), odd = ~large & is_int & ((n & 1) != 0);
    vf inf = mpc_splat(__builtin_inff()), nan = mpc_splat(__builtin_nanf("")), zero = mpc_splat(0.0f),
       one = mpc_splat(1.0f);
    r = mpc_select_f((m == 0.0f) | (m == inf), mpc_select_f((m == 0.0f) ^ (b > 0.0f), inf, zero), r);
    r = mpc_select_f(mpc_abs_f(b) == inf, mpc_select_f(m == one, one, mpc_select_f((m > one) ^ (b < 0.0f), inf, zero)),
                     r);
    r = mpc_select_f(a < 0.0f, mpc_select_f(odd, -r, mpc_select_f(is_int | (m == inf) | (mpc_abs_f(b) == inf), r, nan)),
                     r);
    r = mpc_select_f(((vi)a == INT32_MIN) & odd, -r, r);
    r = mpc_select_f((a != a) | (b != b), nan, r);
    return mpc_select_f((b == 0.0f) | (a == one), one, r);
}

/* --- random numbers: base/rng.h's contract (Philox4x32-10); elements [first, first + count) of a stream --- */
MPC_FN vu mpc_mulhi_(vu a, uint32_t b) {
#ifdef MPC_X512
    __m512i k = _mm512_set1_epi32((int)b), x = (__m512i)a;
    __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, k), 32);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), k);
    return (vu)_mm512_mask_mov_epi32(even, 0xaaaa, odd);
#else
    return __builtin_convertvector((__builtin_convertvector(a, vul) * b) >> 32, vu);
#endif
}
MPC_BIG void mpc_uniform_64(float *out, uint64_t block, uint64_t seed, uint64_t stream, uint32_t step) {
    vu low = (vu)mpc_lanes() + (uint32_t)block; /* 16 blocks, first one a multiple of 16 */
    vu c0 = low, c1 = (vu){0} + (uint32_t)stream, c2 = (vu){0} + (uint32_t)(stream >> 32), c3 = (vu){0} + step;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32) ^ (uint32_t)(block >> 32);
    for (int round = 0; round < 10; round++) {
        vu h0 = mpc_mulhi_(c0, 0xd2511f53u), l0 = c0 * 0xd2511f53u, h1 = mpc_mulhi_(c2, 0xcd9e8d57u),
           l1 = c2 * 0xcd9e8d57u;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    vu words[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 16; i++)
        for (int w = 0; w < 4; w++) out[4 * i + w] = (float)(int32_t)(words[w][i] >> 8) * 5.9604644775390625e-8f;
}
MPC_BIG void mpc_fill_uniform(float *out, int64_t first, int64_t count, uint64_t seed, uint64_t stream, uint32_t step) {
    float part[64];
    for (int64_t at = first & ~(int64_t)63; at < first + count; at += 64) {
        int64_t lo = at < first ? first : at, hi = at + 64 < first + count ? at + 64 : first + count;
        mpc_uniform_64(part, (uint64_t)at / 4, seed, stream, step);
        memcpy(out + (lo - first), part + (lo - at), (size_t)(hi - lo) * sizeof *out);
    }
}
