/* What holds for one parameter: the train section speaks for all, lines of params for those that they select, the later
 * line wins. A selector marks itself as matched when it is asked, so parameters must be resolved even where nothing
 * comes of it. */
#include <math.h>
#include <string.h>

#include "frontend/fe_params.h"

static const char *const keys[] = {"init", "lr", "decay", "freeze", "ema", "weights", "load", "from"};

const char *fe_params_key(size_t i) { return i < sizeof keys / sizeof *keys ? keys[i] : NULL; }

const char *fe_beside_model(const mpc_model *m, const char *path) {
    const char *file = mpc_sources_name(mpc_context_sources(m->ctx), m->file);
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (*path == '/' || !slash) return path;
    return mpc_arena_printf(m->arena, "%.*s/%s", (int)(slash - file), file, path);
}

/* ---- one line ---- */

static const char *word_of(const fe_ast *value) { return value->kind == AST_NAME ? value->text : ""; }

static bool set_freeze(fe_param_settings *r, const fe_ast *value, fe_value v) {
    bool weights = strcmp(word_of(value), "weights") == 0;
    if (!weights && v.kind != FE_BOOL) return false;
    r->frozen = weights || v.i;
    r->frozen_norm = !weights && v.i;
    return true;
}

static bool set_weights(fe_param_settings *r, const fe_ast *value) {
    static const char *const words[] = {"master", "stochastic", "none"};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(word_of(value), words[i]) == 0) {
            r->weights = words[i];
            return true;
        }
    return false;
}

/* The path without what the selector says before its first wildcard, and then without that segment. */
static const char *behind_fixed_part(const char *glob, const char *path) {
    size_t fixed = strcspn(glob, "*"), at = 0;
    for (size_t i = 0; i < fixed && path[i]; i++)
        if (path[i] == '.') at = i + 1;
    return path + at;
}

static bool set_number(double *out, fe_value v, double below) {
    if (!fe_is_number(v) || !(fe_number(v) >= 0 && fe_number(v) < below)) return false;
    *out = fe_number(v);
    return true;
}

static bool set_entry(fe_elab *e, const fe_selector *s, const char *path, const fe_ast *entry, fe_value v,
                      fe_param_settings *r) {
    const char *key = entry->text;
    if (strcmp(key, "freeze") == 0) return set_freeze(r, entry->kid[0], v);
    if (strcmp(key, "weights") == 0) return set_weights(r, entry->kid[0]);
    if (strcmp(key, "decay") == 0) return set_number(&r->decay, v, INFINITY);
    if (strcmp(key, "ema") == 0) return set_number(&r->ema, v, 1);
    if (strcmp(key, "init") == 0 && v.kind == FE_INIT) {
        r->init = v.init;
        r->load = NULL;
        return true;
    }
    if (strcmp(key, "lr") == 0 && v.kind == FE_QUANTITY && strcmp(v.unit, "x") == 0 && v.f >= 0) {
        r->lr = v.f;
        return true;
    }
    bool loads = strcmp(key, "load") == 0 || strcmp(key, "from") == 0;
    if (!loads || v.kind != FE_STRING || !*v.s) return false;
    r->load = fe_beside_model(e->m, v.s);
    if (!r->load) e->d->no_memory = true;
    r->name_in_file = behind_fixed_part(s->glob, path);
    return true;
}

static fe_value evaluate_constant(fe_elab *e, const fe_ast *expr) {
    fe_frame *frame = e->frame;
    mpc_builder *b = e->b;
    e->frame = NULL;
    e->b = NULL;
    fe_value v = fe_eval(e, expr, NULL);
    e->frame = frame;
    e->b = b;
    return v;
}

static bool is_word(const fe_ast *entry) {
    bool weights = strcmp(entry->text, "weights") == 0;
    return weights || (strcmp(entry->text, "freeze") == 0 && strcmp(word_of(entry->kid[0]), "weights") == 0);
}

