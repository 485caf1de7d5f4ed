/* Random graphs of elementwise ops, reductions, broadcasts, views, matmuls and states in several formats: fused and
 * unfused programs agree to the bit, in whatever order units run; exactly rounded ops agree with the evaluator to the
 * bit, the rest closely; the memory plan is legal. Arguments: first seed, number of seeds. */
#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ir/infer.h"
#include "passes/pass.h"
#include "run.h"

enum { POOL = 200, DEFAULT_SEEDS = 8 /* also what is compiled at a time */ };

typedef struct random_graph {
    mpc_builder *b;
    uint64_t seed;
    uint32_t drawn;
    mpc_value_id values[POOL];
    uint32_t count;
    int64_t dims[4];
} random_graph;

static uint32_t draw(random_graph *r, uint32_t n) { return mpc_random_bits(r->seed, 1, 2, r->drawn++) % n; }

static const mpc_type *type_of(const random_graph *r, mpc_value_id v) { return mpc_builder_type(r->b, v); }

static void keep(random_graph *r, mpc_value_id v) {
    if (v != MPC_NONE && r->count < POOL) r->values[r->count++] = v;
}

static mpc_value_id any_value(random_graph *r, mpc_format_kind kind) {
    for (int tries = 0; tries < 60; tries++) {
        uint32_t back = draw(r, 2) ? draw(r, r->count) : draw(r, r->count < 6 ? r->count : 6);
        mpc_value_id v = r->values[r->count - 1 - back];
        if (mpc_format_get(type_of(r, v)->format)->kind == kind) return v;
    }
    return r->values[0];
}

static bool fit(const mpc_type *a, const mpc_type *b) {
    mpc_type out;
    return mpc_broadcast(a, b, &out) && mpc_type_elements(&out) < 60000;
}

static mpc_value_id partner(random_graph *r, mpc_value_id a, mpc_format_kind kind) {
    for (int tries = 0; tries < 60; tries++) {
        mpc_value_id v = any_value(r, kind);
        if (mpc_format_get(type_of(r, v)->format)->kind == kind && fit(type_of(r, a), type_of(r, v))) return v;
    }
    return MPC_NONE;
}

static const mpc_format float_formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16, MPC_FMT_f32, MPC_FMT_f8e4m3};
/* bounded results: chains stay finite */
static const mpc_op_id unary[] = {MPC_OP_neg,  MPC_OP_abs, MPC_OP_tanh, MPC_OP_sigmoid,
                                  MPC_OP_relu, MPC_OP_erf, MPC_OP_sin,  MPC_OP_cos};
static const mpc_op_id binary[] = {MPC_OP_add, MPC_OP_sub, MPC_OP_mul, MPC_OP_maximum, MPC_OP_minimum};
static const mpc_op_id comparisons[] = {MPC_OP_lt, MPC_OP_ge, MPC_OP_eq, MPC_OP_ne};

static mpc_value_id add_elementwise(random_graph *r) {
    mpc_value_id a = any_value(r, MPC_FORMAT_FLOAT), c = MPC_NONE;
    switch (draw(r, 6)) {
    case 0:
        return mpc_build1(r->b, unary[draw(r, 8)], a);
    case 1:
        return mpc_build_cast(r->b, a, float_formats[draw(r, 5)], "user");
    case 2:
        c = partner(r, a, MPC_FORMAT_FLOAT);
        return c == MPC_NONE ? c : mpc_build2(r->b, comparisons[draw(r, 4)], a, c);
    case 3: {
        mpc_value_id mask = partner(r, a, MPC_FORMAT_BOOL);
        c = partner(r, a, MPC_FORMAT_FLOAT);
        if (mask == MPC_NONE || c == MPC_NONE || mpc_format_get(type_of(r, mask)->format)->kind != MPC_FORMAT_BOOL ||
            !fit(type_of(r, mask), type_of(r, c)))
            return MPC_NONE;
        return mpc_build3(r->b, MPC_OP_where, mask, a, c);
    }
    default:
        c = partner(r, a, MPC_FORMAT_FLOAT);
        return c == MPC_NONE ? c : mpc_build2(r->b, binary[draw(r, 5)], a, c);
    }
}

