/* The tree behind `mpc summary`. Rows are what has parameters or multiply-adds, and the blocks around them; names are
 * paths, so a row's parent is its path up to the last dot. The graph as written says what there is, in which shape; the
 * graph with decisions says how it is computed, and holds the backward pass, which counts for the step. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/explain_value.h"
#include "driver/summary.h"
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"
#include "runtime/numbered.h"

static bool out_of_memory(const mpc_summary *s) {
    mpc_error(s->session->sink, "E901", "out of memory");
    return false;
}

/* ---- rows ---- */

static void link_row(mpc_summary *s, uint32_t row) {
    mpc_summary_row *r = &s->rows.data[row];
    if (r->parent == MPC_NONE) return;
    mpc_summary_row *p = &s->rows.data[r->parent];
    if (p->last_child == MPC_NONE) p->first_child = row;
    else s->rows.data[p->last_child].next = row;
    p->last_child = row;
}

static uint32_t add_row(mpc_summary *s, const char *path, size_t length, uint32_t parent) {
    char *own = mpc_arena_strndup(s->arena, path, length);
    uint32_t row = (uint32_t)s->rows.count;
    if (!own || !mpc_map_set(s->by_path, own, row)) return MPC_NONE;
    mpc_summary_row r = {.path = own,
                         .label = own,
                         .parent = parent,
                         .first_child = MPC_NONE,
                         .last_child = MPC_NONE,
                         .next = MPC_NONE,
                         .node = MPC_NONE};
    if (parent != MPC_NONE) {
        r.depth = s->rows.data[parent].depth + 1;
        r.label = own + strlen(s->rows.data[parent].path) + 1;
    }
    if (!mpc_array_push(&s->rows, r)) return MPC_NONE;
    link_row(s, row);
    return row;
}

/* The row of a path, made with all rows above it; MPC_NONE: out of memory. */
static uint32_t row_of(mpc_summary *s, const char *path) {
    uint32_t row = MPC_NONE;
    if (mpc_map_get(s->by_path, path, &row)) return row;
    uint32_t parent = MPC_NONE;
    for (size_t at = 0;; at++) {
        at += strcspn(path + at, ".");
        char *part = mpc_arena_strndup(s->arena, path, at);
        if (!part) return MPC_NONE;
        if (!mpc_map_get(s->by_path, part, &row)) row = add_row(s, path, at, parent);
        if (row == MPC_NONE || !path[at]) return row;
        parent = row;
    }
}

uint32_t mpc_summary_first(const mpc_summary *s) { return s->rows.count ? 0 : MPC_NONE; }

uint32_t mpc_summary_next(const mpc_summary *s, uint32_t row) {
    const mpc_summary_row *r = &s->rows.data[row];
    if (r->first_child != MPC_NONE) return r->first_child;
    while (r->next == MPC_NONE && r->parent != MPC_NONE) r = &s->rows.data[r->parent];
    if (r->next != MPC_NONE) return r->next;
    for (uint32_t i = (uint32_t)(r - s->rows.data) + 1; i < s->rows.count; i++) /* the next one without parent */
        if (s->rows.data[i].parent == MPC_NONE) return i;
    return MPC_NONE;
}

/* ---- parameters ---- */

/* "stem.conv.weight" belongs to "stem.conv", a name without dot to itself. */
static uint32_t owner_of(mpc_summary *s, const char *name) {
    const char *dot = strrchr(name, '.');
    char *path = dot ? mpc_arena_strndup(s->arena, name, (size_t)(dot - name)) : mpc_arena_strdup(s->arena, name);
    return path ? row_of(s, path) : MPC_NONE;
}

static void count_up(mpc_summary *s, uint32_t row, uint64_t elements, bool trains) {
    for (; row != MPC_NONE; row = s->rows.data[row].parent) {
        s->rows.data[row].parameters += elements;
        if (trains) s->rows.data[row].trainable += elements;
    }
    s->parameters += elements;
    if (trains) s->trainable += elements;
}

static bool add_parameter(mpc_summary *s, mpc_node_id id) {
    const mpc_graph *g = s->parsed;
    const mpc_node *n = &g->nodes[id];
    mpc_summary_param p = {.name = mpc_attr_str(g, n, "name"), .type = mpc_value_type(g, mpc_result(n, 0)), .node = id};
    uint32_t row = owner_of(s, p.name);
    if (row == MPC_NONE || !mpc_array_push(&s->params, p)) return false;
    count_up(s, row, (uint64_t)mpc_type_elements(p.type), mpc_attr_bool(g, n, "trainable"));
    return true;
}

