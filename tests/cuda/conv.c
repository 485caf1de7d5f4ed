/* Convolutions on the cuda device: the forward op and both gradients, in every format, with stride, padding, dilation,
 * groups and channel counts that fill no 16 bytes, against the evaluator in f64 within the error of a sum in f32; twice
 * with the same bits. What kernels they become is looked at where no GPU is needed. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/numfmt.h"
#include "codegen/codegen.h"
#include "ir/builder.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "runtime/device.h"
#include "tests/check.h"

enum { FORWARD = 1, INPUT = 2, WEIGHT = 4, ALL = 7, MAX_CASES = 24 };

typedef struct conv_case {
    int64_t n, h, w, c, oc, kernel[2], stride[2], pad[2], dilation[2], groups;
    bool bias, relu;
    int directions; /* 0: all */
} conv_case;

static const conv_case cases[] = {
    {3, 8, 9, 16, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true, true, 0},
    {1, 12, 11, 32, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, false, false, 0}, /* phases */
    {2, 10, 10, 3, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true, false, 0},   /* a first layer */
    {2, 9, 9, 1, 8, {5, 3}, {1, 2}, {2, 1}, {1, 1}, 1, true, true, 0},
    {2, 9, 9, 16, 24, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 1, false, true, 0},
    {1, 11, 9, 16, 16, {3, 2}, {2, 3}, {0, 1}, {2, 1}, 1, false, false, 0}, /* stride and dilation share a factor */
    {2, 8, 8, 32, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, true, false, 0},
    {2, 8, 8, 12, 12, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 12, true, false, 0}, /* depthwise */
    {2, 7, 6, 6, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 3, true, true, 0},
    {3, 7, 6, 8, 70, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, false, false, 0}, /* pixels that no tap meets */
    {2, 7, 5, 5, 7, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, true, true, 0},
    {2, 6, 5, 20, 10, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, true, true, 0},         /* a matmul */
    {2, 33, 31, 8, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, false, WEIGHT}, /* parts */
    {2, 33, 31, 4, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 4, false, false, WEIGHT},
    {4, 92, 92, 8, 128, {1, 2}, {1, 1}, {0, 0}, {1, 1}, 1, true, true, FORWARD}, /* the largest tile */
    {4, 92, 92, 64, 8, {1, 2}, {1, 1}, {0, 0}, {1, 1}, 1, false, false, INPUT},
};
enum { CASES = sizeof cases / sizeof *cases, LARGE = 2 }; /* the last ones are large: bf16 only */

