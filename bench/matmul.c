/* GFLOP/s of the cpu device's matmul launches by shape, format and number of threads, beside the f32 peak of one thread
 * measured in the same run (a register tile on panels that stay in the first-level cache). Best of many short rounds
 * in processor time over the number of threads, since the machine may be shared. ninja -C build/release bench_matmul &&
 * build/release/bench_matmul [MxNxK[t] ...]
 * A `t` behind a shape: a lies transposed, as in the gradient of a weight. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "runtime/block.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/plan.h"

enum { ROUNDS = 25 };

typedef struct bench_case {
    int64_t m, n, k;
    bool ta, tb;
} bench_case;

typedef struct bench_formats {
    mpc_format operands, result;
} bench_formats;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double f32_peak(void) {
    enum { K = 256, REPEAT = 2000 };
    const mpc_gemm_isa *isa = mpc_gemm_isa_best();
    static float a[K * 64], b[K * 64], c[64 * 64];
    mpc_micro tile = {
        .a = a, .b = b, .a_row = 1, .a_col = isa->rows, .b_row = isa->columns, .k = K, .c = c, .c_row = isa->columns};
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        for (int i = 0; i < REPEAT; i++) isa->wide[isa->rows - 1](&tile);
        double seconds = (now() - begin) / REPEAT;
        if (seconds < best) best = seconds;
    }
    return 2.0 * K * isa->rows * isa->columns / best * 1e-9;
}

static mpc_launch make_launch(const bench_case *c, bench_formats f) {
    mpc_launch launch = {.kind = MPC_LAUNCH_MATMUL, .name = "bench"};
    launch.matmul = (mpc_matmul){.a.buffer = 0,
                                 .b.buffer = 1,
                                 .c.buffer = 2,
                                 .fa = f.operands,
                                 .fb = f.operands,
                                 .fc = f.result,
                                 .acc = MPC_FMT_f32,
                                 .m = c->m,
                                 .n = c->n,
                                 .k = c->k,
                                 .a_row = c->ta ? 1 : c->k,
                                 .a_col = c->ta ? c->m : 1,
                                 .b_row = c->tb ? 1 : c->n,
                                 .b_col = c->tb ? c->k : 1,
                                 .c_row = c->n,
                                 .c_col = 1,
                                 .batch = {1, 1, 1}};
    return launch;
}

static double best_seconds(const mpc_plan *plan, mpc_pool *pool, double products) {
    double best = 1e9;
    int repeat = 1 + (int)(2e7 / products);
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        for (int i = 0; i < repeat; i++) mpc_plan_run(plan, pool);
        double seconds = (now() - begin) / repeat;
        if (seconds < best) best = seconds;
    }
    return best;
}

static void enter(void *user) { (void)mpc_dnn_enter(user); }

static void measure(const bench_case *c, bench_formats f, unsigned threads) {
    mpc_dnn *dnn = mpc_dnn_open(NULL, 0);
    mpc_pool *pool = mpc_pool_create(threads, enter, dnn);
    mpc_arena *arena = mpc_arena_create();
    (void)mpc_dnn_enter(dnn);
    if (!pool || !arena || !mpc_dnn_make_streams(dnn, threads)) return;
    mpc_plan_env env = {.arena = arena, .isa = mpc_gemm_isa_best(), .dnn = dnn, .threads = threads};
    mpc_launch launch = make_launch(c, f);
    mpc_plan *plan = mpc_matmul_plan(&env, &launch);
    const int64_t sizes[3] = {c->m * c->k, c->k * c->n, c->m * c->n};
    mpc_block blocks[5] = {0};
    uint8_t *buffers[3];
    bool ready = plan != NULL;
    for (int i = 0; i < 3; i++) {
        ready = ready && mpc_block_create(&blocks[i], (uint64_t)sizes[i] * 4);
        buffers[i] = blocks[i].data;
    }
    uint64_t stride = ready ? mpc_align64(plan->scratch_bytes) + 64 : 64;
    ready = ready && mpc_block_create(&blocks[3], stride * threads);
    ready = ready && mpc_block_create(&blocks[4], plan->shared_bytes + 64);
    mpc_binding binding = {.buffers = buffers,
                           .scratch = blocks[3].data,
                           .shared = blocks[4].data,
                           .scratch_stride = stride,
                           .threads = threads};
    if (ready && plan->bind(plan, &binding)) {
        double products = (double)c->m * (double)c->n * (double)c->k,
               seconds = best_seconds(plan, pool, products) / threads;
        printf("%-4s to %-4s %5ldx%4ldx%4ld %s%s  %u threads %9.2f us %8.1f GFLOP/s  %s\n", mpc_format_get(f.operands)->name,
               mpc_format_get(f.result)->name, (long)c->m, (long)c->n, (long)c->k, c->ta ? "T" : "-", c->tb ? "T" : "-", threads, seconds * 1e6,
               2e-9 * products / seconds, plan->implementation);
    }
    for (int i = 0; i < 5; i++) mpc_block_destroy(&blocks[i]);
    mpc_pool_destroy(pool);
    mpc_dnn_close(dnn);
    mpc_arena_destroy(arena);
}

static void measure_all(const bench_case *c) {
    static const bench_formats formats[] = {
        {MPC_FMT_f32, MPC_FMT_f32}, {MPC_FMT_bf16, MPC_FMT_bf16}, {MPC_FMT_bf16, MPC_FMT_f32}, {MPC_FMT_f32, MPC_FMT_bf16}, {MPC_FMT_f16, MPC_FMT_f16}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (unsigned threads = 1; threads <= 2; threads++) measure(c, formats[f], threads);
}

int main(int argc, char **argv) {
    static const bench_case fixed[] = {{512, 1024, 1024, false, false}, {512, 1024, 1024, false, true},
                                       {1024, 1024, 512, true, false},  {128, 512, 784, false, false},
                                       {32, 64, 64, false, false},      {32, 64, 64, false, true}};
    printf("f32 peak of one thread: %.1f GFLOP/s (%s)\n", f32_peak(), mpc_gemm_isa_best()->name);
    for (int i = 1; i < argc; i++) {
        long m = 0, n = 0, k = 0;
        char t = 0;
        if (sscanf(argv[i], "%ldx%ldx%ld%c", &m, &n, &k, &t) < 3) return 2;
        bench_case own = {m, n, k, t == 't', false};
        measure_all(&own);
    }
    for (size_t i = 0; argc == 1 && i < sizeof fixed / sizeof fixed[0]; i++) measure_all(&fixed[i]);
    return 0;
}
