/* Loading a CUDA program: where things lie, which code runs, with which arguments. A slot in pinned memory and two
 * areas on the device mirror each other: all inputs side by side, so that one copy brings a batch, and a staging area
 * into which a kernel gathers the control states before the step and the small outputs after it, so that one copy
 * fetches a record. With separate buffers nothing lies side by side, and each thing has its own copy. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/block.h"
#include "runtime/cuda/cuda_exec.h"
#include "runtime/store_layout.h"

enum {
    AHEAD = 32,
    SPARE_SLOTS = 2,
    PINNED_BUDGET = 256 << 20, /* bytes of all slots; steps with large batches run ahead less far */
    GATHER_LIMIT = 1 << 20,    /* larger outputs are copied by themselves */
    GATHER_THREADS = 128,
    PLAIN_SHARED = 48 << 10,
    ATTRIBUTE_MAX_SHARED = 8,
    EVENT_BLOCKING = 1,
    EVENT_NO_TIMING = 2,
    RESULT_NO_MEMORY = 2,
};

static uint64_t align256(uint64_t bytes) { return (bytes + 255) & ~(uint64_t)255; }

static void *table(mpc_cuda_exec *x, size_t count, size_t size) {
    return mpc_arena_alloc(x->arena, (count + 1) * size);
}

static const mpc_kernel gather_kernel = {
    .name = "k_gather",
    .text = "MPC_SEGMENTED(k_gather, 128, 2, 1, 1) {\n"
            "    const auto &a = table[mpc_block()];\n"
            "    const char *const from = (const char *)a.p[0];\n"
            "    char *const to = (char *)a.p[1];\n"
            "    const int64_t bytes = a.n[0], words = bytes / 4;\n"
            "    for (int64_t i = mpc_thread(); i < words; i += mpc_threads()) mpc_store4(to + 4 * i, mpc_load4(from + "
            "4 * i));\n"
            "    for (int64_t i = 4 * words + mpc_thread(); i < bytes; i += mpc_threads()) mpc_store1(to + i, "
            "mpc_load1(from + i));\n"
            "    (void)count, (void)when;\n"
            "}\n",
    .pointer_count = 2,
    .int_count = 1,
    .threads = GATHER_THREADS,
    .segmented = true,
};

/* ---- argument blocks ---- */

static uint64_t at_least_one(uint32_t n) { return n > 0 ? n : 1; }

static uint64_t block_bytes(const mpc_kernel *k) {
    uint64_t bytes =
        16 + 8 * at_least_one(k->pointer_count) + 8 * at_least_one(k->int_count) + 4 * at_least_one(k->float_count);
    return (bytes + 7) & ~(uint64_t)7;
}

static uint32_t blocks_of(const mpc_kernel_instance *i) { return i->blocks > 0 ? i->blocks : 1; }

static mpc_device_ptr resolve(const mpc_cuda_exec *x, mpc_pointer p) { return x->buffers[p.buffer] + p.byte_offset; }

static void write_block(const mpc_cuda_exec *x, const mpc_kernel *k, const mpc_kernel_instance *in, uint32_t first,
                        uint8_t *out) {
    const uint32_t blocks[] = {first, blocks_of(in)};
    memcpy(out, &in->units, 8);
    memcpy(out + 8, blocks, 8);
    uint8_t *p = out + 16, *n = p + 8 * at_least_one(k->pointer_count), *f = n + 8 * at_least_one(k->int_count);
    for (uint32_t i = 0; i < k->pointer_count; i++) {
        mpc_device_ptr address = resolve(x, in->pointers[i]);
        memcpy(p + 8 * (size_t)i, &address, 8);
    }
    if (k->int_count > 0) memcpy(n, in->ints, 8 * (size_t)k->int_count);
    if (k->float_count > 0) memcpy(f, in->floats, 4 * (size_t)k->float_count);
}

static bool has_kernel(const mpc_launch *l) {
    return (l->kind == MPC_LAUNCH_KERNEL || l->kind == MPC_LAUNCH_MATMUL) && l->instance_count > 0;
}

static uint64_t table_bytes(const mpc_program *p, const mpc_launch *l) {
    if (!has_kernel(l) || !p->kernels[l->kernel].segmented) return 0;
    return align256(block_bytes(&p->kernels[l->kernel]) * l->instance_count);
}

