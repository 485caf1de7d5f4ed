/* The train section: a table of keys with their defaults, and what a value may be. Values are kept as text and tree, so
 * that a default, a line of the file and an override are read by the same code. */
#include <stddef.h>
#include <string.h>

#include "frontend/fe_train.h"

/* --- values --- */

static void bad_value(mpc_model *m, const fe_setting *s, mpc_span at, const char *wanted) {
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E303", at, "`%s` needs %s", s->key, wanted);
    fe_send(&r);
}

static bool store_word(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    const char *const *list = (const char *const *)k->rule;
    const fe_ast *e = s->expr;
    const char *word = e->kind == AST_NAME ? e->text : e->kind == AST_STRING ? e->text : NULL;
    for (size_t i = 0; word && list[i]; i++) {
        if (strcmp(word, list[i]) != 0) continue;
        *(const char **)out = list[i];
        return true;
    }
    mpc_str all = {0};
    for (size_t i = 0; list[i]; i++) mpc_str_printf(&all, i ? ", %s" : "%s", list[i]);
    bad_value(m, s, e->span, mpc_arena_printf(m->arena, "one of: %s", mpc_str_cstr(&all)));
    mpc_str_free(&all);
    return false;
}

/* One of the list, or a format that a plugin brought. */
static bool store_precision(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    const char *word = s->expr->kind == AST_NAME || s->expr->kind == AST_STRING ? s->expr->text : NULL;
    mpc_format format = word ? mpc_format_find(word) : MPC_FMT_none;
    if (!mpc_format_is_user(format)) return store_word(m, k, s, out);
    *(const char **)out = mpc_format_get(format)->name;
    return true;
}

/* Plugins bring solvers, so which names there are is known to the pass that looks for one (E105). */
static bool store_name(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    const fe_ast *e = s->expr;
    if (e->kind != AST_NAME && e->kind != AST_STRING)
        return bad_value(m, s, e->span, "a name, in quotes where it has a dash"), false;
    *(const char **)out = e->text;
    return true;
}

static bool store_count(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    int64_t least = *(const int64_t *)k->rule;
    fe_value v = fe_eval_constant(m, s->expr);
    if (v.kind == FE_POISON) return false;
    if (v.kind == FE_INT && v.i >= least && v.i <= INT32_MAX) {
        *(int64_t *)out = v.i;
        return true;
    }
    bad_value(m, s, s->expr->span, least ? "a whole number of at least 1" : "a whole number of at least 0");
    return false;
}

static bool store_seed(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    fe_value v = fe_eval_constant(m, s->expr);
    if (v.kind == FE_INT && v.i >= 0) *(uint64_t *)out = (uint64_t)v.i;
    else if (v.kind != FE_POISON) bad_value(m, s, s->expr->span, "a whole number of at least 0");
    return v.kind == FE_INT && v.i >= 0;
}

static bool store_number(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    fe_value v = fe_eval_constant(m, s->expr);
    bool ok = fe_is_number(v) && fe_number(v) >= 0;
    if (ok) *(double *)out = fe_number(v);
    else if (v.kind != FE_POISON) bad_value(m, s, s->expr->span, "a number of at least 0");
    return ok;
}

/* A share: 0 for none, below 1. */
static bool store_share(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    fe_value v = fe_eval_constant(m, s->expr);
    bool ok = fe_is_number(v) && fe_number(v) >= 0 && fe_number(v) < 1;
    if (ok) *(double *)out = fe_number(v);
    else if (v.kind != FE_POISON) bad_value(m, s, s->expr->span, "a number from 0 (off) to below 1, such as 0.999");
    return ok;
}

/* auto: no masters under the level O3, as Apex has it, else masters. `solver` was read before; NULL: it was no word. */
static bool store_weights(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    if (!store_word(m, k, s, out)) return false;
    const char *solver = m->config.solver;
    if (strcmp(*(const char **)out, "auto") == 0)
        *(const char **)out = solver && strcmp(solver, "O3") == 0 ? "none" : "master";
    return true;
}

static bool store_last_batch(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    const char *word = NULL;
    if (!store_word(m, k, s, &word)) return false;
    *(bool *)out = strcmp(word, "drop") == 0;
    return true;
}

/* A list of selectors, as lines of params have them. */
static bool store_selectors(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    (void)out;
    fe_value v = fe_eval_constant(m, s->expr);
    bool ok = v.kind == FE_LIST;
    for (uint32_t i = 0; ok && i < v.count; i++) {
        ok = v.items[i].kind == FE_STRING && *v.items[i].s;
        fe_selector selector = {.glob = ok ? v.items[i].s : "", .span = s->expr->span};
        if (ok && !mpc_array_push(&m->freeze, selector)) m->diag.no_memory = true;
    }
    if (!ok && v.kind != FE_POISON)
        bad_value(m, s, s->expr->span, "a list of paths in quotes, such as [\"encoder.**\"]");
    return ok;
}

