/* Every code of the verifier is seen once, on a graph that breaks just this invariant; a graph that breaks none passes.
 */
#include "tests/ir/ir_test.h"

static const char good[] = "mpir 1\n"
                           "graph @g(%x: f32[2,3] {lo=0 hi=4}, %i: i32[2]) {\n"
                           "  %w = state() {name=\"w\" trainable=true} : f32[2,3]\n"
                           "  %wl = state() {name=\"w\" derived=bf16} : bf16[2,3]\n"
                           "  %a = add(%x, %w) : f32[2,3] loc(\"m.mpg\":3:4)\n"
                           "  %b = cast(%a) {to=bf16 by=autocast} : bf16[2,3] assign(compute=f32)\n"
                           "  %s = sum(%b) {axes=[0,1]} : f32[]\n"
                           "  next %w, %a\n"
                           "  place %a at 0 size 24\n"
                           "  place %b in %a\n"
                           "  arena 24\n"
                           "  return(\"loss\": %s)\n"
                           "}\n";

typedef struct text_case {
    const char *code, *from, *to; /* the first `from` in `good` becomes `to` */
} text_case;

/* What the parser leaves to the verifier. */
static const text_case text_cases[] = {
    {"V07", "add(%x, %w) : f32[2,3]", "transpose(%x) {perm=[0,1]} : f16[2,3]"},
    {"V07", "add(%x, %w) : f32[2,3]", "reshape(%x) {shape=[2,3]} : bf16[2,3]"},
    {"V07", "add(%x, %w) : f32[2,3]", "slice(%x) {start=[0,0] stop=[2,3]} : f16[2,3]"},
    {"V07", "add(%x, %w) : f32[2,3]", "expand(%x) {shape=[2,3]} : f16[2,3]"},
    {"V08", "name=\"w\" trainable", "name=\"\" trainable"},
    {"V08", "trainable=true", "skip=sometimes"},
    {"V08", "derived=bf16", "trainable=false"},
    {"V08", "derived=bf16} : bf16", "derived=f16} : bf16"},
    {"V09", "next %w, %a", "next %w, %b"},
    {"V11", "%b = cast(%a) {to=bf16 by=autocast} : bf16", "%b = cast(%a) {to=bf16 by=autocast} : tf32"},
    {"V12", "compute=f32", "compute=i32"},
    {"V12", "compute=f32", "out=tf32"},
    {"V01", "assign(", "group(9999) assign("},
    {"V14", "loc(\"m.mpg\":3:4)", "group(1)"},
    {"V14", ": bf16[2,3] assign(compute=f32)\n",
     ": bf16[2,3] group(2)\n"
     "  %c = neg(%x) : f32[2,3] group(1)\n  %d = cast(%c) {to=bf16} : bf16[2,3] group(2)\n"
     "  %e = cast(%d) {to=f32} : f32[2,3] group(1)\n"},
    {"V13", "arena 24", "arena 20"},
    {"V13", "at 0 size 24", "at 1 size 24"},
    {"V13", "at 0 size 24", "at 0 size 20"},
    {"V13", "place %b in %a", "place %b in %b"},
};

static void break_operand(mpc_graph *g) { g->operands[0] = g->value_count; }
static void break_op(mpc_graph *g) { g->nodes[0].op = 100000; }
static void break_attr_table(mpc_graph *g) { g->nodes[0].attr_count = 1000; }
static void break_next(mpc_graph *g) { g->nexts[0].value = MPC_NONE; }
static void break_output(mpc_graph *g) { g->outputs[0].value = MPC_NONE; }
static void break_input(mpc_graph *g) { g->inputs[0].value = MPC_NONE; }
static void break_producer(mpc_graph *g) { g->values[mpc_graph_find_value(g, "a")].producer = 0; }
static void break_input_value(mpc_graph *g) { g->values[g->inputs[0].value].producer = 0; }
static void break_ownership(mpc_graph *g) { g->input_count--; }
static void break_order(mpc_graph *g) { g->operands[g->nodes[2].operand_begin] = g->nodes[3].result_begin; }
static void break_self_order(mpc_graph *g) { g->operands[g->nodes[2].operand_begin] = g->nodes[2].result_begin; }
static void break_name(mpc_graph *g) { g->values[mpc_graph_find_value(g, "a")].name = g->values[0].name; }
static void break_empty_name(mpc_graph *g) { g->values[0].name = 0; }
static void break_count(mpc_graph *g) { g->nodes[2].operand_count = 1; }
static void break_attr_key(mpc_graph *g) { g->attrs[g->nodes[3].attr_begin].key = 1; }
static void break_attr_kind(mpc_graph *g) { g->attrs[g->nodes[3].attr_begin].kind = MPC_ATTR_INT; }
static void break_attr_missing(mpc_graph *g) { g->nodes[4].attr_count = 0; }
static void break_attr_default(mpc_graph *g) { g->attrs[g->nodes[3].attr_begin + 1].s = mpc_intern(g->ctx, "user"); }
static void break_input_attr(mpc_graph *g) {
    g->attrs[g->inputs[0].attr_begin].key = g->attrs[g->inputs[0].attr_begin + 1].key;
}
static void break_attr_order(mpc_graph *g) {
    mpc_attr *attrs = g->attrs + g->nodes[3].attr_begin, first = attrs[0];
    attrs[0] = attrs[1];
    attrs[1] = first;
}
static void break_shape(mpc_graph *g) {
    g->values[mpc_graph_find_value(g, "a")].type = type2(g->ctx, MPC_FMT_f32, 3, 2);
}
static void break_kind(mpc_graph *g) {
    g->values[mpc_graph_find_value(g, "a")].type = type2(g->ctx, MPC_FMT_i32, 2, 3);
}
static void break_inference(mpc_graph *g) { g->values[g->inputs[0].value].type = type2(g->ctx, MPC_FMT_f32, 5, 3); }
static void break_next_state(mpc_graph *g) { g->nexts[0].state = g->nexts[0].value; }
static void break_output_name(mpc_graph *g) { g->outputs[0].name = 0; }
static void break_type(mpc_graph *g) { g->values[g->inputs[1].value].type = 0; }
static void break_place(mpc_graph *g) { g->places[mpc_graph_find_value(g, "b")].value = MPC_NONE; }
static void double_next(mpc_graph *g) {
    mpc_next *nexts = mpc_arena_alloc(g->arena, 2 * sizeof *nexts);
    nexts[0] = nexts[1] = g->nexts[0];
    g->nexts = nexts;
    g->next_count = 2;
}
static void double_output(mpc_graph *g) {
    mpc_output *outputs = mpc_arena_alloc(g->arena, 2 * sizeof *outputs);
    outputs[0] = outputs[1] = g->outputs[0];
    g->outputs = outputs;
    g->output_count = 2;
}

