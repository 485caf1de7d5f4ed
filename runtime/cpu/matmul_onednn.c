/* Large matmuls by oneDNN: c is cut into blocks whose size depends on the shape only; every block is one call of a
 * primitive made for one thread. At most four primitives serve all blocks (whole and last, in m and in n). A transposed
 * result is the product of the transposes. Blocks of an f32 result whose rows lie a multiple of 1 KB apart are made
 * aside and copied: such rows share few sets of the first-level cache, and the library's tiles evict each other there.
 */
#include <string.h>

#include "runtime/block.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/plan.h"

enum {
    BLOCK_WORK = 8 << 20,
    M_TALL = 128,
    N_WIDE = 256,
    M_STEP = 32,
    N_STEP = 64,
    MAX_BLOCKS = 32,
    ALIASING = 1024,
    ASIDE_PAD = 16,
    ASIDE_BYTES = 2 << 20
};

typedef struct dnn_matmul {
    mpc_matmul mm; /* after the swap */
    mpc_dnn *dnn;
    mpc_arena *arena;
    const mpc_gemm_isa *isa;
    uint8_t *c;
    int64_t batches, m_block, n_block, m_blocks, n_blocks;
    mpc_dnn_op *ops[2][2]; /* [last in m][last in n]; NULL where there is none such */
    mpc_dnn_call **calls;
    int64_t aside_row;                     /* elements from row to row of a block made aside; 0: it isn't */
    uint64_t aside_offset, scratch_stride; /* where it is in a thread's scratch memory */
    uint8_t *scratch;
} dnn_matmul;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t value, int64_t to) { return mpc_divide_up(value, to) * to; }

/* c^T = b^T a^T */
static void swap_operands(mpc_matmul *mm) {
    mpc_matmul s = *mm;
    s.a = mm->b, s.b = mm->a;
    s.fa = mm->fb, s.fb = mm->fa;
    s.m = mm->n, s.n = mm->m;
    s.a_row = mm->b_col, s.a_col = mm->b_row;
    s.b_row = mm->a_col, s.b_col = mm->a_row;
    s.c_row = mm->c_col, s.c_col = mm->c_row;
    for (int d = 0; d < MPC_MATMUL_BATCH_DIMS; d++) {
        s.a_batch[d] = mm->b_batch[d];
        s.b_batch[d] = mm->a_batch[d];
    }
    *mm = s;
}

/* The library's best kernels want dense operands. Rows of a row-major a and of c stay dense, so tall products are cut
 * in m, in blocks tall enough to pay for packing b in each call; the others in n first. */
static void choose_blocks(dnn_matmul *d) {
    const mpc_matmul *mm = &d->mm;
    d->batches = mpc_matmul_batches(mm);
    int64_t wanted = mm->m * mm->n * mm->k / BLOCK_WORK + 1;
    if (d->batches >= 4) wanted = mpc_divide_up(wanted, 2);
    if (wanted > MAX_BLOCKS) wanted = MAX_BLOCKS;
    bool by_rows = mm->a_col == 1 && mm->m >= 2 * M_TALL;
    int64_t in_n = by_rows ? 1 : smaller(mpc_divide_up(mm->n, N_WIDE), wanted);
    int64_t in_m = smaller(mpc_divide_up(mm->m, M_TALL), mpc_divide_up(wanted, in_n));
    d->n_block = in_n == 1 ? mm->n : round_up(mpc_divide_up(mm->n, in_n), N_STEP);
    d->m_block = in_m == 1 ? mm->m : round_up(mpc_divide_up(mm->m, in_m), M_STEP);
    d->m_blocks = mpc_divide_up(mm->m, d->m_block);
    d->n_blocks = mpc_divide_up(mm->n, d->n_block);
}

static mpc_dnn_op *create_op(const dnn_matmul *d, int64_t m, int64_t n) {
    const mpc_matmul *mm = &d->mm;
    mpc_dnn_desc desc = {.kind = MPC_DNN_MATMUL};
    desc.tensors[MPC_DNN_SRC] =
        (mpc_dnn_tensor){.rank = 2, .format = mm->fa, .dims = {m, mm->k}, .strides = {mm->a_row, mm->a_col}};
    desc.tensors[MPC_DNN_WEIGHTS] =
        (mpc_dnn_tensor){.rank = 2, .format = mm->fb, .dims = {mm->k, n}, .strides = {mm->b_row, mm->b_col}};
    desc.tensors[MPC_DNN_DST] = (mpc_dnn_tensor){
        .rank = 2, .format = mm->fc, .dims = {m, n}, .strides = {d->aside_row ? d->aside_row : mm->c_row, mm->c_col}};
    if (mm->has_bias)
        desc.tensors[MPC_DNN_BIAS] =
            (mpc_dnn_tensor){.rank = 2, .format = MPC_FMT_f32, .dims = {1, n}, .strides = {n, 1}};
    return mpc_dnn_create(d->dnn, &desc);
}

