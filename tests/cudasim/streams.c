/* Time on the stand-in: work is late, so host code that reads before it waited finds NaN; graphs replay what was
 * captured; misuse of handles and captures gives the driver's errors; calls are counted, traced and made to fail. */
#include "tests/cudasim/sim_test.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

static const char text[] = "MPC_KERNEL(k_double, 64, 4, 2, 2) { MPC_ENTER\n"
                           "  ((float *)p[1])[mpc_thread()] = 2.0f * ((const float *)p[0])[mpc_thread()]; }\n";
static char *image;
static float *in, *out; /* page-locked */
static mpc_device_ptr from, to;
static void *stream, *module, *twice;
enum { BYTES = 64 * sizeof(float) };

static void begin(void) {
    open_device();
    module = load(image);
    twice = kernel_of(module, "k_double");
    from = device_copy(NULL, BYTES), to = device_copy(NULL, BYTES);
    CHECK(cuMemHostAlloc((void **)(void *)&in, BYTES, 0) == 0);
    CHECK(cuMemHostAlloc((void **)(void *)&out, BYTES, 0) == 0);
    CHECK(cuStreamCreate(&stream, 1) == 0);
    for (int i = 0; i < 64; i++) in[i] = (float)i, out[i] = 0;
}

static void end(void) {
    CHECK(cuStreamDestroy_v2(stream) == 0);
    close_device();
}

static int step(void) {
    int result = cuMemcpyHtoDAsync_v2(from, in, BYTES, stream);
    if (!result) result = launch(twice, (block_args){.blocks = 1, .p = {from, to}}, 64, 0, stream);
    return result ? result : cuMemcpyDtoHAsync_v2(out, to, BYTES, stream);
}

static bool out_is(float factor) {
    for (int i = 0; i < 64; i++)
        if (out[i] != factor * (float)i) return false;
    return true;
}

static void results_are_not_there_before_the_host_waits(void) {
    void *event = NULL;
    float ms = 0;
    begin();
    CHECK(cuEventCreate(&event, 0) == 0);
    CHECK(step() == 0);
    CHECK(isnan(out[0]) && isnan(out[63]));
    CHECK(cuEventRecord(event, stream) == 0);
    CHECK(cuEventQuery(event) == NOT_READY);
    CHECK(isnan(out[1]));
    CHECK(cuEventQuery(event) == 0);
    CHECK(out_is(2));
    CHECK(step() == 0);
    CHECK(isnan(out[0]));
    in[0] = 7; /* too early: the copy has yet to read it */
    CHECK(cuEventRecord(event, stream) == 0);
    CHECK(cuEventSynchronize(event) == 0);
    CHECK(out[0] == 14);
    CHECK(cuEventElapsedTime(&ms, event, event) == 0 && ms == 0);
    CHECK(cuEventDestroy_v2(event) == 0);
    CHECK(cuEventDestroy_v2(event) == INVALID_HANDLE);
    end();
}

/* The stream is a non-blocking one: the legacy stream does not wait for it. */
static void other_streams_do_not_wait(void) {
    float now[64];
    void *other = NULL, *event = NULL;
    begin();
    CHECK(step() == 0);
    CHECK(cuMemcpyDtoH_v2(now, to, BYTES) == 0);
    CHECK(isnan(now[1]));
    CHECK(cuStreamCreate(&other, 1) == 0 && cuEventCreate(&event, 2) == 0);
    CHECK(cuEventRecord(event, stream) == 0);
    CHECK(cuStreamWaitEvent(other, event, 0) == 0);
    CHECK(cuStreamSynchronize(other) == 0);
    CHECK(out_is(2));
    end();
}

static void *captured(void) {
    void *graph = NULL;
    CHECK(cuStreamBeginCapture_v2(stream, 1) == 0);
    CHECK(step() == 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 0);
    return graph;
}