typedef struct damage {
    const char *code;
    void (*apply)(mpc_graph *g);
} damage;

static const damage damages[] = {
    {"V01", break_operand},      {"V01", break_op},           {"V01", break_attr_table}, {"V01", break_next},
    {"V01", break_output},       {"V01", break_input},        {"V02", break_producer},   {"V02", break_input_value},
    {"V02", break_ownership},    {"V03", break_order},        {"V03", break_self_order}, {"V04", break_name},
    {"V04", break_empty_name},   {"V05", break_count},        {"V06", break_attr_key},   {"V06", break_attr_kind},
    {"V06", break_attr_missing}, {"V06", break_attr_default}, {"V06", break_attr_order}, {"V06", break_input_attr},
    {"V07", break_shape},        {"V07", break_kind},         {"V07", break_inference},  {"V09", break_next_state},
    {"V09", double_next},        {"V10", break_output_name},  {"V10", double_output},    {"V11", break_type},
    {"V13", break_place},
};

static void fails_with(session *s, const mpc_graph *g, const char *code, size_t row) {
    session_clear(s);
    CHECK_MSG(mpc_graph_verify(g) == MPC_FAILED, "row %zu, %s", row, code);
    CHECK_MSG(session_has(s, code), "row %zu, %s", row, code);
    CHECK_MSG(mpc_diag_code_title(code) != NULL, "%s isn't in the table of codes", code);
    mpc_str text = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &text); /* people will want to look at it */
    CHECK(text.length > 0);
    mpc_str_free(&text);
}

static void texts_fail_with_their_code(session *s) {
    for (size_t i = 0; i < sizeof text_cases / sizeof *text_cases; i++) {
        const text_case *c = &text_cases[i];
        const char *at = strstr(good, c->from);
        CHECK_MSG(at, "row %zu", i);
        mpc_str text = {0};
        mpc_str_append_n(&text, good, (size_t)(at - good));
        mpc_str_printf(&text, "%s%s", c->to, at + strlen(c->from));
        mpc_graph *g = parse(s, mpc_str_cstr(&text));
        CHECK_MSG(g, "row %zu: %s", i, mpc_str_cstr(&text));
        if (g) fails_with(s, g, c->code, i);
        else session_show(s);
        mpc_graph_destroy(g);
        mpc_str_free(&text);
    }
}

static void damaged_graphs_fail_with_their_code(session *s) {
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        mpc_graph *g = parse(s, good);
        CHECK(g);
        if (!g) continue;
        damages[i].apply(g);
        fails_with(s, g, damages[i].code, i);
        mpc_graph_destroy(g);
    }
}

static void every_verifier_code_is_tested(void) {
    for (size_t i = 0; i < mpc_diag_code_count(); i++) {
        const char *code = mpc_diag_code_at(i);
        bool tested = code[0] != 'V' || code[1] > '1';
        for (size_t j = 0; j < sizeof text_cases / sizeof *text_cases; j++)
            tested = tested || !strcmp(text_cases[j].code, code);
        for (size_t j = 0; j < sizeof damages / sizeof *damages; j++) tested = tested || !strcmp(damages[j].code, code);
        CHECK_MSG(tested, "%s", code);
    }
}

static void the_good_graph_passes(session *s) {
    mpc_graph *g = parse(s, good);
    CHECK(g && mpc_graph_verify(g) == MPC_OK && mpc_diag_list_count(s->list) == 0);
    session_show(s);
    mpc_graph_destroy(g);
}

static void messages_name_value_and_place(session *s) {
    mpc_graph *g = parse(s, good);
    if (!g) return;
    break_shape(g);
    session_clear(s);
    CHECK(mpc_graph_verify(g) == MPC_FAILED);
    const mpc_diag *diag = mpc_diag_list_get(s->list, 0);
    CHECK_STR(diag->message, "a: add gives f32[2,3], not f32[3,2]");
    CHECK_STR(diag->place, "m.mpg:3:4");
    mpc_graph_destroy(g);
}

static void no_more_than_ten_errors_are_sent(session *s) {
    mpc_graph *g = random_graph(s, 3, 100);
    for (uint32_t i = 0; i < g->value_count; i++) g->values[i].name = 0;
    session_clear(s);
    CHECK(mpc_graph_verify(g) == MPC_FAILED && mpc_diag_list_count(s->list) == 10);
    mpc_graph_destroy(g);
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    the_good_graph_passes(&s);
    texts_fail_with_their_code(&s);
    damaged_graphs_fail_with_their_code(&s);
    every_verifier_code_is_tested();
    messages_name_value_and_place(&s);
    no_more_than_ten_errors_are_sent(&s);
    session_close(&s);
    return check_result();
}
