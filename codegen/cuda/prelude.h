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

/* --- packs: what one thread holds. i: i32, u8, and masks (0 or -1) for bool; l: i64 --- */
#define MPC_EACH(W) MPC_UNROLL for (int i = 0; i < W; i++)
template <class T, int W> struct mpc_pack {
    T v[W];
};
template <int W> using mpc_f = mpc_pack<float, W>;
template <int W> using mpc_i = mpc_pack<int32_t, W>;
template <int W> using mpc_l = mpc_pack<int64_t, W>;

template <class T, int W> MPC_FN mpc_pack<T, W> mpc_all(T x) {
    mpc_pack<T, W> r;
    MPC_EACH(W) r.v[i] = x;
    return r;
}
template <int W> MPC_FN mpc_f<W> mpc_splat(float x) { return mpc_all<float, W>(x); }
template <int W> MPC_FN mpc_i<W> mpc_splat_i(int32_t x) { return mpc_all<int32_t, W>(x); }
template <int W> MPC_FN mpc_l<W> mpc_splat_l(int64_t x) { return mpc_all<int64_t, W>(x); }
template <int W> MPC_FN mpc_i<W> mpc_lanes() {
    mpc_i<W> r;
    MPC_EACH(W) r.v[i] = i;
    return r;
}
template <int W> MPC_FN mpc_i<W> mpc_valid(int64_t m) {
    mpc_i<W> r;
    MPC_EACH(W) r.v[i] = i < m ? -1 : 0;
    return r;
}
/* Numbers at `At`, `At` + 1, ... of a wider pack. */
template <int Part, int At, class T, int W> MPC_FN mpc_pack<T, Part> mpc_part(mpc_pack<T, W> a) {
    mpc_pack<T, Part> r;
    MPC_EACH(Part) r.v[i] = a.v[At + i];
    return r;
}

/* --- operators: pack and pack, pack and number. Integers wrap --- */
#define MPC_LIFT(name, from, to, expression) \
    template <int W> MPC_FN mpc_pack<to, W> name(mpc_pack<from, W> a) { \
        mpc_pack<to, W> r; \
        MPC_EACH(W) { \
            const from x = a.v[i]; \
            r.v[i] = expression; \
        } \
        return r; \
    }
#define MPC_LIFT2(name, from, to, expression) \
    template <int W> MPC_FN mpc_pack<to, W> name(mpc_pack<from, W> a, mpc_pack<from, W> b) { \
        mpc_pack<to, W> r; \
        MPC_EACH(W) { \
            const from x = a.v[i], y = b.v[i]; \
            r.v[i] = expression; \
        } \
        return r; \
    }
#define MPC_OPERATOR(op, from, to, expression) \
    MPC_LIFT2(operator op, from, to, expression) \
    template <int W> MPC_FN mpc_pack<to, W> operator op(mpc_pack<from, W> a, from b) { return a op mpc_all<from, W>(b); } \
    template <int W> MPC_FN mpc_pack<to, W> operator op(from a, mpc_pack<from, W> b) { return mpc_all<from, W>(a) op b; }
MPC_OPERATOR(+, float, float, x + y)
MPC_OPERATOR(-, float, float, x - y)
MPC_OPERATOR(*, float, float, x *y)
MPC_OPERATOR(/, float, float, mpc_div1(x, y))
#define MPC_INTEGER_OPERATORS(type, bits) \
    MPC_OPERATOR(+, type, type, (type)((bits)x + (bits)y)) \
    MPC_OPERATOR(-, type, type, (type)((bits)x - (bits)y)) \
    MPC_OPERATOR(*, type, type, (type)((bits)x * (bits)y)) \
    MPC_OPERATOR(&, type, type, x &y) \
    MPC_OPERATOR(|, type, type, x | y) \
    MPC_OPERATOR(^, type, type, x ^ y) \
    MPC_LIFT(operator-, type, type, (type)(0 - (bits)x)) \
    MPC_LIFT(operator~, type, type, ~x)
MPC_INTEGER_OPERATORS(int32_t, uint32_t)
MPC_INTEGER_OPERATORS(int64_t, uint64_t)
MPC_LIFT(operator-, float, float, -x)
#define MPC_COMPARISONS(from, to) \
    MPC_OPERATOR(<, from, to, x < y ? -1 : 0) \
    MPC_OPERATOR(<=, from, to, x <= y ? -1 : 0) \
    MPC_OPERATOR(>, from, to, x > y ? -1 : 0) \
    MPC_OPERATOR(>=, from, to, x >= y ? -1 : 0) \
    MPC_OPERATOR(==, from, to, x == y ? -1 : 0) \
    MPC_OPERATOR(!=, from, to, x != y ? -1 : 0)
MPC_COMPARISONS(float, int32_t)
MPC_COMPARISONS(int32_t, int32_t)
MPC_COMPARISONS(int64_t, int64_t)
MPC_LIFT(mpc_mask_l, int64_t, int32_t, x != 0 ? -1 : 0)

template <class T, int W> MPC_FN mpc_pack<T, W> mpc_select(mpc_i<W> c, mpc_pack<T, W> a, mpc_pack<T, W> b) {
    mpc_pack<T, W> r;
    MPC_EACH(W) r.v[i] = c.v[i] ? a.v[i] : b.v[i];
    return r;
}
template <int W> MPC_FN mpc_f<W> mpc_fma(mpc_f<W> a, mpc_f<W> b, mpc_f<W> c) {
    MPC_EACH(W) c.v[i] = mpc_fma1(a.v[i], b.v[i], c.v[i]);
    return c;
}
MPC_LIFT(mpc_sqrt, float, float, mpc_sqrt1(x))

