/* Programs built by hand: buffers one after the other in the arena, launches in order. */
#ifndef MPC_TESTS_PROGRAM_SUPPORT_H
#define MPC_TESTS_PROGRAM_SUPPORT_H

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numfmt.h"
#include "base/rng.h"
#include "ir/builder.h"
#include "runtime/cpu/cpu_exec.h"
#include "runtime/store_layout.h"
#include "tests/check.h"

enum { MAX_BUFFERS = 64, MAX_LAUNCHES = 32 };

typedef struct fixture {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *graph;
    mpc_store *store;
    mpc_program program;
    mpc_buffer buffers[MAX_BUFFERS];
    mpc_launch launches[MAX_LAUNCHES];
    mpc_program_input inputs[8];
    mpc_program_output outputs[8];
    char cache[64];
} fixture;

/* `states`: text of `state` lines is not needed by most tests: an empty graph. The builder is finished and its states
 * are stored. */
static inline void fixture_create(fixture *f, mpc_builder *(*make)(mpc_context *ctx)) {
    memset(f, 0, sizeof *f);
    f->sources = mpc_sources_create();
    f->diags = mpc_diag_list_create();
    f->sink = mpc_diag_list_sink(f->diags);
    f->ctx = mpc_context_create(&f->sink, f->sources);
    f->graph = mpc_builder_finish(make ? make(f->ctx) : mpc_builder_create(f->ctx, "empty"));
    f->store = mpc_store_create(f->graph, &f->sink);
    f->program = (mpc_program){.ctx = f->ctx,
                               .name = "test",
                               .prelude = "#include <stdint.h>\n",
                               .buffers = f->buffers,
                               .launches = f->launches,
                               .inputs = f->inputs,
                               .outputs = f->outputs};
    strcpy(f->cache, "/tmp/mpc-test-XXXXXX");
    if (!mkdtemp(f->cache)) f->cache[0] = 0;
}

static inline void fixture_destroy(fixture *f) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->cache);
    if (strncmp(f->cache, "/tmp/mpc-test-", 14) == 0 && system(command) != 0) fprintf(stderr, "left %s\n", f->cache);
    mpc_store_destroy(f->store);
    mpc_graph_destroy(f->graph);
    mpc_context_destroy(f->ctx);
    mpc_diag_list_destroy(f->diags);
    mpc_sources_destroy(f->sources);
}

static inline void fixture_show_diags(const fixture *f) {
    for (size_t i = 0; i < mpc_diag_list_count(f->diags); i++)
        fprintf(stderr, "%s: %s\n", mpc_diag_list_get(f->diags, i)->code, mpc_diag_list_get(f->diags, i)->message);
}

static inline mpc_pointer add_buffer(fixture *f, const char *name, mpc_format format, int64_t elements) {
    mpc_program *p = &f->program;
    mpc_buffer *b = &f->buffers[p->buffer_count];
    *b = (mpc_buffer){
        .name = name, .type = {.format = format, .rank = 1, .dims = {elements}}, .cls = MPC_BUF_ACTIVATION};
    b->bytes = (uint64_t)elements * mpc_format_get(format)->bytes;
    b->offset = p->arena_bytes;
    p->arena_bytes += (b->bytes + 127) / 64 * 64;
    return (mpc_pointer){.buffer = p->buffer_count++};
}

static inline mpc_pointer add_state(fixture *f, const char *name, mpc_format derived, mpc_format format,
                                    int64_t elements) {
    mpc_pointer p = {.buffer = f->program.buffer_count++};
    mpc_buffer *b = &f->buffers[p.buffer];
    *b = (mpc_buffer){.name = name,
                      .state = name,
                      .derived = derived,
                      .is_state = true,
                      .cls = MPC_BUF_CONTROL,
                      .type = {.format = format, .rank = elements == 1 ? 0 : 1, .dims = {elements}}};
    b->bytes = (uint64_t)elements * mpc_format_get(format)->bytes;
    return p;
}

static inline mpc_launch *add_launch(fixture *f, mpc_launch_kind kind, const char *name) {
    mpc_launch *l = &f->launches[f->program.launch_count++];
    l->kind = kind;
    l->name = name;
    l->op = name;
    l->flops = 1e9;
    return l;
}

static inline mpc_exec *load(fixture *f, unsigned threads, bool no_onednn) {
    mpc_exec_options options = {.threads = threads, .cache_dir = f->cache, .no_onednn = no_onednn};
    mpc_exec *e = mpc_cpu_load(&f->program, f->store, &options, &f->sink);
    if (!e) fixture_show_diags(f);
    return e;
}

static inline void *buffer_data(mpc_exec *e, mpc_pointer p) { return ((mpc_cpu_exec *)e)->buffers[p.buffer]; }

/* In [-2, 2), the same for every format; a cheap hash. */
static inline double sample_value(uint64_t stream, int64_t i) {
    uint64_t z = ((uint64_t)i + stream * 0x1000003) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (double)(z >> 40) * 0x1p-22 - 2;
}

static inline void fill_random(mpc_exec *e, mpc_pointer p, uint64_t stream) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    const mpc_type *type = &x->program->buffers[p.buffer].type;
    int64_t n = mpc_type_elements(type);
    for (int64_t i = 0; i < n; i++) mpc_element_set(type->format, buffer_data(e, p), i, sample_value(stream, i));
}

/* Values as doubles; the caller frees. */
static inline double *read_values(mpc_exec *e, mpc_pointer p) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    const mpc_type *type = &x->program->buffers[p.buffer].type;
    int64_t n = mpc_type_elements(type);
    double *out = mpc_alloc((size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = mpc_element_get(type->format, buffer_data(e, p), i);
    return out;
}

/* Half a unit in the last place of the result's format, and the error of an f32 sum of `terms` terms whose magnitudes
 * add up to `size`. */
static inline double sum_bound(mpc_format format, double value, double size, int64_t terms) {
    const mpc_numfmt *fmt = &mpc_format_get(format)->fmt;
    double rounding = fabs(value) * ldexp(1, -fmt->fraction_bits - 1) + mpc_numfmt_min_subnormal(fmt) / 2;
    return rounding * 1.01 + size * ldexp(1, -24) * (4 + sqrt((double)terms) * 4);
}

#endif
