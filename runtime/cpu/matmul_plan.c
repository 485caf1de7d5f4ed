/* Chooses how a matmul runs, by its shape and formats only: small ones on the own register tiles (a library call costs
 * about a microsecond), large f32 and bf16 ones by oneDNN, large ones of other formats as f32 copies, the rest on the
 * own tiles, which widen to f32 while packing. All cuts come from shapes, never from the number of threads, and none
 * cuts k. */
#include "runtime/cpu/plan.h"

enum { M_BLOCK = 192, N_BLOCK = 256, SMALL_WORK = 1 << 18, WIDENED_WORK = 1 << 18, UNIT_WORK = 1 << 17 };

typedef struct own_matmul {
    const mpc_matmul *mm;
    mpc_gemm whole; /* of batch entry 0, addresses filled in by bind */
    const mpc_gemm_isa *isa;
    int64_t m_block, n_block, m_blocks, n_blocks;
    int64_t batches, batches_per_unit, batch_units;
    uint8_t *scratch;
    uint64_t scratch_stride;
} own_matmul;

/* About `most` of `size`, in whole tiles. */
static int64_t block_of(int64_t size, int64_t most, int64_t tile) {
    if (size < most) return size;
    return mpc_divide_up(mpc_divide_up(size, mpc_divide_up(size, most)), tile) * tile;
}

int64_t mpc_matmul_batch_offset(const mpc_matmul *mm, const int64_t *strides, int64_t entry) {
    int64_t offset = 0;
    for (int d = MPC_MATMUL_BATCH_DIMS - 1; d >= 0; d--) {
        offset += entry % mm->batch[d] * strides[d];
        entry /= mm->batch[d];
    }
    return offset;
}

static void run_block(const own_matmul *o, int64_t entry, int64_t block, void *scratch) {
    const mpc_matmul *mm = o->mm;
    mpc_gemm g = o->whole;
    int64_t i = block / o->n_blocks * o->m_block, j = block % o->n_blocks * o->n_block;
    g.a = mpc_at(g.a, g.fa, mpc_matmul_batch_offset(mm, mm->a_batch, entry) + i * g.a_row);
    g.b = mpc_at(g.b, g.fb, mpc_matmul_batch_offset(mm, mm->b_batch, entry) + j * g.b_col);
    g.c = mpc_at_mutable(g.c, g.fc, mpc_matmul_batch_offset(mm, mm->c_batch, entry) + i * g.c_row + j * g.c_col);
    if (g.bias) g.bias += j;
    if (g.m - i < o->m_block) g.m -= i;
    else g.m = o->m_block;
    if (g.n - j < o->n_block) g.n -= j;
    else g.n = o->n_block;
    mpc_gemm_run(&g, o->isa, scratch);
}

static void run_own(void *user, int64_t unit, unsigned thread) {
    const own_matmul *o = user;
    int64_t blocks = o->m_blocks * o->n_blocks;
    int64_t first = unit / blocks * o->batches_per_unit, block = unit % blocks;
    int64_t last = first + o->batches_per_unit < o->batches ? first + o->batches_per_unit : o->batches;
    for (int64_t entry = first; entry < last; entry++)
        run_block(o, entry, block, o->scratch + thread * o->scratch_stride);
}

static bool bind_own(mpc_plan *plan, const mpc_binding *b) {
    own_matmul *o = plan->state;
    o->whole.a = mpc_resolve(b, o->mm->a);
    o->whole.b = mpc_resolve(b, o->mm->b);
    o->whole.c = mpc_resolve(b, o->mm->c);
    o->whole.bias = o->mm->has_bias ? mpc_resolve(b, o->mm->bias) : NULL;
    o->scratch = b->scratch;
    o->scratch_stride = b->scratch_stride;
    return true;
}