/* --- comparisons that see NaN; names that end in 1 work on one number --- */
#define MPC_INFINITY (mpc_float(0x7f800000u))
#define MPC_NAN (mpc_float(0x7fc00000u))
MPC_FN float mpc_abs1(float x) { return mpc_float(mpc_bits(x) & 0x7fffffffu); }
MPC_FN float mpc_max1(float x, float y) { return x > y || x != x ? x : y; }
MPC_FN float mpc_min1(float x, float y) { return x < y || x != x ? x : y; }
MPC_LIFT(mpc_abs, float, float, mpc_abs1(x))
MPC_LIFT(mpc_abs, int32_t, int32_t, x < 0 ? (int32_t)(0 - (uint32_t)x) : x)
MPC_LIFT(mpc_abs, int64_t, int64_t, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
MPC_LIFT2(mpc_max, float, float, mpc_max1(x, y))
MPC_LIFT2(mpc_min, float, float, mpc_min1(x, y))
MPC_LIFT2(mpc_max, int32_t, int32_t, x > y ? x : y)
MPC_LIFT2(mpc_min, int32_t, int32_t, x < y ? x : y)
MPC_LIFT2(mpc_max, int64_t, int64_t, x > y ? x : y)
MPC_LIFT2(mpc_min, int64_t, int64_t, x < y ? x : y)
MPC_LIFT(mpc_relu, float, float, mpc_max1(x, 0.0f))
MPC_LIFT(mpc_relu, int32_t, int32_t, x > 0 ? x : 0)
MPC_LIFT(mpc_relu, int64_t, int64_t, x > 0 ? x : 0)
MPC_LIFT(mpc_sign, float, float, x < 0.0f || x > 0.0f ? mpc_float((mpc_bits(x) & 0x80000000u) | 0x3f800000u) : x)
MPC_LIFT(mpc_sign, int32_t, int32_t, (x > 0) - (x < 0))
MPC_LIFT(mpc_sign, int64_t, int64_t, (x > 0) - (x < 0))
MPC_LIFT(mpc_is_finite, float, int32_t, (mpc_bits(x) & 0x7f800000u) != 0x7f800000u ? -1 : 0)
MPC_LIFT(mpc_is_finite, int32_t, int32_t, x | -1)
MPC_LIFT(mpc_is_finite, int64_t, int32_t, (int32_t)(x | -1))
/* Integer division: by 0 it gives 0. */
MPC_LIFT2(mpc_div, int32_t, int32_t, y == 0 ? 0 : x / y)
MPC_LIFT2(mpc_div, int64_t, int64_t, y == 0 ? 0 : x / y)

/* --- conversions between classes; float to integer truncates and saturates, NaN gives 0 --- */
MPC_FN int32_t mpc_i32_1(float x) {
    return x >= 2147483648.0f ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : x != x ? 0 : (int32_t)x;
}
MPC_FN int64_t mpc_i64_1(float x) {
    return x >= 9223372036854775808.0f ? INT64_MAX : x < -9223372036854775808.0f ? INT64_MIN : x != x ? 0 : (int64_t)x;
}
MPC_LIFT(mpc_f_from_i, int32_t, float, (float)x)
MPC_LIFT(mpc_f_from_l, int64_t, float, (float)x)
MPC_LIFT(mpc_f_from_b, int32_t, float, x != 0 ? 1.0f : 0.0f)
MPC_LIFT(mpc_i_from_f, float, int32_t, mpc_i32_1(x))
MPC_LIFT(mpc_i_from_l, int64_t, int32_t, (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x))
MPC_LIFT(mpc_i_from_b, int32_t, int32_t, x & 1)
MPC_LIFT(mpc_l_from_f, float, int64_t, mpc_i64_1(x))
MPC_LIFT(mpc_l_from_i, int32_t, int64_t, (int64_t)x)
MPC_LIFT(mpc_l_from_b, int32_t, int64_t, (int64_t)(x & 1))
MPC_LIFT(mpc_b_from_f, float, int32_t, x != 0.0f ? -1 : 0)
MPC_LIFT(mpc_b_from_i, int32_t, int32_t, x != 0 ? -1 : 0)
MPC_LIFT(mpc_b_from_l, int64_t, int32_t, x != 0 ? -1 : 0)
MPC_LIFT(mpc_round_u8, int32_t, int32_t, x < 0 ? 0 : x > 255 ? 255 : x)

/* --- rounding in registers to a narrower float format, to nearest even --- */
MPC_FN float mpc_round_bf16_1(float x) { return mpc_bf16_value(mpc_bf16_bits(x)); }
MPC_FN float mpc_round_f16_1(float x) { return mpc_f16_value(mpc_f16_bits(x)); }
/* As tensor cores read it: a NaN stays one, also if its bits are all among the 13 that tf32 has not. */
MPC_FN uint32_t mpc_tf32_bits(uint32_t x) {
    if ((x & 0x7f800000u) == 0x7f800000u) return (x & 0x007fffffu) != 0 ? x | 0x00400000u : x;
    return (x + 0xfffu + (x >> 13 & 1u)) & ~0x1fffu;
}
/* Away from zero where 1 - u doesn't exceed the share that is cut off; u: a multiple of 2^-24 in [0, 1). Infinity and NaN
 * stay. */
MPC_FN float mpc_stochastic_cut1(float x, float u, int drop) {
    const uint32_t more = (uint32_t)(int32_t)(u * (float)(1 << drop));
    if ((mpc_bits(x) & 0x7f800000u) == 0x7f800000u) return x;
    return mpc_float((mpc_bits(x) + more) & ~((1u << drop) - 1u));
}
MPC_FN float mpc_stochastic_f16_1(float x, float u) {
    const float size = mpc_abs1(x) * 16777216.0f; /* below f16's normal numbers: in units of its smallest one */
    if (!(size < 1024.0f)) return mpc_stochastic_cut1(x, u, 13);
    const float low = (float)(int32_t)size, units = low + (1.0f - u <= size - low ? 1.0f : 0.0f);
    return mpc_float(mpc_bits(units * 5.9604644775390625e-8f) | (mpc_bits(x) & 0x80000000u));
}
MPC_LIFT2(mpc_stochastic_bf16, float, float, mpc_stochastic_cut1(x, y, 16))
MPC_LIFT2(mpc_stochastic_f16, float, float, mpc_stochastic_f16_1(x, y))
MPC_FN float mpc_round_tf32_1(float x) { return mpc_float(mpc_tf32_bits(mpc_bits(x))); }
MPC_FN float mpc_round_fraction_1(float x, int drop, float magic, float tiny) {
    const uint32_t u = mpc_bits(x), low = (1u << drop) - 1u;
    const uint32_t normal = (u + (low >> 1) + (u >> drop & 1)) & ~low;
    const float small = (mpc_abs1(x) + magic) - magic;
    return mpc_abs1(x) < tiny ? mpc_float(mpc_bits(small) | (u & 0x80000000u)) : mpc_float(normal);
}
MPC_FN float mpc_saturate_1(float x, float r, float max) {
    const float top = mpc_float((mpc_bits(x) & 0x80000000u) | mpc_bits(max));
    return x != x ? x : mpc_abs1(r) > max ? top : r;
}
MPC_FN float mpc_round_f8e4m3_1(float x) {
    return mpc_saturate_1(x, mpc_round_fraction_1(x, 20, 24576.0f, 0.015625f), 448.0f);
}
MPC_FN float mpc_round_f8e5m2_1(float x) {
    return mpc_saturate_1(x, mpc_round_fraction_1(x, 21, 192.0f, 6.103515625e-5f), 57344.0f);
}
/* Two at a time: one conversion instead of two. */
template <int W> MPC_FN mpc_f<W> mpc_round_bf16(mpc_f<W> a) {
    MPC_UNROLL for (int i = 0; i + 1 < W; i += 2) {
        const uint32_t two = mpc_bf16_pair(a.v[i], a.v[i + 1]);
        a.v[i] = mpc_float(two << 16);
        a.v[i + 1] = mpc_float(two & 0xffff0000u);
    }
    if (W % 2 != 0) a.v[W - 1] = mpc_round_bf16_1(a.v[W - 1]);
    return a;
}
MPC_LIFT(mpc_round_f16, float, float, mpc_round_f16_1(x))
MPC_LIFT(mpc_round_tf32, float, float, mpc_round_tf32_1(x))
MPC_LIFT(mpc_round_f8e4m3, float, float, mpc_round_f8e4m3_1(x))
MPC_LIFT(mpc_round_f8e5m2, float, float, mpc_round_f8e5m2_1(x))

/* --- 8-bit floats: bias and fraction bits; a value is representable when stored --- */
MPC_FN float mpc_widen_f8(uint32_t b, int fraction, int bias, uint32_t nan, uint32_t inf) {
    const uint32_t sign = (b & 0x80u) << 24, mag = b & 0x7fu;
    uint32_t r = (mag << (23 - fraction)) + ((uint32_t)(127 - bias) << 23);
    if (mag < (1u << fraction)) r = mpc_bits((float)(int32_t)mag * (float)(1.0 / (double)(1u << (bias - 1 + fraction))));
    if (mag == inf) r = 0x7f800000u;
    if (mag >= nan) r = 0x7fc00000u;
    return mpc_float(r | sign);
}
MPC_FN uint32_t mpc_narrow_f8(float v, int fraction, int bias, uint32_t nan, uint32_t inf) {
    const uint32_t u = mpc_bits(v), sign = u >> 24 & 0x80u, mag = u & 0x7fffffffu;
    uint32_t r = (mag - ((uint32_t)(127 - bias) << 23)) >> (23 - fraction);
    if (mag < ((uint32_t)(128 - bias) << 23)) r = (uint32_t)(int32_t)(mpc_float(mag) * (float)(1u << (bias - 1 + fraction)));
    if (mag == 0x7f800000u) r = inf;
    if (mag > 0x7f800000u) r = nan;
    return r | sign;
}

/* --- memory: load widens, store writes what is already rounded; what isn't valid is loaded as zero and not stored.
 * `Aligned` promises an address fit for the widest access; without the promise it is looked at --- */
template <int S, int W> struct mpc_raw { /* W elements of S bytes */
    uint32_t w[(S * W + 3) / 4];
};
template <int Bytes> MPC_FN constexpr int mpc_access_bytes() {
    return Bytes % 16 == 0 ? 16 : Bytes % 8 == 0 ? 8 : Bytes % 4 == 0 ? 4 : Bytes % 2 == 0 ? 2 : 1;
}
template <int A, int N> MPC_FN void mpc_read_words(uint32_t (&w)[N], const char *p, int at) { /* A bytes, over zeros */
    if constexpr (A == 16) {
        const mpc_16 t = mpc_load16(p + at);
        MPC_UNROLL for (int j = 0; j < 4; j++) w[at / 4 + j] = t.w[j];
    } else if constexpr (A == 8) {
        const mpc_8 t = mpc_load8(p + at);
        w[at / 4] = t.w[0], w[at / 4 + 1] = t.w[1];
    } else if constexpr (A == 4) w[at / 4] = mpc_load4(p + at);
    else if constexpr (A == 2) w[at / 4] |= (uint32_t)mpc_load2(p + at) << (at % 4 * 8);
    else w[at / 4] |= (uint32_t)mpc_load1(p + at) << (at % 4 * 8);
}
template <int A, int N> MPC_FN void mpc_write_words(const uint32_t (&w)[N], char *p, int at) {
    if constexpr (A == 16) mpc_store16(p + at, mpc_16{{w[at / 4], w[at / 4 + 1], w[at / 4 + 2], w[at / 4 + 3]}});
    else if constexpr (A == 8) mpc_store8(p + at, mpc_8{{w[at / 4], w[at / 4 + 1]}});
    else if constexpr (A == 4) mpc_store4(p + at, w[at / 4]);
    else if constexpr (A == 2) mpc_store2(p + at, (uint16_t)(w[at / 4] >> (at % 4 * 8)));
    else mpc_store1(p + at, (uint8_t)(w[at / 4] >> (at % 4 * 8)));
}
template <int S, int W, bool Aligned> MPC_FN bool mpc_is_whole(const void *p, int64_t m) {
    constexpr int A = mpc_access_bytes<S * W>();
    return m >= W && (Aligned || A <= S || ((uintptr_t)p & (uintptr_t)(A - 1)) == 0);
}
template <int S, int W, bool Aligned> MPC_FN mpc_raw<S, W> mpc_load_raw(const void *p, int64_t m) {
    constexpr int A = mpc_access_bytes<S * W>();
    mpc_raw<S, W> r;
    MPC_UNROLL for (int i = 0; i < (S * W + 3) / 4; i++) r.w[i] = 0;
    if (mpc_is_whole<S, W, Aligned>(p, m)) {
        MPC_UNROLL for (int at = 0; at < S * W; at += A) mpc_read_words<A>(r.w, (const char *)p, at);
    } else {
        MPC_UNROLL for (int at = 0; at < S * W; at += S)
            if (at < m * S) mpc_read_words<S>(r.w, (const char *)p, at);
    }
    return r;
}
template <int S, int W, bool Aligned> MPC_FN void mpc_store_raw(void *p, const mpc_raw<S, W> &r, int64_t m) {
    constexpr int A = mpc_access_bytes<S * W>();
    if (mpc_is_whole<S, W, Aligned>(p, m)) {
        MPC_UNROLL for (int at = 0; at < S * W; at += A) mpc_write_words<A>(r.w, (char *)p, at);
    } else {
        MPC_UNROLL for (int at = 0; at < S * W; at += S)
            if (at < m * S) mpc_write_words<S>(r.w, (char *)p, at);
    }
}
template <int S, int N> MPC_FN uint32_t mpc_word_get(const uint32_t (&w)[N], int i) {
    return S == 4 ? w[i] : S == 2 ? w[i / 2] >> (i % 2 * 16) & 0xffffu : w[i / 4] >> (i % 4 * 8) & 0xffu;
}
template <int S, int N> MPC_FN void mpc_word_put(uint32_t (&w)[N], int i, uint32_t v) { /* over zeros */
    if constexpr (S == 4) w[i] = v;
    else if constexpr (S == 2) w[i / 2] |= v << (i % 2 * 16);
    else w[i / 4] |= v << (i % 4 * 8);
}
/* From a raw pack, to a raw pack; from and to memory; one element, or elements `stride` apart, in a pack. `x`: number or bits. */
#define MPC_MEMORY(format, S, type, widened, narrowed) \
    template <int W> MPC_FN mpc_pack<type, W> mpc_widen_##format(const mpc_raw<S, W> &raw) { \
        mpc_pack<type, W> r; \
        MPC_EACH(W) { \
            const uint32_t x = mpc_word_get<S>(raw.w, i); \
            r.v[i] = widened; \
        } \
        return r; \
    } \
    template <int W> MPC_FN mpc_raw<S, W> mpc_narrow_##format(mpc_pack<type, W> v) { \
        mpc_raw<S, W> raw; \
        MPC_UNROLL for (int i = 0; i < (S * W + 3) / 4; i++) raw.w[i] = 0; \
        MPC_EACH(W) { \
            const type x = v.v[i]; \
            mpc_word_put<S>(raw.w, i, narrowed); \
        } \
        return raw; \
    } \
    MPC_MEMORY_BY(format, S, type)
