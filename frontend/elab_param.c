/* States: parameters with what the `params` section says of them, running statistics, the random generator's; and
 * precision policies. A path belongs to one call. A layer that is applied again finds its parameters under their paths,
 * and they must have the same shape. */
#include <math.h>
#include <string.h>

#include "frontend/fe_elab.h"

const fe_init *fe_init_value(fe_elab *e, fe_init init) {
    static const fe_init zeros = {.kind = FE_INIT_ZEROS};
    fe_init *p = fe_alloc(e, sizeof *p);
    if (!p) return &zeros;
    *p = init;
    return p;
}

fe_param *fe_find_param(fe_elab *e, const char *path) {
    uint32_t i = 0;
    return e->param_index && mpc_map_get(e->param_index, path, &i) ? &e->params.data[i] : NULL;
}

/* --- the params section --- */

typedef struct resolved {
    const fe_init *init;
    double decay, lr;
    bool frozen, frozen_norm;
} resolved;

static void apply_entry(fe_elab *e, const fe_ast *entry, resolved *r) {
    fe_value v = FE_POISONED;
    bool weights = entry->kid[0]->kind == AST_NAME && strcmp(entry->kid[0]->text, "weights") == 0;
    if (!weights) {
        fe_frame *frame = e->frame;
        mpc_builder *b = e->b;
        e->frame = NULL;
        e->b = NULL;
        v = fe_eval(e, entry->kid[0], NULL);
        e->frame = frame;
        e->b = b;
    }
    if (strcmp(entry->text, "init") == 0 && v.kind == FE_INIT) r->init = v.init;
    else if (strcmp(entry->text, "decay") == 0 && fe_is_number(v) && fe_number(v) >= 0) r->decay = fe_number(v);
    else if (strcmp(entry->text, "lr") == 0 && v.kind == FE_QUANTITY && strcmp(v.unit, "x") == 0 && v.f >= 0)
        r->lr = v.f;
    else if (strcmp(entry->text, "freeze") == 0 && (weights || v.kind == FE_BOOL)) {
        r->frozen = weights || v.i;
        r->frozen_norm = !weights && v.i;
    } else if (weights || v.kind != FE_POISON) {
        fe_report report =
            fe_begin(e->d, MPC_SEV_ERROR, "E052", entry->kid[0]->span, "this is no value for `%s`", entry->text);
        fe_help(&report, "init = normal(std = 0.02), decay = 0 or more, lr = 10 x, freeze = true, false or weights");
        fe_send(&report);
    }
}

static resolved resolve(fe_elab *e, const char *path, const fe_init *init) {
    resolved r = {.init = init, .decay = -1, .lr = 1};
    for (size_t i = 0; i < e->m->params.count; i++) {
        fe_selector *s = &e->m->params.data[i];
        if (!mpc_glob_match(s->glob, path)) continue;
        s->matched = true;
        for (const fe_ast *entry = s->entries; entry; entry = entry->next) apply_entry(e, entry, &r);
    }
    return r;
}

bool fe_norm_frozen(fe_elab *e, const char *path) {
    static const fe_init none = {.kind = FE_INIT_ONES};
    return resolve(e, fe_format(e, "%s.weight", path), &none).frozen_norm;
}

/* fan in and fan out: the last axis goes out, the one before it comes in, a convolution's window counts for both. */
static void fans(uint32_t rank, const int64_t *dims, double *in, double *out) {
    double window = rank == 4 ? (double)dims[0] * (double)dims[1] : 1;
    *out = rank ? (double)dims[rank - 1] * window : 1;
    *in = rank > 1 ? (double)dims[rank - 2] * window : *out;
    if (*in < 1) *in = 1;
    if (*out < 1) *out = 1;
}

typedef struct concrete {
    const char *kind;
    double a, b;
} concrete;

