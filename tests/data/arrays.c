/* NPY, NPZ, IDX and token files, and several of them side by side: every type numpy writes, and every way in which a
 * file can say something else than it holds. */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"
#include "tests/data/data_support.h"

typedef struct bytes {
    unsigned char data[8192];
    size_t size;
} bytes;

static void add(bytes *b, const void *p, size_t n) {
    if (b->size + n > sizeof b->data) abort();
    memcpy(b->data + b->size, p, n);
    b->size += n;
}

/* An NPY of a version with that line of Python, without numbers. */
static bytes npy_head(int version, const char *text) {
    bytes b = {.size = 0};
    size_t n = strlen(text);
    unsigned char head[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    head[8] = (unsigned char)n;
    head[9] = (unsigned char)(n >> 8);
    add(&b, head, version == 1 ? 10 : 12);
    add(&b, text, n);
    return b;
}

static bytes npy(const char *type, const char *shape, const void *numbers, size_t size) {
    char text[200];
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }    \n", type, shape);
    bytes b = npy_head(1, text);
    add(&b, numbers, size);
    return b;
}

typedef struct opened {
    mpc_diag_list *list;
    mpc_sink sink;
    mpc_dataset *d;
} opened;

static opened begin(void) {
    opened o = {.list = mpc_diag_list_create()};
    o.sink = mpc_diag_list_sink(o.list);
    return o;
}

static void end(opened *o) {
    mpc_dataset_destroy(o->d);
    mpc_diag_list_destroy(o->list);
}

static opened open_npy(const bytes *b) {
    opened o = begin();
    o.d = mpc_dataset_open_npy(write_file("x.npy", (const char *)b->data, b->size), "x", false, &o.sink);
    return o;
}

static mpc_data_field field(mpc_format format, const char *source, int64_t width) {
    return (mpc_data_field){.source = source, .row_type = {format, width > 0, {width}}};
}

static const char *first_message(mpc_diag_list *list) {
    return mpc_diag_list_count(list) ? mpc_diag_list_get(list, 0)->message : "";
}

static const char *first_place(mpc_diag_list *list) {
    const char *place = mpc_diag_list_count(list) ? mpc_diag_list_get(list, 0)->place : NULL;
    return place ? place : "";
}

