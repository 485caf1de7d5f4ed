/* Streams and events of the stand-in. Work is queued and runs only where the host waits for it or asks for it, so that
 * host code that reads too early finds NaN: the host memory an asynchronous copy will write is filled with NaN when the
 * copy is enqueued. The first question whether work is done is answered "not yet", the second does it. A newcomer's
 * trap: work of other streams runs only if something that runs depends on it (an event, the legacy stream). */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_QUEUED = 1024, CAPTURE_RELAXED = 2 };
typedef struct sim_event {
    sim_stream *stream; /* of the last record; NULL: never recorded */
    uint64_t ticket;
    double milliseconds;
    sim_graph *captured;
    uint32_t asked;
    bool done, untimed;
} sim_event;
typedef struct sim_mark { /* data of a record and of a wait */
    sim_event *event;
    sim_stream *stream;
    uint64_t ticket;
} sim_mark;
static struct {
    uint64_t ticket;
    sim_stream legacy;
} queue = {.legacy = {.last = &queue.legacy.first, .blocking = true}};

/* ---- operations ---- */
sim_op *sim_op_new(sim_op_kind kind, const char *name, const void *data, size_t size) {
    sim_op *op = calloc(1, sizeof *op + size);
    if (!op) return NULL;
    op->kind = kind, op->name = name, op->size = size;
    if (data && size) memcpy(op->data, data, size);
    return op;
}

void sim_op_free(sim_op *op) {
    if (op->drop) op->drop(op->data);
    free(op);
}