static concrete concrete_init(const fe_init *init, uint32_t rank, const int64_t *dims) {
    double in, out;
    fans(rank, dims, &in, &out);
    double bound = 0;
    switch (init->kind) {
    case FE_INIT_ZEROS:
        return (concrete){"zeros", 0, 0};
    case FE_INIT_ONES:
        return (concrete){"ones", 0, 0};
    case FE_INIT_CONSTANT:
        return (concrete){"constant", init->a, 0};
    case FE_INIT_NORMAL:
        return (concrete){"normal", init->a, init->b};
    case FE_INIT_UNIFORM:
        return (concrete){"uniform", init->a, init->b};
    case FE_INIT_KAIMING:
        bound = sqrt(6 / in);
        break;
    case FE_INIT_XAVIER:
        bound = sqrt(6 / (in + out));
        break;
    case FE_INIT_FAN_IN:
        return (concrete){"uniform", -1 / sqrt(init->a > 0 ? init->a : in), 1 / sqrt(init->a > 0 ? init->a : in)};
    }
    return (concrete){"uniform", -bound, bound};
}

/* --- making them --- */

static fe_value reuse(fe_call *c, fe_param *p, uint32_t rank, const int64_t *dims) {
    fe_elab *e = c->e;
    const mpc_type *t = fe_type(p->value);
    if (t->rank == rank && (rank == 0 || memcmp(t->dims, dims, rank * sizeof *dims) == 0)) return p->value;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E043", c->at->span, "this layer was applied to another size before");
    fe_label(&r, "`%s` would be %s here", p->path, fe_dims_text(e, dims, rank));
    fe_note(&r, p->span, "it was made %s here", fe_shape_text(e, p->value));
    fe_send(&r);
    return FE_POISONED;
}

/* Inside a second application of a layer, its own or that of an outer block: parameters of that path are there already.
 */
static bool under_layer(const fe_call *c, const char *path) {
    if (c->layer && c->layer->applied) return true;
    for (const fe_frame *f = c->e->frame; f; f = f->caller)
        for (size_t i = 0; i < f->layers.count; i++) {
            const fe_layer *l = f->layers.data[i];
            size_t n = strlen(l->path);
            if (l->applied && strncmp(l->path, path, n) == 0 && path[n] == '.') return true;
        }
    return false;
}

static bool path_is_free(fe_call *c, const char *path, fe_param **old) {
    fe_elab *e = c->e;
    *old = fe_find_param(e, path);
    if (!*old || under_layer(c, path)) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E041", c->at->span, "two parameters would be called `%s`", path);
    fe_note(&r, (*old)->span, "the first one is made here");
    fe_help(&r, "give one of the calls a label: ... as other");
    fe_send(&r);
    return false;
}

static bool parameters_allowed(fe_call *c) {
    fe_elab *e = c->e;
    if (!e->in_training) return fe_want_builder(e, c->at);
    fe_error(e->d, "E047", c->at->span,
             "parameters can't be made inside `if training`: evaluation would not have them");
    return false;
}

static fe_value build_state(fe_call *c, const char *path, mpc_type_id type, const mpc_attr_arg *attrs, uint32_t count) {
    fe_elab *e = c->e;
    fe_set_place(e, c->at->span);
    if (!type) {
        fe_error(e->d, "E017", c->at->span, "`%s` would be too large", path);
        return FE_POISONED;
    }
    mpc_builder_set_name(e->b, path);
    mpc_value_id id = mpc_build_state(e->b, path, type, attrs, count);
    if (id == MPC_NONE) e->failed = true;
    return id == MPC_NONE ? FE_POISONED : fe_tensor_value(e, id, c->at->span);
}

static fe_value remember(fe_call *c, fe_param p) {
    fe_elab *e = c->e;
    if (p.value.kind != FE_TENSOR) return FE_POISONED;
    p.span = c->at->span;
    if (!mpc_map_set(e->param_index, p.path, (uint32_t)e->params.count) || !mpc_array_push(&e->params, p))
        return fe_no_memory_value(e);
    return p.value;
}