typedef struct number_kind {
    const char *name;
    mpc_format format, other, prec, weight; /* of x; of w and dy; of the product; of the weight's gradient */
} number_kind;
static const number_kind kinds[] = {
    {"f32", MPC_FMT_f32, MPC_FMT_f32, MPC_FMT_none, MPC_FMT_f32},
    {"tf32", MPC_FMT_f32, MPC_FMT_f32, MPC_FMT_tf32, MPC_FMT_f32},
    {"bf16", MPC_FMT_bf16, MPC_FMT_bf16, MPC_FMT_none, MPC_FMT_f32},
    {"f16", MPC_FMT_f16, MPC_FMT_f16, MPC_FMT_none, MPC_FMT_f16},
    {"mixed", MPC_FMT_bf16, MPC_FMT_f16, MPC_FMT_none, MPC_FMT_f32},
    {"f8", MPC_FMT_f8e4m3, MPC_FMT_f8e4m3, MPC_FMT_none, MPC_FMT_f8e5m2},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* --- one graph of many cases: inputs x, w, dy, bias of each; outputs of each that has them --- */

static int64_t places(const conv_case *k, int i) {
    int64_t size = i == 0 ? k->h : k->w;
    return (size + 2 * k->pad[i] - k->dilation[i] * (k->kernel[i] - 1) - 1) / k->stride[i] + 1;
}

static mpc_value_id add_input(mpc_builder *b, char letter, int i, mpc_format format, uint32_t rank,
                              const int64_t *dims) {
    char name[16];
    snprintf(name, sizeof name, "%c%d", letter, i);
    return mpc_build_input(b, name, mpc_type_make(mpc_builder_context(b), format, rank, dims), NULL, 0);
}

static void add_output(mpc_builder *b, const char *what, int i, mpc_value_id v) {
    char name[16];
    snprintf(name, sizeof name, "%s%d", what, i);
    mpc_build_output(b, name, v);
}

static void add_case(mpc_builder *b, const conv_case *k, const number_kind *kind, int i) {
    mpc_value_id x = add_input(b, 'x', i, kind->format, 4, (int64_t[]){k->n, k->h, k->w, k->c});
    mpc_value_id w =
        add_input(b, 'w', i, kind->other, 4, (int64_t[]){k->kernel[0], k->kernel[1], k->c / k->groups, k->oc});
    mpc_value_id dy = add_input(b, 'd', i, kind->other, 4, (int64_t[]){k->n, places(k, 0), places(k, 1), k->oc});
    mpc_value_id bias = add_input(b, 'b', i, MPC_FMT_f32, 1, (int64_t[]){k->oc});
    int directions = k->directions != 0 ? k->directions : ALL;
    mpc_attr_arg attrs[8] = {MPC_A_INTS("stride", k->stride, 2), MPC_A_INTS("pad", k->pad, 2),
                             MPC_A_INTS("dilation", k->dilation, 2), MPC_A_INT("groups", k->groups),
                             MPC_A_FORMAT("prec", kind->prec)};
    attrs[5] = MPC_A_STR("act", k->relu ? "relu" : "none");
    if (directions & FORWARD)
        add_output(b, "y", i, mpc_build(b, MPC_OP_conv2d, (mpc_value_id[]){x, w, bias}, k->bias ? 3 : 2, attrs, 6));
    attrs[5] = MPC_A_INT("h", k->h), attrs[6] = MPC_A_INT("w", k->w);
    if (directions & INPUT)
        add_output(b, "dx", i, mpc_build(b, MPC_OP_conv2d_grad_input, (mpc_value_id[]){dy, w}, 2, attrs, 7));
    attrs[5] = MPC_A_INT("kh", k->kernel[0]), attrs[6] = MPC_A_INT("kw", k->kernel[1]);
    if (directions & WEIGHT)
        add_output(b, "dw", i,
                   mpc_build_as(b, MPC_OP_conv2d_grad_weight, (mpc_value_id[]){x, dy}, 2, attrs, 7, kind->weight));
}

static mpc_graph *make_graph(mpc_context *ctx, const conv_case *list, int count, const number_kind *kind) {
    mpc_builder *b = mpc_builder_create(ctx, "convolutions");
    for (int i = 0; i < count; i++) add_case(b, &list[i], kind, i);
    return mpc_builder_finish(b);
}

static mpc_program *make_program(const mpc_graph *g, mpc_graph **lowered) {
    mpc_pass_env env = {.ctx = g->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_codegen_options options = {.target = MPC_TARGET_CUDA};
    *lowered = mpc_pipeline_run(g, "@lower", &env, &hooks);
    return *lowered != NULL ? mpc_codegen(*lowered, &options) : NULL;
}

/* --- values --- */

/* In [-1, 1), with bits that no low format holds; a cheap hash. */
static double sample(uint64_t stream, int64_t i) {
    uint64_t z = ((uint64_t)i + stream * 0x1000003) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (double)(z >> 40) * 0x1p-23 - 1;
}

typedef double change(double x);
static double keep(double x) { return x; }
static double to_tf32(double x) { return mpc_round_to(MPC_FMT_tf32, x); }

static void fill_inputs(const mpc_graph *g, mpc_arena *arena, change *rounded, change *then, mpc_tensor *inputs) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        const mpc_type *type = mpc_value_type(g, g->inputs[i].value);
        bool bias = type->rank == 1;
        inputs[i] = mpc_tensor_make(arena, type);
        for (int64_t j = 0; j < mpc_type_elements(type); j++) {
            double v = mpc_round_to(type->format, sample(i, j));
            inputs[i].data[j] = then(bias ? v : rounded(v));
        }
        if (i == 3) inputs[i].data[1] = NAN; /* in the bias of a convolution with relu */
    }
}

static mpc_tensor *evaluate(const mpc_graph *g, mpc_arena *arena, change *rounded, change *then) {
    mpc_tensor *inputs = mpc_arena_alloc(arena, g->input_count * sizeof *inputs),
               *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    mpc_eval_options options = {.f64 = true};
    fill_inputs(g, arena, rounded, then, inputs);
    CHECK(mpc_evaluate(g, inputs, NULL, NULL, &options, arena, values) == MPC_OK);
    return values;
}

