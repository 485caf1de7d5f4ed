/* oneDNN for one thread at a time: opening, primitives, calls. Scratch memory is ours (user mode) and so are all
 * tensors; memory objects are made when a call is bound, since making them allocates. OpenMP inside the library is kept
 * to the calling thread by mpc_dnn_enter, in every thread that makes or runs primitives: a library that splits work
 * itself gives bits that depend on the number of threads. */
#include "runtime/cpu/onednn.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "runtime/cpu/onednn_api.h"

typedef struct library_version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} library_version;

enum { RUNTIME_TBB = 4 };

typedef struct call_argument {
    int arg;
    void *memory;
} call_argument;

struct mpc_dnn_op {
    mpc_dnn *dnn;
    void *pd, *primitive;
    int args[MPC_DNN_TENSORS]; /* 0: absent */
    const void *mds[MPC_DNN_TENSORS];
    const void *scratch_md;
    const char *implementation;
    uint64_t scratch_bytes;
    void **scratch, **results; /* memory objects by thread; NULL: none, the result goes where it is bound to */
};

enum { MAX_ARGUMENTS = MPC_DNN_TENSORS + 1 };

struct mpc_dnn_call {
    const mpc_dnn_op *op;
    int count; /* without scratch */
    call_argument arguments[MAX_ARGUMENTS];
};

/* ---- opening ---- */

static mpc_dl *open_library(mpc_dnn_api *api, char *reason, size_t reason_size) {
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", NULL};
    static const mpc_dl_symbol symbols[] = {
#define SYMBOL(name, optional, result, arguments) {#name, offsetof(mpc_dnn_api, name), optional},
#include "runtime/cpu/onednn_symbols.def"
#undef SYMBOL
    };
    return mpc_dl_open(names, symbols, sizeof symbols / sizeof symbols[0], api, reason, reason_size);
}

static const mpc_dnn_variant *choose_variant(const mpc_dnn *dnn) {
    if (dnn->version[0] == 2 && dnn->api.dnnl_primitive_desc_create && dnn->api.dnnl_matmul_desc_init)
        return mpc_dnn_v2();
    if (dnn->version[0] == 3 && dnn->api.dnnl_matmul_primitive_desc_create &&
        dnn->api.dnnl_memory_desc_create_with_strides)
        return &mpc_dnn_v3;
    return NULL;
}

static void find_openmp(mpc_dnn *dnn) {
    void *set = mpc_dl_symbol_address(dnn->dl, "omp_set_num_threads"),
         *get = mpc_dl_symbol_address(dnn->dl, "omp_get_max_threads");
    if (!set || !get) return;
    memcpy(&dnn->omp_set, &set, sizeof set);
    memcpy(&dnn->omp_get, &get, sizeof get);
}

static bool set_up(mpc_dnn *dnn, char *reason, size_t reason_size) {
    dnn->arena = mpc_arena_create();
    dnn->dl = dnn->arena ? open_library(&dnn->api, reason, reason_size) : NULL;
    if (!dnn->dl) return false;
    const library_version *version = dnn->api.dnnl_version();
    dnn->version[0] = version->major;
    dnn->version[1] = version->minor;
    dnn->version[2] = version->patch;
    dnn->variant = version->cpu_runtime == RUNTIME_TBB ? NULL : choose_variant(dnn);
    if (!dnn->variant) {
        if (reason)
            snprintf(reason, reason_size, "version %d.%d of %s can't be used", version->major, version->minor,
                     mpc_dl_path(dnn->dl));
        return false;
    }
    find_openmp(dnn);
    return dnn->api.dnnl_engine_create(&dnn->engine, MPC_DNNL_CPU, 0) == 0;
}

mpc_dnn *mpc_dnn_open(char *reason, size_t reason_size) {
    if (reason && reason_size > 0) reason[0] = 0;
    mpc_dnn *dnn = mpc_alloc(sizeof *dnn);
    if (!dnn) return NULL;
    memset(dnn, 0, sizeof *dnn);
    if (set_up(dnn, reason, reason_size)) return dnn;
    mpc_dnn_close(dnn);
    return NULL;
}

