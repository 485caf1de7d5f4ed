/* Convolution by oneDNN: channels-last tensors as they lie, weights in the library's own layout, reordered inside the
 * step (weights change every step). Images are cut into blocks whose size depends on the shape only; every block is one
 * call for one thread. The weight gradient adds the blocks' f32 results in their order. A primitive named `ref` or
 * `gemm` is never used: the own kernels are faster. */
#include <string.h>

#include "runtime/cpu/onednn.h"
#include "runtime/cpu/plan.h"

enum {
    BLOCK_WORK = 1 << 20,
    LOW_BLOCK_WORK = 4 << 20,
    CHUNK = 1 << 12,
    MAX_GRAD_BLOCKS = 16,
    MAX_BLOCKS = 64,
    GRAD_POSITIONS = 256,
    LINE = 16
};
enum { WHOLE, LAST, VARIANTS };

typedef struct region { /* in the shared workspace */
    uint64_t offset, bytes;
    float *data;
} region;

typedef struct conversion { /* between a tensor and its f32 copy */
    mpc_format format;
    uint8_t *low;
    float *wide;
    int64_t elements;
} conversion;

typedef struct dnn_conv {
    mpc_conv c;
    mpc_dnn *dnn;
    mpc_arena *arena;
    const mpc_gemm_isa *isa;
    mpc_format fx, fw, fy;          /* what the primitive sees; f32 where a tensor is widened */
    int64_t block, blocks, last;    /* images in a block, in the last one */
    mpc_dnn_op *ops[VARIANTS];      /* LAST is NULL when it is like WHOLE */
    mpc_dnn_op *reorders[VARIANTS]; /* of the weights, to or from the library's layout */
    mpc_dnn_call **calls;
    mpc_dnn_call *reorder_calls[VARIANTS];
    region wide_x, wide_w, wide_y, layout[VARIANTS], plain[VARIANTS], partial;
    conversion in[2], out;
    int64_t in_units[2];
    int in_count;
    uint8_t *w; /* storage of the weights */
    uint8_t *y; /* what the primitive sees */
} dnn_conv;

static int64_t x_elements(const mpc_conv *c, int64_t n) { return n * c->h * c->wd * c->c; }
static int64_t y_elements(const mpc_conv *c, int64_t n) { return n * c->oh * c->ow * c->oc; }
static int64_t w_elements(const mpc_conv *c) { return c->kh * c->kw * (c->c / c->groups) * c->oc; }

/* ---- tensors and primitives ---- */

static mpc_dnn_tensor image(mpc_format format, int64_t n, int64_t h, int64_t w, int64_t c) {
    return (mpc_dnn_tensor){.rank = 4, .format = format, .dims = {n, c, h, w}, .strides = {h * w * c, 1, w * c, c}};
}

/* [kh, kw, c/groups, oc] in the library's order of dims. */
static mpc_dnn_tensor weights(const mpc_conv *c, mpc_format format, bool any) {
    int64_t cg = c->c / c->groups, og = c->oc / c->groups;
    if (c->groups == 1)
        return (mpc_dnn_tensor){.rank = 4,
                                .format = format,
                                .any = any,
                                .dims = {c->oc, c->c, c->kh, c->kw},
                                .strides = {1, c->oc, c->kw * c->c * c->oc, c->c * c->oc}};
    return (mpc_dnn_tensor){.rank = 5,
                            .format = format,
                            .any = any,
                            .dims = {c->groups, og, cg, c->kh, c->kw},
                            .strides = {og, 1, c->oc, c->kw * cg * c->oc, cg * c->oc}};
}

static bool is_slow(const mpc_dnn_op *op) {
    const char *name = mpc_dnn_implementation(op);
    return strstr(name, "ref") || strstr(name, "gemm");
}

