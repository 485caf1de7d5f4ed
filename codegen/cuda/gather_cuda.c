/* Embedding and its gradient in CUDA. The gradient scatters without atomics: a block owns some rows of the table, looks
 * through the ids in order and adds up what belongs to its rows, so every sum has the order of the ids. Small tables
 * would keep few blocks busy: then the ids are cut into segments, each with a table of its own in the workspace, which
 * are added in order. */
#include "codegen/cuda/grid.h"

enum {
    CHUNK = 1024,                /* ids a block looks at between barriers, 4 a thread */
    LIST_BYTES = CHUNK * 8 + 64, /* matches (position in the segment, row), sums of the warps */
    SEGMENT_LEAST = 512,         /* ids */
    SEGMENTS_MOST = 32,
    SEGMENT_BYTES = 16 << 20 /* all tables of segments */
};

typedef struct table {
    const mpc_format_info *values, *ids; /* table or dy; ids */
    mpc_format format;                   /* of values */
    int64_t rows, columns, count;        /* of the table; ids */
    int64_t width;                       /* columns of a thread's pack */
} table;

/* `whole`: what has the table's shape; `values`: what is read, `result` what is written. */
static table describe(mpc_cg *cg, mpc_value_id whole, mpc_value_id values, mpc_value_id ids, mpc_value_id result) {
    const mpc_type *type = mpc_value_type(cg->g, whole);
    const mpc_format_info *to = mpc_format_get(mpc_value_format(cg->g, result));
    table t = {.format = mpc_value_format(cg->g, values),
               .rows = type->dims[0],
               .columns = type->dims[1],
               .count = mpc_type_elements(mpc_value_type(cg->g, ids))};
    t.values = mpc_format_get(t.format);
    t.ids = mpc_format_get(mpc_value_format(cg->g, ids));
    uint32_t bytes = t.values->bytes > to->bytes ? t.values->bytes : to->bytes;
    t.width = mpc_grid_width(t.columns, bytes == 1 ? 8 : 16 / bytes);
    t.width = mpc_grid_align(t.width, mpc_cg_pointer(cg, values), t.values->bytes);
    t.width = mpc_grid_align(t.width, mpc_cg_pointer(cg, result), to->bytes);
    return t;
}

static void print_id(const table *t, const char *indent, const char *index, mpc_str *o) {
    mpc_str_printf(o, "%sconst int64_t id = (int64_t)mpc_load_%s<1>((const char *)p[1] + (%s) * %u, 1).v[0];\n", indent,
                   t->ids->name, index, t->ids->bytes);
}

/* n: 0 rows of the table, 1 columns, 2.. packs of a row as a divisor. Items: packs of the result. */
static void embedding(mpc_cg *cg, const mpc_node *n) {
    mpc_value_id whole = mpc_operand(cg->g, n, 0), ids = mpc_operand(cg->g, n, 1), result = mpc_result(n, 0);
    mpc_format format = mpc_value_format(cg->g, result);
    const mpc_format_info *to = mpc_format_get(format);
    table t = describe(cg, whole, whole, ids, result);
    mpc_cg_args args = {.units = t.count * (t.columns / t.width)};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, whole));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, ids));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    mpc_cg_add_int(&args, t.rows);
    mpc_cg_add_int(&args, t.columns);
    mpc_grid_add_divisor(&args, t.columns / t.width);
    args.blocks = mpc_grid_blocks(args.units, MPC_GRID_THREADS);
    int w = (int)t.width;
    bool narrow = mpc_grid_is_narrow(args.units);
    mpc_str o = {0};
    mpc_grid_print_items(&o, narrow);
    mpc_str_append(&o, narrow ? "        uint32_t r = i;\n" : "        int64_t r = i;\n");
    mpc_grid_print_digit(&o, "        ", "c", "r", 2, narrow);
    print_id(&t, "        ", "(int64_t)r", &o);
    mpc_str_printf(&o, "        auto x = mpc_splat<%d>(MPC_NAN);\n", w);
    mpc_str_printf(&o,
                   "        if (id >= 0 && id < n[0]) x = mpc_load_%s<%d, true>((const char *)p[0] + (id * n[1] + "
                   "(int64_t)c * %d) * %u, %d);\n",
                   t.values->name, w, w, t.values->bytes, w);
    if (mpc_cg_rounds(format) && to != t.values) mpc_str_printf(&o, "        x = mpc_round_%s(x);\n", to->name);
    mpc_str_printf(&o, "        mpc_store_%s<%d, true>((char *)p[2] + (int64_t)i * %u, x, %d);\n    }\n", to->name, w,
                   (unsigned)w * to->bytes, w);
    mpc_launch *launch = mpc_grid_launch(cg, n, result, &o, &args);
    if (launch != NULL) launch->bytes += (double)(t.count * t.columns * (t.values->bytes + to->bytes));
}

