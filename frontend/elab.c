/* One elaboration: sets up the walk, runs the model's body, binds next values and outputs, and hands over a pruned
 * graph. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_elab.h"

void *fe_alloc(fe_elab *e, size_t size) {
    void *p = e->failed ? NULL : mpc_arena_alloc(e->arena, size);
    if (!p) fe_no_memory_value(e);
    return p;
}

fe_value fe_no_memory_value(fe_elab *e) {
    e->failed = true;
    return FE_POISONED;
}

const char *fe_format(fe_elab *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mpc_str s = {0};
    mpc_str_vprintf(&s, format, args);
    va_end(args);
    char *text = s.failed ? NULL : mpc_arena_strndup(e->arena, mpc_str_cstr(&s), s.length);
    e->work += s.length / FE_TEXT_PER_WORK;
    mpc_str_free(&s);
    if (!text) fe_no_memory_value(e);
    return text ? text : "";
}

static void add_chain(void *user, fe_report *r) {
    fe_elab *e = user;
    for (const fe_frame *f = e->frame; f && f->caller; f = f->caller) {
        if (!f->item || !f->call.file) continue;
        const char *turns = f->caller->turns;
        fe_note(r, (mpc_span){0}, "called from %s%s%s%s", fe_place_text(e->d, f->call), *turns ? " (" : "", turns,
                *turns ? ")" : "");
    }
}

static bool begin(fe_elab *e, mpc_model *m) {
    *e = (fe_elab){
        .m = m, .ctx = m->ctx, .d = &m->diag, .rng_seed = MPC_NONE, .rng_step = MPC_NONE, .batch = m->config.batch};
    e->arena = mpc_arena_create();
    e->param_index = mpc_map_create();
    e->streams = mpc_map_create();
    size_t n = m->consts.count;
    e->consts = e->arena ? mpc_arena_alloc(e->arena, (n + 1) * sizeof *e->consts) : NULL;
    e->const_busy = e->arena ? mpc_arena_alloc(e->arena, n + 1) : NULL;
    if (!e->param_index || !e->streams || !e->consts || !e->const_busy) return false;
    for (size_t i = 0; i < n; i++) e->consts[i].kind = FE_HOLE;
    m->diag.chain = add_chain;
    m->diag.chain_user = e;
    return true;
}

static void end(fe_elab *e) {
    while (e->frame) fe_pop_frame(e);
    mpc_builder_destroy(e->b);
    mpc_map_destroy(e->param_index);
    mpc_map_destroy(e->streams);
    mpc_array_free(&e->params);
    mpc_array_free(&e->fields);
    mpc_array_free(&e->losses);
    mpc_array_free(&e->claims);
    mpc_str_free(&e->scratch);
    mpc_arena_destroy(e->arena);
    e->m->diag.chain = NULL;
    e->m->diag.chain_user = NULL;
}

fe_value fe_eval_constant(mpc_model *m, const fe_ast *expr) {
    fe_elab e;
    fe_value v = begin(&e, m) ? fe_eval(&e, expr, NULL) : FE_POISONED;
    if (e.failed) m->diag.no_memory = true;
    /* what outlives this elaboration is copied to the model's arena */
    if (v.kind == FE_LIST) {
        fe_value *items = mpc_arena_alloc(m->arena, (v.count + 1) * sizeof *items);
        if (items && v.count) memcpy(items, v.items, v.count * sizeof *items);
        v.items = items;
        if (!items) v = FE_POISONED;
    } else if (v.kind == FE_INIT) {
        fe_init *init = mpc_arena_alloc(m->arena, sizeof *init);
        if (init) *init = *v.init;
        v.init = init;
        if (!init) v = FE_POISONED;
    }
    end(&e);
    return v;
}

/* Statistics move in training; the draw counter moves always. */
static void bind_nexts(fe_elab *e) {
    for (size_t i = 0; i < e->params.count && e->phase == MPC_PHASE_TRAIN; i++) {
        const fe_param *p = &e->params.data[i];
        if (p->is_stat && p->latest != p->value.t->id) mpc_build_next(e->b, p->value.t->id, p->latest);
    }
    if (e->rng_step == MPC_NONE) return;
    fe_set_place(e, (mpc_span){0});
    mpc_value_id one = mpc_build_const(e->b, 1, MPC_FMT_i32);
    mpc_builder_set_name(e->b, "rng.step.next");
    mpc_value_id next = mpc_build2(e->b, MPC_OP_add, e->rng_step, one);
    mpc_build_next(e->b, e->rng_step, next);
}

static void run_model(fe_elab *e) {
    static const char *const names[] = {"train", "eval", "predict", "measure"};
    e->b = mpc_builder_create(e->ctx, names[e->phase]);
    if (!e->b || !fe_push_frame(e, e->m->item, (mpc_span){0}, "")) {
        e->failed = true;
        return;
    }
    fe_read_claims(e);
    fe_map_inputs(e);
    if (e->phase == MPC_PHASE_MEASURE) return;
    fe_run_body(e, &e->m->item->other);
    fe_finish_losses(e);
    if (e->failed || e->d->errors) return;
    fe_check_layers(e, e->frame);
    fe_warn_unused(e, 0);
    fe_check_selectors(e);
    fe_check_claims(e);
    if (!e->d->errors) bind_nexts(e);
}

static void check_ends(fe_elab *e) {
    if (e->failed || e->d->errors) return;
    if (e->phase == MPC_PHASE_PREDICT && !mpc_builder_graph(e->b)->output_count) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E054", e->m->item->name_span,
                               "model `%s` has no output to predict", e->m->item->text);
        fe_help(&r, fe_text_source(e->m) ? "say what predict goes on from: output logits = logits"
                                         : "say what predict writes: output p = softmax(logits)");
        fe_send(&r);
    }
    if (e->phase == MPC_PHASE_TRAIN && !e->losses.count) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E054", e->m->item->name_span, "model `%s` has no loss to train on",
                               e->m->item->text);
        fe_help(&r, "say what is minimised: loss ce = cross_entropy(logits, label)");
        fe_send(&r);
    }
}

mpc_graph *mpc_model_elaborate(mpc_model *m, mpc_phase phase, int64_t batch, const mpc_data_facts *facts) {
    static const mpc_data_facts none = {0};
    fe_elab e;
    mpc_graph *out = NULL;
    fe_diag_restart(&m->diag);
    if (begin(&e, m)) {
        e.phase = phase;
        e.batch = batch;
        e.facts = facts ? facts : &none;
        run_model(&e);
        check_ends(&e);
        bool good = e.b && !e.failed && !m->diag.errors && !m->diag.no_memory;
        mpc_graph *g = good ? mpc_builder_finish(e.b) : NULL;
        if (good) e.b = NULL;
        if (g && phase == MPC_PHASE_TRAIN) fe_check_reached(&e, g);
        if (g && !m->diag.errors && !m->diag.no_memory && !e.failed) out = fe_prune(&e, g);
        mpc_graph_destroy(g);
        if (good && !g) m->diag.errors++; /* the builder has said why */
    } else e.failed = true;
    bool silent = e.failed && !(e.b && mpc_builder_failed(e.b));
    end(&e);
    if (silent || m->diag.no_memory) fe_no_memory(&m->diag);
    return out;
}
