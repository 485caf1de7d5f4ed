/* Matmuls that end in their own kernel, through passes, code generation and the device: bias and relu on f32 sums, one
 * rounding, results in any format, transposed, in batches, with odd rows. Operands are small multiples of 1/8, so every
 * sum is exact in any order and results must be the evaluator's to the bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "codegen/codegen.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "runtime/device.h"

typedef struct test_case {
    const char *inputs; /* %x, %w, %b in this order */
    const char *body;   /* makes %y */
    bool own_kernel;    /* the launch has one */
} test_case;

/* $ is the case's number */
static const test_case cases[] = {
    {"%x$: bf16[24,40], %w$: bf16[40,64], %b$: f32[64]", "%y$ = linear(%x$, %w$, %b$) {act=relu} : bf16[24,64]", true},
    {"%x$: bf16[7,40], %w$: bf16[40,33], %b$: f32[33]", "%y$ = linear(%x$, %w$, %b$) : bf16[7,33]", true},
    {"%x$: f16[7,3,16], %w$: f16[16,10], %b$: f32[10]", "%y$ = linear(%x$, %w$, %b$) {act=relu} : f16[7,3,10]", true},
    {"%x$: f32[5,16], %w$: f32[16,12], %b$: f32[12]", "%y$ = linear(%x$, %w$, %b$) {act=relu} : f32[5,12]", true},
    {"%x$: f32[5,16], %w$: f32[16,12]", "%y$ = linear(%x$, %w$) {act=relu} : f32[5,12]", true},
    {"%x$: f32[5,16], %w$: f32[16,12]", "%y$ = linear(%x$, %w$) : bf16[5,12]", true},
    {"%x$: bf16[5,16], %w$: bf16[16,12], %b$: f32[12]", "%y$ = linear(%x$, %w$, %b$) {act=relu} : f16[5,12]", true},
    {"%x$: bf16[24,40], %w$: bf16[40,64]", "%y$ = linear(%x$, %w$) : bf16[24,64]", false},
    {"%x$: bf16[24,40], %w$: bf16[40,64], %b$: f32[64]",
     "%l$ = linear(%x$, %w$, %b$) {act=relu} : bf16[24,64]\n  %y$ = transpose(%l$) {perm=[1,0]} : bf16[64,24]", true},
    {"%x$: f32[2,3,5,8], %w$: f32[2,3,8,16]",
     "%l$ = matmul(%x$, %w$) : bf16[2,3,5,16]\n  %y$ = transpose(%l$) {perm=[0,2,1,3]} : bf16[2,5,3,16]", true},
    {"%x$: f16[1,300], %w$: f16[300,1], %b$: f32[1]", "%y$ = linear(%x$, %w$, %b$) : f16[1,1]", true},
};
enum { CASES = sizeof cases / sizeof *cases };

static void append_case(mpc_str *out, const char *text, size_t number) {
    for (; *text != '\0'; text++) {
        if (*text == '$') mpc_str_printf(out, "%zu", number);
        else mpc_str_append_n(out, text, 1);
    }
}

static mpc_graph *parse_graph(mpc_context *ctx, mpc_sources *sources) {
    mpc_str text = {0};
    mpc_str_append(&text, "mpir 1\ngraph @g(");
    for (size_t i = 0; i < CASES; i++) {
        append_case(&text, i > 0 ? ", " : "", i);
        append_case(&text, cases[i].inputs, i);
    }
    mpc_str_append(&text, ") {\n");
    for (size_t i = 0; i < CASES; i++) {
        mpc_str_append(&text, "  ");
        append_case(&text, cases[i].body, i);
        mpc_str_append(&text, "\n");
    }
    mpc_str_append(&text, "  return(");
    for (size_t i = 0; i < CASES; i++) append_case(&text, i > 0 ? ", \"y$\": %y$" : "\"y$\": %y$", i);
    mpc_str_append(&text, ")\n}\n");
    uint32_t file = mpc_sources_add(sources, "test", mpc_str_cstr(&text), text.length);
    mpc_graph *g = mpc_graph_parse(ctx, file);
    mpc_str_free(&text);
    return g;
}

static mpc_tensor *make_inputs(const mpc_graph *g, mpc_arena *arena) {
    mpc_tensor *inputs = mpc_arena_alloc(arena, g->input_count * sizeof *inputs);
    uint64_t seed = 5;
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        for (int64_t k = 0; k < mpc_type_elements(&inputs[i].type); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            inputs[i].data[k] = (double)((int)(seed >> 59) - 16) / 8;
        }
    }
    inputs[0].data[3] = NAN; /* of the first case: a row of NaN */
    inputs[0].data[43] = INFINITY;
    return inputs;
}

