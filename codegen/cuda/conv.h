/* Convolutions as matrix products whose matrices are never made (implicit GEMM); follows prelude.h in programs that
 * have one. A block computes a tile of BM x BN results of one group and walks the inner extent K in steps of 64 bytes:
 * tiles of both operands come into shared memory in a ring of three stages, are multiplied there, and the f32
 * accumulators leave through shared memory, get bias and relu, and are rounded once.
 *
 *   direction     M (rows)                   N (columns)    K                             A tile    B tile
 *   forward       pixels of y                outs of group  (tap, channel of group)       [m][k]    w  [k][n]
 *   grad input    pixels of x of one phase   channels       (tap of the phase, out)       [m][k]    w  [n][k]
 *   grad weight   (tap, channel of group)    outs           pixels of y in one part       x  [k][m] dy [k][n]
 *
 * With a stride s only every s-th tap meets a pixel of x: pixels of x are ordered by phase (position modulo stride),
 * and a phase walks only its own taps. Places outside the image are zeros, so a NaN or an infinity in the other operand
 * still gives NaN there. K is walked in the same order whatever the tile, so the tile chosen changes no bit; grad
 * weight sums its parts (PART pixels each) in a second launch. f32 multiplies with fused multiply-adds (mpc_fma1),
 * everything else on tensor cores. */
enum { MPC_CONV_FORWARD, MPC_CONV_GRAD_INPUT, MPC_CONV_GRAD_WEIGHT };
/* Operands of tiles: up to BF16. */
enum { MPC_CONV_F32, MPC_CONV_TF32, MPC_CONV_F16, MPC_CONV_BF16, MPC_CONV_F8E4M3, MPC_CONV_F8E5M2 };
/* p[]: the two operands, the result, the bias. n[] of every kernel here; two numbers are height and width. */
enum { MPC_CONV_A, MPC_CONV_B, MPC_CONV_RESULT, MPC_CONV_BIAS };
enum {
    MPC_CONV_IMAGES = 0,
    MPC_CONV_X = 1,
    MPC_CONV_C = 3,
    MPC_CONV_Y = 4,
    MPC_CONV_OC = 6,
    MPC_CONV_KERNEL = 7,
    MPC_CONV_STRIDE = 9,
    MPC_CONV_PAD = 11,
    MPC_CONV_DILATION = 13,
    MPC_CONV_GROUPS = 15,
    MPC_CONV_HAS_BIAS = 16,
    MPC_CONV_RELU = 17,
    MPC_CONV_PART = 18,     /* grad weight: pixels of one part */
    MPC_CONV_BY_IMAGE = 19, /* dividers: by pixels of y in an image, by the width of y, by channels (outs) of a group */
    MPC_CONV_BY_WIDTH = 21,
    MPC_CONV_BY_DEPTH = 23
};

/* --- arithmetic --- */
/* x / d for x below 2^31 by one multiplication (Granlund and Montgomery 1994). */
struct mpc_conv_divider {
    uint32_t mul, shift;
};
MPC_FN mpc_conv_divider mpc_conv_divider_at(const int64_t *n, int at) {
    return mpc_conv_divider{(uint32_t)n[at], (uint32_t)n[at + 1]};
}
MPC_FN int mpc_conv_divide(int x, mpc_conv_divider d) {
    return (int)(((uint32_t)(mpc_wide_mul((uint32_t)x, d.mul) >> 32) + (uint32_t)x) >> d.shift);
}
template <int Type> MPC_FN float mpc_conv_load(const char *base, int64_t at) {
    if constexpr (Type == MPC_CONV_F16) return mpc_f16_value(mpc_load2(base + at * 2));
    else if constexpr (Type == MPC_CONV_BF16) return mpc_bf16_value(mpc_load2(base + at * 2));
    else if constexpr (Type == MPC_CONV_F8E4M3) return mpc_load_f8e4m3<1>(base + at, 1).v[0];
    else if constexpr (Type == MPC_CONV_F8E5M2) return mpc_load_f8e5m2<1>(base + at, 1).v[0];
    else return mpc_float(mpc_load4(base + at * 4));
}
template <int Type> MPC_FN void mpc_conv_store(char *base, int64_t at, float v) {
    if constexpr (Type == MPC_CONV_F16) mpc_store2(base + at * 2, mpc_f16_bits(v));
    else if constexpr (Type == MPC_CONV_BF16) mpc_store2(base + at * 2, mpc_bf16_bits(v));
    else if constexpr (Type == MPC_CONV_F8E4M3) mpc_store_f8e4m3<1>(base + at, mpc_round_f8e4m3(mpc_splat<1>(v)), 1);
    else if constexpr (Type == MPC_CONV_F8E5M2) mpc_store_f8e5m2<1>(base + at, mpc_round_f8e5m2(mpc_splat<1>(v)), 1);
    else mpc_store4(base + at * 4, mpc_bits(v));
}
template <int Type> MPC_FN uint32_t mpc_conv_pair(float lo, float hi) {
    if constexpr (Type == MPC_CONV_F16) return mpc_f16_pair(lo, hi);
    else return mpc_bf16_pair(lo, hi);
}
/* 16 bytes of results from v: 4 f32 or 8 of 16 bits. */
template <int Type> MPC_FN void mpc_conv_store16(char *base, int64_t at, const float *v) {
    mpc_16 out;
    if constexpr (Type == MPC_CONV_F32) {
        MPC_UNROLL for (int i = 0; i < 4; i++) out.w[i] = mpc_bits(v[i]);
        mpc_store16(base + at * 4, out);
    } else {
        MPC_UNROLL for (int i = 0; i < 4; i++) out.w[i] = mpc_conv_pair<Type>(v[2 * i], v[2 * i + 1]);
        mpc_store16(base + at * 2, out);
    }
}
MPC_FN float mpc_conv_finish(float v, const float *bias, bool relu) {
    if (bias != nullptr) v = v + *bias;
    return relu && v <= 0.0f ? 0.0f : v; /* NaN stays */
}

