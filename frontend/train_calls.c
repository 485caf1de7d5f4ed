/* Values of the train section that are written as calls: optimizer, schedule, loss scale. One row per argument. */
#include <stddef.h>
#include <string.h>

#include "frontend/fe_train.h"

typedef enum arg_kind { ARG_NUMBER, ARG_FRACTION, ARG_COUNT, ARG_PAIR, ARG_QUANTITY } arg_kind;

typedef struct call_arg {
    const char *callee, *name;
    arg_kind kind;
    size_t offset;
    double fallback; /* of a pair: the second number, after 0.9 */
    bool positional;
} call_arg;

#define OPT(f) offsetof(mpc_optimizer_config, f)
#define SCH(f) offsetof(mpc_schedule_config, f)
#define SCL(f) offsetof(mpc_scale_config, f)
static const call_arg args[] = {
    {"adamw", "lr", ARG_NUMBER, OPT(lr), 1e-3, false},
    {"adamw", "betas", ARG_PAIR, OPT(beta1), 0.999, false},
    {"adamw", "eps", ARG_NUMBER, OPT(eps), 1e-8, false},
    {"adamw", "weight_decay", ARG_NUMBER, OPT(weight_decay), 0.01, false},
    {"adam", "lr", ARG_NUMBER, OPT(lr), 1e-3, false},
    {"adam", "betas", ARG_PAIR, OPT(beta1), 0.999, false},
    {"adam", "eps", ARG_NUMBER, OPT(eps), 1e-8, false},
    {"adam", "weight_decay", ARG_NUMBER, OPT(weight_decay), 0, false},
    {"lion", "lr", ARG_NUMBER, OPT(lr), 1e-4, false},
    {"lion", "betas", ARG_PAIR, OPT(beta1), 0.99, false},
    {"lion", "weight_decay", ARG_NUMBER, OPT(weight_decay), 0, false},
    {"nesterov", "lr", ARG_NUMBER, OPT(lr), 0.01, false},
    {"nesterov", "momentum", ARG_FRACTION, OPT(momentum), 0.9, false},
    {"nesterov", "weight_decay", ARG_NUMBER, OPT(weight_decay), 0, false},
    {"sgd", "lr", ARG_NUMBER, OPT(lr), 0.01, false},
    {"sgd", "momentum", ARG_FRACTION, OPT(momentum), 0, false},
    {"sgd", "weight_decay", ARG_NUMBER, OPT(weight_decay), 0, false},
    {"constant", "warmup", ARG_QUANTITY, SCH(warmup), 0, false},
    {"cosine", "warmup", ARG_QUANTITY, SCH(warmup), 0, false},
    {"cosine", "final", ARG_NUMBER, SCH(final), 0, false},
    {"linear", "warmup", ARG_QUANTITY, SCH(warmup), 0, false},
    {"linear", "final", ARG_NUMBER, SCH(final), 0, false},
    {"step", "warmup", ARG_QUANTITY, SCH(warmup), 0, false},
    {"step", "every", ARG_QUANTITY, SCH(every), 0, false},
    {"step", "factor", ARG_NUMBER, SCH(factor), 0.1, false},
    {"dynamic", "init", ARG_NUMBER, SCL(init), 65536, true},
    {"dynamic", "growth", ARG_NUMBER, SCL(growth), 2, false},
    {"dynamic", "backoff", ARG_NUMBER, SCL(backoff), 0.5, false},
    {"dynamic", "interval", ARG_COUNT, SCL(interval), 2000, false},
    {"dynamic", "max", ARG_NUMBER, SCL(max), 16777216, false},
    {"dynamic", "min", ARG_NUMBER, SCL(min), 6.103515625e-05, false},
    {"static", "scale", ARG_NUMBER, SCL(init), 1, true},
};
enum { ARG_ROWS = sizeof args / sizeof *args };