static void destroy_object(const mpc_dnn *dnn, mpc_dnn_object_kind kind, void *handle) {
    if (kind == MPC_DNN_OBJECT_MD) dnn->api.dnnl_memory_desc_destroy(handle);
    else if (kind == MPC_DNN_OBJECT_PD) dnn->api.dnnl_primitive_desc_destroy(handle);
    else if (kind == MPC_DNN_OBJECT_PRIMITIVE) dnn->api.dnnl_primitive_destroy(handle);
    else dnn->api.dnnl_memory_destroy(handle);
}

void mpc_dnn_close(mpc_dnn *dnn) {
    if (!dnn) return;
    for (size_t i = dnn->objects.count; i > 0; i--)
        destroy_object(dnn, dnn->objects.data[i - 1].kind, dnn->objects.data[i - 1].handle);
    mpc_array_free(&dnn->objects);
    for (unsigned i = 0; i < dnn->stream_count; i++) dnn->api.dnnl_stream_destroy(dnn->streams[i]);
    if (dnn->engine) dnn->api.dnnl_engine_destroy(dnn->engine);
    if (dnn->dl) mpc_dl_close(dnn->dl);
    mpc_arena_destroy(dnn->arena);
    mpc_free(dnn);
}

void mpc_dnn_version(const mpc_dnn *dnn, mpc_str *out) {
    mpc_str_printf(out, "%d.%d.%d (%s)", dnn->version[0], dnn->version[1], dnn->version[2], mpc_dl_path(dnn->dl));
}

bool mpc_dnn_make_streams(mpc_dnn *dnn, unsigned threads) {
    if (!dnn) return true;
    dnn->streams = mpc_arena_alloc(dnn->arena, threads * sizeof *dnn->streams);
    if (!dnn->streams) return false;
    for (; dnn->stream_count < threads; dnn->stream_count++)
        if (dnn->api.dnnl_stream_create(&dnn->streams[dnn->stream_count], dnn->engine, MPC_DNNL_STREAM_IN_ORDER) != 0)
            return false;
    return true;
}

int mpc_dnn_enter(mpc_dnn *dnn) {
    if (!dnn || !dnn->omp_set) return 0;
    int before = dnn->omp_get();
    if (before != 1) dnn->omp_set(1);
    return before;
}

void mpc_dnn_leave(mpc_dnn *dnn, int before) {
    if (before > 1) dnn->omp_set(before);
}

void *mpc_dnn_keep(mpc_dnn *dnn, mpc_dnn_object_kind kind, void *handle) {
    if (mpc_array_push(&dnn->objects, ((mpc_dnn_object){.kind = kind, .handle = handle}))) return handle;
    destroy_object(dnn, kind, handle);
    return NULL;
}

int mpc_dnn_type(mpc_format format) {
    if (format == MPC_FMT_bf16) return MPC_DNNL_BF16;
    return format == MPC_FMT_f16 ? MPC_DNNL_F16 : MPC_DNNL_F32;
}

/* ---- primitives ---- */

static void *make_attributes(mpc_dnn *dnn) {
    void *attr = NULL;
    if (dnn->api.dnnl_primitive_attr_create(&attr) != 0) return NULL;
    if (dnn->api.dnnl_primitive_attr_set_scratchpad_mode(attr, MPC_DNNL_SCRATCHPAD_USER) == 0) return attr;
    dnn->api.dnnl_primitive_attr_destroy(attr);
    return NULL;
}

