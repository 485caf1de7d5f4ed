/* States: parameters with what the `params` section says of them, running statistics, the random generator's; and
 * precision policies. A path belongs to one call. A layer that is applied again finds its parameters under their paths,
 * and they must have the same shape. */
#include <string.h>

#include "frontend/fe_params.h"

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

bool fe_norm_frozen(fe_elab *e, const char *path) {
    static const fe_init none = {.kind = FE_INIT_ONES};
    return fe_resolve_param(e, fe_format(e, "%s.weight", path), &none).frozen_norm;
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

/* State `name`, whose value is called `path`. */
static fe_value build_state(fe_call *c, const char *name, const char *path, mpc_type_id type, const mpc_attr_arg *attrs,
                            uint32_t count) {
    fe_elab *e = c->e;
    fe_set_place(e, c->at->span);
    if (!type) {
        fe_error(e->d, "E017", c->at->span, "`%s` would be too large", path);
        return FE_POISONED;
    }
    mpc_builder_set_name(e->b, path);
    mpc_value_id id = mpc_build_state(e->b, name, type, attrs, count);
    if (id == MPC_NONE) e->failed = true;
    return id == MPC_NONE ? FE_POISONED : fe_tensor_value(e, id, c->at->span);
}

/* Formats that the update rounds parameters to when they have no master. */
static mpc_format stored_format(const fe_elab *e, const fe_param_settings *r) {
    mpc_format low = mpc_format_find(e->m->config.precision);
    bool can = low == MPC_FMT_bf16 || low == MPC_FMT_f16;
    return can && strcmp(r->weights, "master") != 0 ? low : MPC_FMT_none;
}

static fe_value build_param(fe_call *c, const char *path, const fe_param_settings *r, uint32_t rank,
                            const int64_t *dims) {
    fe_concrete_init k = fe_init_for(r->init, rank, dims);
    bool random = strcmp(r->weights, "stochastic") == 0;
    mpc_attr_arg attrs[] = {MPC_A_STR("role", "param"),
                            MPC_A_BOOL("trainable", !r->frozen),
                            MPC_A_STR("init", r->load ? "file" : k.kind),
                            MPC_A_FLOAT("a", r->load ? 0 : k.a),
                            MPC_A_FLOAT("b", r->load ? 0 : k.b),
                            MPC_A_FLOAT("decay", r->decay),
                            MPC_A_FLOAT("lr", r->lr),
                            MPC_A_INT("group", r->group),
                            MPC_A_STR("numbered", c->numbered),
                            MPC_A_FLOAT("ema", r->frozen ? 0 : r->ema),
                            MPC_A_FORMAT("stored", stored_format(c->e, r)),
                            MPC_A_STR("rounding", random ? "stochastic" : "nearest"),
                            MPC_A_STR("path", r->load ? r->load : ""),
                            MPC_A_STR("from", r->load ? r->name_in_file : "")};
    mpc_type_id type = mpc_type_make(c->e->ctx, MPC_FMT_f32, rank, dims);
    return build_state(c, path, path, type, attrs, sizeof attrs / sizeof *attrs);
}

/* Evaluation and prediction read the average of a parameter that has one. */
static bool averages(const fe_elab *e, const fe_param_settings *r) {
    return e->phase != MPC_PHASE_TRAIN && r->ema > 0 && !r->frozen;
}

static fe_value build_average(fe_call *c, const char *path, uint32_t rank, const int64_t *dims) {
    mpc_attr_arg attrs[] = {MPC_A_STR("role", "ema"), MPC_A_STR("init", "copy")};
    const char *name = fe_format(c->e, "%s/ema", path);
    return build_state(c, name, path, mpc_type_make(c->e->ctx, MPC_FMT_f32, rank, dims), attrs, 2);
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
    fe_param_settings r = fe_resolve_param(e, path, init);
    r.group = r.frozen ? 0 : fe_group_of_parameter(e, path, c->at->span);
    fe_param p = {.path = path, .frozen = r.frozen, .group = r.group};
    p.value = averages(e, &r) ? build_average(c, path, rank, dims) : build_param(c, path, &r, rank, dims);
    return remember(c, p);
}

fe_value fe_make_stat(fe_call *c, const char *suffix, int64_t size, bool ones) {
    fe_elab *e = c->e;
    if (!parameters_allowed(c)) return FE_POISONED;
    const char *path = fe_format(e, "%s.%s", c->path, suffix);
    fe_param *old = NULL;
    if (!path_is_free(c, path, &old)) return FE_POISONED;
    if (old) return reuse(c, old, 1, &size);
    static const fe_init none = {.kind = FE_INIT_ZEROS};
    fe_param_settings r = fe_resolve_param(e, path, &none);
    mpc_attr_arg attrs[4] = {MPC_A_STR("role", "stat"), MPC_A_STR("init", ones ? "ones" : "zeros")};
    uint32_t count = 2;
    if (r.load) { /* where the file has it: weights files of ours don't */
        attrs[count++] = MPC_A_STR("path", r.load);
        attrs[count++] = MPC_A_STR("from", r.name_in_file);
    }
    fe_param p = {.path = path, .is_stat = true, .frozen = true};
    p.value = build_state(c, path, path, mpc_type_make(e->ctx, MPC_FMT_f32, 1, &size), attrs, count);
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
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E045", a->span, "`%s` is one value: there is nothing to agree with", a->globs);
    fe_help(&r, "agree = [\"first\", \"second\"]");
    fe_send(&r);
}

/* `"**.norm*.*", "**.bias" { ... }` says one thing of all it finds: one selector that finds something is enough. */
static bool line_matches(const mpc_model *m, const fe_selector *s) {
    for (size_t i = 0; i < m->params.count; i++)
        if (m->params.data[i].entries == s->entries && m->params.data[i].matched) return true;
    return false;
}

void fe_check_selectors(fe_elab *e) {
    mpc_model *m = e->m;
    if (m->params_checked) return;
    m->params_checked = true;
    for (size_t i = 0; i < m->params.count; i++) {
        const fe_selector *s = &m->params.data[i];
        if (s->matched) continue;
        if (line_matches(m, s))
            fe_warning(e->d, "W108", s->span, "`%s` matches no parameter; others of its line do", s->glob);
        else report_selector(e, s, "parameter", false);
    }
    for (size_t i = 0; i < m->freeze.count; i++)
        if (!m->freeze.data[i].matched) report_selector(e, &m->freeze.data[i], "parameter", false);
    for (size_t i = 0; i < m->policy.count; i++)
        if (!fe_check_policy_line(e, &m->policy.data[i]))
            report_selector(e, &m->policy.data[i], m->policy.data[i].is_op ? "op of this model" : "value", true);
    for (size_t i = 0; i < m->agreements.count && e->b; i++) check_agreement(e, &m->agreements.data[i]);
}