/* ---- the slot ---- */

static bool describe_ends(mpc_cuda_exec *x) {
    const mpc_program *p = x->program;
    mpc_type *types = table(x, p->input_count + p->output_count, sizeof *types);
    x->input_offset = table(x, p->input_count, sizeof *x->input_offset);
    x->output_offset = table(x, p->output_count, sizeof *x->output_offset);
    if (!types || !x->input_offset || !x->output_offset) return false;
    for (uint32_t i = 0; i < p->input_count; i++) types[i] = p->buffers[p->inputs[i].buffer].type;
    for (uint32_t i = 0; i < p->output_count; i++) types[p->input_count + i] = p->buffers[p->outputs[i].buffer].type;
    x->base.input_count = p->input_count;
    x->base.output_count = p->output_count;
    x->base.inputs = p->inputs;
    x->base.outputs = p->outputs;
    x->base.input_types = types;
    x->base.output_types = types + p->input_count;
    return true;
}

static uint64_t output_bytes(const mpc_program *p, uint32_t i) { return p->buffers[p->outputs[i].buffer].bytes; }

/* Inputs, control states, small outputs, large outputs. Returns the bytes of the inputs. */
static uint64_t lay_out_slot(mpc_cuda_exec *x) {
    const mpc_program *p = x->program;
    uint64_t at = 0, control_bytes = 0;
    for (uint32_t i = 0; i < p->input_count; i++) {
        x->input_offset[i] = at;
        at += align256(p->buffers[p->inputs[i].buffer].bytes);
    }
    uint64_t input_bytes = at;
    (void)mpc_store_control(x->store, &control_bytes);
    x->control_offset = at;
    at += align256(control_bytes);
    for (int large = 0; large < 2; large++) {
        for (uint32_t i = 0; i < p->output_count; i++) {
            if ((output_bytes(p, i) > GATHER_LIMIT) != (large == 1)) continue;
            x->output_offset[i] = at;
            at += large ? align256(output_bytes(p, i)) : mpc_align64(output_bytes(p, i));
        }
        at = align256(at);
        if (!large) x->staging_bytes = at - x->control_offset;
    }
    x->slot_bytes = at > 0 ? at : 256;
    uint64_t slots = PINNED_BUDGET / x->slot_bytes;
    if (slots > AHEAD + SPARE_SLOTS) slots = AHEAD + SPARE_SLOTS;
    x->slots = slots < SPARE_SLOTS + 2 ? SPARE_SLOTS + 2 : (uint32_t)slots;
    x->base.ahead = x->slots - SPARE_SLOTS;
    return input_bytes;
}

static mpc_status make_ring(mpc_cuda_exec *x) {
    const mpc_cuda_driver *d = &x->cuda->driver;
    void *pinned = NULL;
    x->events = table(x, x->slots, sizeof *x->events);
    if (!x->events) return MPC_NO_MEMORY;
    int result = d->cuMemHostAlloc(&pinned, (size_t)(x->slots * x->slot_bytes), 0);
    if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuMemHostAlloc", result);
    x->pinned = pinned;
    memset(pinned, 0, (size_t)(x->slots * x->slot_bytes));
    for (uint32_t i = 0; i < x->slots; i++) {
        result = d->cuEventCreate(&x->events[i], EVENT_BLOCKING | EVENT_NO_TIMING);
        if (result == 0) continue;
        x->events[i] = NULL;
        return mpc_cuda_error(x->cuda, x->sink, "cuEventCreate", result);
    }
    return MPC_OK;
}

/* ---- places ---- */

static mpc_status allocate(mpc_cuda_exec *x, uint64_t bytes, mpc_device_ptr *out) {
    *out = 0;
    if (!mpc_array_reserve(&x->own, 1)) return MPC_NO_MEMORY;
    mpc_status status = mpc_cuda_allocate(x->cuda, bytes, out, x->sink);
    if (status != MPC_OK) return status;
    (void)mpc_array_push(&x->own, *out);
    x->own_bytes += bytes;
    return MPC_OK;
}