static void set_arguments(mpc_dnn_op *op, const mpc_dnn_desc *desc) {
    static const int args[][MPC_DNN_TENSORS] = {
        [MPC_DNN_MATMUL] = {MPC_DNNL_ARG_SRC, MPC_DNNL_ARG_WEIGHTS, MPC_DNNL_ARG_BIAS, MPC_DNNL_ARG_DST},
        [MPC_DNN_CONV] = {MPC_DNNL_ARG_SRC, MPC_DNNL_ARG_WEIGHTS, MPC_DNNL_ARG_BIAS, MPC_DNNL_ARG_DST},
        [MPC_DNN_CONV_GRAD_INPUT] = {MPC_DNNL_ARG_DIFF_SRC, MPC_DNNL_ARG_WEIGHTS, 0, MPC_DNNL_ARG_DIFF_DST},
        [MPC_DNN_CONV_GRAD_WEIGHT] = {MPC_DNNL_ARG_SRC, MPC_DNNL_ARG_DIFF_WEIGHTS, 0, MPC_DNNL_ARG_DIFF_DST},
    };
    for (int i = 0; i < MPC_DNN_TENSORS; i++)
        if (desc->tensors[i].rank > 0) op->args[i] = args[desc->kind][i];
}

/* Takes the primitive descriptor. */
static mpc_dnn_op *finish_op(mpc_dnn *dnn, mpc_dnn_op *op, void *pd) {
    const mpc_dnn_api *api = &dnn->api;
    op->dnn = dnn;
    op->pd = mpc_dnn_keep(dnn, MPC_DNN_OBJECT_PD, pd);
    void *primitive = NULL;
    if (!op->pd || api->dnnl_primitive_create(&primitive, op->pd) != 0) return NULL;
    op->primitive = mpc_dnn_keep(dnn, MPC_DNN_OBJECT_PRIMITIVE, primitive);
    if (!op->primitive) return NULL;
    for (int i = 0; i < MPC_DNN_TENSORS; i++)
        if (op->args[i]) op->mds[i] = api->dnnl_primitive_desc_query_md(op->pd, MPC_DNNL_QUERY_ARGUMENT, op->args[i]);
    op->scratch_md = api->dnnl_primitive_desc_query_md(op->pd, MPC_DNNL_QUERY_SCRATCHPAD, 0);
    op->scratch_bytes = op->scratch_md ? api->dnnl_memory_desc_get_size(op->scratch_md) : 0;
    const char *name = NULL;
    if (api->dnnl_primitive_desc_query(op->pd, MPC_DNNL_QUERY_IMPLEMENTATION, 0, (void *)&name) != 0) name = NULL;
    op->implementation = mpc_arena_strdup(dnn->arena, name ? name : "unknown");
    return op->implementation ? op : NULL;
}

mpc_dnn_op *mpc_dnn_create(mpc_dnn *dnn, const mpc_dnn_desc *desc) {
    void *mds[MPC_DNN_TENSORS] = {NULL};
    for (int i = 0; i < MPC_DNN_TENSORS; i++) {
        if (desc->tensors[i].rank == 0) continue;
        mds[i] = dnn->variant->make_md(dnn, &desc->tensors[i]);
        if (!mds[i]) return NULL;
    }
    mpc_dnn_op *op = mpc_arena_alloc(dnn->arena, sizeof *op);
    void *attr = op ? make_attributes(dnn) : NULL;
    if (!attr) return NULL;
    void *pd = NULL;
    int status = dnn->variant->make_pd(dnn, desc, mds, attr, &pd);
    dnn->api.dnnl_primitive_attr_destroy(attr);
    if (status != 0) return NULL;
    set_arguments(op, desc);
    return finish_op(dnn, op, pd);
}

static mpc_dnn_op *create_reorder(mpc_dnn *dnn, const void *from, const void *to) {
    mpc_dnn_op *op = mpc_arena_alloc(dnn->arena, sizeof *op);
    void *attr = op && from && to ? make_attributes(dnn) : NULL;
    if (!attr) return NULL;
    void *pd = NULL;
    int status = dnn->api.dnnl_reorder_primitive_desc_create(&pd, from, dnn->engine, to, dnn->engine, attr);
    dnn->api.dnnl_primitive_attr_destroy(attr);
    if (status != 0) return NULL;
    op->args[MPC_DNN_SRC] = MPC_DNNL_ARG_SRC;
    op->args[MPC_DNN_DST] = MPC_DNNL_ARG_DST;
    return finish_op(dnn, op, pd);
}