static void every_type_is_read_in_both_byte_orders(void) {
    static const struct {
        const char *type;
        unsigned char one[8]; /* a number of this type, little endian */
        float want;
    } cases[] = {
        {"f2", {0x00, 0xC1}, -2.5f},
        {"f4", {0, 0, 0x20, 0xC0}, -2.5f},
        {"f8", {0, 0, 0, 0, 0, 0, 0x04, 0xC0}, -2.5f},
        {"i1", {0xFD}, -3},
        {"i2", {0xFD, 0xFF}, -3},
        {"i4", {0xFD, 0xFF, 0xFF, 0xFF}, -3},
        {"i8", {0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, -3},
        {"u1", {0xFD}, 253},
        {"u2", {0xFD, 0xFF}, 65533},
        {"u4", {0, 0, 0, 0x80}, 2147483648.0f},
        {"u8", {0, 0, 0, 0, 0, 0, 0, 0x80}, 9223372036854775808.0f},
        {"b1", {1}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int big = 0; big < 2; big++) {
            size_t size = (size_t)(cases[i].type[1] - '0');
            unsigned char two[16] = {0};
            for (size_t k = 0; k < size; k++) two[size + k] = cases[i].one[big ? size - 1 - k : k];
            char type[8];
            snprintf(type, sizeof type, "%c%s", size == 1 ? '|' : big ? '>' : '<', cases[i].type);
            bytes b = npy(type, "(2,)", two, 2 * size);
            opened o = open_npy(&b);
            mpc_data_field f = field(MPC_FMT_f32, "field[\"x\"]", 0);
            uint32_t row = 1;
            float v = 0;
            CHECK_MSG(o.d && mpc_dataset_rows(o.d) == 2 && mpc_dataset_bind(o.d, &f, 1) == MPC_OK &&
                          mpc_dataset_gather(o.d, 0, &row, 1, &v) == MPC_OK && v == cases[i].want,
                      "%s: %g", type, (double)v);
            end(&o);
        }
}

static void integers_stay_exact_and_must_fit(void) {
    int64_t v[2] = {INT64_C(9007199254740993), -5}, got[2];
    bytes b = npy("<i8", "(2, 1)", v, sizeof v);
    opened o = open_npy(&b);
    mpc_data_field wide = field(MPC_FMT_i64, "field[\"x\"]", 1), narrow = field(MPC_FMT_i32, "field[\"x\"]", 1);
    uint32_t rows[] = {0, 1};
    CHECK(o.d && mpc_dataset_bind(o.d, &wide, 1) == MPC_OK);
    CHECK(mpc_dataset_gather(o.d, 0, rows, 2, got) == MPC_OK && memcmp(got, v, sizeof v) == 0);
    CHECK(mpc_dataset_bind(o.d, &narrow, 1) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E212");
    CHECK_MSG(strstr(first_place(o.list), "x.npy, row 0, element 0 (byte ") != NULL, "%s", first_place(o.list));
    end(&o);
    float half[2] = {1, 1.5f};
    b = npy("<f4", "(2,)", half, sizeof half);
    o = open_npy(&b);
    narrow.row_type.rank = 0;
    CHECK(o.d && mpc_dataset_bind(o.d, &narrow, 1) == MPC_FAILED);
    CHECK_STR(first_message(o.list), "a whole number is needed here (the input is i32)");
    end(&o);
}

static void later_versions_and_odd_spellings_are_read(void) {
    static const struct {
        int version;
        const char *text;
    } cases[] = {
        {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}\n"},
        {3, "{\"shape\": (1L, 1L,), \"fortran_order\": False,\n\t\"descr\": \"<f4\"}"},
        {1, "{'descr': '<f4','fortran_order':True,'shape':(1,)}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = npy_head(cases[i].version, cases[i].text);
        float one = 1;
        add(&b, &one, sizeof one);
        opened o = open_npy(&b);
        CHECK_MSG(o.d != NULL, "case %zu: %s", i, first_message(o.list));
        end(&o);
    }
}

/* A header and `size` bytes of numbers; what is said of it. */
typedef struct refusal {
    int version;
    const char *text;
    size_t size;
    const char *code, *part;
} refusal;

#define HEAD(type, order, shape) "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape ", }"

static void lying_and_odd_headers_are_refused(void) {
    static const refusal cases[] = {
        {1, HEAD("'<f4'", "False", "(2, 3)"), 20, "E219",
         "its shape takes 24 bytes, but 20 are there: is the file cut off?"},
        {1, HEAD("'<f4'", "False", "(2, 3)"), 28, "E219", "its shape takes 24 bytes, but 28 are there"},
        {1, HEAD("'<f4'", "False", "(4611686018427387904, 8)"), 4, "E219", "its shape takes more than"},
        {1, HEAD("'<f4'", "False", "(4611686018427387904,)"), 4, "E219", "its shape takes more than"},
        {1, HEAD("'<f4'", "False", "(99999999999999999999,)"), 4, "E219", "expected a size below 2^63"},
        {1, HEAD("'<f4'", "False", "()"), 4, "E219", "a single number, which has no rows"},
        {1, HEAD("'<f4'", "False", "(0, 3)"), 0, "E214", "holds no numbers"},
        {1, HEAD("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, "E219", "more than 8 axes"},
        {1, HEAD("'<f4'", "False", "(-1,)"), 4, "E219", "expected a size, found `-1,)"},
        {1, HEAD("'|O'", "False", "(1,)"), 8, "E219", "'|O'; Python objects are not read"},
        {1, HEAD("'<c8'", "False", "(1,)"), 8, "E219", "complex numbers are not read"},
        {1, HEAD("'<U3'", "False", "(1,)"), 12, "E219", "text is not read"},
        {1, HEAD("'<M8[s]'", "False", "(1,)"), 8, "E219", "times are not read"},
        {1, HEAD("'<f16'", "False", "(1,)"), 16, "E219", "read are f2 f4 f8"},
        {1, HEAD("'|V2'", "False", "(1,)"), 2, "E219", "'|V2'; read are f2 f4 f8"},
        {1, HEAD("[('a', '<f4')]", "False", "(1,)"), 4, "E219", "records of several fields"},
        {1, HEAD("'<f4'", "maybe", "(1,)"), 4, "E219", "expected True or False, found `maybe"},
        {1, "{'descr': '<f4', 'shape': (1,)}", 4, "E219", "expected 'descr', 'fortran_order' and 'shape'"},
        {1, "{'descr': '<f4', 'descr': '<f4'}", 4, "E219", "expected each key once"},
        {1, "{'other': 3}", 4, "E219", "found ` 3}`"},
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} rest", 4, "E219",
         "expected the end, found `rest`"},
        {1, "", 4, "E219", "expected `{`"},
        {4, HEAD("'<f4'", "False", "(1,)"), 4, "E219", "an NPY of version 4; read are 1, 2 and 3"},
    };
    static const unsigned char zeros[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = npy_head(cases[i].version, cases[i].text);
        add(&b, zeros, cases[i].size);
        opened o = open_npy(&b);
        CHECK_MSG(!o.d && strcmp(first_code(o.list), cases[i].code) == 0 &&
                      strstr(first_message(o.list), cases[i].part) != NULL && mpc_diag_list_count(o.list) == 1,
                  "case %zu: %s", i, first_message(o.list));
        end(&o);
    }
}

static void what_is_no_npy_is_refused(void) {
    bytes whole = npy("<f4", "(1,)", "abcd", 4);
    for (size_t n = 0; n < whole.size; n++) { /* cut off anywhere */
        bytes b = whole;
        b.size = n;
        opened o = open_npy(&b);
        CHECK_MSG(!o.d && strcmp(first_code(o.list), "E219") == 0, "%zu: %s", n, first_message(o.list));
        end(&o);
    }
    bytes text = {.size = 0};
    add(&text, "1,2,3\n4,5,6\n", 12);
    opened o = open_npy(&text);
    CHECK_MSG(strstr(first_message(o.list), "begins with 31 2C 32 2C 33 0A, not with 93 4E 55 4D 50 59") != NULL, "%s",
              first_message(o.list));
    end(&o);
    bytes long_head = npy_head(2, "{}");
    long_head.data[11] = 0x7F; /* a header of two gigabytes */
    o = open_npy(&long_head);
    CHECK_MSG(!o.d && strstr(first_message(o.list), "doesn't fit into") != NULL, "%s", first_message(o.list));
    end(&o);
}

/* Element (i, j, k) is 100 i + 10 j + k, and i runs fastest in the file, as numpy saves what was transposed. */
static void columns_first_are_turned_around(void) {
    bytes b = npy_head(1, HEAD("'<i2'", "True", "(2, 3, 4)"));
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++) add(&b, &(int16_t){(int16_t)(100 * i + 10 * j + k)}, 2);
    opened o = open_npy(&b);
    CHECK_MSG(o.d != NULL, "%s", first_message(o.list));
    float got[2][12] = {{0}};
    mpc_data_field f = {.source = "field[\"x\"]", .row_type = {MPC_FMT_f32, 2, {3, 4}}};
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_OK);
    const uint32_t rows[] = {1, 0};
    CHECK(o.d && mpc_dataset_gather(o.d, 0, rows, 2, got) == MPC_OK);
    for (int r = 0; r < 2; r++)
        for (int n = 0; n < 12; n++) CHECK(got[r][n] == (float)(100 * (1 - r) + 10 * (n / 4) + n % 4));
    end(&o);

    /* what doesn't fit into memory has to be turned around by who saves it */
    b = npy_head(1, HEAD("'<f4'", "True", "(16777217, 2)"));
    const char *path = write_file("large.npy", (const char *)b.data, b.size);
    CHECK(truncate(path, (off_t)b.size + 16777217 * 8) == 0);
    o = begin();
    CHECK(!mpc_dataset_open_npy(path, "x", false, &o.sink));
    CHECK_MSG(strstr(first_message(o.list), "save np.ascontiguousarray(x)") != NULL, "%s", first_message(o.list));
    end(&o);
}

static void folders_pipes_and_missing_files_are_refused(void) {
    char pipe[256];
    snprintf(pipe, sizeof pipe, "%s", write_file("pipe", "", 0));
    remove(pipe);
    CHECK(mkfifo(pipe, 0600) == 0);
    static const char *const parts[] = {"No such file", "is a folder, not a file", "is a pipe"};
    const char *const paths[] = {"/nonexistent/x", "/tmp", pipe};
    for (size_t i = 0; i < 3; i++) {
        opened o = begin();
        CHECK(!mpc_dataset_open_npy(paths[i], "x", false, &o.sink));
        CHECK(!mpc_dataset_open_npz(paths[i], NULL, false, &o.sink));
        CHECK(!mpc_dataset_open_idx(paths[i], NULL, false, &o.sink));
        CHECK(!mpc_dataset_open_tokens(paths[i], 1, 2, &o.sink));
        CHECK(!mpc_dataset_open_csv(paths[i], &(mpc_csv_options){.header = 0}, &o.sink));
        CHECK(mpc_diag_list_count(o.list) == 5);
        for (size_t k = 0; k < mpc_diag_list_count(o.list); k++) {
            const mpc_diag *d = mpc_diag_list_get(o.list, k);
            CHECK_MSG(strcmp(d->code, "E210") == 0 && strstr(d->message, parts[i]), "%s", d->message);
        }
        end(&o);
    }
}

static void values_that_are_not_finite_are_refused_with_their_row(void) {
    float v[6] = {1, 2, 3, 4, 5, NAN};
    bytes b = npy("<f4", "(3, 2)", v, sizeof v);
    opened o = open_npy(&b);
    mpc_data_field f = field(MPC_FMT_f32, "field[\"x\"]", 2);
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E213");
    CHECK_MSG(strstr(first_place(o.list), "x.npy, row 2, element 1 (byte ") && strstr(first_place(o.list), ": `nan`"),
              "%s", first_place(o.list));
    end(&o);
}

static void labels_out_of_range_are_named(void) {
    unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 10};
    opened o = begin();
    o.d = mpc_dataset_open_idx(NULL, write_file("labels", (const char *)idx, sizeof idx), false, &o.sink);
    mpc_data_field f = field(MPC_FMT_i32, "labels", 0);
    f.hi = 10;
    f.where = "y -> cross_entropy(logits, y)";
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E201");
    CHECK_STR(first_message(o.list), "class 10 in the data, but the model has classes 0 to 9");
    CHECK_MSG(strstr(first_place(o.list), "labels, row 2 (byte 10): `10`") != NULL, "%s", first_place(o.list));
    CHECK_STR(mpc_diag_list_get(o.list, 0)->help, "labels seem to start at 1: `input y = labels - 1`");
    end(&o);
}

static void idx_is_read_plain_and_gzipped(void) {
    static const unsigned char images[] = {0, 0, 0x0B, 3, 0, 0, 0,    2,    0, 0, 0, 1,
                                           0, 0, 0,    2, 0, 1, 0xFF, 0xFE, 1, 0, 0, 7};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 4};
    char first[256], second[256];
    snprintf(first, sizeof first, "%s", write_file("images", (const char *)images, sizeof images));
    snprintf(second, sizeof second, "%s", write_file("labels.gz", "", 0));
    gzFile z = gzopen(second, "wb");
    gzwrite(z, labels, sizeof labels);
    gzclose(z);
    opened o = begin();
    o.d = mpc_dataset_open_idx(first, second, false, &o.sink);
    mpc_data_field f[] = {{.source = "images", .row_type = {MPC_FMT_f32, 2, {1, 2}}}, field(MPC_FMT_i32, "labels", 0)};
    uint32_t rows[] = {1, 0};
    float x[4];
    int32_t y[2];
    CHECK(o.d && mpc_dataset_array_count(o.d) == 2 && mpc_dataset_array(o.d, 0).rank == 2);
    CHECK(o.d && mpc_dataset_bind(o.d, f, 2) == MPC_OK && mpc_dataset_gather(o.d, 0, rows, 2, x) == MPC_OK &&
          mpc_dataset_gather(o.d, 1, rows, 2, y) == MPC_OK);
    CHECK(x[0] == 256 && x[1] == 7 && x[2] == 1 && x[3] == -2 && y[0] == 4 && y[1] == 3);
    end(&o);
    static const struct {
        unsigned char data[12];
        size_t size;
        const char *part;
    } bad[] = {
        {{0, 0, 7, 1, 0, 0, 0, 1, 9}, 9, "begins with 00 00 07"},
        {{0, 1, 8, 1, 0, 0, 0, 1, 9}, 9, "begins with 00 01 08"},
        {{0, 0, 8, 0, 0, 0, 0, 1, 9}, 9, "has 0 axes"},
        {{0, 0, 8, 9, 0, 0, 0, 1, 9}, 9, "has 9 axes"},
        {{0, 0, 8, 2, 0, 0, 0, 1}, 8, "is cut off in its header"},
        {{0, 0, 8, 1, 0, 0, 0, 2, 9}, 9, "take 2 bytes, but 1 are there: is the file cut off?"},
        {{0, 0, 8, 1, 0, 0, 0, 1, 9, 9}, 10, "take 1 bytes, but 2 are there"},
        {{0, 0, 8, 1, 0, 0, 0, 0}, 8, "holds no numbers"},
        {{0, 0}, 2, "is no IDX"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = begin();
        CHECK(!mpc_dataset_open_idx(write_file("bad", (const char *)bad[i].data, bad[i].size), NULL, false, &o.sink));
        CHECK_MSG(strstr(first_message(o.list), bad[i].part) != NULL, "%zu: %s", i, first_message(o.list));
        end(&o);
    }
    o = begin();
    static const unsigned char fewer[] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
    CHECK(!mpc_dataset_open_idx(first, write_file("fewer", (const char *)fewer, sizeof fewer), false, &o.sink));
    CHECK_STR(first_code(o.list), "E220");
    end(&o);
}

static void tokens_are_windows_of_two_or_four_bytes(void) {
    for (int bytes_each = 2; bytes_each <= 4; bytes_each += 2) {
        unsigned char raw[8 * 4] = {0};
        for (int i = 0; i < 8; i++) {
            raw[i * bytes_each] = (unsigned char)(i + 1);
            raw[i * bytes_each + 1] = 1;
        }
        opened o = begin();
        const char *path = write_file("t.bin", (const char *)raw, (size_t)(8 * bytes_each));
        o.d = mpc_dataset_open_tokens(path, 3, bytes_each, &o.sink);
        CHECK(o.d && mpc_dataset_rows(o.d) == 2 && mpc_dataset_vocabulary(o.d) == 0 &&
              mpc_dataset_array_count(o.d) == 0);
        mpc_data_field f[] = {field(MPC_FMT_i32, "window", 3), field(MPC_FMT_i32, "next(window)", 3)};
        uint32_t row = 1;
        int32_t x[3], y[3];
        CHECK(o.d && mpc_dataset_bind(o.d, f, 2) == MPC_OK && mpc_dataset_gather(o.d, 0, &row, 1, x) == MPC_OK &&
              mpc_dataset_gather(o.d, 1, &row, 1, y) == MPC_OK);
        CHECK(x[0] == 260 && x[2] == 262 && y[0] == 261 && y[2] == 263);
        f[0].hi = 262;
        f[0].where = "t -> embedding(t, 262, 8)";
        CHECK(mpc_dataset_bind(o.d, f, 1) == MPC_FAILED);
        CHECK_MSG(strstr(first_place(o.list), "t.bin, token 5 (byte ") && strstr(first_place(o.list), ": `262`"), "%s",
                  first_place(o.list));
        end(&o);
    }
    opened o = begin();
    CHECK(!mpc_dataset_open_tokens(write_file("odd.bin", "abc", 3), 1, 2, &o.sink));
    CHECK_STR(first_code(o.list), "E219");
    CHECK(!mpc_dataset_open_tokens(write_file("short.bin", "abcd", 4), 2, 2, &o.sink));
    CHECK_STR(mpc_diag_list_get(o.list, 1)->code, "E216");
    end(&o);
}

static mpc_dataset *zip_two(opened *o, const char *shape, size_t rows, const char *first, const char *second) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    uint8_t y[6] = {7, 8, 9, 1, 2, 3};
    bytes a = npy("<f4", "(3, 2)", x, sizeof x), b = npy("|u1", shape, y, rows);
    mpc_dataset *parts[2];
    parts[0] = mpc_dataset_open_npy(write_file("a.npy", (const char *)a.data, a.size), "values", false, &o->sink);
    parts[1] = mpc_dataset_open_npy(write_file("b.npy", (const char *)b.data, b.size), "values", false, &o->sink);
    const char *const names[2] = {first, second};
    return parts[0] && parts[1] ? mpc_dataset_zip(parts, names, 2, &o->sink) : NULL;
}