sim_stream *sim_stream_of(void *handle) {
    if ((uintptr_t)handle <= 2) return &queue.legacy; /* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
    return sim_find(SIM_STREAM, handle);
}

/* ---- running ---- */
static sim_op *pop(sim_stream *s) {
    sim_op *op = s->first;
    s->first = op->next;
    if (!s->first) s->last = &s->first;
    s->count--;
    op->next = NULL;
    return op;
}

static int run_until(sim_stream *s, uint64_t ticket);

/* The legacy stream and the blocking ones wait for each other. */
static int run_dependencies(sim_stream *s, uint64_t ticket) {
    int result = CUDASIM_SUCCESS;
    if (!s->blocking) return result;
    if (s != &queue.legacy) return run_until(&queue.legacy, ticket - 1);
    for (sim_stream *o = sim_next(SIM_STREAM, NULL); o && !result; o = sim_next(SIM_STREAM, o))
        if (o->blocking) result = run_until(o, ticket - 1);
    return result;
}

static int run_until(sim_stream *s, uint64_t ticket) {
    while (s->first && s->first->ticket <= ticket) {
        if (sim_sticky()) return sim_sticky();
        sim_op *op = pop(s);
        int result = run_dependencies(s, op->ticket);
        if (result == CUDASIM_SUCCESS) result = op->run(op->data);
        if (result != CUDASIM_SUCCESS) sim_fail(sim_error(result, "%s failed", op->name));
        sim_op_free(op);
    }
    return sim_sticky();
}

int sim_drain(sim_stream *s) {
    if (s) return run_until(s, UINT64_MAX);
    int result = run_until(&queue.legacy, UINT64_MAX);
    for (s = sim_next(SIM_STREAM, NULL); s && !result; s = sim_next(SIM_STREAM, s)) result = run_until(s, UINT64_MAX);
    return result;
}

static void drop_queue(sim_stream *s) {
    while (s->first) sim_op_free(pop(s));
    if (s->capture && s->capture_origin) sim_graph_release(s->capture);
    s->capture = NULL;
}

void sim_drop_work(void) {
    drop_queue(&queue.legacy);
    for (sim_stream *s = sim_next(SIM_STREAM, NULL); s; s = sim_next(SIM_STREAM, s)) drop_queue(s);
}

/* ---- what the host must not see yet ---- */
static bool reads(const sim_op *op, const char *at, size_t bytes) {
    if (op->kind == SIM_OP_GRAPH) {
        const sim_graph *graph = *(sim_graph *const *)(const void *)op->data;
        for (op = graph->first; op; op = op->next)
            if (reads(op, at, bytes)) return true;
        return false;
    }
    return op->read && op->read < at + bytes && at < op->read + op->host_bytes;
}

static bool is_read_later(const sim_stream *s, const char *at, size_t bytes) {
    for (const sim_op *op = s->first; op; op = op->next)
        if (reads(op, at, bytes)) return true;
    return false;
}

/* Not what earlier work has yet to read. */
void sim_poison(const sim_op *op) {
    if (op->kind == SIM_OP_GRAPH) {
        const sim_graph *graph = *(sim_graph *const *)(const void *)op->data;
        for (op = graph->first; op; op = op->next) sim_poison(op);
        return;
    }
    if (!op->written || !sim_pinned_at(op->written, op->host_bytes)) return;
    bool read = is_read_later(&queue.legacy, op->written, op->host_bytes);
    for (sim_stream *s = sim_next(SIM_STREAM, NULL); s && !read; s = sim_next(SIM_STREAM, s))
        read = is_read_later(s, op->written, op->host_bytes);
    if (!read) memset(op->written, 0xff, op->host_bytes);
}

/* ---- into a queue or a capture ---- */
int sim_check_captures(void) {
    int result = CUDASIM_SUCCESS;
    for (sim_stream *s = sim_next(SIM_STREAM, NULL); s; s = sim_next(SIM_STREAM, s)) {
        if (!s->capture || s->capture_mode == CAPTURE_RELAXED) continue;
        s->capture_invalid = true;
        result = sim_error(SIM_CAPTURE_UNSUPPORTED, "a call that synchronises while a stream is captured");
    }
    return result;
}

static bool implicitly_captured(const sim_stream *stream) {
    if (stream != &queue.legacy) return false;
    for (sim_stream *s = sim_next(SIM_STREAM, NULL); s; s = sim_next(SIM_STREAM, s))
        if (s->capture && s->blocking) return s->capture_invalid = true;
    return false;
}

static int refuse(sim_op *op, int result, const char *why) {
    result = sim_error(result, "%s: %s", op->name, why);
    sim_op_free(op);
    return result;
}

/* Records in a graph are recorded anew by each launch. */
static void begin_records(const sim_op *launch, sim_stream *s) {
    const sim_graph *graph = *(sim_graph *const *)(const void *)launch->data;
    for (const sim_op *op = graph->first; op; op = op->next) {
        sim_event *e =
            op->kind == SIM_OP_RECORD ? sim_find(SIM_EVENT, ((const sim_mark *)(const void *)op->data)->event) : NULL;
        if (e) e->captured = NULL, e->done = false, e->asked = 0, e->stream = s, e->ticket = launch->ticket;
    }
}

int sim_put(sim_stream *s, sim_op *op) {
    if (implicitly_captured(s))
        return refuse(op, SIM_CAPTURE_IMPLICIT, "on the legacy stream while a blocking stream is captured");
    if (s->capture) {
        if (s->capture_invalid) return refuse(op, SIM_CAPTURE_INVALIDATED, "the capture is invalid");
        sim_graph_append(s->capture, op);
        return CUDASIM_SUCCESS;
    }
    sim_poison(op);
    op->ticket = ++queue.ticket;
    if (op->kind == SIM_OP_GRAPH) begin_records(op, s);
    *s->last = op;
    s->last = &op->next;
    s->asked = 0;
    if (++s->count > MAX_QUEUED) return run_until(s, s->first->ticket);
    return CUDASIM_SUCCESS;
}

/* ---- streams ---- */
static int create_stream(void **stream, unsigned flags) {
    if (flags > 1) return CUDASIM_INVALID_VALUE;
    sim_stream *s = sim_new(SIM_STREAM, sizeof *s);
    if (!s) return CUDASIM_OUT_OF_MEMORY;
    s->last = &s->first;
    s->blocking = flags == 0;
    *stream = s;
    return CUDASIM_SUCCESS;
}
SIM_API(SIM_CONTEXT, cuStreamCreate, (void **stream, unsigned flags), (stream, flags)) {
    return create_stream(stream, flags);
}
SIM_API(SIM_CONTEXT, cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority),
        (stream, flags, priority)) {
    (void)priority;
    return create_stream(stream, flags);
}

SIM_API(SIM_INITIALIZED, cuStreamDestroy_v2, (void *handle), (handle)) {
    sim_stream *s = sim_find(SIM_STREAM, handle);
    if (!s) return sim_error(CUDASIM_INVALID_HANDLE, "cuStreamDestroy of no stream");
    const int result = sim_drain(s);
    drop_queue(s);
    for (sim_event *e = sim_next(SIM_EVENT, NULL); e; e = sim_next(SIM_EVENT, e))
        if (e->stream == s) e->done = true, e->stream = &queue.legacy;
    sim_delete(s);
    return result;
}

/* The stream, not captured: what may be waited for. */
static int waitable(void *handle, sim_stream **stream) {
    sim_stream *s = *stream = sim_stream_of(handle);
    if (!s) return sim_error(CUDASIM_INVALID_HANDLE, "not a stream: %p", handle);
    if (implicitly_captured(s)) return SIM_CAPTURE_IMPLICIT;
    if (!s->capture) return CUDASIM_SUCCESS;
    s->capture_invalid = true;
    return sim_error(SIM_CAPTURE_UNSUPPORTED, "waiting for a stream that is captured");
}

