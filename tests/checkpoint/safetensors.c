/* The safetensors reader believes nothing, and the writer's bytes depend on the tensors only. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/checkpoint.h"
#include "tests/check.h"

static char folder[] = "/tmp/mpc-st-XXXXXX";
static char path[256];

static const float WEIGHT[] = {1, 2, 3, 4, 5, 6};
static const uint16_t HALF[] = {0x3C00, 0x4000, 0x4200};
static const int64_t COUNT = 7;
static const uint8_t FLAG = 1;

static const mpc_tensor_view TENSORS[] = {{"z.weight", {MPC_FMT_f32, 2, {2, 3}}, WEIGHT},
                                          {"a.вес", {MPC_FMT_bf16, 1, {3}}, HALF},
                                          {"count", {MPC_FMT_i64, 0, {0}}, &COUNT},
                                          {"stop", {MPC_FMT_bool, 0, {0}}, &FLAG},
                                          {"empty", {MPC_FMT_f32, 2, {0, 4}}, WEIGHT}};
static const char *const METADATA[] = {"step", "12", "extra", "{\"best\":0.5}", NULL};

static size_t read_back(char *out, size_t size) {
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(out, 1, size, f) : 0;
    if (f) fclose(f);
    return n;
}

static void write_raw(const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    if (!f) abort();
    fwrite(bytes, 1, size, f);
    fclose(f);
}

static void what_is_written_is_read(void) {
    CHECK(mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL) == MPC_OK);
    mpc_safetensors *f = mpc_safetensors_read(path, NULL);
    CHECK(f && mpc_safetensors_count(f) == 5);
    for (int i = 0; f && i < 5; i++) {
        const mpc_tensor_view *t = mpc_safetensors_find(f, TENSORS[i].name);
        CHECK_MSG(t && t->type.format == TENSORS[i].type.format && t->type.rank == TENSORS[i].type.rank, "%d", i);
        CHECK(t && memcmp(t->data, TENSORS[i].data, (size_t)mpc_type_bytes(&t->type)) == 0);
    }
    CHECK_STR(mpc_safetensors_metadata(f, "extra"), "{\"best\":0.5}");
    CHECK(mpc_safetensors_metadata(f, "none") == NULL);
    mpc_safetensors_destroy(f);
}

static void bytes_do_not_depend_on_the_order_given(void) {
    char a[2000], b[2000];
    mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL);
    size_t n = read_back(a, sizeof a);
    mpc_tensor_view turned[5];
    for (int i = 0; i < 5; i++) turned[i] = TENSORS[4 - i];
    mpc_safetensors_write(path, turned, 5, METADATA, NULL);
    CHECK(read_back(b, sizeof b) == n && memcmp(a, b, n) == 0);
    CHECK((uint8_t)a[0] % 8 == 0 && a[8] == '{');
}

static const char *code_of_file(void) {
    static char code[8];
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    mpc_safetensors *f = mpc_safetensors_read(path, &sink);
    snprintf(code, sizeof code, "%s",
             f                                ? ""
             : mpc_diag_list_count(list) == 1 ? mpc_diag_list_get(list, 0)->code
                                              : "many");
    mpc_safetensors_destroy(f);
    mpc_diag_list_destroy(list);
    return code;
}

static const char *code_of_header(const char *header, size_t data_bytes) {
    char bytes[1000] = {0};
    size_t n = strlen(header);
    bytes[0] = (char)(n & 0xFF);
    bytes[1] = (char)(n >> 8);
    memcpy(bytes + 8, header, n);
    write_raw(bytes, 8 + n + data_bytes);
    return code_of_file();
}

static void wrong_headers_have_their_codes(void) {
#define T(dtype, shape, from, to) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"
    static const struct {
        const char *header;
        size_t bytes;
        const char *code;
    } cases[] = {
        {"{\"a\":" T("F32", "[2]", 0, 8) "}", 8, ""},
        {"{}  ", 0, ""},
        {"{\"a\":" T("F32", "[2]", 0, 8) "}", 7, "E414"},
        {"{\"a\":" T("F32", "[2]", 0, 8) "}", 9, "E414"},
        {"{\"a\":" T("F32", "[2]", 4, 12) "}", 12, "E414"},
        {"{\"a\":" T("F32", "[2]", 8, 0) "}", 8, "E414"},
        {"{\"a\":" T("F32", "[2]", -8, 0) "}", 8, "E414"},
        {"{\"a\":" T("F32", "[2]", 0, 8) ",\"b\":" T("F32", "[2]", 4, 12) "}", 12, "E414"},
        {"{\"a\":" T("F32", "[3]", 0, 8) "}", 8, "E413"},
        {"{\"a\":" T("F32", "[-2]", 0, 8) "}", 8, "E413"},
        {"{\"a\":" T("F32", "[2.0]", 0, 8) "}", 8, "E413"},
        {"{\"a\":" T("F32", "[4294967296,4294967296,4294967296]", 0, 0) "}", 0, "E413"},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "E413"},
        {"{\"a\":" T("C64", "[1]", 0, 8) "}", 8, "E413"},
        {"{\"a\":" T("F32", "[2]", 0, 8) ",\"a\":" T("F32", "[2]", 0, 8) "}", 8, "E412"},
        {"{\"a\":" T("F32", "[2]", 0, 99999999999999999999) "}", 8, "E412"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "E412"},
        {"{\"a\":[1]}", 0, "E412"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "E412"},
        {"[]", 0, "E412"},
        {"{\"a\"", 0, "E412"},
        {"{\"\xFF\":1}", 0, "E412"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *code = code_of_header(cases[i].header, cases[i].bytes);
        CHECK_MSG(strcmp(code, cases[i].code) == 0, "case %zu: %s", i, code);
    }
    static const unsigned char huge[16] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    write_raw(huge, sizeof huge);
    CHECK_STR(code_of_file(), "E411");
}

static void a_file_cut_anywhere_is_refused(void) {
    char bytes[2000];
    mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL);
    size_t n = read_back(bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        write_raw(bytes, i);
        CHECK_MSG(code_of_file()[0] != '\0', "cut at %zu", i);
    }
    for (size_t i = 0; i < 8000; i++) { /* flips: no crash; the sanitizer watches */
        char damaged[2000];
        memcpy(damaged, bytes, n);
        size_t at = i * 2654435761u % (n < 500 ? n : 500);
        damaged[at] = (char)(damaged[at] ^ 1 << (i % 8));
        write_raw(damaged, n);
        code_of_file();
    }
}