/* Half a unit in the last place of the result's format, and the error of an f32 sum of terms of that size. */
static double bound_of(mpc_format format, double value, double size) {
    const mpc_numfmt *fmt = &mpc_format_get(format)->fmt;
    double rounding = fabs(value) * ldexp(1, -fmt->fraction_bits - 1) + mpc_numfmt_min_subnormal(fmt) / 2;
    return rounding * 1.01 + size * ldexp(1, -24) * 32;
}

static bool is_near(mpc_format format, double got, double want, double size) {
    return fabs(got - want) <= bound_of(format, want, size) || (isnan(got) && isnan(want));
}

/* want: the value, the size of its terms, and the value from operands that weren't rounded to tf32, which is as good.
 */
static void judge(const mpc_graph *g, uint32_t output, const mpc_tensor *got, const mpc_tensor *want,
                  const char *kind) {
    mpc_value_id v = g->outputs[output].value;
    const mpc_type *type = mpc_value_type(g, v);
    int64_t n = mpc_type_elements(type), wrong = 0, first = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = got->data[i], size = want[1].data[i];
        bool right = is_near(type->format, x, want[0].data[i], size) || is_near(type->format, x, want[2].data[i], size);
        if (!right && wrong++ == 0) first = i;
    }
    CHECK_MSG(wrong == 0, "%s, %s: %lld of %lld wrong, the first is %lld: %.9g, must be %.9g", mpc_value_name(g, v),
              kind, (long long)wrong, (long long)n, (long long)first, got->data[first], want[0].data[first]);
}

/* --- a run --- */

static mpc_exec *load(const mpc_graph *lowered, const mpc_program *p, mpc_store **store) {
    const mpc_sink *sink = mpc_context_sink(lowered->ctx);
    mpc_exec_options options = {.separate_buffers = true};
    *store = mpc_store_create(lowered, sink);
    return *store != NULL ? mpc_cuda_load(p, *store, &options, sink) : NULL;
}

static bool step(mpc_exec *e, const mpc_graph *g, const mpc_tensor *inputs) {
    for (uint32_t i = 0; i < g->input_count; i++) mpc_tensor_to_bytes(&inputs[i], e->vtable->input(e, i));
    return mpc_exec_step(e) == MPC_OK && mpc_exec_record(e, true) == MPC_RECORD_READY;
}

static void check_results(mpc_exec *e, const mpc_graph *g, const number_kind *kind, mpc_arena *arena) {
    change *rounded = kind->prec == MPC_FMT_tf32 ? to_tf32 : keep;
    mpc_tensor *inputs = mpc_arena_alloc(arena, g->input_count * sizeof *inputs);
    const mpc_tensor *want = evaluate(g, arena, rounded, keep), *size = evaluate(g, arena, rounded, fabs),
                     *exact = evaluate(g, arena, keep, keep);
    fill_inputs(g, arena, keep, keep, inputs);
    void **bytes = mpc_arena_alloc(arena, g->output_count * sizeof *bytes);
    for (int run = 0; run < 2; run++) {
        CHECK(step(e, g, inputs));
        for (uint32_t i = 0; i < g->output_count; i++) {
            mpc_value_id v = g->outputs[i].value;
            mpc_tensor got = mpc_tensor_make(arena, mpc_value_type(g, v)), wanted[] = {want[v], size[v], exact[v]};
            size_t count = (size_t)mpc_type_bytes(&got.type);
            const void *output = e->vtable->output(e, i);
            if (run == 1) CHECK_MSG(memcmp(bytes[i], output, count) == 0, "%s: other bits", mpc_value_name(g, v));
            if (run == 1) continue;
            bytes[i] = mpc_arena_alloc(arena, count);
            memcpy(bytes[i], output, count);
            mpc_tensor_from_bytes(&got, output);
            judge(g, i, &got, wanted, kind->name);
        }
    }
}

