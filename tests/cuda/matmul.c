/* Matmul launches on the device against sums in double: formats, transposes, strides, batches, odd sizes and offsets,
 * with the library's epilogue and with the caller's kernel (here on the host); what is kept by choices; what is
 * refused, and how it is said. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "runtime/cuda/cuda.h"
#include "tests/check.h"

enum { SPACE = 1 << 17, REGIONS = 5 }; /* bytes of each operand */

typedef struct bench { /* a device with room for the operands of one launch */
    mpc_cuda *cuda;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_device_ptr memory;
    mpc_cuda_matmul_buffers buffers;
    uint8_t *a, *b, *c, *accumulator;
    float *bias;
    mpc_format filled; /* format of the random operands that are there */
} bench;

static const char *last_code(const bench *t) {
    size_t count = mpc_diag_list_count(t->diags);
    return count > 0 ? mpc_diag_list_get(t->diags, count - 1)->code : "none";
}
static const char *last_message(const bench *t) {
    size_t count = mpc_diag_list_count(t->diags);
    return count > 0 ? mpc_diag_list_get(t->diags, count - 1)->message : "";
}

static bool open_bench(bench *t) {
    *t = (bench){.diags = mpc_diag_list_create()};
    t->sink = mpc_diag_list_sink(t->diags);
    t->cuda = mpc_cuda_open(&t->sink);
    if (t->cuda == NULL) return false;
    uint64_t bytes = REGIONS * SPACE + MPC_CUDA_WORKSPACE;
    if (t->cuda->driver.cuMemAlloc_v2(&t->memory, bytes) != 0) return false;
    mpc_device_ptr p = t->memory;
    t->buffers = (mpc_cuda_matmul_buffers){
        p, p + SPACE, p + 2 * SPACE, p + 3 * SPACE, p + 4 * SPACE, p + 5 * SPACE, MPC_CUDA_WORKSPACE};
    t->a = mpc_alloc(SPACE), t->b = mpc_alloc(SPACE), t->c = mpc_alloc(SPACE), t->accumulator = mpc_alloc(SPACE);
    t->bias = mpc_alloc(SPACE);
    return t->a && t->b && t->c && t->accumulator && t->bias;
}

static void close_bench(bench *t) {
    if (t->cuda != NULL) t->cuda->driver.cuMemFree_v2(t->memory);
    mpc_cuda_close(t->cuda);
    mpc_free(t->a), mpc_free(t->b), mpc_free(t->c), mpc_free(t->accumulator), mpc_free(t->bias);
    mpc_diag_list_destroy(t->diags);
}

/* ---- elements ---- */

static float load(mpc_format f, const void *base, int64_t i) {
    if (f == MPC_FMT_f32) return ((const float *)base)[i];
    uint16_t bits = ((const uint16_t *)base)[i];
    return f == MPC_FMT_f16 ? mpc_f16_to_f32(bits) : mpc_bf16_to_f32(bits);
}

static void store(mpc_format f, void *base, int64_t i, float x) {
    if (f == MPC_FMT_f32) ((float *)base)[i] = x;
    else ((uint16_t *)base)[i] = f == MPC_FMT_f16 ? mpc_f32_to_f16(x) : mpc_f32_to_bf16(x);
}

static void fill(mpc_format f, void *base, uint64_t stream) {
    int64_t count = SPACE / mpc_format_get(f)->bytes;
    for (int64_t i = 0; i < count; i++)
        store(f, base, i, (float)(mpc_random_bits(7, stream, 0, (uint32_t)i) % 4096) / 2048.0f - 1.0f);
}

static void copy_in(bench *t) {
    const mpc_cuda_driver *d = &t->cuda->driver;
    const mpc_cuda_matmul_buffers *b = &t->buffers;
    CHECK(d->cuMemcpyHtoDAsync_v2(t->memory, t->a, SPACE, t->cuda->stream) == 0);
    CHECK(d->cuMemcpyHtoDAsync_v2(t->memory + SPACE, t->b, SPACE, t->cuda->stream) == 0);
    CHECK(d->cuMemcpyHtoDAsync_v2(t->memory + 2 * SPACE, t->c, SPACE, t->cuda->stream) == 0);
    CHECK(d->cuMemcpyHtoDAsync_v2(b->bias, t->bias, SPACE / 2, t->cuda->stream) == 0);
    CHECK(d->cuStreamSynchronize(t->cuda->stream) == 0);
}

