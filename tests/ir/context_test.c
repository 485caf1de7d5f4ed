/* Interning, types, formats, the op registry and attribute declarations. */
#include "ir/infer.h"
#include "tests/ir/ir_test.h"

static void symbols_are_dense_and_stable(session *s) {
    mpc_sym a = mpc_intern(s->ctx, "alpha");
    CHECK(a && a == mpc_intern_n(s->ctx, "alphabet", 5) && mpc_intern(s->ctx, "") == 0);
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "name%d", i);
        mpc_sym sym = mpc_intern(s->ctx, name);
        CHECK_STR(mpc_sym_text(s->ctx, sym), name);
    }
    CHECK(a == mpc_intern(s->ctx, "alpha"));
    CHECK_STR(mpc_sym_text(s->ctx, 0), "");
    CHECK_STR(mpc_sym_text(s->ctx, 4000000000u), "");
}

static void equal_types_have_equal_ids(session *s) {
    const int64_t dims[] = {64, 784, 5};
    mpc_type_id t = mpc_type_make(s->ctx, MPC_FMT_f32, 2, dims);
    CHECK(t && t == mpc_type_make(s->ctx, MPC_FMT_f32, 2, dims) && t != mpc_type_make(s->ctx, MPC_FMT_f32, 3, dims));
    mpc_type_id low = mpc_type_with_format(s->ctx, t, MPC_FMT_bf16);
    CHECK(low != t && mpc_type_with_format(s->ctx, low, MPC_FMT_f32) == t);
    CHECK(mpc_type_elements(mpc_type_get(s->ctx, t)) == 64 * 784 &&
          mpc_type_bytes(mpc_type_get(s->ctx, low)) == 2 * 64 * 784);
    mpc_type_id scalar = mpc_type_make(s->ctx, MPC_FMT_i64, 0, NULL);
    CHECK(mpc_type_elements(mpc_type_get(s->ctx, scalar)) == 1 && mpc_type_bytes(mpc_type_get(s->ctx, scalar)) == 8);
    mpc_str text = {0};
    mpc_type_print(mpc_type_get(s->ctx, t), &text);
    mpc_type_print(mpc_type_get(s->ctx, scalar), &text);
    CHECK_STR(mpc_str_cstr(&text), "f32[64,784]i64[]");
    mpc_str_free(&text);
}

static void impossible_types_are_none(session *s) {
    CHECK(!mpc_type_make(s->ctx, MPC_FMT_none, 0, NULL) &&
          !mpc_type_make(s->ctx, MPC_FMT_f32, 1, (const int64_t[]){-1}));
    const int64_t big[9] = {INT64_C(1) << 31, INT64_C(1) << 31, 2, 1, 1, 1, 1, 1, 1};
    CHECK(mpc_type_make(s->ctx, MPC_FMT_f32, 2, big) && !mpc_type_make(s->ctx, MPC_FMT_f32, 3, big));
    CHECK(!mpc_type_make(s->ctx, MPC_FMT_f32, 9, big));
    CHECK(!mpc_type_make(s->ctx, MPC_FMT_f32, 3, (const int64_t[]){0, INT64_C(1) << 62, 4}));
    CHECK(mpc_type_make(s->ctx, MPC_FMT_f32, 2, (const int64_t[]){0, 4}) != 0);
    CHECK(!mpc_type_with_format(s->ctx, 0, MPC_FMT_f32));
}

