/* The kernel that a matmul may end in: c = round(act(sum + bias)) over the f32 sums in the accumulator. It is there for
 * every matmul that the library may be unable to finish with one rounding where the IR has it; the runtime decides
 * which of the two runs. Sums are dense, [batch, m, n]; the result is wherever its strides say, so only its side needs
 * digits of the row number. */
#include "codegen/cuda/grid.h"

/* n[]: packs of a row (divisor, 3 ints), columns, step of a row of c; general: divisors of m, batch[2], batch[1], then
 * steps of batch[2], batch[1], batch[0]. Steps in bytes. */
enum { ARG_PACKS = 0, ARG_COLUMNS = 3, ARG_STEP = 4, ARG_DIGITS = 5, ARG_STEPS = ARG_DIGITS + 9 };

typedef struct epilogue {
    const mpc_matmul *mm;
    const mpc_format_info *to;
    int64_t width, rows;
    bool general; /* rows of different batch entries don't lie one step apart */
    bool narrow;
} epilogue;

static bool rows_run_on(const mpc_matmul *mm) {
    int64_t step = mm->m * mm->c_row;
    for (int i = MPC_MATMUL_BATCH_DIMS - 1; i >= 0; i--) {
        if (mm->batch[i] > 1 && mm->c_batch[i] != step) return false;
        step *= mm->batch[i];
    }
    return true;
}

static epilogue describe(const mpc_matmul *mm) {
    epilogue e = {.mm = mm, .to = mpc_format_get(mm->fc), .rows = mm->m * mpc_matmul_batches(mm)};
    e.width = mm->c_col == 1 ? mpc_grid_width(mm->n, e.to->bytes >= 4 ? 4 : 8) : 1;
    e.general = !rows_run_on(mm);
    e.narrow = mpc_grid_is_narrow(e.rows * mm->n / e.width);
    return e;
}

static void add_arguments(mpc_cg *cg, const epilogue *e, mpc_cg_args *args) {
    const mpc_matmul *mm = e->mm;
    int64_t bytes = e->to->bytes;
    mpc_cg_add_pointer(args, mpc_cg_workspace(cg, (uint64_t)(e->rows * mm->n) * sizeof(float)));
    mpc_cg_add_pointer(args, mm->c);
    if (mm->has_bias) mpc_cg_add_pointer(args, mm->bias);
    mpc_grid_add_divisor(args, mm->n / e->width);
    mpc_cg_add_int(args, mm->n);
    mpc_cg_add_int(args, mm->c_row * bytes);
    if (mm->c_col != 1) mpc_cg_add_int(args, mm->c_col * bytes);
    if (e->general) {
        const int64_t digits[] = {mm->m, mm->batch[2], mm->batch[1]};
        for (int i = 0; i < 3; i++) mpc_grid_add_divisor(args, digits[i]);
        for (int i = MPC_MATMUL_BATCH_DIMS - 1; i >= 0; i--) mpc_cg_add_int(args, mm->c_batch[i] * bytes);
    }
    args->units = e->rows * (mm->n / e->width);
    args->blocks = mpc_grid_blocks(args->units, MPC_GRID_THREADS);
}

static void print_address(const epilogue *e, mpc_str *o) {
    uint32_t shift = e->mm->c_col != 1 ? 1 : 0; /* one more argument before the digits */
    mpc_str_printf(o, "        %s q = i;\n", e->narrow ? "uint32_t" : "int64_t");
    mpc_grid_print_digit(o, "        ", "column", "q", ARG_PACKS, e->narrow);
    mpc_str_append(o, "        char *y = (char *)p[1] + (int64_t)column * ");
    if (shift) mpc_str_printf(o, "n[%d];\n", ARG_STEP + 1);
    else mpc_str_printf(o, "%d;\n", (int)(e->width * e->to->bytes));
    mpc_str_printf(o, "        const float *x = (const float *)p[0] + ((int64_t)q * n[%d] + (int64_t)column * %d);\n",
                   ARG_COLUMNS, (int)e->width);
    if (e->general) {
        const char *const names[] = {"row", "inner", "middle"};
        for (uint32_t k = 0; k < 3; k++)
            mpc_grid_print_digit(o, "        ", names[k], "q", ARG_DIGITS + shift + 3 * k, e->narrow);
        mpc_str_printf(o,
                       "        y += (int64_t)row * n[%d] + (int64_t)inner * n[%u] + (int64_t)middle * n[%u] + "
                       "(int64_t)q * n[%u];\n",
                       ARG_STEP, ARG_STEPS + shift, ARG_STEPS + shift + 1, ARG_STEPS + shift + 2);
    } else {
        mpc_str_printf(o, "        y += (int64_t)q * n[%d];\n", ARG_STEP);
    }
}

static void print_body(const epilogue *e, mpc_str *o) {
    int w = (int)e->width;
    mpc_grid_print_items(o, e->narrow);
    print_address(e, o);
    mpc_str_printf(o, "        mpc_f<%d> v = mpc_load_f32<%d>(x, %d);\n", w, w, w);
    if (e->mm->has_bias)
        mpc_str_printf(o, "        v = v + mpc_load_f32<%d>((const float *)p[2] + (int64_t)column * %d, %d);\n", w, w,
                       w);
    if (e->mm->relu) mpc_str_append(o, "        v = mpc_relu(v);\n");
    if (mpc_cg_rounds(e->mm->fc)) mpc_str_printf(o, "        v = mpc_round_%s(v);\n", e->to->name);
    mpc_str_printf(o, "        mpc_store_%s<%d>(y, v, %d);\n    }\n", e->to->name, w, w);
}

void mpc_cuda_matmul_epilogue(mpc_cg *cg, const mpc_node *n, mpc_launch *launch) {
    (void)n;
    if (!mpc_cg_ok(cg)) return;
    const epilogue e = describe(&launch->matmul);
    mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS};
    if (e.width == 1) shape.note = "single elements: the rows of the result are odd, or aren't contiguous";
    else if (e.width < 4) shape.note = "rows of the result are no multiple of a 16-byte access";
    if (e.rows * launch->matmul.n == 0) return;
    mpc_cg_args args = {0};
    mpc_str body = {0};
    cg->workspace_used = 0;
    add_arguments(cg, &e, &args);
    launch->accumulator = args.pointers.count > 0 ? args.pointers.data[0] : (mpc_pointer){0};
    print_body(&e, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    launch->kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), &args, &shape);
    mpc_cg_add_instance(cg, launch, &args);
    mpc_str_free(&body);
}
