/* `use`: every file is a scope, only blocks and constants that a file declares travel, each file is read once, and what
 * can't be is refused at the line that asks for it. */
#include "tests/check.h"
#include "tests/lang/elaborate.h"

#define MODEL(body) "model m(x: f32[batch, 4]) {\n    loss l = mean(" body ")\n}\n"

static mpc_graph *build(session *s, other_text *files, const mpc_override *o) {
    open_texts(s, files, o, o ? 1 : 0);
    mpc_graph *g = elaborate(s, MPC_PHASE_TRAIN, 2);
    if (!g) show_diagnostics(s->diags, s->sources);
    return g;
}

static void check_states(other_text *files, const mpc_override *o, const char *expected) {
    session s;
    mpc_graph *g = build(&s, files, o);
    mpc_str names = {0};
    state_names(g, &names);
    CHECK_MSG(strcmp(mpc_str_cstr(&names), expected) == 0, "`%s`, not `%s`", mpc_str_cstr(&names), expected);
    mpc_str_free(&names);
    mpc_graph_destroy(g);
    close_session(&s);
}

/* A shape of the first state that has two axes. */
static int64_t columns_of(other_text *files, const mpc_override *o) {
    session s;
    mpc_graph *g = build(&s, files, o);
    int64_t columns = 0;
    for (uint32_t i = 0; g && i < g->node_count && !columns; i++) {
        const mpc_type *t = mpc_value_type(g, g->nodes[i].result_begin);
        if (g->nodes[i].op == MPC_OP_state && t->rank == 2) columns = t->dims[1];
    }
    mpc_graph_destroy(g);
    close_session(&s);
    return columns;
}

static void names_mean_what_they_mean_where_they_are_written(void) {
    other_text files[] = {
        {"m.mpg",
         "use tower from \"lib/a.mpg\"\nconst width = 3\nblock part(x) { return linear(x, width) as mine }\n" MODEL(
             "part(x)) + mean(tower(x)"),
         0},
        {"lib/a.mpg",
         "use part from \"b.mpg\"\nconst width = 5\nblock tower(x) { return part(linear(x, width) as wide) }\n", 0},
        {"lib/b.mpg", "const width = 7\nblock part(x) { return linear(x, width) as inner }\n", 0},
        {0}};
    check_states(files, NULL,
                 "part.mine.weight! part.mine.bias! tower.wide.weight! tower.wide.bias! tower.part.inner.weight! "
                 "tower.part.inner.bias!");
}

static void a_file_without_names_brings_all_it_declares(void) {
    other_text files[] = {
        {"m.mpg", "use \"a.mpg\"\n" MODEL("tower(linear(x, width) as first)"), 0},
        {"a.mpg", "use part from \"b.mpg\"\nconst width = 5\nblock tower(x) { return part(x) }\n", 0},
        {"b.mpg",
         "block part(x) { return linear(x, 2) }\nmodel other(x: f32[batch, 1]) { loss l = x }\ntrain { batch = 9 }\n",
         0},
        {0}};
    check_states(files, NULL, "first.weight! first.bias! tower.part.linear.weight! tower.part.linear.bias!");
    session s;
    open_texts(&s, files, NULL, 0);
    CHECK(s.model && mpc_model_train(s.model)->batch == 32 && mpc_model_used_count(s.model) == 2);
    close_session(&s);
}

static void the_command_line_reaches_constants_that_the_model_sees(void) {
    other_text files[] = {
        {"m.mpg", "use tower, width from \"a.mpg\"\nconst depth = 2\n" MODEL("tower(x)"), 0},
        {"a.mpg", "const width = 2 * half\nconst half = 3\nblock tower(x) { return linear(x, width) }\n", 0},
        {0}};
    CHECK(columns_of(files, NULL) == 6);
    CHECK(columns_of(files, &(mpc_override){true, "width", "8", false}) == 8);
    CHECK(columns_of(files, &(mpc_override){true, "width", "half + 1", false}) ==
          4); /* read where the constant stands */
    session s;
    open_texts(&s, files, &(mpc_override){true, "half", "1", false}, 1);
    CHECK(!s.model && mpc_diag_list_count(s.diags) > 0 && strcmp(mpc_diag_list_get(s.diags, 0)->code, "E302") == 0);
    close_session(&s);
}

