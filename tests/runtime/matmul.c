/* Matmul launches: every format, layout, batch, bias and relu, by oneDNN and by the own kernels, against sums in
 * double; and the same bits for every number of threads. */
#include "tests/runtime/program_support.h"

typedef struct mm_case {
    int64_t m, n, k, batch0, batch1;
    bool ta, tb, tc, bias, relu, share_b;
} mm_case;

static const mm_case cases[] = {
    {5, 7, 3, 1, 1, false, false, false, true, true, false},
    {32, 64, 64, 1, 1, false, false, false, true, true, false},
    {64, 10, 33, 2, 3, false, true, false, false, false, false},
    {130, 300, 70, 1, 1, false, false, false, true, false, false},
    {200, 520, 129, 1, 1, true, false, false, false, false, false},
    {257, 130, 260, 1, 1, false, true, false, false, true, false},
    {96, 96, 128, 3, 2, false, true, false, false, false, false},
    {128, 96, 96, 2, 2, false, false, true, false, false, true},
    {600, 600, 40, 1, 1, true, true, false, false, false, false},
    {1, 2000, 300, 1, 1, false, false, false, true, false, false},
    {600, 1024, 24, 1, 1, true, false, false, true, true, false}, /* made aside in bf16 to f32 */
    {530, 543, 7, 1, 1, true, false, false, false, false, false}, /* row by row into f32 */
};

static const mpc_format formats[][2] = {{MPC_FMT_f32, MPC_FMT_f32},
                                        {MPC_FMT_bf16, MPC_FMT_bf16},
                                        {MPC_FMT_bf16, MPC_FMT_f32},
                                        {MPC_FMT_f32, MPC_FMT_bf16},
                                        {MPC_FMT_f32, MPC_FMT_f16},
                                        {MPC_FMT_f16, MPC_FMT_f16},
                                        {MPC_FMT_f16, MPC_FMT_f32}};

static void add_matmul(fixture *f, const mm_case *c, mpc_format in, mpc_format out) {
    mpc_launch *l = add_launch(f, MPC_LAUNCH_MATMUL, "matmul");
    mpc_matmul *mm = &l->matmul;
    int64_t batches = c->batch0 * c->batch1;
    *mm = (mpc_matmul){.a = add_buffer(f, "a", in, batches * c->m * c->k),
                       .b = add_buffer(f, "b", in, batches * c->k * c->n),
                       .c = add_buffer(f, "c", out, batches * c->m * c->n),
                       .bias = add_buffer(f, "bias", MPC_FMT_f32, c->n),
                       .has_bias = c->bias,
                       .relu = c->relu,
                       .fa = in,
                       .fb = in,
                       .fc = out,
                       .acc = MPC_FMT_f32,
                       .m = c->m,
                       .n = c->n,
                       .k = c->k,
                       .a_row = c->ta ? 1 : c->k,
                       .a_col = c->ta ? c->m : 1,
                       .b_row = c->tb ? 1 : c->n,
                       .b_col = c->tb ? c->k : 1,
                       .c_row = c->tc ? 1 : c->n,
                       .c_col = c->tc ? c->m : 1,
                       .batch = {1, c->batch0, c->batch1},
                       .a_batch = {0, c->batch1 * c->m * c->k, c->m * c->k},
                       .c_batch = {0, c->m * c->n, c->batch0 * c->m * c->n}};
    if (!c->share_b) {
        mm->b_batch[1] = c->batch1 * c->k * c->n;
        mm->b_batch[2] = c->k * c->n;
    }
}