/* ---- multiply-adds and formats ---- */

static double products_of(const mpc_graph *decided, mpc_node_id id) {
    mpc_op_size z;
    const mpc_op *op = mpc_node_op(decided, id);
    if (op->cls != MPC_CLASS_LOW || op->plugin || !mpc_op_size_find(decided, id, false, &z)) return 0;
    return z.batch * z.extent[0] * z.extent[1] * z.extent[2];
}

/* The row of the layer whose parameter the op reads, when the op has a name elsewhere: a value's, or that of another
 * call of the layer. MPC_NONE: there is none; a parameter of no layer, as `param` makes it, stays beside its reader. */
static uint32_t layer_beside(mpc_summary *s, mpc_node_id id) {
    const mpc_graph *g = s->parsed;
    const mpc_node *n = &g->nodes[id];
    const char *name = mpc_value_name(g, n->result_begin);
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *state = mpc_producer(g, mpc_operand(g, n, i));
        bool is_layers = mpc_is_param_state(g, state) && strchr(mpc_attr_str(g, state, "name"), '.');
        uint32_t row = is_layers ? owner_of(s, mpc_attr_str(g, state, "name")) : MPC_NONE;
        size_t length = row == MPC_NONE ? 0 : strlen(s->rows.data[row].path);
        bool around = length > 0 && strncmp(name, s->rows.data[row].path, length) == 0 && name[length] == '.';
        if (length > 0 && !around) return row;
    }
    return MPC_NONE;
}

static uint32_t row_of_op(mpc_summary *s, mpc_node_id id) {
    uint32_t layer = layer_beside(s, id);
    return layer != MPC_NONE ? layer : row_of(s, mpc_value_name(s->parsed, s->parsed->nodes[id].result_begin));
}

/* An op of the graph as written: a row when it multiplies. */
static bool add_op(mpc_summary *s, mpc_node_id id) {
    mpc_node_id planned;
    bool found = mpc_map_get(s->planned, mpc_value_name(s->parsed, s->parsed->nodes[id].result_begin), &planned);
    double products = found ? products_of(s->decided, planned) : 0;
    if (!(products > 0)) return true;
    s->forward += products;
    uint32_t row = row_of_op(s, id);
    if (row == MPC_NONE) return false;
    if (s->rows.data[row].node == MPC_NONE) {
        s->rows.data[row].node = id;
        s->rows.data[row].shape = mpc_value_type(s->parsed, s->parsed->nodes[id].result_begin);
    }
    for (; row != MPC_NONE; row = s->rows.data[row].parent) s->rows.data[row].products += products;
    return true;
}

static bool name_nodes(mpc_map *map, const mpc_graph *g) {
    bool ok = true;
    for (mpc_node_id i = 0; ok && i < g->node_count; i++)
        if (g->nodes[i].result_count > 0) ok = mpc_map_set(map, mpc_value_name(g, g->nodes[i].result_begin), i);
    return ok;
}

static bool list_rows(mpc_summary *s) {
    const mpc_graph *g = s->parsed;
    bool ok = name_nodes(s->planned, s->decided);
    for (mpc_node_id i = 0; ok && i < g->node_count; i++)
        ok = mpc_is_param_state(g, &g->nodes[i]) ? add_parameter(s, i) : add_op(s, i);
    for (mpc_node_id i = 0; i < s->decided->node_count; i++) s->step += products_of(s->decided, i);
    return ok || out_of_memory(s);
}

/* ---- what each row is ---- */

/* A row without an op of its name that holds a parameter, such as a table that is read elsewhere: its first reader. */
static void take_reader(mpc_summary *s, mpc_node_id reader) {
    const mpc_graph *g = s->parsed;
    const mpc_node *n = &g->nodes[reader];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *state = mpc_producer(g, mpc_operand(g, n, i));
        if (!mpc_is_param_state(g, state)) continue;
        uint32_t row = owner_of(s, mpc_attr_str(g, state, "name"));
        if (row == MPC_NONE || s->rows.data[row].node != MPC_NONE || s->rows.data[row].first_child != MPC_NONE)
            continue;
        s->rows.data[row].node = reader;
        s->rows.data[row].shape = mpc_value_type(g, mpc_result(n, 0));
    }
}