static mpc_status place_state(mpc_cuda_exec *x, uint32_t id) {
    const mpc_buffer *b = &x->program->buffers[id];
    const mpc_store_entry *entry = mpc_store_find(x->store, b->state, b->derived);
    if (!entry || entry->bytes != b->bytes || entry->type.format != b->type.format)
        return mpc_error(
            x->sink, "E651",
            "state `%s` of this program is not among the states of the session, or has another shape there", b->state);
    x->buffers[id] = mpc_cuda_store_address(x->shared, entry->data);
    return MPC_OK;
}

static mpc_status place_inputs(mpc_cuda_exec *x, uint64_t bytes, bool separate) {
    const mpc_program *p = x->program;
    mpc_device_ptr base = 0;
    mpc_status status = separate || bytes == 0 ? MPC_OK : allocate(x, bytes, &base);
    x->transfers_in = table(x, p->input_count, sizeof *x->transfers_in);
    if (!x->transfers_in) return MPC_NO_MEMORY;
    if (base) x->transfers_in[x->transfer_in_count++] = (mpc_cuda_transfer){base, 0, bytes};
    for (uint32_t i = 0; i < p->input_count && status == MPC_OK; i++) {
        const mpc_buffer *b = &p->buffers[p->inputs[i].buffer];
        mpc_device_ptr own = base + x->input_offset[i];
        if (separate) status = allocate(x, b->bytes, &own);
        if (separate && b->bytes > 0)
            x->transfers_in[x->transfer_in_count++] = (mpc_cuda_transfer){own, x->input_offset[i], b->bytes};
        x->buffers[p->inputs[i].buffer] = own;
    }
    return status;
}

/* As on the cpu: the planner keeps inputs to the end of the step, so what lies inside an input's range is a view of it.
 */
static mpc_device_ptr place_value(const mpc_cuda_exec *x, const mpc_buffer *b) {
    const mpc_program *p = x->program;
    for (uint32_t i = 0; i < p->input_count; i++) {
        const mpc_buffer *in = &p->buffers[p->inputs[i].buffer];
        if (b->offset >= in->offset && b->offset + b->bytes <= in->offset + in->bytes)
            return x->buffers[p->inputs[i].buffer] + (b->offset - in->offset);
    }
    return x->values->data + b->offset;
}

static mpc_status place_buffers(mpc_cuda_exec *x, uint64_t input_bytes, bool separate) {
    const mpc_program *p = x->program;
    x->buffers = table(x, p->buffer_count, sizeof *x->buffers);
    if (!x->buffers) return MPC_NO_MEMORY;
    if (!separate && !(x->values = mpc_cuda_store_take_arena(x->shared, p->arena_bytes, x->sink))) return MPC_FAILED;
    mpc_status status = place_inputs(x, input_bytes, separate);
    for (uint32_t i = 0; i < p->buffer_count && status == MPC_OK; i++) {
        const mpc_buffer *b = &p->buffers[i];
        if (x->buffers[i]) continue; /* an input */
        if (b->is_state) status = place_state(x, i);
        else if (separate) status = allocate(x, b->bytes, &x->buffers[i]);
        else x->buffers[i] = place_value(x, b);
    }
    return status;
}

/* ---- code ---- */

typedef struct loading {
    const mpc_cubins *cubins;
    void **modules; /* by file; NULL: not loaded */
    bool *refused;  /* by file */
} loading;

static int load_module(mpc_cuda_exec *x, const loading *l, uint32_t file, mpc_status *status) {
    char *content = NULL;
    uint64_t bytes = 0;
    if (!mpc_array_reserve(&x->modules, 1)) *status = MPC_NO_MEMORY;
    else *status = mpc_cubins_read(l->cubins, file, &content, &bytes);
    if (*status != MPC_OK) return 0;
    int result = x->cuda->driver.cuModuleLoadData(&l->modules[file], content);
    mpc_free(content);
    if (result == 0) (void)mpc_array_push(&x->modules, l->modules[file]);
    else l->modules[file] = NULL;
    return result;
}