static void copy_out(bench *t) {
    const mpc_cuda_driver *d = &t->cuda->driver;
    CHECK(d->cuMemcpyDtoHAsync_v2(t->c, t->memory + 2 * SPACE, SPACE, t->cuda->stream) == 0);
    CHECK(d->cuMemcpyDtoHAsync_v2(t->accumulator, t->buffers.accumulator, SPACE, t->cuda->stream) == 0);
    CHECK(d->cuStreamSynchronize(t->cuda->stream) == 0);
}

/* ---- launches ---- */

typedef struct shape {
    mpc_format fa, fc;
    int64_t m, n, k;
    bool ta, tb, tc;   /* stored the other way round */
    int64_t gap;       /* elements between rows */
    int64_t batch_gap; /* elements between entries of an outer batch axis */
    int64_t offset;    /* elements before the first */
    bool bias, relu, tf32;
    int64_t batch[3];
    bool shared_b; /* one b for the whole batch */
} shape;

typedef struct job {
    bench *t;
    mpc_launch launch;
    mpc_kernel_instance instance;
    int64_t offset;
} job;

static int64_t at(int64_t i, int64_t j, int64_t row, int64_t col) { return i * row + j * col; }

/* Strides of a rows x columns matrix, and how many elements it takes. */
static int64_t lay(int64_t rows, int64_t columns, bool other_way, int64_t gap, int64_t *row, int64_t *col) {
    *row = other_way ? 1 : columns + gap;
    *col = other_way ? rows + gap : 1;
    return other_way ? columns * *col : rows * *row;
}

static void lay_batch(const int64_t *batch, int64_t size, int64_t gap, bool shared, int64_t *strides) {
    for (int i = 2; i >= 0; i--) {
        strides[i] = shared || batch[i] == 1 ? 0 : size;
        size = size * batch[i] + gap;
    }
}

static void make_job(job *j, bench *t, const shape *s) {
    *j = (job){.t = t, .offset = s->offset};
    mpc_matmul *mm = &j->launch.matmul;
    j->launch.kind = MPC_LAUNCH_MATMUL;
    j->launch.name = "y";
    *mm = (mpc_matmul){.fa = s->fa, .fb = s->fa, .fc = s->fc, .acc = MPC_FMT_f32, .m = s->m, .n = s->n, .k = s->k};
    mm->has_bias = s->bias, mm->relu = s->relu;
    mm->compute = s->tf32 ? MPC_FMT_tf32 : MPC_FMT_none;
    for (int i = 0; i < 3; i++) mm->batch[i] = s->batch[i] > 0 ? s->batch[i] : 1;
    int64_t a = lay(s->m, s->k, s->ta, s->gap, &mm->a_row, &mm->a_col),
            b = lay(s->k, s->n, s->tb, s->gap, &mm->b_row, &mm->b_col),
            c = lay(s->m, s->n, s->tc, s->gap, &mm->c_row, &mm->c_col);
    lay_batch(mm->batch, a, s->batch_gap, false, mm->a_batch);
    lay_batch(mm->batch, b, s->batch_gap, s->shared_b, mm->b_batch);
    lay_batch(mm->batch, c, s->batch_gap, false, mm->c_batch);
    bool ends_in_kernel = s->bias || s->relu || (s->fc != MPC_FMT_f32 && s->fc != s->fa);
    j->launch.instances = &j->instance;
    j->launch.instance_count = ends_in_kernel ? 1 : 0;
}

static int64_t entry_offset(const mpc_matmul *mm, const int64_t *strides, int64_t e) {
    return e / (mm->batch[1] * mm->batch[2]) * strides[0] + e / mm->batch[2] % mm->batch[1] * strides[1] +
           e % mm->batch[2] * strides[2];
}

static int64_t entries(const mpc_matmul *mm) { return mm->batch[0] * mm->batch[1] * mm->batch[2]; }