/* --- where things are --- */
/* One axis (height or width): result position j of a phase is at first + j * step; at its t-th tap, kernel position
 * tap0 + t * tap_step, it meets source position base + j * mul + t * tap, if that is in [0, source). */
struct mpc_conv_axis {
    int rows, first, step, result, source;
    int mul, base, tap;
    int taps, tap0, tap_step;
};
MPC_FN mpc_conv_axis mpc_conv_forward_axis(const int64_t *n, int i) {
    mpc_conv_axis a;
    a.rows = a.result = (int)n[MPC_CONV_Y + i];
    a.source = (int)n[MPC_CONV_X + i];
    a.first = a.tap0 = 0;
    a.step = a.tap_step = 1;
    a.mul = (int)n[MPC_CONV_STRIDE + i];
    a.base = -(int)n[MPC_CONV_PAD + i];
    a.tap = (int)n[MPC_CONV_DILATION + i];
    a.taps = (int)n[MPC_CONV_KERNEL + i];
    return a;
}
MPC_FN mpc_conv_axis mpc_conv_gradient_axis(const int64_t *n, int i, int phase) {
    const int stride = (int)n[MPC_CONV_STRIDE + i], dilation = (int)n[MPC_CONV_DILATION + i];
    const int at = phase + (int)n[MPC_CONV_PAD + i], kernel = (int)n[MPC_CONV_KERNEL + i];
    mpc_conv_axis a;
    a.result = (int)n[MPC_CONV_X + i];
    a.source = (int)n[MPC_CONV_Y + i];
    a.rows = phase < a.result ? (a.result - phase + stride - 1) / stride : 0;
    a.first = phase;
    a.step = stride;
    a.tap_step = 1;
    while (a.tap_step * dilation % stride != 0) a.tap_step++;
    a.tap0 = 0;
    while (a.tap0 < a.tap_step && (at - a.tap0 * dilation) % stride != 0) a.tap0++;
    const bool meets = a.tap0 < a.tap_step && a.tap0 < kernel;
    a.taps = meets ? (kernel - a.tap0 + a.tap_step - 1) / a.tap_step : 0;
    a.mul = 1;
    a.base = (at - a.tap0 * dilation) / stride;
    a.tap = -(a.tap_step * dilation / stride);
    return a;
}

/* What one block works on. */
struct mpc_conv_job {
    const char *a, *b;
    mpc_conv_axis y, x;
    int m0, n0, k0, rows, columns, k_end; /* of the tile; extents (k_end: of the part) */
    int depth;                            /* channels (outs) of one tap: k = tap * depth + channel */
    int a_channels, a_first;              /* of all groups; first of this one */
    int b_channels, b_first;
    int kernel_x;
    mpc_conv_divider by_image, by_width, by_depth;
};

/* --- the shape of a tile --- */
/* VA, VB, VO: bytes of one access to the operands and the result: 16, 4 or 2. */
template <int Direction_, int Type_, int Out_, int BM_, int BN_, int VA_, int VB_, int VO_> struct mpc_conv_tile {
    static constexpr int Direction = Direction_, Type = Type_, Out = Out_;
    static constexpr int BM = BM_, BN = BN_, VA = VA_, VB = VB_, VO = VO_;
    static constexpr int Size = Type >= MPC_CONV_F16 ? 2 : 4; /* bytes of an element */
    static constexpr int BK = 64 / Size;                      /* depth of a stage */
    static constexpr int Threads = BM * BN > 128 * 64 ? 256 : 128, Stages = 3;
    static constexpr bool RowsOfA = Direction != MPC_CONV_GRAD_WEIGHT, RowsOfB = Direction == MPC_CONV_GRAD_INPUT;
    /* Bytes from one line of a tile to the next: a pad that spreads fragments over the banks. */
    static constexpr int Pad = Size == 2 ? 16 : 32;
    static constexpr int PitchA = RowsOfA ? 64 + 16 : BM * Size + Pad, PitchB = RowsOfB ? 64 + 16 : BN * Size + Pad;
    static constexpr int BytesA = PitchA * (RowsOfA ? BM : BK), BytesB = PitchB * (RowsOfB ? BN : BK);
    static constexpr int StageBytes = BytesA + BytesB;
    /* Results leave in strips of 64 rows of f32. */
    static constexpr int Strip = 64, StripPitch = BN + 4, StripBytes = Strip * StripPitch * 4;
    static constexpr int Ring = Stages * StageBytes > StripBytes ? Stages * StageBytes : StripBytes;
    static constexpr int Shared = Ring + BM * 16; /* after the ring: a table of rows */
    /* Warps lie in a grid; each multiplies WM x WN in fragments of 16 x 8. */
    static constexpr int WM = BM == 128 && BN >= 64 ? 64 : 32, WN = BM == 64 && BN == 32 ? 16 : 32;
    static constexpr int WarpsN = BN / WN, MI = WM / 16, NI = WN / 8;
    /* f32: threads lie in a grid of 16 rows, each has TM x TN results. */
    static constexpr int TM = BM / 16, ThreadsN = Threads / 16, TN = BN / ThreadsN;
    static constexpr int Results = BM * BN / Threads;
};

