/* Kernels by content and launches by instance. A kernel's name is the hash of its body, so equal bodies are one kernel
 * and the text of a program depends on nothing but the graph. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "codegen/cg.h"

bool mpc_cg_ok(const mpc_cg *cg) { return cg->status == MPC_OK; }

void mpc_cg_no_memory(mpc_cg *cg) {
    if (cg->status == MPC_OK)
        cg->status = mpc_error(mpc_context_sink(cg->g->ctx), "E901", "out of memory in code generation");
}

void mpc_cg_fail(mpc_cg *cg, const char *format, ...) {
    if (cg->status != MPC_OK) return;
    mpc_str text = {0};
    va_list args;
    va_start(args, format);
    mpc_str_vprintf(&text, format, args);
    va_end(args);
    cg->status = mpc_error(mpc_context_sink(cg->g->ctx), "E610", "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

uint32_t mpc_cg_add_pointer(mpc_cg_args *a, mpc_pointer p) {
    if (!mpc_array_push(&a->pointers, p)) a->failed = true;
    return (uint32_t)a->pointers.count - 1;
}

uint32_t mpc_cg_add_int(mpc_cg_args *a, int64_t i) {
    if (!mpc_array_push(&a->ints, i)) a->failed = true;
    return (uint32_t)a->ints.count - 1;
}

uint32_t mpc_cg_add_float(mpc_cg_args *a, float f) {
    if (!mpc_array_push(&a->floats, f)) a->failed = true;
    return (uint32_t)a->floats.count - 1;
}

void mpc_cg_free_args(mpc_cg_args *a) {
    mpc_array_free(&a->pointers);
    mpc_array_free(&a->ints);
    mpc_array_free(&a->floats);
}

static const char *kernel_text(mpc_cg *cg, const char *name, const char *body) {
    return mpc_arena_printf(
        cg->arena,
        "void %s(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
        "    (void)p, (void)n, (void)f, (void)scratch;\n%s}\n",
        name, body);
}

static uint32_t at_least_one(uint32_t n) { return n > 0 ? n : 1; }

static const char *cuda_text(mpc_cg *cg, const mpc_kernel *k) {
    return mpc_arena_printf(cg->arena, "MPC_%s(%s, %u, %u, %u, %u) {\n    MPC_ENTER%s\n%s}\n",
                            k->segmented ? "SEGMENTED" : "KERNEL", k->name, k->threads, at_least_one(k->pointer_count),
                            at_least_one(k->int_count), at_least_one(k->float_count), k->segmented ? "_SEGMENT" : "",
                            k->text);
}

/* Adds `k` under the name of its body, if there is none yet. */
static uint32_t add_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, mpc_kernel k) {
    if (!mpc_cg_ok(cg)) return 0;
    char name[32];
    uint32_t id;
    snprintf(name, sizeof name, "k_%016llx", (unsigned long long)mpc_hash_str(body));
    if (mpc_map_get(cg->kernel_ids, name, &id)) {
        mpc_kernel *old = &cg->kernels.data[id];
        if (k.scratch_bytes > old->scratch_bytes) old->scratch_bytes = k.scratch_bytes;
        return id;
    }
    id = (uint32_t)cg->kernels.count;
    k.name = mpc_arena_strdup(cg->arena, name);
    k.pointer_count = (uint32_t)args->pointers.count;
    k.int_count = (uint32_t)args->ints.count;
    k.float_count = (uint32_t)args->floats.count;
    if (k.name != NULL)
        k.text = cg->target == MPC_TARGET_C ? kernel_text(cg, k.name, body) : mpc_arena_strdup(cg->arena, body);
    if (k.text == NULL || !mpc_map_set(cg->kernel_ids, name, id) || !mpc_array_push(&cg->kernels, k))
        mpc_cg_no_memory(cg);
    return id;
}

uint32_t mpc_cg_add_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, uint64_t scratch_bytes) {
    return add_kernel(cg, body, args, (mpc_kernel){.scratch_bytes = scratch_bytes});
}