mpc_dnn_op *mpc_dnn_create_reorder_to(mpc_dnn *dnn, const mpc_dnn_tensor *plain, const mpc_dnn_op *op, int which) {
    return create_reorder(dnn, dnn->variant->make_md(dnn, plain), op->mds[which]);
}

mpc_dnn_op *mpc_dnn_create_reorder_from(mpc_dnn *dnn, const mpc_dnn_op *op, int which, const mpc_dnn_tensor *plain) {
    return create_reorder(dnn, op->mds[which], dnn->variant->make_md(dnn, plain));
}

const char *mpc_dnn_implementation(const mpc_dnn_op *op) { return op->implementation; }
uint64_t mpc_dnn_scratch(const mpc_dnn_op *op) { return op->scratch_bytes; }
uint64_t mpc_dnn_bytes(const mpc_dnn_op *op, int which) {
    return op->dnn->api.dnnl_memory_desc_get_size(op->mds[which]);
}

/* ---- calls ---- */

static void *make_memory(mpc_dnn *dnn, const void *md, void *data) {
    void *memory = NULL;
    if (dnn->api.dnnl_memory_create(&memory, md, dnn->engine, data) != 0) return NULL;
    return mpc_dnn_keep(dnn, MPC_DNN_OBJECT_MEMORY, memory);
}

static void **place(mpc_dnn_op *op, const void *md, uint8_t *data, uint64_t stride, unsigned threads) {
    void **places = mpc_arena_alloc(op->dnn->arena, threads * sizeof *places);
    for (unsigned i = 0; places && i < threads; i++) {
        places[i] = make_memory(op->dnn, md, data + i * stride);
        if (!places[i]) return NULL;
    }
    return places;
}

bool mpc_dnn_place_scratch(mpc_dnn_op *op, uint8_t *scratch, uint64_t stride, unsigned threads) {
    if (op->scratch_bytes == 0) return true;
    op->scratch = place(op, op->scratch_md, scratch, stride, threads);
    return op->scratch != NULL;
}

bool mpc_dnn_place_result(mpc_dnn_op *op, uint8_t *memory, uint64_t stride, unsigned threads) {
    op->results = place(op, op->mds[MPC_DNN_DST], memory, stride, threads);
    return op->results != NULL;
}

mpc_dnn_call *mpc_dnn_bind(mpc_dnn_op *op, void *const data[MPC_DNN_TENSORS]) {
    mpc_dnn_call *call = mpc_arena_alloc(op->dnn->arena, sizeof *call);
    if (!call) return NULL;
    call->op = op;
    for (int i = 0; i < MPC_DNN_TENSORS; i++) {
        if (!op->args[i]) continue;
        void *memory = make_memory(op->dnn, op->mds[i], data[i]);
        if (!memory) return NULL;
        call->arguments[call->count++] = (call_argument){.arg = op->args[i], .memory = memory};
    }
    return call;
}

void mpc_dnn_run(const mpc_dnn_call *call, unsigned thread) {
    const mpc_dnn_op *op = call->op;
    call_argument arguments[MAX_ARGUMENTS];
    int count = call->count;
    memcpy(arguments, call->arguments, (size_t)count * sizeof *arguments);
    for (int i = 0; op->results && i < count; i++)
        if (arguments[i].arg == op->args[MPC_DNN_DST]) arguments[i].memory = op->results[thread];
    if (op->scratch)
        arguments[count++] = (call_argument){.arg = MPC_DNNL_ARG_SCRATCHPAD, .memory = op->scratch[thread]};
    op->dnn->api.dnnl_primitive_execute(op->primitive, op->dnn->streams[thread], count, arguments);
}
