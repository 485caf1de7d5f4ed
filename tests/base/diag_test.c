/* Diagnostics as people read them, to the character; positions in UTF-8 text; copies; codes. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/diag.h"
#include "tests/check.h"

static mpc_sources *sources;

static uint32_t add(const char *name, const char *text) { return mpc_sources_add(sources, name, text, strlen(text)); }

/* The n-th occurrence (from 0) of `what` in the file. */
static mpc_span find(uint32_t file, const char *what, int n) {
    const char *text = mpc_sources_text(sources, file, NULL), *at = strstr(text, what);
    while (n--) at = strstr(at + 1, what);
    uint32_t begin = (uint32_t)(at - text);
    return (mpc_span){file, begin, begin + (uint32_t)strlen(what)};
}

static void renders(const mpc_diag *diag, bool short_form, const char *expected) {
    mpc_str out = {0};
    mpc_diag_render(diag, sources, short_form, false, &out);
    CHECK_STR(mpc_str_cstr(&out), expected);
    mpc_str_free(&out);
}

static void one_label(void) {
    uint32_t file = add("digits.mpg", "const a = 1\n\nmodel m() {\n    x = conv2d(x, filters = 16, kernel = 3)\n}\n");
    mpc_label label = {find(file, "filters", 0), "conv2d(x, channels, kernel)"};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E011",
                     .message = "conv2d has no argument `filters`",
                     .labels = &label,
                     .label_count = 1,
                     .help = "the number of output channels is `channels`"};
    renders(&diag, false,
            "error[E011]: conv2d has no argument `filters`\n"
            "  --> digits.mpg:4:19\n"
            "4 |     x = conv2d(x, filters = 16, kernel = 3)\n"
            "  |                   ^^^^^^^ conv2d(x, channels, kernel)\n"
            "help: the number of output channels is `channels`\n");
    renders(&diag, true, "digits.mpg:4:19: error[E011]: conv2d has no argument `filters`\n");
}

static void two_short_labels_share_a_row_and_notes_follow(void) {
    uint32_t file = add("resnet.mpg", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n    return relu(x + y)\n");
    mpc_label labels[] = {{find(file, "x", 0), "[batch, 32, 32, 16]   height, width and channels differ"},
                          {find(file, "y", 0), "[batch, 16, 16, 32]"}};
    mpc_label notes[] = {{{0}, "called from resnet.mpg:22 (stage 1, unit 0)"},
                         {find(file, "2", 0), "y was made here, with stride = 2"}};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E020",
                     .message = "these two shapes can't be added",
                     .labels = labels,
                     .label_count = 2,
                     .notes = notes,
                     .note_count = 2,
                     .help = "bring x to the same shape first:\nconv2d(x, 32)"};
    renders(&diag, false,
            "error[E020]: these two shapes can't be added\n"
            "  --> resnet.mpg:11:17\n"
            "11 |     return relu(x + y)\n"
            "   |                 ^   ^ [batch, 16, 16, 32]\n"
            "   |                 [batch, 32, 32, 16]   height, width and channels differ\n"
            "note: y was made here, with stride = 2\n"
            "  --> resnet.mpg:2:1\n"
            "help: bring x to the same shape first:\n"
            "      conv2d(x, 32)\n"
            "called from resnet.mpg:22 (stage 1, unit 0)\n");
}

static void words_get_a_row_each_and_a_silent_label_only_gives_the_place(void) {
    uint32_t file = add("reg.mpg", "a\nb\nc\nd\ne\n    loss fit = mse(pred, price)\n");
    mpc_label labels[] = {
        {find(file, "mse", 0), ""}, {find(file, "price", 0), "[batch]"}, {find(file, "pred", 0), "[batch, 1]"}};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E025",
                     .message = "mse compares value by value",
                     .labels = labels,
                     .label_count = 3};
    renders(&diag, false,
            "error[E025]: mse compares value by value\n"
            "  --> reg.mpg:6:16\n"
            "6 |     loss fit = mse(pred, price)\n"
            "  |                    ^^^^ [batch, 1]\n"
            "  |                          ^^^^^ [batch]\n");
}

static void labels_on_several_lines_and_files_are_ordered(void) {
    uint32_t file = add("a.mpg", "first line\nsecond line\n"), other = add("b.mpg", "elsewhere\n");
    mpc_label labels[] = {
        {find(file, "second", 0), "here"}, {find(other, "else", 0), "and here"}, {find(file, "first", 0), "with this"}};
    mpc_diag diag = {.severity = MPC_SEV_WARNING, .code = "W101", .message = "m", .labels = labels, .label_count = 3};
    renders(&diag, false,
            "warning[W101]: m\n"
            "  --> a.mpg:2:1\n"
            "1 | first line\n"
            "  | ^^^^^ with this\n"
            "2 | second line\n"
            "  | ^^^^^^ here\n"
            "  --> b.mpg:1:1\n"
            "1 | elsewhere\n"
            "  | ^^^^ and here\n");
}