/* A block's shape is that of the last value inside it. */
static void shape_blocks(mpc_summary *s, const char *name, const mpc_type *type, mpc_str *path) {
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        uint32_t row;
        mpc_str_clear(path);
        mpc_str_append_n(path, name, (size_t)(dot - name));
        if (!path->failed && mpc_map_get(s->by_path, path->data, &row) && s->rows.data[row].node == MPC_NONE)
            s->rows.data[row].shape = type;
    }
}

static void describe_rows(mpc_summary *s, mpc_str *path) {
    const mpc_graph *g = s->parsed;
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        uint32_t row;
        if (n->op == MPC_OP_state || !mpc_map_get(s->by_path, mpc_value_name(g, n->result_begin), &row)) continue;
        if (s->rows.data[row].node == MPC_NONE) s->rows.data[row].node = i;
        s->rows.data[row].shape = mpc_value_type(g, mpc_result(n, 0));
    }
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op == MPC_OP_state || n->op == MPC_OP_const) continue;
        take_reader(s, i);
        shape_blocks(s, mpc_value_name(g, n->result_begin), mpc_value_type(g, mpc_result(n, 0)), path);
    }
}

/* Rows whose name is a number among calls of one block. */
static void mark_numbered(mpc_summary *s, mpc_str *path) {
    const mpc_graph *g = s->parsed;
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const char *list = mpc_is_param_state(g, &g->nodes[i]) ? mpc_attr_str(g, &g->nodes[i], "numbered") : "";
        mpc_numbered n;
        while (mpc_numbered_next(&list, &n))
            for (uint64_t k = 0; k < n.count; k++) {
                uint32_t row;
                mpc_str_clear(path);
                mpc_str_printf(path, "%.*s.%llu", (int)n.length, n.name, (unsigned long long)k);
                if (!path->failed && mpc_map_get(s->by_path, path->data, &row)) s->rows.data[row].numbered = n.count;
            }
    }
}

static void decide_rows(mpc_summary *s) {
    const mpc_graph *g = s->parsed, *d = s->decided;
    for (size_t i = 0; d->decisions && i < s->rows.count; i++) {
        mpc_summary_row *r = &s->rows.data[i];
        mpc_node_id id;
        if (r->node == MPC_NONE) continue;
        r->decided = mpc_map_get(s->planned, mpc_value_name(g, g->nodes[r->node].result_begin), &id);
        if (!r->decided) continue;
        r->decision = d->decisions[id];
        r->stored = mpc_stored_format(d, id);
    }
}

/* ---- memory ---- */

static bool measure_memory(mpc_summary *s) {
    mpc_session *session = s->session;
    mpc_graph *g = mpc_session_graph(session, MPC_PHASE_TRAIN, session->train->batch, MPC_STAGE_FINAL);
    mpc_program *program = g ? mpc_device_program(session->device, g) : NULL;
    for (uint32_t i = 0; program && i < program->buffer_count; i++)
        if (program->buffers[i].is_state) s->bytes[program->buffers[i].cls] += program->buffers[i].bytes;
    if (program) s->arena_bytes = program->arena_bytes;
    mpc_program_destroy(program);
    mpc_graph_destroy(g);
    return program != NULL;
}

bool mpc_summary_make(mpc_summary *s, mpc_session *session) {
    *s = (mpc_summary){
        .session = session, .arena = mpc_arena_create(), .by_path = mpc_map_create(), .planned = mpc_map_create()};
    if (!s->arena || !s->by_path || !s->planned) return out_of_memory(s);
    s->parsed = mpc_session_graph(session, MPC_PHASE_TRAIN, session->train->batch, MPC_STAGE_PARSED);
    s->decided =
        s->parsed ? mpc_session_graph(session, MPC_PHASE_TRAIN, session->train->batch, MPC_STAGE_DECIDED) : NULL;
    if (!s->decided || !list_rows(s)) return false;
    mpc_str path = {0};
    describe_rows(s, &path);
    mark_numbered(s, &path);
    mpc_str_free(&path);
    decide_rows(s);
    return measure_memory(s);
}

void mpc_summary_deinit(mpc_summary *s) {
    mpc_graph_destroy(s->parsed);
    mpc_graph_destroy(s->decided);
    mpc_array_free(&s->rows);
    mpc_array_free(&s->params);
    mpc_map_destroy(s->by_path);
    mpc_map_destroy(s->planned);
    mpc_arena_destroy(s->arena);
}
