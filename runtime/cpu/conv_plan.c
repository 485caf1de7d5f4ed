/* Convolution on the own matrix product, for machines without oneDNN and for what the library has no good primitive
 * for. All three kinds gather the values under the kernel window into a matrix (widened to f32) and multiply: forward
 * by the weights as they lie, the input gradient by weights transposed once per launch, the weight gradient by dy,
 * adding up positions in their order. */
#include <string.h>

#include "runtime/cpu/plan.h"

enum { POSITIONS = 96, WEIGHT_POSITIONS = 256 };

typedef struct own_conv {
    const mpc_conv *c;
    const mpc_gemm_isa *isa;
    const uint8_t *x, *w, *y; /* storage; the result among them is written through the same pointers */
    const float *bias;
    float *transposed; /* GRAD_INPUT: [groups][kh,kw,oc/groups][c/groups] */
    uint8_t *scratch;
    uint64_t scratch_stride;
    int64_t c_group, oc_group;
    int64_t blocks; /* of positions, in one image */
} own_conv;

typedef struct window { /* one axis: window index and position on the gathered side */
    int64_t stride, pad, dilation, size;
} window;

static float *align_floats(uint8_t *p) { return (float *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

/* Where window element `k` of output `o` lies in the input; -1: in the padding. */
static int64_t input_at(const window *w, int64_t o, int64_t k) {
    int64_t i = o * w->stride - w->pad + k * w->dilation;
    return i >= 0 && i < w->size ? i : -1;
}

/* Which output reads input `i` as its window element `k`; -1: none. */
static int64_t output_at(const window *w, int64_t i, int64_t k) {
    int64_t o = i + w->pad - k * w->dilation;
    if (o < 0 || o % w->stride != 0) return -1;
    o /= w->stride;
    return o < w->size ? o : -1;
}

static window window_of(const mpc_conv *c, int axis, int64_t size) {
    return (window){.stride = c->stride[axis], .pad = c->pad[axis], .dilation = c->dilation[axis], .size = size};
}

/* ---- forward ---- */

/* One row of the matrix: the window of output position (oy, ox), [kh, kw, c/groups]. */
static void gather_input(const own_conv *o, int64_t n, int64_t oy, int64_t ox, int64_t group, float *to) {
    const mpc_conv *c = o->c;
    window wy = window_of(c, 0, c->h), wx = window_of(c, 1, c->wd);
    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++, to += o->c_group) {
            int64_t y = input_at(&wy, oy, ky), x = input_at(&wx, ox, kx);
            if (y < 0 || x < 0) memset(to, 0, (size_t)o->c_group * sizeof *to);
            else
                o->isa->to_f32(c->fx, mpc_at(o->x, c->fx, ((n * c->h + y) * c->wd + x) * c->c + group * o->c_group), to,
                               o->c_group);
        }
}

static void run_forward(void *user, int64_t unit, unsigned thread) {
    const own_conv *o = user;
    const mpc_conv *c = o->c;
    int64_t group = unit % c->groups, block = unit / c->groups % o->blocks, n = unit / c->groups / o->blocks;
    int64_t first = block * POSITIONS, count = c->oh * c->ow - first < POSITIONS ? c->oh * c->ow - first : POSITIONS;
    int64_t k = c->kh * c->kw * o->c_group;
    float *rows = align_floats(o->scratch + thread * o->scratch_stride);
    for (int64_t i = 0; i < count; i++)
        gather_input(o, n, (first + i) / c->ow, (first + i) % c->ow, group, rows + i * k);
    mpc_gemm g = {.fa = MPC_FMT_f32,
                  .fb = c->fw,
                  .fc = c->fy,
                  .a = rows,
                  .relu = c->relu,
                  .m = count,
                  .n = o->oc_group,
                  .k = k,
                  .a_row = k,
                  .a_col = 1,
                  .b_row = c->oc,
                  .b_col = 1,
                  .c_row = c->oc,
                  .c_col = 1};
    g.b = mpc_at(o->w, c->fw, group * o->oc_group);
    g.c = mpc_at_mutable((void *)(uintptr_t)o->y, c->fy, (n * c->oh * c->ow + first) * c->oc + group * o->oc_group);
    g.bias = o->bias ? o->bias + group * o->oc_group : NULL;
    mpc_gemm_run(&g, o->isa, rows + POSITIONS * k);
}

/* ---- gradient of the input ---- */

static void transpose_weights(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const own_conv *o = user;
    const mpc_conv *c = o->c;
    int64_t kernel = c->kh * c->kw, group = unit / kernel, at = unit % kernel;
    float *to = o->transposed + (group * kernel + at) * o->oc_group * o->c_group;
    mpc_pack panel = {.from = mpc_at(o->w, c->fw, at * o->c_group * c->oc + group * o->oc_group),
                      .format = c->fw,
                      .lane_stride = c->oc,
                      .k_stride = 1,
                      .lanes = o->c_group,
                      .width = o->c_group,
                      .k = o->oc_group};
    o->isa->pack(&panel, to); /* [oc/groups][c/groups] */
}

/* One row: what reads input position (iy, ix), [kh, kw, oc/groups]. */
static void gather_output(const own_conv *o, int64_t n, int64_t iy, int64_t ix, int64_t group, float *to) {
    const mpc_conv *c = o->c;
    window wy = window_of(c, 0, c->oh), wx = window_of(c, 1, c->ow);
    for (int64_t ky = 0; ky < c->kh; ky++)
        for (int64_t kx = 0; kx < c->kw; kx++, to += o->oc_group) {
            int64_t y = output_at(&wy, iy, ky), x = output_at(&wx, ix, kx);
            if (y < 0 || x < 0) memset(to, 0, (size_t)o->oc_group * sizeof *to);
            else
                o->isa->to_f32(c->fy, mpc_at(o->y, c->fy, ((n * c->oh + y) * c->ow + x) * c->oc + group * o->oc_group),
                               to, o->oc_group);
        }
}

static void run_grad_input(void *user, int64_t unit, unsigned thread) {
    const own_conv *o = user;
    const mpc_conv *c = o->c;
    int64_t group = unit % c->groups, block = unit / c->groups % o->blocks, n = unit / c->groups / o->blocks;
    int64_t first = block * POSITIONS, count = c->h * c->wd - first < POSITIONS ? c->h * c->wd - first : POSITIONS;
    int64_t k = c->kh * c->kw * o->oc_group;
    float *rows = align_floats(o->scratch + thread * o->scratch_stride);
    for (int64_t i = 0; i < count; i++)
        gather_output(o, n, (first + i) / c->wd, (first + i) % c->wd, group, rows + i * k);
    mpc_gemm g = {.fa = MPC_FMT_f32,
                  .fb = MPC_FMT_f32,
                  .fc = c->fx,
                  .a = rows,
                  .b = o->transposed + group * k * o->c_group,
                  .m = count,
                  .n = o->c_group,
                  .k = k,
                  .a_row = k,
                  .a_col = 1,
                  .b_row = o->c_group,
                  .b_col = 1,
                  .c_row = c->c,
                  .c_col = 1};
    g.c = mpc_at_mutable((void *)(uintptr_t)o->x, c->fx, (n * c->h * c->wd + first) * c->c + group * o->c_group);
    mpc_gemm_run(&g, o->isa, rows + POSITIONS * k);
}

/* ---- gradient of the weights ---- */

/* [count][c/groups]: the input under window element (ky, kx) of output positions first ... */
static void gather_element(const own_conv *o, int64_t first, int64_t count, int64_t element, int64_t group, float *to) {
    const mpc_conv *c = o->c;
    window wy = window_of(c, 0, c->h), wx = window_of(c, 1, c->wd);
    for (int64_t p = first; p < first + count; p++, to += o->c_group) {
        int64_t n = p / (c->oh * c->ow), at = p % (c->oh * c->ow);
        int64_t y = input_at(&wy, at / c->ow, element / c->kw), x = input_at(&wx, at % c->ow, element % c->kw);
        if (y < 0 || x < 0) memset(to, 0, (size_t)o->c_group * sizeof *to);
        else
            o->isa->to_f32(c->fx, mpc_at(o->x, c->fx, ((n * c->h + y) * c->wd + x) * c->c + group * o->c_group), to,
                           o->c_group);
    }
}

static void run_grad_weight(void *user, int64_t unit, unsigned thread) {
    const own_conv *o = user;
    const mpc_conv *c = o->c;
    int64_t element = unit % (c->kh * c->kw), group = unit / (c->kh * c->kw), positions = c->n * c->oh * c->ow;
    float *rows = align_floats(o->scratch + thread * o->scratch_stride), *sums = rows + WEIGHT_POSITIONS * o->c_group;
    float *rest = sums + o->c_group * o->oc_group;
    memset(sums, 0, (size_t)(o->c_group * o->oc_group) * sizeof *sums);
    for (int64_t first = 0; first < positions; first += WEIGHT_POSITIONS) {
        int64_t count = positions - first < WEIGHT_POSITIONS ? positions - first : WEIGHT_POSITIONS;
        gather_element(o, first, count, element, group, rows);
        mpc_gemm g = {.fa = MPC_FMT_f32,
                      .fb = c->fy,
                      .fc = MPC_FMT_f32,
                      .a = rows,
                      .c = sums,
                      .add = true,
                      .m = o->c_group,
                      .n = o->oc_group,
                      .k = count,
                      .a_row = 1,
                      .a_col = o->c_group,
                      .b_row = c->oc,
                      .b_col = 1,
                      .c_row = o->oc_group,
                      .c_col = 1};
        g.b = mpc_at(o->y, c->fy, first * c->oc + group * o->oc_group);
        mpc_gemm_run(&g, o->isa, rest);
    }
    for (int64_t i = 0; i < o->c_group; i++) {
        void *row =
            mpc_at_mutable((void *)(uintptr_t)o->w, c->fw, (element * o->c_group + i) * c->oc + group * o->oc_group);
        o->isa->from_f32(c->fw, sums + i * o->oc_group, row, o->oc_group);
    }
}

/* ---- plans ---- */

static bool bind_own(mpc_plan *plan, const mpc_binding *b) {
    own_conv *o = plan->state;
    o->x = mpc_resolve(b, o->c->x);
    o->w = mpc_resolve(b, o->c->w);
    o->y = mpc_resolve(b, o->c->y);
    o->bias = o->c->has_bias ? mpc_resolve(b, o->c->bias) : NULL;
    o->transposed = (float *)b->shared;
    o->scratch = b->scratch;
    o->scratch_stride = b->scratch_stride;
    return true;
}

static void plan_forward(mpc_plan *plan, own_conv *o) {
    const mpc_conv *c = o->c;
    int64_t k = c->kh * c->kw * o->c_group;
    o->blocks = mpc_divide_up(c->oh * c->ow, POSITIONS);
    plan->scratch_bytes =
        (uint64_t)(POSITIONS * k) * sizeof(float) + 64 + mpc_gemm_scratch(o->isa, POSITIONS, o->oc_group, k);
    mpc_plan_add_phase(plan, run_forward, o, c->n * o->blocks * c->groups, 0);
}

static void plan_grad_input(mpc_plan *plan, own_conv *o) {
    const mpc_conv *c = o->c;
    int64_t k = c->kh * c->kw * o->oc_group;
    o->blocks = mpc_divide_up(c->h * c->wd, POSITIONS);
    plan->shared_bytes = (uint64_t)(c->groups * k * o->c_group) * sizeof(float);
    plan->scratch_bytes =
        (uint64_t)(POSITIONS * k) * sizeof(float) + 64 + mpc_gemm_scratch(o->isa, POSITIONS, o->c_group, k);
    mpc_plan_add_phase(plan, transpose_weights, o, c->groups * c->kh * c->kw, 0);
    mpc_plan_add_phase(plan, run_grad_input, o, c->n * o->blocks * c->groups, 0);
}

static void plan_grad_weight(mpc_plan *plan, own_conv *o) {
    const mpc_conv *c = o->c;
    plan->scratch_bytes = (uint64_t)(WEIGHT_POSITIONS * o->c_group + o->c_group * o->oc_group) * sizeof(float) + 64 +
                          mpc_gemm_scratch(o->isa, o->c_group, o->oc_group, WEIGHT_POSITIONS);
    mpc_plan_add_phase(plan, run_grad_weight, o, c->groups * c->kh * c->kw, 0);
}

static mpc_plan *plan_own(const mpc_plan_env *env, const mpc_conv *c) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(own_conv));
    if (!plan) return NULL;
    own_conv *o = plan->state;
    o->c = c;
    o->isa = env->isa;
    o->c_group = c->c / c->groups;
    o->oc_group = c->oc / c->groups;
    plan->implementation = env->isa->name;
    plan->bind = bind_own;
    if (c->kind == MPC_CONV_FORWARD) plan_forward(plan, o);
    else if (c->kind == MPC_CONV_GRAD_INPUT) plan_grad_input(plan, o);
    else plan_grad_weight(plan, o);
    return plan;
}

mpc_plan *mpc_conv_plan(const mpc_plan_env *env, const mpc_launch *launch) {
    const mpc_conv *c = &launch->conv;
    if (!mpc_accumulator_is_f32(env, launch, c->acc)) return NULL;
    const mpc_format formats[] = {c->fx, c->fw, c->fy};
    for (int i = 0; i < 3; i++)
        if (!mpc_gemm_supports(formats[i])) {
            mpc_error(env->sink, "E652", "%s: the cpu device has no convolution of %s", launch->name,
                      mpc_format_get(formats[i])->name);
            return NULL;
        }
    mpc_plan *plan = mpc_conv_plan_onednn(env, c);
    return plan ? plan : plan_own(env, c);
}
