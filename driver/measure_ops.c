/* Times single products and convolutions, each in a graph of its own: in a training step, too, operands were written or read shortly before, while in one
 * graph of all shapes each found its operands driven out of the caches by the others, and took up to twice as long. Formats take turns, and the best of many
 * steps is what a launch takes on a machine that does nothing else. Operands are states, so nothing is fed. All of it takes seconds. */
#include "driver/measure_ops.h"

#include "base/alloc.h"
#include "driver/measured_graph.h"
#include "driver/progress.h"

enum { LEAST_STEPS = 3, MOST_STEPS = 400 };
static const double ENOUGH_SECONDS = 0.15; /* of a shape, all formats */

typedef enum shape_kind { PRODUCT, TRANSPOSED, FORWARD, INPUT, WEIGHT } shape_kind;

typedef struct shape_row {
    shape_kind kind;
    int64_t batch, a, b, c, window, stride; /* products: rows, columns, depth; convolutions: side of the image, channels, out channels */
} shape_row;

static const shape_row ROWS[] = {
    {PRODUCT, 1, 32, 64, 64, 0, 0},     {PRODUCT, 1, 32, 10, 64, 0, 0},     {PRODUCT, 1, 5, 7, 64, 0, 0},
    {PRODUCT, 1, 32, 33, 64, 0, 0},     {PRODUCT, 1, 32, 33, 33, 0, 0},     {PRODUCT, 1, 61, 67, 129, 0, 0},
    {PRODUCT, 1, 61, 64, 128, 0, 0},    {PRODUCT, 1, 129, 100, 100, 0, 0},  {PRODUCT, 1, 64, 257, 257, 0, 0},
    {PRODUCT, 1, 7, 1000, 1000, 0, 0},  {PRODUCT, 1, 64, 1024, 1024, 0, 0}, {PRODUCT, 1, 512, 1024, 1024, 0, 0},
    {PRODUCT, 1, 128, 512, 784, 0, 0},  {PRODUCT, 1, 256, 256, 256, 0, 0},  {PRODUCT, 1, 512, 32, 32, 0, 0},
    {PRODUCT, 1, 512, 96, 32, 0, 0},    {PRODUCT, 1, 2048, 128, 128, 0, 0}, {PRODUCT, 1, 2048, 512, 128, 0, 0},
    {PRODUCT, 16, 64, 64, 16, 0, 0},    {PRODUCT, 16, 64, 16, 64, 0, 0},    {PRODUCT, 64, 16, 16, 16, 0, 0},
    {PRODUCT, 32, 128, 128, 8, 0, 0},   {PRODUCT, 32, 128, 8, 128, 0, 0},   {PRODUCT, 8, 128, 128, 8, 0, 0},
    {PRODUCT, 16, 128, 128, 32, 0, 0},  {PRODUCT, 16, 128, 32, 128, 0, 0},  {PRODUCT, 4, 256, 256, 64, 0, 0},
    {TRANSPOSED, 32, 128, 8, 128, 0, 0}, {TRANSPOSED, 16, 64, 16, 64, 0, 0},
    {TRANSPOSED, 1, 64, 64, 32, 0, 0},  {TRANSPOSED, 1, 64, 10, 32, 0, 0},  {TRANSPOSED, 1, 64, 33, 32, 0, 0},
    {TRANSPOSED, 1, 33, 33, 32, 0, 0},  {TRANSPOSED, 1, 64, 100, 129, 0, 0}, {TRANSPOSED, 1, 257, 257, 64, 0, 0},
    {TRANSPOSED, 1, 1000, 1000, 7, 0, 0}, {TRANSPOSED, 1, 1024, 1024, 64, 0, 0}, {TRANSPOSED, 1, 1024, 1024, 512, 0, 0},
    {TRANSPOSED, 1, 784, 512, 128, 0, 0}, {TRANSPOSED, 1, 32, 96, 512, 0, 0}, {TRANSPOSED, 1, 128, 512, 2048, 0, 0},
    {TRANSPOSED, 16, 128, 32, 128, 0, 0},
    {FORWARD, 64, 8, 1, 16, 3, 1},      {FORWARD, 64, 8, 16, 32, 3, 2},     {FORWARD, 32, 32, 3, 16, 3, 1},
    {FORWARD, 32, 32, 16, 16, 3, 1},    {FORWARD, 32, 32, 16, 32, 3, 2},    {FORWARD, 32, 16, 32, 32, 3, 1},
    {FORWARD, 32, 8, 64, 64, 3, 1},     {FORWARD, 32, 16, 32, 64, 1, 2},    {FORWARD, 8, 28, 64, 64, 3, 1},
    {FORWARD, 8, 14, 128, 128, 3, 1},   {FORWARD, 8, 14, 256, 64, 1, 1},
    {INPUT, 64, 8, 16, 32, 3, 2},       {INPUT, 32, 32, 16, 16, 3, 1},      {INPUT, 32, 32, 16, 32, 3, 2},
    {INPUT, 32, 16, 32, 32, 3, 1},      {INPUT, 32, 8, 64, 64, 3, 1},       {INPUT, 32, 16, 32, 64, 1, 2},
    {INPUT, 8, 28, 64, 64, 3, 1},       {INPUT, 8, 14, 128, 128, 3, 1},     {INPUT, 8, 14, 256, 64, 1, 1},
    {WEIGHT, 64, 8, 1, 16, 3, 1},       {WEIGHT, 64, 8, 16, 32, 3, 2},      {WEIGHT, 32, 32, 3, 16, 3, 1},
    {WEIGHT, 32, 32, 16, 16, 3, 1},     {WEIGHT, 32, 32, 16, 32, 3, 2},     {WEIGHT, 32, 16, 32, 32, 3, 1},
    {WEIGHT, 32, 8, 64, 64, 3, 1},      {WEIGHT, 32, 16, 32, 64, 1, 2},     {WEIGHT, 8, 28, 64, 64, 3, 1},
    {WEIGHT, 8, 14, 128, 128, 3, 1},    {WEIGHT, 8, 14, 256, 64, 1, 1},
};
enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

