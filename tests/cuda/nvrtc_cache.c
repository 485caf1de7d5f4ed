/* With the real NVRTC: kernels are found one by one whoever compiled them, damage is repaired, a warm cache compiles
 * nothing, errors say what the compiler said, reports name registers. No GPU is needed. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "codegen/cg.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/check.h"

enum { KERNELS = 40, CAPABILITY = 90 };

static mpc_nvrtc_api api;
static mpc_cubins_options options = {.nvrtc = &api, .capability = CAPABILITY, .jobs = 2};
static char folder[] = "/tmp/mpc-nvrtc-XXXXXX";
static mpc_kernel kernels[KERNELS];
static mpc_program program = {.kernels = kernels, .kernel_count = KERNELS};
static mpc_diag_list *diags;
static mpc_sink sink;

static void make_program(void) {
    static char texts[KERNELS][512], names[KERNELS][24];
    program.prelude = "#include \"mpc_device.h\"\n";
    program.device_header = mpc_text_cuda_device_h;
    for (int i = 0; i < KERNELS; i++) {
        snprintf(names[i], sizeof names[i], "k_%016x", i);
        snprintf(
            texts[i], sizeof texts[i],
            "MPC_KERNEL(%s, 128, 2, 1, 1) {\n    const float *x = (const float *)args.p[0];\n    float *y = (float "
            "*)args.p[1];\n"
            "    for (int64_t i = mpc_thread(); i < args.units; i += mpc_threads()) y[i] = x[i] * args.f[0] + %d.0f;\n"
            "    (void)when;\n}\n",
            names[i], i);
        kernels[i] = (mpc_kernel){
            .name = names[i], .text = texts[i], .pointer_count = 2, .int_count = 1, .float_count = 1, .threads = 128};
    }
}

static mpc_cubins *build(uint32_t first, uint32_t count) {
    mpc_cubins *c = mpc_cubins_create(&options, &sink);
    for (uint32_t i = first; c && i < first + count; i++) CHECK(mpc_cubins_add(c, &program, &kernels[i]) == MPC_OK);
    CHECK(c && mpc_cubins_build(c) == MPC_OK);
    return c;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void kernels_are_found_whoever_compiled_them(void) {
    mpc_cubins *c = build(0, 10);
    CHECK(mpc_cubins_compiled(c) == 10);
    mpc_cubins_destroy(c);
    c = build(5, KERNELS - 5); /* five are there */
    CHECK_MSG(mpc_cubins_compiled(c) == KERNELS - 10, "%u", mpc_cubins_compiled(c));
    mpc_cubins_destroy(c);
    double begin = seconds();
    c = build(0, KERNELS);
    CHECK_MSG(mpc_cubins_compiled(c) == 0, "%u", mpc_cubins_compiled(c));
    CHECK_MSG(seconds() - begin < 0.1, "warm: %.3f s", seconds() - begin);
    for (uint32_t i = 0; i < KERNELS; i++) {
        char *content = NULL;
        uint64_t bytes = 0;
        CHECK(mpc_cubins_read(c, mpc_cubins_file_of(c, i), &content, &bytes) == MPC_OK);
        CHECK(content && bytes > 64 &&
              memcmp(content,
                     "\x7f"
                     "ELF",
                     4) == 0);
        CHECK(content && memmem(content, bytes, kernels[i].name, strlen(kernels[i].name)) != NULL);
        mpc_free(content);
    }
    mpc_cubins_destroy(c);
}

static void equal_kernels_of_two_programs_are_compiled_once(void) {
    mpc_kernel own[2] = {kernels[0], kernels[1]};
    char a[600], b[600];
    snprintf(a, sizeof a, "%s// a\n", kernels[0].text);
    snprintf(b, sizeof b, "%s// b\n", kernels[1].text);
    own[0].text = a;
    own[1].text = b;
    mpc_program other = program;
    mpc_cubins *c = mpc_cubins_create(&options, &sink);
    for (int i = 0; c && i < 2; i++) {
        CHECK(mpc_cubins_add(c, &program, &own[i]) == MPC_OK);
        CHECK(mpc_cubins_add(c, &other, &own[i]) == MPC_OK);
    }
    CHECK(c && mpc_cubins_build(c) == MPC_OK);
    CHECK_MSG(c && mpc_cubins_compiled(c) == 2, "%u", mpc_cubins_compiled(c));
    CHECK(c && mpc_cubins_file_of(c, 0) == mpc_cubins_file_of(c, 1));
    mpc_cubins_destroy(c);
}

/* Calls `damage` on each .cubin file. */
static void for_each_cubin(void (*damage)(const char *path)) {
    DIR *dir = opendir(folder);
    char path[512];
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".cubin")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        damage(path);
    }
    if (dir) closedir(dir);
}

static void cut(const char *path) { CHECK(truncate(path, 1000) == 0); }
static void flip(const char *path) {
    int fd = open(path, O_RDWR);
    char byte = 0;
    CHECK(fd >= 0 && pread(fd, &byte, 1, 700) == 1);
    byte = (char)(byte ^ 1);
    CHECK(pwrite(fd, &byte, 1, 700) == 1);
    close(fd);
}
static void remove_file(const char *path) { CHECK(unlink(path) == 0); }

static void damaged_files_are_compiled_again(void) {
    void (*const damages[])(const char *) = {cut, flip, remove_file};
    for (int i = 0; i < 3; i++) {
        mpc_cubins_destroy(build(0, 8));
        for_each_cubin(damages[i]);
        mpc_cubins *c = build(0, 8);
        CHECK_MSG(mpc_cubins_compiled(c) == 8, "damage %d: %u", i, mpc_cubins_compiled(c));
        mpc_cubins_destroy(c);
    }
}

