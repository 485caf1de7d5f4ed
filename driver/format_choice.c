/* f16 brings its loss scale along: every gradient is unscaled, which a step without f16 needn't do. So with f16 among
 * the formats there are two steps to assign, one with f16 and a scale and one with neither, and the faster one is
 * taken. The exceptions: a loss scale that the user wrote stays; where f16 alone is asked for and multiplies no faster
 * than f32, who asks wants its numbers (W155). Trials say nothing; the step that is made in the end does. */
#include "driver/format_choice.h"

#include <jansson.h>
#include <string.h>

#include "base/array.h"
#include "driver/train_settings.h"

/* ---- one step ---- */

static bool decide(mpc_session *s, const mpc_train_config *train, double f32_seconds, mpc_plan_choices *choices,
                   mpc_formats_tried *out) {
    mpc_session probe = mpc_session_beside(s, train, NULL);
    mpc_graph *parsed = mpc_model_elaborate(s->model, MPC_PHASE_TRAIN, train->batch, &s->facts);
    mpc_str text = {0};
    mpc_pipeline_text_for(&probe, MPC_PHASE_TRAIN, MPC_STAGE_DECIDED, &text);
    mpc_pass_env env = {
        .ctx = s->ctx, .profile = s->profile, .choices = choices, .observed = s->observed, .f32_seconds = f32_seconds};
    if (parsed && !text.failed) out->graph = mpc_pipeline_run(parsed, text.data, &env, NULL);
    mpc_graph_destroy(parsed);
    mpc_str_free(&text);
    env.choices = NULL;
    return out->graph != NULL && mpc_graph_price(out->graph, s->profile, &env, &out->cost) == MPC_OK;
}

static bool try_formats(mpc_session *s, const mpc_train_config *train, double f32_seconds, mpc_plan_choices *choices,
                        mpc_formats_tried *out) {
    mpc_solution *found = choices ? mpc_plan_choices_solution(choices) : NULL;
    *out = (mpc_formats_tried){.precision = train->precision,
                               .also = train->also,
                               .scaled = mpc_train_has_loss_scale(train->precision, train->also)};
    if (found) *found = (mpc_solution){0};
    if (!decide(s, train, f32_seconds, choices, out)) return false;
    if (found && (found->present || found->as_list)) out->bound = found->bound;
    out->as_list = found && found->as_list;
    return true;
}

/* ---- with f16 or without ---- */

static bool decides_f16(const mpc_decision *d) {
    return d->present && (d->operand == MPC_FMT_f16 || d->result == MPC_FMT_f16);
}

static bool has_f16(const mpc_graph *g) {
    for (uint32_t v = 0; v < g->value_count; v++)
        if (mpc_value_format(g, v) == MPC_FMT_f16) return true;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (decides_f16(&g->decisions[id])) return true;
    return false;
}

static mpc_train_config without_f16(const mpc_train_config *train) {
    mpc_train_config other = *train;
    const char *second = mpc_train_second_format(train->precision, train->also);
    other.precision = strcmp(train->precision, "f16") != 0 ? train->precision : second ? second : "f32";
    other.also = "none";
    return other;
}

/* Where f16 is wanted for its numbers, f32 is a price to compare with and no choice. */
static bool is_for_numbers(const mpc_session *s, const mpc_train_config *train, const mpc_train_config *other) {
    return strcmp(train->solver, "mincut") == 0 && strcmp(other->precision, "f32") == 0 &&
           !mpc_device_gains(s->profile, MPC_FMT_f16);
}

static double smaller_bound(double a, double b) { return a > 0 && b > 0 && b < a ? b : a; }

/* `with`, or `without` when that is what would run; the other graph is destroyed. */
static void take_better(const mpc_train_config *train, bool numbers, mpc_formats_tried *with,
                        mpc_formats_tried *without, mpc_formats_tried *out) {
    bool clean = without->graph && !train->loss_scale.written && !has_f16(without->graph);
    bool weighs = strcmp(train->solver, "mincut") == 0 && !numbers;
    bool better = clean && (!has_f16(with->graph) || (weighs && without->cost.seconds <= with->cost.seconds));
    double other = !clean ? 0 : strcmp(without->precision, "f32") == 0 ? without->cost.seconds : without->bound;
    double bound = with->bound > 0 ? smaller_bound(with->bound, other) : with->bound;
    *out = better ? *without : *with;
    out->bound = bound;
    out->f16_seconds = has_f16(with->graph) ? with->cost.seconds : 0;
    mpc_graph_destroy(better ? with->graph : without->graph);
}

/* Where mincut is as list, which knows one low format, that is f16 in the step with a scale: the other one has the step
 * without. */
static mpc_train_config with_f16(const mpc_session *s, const mpc_train_config *train) {
    mpc_train_config with = *train;
    const char *second = mpc_train_second_format(train->precision, train->also);
    bool gains = mpc_device_gains(s->profile, mpc_format_find(train->precision)) ||
                 (second && mpc_device_gains(s->profile, mpc_format_find(second)));
    if (!second || gains || strcmp(train->solver, "mincut") != 0) return with;
    with.precision = "f16";
    with.also = "none";
    return with;
}

