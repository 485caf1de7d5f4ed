/* The stand-in's state: what the environment asks for, counting and failing of calls, the sticky error, and the table
 * of handles. One recursive lock guards all of libcuda; it is not held by the look-alikes of NVRTC and cuBLASLt. A
 * newcomer's trap: "any:N" counts the calls of all three libraries, but not those that only name an error. */
#include "internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct sim_fault {
    char name[64];
    int64_t at, seen;
    bool onwards;
} sim_fault;
typedef struct sim_object {
    struct sim_object *next, *previous;
    sim_kind kind;
    _Alignas(16) char data[];
} sim_object;
enum { MAX_FAULTS = 16 };
static struct {
    bool loaded;
    sim_config config;
    char fault_text[512];
    sim_fault faults[MAX_FAULTS];
    int fault_count, trace;
    char trace_name[512];
    bool initialised, retained;
    int sticky, retains;
    sim_object *first, *last;
} sim = {.trace = -1};
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Thread_local void *current_context;

/* ---- configuration ---- */
static int64_t number_of(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

/* "cuMemAlloc_v2:3,any:17,nvrtcCompileProgram:1+" */
static void read_faults(const char *text) {
    if (strcmp(text, sim.fault_text) == 0) return;
    snprintf(sim.fault_text, sizeof sim.fault_text, "%s", text);
    sim.fault_count = 0;
    while (*text && sim.fault_count < MAX_FAULTS) {
        sim_fault *f = &sim.faults[sim.fault_count];
        char plus = 0;
        long long at = 0;
        if (sscanf(text, "%63[^:,]:%lld%c", f->name, &at, &plus) >= 2) {
            f->at = at, f->seen = 0, f->onwards = plus == '+';
            sim.fault_count++;
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

static void open_trace(const char *name) {
    if (strcmp(name, sim.trace_name) == 0) return;
    snprintf(sim.trace_name, sizeof sim.trace_name, "%s", name);
    if (sim.trace >= 0) close(sim.trace);
    sim.trace = *name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
}

static void load(void) {
    const char *faults = getenv("MPC_CUDASIM_FAIL"), *trace = getenv("MPC_CUDASIM_TRACE");
    sim.loaded = true;
    sim.config.verbose = number_of("MPC_CUDASIM_VERBOSE", 0) != 0;
    sim.config.no_device = number_of("MPC_CUDASIM_NO_DEVICE", 0) != 0;
    sim.config.arch = (int)number_of("MPC_CUDASIM_ARCH", 90);
    sim.config.processors = (int)number_of("MPC_CUDASIM_PROCESSORS", 132);
    sim.config.memory = (uint64_t)number_of("MPC_CUDASIM_MEMORY", (int64_t)2 << 30);
    sim.config.twice = number_of("MPC_CUDASIM_ONCE", 0) != 0 ? 0 : number_of("MPC_CUDASIM_TWICE", 4);
    read_faults(faults ? faults : "");
    open_trace(trace ? trace : "");
}

const sim_config *sim_configuration(void) {
    if (!sim.loaded) load();
    return &sim.config;
}

/* ---- calls ---- */
void sim_trace(const char *name, const char *detail) {
    char line[256];
    if (sim.trace < 0) return;
    int length = snprintf(line, sizeof line, *detail ? "%s %s\n" : "%s%s\n", name, detail);
    if (length >= (int)sizeof line) length = (int)sizeof line - 1;
    if (write(sim.trace, line, (size_t)length) < 0) sim.trace = -1;
}

static bool count_call(const char *name, bool trace) {
    bool fails = false;
    if (!sim.loaded) load();
    if (trace) sim_trace(name, "");
    for (int i = 0; i < sim.fault_count; i++) {
        sim_fault *f = &sim.faults[i];
        if (strcmp(f->name, "any") != 0 && strcmp(f->name, name) != 0) continue;
        f->seen++;
        if (f->seen == f->at || (f->onwards && f->seen > f->at)) fails = true;
    }
    if (fails) cudasim_say("%s fails as MPC_CUDASIM_FAIL asks", name);
    return fails;
}

bool cudasim_call(const char *name) {
    pthread_mutex_lock(&lock);
    const bool fails = count_call(name, true);
    pthread_mutex_unlock(&lock);
    return fails;
}

void cudasim_say(const char *format, ...) {
    va_list list;
    if (!sim_configuration()->verbose) return;
    va_start(list, format);
    fputs("cudasim: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

int sim_error(int result, const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cudasim_say("%s", text);
    return result;
}

/* What the function could really return. */
static int plausible_error(const char *name) {
    static const struct {
        const char *part;
        int result;
    } rows[] = {
        {"cuInit", SIM_NO_DEVICE},
        {"Alloc", CUDASIM_OUT_OF_MEMORY},
        {"PrimaryCtxRetain", CUDASIM_OUT_OF_MEMORY},
        {"Instantiate", CUDASIM_OUT_OF_MEMORY},
        {"ModuleLoad", SIM_NO_BINARY},
        {"GetFunction", SIM_NOT_FOUND},
        {"ExecUpdate", SIM_UPDATE_FAILURE},
        {"LaunchKernel", SIM_OUT_OF_RESOURCES},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(name, rows[i].part)) return rows[i].result;
    if (strstr(name, "Synchronize") || strstr(name, "Query") || strstr(name, "Memcpy"))
        return sim_fail(CUDASIM_LAUNCH_FAILED); /* an error of earlier work comes to light there */
    return SIM_UNKNOWN;
}

int sim_enter(const char *name, int needs) {
    pthread_mutex_lock(&lock);
    if (count_call(name, !(needs & SIM_TRACED_LATER))) return plausible_error(name);
    if ((needs & SIM_INITIALIZED) && !sim.initialised) return sim_error(SIM_NOT_INITIALIZED, "%s before cuInit", name);
    if ((needs & SIM_CONTEXT) != SIM_CONTEXT) return CUDASIM_SUCCESS;
    if (!sim_context_is_current()) return sim_error(SIM_INVALID_CONTEXT, "%s without a current context", name);
    if (sim.sticky) return sim.sticky;
    if ((needs & SIM_SYNCHRONISES) == SIM_SYNCHRONISES) return sim_check_captures();
    return CUDASIM_SUCCESS;
}

int sim_leave(const char *name, int result) {
    if (result != CUDASIM_SUCCESS && result != SIM_NOT_READY) cudasim_say("%s returns %d", name, result);
    pthread_mutex_unlock(&lock);
    return result;
}

int sim_fail(int result) {
    if (!sim.sticky) sim.sticky = result;
    return result;
}

int sim_sticky(void) { return sim.sticky; }

int cudasim_enqueue(void *handle, int (*run)(void *data), const void *data, size_t size, const char *name) {
    pthread_mutex_lock(&lock);
    sim_stream *stream = sim_stream_of(handle);
    int result = sim.sticky ? sim.sticky : stream ? CUDASIM_SUCCESS : CUDASIM_INVALID_HANDLE;
    if (result == CUDASIM_SUCCESS) {
        sim_op *op = sim_op_new(SIM_OP_CLOSURE, name, data, size);
        if (op) op->run = run;
        result = op ? sim_put(stream, op) : CUDASIM_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

bool cudasim_is_capturing(void *handle) {
    pthread_mutex_lock(&lock);
    const sim_stream *stream = sim_stream_of(handle);
    const bool capturing = stream && stream->capture;
    pthread_mutex_unlock(&lock);
    return capturing;
}

/* ---- handles ---- */
void *sim_new(sim_kind kind, size_t size) {
    sim_object *o = calloc(1, sizeof *o + size);
    if (!o) return NULL;
    o->kind = kind;
    o->previous = sim.last;
    if (sim.last) sim.last->next = o;
    else sim.first = o;
    sim.last = o;
    return o->data;
}

void *sim_find(sim_kind kind, const void *handle) {
    for (sim_object *o = sim.first; o; o = o->next)
        if (o->data == (const char *)handle) return o->kind == kind ? o->data : NULL;
    return NULL;
}

void *sim_next(sim_kind kind, const void *after) {
    sim_object *o = after ? ((sim_object *)((uintptr_t)after - offsetof(sim_object, data)))->next : sim.first;
    while (o && o->kind != kind) o = o->next;
    return o ? o->data : NULL;
}

void sim_delete(void *object) {
    sim_object *o = (sim_object *)((char *)object - offsetof(sim_object, data));
    if (o->previous) o->previous->next = o->next;
    else sim.first = o->next;
    if (o->next) o->next->previous = o->previous;
    else sim.last = o->previous;
    free(o);
}

/* ---- the device's one context ---- */
bool sim_context_is_current(void) { return sim.retains > 0 && current_context == &sim; }

SIM_API(SIM_ANY, cuInit, (unsigned flags), (flags)) {
    load();
    if (flags) return CUDASIM_INVALID_VALUE;
    if (sim.config.no_device) return SIM_NO_DEVICE;
    sim.initialised = true;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDevicePrimaryCtxRetain, (void **context, int device), (context, device)) {
    if (device) return SIM_INVALID_DEVICE;
    sim.retains++;
    *context = &sim;
    return CUDASIM_SUCCESS;
}

/* The last release destroys all that the context holds, and with it the sticky error. */
SIM_API(SIM_INITIALIZED, cuDevicePrimaryCtxRelease_v2, (int device), (device)) {
    if (device) return SIM_INVALID_DEVICE;
    if (sim.retains == 0) return sim_error(SIM_INVALID_CONTEXT, "the context was not retained");
    if (--sim.retains > 0) return CUDASIM_SUCCESS;
    sim_drop_work();
    sim_release_memory();
    sim.sticky = CUDASIM_SUCCESS;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuCtxSetCurrent, (void *context), (context)) {
    if (context && (context != &sim || sim.retains == 0)) return SIM_INVALID_CONTEXT;
    current_context = context;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuCtxGetCurrent, (void **context), (context)) {
    *context = current_context;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuCtxGetDevice, (int *device), (device)) {
    if (!sim_context_is_current()) return SIM_INVALID_CONTEXT;
    *device = 0;
    return CUDASIM_SUCCESS;
}

/* Reads the environment again, as cuInit does: for tests. */
CUDASIM_EXPORT void cudasim_reload(void);
void cudasim_reload(void) {
    pthread_mutex_lock(&lock);
    load();
    pthread_mutex_unlock(&lock);
}
