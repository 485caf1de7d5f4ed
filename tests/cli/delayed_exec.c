/* The device `ref`, made to look like one whose steps run ahead of the host: linked into the program in place of the
 * real loader
 * (--wrap). Records come late, a step's inputs must be written anew for every step, and reading the outputs of a step
 * that isn't current gives rubbish. The states are those after the last step that was begun, as on a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

enum { AHEAD = 5, LATE = 3 }; /* a record comes by itself when LATE are waiting */

typedef struct delayed {
    mpc_exec base; /* first */
    mpc_exec *inner;
    uint8_t **inputs;                /* by input */
    uint8_t **outputs[AHEAD], **now; /* by slot and output; of the current record */
    uint32_t begun, fetched, stop;
    mpc_str what[AHEAD]; /* by slot: what was found after a step that set `stop` */
    mpc_loc loc[AHEAD];
} delayed;

mpc_exec *__real_mpc_ref_load(const mpc_graph *g, mpc_store *store, const mpc_sink *sink);
mpc_exec *__wrap_mpc_ref_load(const mpc_graph *g, mpc_store *store, const mpc_sink *sink);

static uint8_t **blocks(const mpc_type *types, uint32_t count) {
    uint8_t **list = calloc(count + 1, sizeof *list);
    for (uint32_t i = 0; list && i < count; i++) list[i] = malloc((size_t)mpc_type_bytes(&types[i]) + 1);
    return list;
}

static void fill(uint8_t **list, const mpc_type *types, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) memset(list[i], 0x2a, (size_t)mpc_type_bytes(&types[i]));
}

static void free_blocks(uint8_t **list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) free(list[i]);
    free(list);
}

static void *input(mpc_exec *e, uint32_t i) { return ((delayed *)e)->inputs[i]; }
static const void *output(mpc_exec *e, uint32_t i) { return ((delayed *)e)->now[i]; }

static mpc_status step(mpc_exec *e) {
    delayed *d = (delayed *)e;
    if (d->begun - d->fetched == AHEAD) {
        fprintf(stderr, "a step was begun beyond the ring\n");
        abort();
    }
    for (uint32_t i = 0; i < e->input_count; i++)
        memcpy(d->inner->vtable->input(d->inner, i), d->inputs[i], (size_t)mpc_type_bytes(&e->input_types[i]));
    fill(d->inputs, e->input_types, e->input_count);
    mpc_status status = mpc_exec_step(d->inner);
    if (status != MPC_OK || mpc_exec_record(d->inner, true) != MPC_RECORD_READY) return MPC_FAILED;
    uint32_t k = d->begun++ % AHEAD;
    uint8_t **slot = d->outputs[k];
    mpc_str_clear(&d->what[k]);
    for (uint32_t i = 0; i < e->output_count; i++)
        memcpy(slot[i], d->inner->vtable->output(d->inner, i), (size_t)mpc_type_bytes(&e->output_types[i]));
    if (d->stop == e->output_count || !*slot[d->stop]) return MPC_OK;
    return mpc_exec_find_nonfinite(d->inner, &d->what[k], &d->loc[k]);
}

static mpc_record_state record(mpc_exec *e, bool wait) {
    delayed *d = (delayed *)e;
    if (d->begun == d->fetched) return MPC_RECORD_NONE;
    if (!wait && d->begun - d->fetched < LATE) return MPC_RECORD_PENDING;
    uint8_t **slot = d->outputs[d->fetched++ % AHEAD];
    for (uint32_t i = 0; i < e->output_count; i++)
        memcpy(d->now[i], slot[i], (size_t)mpc_type_bytes(&e->output_types[i]));
    fill(slot, e->output_types, e->output_count);
    return MPC_RECORD_READY;
}

static void destroy(mpc_exec *e) {
    delayed *d = (delayed *)e;
    for (uint32_t k = 0; k < AHEAD; k++) {
        free_blocks(d->outputs[k], e->output_count);
        mpc_str_free(&d->what[k]);
    }
    free_blocks(d->now, e->output_count);
    free_blocks(d->inputs, e->input_count);
    d->inner->vtable->destroy(d->inner);
    free(d);
}

static mpc_status find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    const delayed *d = (const delayed *)e;
    uint32_t k = (d->fetched - 1) % AHEAD; /* of the current record */
    mpc_str_append(what, mpc_str_cstr(&d->what[k]));
    *loc = d->loc[k];
    return MPC_OK;
}

static void memory(const mpc_exec *e, mpc_memory_report *report) {
    mpc_exec_memory(((const delayed *)e)->inner, report);
}

static const mpc_exec_vtable vtable = {input, output, step, record, destroy, find_nonfinite, memory};

mpc_exec *__wrap_mpc_ref_load(const mpc_graph *g, mpc_store *store, const mpc_sink *sink) {
    mpc_exec *inner = __real_mpc_ref_load(g, store, sink);
    delayed *d = inner ? calloc(1, sizeof *d) : NULL;
    if (!d) return inner;
    d->base = *inner;
    d->base.vtable = &vtable;
    d->base.ahead = AHEAD;
    d->inner = inner;
    d->inputs = blocks(inner->input_types, inner->input_count);
    d->now = blocks(inner->output_types, inner->output_count);
    for (uint32_t k = 0; k < AHEAD; k++) d->outputs[k] = blocks(inner->output_types, inner->output_count);
    fill(d->now, inner->output_types, inner->output_count);
    while (d->stop < inner->output_count && strcmp(inner->outputs[d->stop].name, "stop") != 0) d->stop++;
    return &d->base;
}