static mpc_unit unit_of(const char *word) {
    if (strncmp(word, "step", 4) == 0) return MPC_UNIT_STEPS;
    if (strncmp(word, "epoch", 5) == 0) return MPC_UNIT_EPOCHS;
    return strncmp(word, "min", 3) == 0 ? MPC_UNIT_MINUTES : MPC_UNIT_NONE;
}

bool fe_read_quantity(mpc_model *m, fe_value v, bool bare_steps, mpc_quantity *out) {
    (void)m;
    mpc_unit unit = v.kind == FE_QUANTITY           ? unit_of(v.unit)
                    : bare_steps && fe_is_number(v) ? MPC_UNIT_STEPS
                                                    : MPC_UNIT_NONE;
    if (unit == MPC_UNIT_NONE) return false;
    double x = v.kind == FE_QUANTITY ? v.f : fe_number(v);
    if (!(x >= 0 && x <= 1e15)) return false;
    *out = (mpc_quantity){x, unit};
    return true;
}

static bool store_quantity(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    fe_value v = fe_eval_constant(m, s->expr);
    if (v.kind == FE_POISON) return false;
    if (fe_read_quantity(m, v, false, out)) return true;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E305", s->expr->span, "`%s` needs a number with a unit", s->key);
    const char *number = fe_is_number(v) ? fe_source_text(m, s->expr->span) : NULL;
    if (number && *number) fe_help(&r, "%s = %s epochs, or %s = %s steps", s->key, number, s->key, number);
    else fe_help(&r, "%s = 20 epochs, 500 steps or 10 min", s->key);
    fe_send(&r);
    return false;
}

static bool store_monitor(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    (void)k;
    const fe_ast *e = s->expr;
    if (e->kind == AST_STRING && !*e->text) {
        *(const char **)out = "";
        return true;
    }
    bool dotted = e->kind == AST_ATTR && e->kid[0]->kind == AST_NAME;
    if (!dotted) {
        bad_value(m, s, e->span, "a split and a metric or loss, such as valid.acc");
        return false;
    }
    const char *split = e->kid[0]->text, *name = e->text;
    if (strcmp(split, "valid") != 0 && strcmp(split, "train") != 0) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E304", e->span, "`%s` can't be monitored", split);
        fe_help(&r, "test data choose nothing, they judge once at the end; monitor = valid.%s", name);
        fe_send(&r);
        return false;
    }
    bool known = strcmp(name, "loss") == 0;
    for (size_t i = 0; i < m->metrics.count; i++) known = known || strcmp(m->metrics.data[i].name, name) == 0;
    for (size_t i = 0; i < m->losses.count; i++) known = known || strcmp(m->losses.data[i], name) == 0;
    if (!known) {
        mpc_str all = {0};
        for (size_t i = 0; i < m->metrics.count; i++) mpc_str_printf(&all, ", %s", m->metrics.data[i].name);
        for (size_t i = 0; i < m->losses.count; i++) mpc_str_printf(&all, ", %s", m->losses.data[i]);
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E304", e->span, "the model has no metric or loss `%s`", name);
        fe_help(&r, "there are loss%s", mpc_str_cstr(&all));
        fe_send(&r);
        mpc_str_free(&all);
        return false;
    }
    *(const char **)out = mpc_arena_printf(m->arena, "%s.%s", split, name);
    return *(const char **)out != NULL;
}

static bool store_call(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out) {
    return fe_store_train_call(m, k, s, out);
}

/* --- the table --- */

static const char *const precisions[] = {"f32", "tf32", "bf16", "f16", "auto", NULL};
static const char *const seconds[] = {"none", "bf16", "f16", NULL};
static const char *const stops[] = {"stop", "skip", NULL};
static const char *const rejects[] = {"reject", "keep", NULL};
static const char *const optimizers[] = {"adamw", "adam", "sgd", "nesterov", "lion", NULL};
static const char *const schedules[] = {"constant", "cosine", "linear", "step", NULL};
static const char *const masters[] = {"auto", "master", "stochastic", "none", NULL};
static const char *const last_batches[] = {"keep", "drop", NULL};
static const char *const scales[] = {"dynamic", "static", NULL};
static const int64_t zero = 0, one = 1;

