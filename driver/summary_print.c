/* The tree of `mpc summary` as a table and as JSON. Widths follow from what is printed: a long path moves its row's
 * columns, never cuts a name. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/json_values.h"
#include "driver/number_text.h"
#include "driver/summary.h"

enum { INDENT = 2 };

void mpc_append_dims(mpc_str *out, const mpc_type *type) {
    if (!type || type->rank == 0) return;
    for (uint32_t i = 0; i < type->rank; i++) mpc_str_printf(out, "%s%" PRId64, i ? ", " : "[", type->dims[i]);
    mpc_str_append(out, "]");
}

static const char *op_name(const mpc_summary *s, const mpc_summary_row *r) {
    return r->node == MPC_NONE ? "" : mpc_node_op(s->parsed, r->node)->name;
}

/* "up", or "0 of 3" where only a number tells calls apart: such a name may mean another call after an edit. */
static void append_label(mpc_str *out, const mpc_summary_row *r) {
    mpc_str_append(out, r->label);
    if (r->numbered) mpc_str_printf(out, " of %" PRIu64, r->numbered);
}

static const char *format_name(mpc_format f) { return f == MPC_FMT_none ? "" : mpc_format_get(f)->name; }

typedef struct widths {
    int label, op, shape;
} widths;

int mpc_column_width(int width, size_t length) { return (int)length > width ? (int)length : width; }

static widths measure(const mpc_summary *s, mpc_str *shape) {
    widths w = {5, 2, 6};
    for (size_t i = 0; i < s->rows.count; i++) {
        const mpc_summary_row *r = &s->rows.data[i];
        mpc_str_clear(shape);
        append_label(shape, r);
        w.label = mpc_column_width(w.label, shape->length + INDENT * r->depth);
        mpc_str_clear(shape);
        mpc_append_dims(shape, r->shape);
        w.op = mpc_column_width(w.op, strlen(op_name(s, r)));
        w.shape = mpc_column_width(w.shape, shape->length);
    }
    return w;
}

static void print_row(const mpc_summary *s, const mpc_summary_row *r, widths w, mpc_str *shape) {
    char parameters[32], products[32];
    mpc_grouped_text(r->parameters, parameters);
    mpc_grouped_text((uint64_t)r->products, products);
    mpc_str_clear(shape);
    append_label(shape, r);
    printf("%*s%-*s", (int)(INDENT * r->depth), "", w.label - (int)(INDENT * r->depth), mpc_str_cstr(shape));
    mpc_str_clear(shape);
    mpc_append_dims(shape, r->shape);
    printf("  %-*s  %-*s  %14s  %18s", w.op, op_name(s, r), w.shape, mpc_str_cstr(shape), parameters, products);
    if (r->decided && r->decision.present) {
        const char *reads = format_name(r->decision.operand);
        printf("  %-5s  %-8s  %s", *reads ? reads : "-", format_name(r->decision.compute), format_name(r->stored));
    }
    putchar('\n');
}

static double sum_bytes(const mpc_summary *s, int first, int last) {
    double bytes = 0;
    for (int i = first; i <= last; i++) bytes += (double)s->bytes[i];
    return bytes;
}

static void print_totals(const mpc_summary *s) {
    char all[32], trainable[32], forward[32], step[32], parts[4][32];
    mpc_grouped_text(s->parameters, all);
    mpc_grouped_text(s->trainable, trainable);
    mpc_grouped_text((uint64_t)s->forward, forward);
    mpc_grouped_text((uint64_t)s->step, step);
    mpc_bytes_text((double)s->bytes[MPC_BUF_MASTER] + (double)s->bytes[MPC_BUF_COPY], parts[0]);
    mpc_bytes_text((double)s->bytes[MPC_BUF_MOMENT] + (double)s->bytes[MPC_BUF_ACCUM], parts[1]);
    mpc_bytes_text((double)s->arena_bytes, parts[2]);
    mpc_bytes_text(sum_bytes(s, 0, MPC_BUF_CLASS_COUNT - 1) + (double)s->arena_bytes, parts[3]);
    const mpc_train_config *t = s->session->train;
    printf("\nparameters     %s, of which %s are trained\n", all, trainable);
    printf("multiply-adds  %s forward, %s a step of %" PRId64 " rows", forward, step, t->batch);
    if (t->accumulate > 1) printf("; an update takes %" PRId64 " steps", t->accumulate);
    printf("\nmemory         weights %s, optimizer %s, arena %s; %s together, for %s on %s\n", parts[0], parts[1],
           parts[2], parts[3], t->precision, mpc_device_name(s->session->device));
}