bool mpc_formats_try(mpc_session *s, const mpc_train_config *train, mpc_plan_choices *choices, mpc_formats_tried *out) {
    if (!mpc_train_has_loss_scale(train->precision, train->also)) return try_formats(s, train, 0, choices, out);
    const mpc_train_config other = without_f16(train), both = with_f16(s, train);
    bool numbers = is_for_numbers(s, train, &other);
    mpc_formats_tried with, without;
    mpc_sink own = mpc_cli_mute(s->cli);
    bool tried = try_formats(s, &other, 0, choices, &without);
    s->cli->sink = own;
    double f32 = tried && numbers ? without.cost.seconds : 0;
    if (!try_formats(s, &both, f32, choices, &with)) {
        mpc_graph_destroy(with.graph);
        mpc_graph_destroy(without.graph);
        *out = (mpc_formats_tried){0};
        return false;
    }
    if (!tried) {
        mpc_graph_destroy(without.graph);
        without.graph = NULL;
    }
    take_better(train, numbers, &with, &without, out);
    out->f32_seconds = f32;
    return true;
}

/* ---- settling ---- */

/* "f16", "f16,bf16" */
static void print_asked(const mpc_train_config *train, mpc_str *out) {
    const char *second = mpc_train_second_format(train->precision, train->also);
    mpc_str_printf(out, "%s%s%s", train->precision, second ? "," : "", second ? second : "");
}

/* A run that went without a format goes on without it, also when the command line repeats what was asked for. */
static bool run_left_one_out(const mpc_session *s) {
    mpc_str asked = {0};
    print_asked(s->train, &asked);
    bool same = s->formats_asked && strcmp(s->formats_asked, mpc_str_cstr(&asked)) == 0;
    mpc_str_free(&asked);
    return same;
}

/* In place of what the command line said, so that a run remembers one word for the key. */
static bool change(mpc_session *s, const char *key, const char *value) {
    const mpc_override o = {.key = key, .value = value};
    if (!mpc_model_change_setting(s->model, &o)) return false;
    for (size_t i = 0; i < s->overrides.count; i++)
        if (!s->overrides.data[i].is_const && strcmp(s->overrides.data[i].key, key) == 0) {
            s->overrides.data[i] = o;
            return true;
        }
    if (mpc_array_push(&s->overrides, o)) return true;
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

static bool take(mpc_session *s, const char *precision, const char *also) {
    bool second = strcmp(s->train->also, also) != 0;
    mpc_str asked = {0};
    print_asked(s->train, &asked);
    s->formats_asked = mpc_sym_text(s->ctx, mpc_intern(s->ctx, mpc_str_cstr(&asked)));
    mpc_str_free(&asked);
    return change(s, "precision", precision) && (!second || change(s, "also", also));
}

static void say(const mpc_session *s, const mpc_formats_tried *taken) {
    mpc_str text = {0};
    const char *target = s->profile->name, *precision = taken->precision;
    if (taken->scaled)
        mpc_str_printf(&text,
                       "no format multiplies faster than f32 on %s, and one is enough to see its numbers: the training "
                       "is in %s, the faster one",
                       target, precision);
    else if (!(taken->f16_seconds > 0))
        mpc_str_printf(&text, "no value is f16 by solver %s on %s: the training is in %s, without a loss scale",
                       s->train->solver, target, precision);
    else
        mpc_str_printf(
            &text,
            "f16 and the loss scale that it needs gain nothing on %s: the training is in %s, %.4g us a step by the "
            "model against %.4g us",
            target, precision, taken->cost.seconds * 1e6, taken->f16_seconds * 1e6);
    const mpc_diag note = {
        .severity = MPC_SEV_NOTE,
        .code = "W157",
        .message = mpc_str_cstr(&text),
        .help = !taken->scaled && taken->f16_seconds > 0 ? "--solver list takes f16 whatever it costs" : NULL};
    if (s->sink) s->sink->emit(s->sink->user, &note);
    mpc_str_free(&text);
}

/* A step that can't be assigned says so when it is made. */
static bool settle_by_trial(mpc_session *s) {
    mpc_formats_tried taken;
    mpc_sink own = mpc_cli_mute(s->cli);
    bool tried = mpc_formats_try(s, s->train, NULL, &taken);
    s->cli->sink = own;
    if (!tried) return true;
    s->f32_seconds = taken.f32_seconds;
    mpc_graph_destroy(taken.graph);
    if (strcmp(taken.precision, s->train->precision) == 0 && strcmp(taken.also, s->train->also) == 0) return true;
    say(s, &taken);
    return take(s, taken.precision, taken.also);
}

bool mpc_formats_settle(mpc_session *s) {
    if (s->formats_settled || s->loss_budget > 0) return true;
    s->formats_settled = true;
    s->formats_asked = json_string_value(json_object_get(s->run, "formats_asked"));
    if (!mpc_train_has_loss_scale(s->train->precision, s->train->also)) return true;
    if (!s->run) return settle_by_trial(s);
    const json_t *settings = json_object_get(s->run, "settings");
    const char *precision = json_string_value(json_object_get(settings, "precision"));
    const char *also = json_string_value(json_object_get(settings, "also"));
    return !precision || !also || !run_left_one_out(s) || take(s, precision, also);
}
