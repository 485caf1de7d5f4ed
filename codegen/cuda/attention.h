/* Attention as one kernel forward and one backward (codegen/cuda/attention_cuda.c). A block of 4 warps owns 64 rows of
 * one head, 16 a warp, and walks over tiles of the other side in shared memory; scores live in registers only, as
 * fragments: thread (g, q) = (lane / 4, lane % 4) has of each 16 x 8 tile the rows g, g + 8 and the columns 2q, 2q + 1.
 * Sums run in the order of the keys, so a row's bits depend on nothing but the row. A hidden key is chosen away, never
 * added up; padding is rows of zeros. */
enum { MPC_AT_THREADS = 128, MPC_AT_ROWS = 64 };

/* --- what the formats differ in. `scores` adds a b^T of 16 rows of a tile and 8 N rows of another, `update` adds p v
 * of 16 x 8 N scores, rounded to the format, and 8 N rows of a tile. Tiles are DP wide; a row of a tile takes `pitch`
 * bytes, 16 more than it holds, so that 8 rows lie in different banks. --- */
MPC_FN int mpc_at_lane() { return mpc_thread() & 31; }

struct mpc_at_bf16 {
    enum { size = 2 };
    MPC_FN float value(const void *p) { return mpc_bf16_value(mpc_load2(p)); }
    MPC_FN float at(const mpc_16 &v, int i) { return mpc_bf16_value((uint16_t)(v.w[i >> 1] >> (i & 1) * 16)); }
    MPC_FN void store(void *p, float x) { mpc_store2(p, mpc_bf16_bits(x)); }
    MPC_FN void store_pair(void *p, float x, float y) { mpc_store4(p, mpc_bf16_pair(x, y)); }
    MPC_FN uint32_t pair(float x, float y) { return mpc_bf16_pair(x, y); }
    MPC_FN void multiply(float d[4], const uint32_t a[4], const uint32_t b[2]) { mpc_mma_bf16(d, a, b); }
};
struct mpc_at_f16 {
    enum { size = 2 };
    MPC_FN float value(const void *p) { return mpc_f16_value(mpc_load2(p)); }
    MPC_FN float at(const mpc_16 &v, int i) { return mpc_f16_value((uint16_t)(v.w[i >> 1] >> (i & 1) * 16)); }
    MPC_FN void store(void *p, float x) { mpc_store2(p, mpc_f16_bits(x)); }
    MPC_FN void store_pair(void *p, float x, float y) { mpc_store4(p, mpc_f16_pair(x, y)); }
    MPC_FN uint32_t pair(float x, float y) { return mpc_f16_pair(x, y); }
    MPC_FN void multiply(float d[4], const uint32_t a[4], const uint32_t b[2]) { mpc_mma_f16(d, a, b); }
};
struct mpc_at_f32 {
    enum { size = 4 };
    MPC_FN float value(const void *p) { return mpc_float(mpc_load4(p)); }
    MPC_FN float at(const mpc_16 &v, int i) { return mpc_float(v.w[i]); }
    MPC_FN void store(void *p, float x) { mpc_store4(p, mpc_bits(x)); }
    MPC_FN void store_pair(void *p, float x, float y) { mpc_store8(p, mpc_8{{mpc_bits(x), mpc_bits(y)}}); }
};

template <class F> struct mpc_at_mma16 {
    typedef F format;
    enum { precise = 0 };
    template <int N, int DP> MPC_FN void scores(float (*c)[4], const char *a, const char *b) {
        enum { pitch = DP * 2 + 16 };
        const int lane = mpc_at_lane();
        const char *pa = a + (lane & 15) * pitch + (lane >> 4) * 16;
        const char *pb = b + ((lane & 7) + (lane >> 4) * 8) * pitch + ((lane >> 3) & 1) * 16;
        MPC_UNROLL
        for (int k = 0; k < DP / 16; k++) {
            uint32_t x[4], y[4];
            mpc_ldmatrix4(x, pa + k * 32);
            MPC_UNROLL
            for (int i = 0; i < N / 2; i++) {
                mpc_ldmatrix4(y, pb + i * 16 * pitch + k * 32);
                F::multiply(c[2 * i], x, y);
                F::multiply(c[2 * i + 1], x, y + 2);
            }
        }
    }
    template <int N, int DP> MPC_FN void update(float (*out)[4], const float (*p)[4], const char *v) {
        enum { pitch = DP * 2 + 16 };
        const int lane = mpc_at_lane();
        const char *pv = v + (lane & 15) * pitch + (lane >> 4) * 16;
        MPC_UNROLL
        for (int k = 0; k < N / 2; k++) {
            const float *l = p[2 * k], *r = p[2 * k + 1];
            const uint32_t x[4] = {F::pair(l[0], l[1]), F::pair(l[2], l[3]), F::pair(r[0], r[1]), F::pair(r[2], r[3])};
            uint32_t y[4];
            MPC_UNROLL
            for (int i = 0; i < DP / 16; i++) {
                mpc_ldmatrix4_transposed(y, pv + k * 16 * pitch + i * 32);
                F::multiply(out[2 * i], x, y);
                F::multiply(out[2 * i + 1], x, y + 2);
            }
        }
    }
};