static void choose_blocks(own_matmul *o) {
    const mpc_matmul *mm = o->mm;
    int64_t work = mm->m * mm->n * mm->k;
    o->batches = mpc_matmul_batches(mm);
    o->batches_per_unit = 1;
    o->m_block = mm->m;
    o->n_block = mm->n;
    if (work <= SMALL_WORK) { /* one unit an entry, or one for several */
        o->batches_per_unit = work > 0 ? mpc_divide_up(UNIT_WORK, work) : o->batches;
    } else {
        o->m_block = block_of(mm->m, M_BLOCK, o->isa->rows);
        o->n_block = block_of(mm->n, N_BLOCK, o->isa->columns);
    }
    o->m_blocks = o->m_block > 0 ? mpc_divide_up(mm->m, o->m_block) : 0;
    o->n_blocks = o->n_block > 0 ? mpc_divide_up(mm->n, o->n_block) : 0;
    o->batch_units = o->batches_per_unit > 0 ? mpc_divide_up(o->batches, o->batches_per_unit) : 0;
}

static mpc_plan *plan_own(const mpc_plan_env *env, const mpc_matmul *mm) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(own_matmul));
    if (!plan) return NULL;
    own_matmul *o = plan->state;
    o->mm = mm;
    o->isa = env->isa;
    o->whole = (mpc_gemm){.fa = mm->fa,
                          .fb = mm->fb,
                          .fc = mm->fc,
                          .relu = mm->relu,
                          .m = mm->m,
                          .n = mm->n,
                          .k = mm->k,
                          .a_row = mm->a_row,
                          .a_col = mm->a_col,
                          .b_row = mm->b_row,
                          .b_col = mm->b_col,
                          .c_row = mm->c_row,
                          .c_col = mm->c_col};
    choose_blocks(o);
    plan->scratch_bytes = mpc_gemm_scratch(env->isa, o->m_block, o->n_block, mm->k);
    plan->implementation = env->isa->name;
    plan->bind = bind_own;
    double products = (double)(mm->m * mm->n * mm->k) * (double)o->batches;
    mpc_plan_add_phase(plan, run_own, o, o->batch_units * o->m_blocks * o->n_blocks, products / 20e9);
    return plan;
}

static bool formats_are_known(const mpc_plan_env *env, const mpc_launch *launch) {
    const mpc_format formats[] = {launch->matmul.fa, launch->matmul.fb, launch->matmul.fc};
    for (int i = 0; i < 3; i++) {
        if (mpc_gemm_supports(formats[i])) continue;
        mpc_error(env->sink, "E652", "%s: the cpu device has no matmul of %s", launch->name,
                  mpc_format_get(formats[i])->name);
        return false;
    }
    return true;
}

/* Products above which a library call is faster: measured on AVX-512 with a call's overhead of half a microsecond. The
 * own tiles are good where b lies along n, in f32, in whole tiles. */
static int64_t library_pays(const mpc_matmul *mm) {
    if (mm->fa == MPC_FMT_bf16) return 4 << 10;
    return mm->b_col == 1 && mm->n % 16 == 0 ? 96 << 10 : 16 << 10;
}

static mpc_plan *plan_direct(const mpc_plan_env *env, const mpc_matmul *mm) {
    mpc_plan *plan = mm->m * mm->n * mm->k > library_pays(mm) ? mpc_matmul_plan_onednn(env, mm) : NULL;
    return plan ? plan : plan_own(env, mm);
}

/* Own panels are widened again for each block of c; copies in f32 are made once, and the library can take them. The library rounds no
 * product of f32 operands, so where it pays, a low result of such is made in f32 too. */
static bool widening_pays(const mpc_plan_env *env, const mpc_matmul *mm) {
    int64_t work = mm->m * mm->n * mm->k;
    if (mm->fa == MPC_FMT_f32 && mm->fb == MPC_FMT_f32)
        return env->dnn && mm->fc != MPC_FMT_f32 && work > library_pays(mm);
    bool has_work = work > WIDENED_WORK;
    return has_work && mm->m >= 16 && mm->n >= 16;
}

mpc_plan *mpc_matmul_plan(const mpc_plan_env *env, const mpc_launch *launch) {
    const mpc_matmul *mm = &launch->matmul;
    if (!mpc_accumulator_is_f32(env, launch, mm->acc) || !formats_are_known(env, launch)) return NULL;
    mpc_plan *plan = mpc_matmul_plan_thin(env, mm);
    if (!plan && mm->m * mm->n * mm->k > library_pays(mm)) plan = mpc_matmul_plan_onednn(env, mm);
    if (!plan && widening_pays(env, mm)) plan = mpc_matmul_plan_widened(env, mm, plan_direct);
    return plan ? plan : plan_own(env, mm);
}
