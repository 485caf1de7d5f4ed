/* Matmuls in formats that the library's kernels don't take (f16, 8 bits, mixed; bf16 on older processors): operands are
 * widened to f32 once, which is exact, the product is an f32 matmul like any other, and its result is rounded once.
 * Phases: widen a, widen b, the inner plan's one, narrow c. The inner plan sees three or four buffers of its own, not
 * the program's: what is already f32 is used where it lies, with the program's strides. */
#include "runtime/cpu/plan.h"

enum { LINE = 4096, UNIT = 1 << 15 };

typedef struct lines { /* a tensor as lines of contiguous elements; the f32 copy is dense, in the same order */
    mpc_format format;
    int64_t count, length, last; /* last: length of the last line */
    int64_t stride;              /* of lines */
    int64_t batch[MPC_MATMUL_BATCH_DIMS], batch_stride[MPC_MATMUL_BATCH_DIMS], batches;
    int64_t per_unit; /* lines */
    uint8_t *low;
    float *wide;
    const mpc_gemm_isa *isa;
} lines;

typedef struct widened_matmul {
    mpc_matmul inner;
    const mpc_matmul *mm;
    mpc_plan *plan; /* of the inner product */
    lines a, b, c;
    bool has_a, has_b, has_c; /* goes through an f32 copy */
    uint64_t a_offset, b_offset, c_offset;
    uint8_t *buffers[4];
} widened_matmul;

/* Elements [n] of line `line` in memory of the program. */
static uint8_t *line_address(const lines *l, int64_t line, int64_t *n) {
    int64_t entry = line / l->count, at = line % l->count, offset = at * l->stride;
    for (int d = MPC_MATMUL_BATCH_DIMS - 1; d >= 0; d--) {
        offset += entry % l->batch[d] * l->batch_stride[d];
        entry /= l->batch[d];
    }
    *n = at + 1 == l->count ? l->last : l->length;
    return mpc_at_mutable(l->low, l->format, offset);
}

/* Where the line's copy begins: all lines before it in its entry are whole. */
static float *wide_address(const lines *l, int64_t line) {
    int64_t entry = line / l->count, at = line % l->count;
    return l->wide + entry * ((l->count - 1) * l->length + l->last) + at * l->length;
}

static void convert(const lines *l, int64_t unit, bool widen) {
    int64_t end = (unit + 1) * l->per_unit, all = l->count * l->batches;
    for (int64_t line = unit * l->per_unit; line < end && line < all; line++) {
        int64_t n = 0;
        uint8_t *low = line_address(l, line, &n);
        if (widen) l->isa->to_f32(l->format, low, wide_address(l, line), n);
        else l->isa->from_f32(l->format, wide_address(l, line), low, n);
    }
}

static void widen_unit(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    convert(user, unit, true);
}

static void narrow_unit(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    convert(user, unit, false);
}

/* rows x cols elements with strides of which one is 1. Sets the strides of the dense copy. */
static lines make_lines(mpc_format format, int64_t rows, int64_t cols, int64_t *row_stride, int64_t *col_stride) {
    lines l = {.format = format, .count = rows, .length = cols, .last = cols, .stride = *row_stride};
    bool by_columns = *col_stride != 1;
    if (by_columns) l.count = cols, l.length = l.last = rows, l.stride = *col_stride;
    *row_stride = by_columns ? 1 : cols;
    *col_stride = by_columns ? rows : 1;
    if (l.stride == l.length) { /* dense: lines of a handy length instead */
        int64_t all = l.count * l.length;
        l.count = mpc_divide_up(all, LINE);
        l.length = l.stride = LINE;
        l.last = all - (l.count - 1) * LINE;
    }
    return l;
}

/* The copy holds an entry once, however often it is used. Sets the batch strides of the copy. */
static void add_batches(lines *l, const mpc_matmul *mm, int64_t elements, int64_t *strides) {
    l->batches = 1;
    for (int d = MPC_MATMUL_BATCH_DIMS - 1; d >= 0; d--) {
        l->batch[d] = strides[d] == 0 ? 1 : mm->batch[d];
        l->batch_stride[d] = strides[d];
        strides[d] = strides[d] == 0 ? 0 : elements * l->batches;
        l->batches *= l->batch[d];
    }
    l->per_unit = mpc_divide_up(UNIT, l->length);
}