static mpc_dnn_op *create_op(const dnn_conv *d, int64_t n) {
    static const mpc_dnn_kind kinds[] = {[MPC_CONV_FORWARD] = MPC_DNN_CONV,
                                         [MPC_CONV_GRAD_INPUT] = MPC_DNN_CONV_GRAD_INPUT,
                                         [MPC_CONV_GRAD_WEIGHT] = MPC_DNN_CONV_GRAD_WEIGHT};
    const mpc_conv *c = &d->c;
    mpc_dnn_desc desc = {.kind = kinds[c->kind]};
    desc.tensors[MPC_DNN_SRC] = image(d->fx, n, c->h, c->wd, c->c);
    desc.tensors[MPC_DNN_WEIGHTS] = weights(c, d->fw, true);
    desc.tensors[MPC_DNN_DST] = image(d->fy, n, c->oh, c->ow, c->oc);
    if (c->has_bias)
        desc.tensors[MPC_DNN_BIAS] =
            (mpc_dnn_tensor){.rank = 1, .format = MPC_FMT_f32, .dims = {c->oc}, .strides = {1}};
    for (int i = 0; i < 2; i++) {
        desc.stride[i] = c->stride[i];
        desc.dilation[i] = c->dilation[i];
        desc.pad_before[i] = desc.pad_after[i] = c->pad[i];
    }
    mpc_dnn_op *op = mpc_dnn_create(d->dnn, &desc);
    return op && !is_slow(op) ? op : NULL;
}

static mpc_dnn_op *create_reorder(const dnn_conv *d, const mpc_dnn_op *op) {
    mpc_dnn_tensor plain = weights(&d->c, d->fw, false);
    if (d->c.kind == MPC_CONV_GRAD_WEIGHT) return mpc_dnn_create_reorder_from(d->dnn, op, MPC_DNN_WEIGHTS, &plain);
    return mpc_dnn_create_reorder_to(d->dnn, &plain, op, MPC_DNN_WEIGHTS);
}

static void need_scratch(mpc_plan *plan, const mpc_dnn_op *op) {
    if (mpc_dnn_scratch(op) > plan->scratch_bytes) plan->scratch_bytes = mpc_dnn_scratch(op);
}

static bool create_ops(dnn_conv *d, mpc_plan *plan) {
    for (int v = 0; v < VARIANTS; v++) {
        if (v == LAST && d->last == d->block) break;
        d->ops[v] = create_op(d, v == LAST ? d->last : d->block);
        d->reorders[v] = d->ops[v] ? create_reorder(d, d->ops[v]) : NULL;
        if (!d->reorders[v]) return false;
        need_scratch(plan, d->ops[v]);
        need_scratch(plan, d->reorders[v]);
    }
    plan->implementation = mpc_dnn_implementation(d->ops[WHOLE]);
    return true;
}

/* ---- cutting ---- */

/* Of about `wanted` images, all of the same size if possible: one primitive and one reorder of the weights then. */
static int64_t even_block(int64_t images, int64_t wanted) {
    for (int64_t block = wanted; 2 * block > wanted; block--)
        if (images % block == 0) return block;
    return mpc_divide_up(images, mpc_divide_up(images, wanted));
}

static void choose_blocks(dnn_conv *d) {
    const mpc_conv *c = &d->c;
    int64_t work = c->oh * c->ow * w_elements(c);
    int64_t most = c->kind == MPC_CONV_GRAD_WEIGHT ? MAX_GRAD_BLOCKS : MAX_BLOCKS;
    d->block = mpc_divide_up(d->fy == MPC_FMT_bf16 ? LOW_BLOCK_WORK : BLOCK_WORK, work > 0 ? work : 1);
    if (d->block < mpc_divide_up(c->n, most)) d->block = mpc_divide_up(c->n, most);
    if (c->kind == MPC_CONV_GRAD_WEIGHT &&
        d->block * c->oh * c->ow < GRAD_POSITIONS) /* a block costs a pass over all weights */
        d->block = mpc_divide_up(GRAD_POSITIONS, c->oh * c->ow);
    d->block = even_block(c->n, d->block < c->n ? d->block : c->n);
    d->blocks = mpc_divide_up(c->n, d->block);
    d->last = c->n - (d->blocks - 1) * d->block;
}

static int variant_of(const dnn_conv *d, int64_t block) {
    return block + 1 == d->blocks && d->ops[LAST] ? LAST : WHOLE;
}

/* ---- phases ---- */

static void convert_inputs(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const dnn_conv *d = user;
    int which = unit >= d->in_units[0];
    const conversion *t = &d->in[which];
    int64_t begin = (unit - (which ? d->in_units[0] : 0)) * CHUNK, left = t->elements - begin;
    d->isa->to_f32(t->format, mpc_at(t->low, t->format, begin), t->wide + begin, left < CHUNK ? left : CHUNK);
}

static void convert_output(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const dnn_conv *d = user;
    const conversion *t = &d->out;
    int64_t begin = unit * CHUNK, left = t->elements - begin;
    d->isa->from_f32(t->format, t->wide + begin, mpc_at_mutable(t->low, t->format, begin), left < CHUNK ? left : CHUNK);
}