uint32_t mpc_measured_ops_count(void) { return ROW_COUNT; }

/* --- text --- */

typedef struct conv_sizes {
    long long n, side, c, oc, out, kernel;
} conv_sizes;

static conv_sizes sizes_of(const shape_row *r) {
    int64_t out = (r->a + 2 * (r->window / 2) - r->window) / r->stride + 1;
    return (conv_sizes){r->batch, r->a, r->b, r->c, out, r->window};
}

static void add_state(mpc_str *t, const char *name, const char *f, const char *dims) {
    mpc_str_printf(t, "  %%%s = state() {name=\"%s\" init=\"normal\" b=1.0} : %s[%s]\n", name, name, f, dims);
}

/* An operand of a batch as attention has it: rows of all heads beside each other, unless rows are long. */
static void add_batch_operand(mpc_str *t, const char *name, const char *f, long long batch, long long rows, long long columns) {
    enum { LONG_ROW = 64 };
    char dims[64], side[8];
    bool strided = columns < LONG_ROW;
    snprintf(dims, sizeof dims, "%lld,%lld,%lld", strided ? rows : batch, strided ? batch : rows, columns);
    snprintf(side, sizeof side, "%s%s", name, strided ? ".rows" : "");
    add_state(t, side, f, dims);
    if (strided) mpc_str_printf(t, "  %%%s = transpose(%%%s) {perm=[1,0,2]} : %s[%lld,%lld,%lld]\n", name, side, f, batch, rows, columns);
}

static void add_batch(mpc_str *t, const shape_row *r, const char *f) {
    bool turned = r->kind == TRANSPOSED;
    add_batch_operand(t, "a", f, r->batch, turned ? r->c : r->a, turned ? r->a : r->c);
    add_batch_operand(t, "b", f, r->batch, r->c, r->b);
    mpc_str_printf(t, "  %%y = matmul(%%a, %%b) {ta=%s} : %s[%lld,%lld,%lld]\n", turned ? "true" : "false", f, (long long)r->batch, (long long)r->a,
                   (long long)r->b);
}

static void add_product(mpc_str *t, const shape_row *r, const char *f) {
    bool turned = r->kind == TRANSPOSED;
    char a[64], b[64];
    snprintf(a, sizeof a, "%lld,%lld", (long long)(turned ? r->c : r->a), (long long)(turned ? r->a : r->c));
    snprintf(b, sizeof b, "%lld,%lld", (long long)r->c, (long long)r->b);
    add_state(t, "a", f, a);
    add_state(t, "b", f, b);
    mpc_str_printf(t, "  %%y = matmul(%%a, %%b) {ta=%s} : %s[%lld,%lld]\n", turned ? "true" : "false", turned ? "f32" : f, (long long)r->a, (long long)r->b);
}

static void add_conv(mpc_str *t, const shape_row *r, const char *f) {
    conv_sizes z = sizes_of(r);
    char x[64], w[64], y[64], how[96];
    snprintf(x, sizeof x, "%lld,%lld,%lld,%lld", z.n, z.side, z.side, z.c);
    snprintf(w, sizeof w, "%lld,%lld,%lld,%lld", z.kernel, z.kernel, z.c, z.oc);
    snprintf(y, sizeof y, "%lld,%lld,%lld,%lld", z.n, z.out, z.out, z.oc);
    snprintf(how, sizeof how, "stride=[%lld,%lld] pad=[%lld,%lld]", (long long)r->stride, (long long)r->stride, z.kernel / 2, z.kernel / 2);
    add_state(t, "a", f, r->kind == INPUT ? y : x);
    add_state(t, "b", f, r->kind == WEIGHT ? y : w);
    if (r->kind == FORWARD) mpc_str_printf(t, "  %%y = conv2d(%%a, %%b) {%s} : %s[%s]\n", how, f, y);
    else if (r->kind == INPUT) mpc_str_printf(t, "  %%y = conv2d_grad_input(%%a, %%b) {h=%lld w=%lld %s} : %s[%s]\n", z.side, z.side, how, f, x);
    else mpc_str_printf(t, "  %%y = conv2d_grad_weight(%%a, %%b) {kh=%lld kw=%lld %s} : f32[%s]\n", z.kernel, z.kernel, how, w);
}