static void a_full_disk_leaves_the_old_file(void) {
    char before[2000], after[2000];
    mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL);
    size_t n = read_back(before, sizeof before);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small = {200, 200};
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    CHECK(mpc_safetensors_write(path, TENSORS, 4, METADATA, &sink) == MPC_FAILED);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(mpc_diag_list_count(list) == 1);
    CHECK_STR(mpc_diag_list_get(list, 0)->code, "E420");
    CHECK(read_back(after, sizeof after) == n && memcmp(before, after, n) == 0);
    char temporary[300];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    CHECK(access(temporary, F_OK) != 0);
    mpc_diag_list_destroy(list);
}

static void every_failed_allocation_is_reported(void) {
    json_set_alloc_funcs(mpc_alloc, mpc_free);
    mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL);
    bool written = false, read = false;
    for (uint64_t n = 1; n < 500 && !(written && read); n++) {
        mpc_alloc_fail_after(n);
        written = mpc_safetensors_write(path, TENSORS, 5, METADATA, NULL) == MPC_OK;
        mpc_alloc_fail_after(n);
        mpc_safetensors *f = mpc_safetensors_read(path, NULL);
        mpc_alloc_fail_after(0);
        read = f != NULL;
        mpc_safetensors_destroy(f);
    }
    CHECK(written && read);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/модель.safetensors", folder);
    what_is_written_is_read();
    bytes_do_not_depend_on_the_order_given();
    wrong_headers_have_their_codes();
    a_file_cut_anywhere_is_refused();
    a_full_disk_leaves_the_old_file();
    every_failed_allocation_is_reported();
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || check_result();
}
