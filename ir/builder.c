/* The state of a graph in the making: arrays that grow in the graph's arena, unique names, the sticky error, nexts and
 * outputs. Old copies of a grown array stay in the arena, so pointers that a caller took from the graph may go stale
 * but never dangle. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/attrs.h"
#include "ir/builder_internal.h"
#include "ir/context_internal.h"

mpc_builder *mpc_builder_create(mpc_context *ctx, const char *graph_name) {
    mpc_builder *b = mpc_alloc(sizeof *b);
    mpc_arena *arena = mpc_arena_create();
    mpc_graph *graph = arena ? mpc_arena_alloc(arena, sizeof *graph) : NULL;
    if (!b || !graph) {
        mpc_error(ctx->sink, "E901", "out of memory");
        mpc_arena_destroy(arena);
        mpc_free(b);
        return NULL;
    }
    graph->ctx = ctx;
    graph->arena = arena;
    *b = (mpc_builder){.ctx = ctx, .graph = graph};
    graph->name = mpc_intern(ctx, graph_name);
    if (!graph->name && graph_name[0]) mpc_builder_no_memory(b);
    /* Never NULL, so that a node without operands or attributes may point to its none of them. */
    (void)(mpc_builder_grow_array(b, MPC_GROW_ATTRS, attrs, attr_total, 1) &&
           mpc_builder_grow_array(b, MPC_GROW_OPERANDS, operands, operand_total, 1));
    return b;
}

/* Everything but the graph. */
static void free_builder(mpc_builder *b) {
    mpc_idmap_free(&b->names);
    mpc_free(b->taken);
    mpc_idmap_free(&b->op_numbers);
    mpc_idmap_free(&b->nexts);
    mpc_idmap_free(&b->outputs);
    mpc_array_free(&b->types);
    mpc_free(b);
}

void mpc_builder_destroy(mpc_builder *b) {
    if (!b) return;
    mpc_graph_destroy(b->graph);
    free_builder(b);
}

static bool cover_decisions(mpc_builder *b, uint32_t count);

mpc_graph *mpc_builder_finish(mpc_builder *b) {
    if (!b) return NULL;
    if (b->graph->decisions) cover_decisions(b, b->graph->node_count);
    if (b->failed) {
        mpc_builder_destroy(b);
        return NULL;
    }
    mpc_graph *graph = b->graph;
    free_builder(b);
    return graph;
}

bool mpc_builder_failed(const mpc_builder *b) { return !b || b->failed; }
const mpc_graph *mpc_builder_graph(const mpc_builder *b) { return b->graph; }
mpc_context *mpc_builder_context(const mpc_builder *b) { return b->ctx; }
const mpc_type *mpc_builder_type(const mpc_builder *b, mpc_value_id value) {
    return mpc_type_get(b->ctx, value < b->graph->value_count ? b->graph->values[value].type : 0);
}

static void send_failure(const mpc_builder *b, const char *text) {
    if (!b->ctx->sink || !b->ctx->sink->emit) return;
    mpc_str place = {0};
    if (b->loc.file) mpc_str_printf(&place, "%s:%u:%u", mpc_sym_text(b->ctx, b->loc.file), b->loc.line, b->loc.column);
    mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = "E900", .message = text, .place = place.data};
    b->ctx->sink->emit(b->ctx->sink->user, &diag);
    mpc_str_free(&place);
}

mpc_status mpc_builder_fail(mpc_builder *b, const char *format, ...) {
    if (b->failed) return MPC_FAILED;
    b->failed = true;
    mpc_str text = {0};
    va_list args;
    va_start(args, format);
    mpc_str_vprintf(&text, format, args);
    va_end(args);
    send_failure(b, text.failed ? format : mpc_str_cstr(&text));
    mpc_str_free(&text);
    return MPC_FAILED;
}

void mpc_builder_no_memory(mpc_builder *b) {
    if (b->failed) return;
    b->failed = true;
    mpc_error(b->ctx->sink, "E901", "out of memory");
}

void mpc_builder_set_loc(mpc_builder *b, mpc_loc loc) { b->loc = loc; }
void mpc_builder_set_origin(mpc_builder *b, mpc_sym origin) { b->origin = origin; }
void mpc_builder_set_why(mpc_builder *b, mpc_sym why) { b->why = why; }

void mpc_builder_set_name(mpc_builder *b, const char *name) {
    b->pending_name = mpc_intern(b->ctx, name);
    if (!b->pending_name && name[0]) mpc_builder_no_memory(b);
}

void mpc_builder_set_name_of(mpc_builder *b, const mpc_graph *from, mpc_value_id value) {
    b->pending_name = from->values[value].name;
}