static void reorder_weights(void *user, int64_t unit, unsigned thread) {
    mpc_dnn_run(((const dnn_conv *)user)->reorder_calls[unit], thread);
}
static void run_block(void *user, int64_t unit, unsigned thread) {
    const dnn_conv *d = user;
    mpc_dnn_run(d->calls[unit], thread);
    if (!d->c.relu) return;
    int64_t begin = y_elements(&d->c, unit * d->block), n = unit + 1 == d->blocks ? d->last : d->block;
    d->isa->relu(d->fy, mpc_at_mutable(d->y, d->fy, begin), y_elements(&d->c, n)); /* rounded or not: the same */
}

/* Regions are whole cache lines. */
static void add_lines(float *restrict sum, const float *restrict other, int64_t n) {
    for (int64_t i = 0; i < n; i += LINE)
        for (int k = 0; k < LINE; k++) sum[i + k] += other[i + k];
}

/* Adds the whole blocks' partial gradients, block by block, into the first. */
static void add_partials(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const dnn_conv *d = user;
    int64_t floats = (int64_t)(d->layout[WHOLE].bytes / sizeof(float)), begin = unit * CHUNK;
    int64_t end = floats - begin < CHUNK ? floats : begin + CHUNK;
    int64_t whole = d->blocks - (d->ops[LAST] != NULL);
    float *sum = d->partial.data;
    for (int64_t b = 1; b < whole; b++) {
        add_lines(sum + begin, sum + b * floats + begin, end - begin);
    }
}

/* Back to the plain layout, the last block added, one rounding. */
static void finish_weights(void *user, int64_t unit, unsigned thread) {
    (void)unit;
    const dnn_conv *d = user;
    int64_t n = w_elements(&d->c);
    float *sum = d->plain[WHOLE].data;
    mpc_dnn_run(d->reorder_calls[WHOLE], thread);
    if (d->ops[LAST]) {
        const float *last = d->plain[LAST].data;
        mpc_dnn_run(d->reorder_calls[LAST], thread);
        for (int64_t i = 0; i < n; i++) sum[i] += last[i];
    }
    d->isa->from_f32(d->c.fw, sum, d->w, n);
}

/* ---- binding ---- */

static void add_region(mpc_plan *plan, region *r, uint64_t bytes) {
    r->offset = plan->shared_bytes;
    r->bytes = bytes;
    plan->shared_bytes += (bytes + 63) & ~(uint64_t)63;
}

static void place_region(region *r, const mpc_binding *b) {
    r->data = r->bytes ? (float *)(b->shared + r->offset) : NULL;
}

static uint64_t float_bytes(int64_t elements) { return (uint64_t)elements * sizeof(float); }

static void lay_out(dnn_conv *d, mpc_plan *plan) {
    const mpc_conv *c = &d->c;
    bool gradient = c->kind == MPC_CONV_GRAD_WEIGHT;
    if (d->fx != c->fx) add_region(plan, &d->wide_x, float_bytes(x_elements(c, c->n)));
    if (d->fw != c->fw && !gradient) add_region(plan, &d->wide_w, float_bytes(w_elements(c)));
    if (d->fy != c->fy) add_region(plan, &d->wide_y, float_bytes(y_elements(c, c->n)));
    for (int v = 0; v < VARIANTS; v++) {
        if (!d->ops[v]) continue;
        uint64_t bytes = (mpc_dnn_bytes(d->ops[v], MPC_DNN_WEIGHTS) + 63) & ~(uint64_t)63;
        if (gradient) d->layout[v].bytes = bytes;
        else add_region(plan, &d->layout[v], bytes);
        if (gradient) add_region(plan, &d->plain[v], float_bytes(w_elements(c)));
    }
    if (gradient) add_region(plan, &d->partial, (uint64_t)d->blocks * d->layout[WHOLE].bytes + d->layout[LAST].bytes);
}

static void add_conversion(dnn_conv *d, mpc_format format, void *low, const region *wide, int64_t elements,
                           bool result) {
    if (!wide->data) return;
    conversion t = {.format = format, .low = low, .wide = wide->data, .elements = elements};
    if (result) d->out = t;
    else d->in[d->in_count++] = t;
}

