/* What a target can't hold is found before anything is compiled for it. A precision is a wish that another format
 * serves nearly as well, so it is replaced, aloud; a format that the user gave to a value is not. The replacement is an
 * override like one of the command line: the run remembers it, so that it goes on in the same format on whatever
 * device. */
#include "driver/target_formats.h"

#include <string.h>

#include "base/array.h"
#include "passes/precision/cost.h"

static bool lacks(const mpc_session *s, mpc_format f) { return (s->profile->lacks >> f & 1) != 0; }

/* "f32, bf16": what it has of the formats that a training may be in. */
static void append_formats(const mpc_session *s, mpc_str *out) {
    static const mpc_format all[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!lacks(s, all[i])) mpc_str_printf(out, "%s%s", out->length ? ", " : "", mpc_format_get(all[i])->name);
}

/* The format that comes nearest to a wish. auto: bf16, which needs no loss scale, else f16, where they gain something: who leaves the choice wants
 * speed, not a format's numbers. */
static mpc_format nearest(const mpc_session *s, const char *precision) {
    bool f16 = strcmp(precision, "f16") == 0, chooses = strcmp(precision, "auto") == 0;
    const mpc_format order[] = {f16 ? MPC_FMT_f16 : MPC_FMT_bf16, f16 ? MPC_FMT_bf16 : MPC_FMT_f16};
    for (int i = 0; i < 2; i++)
        if (!lacks(s, order[i]) && (!chooses || mpc_device_gains(s->profile, order[i]))) return order[i];
    return MPC_FMT_f32;
}

static bool refuse(const mpc_session *s, const char *precision, const char *has, const char *other) {
    mpc_str help = {0};
    mpc_str_printf(&help, "--precision %s%s; without --strict that is taken by itself", other,
                   strcmp(other, "f16") == 0 ? ", with loss scaling" : "");
    mpc_error_help(s->sink, "E378", NULL, mpc_str_cstr(&help), "%s has no %s; it has %s", s->profile->name, precision,
                   has);
    mpc_str_free(&help);
    return false;
}

bool mpc_target_settle_precision(mpc_session *s, bool *again) {
    const char *precision = mpc_model_train(s->model)->precision;
    bool chooses = strcmp(precision, "auto") == 0;
    mpc_format wanted = mpc_format_find(precision);
    *again = false;
    if (!chooses && (wanted == MPC_FMT_none || !lacks(s, wanted))) return true;
    const char *other = mpc_format_get(nearest(s, precision))->name;
    mpc_str has = {0};
    append_formats(s, &has);
    bool ok = chooses || !s->cli->options->strict || refuse(s, precision, mpc_str_cstr(&has), other);
    if (ok && !chooses)
        mpc_warn(s->sink, "W162", (mpc_span){0}, "%s has no %s, it has %s: the training is in %s%s", s->profile->name,
                 precision, mpc_str_cstr(&has), other, strcmp(other, "f16") == 0 ? ", with loss scaling" : "");
    mpc_str_free(&has);
    if (!ok) return false;
    *again = true;
    if (mpc_array_push(&s->overrides, (mpc_override){.key = "precision", .value = other})) return true;
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

static bool has_line(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n && n->loc.file != 0;
}

static void refuse_value(const mpc_session *s, const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    mpc_str has = {0}, place = {0};
    append_formats(s, &has);
    if (has_line(g, v)) mpc_str_printf(&place, "%s:%u: ", mpc_sym_text(g->ctx, n->loc.file), n->loc.line);
    mpc_error(s->sink, "E378", "%s%%%s is %s, which %s hasn't; it has %s", mpc_str_cstr(&place), mpc_value_name(g, v),
              mpc_format_get(mpc_value_format(g, v))->name, s->profile->name, mpc_str_cstr(&has));
    mpc_str_free(&has);
    mpc_str_free(&place);
}

bool mpc_target_check(const mpc_session *s, const mpc_graph *g) {
    mpc_value_id found = MPC_NONE; /* casts for an op have no line, the op has */
    for (mpc_value_id v = 0; s->profile->lacks != 0 && v < g->value_count; v++)
        if (lacks(s, mpc_value_format(g, v)) && (found == MPC_NONE || (!has_line(g, found) && has_line(g, v))))
            found = v;
    if (found == MPC_NONE) return true;
    refuse_value(s, g, found);
    return false;
}