/* Goes on behind a file that the driver refuses, so that all of them are known. The first refusal's result. */
static int load_modules(mpc_cuda_exec *x, const loading *l, mpc_status *status) {
    int first = 0;
    for (uint32_t i = 0; i <= x->program->kernel_count && first != RESULT_NO_MEMORY; i++) {
        uint32_t file = mpc_cubins_file_of(l->cubins, i);
        const char *name = i < x->program->kernel_count ? x->program->kernels[i].name : gather_kernel.name;
        if (l->refused[file]) continue;
        int result = l->modules[file] ? 0 : load_module(x, l, file, status);
        if (*status != MPC_OK) return 0;
        if (result == 0) result = x->cuda->driver.cuModuleGetFunction(&x->functions[i], l->modules[file], name);
        l->refused[file] = result != 0;
        if (first == 0 || result == RESULT_NO_MEMORY) first = result;
    }
    return first;
}

static void unload_modules(mpc_cuda_exec *x) {
    for (size_t i = 0; i < x->modules.count; i++) (void)x->cuda->driver.cuModuleUnload(x->modules.data[i]);
    x->modules.count = 0;
}

/* Files that are whole and still don't load were made wrongly, or by another library of the same version: they are made
 * once more. */
static mpc_status load_code(mpc_cuda_exec *x, mpc_cubins *c) {
    x->functions = table(x, x->program->kernel_count + 1, sizeof *x->functions);
    if (!x->functions) return MPC_NO_MEMORY;
    for (int attempt = 0;; attempt++) {
        mpc_status status = mpc_cubins_build(c);
        x->compiled = mpc_cubins_compiled(c);
        if (status != MPC_OK) return status;
        uint32_t files = mpc_cubins_file_count(c);
        loading l = {c, table(x, files, sizeof *l.modules), table(x, files, sizeof *l.refused)};
        if (!l.modules || !l.refused) return MPC_NO_MEMORY;
        int result = load_modules(x, &l, &status);
        if (status != MPC_OK || result == 0) return status;
        if (attempt > 0 || result == RESULT_NO_MEMORY)
            return mpc_cuda_error(x->cuda, x->sink, "loading compiled kernels (cuModuleLoadData)", result);
        unload_modules(x);
        for (uint32_t i = 0; i < files; i++)
            if (l.refused[i]) mpc_cubins_forget(c, i);
    }
}

static mpc_status add_kernels(mpc_cubins *c, const mpc_program *p) {
    mpc_status status = MPC_OK;
    for (uint32_t i = 0; i < p->kernel_count && status == MPC_OK; i++) status = mpc_cubins_add(c, p, &p->kernels[i]);
    return status == MPC_OK ? mpc_cubins_add(c, p, &gather_kernel) : status;
}

static mpc_cubins_options cubins_options(const mpc_cuda *cuda, const mpc_exec_options *options) {
    return (mpc_cubins_options){.nvrtc = &cuda->nvrtc,
                                .nvrtc_version = cuda->nvrtc_version,
                                .capability = cuda->major * 10 + cuda->minor,
                                .cache_dir = options->cache_dir,
                                .jobs = options->threads};
}

static mpc_status make_code(mpc_cuda_exec *x, const mpc_exec_options *options) {
    const mpc_cubins_options o = cubins_options(x->cuda, options);
    mpc_cubins *c = mpc_cubins_create(&o, x->sink);
    if (!c) return MPC_FAILED;
    mpc_status status = add_kernels(c, x->program);
    if (status == MPC_OK) status = load_code(x, c);
    mpc_cubins_destroy(c);
    for (uint32_t i = 0; i < x->program->kernel_count && status == MPC_OK; i++) {
        uint32_t shared = x->program->kernels[i].shared_bytes;
        if (shared <= PLAIN_SHARED) continue;
        int result = x->cuda->driver.cuFuncSetAttribute(x->functions[i], ATTRIBUTE_MAX_SHARED, (int)shared);
        if (result != 0) status = mpc_cuda_error(x->cuda, x->sink, "cuFuncSetAttribute (shared memory)", result);
    }
    return status;
}