static void store(const call_arg *a, void *out, double value, double second) {
    char *at = (char *)out + a->offset;
    if (a->kind == ARG_NUMBER || a->kind == ARG_FRACTION) memcpy(at, &value, sizeof value);
    else if (a->kind == ARG_COUNT) memcpy(at, &(int64_t){(int64_t)value}, sizeof(int64_t));
    else if (a->kind == ARG_PAIR)
        memcpy(at, (double[]){value, second}, 2 * sizeof value); /* beta1, beta2 lie side by side */
}

static void set_defaults(const char *callee, void *out) {
    for (size_t i = 0; i < ARG_ROWS; i++) {
        if (strcmp(args[i].callee, callee) != 0) continue;
        if (args[i].kind == ARG_PAIR) store(&args[i], out, 0.9, args[i].fallback);
        else if (args[i].kind == ARG_QUANTITY)
            *(mpc_quantity *)((char *)out + args[i].offset) = (mpc_quantity){0, MPC_UNIT_STEPS};
        else store(&args[i], out, args[i].fallback, 0);
    }
}

bool fe_train_call_takes(const char *callee, const char *argument, mpc_str *all, fe_suggestion *near) {
    bool found = false;
    for (size_t i = 0; i < ARG_ROWS; i++) {
        if (strcmp(args[i].callee, callee) != 0) continue;
        found = found || strcmp(args[i].name, argument) == 0;
        if (all) mpc_str_printf(all, all->length ? ", %s" : "%s", args[i].name);
        if (near) fe_suggest_try(near, args[i].name);
    }
    return found;
}

bool fe_train_counts_steps(const char *callee, const char *argument) {
    for (size_t i = 0; i < ARG_ROWS; i++)
        if (strcmp(args[i].callee, callee) == 0 && strcmp(args[i].name, argument) == 0)
            return args[i].kind == ARG_QUANTITY;
    return false;
}

static const call_arg *find_arg(const char *callee, const fe_ast *arg, uint32_t position) {
    for (size_t i = 0; i < ARG_ROWS; i++) {
        if (strcmp(args[i].callee, callee) != 0) continue;
        if (arg->text ? strcmp(args[i].name, arg->text) == 0 : args[i].positional && position == 0) return &args[i];
    }
    return NULL;
}

static bool unknown(mpc_model *m, const char *callee, const fe_ast *arg) {
    mpc_str all = {0};
    fe_suggestion near = fe_suggest(arg->text ? arg->text : "");
    fe_train_call_takes(callee, "", &all, &near);
    const char *alias = arg->text ? fe_alias(arg->text) : NULL;
    if (alias && fe_train_call_takes(callee, alias, NULL, NULL)) near.best = alias;
    fe_report r =
        arg->text
            ? fe_begin(&m->diag, MPC_SEV_ERROR, "E011", arg->name_span, "%s has no argument `%s`", callee, arg->text)
            : fe_begin(&m->diag, MPC_SEV_ERROR, "E013", arg->span, "arguments of %s need their names", callee);
    fe_label(&r, "%s(%s)", callee, mpc_str_cstr(&all));
    if (near.best && arg->text) fe_help(&r, "did you mean `%s`?", near.best);
    fe_send(&r);
    mpc_str_free(&all);
    return false;
}

/* What an average keeps of itself: 1 would never take anything in, and a bias correction divide by 0. */
static bool is_fraction(fe_value v) { return fe_is_number(v) && fe_number(v) >= 0 && fe_number(v) < 1; }