static void formats_join_to_what_holds_both(void) {
    static const mpc_format rows[][3] = {
        {MPC_FMT_f16, MPC_FMT_bf16, MPC_FMT_f32},      {MPC_FMT_f16, MPC_FMT_f16, MPC_FMT_f16},
        {MPC_FMT_bf16, MPC_FMT_f32, MPC_FMT_f32},      {MPC_FMT_f32, MPC_FMT_f64, MPC_FMT_f64},
        {MPC_FMT_f8e4m3, MPC_FMT_f8e5m2, MPC_FMT_f32}, {MPC_FMT_f8e4m3, MPC_FMT_f16, MPC_FMT_f16},
        {MPC_FMT_f8e5m2, MPC_FMT_bf16, MPC_FMT_bf16},  {MPC_FMT_i32, MPC_FMT_i64, MPC_FMT_i64},
        {MPC_FMT_none, MPC_FMT_f16, MPC_FMT_f16},      {MPC_FMT_bool, MPC_FMT_u8, MPC_FMT_u8},
        {MPC_FMT_bool, MPC_FMT_bool, MPC_FMT_bool},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_MSG(mpc_format_join(rows[i][0], rows[i][1]) == rows[i][2], "row %zu", i);
        CHECK_MSG(mpc_format_join(rows[i][1], rows[i][0]) == rows[i][2], "row %zu turned", i);
    }
    CHECK(mpc_format_find("bf16") == MPC_FMT_bf16 && mpc_format_find("bf17") == MPC_FMT_none &&
          mpc_format_find("none") == MPC_FMT_none);
    CHECK(mpc_format_is_low(MPC_FMT_f16) && !mpc_format_is_low(MPC_FMT_f32) && !mpc_format_is_low(MPC_FMT_u8));
    CHECK(mpc_format_is_float(MPC_FMT_tf32) && !mpc_format_is_float(MPC_FMT_bool) &&
          !mpc_format_is_float(MPC_FMT_none));
    for (int f = 1; f < MPC_FMT_builtin_count; f++)
        CHECK(mpc_format_find(mpc_format_get((mpc_format)f)->name) == (mpc_format)f);
}

static void every_row_of_the_table_is_registered(session *s) {
    CHECK(mpc_op_count(s->ctx) == MPC_OP_builtin_count);
    for (mpc_op_id id = 0; id < MPC_OP_builtin_count; id++) {
        const mpc_op *op = mpc_op_get(s->ctx, id);
        mpc_op_id found = 0;
        CHECK_MSG(mpc_op_find(s->ctx, op->name, &found) && found == id, "%s", op->name);
        CHECK_MSG(op->doc[0] && op->shape && op->result_count, "%s", op->name);
        CHECK_MSG((op->kind == MPC_KIND_EWISE) == (op->kernel[0] != '\0'), "%s", op->name);
        CHECK_MSG(op->eval || id == MPC_OP_state, "%s has no evaluation", op->name);
        CHECK_MSG(mpc_class_name(op->cls)[0], "%s", op->name);
    }
    CHECK(mpc_op_get(s->ctx, MPC_OP_add)->flags == (MPC_OPF_EXACT | MPC_OPF_COMMUTES));
    CHECK(mpc_op_get(s->ctx, MPC_OP_random_uniform)->flags == (MPC_OPF_EXACT | MPC_OPF_RANDOM | MPC_OPF_NO_GRAD));
    CHECK(mpc_op_get(s->ctx, MPC_OP_exp)->flags == 0);
    const mpc_op *conv = mpc_op_get(s->ctx, MPC_OP_conv2d);
    CHECK(conv->min_operands == 2 && conv->max_operands == 3 && conv->cls == MPC_CLASS_LOW &&
          conv->kind == MPC_KIND_CONV);
    CHECK(mpc_op_get(s->ctx, MPC_OP_concat)->max_operands == UINT32_MAX);
    CHECK(!mpc_op_get(s->ctx, MPC_OP_builtin_count) && !mpc_op_find(s->ctx, "no_such_op", NULL));
}

static void declarations_are_read(session *s) {
    mpc_attr_spec *specs;
    uint32_t count;
    CHECK(mpc_attr_specs_parse(s->ctx,
                               " a:int=-3  b:float=1e-5 c:bool=true d:str= e:str=x f:format=none g:format=bf16 "
                               "h:ints=[1,-2] i:ints=[] j:int",
                               &specs, &count) == MPC_OK);
    CHECK(count == 10 && specs[0].fallback.i == -3 && specs[1].fallback.f == 1e-5 && specs[2].fallback.b &&
          !specs[3].fallback.s);
    CHECK_STR(mpc_sym_text(s->ctx, specs[4].fallback.s), "x");
    CHECK(specs[5].fallback.format == MPC_FMT_none && specs[6].fallback.format == MPC_FMT_bf16);
    CHECK(specs[7].fallback.ints.count == 2 && specs[7].fallback.ints.data[1] == -2 &&
          specs[8].fallback.ints.count == 0);
    CHECK(specs[9].required && !specs[0].required);
    static const char *const wrong[] = {"a",        "a:",        ":int",       "a:integer",
                                        "a:int=",   "a:int=x",   "a:bool=1",   "a:format=f17",
                                        "a:ints=1", "a:ints=[1", "a:ints=[x]", "a:float=1x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        session_clear(s);
        CHECK_MSG(mpc_attr_specs_parse(s->ctx, wrong[i], &specs, &count) == MPC_FAILED, "%s", wrong[i]);
        CHECK(session_has(s, "E900"));
    }
    CHECK(mpc_attr_specs_parse(s->ctx, "", &specs, &count) == MPC_OK && count == 0);
}

