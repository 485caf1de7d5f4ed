/* CSV files as people have them: what must be read, and what must be refused with its place. */
#include <math.h>
#include <zlib.h>

#include "base/alloc.h"
#include "tests/data/data_support.h"

static const mpc_csv_options FIND_OUT = {.header = -1, .delimiter = ','};

typedef struct opened {
    mpc_diag_list *list;
    mpc_sink sink;
    mpc_dataset *d;
} opened;

static opened open_text(const char *text, const mpc_csv_options *options) {
    opened o = {.list = mpc_diag_list_create()};
    o.sink = mpc_diag_list_sink(o.list);
    o.d = mpc_dataset_open_csv(write_file("x.csv", text, strlen(text)), options, &o.sink);
    return o;
}

static void close_text(opened *o) {
    mpc_dataset_destroy(o->d);
    mpc_diag_list_destroy(o->list);
}

static mpc_data_field floats(const char *source, int64_t n) {
    return (mpc_data_field){.source = source, .row_type = {MPC_FMT_f32, 1, {n}}};
}
static mpc_data_field integer(const char *source) {
    return (mpc_data_field){.source = source, .row_type = {MPC_FMT_i32, 0, {0}}};
}

static float first_value(const char *text) {
    opened o = open_text(text, &(mpc_csv_options){.header = 0, .keep_nonfinite = true});
    float v = -12345;
    uint32_t row = 0;
    mpc_data_field f = floats("columns[0:1]", 1);
    if (o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_OK) mpc_dataset_gather(o.d, 0, &row, 1, &v);
    close_text(&o);
    return v;
}

static void numbers_are_read_to_the_nearest(void) {
    static const char *texts[] = {"0",
                                  "-1.5",
                                  "+2",
                                  "1e-3",
                                  "1E5",
                                  "3.4028235e38",
                                  "123456789012345678901234567890",
                                  "1e-45",
                                  ".5",
                                  "5.",
                                  "0.1",
                                  "-0.0",
                                  "  7  ",
                                  "\"8\"",
                                  "1.17549435e-38",
                                  "16777217",
                                  "0.30000001192092896",
                                  "9007199254740993",
                                  "1e23"};
    static const char *plain[] = {"0",
                                  "-1.5",
                                  "+2",
                                  "1e-3",
                                  "1E5",
                                  "3.4028235e38",
                                  "123456789012345678901234567890",
                                  "1e-45",
                                  ".5",
                                  "5.",
                                  "0.1",
                                  "-0.0",
                                  "7",
                                  "8",
                                  "1.17549435e-38",
                                  "16777217",
                                  "0.30000001192092896",
                                  "9007199254740993",
                                  "1e23"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float want = (float)strtod(plain[i], NULL), got = first_value(texts[i]);
        CHECK_MSG(memcmp(&want, &got, sizeof got) == 0, "%s: %.9g", texts[i], (double)got);
    }
    CHECK(isnan(first_value("nan")) && isinf(first_value("-inf")));
}

/* Expects 2 rows of 3 columns that hold 1 2 3 / 4 5 6. */
static void check_six(const char *text, int header) {
    opened o = open_text(text, &(mpc_csv_options){.header = header, .delimiter = ','});
    CHECK_MSG(o.d != NULL, "%s", text);
    if (o.d) {
        CHECK_MSG(mpc_dataset_rows(o.d) == 2 && mpc_dataset_columns(o.d) == 3, "%s", text);
        mpc_data_field f = floats("columns[0:3]", 3);
        CHECK(mpc_dataset_bind(o.d, &f, 1) == MPC_OK);
        float v[6] = {0};
        uint32_t rows[] = {0, 1};
        mpc_dataset_gather(o.d, 0, rows, 2, v);
        for (int i = 0; i < 6; i++) CHECK_MSG(v[i] == (float)(i + 1), "%s", text);
    }
    close_text(&o);
}

static void usual_forms_are_the_same_table(void) {
    check_six("1,2,3\n4,5,6\n", -1);
    check_six("1,2,3\n4,5,6", -1);
    check_six("1,2,3\r\n4,5,6\r\n", -1);
    check_six("\xEF\xBB\xBF"
              "1,2,3\n4,5,6\n",
              -1);
    check_six("\n\n1,2,3\n\r\n \t\n4,5,6\n\n\n", -1);
    check_six("a,b,c\n1,2,3\n4,5,6\n", -1);
    check_six("\"a, b\",\"c \"\"d\"\"\",e\r\n1,\"2\",3\n \"4\" , 5 ,6", -1);
    check_six("1,2,3\n1,2,3\n4,5,6\n", 1);
    check_six("\"a\nb\",x,y\n1,2,3\n4,5,6", -1);
}