static void write_graph(mpc_str *t, const shape_row *r, const char *f) {
    mpc_str_append(t, "mpir 1\ngraph @calibrate() {\n");
    if (r->kind > TRANSPOSED) add_conv(t, r, f);
    else if (r->batch > 1) add_batch(t, r, f);
    else add_product(t, r, f);
    mpc_str_append(t, "  return(\"y\": %y)\n}\n");
}

/* --- times --- */

static void keep_best(const mpc_program *p, const mpc_launch_time *times, mpc_measured_op *op) {
    for (uint32_t i = 0; i < p->launch_count; i++) {
        if (p->launches[i].kind != MPC_LAUNCH_MATMUL && p->launches[i].kind != MPC_LAUNCH_CONV) continue;
        if (op->seconds == 0 || times[i].seconds < op->seconds) op->seconds = times[i].seconds;
    }
}

static bool time_step(mpc_measured_graph *r, mpc_measured_op *op) {
    mpc_launch_time *times = mpc_alloc(((size_t)r->program->launch_count + 1) * sizeof *times);
    bool ok = times && mpc_cpu_profile(r->exec, times, r->program->launch_count) == MPC_OK && mpc_exec_record(r->exec, true) == MPC_RECORD_READY;
    if (ok) keep_best(r->program, times, op);
    mpc_free(times);
    return ok;
}

/* All formats of a shape, in turns. */
static bool time_shape(mpc_session *s, const mpc_format *formats, int count, int at, mpc_measured_op *ops) {
    mpc_measured_graph r[MPC_FMT_count] = {{0}};
    bool ok = true;
    for (int f = 0; ok && f < count; f++) {
        mpc_str text = {0};
        write_graph(&text, &ROWS[at], mpc_format_get(formats[f])->name);
        ok = text.failed ? mpc_error(s->sink, "E901", "out of memory") == MPC_OK : mpc_measured_graph_open(s, mpc_str_cstr(&text), &r[f]);
        mpc_str_free(&text);
    }
    double begin = mpc_now();
    for (int i = 0; ok && i < MOST_STEPS && (i < LEAST_STEPS || mpc_now() - begin < ENOUGH_SECONDS); i++)
        for (int f = 0; ok && f < count; f++) ok = time_step(&r[f], &ops[f * ROW_COUNT + at]);
    for (int f = 0; f < count; f++) mpc_measured_graph_close(&r[f]);
    return ok;
}

/* --- sizes --- */

static void describe(const shape_row *r, mpc_measured_op *op) {
    mpc_op_size *z = &op->size;
    *op = (mpc_measured_op){.size = {.kind = MPC_COST_MATMUL, .batch = (double)r->batch, .extent = {(double)r->a, (double)r->b, (double)r->c}}};
    if (r->kind <= TRANSPOSED) {
        if (r->kind == TRANSPOSED) z->kind = MPC_COST_MATMUL_WEIGHT;
        if (r->batch > 1) z->kind = MPC_COST_MATMUL_BATCH;
        z->operands = (double)(r->batch * r->c * (r->a + r->b));
        z->result = (double)(r->batch * r->a * r->b);
        snprintf(op->shape, sizeof op->shape, "%lldx%lldx%lldx%lld", (long long)r->batch, (long long)r->a, (long long)r->b, (long long)r->c);
        return;
    }
    conv_sizes c = sizes_of(r);
    double pixels = (double)(c.n * c.out * c.out), in = (double)c.c, out = (double)c.oc, window = (double)(c.kernel * c.kernel);
    double x = (double)(c.n * c.side * c.side) * in, y = pixels * out, w = window * in * out;
    mpc_op_size sizes[] = {[FORWARD] = {MPC_COST_CONV, window, {pixels, out, in}, x + w, y},
                           [INPUT] = {MPC_COST_CONV_INPUT, window, {pixels, in, out}, y + w, x},
                           [WEIGHT] = {MPC_COST_CONV_WEIGHT, window, {in, out, pixels}, x + y, w}};
    *z = sizes[r->kind];
    snprintf(op->shape, sizeof op->shape, "%lldx%lldx%lldx%lld->%lld,%lldx%lld/%lld", c.n, c.side, c.side, c.c, c.oc, c.kernel, c.kernel, (long long)r->stride);
}

bool mpc_measure_ops(mpc_session *s, const mpc_format *formats, int count, mpc_measured_op *ops) {
    bool ok = true;
    for (int i = 0; i < count * ROW_COUNT; i++) describe(&ROWS[i % ROW_COUNT], &ops[i]);
    for (int at = 0; ok && at < ROW_COUNT; at++) ok = time_shape(s, formats, count, at, ops);
    return ok;
}