static bool is_slow(const mpc_dnn_op *op) {
    const char *name = mpc_dnn_implementation(op);
    return name[0] == 'r' && name[1] == 'e' && name[2] == 'f';
}

static bool create_ops(dnn_matmul *d, mpc_plan *plan) {
    int64_t m_last = d->mm.m - (d->m_blocks - 1) * d->m_block, n_last = d->mm.n - (d->n_blocks - 1) * d->n_block;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            if ((i == 0 && d->m_blocks == 1) || (j == 0 && d->n_blocks == 1)) continue;
            bool same_m = i == 1 && m_last == d->m_block, same_n = j == 1 && n_last == d->n_block;
            int from_i = same_m && d->m_blocks > 1 ? 0 : i, from_j = same_n && d->n_blocks > 1 ? 0 : j;
            if (from_i != i || from_j != j) {
                d->ops[i][j] = d->ops[from_i][from_j];
                continue;
            }
            mpc_dnn_op *op = create_op(d, i ? m_last : d->m_block, j ? n_last : d->n_block);
            if (!op || is_slow(op)) return false;
            d->ops[i][j] = op;
            if (mpc_dnn_scratch(op) > plan->scratch_bytes) plan->scratch_bytes = mpc_dnn_scratch(op);
            plan->implementation = mpc_dnn_implementation(op);
        }
    return true;
}

/* Measured: 0.5 to 0.9 of the time. Smaller results stay in the second-level cache, and the library's other kernels
 * (brg) want dense results. */
static bool aside_pays(const dnn_matmul *d, const mpc_plan *plan) {
    const mpc_matmul *mm = &d->mm;
    uint64_t row = (uint64_t)mm->c_row * sizeof(float);
    return mm->fa == MPC_FMT_bf16 && mm->fc == MPC_FMT_f32 && row % ALIASING == 0 &&
           row * (uint64_t)mm->m >= ASIDE_BYTES && strncmp(plan->implementation, "gemm", 4) == 0;
}

static bool make_aside(dnn_matmul *d, mpc_plan *plan) {
    d->aside_row = d->n_block + ASIDE_PAD;
    if (!create_ops(d, plan)) return false;
    d->aside_offset = mpc_align64(plan->scratch_bytes);
    plan->scratch_bytes = d->aside_offset + (uint64_t)(d->m_block * d->aside_row) * sizeof(float);
    return true;
}

static int64_t result_offset(const dnn_matmul *d, int64_t unit) {
    int64_t blocks = d->m_blocks * d->n_blocks, block = unit % blocks;
    int64_t i = block / d->n_blocks * d->m_block, j = block % d->n_blocks * d->n_block;
    return mpc_matmul_batch_offset(&d->mm, d->mm.c_batch, unit / blocks) + i * d->mm.c_row + j * d->mm.c_col;
}

static void copy_aside(const dnn_matmul *d, int64_t unit, unsigned thread) {
    const mpc_matmul *mm = &d->mm;
    int64_t block = unit % (d->m_blocks * d->n_blocks);
    int64_t i = block / d->n_blocks * d->m_block, j = block % d->n_blocks * d->n_block;
    int64_t rows = smaller(d->m_block, mm->m - i), columns = smaller(d->n_block, mm->n - j);
    const float *from = (const float *)(const void *)(d->scratch + thread * d->scratch_stride + d->aside_offset);
    float *to = mpc_at_mutable(d->c, mm->fc, result_offset(d, unit));
    for (int64_t y = 0; y < rows; y++)
        memcpy(to + y * mm->c_row, from + y * d->aside_row, (size_t)columns * sizeof *to);
}

/* On the rounded result: that is the same as before rounding. */
static void apply_relu(const dnn_matmul *d, int64_t unit) {
    const mpc_matmul *mm = &d->mm;
    int64_t block = unit % (d->m_blocks * d->n_blocks);
    int64_t i = block / d->n_blocks * d->m_block, j = block % d->n_blocks * d->n_block;
    int64_t rows = smaller(d->m_block, mm->m - i), columns = smaller(d->n_block, mm->n - j);
    uint8_t *c = mpc_at_mutable(d->c, mm->fc, result_offset(d, unit));
    for (int64_t y = 0; y < rows; y++) d->isa->relu(mm->fc, mpc_at_mutable(c, mm->fc, y * mm->c_row), columns);
}