static void apply_entry(fe_elab *e, const fe_selector *s, const char *path, const fe_ast *entry, fe_param_settings *r) {
    bool word = is_word(entry);
    fe_value v = word ? FE_POISONED : evaluate_constant(e, entry->kid[0]);
    if (!word && v.kind == FE_POISON) return; /* reported */
    if (set_entry(e, s, path, entry, v, r)) return;
    fe_report report =
        fe_begin(e->d, MPC_SEV_ERROR, "E052", entry->kid[0]->span, "this is no value for `%s`", entry->text);
    fe_help(&report,
            "init = normal(std = 0.02), decay = 0 or more, lr = 10 x, freeze = true, false or weights, ema = 0.999 "
            "(below 1), weights = master, stochastic or none, load = \"file.safetensors\"");
    fe_send(&report);
}

fe_param_settings fe_resolve_param(fe_elab *e, const char *path, const fe_init *init) {
    const mpc_train_config *t = &e->m->config;
    fe_param_settings r = {
        .init = init, .decay = -1, .lr = 1, .ema = t->ema, .weights = t->weights, .name_in_file = ""};
    for (size_t i = 0; i < e->m->freeze.count; i++) {
        fe_selector *s = &e->m->freeze.data[i];
        if (!mpc_glob_match(s->glob, path)) continue;
        s->matched = r.frozen = r.frozen_norm = true;
    }
    for (size_t i = 0; i < e->m->params.count; i++) {
        fe_selector *s = &e->m->params.data[i];
        if (!mpc_glob_match(s->glob, path)) continue;
        s->matched = true;
        for (const fe_ast *entry = s->entries; entry; entry = entry->next) apply_entry(e, s, path, entry, &r);
    }
    return r;
}

/* ---- initialisers ---- */

/* fan in and fan out: the last axis goes out, the one before it comes in, a convolution's window counts for both. */
static void fans(uint32_t rank, const int64_t *dims, double *in, double *out) {
    double window = rank == 4 ? (double)dims[0] * (double)dims[1] : 1;
    *out = rank ? (double)dims[rank - 1] * window : 1;
    *in = rank > 1 ? (double)dims[rank - 2] * window : *out;
    if (*in < 1) *in = 1;
    if (*out < 1) *out = 1;
}

fe_concrete_init fe_init_for(const fe_init *init, uint32_t rank, const int64_t *dims) {
    double in, out;
    fans(rank, dims, &in, &out);
    double bound = 0;
    switch (init->kind) {
    case FE_INIT_ZEROS:
        return (fe_concrete_init){"zeros", 0, 0};
    case FE_INIT_ONES:
        return (fe_concrete_init){"ones", 0, 0};
    case FE_INIT_CONSTANT:
        return (fe_concrete_init){"constant", init->a, 0};
    case FE_INIT_NORMAL:
        return (fe_concrete_init){"normal", init->a, init->b};
    case FE_INIT_TRUNCATED:
        return (fe_concrete_init){"truncated_normal", init->a, init->b};
    case FE_INIT_ORTHOGONAL:
        return (fe_concrete_init){"orthogonal", init->a, 0};
    case FE_INIT_UNIFORM:
        return (fe_concrete_init){"uniform", init->a, init->b};
    case FE_INIT_KAIMING_NORMAL:
        return (fe_concrete_init){"normal", 0, sqrt(2 / in)};
    case FE_INIT_XAVIER_NORMAL:
        return (fe_concrete_init){"normal", 0, sqrt(2 / (in + out))};
    case FE_INIT_KAIMING:
        bound = sqrt(6 / in);
        break;
    case FE_INIT_XAVIER:
        bound = sqrt(6 / (in + out));
        break;
    case FE_INIT_FAN_IN:
        bound = 1 / sqrt(init->a > 0 ? init->a : in);
        break;
    }
    return (fe_concrete_init){"uniform", -bound, bound};
}