static bool shape_of_first(struct mpc_infer *infer) {
    infer->results[0] = infer->operands[0];
    return true;
}

static void a_plugin_op_is_a_full_op(session *s) {
    mpc_op op = {.name = "mish",
                 .doc = "x tanh(softplus(x))",
                 .kind = MPC_KIND_COMPOSITE,
                 .min_operands = 1,
                 .max_operands = 1,
                 .result_count = 1,
                 .cls = MPC_CLASS_FOLLOW,
                 .shape = shape_of_first};
    mpc_op_id id = 0;
    CHECK(mpc_op_register(s->ctx, &op, "sharp:float=1 mode:str", &id) == MPC_OK && id == MPC_OP_builtin_count);
    mpc_graph *g =
        parse(s, "mpir 1 graph @g(%x: f32[2]) { %y = mish(%x) {sharp=2 mode=\"a b\"} : bf16[2] return(\"y\": %y) }");
    CHECK(g && mpc_graph_verify(g) == MPC_OK && mpc_attr_float(g, &g->nodes[0], "sharp") == 2);
    CHECK_STR(g ? mpc_attr_str(g, &g->nodes[0], "mode") : "", "a b");
    mpc_graph_destroy(g);
    session_clear(s);
    CHECK(mpc_op_register(s->ctx, &op, "", NULL) == MPC_FAILED && session_has(s, "E900"));
    mpc_op_get_mutable(s->ctx, id)->cls = MPC_CLASS_HIGH;
    CHECK(mpc_op_get(s->ctx, id)->cls == MPC_CLASS_HIGH);
}

static void broadcast_is_numpys(void) {
    static const struct {
        mpc_type a, b, out;
        bool ok;
    } rows[] = {
        {{MPC_FMT_f32, 2, {3, 4}}, {MPC_FMT_f32, 1, {4}}, {MPC_FMT_f32, 2, {3, 4}}, true},
        {{MPC_FMT_f32, 2, {3, 1}}, {MPC_FMT_f32, 2, {1, 4}}, {MPC_FMT_f32, 2, {3, 4}}, true},
        {{MPC_FMT_f32, 2, {3, 1}}, {MPC_FMT_f32, 0, {0}}, {MPC_FMT_f32, 2, {3, 1}}, true},
        {{MPC_FMT_f32, 1, {1}}, {MPC_FMT_f32, 1, {0}}, {MPC_FMT_f32, 1, {0}}, true},
        {{MPC_FMT_f16, 1, {2}}, {MPC_FMT_bf16, 1, {2}}, {MPC_FMT_f32, 1, {2}}, true},
        {{MPC_FMT_f32, 1, {3}}, {MPC_FMT_f32, 1, {4}}, {MPC_FMT_f32, 0, {0}}, false},
        {{MPC_FMT_f32, 2, {3, 4}}, {MPC_FMT_f32, 1, {3}}, {MPC_FMT_f32, 0, {0}}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mpc_type out = {0};
        CHECK_MSG(mpc_broadcast(&rows[i].a, &rows[i].b, &out) == rows[i].ok, "row %zu", i);
        if (rows[i].ok) CHECK_MSG(memcmp(&out, &rows[i].out, sizeof out) == 0, "row %zu", i);
    }
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    symbols_are_dense_and_stable(&s);
    equal_types_have_equal_ids(&s);
    impossible_types_are_none(&s);
    formats_join_to_what_holds_both();
    every_row_of_the_table_is_registered(&s);
    declarations_are_read(&s);
    a_plugin_op_is_a_full_op(&s);
    broadcast_is_numpys();
    session_close(&s);
    return check_result();
}
