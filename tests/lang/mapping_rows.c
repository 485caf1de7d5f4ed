/* A data mapping is about one row: each expression gives the values worked out by hand for the first row, and each row
 * the same values in every batch. A batch of six rows of six columns would hide a mix-up of axes from shape rules. */
#include <math.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

enum { COLUMNS = 6, ROWS = 6, MOST = 64 };
static const double rows[ROWS][COLUMNS] = {{1, 2, 3, 4, 5, 6},  {2, -1, 0, 5, 1, 3}, {0, 0, 1, 9, 2, 2},
                                           {-4, 8, 2, 1, 0, 1}, {7, 7, -7, 3, 4, 0}, {0.5, 3, 2, -2, 3, 5}};

static void fill(mpc_tensor *t, const char *source, int64_t first, int64_t batch) {
    int begin = 0, end = 0;
    int found = sscanf(source, "columns[%d:%d]", &begin, &end);
    CHECK_MSG(found >= 1, "source %s", source);
    if (found == 1) end = begin + 1;
    for (int64_t r = 0; r < batch; r++)
        for (int c = begin; c < end; c++) t->data[r * (end - begin) + c - begin] = rows[first + r][c];
}

/* The values of `batch` rows from `first` on; the count of all, 0 when it failed. */
static size_t evaluate(const mpc_graph *g, int64_t first, int64_t batch, double *out) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *inputs = mpc_arena_alloc(arena, (g->input_count + 1) * sizeof *inputs);
    mpc_tensor *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        fill(&inputs[i], mpc_input_attr_str(g, &g->inputs[i], "source"), first, batch);
    }
    mpc_eval_options options = {.f64 = true};
    size_t n = 0;
    if (mpc_evaluate(g, inputs, NULL, arena, &options, arena, values) == MPC_OK) {
        const mpc_tensor *t = &values[mpc_graph_find_output(g, "output.v")];
        n = (size_t)mpc_type_elements(&t->type);
        for (size_t i = 0; i < n && i < MOST * ROWS; i++) out[i] = t->data[i];
    }
    mpc_arena_destroy(arena);
    return n;
}

typedef struct mapping {
    const char *type, *code;
    size_t count;
    double first[MOST];
} mapping;