/* What a launch's own kernel does, on the host. */
static int end_in_kernel(void *user) {
    job *j = user;
    bench *t = j->t;
    const mpc_matmul *mm = &j->launch.matmul;
    copy_out(t);
    for (int64_t e = 0; e < entries(mm); e++)
        for (int64_t i = 0; i < mm->m; i++)
            for (int64_t k = 0; k < mm->n; k++) {
                float x = ((float *)t->accumulator)[(e * mm->m + i) * mm->n + k];
                if (mm->has_bias) x += t->bias[k];
                if (mm->relu && x <= 0.0f) x = 0.0f;
                store(mm->fc, t->c, j->offset + entry_offset(mm, mm->c_batch, e) + at(i, k, mm->c_row, mm->c_col), x);
            }
    return t->cuda->driver.cuMemcpyHtoDAsync_v2(t->memory + 2 * SPACE, t->c, SPACE, t->cuda->stream) |
           t->cuda->driver.cuStreamSynchronize(t->cuda->stream);
}

static mpc_cuda_matmul_buffers buffers_of(const job *j) {
    mpc_cuda_matmul_buffers b = j->t->buffers;
    const mpc_matmul *mm = &j->launch.matmul;
    b.a += (uint64_t)j->offset * mpc_format_get(mm->fa)->bytes;
    b.b += (uint64_t)j->offset * mpc_format_get(mm->fb)->bytes;
    b.c += (uint64_t)j->offset * mpc_format_get(mm->fc)->bytes;
    return b;
}

static double operand(const mpc_matmul *mm, const void *base, int64_t i) {
    float x = load(mm->fa, base, i);
    return mm->compute == MPC_FMT_tf32 ? mpc_f32_to_tf32(x) : x;
}

/* The exact result, and how far f32 sums may be from it. */
static double exact(const job *j, int64_t e, int64_t row, int64_t column, double *slack) {
    const mpc_matmul *mm = &j->launch.matmul;
    int64_t a = j->offset + entry_offset(mm, mm->a_batch, e) + row * mm->a_row;
    int64_t b = j->offset + entry_offset(mm, mm->b_batch, e) + column * mm->b_col;
    double sum = 0.0, size = 1e-6;
    for (int64_t l = 0; l < mm->k; l++) {
        double product = operand(mm, j->t->a, a + l * mm->a_col) * operand(mm, j->t->b, b + l * mm->b_row);
        sum += product, size += fabs(product);
    }
    if (mm->has_bias) sum += (double)j->t->bias[column], size += fabs((double)j->t->bias[column]);
    *slack = size * (double)(mm->k + 4) * 0x1p-24;
    return mm->relu && sum < 0.0 ? 0.0 : sum;
}

static void check_results(const job *j, const char *what) {
    const mpc_matmul *mm = &j->launch.matmul;
    double unit = mm->fc == MPC_FMT_bf16 ? 0x1p-8 : mm->fc == MPC_FMT_f16 ? 0x1p-11 : 0.0;
    int wrong = 0;
    for (int64_t e = 0; e < entries(mm); e++)
        for (int64_t i = 0; i < mm->m; i++)
            for (int64_t k = 0; k < mm->n; k++) {
                double slack, want = exact(j, e, i, k, &slack);
                double got = load(mm->fc, j->t->c,
                                  j->offset + entry_offset(mm, mm->c_batch, e) + at(i, k, mm->c_row, mm->c_col));
                if (!(fabs(got - want) <= slack * (1 + unit) + fabs(want) * unit + 0x1p-25)) wrong++;
            }
    CHECK_MSG(wrong == 0, "%s: %d of %d elements are wrong", what, wrong, (int)(entries(mm) * mm->m * mm->n));
}