static void zipped_sources_share_rows(void) {
    opened o = begin();
    o.d = zip_two(&o, "(3,)", 3, "x", "y");
    mpc_data_field f[] = {field(MPC_FMT_f32, "field[\"x\"]", 2), field(MPC_FMT_i32, "field[\"y\"]", 0)};
    uint32_t rows[] = {2};
    float x[2];
    int32_t y;
    CHECK(o.d && mpc_dataset_rows(o.d) == 3 && mpc_dataset_bind(o.d, f, 2) == MPC_OK &&
          mpc_dataset_gather(o.d, 0, rows, 1, x) == MPC_OK && mpc_dataset_gather(o.d, 1, rows, 1, &y) == MPC_OK);
    CHECK(x[0] == 5 && x[1] == 6 && y == 9);
    end(&o);
    o = begin();
    CHECK(!zip_two(&o, "(4,)", 4, "x", "y"));
    CHECK_STR(first_code(o.list), "E220");
    CHECK_MSG(strstr(first_message(o.list), "a.npy has 3 rows") && strstr(first_message(o.list), "b.npy has 4"), "%s",
              first_message(o.list));
    end(&o);
    o = begin();
    CHECK(!zip_two(&o, "(3,)", 3, "x", "x"));
    CHECK_MSG(strstr(first_message(o.list), "both have a field `x`") != NULL, "%s", first_message(o.list));
    end(&o);
}