bool mpc_summary_print(const mpc_summary *s) {
    mpc_str shape = {0};
    widths w = measure(s, &shape);
    printf("%-*s  %-*s  %-*s  %14s  %18s  %-5s  %-8s  %s\n", w.label, "block", w.op, "op", w.shape, "output",
           "parameters", "multiply-adds", "reads", "computes", "stores");
    for (uint32_t i = mpc_summary_first(s); i != MPC_NONE; i = mpc_summary_next(s, i))
        print_row(s, &s->rows.data[i], w, &shape);
    print_totals(s);
    mpc_str_free(&shape);
    return true;
}

/* ---- JSON ---- */

json_t *mpc_dims_json(const mpc_type *type) {
    json_t *list = type ? json_array() : json_null();
    for (uint32_t i = 0; type && i < type->rank; i++) json_array_append_new(list, json_integer(type->dims[i]));
    return list;
}

static json_t *row_json(const mpc_summary *s, const mpc_summary_row *r) {
    bool present = r->decided && r->decision.present;
    mpc_decision d = present ? r->decision : (mpc_decision){0};
    return json_pack("{s:s, s:I, s:i, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "block", r->path, "numbered",
                     (json_int_t)r->numbered, "depth", (int)r->depth, "op", mpc_json_text(op_name(s, r)), "output",
                     mpc_dims_json(r->shape), "parameters", (json_int_t)r->parameters, "trainable",
                     (json_int_t)r->trainable, "multiply_adds", (json_int_t)r->products, "reads",
                     mpc_json_text(format_name(d.operand)), "computes", mpc_json_text(format_name(d.compute)), "stores",
                     mpc_json_text(present ? format_name(r->stored) : ""));
}

static json_t *totals_json(const mpc_summary *s) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)s->parameters, "trainable",
                     (json_int_t)s->trainable, "multiply_adds_forward", (json_int_t)s->forward, "multiply_adds_step",
                     (json_int_t)s->step, "weight_bytes",
                     (json_int_t)(s->bytes[MPC_BUF_MASTER] + s->bytes[MPC_BUF_COPY]), "optimizer_bytes",
                     (json_int_t)(s->bytes[MPC_BUF_MOMENT] + s->bytes[MPC_BUF_ACCUM]), "state_bytes",
                     (json_int_t)sum_bytes(s, 0, MPC_BUF_CLASS_COUNT - 1), "arena_bytes", (json_int_t)s->arena_bytes);
}

bool mpc_summary_print_json(const mpc_summary *s, bool params) {
    const mpc_session *session = s->session;
    json_t *rows = json_array();
    for (uint32_t i = mpc_summary_first(s); i != MPC_NONE; i = mpc_summary_next(s, i))
        json_array_append_new(rows, row_json(s, &s->rows.data[i]));
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:I, s:o, s:o}", "schema", 1, "model", mpc_model_name(session->model),
                            "precision", session->train->precision, "device", mpc_device_name(session->device), "batch",
                            (json_int_t)session->train->batch, "blocks", rows, "totals", totals_json(s));
    if (all && params) json_object_set_new(all, "parameters", mpc_summary_params_json(s));
    bool ok = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0;
    putchar('\n');
    json_decref(all);
    if (!ok) mpc_error(session->sink, "E901", "out of memory");
    return ok;
}