#define MPC_MEMORY_BY(format, S, type) \
    template <int W, bool Aligned = false> MPC_FN mpc_pack<type, W> mpc_load_##format(const void *p, int64_t m) { \
        return mpc_widen_##format<W>(mpc_load_raw<S, W, Aligned>(p, m)); \
    } \
    template <int W, bool Aligned = false> MPC_FN void mpc_store_##format(void *p, mpc_pack<type, W> v, int64_t m) { \
        mpc_store_raw<S, W, Aligned>(p, mpc_narrow_##format<W>(v), m); \
    } \
    template <int W> MPC_FN mpc_pack<type, W> mpc_one_##format(const void *p) { \
        return mpc_all<type, W>(mpc_load_##format<1>(p, 1).v[0]); \
    } \
    template <int W> MPC_FN mpc_pack<type, W> mpc_strided_##format(const void *p, int64_t stride, int64_t m) { \
        mpc_pack<type, W> r; \
        MPC_EACH(W) r.v[i] = mpc_load_##format<1>((const char *)p + (i < m ? i * stride * S : 0), i < m ? 1 : 0).v[0]; \
        return r; \
    }
MPC_MEMORY(f32, 4, float, mpc_float(x), mpc_bits(x))
MPC_MEMORY(bf16, 2, float, mpc_float(x << 16), mpc_bits(x) >> 16)
MPC_MEMORY(f16, 2, float, mpc_f16_value((uint16_t)x), mpc_f16_bits(x))
MPC_MEMORY(f8e4m3, 1, float, mpc_widen_f8(x, 3, 7, 0x7f, 0x80), mpc_narrow_f8(x, 3, 7, 0x7f, 0x7e))
MPC_MEMORY(f8e5m2, 1, float, mpc_widen_f8(x, 2, 15, 0x7d, 0x7c), mpc_narrow_f8(x, 2, 15, 0x7e, 0x7c))
MPC_MEMORY(i32, 4, int32_t, (int32_t)x, (uint32_t)x)
MPC_MEMORY(u8, 1, int32_t, (int32_t)x, (uint32_t)x & 0xffu)
MPC_MEMORY(bool, 1, int32_t, x != 0 ? -1 : 0, (uint32_t)x & 1u)
template <int W> MPC_FN mpc_l<W> mpc_widen_i64(const mpc_raw<8, W> &raw) {
    mpc_l<W> r;
    MPC_EACH(W) r.v[i] = (int64_t)((uint64_t)raw.w[2 * i + 1] << 32 | raw.w[2 * i]);
    return r;
}
template <int W> MPC_FN mpc_raw<8, W> mpc_narrow_i64(mpc_l<W> v) {
    mpc_raw<8, W> raw;
    MPC_EACH(W) raw.w[2 * i] = (uint32_t)(uint64_t)v.v[i], raw.w[2 * i + 1] = (uint32_t)((uint64_t)v.v[i] >> 32);
    return raw;
}
MPC_MEMORY_BY(i64, 8, int64_t)