mpc_status mpc_cuda_compile(const mpc_program *const *programs, uint32_t count, const mpc_exec_options *options,
                            const mpc_sink *sink) {
    static const mpc_exec_options defaults = {0};
    mpc_cuda *cuda = mpc_cuda_open_compiler(sink);
    if (!cuda) return MPC_FAILED;
    const mpc_cubins_options o = cubins_options(cuda, options ? options : &defaults);
    mpc_cubins *c = mpc_cubins_create(&o, sink);
    mpc_status status = c ? MPC_OK : MPC_FAILED;
    for (uint32_t i = 0; i < count && status == MPC_OK; i++) status = add_kernels(c, programs[i]);
    if (status == MPC_OK) status = mpc_cubins_build(c);
    mpc_cubins_destroy(c);
    mpc_cuda_close(cuda);
    return status == MPC_NO_MEMORY ? mpc_error(sink, "E901", "there isn't enough memory to compile the kernels")
                                   : status;
}

/* ---- calls ---- */

typedef struct table_writer { /* all segmented tables, first here, then there */
    uint8_t *host;
    mpc_device_ptr device;
    uint64_t at, bytes;
} table_writer;

static mpc_status make_call(mpc_cuda_exec *x, const mpc_launch *l, table_writer *w, mpc_cuda_kernel_call *call) {
    const mpc_kernel *k = &x->program->kernels[l->kernel];
    uint64_t bytes = block_bytes(k);
    *call = (mpc_cuda_kernel_call){.function = x->functions[l->kernel],
                                   .threads = k->threads,
                                   .shared_bytes = k->shared_bytes,
                                   .when = l->has_when ? resolve(x, l->when) : 0};
    uint8_t *to = k->segmented ? w->host + w->at : NULL;
    if (!k->segmented) {
        if (l->instance_count != 1)
            return mpc_error(x->sink, "E610", "kernel %s takes one instance, launch %s has %u", k->name, l->name,
                             l->instance_count);
        to = call->block = mpc_arena_alloc(x->arena, (size_t)bytes);
        if (!to) return MPC_NO_MEMORY;
    } else {
        call->table = w->device + w->at;
        call->count = (int32_t)l->instance_count;
        w->at += table_bytes(x->program, l);
    }
    for (uint32_t i = 0; i < l->instance_count; i++) {
        write_block(x, k, &l->instances[i], call->grid, to + i * bytes);
        call->grid += blocks_of(&l->instances[i]);
    }
    return MPC_OK;
}

static void resolve_matmul(const mpc_cuda_exec *x, const mpc_launch *l, mpc_cuda_matmul_buffers *b) {
    const mpc_matmul *m = &l->matmul;
    *b = (mpc_cuda_matmul_buffers){.a = resolve(x, m->a),
                                   .b = resolve(x, m->b),
                                   .c = resolve(x, m->c),
                                   .workspace = x->shared->workspace,
                                   .workspace_bytes = MPC_CUDA_WORKSPACE};
    if (m->has_bias) b->bias = resolve(x, m->bias);
    if (l->instance_count > 0) b->accumulator = resolve(x, l->accumulator);
}

static mpc_status make_launch(mpc_cuda_exec *x, uint32_t index, table_writer *w, const mpc_exec_options *options) {
    const mpc_launch *l = &x->program->launches[index];
    mpc_cuda_launch *out = &x->launches[index];
    if (l->kind == MPC_LAUNCH_CONV || (l->has_when && l->kind != MPC_LAUNCH_KERNEL))
        return mpc_error(x->sink, "E610", "the cuda device has no kernel for launch %s (%s)", l->name,
                         l->op ? l->op : "?");
    if (l->kind == MPC_LAUNCH_COPY) {
        out->copy_to = resolve(x, l->copy_to);
        out->copy_from = resolve(x, l->copy_from);
        out->copy_bytes = l->copy_bytes;
    }
    if (l->kind == MPC_LAUNCH_MATMUL) {
        resolve_matmul(x, l, &out->matmul_buffers);
        out->matmul = mpc_cuda_matmul_create(x->cuda, l, options->choices, x->sink);
        if (!out->matmul) return MPC_FAILED;
    }
    return has_kernel(l) ? make_call(x, l, w, &out->kernel) : MPC_OK;
}

