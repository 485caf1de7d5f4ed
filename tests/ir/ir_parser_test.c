/* The parser says what is wrong and where; no bytes crash it: a good file cut at every byte, with every byte changed,
 * with random flips. */
#include "tests/ir/ir_test.h"

static const char good[] =
    "mpir 1\n"
    "# a comment\n"
    "graph @\"a b\"(%x: f32[2,3] {source=\"columns[0:3]\" hi=9223372036854775807}, %i: i32[2]) {\n"
    "  %w = state() {name=\"w\" skip=keep trainable=true a=-0.5} : f32[3,4]\n"
    "  %\"m 1\" = matmul(%x, %w) {prec=f16} : f16[2,4] assign(in=f16 compute=f16 acc=f32) group(4) loc(\"f\":1:2)\n"
    "  %add:2 = sum(%\"m 1\") {axes=[0,1]} : f32[] group(4) origin(\"o\") why(\"N40: \\\"f32\\\"\\x01\")\n"
    "  %k = const() {value=nan} : f32[3,4]\n"
    "  %l, %e = cross_entropy(%x, %i) : f32[2], f32[2]\n"
    "  next %w, %k\n"
    "  place %\"m 1\" at 64 size 16\n"
    "  place %k in %w\n"
    "  arena 80\n"
    "  return(\"loss\": %add:2)\n"
    "}\n";

static const struct {
    const char *code, *from, *to, *at; /* the error's span begins with `at` */
} cases[] = {
    {"E502", "mpir 1", "", "graph"},
    {"E502", "mpir 1", "mpir 2", "2"},
    {"E502", "mpir 1", "mpir", "graph"},
    {"E501", "graph @", "grph @", "grph"},
    {"E501", "@\"a b\"", "\"a b\"", "\"a b\""},
    {"E501", "%x: f32", "%x f32", "f32"},
    {"E501", "sum(", "sum ", "%\"m 1\""},
    {"E501", "return", "retrun", "retrun"},
    {"E501", "return(\"loss\": %add:2)\n}", "return(\"loss\": %add:2)", ""},
    {"E501", "return(\"loss\": %add:2)\n}", "return(\"loss\": %add:2) } more", "more"},
    {"E501", "%add:2 =", "% =", "%"},
    {"E501", "%add:2 =", "%\"\" =", "%\"\""},
    {"E501", "%add:2 =", "~ =", "~"},
    {"E501", "axes=[0,1]", "axes=0", "0"},
    {"E501", "axes=[0,1]", "axes=[0,x]", "x"},
    {"E501", "axes=[0,1]", "axes=[0 1]", "1"},
    {"E501", "trainable=true", "trainable=1", "1"},
    {"E501", "a=-0.5", "a=0.5x", "0.5x"},
    {"E501", "a=-0.5", "a=\"1\"", "\"1\""},
    {"E501", "\\x01", "\\q", "\"N40"},
    {"E501", "\\x01", "\\x00", "\"N40"},
    {"E501", "group(4)", "group(x)", "x"},
    {"E501", "assign(in=f16", "assign(inn=f16", "inn"},
    {"E501", "at 64 size", "at 64 sizes", "sizes"},
    {"E503", "matmul(%x, %w)", "matmul(%x, %k)", "%k"},
    {"E503", "matmul(%x, %w)", "matmul(%x, %\"m 1\")", "%\"m 1\""},
    {"E503", "next %w, %k", "next %w, %kk", "%kk"},
    {"E503", "in %w", "in %v", "%v"},
    {"E503", ": %add:2", ": %add:3", "%add:3"},
    {"E504", "%k = const", "%w = const", "%w = const"},
    {"E504", "%l, %e =", "%l, %l =", "%l ="},
    {"E504", "%i: i32", "%x: i32", "%x: i32"},
    {"E505", "matmul(", "matmull(", "matmull"},
    {"E506", "prec=f16", "precc=f16", "precc"},
    {"E506", "prec=f16", "prec=f16 prec=f16", "prec=f16}"},
    {"E506", "{axes=[0,1]}", "", "sum"},
    {"E506", "source=", "sauce=", "sauce"},
    {"E507", ": f16[2,4]", ": f16[2,5]", "matmul"},
    {"E507", ": f16[2,4]", ": i32[2,4]", "matmul"},
    {"E507", ": f16[2,4]", ": f16[2,4,0]", "matmul"},
    {"E507", "%w = state() {name=\"w\" skip=keep trainable=true a=-0.5} : f32[3,4]",
     "%w = state() {name=\"w\"} : f32[4,4]", "matmul"},
    {"E508", "prec=f16", "prec=f17", "f17"},
    {"E508", "%i: i32[2]", "%i: int[2]", "int"},
    {"E508", "%i: i32[2]", "%i: none[2]", "none"},
    {"E509", "matmul(%x, %w)", "matmul(%x)", "matmul"},
    {"E509", "matmul(%x, %w)", "matmul(%x, %w, %w)", "matmul"},
    {"E509", "%l, %e = cross_entropy(%x, %i) : f32[2], f32[2]", "%l = cross_entropy(%x, %i) : f32[2]", "cross"},
    {"E509", ": f32[2], f32[2]", ": f32[2]", "cross"},
    {"E510", "%i: i32[2]", "%i: i32[-2]", "i32[-2]"},
    {"E510", "%i: i32[2]", "%i: i32[4611686018427387904,4]", "i32["},
    {"E510", "%i: i32[2]", "%i: i32[1,1,1,1,1,1,1,1,1]", "i32["},
    {"E510", "hi=9223372036854775807", "hi=9223372036854775808", "9223372036854775808"},
    {"E510", "group(4)", "group(4294967296)", "4294967296"},
    {"E510", "at 64 size", "at -64 size", "-64"},
    {"E511", "next %w, %k", "next %k, %k", "%k, %k"},
    {"E511", "next %w, %k", "next %w, %k next %w, %k", "%w, %k\n"},
    {"E511", "place %k in", "place %\"m 1\" in", "%\"m 1\" in"},
    {"E511", "\"loss\": %add:2", "\"loss\": %add:2, \"loss\": %k", "\"loss\": %k"},
    {"E511", "\"loss\": %add:2", "\"\": %add:2", "\"\""},
    {"E512", "why(\"N40: \\\"f32\\\"\\x01\")", "why(\"N40)", "\"N40"},
    {"E512", "place %\"m 1\" at", "place %\"m 1 at", "%\"m 1 at"},
};

