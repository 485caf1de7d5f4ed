/* What kernels do on the stand-in: barriers, shuffles, shared memory, asynchronous copies, and the errors that a GPU
 * would not report. Each kernel is text in the product's dialect, compiled by the look-alike of NVRTC with the
 * product's prelude. */
#include "tests/cudasim/sanitized.h"
#include "tests/cudasim/sim_test.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text[] =
    "#define K(name) MPC_KERNEL(name, 64, 4, 2, 2)\n"
    /* p[0][i] = block * 64 + thread, summed over the block through shared memory into p[1] */
    "K(k_sum) { MPC_ENTER\n"
    "  float *s = (float *)mpc_shared();\n"
    "  s[mpc_thread()] = ((const float *)p[0])[block * 64 + mpc_thread()];\n"
    "  mpc_barrier();\n"
    "  for (int d = 32; d > 0; d /= 2) {\n"
    "    const float other = s[mpc_thread() ^ d];\n"
    "    mpc_barrier();\n"
    "    s[mpc_thread()] += other;\n"
    "    mpc_barrier();\n"
    "  }\n"
    "  if (mpc_thread() == 0) ((float *)p[1])[block] = s[0]; }\n"
    "K(k_shuffle) { MPC_ENTER\n"
    "  float x = ((const float *)p[0])[mpc_thread()];\n"
    "  const uint32_t members = 0xffu << (mpc_thread() % 32 / 8 * 8);\n"
    "  for (int d = 4; d > 0; d /= 2) x += mpc_float(mpc_shuffle_xor(members, mpc_bits(x), d));\n"
    "  x += mpc_float(mpc_shuffle(~0u, mpc_bits(x), 31));\n"
    "  mpc_warp_barrier(~0u);\n"
    "  ((float *)p[1])[mpc_thread()] = x; }\n"
    /* no barrier between writing and reading */
    "K(k_race) { MPC_ENTER\n"
    "  float *s = (float *)mpc_shared();\n"
    "  s[mpc_thread()] = 1.0f;\n"
    "  ((float *)p[1])[mpc_thread()] = s[63 - mpc_thread()]; }\n"
    "K(k_race_global) { MPC_ENTER ((float *)p[1])[0] = (float)mpc_block(); }\n"
    "K(k_unwritten) { MPC_ENTER ((float *)p[1])[mpc_thread()] = ((float *)mpc_shared())[mpc_thread()]; }\n"
    "K(k_some_barrier) { MPC_ENTER if (mpc_thread() != 5) mpc_barrier(); }\n"
    "K(k_lost_lane) { MPC_ENTER if (mpc_thread() == 3) return;\n"
    "  ((uint32_t *)p[1])[mpc_thread()] = mpc_shuffle_xor(~0u, 1, 1); }\n"
    "K(k_mixed) { MPC_ENTER\n"
    "  ((uint32_t *)p[1])[mpc_thread()] = mpc_thread() == 0 ? mpc_shuffle(~0u, 1, 1) : mpc_shuffle_xor(~0u, 1, 1); }\n"
    "K(k_misaligned) { MPC_ENTER mpc_store4((char *)p[1] + 2, 0); }\n"
    "K(k_outside) { MPC_ENTER if (mpc_thread() == 0) ((float *)p[1])[n[0]] = 1.0f; }\n"
    "K(k_outside_shared) { MPC_ENTER if (mpc_thread() == 0) ((float *)mpc_shared())[n[0]] = 1.0f; }\n"
    /* copies through shared memory: n[0] tells whether to wait */
    "K(k_copy) { MPC_ENTER\n"
    "  char *s = mpc_shared() + 16 * mpc_thread();\n"
    "  mpc_copy_async16(s, (const char *)p[0] + 16 * mpc_thread(), mpc_thread() == 7 ? 4 : 16);\n"
    "  mpc_copy_async_commit();\n"
    "  if (n[0]) mpc_copy_async_wait<0>(); else mpc_copy_async_wait<1>();\n"
    "  mpc_barrier();\n"
    "  mpc_store16((char *)p[1] + 16 * mpc_thread(), mpc_load16(s)); }\n"
    "MPC_SEGMENTED(k_segments, 64, 4, 2, 2) { MPC_ENTER_SEGMENT\n"
    "  ((float *)p[0])[block * 64 + mpc_thread()] = f[0] + (float)block; }\n";

static void fails(const char *name, int64_t n, int expected);
static char *image;
static void *module;

static int run(const char *name, mpc_device_ptr from, mpc_device_ptr to, int64_t n, unsigned shared) {
    block_args args = {.blocks = 1, .p = {from, to}, .n = {n}};
    const int result = launch(kernel_of(module, name), args, 64, shared, NULL);
    return result ? result : cuCtxSynchronize();
}

static void barriers_order_shared_memory(void) {
    float in[3 * 64], out[3] = {0};
    for (int i = 0; i < 3 * 64; i++) in[i] = (float)i;
    mpc_device_ptr from = device_copy(in, sizeof in), to = device_copy(NULL, sizeof out);
    CHECK(launch(kernel_of(module, "k_sum"), (block_args){.blocks = 3, .p = {from, to}}, 64, 256, NULL) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int b = 0; b < 3; b++) CHECK(out[b] == (float)(64 * 64 * b + 63 * 32));
}