/* --- reductions: unused numbers are neutral; a pack is folded in one fixed tree, the result is in every lane --- */
template <class T, int W> MPC_FN mpc_pack<T, W> mpc_keep(mpc_pack<T, W> v, int64_t m, T rest) {
    MPC_EACH(W) v.v[i] = i < m ? v.v[i] : rest;
    return v;
}
template <int W> MPC_FN mpc_f<W> mpc_keep_f(mpc_f<W> v, int64_t m, float rest) { return mpc_keep(v, m, rest); }
template <int W> MPC_FN mpc_i<W> mpc_keep_i(mpc_i<W> v, int64_t m, int32_t rest) { return mpc_keep(v, m, rest); }
template <int W> MPC_FN mpc_l<W> mpc_keep_l(mpc_l<W> v, int64_t m, int64_t rest) { return mpc_keep(v, m, rest); }
#define MPC_REDUCTION(lanes, type) \
    template <int W> MPC_FN mpc_pack<type, W> mpc_sum_##lanes(mpc_pack<type, W> a, mpc_pack<type, W> b) { return a + b; } \
    template <int W> MPC_FN mpc_pack<type, W> mpc_max_##lanes(mpc_pack<type, W> a, mpc_pack<type, W> b) { \
        return mpc_max(a, b); \
    } \
    template <int W> MPC_FN mpc_pack<type, W> mpc_min_##lanes(mpc_pack<type, W> a, mpc_pack<type, W> b) { \
        return mpc_min(a, b); \
    } \
    MPC_FOLD(sum, lanes, type) \
    MPC_FOLD(max, lanes, type) \
    MPC_FOLD(min, lanes, type)
