/* Shapes of the cuda device that the samples of the registry don't reach: tiles with ragged edges, pairs of 16-bit
 * elements, tables of ids in segments, teams of a reduction, grids smaller than the work. */
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "passes/pass.h"
#include "registry.h"
#include "runtime/device.h"

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    if (diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

typedef struct shape_case { /* one op of up to two operands */
    mpc_op_id op;
    mpc_type operands[2];
    mpc_attr_arg attrs[4];
    uint32_t attr_count;
    double integers; /* operand 1 holds ids: 0 to this; 0: floats */
} shape_case;

#define T1(f, a) \
    { \
        .format = MPC_FMT_##f, .rank = 1, .dims = { a } \
    }
#define T2(f, a, b) \
    { \
        .format = MPC_FMT_##f, .rank = 2, .dims = { a, b } \
    }
#define T3(f, a, b, c) \
    { \
        .format = MPC_FMT_##f, .rank = 3, .dims = { a, b, c } \
    }
#define T4(f, a, b, c, d) \
    { \
        .format = MPC_FMT_##f, .rank = 4, .dims = { a, b, c, d } \
    }
#define INTS(name, ...) \
    MPC_A_INTS(name, ((const int64_t[]){__VA_ARGS__}), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* More ids than evenly many: every other one is among the first three rows. */
static double element(const shape_case *c, uint64_t seed, uint32_t operand, int64_t i) {
    double u = (double)mpc_random_uniform(seed, operand, 0, (uint64_t)i);
    if (operand == 0 || c->integers == 0) return u * 2 - 1;
    return (double)(int64_t)(u * (i % 2 == 0 ? 3 : c->integers));
}

static void add(mpc_context *ctx, ops_list *list, const shape_case *s) {
    ops_case *c = &list->cases[list->count];
    mpc_builder *b = mpc_builder_create(ctx, "case");
    mpc_value_id operands[2];
    *c = (ops_case){
        .ctx = ctx, .arena = list->arena, .op = mpc_op_get(ctx, s->op), .id = s->op, .format = s->operands[0].format};
    for (; c->operand_count < 2 && s->operands[c->operand_count].rank > 0; c->operand_count++) {
        const mpc_type *t = &s->operands[c->operand_count];
        mpc_tensor *x = &c->operands[c->operand_count];
        *x = mpc_tensor_make(list->arena, t);
        for (int64_t i = 0; i < mpc_type_elements(t); i++)
            x->data[i] = mpc_round_to(t->format, element(s, list->count, c->operand_count, i));
        operands[c->operand_count] = mpc_build_input(b, (const char[]){(char)('a' + c->operand_count), 0},
                                                     mpc_type_make(ctx, t->format, t->rank, t->dims), NULL, 0);
    }
    mpc_build_output(b, "r", mpc_build_as(b, s->op, operands, c->operand_count, s->attrs, s->attr_count, MPC_FMT_none));
    c->graph = mpc_builder_finish(b);
    c->result_count = 1;
    snprintf(c->label, sizeof c->label, "case %zu, %s", list->count, c->op->name);
    if (c->graph != NULL) list->count++;
}

int main(void) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    if (!mpc_cuda_available(&sink)) {
        fprintf(stderr, "skipped: no GPU and no stand-in\n");
        return 77;
    }
    const shape_case cases[] = {
        {MPC_OP_transpose, {T2(f32, 70, 101)}, {INTS("perm", 1, 0)}, 1, 0},
        {MPC_OP_transpose, {T2(bf16, 70, 132)}, {INTS("perm", 1, 0)}, 1, 0},
        {MPC_OP_transpose, {T2(bf16, 71, 130)}, {INTS("perm", 1, 0)}, 1, 0},
        {MPC_OP_transpose, {T2(i64, 40, 33)}, {INTS("perm", 1, 0)}, 1, 0},
        {MPC_OP_transpose, {T2(u8, 67, 9)}, {INTS("perm", 1, 0)}, 1, 0},
        {MPC_OP_transpose, {T4(f16, 3, 40, 5, 66)}, {INTS("perm", 3, 0, 2, 1)}, 1, 0},
        {MPC_OP_transpose, {T4(f32, 5, 6, 7, 8)}, {INTS("perm", 2, 0, 1, 3)}, 1, 0},
        {MPC_OP_slice, {T3(bf16, 9, 30, 48)}, {INTS("start", 1, 2, 8), INTS("stop", 9, 30, 40)}, 2, 0},
        {MPC_OP_concat, {T3(f32, 4, 9, 24), T3(bf16, 4, 7, 24)}, {MPC_A_INT("axis", 1)}, 1, 0},
        {MPC_OP_embedding, {T2(f32, 65, 24), T2(i32, 30, 40)}, {{0}}, 0, 66},
        {MPC_OP_embedding_grad, {T2(bf16, 3000, 20), T1(i32, 3000)}, {MPC_A_INT("rows", 65)}, 1, 66},
        {MPC_OP_embedding_grad, {T2(f32, 1100, 1028), T1(i64, 1100)}, {MPC_A_INT("rows", 3)}, 1, 3},
        {MPC_OP_embedding_grad, {T2(f32, 700, 7), T1(i32, 700)}, {MPC_A_INT("rows", 3000)}, 1, 3000},
        {MPC_OP_max_pool,
         {T4(bf16, 2, 9, 9, 40)},
         {INTS("kernel", 3, 3), INTS("stride", 2, 2), INTS("pad", 1, 1)},
         3,
         0},
        {MPC_OP_global_norm, {T2(f32, 300, 131), T1(bf16, 77)}, {{0}}, 0, 0},
        {MPC_OP_sum, {T4(f32, 6, 5, 40, 8)}, {INTS("axes", 0, 2)}, 1, 0},
        {MPC_OP_max, {T4(bf16, 60, 5, 4, 9)}, {INTS("axes", 0, 2)}, 1, 0},
        {MPC_OP_sum, {T4(f32, 6, 5, 4, 70)}, {INTS("axes", 1, 3)}, 1, 0},
        {MPC_OP_min, {T3(i32, 3, 500, 2)}, {INTS("axes", 0, 2)}, 1, 0},
    };
    size_t count = sizeof cases / sizeof *cases;
    ops_list list = {.arena = mpc_arena_create(), .cases = calloc(count, sizeof *list.cases)};
    for (size_t i = 0; list.cases != NULL && i < count; i++) add(ctx, &list, &cases[i]);
    if (list.count != count) return 1;
    int result = ops_check_list(ctx, OPS_ON_CUDA, list);
    mpc_context_destroy(ctx);
    return result;
}
