/* The values that the data section standardizes, over all rows of the training split in the order of the file: one
 * pass, Welford's update in f64. The values are made in f32 on the processor whatever device and precision the training
 * has, so all of them start from the same numbers. A feature that is the same in every row gets deviation 1. */
#include "driver/standardize.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

typedef struct feature_sums {
    double mean, squares; /* of the rows seen; sum of squared distances from the mean */
    double count;
} feature_sums;

typedef struct measure {
    mpc_step *step; /* of full batches, then of the last one */
    mpc_dataset *d;
    feature_sums **sums; /* by output */
    uint32_t *rows;
} measure;

static int64_t features_of(const mpc_type *t) { return t->rank > 1 ? t->dims[t->rank - 1] : 1; }

static void add_values(feature_sums *sums, const mpc_type *t, const float *x) {
    int64_t features = features_of(t), n = mpc_type_elements(t);
    for (int64_t i = 0; i < n; i++) {
        feature_sums *f = &sums[i % features];
        double distance = (double)x[i] - f->mean;
        f->count++;
        f->mean += distance / f->count;
        f->squares += distance * ((double)x[i] - f->mean);
    }
}

static bool add_batch(measure *m, int64_t first) {
    mpc_exec *e = m->step->exec;
    for (int64_t i = 0; i < m->step->batch; i++) m->rows[i] = (uint32_t)(first + i);
    if (!mpc_step_feed(m->step, m->d, m->rows) || !mpc_step_run(m->step)) return false;
    for (uint32_t k = 0; k < e->output_count; k++) add_values(m->sums[k], &e->output_types[k], e->vtable->output(e, k));
    return true;
}

static bool add_rows(measure *m, mpc_session *probe) {
    int64_t n = mpc_dataset_rows(m->d), at = 0;
    for (; at + m->step->batch <= n; at += m->step->batch)
        if (!add_batch(m, at)) return false;
    if (at == n) return true;
    mpc_step_destroy(m->step);
    m->step = mpc_step_create(probe, MPC_PHASE_MEASURE, n - at);
    return m->step && mpc_step_bind(m->step, m->d) && add_batch(m, at);
}

static bool put(mpc_store *store, const char *path, const char *what, const feature_sums *sums, int64_t features,
                const mpc_sink *sink) {
    mpc_str name = {0};
    mpc_str_printf(&name, "%s.%s", path, what);
    mpc_store_entry *e = name.failed ? NULL : mpc_store_find(store, name.data, MPC_FMT_none);
    mpc_str_free(&name);
    if (!e || e->bytes != (uint64_t)features * sizeof(float)) return true; /* nothing of this graph reads it */
    for (int64_t i = 0; i < features; i++) {
        double deviation = sqrt(sums[i].squares / sums[i].count);
        float v = (float)(strcmp(what, "mean") == 0 ? sums[i].mean : deviation > 0 ? deviation : 1);
        if (v == 0 && what[0] == 'd') v = 1; /* f32 has nothing so small */
        if (!isfinite(v)) {
            mpc_error(sink, "E213", "%s: the %s of feature %lld over the training rows is not finite", path, what,
                      (long long)i);
            return false;
        }
        memcpy((char *)e->data + (size_t)i * sizeof v, &v, sizeof v);
    }
    return true;
}

static bool write_states(const measure *m, mpc_store *store, const mpc_sink *sink) {
    const mpc_exec *e = m->step->exec;
    if (mpc_store_to_host(store) != MPC_OK) return false;
    for (uint32_t k = 0; k < e->output_count; k++) {
        int64_t features = features_of(&e->output_types[k]);
        if (!put(store, e->outputs[k].name, "mean", m->sums[k], features, sink) ||
            !put(store, e->outputs[k].name, "deviation", m->sums[k], features, sink))
            return false;
    }
    return mpc_store_derive(store) == MPC_OK;
}

static bool make_sums(measure *m, mpc_arena *arena) {
    const mpc_exec *e = m->step->exec;
    m->rows = mpc_arena_alloc(arena, (size_t)m->step->batch * sizeof *m->rows);
    m->sums = mpc_arena_alloc(arena, e->output_count * sizeof *m->sums);
    for (uint32_t k = 0; m->sums && k < e->output_count; k++) {
        size_t bytes = (size_t)features_of(&e->output_types[k]) * sizeof(feature_sums);
        m->sums[k] = mpc_arena_alloc(arena, bytes);
        if (!m->sums[k]) return false;
        memset(m->sums[k], 0, bytes);
    }
    return m->rows && m->sums;
}

static bool measure_all(mpc_session *probe, mpc_store *store, mpc_dataset *d, mpc_arena *arena) {
    measure m = {.d = d, .step = mpc_step_create(probe, MPC_PHASE_MEASURE, mpc_session_batch(probe, d))};
    bool ok = m.step && mpc_step_bind(m.step, d);
    if (ok && !make_sums(&m, arena)) {
        mpc_error(probe->sink, "E901", "out of memory");
        ok = false;
    }
    ok = ok && add_rows(&m, probe) && write_states(&m, store, probe->sink);
    mpc_step_destroy(m.step);
    return ok;
}

/* Some mapping standardizes. false in *ok after diagnostics. */
static bool is_needed(const mpc_session *s, bool *ok) {
    mpc_graph *g = mpc_model_elaborate(s->model, MPC_PHASE_MEASURE, 1, &s->facts);
    bool needed = g && g->output_count > 0;
    *ok = g != NULL;
    mpc_graph_destroy(g);
    return needed;
}

bool mpc_standardize(const mpc_session *s, mpc_store *store, mpc_dataset *d) {
    bool ok;
    if (!is_needed(s, &ok)) return ok;
    mpc_train_config config = *s->train;
    config.precision = "f32";
    mpc_session probe = mpc_session_beside(s, &config, mpc_assignment_create());
    probe.keep_composites = probe.each_gradient = false;
    probe.device = s->device == MPC_DEVICE_REF ? MPC_DEVICE_REF : MPC_DEVICE_CPU;
    mpc_arena *arena = mpc_arena_create();
    ok = probe.assignment && arena;
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    ok = ok && measure_all(&probe, store, d, arena);
    mpc_store_destroy(probe.store);
    mpc_assignment_destroy(probe.assignment);
    mpc_arena_destroy(arena);
    return ok;
}