static mpc_value_id add_reduce(random_graph *r) {
    static const mpc_op_id ops[] = {MPC_OP_sum, MPC_OP_max, MPC_OP_min};
    mpc_value_id a = any_value(r, MPC_FORMAT_FLOAT);
    const mpc_type t = *type_of(r, a);
    int64_t axes[MPC_MAX_RANK];
    uint32_t count = 0;
    if (t.rank == 0) return MPC_NONE;
    uint32_t how = draw(r, 4); /* trailing, leading, all, any */
    for (uint32_t i = 0; i < t.rank; i++) {
        bool take = how == 0 ? i + 1 == t.rank : how == 1 ? i + 1 < t.rank : how == 2 ? true : draw(r, 2) == 0;
        if (take) axes[count++] = i;
    }
    if (count == 0) return MPC_NONE;
    /* sums are scaled down so that values stay small */
    mpc_value_id s =
        mpc_build_reduce(r->b, ops[draw(r, 3)], mpc_build_cast(r->b, a, MPC_FMT_f32, "user"), axes, count, draw(r, 2));
    return mpc_build2(r->b, MPC_OP_mul, s, mpc_build_const(r->b, 0.0625, MPC_FMT_f32));
}

static mpc_value_id add_view(random_graph *r) {
    mpc_value_id a = any_value(r, MPC_FORMAT_FLOAT);
    const mpc_type t = *type_of(r, a);
    int64_t dims[MPC_MAX_RANK], start[MPC_MAX_RANK];
    if (t.rank < 2) return MPC_NONE;
    switch (draw(r, 5)) {
    case 0: /* the first two axes as one */
        dims[0] = t.dims[0] * t.dims[1];
        for (uint32_t i = 2; i < t.rank; i++) dims[i - 1] = t.dims[i];
        return mpc_build_reshape(r->b, a, t.rank - 1, dims);
    case 1:
        for (uint32_t i = 0; i < t.rank; i++) dims[i] = i;
        dims[t.rank - 1] = t.rank - 2, dims[t.rank - 2] = t.rank - 1;
        return mpc_build_transpose(r->b, a, dims);
    case 2:
        for (uint32_t i = 0; i < t.rank; i++) start[i] = i + 1 == t.rank ? t.dims[i] / 3 : 0, dims[i] = t.dims[i];
        return mpc_build(r->b, MPC_OP_slice, &a, 1,
                         (mpc_attr_arg[]){MPC_A_INTS("start", start, t.rank), MPC_A_INTS("stop", dims, t.rank)}, 2);
    case 3:
        for (uint32_t i = 0; i < t.rank; i++) start[i] = i % 2, dims[i] = (i + 1) % 2;
        if (mpc_type_elements(&t) > 20000) return MPC_NONE;
        return mpc_build(r->b, MPC_OP_pad, &a, 1,
                         (mpc_attr_arg[]){MPC_A_INTS("before", start, t.rank), MPC_A_INTS("after", dims, t.rank),
                                          MPC_A_FLOAT("value", 0.5)},
                         3);
    default:
        return mpc_type_elements(&t) > 20000 ? MPC_NONE
                                             : mpc_build(r->b, MPC_OP_concat, (mpc_value_id[]){a, a}, 2,
                                                         &MPC_A_INT("axis", (int)draw(r, t.rank)), 1);
    }
}

/* Scores of a with itself: both operands, or the result, through transposes. */
static mpc_value_id add_matmul(random_graph *r) {
    mpc_value_id a = any_value(r, MPC_FORMAT_FLOAT);
    const mpc_type t = *type_of(r, a);
    if (t.rank < 2 || t.rank > 4 || mpc_type_elements(&t) > 8000 || t.dims[t.rank - 1] > 60 || t.dims[t.rank - 2] > 60)
        return MPC_NONE;
    int64_t perm[MPC_MAX_RANK] = {0, 1, 2, 3};
    perm[t.rank - 1] = t.rank - 2, perm[t.rank - 2] = t.rank - 1;
    mpc_value_id turned = mpc_build_transpose(r->b, a, perm);
    mpc_value_id c = draw(r, 2) ? mpc_build2(r->b, MPC_OP_matmul, a, turned)
                                : mpc_build(r->b, MPC_OP_matmul, (mpc_value_id[]){a, a}, 2, &MPC_A_BOOL("tb", true), 1);
    if (draw(r, 2)) c = mpc_build_transpose(r->b, c, perm);
    return mpc_build2(r->b, MPC_OP_mul, c, mpc_build_const(r->b, 0.03125, MPC_FMT_f32));
}