static void a_csv_may_stand_beside_an_array(void) {
    float x[3] = {1, 2, 3};
    bytes a = npy("<f4", "(3,)", x, sizeof x);
    opened o = begin();
    mpc_dataset *parts[2];
    parts[0] = mpc_dataset_open_npy(write_file("a.npy", (const char *)a.data, a.size), "values", false, &o.sink);
    parts[1] =
        mpc_dataset_open_csv(write_file("l.csv", "label\n5\n6\n70\n", 13), &(mpc_csv_options){.header = -1}, &o.sink);
    const char *const names[2] = {"x", NULL};
    o.d = mpc_dataset_zip(parts, names, 2, &o.sink);
    mpc_data_field f = field(MPC_FMT_i32, "column[\"label\"]", 0);
    f.hi = 7;
    CHECK(o.d && mpc_dataset_bind(o.d, &f, 1) == MPC_FAILED);
    CHECK_MSG(strstr(first_place(o.list), "l.csv, row 4, column 1: `70`") != NULL, "%s", first_place(o.list));
    end(&o);
}

/* A file of `size` bytes with nothing but `head` in it; false where the file system has no holes. */
static bool sparse_file(char *path, size_t n, const char *name, const bytes *head, int64_t size) {
    snprintf(path, n, "%s", write_file(name, (const char *)head->data, head->size));
    struct stat info;
    return truncate(path, size) == 0 && stat(path, &info) == 0 && info.st_blocks < 1 << 12;
}

