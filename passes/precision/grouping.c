/* Lowers the graph as it is, all f32, up to `fuse`, and maps what crosses borders back: values keep their names through lowering, so a name found in
 * both graphs is one value; a primitive without such a name belongs to the node whose result it leads to. Groups depend on ops and shapes only, so these
 * are the groups that the cast graph will have. Reshapes are names for the same storage, hence looked through. Everything here is one walk over nodes. */
#include "base/alloc.h"
#include "base/array.h"
#include "passes/cse.h"
#include "passes/expand_build.h"
#include "passes/passes.h"
#include "passes/precision/grouping.h"
#include "passes/precision/precision.h"

typedef struct mapper {
    const mpc_graph *g, *low; /* asked about; lowered */
    mpc_arena *arena;
    mpc_grouping *out;
    mpc_value_id *upper; /* by lowered value: the value of `g` with its name, MPC_NONE */
    mpc_value_id *root;  /* by lowered value: behind reshapes */
    mpc_value_id *kept;  /* by lowered value that is a root: the value of `g` that stands for its storage */
    mpc_node_id *owner;  /* by lowered node: node of `g` */
    MPC_ARRAY(mpc_crossing) found;
} mapper;

static void *make(mapper *m, size_t count, size_t size) { return mpc_arena_alloc(m->arena, (count + 1) * size); }

/* --- lowering: @clean,expand,@clean,fuse, without names for what lies inside --- */

static mpc_graph *clean(const mpc_graph *in, mpc_pass_env *env) {
    mpc_graph *folded = mpc_pass_fold(in, NULL, env);
    mpc_graph *out = folded == NULL ? NULL : mpc_cse_and_dce(folded);
    mpc_graph_destroy(folded);
    return out;
}

static mpc_graph *lower(const mpc_graph *g, bool keep_attention, mpc_pass_env *env) {
    mpc_pass_env own = {.ctx = env->ctx};
    mpc_graph alias = *g;
    alias.unnamed = true;
    mpc_graph *whole = clean(&alias, &own);
    mpc_graph *expanded = whole == NULL ? NULL : mpc_expand_graph(whole, keep_attention);
    mpc_graph *primitive = expanded == NULL ? NULL : clean(expanded, &own);
    mpc_graph *out = primitive == NULL ? NULL : mpc_pass_fuse(primitive, NULL, &own);
    mpc_graph_destroy(whole);
    mpc_graph_destroy(expanded);
    mpc_graph_destroy(primitive);
    return out;
}

/* --- names and storage --- */

static bool match_names(mapper *m) {
    mpc_sym most = 0;
    for (uint32_t v = 0; v < m->g->value_count; v++)
        if (m->g->values[v].name > most) most = m->g->values[v].name;
    mpc_value_id *by_name = make(m, (size_t)most + 1, sizeof *by_name);
    m->upper = make(m, m->low->value_count, sizeof *m->upper);
    if (by_name == NULL || m->upper == NULL) return false;
    for (uint32_t v = 0; v < m->g->value_count; v++) by_name[m->g->values[v].name] = v + 1;
    for (uint32_t w = 0; w < m->low->value_count; w++) {
        mpc_sym name = m->low->values[w].name;
        m->upper[w] = name <= most && by_name[name] != 0 ? by_name[name] - 1 : MPC_NONE;
    }
    return true;
}

static bool find_storage(mapper *m) {
    const mpc_graph *low = m->low;
    m->root = make(m, low->value_count, sizeof *m->root);
    m->kept = make(m, low->value_count, sizeof *m->kept);
    if (m->root == NULL || m->kept == NULL) return false;
    for (uint32_t w = 0; w < low->value_count; w++) {
        const mpc_node *n = mpc_producer(low, w);
        m->root[w] = n != NULL && n->op == MPC_OP_reshape ? m->root[mpc_operand(low, n, 0)] : w;
        m->kept[w] = MPC_NONE;
    }
    for (uint32_t w = 0; w < low->value_count; w++) {
        mpc_value_id *kept = &m->kept[m->root[w]];
        if (m->upper[w] == MPC_NONE) continue;
        if (*kept == MPC_NONE) *kept = m->upper[w];
        m->out->storage[m->upper[w]] = *kept;
    }
    return true;
}