static int count_wrong(const mpc_matmul *mm, const double *a, const double *b, const double *got, const double *bias) {
    int wrong = 0;
    int64_t outputs = mm->batch[1] * mm->batch[2] * mm->m * mm->n;
    for (int64_t x = 0; x < outputs; x++) {
        int64_t j = x % mm->n, i = x / mm->n % mm->m, b2 = x / mm->n / mm->m % mm->batch[2],
                b1 = x / mm->n / mm->m / mm->batch[2];
        const double *pa = a + b1 * mm->a_batch[1] + b2 * mm->a_batch[2] + i * mm->a_row;
        const double *pb = b + b1 * mm->b_batch[1] + b2 * mm->b_batch[2] + j * mm->b_col;
        double sum = mm->has_bias ? bias[j] : 0, size = fabs(sum);
        for (int64_t k = 0; k < mm->k; k++) {
            double term = pa[k * mm->a_col] * pb[k * mm->b_row];
            sum += term;
            size += fabs(term);
        }
        if (mm->relu && sum < 0) sum = 0;
        double value = got[b1 * mm->c_batch[1] + b2 * mm->c_batch[2] + i * mm->c_row + j * mm->c_col];
        wrong += !(fabs(value - sum) <= sum_bound(mm->fc, sum, size, mm->k));
    }
    return wrong;
}

static void check_values(fixture *f, mpc_exec *e, const mpc_matmul *mm, const char *what) {
    double *a = read_values(e, mm->a), *b = read_values(e, mm->b), *c = read_values(e, mm->c),
           *bias = read_values(e, mm->bias);
    int wrong = count_wrong(mm, a, b, c, bias);
    CHECK_MSG(wrong == 0, "%s %s->%s %ldx%ldx%ld by %s: %d wrong", what, mpc_format_get(mm->fa)->name,
              mpc_format_get(mm->fc)->name, (long)mm->m, (long)mm->n, (long)mm->k, mpc_cpu_implementation(e, 0), wrong);
    CHECK(strncmp(mpc_cpu_implementation(e, 0), "ref", 3) != 0);
    mpc_free(a);
    mpc_free(b);
    mpc_free(c);
    mpc_free(bias);
    (void)f;
}

static void check_case(const mm_case *c, mpc_format in, mpc_format out, bool no_onednn) {
    fixture f;
    fixture_create(&f, NULL);
    add_matmul(&f, c, in, out);
    const mpc_matmul *mm = &f.launches[0].matmul;
    uint8_t *first = NULL;
    static const unsigned thread_counts[] = {1, 4};
    for (int t = 0; t < 2; t++) {
        mpc_exec *e = load(&f, thread_counts[t], no_onednn);
        CHECK(e);
        if (!e) break;
        fill_random(e, mm->a, 1);
        fill_random(e, mm->b, 2);
        fill_random(e, mm->bias, 3);
        for (int step = 0; step < 2; step++) CHECK(e->vtable->step(e) == MPC_OK);
        size_t bytes = (size_t)f.buffers[mm->c.buffer].bytes;
        if (t == 0) {
            check_values(&f, e, mm, no_onednn ? "own" : "onednn");
            first = mpc_alloc(bytes);
            memcpy(first, buffer_data(e, mm->c), bytes);
        } else {
            CHECK_MSG(memcmp(first, buffer_data(e, mm->c), bytes) == 0, "%u threads give other bits, %ldx%ldx%ld by %s",
                      thread_counts[t], (long)mm->m, (long)mm->n, (long)mm->k, mpc_cpu_implementation(e, 0));
        }
        e->vtable->destroy(e);
    }
    mpc_free(first);
    fixture_destroy(&f);
}

static void check_refusal(void) {
    fixture f;
    fixture_create(&f, NULL);
    add_matmul(&f, &cases[0], MPC_FMT_f16, MPC_FMT_f16);
    f.launches[0].matmul.acc = MPC_FMT_f16;
    mpc_exec_options options = {.threads = 1, .cache_dir = f.cache};
    CHECK(!mpc_cpu_load(&f.program, f.store, &options, &f.sink));
    CHECK(mpc_diag_list_count(f.diags) > 0);
    if (mpc_diag_list_count(f.diags) > 0) CHECK_STR(mpc_diag_list_get(f.diags, 0)->code, "E652");
    fixture_destroy(&f);
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
            for (int own = 0; own < 2; own++) check_case(&cases[i], formats[f][0], formats[f][1], own);
    check_refusal();
    return check_result();
}