/* true when the choice ends in the caller's kernel */
static bool run_job(job *j, mpc_choices *choices, const char *what) {
    bench *t = j->t;
    mpc_cuda_matmul *m = mpc_cuda_matmul_create(t->cuda, &j->launch, choices, &t->sink);
    CHECK_MSG(m != NULL, "%s: %s", what, last_message(t));
    if (m == NULL) return false;
    mpc_cuda_matmul_buffers b = buffers_of(j);
    bool tuned = mpc_cuda_matmul_tune(m, &b, end_in_kernel, j) == MPC_OK;
    CHECK_MSG(tuned, "%s: %s", what, last_message(t));
    bool ends = false;
    if (tuned) {
        memset(t->c, 0xff, SPACE);
        copy_in(t);
        ends = mpc_cuda_matmul_needs_epilogue(m);
        CHECK_MSG(mpc_cuda_matmul_run(m, &b) == MPC_OK, "%s: %s", what, last_message(t));
        if (ends) CHECK(end_in_kernel(j) == 0);
        copy_out(t);
        check_results(j, what);
    }
    mpc_cuda_matmul_destroy(m);
    return ends;
}

static void prepare(bench *t, mpc_format f) {
    if (t->filled == f) return;
    fill(f, t->a, 1);
    fill(f, t->b, 2);
    fill(MPC_FMT_f32, t->bias, 3);
    t->filled = f;
    copy_in(t);
}

static bool run_shape(bench *t, const shape *s, const char *what) {
    job j;
    prepare(t, s->fa);
    make_job(&j, t, s);
    return run_job(&j, NULL, what);
}

/* ---- tests ---- */

static const struct {
    mpc_format a, c;
    bool tf32;
} formats[] = {{MPC_FMT_f32, MPC_FMT_f32, false},   {MPC_FMT_f32, MPC_FMT_f32, true},
               {MPC_FMT_f16, MPC_FMT_f16, false},   {MPC_FMT_f16, MPC_FMT_f32, false},
               {MPC_FMT_bf16, MPC_FMT_bf16, false}, {MPC_FMT_bf16, MPC_FMT_f32, false},
               {MPC_FMT_f32, MPC_FMT_bf16, false},  {MPC_FMT_bf16, MPC_FMT_f16, false}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static void test_transposes_in_all_formats(bench *t) {
    for (int f = 0; f < FORMATS; f++)
        for (int way = 0; way < 8; way++) {
            shape s = {.fa = formats[f].a, .fc = formats[f].c, .tf32 = formats[f].tf32, .m = 24, .n = 40, .k = 72};
            s.ta = way & 1, s.tb = way & 2, s.tc = way & 4;
            char what[64];
            snprintf(what, sizeof what, "format row %d, transposes %d", f, way);
            run_shape(t, &s, what);
        }
}

static void test_odd_sizes_strides_and_offsets(bench *t) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 7, 5}, {7, 1, 5},    {7, 5, 1},   {1, 1, 9},
                                       {9, 1, 1}, {1, 9, 1}, {13, 17, 33}, {64, 10, 65}};
    for (int f = 0; f < FORMATS; f++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int way = 0; way < 4; way++) {
                shape s = {.fa = formats[f].a,
                           .fc = formats[f].c,
                           .tf32 = formats[f].tf32,
                           .m = sizes[i][0],
                           .n = sizes[i][1],
                           .k = sizes[i][2]};
                s.ta = way & 1, s.tb = way & 2;
                s.gap = way * 3, s.offset = way;
                char what[64];
                snprintf(what, sizeof what, "format row %d, size row %d, way %d", f, (int)i, way);
                run_shape(t, &s, what);
            }
}

static void test_batches(bench *t) {
    static const int64_t batches[][3] = {{1, 1, 4}, {1, 3, 2}, {3, 1, 1}, {2, 3, 4}, {2, 1, 5}};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++)
        for (int way = 0; way < 8; way++) {
            shape s = {.fa = MPC_FMT_bf16, .fc = way & 1 ? MPC_FMT_bf16 : MPC_FMT_f32, .m = 8, .n = 16, .k = 24};
            memcpy(s.batch, batches[i], sizeof s.batch);
            s.shared_b = way & 2, s.batch_gap = way & 4 ? 1 : 0, s.tb = way & 1, s.relu = way & 1;
            char what[64];
            snprintf(what, sizeof what, "batch row %d, way %d", (int)i, way);
            run_shape(t, &s, what);
        }
}

