/* Inside of the stand-in's libcuda.so.1. Everything below is called with the lock held (SIM_API takes it). All objects
 * behind handles are in one table, so that a wrong or dead handle is found without looking into it. */
#ifndef MPC_TESTS_CUDASIM_INTERNAL_H
#define MPC_TESTS_CUDASIM_INTERNAL_H

#include "machine.h"
#include "sim.h"

enum { /* CUresult, beyond sim.h */
       SIM_NOT_INITIALIZED = 3,
       SIM_NO_DEVICE = 100,
       SIM_INVALID_DEVICE = 101,
       SIM_INVALID_IMAGE = 200,
       SIM_INVALID_CONTEXT = 201,
       SIM_NO_BINARY = 209,
       SIM_INVALID_PTX = 218,
       SIM_ILLEGAL_STATE = 401,
       SIM_NOT_FOUND = 500,
       SIM_NOT_READY = 600,
       SIM_OUT_OF_RESOURCES = 701,
       SIM_MISALIGNED = 716,
       SIM_CAPTURE_UNSUPPORTED = 900,
       SIM_CAPTURE_INVALIDATED = 901,
       SIM_CAPTURE_MERGE = 902,
       SIM_CAPTURE_UNMATCHED = 903,
       SIM_CAPTURE_IMPLICIT = 906,
       SIM_CAPTURED_EVENT = 907,
       SIM_UPDATE_FAILURE = 910,
       SIM_UNKNOWN = 999
};

/* ---- sim_state.c: configuration, calls, handles ---- */
typedef struct sim_config {
    bool verbose, no_device;
    int arch, processors;
    uint64_t memory; /* bytes */
    int64_t twice;   /* replays of a graph's node that are run in two orders; 0: nothing is; negative: all */
} sim_config;
const sim_config *sim_configuration(void);