/* FC-132: 65537 x 32768 = 2147516416 elements, more than 2^31. */
static void more_than_two_to_the_31_elements(void) {
    char path[256];
    bytes head = npy("<f2", "(65537, 32768)", "", 0);
    int64_t size = (int64_t)head.size + INT64_C(65537) * 32768 * 2;
    opened o = begin();
    if (!sparse_file(path, sizeof path, "large.npy", &head, size)) {
        end(&o);
        return;
    }
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseeko(f, (off_t)size - 2, SEEK_SET) == 0 && fwrite("\x00\x3C", 1, 2, f) == 2); /* 1.0 */
    fclose(f);
    o.d = mpc_dataset_open_npy(path, "x", false, &o.sink);
    mpc_data_field want = field(MPC_FMT_f32, "field[\"x\"]", 32768);
    static float row[2 * 32768];
    uint32_t rows[] = {65535, 65536};
    CHECK(o.d && mpc_dataset_rows(o.d) == 65537 && mpc_dataset_bind(o.d, &want, 1) == MPC_OK);
    CHECK(o.d && mpc_dataset_gather(o.d, 0, rows, 2, row) == MPC_OK);
    CHECK(row[0] == 0 && row[65534] == 0 && row[65535] == 1);
    CHECK(truncate(path, size - 1) == 0); /* it shrinks while it is used */
    CHECK(mpc_dataset_gather(o.d, 0, rows, 2, row) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E218");
    end(&o);
    remove(path);
}

