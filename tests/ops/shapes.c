/* What shape rules infer and refuse, and the sentence a refusal gives. One line of the table is one node in a few
 * words: operand types, attributes, and the result types or the message. */
#include "../check.h"
#include "ir/builder.h"

/* initialisers of static data, unlike the MPC_A_ macros */
#define INT(k, v) \
    { .key = k, .kind = MPC_ATTR_INT, .i = v }
#define FLOAT(k, v) \
    { .key = k, .kind = MPC_ATTR_FLOAT, .f = v }
#define BOOL(k, v) \
    { .key = k, .kind = MPC_ATTR_BOOL, .i = v }
#define STR(k, v) \
    { .key = k, .kind = MPC_ATTR_STR, .s = v }
#define FORMAT(k, v) \
    { .key = k, .kind = MPC_ATTR_FORMAT, .format = v }
#define INTS(k, ...) \
    { \
        .key = k, .kind = MPC_ATTR_INTS, .ints = (const int64_t[]){__VA_ARGS__}, \
        .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) \
    }

typedef struct row {
    mpc_op_id op;
    const char *operands; /* "f32[2,3] i32[]" */
    const char *expected; /* "f32[2]", or "! part of the message" */
    mpc_attr_arg attrs[4];
} row;

static const row rows[] = {
    {MPC_OP_add, "f32[2,3] f32[3]", "f32[2,3]", {{0}}},
    {MPC_OP_add, "bf16[2,1] f16[1,3]", "f32[2,3]", {{0}}},
    {MPC_OP_add, "i32[] i32[4]", "i32[4]", {{0}}},
    {MPC_OP_add, "f32[2,3] f32[2]", "! shapes [2,3] and [2] don't match", {{0}}},
    {MPC_OP_add, "f32[2] i32[2]", "! operands are f32 and i32: cast one of them", {{0}}},
    {MPC_OP_add, "bool[2] bool[2]", "! operand 0 must be a number, it is bool", {{0}}},
    {MPC_OP_div, "i32[2] i32[2]", "! operand 0 must be a float, it is i32", {{0}}},
    {MPC_OP_lt, "bf16[2] f32[3,1]", "bool[3,2]", {{0}}},
    {MPC_OP_and, "bool[2] f32[2]", "! operand 1 must be bool, it is f32", {{0}}},
    {MPC_OP_where, "bool[4,1] f16[3] f32[]", "f32[4,3]", {{0}}},
    {MPC_OP_where, "bool[2] f32[3] f32[3]", "! condition [2] doesn't match the values [3]", {{0}}},
    {MPC_OP_cast, "i32[3]", "bf16[3]", {FORMAT("to", MPC_FMT_bf16)}},
    {MPC_OP_cast, "f32[3]", "! there is no such format to store in", {FORMAT("to", MPC_FMT_tf32)}},
    {MPC_OP_sum, "f32[2,3,4]", "f32[3]", {INTS("axes", 0, 2)}},
    {MPC_OP_sum, "f32[2,3,4]", "f32[2,1,1]", {INTS("axes", 1, 2), BOOL("keep", true)}},
    {MPC_OP_sum, "f32[2,3]", "! axis 2 of a [2,3] does not exist", {INTS("axes", 2)}},
    {MPC_OP_sum, "f32[2,3]", "! axes must be ascending and different", {INTS("axes", 1, 0)}},
    {MPC_OP_max, "f32[0,3]", "! axis 0 is empty", {INTS("axes", 0)}},
    {MPC_OP_argmax, "bf16[5,7]", "i32[5]", {INT("axis", 1)}},
    {MPC_OP_reshape, "f32[2,6]", "f32[3,4]", {INTS("shape", 3, 4)}},
    {MPC_OP_reshape, "f32[2,6]", "! [2,6] has 12 elements, [5] does not", {INTS("shape", 5)}},
    {MPC_OP_transpose, "f32[2,3,4]", "f32[4,2,3]", {INTS("perm", 2, 0, 1)}},
    {MPC_OP_transpose, "f32[2,3]", "! perm names an axis twice", {INTS("perm", 1, 1)}},
    {MPC_OP_slice, "f32[5]", "f32[2]", {INTS("start", 1), INTS("stop", 3)}},
    {MPC_OP_slice, "f32[5]", "! 1:6 of axis 0 goes beyond [5]", {INTS("start", 1), INTS("stop", 6)}},
    {MPC_OP_pad, "f32[5]", "f32[8]", {INTS("before", 1), INTS("after", 2)}},
    {MPC_OP_pad, "f32[5]", "! before must be at least 0, it is -1", {INTS("before", -1), INTS("after", 2)}},
    {MPC_OP_concat, "f16[2,3] f32[2,5]", "f32[2,8]", {INT("axis", 1)}},
    {MPC_OP_concat, "f32[2,3] f32[4,5]", "! [2,3] and [4,5] differ on axis 0, not only on axis 1", {INT("axis", 1)}},
    {MPC_OP_expand, "f32[3,1]", "f32[2,3,4]", {INTS("shape", 2, 3, 4)}},
    {MPC_OP_expand, "f32[3]", "! [3] doesn't broadcast to [4]", {INTS("shape", 4)}},
    {MPC_OP_matmul, "bf16[2,5,3] bf16[3,4]", "bf16[2,5,4]", {{0}}},
    {MPC_OP_matmul, "f32[3,5] f32[4,3]", "f32[5,4]", {BOOL("ta", true), BOOL("tb", true)}},
    {MPC_OP_matmul, "f32[5,3] f32[4,3]", "! inner dims of [5,3] and [4,3] differ: 3 and 4", {{0}}},
    {MPC_OP_matmul, "f32[2,5,3] f32[4,3,6]", "! leading axes of [2,5,3] and [4,3,6] must be equal", {{0}}},
    {MPC_OP_linear, "bf16[7,3] bf16[3,4] f32[4]", "bf16[7,4]", {{0}}},
    {MPC_OP_linear, "f32[7,3] f32[3,4] bf16[4]", "! operand 2 must be f32, it is bf16", {{0}}},
    {MPC_OP_linear, "f32[7,3] f32[4,4]", "! last dim of [7,3] must be the first of the weight [4,4]", {{0}}},
    {MPC_OP_linear, "f32[7,3] f32[3,4]", "! act must be none or relu, it is tanh", {STR("act", "tanh")}},
    {MPC_OP_conv2d,
     "f32[2,8,9,4] f32[3,3,2,6]",
     "f32[2,4,5,6]",
     {INTS("stride", 2, 2), INTS("pad", 1, 1), INT("groups", 2)}},
    {MPC_OP_conv2d, "f32[2,8,9,4] f32[3,3,3,6]", "! 4 channels in 1 groups need weights", {{0}}},
    {MPC_OP_conv2d, "f32[2,2,9,4] f32[3,3,4,6]", "! a window of 3 does not fit into 2", {{0}}},
    {MPC_OP_conv2d_grad_input,
     "f32[2,4,5,6] f32[3,3,4,6]",
     "f32[2,8,9,4]",
     {INT("h", 8), INT("w", 9), INTS("stride", 2, 2), INTS("pad", 1, 1)}},
    {MPC_OP_conv2d_grad_weight, "f32[2,8,9,4] f32[2,6,7,6]", "f32[3,3,4,6]", {INT("kh", 3), INT("kw", 3)}},
    {MPC_OP_max_pool, "bf16[2,5,5,3]", "bf16[2,2,2,3]", {INTS("kernel", 3, 3), INTS("stride", 2, 2)}},
    {MPC_OP_max_pool,
     "f32[2,5,5,3]",
     "! pad must be smaller than kernel",
     {INTS("kernel", 2, 2), INTS("stride", 2, 2), INTS("pad", 2, 0)}},
    {MPC_OP_embedding, "bf16[10,4] i32[2,3]", "bf16[2,3,4]", {{0}}},
    {MPC_OP_embedding, "f32[10,4] f32[2]", "! operand 1 must be an integer, it is f32", {{0}}},
    {MPC_OP_embedding_grad, "f16[2,3,4] i32[2,3]", "f32[10,4]", {INT("rows", 10)}},
    {MPC_OP_gather, "f32[5,7] i32[5]", "f32[5]", {INT("axis", 1)}},
    {MPC_OP_softmax, "bf16[5,7]", "bf16[5,7]", {INT("axis", 1)}},
    {MPC_OP_softmax, "f32[5,7]", "! axis 2 of a [5,7] does not exist", {INT("axis", 2)}},
    {MPC_OP_cross_entropy, "bf16[5,7] i32[5]", "f32[5] f32[5]", {{0}}},
    {MPC_OP_cross_entropy, "f32[5,7] i32[7]", "! operand 1 must be [5], it is [7]", {{0}}},
    {MPC_OP_cross_entropy, "f32[5,7] i32[5]", "! smooth must lie between 0 and 1, it is 2", {FLOAT("smooth", 2)}},
    {MPC_OP_soft_cross_entropy, "f16[2,5,7] f32[2,5,7]", "f32[2,5] f32[2,5]", {{0}}},
    {MPC_OP_soft_cross_entropy, "f32[5,7] f32[5]", "! operand 1 must be [5,7], it is [5]", {{0}}},
    {MPC_OP_soft_cross_entropy_grad, "bf16[5,7] f32[5,7] f32[5] f32[5]", "bf16[5,7]", {{0}}},
    {MPC_OP_top_k_accuracy, "bf16[5,7] i32[5]", "f32[5]", {INT("k", 7)}},
    {MPC_OP_top_k_accuracy, "f32[5,7] i32[5]", "! k must lie between 1 and the 7 classes, it is 8", {INT("k", 8)}},
    {MPC_OP_huber, "bf16[5,7] f32[5,7]", "f32[5,7]", {FLOAT("delta", 2)}},
    {MPC_OP_huber, "f32[5] f32[5]", "! delta must be positive, it is 0", {FLOAT("delta", 0)}},
    {MPC_OP_cross_entropy_grad, "bf16[5,7] i32[5] f32[5] f32[5]", "bf16[5,7]", {{0}}},
    {MPC_OP_loss_mean, "f32[5] bool[5]", "f32[] f32[]", {{0}}},
    {MPC_OP_layer_norm, "bf16[5,7] f32[7] f32[7]", "bf16[5,7] f32[5] f32[5]", {{0}}},
    {MPC_OP_layer_norm, "bf16[5,7] bf16[7] f32[7]", "! operand 1 must be f32, it is bf16", {{0}}},
    {MPC_OP_batch_norm, "f16[5,7] f32[7] f32[7] f32[7] f32[7]", "f16[5,7] f32[7] f32[7] f32[7] f32[7]", {{0}}},
    {MPC_OP_attention,
     "bf16[2,5,3,8] bf16[2,6,3,8] bf16[2,6,3,8] bool[6]",
     "bf16[2,5,3,8] f32[2,3,5]",
     {FLOAT("scale", 1)}},
    {MPC_OP_attention,
     "f32[2,5,3,8] f32[2,6,3,8] f32[2,6,3,8]",
     "! causal attention needs as many keys as queries",
     {FLOAT("scale", 1), BOOL("causal", true)}},
    {MPC_OP_attention,
     "f32[2,5,6,8] f32[2,5,2,8] f32[2,5,2,8]",
     "f32[2,5,6,8] f32[2,6,5]",
     {FLOAT("scale", 1), INT("window", 2)}},
    {MPC_OP_attention,
     "f32[2,5,3,8] f32[2,5,2,8] f32[2,5,2,8]",
     "! operand 1 must be [2,5,3,8], it is [2,5,2,8]",
     {FLOAT("scale", 1)}},
    {MPC_OP_attention,
     "f32[2,5,3,8] f32[2,5,3,8] f32[2,5,3,8]",
     "! window must be at least 1, or 0 for none; it is -1",
     {FLOAT("scale", 1), INT("window", -1)}},
    {MPC_OP_attention_grad,
     "bf16[2,5,6,8] bf16[2,5,2,8] bf16[2,5,2,8] bf16[2,5,6,8] f32[2,6,5] bf16[2,5,6,8]",
     "bf16[2,5,6,8] bf16[2,5,2,8] bf16[2,5,2,8]",
     {FLOAT("scale", 1)}},
    {MPC_OP_attention,
     "f32[2,5,3,8] f32[2,5,3,8] f32[2,5,3,8] bool[3]",
     "! mask [3] doesn't broadcast to",
     {FLOAT("scale", 1)}},
    {MPC_OP_dropout, "bf16[5] i64[] i32[]", "bf16[5]", {FLOAT("rate", 0.5), INT("stream", 1)}},
    {MPC_OP_dropout, "f32[5] i64[] i32[]", "! rate must lie in [0, 1), it is 1", {FLOAT("rate", 1), INT("stream", 1)}},
    {MPC_OP_adamw, "f32[3] f32[3] f32[3] f32[3] f32[] i32[]", "f32[3] f32[3] f32[3]", {{0}}},
    {MPC_OP_adamw, "f32[3] bf16[3] f32[3] f32[3] f32[] i32[]", "! operand 1 must be f32, it is bf16", {{0}}},
    {MPC_OP_schedule,
     "i32[]",
     "! kind must be constant, cosine, linear or step, it is other",
     {FLOAT("rate", 1), STR("kind", "other")}},
    {MPC_OP_scaler_update, "f32[] i32[] bool[] bool[]", "f32[] i32[]", {{0}}},
    {MPC_OP_global_norm, "f32[3] bf16[2,2]", "f32[]", {{0}}},
};