uint32_t mpc_cg_add_cuda_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, const mpc_cg_cuda_shape *shape) {
    mpc_kernel k = {.threads = shape->threads,
                    .shared_bytes = shape->shared_bytes,
                    .tensor_cores = shape->tensor_cores,
                    .note = shape->note};
    mpc_str text = {0}; /* the shape is part of what the kernel is, and so is the layout of its arguments */
    mpc_str_printf(&text, "    /* %u threads, %u bytes of shared memory; %zu pointers, %zu integers, %zu floats */\n%s",
                   shape->threads, shape->shared_bytes, args->pointers.count, args->ints.count, args->floats.count, body);
    if (text.failed) mpc_cg_no_memory(cg);
    uint32_t id = add_kernel(cg, mpc_str_cstr(&text), args, k);
    mpc_str_free(&text);
    return id;
}

/* Whether a kernel takes one instance or a table of them is known only now. */
void mpc_cg_finish_kernels(mpc_cg *cg) {
    if (cg->target == MPC_TARGET_C) return;
    for (size_t i = 0; i < cg->launches.count; i++)
        if (cg->launches.data[i].instance_count > 1) cg->kernels.data[cg->launches.data[i].kernel].segmented = true;
    for (size_t i = 0; i < cg->kernels.count && mpc_cg_ok(cg); i++) {
        mpc_kernel *k = &cg->kernels.data[i];
        if (k->segmented) k->name = mpc_arena_printf(cg->arena, "%ss", k->name); /* programs compiled together may have both */
        if (k->name != NULL) k->text = cuda_text(cg, k);
        if (k->name == NULL || k->text == NULL) mpc_cg_no_memory(cg);
    }
}

void mpc_cg_add_result(mpc_cg *cg, mpc_launch *launch, mpc_value_id result) {
    uint32_t buffer = cg->buffer_of[mpc_cg_owner(cg, result)];
    uint32_t *grown = mpc_arena_alloc(cg->arena, (launch->result_count + 1) * sizeof *grown);
    if (grown == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    if (launch->result_count > 0) memcpy(grown, launch->results, launch->result_count * sizeof *grown);
    grown[launch->result_count++] = buffer;
    launch->results = grown;
}

mpc_launch *mpc_cg_new_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, mpc_launch_kind kind) {
    if (!mpc_cg_ok(cg)) return NULL;
    mpc_launch launch = {.kind = kind, .loc = n->loc, .op = mpc_op_get(cg->g->ctx, n->op)->name};
    launch.name = mpc_arena_strdup(cg->arena, mpc_value_name(cg->g, result));
    if (launch.name == NULL || !mpc_array_push(&cg->launches, launch)) {
        mpc_cg_no_memory(cg);
        return NULL;
    }
    mpc_launch *added = &cg->launches.data[cg->launches.count - 1];
    mpc_cg_add_result(cg, added, result);
    return mpc_cg_ok(cg) ? added : NULL;
}

static void *copy_array(mpc_cg *cg, const void *data, size_t bytes) {
    void *copy = mpc_arena_alloc(cg->arena, bytes + 1);
    if (copy == NULL) mpc_cg_no_memory(cg);
    else if (bytes > 0) memcpy(copy, data, bytes);
    return copy;
}

void mpc_cg_add_instance(mpc_cg *cg, mpc_launch *launch, mpc_cg_args *args) {
    if (args->failed) mpc_cg_no_memory(cg);
    if (launch != NULL && mpc_cg_ok(cg)) {
        mpc_kernel_instance *grown = mpc_arena_alloc(cg->arena, (launch->instance_count + 1) * sizeof *grown);
        if (grown == NULL) mpc_cg_no_memory(cg);
        else {
            if (launch->instance_count > 0) memcpy(grown, launch->instances, launch->instance_count * sizeof *grown);
            grown[launch->instance_count++] = (mpc_kernel_instance){
                copy_array(cg, args->pointers.data, args->pointers.count * sizeof *args->pointers.data),
                copy_array(cg, args->ints.data, args->ints.count * sizeof *args->ints.data),
                copy_array(cg, args->floats.data, args->floats.count * sizeof *args->floats.data), args->units,
                args->blocks > 0 ? args->blocks : 1};
            launch->instances = grown;
        }
    }
    mpc_cg_free_args(args);
}

mpc_launch *mpc_cg_add_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, uint32_t kernel, mpc_cg_args *args) {
    mpc_launch *launch = mpc_cg_new_launch(cg, n, result, MPC_LAUNCH_KERNEL);
    if (launch != NULL) launch->kernel = kernel;
    mpc_cg_add_instance(cg, launch, args);
    return mpc_cg_ok(cg) ? launch : NULL;
}