#define FIELD(f) offsetof(mpc_train_config, f)
static const fe_train_key keys[] = {
    {"precision", "bf16", store_precision, precisions, FIELD(precision)},
    {"also", "none", store_word, seconds, FIELD(also)},
    {"solver", "mincut", store_name, NULL, FIELD(solver)},
    {"optimizer", "adamw(lr = 1e-3, weight_decay = 0.01)", store_call, optimizers, FIELD(optimizer)},
    {"schedule", "constant", store_call, schedules, FIELD(schedule)},
    {"loss_scale", "dynamic", store_call, scales, FIELD(loss_scale)},
    {"batch", "32", store_count, &one, FIELD(batch)},
    {"accumulate", "1", store_count, &one, FIELD(accumulate)},
    {"length", "10 epochs", store_quantity, NULL, FIELD(length)},
    {"clip_norm", "0", store_number, NULL, FIELD(clip_norm)},
    {"clip_value", "0", store_number, NULL, FIELD(clip_value)},
    {"weights", "auto", store_weights, masters, FIELD(weights)},
    {"ema", "0", store_share, NULL, FIELD(ema)},
    {"freeze", "[]", store_selectors, NULL, 0},
    {"last_batch", "keep", store_last_batch, last_batches, FIELD(drops_last)},
    {"monitor", "\"\"", store_monitor, NULL, FIELD(monitor)},
    {"eval_every", "1 epoch", store_quantity, NULL, FIELD(eval_every)},
    {"save_every", "1 epoch", store_quantity, NULL, FIELD(save_every)},
    {"keep", "2", store_count, &zero, FIELD(keep)},
    {"patience", "0", store_count, &zero, FIELD(patience)},
    {"seed", "0", store_seed, NULL, FIELD(seed)},
    {"on_nonfinite", "stop", store_word, stops, FIELD(on_nonfinite)},
    {"nonfinite", "reject", store_word, rejects, FIELD(nonfinite)},
};

const fe_train_key *fe_train_key_at(size_t i) { return i < sizeof keys / sizeof *keys ? &keys[i] : NULL; }

const fe_train_key *fe_find_train_key(const char *name) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

/* --- reading --- */

void fe_explain_key(fe_report *r, const char *key, const char *value, const char *option) {
    const char *alias = fe_alias(key);
    bool is_lr = strcmp(key, "lr") == 0 || (alias && strcmp(alias, "lr") == 0);
    if (is_lr && option)
        fe_help(r, "the learning rate is an argument of the optimizer: %s optimizer.lr=%s", option, value);
    else if (is_lr) fe_help(r, "the learning rate is an argument of the optimizer: optimizer = adamw(lr = %s)", value);
    else if (strcmp(key, "epochs") == 0 || strcmp(key, "steps") == 0 || strcmp(key, "num_epochs") == 0)
        fe_help(r, option ? "%s length='%s %s'" : "%slength = %s %s", option ? option : "", value,
                strcmp(key, "steps") == 0 ? "steps" : "epochs");
    else if (strcmp(key, "weight_decay") == 0 || strcmp(key, "momentum") == 0 || strcmp(key, "betas") == 0 ||
             strcmp(key, "eps") == 0)
        fe_help(r, "`%s` is an argument of the optimizer: optimizer.%s", key, key);
    else {
        fe_suggestion s = fe_suggest(key);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) fe_suggest_try(&s, keys[i].name);
        const char *best = alias && fe_find_train_key(alias) ? alias : s.best;
        if (best && option) fe_help(r, "did you mean %s %s=%s?", option, best, value);
        else if (best) fe_help(r, "did you mean `%s = %s`?", best, value);
    }
}

static void read_entry(mpc_model *m, const fe_ast *e) {
    if (e->kind != AST_ENTRY) {
        fe_error(&m->diag, "E301", e->span, "the train section has lines of the form key = value");
        return;
    }
    for (size_t i = 0; i < m->train.count; i++) {
        if (strcmp(m->train.data[i].key, e->text) != 0) continue;
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E301", e->name_span, "`%s` is given twice", e->text);
        fe_second(&r, m->train.data[i].span, "the first time");
        fe_send(&r);
        return;
    }
    const char *text = fe_source_text(m, e->kid[0]->span);
    if (!fe_find_train_key(e->text)) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E301", e->name_span, "train has no key `%s`", e->text);
        fe_explain_key(&r, e->text, text, NULL);
        fe_send(&r);
        return;
    }
    fe_setting s = {.key = e->text, .expr = e->kid[0], .text = text, .span = e->name_span};
    if (!mpc_array_push(&m->train, s)) m->diag.no_memory = true;
}

void fe_read_train(mpc_model *m) {
    const fe_ast *section = fe_find_section(m, "train");
    m->config.present = section != NULL;
    for (const fe_ast *e = section ? section->list.first : NULL; e; e = e->next) read_entry(m, e);
}

static fe_setting *find_setting(mpc_model *m, const char *key) {
    for (size_t i = 0; i < m->train.count; i++)
        if (strcmp(m->train.data[i].key, key) == 0) return &m->train.data[i];
    return NULL;
}

fe_setting *fe_train_setting(mpc_model *m, const fe_train_key *k) {
    fe_setting *s = find_setting(m, k->name);
    if (s) return s;
    const fe_ast *e = fe_parse_text(m, "(default)", k->fallback);
    fe_setting made = {.key = k->name, .expr = e, .text = k->fallback, .origin = FE_FROM_DEFAULT};
    if (!e || !mpc_array_push(&m->train, made)) {
        m->diag.no_memory = true;
        return NULL;
    }
    return &m->train.data[m->train.count - 1];
}

void fe_store_train_key(mpc_model *m, const fe_train_key *k) {
    fe_setting *s = fe_train_setting(m, k);
    if (s) k->store(m, k, s, (char *)&m->config + k->offset);
}

void fe_complete_train(mpc_model *m) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) fe_store_train_key(m, &keys[i]);
}