/* mpc_fold_: a pack. mpc_team_: a number of each of the `T` threads (a power of two up to 32, neighbours in one warp). */
#define MPC_FOLD(op, lanes, type) \
    MPC_FN type mpc_##op##1_##lanes(type a, type b) { \
        return mpc_##op##_##lanes(mpc_all<type, 1>(a), mpc_all<type, 1>(b)).v[0]; \
    } \
    template <int W> MPC_FN mpc_pack<type, W> mpc_fold_##op##_##lanes(mpc_pack<type, W> v) { \
        MPC_UNROLL for (int h = W / 2; h > 0; h /= 2) MPC_UNROLL for (int i = 0; i < h; i++) v.v[i] = \
            mpc_##op##1_##lanes(v.v[i], v.v[i + h]); \
        return mpc_all<type, W>(v.v[0]); \
    } \
    template <int T> MPC_FN type mpc_team_##op##_##lanes(type x) { \
        const int lane = mpc_thread() % 32; \
        const uint32_t members = mpc_members<T>(); \
        MPC_UNROLL for (int h = T / 2; h > 0; h /= 2) { \
            const type other = mpc_swap(members, x, h); \
            x = (lane & h) != 0 ? mpc_##op##1_##lanes(other, x) : mpc_##op##1_##lanes(x, other); \
        } \
        return x; \
    } \
    template <int T> MPC_FN type mpc_block_##op##_##lanes(type x, void *slots) { \
        type *const s = (type *)slots; \
        x = mpc_team_##op##_##lanes<32>(x); \
        if (T == 32) return x; \
        if (mpc_thread() % 32 == 0) s[mpc_thread() / 32] = x; \
        mpc_barrier(); \
        x = s[0]; \
        MPC_UNROLL for (int i = 1; i < T / 32; i++) x = mpc_##op##1_##lanes(x, s[i]); \
        return x; \
    }
/* mpc_block_: a number of each of the T threads of a block (32 or more). One barrier: `slots` (T / 32 numbers in shared
 * memory) may not be used again before another one. */
/* The threads of this warp that belong to this thread's team of T. */
template <int T> MPC_FN uint32_t mpc_members() {
    if constexpr (T >= 32) return 0xffffffffu;
    else return ((1u << T) - 1u) << (mpc_thread() % 32 / T * T);
}
MPC_FN float mpc_swap(uint32_t members, float x, int mask) {
    return mpc_float(mpc_shuffle_xor(members, mpc_bits(x), mask));
}
MPC_FN int32_t mpc_swap(uint32_t members, int32_t x, int mask) {
    return (int32_t)mpc_shuffle_xor(members, (uint32_t)x, mask);
}
MPC_FN int64_t mpc_swap(uint32_t members, int64_t x, int mask) {
    const uint32_t lo = mpc_shuffle_xor(members, (uint32_t)(uint64_t)x, mask);
    return (int64_t)((uint64_t)mpc_shuffle_xor(members, (uint32_t)((uint64_t)x >> 32), mask) << 32 | lo);
}
MPC_REDUCTION(f, float)
MPC_REDUCTION(i, int32_t)
MPC_REDUCTION(l, int64_t)