static uint64_t place(const lines *l, uint64_t *bytes) {
    uint64_t at = *bytes, elements = (uint64_t)(((l->count - 1) * l->length + l->last) * l->batches);
    *bytes += (elements * sizeof(float) + 63) / 64 * 64;
    return at;
}

static void lay_out(widened_matmul *w, mpc_plan *plan, const mpc_gemm_isa *isa) {
    const mpc_matmul *mm = w->mm;
    mpc_matmul *in = &w->inner;
    w->has_a = mm->fa != MPC_FMT_f32;
    w->has_b = mm->fb != MPC_FMT_f32;
    w->has_c = mm->fc != MPC_FMT_f32;
    in->fa = in->fb = in->fc = MPC_FMT_f32;
    in->a = (mpc_pointer){.buffer = 0};
    in->b = (mpc_pointer){.buffer = 1};
    in->c = (mpc_pointer){.buffer = 2};
    in->bias = (mpc_pointer){.buffer = 3};
    if (w->has_a) {
        w->a = make_lines(mm->fa, mm->m, mm->k, &in->a_row, &in->a_col);
        add_batches(&w->a, mm, mm->m * mm->k, in->a_batch);
        w->a_offset = place(&w->a, &plan->shared_bytes);
    }
    if (w->has_b) {
        w->b = make_lines(mm->fb, mm->k, mm->n, &in->b_row, &in->b_col);
        add_batches(&w->b, mm, mm->k * mm->n, in->b_batch);
        w->b_offset = place(&w->b, &plan->shared_bytes);
    }
    if (w->has_c) {
        w->c = make_lines(mm->fc, mm->m, mm->n, &in->c_row, &in->c_col);
        add_batches(&w->c, mm, mm->m * mm->n, in->c_batch);
        w->c_offset = place(&w->c, &plan->shared_bytes);
    }
    w->a.isa = w->b.isa = w->c.isa = isa;
}

static void *find_operand(const mpc_binding *b, lines *l, bool copied, mpc_pointer from, uint64_t offset) {
    uint8_t *own = mpc_resolve(b, from);
    if (!copied) return own;
    l->low = own;
    l->wide = (float *)(void *)(b->shared + offset);
    return l->wide;
}

static bool bind_widened(mpc_plan *plan, const mpc_binding *b) {
    widened_matmul *w = plan->state;
    w->buffers[0] = find_operand(b, &w->a, w->has_a, w->mm->a, w->a_offset);
    w->buffers[1] = find_operand(b, &w->b, w->has_b, w->mm->b, w->b_offset);
    w->buffers[2] = find_operand(b, &w->c, w->has_c, w->mm->c, w->c_offset);
    if (w->mm->has_bias) w->buffers[3] = mpc_resolve(b, w->mm->bias);
    mpc_binding inner = *b;
    inner.buffers = w->buffers;
    return w->plan->bind(w->plan, &inner);
}

static void add_conversion(mpc_plan *plan, lines *l, bool used, mpc_pool_work work) {
    if (!used) return;
    int64_t count = l->count * l->batches;
    mpc_plan_add_phase(plan, work, l, mpc_divide_up(count, l->per_unit), (double)(count * l->length) / 2e9);
}

mpc_plan *mpc_matmul_plan_widened(const mpc_plan_env *env, const mpc_matmul *mm, mpc_inner_plan make_inner) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(widened_matmul));
    if (!plan) return NULL;
    widened_matmul *w = plan->state;
    w->mm = mm;
    w->inner = *mm;
    lay_out(w, plan, env->isa);
    w->plan = make_inner(env, &w->inner);
    if (!w->plan || w->plan->phase_count != 1 || w->plan->shared_bytes != 0) return NULL;
    plan->scratch_bytes = w->plan->scratch_bytes;
    plan->implementation = w->plan->implementation;
    plan->bind = bind_widened;
    add_conversion(plan, &w->a, w->has_a, widen_unit);
    add_conversion(plan, &w->b, w->has_b, widen_unit);
    plan->phases[plan->phase_count++] = w->plan->phases[0];
    add_conversion(plan, &w->c, w->has_c, narrow_unit);
    return plan;
}
