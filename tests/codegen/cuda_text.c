/* CUDA text of fusion groups, run on the host: what is made element by element is what the C kernels make, to the bit,
 * NaN and infinity included; sums are close; teams of every size, rows that no wide access fits, rows longer than
 * registers, parts of reductions over rows. A step run twice gives the same bits. */
#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "codegen/cg.h"
#include "cuda_machine.h"
#include "cuda_text_host.h"
#include "passes/pass.h"

typedef struct group {
    const char *name, *head, *body;
    double bound; /* of sums: relative to the largest element; 0: to the bit */
} group;

#define STATES(w) \
    "  %" w " = state() {name=" w " trainable=true} : f32[300]\n  %" w ".low = state() {name=" w \
    " role=copy derived=bf16} : bf16[300]\n"
#define UPDATE(w, g) \
    "  %" w ".n = sub(%" w ", %" g ") : f32[300]\n  %" w ".k = where(%ok, %" w ".n, %" w ") : f32[300]\n" \
    "  %" w ".c = cast(%" w ".n) {to=bf16} : bf16[300]\n  %" w ".d = where(%ok, %" w ".c, %" w ".low) : bf16[300]\n" \
    "  next %" w ", %" w ".k\n  next %" w ".low, %" w ".d\n"
#define SOFTMAX(rows, cols, format) \
    "  %w = cast(%x) {to=f32} : f32[" rows "," cols "]\n  %m = max(%w) {axes=[1] keep=true} : f32[" rows ",1]\n" \
    "  %d = sub(%w, %m) : f32[" rows "," cols "]\n  %e = exp(%d) : f32[" rows "," cols \
    "]\n  %s = sum(%e) {axes=[1] keep=true} : f32[" rows ",1]\n  %q = div(%e, %s) : f32[" rows "," cols \
    "]\n  %y = cast(%q) {to=" format "} : " format "[" rows "," cols "]\n  return(\"y\": %y, \"m\": %m, \"s\": %s)\n"
/* Both sides of a normalisation: sums over the row, and over all rows column by column. */
#define NORM(rows, cols) \
    "  %w = cast(%x) {to=f32} : f32[" rows "," cols "]\n  %s = sum(%w) {axes=[1] keep=true} : f32[" rows \
    ",1]\n  %d = sub(%w, %s) : f32[" rows "," cols "]\n  %q = mul(%d, %d) : f32[" rows "," cols \
    "]\n  %v = sum(%q) {axes=[1] keep=true} : f32[" rows ",1]\n  %r = rsqrt(%v) : f32[" rows \
    ",1]\n  %n = mul(%d, %r) : f32[" rows "," cols "]\n  %t = sum(%n) {axes=[0]} : f32[" cols \
    "]\n  %u = max(%d) {axes=[0]} : f32[" cols "]\n  %y = cast(%n) {to=bf16} : bf16[" rows "," cols \
    "]\n  return(\"y\": %y, \"t\": %t, \"u\": %u)\n"
#define COLUMN_SUM(rows, cols) \
    "  %q = relu(%x) : f32[" rows "," cols "]\n  %t = sum(%q) {axes=[0]} : f32[" cols \
    "]\n  return(\"q\": %q, \"t\": %t)\n"