/* Code generation gives a matrix of one row or column any stride there. */
static void test_one_row_or_column_of_stride_one(bench *t) {
    static const int64_t sizes[][3] = {{1, 9, 7}, {9, 1, 7}, {9, 7, 1}, {1, 1, 7}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        shape s = {.fa = MPC_FMT_f32, .fc = MPC_FMT_f32, .m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
        job j;
        prepare(t, s.fa);
        make_job(&j, t, &s);
        mpc_matmul *mm = &j.launch.matmul;
        if (s.m == 1) mm->a_row = mm->c_row = 1;
        if (s.k == 1) mm->b_row = 1;
        run_job(&j, NULL, "stride one");
    }
}

/* Nothing in strides or sizes tells of it: only the addresses do. */
static void test_operands_of_any_alignment(bench *t) {
    for (int64_t offset = 1; offset <= 16; offset *= 2) {
        shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_bf16, .m = 16, .n = 32, .k = 64, .offset = offset};
        run_shape(t, &s, "offset");
    }
}

static void test_long_sums_split_over_k(bench *t) {
    for (int f = 0; f < FORMATS; f++) {
        shape s = {.fa = formats[f].a, .fc = formats[f].c, .tf32 = formats[f].tf32, .m = 16, .n = 32, .k = 1024};
        run_shape(t, &s, "long sums");
    }
}

/* `alone`: the launch has no kernel of its own, so the library must do it. */
static bool run_epilogue(bench *t, mpc_format fa, mpc_format fc, int which, bool alone) {
    shape s = {.fa = fa, .fc = fc, .m = 24, .n = 40, .k = 72, .bias = which & 1, .relu = which & 2};
    job j;
    prepare(t, fa);
    make_job(&j, t, &s);
    if (alone) j.launch.instance_count = 0;
    char what[64];
    snprintf(what, sizeof what, "epilogue %d, %s to %s", which, mpc_format_get(fa)->name, mpc_format_get(fc)->name);
    return run_job(&j, NULL, what);
}

static void test_the_library_ends_f32_results(bench *t) {
    static const mpc_format operands[] = {MPC_FMT_f32, MPC_FMT_f16, MPC_FMT_bf16};
    for (int f = 0; f < 3; f++)
        for (int which = 1; which < 4; which++) CHECK(!run_epilogue(t, operands[f], MPC_FMT_f32, which, true));
    CHECK(!run_epilogue(t, MPC_FMT_bf16, MPC_FMT_bf16, 2, true));
}

static void test_the_caller_ends_what_the_library_has_not(bench *t) {
    CHECK(run_epilogue(t, MPC_FMT_bf16, MPC_FMT_bf16, 1, false));
    CHECK(run_epilogue(t, MPC_FMT_f16, MPC_FMT_f16, 3, false));
    CHECK(run_epilogue(t, MPC_FMT_f32, MPC_FMT_bf16, 3, false));
    CHECK(run_epilogue(t, MPC_FMT_f16, MPC_FMT_bf16, 0, false));
}

/* A launch that must be refused, at creation or when it is tuned. */
static void expect_refusal(bench *t, const job *j, const char *code, const char *words) {
    mpc_cuda_matmul *m = mpc_cuda_matmul_create(t->cuda, &j->launch, NULL, &t->sink);
    mpc_cuda_matmul_buffers b = buffers_of(j);
    mpc_status status = m != NULL ? mpc_cuda_matmul_tune(m, &b, NULL, NULL) : MPC_FAILED;
    CHECK(status != MPC_OK);
    CHECK_MSG(strcmp(last_code(t), code) == 0 && strstr(last_message(t), words) != NULL, "%s %s", last_code(t),
              last_message(t));
    mpc_cuda_matmul_destroy(m);
}