struct mpc_at_tf32_mma {
    typedef mpc_at_f32 format;
    enum { precise = 1 };
    MPC_FN mpc_16 load(const char *p) {
        mpc_16 v = mpc_load16(p);
        MPC_UNROLL
        for (int i = 0; i < 4; i++) v.w[i] = mpc_tf32_bits(v.w[i]);
        return v;
    }
    /* Inside 16 columns k is counted as 4 q + i where the instruction counts q + 4 i: the same for both sides. */
    template <int N, int DP> MPC_FN void scores(float (*c)[4], const char *a, const char *b) {
        enum { pitch = DP * 4 + 16 };
        const int g = mpc_at_lane() >> 2, q = mpc_at_lane() & 3;
        MPC_UNROLL
        for (int k = 0; k < DP / 16; k++) {
            const mpc_16 x = load(a + g * pitch + k * 64 + q * 16), z = load(a + (g + 8) * pitch + k * 64 + q * 16);
            const uint32_t first[4] = {x.w[0], z.w[0], x.w[1], z.w[1]}, second[4] = {x.w[2], z.w[2], x.w[3], z.w[3]};
            MPC_UNROLL
            for (int i = 0; i < N; i++) {
                const mpc_16 y = load(b + (8 * i + g) * pitch + k * 64 + q * 16);
                mpc_mma_tf32(c[i], first, y.w);
                mpc_mma_tf32(c[i], second, y.w + 2);
            }
        }
    }
    template <int N, int DP> MPC_FN void update(float (*out)[4], const float (*p)[4], const char *v) {
        enum { pitch = DP * 4 + 16 };
        const int g = mpc_at_lane() >> 2, q = mpc_at_lane() & 3;
        MPC_UNROLL
        for (int k = 0; k < N; k++) {
            const uint32_t x[4] = {mpc_tf32_bits(mpc_bits(p[k][0])), mpc_tf32_bits(mpc_bits(p[k][2])),
                                   mpc_tf32_bits(mpc_bits(p[k][1])), mpc_tf32_bits(mpc_bits(p[k][3]))};
            const char *row = v + (8 * k + 2 * q) * pitch + g * 4;
            MPC_UNROLL
            for (int i = 0; i < DP / 8; i++) {
                const uint32_t y[2] = {mpc_tf32_bits(mpc_load4(row + i * 32)),
                                       mpc_tf32_bits(mpc_load4(row + pitch + i * 32))};
                mpc_mma_tf32(out[i], x, y);
            }
        }
    }
};

struct mpc_at_fma {
    typedef mpc_at_f32 format;
    enum { precise = 1 };
    MPC_FN float dot4(const mpc_16 &a, const mpc_16 &b, float c) {
        MPC_UNROLL
        for (int i = 0; i < 4; i++) c = mpc_fma1(mpc_float(a.w[i]), mpc_float(b.w[i]), c);
        return c;
    }
    template <int N, int DP> MPC_FN void scores(float (*c)[4], const char *a, const char *b) {
        enum { pitch = DP * 4 + 16 };
        const int g = mpc_at_lane() >> 2, q = mpc_at_lane() & 3;
        for (int k = 0; k < DP / 4; k++) {
            const mpc_16 x = mpc_load16(a + g * pitch + k * 16), z = mpc_load16(a + (g + 8) * pitch + k * 16);
            MPC_UNROLL
            for (int i = 0; i < N; i++) {
                const char *row = b + (8 * i + 2 * q) * pitch + k * 16;
                const mpc_16 y = mpc_load16(row), w = mpc_load16(row + pitch);
                c[i][0] = dot4(x, y, c[i][0]);
                c[i][1] = dot4(x, w, c[i][1]);
                c[i][2] = dot4(z, y, c[i][2]);
                c[i][3] = dot4(z, w, c[i][3]);
            }
        }
    }
    template <int N, int DP> MPC_FN void update(float (*out)[4], const float (*p)[4], const char *v) {
        enum { pitch = DP * 4 + 16 };
        const int lane = mpc_at_lane(), q = lane & 3;
        MPC_UNROLL
        for (int j = 0; j < 8 * N; j++) { /* column j of p is in the lane (j % 8) / 2 of the four */
            const int from = (lane & 28) | ((j & 7) >> 1);
            const float x = mpc_float(mpc_shuffle(0xffffffffu, mpc_bits(p[j >> 3][j & 1]), from));
            const float z = mpc_float(mpc_shuffle(0xffffffffu, mpc_bits(p[j >> 3][(j & 1) + 2]), from));
            MPC_UNROLL
            for (int i = 0; i < DP / 8; i++) {
                const mpc_8 y = mpc_load8(v + j * pitch + i * 32 + q * 8);
                const float l = mpc_float(y.w[0]), r = mpc_float(y.w[1]);
                out[i][0] = mpc_fma1(x, l, out[i][0]);
                out[i][1] = mpc_fma1(x, r, out[i][1]);
                out[i][2] = mpc_fma1(z, l, out[i][2]);
                out[i][3] = mpc_fma1(z, r, out[i][3]);
            }
        }
    }
};