static void shuffles_exchange_among_their_members(void) {
    float in[64], out[64];
    for (int i = 0; i < 64; i++) in[i] = (float)i;
    mpc_device_ptr from = device_copy(in, sizeof in), to = device_copy(NULL, sizeof out);
    CHECK(run("k_shuffle", from, to, 0, 0) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 64; i++) {
        const int group = i / 8 * 8, last = i / 32 * 32 + 24;
        CHECK(out[i] == (float)(8 * group + 28 + 8 * last + 28));
    }
}

static void copies_arrive_when_they_are_waited_for(void) {
    float in[256], out[256];
    for (int i = 0; i < 256; i++) in[i] = (float)i;
    mpc_device_ptr from = device_copy(in, sizeof in), to = device_copy(NULL, sizeof out);
    CHECK(run("k_copy", from, to, 1, 1024) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 256; i++) CHECK(out[i] == (i / 4 == 7 && i % 4 ? 0.0f : (float)i));
    CHECK(run("k_copy", from, to, 0, 1024) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 256; i++) CHECK(isnan(out[i]));
}

static void blocks_race_too(void) {
    open_device();
    module = load(image);
    mpc_device_ptr to = device_copy(NULL, 256);
    CHECK(launch(kernel_of(module, "k_race_global"), (block_args){.blocks = 4, .p = {to, to}}, 64, 0, NULL) == 0);
    CHECK(cuCtxSynchronize() == LAUNCH_FAILED);
    close_device();
    setting("MPC_CUDASIM_ONCE", "1");
    fails("k_race", 0, 0); /* not looked for */
    setting("MPC_CUDASIM_ONCE", NULL);
}

static void segments_find_their_instance(void) {
    float out[5 * 64];
    mpc_device_ptr to = device_copy(NULL, sizeof out), table, when = 0;
    block_args instances[2] = {{.first_block = 0, .blocks = 2, .p = {to}, .f = {10.0f}},
                               {.first_block = 2, .blocks = 3, .p = {to + 2 * 64 * 4}, .f = {20.0f}}};
    table = device_copy(instances, sizeof instances);
    struct {
        mpc_device_ptr table;
        int32_t count;
        mpc_device_ptr when;
    } packed = {table, 2, when};
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
    CHECK(cuLaunchKernel(kernel_of(module, "k_segments"), 5, 1, 1, 64, 1, 1, 0, NULL, NULL, extra) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 5 * 64; i++) CHECK(out[i] == (i < 128 ? 10.0f + (float)(i / 64) : 20.0f + (float)(i / 64 - 2)));
}

static void unwritten_memory_is_nan(void) {
    float out[64];
    mpc_device_ptr to = device_copy(NULL, sizeof out);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 64; i++) CHECK(isnan(out[i]));
    CHECK(run("k_unwritten", to, to, 0, 256) == 0);
    CHECK(cuMemcpyDtoH_v2(out, to, sizeof out) == 0);
    for (int i = 0; i < 64; i++) CHECK(isnan(out[i]));
}

/* Each in a device of its own: the error is sticky. */
static void fails(const char *name, int64_t n, int expected) {
    open_device();
    module = load(image);
    mpc_device_ptr to = device_copy(NULL, 256 * sizeof(float));
    const int result = run(name, to, to, n, 1024);
    CHECK_MSG(result == expected, "%s: %d", name, result);
    if (expected) CHECK(cuCtxSynchronize() == expected);
    close_device();
}

/* AddressSanitizer ends the process at the very access. */
static void leaves_its_memory(const char *name) {
#if defined(__SANITIZE_ADDRESS__)
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        fails(name, 256, 700);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status != 0);
#else
    fails(name, 256, 700);
#endif
}

static void grid_and_arguments_must_agree(void) {
    open_device();
    module = load(image);
    mpc_device_ptr to = device_copy(NULL, 4096), when = 0;
    block_args args = {.blocks = 2, .p = {to, to}};
    void *params[] = {&args, &when}, *f = kernel_of(module, "k_shuffle");
    CHECK(cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, NULL, params, NULL) == INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 0, 1, 1, 64, 1, 1, 0, NULL, params, NULL) == INVALID_VALUE);
    CHECK(cuLaunchKernel(f, 2, 1, 1, 64, 1, 1, 64 * 1024, NULL, params, NULL) == INVALID_VALUE);
    CHECK(cuFuncSetAttribute(f, 8, 64 * 1024) == 0);
    CHECK(cuFuncSetAttribute(f, 8, 228 * 1024) == INVALID_VALUE);
    CHECK(cuLaunchKernel(&args, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL) == INVALID_HANDLE);
    CHECK(cuLaunchKernel(f, 3, 1, 1, 64, 1, 1, 0, NULL, params, NULL) == 0);
    CHECK(cuCtxSynchronize() == 700);
    close_device();
}

int main(void) {
    open_device();
    image = image_of(text);
    if (!image) return check_result();
    module = load(image);
    barriers_order_shared_memory();
    shuffles_exchange_among_their_members();
    copies_arrive_when_they_are_waited_for();
    segments_find_their_instance();
    unwritten_memory_is_nan();
    close_device();
    fails("k_race", 0, LAUNCH_FAILED);
    fails("k_race_global", 0, 0); /* one block: no race */
    fails("k_some_barrier", 0, LAUNCH_FAILED);
    fails("k_lost_lane", 0, LAUNCH_FAILED);
    fails("k_mixed", 0, LAUNCH_FAILED);
    fails("k_misaligned", 0, 716);
    leaves_its_memory("k_outside");
    leaves_its_memory("k_outside_shared");
    blocks_race_too();
    grid_and_arguments_must_agree();
    free(image);
    return check_result();
}