SIM_API(SIM_CONTEXT, cuStreamSynchronize, (void *handle), (handle)) {
    sim_stream *s;
    const int result = waitable(handle, &s);
    return result ? result : sim_drain(s);
}

SIM_API(SIM_CONTEXT, cuStreamQuery, (void *handle), (handle)) {
    sim_stream *s;
    const int result = waitable(handle, &s);
    if (result) return result;
    if (s->first && s->asked++ == 0) return SIM_NOT_READY;
    return sim_drain(s);
}

SIM_API(SIM_SYNCHRONISES, cuCtxSynchronize, (void), ()) { return sim_drain(NULL); }

SIM_API(SIM_CONTEXT, cuLaunchHostFunc, (void *handle, void (*run)(void *), void *user), (handle, run, user)) {
    (void)handle, (void)run, (void)user;
    return sim_error(SIM_UNKNOWN, "cuLaunchHostFunc: the stand-in has no host functions");
}

/* ---- events ---- */
SIM_API(SIM_CONTEXT, cuEventCreate, (void **event, unsigned flags), (event, flags)) {
    if (flags > 3) return CUDASIM_INVALID_VALUE;
    sim_event *e = sim_new(SIM_EVENT, sizeof *e);
    if (!e) return CUDASIM_OUT_OF_MEMORY;
    e->untimed = (flags & 2) != 0;
    *event = e;
    return CUDASIM_SUCCESS;
}

/* Work that names it holds the handle's address only to compare it. */
SIM_API(SIM_INITIALIZED, cuEventDestroy_v2, (void *event), (event)) {
    if (!sim_find(SIM_EVENT, event)) return sim_error(CUDASIM_INVALID_HANDLE, "cuEventDestroy of no event");
    sim_delete(event);
    return CUDASIM_SUCCESS;
}

static int run_record(void *data) {
    const sim_mark *mark = data;
    sim_event *e = sim_find(SIM_EVENT, mark->event);
    if (!e || (mark->ticket && e->ticket != mark->ticket)) return CUDASIM_SUCCESS; /* recorded again since */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    e->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    e->done = true;
    return CUDASIM_SUCCESS;
}

static int record(void *event, void *handle, bool as_node) {
    sim_event *e = sim_find(SIM_EVENT, event);
    sim_stream *s = sim_stream_of(handle);
    if (!e || !s) return sim_error(CUDASIM_INVALID_HANDLE, "cuEventRecord: not an event, or not a stream");
    e->asked = 0;
    if (s->capture && !as_node) {
        e->captured = s->capture;
        return s->capture_invalid ? SIM_CAPTURE_INVALIDATED : CUDASIM_SUCCESS;
    }
    const uint64_t ticket = s->capture ? 0 : queue.ticket + 1;
    sim_op *op = sim_op_new(SIM_OP_RECORD, "cuEventRecord", &(sim_mark){e, s, ticket}, sizeof(sim_mark));
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    op->run = run_record;
    if (ticket) e->captured = NULL, e->done = false, e->stream = s, e->ticket = ticket;
    return sim_put(s, op);
}
SIM_API(SIM_CONTEXT, cuEventRecord, (void *event, void *stream), (event, stream)) {
    return record(event, stream, false);
}
SIM_API(SIM_CONTEXT, cuEventRecordWithFlags, (void *event, void *stream, unsigned flags), (event, stream, flags)) {
    return flags > 1 ? CUDASIM_INVALID_VALUE : record(event, stream, flags == 1);
}

static int usable_event(void *event, sim_event **found) {
    sim_event *e = *found = sim_find(SIM_EVENT, event);
    if (!e) return sim_error(CUDASIM_INVALID_HANDLE, "not an event: %p", event);
    if (e->captured) return sim_error(SIM_CAPTURED_EVENT, "the event was recorded in a capture");
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuEventQuery, (void *event), (event)) {
    sim_event *e;
    const int result = usable_event(event, &e);
    if (result || !e->stream || e->done) return result;
    if (e->asked++ == 0) return SIM_NOT_READY;
    return run_until(e->stream, e->ticket);
}

SIM_API(SIM_CONTEXT, cuEventSynchronize, (void *event), (event)) {
    sim_event *e;
    const int result = usable_event(event, &e);
    if (result || !e->stream || e->done) return result;
    return run_until(e->stream, e->ticket);
}