static void add_inputs(random_graph *r, mpc_context *ctx) {
    const int64_t *d = r->dims;
    const mpc_type types[] = {{MPC_FMT_f32, 3, {d[0], d[1], d[2]}},
                              {MPC_FMT_bf16, 3, {d[0], d[1], d[2]}},
                              {MPC_FMT_f32, 1, {d[2]}},
                              {MPC_FMT_f32, 3, {d[0], d[1], 1}},
                              {MPC_FMT_f16, 4, {d[0], d[3], d[1], d[2]}},
                              {MPC_FMT_f32, 0, {0}},
                              {MPC_FMT_bf16, 2, {d[1], d[2]}},
                              {MPC_FMT_bool, 2, {d[1], d[2]}},
                              {MPC_FMT_f32, 2, {d[0] * d[1], d[2]}},
                              {MPC_FMT_i32, 3, {d[0], d[1], 1}}};
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[8];
        snprintf(name, sizeof name, "x%u", i);
        mpc_value_id v =
            mpc_build_input(r->b, name, mpc_type_make(ctx, types[i].format, types[i].rank, types[i].dims), NULL, 0);
        keep(r, types[i].format == MPC_FMT_i32 ? mpc_build_cast(r->b, v, MPC_FMT_f32, "user") : v);
    }
}

static void add_states(random_graph *r, mpc_context *ctx) {
    for (uint32_t i = 0; i < 4; i++) {
        char name[8];
        mpc_format format = i == 3 ? MPC_FMT_bf16 : MPC_FMT_f32;
        snprintf(name, sizeof name, "s%u", i);
        mpc_value_id s = mpc_build_state(r->b, name, mpc_type_make(ctx, format, i == 1 ? 0 : 3, r->dims), NULL, 0);
        keep(r, s);
        mpc_value_id n = mpc_build2(r->b, MPC_OP_mul, s, mpc_build_const(r->b, 0.5, format));
        if (draw(r, 2))
            n = mpc_build3(r->b, MPC_OP_where,
                           mpc_build2(r->b, MPC_OP_lt, r->values[5], mpc_build_const(r->b, 0.25 * i, MPC_FMT_f32)), n,
                           s);
        mpc_build_next(r->b, s, n);
    }
}

static mpc_graph *make_graph(mpc_context *ctx, uint64_t seed) {
    static const int64_t sizes[][4] = {{3, 5, 19, 2},  {2, 16, 32, 4},  {7, 1, 10, 3},
                                       {5, 33, 64, 2}, {1, 40, 129, 2}, {40, 60, 16, 1}};
    random_graph r = {.b = mpc_builder_create(ctx, "g"), .seed = seed};
    memcpy(r.dims, sizes[draw(&r, 6)], sizeof r.dims);
    add_inputs(&r, ctx);
    add_states(&r, ctx);
    uint32_t steps = 10 + draw(&r, 50);
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t what = draw(&r, 12);
        keep(&r, what < 8    ? add_elementwise(&r)
                 : what < 10 ? add_reduce(&r)
                 : what < 11 ? add_view(&r)
                             : add_matmul(&r));
    }
    for (uint32_t i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "o%u", i);
        mpc_build_output(r.b, name, r.values[r.count - 1 - draw(&r, 12)]);
    }
    return mpc_builder_finish(r.b);
}

/* --- values --- */

static void fill_tensor(mpc_tensor *t, uint64_t seed, uint32_t stream) {
    int64_t n = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < n; i++) {
        double u = 2 * (double)mpc_random_uniform(seed, stream, 0, (uint64_t)i) - 1;
        t->data[i] = mpc_round_to(t->type.format, t->type.format == MPC_FMT_i32    ? u * 9
                                                  : t->type.format == MPC_FMT_bool ? u > 0
                                                                                   : u);
    }
}

typedef struct reference {
    mpc_arena *arena;
    mpc_tensor inputs[16];
    mpc_tensor *values;
    uint64_t seed;
} reference;

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    reference *ref = user;
    mpc_tensor t = mpc_tensor_make(ref->arena, mpc_value_type(g, mpc_result(state, 0)));
    fill_tensor(&t, ref->seed, (uint32_t)(100 + mpc_hash_str(mpc_attr_str(g, state, "name")) % 1000));
    return t;
}