/* --- tiles into shared memory --- */
template <int Bytes> MPC_FN void mpc_conv_copy(char *shared, const char *from, const char *valid, bool inside) {
    if constexpr (Bytes == 16) mpc_copy_async16(shared, inside ? from : valid, inside ? 16 : 0);
    else if constexpr (Bytes == 4) mpc_copy_async4(shared, inside ? from : valid, inside ? 4 : 0);
    else mpc_store2(shared, inside ? mpc_load2(from) : (uint16_t)0);
}
/* A row of the tile is a pixel of the result: what the loops over taps need of it. */
template <class S> MPC_FN void mpc_conv_fill_rows(const mpc_conv_job &j, char *table) {
    const int per_image = j.y.rows * j.x.rows;
    for (int r = mpc_thread(); r < S::BM; r += S::Threads) {
        const int m = j.m0 + r;
        /* First source pixel of the image, y, x; the result's pixel. */
        mpc_16 row = {{0, (uint32_t)(-(1 << 30)), 0, (uint32_t)-1}};
        if (m < j.rows) {
            const int image = m / per_image, in_image = m - image * per_image;
            const int py = in_image / j.x.rows, px = in_image - py * j.x.rows;
            row.w[0] = (uint32_t)(image * j.y.source * j.x.source);
            row.w[1] = (uint32_t)(py * j.y.mul + j.y.base);
            row.w[2] = (uint32_t)(px * j.x.mul + j.x.base);
            const int y = j.y.first + py * j.y.step, x = j.x.first + px * j.x.step;
            row.w[3] = (uint32_t)((image * j.y.result + y) * j.x.result + x);
        }
        mpc_store16(table + r * 16, row);
    }
}
/* [m][k]: pixels of the result, each at the source pixel that (tap, channel) k names. */
template <class S> MPC_FN void mpc_conv_load_pixels(const mpc_conv_job &j, char *tile, const char *table, int k0) {
    constexpr int E = S::VA / S::Size, Per = S::BK / E;
    const int kc = mpc_thread() % Per, k = k0 + kc * E;
    const int tap = mpc_conv_divide(k, j.by_depth), channel = k - tap * j.depth;
    const int ty = (int)((uint32_t)tap / (uint32_t)j.x.taps), tx = tap - ty * j.x.taps;
    const int dy = ty * j.y.tap, dx = tx * j.x.tap;
    MPC_UNROLL for (int i = 0; i < S::BM * Per / S::Threads; i++) {
        const int r = mpc_thread() / Per + i * (S::Threads / Per);
        const mpc_16 row = mpc_load16(table + r * 16);
        const int y = (int)row.w[1] + dy, x = (int)row.w[2] + dx;
        const bool inside = k < j.k_end && (uint32_t)y < (uint32_t)j.y.source && (uint32_t)x < (uint32_t)j.x.source;
        const int64_t at = (int64_t)((int)row.w[0] + y * j.x.source + x) * j.a_channels + j.a_first + channel;
        mpc_conv_copy<S::VA>(tile + r * S::PitchA + kc * S::VA, j.a + at * S::Size, j.a, inside);
    }
}
/* [k][n]: rows of a dense matrix: weights by (tap, channel), or dy by pixel. */
template <class S> MPC_FN void mpc_conv_load_lines(const mpc_conv_job &j, char *tile, int k0) {
    constexpr int E = S::VB / S::Size, Per = S::BN / E;
    const int nc = mpc_thread() % Per, n = j.n0 + nc * E;
    MPC_UNROLL for (int i = 0; i < S::BK * Per / S::Threads; i++) {
        const int r = mpc_thread() / Per + i * (S::Threads / Per), k = k0 + r;
        const int64_t at = (int64_t)k * j.b_channels + j.b_first + n;
        mpc_conv_copy<S::VB>(tile + r * S::PitchB + nc * S::VB, j.b + at * S::Size, j.b, k < j.k_end && n < j.columns);
    }
}
/* [n][k]: weights of channel n at (tap of the phase, out) k. */
template <class S> MPC_FN void mpc_conv_load_weights(const mpc_conv_job &j, char *tile, int k0) {
    constexpr int E = S::VB / S::Size, Per = S::BK / E;
    const int kc = mpc_thread() % Per, k = k0 + kc * E;
    const int tap = mpc_conv_divide(k, j.by_depth), out = k - tap * j.depth;
    const int ty = (int)((uint32_t)tap / (uint32_t)j.x.taps), tx = tap - ty * j.x.taps;
    const int at_tap = (j.y.tap0 + ty * j.y.tap_step) * j.kernel_x + j.x.tap0 + tx * j.x.tap_step;
    MPC_UNROLL for (int i = 0; i < S::BN * Per / S::Threads; i++) {
        const int r = mpc_thread() / Per + i * (S::Threads / Per), n = j.n0 + r;
        const int64_t at = (int64_t)(at_tap * j.columns + n) * j.b_channels + j.b_first + out;
        mpc_conv_copy<S::VB>(tile + r * S::PitchB + kc * S::VB, j.b + at * S::Size, j.b, k < j.k_end && n < j.columns);
    }
}
/* [k][m]: at pixel k of y, the source pixel and channel that row m, a (tap, channel), names. */
template <class S> MPC_FN void mpc_conv_load_patches(const mpc_conv_job &j, char *tile, int k0) {
    constexpr int E = S::VA / S::Size, Per = S::BM / E;
    const int mc = mpc_thread() % Per, m = j.m0 + mc * E;
    const int tap = mpc_conv_divide(m, j.by_depth), channel = m - tap * j.depth;
    const int ty = (int)((uint32_t)tap / (uint32_t)j.kernel_x), tx = tap - ty * j.kernel_x;
    const int dy = ty * j.y.tap + j.y.base, dx = tx * j.x.tap + j.x.base;
    MPC_UNROLL for (int i = 0; i < S::BK * Per / S::Threads; i++) {
        const int r = mpc_thread() / Per + i * (S::Threads / Per), k = k0 + r;
        const int image = mpc_conv_divide(k, j.by_image), in_image = k - image * (j.y.rows * j.x.rows);
        const int py = mpc_conv_divide(in_image, j.by_width), px = in_image - py * j.x.rows;
        const int y = py * j.y.mul + dy, x = px * j.x.mul + dx;
        const bool on_image = (uint32_t)y < (uint32_t)j.y.source && (uint32_t)x < (uint32_t)j.x.source;
        const bool inside = k < j.k_end && m < j.rows && on_image;
        const int64_t at = (int64_t)((image * j.y.source + y) * j.x.source + x) * j.a_channels + j.a_first + channel;
        mpc_conv_copy<S::VA>(tile + r * S::PitchA + mc * S::VA, j.a + at * S::Size, j.a, inside);
    }
}
template <class S> MPC_FN void mpc_conv_load_stage(const mpc_conv_job &j, char *stage, const char *table, int k0) {
    if constexpr (S::RowsOfA) mpc_conv_load_pixels<S>(j, stage, table, k0);
    else mpc_conv_load_patches<S>(j, stage, k0);
    if constexpr (S::RowsOfB) mpc_conv_load_weights<S>(j, stage + S::BytesA, k0);
    else mpc_conv_load_lines<S>(j, stage + S::BytesA, k0);
}