/* What a large file holds is checked when it is gathered. */
static void large_token_files_are_checked_as_they_are_read(void) {
    char path[256];
    bytes none = {.size = 0};
    opened o = begin();
    int64_t size = INT64_C(1) << 28;
    if (!sparse_file(path, sizeof path, "large.bin", &none, size)) {
        end(&o);
        return;
    }
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseeko(f, 2 * 1000003, SEEK_SET) == 0 && fwrite("\x51\xC3", 1, 2, f) == 2); /* 50001 */
    fclose(f);
    o.d = mpc_dataset_open_tokens(path, 16, 2, &o.sink);
    mpc_data_field want = field(MPC_FMT_i32, "window", 16);
    want.hi = 50000;
    uint32_t row = 1000003 / 16, before = row - 1;
    int32_t out[16];
    CHECK(o.d && mpc_dataset_bind(o.d, &want, 1) == MPC_OK && mpc_dataset_gather(o.d, 0, &before, 1, out) == MPC_OK);
    CHECK(mpc_dataset_gather(o.d, 0, &row, 1, out) == MPC_FAILED);
    CHECK_STR(first_code(o.list), "E201");
    CHECK_MSG(strstr(first_place(o.list), "large.bin, token 1000003 (byte 2000006): `50001`") != NULL, "%s",
              first_place(o.list));
    end(&o);
    remove(path);
}