static void test_refusals_say_why(bench *t) {
    job j;
    shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_f32, .m = 8, .n = 8, .k = 8};
    make_job(&j, t, &s);
    j.launch.matmul.fb = MPC_FMT_f16;
    expect_refusal(t, &j, "E630", "one format");
    j.launch.matmul.fb = MPC_FMT_bf16, j.launch.matmul.acc = MPC_FMT_f16;
    expect_refusal(t, &j, "E630", "sums are f32");
    j.launch.matmul.acc = MPC_FMT_f32, j.launch.matmul.fa = j.launch.matmul.fb = MPC_FMT_f8e4m3;
    expect_refusal(t, &j, "E630", "f8e4m3[8,8]");
    s.fc = MPC_FMT_f16;
    make_job(&j, t, &s);
    j.launch.instance_count = 0;
    expect_refusal(t, &j, "E630", "results are f32");
    s.fc = MPC_FMT_bf16, s.bias = true;
    make_job(&j, t, &s);
    j.launch.instance_count = 0;
    expect_refusal(t, &j, "E630", "no algorithm");
}

static void test_less_aligned_operands_are_refused(bench *t) {
    job j;
    shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_f32, .m = 8, .n = 8, .k = 8};
    make_job(&j, t, &s);
    mpc_cuda_matmul *m = mpc_cuda_matmul_create(t->cuda, &j.launch, NULL, &t->sink);
    mpc_cuda_matmul_buffers b = buffers_of(&j);
    CHECK(m != NULL && mpc_cuda_matmul_run(m, &b) != MPC_OK); /* before it is tuned */
    CHECK(m != NULL && mpc_cuda_matmul_tune(m, &b, NULL, NULL) == MPC_OK);
    b.a += 2;
    CHECK(m != NULL && mpc_cuda_matmul_run(m, &b) != MPC_OK);
    CHECK(strcmp(last_code(t), "E632") == 0 && strstr(last_message(t), "less aligned") != NULL);
    mpc_cuda_matmul_destroy(m);
}

static void test_nan_and_infinity_are_kept(bench *t) {
    for (int which = 0; which < 4; which++) {
        shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_f32, .m = 8, .n = 8, .k = 8, .bias = which & 1, .relu = which & 2};
        job j;
        prepare(t, s.fa);
        t->filled = MPC_FMT_none; /* not for others */
        store(s.fa, t->a, 0, NAN);
        store(s.fa, t->a, 8, INFINITY);
        copy_in(t);
        make_job(&j, t, &s);
        mpc_cuda_matmul *m = mpc_cuda_matmul_create(t->cuda, &j.launch, NULL, &t->sink);
        CHECK(m != NULL && mpc_cuda_matmul_tune(m, &t->buffers, end_in_kernel, &j) == MPC_OK);
        CHECK(m != NULL && mpc_cuda_matmul_run(m, &t->buffers) == MPC_OK);
        if (m != NULL && mpc_cuda_matmul_needs_epilogue(m)) CHECK(end_in_kernel(&j) == 0);
        copy_out(t);
        for (int i = 0; i < 8; i++) CHECK(isnan(((float *)t->c)[i]));
        for (int i = 8; i < 16; i++) CHECK(!isfinite(((float *)t->c)[i]) || which & 2);
        mpc_cuda_matmul_destroy(m);
    }
}

/* ---- with a stand-in that behaves otherwise ---- */

static void with(const char *variable, const char *value, void (*test)(bench *t)) {
    setenv(variable, value, 1);
    bench t;
    bool open = open_bench(&t); /* what was tried of epilogues is kept by device */
    CHECK(open);
    if (open) test(&t);
    close_bench(&t);
    unsetenv(variable);
}

static void test_relu_that_loses_nan_is_no_candidate(bench *t) {
    CHECK(run_epilogue(t, MPC_FMT_f32, MPC_FMT_f32, 2, false));
    CHECK(run_epilogue(t, MPC_FMT_bf16, MPC_FMT_f32, 3, false));
    CHECK(!run_epilogue(t, MPC_FMT_bf16, MPC_FMT_f32, 1, true)); /* the bias alone is fine */
    job j;
    shape s = {.fa = MPC_FMT_f32, .fc = MPC_FMT_f32, .m = 8, .n = 8, .k = 8, .relu = true};
    make_job(&j, t, &s);
    j.launch.instance_count = 0;
    expect_refusal(t, &j, "E630", "no algorithm");
}

static void test_bias_before_the_rounding_is_a_candidate(bench *t) {
    CHECK(!run_epilogue(t, MPC_FMT_bf16, MPC_FMT_bf16, 1, true));
    CHECK(!run_epilogue(t, MPC_FMT_f16, MPC_FMT_f16, 3, true));
}