/* --- gradient --- */

typedef struct scatter {
    table t;
    int64_t segments, segment; /* number, ids of one */
    int64_t groups, group;     /* of rows: number, rows of one */
    int64_t slices;            /* of columns */
    int64_t team;              /* threads that share a row; the rows of a group are dealt to the block's teams */
} scatter;

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static scatter plan(const table *t) {
    scatter s = {.t = *t, .team = 1};
    int64_t packs = t->columns / t->width, bytes = t->rows * t->columns * 4;
    while (s.team < MPC_GRID_THREADS && s.team < packs) s.team *= 2;
    s.slices = round_up(packs, s.team);
    s.segments = t->count / SEGMENT_LEAST;
    if (s.segments > SEGMENT_BYTES / bytes) s.segments = SEGMENT_BYTES / bytes;
    if (s.segments > SEGMENTS_MOST) s.segments = SEGMENTS_MOST;
    if (s.segments < 1) s.segments = 1;
    s.segment = round_up(t->count, s.segments);
    s.segments = s.segment > 0 ? round_up(t->count, s.segment) : 1;
    int64_t teams = MPC_GRID_THREADS / s.team, most = MPC_GRID_BLOCKS / (s.segments * s.slices);
    s.group = round_up(t->rows, most > 0 ? most : 1);
    if (s.group < teams) s.group = teams;
    s.groups = round_up(t->rows, s.group);
    return s;
}

/* Which part is this block's, and zeros in it. */
static void print_part(const scatter *s, mpc_str *o) {
    int w = (int)s->t.width, team = (int)s->team;
    mpc_str_append(o, "    struct match {\n        int32_t at, row;\n    };\n");
    mpc_str_printf(
        o, "    match *const list = (match *)mpc_shared();\n    int32_t *const sums = (int32_t *)(list + %d);\n",
        CHUNK);
    mpc_str_append(o, "    int64_t q = block;\n    const int64_t slice = q % n[6];\n    q /= n[6];\n    const int64_t "
                      "first = q % n[5] * n[4];\n");
    mpc_str_append(
        o, "    q /= n[5];\n    const int64_t start = q * n[3], end = start + n[3] < n[2] ? start + n[3] : n[2];\n");
    mpc_str_append(o, "    const int32_t rows = (int32_t)(first + n[4] < n[0] ? n[4] : n[0] - first);\n");
    mpc_str_printf(o, "    const int team = mpc_thread() / %d, lane = mpc_thread() %% 32, warp = mpc_thread() / 32;\n",
                   team);
    mpc_str_printf(o, "    const int64_t c = (slice * %d + mpc_thread() %% %d) * %d;\n", team, team, w);
    mpc_str_append(o, "    float *const y = (float *)p[2] + (q * n[0] + first) * n[1] + c;\n");
    mpc_str_printf(o,
                   "    for (int32_t r = team; c < n[1] && r < rows; r += %d) mpc_store_f32<%d, true>(y + r * n[1], "
                   "mpc_splat<%d>(0.0f), %d);\n",
                   MPC_GRID_THREADS / team, w, w, w);
}