fe_value fe_make_param(fe_call *c, const char *suffix, uint32_t rank, const int64_t *dims, const fe_init *init) {
    fe_elab *e = c->e;
    if (!parameters_allowed(c)) return FE_POISONED;
    const char *path = *suffix ? fe_format(e, "%s.%s", c->path, suffix) : c->path;
    fe_param *old = NULL;
    if (!path_is_free(c, path, &old)) return FE_POISONED;
    if (old) return reuse(c, old, rank, dims);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] > 0) continue;
        fe_error(e->d, "E017", c->at->span, "`%s` would be %s: every size must be at least 1", path,
                 fe_dims_text(e, dims, rank));
        return FE_POISONED;
    }
    resolved r = resolve(e, path, init);
    uint32_t group = r.frozen ? 0 : fe_group_of_parameter(e, path, c->at->span);
    concrete k = concrete_init(r.init, rank, dims);
    mpc_attr_arg attrs[] = {MPC_A_STR("role", "param"), MPC_A_BOOL("trainable", !r.frozen),
                            MPC_A_STR("init", k.kind),  MPC_A_FLOAT("a", k.a),
                            MPC_A_FLOAT("b", k.b),      MPC_A_FLOAT("decay", r.decay),
                            MPC_A_FLOAT("lr", r.lr),    MPC_A_INT("group", group),
                            MPC_A_STR("numbered", c->numbered)};
    fe_param p = {.path = path, .frozen = r.frozen, .group = group};
    p.value = build_state(c, path, mpc_type_make(e->ctx, MPC_FMT_f32, rank, dims), attrs, sizeof attrs / sizeof *attrs);
    return remember(c, p);
}

fe_value fe_make_stat(fe_call *c, const char *suffix, int64_t size, bool ones) {
    fe_elab *e = c->e;
    if (!parameters_allowed(c)) return FE_POISONED;
    const char *path = fe_format(e, "%s.%s", c->path, suffix);
    fe_param *old = NULL;
    if (!path_is_free(c, path, &old)) return FE_POISONED;
    if (old) return reuse(c, old, 1, &size);
    mpc_attr_arg attrs[] = {MPC_A_STR("role", "stat"), MPC_A_STR("init", ones ? "ones" : "zeros")};
    fe_param p = {.path = path, .is_stat = true, .frozen = true};
    p.value = build_state(c, path, mpc_type_make(e->ctx, MPC_FMT_f32, 1, &size), attrs, 2);
    if (p.value.kind == FE_TENSOR) p.latest = p.value.t->id;
    return remember(c, p);
}

/* --- random numbers --- */

static mpc_value_id rng_state(fe_elab *e, const char *name, mpc_format format, const char *skip) {
    mpc_attr_arg attrs[] = {MPC_A_STR("role", "rng"), MPC_A_STR("skip", skip)};
    fe_set_place(e, (mpc_span){0});
    mpc_builder_set_name(e->b, name);
    mpc_value_id id = mpc_build_state(e->b, name, mpc_type_make(e->ctx, format, 0, NULL), attrs, 2);
    if (id == MPC_NONE) e->failed = true;
    return id;
}

bool fe_rng(fe_elab *e, const fe_ast *at, fe_value *seed, fe_value *step) {
    if (!fe_want_builder(e, at)) return false;
    if (e->rng_seed == MPC_NONE) {
        e->rng_seed = rng_state(e, "rng.seed", MPC_FMT_i64, "keep");
        e->rng_step = rng_state(e, "rng.step", MPC_FMT_i32, "advance");
    }
    if (e->failed) return false;
    *seed = fe_tensor_value(e, e->rng_seed, at->span);
    *step = fe_tensor_value(e, e->rng_step, at->span);
    return seed->kind == FE_TENSOR && step->kind == FE_TENSOR;
}

int64_t fe_stream(fe_elab *e, const char *name) {
    const char *path = fe_join(e, e->frame ? e->frame->path : "", name);
    path = fe_format(e, "%s%s", path, e->frame ? e->frame->bare : "");
    uint32_t uses = 0;
    mpc_map_get(e->streams, path, &uses);
    if (!mpc_map_set(e->streams, path, uses + 1)) fe_no_memory_value(e);
    if (uses) path = fe_format(e, "%s.%u", path, uses + 1);
    return (int64_t)(mpc_hash_str(path) >> 1); /* attributes are signed */
}

/* --- policies --- */

mpc_format fe_region_format(mpc_model *m, const fe_ast *word) {
    mpc_format f = word->text ? mpc_format_find(word->text) : MPC_FMT_none;
    if (f == MPC_FMT_f32 || f == MPC_FMT_bf16 || f == MPC_FMT_f16 || mpc_format_is_user(f)) return f;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E014", word->name_span, "`%s` is no format that ops compute in",
                           word->text ? word->text : "this");
    fe_help(&r, "there are f32, bf16 and f16");
    fe_send(&r);
    return MPC_FMT_none;
}

