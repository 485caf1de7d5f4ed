/* Plans of generated kernels and of copies, and what all plans share. The pieces of a kernel launch may depend on the
 * number of threads: a kernel's units are independent of each other, so no bit depends on who runs them. */
#include "runtime/cpu/plan.h"

#include <string.h>

mpc_plan *mpc_plan_new(const mpc_plan_env *env, size_t state_size) {
    mpc_plan *plan = mpc_arena_alloc(env->arena, sizeof *plan);
    if (!plan) return NULL;
    plan->state = mpc_arena_alloc(env->arena, state_size);
    return plan->state ? plan : NULL;
}

/* Handing work over and waiting for its end costs 5 to 15 microseconds where processors are virtual, so two threads
 * need twice as much work to gain anything. All that a short step touches stays in one core's cache, and would go back
 * and forth between two: of eleven steps measured (docs/performance.md) those of 0.3 ms on one thread gained nothing
 * from a second, those of 0.2 ms lost up to half, that of 1 ms gained a sixth. */
static const double short_phase = 20e-6, short_step = 300e-6;

static bool is_cheap(double seconds) { return seconds > 0 && seconds < short_phase; }
bool mpc_step_is_short(double seconds) { return seconds < short_step; }

void mpc_plan_add_phase(mpc_plan *plan, mpc_pool_work work, void *user, int64_t units, double seconds) {
    bool unknown = seconds <= 0 && units > 1;
    plan->phases[plan->phase_count++] = (mpc_phase){.work = work,
                                                    .user = user,
                                                    .units = units,
                                                    .seconds = unknown ? short_step : seconds,
                                                    .serial = is_cheap(seconds)};
}

double mpc_plan_seconds(const mpc_plan *plan) {
    double sum = 0;
    for (uint32_t i = 0; i < plan->phase_count; i++) sum += plan->phases[i].seconds;
    return sum;
}

void mpc_plan_make_serial(mpc_plan *plan) {
    for (uint32_t i = 0; i < plan->phase_count; i++) plan->phases[i].serial = true;
}

void mpc_plan_run(const mpc_plan *plan, mpc_pool *pool) {
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const mpc_phase *phase = &plan->phases[i];
        if (!phase->serial) {
            mpc_pool_run(pool, phase->units, phase->work, phase->user);
            continue;
        }
        for (int64_t unit = 0; unit < phase->units; unit++) phase->work(phase->user, unit, 0);
    }
}

bool mpc_accumulator_is_f32(const mpc_plan_env *env, const mpc_launch *launch, mpc_format acc) {
    if (acc == MPC_FMT_f32 || acc == MPC_FMT_none) return true;
    mpc_error(env->sink, "E652", "%s: the cpu device accumulates in f32, not in %s", launch->name,
              mpc_format_get(acc)->name);
    return false;
}

/* ---- kernels ---- */

typedef struct kernel_span { /* units [begin, end) of one instance */
    uint32_t instance;
    int64_t begin, end;
} kernel_span;

typedef struct kernel_plan {
    const mpc_launch *launch;
    mpc_kernel_fn function;
    uint32_t pointer_count;
    void ***pointers; /* per instance */
    kernel_span *spans;
    uint32_t *piece_begin; /* into spans; piece_count + 1 */
    uint32_t span_count, piece_count;
    uint8_t *scratch;
    uint64_t scratch_stride;
} kernel_plan;

static void run_piece(void *user, int64_t unit, unsigned thread) {
    const kernel_plan *k = user;
    void *scratch = k->scratch + thread * k->scratch_stride;
    for (uint32_t s = k->piece_begin[unit]; s < k->piece_begin[unit + 1]; s++) {
        const kernel_span *span = &k->spans[s];
        const mpc_kernel_instance *in = &k->launch->instances[span->instance];
        k->function(k->pointers[span->instance], in->ints, in->floats, span->begin, span->end, scratch);
    }
}

static bool bind_kernel(mpc_plan *plan, const mpc_binding *b) {
    kernel_plan *k = plan->state;
    for (uint32_t i = 0; i < k->launch->instance_count; i++)
        for (uint32_t p = 0; p < k->pointer_count; p++)
            k->pointers[i][p] = mpc_resolve(b, k->launch->instances[i].pointers[p]);
    k->scratch = b->scratch;
    k->scratch_stride = b->scratch_stride;
    return true;
}

/* Of launches that don't say what they move (reductions of many states, gathers): everything they point at. */
static double bytes_of(const mpc_plan_env *env, const mpc_launch *launch, uint32_t pointer_count) {
    if (launch->bytes > 0) return launch->bytes;
    double bytes = 0;
    for (uint32_t i = 0; i < launch->instance_count; i++)
        for (uint32_t p = 0; p < pointer_count; p++)
            bytes += (double)env->buffers[launch->instances[i].pointers[p].buffer].bytes;
    return bytes;
}