static const group groups[] = {
    {"functions", "%x: f32[1003], %z: f32[1003]",
     "  %a = exp(%x) : f32[1003]\n  %b = log(%x) : f32[1003]\n  %c = tanh(%x) : f32[1003]\n  %d = erf(%x) : f32[1003]\n"
     "  %e = sigmoid(%x) : f32[1003]\n  %f = sqrt(%x) : f32[1003]\n  %g = rsqrt(%x) : f32[1003]\n  %h = relu(%x) : "
     "f32[1003]\n"
     "  %i = div(%x, %z) : f32[1003]\n  %j = maximum(%x, %z) : f32[1003]\n  %k = minimum(%x, %z) : f32[1003]\n"
     "  return(\"a\": %a, \"b\": %b, \"c\": %c, \"d\": %d, \"e\": %e, \"f\": %f, \"g\": %g, \"h\": %h, \"i\": %i, "
     "\"j\": %j, \"k\": %k)\n",
     0},
    {"powers and angles", "%x: f32[515], %z: f32[515]",
     "  %a = sin(%x) : f32[515]\n  %b = cos(%x) : f32[515]\n  %c = pow(%x, %z) : f32[515]\n  return(\"a\": %a, \"b\": "
     "%b, \"c\": %c)\n",
     0},
    {"formats", "%x: f32[1003]",
     "  %a = cast(%x) {to=bf16} : bf16[1003]\n  %b = cast(%x) {to=f16} : f16[1003]\n  %c = cast(%x) {to=f8e4m3} : "
     "f8e4m3[1003]\n"
     "  %d = cast(%x) {to=f8e5m2} : f8e5m2[1003]\n  %e = cast(%x) {to=i32} : i32[1003]\n  %f = cast(%x) {to=i64} : "
     "i64[1003]\n"
     "  %g = cast(%x) {to=u8} : u8[1003]\n  %h = is_finite(%x) : bool[1003]\n  %i = is_nan(%x) : bool[1003]\n"
     "  return(\"a\": %a, \"b\": %b, \"c\": %c, \"d\": %d, \"e\": %e, \"f\": %f, \"g\": %g, \"h\": %h, \"i\": %i)\n",
     0},
    {"narrow formats read",
     "%a: bf16[264], %b: f16[264], %c: f8e4m3[264], %d: f8e5m2[264], %e: i32[264], %f: i64[264], %g: u8[264], %h: "
     "bool[264]",
     "  %a.1 = cast(%a) {to=f32} : f32[264]\n  %b.1 = cast(%b) {to=f32} : f32[264]\n  %c.1 = cast(%c) {to=f32} : "
     "f32[264]\n"
     "  %d.1 = cast(%d) {to=f32} : f32[264]\n  %e.1 = cast(%e) {to=f32} : f32[264]\n  %f.1 = cast(%f) {to=i32} : "
     "i32[264]\n"
     "  %g.1 = cast(%g) {to=i64} : i64[264]\n  %h.1 = where(%h, %a.1, %b.1) : f32[264]\n  %i = mul(%a, %a) : "
     "bf16[264]\n"
     "  %j = not(%h) : bool[264]\n  %k = lt(%f, %g.1) : bool[264]\n  %l = mul(%f, %g.1) : i64[264]\n  %m = add(%e, %e) "
     ": i32[264]\n"
     "  return(\"a\": %a.1, \"b\": %b.1, \"c\": %c.1, \"d\": %d.1, \"e\": %e.1, \"f\": %f.1, \"g\": %g.1, \"h\": %h.1, "
     "\"i\": %i, \"j\": %j, \"k\": "
     "%k, \"l\": %l, \"m\": %m)\n",
     0},
    {"softmax of short rows", "%x: bf16[40,48]", SOFTMAX("40", "48", "bf16"), 1e-6},
    {"softmax of odd rows", "%x: bf16[37,75]", SOFTMAX("37", "75", "bf16"), 1e-6},
    {"softmax of tiny rows", "%x: f32[300,3]", SOFTMAX("300", "3", "f16"), 1e-6},
    {"softmax by blocks", "%x: f32[3,5000]", SOFTMAX("3", "5000", "f32"), 1e-6},
    {"softmax longer than registers", "%x: bf16[3,9001]", SOFTMAX("3", "9001", "f32"), 1e-6},
    {"one row", "%x: f32[1,301]", SOFTMAX("1", "301", "bf16"), 1e-6},
    {"norm of short rows", "%x: bf16[2000,64]", NORM("2000", "64"), 2e-5},
    {"norm by warps", "%x: bf16[300,392]", NORM("300", "392"), 2e-5},
    {"norm by blocks", "%x: f32[70,1600]", NORM("70", "1600"), 2e-5},
    {"norm longer than registers", "%x: f32[9,9001]", NORM("9", "9001"), 2e-5},
    {"sums of columns", "%x: f32[700,264]", COLUMN_SUM("700", "264"), 1e-6},
    {"sums of odd columns", "%x: f32[1700,33]", COLUMN_SUM("1700", "33"), 1e-6},
    {"sums of few rows", "%x: f32[5,1000]", COLUMN_SUM("5", "1000"), 1e-6},
    {"sum of all", "%x: f32[50003]",
     "  %q = mul(%x, %x) : f32[50003]\n  %t = sum(%q) {axes=[0]} : f32[]\n  return(\"t\": %t)\n", 1e-6},
    {"sum of a few, and what follows", "%x: f32[1200]",
     "  %t = sum(%x) {axes=[0]} : f32[]\n  %u = mul(%t, %t) : f32[]\n  %v = mul(%x, %u) : f32[1200]\n  return(\"t\": "
     "%t, \"u\": %u, \"v\": %v)\n",
     1e-5},
    {"broadcasts", "%x: f32[4,5,6,32], %a: f32[4,1,6,1], %b: bf16[1,5,1,32]",
     "  %y = mul(%x, %a) : f32[4,5,6,32]\n  %c = cast(%b) {to=f32} : f32[1,5,1,32]\n  %z = add(%y, %c) : "
     "f32[4,5,6,32]\n  return(\"z\": %z)\n",
     0},
    {"random numbers", "%x: f32[9,50], %seed: i64[], %step: i32[]",
     "  %u = random_uniform(%seed, %step) {shape=[9,50] stream=7} : f32[9,50]\n  %v = random_uniform(%seed, %step) "
     "{shape=[9,1] stream=8} : "
     "f32[9,1]\n  %a = mul(%x, %u) : f32[9,50]\n  %b = mul(%a, %v) : f32[9,50]\n  return(\"u\": %u, \"b\": %b)\n",
     0},
    {"updates", "%g: f32[300], %h: f32[300], %ok: bool[]",
     STATES("v") STATES("w") "  %y = add(%v.low, %w.low) : bf16[300]\n" UPDATE("v", "g")
         UPDATE("w", "h") "  return(\"y\": %y)\n",
     0},
};
enum { GROUPS = sizeof groups / sizeof *groups };