static mpc_status make_gather(mpc_cuda_exec *x, const mpc_cuda_gather_piece *pieces, uint32_t count, table_writer *w,
                              mpc_cuda_kernel_call *call) {
    uint64_t bytes = block_bytes(&gather_kernel);
    if (count == 0) return MPC_OK;
    *call = (mpc_cuda_kernel_call){.function = x->functions[x->program->kernel_count],
                                   .grid = count,
                                   .threads = GATHER_THREADS,
                                   .table = w->device + w->at,
                                   .count = (int32_t)count};
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *to = w->host + w->at + i * bytes;
        const int64_t units = 1, size = (int64_t)pieces[i].bytes;
        const uint32_t blocks[] = {i, 1};
        const mpc_device_ptr ends[] = {pieces[i].from, pieces[i].to};
        memcpy(to, &units, sizeof units);
        memcpy(to + 8, blocks, sizeof blocks);
        memcpy(to + 16, ends, sizeof ends);
        memcpy(to + 32, &size, sizeof size);
    }
    w->at += align256(count * bytes);
    return MPC_OK;
}

/* Control states lie in one piece, or, with separate buffers, in one per state. */
static uint32_t list_control(const mpc_cuda_exec *x, mpc_device_ptr staging, mpc_cuda_gather_piece *out) {
    uint64_t bytes = 0;
    uint8_t *begin = mpc_store_control(x->store, &bytes);
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->shared->piece_count; i++) {
        const mpc_cuda_piece *p = &x->shared->pieces[i];
        uint8_t *from = p->host > begin ? p->host : begin, *p_end = p->host + p->bytes, *end = begin + bytes;
        if (p_end < end) end = p_end;
        if (from >= end) continue;
        out[count++] = (mpc_cuda_gather_piece){p->device + (mpc_device_ptr)(from - p->host),
                                               staging + (mpc_device_ptr)(from - begin), (uint64_t)(end - from)};
    }
    return count;
}

static uint32_t list_outputs(mpc_cuda_exec *x, mpc_device_ptr staging, mpc_cuda_gather_piece *out) {
    const mpc_program *p = x->program;
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->output_count; i++) {
        mpc_device_ptr from = x->buffers[p->outputs[i].buffer];
        uint64_t bytes = output_bytes(p, i);
        if (bytes > GATHER_LIMIT)
            x->transfers_out[x->transfer_out_count++] = (mpc_cuda_transfer){from, x->output_offset[i], bytes};
        else if (bytes > 0)
            out[count++] = (mpc_cuda_gather_piece){from, staging + (x->output_offset[i] - x->control_offset), bytes};
    }
    return count;
}

static mpc_status make_gathers(mpc_cuda_exec *x, table_writer *w) {
    mpc_device_ptr staging = 0;
    uint32_t most = x->shared->piece_count + x->program->output_count;
    mpc_cuda_gather_piece *pieces = table(x, most, sizeof *pieces);
    x->transfers_out = table(x, x->program->output_count + 1, sizeof *x->transfers_out);
    if (!pieces || !x->transfers_out) return MPC_NO_MEMORY;
    if (x->staging_bytes > 0) {
        mpc_status status = allocate(x, x->staging_bytes, &staging);
        if (status != MPC_OK) return status;
        x->transfers_out[x->transfer_out_count++] = (mpc_cuda_transfer){staging, x->control_offset, x->staging_bytes};
    }
    mpc_status status = make_gather(x, pieces, list_control(x, staging, pieces), w, &x->gather_before);
    return status == MPC_OK ? make_gather(x, pieces, list_outputs(x, staging, pieces), w, &x->gather_after) : status;
}

static uint64_t all_table_bytes(const mpc_cuda_exec *x) {
    uint64_t bytes = 0, each = block_bytes(&gather_kernel);
    for (uint32_t i = 0; i < x->program->launch_count; i++) bytes += table_bytes(x->program, &x->program->launches[i]);
    return bytes + align256(x->program->output_count * each) + align256((mpc_store_count(x->store) + 1) * each);
}