/* --- functions. 2^x for x up to 127, 0 below -126; relative error 1e-7, precise: 4e-9 before its roundings --- */
template <int Precise> MPC_FN float mpc_at_exp2(float x) {
    const float shifted = x + 12582912.0f, r = x - (shifted - 12582912.0f);
    float y;
    if (Precise) {
        y = mpc_fma1(1.53458124e-4f, r, 1.33999309e-3f);
        y = mpc_fma1(y, r, 9.61848907e-3f);
        y = mpc_fma1(y, r, 5.55032864e-2f);
        y = mpc_fma1(y, r, 2.40226462e-1f);
        y = mpc_fma1(y, r, 6.93147182e-1f);
    } else {
        y = mpc_fma1(1.32764725e-3f, r, 9.67554096e-3f);
        y = mpc_fma1(y, r, 5.55071309e-2f);
        y = mpc_fma1(y, r, 2.40221202e-1f);
        y = mpc_fma1(y, r, 6.93146944e-1f);
    }
    y = mpc_fma1(y, r, 1.0f) * mpc_float((mpc_bits(shifted) << 23) + 0x3f800000u);
    return x < -126.0f ? 0.0f : y;
}
/* Of a normal number or NaN. */
MPC_FN float mpc_at_log(float x) {
    const uint32_t u = mpc_bits(x) - 0x3f3504f3u;
    const float e = (float)((int32_t)u >> 23), a = mpc_float((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float s = mpc_div1(a, 2.0f + a), z = s * s, h = 0.5f * a * a;
    float q = mpc_fma1(0.233556479f, z, 0.285498708f);
    q = mpc_fma1(q, z, 0.400001317f);
    q = mpc_fma1(q, z, 0.666666687f) * z;
    const float r = mpc_fma1(s, h + q, e * -2.12194440e-4f);
    return x < mpc_float(0x7f800000u) ? mpc_fma1(e, 0.693359375f, a - (h - r)) : x;
}
MPC_FN float mpc_at_infinity() { return mpc_float(0x7f800000u); }
/* Sum, maximum over the four threads of a row. */
MPC_FN float mpc_at_row_sum(float x) {
    x += mpc_float(mpc_shuffle_xor(0xffffffffu, mpc_bits(x), 1));
    return x + mpc_float(mpc_shuffle_xor(0xffffffffu, mpc_bits(x), 2));
}
MPC_FN float mpc_at_larger(float a, float b) { return b > a ? b : a; }
MPC_FN float mpc_at_row_max(float x) {
    x = mpc_at_larger(x, mpc_float(mpc_shuffle_xor(0xffffffffu, mpc_bits(x), 1)));
    return mpc_at_larger(x, mpc_float(mpc_shuffle_xor(0xffffffffu, mpc_bits(x), 2)));
}

/* --- tiles. A side is one head of an operand: rows of `d` elements, `stride` bytes apart. --- */
struct mpc_at_side {
    const char *base;
    int64_t stride;
    int rows, bytes; /* of a row */
};
/* s: strides of batch, row, head, in elements */
MPC_FN mpc_at_side mpc_at_open(const void *p, const int64_t *s, int64_t batch, int64_t head, int64_t rows, int64_t d,
                               int size) {
    return mpc_at_side{(const char *)p + (batch * s[0] + head * s[2]) * size, s[1] * size, (int)rows, (int)d * size};
}
/* `Rows` rows from `first` on to shared memory; what lies beyond the side is zeros. Wide: 16-byte accesses. */
template <int Rows, int Bytes, int Size, bool Wide>
MPC_FN void mpc_at_load(char *tile, const mpc_at_side &side, int first) {
    enum { chunks = Bytes / 16 };
    MPC_ROLLED
    for (int c = mpc_thread(); c < Rows * chunks; c += MPC_AT_THREADS) {
        const int row = c / chunks, at = (c - row * chunks) * 16;
        int bytes = first + row < side.rows ? side.bytes - at : 0;
        bytes = bytes < 0 ? 0 : bytes > 16 ? 16 : bytes;
        char *to = tile + row * (Bytes + 16) + at;
        const char *from = bytes > 0 ? side.base + (first + row) * side.stride + at : side.base;
        if (Wide) {
            mpc_copy_async16(to, from, bytes);
        } else {
            mpc_16 v = {{0, 0, 0, 0}};
            MPC_UNROLL
            for (int i = 0; i < 16 / Size; i++)
                if (i * Size < bytes)
                    v.w[i * Size / 4] |=
                        Size == 4 ? mpc_load4(from + i * 4) : (uint32_t)mpc_load2(from + i * 2) << (i & 1) * 16;
            mpc_store16(to, v);
        }
    }
}
/* This warp's 16 rows of a dense [b, rows, h, d] result: out[i] holds columns 8 i and on. */
template <class F, int N, bool Even>
MPC_FN void mpc_at_store(void *p, int64_t h, int64_t width, int64_t batch, int64_t head, int rows, int row0,
                         const float (*out)[4]) {
    const int d = (int)width, q = mpc_at_lane() & 3;
    MPC_UNROLL
    for (int half = 0; half < 2; half++) {
        const int row = row0 + (mpc_at_lane() >> 2) + half * 8;
        if (row >= rows) continue;
        char *to = (char *)p + ((batch * rows + row) * h + head) * d * F::size;
        MPC_UNROLL
        for (int i = 0; i < N; i++) {
            const int col = 8 * i + 2 * q;
            const float x = out[i][half * 2], y = out[i][half * 2 + 1];
            if (Even) {
                if (col < d) F::store_pair(to + col * F::size, x, y);
            } else if (col + 1 < d && (d & 1) == 0) {
                F::store_pair(to + col * F::size, x, y);
            } else {
                if (col < d) F::store(to + col * F::size, x);
                if (col + 1 < d) F::store(to + (col + 1) * F::size, y);
            }
        }
    }
}
template <int N> MPC_FN void mpc_at_clear(float (*c)[4]) {
    MPC_UNROLL
    for (int i = 0; i < N * 4; i++) c[i >> 2][i & 3] = 0.0f;
}

/* --- which keys a query sees. Sight: all, those up to its own place, or those of a band: `behind` places before it to
 * `ahead` after it. --- */
enum { MPC_AT_ALL, MPC_AT_CAUSAL, MPC_AT_BAND };
struct mpc_at_mask {
    const char *base;
    int64_t row, col; /* strides */
    int t, s, behind, ahead;
};
MPC_FN mpc_at_mask mpc_at_open_mask(const void *p, const int64_t *strides, int64_t batch, int64_t head,
                                    const int64_t *n) {
    return mpc_at_mask{(const char *)p + batch * strides[0] + head * strides[1], strides[2], strides[3], (int)n[1],
                       (int)n[2], (int)n[6], (int)n[7]};
}
MPC_FN int mpc_at_min(int a, int b) { return a < b ? a : b; }
MPC_FN int mpc_at_max(int a, int b) { return a > b ? a : b; }
/* Without a mask, query i sees the keys from begin to before end; none beyond the last query. */
template <int Sight> MPC_FN int mpc_at_key_begin(const mpc_at_mask &m, int i) {
    return Sight == MPC_AT_BAND ? mpc_at_max(0, i - m.behind) : 0;
}
template <int Sight> MPC_FN int mpc_at_key_end(const mpc_at_mask &m, int i) {
    if (i >= m.t) return 0;
    if (Sight == MPC_AT_BAND) return mpc_at_min(m.s, i + m.ahead + 1);
    return Sight == MPC_AT_CAUSAL && i < m.s ? i + 1 : m.s;
}
/* Key j is seen by the queries from begin to before end. */
template <int Sight> MPC_FN int mpc_at_query_begin(const mpc_at_mask &m, int j) {
    if (j >= m.s) return m.t;
    return Sight == MPC_AT_BAND ? mpc_at_max(0, j - m.ahead) : Sight == MPC_AT_CAUSAL ? j : 0;
}
template <int Sight> MPC_FN int mpc_at_query_end(const mpc_at_mask &m, int j) {
    return Sight == MPC_AT_BAND ? mpc_at_min(m.t, j + m.behind + 1) : m.t;
}
template <int Sight, bool Mask> MPC_FN bool mpc_at_sees(const mpc_at_mask &m, int i, int j) {
    if (i >= m.t || j >= m.s || (Sight == MPC_AT_CAUSAL && j > i)) return false;
    if (Sight == MPC_AT_BAND && (j > i + m.ahead || j < i - m.behind)) return false;
    return !Mask || mpc_load1(m.base + i * m.row + j * m.col) != 0;
}
/* Is there a hidden pair among `rows` rows from row0 on and `cols` columns from col0 on, that no mask hides? Keys: rows
 * are keys, columns queries. */
template <int Sight, bool Keys> MPC_FN bool mpc_at_is_border(const mpc_at_mask &m, int row0, int rows, int col0, int cols) {
    if (col0 + cols > (Keys ? m.t : m.s)) return true;
    const int after = Keys ? m.behind : m.ahead, before = Keys ? m.ahead : m.behind;
    if (Sight == MPC_AT_BAND) return col0 + cols - 1 > row0 + after || col0 < row0 + rows - 1 - before;
    if (Sight != MPC_AT_CAUSAL) return false;
    return Keys ? col0 < row0 + rows - 1 : col0 + cols - 1 > row0;
}

/* --- forward. M: how to multiply, Y: format of the result. n: heads, t, s, d, batch * heads, query heads that share
 * one of keys, keys seen behind and ahead in a band, strides of q, k, v (batch, row, head) and of the mask (batch, head,
 * query, key). p: q, k, v, y, lse, mask. f: scale * log2(e). Scores are in powers of 2. --- */
template <class M, class Y, int DP, int BN, int Stages, int Sight, bool Mask, bool Wide> struct mpc_attention {
    typedef typename M::format F;
    enum {
        bytes = DP * F::size,
        pitch = bytes + 16,
        own = MPC_AT_ROWS * pitch,
        part = BN * pitch,
        N = BN / 8,
        D = DP / 8
    };
    float out[D][4], most[2], sum[2];
    bool seen[2];

    /* Scores of hidden keys are -inf. */
    MPC_FN void hide(mpc_attention &a, float (*c)[4], const mpc_at_mask &m, int row0, int col0) {
        const int begin[2] = {mpc_at_key_begin<Sight>(m, row0), mpc_at_key_begin<Sight>(m, row0 + 8)};
        const int end[2] = {mpc_at_key_end<Sight>(m, row0), mpc_at_key_end<Sight>(m, row0 + 8)};
        MPC_UNROLL
        for (int i = 0; i < N * 4; i++) {
            const int half = (i >> 1) & 1, row = row0 + half * 8, col = col0 + (i >> 2) * 8 + (i & 1);
            const bool sees = Mask ? mpc_at_sees<Sight, Mask>(m, row, col)
                                   : (Sight != MPC_AT_BAND || col >= begin[half]) && col < end[half];
            if (Mask) a.seen[half] |= sees;
            if (!sees) c[i >> 2][i & 3] = -mpc_at_infinity();
        }
    }
    /* Scores to numerators against the new maximum; what was summed up so far is brought to it. */
    MPC_FN void soften(mpc_attention &a, float (*c)[4]) {
        MPC_UNROLL
        for (int half = 0; half < 2; half++) {
            float most = a.most[half], added = 0.0f;
            MPC_UNROLL
            for (int i = 0; i < N * 2; i++) most = mpc_at_larger(most, c[i >> 1][(i & 1) + half * 2]);
            most = mpc_at_row_max(most);
            const float from = most == -mpc_at_infinity() ? 0.0f : most;
            const float shrink = mpc_at_exp2<M::precise>(a.most[half] - from);
            MPC_UNROLL
            for (int i = 0; i < N * 2; i++) {
                float &x = c[i >> 1][(i & 1) + half * 2];
                x = mpc_at_exp2<M::precise>(x - from);
                added += x;
            }
            a.most[half] = most;
            a.sum[half] = a.sum[half] * shrink + added;
            MPC_UNROLL
            for (int i = 0; i < D * 2; i++) a.out[i >> 1][(i & 1) + half * 2] *= shrink;
        }
    }
    MPC_FN void tile(mpc_attention &a, const char *q, const char *k, const mpc_at_mask &m, int row0, int first,
                     float scale) {
        float c[N][4];
        mpc_at_clear<N>(c);
        M::template scores<N, DP>(c, q, k);
        MPC_UNROLL
        for (int i = 0; i < N * 4; i++) c[i >> 2][i & 3] *= scale;
        if (Mask || mpc_at_is_border<Sight, false>(m, row0, 16, first, BN))
            hide(a, c, m, row0 + (mpc_at_lane() >> 2), first + (mpc_at_lane() & 3) * 2);
        soften(a, c);
        M::template update<N, DP>(a.out, c, k + part);
    }
    MPC_FN void load(char *to, const mpc_at_side &k, const mpc_at_side &v, int first) {
        mpc_at_load<BN, bytes, F::size, Wide>(to, k, first);
        mpc_at_load<BN, bytes, F::size, Wide>(to + part, v, first);
    }
    /* A row that sees nothing is zeros and -inf; one that sees only scores of -inf is NaN. */
    MPC_FN void finish(mpc_attention &a, void *const *p, const int64_t *n, const mpc_at_mask &m, int64_t batch,
                       int64_t head, int row0) {
        MPC_UNROLL
        for (int half = 0; half < 2; half++) {
            const int row = row0 + (mpc_at_lane() >> 2) + half * 8;
            float sum = mpc_at_row_sum(a.sum[half]);
            bool seen = mpc_at_key_begin<Sight>(m, row) < mpc_at_key_end<Sight>(m, row);
            if (Mask) seen = mpc_at_row_sum(a.seen[half] ? 1.0f : 0.0f) > 0.0f;
            if (sum == 0.0f && seen) sum = mpc_float(0x7fc00000u);
            const bool blind = sum == 0.0f;
            const float factor = blind ? 0.0f : mpc_div1(1.0f, sum);
            const float lse = blind ? -mpc_at_infinity() : a.most[half] * 0.693147182f + mpc_at_log(sum);
            MPC_UNROLL
            for (int i = 0; i < D * 2; i++) a.out[i >> 1][(i & 1) + half * 2] *= factor;
            if ((mpc_at_lane() & 3) == 0 && row < n[1]) ((float *)p[4])[(batch * n[0] + head) * n[1] + row] = lse;
        }
        mpc_at_store<Y, D, Wide>(p[3], n[0], n[3], batch, head, (int)n[1], row0, a.out);
    }
    MPC_FN void run(void *const *p, const int64_t *n, const float *f, int block) {
        const int tiles = (int)((n[1] + MPC_AT_ROWS - 1) / MPC_AT_ROWS), both = (int)n[4];
        const int first = (tiles - 1 - block / both) * MPC_AT_ROWS,
                  warp = mpc_thread() >> 5; /* causal: long rows start first */
        const int64_t batch = block % both / n[0], head = block % both % n[0], key_head = head / n[5];
        const mpc_at_side q = mpc_at_open(p[0], n + 8, batch, head, n[1], n[3], F::size);
        const mpc_at_side k = mpc_at_open(p[1], n + 11, batch, key_head, n[2], n[3], F::size);
        const mpc_at_side v = mpc_at_open(p[2], n + 14, batch, key_head, n[2], n[3], F::size);
        const mpc_at_mask m = mpc_at_open_mask(p[5], n + 17, batch, head, n);
        char *own_tile = mpc_shared(), *stream = own_tile + own;
        const int row0 = first + warp * 16, last = mpc_at_min(first + MPC_AT_ROWS, m.t) - 1;
        const int begin = mpc_at_key_begin<Sight>(m, first) / BN * BN, end = mpc_at_key_end<Sight>(m, last);
        mpc_attention a;
        mpc_at_clear<D>(a.out);
        MPC_UNROLL
        for (int half = 0; half < 2; half++)
            a.most[half] = -mpc_at_infinity(), a.sum[half] = 0.0f, a.seen[half] = false;
        mpc_at_load<MPC_AT_ROWS, bytes, F::size, Wide>(own_tile, q, first);
        load(stream, k, v, begin);
        mpc_copy_async_commit();
        for (int at = begin, stage = 0; at < end; at += BN, stage ^= Stages - 1) {
            char *now = stream + stage * 2 * part, *next = stream + (stage ^ (Stages - 1)) * 2 * part;
            mpc_copy_async_wait<0>();
            mpc_barrier(); /* what was read of the other stage is done with */
            if (Stages > 1 && at + BN < end) load(next, k, v, at + BN);
            if (Stages > 1) mpc_copy_async_commit();
            tile(a, own_tile + warp * 16 * pitch, now, m, row0, at, f[0]);
            if (Stages == 1) mpc_barrier();
            if (Stages == 1 && at + BN < end) load(next, k, v, at + BN);
            if (Stages == 1) mpc_copy_async_commit();
        }
        finish(a, p, n, m, batch, head, row0);
    }
};

/* --- backward, first: delta[b,h,t] = sum(dy y), 8 lanes a row. Y is F or f32. p: y, dy, delta. n: as forward, dy's
 * strides at 17. --- */
template <class Y, class F> MPC_FN float mpc_at_dot16(const char *y, const char *dy, float sum) {
    enum { per_load = 16 / Y::size };
    const mpc_16 v = mpc_load16(dy);
    MPC_UNROLL
    for (int k = 0; k < Y::size / F::size; k++) {
        const mpc_16 u = mpc_load16(y + k * 16);
        MPC_UNROLL
        for (int i = 0; i < per_load; i++) sum = mpc_fma1(Y::at(u, i), F::at(v, k * per_load + i), sum);
    }
    return sum;
}
template <class Y, class F, bool Wide>
MPC_FN void mpc_attention_delta(void *const *p, const int64_t *n, int64_t units, int block) {
    enum { lanes = 8, step = Wide ? 16 / F::size : 1 };
    const int64_t number = (int64_t)block * (MPC_AT_THREADS / lanes) + mpc_thread() / lanes;
    const int64_t row = number < units ? number : units - 1; /* every lane stays for the sum */
    const int64_t i = row % n[1], head = row / n[1] % n[0], batch = row / n[1] / n[0];
    const char *y = (const char *)p[0] + ((batch * n[1] + i) * n[0] + head) * n[3] * Y::size;
    const char *dy = (const char *)p[1] + (batch * n[17] + i * n[18] + head * n[19]) * F::size;
    float sum = 0.0f;
    for (int c = mpc_thread() % lanes * step; c < (int)n[3]; c += lanes * step) {
        if (Wide) sum = mpc_at_dot16<Y, F>(y + c * Y::size, dy + c * F::size, sum);
        else sum = mpc_fma1(Y::value(y + c * Y::size), F::value(dy + c * F::size), sum);
    }
    MPC_UNROLL
    for (int mask = 1; mask < lanes; mask *= 2) sum += mpc_float(mpc_shuffle_xor(0xffffffffu, mpc_bits(sum), mask));
    if (mpc_thread() % lanes == 0 && number < units) ((float *)p[2])[row] = sum;
}

/* --- backward. A block owns 64 keys and walks over the queries of all heads that share them, making dk and dv, or 64
 * queries and walks over keys, making dq. Own tiles: k, v or q, dy; streamed: q, dy or k, v; both products and both
 * updates are the same for the two. p: q, k, v, dy, lse, delta, dq, dk, dv, mask. n: as forward, with dy's strides
 * before the mask's; f: scale * log2(e), scale. First, Second: formats of dk and dv, or of dq. --- */
template <class M, class First, class Second, int DP, int BN, int Stages, int Sight, bool Mask, bool Wide, bool Share,
          bool Keys>
struct mpc_attention_part {
    typedef typename M::format F;
    enum {
        bytes = DP * F::size,
        pitch = bytes + 16,
        own = MPC_AT_ROWS * pitch,
        part = BN * pitch,
        N = BN / 8,
        D = DP / 8
    };
    enum { stage_bytes = 2 * part + BN * 8 };
    float first_out[D][4], second_out[Keys ? D : 1][4]; /* ds b, and p b of keys */
    float lse[2], delta[2];                             /* of own queries */

    struct sides {
        mpc_at_side own[2], other[2];
        const float *lse, *delta; /* of this head */
    };
    struct walk { /* over tiles of the streamed side, for one of `heads` heads after the other */
        int at, begin, end, head, heads;
    };
    MPC_FN walk after(walk w) {
        w.at += BN;
        if (w.at >= w.end) w.at = w.begin, w.head++;
        return w;
    }
    MPC_FN void open_queries(sides &s, void *const *p, const int64_t *n, int64_t batch, int64_t head) {
        const int64_t row = (batch * n[0] + head) * n[1];
        mpc_at_side *queries = Keys ? s.other : s.own;
        queries[0] = mpc_at_open(p[0], n + 8, batch, head, n[1], n[3], F::size);
        queries[1] = mpc_at_open(p[3], n + 17, batch, head, n[1], n[3], F::size);
        s.lse = (const float *)p[4] + row;
        s.delta = (const float *)p[5] + row;
    }
    MPC_FN void open_keys(sides &s, void *const *p, const int64_t *n, int64_t batch, int64_t head) {
        mpc_at_side *keys = Keys ? s.own : s.other;
        keys[0] = mpc_at_open(p[1], n + 11, batch, head, n[2], n[3], F::size);
        keys[1] = mpc_at_open(p[2], n + 14, batch, head, n[2], n[3], F::size);
    }

    MPC_FN void load(char *to, const sides &s, int first, int t) {
        mpc_at_load<BN, bytes, F::size, Wide>(to, s.other[0], first);
        mpc_at_load<BN, bytes, F::size, Wide>(to + part, s.other[1], first);
        if (!Keys || mpc_thread() >= 2 * BN) return;
        const int i = first + (mpc_thread() & (BN - 1));
        const float *from = mpc_thread() < BN ? s.lse : s.delta;
        mpc_copy_async4(to + 2 * part + mpc_thread() * 4, i < t ? from + i : from, i < t ? 4 : 0);
    }
    /* Scores and products with dy to p and ds, in place. The row of a query that sees nothing, or isn't there, is not a
     * number or means nothing: all its keys are hidden. */
    MPC_FN void differentiate(const mpc_attention_part &a, float (*c)[4], float (*e)[4], const char *now,
                              const float *f) {
        const float *rows = (const float *)(now + 2 * part) + (mpc_at_lane() & 3) * 2;
        MPC_UNROLL
        for (int i = 0; i < N * 4; i++) {
            const int half = (i >> 1) & 1, col = (i >> 2) * 8 + (i & 1);
            const float lse = Keys ? rows[col] : a.lse[half], delta = Keys ? rows[BN + col] : a.delta[half];
            float &x = c[i >> 2][i & 3], &y = e[i >> 2][i & 3];
            x = mpc_at_exp2<M::precise>(x * f[0] - lse * 1.44269504f);
            y = x * (y - delta) * f[1];
        }
    }
    MPC_FN void hide(float (*c)[4], float (*e)[4], const mpc_at_mask &m, int row0, int col0) {
        int begin[2], end[2];
        MPC_UNROLL
        for (int half = 0; half < 2; half++) {
            const int row = row0 + half * 8;
            begin[half] = Keys ? mpc_at_query_begin<Sight>(m, row) : mpc_at_key_begin<Sight>(m, row);
            end[half] = Keys ? mpc_at_query_end<Sight>(m, row) : mpc_at_key_end<Sight>(m, row);
        }
        MPC_UNROLL
        for (int i = 0; i < N * 4; i++) {
            const int half = (i >> 1) & 1, row = row0 + half * 8, col = col0 + (i >> 2) * 8 + (i & 1);
            const bool sees = Mask ? mpc_at_sees<Sight, Mask>(m, Keys ? col : row, Keys ? row : col)
                                   : col >= begin[half] && col < end[half];
            if (!sees) c[i >> 2][i & 3] = e[i >> 2][i & 3] = 0.0f;
        }
    }
    MPC_FN void tile(mpc_attention_part &a, const char *mine, const char *now, const mpc_at_mask &m, int row0,
                     int first, const float *f) {
        float c[N][4], e[N][4];
        mpc_at_clear<N>(c);
        mpc_at_clear<N>(e);
        M::template scores<N, DP>(c, mine, now);
        M::template scores<N, DP>(e, mine + own, now + part);
        differentiate(a, c, e, now, f);
        if (Mask || mpc_at_is_border<Sight, Keys>(m, row0, 16, first, BN))
            hide(c, e, m, row0 + (mpc_at_lane() >> 2), first + (mpc_at_lane() & 3) * 2);
        if (Keys) M::template update<N, DP>(a.second_out, c, now + part);
        M::template update<N, DP>(a.first_out, e, now);
    }
    MPC_FN void run(void *const *p, const int64_t *n, const float *f, int block) {
        const int t = (int)n[1], s = (int)n[2], mine = Keys ? s : t, share = Share ? (int)n[5] : 1;
        const int heads = (int)n[0] / (Keys ? share : 1), both = (int)n[4] / (Keys ? share : 1), order = block / both;
        const int tiles = (mine + MPC_AT_ROWS - 1) / MPC_AT_ROWS, warp = mpc_thread() >> 5;
        const int first = (Keys ? order : tiles - 1 - order) * MPC_AT_ROWS, row0 = first + warp * 16;
        const int64_t batch = block % both / heads, head = block % both % heads, head0 = Keys ? head * share : head;
        sides side;
        open_queries(side, p, n, batch, head0);
        open_keys(side, p, n, batch, Keys ? head : head / share);
        mpc_at_mask m = mpc_at_open_mask(p[9], n + 20, batch, head0, n);
        char *own_tile = mpc_shared(), *stream = own_tile + 2 * own;
        const int last = mpc_at_min(first + MPC_AT_ROWS, mine) - 1;
        walk now;
        now.begin = (Keys ? mpc_at_query_begin<Sight>(m, first) : mpc_at_key_begin<Sight>(m, first)) / BN * BN;
        now.end = Keys ? mpc_at_query_end<Sight>(m, last) : mpc_at_key_end<Sight>(m, last);
        now.at = now.begin, now.head = 0, now.heads = now.begin >= now.end ? 0 : Keys ? share : 1;
        mpc_attention_part a;
        mpc_at_clear<D>(a.first_out);
        if (Keys) mpc_at_clear<D>(a.second_out);
        MPC_UNROLL
        for (int half = 0; !Keys && half < 2; half++) {
            const int i = row0 + (mpc_at_lane() >> 2) + half * 8;
            a.lse[half] = i < t ? side.lse[i] : 0.0f;
            a.delta[half] = i < t ? side.delta[i] : 0.0f;
        }
        mpc_at_load<MPC_AT_ROWS, bytes, F::size, Wide>(own_tile, side.own[0], first);
        mpc_at_load<MPC_AT_ROWS, bytes, F::size, Wide>(own_tile + own, side.own[1], first);
        load(stream, side, now.begin, t);
        mpc_copy_async_commit();
        for (int stage = 0; now.head < now.heads; stage ^= Stages - 1) {
            char *here = stream + stage * stage_bytes, *there = stream + (stage ^ (Stages - 1)) * stage_bytes;
            const walk next = after(now);
            const bool more = next.head < next.heads;
            mpc_copy_async_wait<0>();
            mpc_barrier();
            if (Share && Keys && more && next.head != now.head) open_queries(side, p, n, batch, head0 + next.head);
            if (Stages > 1 && more) load(there, side, next.at, t);
            if (Stages > 1) mpc_copy_async_commit();
            if (Share && Keys && Mask) m = mpc_at_open_mask(p[9], n + 20, batch, head0 + now.head, n);
            tile(a, own_tile + warp * 16 * pitch, here, m, row0, now.at, f);
            if (Stages == 1) mpc_barrier();
            if (Stages == 1 && more) load(there, side, next.at, t);
            if (Stages == 1) mpc_copy_async_commit();
            now = next;
        }
        mpc_at_store<First, D, Wide>(p[Keys ? 7 : 6], heads, n[3], batch, head, mine, row0, a.first_out);
        if (Keys) mpc_at_store<Second, D, Wide>(p[8], heads, n[3], batch, head, mine, row0, a.second_out);
    }
};
template <class M, class DQ, class DK, class DV, int DP, int BN, int Stages, int Sight, bool Mask, bool Wide, bool Share>
MPC_FN void mpc_attention_grad(void *const *p, const int64_t *n, const float *f, int block) {
    const int share = Share ? (int)n[5] : 1;
    const int keys = (int)((n[2] + MPC_AT_ROWS - 1) / MPC_AT_ROWS) * ((int)n[4] / share);
    if (block < keys) mpc_attention_part<M, DK, DV, DP, BN, Stages, Sight, Mask, Wide, Share, true>::run(p, n, f, block);
    else mpc_attention_part<M, DQ, DQ, DP, BN, Stages, Sight, Mask, Wide, Share, false>::run(p, n, f, block - keys);
}