static void check_kind(mpc_context *ctx, const number_kind *kind) {
    mpc_arena *arena = mpc_arena_create();
    bool large = kind->format == MPC_FMT_bf16 && kind->other == MPC_FMT_bf16;
    mpc_graph *g = make_graph(ctx, cases, large ? CASES : CASES - LARGE, kind), *lowered = NULL;
    mpc_program *p = make_program(g, &lowered);
    mpc_store *store = NULL;
    mpc_exec *e = p != NULL ? load(lowered, p, &store) : NULL;
    CHECK_MSG(e != NULL, "%s", kind->name);
    if (e != NULL) {
        check_results(e, g, kind, arena);
        e->vtable->destroy(e);
    }
    mpc_store_destroy(store);
    mpc_program_destroy(p);
    mpc_graph_destroy(lowered);
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
}

/* --- what they become; no device --- */

static mpc_program *program_of(mpc_context *ctx, const conv_case *k, const number_kind *kind) {
    mpc_graph *g = make_graph(ctx, k, 1, kind), *lowered = NULL;
    mpc_program *p = make_program(g, &lowered);
    CHECK(p != NULL);
    mpc_graph_destroy(lowered);
    mpc_graph_destroy(g);
    return p;
}

/* Enough pixels for large tiles take large tiles. */
static void many_pixels_take_large_tiles(mpc_context *ctx) {
    static const char *const tiles[] = {", 128, 128, ", ", 128, 64, "};
    for (int i = 0; i < LARGE; i++) {
        mpc_program *p = program_of(ctx, &cases[CASES - LARGE + i], &kinds[2]);
        CHECK(p != NULL && p->kernel_count == 1 && strstr(p->kernels[0].text, tiles[i]) != NULL);
        mpc_program_destroy(p);
    }
}

static void tensor_cores_or_a_note(mpc_context *ctx) {
    for (int f = 0; f < KINDS; f++)
        for (int i = 0; i < CASES; i++) {
            mpc_program *p = program_of(ctx, &cases[i], &kinds[f]);
            for (uint32_t j = 0; p != NULL && j < p->kernel_count; j++) {
                const mpc_kernel *k = &p->kernels[j];
                if (strstr(k->text, "mpc_conv") == NULL) continue;
                CHECK_MSG((k->tensor_cores || k->note != NULL) == (f != 0 || k->note != NULL), "case %d, %s", i,
                          kinds[f].name);
                CHECK_MSG(f != 0 || !k->tensor_cores, "case %d", i);
                CHECK(k->shared_bytes <= 99 * 1024);
            }
            mpc_program_destroy(p);
        }
}

static void one_by_one_is_a_matmul(mpc_context *ctx) {
    const conv_case k = {2, 6, 5, 24, 16, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, false, false, 0};
    mpc_program *p = program_of(ctx, &k, &kinds[2]);
    CHECK(p != NULL && p->launch_count == 3);
    for (uint32_t i = 0; p != NULL && i < p->launch_count; i++) {
        const mpc_matmul *m = &p->launches[i].matmul;
        CHECK(p->launches[i].kind == MPC_LAUNCH_MATMUL && m->m * m->n * m->k == 60 * 24 * 16);
    }
    mpc_program_destroy(p);
}

static void the_last_smaller_batch_takes_the_same_kernels(mpc_context *ctx) {
    conv_case k = {64, 16, 16, 32, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true, true, 0};
    mpc_program *full = program_of(ctx, &k, &kinds[2]);
    k.n = 57;
    mpc_program *last = program_of(ctx, &k, &kinds[2]);
    CHECK(full != NULL && last != NULL && full->kernel_count == last->kernel_count);
    for (uint32_t i = 0; full != NULL && last != NULL && i < full->kernel_count && i < last->kernel_count; i++)
        CHECK_STR(full->kernels[i].name, last->kernels[i].name);
    mpc_program_destroy(full);
    mpc_program_destroy(last);
}

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

int main(int argc, char **argv) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    tensor_cores_or_a_note(ctx);
    many_pixels_take_large_tiles(ctx);
    one_by_one_is_a_matmul(ctx);
    the_last_smaller_batch_takes_the_same_kernels(ctx);
    bool device = mpc_cuda_available(&sink);
    for (int i = 0; device && i < KINDS; i++)
        if (argc < 2 || strcmp(argv[1], kinds[i].name) == 0) check_kind(ctx, &kinds[i]);
    mpc_context_destroy(ctx);
    int result = check_result();
    if (!device && result == 0) fprintf(stderr, "skipped: no GPU\n");
    return !device && result == 0 ? 77 : result;
}
