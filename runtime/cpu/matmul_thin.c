/* Large f32 results of few products each, such as the gradient of weights from a small batch: their time is that of
 * writing them. Tiles, the library's and the own, write pieces of rows that lie far apart, at about half the speed at
 * which whole rows are written, so here a result goes row by row. Operands in low formats come as f32 copies. How many
 * multiplications are made is of no account as long as all of b stays in the first-level cache. */
#include "runtime/cpu/plan.h"

enum { MOST_B_BYTES = 32 << 10, LEAST_BYTES = 1 << 20, UNIT_BYTES = 1 << 17 };

typedef struct thin_matmul {
    mpc_matmul mm;
    const mpc_gemm_isa *isa;
    const float *a, *b;
    float *c;
    int64_t rows; /* of a unit */
} thin_matmul;

static void run_rows(void *user, int64_t unit, unsigned thread) {
    (void)thread;
    const thin_matmul *t = user;
    const mpc_matmul *mm = &t->mm;
    mpc_row_sum row = {.b = t->b, .a_step = mm->a_col, .b_row = mm->b_row, .k = mm->k, .n = mm->n};
    for (int64_t i = unit * t->rows; i < mm->m && i < (unit + 1) * t->rows; i++) {
        row.a = t->a + i * mm->a_row;
        row.c = t->c + i * mm->c_row;
        t->isa->row(&row);
    }
}

static bool bind_thin(mpc_plan *plan, const mpc_binding *b) {
    thin_matmul *t = plan->state;
    t->a = mpc_resolve(b, t->mm.a);
    t->b = mpc_resolve(b, t->mm.b);
    t->c = mpc_resolve(b, t->mm.c);
    return true;
}

static mpc_plan *plan_rows(const mpc_plan_env *env, const mpc_matmul *mm) {
    mpc_plan *plan = mpc_plan_new(env, sizeof(thin_matmul));
    if (!plan) return NULL;
    thin_matmul *t = plan->state;
    int64_t row_bytes = mm->n * (int64_t)sizeof(float);
    *t = (thin_matmul){.mm = *mm, .isa = env->isa, .rows = row_bytes < UNIT_BYTES ? UNIT_BYTES / row_bytes : 1};
    plan->implementation = "rows";
    plan->bind = bind_thin;
    mpc_plan_add_phase(plan, run_rows, t, mpc_divide_up(mm->m, t->rows), (double)(mm->m * row_bytes) / 10e9);
    return plan;
}

static bool is_thin(const mpc_matmul *mm) {
    bool whole_rows = mm->fc == MPC_FMT_f32 && mm->c_col == 1 && mm->c_row == mm->n && mm->b_col == 1;
    bool alone = mpc_matmul_batches(mm) == 1 && !mm->has_bias && !mm->relu;
    int64_t row_bytes = mm->n * (int64_t)sizeof(float);
    bool b_stays = row_bytes > 0 && mm->k > 0 && mm->k <= MOST_B_BYTES / row_bytes; /* in the first-level cache */
    return whole_rows && alone && b_stays && mm->m * row_bytes >= LEAST_BYTES;
}

mpc_plan *mpc_matmul_plan_thin(const mpc_plan_env *env, const mpc_matmul *mm) {
    if (!is_thin(mm)) return NULL;
    bool wide = mm->fa == MPC_FMT_f32 && mm->fb == MPC_FMT_f32;
    return wide ? plan_rows(env, mm) : mpc_matmul_plan_widened(env, mm, plan_rows);
}