/* --- multiplication on tensor cores: 32 bytes of k at a time, two steps in a stage --- */
template <class S> MPC_FN void mpc_conv_fragment_a(uint32_t a[4], const char *tile, int m, int step) {
    const int lane = mpc_thread() % 32;
    if constexpr (S::RowsOfA) { /* matrices: rows 0-7, 8-15, then the same in the next 16 bytes of k */
        mpc_ldmatrix4(a, tile + (m + lane % 16) * S::PitchA + step * 32 + lane / 16 * 16);
    } else if constexpr (S::Size == 2) {
        const int k = step * 16 + lane % 8 + lane / 16 * 8;
        mpc_ldmatrix4_transposed(a, tile + k * S::PitchA + (m + lane / 8 % 2 * 8) * 2);
    } else {
        MPC_UNROLL for (int i = 0; i < 4; i++)
            a[i] = mpc_load4(tile + (step * 8 + lane % 4 + i / 2 * 4) * S::PitchA + (m + lane / 4 + i % 2 * 8) * 4);
    }
    if constexpr (S::Type == MPC_CONV_TF32) {
        MPC_UNROLL for (int i = 0; i < 4; i++) a[i] = mpc_tf32_bits(a[i]);
    }
}
/* Two fragments, of columns n and n + 8. */
template <class S> MPC_FN void mpc_conv_fragment_b(uint32_t b[4], const char *tile, int n, int step) {
    const int lane = mpc_thread() % 32;
    if constexpr (S::RowsOfB) {
        mpc_ldmatrix4(b, tile + (n + lane % 8 + lane / 16 * 8) * S::PitchB + step * 32 + lane / 8 % 2 * 16);
    } else if constexpr (S::Size == 2) {
        mpc_ldmatrix4_transposed(b, tile + (step * 16 + lane % 16) * S::PitchB + (n + lane / 16 * 8) * 2);
    } else {
        MPC_UNROLL for (int i = 0; i < 4; i++)
            b[i] = mpc_load4(tile + (step * 8 + lane % 4 + i % 2 * 4) * S::PitchB + (n + lane / 4 + i / 2 * 8) * 4);
    }
    if constexpr (S::Type == MPC_CONV_TF32) {
        MPC_UNROLL for (int i = 0; i < 4; i++) b[i] = mpc_tf32_bits(b[i]);
    }
}
template <int Type> MPC_FN void mpc_conv_mma(float *d, const uint32_t *a, const uint32_t *b) {
    if constexpr (Type == MPC_CONV_F16) mpc_mma_f16(d, a, b);
    else if constexpr (Type == MPC_CONV_BF16) mpc_mma_bf16(d, a, b);
    else mpc_mma_tf32(d, a, b);
}
template <class S> MPC_FN void mpc_conv_multiply_warp(float *acc, const char *stage) {
    const int warp = mpc_thread() / 32, m0 = warp / S::WarpsN * S::WM, n0 = warp % S::WarpsN * S::WN;
    MPC_UNROLL for (int step = 0; step < 2; step++) {
        uint32_t a[S::MI][4], b[S::NI / 2][4];
        MPC_UNROLL for (int i = 0; i < S::MI; i++) mpc_conv_fragment_a<S>(a[i], stage, m0 + i * 16, step);
        MPC_UNROLL for (int i = 0; i < S::NI / 2; i++)
            mpc_conv_fragment_b<S>(b[i], stage + S::BytesA, n0 + i * 16, step);
        MPC_UNROLL for (int i = 0; i < S::MI; i++) {
            MPC_UNROLL for (int k = 0; k < S::NI; k++)
                mpc_conv_mma<S::Type>(acc + (i * S::NI + k) * 4, a[i], b[k / 2] + k % 2 * 2);
        }
    }
}

