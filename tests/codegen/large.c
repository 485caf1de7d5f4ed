/* More than 2^31 elements (field case FC-132): kernels find the last row of a tensor whose element numbers don't fit 32
 * bits, read through views and lookups, and written. The memory is reserved, never filled: of a launch over the whole
 * tensor only the units or blocks run that reach its end. The same for the C text and, on a machine for the host, the
 * CUDA text. */
#include <sys/mman.h>

#include "codegen/cg.h"
#include "cuda_machine.h"
#include "cuda_text_host.h"
#include "passes/pass.h"

enum { ROWS = 65537, COLS = 32768, BLOCKS = 64, TAIL = 4096 };
#define WHOLE "f16[65537,32768]"

static const char READ[] = "mpir 1\ngraph @g(%x: " WHOLE ", %ids: i32[2]) {\n"
                           "  %s = slice(%x) {start=[65535,32760] stop=[65537,32768]} : f16[2,8]\n"
                           "  %a = cast(%s) {to=f32} : f32[2,8]\n"
                           "  %t = slice(%x) {start=[65530,32760] stop=[65537,32768]} : f16[7,8]\n"
                           "  %u = transpose(%t) {perm=[1,0]} : f16[8,7]\n"
                           "  %b = reshape(%u) {shape=[56]} : f16[56]\n"
                           "  %r = slice(%x) {start=[65520,0] stop=[65537,32768]} : f16[17,32768]\n"
                           "  %c = max(%r) {axes=[1]} : f16[17]\n"
                           "  %e = embedding(%x, %ids) : f16[2,32768]\n"
                           "  return(\"a\": %a, \"b\": %b, \"c\": %c, \"e\": %e)\n}\n";
static const char WRITE[] = "mpir 1\ngraph @g(%x: " WHOLE ") {\n"
                            "  %one = const() {value=1.0} : f32[]\n"
                            "  %y = add(%x, %one) : " WHOLE "\n"
                            "  return(\"y\": %y)\n}\n";

/* What stands in row 65536 and the one before; all other rows are 0. */
static double mark(int64_t row, int64_t col) {
    return row < ROWS - 2 ? 0 : (double)(col % 1000) + (row == ROWS - 1 ? 0.5 : 1);
}

typedef struct program_pair {
    mpc_sources *sources;
    mpc_context *ctx;
    mpc_program *target[2]; /* C, CUDA */
    uint32_t number;
} program_pair;

static void show(void *user, const mpc_diag *d) {
    (void)user;
    fprintf(stderr, "%s: %s\n", d->code, d->message);
}
static const mpc_sink sink = {show, NULL};

static bool make_pair(program_pair *p, const char *text) {
    p->sources = mpc_sources_create();
    p->ctx = mpc_context_create(&sink, p->sources);
    mpc_passes_register(p->ctx);
    mpc_pass_env env = {.ctx = p->ctx};
    mpc_graph *g = mpc_graph_parse(p->ctx, mpc_sources_add(p->sources, "large.mpir", text, strlen(text)));
    mpc_graph *low = g != NULL ? mpc_pipeline_run(g, "fuse,schedule,memory", &env, NULL) : NULL;
    for (int i = 0; low != NULL && i < 2; i++)
        p->target[i] = mpc_codegen(low, &(mpc_codegen_options){i == 0 ? MPC_TARGET_C : MPC_TARGET_CUDA});
    mpc_graph_destroy(low);
    mpc_graph_destroy(g);
    CHECK(p->target[0] != NULL && p->target[1] != NULL);
    return p->target[0] != NULL && p->target[1] != NULL;
}

static void destroy_pair(program_pair *p) {
    mpc_program_destroy(p->target[0]);
    mpc_program_destroy(p->target[1]);
    mpc_context_destroy(p->ctx);
    mpc_sources_destroy(p->sources);
}

