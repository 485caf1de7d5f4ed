/* The words in which a value that isn't finite is told: what was computed and where it stands in the model, how much of
 * it is NaN or infinite, and what its operands held. Elements are counted in row-major order. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "driver/nonfinite_check.h"
#include "runtime/exec.h"

enum { MOST_OPERANDS = 5 };

typedef struct statistics {
    int64_t count, nan, infinite, first; /* first: of those that aren't finite; -1: none */
    double min, max, sum_of_sizes;       /* of the finite ones */
} statistics;

static statistics measure(const mpc_tensor *t) {
    statistics s = {.count = mpc_type_elements(&t->type), .first = -1, .min = INFINITY, .max = -INFINITY};
    for (int64_t i = 0; i < s.count; i++) {
        double x = t->data[i];
        if (isfinite(x)) {
            s.min = fmin(s.min, x);
            s.max = fmax(s.max, x);
            s.sum_of_sizes += fabs(x);
            continue;
        }
        if (s.first < 0) s.first = i;
        if (isnan(x)) s.nan++;
        else s.infinite++;
    }
    return s;
}

unsigned mpc_nonfinite_signs(const mpc_tensor *t) {
    unsigned signs = 0;
    int64_t n = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < n; i++) {
        double x = t->data[i];
        if (isnan(x)) signs |= MPC_SIGN_NAN;
        else if (isinf(x)) signs |= x > 0 ? MPC_SIGN_PLUS : MPC_SIGN_MINUS;
    }
    return signs;
}

static mpc_str *next_note(mpc_nonfinite_found *f) {
    return f->note_count < MPC_NONFINITE_NOTES ? &f->notes[f->note_count++] : NULL;
}

static void append_counts(mpc_str *out, const statistics *s) {
    if (s->nan) mpc_str_printf(out, "%lld NaN", (long long)s->nan);
    if (s->nan && s->infinite) mpc_str_append(out, " and ");
    if (s->infinite) mpc_str_printf(out, "%lld infinite", (long long)s->infinite);
    if (!s->nan && !s->infinite) mpc_str_append(out, "none");
}

/* "f32[16,8], from -1.2 to 3.1, mean size 0.53; not finite: 3 NaN" */
static statistics append_statistics(mpc_str *out, const mpc_tensor *t) {
    statistics s = measure(t);
    int64_t finite = s.count - s.nan - s.infinite;
    mpc_type_print(&t->type, out);
    if (finite > 0)
        mpc_str_printf(out, ", from %.6g to %.6g, mean size %.6g", s.min, s.max, s.sum_of_sizes / (double)finite);
    if (!mpc_format_is_float(t->type.format)) return s;
    mpc_str_append(out, "; not finite: ");
    append_counts(out, &s);
    return s;
}

static void start(mpc_nonfinite_found *f, mpc_phase phase) {
    f->is = true;
    if (f->step > 0 && phase == MPC_PHASE_TRAIN) mpc_str_printf(&f->message, "step %" PRIu64 ": ", f->step);
    else if (f->step > 0) mpc_str_printf(&f->message, "evaluation after step %" PRIu64 ": ", f->step);
}

static void note_where(mpc_nonfinite_found *f, const mpc_tensor *t) {
    mpc_str *note = next_note(f);
    statistics s = append_statistics(note, t);
    if (s.first >= 0)
        mpc_str_printf(note, "; the first is %s at element %lld", mpc_nonfinite_word(t->data[s.first]),
                       (long long)s.first);
}

static bool is_listed(const mpc_graph *g, const mpc_node *n, uint32_t operand) {
    for (uint32_t i = 0; i < operand; i++)
        if (mpc_operand(g, n, i) == mpc_operand(g, n, operand)) return true;
    return false;
}

static void note_operands(mpc_nonfinite_found *f, const mpc_nonfinite_place *at, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count && i < MOST_OPERANDS; i++) {
        mpc_value_id operand = mpc_operand(at->g, n, i);
        mpc_str *note = is_listed(at->g, n, i) ? NULL : next_note(f);
        if (!note) continue;
        const mpc_node *maker = mpc_producer(at->g, operand);
        if (maker && maker->op == MPC_OP_const) {
            mpc_str_printf(note, "it reads the number %.9g", mpc_attr_float(at->g, maker, "value"));
            continue;
        }
        mpc_str_printf(note, "it reads `%s`: ", mpc_value_name(at->g, operand));
        if (at->values[operand].data) append_statistics(note, &at->values[operand]);
        else mpc_str_append(note, "kept in the kernel only");
    }
}