static mpc_dnn_call *bind_reorder(const dnn_conv *d, int v, uint8_t *w) {
    void *data[MPC_DNN_TENSORS] = {0};
    bool gradient = d->c.kind == MPC_CONV_GRAD_WEIGHT;
    uint8_t *partial = (uint8_t *)d->partial.data;
    if (gradient)
        data[MPC_DNN_SRC] = v == WHOLE ? partial : partial + (uint64_t)(d->blocks - 1) * d->layout[WHOLE].bytes;
    else data[MPC_DNN_SRC] = w;
    data[MPC_DNN_DST] = gradient ? d->plain[v].data : d->layout[v].data;
    return mpc_dnn_bind(d->reorders[v], data);
}

static mpc_dnn_call *bind_block(const dnn_conv *d, int64_t block, uint8_t *x, uint8_t *y, void *bias) {
    void *data[MPC_DNN_TENSORS] = {0};
    int v = variant_of(d, block);
    data[MPC_DNN_SRC] = mpc_at_mutable(x, d->fx, x_elements(&d->c, block * d->block));
    data[MPC_DNN_DST] = mpc_at_mutable(y, d->fy, y_elements(&d->c, block * d->block));
    data[MPC_DNN_BIAS] = bias;
    if (d->c.kind == MPC_CONV_GRAD_WEIGHT)
        data[MPC_DNN_WEIGHTS] = (uint8_t *)d->partial.data + (uint64_t)block * d->layout[WHOLE].bytes;
    else data[MPC_DNN_WEIGHTS] = d->layout[v].data;
    return mpc_dnn_bind(d->ops[v], data);
}

static bool bind_calls(dnn_conv *d, const mpc_binding *b) {
    uint8_t *x = d->wide_x.data ? (uint8_t *)d->wide_x.data : mpc_resolve(b, d->c.x);
    uint8_t *y = d->wide_y.data ? (uint8_t *)d->wide_y.data : mpc_resolve(b, d->c.y);
    d->y = y;
    uint8_t *w = d->wide_w.data ? (uint8_t *)d->wide_w.data : d->w;
    void *bias = d->c.has_bias ? mpc_resolve(b, d->c.bias) : NULL;
    d->calls = mpc_arena_alloc(d->arena, (size_t)d->blocks * sizeof *d->calls);
    if (!d->calls) return false;
    for (int v = 0; v < VARIANTS; v++) {
        if (!d->ops[v]) continue;
        d->reorder_calls[v] = bind_reorder(d, v, w);
        if (!d->reorder_calls[v]) return false;
    }
    for (int64_t i = 0; i < d->blocks; i++) {
        d->calls[i] = bind_block(d, i, x, y, bias);
        if (!d->calls[i]) return false;
    }
    return true;
}