/* --- multiplication in f32: each thread TM x TN results, four steps of k from 16-byte accesses --- */
/* Row (column) of the i-th result of thread t of `threads`: lines of k are read by 4 neighbours, else interleaved. */
template <bool Rows> MPC_FN int mpc_conv_place(int i, int t, int threads) {
    return Rows ? t + i * threads : t * 4 + i % 4 + i / 4 * (threads * 4);
}
template <bool Rows, int Count, int Pitch>
MPC_FN void mpc_conv_read(float v[Count][4], const char *tile, int t, int threads, int k) {
    if constexpr (Rows) {
        MPC_UNROLL for (int i = 0; i < Count; i++) {
            const mpc_16 line = mpc_load16(tile + (t + i * threads) * Pitch + k * 4);
            MPC_UNROLL for (int q = 0; q < 4; q++) v[i][q] = mpc_float(line.w[q]);
        }
    } else {
        MPC_UNROLL for (int q = 0; q < 4; q++) {
            MPC_UNROLL for (int i = 0; i < Count; i += 4) {
                const mpc_16 line = mpc_load16(tile + (k + q) * Pitch + (t * 4 + i * threads) * 4);
                MPC_UNROLL for (int e = 0; e < 4; e++) v[i + e][q] = mpc_float(line.w[e]);
            }
        }
    }
}
template <class S> MPC_FN void mpc_conv_multiply_f32(float *acc, const char *stage) {
    const int tm = mpc_thread() % 16, tn = mpc_thread() / 16;
    MPC_UNROLL for (int k = 0; k < S::BK; k += 4) {
        float a[S::TM][4], b[S::TN][4];
        mpc_conv_read<S::RowsOfA, S::TM, S::PitchA>(a, stage, tm, 16, k);
        mpc_conv_read<S::RowsOfB, S::TN, S::PitchB>(b, stage + S::BytesA, tn, S::ThreadsN, k);
        MPC_UNROLL for (int q = 0; q < 4; q++) {
            MPC_UNROLL for (int i = 0; i < S::TM; i++) {
                MPC_UNROLL for (int e = 0; e < S::TN; e++)
                    acc[i * S::TN + e] = mpc_fma1(a[i][q], b[e][q], acc[i * S::TN + e]);
            }
        }
    }
}