/* --- owners --- */

static mpc_node_id named_owner(const mapper *m, const mpc_node *n) {
    for (uint32_t r = 0; r < n->result_count; r++) {
        mpc_value_id v = m->upper[mpc_result(n, r)];
        if (v != MPC_NONE && m->g->values[v].producer != MPC_NONE) return m->g->values[v].producer;
    }
    return MPC_NONE;
}

static bool is_kernel(const mpc_graph *low, mpc_node_id u) {
    mpc_op_kind kind = mpc_node_op(low, u)->kind;
    return kind == MPC_KIND_MATMUL || kind == MPC_KIND_CONV || kind == MPC_KIND_COMPOSITE;
}

/* `fold` gave a product the activation or the views that read it: the product's own node owns it, and its result is no more. */
static mpc_node_id unfold(mapper *m, mpc_node_id u, mpc_node_id owner) {
    const mpc_graph *g = m->g;
    mpc_node_id product = owner;
    if (!is_kernel(m->low, u)) return owner;
    while (product != MPC_NONE && g->nodes[product].operand_count > 0) {
        const mpc_op *op = mpc_node_op(g, product);
        if (op->cls == MPC_CLASS_LOW) break;
        if (op->cls != MPC_CLASS_FOLLOW && op->kind != MPC_KIND_VIEW) return owner;
        product = g->values[mpc_operand(g, &g->nodes[product], 0)].producer;
    }
    if (product == MPC_NONE || mpc_node_op(g, product)->cls != MPC_CLASS_LOW) return owner;
    for (mpc_node_id at = owner; at != product;) {
        const mpc_node *n = &g->nodes[at];
        if (mpc_node_op(g, at)->cls == MPC_CLASS_FOLLOW) m->out->folded[mpc_result(n, 0)] = mpc_operand(g, n, 0);
        at = g->values[mpc_operand(g, n, 0)].producer;
    }
    return product;
}

static bool find_owners(mapper *m) {
    const mpc_graph *low = m->low;
    mpc_uses uses = mpc_graph_uses(low, m->arena);
    m->owner = make(m, low->node_count, sizeof *m->owner);
    if (uses.begin == NULL || m->owner == NULL) return false;
    for (mpc_node_id u = low->node_count; u-- > 0;) {
        const mpc_node *n = &low->nodes[u];
        mpc_node_id owner = named_owner(m, n);
        for (uint32_t r = 0; r < n->result_count && owner == MPC_NONE; r++) {
            mpc_value_id w = mpc_result(n, r);
            if (uses.begin[w] < uses.begin[w + 1]) owner = m->owner[uses.users[uses.begin[w]]];
        }
        m->owner[u] = owner == MPC_NONE ? MPC_NONE : unfold(m, u, owner);
    }
    return true;
}

/* --- crossings --- */

static bool is_dataless(const mpc_graph *low, mpc_value_id w) {
    const mpc_node *n = mpc_producer(low, w);
    return !mpc_format_is_float(mpc_value_format(low, w)) ||
           (n != NULL && (n->op == MPC_OP_const || n->op == MPC_OP_range));
}

static uint32_t group_of(const mpc_graph *low, mpc_value_id w) {
    mpc_node_id producer = low->values[w].producer;
    return producer == MPC_NONE ? 0 : low->groups[producer];
}