/* An overflow in a narrow format, from operands that are finite. */
static const char *help_for(const mpc_nonfinite_place *at, const mpc_node *n, const mpc_tensor *t) {
    bool narrow = t->type.format == MPC_FMT_f16 && !(mpc_nonfinite_signs(t) & MPC_SIGN_NAN);
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_tensor *operand = &at->values[mpc_operand(at->g, n, i)];
        narrow = narrow && operand->data && mpc_nonfinite_signs(operand) == 0;
    }
    return narrow ? "f16 ends at 65504: `@f32` on this value, or precision bf16, which reaches as far as f32" : NULL;
}

/* A state among the operands that isn't finite itself, or MPC_NONE: it came so from a file or an earlier step. */
static mpc_value_id broken_state(const mpc_nonfinite_place *at, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id operand = mpc_operand(at->g, n, i);
        const mpc_node *maker = mpc_producer(at->g, operand);
        const mpc_tensor *t = &at->values[operand];
        if (maker && maker->op == MPC_OP_state && t->data && mpc_nonfinite_signs(t)) return operand;
    }
    return MPC_NONE;
}

static void say_what(mpc_nonfinite_found *f, const mpc_nonfinite_place *at, mpc_value_id result) {
    const mpc_node *n = &at->g->nodes[at->node];
    mpc_value_id state = broken_state(at, n);
    statistics s = measure(&at->values[state == MPC_NONE ? result : state]);
    if (state == MPC_NONE)
        mpc_str_printf(&f->message, "`%s` is not finite: %s gives ", mpc_value_name(at->g, result),
                       mpc_node_op(at->g, at->node)->name);
    else
        mpc_str_printf(&f->message, "the state `%s` is not finite before the step: it holds ",
                       mpc_value_name(at->g, state));
    append_counts(&f->message, &s);
    mpc_str_printf(&f->message, " of %lld", (long long)s.count);
    if (state != MPC_NONE)
        mpc_str_printf(next_note(f), "`%s` reads it first: %s", mpc_value_name(at->g, result),
                       mpc_node_op(at->g, at->node)->name);
}

void mpc_nonfinite_describe(mpc_nonfinite_found *f, mpc_phase phase, const mpc_nonfinite_place *at) {
    const mpc_graph *g = at->g;
    const mpc_node *n = &g->nodes[at->node];
    const mpc_tensor *t = &at->values[mpc_result(n, at->result)];
    start(f, phase);
    say_what(f, at, mpc_result(n, at->result));
    if (n->loc.file)
        mpc_str_printf(&f->place, "%s:%u:%u", mpc_sym_text(g->ctx, n->loc.file), n->loc.line, n->loc.column);
    note_where(f, t);
    if (n->origin) mpc_str_printf(next_note(f), "it belongs to the gradient of `%s`", mpc_sym_text(g->ctx, n->origin));
    if (at->kernel) mpc_str_printf(next_note(f), "it is made inside the kernel of `%s`", at->kernel);
    note_operands(f, at, n);
    f->help = help_for(at, n, t);
}

void mpc_nonfinite_describe_input(mpc_nonfinite_found *f, mpc_phase phase, const char *name, const mpc_tensor *t) {
    statistics s = measure(t);
    start(f, phase);
    mpc_str_printf(&f->message, "the input `%s` is not finite: it holds ", name);
    append_counts(&f->message, &s);
    mpc_str_printf(&f->message, " of %lld", (long long)s.count);
    note_where(f, t);
}

void mpc_nonfinite_say(const mpc_nonfinite_found *f, const mpc_sink *sink) {
    mpc_label notes[MPC_NONFINITE_NOTES] = {0};
    for (uint32_t i = 0; i < f->note_count; i++) notes[i].text = mpc_str_cstr(&f->notes[i]);
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E380",
                     .message = mpc_str_cstr(&f->message),
                     .place = f->place.length ? f->place.data : NULL,
                     .notes = notes,
                     .note_count = f->note_count,
                     .help = f->help};
    sink->emit(sink->user, &diag);
}

void mpc_nonfinite_deinit(mpc_nonfinite_found *f) {
    mpc_str_free(&f->message);
    mpc_str_free(&f->place);
    for (uint32_t i = 0; i < MPC_NONFINITE_NOTES; i++) mpc_str_free(&f->notes[i]);
}