/* What is copied to a run's folder gives the same graph: same parameters, same shapes. */
static void copies_stand_for_what_was_used(void) {
    const mpc_override width = {true, "width", "half + 2", false};
    other_text files[] = {
        {"m.mpg", "use tower, width from \"lib/a.mpg\"\nuse \"b.mpg\"\n" MODEL("other(tower(x))"), 0},
        {"lib/a.mpg",
         "use \"../x/b.mpg\"\nconst width = 6\nconst half = 3\nblock tower(x) { return inner(linear(x, width)) }\n", 0},
        {"lib/../x/b.mpg", "block inner(x) { return relu(x) }\n", 0},
        {"b.mpg", "block other(x) { return linear(x, 3) }\n", 0},
        {0}};
    session s;
    open_texts(&s, files, &width, 1);
    mpc_str text[4] = {0};
    CHECK(s.model && mpc_model_used_count(s.model) == 3);
    if (s.model) mpc_model_print_resolved(s.model, "/", &text[0]);
    other_text copies[5] = {{"run/resolved.mpg", mpc_str_cstr(&text[0]), 0}};
    mpc_str names[3] = {0};
    for (size_t i = 0; s.model && i < 3; i++) {
        mpc_model_print_used(s.model, i, &text[i + 1]);
        mpc_str_printf(&names[i], "run/used/%s", mpc_model_used_copy(s.model, i));
        copies[i + 1] = (other_text){mpc_str_cstr(&names[i]), mpc_str_cstr(&text[i + 1]), 0};
    }
    CHECK(columns_of(files, &width) == 5 && columns_of(copies, NULL) == 5);
    check_states(copies, NULL, "tower.linear.weight! tower.linear.bias! other.linear.weight! other.linear.bias!");
    for (size_t i = 0; i < 4; i++) mpc_str_free(&text[i]);
    for (size_t i = 0; i < 3; i++) mpc_str_free(&names[i]);
    close_session(&s);
}

typedef struct refusal {
    const char *what, *code, *place; /* of the first message: "m.mpg:1:5" */
    other_text files[4];
} refusal;

static refusal REFUSALS[] = {
    {"no such file", "E060", "m.mpg:1:5", {{"m.mpg", "use \"a.mpg\"\n" MODEL("x"), 0}}},
    {"no such file of mpc's", "E060", "m.mpg:2:12", {{"m.mpg", "\nuse a from \"std/a.mpg\"\n" MODEL("x"), 0}}},
    {"itself", "E061", "m.mpg:1:5", {{"m.mpg", "use \"m.mpg\"\n" MODEL("x"), 0}}},
    {"a circle",
     "E061",
     "b.mpg:2:5",
     {{"m.mpg", "use \"a.mpg\"\n" MODEL("x"), 0}, {"a.mpg", "use \"b.mpg\"\n", 0}, {"b.mpg", "\nuse \"a.mpg\"\n", 0}}},
    {"no such name",
     "E062",
     "m.mpg:1:5",
     {{"m.mpg", "use b from \"a.mpg\"\n" MODEL("x"), 0}, {"a.mpg", "const a = 1\n", 0}}},
    {"a name that the file only uses",
     "E062",
     "m.mpg:1:5",
     {{"m.mpg", "use b from \"a.mpg\"\n" MODEL("x"), 0},
      {"a.mpg", "use b from \"b.mpg\"\n", 0},
      {"b.mpg", "const b = 1\n", 0}}},
    {"one name from two files",
     "E049",
     "m.mpg:2:5",
     {{"m.mpg", "use \"a.mpg\"\nuse \"b.mpg\"\n" MODEL("t(x)"), 0},
      {"a.mpg", "block t(x) { return x }\n", 0},
      {"b.mpg", "block t(x) { return x }\n", 0}}},
    {"a name that is there",
     "E049",
     "m.mpg:1:5",
     {{"m.mpg", "use t from \"a.mpg\"\nblock t(x) { return x }\n" MODEL("t(x)"), 0},
      {"a.mpg", "block t(x) { return x }\n", 0}}},
    {"a model of another file", "E049", "m.mpg:1:1", {{"m.mpg", "use \"a.mpg\"\n", 0}, {"a.mpg", MODEL("x"), 0}}},
    {"a mistake in the other file",
     "E010",
     "a.mpg:1:21",
     {{"m.mpg", "use \"a.mpg\"\n" MODEL("t(x)"), 0}, {"a.mpg", "block t(x) { return tt(x) }\n", 0}}},
    {"a block that is not named",
     "E010",
     "m.mpg:3:19",
     {{"m.mpg", "use t from \"a.mpg\"\n" MODEL("part(t(x))"), 0},
      {"a.mpg", "block part(x) { return x }\nblock t(x) { return part(x) }\n", 0}}},
    {"no text", "E003", "a.mpg:1:3", {{"m.mpg", "use \"a.mpg\"\n" MODEL("x"), 0}, {"a.mpg", "# \xff\n", 0}}},
};