void mpc_builder_reserve(mpc_builder *b, const mpc_graph *like) {
    b->graph->unnamed = like->unnamed;
    (void)(mpc_builder_grow_array(b, MPC_GROW_NODES, nodes, node_count, like->node_count) &&
           mpc_builder_grow_array(b, MPC_GROW_VALUES, values, value_count, like->value_count) &&
           mpc_builder_grow_array(b, MPC_GROW_OPERANDS, operands, operand_total, like->operand_total) &&
           mpc_builder_grow_array(b, MPC_GROW_ATTRS, attrs, attr_total, like->attr_total));
    if (!like->unnamed && !mpc_idmap_reserve(&b->names, like->value_count)) mpc_builder_no_memory(b);
}

bool mpc_builder_grow(mpc_builder *b, int which, void **data, uint32_t count, uint32_t extra, size_t size) {
    if (b->failed) return false;
    uint32_t capacity = b->graph->capacity[which];
    if (extra <= capacity - count) return true;
    uint64_t wanted = capacity < 8 ? 16 : 2 * (uint64_t)capacity;
    if (wanted < (uint64_t)count + extra) wanted = (uint64_t)count + extra;
    void *grown = wanted < UINT32_MAX ? mpc_arena_alloc(b->graph->arena, (size_t)wanted * size) : NULL;
    if (!grown) {
        mpc_builder_no_memory(b);
        return false;
    }
    if (count) memcpy(grown, *data, count * size);
    *data = grown;
    b->graph->capacity[which] = (uint32_t)wanted;
    return true;
}

/* Tries "name:2", "name:3", ... from the last number that was tried. */
static mpc_sym add_suffix(mpc_builder *b, const char *name, uint32_t *last) {
    for (;;) {
        char small[128];
        mpc_str big = {0};
        size_t length = strlen(name);
        const char *text = small;
        ++*last;
        if (length < sizeof small - 16) {
            snprintf(small, sizeof small, "%s:%u", name, *last);
        } else {
            mpc_str_printf(&big, "%s:%u", name, *last);
            text = mpc_str_cstr(&big);
        }
        mpc_sym sym = big.failed ? 0 : mpc_intern(b->ctx, text);
        mpc_str_free(&big);
        if (!sym || !mpc_idmap_find(&b->names, sym)) return sym;
    }
}

mpc_sym mpc_builder_unique_name(mpc_builder *b, const char *name) {
    if (b->failed) return 0;
    if (!name[0]) name = "v";
    return mpc_builder_unique_sym(b, mpc_intern(b->ctx, name));
}

static bool cover_symbols(mpc_builder *b) {
    uint32_t words = (uint32_t)(b->ctx->symbols.count / 64 + 1);
    uint64_t *grown = mpc_realloc(b->taken, words * sizeof *grown);
    if (!grown) {
        mpc_builder_no_memory(b);
        return false;
    }
    memset(grown + b->taken_words, 0, (words - b->taken_words) * sizeof *grown);
    b->taken = grown;
    b->taken_words = words;
    return true;
}

/* The first one has the name. */
static mpc_sym take_name(mpc_builder *b, mpc_sym sym) {
    if (sym / 64 >= b->taken_words && !cover_symbols(b)) return 0;
    uint64_t *word = &b->taken[sym / 64], bit = UINT64_C(1) << sym % 64;
    if (*word & bit) return 0;
    *word |= bit;
    return sym;
}

mpc_sym mpc_builder_unique_sym(mpc_builder *b, mpc_sym sym) {
    if (b->failed) return 0;
    if (b->graph->unnamed) return sym ? take_name(b, sym) : 0;
    uint32_t *last = mpc_idmap_find(&b->names, sym);
    if (sym && last) sym = add_suffix(b, mpc_sym_text(b->ctx, sym), last);
    if (!sym || !mpc_idmap_add(&b->names, sym, 1)) {
        mpc_builder_no_memory(b);
        return 0;
    }
    return sym;
}

bool mpc_builder_add_operands(mpc_builder *b, const mpc_value_id *operands, uint32_t count) {
    mpc_graph *g = b->graph;
    if (!mpc_builder_grow_array(b, MPC_GROW_OPERANDS, operands, operand_total, count)) return false;
    for (uint32_t i = 0; i < count; i++) g->operands[g->operand_total++] = operands[i];
    return true;
}

bool mpc_builder_add_attrs(mpc_builder *b, const mpc_attr *attrs, uint32_t count, uint32_t *begin) {
    mpc_graph *g = b->graph;
    *begin = g->attr_total;
    if (!mpc_builder_grow_array(b, MPC_GROW_ATTRS, attrs, attr_total, count)) return false;
    for (uint32_t i = 0; i < count; i++) {
        mpc_attr copy = attrs[i];
        if (copy.kind == MPC_ATTR_INTS && copy.ints.count) {
            size_t bytes = copy.ints.count * sizeof *copy.ints.data;
            int64_t *data = mpc_arena_alloc(g->arena, bytes);
            if (!data) {
                mpc_builder_no_memory(b);
                return false;
            }
            memcpy(data, copy.ints.data, bytes);
            copy.ints.data = data;
        }
        g->attrs[g->attr_total++] = copy;
    }
    return true;
}