static mpc_status make_launches(mpc_cuda_exec *x, const mpc_exec_options *options) {
    table_writer w = {.bytes = all_table_bytes(x)};
    x->launches = table(x, x->program->launch_count, sizeof *x->launches);
    w.host = mpc_arena_alloc(x->arena, (size_t)w.bytes);
    mpc_status status = x->launches && w.host ? allocate(x, w.bytes, &w.device) : MPC_NO_MEMORY;
    for (uint32_t i = 0; i < x->program->launch_count && status == MPC_OK; i++) status = make_launch(x, i, &w, options);
    if (status == MPC_OK) status = make_gathers(x, &w);
    if (status != MPC_OK || w.at == 0) return status;
    int result = x->cuda->driver.cuMemcpyHtoDAsync_v2(w.device, w.host, (size_t)w.at, x->cuda->stream);
    if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuMemcpyHtoDAsync", result);
    return mpc_cuda_exec_synchronize(x);
}

/* ---- matmul ---- */

typedef struct epilogue {
    const mpc_cuda_exec *x;
    const mpc_cuda_kernel_call *call;
} epilogue;

static int run_epilogue(void *user) {
    const epilogue *e = user;
    return mpc_cuda_exec_call(e->x, e->call) == MPC_OK ? 0 : 1;
}

static bool writes_state(const mpc_program *p, const mpc_launch *l) {
    for (uint32_t i = 0; i < l->result_count; i++)
        if (p->buffers[l->results[i]].is_state) return true;
    return p->buffers[l->matmul.c.buffer].is_state;
}

static mpc_status tune_launch(mpc_cuda_exec *x, uint32_t index) {
    mpc_cuda_launch *out = &x->launches[index];
    epilogue e = {x, &out->kernel};
    bool has_epilogue = out->kernel.function != NULL;
    mpc_status status = mpc_cuda_matmul_tune(out->matmul, &out->matmul_buffers, has_epilogue ? run_epilogue : NULL,
                                             has_epilogue ? &e : NULL);
    if (status != MPC_OK) return status;
    return mpc_cuda_matmul_run(
        out->matmul, &out->matmul_buffers); /* a choice that was known loads its code now, not under capture */
}

/* Candidates are timed on whatever lies in the buffers. A product that writes a state in place would change it: states
 * are put back. */
static mpc_status tune(mpc_cuda_exec *x) {
    mpc_status status = MPC_OK;
    bool saved = false;
    for (uint32_t i = 0; i < x->program->launch_count && status == MPC_OK; i++) {
        const mpc_launch *l = &x->program->launches[i];
        if (!x->launches[i].matmul) continue;
        if (!saved && writes_state(x->program, l)) {
            status = mpc_store_to_host(x->store);
            saved = true;
        }
        if (status == MPC_OK) status = tune_launch(x, i);
    }
    return saved && status == MPC_OK ? mpc_store_to_device(x->store) : status;
}

/* ---- all ---- */

static uint64_t sum_of_buffers(const mpc_program *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->buffer_count; i++) bytes += p->buffers[i].is_state ? 0 : p->buffers[i].bytes;
    return bytes;
}

/* Choices that were made elsewhere are refused before anything is built on them. */
static mpc_status claim_choices(const mpc_cuda_exec *x, mpc_choices *choices) {
    char owner[200];
    int version = x->cuda->cublaslt_version;
    snprintf(owner, sizeof owner, "%s, cuBLASLt %d.%d", x->cuda->name, version / 1000, version % 1000 / 10);
    return choices ? mpc_choices_claim(choices, owner, x->sink) : MPC_OK;
}

mpc_status mpc_cuda_exec_prepare(mpc_cuda_exec *x, const mpc_exec_options *options) {
    bool separate = options->separate_buffers;
    if (!describe_ends(x)) return MPC_NO_MEMORY;
    uint64_t input_bytes = lay_out_slot(x);
    mpc_cuda_need need = {.arena = separate ? sum_of_buffers(x->program) : x->program->arena_bytes,
                          .own = input_bytes + x->staging_bytes + all_table_bytes(x)};
    x->shared = mpc_cuda_store_get(x->store, separate, need, x->sink);
    if (!x->shared) return MPC_FAILED;
    x->cuda = x->shared->cuda;
    mpc_status status = claim_choices(x, options->choices);
    if (status == MPC_OK) status = make_code(x, options);
    if (status == MPC_OK) status = place_buffers(x, input_bytes, separate);
    if (status == MPC_OK) status = make_ring(x);
    if (status == MPC_OK) status = make_launches(x, options);
    return status == MPC_OK ? tune(x) : status;
}