static void orders_without_a_list_are_permutations(void) {
    static bool seen[100003];
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 17, 256, 1000, 100003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t n = sizes[i], in_place = 0, missing = 0;
        memset(seen, 0, sizeof seen);
        for (int64_t p = 0; p < n; p++) {
            int64_t row = mpc_drawn_row(7, 11, 3, (uint64_t)n, p);
            if (row < 0 || row >= n || seen[row]) missing++;
            else seen[row] = true;
            in_place += row == p;
        }
        CHECK_MSG(missing == 0, "%lld rows", (long long)n);
        if (n >= 1000) CHECK_MSG(in_place < 20, "%lld of %lld rows stay in place", (long long)in_place, (long long)n);
    }
    CHECK(mpc_drawn_row(7, 11, 3, 1000, 5) == mpc_drawn_row(7, 11, 3, 1000, 5));
    CHECK(mpc_drawn_row(7, 11, 3, 100003, 5) != mpc_drawn_row(7, 11, 4, 100003, 5));
}

static void large_splits_are_disjoint_without_lists(void) {
    unsigned char *zeros = calloc(1, (size_t)MPC_DATA_LISTED_ROWS + 100);
    char shape[40];
    snprintf(shape, sizeof shape, "(%d,)", MPC_DATA_LISTED_ROWS + 100);
    bytes head = npy("|u1", shape, "", 0);
    char path[256];
    snprintf(path, sizeof path, "%s", write_file("many.npy", (const char *)head.data, head.size));
    FILE *f = fopen(path, "ab");
    CHECK(f && fwrite(zeros, 1, (size_t)MPC_DATA_LISTED_ROWS + 100, f) == (size_t)MPC_DATA_LISTED_ROWS + 100);
    fclose(f);
    opened o = begin();
    o.d = mpc_dataset_open_npy(path, "x", false, &o.sink);
    uint64_t before = mpc_alloc_count();
    mpc_dataset *part = mpc_dataset_split(o.d, 0.25, 1, false), *rest = mpc_dataset_split(o.d, 0.25, 1, true);
    CHECK(mpc_alloc_count() - before <= 4);
    int64_t n = mpc_dataset_rows(part), m = mpc_dataset_rows(rest), twice = 0;
    CHECK(n + m == mpc_dataset_rows(o.d));
    for (int64_t i = 0; i < n + m; i++) {
        int64_t row = i < n ? mpc_dataset_root_row(part, i) : mpc_dataset_root_row(rest, i - n);
        twice += zeros[row]++;
    }
    CHECK(twice == 0);
    mpc_dataset_destroy(rest);
    mpc_dataset_destroy(part);
    end(&o);
    free(zeros);
}