typedef struct test_case {
    const group *group;
    mpc_sources *sources;
    mpc_context *ctx;
    mpc_program *c, *cuda;
    uint32_t number; /* in both batches */
} test_case;

static bool silent;
static void show(void *user, const mpc_diag *d) {
    (void)user;
    if (!silent) fprintf(stderr, "%s: %s\n", d->code, d->message);
}
static const mpc_sink sink = {show, NULL};

/* Whichever allocation fails: no program, and nothing worse. */
static void check_failing_memory(const mpc_graph *low) {
    uint64_t n = 1;
    silent = true;
    for (mpc_program *p = NULL; p == NULL && n < 5000; n++) {
        mpc_alloc_fail_after(n);
        p = mpc_codegen(low, &(mpc_codegen_options){MPC_TARGET_CUDA});
        mpc_alloc_fail_after(0);
        if (p == NULL) continue;
        mpc_program_destroy(p);
        break;
    }
    silent = false;
    CHECK_MSG(n > 20 && n < 5000, "%llu allocations", (unsigned long long)n);
}

static void make_case(test_case *t, const group *g) {
    *t = (test_case){.group = g, .sources = mpc_sources_create()};
    t->ctx = mpc_context_create(&sink, t->sources);
    mpc_passes_register(t->ctx);
    mpc_str text = {0};
    mpc_str_printf(&text, "mpir 1\ngraph @g(%s) {\n%s}\n", g->head, g->body);
    mpc_graph *graph =
        mpc_graph_parse(t->ctx, mpc_sources_add(t->sources, "test.mpir", mpc_str_cstr(&text), text.length));
    mpc_pass_env env = {.ctx = t->ctx};
    mpc_graph *low = graph != NULL ? mpc_pipeline_run(graph, "fuse,schedule,memory", &env, NULL) : NULL;
    CHECK_MSG(low != NULL, "%s", g->name);
    if (low != NULL) {
        t->c = mpc_codegen(low, &(mpc_codegen_options){MPC_TARGET_C});
        t->cuda = mpc_codegen(low, &(mpc_codegen_options){MPC_TARGET_CUDA});
    }
    CHECK_MSG(t->c != NULL && t->cuda != NULL, "%s", g->name);
    if (low != NULL && (strstr(g->name, "norm by") != NULL || strcmp(g->name, "updates") == 0))
        check_failing_memory(low);
    mpc_graph_destroy(low);
    mpc_graph_destroy(graph);
    mpc_str_free(&text);
}

static void destroy_case(test_case *t) {
    mpc_program_destroy(t->c);
    mpc_program_destroy(t->cuda);
    mpc_context_destroy(t->ctx);
    mpc_sources_destroy(t->sources);
}

/* --- numbers --- */

static const float specials[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,     1.0f, -1.0f,
                                 1e-40f, -1e-40f, 3e38f,    88.9f,     -104.5f, 1e7f, -70000.0f};