/* ---- running it ---- */

typedef struct run {
    mpc_graph *lowered;
    mpc_program *program;
    mpc_store *store;
    mpc_exec *exec;
} run;

static bool prepare(const mpc_graph *g, bool separate, run *r) {
    mpc_pass_env env = {.ctx = g->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_codegen_options options = {.target = MPC_TARGET_CUDA};
    mpc_exec_options exec_options = {.separate_buffers = separate};
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    r->lowered = mpc_pipeline_run(g, "@lower", &env, &hooks);
    r->program = r->lowered != NULL ? mpc_codegen(r->lowered, &options) : NULL;
    r->store = r->program != NULL ? mpc_store_create(r->lowered, sink) : NULL;
    r->exec = r->store != NULL ? mpc_cuda_load(r->program, r->store, &exec_options, sink) : NULL;
    CHECK(r->exec != NULL);
    return r->exec != NULL;
}

static void release(run *r) {
    if (r->exec != NULL) r->exec->vtable->destroy(r->exec);
    mpc_store_destroy(r->store);
    mpc_program_destroy(r->program);
    mpc_graph_destroy(r->lowered);
}

static mpc_tensor *device_outputs(const mpc_graph *g, mpc_exec *exec, const mpc_tensor *inputs, mpc_arena *arena) {
    mpc_tensor *outputs = mpc_arena_alloc(arena, g->output_count * sizeof *outputs);
    for (uint32_t i = 0; i < g->input_count; i++) mpc_tensor_to_bytes(&inputs[i], exec->vtable->input(exec, i));
    if (mpc_exec_step(exec) != MPC_OK || mpc_exec_record(exec, true) != MPC_RECORD_READY) return NULL;
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->outputs[i].value));
        mpc_tensor_from_bytes(&outputs[i], exec->vtable->output(exec, i));
    }
    return outputs;
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

static void compare(const mpc_graph *g, mpc_exec *exec, mpc_arena *arena) {
    mpc_eval_options options = {0};
    mpc_tensor *inputs = make_inputs(g, arena), *got = device_outputs(g, exec, inputs, arena);
    mpc_tensor *values = mpc_arena_alloc(arena, g->value_count * sizeof *values);
    bool evaluated = mpc_evaluate(g, inputs, no_state, NULL, &options, arena, values) == MPC_OK;
    CHECK(got != NULL && evaluated);
    for (uint32_t i = 0; i < g->output_count && got != NULL && evaluated; i++) {
        const mpc_tensor *want = &values[g->outputs[i].value];
        int wrong = 0;
        for (int64_t k = 0; k < mpc_type_elements(&want->type); k++)
            wrong += isnan(want->data[k]) ? !isnan(got[i].data[k]) : !(got[i].data[k] == want->data[k]);
        CHECK_MSG(wrong == 0, "case %u: %d of %lld elements are wrong", i, wrong,
                  (long long)mpc_type_elements(&want->type));
    }
}

static void launches_have_kernels_where_needed(const mpc_program *p) {
    size_t own = 0, wanted = 0;
    for (uint32_t i = 0; i < p->launch_count; i++)
        if (p->launches[i].kind == MPC_LAUNCH_MATMUL) own += p->launches[i].instance_count;
    for (size_t i = 0; i < CASES; i++) wanted += cases[i].own_kernel;
    CHECK_MSG(own == wanted, "%zu, not %zu", own, wanted);
}

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str out = {0};
    mpc_diag_render(diag, user, true, false, &out);
    fprintf(stderr, "%s\n", mpc_str_cstr(&out));
    mpc_str_free(&out);
}

int main(void) {
    mpc_sources *sources = mpc_sources_create();
    mpc_sink sink = {print_diag, sources}, quiet = {0};
    if (!mpc_cuda_available(&quiet)) return fprintf(stderr, "skipped: no device, nor its stand-in\n"), 77;
    mpc_context *ctx = mpc_context_create(&sink, sources);
    mpc_arena *arena = mpc_arena_create();
    if (ctx == NULL || arena == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    mpc_graph *g = parse_graph(ctx, sources);
    CHECK(g != NULL);
    for (int separate = 0; separate < 2 && g != NULL; separate++) {
        run r = {0};
        if (prepare(g, separate != 0, &r)) {
            launches_have_kernels_where_needed(r.program);
            compare(g, r.exec, arena);
        }
        release(&r);
    }
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return check_result();
}