/* The matches of one chunk, in order: how many come before this thread's, by warps and then by block. */
static void print_find(const scatter *s, mpc_str *o) {
    mpc_str_printf(o, "    for (int64_t at = start; at < end; at += %d) {\n        int32_t row[4], mine = 0;\n", CHUNK);
    mpc_str_append(o, "        MPC_UNROLL for (int k = 0; k < 4; k++) {\n            const int64_t j = at + "
                      "mpc_thread() * 4 + k;\n            row[k] = -1;\n");
    mpc_str_append(o, "            if (j >= end) continue;\n");
    print_id(&s->t, "            ", "j", o);
    mpc_str_append(
        o, "            if (id >= first && id < first + rows) row[k] = (int32_t)(id - first), mine++;\n        }\n");
    mpc_str_append(o, "        int32_t upto = mine;\n        MPC_UNROLL for (int d = 1; d < 32; d *= 2) {\n");
    mpc_str_append(o, "            const int32_t before = (int32_t)mpc_shuffle(0xffffffffu, (uint32_t)upto, lane < d ? "
                      "lane : lane - d);\n");
    mpc_str_append(o, "            if (lane >= d) upto += before;\n        }\n        if (lane == 31) sums[warp] = "
                      "upto;\n        mpc_barrier();\n");
    mpc_str_append(
        o, "        int32_t total = 0, next = upto - mine;\n        MPC_UNROLL for (int k = 0; k < 8; k++) {\n");
    mpc_str_append(o, "            if (k < warp) next += sums[k];\n            total += sums[k];\n        }\n");
    mpc_str_append(o, "        MPC_UNROLL for (int k = 0; k < 4; k++)\n            if (row[k] >= 0) {\n");
    mpc_str_append(o, "                list[next].at = (int32_t)(at - start) + mpc_thread() * 4 + k;\n                "
                      "list[next++].row = row[k];\n            }\n");
    mpc_str_append(o, "        mpc_barrier();\n");
}

/* Four rows of dy are on their way while sums go on. */
static void print_add(const scatter *s, mpc_str *o) {
    int w = (int)s->t.width, teams = MPC_GRID_THREADS / (int)s->team;
    mpc_str_printf(o, "        int32_t current = -1;\n        mpc_f<%d> sum = mpc_splat<%d>(0.0f);\n", w, w);
    mpc_str_printf(o,
                   "        for (int32_t i = 0; c < n[1] && i < total; i += 4) {\n            mpc_f<%d> d[4];\n        "
                   "    int32_t r[4];\n",
                   w);
    mpc_str_printf(o,
                   "            MPC_UNROLL for (int k = 0; k < 4; k++) {\n                r[k] = i + k < total && "
                   "list[i + k].row %% %d == team ? list[i + k].row : -1;\n",
                   teams);
    mpc_str_printf(o,
                   "                if (r[k] >= 0) d[k] = mpc_load_%s<%d, true>((const char *)p[0] + ((start + list[i "
                   "+ k].at) * n[1] + c) * %u, %d);\n            }\n",
                   s->t.values->name, w, s->t.values->bytes, w);
    mpc_str_append(o, "            MPC_UNROLL for (int k = 0; k < 4; k++) {\n                if (r[k] < 0) continue;\n "
                      "               if (r[k] != current) {\n");
    mpc_str_printf(o, "                    if (current >= 0) mpc_store_f32<%d, true>(y + current * n[1], sum, %d);\n",
                   w, w);
    mpc_str_printf(o,
                   "                    current = r[k];\n                    sum = mpc_load_f32<%d, true>(y + current "
                   "* n[1], %d);\n                }\n",
                   w, w);
    mpc_str_append(o, "                sum = sum + d[k];\n            }\n        }\n");
    mpc_str_printf(o,
                   "        if (current >= 0) mpc_store_f32<%d, true>(y + current * n[1], sum, %d);\n        "
                   "mpc_barrier();\n    }\n",
                   w, w);
}

/* n: 0 rows of the table, 1 columns, 2 ids, 3 ids of a segment, 4 rows of a group, 5 groups, 6 slices of columns. A
 * unit is a block. */