static bool read_arg(mpc_model *m, const call_arg *a, const fe_ast *value, void *out) {
    fe_value v = fe_eval_constant(m, value);
    if (v.kind == FE_POISON) return false;
    double x = fe_is_number(v) ? fe_number(v) : -1;
    bool pair =
        a->kind == ARG_PAIR && v.kind == FE_LIST && v.count == 2 && is_fraction(v.items[0]) && is_fraction(v.items[1]);
    const char *wanted = "a number of at least 0";
    if (a->kind == ARG_QUANTITY) {
        mpc_quantity *q = (mpc_quantity *)((char *)out + a->offset);
        if (fe_read_quantity(m, v, true, q) && q->unit != MPC_UNIT_MINUTES) return true;
        wanted = "a number of steps or epochs, such as 100 steps or 1 epoch";
    } else if (a->kind == ARG_PAIR) {
        if (pair) store(a, out, fe_number(v.items[0]), fe_number(v.items[1]));
        if (pair) return true;
        wanted = "two numbers of at least 0 and below 1, such as [0.9, 0.999]";
    } else if (a->kind == ARG_FRACTION) {
        if (is_fraction(v)) store(a, out, x, 0);
        if (is_fraction(v)) return true;
        wanted = "a number of at least 0 and below 1";
    } else if (x >= 0 && x <= 1e300 && (a->kind != ARG_COUNT || (v.kind == FE_INT && x >= 1))) {
        store(a, out, x, 0);
        return true;
    }
    fe_error(&m->diag, a->kind == ARG_QUANTITY ? "E305" : "E303", value->span, "`%s` needs %s", a->name, wanted);
    return false;
}

static bool known_callee(mpc_model *m, const fe_train_key *k, const fe_ast *e, const char **callee) {
    const fe_ast *name = e->kind == AST_CALL ? e->kid[0] : e;
    const char *const *list = (const char *const *)k->rule;
    mpc_str all = {0};
    bool found = false;
    for (size_t i = 0; list[i]; i++) {
        mpc_str_printf(&all, i ? ", %s" : "%s", list[i]);
        if (name->kind != AST_NAME || strcmp(name->text, list[i]) != 0) continue;
        *callee = list[i];
        found = true;
    }
    if (!found) fe_error(&m->diag, "E303", name->span, "`%s` needs one of: %s", k->name, mpc_str_cstr(&all));
    mpc_str_free(&all);
    return found;
}

static bool seen_before(mpc_model *m, const fe_ast *call, const fe_ast *arg) {
    for (const fe_ast *other = call->list.first; other != arg; other = other->next) {
        if (!arg->text || !other->text || strcmp(arg->text, other->text) != 0) continue;
        fe_error(&m->diag, "E013", arg->name_span, "`%s` is given twice", arg->text);
        return true;
    }
    return false;
}

/* A rate that falls by steps needs to know how long they are. */
static bool step_has_length(mpc_model *m, const char *callee, const fe_setting *s, const void *out) {
    if (strcmp(callee, "step") != 0 || ((const mpc_schedule_config *)out)->every.value > 0) return true;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E303", s->expr->span, "`step` needs `every`, more than 0");
    fe_help(&r, "step(every = 10 epochs, factor = 0.1)");
    fe_send(&r);
    return false;
}

bool fe_store_train_call(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    const char *callee = NULL;
    if (!known_callee(m, k, s->expr, &callee)) return false;
    *(const char **)out = callee; /* `kind` comes first where there is one */
    if (strcmp(k->name, "loss_scale") == 0)
        *(mpc_scale_config *)out = (mpc_scale_config){.written = s->origin != FE_FROM_DEFAULT,
                                                      .dynamic = strcmp(callee, "dynamic") == 0,
                                                      .growth = 2,
                                                      .backoff = 0.5,
                                                      .max = 16777216,
                                                      .min = 6.103515625e-05,
                                                      .interval = 2000};
    if (strcmp(k->name, "optimizer") == 0) *(mpc_optimizer_config *)out = (mpc_optimizer_config){.kind = callee};
    if (strcmp(k->name, "schedule") == 0)
        *(mpc_schedule_config *)out = (mpc_schedule_config){.kind = callee, .factor = 1};
    set_defaults(callee, out);
    if (s->expr->kind != AST_CALL) return step_has_length(m, callee, s, out);
    uint32_t position = 0;
    bool ok = true;
    for (const fe_ast *arg = s->expr->list.first; arg; arg = arg->next, position++) {
        const call_arg *a = find_arg(callee, arg, position);
        if (seen_before(m, s->expr, arg)) ok = false;
        else ok = (a ? read_arg(m, a, arg->kid[0], out) : unknown(m, callee, arg)) && ok;
    }
    return ok && step_has_length(m, callee, s, out);
}