static bool read_operand(mapper *m, mpc_node_id u, mpc_value_id w) {
    const mpc_graph *low = m->low;
    mpc_value_id root = m->root[w], value = m->kept[root];
    uint32_t from = group_of(low, root), to = low->groups[u];
    mpc_node_id owner = m->owner[u];
    if (is_dataless(low, root) || (from == to && from != 0) || owner == MPC_NONE) return true;
    if (value == MPC_NONE) { /* inside a composite */
        if (is_kernel(low, u)) m->out->inner[owner] += (double)mpc_type_elements(mpc_value_type(low, root));
        return true;
    }
    mpc_crossing c = {.value = value, .reader = owner, .group = to, .kernel = is_kernel(low, u)};
    return mpc_array_push(&m->found, c);
}

static bool find_crossings(mapper *m) {
    const mpc_graph *low = m->low;
    for (mpc_node_id u = 0; u < low->node_count; u++) {
        const mpc_node *n = &low->nodes[u];
        if (low->groups[u] > m->out->group_count) m->out->group_count = low->groups[u];
        for (uint32_t i = 0; n->op != MPC_OP_reshape && i < n->operand_count; i++)
            if (!read_operand(m, u, mpc_operand(low, n, i))) return false;
        for (uint32_t r = 0; r < n->result_count; r++) {
            mpc_value_id v = m->kept[mpc_result(n, r)];
            mpc_op_kind kind = mpc_node_op(low, u)->kind;
            if (v != MPC_NONE) m->out->loop[v] = kind == MPC_KIND_EWISE || kind == MPC_KIND_REDUCE || kind == MPC_KIND_VIEW;
        }
    }
    return true;
}

/* By value, each (value, reader, group) once. */
static bool sort_crossings(mapper *m) {
    mpc_grouping *out = m->out;
    uint32_t values = m->g->value_count, count = (uint32_t)m->found.count;
    uint32_t *at = make(m, values + 1, sizeof *at);
    mpc_crossing *sorted = make(m, count, sizeof *sorted);
    if (at == NULL || sorted == NULL) return false;
    for (uint32_t i = 0; i < count; i++) at[m->found.data[i].value + 1]++;
    for (uint32_t v = 0; v < values; v++) at[v + 1] += at[v];
    for (uint32_t i = 0; i < count; i++) sorted[at[m->found.data[i].value]++] = m->found.data[i];
    uint32_t kept = 0, from = 0;
    for (uint32_t v = 0; v < values; v++) { /* at[v] is the end of v's by now */
        out->begin[v] = kept;
        for (; from < at[v]; from++) {
            const mpc_crossing *c = &sorted[from], *last = kept > out->begin[v] ? &sorted[kept - 1] : NULL;
            if (last == NULL || last->reader != c->reader || last->group != c->group) sorted[kept++] = *c;
        }
    }
    out->begin[values] = kept;
    out->crossings = sorted;
    return true;
}

static bool map_back(mapper *m) {
    const mpc_graph *g = m->g;
    mpc_grouping *out = m->out;
    out->begin = make(m, (size_t)g->value_count + 1, sizeof *out->begin);
    out->storage = make(m, g->value_count, sizeof *out->storage);
    out->loop = make(m, g->value_count, sizeof *out->loop);
    out->folded = make(m, g->value_count, sizeof *out->folded);
    out->inner = make(m, g->node_count, sizeof *out->inner);
    if (!out->begin || !out->storage || !out->loop || !out->folded || !out->inner) return false;
    for (uint32_t v = 0; v < g->value_count; v++) {
        out->storage[v] = v;
        out->folded[v] = MPC_NONE;
        out->loop[v] = g->values[v].producer != MPC_NONE;
    }
    return match_names(m) && find_storage(m) && find_owners(m) && find_crossings(m) && sort_crossings(m);
}

mpc_grouping mpc_group_uncast(const mpc_graph *g, bool keep_attention, mpc_pass_env *env, mpc_arena *arena) {
    mpc_grouping out = {0};
    mpc_graph *low = lower(g, keep_attention, env);
    mapper m = {.g = g, .low = low, .arena = arena, .out = &out};
    if (low == NULL) return out;
    out.ok = map_back(&m);
    if (!out.ok) mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    mpc_array_free(&m.found);
    mpc_graph_destroy(low);
    return out;
}