static bool run(const mapping *m, int64_t first, int64_t batch, double *out) {
    mpc_str text = {0};
    mpc_str_printf(&text,
                   "block centred(x: [c]) { return x - mean(x) + c * 0 }\n"
                   "model m(x: %s) {\n v = cast(x, f32)\n output v = v\n loss l = mean(linear(v, 1) as head) }\n"
                   "data {\n train = csv(\"t.csv\")\n input x = %s\n}\n",
                   m->type, m->code);
    session s;
    open_text(&s, "rows.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_PREDICT, batch);
    bool ok = g && mpc_graph_verify(g) == MPC_OK && evaluate(g, first, batch, out) == m->count * (size_t)batch;
    CHECK_MSG(ok, "%s, batch %d", m->code, (int)batch);
    if (!ok) show_diagnostics(s.diags, s.sources);
    mpc_graph_destroy(g);
    close_session(&s);
    mpc_str_free(&text);
    return ok;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

static void check_mapping(const mapping *m) {
    static const int64_t sizes[] = {2, 3, 6};
    double one[MOST * ROWS] = {0}, many[MOST * ROWS] = {0};
    if (!run(m, 0, 1, one)) return;
    for (size_t i = 0; i < m->count; i++)
        CHECK_MSG(near(one[i], m->first[i]), "%s: element %zu is %.9g, not %.9g", m->code, i, one[i], m->first[i]);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        if (!run(m, 0, sizes[k], many)) return;
        for (int64_t r = 0; r < sizes[k]; r++) {
            if (!run(m, r, 1, one)) return;
            for (size_t i = 0; i < m->count; i++)
                CHECK_MSG(near(many[(size_t)r * m->count + i], one[i]),
                          "%s: row %d, element %zu is %.9g in a batch of %d, %.9g alone", m->code, (int)r, i,
                          many[(size_t)r * m->count + i], (int)sizes[k], one[i]);
        }
    }
}

#define ROW6 "f32[batch, 6]"
static const mapping mappings[] = {
    {ROW6, "columns[0:6] - mean(columns[0:6], axis = 0)", 6, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
    {ROW6, "columns[0:6] - mean(columns[0:6])", 6, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
    {ROW6,
     "columns[0:6] / sum(columns[0:6], axis = -1, keep = true)",
     6,
     {1. / 21, 2. / 21, 3. / 21, 4. / 21, 5. / 21, 6. / 21}},
    {ROW6, "columns[0:6] * columns[1]", 6, {2, 4, 6, 8, 10, 12}},
    {ROW6, "columns[1] + range(6)", 6, {2, 3, 4, 5, 6, 7}},
    {ROW6, "columns[0:6] + range(6)", 6, {1, 3, 5, 7, 9, 11}},
    {ROW6, "where(columns[0:6] > mean(columns[0:6]), columns[0:6], columns[0])", 6, {1, 1, 1, 4, 5, 6}},
    {ROW6, "centred(columns[0:6])", 6, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
    {ROW6, "concat([columns[3:6], columns[0:3]], axis = 0)", 6, {4, 5, 6, 1, 2, 3}},
    {ROW6, "concat([columns[0:3], zeros([3])])", 6, {1, 2, 3, 0, 0, 0}},
    {ROW6, "columns[0:6] - columns[0:6][0]", 6, {0, 1, 2, 3, 4, 5}},
    {ROW6, "expand(columns[2], [6])", 6, {3, 3, 3, 3, 3, 3}},
    {ROW6, "flatten(transpose(reshape(columns[0:6], [2, 3])))", 6, {1, 4, 2, 5, 3, 6}},
    {ROW6, "reshape(transpose(reshape(columns[0:6], [2, 3]), perm = [1, 0]), [-1])", 6, {1, 4, 2, 5, 3, 6}},
    {ROW6, "columns[0:6] * len(shape(columns[0:6])) * columns[0:6].shape[0]", 6, {6, 12, 18, 24, 30, 36}},
    {ROW6, "matmul(reshape(columns[0:6], [1, 6]), one_hot(range(6), 6))[0]", 6, {1, 2, 3, 4, 5, 6}},
    {ROW6, "matmul(one_hot(range(6), 6), reshape(columns[0:6], [6, 1]))[:, 0]", 6, {1, 2, 3, 4, 5, 6}},
    {"f32[batch, 3]", "mean(reshape(columns[0:6], [2, 3]), axis = 0)", 3, {2.5, 3.5, 4.5}},
    {"f32[batch, 2]", "max(reshape(columns[0:6], [2, 3]), axis = [1])", 2, {3, 6}},
    {"f32[batch, 2]", "sum(reshape(columns[0:6], [2, 3]) * range(3), axis = 1)", 2, {8, 17}},
    {"f32[batch, 3]", "reshape(columns[0:6], [2, 3])[1]", 3, {4, 5, 6}},
    {"f32[batch, 2]", "reshape(columns[0:6], [2, 3])[..., -1]", 2, {3, 6}},
    {"f32[batch, 2, 3]", "stack([columns[0:3], columns[3:6]])", 6, {1, 2, 3, 4, 5, 6}},
    {"f32[batch, 3, 2]", "stack([columns[0:3], columns[3:6]], axis = 1)", 6, {1, 4, 2, 5, 3, 6}},
    {"f32[batch, 3, 2]", "transpose(reshape(columns[0:6], [2, 3]))", 6, {1, 4, 2, 5, 3, 6}},
    {"f32[batch, 1, 6]", "reshape(columns[0:6], [1, 6]) - columns[0:6]", 6, {0, 0, 0, 0, 0, 0}},
    {"f32[batch, 6, 6]", "expand(columns[5], [6, 6]) * one_hot(range(6), 6)", 36, {6, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0,
                                                                                   0, 0, 6, 0, 0, 0, 0, 0, 0, 6, 0, 0,
                                                                                   0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 6}},
    {"f32[batch, 2]", "softmax(columns[0:2] * 0, axis = 0)", 2, {0.5, 0.5}},
    {"f32[batch, 2]", "softmax(columns[0:2] - columns[0:2])", 2, {0.5, 0.5}},
    {"f32[batch, 2]", "l2_normalize(columns[3:5] * 0 + 1, axis = 0)", 2, {0.70710678118, 0.70710678118}},
    {"f32[batch]", "mean(columns[0:6])", 1, {3.5}},
    {"f32[batch]", "sum(columns[4])", 1, {5}},
    {"f32[batch]", "columns[0:6][-1]", 1, {6}},
    {"f32[batch]", "sum(mse(columns[0:6], zeros([6])))", 1, {91}},
    {"f32[batch, 6]", "minimum(columns[0:6], ones([6]))", 6, {1, 1, 1, 1, 1, 1}},
};

typedef struct refusal {
    const char *type, *code, *error;
} refusal;

/* What would take the batch for an axis is refused, whatever the batch is. */
static const refusal refusals[] = {
    {"f32[batch]", "mean(columns[0:6], axis = 1)", "E027"},
    {"f32[batch]", "mean(columns[4], axis = 0)", "E027"},
    {"f32[batch]", "softmax(columns[4])", "E027"},
    {ROW6, "softmax(columns[0:6], axis = 1)", "E027"},
    {ROW6, "transpose(columns[0:6])", "E027"},
    {ROW6, "transpose(columns[0:6], perm = [1, 0])", "E027"},
    {ROW6, "columns[0:6][:, 0:2]", "E027"},
    {ROW6, "columns[0:6][0:7]", "E027"},
    {ROW6, "concat([columns[0:3], columns[3:6]], axis = 1)", "E027"},
    {ROW6, "stack([columns[0], columns[1]], axis = 1)", "E027"},
    {ROW6, "unstack(columns[0:6], axis = 1)", "E027"},
    {ROW6, "split(columns[0:6], parts = 2, axis = 1)", "E027"},
    {ROW6, "matmul(columns[0:6], columns[0:6])", "E021"},
    {ROW6, "flatten(columns[0])", "E027"},
    {ROW6, "ones([6, 6])", "E203"},
    {ROW6, "linear(columns[0:6], 6)", "E203"},
    {ROW6, "batch_norm(columns[0:6])", "E203"},
    {ROW6, "columns[0:6] + columns[0:5]", "E020"},
};

static void check_refusal(const refusal *f) {
    mpc_str text = {0};
    mpc_str_printf(&text,
                   "model m(x: %s) {\n output v = x\n loss l = mean(x) }\n"
                   "data {\n train = csv(\"t.csv\")\n input x = %s\n}\n",
                   f->type, f->code);
    session s;
    open_text(&s, "rows.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_PREDICT, 6);
    const mpc_diag *d = mpc_diag_list_count(s.diags) ? mpc_diag_list_get(s.diags, 0) : NULL;
    CHECK_MSG(!g, "%s is accepted", f->code);
    CHECK_MSG(d && strcmp(d->code, f->error) == 0, "%s: %s, not %s: %s", f->code, d ? d->code : "nothing", f->error,
              d ? d->message : "");
    mpc_graph_destroy(g);
    close_session(&s);
    mpc_str_free(&text);
}

int main(void) {
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++) check_mapping(&mappings[i]);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) check_refusal(&refusals[i]);
    return check_result();
}