static void check_refusal(refusal *r) {
    session s;
    open_texts(&s, r->files, NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 2);
    CHECK_MSG(!g && mpc_diag_list_count(s.diags) > 0, "%s: not refused", r->what);
    const mpc_diag *d = mpc_diag_list_count(s.diags) ? mpc_diag_list_get(s.diags, 0) : NULL;
    uint32_t line = 0, column = 0;
    char place[64] = "";
    if (d && d->label_count) {
        mpc_span at = d->labels[0].span;
        mpc_sources_locate(s.sources, at.file, at.begin, &line, &column);
        snprintf(place, sizeof place, "%s:%u:%u", mpc_sources_name(s.sources, at.file), line, column);
    }
    CHECK_MSG(d && strcmp(d->code, r->code) == 0 && strcmp(place, r->place) == 0, "%s: %s at %s", r->what,
              d ? d->code : "", place);
    mpc_graph_destroy(g);
    close_session(&s);
}

/* Every file uses the next one: 64 deep is fine, deeper is an error. */
static void chains_have_an_end(void) {
    for (size_t depth = 64; depth <= 65; depth++) {
        other_text files[67] = {{"m.mpg", "use t from \"1\"\n" MODEL("t(x)"), 0}};
        char names[66][8], texts[66][80];
        for (size_t i = 1; i <= depth; i++) {
            snprintf(names[i], sizeof names[i], "%zu", i);
            if (i < depth)
                snprintf(texts[i], sizeof texts[i], "use part from \"%zu\"\nblock %s(x) { return part(x) }\n", i + 1,
                         i > 1 ? "helper" : "t");
            else snprintf(texts[i], sizeof texts[i], "block part(x) { return x }\n");
            files[i] = (other_text){names[i], texts[i], 0};
        }
        session s;
        open_texts(&s, files, NULL, 0);
        size_t found = 0;
        for (size_t i = 0; i < mpc_diag_list_count(s.diags); i++)
            found += strcmp(mpc_diag_list_get(s.diags, i)->code, "E061") == 0;
        CHECK_MSG(found == (depth > 64), "%zu files: %zu messages", depth, found);
        close_session(&s);
    }
}

int main(void) {
    names_mean_what_they_mean_where_they_are_written();
    a_file_without_names_brings_all_it_declares();
    the_command_line_reaches_constants_that_the_model_sees();
    copies_stand_for_what_was_used();
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) check_refusal(&REFUSALS[i]);
    chains_have_an_end();
    return check_result();
}