/* One load's refusal of a whole file mustn't take it from under another that is about to read it. */
static void a_forgotten_file_stays_for_others(void) {
    mpc_cubins_destroy(build(0, 8));
    mpc_cubins *c = build(0, 8), *other = build(0, 8);
    uint32_t anew = 0;
    mpc_cubins_forget(c, mpc_cubins_file_of(c, 0));
    for (int again = 0; again < 2; again++) {
        char *content = NULL;
        uint64_t bytes = 0;
        CHECK(mpc_cubins_read(other, mpc_cubins_file_of(other, 0), &content, &bytes) == MPC_OK && bytes > 0);
        mpc_free(content);
        CHECK(mpc_cubins_build(c) == MPC_OK); /* makes it anew, then has it */
        if (!again) anew = mpc_cubins_compiled(c);
        CHECK_MSG(anew > 0 && mpc_cubins_compiled(c) == anew, "%u %u", anew, mpc_cubins_compiled(c));
        CHECK(mpc_cubins_file_of(c, 0) < mpc_cubins_file_count(c));
    }
    mpc_cubins_destroy(c);
    mpc_cubins_destroy(other);
}

static void no_temporary_files_are_left(void) {
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) CHECK_MSG(!strstr(e->d_name, ".tmp"), "%s", e->d_name);
    if (dir) closedir(dir);
}

static void refused_text_says_why(void) {
    mpc_kernel wrong = kernels[0];
    wrong.text = "MPC_KERNEL(k_wrong, 128, 1, 1, 1) { undeclared_thing = 1; }\n";
    size_t before = mpc_diag_list_count(diags);
    mpc_cubins *c = mpc_cubins_create(&options, &sink);
    CHECK(c && mpc_cubins_add(c, &program, &wrong) == MPC_OK);
    CHECK(c && mpc_cubins_build(c) == MPC_FAILED);
    mpc_cubins_destroy(c);
    CHECK(mpc_diag_list_count(diags) == before + 1);
    const mpc_diag *d = mpc_diag_list_get(diags, before);
    CHECK_STR(d->code, "E625");
    CHECK_MSG(strstr(d->message, "undeclared_thing"), "%s", d->message);
}

static void reports_name_registers(void) {
    for (int again = 0; again < 2; again++) { /* from the compiler, then from the cache */
        mpc_cubins *c = build(0, KERNELS);
        for (uint32_t i = 0; c && i < KERNELS; i++) {
            mpc_kernel_report r = {0};
            CHECK(mpc_cubins_report(c, i, &r) == MPC_OK);
            CHECK_MSG(r.registers >= 8 && r.spill_bytes == 0 && r.mma == 0 && r.wide == 0, "%u", r.registers);
        }
        CHECK(!again || mpc_cubins_compiled(c) == 0);
        mpc_cubins_destroy(c);
    }
    mpc_str ptx = {0};
    CHECK(mpc_nvrtc_assemble(&program, CAPABILITY, MPC_NVRTC_PTX, &ptx, &sink) == MPC_OK);
    CHECK(strstr(mpc_str_cstr(&ptx), ".target sm_90") && strlen(mpc_str_cstr(&ptx)) == ptx.length);
    mpc_str_free(&ptx);
}

static void failing_memory_is_survived(void) {
    for_each_cubin(remove_file);
    for (uint64_t n = 1; n < 60; n++) {
        mpc_alloc_fail_after(n);
        mpc_cubins *c = mpc_cubins_create(&options, &sink);
        mpc_status status = c ? mpc_cubins_add(c, &program, &kernels[0]) : MPC_NO_MEMORY;
        if (status == MPC_OK) status = mpc_cubins_build(c);
        mpc_alloc_fail_after(0);
        mpc_cubins_destroy(c);
        if (status == MPC_OK) return;
    }
    CHECK_MSG(false, "sixty allocations and no success");
}

static bool is_real(void) { /* the stand-in takes its place where the loader's path says so */
    const char *path = getenv("LD_LIBRARY_PATH");
    return !path || !strstr(path, "cudasim");
}

int main(void) {
    char reason[256], command[64];
    mpc_dl *dl = is_real() ? mpc_nvrtc_open(&api, 0, &options.nvrtc_version, reason, sizeof reason) : NULL;
    if (!dl) {
        fprintf(stderr, "skipped: no NVRTC\n");
        return 77;
    }
    /* What the library allocates for good is lost to a leak checker when it is closed. */
    (void)dlopen(mpc_dl_path(dl), RTLD_NOW | RTLD_NODELETE);
    if (!mkdtemp(folder)) return 1;
    options.cache_dir = folder;
    diags = mpc_diag_list_create();
    sink = mpc_diag_list_sink(diags);
    make_program();
    kernels_are_found_whoever_compiled_them();
    equal_kernels_of_two_programs_are_compiled_once();
    damaged_files_are_compiled_again();
    a_forgotten_file_stays_for_others();
    refused_text_says_why();
    reports_name_registers();
    failing_memory_is_survived();
    no_temporary_files_are_left();
    for (size_t i = 0; i < mpc_diag_list_count(diags) && check_failures; i++)
        fprintf(stderr, "%s\n", mpc_diag_list_get(diags, i)->message);
    mpc_diag_list_destroy(diags);
    mpc_dl_close(dl);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) fprintf(stderr, "left %s\n", folder);
    return check_result();
}