/* "f32[2,3] " from `text`; the rest of it. */
static const char *parse_type(mpc_context *ctx, const char *text, mpc_type_id *type) {
    char name[16];
    int64_t dims[MPC_MAX_RANK];
    uint32_t rank = 0;
    size_t n = strcspn(text, "[");
    memcpy(name, text, n);
    name[n] = 0;
    text += n + 1;
    while (*text != ']') {
        dims[rank] = 0;
        for (; *text >= '0' && *text <= '9'; text++) dims[rank] = dims[rank] * 10 + (*text - '0');
        rank++;
        text += *text == ',';
    }
    *type = mpc_type_make(ctx, mpc_format_find(name), rank, dims);
    return text + 1 + strspn(text + 1, " ");
}

static void print_results(mpc_builder *b, mpc_value_id first, uint32_t count, mpc_str *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) mpc_str_append(out, " ");
        mpc_type_print(mpc_builder_type(b, first + i), out);
    }
}

static void check_row(mpc_context *ctx, const mpc_diag_list *list, const row *r) {
    mpc_builder *b = mpc_builder_create(ctx, "g");
    mpc_value_id operands[8];
    uint32_t count = 0, attrs = 0;
    size_t before = mpc_diag_list_count(list);
    for (const char *at = r->operands; *at != 0; count++) {
        mpc_type_id type;
        at = parse_type(ctx, at, &type);
        operands[count] = mpc_build_input(b, (const char[]){(char)('a' + count), 0}, type, NULL, 0);
    }
    while (attrs < 4 && r->attrs[attrs].key != NULL) attrs++;
    mpc_value_id first = mpc_build(b, r->op, operands, count, r->attrs, attrs);
    mpc_str got = {0};
    if (first != MPC_NONE) print_results(b, first, mpc_op_get(ctx, r->op)->result_count, &got);
    else if (mpc_diag_list_count(list) > before) mpc_str_printf(&got, "! %s", mpc_diag_list_get(list, before)->message);
    bool refusal = r->expected[0] == '!';
    bool same =
        refusal ? strstr(mpc_str_cstr(&got), r->expected + 2) != NULL : strcmp(mpc_str_cstr(&got), r->expected) == 0;
    CHECK_MSG(same, "%s(%s) gives \"%s\", not \"%s\"", mpc_op_get(ctx, r->op)->name, r->operands, mpc_str_cstr(&got),
              r->expected);
    mpc_str_free(&got);
    mpc_builder_destroy(b);
}

int main(void) {
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL) return 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_row(ctx, list, &rows[i]);
    mpc_context_destroy(ctx);
    mpc_diag_list_destroy(list);
    return check_result();
}
