/* Text as characters: windows, vocabulary, splits, and the order of an epoch. */
#include "tests/data/data_support.h"

static mpc_dataset *open_string(const char *text, int64_t length, const mpc_dataset *like, mpc_diag_list *list) {
    mpc_sink sink = mpc_diag_list_sink(list);
    return mpc_dataset_open_text(write_file("t.txt", text, strlen(text)), length, like, &sink);
}

static void windows_and_their_successors(void) {
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_dataset *d = open_string("abcabdé", 3, NULL, list); /* a b c d é */
    CHECK(d && mpc_dataset_rows(d) == 2 && mpc_dataset_vocabulary(d) == 5);
    mpc_data_field fields[] = {{.source = "window", .row_type = {MPC_FMT_i32, 1, {3}}},
                               {.source = "next(window)", .row_type = {MPC_FMT_i32, 1, {3}}}};
    CHECK(mpc_dataset_bind(d, fields, 2) == MPC_OK);
    int32_t x[6], y[6];
    uint32_t rows[] = {1, 0};
    mpc_dataset_gather(d, 0, rows, 2, x);
    mpc_dataset_gather(d, 1, rows, 2, y);
    static const int32_t want_x[] = {0, 1, 3, 0, 1, 2}, want_y[] = {1, 3, 4, 1, 2, 0};
    CHECK(memcmp(x, want_x, sizeof x) == 0 && memcmp(y, want_y, sizeof y) == 0);
    unsigned length;
    CHECK(mpc_dataset_token_of(d, "é!", &length) == 4 && length == 2);
    CHECK(mpc_dataset_token_of(d, "z", &length) == -1 && length == 1);
    CHECK_STR(mpc_dataset_token_text(d, 4), "é");
    CHECK_STR(mpc_dataset_token_text(d, 5), "");
    fields[0].hi = 3;
    CHECK(mpc_dataset_bind(d, fields, 1) == MPC_FAILED);
    CHECK_STR(first_code(list), "E201");
    mpc_dataset_destroy(d);
    mpc_diag_list_destroy(list);
}

static void a_text_split_is_contiguous(void) {
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_dataset *d = open_string("0123456789a", 1, NULL, list);
    mpc_dataset *valid = mpc_dataset_split(d, 0.2, 7, false), *rest = mpc_dataset_split(d, 0.2, 7, true);
    CHECK(mpc_dataset_rows(valid) == 2 && mpc_dataset_rows(rest) == 8);
    mpc_data_field f = {.source = "window", .row_type = {MPC_FMT_i32, 1, {1}}};
    CHECK(mpc_dataset_bind(valid, &f, 1) == MPC_OK);
    uint32_t rows[] = {0, 1};
    int32_t x[2];
    mpc_dataset_gather(valid, 0, rows, 2, x);
    CHECK(x[0] == 8 && x[1] == 9);
    mpc_dataset_destroy(valid);
    mpc_dataset_destroy(rest);
    mpc_dataset_destroy(d);
    mpc_diag_list_destroy(list);
}

static void wrong_texts_are_refused(void) {
    static const struct {
        const char *text, *code;
    } cases[] = {{"ab", "E216"},  {"", "E216"}, {"abc\xFF", "E215"}, {"ab\xC0\x80", "E215"}, {"\xED\xA0\x80zz", "E215"},
                 {"abzz", "E217"}};
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_dataset *like = open_string("abcabc", 2, NULL, list);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!open_string(cases[i].text, 2, like, list));
        CHECK_MSG(mpc_diag_list_count(list) == i + 1 && strcmp(mpc_diag_list_get(list, i)->code, cases[i].code) == 0,
                  "%zu", i);
    }
    mpc_dataset_destroy(like);
    mpc_diag_list_destroy(list);
}

static void splits_and_orders_depend_on_the_seed_only(void) {
    char text[4000];
    size_t n = 0;
    for (int i = 0; i < 500; i++) n += (size_t)sprintf(text + n, "%d\n", i);
    mpc_dataset *d = mpc_dataset_open_csv(write_file("n.csv", text, n), &(mpc_csv_options){.header = 0}, NULL);
    bool seen[500] = {false};
    for (int rest = 0; rest < 2; rest++) {
        mpc_dataset *part = mpc_dataset_split(d, 0.1, 1, rest);
        CHECK(mpc_dataset_rows(part) == (rest ? 450 : 50));
        mpc_data_field f = {.source = "columns[0]", .row_type = {MPC_FMT_i32, 0, {0}}};
        CHECK(mpc_dataset_bind(part, &f, 1) == MPC_OK);
        for (uint32_t r = 0; r < (uint32_t)mpc_dataset_rows(part); r++) {
            int32_t v;
            mpc_dataset_gather(part, 0, &r, 1, &v);
            CHECK(!seen[v]);
            seen[v] = true;
        }
        mpc_dataset_destroy(part);
    }
    uint32_t a[500], b[500], c[500];
    CHECK(mpc_dataset_order(d, 3, 1, 0, 500, a) == MPC_OK);
    CHECK(mpc_dataset_order(d, 3, 1, 0, 500, b) == MPC_OK);
    CHECK(mpc_dataset_order(d, 3, 2, 0, 500, c) == MPC_OK);
    CHECK(memcmp(a, b, sizeof a) == 0 && memcmp(a, c, sizeof a) != 0);
    mpc_dataset_destroy(d);
}

int main(void) {
    windows_and_their_successors();
    a_text_split_is_contiguous();
    wrong_texts_are_refused();
    splits_and_orders_depend_on_the_seed_only();
    remove_files();
    return check_result();
}