static void run_call(void *user, int64_t unit, unsigned thread) {
    const dnn_matmul *d = user;
    mpc_dnn_run(d->calls[unit], thread);
    if (d->aside_row) copy_aside(d, unit, thread);
    if (d->mm.relu) apply_relu(d, unit);
}

static mpc_dnn_call *bind_call(const dnn_matmul *d, const mpc_binding *b, int64_t unit) {
    const mpc_matmul *mm = &d->mm;
    int64_t blocks = d->m_blocks * d->n_blocks, entry = unit / blocks, block = unit % blocks;
    int64_t bi = block / d->n_blocks, bj = block % d->n_blocks, i = bi * d->m_block, j = bj * d->n_block;
    void *data[MPC_DNN_TENSORS] = {0};
    data[MPC_DNN_SRC] =
        mpc_at_mutable(mpc_resolve(b, mm->a), mm->fa, mpc_matmul_batch_offset(mm, mm->a_batch, entry) + i * mm->a_row);
    data[MPC_DNN_WEIGHTS] =
        mpc_at_mutable(mpc_resolve(b, mm->b), mm->fb, mpc_matmul_batch_offset(mm, mm->b_batch, entry) + j * mm->b_col);
    data[MPC_DNN_DST] = mpc_at_mutable(d->c, mm->fc, result_offset(d, unit));
    if (mm->has_bias) data[MPC_DNN_BIAS] = (float *)mpc_resolve(b, mm->bias) + j;
    return mpc_dnn_bind(d->ops[bi + 1 == d->m_blocks][bj + 1 == d->n_blocks], data);
}

static bool bind_matmul(mpc_plan *plan, const mpc_binding *b) {
    dnn_matmul *d = plan->state;
    d->c = mpc_resolve(b, d->mm.c);
    d->scratch = b->scratch;
    d->scratch_stride = b->scratch_stride;
    int64_t units = d->batches * d->m_blocks * d->n_blocks;
    d->calls = mpc_arena_alloc(d->arena, (size_t)units * sizeof *d->calls);
    if (!d->calls) return false;
    for (int i = 0; i < 4; i++) {
        mpc_dnn_op *op = d->ops[i / 2][i % 2];
        if (op && !mpc_dnn_place_scratch(op, b->scratch, b->scratch_stride, b->threads)) return false;
        if (op && d->aside_row &&
            !mpc_dnn_place_result(op, b->scratch + d->aside_offset, b->scratch_stride, b->threads))
            return false;
    }
    for (int64_t unit = 0; unit < units; unit++) {
        d->calls[unit] = bind_call(d, b, unit);
        if (!d->calls[unit]) return false;
    }
    return true;
}

static bool formats_fit(const mpc_matmul *mm) {
    if (mm->fa != mm->fb || (mm->fa != MPC_FMT_f32 && mm->fa != MPC_FMT_bf16)) return false;
    return mm->fc == MPC_FMT_f32 || mm->fc == mm->fa;
}

mpc_plan *mpc_matmul_plan_onednn(const mpc_plan_env *env, const mpc_matmul *mm) {
    if (!env->dnn || !formats_fit(mm)) return NULL;
    bool transposed = mm->c_col != 1;
    if (transposed && (mm->c_row != 1 || mm->has_bias)) return NULL;
    mpc_plan *plan = mpc_plan_new(env, sizeof(dnn_matmul));
    if (!plan) return NULL;
    dnn_matmul *d = plan->state;
    *d = (dnn_matmul){.mm = *mm, .dnn = env->dnn, .arena = env->arena, .isa = env->isa};
    if (transposed) swap_operands(&d->mm);
    choose_blocks(d);
    if (!create_ops(d, plan) || (aside_pays(d, plan) && !make_aside(d, plan))) return NULL;
    plan->bind = bind_matmul;
    double products = (double)(mm->m * mm->n * mm->k) * (double)d->batches;
    mpc_plan_add_phase(plan, run_call, d, d->batches * d->m_blocks * d->n_blocks,
                       products / (mm->fa == MPC_FMT_bf16 ? 100e9 : 45e9));
    return plan;
}