enum {
    SIM_ANY = 0,          /* may be called at any time */
    SIM_INITIALIZED = 1,  /* after cuInit */
    SIM_CONTEXT = 3,      /* with a current context that has no sticky error */
    SIM_SYNCHRONISES = 7, /* and not while a stream is captured in mode global or thread-local */
    SIM_TRACED_LATER = 8  /* the function calls sim_trace itself */
};
int sim_enter(const char *name, int needs);
int sim_leave(const char *name, int result);
void sim_trace(const char *name, const char *detail);
int sim_error(int result, const char *format, ...) __attribute__((format(printf, 2, 3))); /* says it, returns result */
int sim_fail(int result); /* makes it the context's sticky error; returns it */
int sim_sticky(void);
bool sim_context_is_current(void);
#define SIM_API(needs, name, parameters, arguments) \
    CUDASIM_EXPORT int name parameters; \
    static int name##_do parameters; \
    int name parameters { \
        int result_ = sim_enter(#name, needs); \
        if (result_ == CUDASIM_SUCCESS) result_ = name##_do arguments; \
        return sim_leave(#name, result_); \
    } \
    static int name##_do parameters

typedef enum sim_kind { SIM_STREAM = 1, SIM_EVENT, SIM_GRAPH, SIM_EXEC, SIM_MODULE, SIM_FUNCTION } sim_kind;
void *sim_new(sim_kind kind, size_t size); /* zeroed; NULL: no memory */
void *sim_find(sim_kind kind, const void *handle);
void *sim_next(sim_kind kind, const void *after); /* after NULL: the first; in order of creation */
void sim_delete(void *object);

/* ---- sim_memory.c ---- */
typedef struct sim_allocation {
    struct sim_allocation *next;
    char *raw, *host; /* raw: host between two guards */
    char *shadow;     /* NULL, or as many bytes: for the second order */
    size_t bytes;
    bool device, reached; /* reached: by the launch that runs */
} sim_allocation;
enum { SIM_GUARD = 256 };
#define SIM_TAG (1ull << 60)                       /* of device addresses */
char *sim_guarded_alloc(size_t bytes, char **raw); /* 0xff bytes, which are NaN in every format; 256-byte aligned */
void sim_guarded_free(char *raw, size_t bytes);
bool sim_guards_hold(const char *raw, size_t bytes);
sim_allocation *sim_allocations(void);
/* A device address, or an address in page-locked memory; NULL: not in one. One past the end is in it with `bytes` 0. */
sim_allocation *sim_allocation_at(uint64_t address, size_t bytes, char **host);
sim_allocation *sim_pinned_at(const void *host, size_t bytes);
void sim_release_memory(void);

/* ---- sim_stream.c ---- */
typedef enum sim_op_kind {
    SIM_OP_KERNEL,
    SIM_OP_COPY,
    SIM_OP_SET,
    SIM_OP_CLOSURE,
    SIM_OP_RECORD,
    SIM_OP_WAIT,
    SIM_OP_GRAPH
} sim_op_kind;
typedef struct sim_op {
    struct sim_op *next;
    const char *name;
    int (*run)(void *data);
    void (*drop)(void *data); /* may be NULL */
    uint64_t ticket;          /* order of all calls */
    char *written, *read;     /* host memory that it will touch later, for poisoning */
    size_t host_bytes;
    size_t size; /* of data */
    sim_op_kind kind;
    _Alignas(16) char data[];
} sim_op;
typedef struct sim_graph {
    sim_op *first, **last;
    uint32_t count, users; /* users: the handle, executables, launches under way */
    bool destroyed;        /* the handle is gone */
} sim_graph;
typedef struct sim_stream {
    sim_op *first, **last;
    uint32_t count, asked;
    bool blocking; /* waits for the legacy stream */
    sim_graph *capture;
    bool capture_origin, capture_invalid;
    int capture_mode;
} sim_stream;
sim_op *sim_op_new(sim_op_kind kind, const char *name, const void *data,
                   size_t size); /* run, drop, host memory: the caller's */
void sim_op_free(sim_op *op);
sim_stream *sim_stream_of(void *handle); /* NULL: wrong */
/* Takes `op` (also when it fails): into the stream's queue or its capture. */
int sim_put(sim_stream *stream, sim_op *op);
int sim_drain(sim_stream *stream); /* NULL: all */
void sim_poison(const sim_op *op);
void sim_drop_work(void);
int sim_check_captures(void); /* an error if a call that synchronises must fail; invalidates the captures */

/* ---- sim_graph.c ---- */
sim_graph *sim_graph_new(void);
void sim_graph_append(sim_graph *graph, sim_op *op);
void sim_graph_release(sim_graph *graph);

/* ---- sim_module.c, sim_launch.c, sim_block.c, sim_mma.c ---- */
typedef struct sim_image { /* the "cubin": this and the bytes of a shared library */
    char magic[16];
    uint32_t abi, arch;
    uint64_t bytes;
} sim_image;
#define SIM_MAGIC "mpc-cuda-standin"
typedef struct sim_module {
    void *library;
    int file;
} sim_module;
typedef struct sim_function {
    const cudasim_kernel *kernel;
    sim_module *module;
    char *name;
    uint32_t shared_limit;
} sim_function;
typedef struct sim_grid {
    const cudasim_kernel *kernel;
    void *const *params;
    uint32_t blocks, shared_bytes;
    bool descending; /* blocks and threads in this order */
} sim_grid;
/* Runs all threads. NULL or what went wrong (good until the next call); `result` is then the CUresult. */
const char *sim_run_grid(const sim_grid *grid, int *result);
cudasim_machine *sim_machine(void);
int sim_max_shared(void); /* dynamic shared bytes that a function may ask for */
/* For all lanes at once; `e` has one for each lane, NULL for lanes that take no part. NULL or what went wrong. */
const char *sim_exchange(cudasim_collective what, cudasim_exchange *const e[32]);
extern const char *const sim_collective_names[];

#endif
