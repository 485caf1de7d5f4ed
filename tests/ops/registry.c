/* See registry.h. All cases of one op are one program and all programs are compiled together, since compiling is what
 * takes the time. */
#include "registry.h"

#include <stdio.h>
#include <stdlib.h>

#include "../check.h"

typedef struct batch { /* one op: its cases, their graph, the program */
    const char *name;
    ops_list list;
    mpc_graph *graph;
    ops_program program;
    const char *why; /* it can't run */
} batch;

static void add_case(mpc_builder *b, const ops_case *c, size_t index) {
    mpc_value_id operands[OPS_MAX_OPERANDS];
    char name[48];
    for (uint32_t i = 0; i < c->operand_count; i++) {
        snprintf(name, sizeof name, "c%zu.%c", index, (char)('a' + i));
        operands[i] = mpc_build_input(b, name, c->graph->values[c->graph->inputs[i].value].type, NULL, 0);
    }
    mpc_value_id first = mpc_build_copy(b, c->graph, 0, operands);
    for (uint32_t i = 0; first != MPC_NONE && i < c->result_count; i++) {
        snprintf(name, sizeof name, "c%zu.r%u", index, i);
        mpc_build_output(b, name, first + i);
    }
}

/* All cases as one graph: their inputs and outputs in order. */
static mpc_graph *combine(mpc_context *ctx, const ops_list *list) {
    mpc_builder *b = mpc_builder_create(ctx, "ops");
    for (size_t i = 0; b != NULL && i < list->count; i++) add_case(b, &list->cases[i], i);
    return b != NULL ? mpc_builder_finish(b) : NULL;
}

static batch make_batch(mpc_context *ctx, ops_on on, const char *name, ops_list list) {
    batch b = {.name = name, .list = list};
    if (list.count == 0) return b;
    b.graph = combine(ctx, &b.list);
    b.why = b.graph != NULL ? ops_program_make(&b.program, on, b.graph) : "no graph";
    return b;
}

static void run_batch(batch *b, ops_comparison *cmp) {
    if (b->list.count == 0) return;
    mpc_tensor *inputs = mpc_arena_alloc(b->list.arena, ((size_t)b->list.count * OPS_MAX_OPERANDS) * sizeof *inputs);
    mpc_tensor *outputs = mpc_arena_alloc(b->list.arena, ((size_t)b->list.count * OPS_MAX_RESULTS) * sizeof *outputs);
    uint32_t next = 0;
    for (size_t i = 0; i < b->list.count; i++)
        for (uint32_t k = 0; k < b->list.cases[i].operand_count; k++) inputs[next++] = b->list.cases[i].operands[k];
    if (b->why == NULL) b->why = ops_program_run(&b->program, inputs, b->list.arena, outputs);
    CHECK_MSG(b->why == NULL, "%s: %s", b->name, b->why);
    for (size_t i = 0; b->why == NULL && i < b->list.count; i++) {
        ops_judge(&b->list.cases[i], cmp, outputs);
        outputs += b->list.cases[i].result_count;
    }
}

static void free_batch(batch *b) {
    ops_program_free(&b->program);
    mpc_graph_destroy(b->graph);
    ops_list_free(&b->list);
}

static void compile(const batch *batches, size_t count) {
    ops_program *programs = calloc(count + 1, sizeof *programs);
    for (size_t i = 0; programs != NULL && i < count; i++) programs[i] = batches[i].program;
    const char *why = programs != NULL ? ops_programs_compile(programs, count) : "no memory";
    CHECK_MSG(why == NULL, "%s", why);
    free(programs);
}

static int run_batches(batch *batches, size_t count, ops_on on) {
    ops_device device = {.name = ops_on_names[on]};
    ops_comparison cmp = {.device = &device, .bits = true};
    compile(batches, count);
    for (size_t i = 0; i < count; i++) {
        run_batch(&batches[i], &cmp);
        free_batch(&batches[i]);
    }
    fprintf(stderr, "%d cases, worst %.2g of the bound: %s\n", cmp.ran, cmp.worst, cmp.worst_label);
    return ops_result() | check_result();
}

int ops_check_registry(mpc_context *ctx, ops_on on, char *const *names, int named, bool *errors) {
    size_t count = named > 0 ? (size_t)named : mpc_op_count(ctx);
    batch *batches = calloc(count + 1, sizeof *batches);
    if (batches == NULL) return 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = named > 0 ? names[i] : mpc_op_get(ctx, (mpc_op_id)i)->name;
        *errors = false; /* while operands are tried */
        ops_list list = ops_collect(ctx, name);
        *errors = true;
        batches[i] = make_batch(ctx, on, name, list);
    }
    int result = run_batches(batches, count, on);
    free(batches);
    return result;
}

int ops_check_list(mpc_context *ctx, ops_on on, ops_list list) {
    batch b = make_batch(ctx, on, "a list of cases", list);
    return run_batches(&b, 1, on);
}