static void graphs_replay_with_changed_inputs(void) {
    void *exec = NULL;
    begin();
    void *graph = captured();
    CHECK(out[0] == 0 && !isnan(out[1])); /* nothing ran */
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
    CHECK(cuGraphDestroy(graph) == 0);
    CHECK(cuGraphDestroy(graph) == INVALID_VALUE);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 64; i++) in[i] = (float)(round * i);
        CHECK(cuGraphLaunch(exec, stream) == 0);
        CHECK(isnan(out[1]));
        CHECK(cuStreamSynchronize(stream) == 0);
        CHECK(out_is((float)(2 * round)));
    }
    graph = captured();
    CHECK(cuGraphExecUpdate_v2(exec, graph, NULL) == 0);
    CHECK(cuGraphExecDestroy(exec) == 0);
    CHECK(cuGraphLaunch(exec, stream) == INVALID_HANDLE);
    end();
}

static void captures_refuse_to_wait(void) {
    void *graph = NULL;
    float pageable[64];
    mpc_device_ptr more = 0;
    begin();
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemAlloc_v2(&more, 64) == 900);
    CHECK(step() == 901);
    CHECK(cuStreamEndCapture(stream, &graph) == 901 && !graph);
    CHECK(cuStreamBeginCapture_v2(stream, 2) == 0);
    CHECK(cuMemcpyDtoHAsync_v2(pageable, to, BYTES, stream) == 900);
    CHECK(cuStreamSynchronize(stream) == 900);
    CHECK(cuStreamEndCapture(stream, &graph) == 901);
    CHECK(cuStreamEndCapture(stream, &graph) == 401);
    CHECK(step() == 0 && cuStreamSynchronize(stream) == 0 && out_is(2));
    end();
}