static double draw(const group *g, mpc_format format, uint32_t stream, uint64_t i) {
    double u = 2 * (double)mpc_random_uniform(5, stream, 0, i) - 1;
    bool small = g->bound != 0;
    if (format == MPC_FMT_bool) return stream % 2 == 0 || u > 0;
    if (!mpc_format_is_float(format)) return floor(u * 100 + (format == MPC_FMT_u8 ? 100 : 0));
    if (!small && i % 16 == 3) return (double)specials[i / 16 % (sizeof specials / sizeof *specials)];
    return small ? u : u * pow(2, floor(20 * (double)mpc_random_uniform(6, stream, 0, i)) - 12);
}

static void fill(const run *r, const group *g) {
    for (uint32_t b = 0; b < r->program->buffer_count; b++) {
        const mpc_buffer *buffer = &r->program->buffers[b];
        if (!buffer->is_state && !buffer->is_input) continue;
        unsigned char *at = run_at(r, (mpc_pointer){b, 0});
        int64_t count = mpc_type_elements(&buffer->type);
        for (int64_t i = 0; i < count; i++)
            run_write(at, buffer->type.format, i, draw(g, buffer->type.format, b, (uint64_t)i));
    }
}

static double largest(const void *x, mpc_format format, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(run_read(x, format, i)));
    return most;
}

static void compare(const test_case *t, const char *name, const mpc_type *type, const void *x, const void *y) {
    int64_t count = mpc_type_elements(type);
    double low = type->format == MPC_FMT_bf16 ? 0.008 : type->format == MPC_FMT_f16 ? 0.001 : 0;
    double bound = t->group->bound > 0 ? (t->group->bound + low) * largest(x, type->format, count) : 0;
    for (int64_t i = 0; i < count; i++) {
        double a = run_read(x, type->format, i), b = run_read(y, type->format, i);
        bool good = (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b)) || fabs(a - b) <= bound;
        CHECK_MSG(good, "%s: %s[%lld] is %.9g in C, %.9g in CUDA", t->group->name, name, (long long)i, a, b);
        if (!good) return;
    }
}

static void check_case(const test_case *t, const run_batch *c, void *lib) {
    run a, b = {.program = t->cuda};
    run_load(&a, c, t->c, t->number);
    b.arena = run_aligned(t->cuda->arena_bytes);
    b.states = run_aligned(t->cuda->state_bytes);
    fill(&a, t->group);
    fill(&b, t->group);
    machine *m = machine_create(lib);
    run_step(&a);
    machine_step(m, &b, lib, t->number);
    for (uint32_t i = 0; i < t->c->output_count; i++)
        compare(t, t->c->outputs[i].name, &t->c->buffers[t->c->outputs[i].buffer].type,
                run_at(&a, (mpc_pointer){t->c->outputs[i].buffer, 0}),
                run_at(&b, (mpc_pointer){t->cuda->outputs[i].buffer, 0}));
    for (uint32_t i = 0; i < t->c->buffer_count; i++)
        if (t->c->buffers[i].is_state)
            compare(t, t->c->buffers[i].state, &t->c->buffers[i].type, run_at(&a, (mpc_pointer){i, 0}),
                    run_at(&b, (mpc_pointer){i, 0}));
    machine_destroy(m);
    free(b.arena);
    free(b.states);
    run_unload(&a);
}

static void *compile_cuda(const test_case *cases, uint32_t count) {
    host_batch batch = {0};
    for (uint32_t i = 0; i < count; i++) host_add(&batch, cases[i].cuda, cases[i].number);
    return host_compile(&batch);
}

int main(int argc, char **argv) {
    if (system("${MPC_CC:-cc} --version > /dev/null 2>&1 && ${MPC_CXX:-c++} --version > /dev/null 2>&1") != 0)
        return 77;
    test_case cases[GROUPS];
    uint32_t count = 0;
    run_batch c = {0};
    for (int i = 0; i < GROUPS; i++) {
        if (argc > 1 && strstr(groups[i].name, argv[1]) == NULL) continue;
        make_case(&cases[count], &groups[i]);
        if (cases[count].c == NULL || cases[count].cuda == NULL) return check_result();
        cases[count].number = run_add(&c, cases[count].c);
        count++;
    }
    CHECK(run_compile(&c, "-march=native"));
    void *lib = compile_cuda(cases, count);
    CHECK(lib != NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (c.lib != NULL && lib != NULL) check_case(&cases[i], &c, lib);
        destroy_case(&cases[i]);
    }
    if (lib != NULL) dlclose(lib);
    if (c.lib != NULL) dlclose(c.lib);
    return check_result();
}