/* --- results --- */
/* Accumulators of rows [first, first + Strip) as f32 in shared memory. */
template <class S> MPC_FN void mpc_conv_spill_strip(const float *acc, char *strip, int first) {
    if constexpr (S::Type == MPC_CONV_F32) {
        const int tm = mpc_thread() % 16, tn = mpc_thread() / 16;
        MPC_UNROLL for (int i = 0; i < S::TM; i++) {
            const int m = mpc_conv_place<S::RowsOfA>(i, tm, 16) - first;
            if (m < 0 || m >= S::Strip) continue;
            MPC_UNROLL for (int e = 0; e < S::TN; e++)
                mpc_store4(strip + (m * S::StripPitch + mpc_conv_place<S::RowsOfB>(e, tn, S::ThreadsN)) * 4,
                           mpc_bits(acc[i * S::TN + e]));
        }
    } else {
        const int lane = mpc_thread() % 32, warp = mpc_thread() / 32;
        const int m0 = warp / S::WarpsN * S::WM + lane / 4 - first, n0 = warp % S::WarpsN * S::WN + lane % 4 * 2;
        MPC_UNROLL for (int i = 0; i < S::MI * S::NI * 2; i++) {
            const int m = m0 + i / (S::NI * 2) * 16 + i % 2 * 8, n = n0 + i / 2 % S::NI * 8;
            const float *d = acc + i * 2;
            if (m >= 0 && m < S::Strip)
                mpc_store8(strip + (m * S::StripPitch + n) * 4, mpc_8{{mpc_bits(d[0]), mpc_bits(d[1])}});
        }
    }
}
struct mpc_conv_result {
    char *to;
    const float *bias; /* of this group, or null */
    bool relu;
    int channels, first; /* of all groups; first of this one */
    int64_t base;        /* elements before this part */
};
template <class S>
MPC_FN void mpc_conv_store_strip(const mpc_conv_job &j, const mpc_conv_result &o, const char *strip, const char *table,
                                 int first) {
    constexpr int E = S::VO == 16 ? 16 / (S::Out >= MPC_CONV_F16 ? 2 : 4) : 1, Per = S::BN / E;
    for (int i = mpc_thread(); i < S::Strip * Per; i += S::Threads) {
        const int r = i / Per, c = i % Per * E, n = j.n0 + c;
        int row = j.m0 + first + r;
        if constexpr (S::RowsOfA) row = (int)mpc_load4(table + (first + r) * 16 + 12);
        else row = row < j.rows ? row : -1;
        if (row < 0 || n >= j.columns) continue;
        const int64_t at = o.base + (int64_t)row * o.channels + o.first + n;
        float v[E];
        MPC_UNROLL for (int e = 0; e < E; e++)
            v[e] = mpc_conv_finish(mpc_float(mpc_load4(strip + (r * S::StripPitch + c + e) * 4)),
                                   o.bias != nullptr ? o.bias + n + e : nullptr, o.relu);
        if constexpr (E > 1) mpc_conv_store16<S::Out>(o.to, at, v);
        else mpc_conv_store<S::Out>(o.to, at, v[0]);
    }
}

/* --- a block --- */
template <class S> MPC_FN void mpc_conv_run(const mpc_conv_job &j, const mpc_conv_result &o) {
    char *const shared = mpc_shared(), *const table = shared + S::Ring;
    const int steps = (j.k_end - j.k0 + S::BK - 1) / S::BK;
    float acc[S::Results];
    MPC_UNROLL for (int i = 0; i < S::Results; i++) acc[i] = 0.0f;
    if constexpr (S::RowsOfA) {
        mpc_conv_fill_rows<S>(j, table);
        mpc_barrier();
    }
    for (int s = 0; s < S::Stages - 1; s++) {
        if (s < steps) mpc_conv_load_stage<S>(j, shared + s * S::StageBytes, table, j.k0 + s * S::BK);
        mpc_copy_async_commit();
    }
    int stage = 0, next = S::Stages - 1;
    for (int s = 0; s < steps; s++) {
        mpc_copy_async_wait<S::Stages - 2>();
        mpc_barrier(); /* step s is there, and nobody reads the stage of step s - 1 any more */
        if (s + S::Stages - 1 < steps)
            mpc_conv_load_stage<S>(j, shared + next * S::StageBytes, table, j.k0 + (s + S::Stages - 1) * S::BK);
        mpc_copy_async_commit();
        if constexpr (S::Type == MPC_CONV_F32) mpc_conv_multiply_f32<S>(acc, shared + stage * S::StageBytes);
        else mpc_conv_multiply_warp<S>(acc, shared + stage * S::StageBytes);
        stage = stage + 1 < S::Stages ? stage + 1 : 0;
        next = next + 1 < S::Stages ? next + 1 : 0;
    }
    mpc_copy_async_wait<0>();
    MPC_UNROLL for (int first = 0; first < S::BM; first += S::Strip) {
        mpc_barrier();
        mpc_conv_spill_strip<S>(acc, shared, first);
        mpc_barrier();
        mpc_conv_store_strip<S>(j, o, shared, table, first);
    }
}
/* What is the same for all blocks of a group and phase (part). */
template <class S> MPC_FN mpc_conv_job mpc_conv_begin(void *const *p, const int64_t *n, int group, int outer) {
    constexpr bool input = S::Direction == MPC_CONV_GRAD_INPUT;
    const int groups = (int)n[MPC_CONV_GROUPS], c = (int)n[MPC_CONV_C], oc = (int)n[MPC_CONV_OC];
    const int stride_x = (int)n[MPC_CONV_STRIDE + 1];
    mpc_conv_job j;
    if constexpr (input) {
        j.y = mpc_conv_gradient_axis(n, 0, outer / stride_x);
        j.x = mpc_conv_gradient_axis(n, 1, outer % stride_x);
    } else {
        j.y = mpc_conv_forward_axis(n, 0);
        j.x = mpc_conv_forward_axis(n, 1);
    }
    j.a = (const char *)p[MPC_CONV_A];
    j.b = (const char *)p[MPC_CONV_B];
    j.columns = (input ? c : oc) / groups;
    j.depth = (input ? oc : c) / groups;
    j.a_channels = input ? oc : c;
    j.a_first = group * j.depth;
    j.b_channels = oc;
    j.b_first = group * (input ? j.depth : j.columns);
    j.kernel_x = (int)n[MPC_CONV_KERNEL + 1];
    j.by_image = mpc_conv_divider_at(n, MPC_CONV_BY_IMAGE);
    j.by_width = mpc_conv_divider_at(n, MPC_CONV_BY_WIDTH);
    j.by_depth = mpc_conv_divider_at(n, MPC_CONV_BY_DEPTH);
    const int pixels = (int)n[MPC_CONV_IMAGES] * j.y.rows * j.x.rows;
    if constexpr (S::RowsOfA) {
        j.rows = pixels;
        j.k0 = 0;
        j.k_end = j.y.taps * j.x.taps * j.depth;
    } else {
        const int part = (int)n[MPC_CONV_PART];
        j.rows = (int)n[MPC_CONV_KERNEL] * j.kernel_x * j.depth;
        j.k0 = outer * part;
        j.k_end = pixels - j.k0 < part ? pixels : j.k0 + part;
    }
    return j;
}
/* Rows of the largest phase. */
template <class S> MPC_FN int mpc_conv_most_rows(const int64_t *n) {
    if constexpr (S::Direction == MPC_CONV_GRAD_WEIGHT) {
        return (int)(n[MPC_CONV_KERNEL] * n[MPC_CONV_KERNEL + 1] * (n[MPC_CONV_C] / n[MPC_CONV_GROUPS]));
    } else if constexpr (S::Direction == MPC_CONV_FORWARD) {
        return (int)(n[MPC_CONV_IMAGES] * n[MPC_CONV_Y] * n[MPC_CONV_Y + 1]);
    } else {
        const int64_t stride_y = n[MPC_CONV_STRIDE], stride_x = n[MPC_CONV_STRIDE + 1];
        const int64_t y = (n[MPC_CONV_X] + stride_y - 1) / stride_y, x = (n[MPC_CONV_X + 1] + stride_x - 1) / stride_x;
        return (int)(n[MPC_CONV_IMAGES] * y * x);
    }
}
/* Blocks: columns fastest, then rows, groups, and phases or parts. */
template <class S> MPC_FN void mpc_conv(void *const *p, const int64_t *n, int block) {
    constexpr bool forward = S::Direction == MPC_CONV_FORWARD, input = S::Direction == MPC_CONV_GRAD_INPUT;
    const int groups = (int)n[MPC_CONV_GROUPS], channels = (int)n[input ? MPC_CONV_C : MPC_CONV_OC];
    const int tiles_n = (channels / groups + S::BN - 1) / S::BN;
    const int tiles_m = (mpc_conv_most_rows<S>(n) + S::BM - 1) / S::BM;
    const int row_of_tiles = block / tiles_n, group_and_outer = row_of_tiles / tiles_m;
    const int group = group_and_outer % groups, outer = group_and_outer / groups;
    mpc_conv_job j = mpc_conv_begin<S>(p, n, group, outer);
    j.n0 = (block - row_of_tiles * tiles_n) * S::BN;
    j.m0 = (row_of_tiles - group_and_outer * tiles_m) * S::BM;
    if (j.m0 >= j.rows) return; /* a phase with fewer pixels */
    mpc_conv_result o;
    o.to = (char *)p[MPC_CONV_RESULT];
    o.channels = channels;
    o.first = group * j.columns;
    o.base = S::RowsOfA ? 0 : (int64_t)outer * j.rows * channels;
    o.bias = forward && n[MPC_CONV_HAS_BIAS] != 0 ? (const float *)p[MPC_CONV_BIAS] + o.first : nullptr;
    o.relu = forward && n[MPC_CONV_RELU] != 0;
    mpc_conv_run<S>(j, o);
}