mpc_value_id mpc_builder_add_node(mpc_builder *b, const mpc_node *node, const mpc_type_id *types, const mpc_sym *names,
                                  uint32_t count) {
    mpc_graph *g = b->graph;
    if (!mpc_builder_grow_array(b, MPC_GROW_NODES, nodes, node_count, 1)) return MPC_NONE;
    if (!mpc_builder_grow_array(b, MPC_GROW_VALUES, values, value_count, count)) return MPC_NONE;
    mpc_node *added = &g->nodes[g->node_count];
    *added = *node;
    added->result_begin = g->value_count;
    added->result_count = count;
    for (uint32_t i = 0; i < count; i++)
        g->values[g->value_count++] = (mpc_value){types[i], names[i], g->node_count, i};
    g->node_count++;
    return added->result_begin;
}

mpc_value_id mpc_builder_add_input(mpc_builder *b, mpc_sym name, mpc_type_id type, const mpc_attr *attrs,
                                   uint32_t count) {
    mpc_graph *g = b->graph;
    mpc_input input = {.value = g->value_count, .attr_count = count};
    if (!mpc_builder_add_attrs(b, attrs, count, &input.attr_begin)) return MPC_NONE;
    if (!mpc_builder_grow_array(b, MPC_GROW_INPUTS, inputs, input_count, 1)) return MPC_NONE;
    if (!mpc_builder_grow_array(b, MPC_GROW_VALUES, values, value_count, 1)) return MPC_NONE;
    g->values[g->value_count++] = (mpc_value){type, name, MPC_NONE, g->input_count};
    g->inputs[g->input_count++] = input;
    return input.value;
}

static bool check_value(mpc_builder *b, mpc_value_id value, const char *what) {
    if (b->failed) return false;
    if (value < b->graph->value_count) return true;
    mpc_builder_fail(b, "%s is no value of the graph", what);
    return false;
}

void mpc_build_next(mpc_builder *b, mpc_value_id state, mpc_value_id value) {
    if (!check_value(b, state, "the state of a next") || !check_value(b, value, "the next value of a state")) return;
    mpc_graph *g = b->graph;
    uint32_t *index = mpc_idmap_find(&b->nexts, state);
    if (index) {
        g->nexts[*index].value = value;
        return;
    }
    if (!mpc_builder_grow_array(b, MPC_GROW_NEXTS, nexts, next_count, 1)) return;
    if (!mpc_idmap_add(&b->nexts, state, g->next_count)) {
        mpc_builder_no_memory(b);
        return;
    }
    g->nexts[g->next_count++] = (mpc_next){state, value};
}

void mpc_build_output(mpc_builder *b, const char *name, mpc_value_id value) {
    if (!check_value(b, value, "an output")) return;
    mpc_graph *g = b->graph;
    mpc_sym sym = mpc_intern(b->ctx, name);
    uint32_t *index = mpc_idmap_find(&b->outputs, sym);
    if (sym && index) {
        g->outputs[*index].value = value;
        return;
    }
    if (!mpc_builder_grow_array(b, MPC_GROW_OUTPUTS, outputs, output_count, 1)) return;
    if (!sym || !mpc_idmap_add(&b->outputs, sym, g->output_count)) {
        mpc_builder_no_memory(b);
        return;
    }
    g->outputs[g->output_count++] = (mpc_output){sym, value};
}

/* The table is as long as the nodes' array or longer. */
static bool cover_decisions(mpc_builder *b, uint32_t count) {
    mpc_graph *g = b->graph;
    if (b->failed) return false;
    if (g->decisions && count <= b->decision_capacity) return true;
    uint32_t capacity = g->capacity[MPC_GROW_NODES] > count ? g->capacity[MPC_GROW_NODES] : count;
    mpc_decision *grown = mpc_arena_alloc(g->arena, capacity * sizeof *grown);
    if (!grown) {
        mpc_builder_no_memory(b);
        return false;
    }
    if (g->decisions) memcpy(grown, g->decisions, b->decision_capacity * sizeof *grown);
    g->decisions = grown;
    b->decision_capacity = capacity;
    return true;
}

void mpc_build_decision(mpc_builder *b, mpc_value_id value, const mpc_decision *decision) {
    if (!check_value(b, value, "the value of a decision")) return;
    mpc_node_id node = b->graph->values[value].producer;
    if (node == MPC_NONE) {
        mpc_builder_fail(b, "a decision stands at a node, not at an input");
        return;
    }
    if (cover_decisions(b, node + 1)) b->graph->decisions[node] = *decision;
}
