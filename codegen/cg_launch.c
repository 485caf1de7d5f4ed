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

uint32_t mpc_cg_add_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, uint64_t scratch_bytes) {
    if (!mpc_cg_ok(cg)) return 0;
    char name[32];
    uint32_t id;
    snprintf(name, sizeof name, "k_%016llx", (unsigned long long)mpc_hash_str(body));
    if (mpc_map_get(cg->kernel_ids, name, &id)) {
        mpc_kernel *k = &cg->kernels.data[id];
        if (scratch_bytes > k->scratch_bytes) k->scratch_bytes = scratch_bytes;
        return id;
    }
    id = (uint32_t)cg->kernels.count;
    mpc_kernel k = {.name = mpc_arena_strdup(cg->arena, name), .scratch_bytes = scratch_bytes};
    k.text = k.name != NULL ? kernel_text(cg, k.name, body) : NULL;
    k.pointer_count = (uint32_t)args->pointers.count;
    k.int_count = (uint32_t)args->ints.count;
    k.float_count = (uint32_t)args->floats.count;
    if (k.text == NULL || !mpc_map_set(cg->kernel_ids, name, id) || !mpc_array_push(&cg->kernels, k))
        mpc_cg_no_memory(cg);
    return id;
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
                copy_array(cg, args->floats.data, args->floats.count * sizeof *args->floats.data), args->units};
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