static void scatter_rows(mpc_cg *cg, const mpc_node *n, const scatter *s, mpc_pointer to) {
    mpc_cg_args args = {.units = s->segments * s->groups * s->slices};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, 0)));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, 1)));
    mpc_cg_add_pointer(&args, to);
    int64_t ints[] = {s->t.rows, s->t.columns, s->t.count, s->segment, s->group, s->groups, s->slices};
    for (int i = 0; i < 7; i++) mpc_cg_add_int(&args, ints[i]);
    args.blocks = (uint32_t)args.units;
    mpc_str o = {0};
    print_part(s, &o);
    print_find(s, &o);
    print_add(s, &o);
    if (o.failed) mpc_cg_no_memory(cg);
    mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS, .shared_bytes = LIST_BYTES};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&o), &args, &shape);
    mpc_str_free(&o);
    mpc_launch *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
    if (launch == NULL) return;
    launch->bytes += (double)(s->t.count * s->t.columns * s->t.values->bytes + s->t.rows * s->t.columns * 4);
    if (s->segments > 1) launch->result_count = 0; /* parts only */
}

/* n: 0 segments, 1 elements of a table. Items: packs of it. */
static void add_segments(mpc_cg *cg, const mpc_node *n, const scatter *s, mpc_pointer parts) {
    mpc_pointer to = mpc_cg_pointer(cg, mpc_result(n, 0));
    int64_t count = s->t.rows * s->t.columns, width = mpc_grid_align(mpc_grid_width(count, 4), to, 4);
    mpc_cg_args args = {.units = count / width, .blocks = mpc_grid_blocks(count / width, MPC_GRID_THREADS)};
    mpc_cg_add_pointer(&args, parts);
    mpc_cg_add_pointer(&args, to);
    mpc_cg_add_int(&args, s->segments);
    mpc_cg_add_int(&args, count);
    int w = (int)width;
    mpc_str o = {0};
    mpc_grid_print_items(&o, false);
    mpc_str_printf(&o, "        const float *const x = (const float *)p[0] + i * %d;\n", w);
    mpc_str_printf(&o, "        auto t = mpc_load_f32<%d, true>(x, %d);\n", w, w);
    mpc_str_printf(&o, "        for (int64_t k = 1; k < n[0]; k++) t = t + mpc_load_f32<%d, true>(x + k * n[1], %d);\n",
                   w, w);
    mpc_str_printf(&o, "        mpc_store_f32<%d, true>((float *)p[1] + i * %d, t, %d);\n    }\n", w, w, w);
    mpc_launch *launch = mpc_grid_launch(cg, n, mpc_result(n, 0), &o, &args);
    if (launch != NULL) launch->bytes += (double)((s->segments + 1) * count * 4);
}

static void embedding_grad(mpc_cg *cg, const mpc_node *n) {
    mpc_value_id dy = mpc_operand(cg->g, n, 0), ids = mpc_operand(cg->g, n, 1), result = mpc_result(n, 0);
    if (mpc_value_format(cg->g, result) != MPC_FMT_f32)
        mpc_cg_fail(cg, "embedding_grad %s must give f32", mpc_value_name(cg->g, result));
    table t = describe(cg, result, dy, ids, result);
    if (t.rows > INT32_MAX || t.count > INT32_MAX - CHUNK)
        mpc_cg_fail(cg, "embedding_grad %s has too many rows", mpc_value_name(cg->g, result));
    scatter s = plan(&t);
    cg->workspace_used = 0;
    mpc_pointer to = mpc_cg_pointer(cg, result);
    if (s.segments > 1) to = mpc_cg_workspace(cg, (uint64_t)(s.segments * t.rows * t.columns) * 4);
    scatter_rows(cg, n, &s, to);
    if (s.segments > 1 && mpc_cg_ok(cg)) add_segments(cg, n, &s, to);
}

void mpc_cuda_gather(mpc_cg *cg, const mpc_node *n) {
    if (n->op == MPC_OP_embedding) embedding(cg, n);
    else if (n->op == MPC_OP_embedding_grad) embedding_grad(cg, n);
    else mpc_cg_fail(cg, "no kernel for %s", mpc_op_get(cg->g->ctx, n->op)->name);
}