static void every_failed_allocation_is_reported(void) {
    float x[4] = {1, 2, 3, 4};
    bytes b = npy("<f4", "(2, 2)", x, sizeof x);
    char path[256];
    snprintf(path, sizeof path, "%s", write_file("m.npy", (const char *)b.data, b.size));
    mpc_data_field f = field(MPC_FMT_f32, "field[\"x\"]", 2);
    for (uint64_t n = 1; n < 200; n++) {
        mpc_alloc_fail_after(n);
        mpc_dataset *part = mpc_dataset_open_npy(path, "values", false, NULL);
        const char *name = "x";
        mpc_dataset *d = part ? mpc_dataset_zip(&part, &name, 1, NULL) : NULL;
        bool done = d && mpc_dataset_bind(d, &f, 1) == MPC_OK;
        mpc_alloc_fail_after(0);
        mpc_dataset_destroy(d);
        if (!done) continue;
        CHECK(n > 8);
        return;
    }
    CHECK_MSG(false, "never succeeded");
}

/* Any bytes are read or refused: three of them changed, and cut off in one half of the cases. */
static void damaged_files_never_crash(void) {
    static const unsigned char idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    float x[6] = {1, 2, 3, 4, 5, 6};
    bytes whole[2] = {npy("<f4", "(3, 2)", x, sizeof x), {.size = 0}};
    add(&whole[1], idx, sizeof idx);
    mpc_data_field f[2] = {field(MPC_FMT_f32, "field[\"x\"]", 2), field(MPC_FMT_f32, "images", 3)};
    uint32_t random = 1;
    for (int i = 0; i < 3000; i++) {
        bytes b = whole[i & 1];
        for (int k = 0; k < 3; k++) {
            random = random * 1664525u + 1013904223u;
            b.data[random % b.size] = (unsigned char)(random >> 20);
        }
        if (random >> 8 & 1) b.size = random % b.size;
        const char *path = write_file("f.bin", (const char *)b.data, b.size);
        mpc_dataset *d =
            i & 1 ? mpc_dataset_open_idx(path, NULL, true, NULL) : mpc_dataset_open_npy(path, "x", true, NULL);
        float out[3];
        uint32_t row = d ? (uint32_t)mpc_dataset_rows(d) - 1 : 0;
        if (d && mpc_dataset_bind(d, &f[i & 1], 1) == MPC_OK) mpc_dataset_gather(d, 0, &row, 1, out);
        mpc_dataset_destroy(d);
    }
    CHECK(true);
}

int main(void) {
    every_type_is_read_in_both_byte_orders();
    integers_stay_exact_and_must_fit();
    later_versions_and_odd_spellings_are_read();
    lying_and_odd_headers_are_refused();
    what_is_no_npy_is_refused();
    columns_first_are_turned_around();
    folders_pipes_and_missing_files_are_refused();
    values_that_are_not_finite_are_refused_with_their_row();
    labels_out_of_range_are_named();
    idx_is_read_plain_and_gzipped();
    tokens_are_windows_of_two_or_four_bytes();
    zipped_sources_share_rows();
    a_csv_may_stand_beside_an_array();
    more_than_two_to_the_31_elements();
    large_token_files_are_checked_as_they_are_read();
    orders_without_a_list_are_permutations();
    large_splits_are_disjoint_without_lists();
    every_failed_allocation_is_reported();
    damaged_files_never_crash();
    remove_files();
    return check_result();
}