mpc_format fe_policy_format(fe_elab *e, const char *op, const char *path, const char **why) {
    mpc_format format = MPC_FMT_none;
    for (size_t i = 0; i < e->m->policy.count; i++) {
        fe_selector *s = &e->m->policy.data[i];
        bool hit = s->is_op ? strcmp(s->glob, op) == 0 || (e->callee && strcmp(s->glob, e->callee) == 0)
                            : mpc_glob_match(s->glob, path);
        if (!hit) continue;
        s->matched = true;
        format = s->format;
        *why = fe_format(e, "policy %s", fe_place_text(e->d, s->span));
    }
    return format;
}

/* A policy that names a parameter, whose master no word can narrow: both lines, and what to write instead. */
static bool is_master(fe_elab *e, const fe_selector *s) {
    for (size_t i = 0; i < e->params.count; i++) {
        const fe_param *p = &e->params.data[i];
        if (!mpc_glob_match(s->glob, p->path)) continue;
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E111", s->span, "`%s` is a %s: its values stay f32 (N70)", p->path,
                               p->is_stat ? "statistic" : "parameter, and masters are what is trained");
        fe_second(&r, p->span, "it is made here");
        fe_help(&r, "name the op that reads it: the copy that the op reads follows the op's format (N75)");
        fe_send(&r);
        return true;
    }
    return false;
}

static void report_selector(fe_elab *e, const fe_selector *s, const char *what, bool of_values) {
    if (of_values && !s->is_op && is_master(e, s)) return;
    fe_suggestion near = fe_suggest(s->glob);
    near.distance = (unsigned)strlen(s->glob);
    for (size_t i = 0; i < e->params.count; i++) fe_suggest_try(&near, e->params.data[i].path);
    const mpc_graph *g = of_values && e->b ? mpc_builder_graph(e->b) : NULL;
    for (mpc_value_id i = 0; g && i < g->value_count; i++) fe_suggest_try(&near, mpc_value_name(g, i));
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E045", s->span, "`%s` matches no %s", s->glob, what);
    if (near.best && !s->is_op) fe_help(&r, "the nearest path is `%s`", near.best);
    fe_send(&r);
}

/* --- agreements --- */

static uint32_t count_matches(const mpc_graph *g, const char *glob) {
    uint32_t count = 0;
    for (mpc_value_id v = 0; v < g->value_count; v++)
        count += mpc_format_is_float(mpc_value_format(g, v)) && mpc_glob_match(glob, mpc_value_name(g, v));
    return count;
}

/* Each glob of an agreement finds something, and together they find two values. */
static void check_agreement(fe_elab *e, const fe_agreement *a) {
    const mpc_graph *g = mpc_builder_graph(e->b);
    uint32_t count = 0;
    for (const char *at = a->globs; *at;) {
        size_t length = strcspn(at, "|");
        const char *glob = fe_format(e, "%.*s", (int)length, at);
        uint32_t found = g && glob ? count_matches(g, glob) : 0;
        at += length + (at[length] == '|');
        count += found;
        if (found || !glob) continue;
        fe_selector s = {.glob = glob, .span = a->span};
        report_selector(e, &s, "value", true);
        return;
    }
    if (count > 1) return;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E045", a->span, "`%s` is one value: there is nothing to agree with", a->globs);
    fe_help(&r, "agree = [\"first\", \"second\"]");
    fe_send(&r);
}

void fe_check_selectors(fe_elab *e) {
    mpc_model *m = e->m;
    if (m->params_checked) return;
    m->params_checked = true;
    for (size_t i = 0; i < m->params.count; i++)
        if (!m->params.data[i].matched) report_selector(e, &m->params.data[i], "parameter", false);
    for (size_t i = 0; i < m->policy.count; i++)
        if (!m->policy.data[i].matched)
            report_selector(e, &m->policy.data[i], m->policy.data[i].is_op ? "op of this model" : "value", true);
    for (size_t i = 0; i < m->agreements.count && e->b; i++) check_agreement(e, &m->agreements.data[i]);
}