static void *reserve(uint64_t bytes) {
    void *p = mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static unsigned char *input_at(const run *r, const char *name) {
    for (uint32_t i = 0; i < r->program->input_count; i++)
        if (strcmp(r->program->inputs[i].name, name) == 0)
            return run_at(r, (mpc_pointer){r->program->inputs[i].buffer, 0});
    return NULL;
}

static unsigned char *output_at(const run *r, const char *name) {
    for (uint32_t i = 0; i < r->program->output_count; i++)
        if (strcmp(r->program->outputs[i].name, name) == 0)
            return run_at(r, (mpc_pointer){r->program->outputs[i].buffer, 0});
    return NULL;
}

static void fill_last_rows(const run *r) {
    unsigned char *x = input_at(r, "x"), *ids = input_at(r, "ids");
    for (int64_t row = ROWS - 2; row < ROWS; row++)
        for (int64_t col = 0; col < COLS; col++) run_write(x, MPC_FMT_f16, row * COLS + col, mark(row, col));
    if (ids != NULL) memcpy(ids, (const int32_t[]){ROWS - 1, ROWS - 2}, 8);
}

static void check_number(const char *target, const char *name, int64_t i, double got, double want) {
    want = mpc_round_to(MPC_FMT_f16, want);
    CHECK_MSG(got == want, "%s: %s[%lld] is %g, not %g", target, name, (long long)i, got, want);
}

static void check_read(const char *target, const run *r) {
    for (int64_t i = 0; i < 16; i++)
        check_number(target, "a", i, run_read(output_at(r, "a"), MPC_FMT_f32, i), mark(65535 + i / 8, 32760 + i % 8));
    for (int64_t i = 0; i < 56; i++)
        check_number(target, "b", i, run_read(output_at(r, "b"), MPC_FMT_f16, i), mark(65530 + i % 7, 32760 + i / 7));
    for (int64_t i = 0; i < 17; i++)
        check_number(target, "c", i, run_read(output_at(r, "c"), MPC_FMT_f16, i), mark(65520 + i, 999));
    for (int64_t i = 0; i < 2 * COLS; i += 7)
        check_number(target, "e", i, run_read(output_at(r, "e"), MPC_FMT_f16, i), mark(ROWS - 1 - i / COLS, i % COLS));
}

static void check_written(const char *target, const run *r) {
    const unsigned char *y = output_at(r, "y");
    for (int64_t col = COLS - TAIL; col < COLS; col++)
        check_number(target, "y", col, run_read(y, MPC_FMT_f16, (ROWS - 1) * (int64_t)COLS + col),
                     mpc_round_to(MPC_FMT_f16, mark(ROWS - 1, col)) + 1);
}

/* The last units of every launch. */
static void run_ends(const run *r) {
    for (uint32_t i = 0; i < r->program->launch_count; i++) {
        const mpc_launch *l = &r->program->launches[i];
        const mpc_kernel_instance *in = &l->instances[0];
        void *pointers[16];
        CHECK(l->kind == MPC_LAUNCH_KERNEL && r->program->kernels[l->kernel].pointer_count <= 16);
        for (uint32_t k = 0; k < r->program->kernels[l->kernel].pointer_count; k++)
            pointers[k] = run_at(r, in->pointers[k]);
        r->kernels[l->kernel](pointers, in->ints, in->floats, in->units > 2 ? in->units - 2 : 0, in->units, r->scratch);
    }
}

static void run_c(const program_pair *p, const run_batch *c, bool writes) {
    run r = {.program = p->target[0], .scratch = run_aligned(1 << 20), .kernels = calloc(16, sizeof(run_kernel))};
    r.arena = reserve(r.program->arena_bytes);
    CHECK(r.arena != NULL && r.program->kernel_count <= 16);
    for (uint32_t i = 0; i < r.program->kernel_count; i++) {
        char name[256];
        snprintf(name, sizeof name, "p%u_%s", p->number, r.program->kernels[i].name);
        *(void **)&r.kernels[i] = dlsym(c->lib, name);
        CHECK(r.kernels[i] != NULL && r.program->kernels[i].scratch_bytes <= 1 << 20);
    }
    fill_last_rows(&r);
    if (writes) run_ends(&r);
    else run_step(&r);
    if (writes) check_written("C", &r);
    else check_read("C", &r);
    munmap(r.arena, r.program->arena_bytes + 64);
    free(r.kernels);
    free(r.scratch);
}

static void run_cuda(const program_pair *p, void *lib, bool writes) {
    run r = {.program = p->target[1], .arena = reserve(p->target[1]->arena_bytes)};
    machine *m = machine_create(lib);
    CHECK(r.arena != NULL);
    fill_last_rows(&r);
    m->most_blocks = writes ? BLOCKS : 0;
    machine_step(m, &r, lib, p->number);
    if (writes) check_written("CUDA", &r);
    else check_read("CUDA", &r);
    machine_destroy(m);
    munmap(r.arena, r.program->arena_bytes + 64);
}

static int skip(const char *why) {
    fprintf(stderr, "skipped: %s\n", why);
    return 77;
}

int main(void) {
    if (system("${MPC_CC:-cc} --version > /dev/null 2>&1 && ${MPC_CXX:-c++} --version > /dev/null 2>&1") != 0)
        return skip("no compiler for C and C++");
    void *probe = reserve(UINT64_C(9) << 30);
    if (probe == NULL) return skip("this machine reserves no more memory than it has");
    munmap(probe, (UINT64_C(9) << 30) + 64);
    program_pair pair[2] = {{0}};
    run_batch c = {0};
    host_batch cuda = {0};
    for (int i = 0; i < 2; i++) {
        if (!make_pair(&pair[i], i == 0 ? READ : WRITE)) return check_result();
        pair[i].number = run_add(&c, pair[i].target[0]);
        host_add(&cuda, pair[i].target[1], pair[i].number);
    }
    CHECK(run_compile(&c, "-march=native"));
    void *lib = host_compile(&cuda);
    CHECK(lib != NULL);
    for (int i = 0; i < 2 && c.lib != NULL && lib != NULL; i++) {
        run_c(&pair[i], &c, i == 1);
        run_cuda(&pair[i], lib, i == 1);
    }
    for (int i = 0; i < 2; i++) destroy_pair(&pair[i]);
    if (lib != NULL) dlclose(lib);
    if (c.lib != NULL) dlclose(c.lib);
    return check_result();
}