static bool evaluate(reference *ref, const mpc_graph *g, uint64_t seed) {
    *ref = (reference){.arena = mpc_arena_create(), .seed = seed};
    for (uint32_t i = 0; i < g->input_count; i++) {
        ref->inputs[i] = mpc_tensor_make(ref->arena, mpc_value_type(g, g->inputs[i].value));
        fill_tensor(&ref->inputs[i], seed, i);
    }
    ref->values = mpc_arena_alloc(ref->arena, g->value_count * sizeof *ref->values);
    return mpc_evaluate(g, ref->inputs, read_state, ref, NULL, ref->arena, ref->values) == MPC_OK;
}

static void write_inputs(const run *r, const reference *ref) {
    for (uint32_t i = 0; i < r->program->input_count; i++)
        mpc_tensor_to_bytes(&ref->inputs[i], run_at(r, (mpc_pointer){r->program->inputs[i].buffer, 0}));
    for (uint32_t i = 0; i < r->program->buffer_count; i++) {
        const mpc_buffer *b = &r->program->buffers[i];
        if (!b->is_state) continue;
        mpc_tensor t = mpc_tensor_make(ref->arena, &b->type);
        fill_tensor(&t, ref->seed, (uint32_t)(100 + mpc_hash_str(b->state) % 1000));
        mpc_tensor_to_bytes(&t, run_at(r, (mpc_pointer){i, 0}));
    }
}

static double distance(const mpc_tensor *want, const unsigned char *bytes) {
    double worst = 0;
    int64_t n = mpc_type_elements(&want->type);
    for (int64_t i = 0; i < n; i++) {
        double got = run_read(bytes, want->type.format, i), exact = want->data[i];
        if (isnan(got) != isnan(exact)) return INFINITY;
        double d = got == exact || isnan(got) ? 0 : fabs(got - exact) / (fabs(exact) + 1);
        if (d > worst) worst = d;
    }
    return worst;
}

/* --- one seed --- */

static mpc_program *compile(const mpc_graph *g, const char *pipeline, mpc_pass_env *env, double *ratio) {
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *lowered = mpc_pipeline_run(g, pipeline, env, &hooks);
    CHECK(lowered != NULL);
    if (lowered == NULL) return NULL;
    uint64_t bound = 0;
    CHECK(mpc_memory_check(lowered, &bound) == MPC_OK);
    if (bound > 0) *ratio = (double)lowered->arena_bytes / (double)bound;
    mpc_codegen_options options = {MPC_TARGET_C};
    mpc_program *p = mpc_codegen(lowered, &options);
    CHECK(p != NULL);
    mpc_graph_destroy(lowered);
    return p;
}

static void check_outputs(const run *a, const run *b, const char *what, uint64_t seed) {
    for (uint32_t i = 0; i < a->program->output_count; i++) {
        const mpc_buffer *ba = &a->program->buffers[a->program->outputs[i].buffer];
        const void *x = run_at(a, (mpc_pointer){a->program->outputs[i].buffer, 0}),
                   *y = run_at(b, (mpc_pointer){b->program->outputs[i].buffer, 0});
        for (uint64_t k = 0; getenv("MPC_TEST_SHOW") && k < ba->bytes / mpc_format_get(ba->type.format)->bytes; k++) {
            double u = run_read(x, ba->type.format, (int64_t)k), v = run_read(y, ba->type.format, (int64_t)k);
            if (memcmp(&u, &v, sizeof u) != 0)
                fprintf(stderr, "%s[%llu]: %.9g, %.9g\n", ba->name, (unsigned long long)k, u, v);
        }
        CHECK_MSG(memcmp(x, y, ba->bytes) == 0, "seed %llu: output %s differs %s", (unsigned long long)seed,
                  a->program->outputs[i].name, what);
    }
    CHECK_MSG(memcmp(a->states, b->states, a->program->state_bytes) == 0, "seed %llu: states differ %s",
              (unsigned long long)seed, what);
}

static void check_reference(const run *r, const mpc_graph *g, const reference *ref, uint64_t seed) {
    for (uint32_t i = 0; i < g->output_count; i++) {
        double d =
            distance(&ref->values[g->outputs[i].value], run_at(r, (mpc_pointer){r->program->outputs[i].buffer, 0}));
        CHECK_MSG(d < 0.3, "seed %llu: output %u is %g off", (unsigned long long)seed, i, d);
    }
    for (uint32_t i = 0; i < g->next_count; i++)
        for (uint32_t k = 0; k < r->program->buffer_count; k++) {
            const mpc_buffer *b = &r->program->buffers[k];
            const mpc_node *state = mpc_producer(g, g->nexts[i].state);
            if (!b->is_state || strcmp(b->state, mpc_attr_str(g, state, "name")) != 0) continue;
            double d = distance(&ref->values[g->nexts[i].value], run_at(r, (mpc_pointer){k, 0}));
            CHECK_MSG(d == 0, "seed %llu: next of %s is %g off", (unsigned long long)seed, b->state, d);
        }
}