static double seconds_of(const mpc_plan_env *env, const mpc_launch *launch, uint32_t pointer_count) {
    double bytes = bytes_of(env, launch, pointer_count);
    double moving = bytes / (bytes < 4e6 ? 40e9 : 10e9), computing = launch->flops / 30e9; /* in the cache or not */
    return moving > computing ? moving : computing;
}

static int64_t count_units(const mpc_launch *launch) {
    int64_t units = 0;
    for (uint32_t i = 0; i < launch->instance_count; i++) units += launch->instances[i].units;
    return units;
}

/* Cuts instances into spans and gathers spans into pieces of about `size` units. */
static void cut_pieces(kernel_plan *k, int64_t size) {
    int64_t filled = 0;
    k->piece_begin[0] = 0;
    for (uint32_t i = 0; i < k->launch->instance_count; i++) {
        int64_t units = k->launch->instances[i].units;
        for (int64_t begin = 0; begin < units;) {
            int64_t end = units - begin < size - filled ? units : begin + (size - filled);
            k->spans[k->span_count++] = (kernel_span){.instance = i, .begin = begin, .end = end};
            filled += end - begin;
            begin = end;
            if (filled < size) continue;
            k->piece_begin[++k->piece_count] = k->span_count;
            filled = 0;
        }
    }
    if (filled > 0) k->piece_begin[++k->piece_count] = k->span_count;
}

static bool lay_out_kernel(kernel_plan *k, const mpc_plan_env *env) {
    const mpc_launch *launch = k->launch;
    int64_t units = count_units(launch);
    int64_t wanted = is_cheap(seconds_of(env, launch, k->pointer_count)) ? 1 : (int64_t)env->threads * 4;
    int64_t size = units / wanted + (units % wanted != 0);
    if (size < 1) size = 1;
    size_t pieces = (size_t)(units / size) + 2;
    k->spans = mpc_arena_alloc(env->arena, (pieces + launch->instance_count) * sizeof *k->spans);
    k->piece_begin = mpc_arena_alloc(env->arena, (pieces + 1) * sizeof *k->piece_begin);
    k->pointers = mpc_arena_alloc(env->arena, (launch->instance_count + 1) * sizeof *k->pointers);
    if (!k->spans || !k->piece_begin || !k->pointers) return false;
    for (uint32_t i = 0; i < launch->instance_count; i++) {
        k->pointers[i] = mpc_arena_alloc(env->arena, (k->pointer_count + 1) * sizeof *k->pointers[i]);
        if (!k->pointers[i]) return false;
    }
    cut_pieces(k, size);
    return true;
}

mpc_plan *mpc_kernel_plan(const mpc_plan_env *env, const mpc_launch *launch, const mpc_kernel *kernel,
                          mpc_kernel_fn function) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(kernel_plan));
    if (!plan) return NULL;
    kernel_plan *k = plan->state;
    *k = (kernel_plan){.launch = launch, .function = function, .pointer_count = kernel->pointer_count};
    if (!lay_out_kernel(k, env)) return NULL;
    plan->scratch_bytes = kernel->scratch_bytes;
    plan->implementation = "kernel";
    plan->bind = bind_kernel;
    mpc_plan_add_phase(plan, run_piece, k, k->piece_count, seconds_of(env, launch, k->pointer_count));
    return plan;
}

/* ---- copies ---- */

enum { COPY_PIECE = 1 << 18 };

typedef struct copy_plan {
    const mpc_launch *launch;
    uint8_t *to;
    const uint8_t *from;
} copy_plan;

static void copy_piece(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const copy_plan *c = user;
    uint64_t begin = (uint64_t)unit * COPY_PIECE, left = c->launch->copy_bytes - begin;
    memcpy(c->to + begin, c->from + begin, left < COPY_PIECE ? (size_t)left : COPY_PIECE);
}

static bool bind_copy(mpc_plan *plan, const mpc_binding *b) {
    copy_plan *c = plan->state;
    c->to = mpc_resolve(b, c->launch->copy_to);
    c->from = mpc_resolve(b, c->launch->copy_from);
    return true;
}

mpc_plan *mpc_copy_plan(const mpc_plan_env *env, const mpc_launch *launch) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(copy_plan));
    if (!plan) return NULL;
    copy_plan *c = plan->state;
    c->launch = launch;
    plan->implementation = "copy";
    plan->bind = bind_copy;
    mpc_plan_add_phase(plan, copy_piece, c, (int64_t)((launch->copy_bytes + COPY_PIECE - 1) / COPY_PIECE),
                       (double)launch->copy_bytes / 10e9);
    return plan;
}