static void columns_are_found_by_name(void) {
    opened o = open_text("length,\"class, short\",note\n1.5,2,good\n2.5,0,bad\n", &FIND_OUT);
    CHECK(o.d && mpc_dataset_column_names(o.d));
    mpc_data_field fields[] = {integer("column[\"class, short\"]"), floats("column[\"length\"]", 1)};
    CHECK(o.d && mpc_dataset_bind(o.d, fields, 2) == MPC_OK);
    uint32_t rows[] = {1, 0};
    int32_t ids[2];
    mpc_dataset_gather(o.d, 0, rows, 2, ids);
    CHECK(ids[0] == 0 && ids[1] == 2);
    mpc_data_field none = integer("column[\"klass\"]");
    CHECK(mpc_dataset_bind(o.d, &none, 1) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E203");
    close_text(&o);
}

static void large_integers_stay_exact(void) {
    opened o = open_text("3,1\n16777217,2\n5,3\n-2147483648,4\n", &FIND_OUT);
    mpc_data_field f = integer("columns[0]");
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_OK);
    uint32_t rows[] = {0, 1, 2, 3};
    int32_t v[4];
    mpc_dataset_gather(o.d, 0, rows, 4, v);
    CHECK(v[0] == 3 && v[1] == 16777217 && v[2] == 5 && v[3] == INT32_MIN);
    close_text(&o);
}

typedef struct refusal {
    const char *text, *code, *place;
    const char *source; /* field to bind after opening; NULL: opening fails */
    bool is_float;
} refusal;

static void broken_files_are_refused_with_their_place(void) {
    static const refusal cases[] = {
        {"", "E214", "", NULL, false},
        {"\n\n", "E214", "", NULL, false},
        {"a,b\n", "E214", "", NULL, false},
        {"1,2\n3\n", "E211", ", row 2", NULL, false},
        {"1,2\n\n3,4,5\n", "E211", ", row 3", NULL, false},
        {"1,2\n3,4\n5,\n6", "E211", ", row 4", NULL, false},
        {"1,\"2\n3,4\n", "E215", ", row 1", NULL, false},
        {"1,2\n3,\"4\"5\n", "E215", ", row 2", NULL, false},
        {"\xFF\xFE"
         "1",
         "E215", "", NULL, false},
        {"1,2\nx,4\n", "E212", ", row 2, column 1: `x`", "columns[0:2]", true},
        {"a,b\n1,2\n,4\n", "E212", ", row 3, column 1", "columns[0:2]", true},
        {"1,2\n3,4 5\n", "E212", ", row 2, column 2: `4 5`", "columns[0:2]", true},
        {"1,2\n3,0x10\n", "E212", ", row 2, column 2: `0x10`", "columns[0:2]", true},
        {"1,2\n3,nan\n", "E213", ", row 2, column 2: `nan`", "columns[0:2]", true},
        {"1,2\n3,1e39\n", "E213", ", row 2, column 2: `1e39`", "columns[0:2]", true},
        {"1,2\n3,1.5\n", "E212", ", row 2, column 2: `1.5`", "columns[1]", false},
        {"1,2\n3,3000000000\n", "E212", ", row 2, column 2: `3000000000`", "columns[1]", false},
        {"1,2\n3,4\n", "E203", NULL, "columns[2]", false},
        {"1,2\n3,4\n", "E203", NULL, "columns[0:3]", true},
        {"1,2,3\n3,4,5\n", "E203", NULL, "columns[0:3]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const refusal *c = &cases[i];
        opened o = open_text(c->text, &FIND_OUT);
        CHECK_MSG((o.d != NULL) == (c->source != NULL), "case %zu", i);
        mpc_data_field f = c->is_float ? floats(c->source, 2) : integer(c->source);
        if (o.d && c->source) CHECK_MSG(mpc_dataset_bind(o.d, &f, 1) == MPC_FAILED, "case %zu", i);
        CHECK_MSG(strcmp(first_code(o.list), c->code) == 0, "case %zu: %s", i, first_code(o.list));
        const char *place = mpc_diag_list_count(o.list) ? mpc_diag_list_get(o.list, 0)->place : NULL;
        const char *comma = place ? strstr(place, ".csv") + 4 : "";
        if (c->place) CHECK_MSG(strcmp(comma, c->place) == 0, "case %zu: %s", i, comma);
        close_text(&o);
    }
}

static void text_in_an_unused_column_is_fine(void) {
    opened o = open_text("name,x\nanna,1\nbo,2\n", &FIND_OUT);
    mpc_data_field f = floats("columns[1:2]", 1);
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_OK);
    close_text(&o);
}