SIM_API(SIM_CONTEXT, cuEventElapsedTime, (float *milliseconds, void *start, void *end), (milliseconds, start, end)) {
    sim_event *a, *b;
    int result = usable_event(start, &a);
    if (!result) result = usable_event(end, &b);
    if (result) return result;
    if (!a->stream || !b->stream || a->untimed || b->untimed)
        return sim_error(CUDASIM_INVALID_HANDLE,
                         "cuEventElapsedTime: an event was never recorded, or was made without timing");
    if (!a->done || !b->done) return SIM_NOT_READY;
    *milliseconds = (float)(b->milliseconds - a->milliseconds);
    return CUDASIM_SUCCESS;
}
CUDASIM_EXPORT int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end);
int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) {
    return cuEventElapsedTime(milliseconds, start, end);
}

static int run_wait(void *data) {
    const sim_mark *mark = data;
    sim_stream *s = sim_stream_of(mark->stream == &queue.legacy ? NULL : mark->stream);
    return s ? run_until(s, mark->ticket) : CUDASIM_SUCCESS;
}

static bool is_capture(const sim_graph *graph) {
    for (sim_stream *s = sim_next(SIM_STREAM, NULL); s; s = sim_next(SIM_STREAM, s))
        if (s->capture == graph) return true;
    return false;
}

/* A wait for an event of a capture takes the stream into that capture. Its work is a chain in the order of calls, which
 * is one of the orders that the events allow. */
SIM_API(SIM_CONTEXT, cuStreamWaitEvent, (void *handle, void *event, unsigned flags), (handle, event, flags)) {
    sim_stream *s = sim_stream_of(handle);
    sim_event *e = sim_find(SIM_EVENT, event);
    if (!s || !e) return sim_error(CUDASIM_INVALID_HANDLE, "cuStreamWaitEvent: not a stream, or not an event");
    if (flags > 1) return CUDASIM_INVALID_VALUE;
    if (e->captured) {
        if (!is_capture(e->captured))
            return sim_error(SIM_CAPTURED_EVENT, "the event was recorded in a capture that has ended");
        if (s->capture && s->capture != e->captured) return SIM_CAPTURE_MERGE;
        s->capture = e->captured;
        return CUDASIM_SUCCESS;
    }
    if (s->capture) return sim_error(905, "a captured stream waits for an event outside of the capture");
    if (!e->stream || e->done) return CUDASIM_SUCCESS;
    sim_op *op = sim_op_new(SIM_OP_WAIT, "cuStreamWaitEvent", &(sim_mark){e, e->stream, e->ticket}, sizeof(sim_mark));
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    op->run = run_wait;
    return sim_put(s, op);
}

/* ---- capture ---- */
SIM_API(SIM_CONTEXT, cuStreamBeginCapture_v2, (void *handle, int mode), (handle, mode)) {
    sim_stream *s = sim_find(SIM_STREAM, handle);
    if (!s && sim_stream_of(handle)) return sim_error(SIM_CAPTURE_UNSUPPORTED, "the legacy stream can't be captured");
    if (!s) return CUDASIM_INVALID_HANDLE;
    if (mode < 0 || mode > CAPTURE_RELAXED) return CUDASIM_INVALID_VALUE;
    if (s->capture) return sim_error(SIM_ILLEGAL_STATE, "the stream is captured already");
    s->capture = sim_graph_new();
    if (!s->capture) return CUDASIM_OUT_OF_MEMORY;
    s->capture_origin = true, s->capture_invalid = false, s->capture_mode = mode;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuStreamEndCapture, (void *handle, void **graph), (handle, graph)) {
    sim_stream *s = sim_stream_of(handle);
    if (!s || !graph) return CUDASIM_INVALID_HANDLE;
    *graph = NULL;
    if (!s->capture) return sim_error(SIM_ILLEGAL_STATE, "the stream is not captured");
    if (!s->capture_origin) return sim_error(SIM_CAPTURE_UNMATCHED, "the capture was not begun on this stream");
    sim_graph *g = s->capture;
    bool invalid = false;
    for (sim_stream *o = sim_next(SIM_STREAM, NULL); o; o = sim_next(SIM_STREAM, o)) {
        if (o->capture != g) continue;
        invalid |= o->capture_invalid;
        o->capture = NULL, o->capture_origin = false, o->capture_invalid = false;
    }
    if (invalid) {
        sim_graph_release(g);
        return sim_error(SIM_CAPTURE_INVALIDATED, "the capture is invalid");
    }
    *graph = g;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuStreamIsCapturing, (void *handle, int *status), (handle, status)) {
    const sim_stream *s = sim_stream_of(handle);
    if (!s || !status) return CUDASIM_INVALID_HANDLE;
    *status = !s->capture ? 0 : s->capture_invalid ? 2 : 1;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuThreadExchangeStreamCaptureMode, (int *mode), (mode)) {
    return *mode < 0 || *mode > CAPTURE_RELAXED ? CUDASIM_INVALID_VALUE : CUDASIM_SUCCESS;
}
