/* Graphs of the stand-in: what a capture recorded, as a chain in the order of the calls. An executable shares its
 * graph's nodes until it is updated; a launch that is under way keeps the nodes it was made with. Handles are sim_graph
 * for both kinds, told apart by the table. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct sim_exec {
    sim_graph *graph;
} sim_exec;

sim_graph *sim_graph_new(void) {
    sim_graph *g = sim_new(SIM_GRAPH, sizeof *g);
    if (!g) return NULL;
    g->last = &g->first;
    g->users = 1;
    return g;
}

void sim_graph_append(sim_graph *g, sim_op *op) {
    *g->last = op;
    g->last = &op->next;
    g->count++;
}

static sim_graph *find_graph(const void *handle) {
    sim_graph *g = sim_find(SIM_GRAPH, handle);
    return g && !g->destroyed ? g : NULL;
}

static void free_nodes(sim_op *op) {
    while (op) {
        sim_op *next = op->next;
        sim_op_free(op);
        op = next;
    }
}

/* The handle's own storage goes with the last user. */
void sim_graph_release(sim_graph *g) {
    if (--g->users > 0) return;
    free_nodes(g->first);
    sim_delete(g);
}

static int instantiate(void **exec, void *handle) {
    sim_graph *g = find_graph(handle);
    if (!g || !exec) return sim_error(CUDASIM_INVALID_VALUE, "cuGraphInstantiate of no graph");
    sim_exec *x = sim_new(SIM_EXEC, sizeof *x);
    if (!x) return CUDASIM_OUT_OF_MEMORY;
    x->graph = g;
    g->users++;
    *exec = x;
    return CUDASIM_SUCCESS;
}
SIM_API(SIM_CONTEXT, cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags),
        (exec, graph, flags)) {
    (void)flags;
    return instantiate(exec, graph);
}
SIM_API(SIM_CONTEXT, cuGraphInstantiate_v2, (void **exec, void *graph, void **node, char *log, size_t size),
        (exec, graph, node, log, size)) {
    if (node) *node = NULL;
    if (log && size) *log = 0;
    return instantiate(exec, graph);
}

SIM_API(SIM_INITIALIZED, cuGraphDestroy, (void *handle), (handle)) {
    sim_graph *g = find_graph(handle);
    if (!g) return sim_error(CUDASIM_INVALID_VALUE, "cuGraphDestroy of no graph");
    g->destroyed = true;
    sim_graph_release(g);
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuGraphExecDestroy, (void *handle), (handle)) {
    sim_exec *x = sim_find(SIM_EXEC, handle);
    if (!x) return sim_error(CUDASIM_INVALID_VALUE, "cuGraphExecDestroy of no executable graph");
    sim_graph_release(x->graph);
    sim_delete(x);
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuGraphGetNodes, (void *handle, void **nodes, size_t *count), (handle, nodes, count)) {
    const sim_graph *g = find_graph(handle);
    if (!g || !count) return CUDASIM_INVALID_VALUE;
    if (nodes) return sim_error(SIM_UNKNOWN, "cuGraphGetNodes: the stand-in only counts nodes");
    *count = g->count;
    return CUDASIM_SUCCESS;
}

static bool same_topology(const sim_graph *a, const sim_graph *b) {
    const sim_op *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (x->kind != y->kind) return false;
    return !x && !y;
}

/* What the driver tells of an update: result, and the nodes to blame. */
typedef struct sim_update {
    int result;
    void *node, *from;
} sim_update;
SIM_API(SIM_CONTEXT, cuGraphExecUpdate_v2, (void *handle, void *graph, void *info), (handle, graph, info)) {
    sim_exec *x = sim_find(SIM_EXEC, handle);
    sim_graph *g = find_graph(graph);
    if (!x || !g) return CUDASIM_INVALID_VALUE;
    const bool same = same_topology(x->graph, g);
    if (info) *(sim_update *)info = (sim_update){same ? 0 : 2, NULL, NULL}; /* 2: the topology changed */
    if (!same) return SIM_UPDATE_FAILURE;
    g->users++;
    sim_graph_release(x->graph);
    x->graph = g;
    return CUDASIM_SUCCESS;
}

static int run_graph(void *data) {
    const sim_graph *g = *(sim_graph **)data;
    int result = CUDASIM_SUCCESS;
    for (sim_op *op = g->first; op && !result; op = op->next) {
        result = op->run(op->data);
        if (result) sim_error(result, "node %s of a graph failed", op->name);
    }
    return result;
}
static void drop_graph(void *data) { sim_graph_release(*(sim_graph **)data); }

SIM_API(SIM_CONTEXT, cuGraphLaunch, (void *handle, void *stream), (handle, stream)) {
    sim_exec *x = sim_find(SIM_EXEC, handle);
    sim_stream *s = sim_stream_of(stream);
    if (!x || !s) return sim_error(CUDASIM_INVALID_HANDLE, "cuGraphLaunch: no executable graph, or no stream");
    if (s->capture) return sim_error(SIM_CAPTURE_UNSUPPORTED, "the stand-in has no graphs in graphs");
    sim_op *op = sim_op_new(SIM_OP_GRAPH, "graph", &x->graph, sizeof x->graph);
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    op->run = run_graph;
    op->drop = drop_graph;
    x->graph->users++;
    return sim_put(s, op);
}

SIM_API(SIM_CONTEXT, cuGraphUpload, (void *handle, void *stream), (handle, stream)) {
    return sim_find(SIM_EXEC, handle) && sim_stream_of(stream) ? CUDASIM_SUCCESS : CUDASIM_INVALID_HANDLE;
}