/* --- functions: what prelude_c.h computes, step by step, so that results are the same bits --- */
/* To whole numbers: the nearest, even at a tie; the one below; the one above. Zeros keep the sign of x. */
MPC_FN float mpc_round1(float x) {
    const float a = mpc_abs1(x), whole = (a + 8388608.0f) - 8388608.0f;
    return a < 8388608.0f ? mpc_float(mpc_bits(whole) | (mpc_bits(x) & 0x80000000u)) : x;
}
MPC_FN float mpc_floor1(float x) {
    const float r = mpc_round1(x);
    return x < r ? r - 1.0f : r;
}
MPC_FN float mpc_ceil1(float x) {
    const float r = mpc_round1(x);
    return mpc_float(mpc_bits(r < x ? r + 1.0f : r) | (mpc_bits(x) & 0x80000000u));
}
/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 */
MPC_FN float mpc_exp_terms_(float r) {
    float p = mpc_fma1(1.99193775e-4f, r, 1.39472249e-3f);
    p = mpc_fma1(p, r, 8.33326299e-3f);
    p = mpc_fma1(p, r, 4.16662544e-2f);
    p = mpc_fma1(p, r, 1.66666672e-1f);
    return mpc_fma1(p, r, 0.5f);
}
/* log(2^e (1 + f)) for f from sqrt(1/2) - 1 to sqrt(2) - 1; low: what the upper part of log(2) lacks, times e, and other small terms */
MPC_FN float mpc_log_sum_(float e, float f, float low) {
    const float s = mpc_div1(f, 2.0f + f), z = s * s;
    float q = mpc_fma1(0.233556479f, z, 0.285498708f);
    q = mpc_fma1(q, z, 0.400001317f);
    q = mpc_fma1(q, z, 0.666666687f) * z;
    const float h = 0.5f * f * f;
    float r = mpc_fma1(s, h + q, low);
    return mpc_fma1(e, 0.693359375f, f - (h - r));
}
MPC_FN float mpc_exp1(float x) { /* at most 1 ulp */
    const float c = x < -104.0f ? 0.0f : x > 89.0f ? 89.0f : x;
    const float magic = c * 1.44269504f + 12582912.0f, n = magic - 12582912.0f;
    float r = mpc_fma1(n, -0.693359375f, c);
    r = mpc_fma1(n, 2.12194440e-4f, r);
    float p = mpc_exp_terms_(r);
    p = mpc_fma1(p * r, r, r) + 1.0f;
    const int32_t k = (int32_t)(mpc_bits(magic) - 0x4b400000u), h = k >> 1; /* of NaN: any; p is NaN then */
    p = p * mpc_float((uint32_t)(h + 127) << 23) * mpc_float((uint32_t)(k - h + 127) << 23);
    return x < -104.0f ? 0.0f : p;
}
MPC_FN float mpc_log1(float x) { /* at most 1 ulp; log(0) = -inf, log(x < 0) = NaN */
    const bool sub = x < 1.17549435e-38f;
    const float y = sub ? x * 8388608.0f : x;
    const int32_t u = (int32_t)(mpc_bits(y) - 0x3f3504f3u);
    const float e = (float)((u >> 23) - (sub ? 23 : 0));
    const float f = mpc_float(((uint32_t)u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float r = mpc_log_sum_(e, f, e * -2.12194440e-4f);
    r = x == 0.0f ? -MPC_INFINITY : r;
    r = x < 0.0f || x != x ? MPC_NAN : r;
    return x == MPC_INFINITY ? x : r;
}
MPC_FN float mpc_log1p1(float x) { /* at most 1 ulp; log1p(-1) = -inf, below NaN */
    const float u = 1.0f + x;
    const int32_t i = (int32_t)(mpc_bits(u) - 0x3f3504f3u), k = i >> 23;
    const float e = (float)k;
    float cut = mpc_div1(k > 1 ? 1.0f - (u - x) : x - (u - 1.0f), u);
    cut = k == 0 ? 0.0f : cut;
    const float f = k == 0 ? x : mpc_float(((uint32_t)i & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float r = mpc_log_sum_(e, f, mpc_fma1(e, -2.12194440e-4f, cut));
    r = mpc_abs1(x) < 0x1p-25f ? x : r;
    r = x == -1.0f ? -MPC_INFINITY : r;
    r = x < -1.0f || x != x ? MPC_NAN : r;
    return x == MPC_INFINITY ? x : r;
}
MPC_FN float mpc_expm11(float x) { /* at most 2 ulp */
    const float c = x < -18.0f ? 0.0f : x > 89.0f ? 89.0f : x;
    const float magic = c * 1.44269504f + 12582912.0f, n = magic - 12582912.0f;
    const int32_t k = (int32_t)(mpc_bits(magic) - 0x4b400000u), h = k >> 1, low = k > 30 ? 30 : k;
    float r = mpc_fma1(n, -0.693359375f, c);
    r = mpc_fma1(n, 2.12194440e-4f, r);
    float p = mpc_exp_terms_(r);
    const float rest = 1.0f - mpc_float((uint32_t)(127 - low) << 23);
    p = mpc_fma1(p * r, r, rest + r);
    p = p * mpc_float((uint32_t)(h + 127) << 23) * mpc_float((uint32_t)(k - h + 127) << 23);
    return x == 0.0f ? x : x < -18.0f ? -1.0f : p;
}
MPC_FN float mpc_with_sign_of(float x, float from) { return mpc_float(mpc_bits(x) | (mpc_bits(from) & 0x80000000u)); }
MPC_FN float mpc_tanh1(float x) { /* at most 2 ulp */
    const float a = mpc_abs1(x), z = x * x;
    float p = mpc_fma1(2.13716272e-3f, z, -8.17170460e-3f);
    p = mpc_fma1(p, z, 2.16986910e-2f);
    p = mpc_fma1(p, z, -5.39464541e-2f);
    p = mpc_fma1(p, z, 1.33332044e-1f);
    p = mpc_fma1(p, z, -3.33333313e-1f);
    const float small = mpc_fma1(p * z, x, x);
    const float big = 1.0f - mpc_div1(2.0f, mpc_exp1(a + a) + 1.0f);
    return a < 0.625f ? small : mpc_with_sign_of(big, x);
}
MPC_FN float mpc_sigmoid1(float x) { /* at most 3 ulp */
    const float e = mpc_exp1(mpc_float(mpc_bits(x) | 0x80000000u)); /* exp(-|x|) */
    return mpc_div1(x < 0.0f ? e : 1.0f, 1.0f + e);
}
MPC_FN float mpc_erf1(float x) { /* at most 2 ulp */
    const float a = mpc_abs1(x), z = x * x;
    float p = mpc_fma1(8.34522507e-5f, z, -8.13743740e-4f);
    p = mpc_fma1(p, z, 5.20063424e-3f);
    p = mpc_fma1(p, z, -2.68592704e-2f);
    p = mpc_fma1(p, z, 1.12836942e-1f);
    p = mpc_fma1(p, z, -3.76126349e-1f);
    p = mpc_fma1(p, z, 1.28379166e-1f);
    const float small = mpc_fma1(p, x, x);
    const float t = a > 4.0f ? 4.0f : a;
    float q = mpc_fma1(1.12314656e-5f, t, -3.22805397e-4f);
    q = mpc_fma1(q, t, 3.64246499e-3f);
    q = mpc_fma1(q, t, -2.37620752e-2f);
    q = mpc_fma1(q, t, 1.06236890e-1f);
    q = mpc_fma1(q, t, 6.35151327e-1f);
    q = mpc_fma1(q, t, 1.12864852f);
    const float big = mpc_with_sign_of(1.0f - mpc_exp1(-(q * t)), x);
    return a < 0.93f || x != x ? small : big;
}
/* Payne and Hanek's reduction of large arguments: *turns quarter turns and the rest. */
MPC_BIG double mpc_reduce_large_(float x, int64_t *turns) {
    static const uint32_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                           0xdb629599, 0x3c439041, 0xfe5163ab, 0};
    const uint32_t u = mpc_bits(x);
    const int e = (int)(u >> 23 & 0xff) - 150, at = e + 30, s = at % 32;
    const uint64_t m = (u & 0x7fffff) | 0x800000;
    uint64_t w[4];
    MPC_UNROLL for (int i = 0; i < 4; i++) w[i] = at / 32 + i < 9 ? two_over_pi[at / 32 + i] : 0;
    const uint64_t hi = w[0] << 32 | w[1], lo = w[2] << 32 | w[3];
    const uint64_t top = s == 0 ? hi : hi << s | lo >> (64 - s), rest = s == 0 ? lo : lo << s;
    const uint64_t r = m * top + (m * (rest >> 32) >> 32);
    const int64_t k = (int64_t)((r + (1ull << 61)) >> 62);
    const double t = (double)(int64_t)(r - ((uint64_t)k << 62)) * (1.57079632679489661923 / 4611686018427387904.0);
    *turns = u >> 31 ? -k : k;
    return u >> 31 ? -t : t;
}
MPC_FN float mpc_sincos_(float a, int quarter) { /* finite */
    const double x = (double)a, k = x * 0.63661977236758134308;
    const double r = (k + 6755399441055744.0) - 6755399441055744.0;
    int64_t n;
    double t;
    if (a >= 1e6f || a <= -1e6f) {
        t = mpc_reduce_large_(a, &n);
    } else {
        n = (int64_t)r;
        t = x - r * 1.57079632673412561417 - r * 6.07710050650619224932e-11;
    }
    n = (n + quarter) & 3;
    const double z = t * t;
    const double s = ((((-2.50521083854417187751e-8 * z + 2.75573192239858906526e-6) * z - 1.98412698412698412698e-4) * z +
                       8.33333333333333333333e-3) *
                          z -
                      1.66666666666666666667e-1) *
                         z * t +
                     t;
    const double c = (((((2.08767569878680989792e-9 * z - 2.75573192239858906526e-7) * z + 2.48015873015873015873e-5) * z -
                        1.38888888888888888889e-3) *
                           z +
                       4.16666666666666666667e-2) *
                          z -
                      0.5) *
                         z +
                     1.0;
    const float v = (float)((n & 1) != 0 ? c : s);
    return (n & 2) != 0 ? -v : v;
}
MPC_BIG float mpc_sin1(float x) { /* in f64, at most 1 ulp; infinity gives NaN */
    if (mpc_abs1(x) < 2e-4f) return x;
    return (mpc_bits(x) & 0x7f800000u) == 0x7f800000u ? MPC_NAN : mpc_sincos_(x, 0);
}
MPC_BIG float mpc_cos1(float x) { return (mpc_bits(x) & 0x7f800000u) == 0x7f800000u ? MPC_NAN : mpc_sincos_(x, 1); }
/* a to the b, through f64: at most 1 ulp. Special cases as in C's pow. */
MPC_FN double mpc_log_d_(double x) { /* positive, normal */
    const int64_t u = (int64_t)(mpc_bits64(x) - 0x3fe6a09e667f3bcdull);
    const double e = (double)(u >> 52);
    const double f = mpc_double(((uint64_t)u & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    const double p =
        ((((((z * (1.0 / 15) + 1.0 / 13) * z + 1.0 / 11) * z + 1.0 / 9) * z + 1.0 / 7) * z + 1.0 / 5) * z + 1.0 / 3) * z;
    return e * 0.693147180559945309417 + 2.0 * (s + s * p);
}
MPC_FN double mpc_exp_d_(double x) { /* |x| < 700 */
    const double n = (x * 1.44269504088896340736 + 6755399441055744.0) - 6755399441055744.0;
    const double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    double p = r / 10.0 + 1.0;
    for (int i = 9; i > 0; i--) p = p * r / (double)i + 1.0;
    return p * mpc_double((uint64_t)((int64_t)n + 1023) << 52);
}
MPC_BIG float mpc_pow1(float a, float b) {
    const float m = mpc_abs1(a), inf = MPC_INFINITY;
    const bool bad = m == 0.0f || mpc_bits(m) >= 0x7f800000u || mpc_bits(mpc_abs1(b)) >= 0x7f800000u;
    double t = mpc_log_d_((double)(bad ? 1.0f : m)) * (double)(bad ? 1.0f : b);
    t = t > 690.0 ? 690.0 : t < -690.0 ? -690.0 : t;
    float r = (float)mpc_exp_d_(t);
    const bool large = mpc_abs1(b) >= 16777216.0f; /* even integers, infinity */
    const int32_t n = large || b != b ? 0 : (int32_t)b;
    const bool is_int = large || (float)n == b, odd = !large && is_int && (n & 1) != 0;
    if (m == 0.0f || m == inf) r = (m == 0.0f) != (b > 0.0f) ? inf : 0.0f;
    if (mpc_abs1(b) == inf) r = m == 1.0f ? 1.0f : (m > 1.0f) != (b < 0.0f) ? inf : 0.0f;
    if (a < 0.0f) r = odd ? -r : is_int || m == inf || mpc_abs1(b) == inf ? r : MPC_NAN;
    if (mpc_bits(a) == 0x80000000u && odd) r = -r;
    if (a != a || b != b) r = MPC_NAN;
    return b == 0.0f || a == 1.0f ? 1.0f : r;
}
MPC_LIFT(mpc_exp, float, float, mpc_exp1(x))
MPC_LIFT(mpc_log, float, float, mpc_log1(x))
MPC_LIFT(mpc_log1p, float, float, mpc_log1p1(x))
MPC_LIFT(mpc_expm1, float, float, mpc_expm11(x))
MPC_LIFT(mpc_round, float, float, mpc_round1(x))
MPC_LIFT(mpc_floor, float, float, mpc_floor1(x))
MPC_LIFT(mpc_ceil, float, float, mpc_ceil1(x))
MPC_LIFT(mpc_tanh, float, float, mpc_tanh1(x))
MPC_LIFT(mpc_sigmoid, float, float, mpc_sigmoid1(x))
MPC_LIFT(mpc_erf, float, float, mpc_erf1(x))
MPC_LIFT(mpc_sin, float, float, mpc_sin1(x))
MPC_LIFT(mpc_cos, float, float, mpc_cos1(x))
MPC_LIFT2(mpc_pow, float, float, mpc_pow1(x, y))

/* --- random numbers: base/rng.h's contract (Philox4x32-10) --- */
MPC_FN uint32_t mpc_mulhi_(uint32_t a, uint32_t b) { return (uint32_t)(mpc_wide_mul(a, b) >> 32); }
/* Elements 4 * block to 4 * block + 3 of a stream. */
MPC_FN mpc_f<4> mpc_uniform_4(uint64_t block, uint64_t seed, uint64_t stream, uint32_t step) {
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)stream, c2 = (uint32_t)(stream >> 32), c3 = step;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32) ^ (uint32_t)(block >> 32);
    MPC_UNROLL for (int round = 0; round < 10; round++) {
        const uint32_t h0 = mpc_mulhi_(c0, 0xd2511f53u), l0 = c0 * 0xd2511f53u;
        const uint32_t h1 = mpc_mulhi_(c2, 0xcd9e8d57u), l1 = c2 * 0xcd9e8d57u;
        c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
        k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
    }
    const uint32_t w[4] = {c0, c1, c2, c3};
    mpc_f<4> r;
    MPC_EACH(4) r.v[i] = (float)(int32_t)(w[i] >> 8) * 5.9604644775390625e-8f;
    return r;
}
/* Elements [first, first + W). */
template <int W> MPC_FN mpc_f<W> mpc_uniform(int64_t first, int64_t seed, int64_t stream, int64_t step) {
    mpc_f<W> r;
    mpc_f<4> four = mpc_uniform_4((uint64_t)first / 4, (uint64_t)seed, (uint64_t)stream, (uint32_t)step);
    if (W % 4 == 0 && first % 4 == 0) {
        MPC_EACH(W) {
            if (i > 0 && i % 4 == 0)
                four = mpc_uniform_4((uint64_t)(first + i) / 4, (uint64_t)seed, (uint64_t)stream, (uint32_t)step);
            r.v[i] = four.v[i % 4];
        }
        return r;
    }
    MPC_EACH(W) {
        const int at = (int)((uint64_t)(first + i) % 4);
        if (i > 0 && at == 0)
            four = mpc_uniform_4((uint64_t)(first + i) / 4, (uint64_t)seed, (uint64_t)stream, (uint32_t)step);
        r.v[i] = at < 2 ? (at == 0 ? four.v[0] : four.v[1]) : at == 2 ? four.v[2] : four.v[3];
    }
    return r;
}