static void a_place_stands_where_there_is_no_span(void) {
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E201",
                     .message = "class 10 in the data",
                     .place = "digits-train.csv, row 214"};
    renders(&diag, false, "error[E201]: class 10 in the data\n  --> digits-train.csv, row 214\n");
    renders(&diag, true, "digits-train.csv, row 214: error[E201]: class 10 in the data\n");
    mpc_diag note = {.severity = MPC_SEV_NOTE, .code = "", .message = "scaling is off for bf16"};
    renders(&note, false, "note: scaling is off for bf16\n");
}

static void carets_stand_under_characters_not_bytes(void) {
    uint32_t file = add("u.mpg", "\tä = wörd + y\n");
    mpc_label label = {find(file, "y", 0), ""};
    mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = "E1", .message = "m", .labels = &label, .label_count = 1};
    renders(&diag, false, "error[E1]: m\n  --> u.mpg:1:13\n1 | \tä = wörd + y\n  | \t           ^\n");
}

static void odd_spans_render(void) {
    uint32_t file = add("odd.mpg", "ab\r\ncd");
    static const uint32_t spans[][2] = {{0, 0}, {0, 6}, {6, 6}, {4, 100}, {100, 200}, {5, 3}, {3, 4}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        mpc_label label = {{file, spans[i][0], spans[i][1]}, "t"};
        mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = "E1", .message = "m", .labels = &label, .label_count = 1};
        mpc_str out = {0};
        mpc_diag_render(&diag, sources, false, true, &out);
        CHECK(strstr(mpc_str_cstr(&out), "^") != NULL);
        mpc_str_free(&out);
    }
}

static void lines_and_columns_are_found(void) {
    uint32_t file = add("l.mpg", "a\nbc\n\nd"), line, column;
    static const uint32_t rows[][3] = {{0, 1, 1}, {1, 1, 2}, {2, 2, 1}, {3, 2, 2}, {4, 2, 3},
                                       {5, 3, 1}, {6, 4, 1}, {7, 4, 2}, {99, 4, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mpc_sources_locate(sources, file, rows[i][0], &line, &column);
        CHECK_MSG(line == rows[i][1] && column == rows[i][2], "offset %u: %u:%u", rows[i][0], line, column);
    }
    CHECK_STR(mpc_sources_name(sources, 0), "");
    CHECK(add("l.mpg", "x") != file);
}

static void a_list_keeps_deep_copies(void) {
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    char text[] = "changes later";
    CHECK(mpc_error(&sink, "E900", "%s %d", text, 3) == MPC_FAILED);
    CHECK(mpc_error_at(&sink, "E501", (mpc_span){1, 2, 3}, "at") == MPC_FAILED);
    mpc_warn(&sink, "W1", (mpc_span){0}, "warned");
    text[0] = 'X';
    CHECK(mpc_diag_list_count(list) == 3);
    CHECK_STR(mpc_diag_list_get(list, 0)->message, "changes later 3");
    CHECK(mpc_diag_list_get(list, 1)->labels[0].span.begin == 2 &&
          mpc_diag_list_get(list, 2)->severity == MPC_SEV_WARNING);
    CHECK(mpc_error(NULL, "E900", "dropped") == MPC_FAILED);
    for (uint64_t n = 1; n < 12; n++) { /* sending without memory doesn't crash */
        mpc_alloc_fail_after(n);
        CHECK(mpc_error_at(&sink, "E501", (mpc_span){1, 2, 3}, "%0500d", 1) == MPC_FAILED);
        mpc_alloc_fail_after(0);
    }
    mpc_diag_list_destroy(list);
}

static void every_code_is_there_once_with_title_and_text(void) {
    for (size_t i = 0; i < mpc_diag_code_count(); i++) {
        const char *code = mpc_diag_code_at(i);
        CHECK_MSG(mpc_diag_code_title(code)[0] && mpc_diag_code_text(code)[0], "%s", code);
        for (size_t j = 0; j < i; j++) CHECK_MSG(strcmp(code, mpc_diag_code_at(j)) != 0, "%s stands twice", code);
    }
    CHECK(!mpc_diag_code_title("E000") && !mpc_diag_code_text("nonsense") && !mpc_diag_code_at(100000));
}

int main(void) {
    sources = mpc_sources_create();
    one_label();
    two_short_labels_share_a_row_and_notes_follow();
    words_get_a_row_each_and_a_silent_label_only_gives_the_place();
    labels_on_several_lines_and_files_are_ordered();
    a_place_stands_where_there_is_no_span();
    carets_stand_under_characters_not_bytes();
    odd_spans_render();
    lines_and_columns_are_found();
    a_list_keeps_deep_copies();
    every_code_is_there_once_with_title_and_text();
    mpc_sources_destroy(sources);
    return check_result();
}