static void replace(const char *from, const char *to, mpc_str *out) {
    const char *at = strstr(good, from);
    CHECK_MSG(at, "%s", from);
    if (!at) return;
    mpc_str_append_n(out, good, (size_t)(at - good));
    mpc_str_printf(out, "%s%s", to, at + strlen(from));
}

static void each_mistake_has_its_code_and_place(session *s) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mpc_str text = {0};
        replace(cases[i].from, cases[i].to, &text);
        session_clear(s);
        mpc_graph *g = parse(s, mpc_str_cstr(&text));
        CHECK_MSG(!g && mpc_diag_list_count(s->list) == 1, "case %zu: `%s`", i, cases[i].to);
        if (!g && mpc_diag_list_count(s->list)) {
            const mpc_diag *diag = mpc_diag_list_get(s->list, 0);
            CHECK_MSG(!strcmp(diag->code, cases[i].code), "case %zu: `%s` gives %s (%s)", i, cases[i].to, diag->code,
                      diag->message);
            const char *at = mpc_str_cstr(&text) + diag->labels[0].span.begin;
            CHECK_MSG(!strncmp(at, cases[i].at, strlen(cases[i].at)), "case %zu: `%s` is marked at `%.20s`", i,
                      cases[i].to, at);
        }
        mpc_graph_destroy(g);
        mpc_str_free(&text);
    }
}

static void every_code_of_the_parser_is_tested(void) {
    for (size_t i = 0; i < mpc_diag_code_count(); i++) {
        const char *code = mpc_diag_code_at(i);
        bool tested = strncmp(code, "E5", 2) != 0;
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) tested = tested || !strcmp(cases[j].code, code);
        CHECK_MSG(tested, "%s", code);
    }
}

/* Either a graph or a diagnostic; a graph must print and come back. */
static void survives(session *s, const char *text, size_t length) {
    session_clear(s);
    mpc_graph *g = parse_n(s, text, length);
    CHECK((g != NULL) != (mpc_diag_list_count(s->list) > 0));
    if (!g) return;
    mpc_str out = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &out);
    mpc_graph *back = parse_n(s, mpc_str_cstr(&out), out.length);
    CHECK_MSG(back && mpc_graph_equal(g, back), "%s", mpc_str_cstr(&out));
    (void)mpc_graph_verify(g);
    mpc_graph_destroy(back);
    mpc_graph_destroy(g);
    mpc_str_free(&out);
}

static void cut_files_are_refused(session *s) {
    size_t length = sizeof good - 1;
    for (size_t i = 0; i < length; i++) {
        survives(s, good, i);
        CHECK(i >= length - 1 || mpc_diag_list_count(s->list) > 0);
    }
    survives(s, good, length);
    CHECK(mpc_diag_list_count(s->list) == 0);
}

static void changed_bytes_are_survived(session *s) {
    static const char bytes[] = {'\0', '"', '%', '{', ')', ':', '9', '-', '\n', '\\', '\xff', 'e', '#'};
    char text[sizeof good];
    for (size_t i = 0; i < sizeof good - 1; i++)
        for (size_t j = 0; j < sizeof bytes; j++) {
            memcpy(text, good, sizeof good);
            text[i] = bytes[j];
            survives(s, text, sizeof good - 1);
        }
}

static void random_flips_are_survived(session *s) {
    char text[sizeof good];
    dice d = {11, 0};
    for (int round = 0; round < 4000; round++) {
        memcpy(text, good, sizeof good);
        uint32_t flips = 1 + roll(&d, 4);
        for (uint32_t i = 0; i < flips; i++) {
            size_t at = roll(&d, sizeof good - 1);
            if (roll(&d, 2)) text[at] = (char)(text[at] ^ (1 << roll(&d, 8)));
            else text[at] = good[roll(&d, sizeof good - 1)];
        }
        survives(s, text, sizeof good - 1);
    }
}

static void long_numbers_and_names_are_survived(session *s) {
    char text[3000];
    for (int kind = 0; kind < 3; kind++) {
        static const char *const formats[] = {"mpir 1 graph @g(%%x: f32[%0*d]) { return() }",
                                              "mpir 1 graph @g() { %%c = const() {value=1%0*d.5} : f32[] return() }",
                                              "mpir 1 graph @g() { %%c = o%0*d() : f32[] return() }"};
        int length = snprintf(text, sizeof text, formats[kind], 2000, 1);
        survives(s, text, (size_t)length);
        CHECK(mpc_diag_list_count(s->list) == 1);
    }
    int length = snprintf(text, sizeof text, "mpir 1 graph @g(%%x%0*d: f32[2]) { return() }", 2000, 1);
    survives(s, text, (size_t)length);
    CHECK(mpc_diag_list_count(s->list) == 0);
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    each_mistake_has_its_code_and_place(&s);
    every_code_of_the_parser_is_tested();
    cut_files_are_refused(&s);
    changed_bytes_are_survived(&s);
    random_flips_are_survived(&s);
    long_numbers_and_names_are_survived(&s);
    session_close(&s);
    return check_result();
}