static void labels_out_of_range_are_counted(void) {
    opened o = open_text("1\n2\n10\n10\n3\n", &FIND_OUT);
    mpc_data_field f = integer("columns[0]");
    f.lo = 0;
    f.hi = 10;
    f.where = "y -> cross_entropy(logits, y), logits is [batch, 10] (digits.mpg:12)";
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_FAILED);
    const mpc_diag *d = mpc_diag_list_get(o.list, 0);
    CHECK_STR(d->code, "E201");
    CHECK_STR(d->message, "class 10 in the data, but the model has classes 0 to 9");
    CHECK(strstr(d->place, ".csv, row 3, column 1: `10`") != NULL);
    CHECK_STR(d->notes[0].text, "y -> cross_entropy(logits, y), logits is [batch, 10] (digits.mpg:12)\n"
                                "2 of 5 rows have 10; the smallest label is 1");
    CHECK_STR(d->help, "labels seem to start at 1: `input y = columns[0] - 1`");
    close_text(&o);
}

static void gzip_reads_like_the_file_and_damage_is_seen(void) {
    char path[256], raw[200];
    snprintf(path, sizeof path, "%s", write_file("z.csv.gz", "", 0));
    gzFile z = gzopen(path, "wb");
    gzputs(z, "1,2,3\n4,5,6\n");
    gzclose(z);
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    mpc_dataset *d = mpc_dataset_open_csv(path, &FIND_OUT, &sink);
    CHECK(d && mpc_dataset_rows(d) == 2 && mpc_dataset_columns(d) == 3);
    mpc_dataset_destroy(d);
    FILE *f = fopen(path, "rb");
    size_t n = fread(raw, 1, sizeof raw, f);
    fclose(f);
    d = mpc_dataset_open_csv(write_file("cut.csv.gz", raw, n - 9), &FIND_OUT, &sink);
    CHECK(!d);
    CHECK_STR(first_code(list), "E210");
    CHECK(!mpc_dataset_open_csv("/nonexistent/x.csv", &FIND_OUT, &sink));
    CHECK(!mpc_dataset_open_csv("/tmp", &FIND_OUT, &sink));
    CHECK(mpc_diag_list_count(list) == 3);
    mpc_diag_list_destroy(list);
}

static void every_failed_allocation_is_reported(void) {
    const char *path = write_file("m.csv", "a,b\n1,16777217\n2,\"3\"\n", 21);
    for (uint64_t n = 1; n < 200; n++) {
        mpc_alloc_fail_after(n);
        mpc_dataset *d = mpc_dataset_open_csv(path, &FIND_OUT, NULL);
        mpc_dataset *part = d ? mpc_dataset_split(d, 0.5, 1, false) : NULL;
        mpc_alloc_fail_after(0);
        bool done = part != NULL;
        mpc_dataset_destroy(part);
        mpc_dataset_destroy(d);
        if (done) {
            CHECK(n > 8);
            return;
        }
    }
    CHECK_MSG(false, "never succeeded");
}

static void any_bytes_are_read_or_refused(void) {
    static const char seeds[] = "a,b,\"c\"\n1,2.5e3,\"3\"\"\"\r\n4,,-nan\n";
    uint32_t x = 1;
    for (int i = 0; i < 800; i++) {
        char text[sizeof seeds];
        memcpy(text, seeds, sizeof seeds);
        for (int k = 0; k < 3; k++) {
            x = x * 1664525u + 1013904223u;
            text[x % (sizeof seeds - 1)] = (char)(x >> 20);
        }
        size_t n = x >> 8 & 1 ? sizeof seeds - 1 : x % sizeof seeds;
        mpc_dataset_destroy(mpc_dataset_open_csv(write_file("f.csv", text, n), &FIND_OUT, NULL));
    }
    CHECK(true);
}

int main(void) {
    numbers_are_read_to_the_nearest();
    usual_forms_are_the_same_table();
    columns_are_found_by_name();
    large_integers_stay_exact();
    broken_files_are_refused_with_their_place();
    text_in_an_unused_column_is_fine();
    labels_out_of_range_are_counted();
    gzip_reads_like_the_file_and_damage_is_seen();
    every_failed_allocation_is_reported();
    any_bytes_are_read_or_refused();
    remove_files();
    return check_result();
}