typedef struct test_case {
    uint64_t seed;
    mpc_sources *sources;
    mpc_context *ctx;
    mpc_graph *graph;
    mpc_program *fused, *unfused;
    uint32_t fused_number, unfused_number;
} test_case;

static void check_programs(const test_case *c, const run_batch *batch) {
    run a, b;
    reference ref;
    CHECK(evaluate(&ref, c->graph, c->seed));
    run_load(&a, batch, c->fused, c->fused_number);
    run_load(&b, batch, c->unfused, c->unfused_number);
    write_inputs(&a, &ref);
    write_inputs(&b, &ref);
    run_step(&a);
    run_step(&b);
    check_reference(&a, c->graph, &ref, c->seed);
    check_outputs(&a, &b, "when unfused", c->seed);
    run again = a;
    again.arena = run_aligned(c->fused->arena_bytes);
    again.states = run_aligned(c->fused->state_bytes);
    again.backwards = true;
    write_inputs(&again, &ref);
    run_step(&again);
    check_outputs(&a, &again, "with units backwards", c->seed);
    free(again.arena);
    free(again.states);
    run_unload(&a);
    run_unload(&b);
    mpc_arena_destroy(ref.arena);
}

static void show(void *user, const mpc_diag *d) {
    (void)user;
    fprintf(stderr, "%s: %s\n", d->code, d->message);
}

static const mpc_sink sink = {show, NULL};

static void make_case(test_case *c, uint64_t seed, run_batch *batch, double *worst) {
    *c = (test_case){.seed = seed, .sources = mpc_sources_create()};
    c->ctx = mpc_context_create(&sink, c->sources);
    CHECK(mpc_passes_register(c->ctx) == MPC_OK);
    mpc_pass_env env = {.ctx = c->ctx};
    c->graph = make_graph(c->ctx, seed);
    CHECK(c->graph != NULL);
    if (c->graph == NULL) return;
    double ratio = 1, other = 1;
    c->fused = compile(c->graph, "@lower", &env, &ratio);
    c->unfused = compile(c->graph, "expand,fuse{mode=off},schedule,memory", &env, &other);
    if (ratio > *worst) *worst = ratio;
    if (c->fused == NULL || c->unfused == NULL) return;
    CHECK(c->fused->launch_count <= c->unfused->launch_count);
    c->fused_number = run_add(batch, c->fused);
    c->unfused_number = run_add(batch, c->unfused);
}

static void destroy_case(test_case *c) {
    mpc_program_destroy(c->fused);
    mpc_program_destroy(c->unfused);
    mpc_graph_destroy(c->graph);
    mpc_context_destroy(c->ctx);
    mpc_sources_destroy(c->sources);
}

static void check_seeds(uint64_t first, uint64_t count, double *worst) {
    test_case cases[DEFAULT_SEEDS];
    run_batch batch = {0};
    for (uint64_t i = 0; i < count; i++) make_case(&cases[i], first + i, &batch, worst);
    CHECK(run_compile(&batch, "-march=native"));
    for (uint64_t i = 0; i < count; i++) {
        if (batch.lib && cases[i].fused && cases[i].unfused) check_programs(&cases[i], &batch);
        destroy_case(&cases[i]);
    }
    if (batch.lib) dlclose(batch.lib);
}

int main(int argc, char **argv) {
    if (system("${MPC_CC:-cc} --version > /dev/null 2>&1") != 0) return 77;
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2   ? strtoull(argv[2], NULL, 10)
                                                                         : argc > 1 ? 1
                                                                                    : DEFAULT_SEEDS;
    double worst = 1;
    for (uint64_t done = 0; done < count; done += DEFAULT_SEEDS)
        check_seeds(first + done, count - done < DEFAULT_SEEDS ? count - done : DEFAULT_SEEDS, &worst);
    fprintf(stderr, "largest arena / lower bound: %g\n", worst);
    CHECK(worst < 1.5); /* tiny graphs: mostly alignment */
    return check_result();
}