static void test_bias_after_the_rounding_is_none(bench *t) {
    CHECK(run_epilogue(t, MPC_FMT_bf16, MPC_FMT_bf16, 1, false));
    CHECK(run_epilogue(t, MPC_FMT_f16, MPC_FMT_f16, 3, false));
}

/* ---- choices ---- */

static mpc_choices *choose_one(bench *t, job *j, const shape *s) {
    mpc_choices *choices = mpc_choices_create();
    CHECK(choices != NULL && mpc_choices_claim(choices, "a device", &t->sink) == MPC_OK);
    prepare(t, s->fa);
    make_job(j, t, s);
    run_job(j, choices, "the first time");
    CHECK(mpc_choices_changed(choices));
    return choices;
}

static char *read_text(const char *path) {
    static char text[4096];
    FILE *file = fopen(path, "rb");
    size_t got = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[got] = '\0';
    if (file != NULL) fclose(file);
    return text;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fputs(text, file) >= 0);
    if (file != NULL) fclose(file);
}

static mpc_status load_again(bench *t, const char *path, mpc_choices **again) {
    *again = mpc_choices_create();
    return mpc_choices_load(*again, path, &t->sink);
}

static void tune_again(bench *t, job *j, mpc_choices *choices, const char *code) {
    mpc_cuda_matmul *m = mpc_cuda_matmul_create(t->cuda, &j->launch, choices, &t->sink);
    mpc_cuda_matmul_buffers b = buffers_of(j);
    mpc_status status = m != NULL ? mpc_cuda_matmul_tune(m, &b, end_in_kernel, j) : MPC_FAILED;
    if (code == NULL) CHECK_MSG(status == MPC_OK, "%s", last_message(t));
    else CHECK_MSG(status != MPC_OK && strcmp(last_code(t), code) == 0, "%s", last_message(t));
    mpc_cuda_matmul_destroy(m);
}

static void test_choices_are_kept_and_taken_again(bench *t) {
    const char *path = "cuda_matmul_choices.txt";
    job j;
    shape s = {.fa = MPC_FMT_f32, .fc = MPC_FMT_f32, .m = 24, .n = 40, .k = 72, .relu = true};
    mpc_choices *choices = choose_one(t, &j, &s), *again;
    CHECK(mpc_choices_save(choices, path, &t->sink) == MPC_OK && !mpc_choices_changed(choices));
    CHECK(load_again(t, path, &again) == MPC_OK);
    CHECK(mpc_choices_claim(again, "a device", &t->sink) == MPC_OK);
    tune_again(t, &j, again, NULL);
    CHECK(!mpc_choices_changed(again)); /* nothing was timed */
    CHECK(mpc_choices_claim(again, "another device", &t->sink) != MPC_OK);
    CHECK_STR(last_code(t), "E363");
    char *text = read_text(path), *line = strchr(text, '\n'), *tab = line != NULL ? strchr(line, '\t') : NULL;
    CHECK(tab != NULL && (strncmp(tab + 1, "direct 69 ", 10) == 0 || strncmp(tab + 1, "split 69 ", 9) == 0));
    if (tab != NULL) { /* an algorithm that nobody made */
        *tab = '\0';
        CHECK(mpc_choices_set(again, line + 1, "direct 69 00"));
    }
    tune_again(t, &j, again, "E631");
    mpc_choices_destroy(again);
    mpc_choices_destroy(choices);
    remove(path);
}

static void test_an_algorithm_of_another_version_is_named(bench *t) {
    job j;
    shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_f32, .m = 24, .n = 40, .k = 72};
    mpc_choices *choices = choose_one(t, &j, &s);
    setenv("MPC_CUDASIM_LT_VERSION", "130200", 1);
    tune_again(t, &j, choices, "E631");
    CHECK(strstr(last_message(t), "matmul bf16[24,72] x bf16[72,40] -> f32") != NULL);
    unsetenv("MPC_CUDASIM_LT_VERSION");
    mpc_choices_destroy(choices);
}