/* --- one result a thread, for groups too narrow to be tiles of a matrix, operands of two formats, or of 8 bits --- */
struct mpc_conv_operands {
    const char *a, *b;
    int depth, weight_step; /* terms of a tap; from one weight to the next */
    int a_channels;
};
template <int TypeA, int TypeB>
MPC_FN float mpc_conv_dot(const mpc_conv_operands &o, int64_t a, int64_t b, float sum) {
    for (int k = 0; k < o.depth; k++)
        sum = mpc_fma1(mpc_conv_load<TypeA>(o.a, a + k), mpc_conv_load<TypeB>(o.b, b + (int64_t)k * o.weight_step),
                       sum);
    return sum;
}
/* Forward and grad input. */
template <int Direction, int TypeA, int TypeB, int Out>
MPC_FN void mpc_conv_direct(void *const *p, const int64_t *n, int block) {
    constexpr bool input = Direction == MPC_CONV_GRAD_INPUT;
    const int groups = (int)n[MPC_CONV_GROUPS], c = (int)n[MPC_CONV_C], oc = (int)n[MPC_CONV_OC];
    const int64_t *const size = n + (input ? MPC_CONV_X : MPC_CONV_Y);
    const int channels = input ? c : oc, height = (int)size[0], width = (int)size[1];
    const int64_t result = (int64_t)block * mpc_threads() + mpc_thread(), pixel = result / channels;
    if (pixel >= n[MPC_CONV_IMAGES] * height * width) return;
    const int channel = (int)(result - pixel * channels), group = channel / (channels / groups);
    const int image = (int)pixel / (height * width), in_image = (int)pixel - image * (height * width);
    const int py = in_image / width, px = in_image - py * width;
    const int stride_y = (int)n[MPC_CONV_STRIDE], stride_x = (int)n[MPC_CONV_STRIDE + 1];
    const mpc_conv_axis y = input ? mpc_conv_gradient_axis(n, 0, py % stride_y) : mpc_conv_forward_axis(n, 0);
    const mpc_conv_axis x = input ? mpc_conv_gradient_axis(n, 1, px % stride_x) : mpc_conv_forward_axis(n, 1);
    mpc_conv_operands o;
    o.a = (const char *)p[MPC_CONV_A];
    o.b = (const char *)p[MPC_CONV_B];
    o.a_channels = input ? oc : c;
    o.depth = o.a_channels / groups;
    o.weight_step = input ? 1 : oc;
    const int y0 = (input ? py / stride_y : py) * y.mul + y.base, x0 = (input ? px / stride_x : px) * x.mul + x.base;
    float sum = 0.0f;
    for (int ty = 0; ty < y.taps; ty++) {
        for (int tx = 0; tx < x.taps; tx++) {
            const int sy = y0 + ty * y.tap, sx = x0 + tx * x.tap;
            if ((uint32_t)sy >= (uint32_t)y.source || (uint32_t)sx >= (uint32_t)x.source) continue;
            const int tap = (y.tap0 + ty * y.tap_step) * (int)n[MPC_CONV_KERNEL + 1] + x.tap0 + tx * x.tap_step;
            const int64_t a = (int64_t)((image * y.source + sy) * x.source + sx) * o.a_channels + group * o.depth;
            const int64_t b = input ? ((int64_t)tap * (c / groups) + channel % (c / groups)) * oc + group * o.depth
                                    : (int64_t)tap * o.depth * oc + channel;
            sum = mpc_conv_dot<TypeA, TypeB>(o, a, b, sum);
        }
    }
    const bool bias = !input && n[MPC_CONV_HAS_BIAS] != 0;
    const bool relu = !input && n[MPC_CONV_RELU] != 0;
    sum = mpc_conv_finish(sum, bias ? (const float *)p[MPC_CONV_BIAS] + channel : nullptr, relu);
    mpc_conv_store<Out>((char *)p[MPC_CONV_RESULT], result, sum);
}
/* Grad weight: 32 neighbouring weights by 8 lanes of pixels, which are added up in order; 1 KiB of shared memory. */
template <int TypeA, int TypeB, int Out>
MPC_FN void mpc_conv_direct_weight(void *const *p, const int64_t *n, int block) {
    const int groups = (int)n[MPC_CONV_GROUPS], depth = (int)n[MPC_CONV_C] / groups, oc = (int)n[MPC_CONV_OC];
    const int kernel_x = (int)n[MPC_CONV_KERNEL + 1], lane = mpc_thread() / 32;
    const int64_t weights = n[MPC_CONV_KERNEL] * kernel_x * depth * oc, tiles = (weights + 31) / 32;
    const int64_t part = block / tiles, weight = block % tiles * 32 + mpc_thread() % 32;
    const mpc_conv_axis y = mpc_conv_forward_axis(n, 0), x = mpc_conv_forward_axis(n, 1);
    const int pixels = (int)n[MPC_CONV_IMAGES] * y.rows * x.rows, begin = (int)(part * n[MPC_CONV_PART]);
    const int end = pixels < begin + (int)n[MPC_CONV_PART] ? pixels : begin + (int)n[MPC_CONV_PART];
    const int row = (int)(weight / oc), out = (int)(weight - (int64_t)row * oc), tap = row / depth;
    const int channel = out / (oc / groups) * depth + row % depth;
    const int dy = tap / kernel_x * y.tap + y.base, dx = tap % kernel_x * x.tap + x.base;
    const mpc_conv_divider by_image = mpc_conv_divider_at(n, MPC_CONV_BY_IMAGE);
    const mpc_conv_divider by_width = mpc_conv_divider_at(n, MPC_CONV_BY_WIDTH);
    float sum = 0.0f;
    for (int k = begin + lane; k < end && weight < weights; k += 8) {
        const int image = mpc_conv_divide(k, by_image), in_image = k - image * (y.rows * x.rows);
        const int py = mpc_conv_divide(in_image, by_width), px = in_image - py * x.rows;
        const int sy = py * y.mul + dy, sx = px * x.mul + dx;
        if ((uint32_t)sy >= (uint32_t)y.source || (uint32_t)sx >= (uint32_t)x.source) continue;
        const int64_t a = (int64_t)((image * y.source + sy) * x.source + sx) * (depth * groups) + channel;
        sum = mpc_fma1(mpc_conv_load<TypeA>((const char *)p[MPC_CONV_A], a),
                       mpc_conv_load<TypeB>((const char *)p[MPC_CONV_B], (int64_t)k * oc + out), sum);
    }
    char *const sums = mpc_shared();
    mpc_store4(sums + mpc_thread() * 4, mpc_bits(sum));
    mpc_barrier();
    if (lane != 0 || weight >= weights) return;
    for (int i = 1; i < 8; i++) sum = sum + mpc_float(mpc_load4(sums + (i * 32 + mpc_thread()) * 4));
    mpc_conv_store<Out>((char *)p[MPC_CONV_RESULT], part * weights + weight, sum);
}