static void wrong_ranges_and_handles_are_refused(void) {
    begin();
    CHECK(cuMemcpyHtoDAsync_v2(from + 8, in, BYTES, stream) == INVALID_VALUE);
    CHECK(cuMemcpyDtoHAsync_v2(out + 1, from, BYTES, stream) == INVALID_VALUE);
    CHECK(cuMemcpyHtoDAsync_v2((mpc_device_ptr)(uintptr_t)out, in, BYTES, stream) == INVALID_VALUE);
    CHECK(cuMemsetD8Async(to + 1, 0, BYTES, stream) == INVALID_VALUE);
    CHECK(cuStreamSynchronize(&image) == INVALID_HANDLE);
    CHECK(cuMemFree_v2(from + 16) == INVALID_VALUE);
    CHECK(cuMemFree_v2(from) == 0);
    CHECK(cuMemFree_v2(from) == INVALID_VALUE);
    CHECK(launch(twice, (block_args){.blocks = 1, .p = {from, to}}, 64, 0, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 700);
    CHECK(cuMemFree_v2(to) == 700); /* sticky */
    close_device();
    begin(); /* and gone with the context */
    CHECK(step() == 0 && cuStreamSynchronize(stream) == 0);
    end();
}

static void memory_has_an_end(void) {
    mpc_device_ptr a = 0, b = 0;
    size_t free_bytes = 0, total = 0;
    setting("MPC_CUDASIM_MEMORY", "1048576");
    begin();
    CHECK(cuMemGetInfo_v2(&free_bytes, &total) == 0 && total == 1048576 && free_bytes == total - 2 * BYTES);
    CHECK(cuMemAlloc_v2(&a, 1 << 19) == 0);
    CHECK(cuMemAlloc_v2(&b, 1 << 19) == OUT_OF_MEMORY);
    CHECK(cuMemFree_v2(a) == 0);
    CHECK(cuMemAlloc_v2(&b, 1 << 19) == 0);
    end();
    setting("MPC_CUDASIM_MEMORY", NULL);
}

static void calls_fail_where_asked(void) {
    mpc_device_ptr a = 0;
    begin();
    setting("MPC_CUDASIM_FAIL", "cuMemAlloc_v2:2,cuLaunchKernel:1+");
    CHECK(cuMemAlloc_v2(&a, 64) == 0);
    CHECK(cuMemAlloc_v2(&a, 64) == OUT_OF_MEMORY);
    CHECK(cuMemAlloc_v2(&a, 64) == 0);
    CHECK(step() == 701);
    CHECK(step() == 701);
    setting("MPC_CUDASIM_FAIL", "any:3");
    int major = 0, minor = 0;
    CHECK(nvrtcVersion(&major, &minor) == 0 && major == 13);
    CHECK(cuMemAlloc_v2(&a, 64) == 0);
    CHECK(nvrtcVersion(&major, &minor) != 0);
    setting("MPC_CUDASIM_FAIL", "cuStreamSynchronize:1");
    CHECK(cuStreamSynchronize(stream) == LAUNCH_FAILED);
    CHECK(step() == LAUNCH_FAILED);
    setting("MPC_CUDASIM_FAIL", NULL);
    close_device();
    setting("MPC_CUDASIM_NO_DEVICE", "1");
    CHECK(cuInit(0) == 100);
    setting("MPC_CUDASIM_NO_DEVICE", NULL);
}

static void the_trace_names_calls_and_kernels(void) {
    char name[] = "/tmp/cudasim-trace-XXXXXX", traced[512] = "";
    const int file = mkstemp(name);
    begin();
    setting("MPC_CUDASIM_TRACE", name);
    CHECK(step() == 0 && cuStreamSynchronize(stream) == 0);
    setting("MPC_CUDASIM_TRACE", NULL);
    CHECK(read(file, traced, sizeof traced - 1) > 0);
    CHECK_STR(traced, "cuMemcpyHtoDAsync_v2\ncuLaunchKernel k_double\ncuMemcpyDtoHAsync_v2\ncuStreamSynchronize\n");
    close(file);
    unlink(name);
    end();
}

static int compile(const char *source, const char *option, char log[4096]) {
    const char *const options[] = {"--gpu-architecture=sm_90", option}, *const header = "",
                      *const name = "mpc_device.h";
    void *program = NULL;
    CHECK(nvrtcCreateProgram(&program, source, NULL, 1, &header, &name) == 0);
    const int result = nvrtcCompileProgram(program, 2, options);
    size_t bytes = 0;
    log[0] = 0;
    if (nvrtcGetProgramLogSize(program, &bytes) == 0 && bytes <= 4096) nvrtcGetProgramLog(program, log);
    CHECK(nvrtcDestroyProgram(&program) == 0);
    return result;
}

static void texts_and_options_that_are_wrong_are_told(void) {
    char log[4096];
    CHECK(compile("int a;", "--fma=false", log) == 5 && strstr(log, "unrecognized option --fma=false"));
    CHECK(compile("int a;", "--gpu-architecture=sm_35", log) == 5);
    CHECK(compile("#include \"mpc_device.h\"\nint a = no_such_name;\n", "-fmad=false", log) == 6 &&
          strstr(log, "no_such_name"));
    setting("MPC_CUDASIM_ARCH", "80");
    open_device();
    CHECK(cuModuleLoadData(&module, image) == 209); /* made for 9.0 */
    CHECK(cuModuleLoadData(&module, "\177ELF 64 bytes of another kind of image, and more of them......") == 200);
    close_device();
    setting("MPC_CUDASIM_ARCH", NULL);
}

static void the_product_finds_its_functions(void) {
    static const char *const names[] = {
#define SYMBOL(name, optional, result, arguments) #name,
#include "runtime/cuda/cuda_symbols.def"
#include "runtime/cuda/nvrtc_symbols.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECK_MSG(dlsym(RTLD_DEFAULT, names[i]), "%s", names[i]);
}

int main(void) {
    image = image_of(text);
    if (!image) return check_result();
    results_are_not_there_before_the_host_waits();
    other_streams_do_not_wait();
    graphs_replay_with_changed_inputs();
    captures_refuse_to_wait();
    wrong_ranges_and_handles_are_refused();
    memory_has_an_end();
    calls_fail_where_asked();
    the_trace_names_calls_and_kernels();
    texts_and_options_that_are_wrong_are_told();
    the_product_finds_its_functions();
    free(image);
    return check_result();
}