static bool bind_conv(mpc_plan *plan, const mpc_binding *b) {
    dnn_conv *d = plan->state;
    const mpc_conv *c = &d->c;
    region *all[] = {&d->wide_x, &d->wide_w, &d->wide_y, &d->partial, &d->plain[0], &d->plain[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) place_region(all[i], b);
    if (c->kind != MPC_CONV_GRAD_WEIGHT)
        for (int v = 0; v < VARIANTS; v++) place_region(&d->layout[v], b);
    d->w = mpc_resolve(b, c->w);
    add_conversion(d, c->fx, mpc_resolve(b, c->x), &d->wide_x, x_elements(c, c->n), c->kind == MPC_CONV_GRAD_INPUT);
    add_conversion(d, c->fw, d->w, &d->wide_w, w_elements(c), false);
    add_conversion(d, c->fy, mpc_resolve(b, c->y), &d->wide_y, y_elements(c, c->n), c->kind == MPC_CONV_FORWARD);
    for (int v = 0; v < VARIANTS; v++) {
        if (!d->ops[v]) continue;
        if (!mpc_dnn_place_scratch(d->ops[v], b->scratch, b->scratch_stride, b->threads)) return false;
        if (!mpc_dnn_place_scratch(d->reorders[v], b->scratch, b->scratch_stride, b->threads)) return false;
    }
    return bind_calls(d, b);
}

/* ---- plans ---- */

static double seconds_of(const dnn_conv *d) {
    double products = (double)(d->c.n * d->c.oh * d->c.ow) * (double)w_elements(&d->c);
    return products / (d->fy == MPC_FMT_bf16 ? 100e9 : 50e9);
}

static void add_phases(dnn_conv *d, mpc_plan *plan) {
    const mpc_conv *c = &d->c;
    int64_t reorders = 1 + (d->ops[LAST] != NULL);
    const int64_t inputs[3] = {d->wide_x.bytes && c->kind != MPC_CONV_GRAD_INPUT ? x_elements(c, c->n) : 0,
                               d->wide_w.bytes ? w_elements(c) : 0,
                               d->wide_y.bytes && c->kind != MPC_CONV_FORWARD ? y_elements(c, c->n) : 0};
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (inputs[i] > 0) d->in_units[count++] = mpc_divide_up(inputs[i], CHUNK);
    double copying = (double)(inputs[0] + inputs[1] + inputs[2]) / 4e9;
    double convolving = seconds_of(d), weighing = (double)w_elements(c) / 1e9;
    if (count > 0) mpc_plan_add_phase(plan, convert_inputs, d, d->in_units[0] + d->in_units[1], copying);
    if (c->kind == MPC_CONV_GRAD_WEIGHT) {
        int64_t floats = (int64_t)(d->layout[WHOLE].bytes / sizeof(float));
        mpc_plan_add_phase(plan, run_block, d, d->blocks, convolving);
        mpc_plan_add_phase(plan, add_partials, d, mpc_divide_up(floats, CHUNK), (double)(floats * d->blocks) / 4e9);
        mpc_plan_add_phase(plan, finish_weights, d, 1, weighing);
        return;
    }
    mpc_plan_add_phase(plan, reorder_weights, d, reorders, weighing * (double)reorders);
    mpc_plan_add_phase(plan, run_block, d, d->blocks, convolving);
    const region *result = c->kind == MPC_CONV_FORWARD ? &d->wide_y : &d->wide_x;
    int64_t elements = c->kind == MPC_CONV_FORWARD ? y_elements(c, c->n) : x_elements(c, c->n);
    if (result->bytes)
        mpc_plan_add_phase(plan, convert_output, d, mpc_divide_up(elements, CHUNK), (double)elements / 4e9);
}

/* What the primitive sees when nothing is widened; false: the library has no such combination. */
static bool native_formats(const mpc_conv *c, dnn_conv *d) {
    d->fx = c->fx;
    d->fw = c->kind == MPC_CONV_GRAD_WEIGHT ? MPC_FMT_f32 : c->fw;
    d->fy = c->fy;
    mpc_format read_a = c->kind == MPC_CONV_GRAD_INPUT ? c->fy : c->fx,
               read_b = c->kind == MPC_CONV_GRAD_WEIGHT ? c->fy : c->fw;
    mpc_format result = c->kind == MPC_CONV_FORWARD ? c->fy : c->kind == MPC_CONV_GRAD_INPUT ? c->fx : MPC_FMT_f32;
    return read_a == read_b && (read_a == MPC_FMT_bf16 || read_a == MPC_FMT_f32) &&
           (result == read_a || result == MPC_FMT_f32);
}

static mpc_plan *try_plan(const mpc_plan_env *env, const mpc_conv *conv, bool widen) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(dnn_conv));
    if (!plan) return NULL;
    dnn_conv *d = plan->state;
    *d = (dnn_conv){.c = *conv, .dnn = env->dnn, .arena = env->arena, .isa = env->isa};
    if (widen) d->fx = d->fw = d->fy = MPC_FMT_f32;
    else if (!native_formats(conv, d)) return NULL;
    choose_blocks(d);
    if (!create_ops(d, plan)) return NULL;
    lay_out(d, plan);
    add_phases(d, plan);
    plan->bind = bind_conv;
    return plan;
}

/* The library's bf16 weight gradient is slow on short rows: there its f32 kernels, copies included, took a quarter to
 * half the time (AVX-512 with a matrix unit; rows of 4 with 16 channels, of 8 with one). */
static bool widening_pays(const mpc_conv *conv) {
    return conv->kind == MPC_CONV_GRAD_WEIGHT && (conv->ow < 8 || (conv->ow < 16 && conv->c < 16));
}

mpc_plan *mpc_conv_plan_onednn(const mpc_plan_env *env, const mpc_conv *conv) {
    if (!env->dnn || conv->n * conv->h * conv->wd * conv->c * conv->oc * conv->oh * conv->ow == 0) return NULL;
    mpc_plan *plan = widening_pays(conv) ? NULL : try_plan(env, conv, false);
    return plan ? plan : try_plan(env, conv, true);
}