static void expect_damage(bench *t, const char *text, const char *words) {
    const char *path = "cuda_matmul_damaged.txt";
    mpc_choices *choices;
    write_text(path, text);
    CHECK_MSG(load_again(t, path, &choices) == MPC_FAILED, "%s", text);
    CHECK_MSG(strcmp(last_code(t), "E364") == 0 && strstr(last_message(t), words) != NULL, "%s", last_message(t));
    mpc_choices_destroy(choices);
    remove(path);
}

static void test_damaged_choices_are_named_with_their_line(bench *t) {
    mpc_choices *choices;
    CHECK(load_again(t, "there is no such file", &choices) == MPC_OK);
    CHECK(mpc_choices_get(choices, "k") == NULL && mpc_choices_set(choices, "k", "v") &&
          !mpc_choices_set(choices, "a\tb", "v"));
    mpc_choices_destroy(choices);
    expect_damage(t, "k\tv\n", "line 1");
    expect_damage(t, "owner\ta\nk v\n", "line 2");
    expect_damage(t, "owner\ta\nk\tv\nk\tw\n", "line 3");
    expect_damage(t, "owner\ta\nk\tv", "line 2 is cut off");
}

static mpc_status choose_and_save(bench *t, const job *j, const char *path) {
    mpc_choices *choices = mpc_choices_create();
    mpc_cuda_matmul *m = choices != NULL ? mpc_cuda_matmul_create(t->cuda, &j->launch, choices, &t->sink) : NULL;
    mpc_cuda_matmul_buffers b = buffers_of(j);
    mpc_status status = m != NULL ? mpc_choices_claim(choices, "a device", &t->sink) : MPC_NO_MEMORY;
    if (status == MPC_OK) status = mpc_cuda_matmul_tune(m, &b, NULL, NULL);
    if (status == MPC_OK) status = mpc_choices_save(choices, path, &t->sink);
    if (status == MPC_OK) status = mpc_choices_load(choices, "there is no such file", &t->sink);
    mpc_cuda_matmul_destroy(m);
    mpc_choices_destroy(choices);
    return status;
}

static void test_every_allocation_may_fail(bench *t) {
    const char *path = "cuda_matmul_memory.txt";
    job j;
    shape s = {.fa = MPC_FMT_bf16, .fc = MPC_FMT_f32, .m = 24, .n = 40, .k = 72};
    make_job(&j, t, &s);
    uint64_t failures = 0;
    mpc_status status = MPC_FAILED;
    while (status != MPC_OK && failures < 1000) {
        mpc_alloc_fail_after(++failures);
        status = choose_and_save(t, &j, path);
        mpc_alloc_fail_after(0);
    }
    CHECK(status == MPC_OK && failures > 5);
    remove(path);
}

int main(void) {
    bench t;
    if (!open_bench(&t)) {
        fprintf(stderr, "skipped: no device, nor its stand-in: %s\n", last_message(&t));
        close_bench(&t);
        return 77;
    }
    test_transposes_in_all_formats(&t);
    test_odd_sizes_strides_and_offsets(&t);
    test_batches(&t);
    test_one_row_or_column_of_stride_one(&t);
    test_operands_of_any_alignment(&t);
    test_long_sums_split_over_k(&t);
    test_nan_and_infinity_are_kept(&t);
    test_refusals_say_why(&t);
    test_less_aligned_operands_are_refused(&t);
    test_choices_are_kept_and_taken_again(&t);
    test_damaged_choices_are_named_with_their_line(&t);
    test_every_allocation_may_fail(&t);
    test_the_library_ends_f32_results(&t);
    test_the_caller_ends_what_the_library_has_not(&t);
    test_an_algorithm_of_another_version_is_named(&t);
    close_bench(&t);
    with("MPC_CUDASIM_RELU_LOSES_NAN", "1", test_relu_that_loses_nan_is_no_candidate);
    with("MPC_CUDASIM_LT_F32_BIAS", "1", test_bias_before_the_rounding_is_a_candidate);
    with("MPC_CUDASIM_LT_F32_BIAS", "early", test_bias_after_the_rounding_is_none);
    return check_result();
}
