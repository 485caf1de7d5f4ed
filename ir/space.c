/* Finds atoms and columns of a group. Full-sized values fix the atoms (the union of their suffix products must be a
 * chain of divisors); what smaller values vary over is then propagated between operands and results in both directions.
 * Nothing here looks at formats, so a cast never changes an answer. */
#include "ir/space.h"

#include <string.h>

typedef struct axis_map { /* of one value as one member sees it: atoms of each axis */
    bool known;
    mpc_atoms axis[MPC_MAX_RANK];
} axis_map;

typedef enum relation { /* between the axes of a member's operands and of its result */
                        BROADCAST,
                        RESHAPE,
                        REDUCE,
                        UNRELATED,
} relation;

typedef struct facts { /* of a member, looked up once */
    const mpc_type *result, *operand[MPC_SPACE_OPERANDS];
    uint32_t operand_count;
    relation relation;
    uint32_t reduced; /* of a reduction: bits of the axes that go */
    bool keep;
} facts;

typedef struct solver {
    const mpc_graph *g;
    const mpc_node_id *nodes;
    uint32_t count;
    mpc_space *s;
    int64_t size; /* N */
    facts facts[MPC_SPACE_NODES];
    axis_map result[MPC_SPACE_NODES], operand[MPC_SPACE_NODES][MPC_SPACE_OPERANDS];
    uint32_t maker[MPC_SPACE_NODES][MPC_SPACE_OPERANDS]; /* member that makes the operand, MPC_NONE: outside */
    bool conflict, changed;
} solver;

bool mpc_space_takes(const mpc_graph *g, mpc_node_id node) {
    const mpc_node *n = &g->nodes[node];
    mpc_op_kind kind = mpc_node_op(g, node)->kind;
    if (n->operand_count > MPC_SPACE_OPERANDS || n->result_count != 1) return false;
    if (mpc_value_format(g, mpc_result(n, 0)) == MPC_FMT_f64) return false;
    return kind == MPC_KIND_EWISE || kind == MPC_KIND_REDUCE || n->op == MPC_OP_reshape || n->op == MPC_OP_expand ||
           n->op == MPC_OP_random_uniform;
}

static const mpc_type *operand_type(const mpc_graph *g, mpc_node_id node, uint32_t i) {
    return mpc_value_type(g, mpc_operand(g, &g->nodes[node], i));
}

static const mpc_type *result_type(const mpc_graph *g, mpc_node_id node) {
    return mpc_value_type(g, mpc_result(&g->nodes[node], 0));
}

static bool is_reduce(const mpc_graph *g, mpc_node_id node) { return mpc_node_op(g, node)->kind == MPC_KIND_REDUCE; }

int64_t mpc_space_size(const mpc_graph *g, mpc_node_id node) {
    return mpc_type_elements(is_reduce(g, node) ? operand_type(g, node, 0) : result_type(g, node));
}

int64_t mpc_space_elements(const mpc_space *space, mpc_atoms atoms) {
    int64_t product = 1;
    for (uint32_t i = 0; i < space->atom_count; i++)
        if (atoms >> i & 1) product *= space->extent[i];
    return product;
}

int64_t mpc_space_stride(const mpc_space *space, mpc_atoms atoms, uint32_t i) {
    return mpc_space_elements(space, atoms & ~((2u << i) - 1));
}

static uint32_t axes_reduced(const mpc_graph *g, const mpc_node *n) {
    mpc_int_list axes = mpc_attr_ints(g, n, "axes");
    uint32_t bits = 0;
    for (uint32_t i = 0; i < axes.count; i++)
        if (axes.data[i] >= 0 && axes.data[i] < MPC_MAX_RANK) bits |= 1u << axes.data[i];
    return bits;
}

static void find_facts(const mpc_graph *g, mpc_node_id node, facts *f) {
    const mpc_node *n = &g->nodes[node];
    bool reduce = is_reduce(g, node);
    f->result = result_type(g, node);
    f->operand_count = n->operand_count;
    for (uint32_t i = 0; i < n->operand_count; i++) f->operand[i] = operand_type(g, node, i);
    f->relation = reduce                           ? REDUCE
                  : n->op == MPC_OP_reshape        ? RESHAPE
                  : n->op == MPC_OP_random_uniform ? UNRELATED
                                                   : BROADCAST;
    f->reduced = reduce ? axes_reduced(g, n) : 0;
    f->keep = reduce && mpc_attr_bool(g, n, "keep");
}

/* --- atoms --- */

typedef struct cut_list {
    int64_t at[64];
    uint32_t count;
} cut_list;

static bool add_cut(cut_list *cuts, int64_t at) {
    uint32_t i = 0;
    while (i < cuts->count && cuts->at[i] < at) i++;
    if (i < cuts->count && cuts->at[i] == at) return true;
    if (cuts->count == 64) return false;
    memmove(cuts->at + i + 1, cuts->at + i, (cuts->count - i) * sizeof *cuts->at);
    cuts->at[i] = at;
    cuts->count++;
    return true;
}

static bool cut_type(const solver *s, cut_list *cuts, const mpc_type *type) {
    if (mpc_type_elements(type) != s->size) return true;
    int64_t product = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        product *= type->dims[i];
        if (!add_cut(cuts, product)) return false;
    }
    return true;
}

static bool find_atoms(solver *s) {
    cut_list cuts = {.count = 0};
    if (s->size < 1 || !add_cut(&cuts, 1) || !add_cut(&cuts, s->size)) return false;
    for (uint32_t i = 0; i < s->count; i++) {
        const facts *f = &s->facts[i];
        if (!cut_type(s, &cuts, f->result)) return false;
        for (uint32_t j = 0; j < f->operand_count; j++)
            if (f->operand[j] != f->result && !cut_type(s, &cuts, f->operand[j])) return false;
    }
    mpc_space *sp = s->s;
    if (cuts.count - 1 > MPC_SPACE_ATOMS) return false;
    sp->atom_count = cuts.count - 1;
    for (uint32_t i = 0; i + 1 < cuts.count; i++) {
        if (cuts.at[i + 1] % cuts.at[i] != 0) return false;
        sp->extent[sp->atom_count - 1 - i] = cuts.at[i + 1] / cuts.at[i];
    }
    sp->all = (1u << sp->atom_count) - 1;
    return true;
}

/* --- which atoms each axis is --- */

/* Gives the atoms of `set`, in order, to the axes of `type`. */
static bool deal_atoms(const mpc_space *sp, mpc_atoms set, const mpc_type *type, axis_map *map) {
    uint32_t atom = 0;
    axis_map out = {.known = true};
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        int64_t have = 1;
        while (have < type->dims[axis]) {
            while (atom < sp->atom_count && !(set >> atom & 1)) atom++;
            if (atom == sp->atom_count) return false;
            have *= sp->extent[atom];
            out.axis[axis] |= 1u << atom++;
        }
        if (have != type->dims[axis]) return false;
    }
    *map = out;
    return true;
}

static mpc_atoms atoms_of(const axis_map *map) {
    mpc_atoms all = 0;
    for (uint32_t i = 0; i < MPC_MAX_RANK; i++) all |= map->axis[i];
    return all;
}

static void settle(solver *s, axis_map *map, const axis_map *found) {
    if (!map->known) {
        *map = *found;
        s->changed = true;
    } else if (memcmp(map->axis, found->axis, sizeof map->axis) != 0) {
        s->conflict = true;
    }
}

static void start_map(solver *s, const mpc_type *type, axis_map *map) {
    int64_t elements = mpc_type_elements(type);
    *map = (axis_map){.known = elements == 1};
    if (elements == s->size && !deal_atoms(s->s, s->s->all, type, map)) s->conflict = true;
}

/* Result axis = operand axis from the right; axes of extent 1 vary over nothing. */
static void spread_broadcast(solver *s, uint32_t i) {
    const facts *f = &s->facts[i];
    const mpc_type *rt = f->result;
    axis_map *result = &s->result[i], up = {.known = true};
    mpc_atoms missing = 0;
    for (uint32_t axis = 0; axis < rt->rank; axis++) missing |= rt->dims[axis] == 1 ? 0 : 1u << axis;
    for (uint32_t j = 0; j < f->operand_count; j++) {
        const mpc_type *ot = f->operand[j];
        axis_map *operand = &s->operand[i][j], down = {.known = true};
        uint32_t shift = rt->rank - ot->rank;
        for (uint32_t axis = 0; axis < ot->rank; axis++) {
            if (ot->dims[axis] == 1) continue;
            down.axis[axis] = result->axis[axis + shift];
            if (operand->known) up.axis[axis + shift] = operand->axis[axis];
            if (operand->known) missing &= ~(1u << (axis + shift));
        }
        if (result->known) settle(s, operand, &down);
    }
    if (missing == 0 && !result->known) settle(s, result, &up);
}

static void spread_reshape(solver *s, uint32_t i) {
    axis_map *result = &s->result[i], *operand = &s->operand[i][0], map;
    if (operand->known && !result->known) {
        if (deal_atoms(s->s, atoms_of(operand), s->facts[i].result, &map)) settle(s, result, &map);
        else s->conflict = true;
    } else if (result->known && !operand->known) {
        if (deal_atoms(s->s, atoms_of(result), s->facts[i].operand[0], &map)) settle(s, operand, &map);
        else s->conflict = true;
    }
}

static void spread_reduce(solver *s, uint32_t i) {
    const facts *f = &s->facts[i];
    const axis_map *operand = &s->operand[i][0];
    if (!operand->known) return;
    axis_map map = {.known = true};
    uint32_t at = 0;
    for (uint32_t axis = 0; axis < f->operand[0]->rank; axis++) {
        bool reduced = f->reduced >> axis & 1;
        if (!reduced) map.axis[at] = operand->axis[axis];
        if (!reduced || f->keep) at++;
    }
    settle(s, &s->result[i], &map);
}

static void spread_member(solver *s, uint32_t i) {
    for (uint32_t j = 0; j < s->facts[i].operand_count; j++) {
        if (s->maker[i][j] == MPC_NONE) continue;
        axis_map *made = &s->result[s->maker[i][j]], *seen = &s->operand[i][j];
        if (made->known) settle(s, seen, made);
        else if (seen->known) settle(s, made, seen);
    }
    relation r = s->facts[i].relation;
    if (r == REDUCE) spread_reduce(s, i);
    else if (r == RESHAPE) spread_reshape(s, i);
    else if (r == BROADCAST) spread_broadcast(s, i);
}

static uint32_t find_member(const solver *s, mpc_value_id value) {
    mpc_node_id producer = s->g->values[value].producer;
    uint32_t lo = 0, hi = s->count;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->nodes[mid] < producer) lo = mid + 1;
        else hi = mid;
    }
    return lo < s->count && s->nodes[lo] == producer ? lo : MPC_NONE;
}

/* Forwards and back, until a way finds nothing new: then all that is said of any member agrees. */
static void spread(solver *s) {
    do {
        s->changed = false;
        for (uint32_t i = 0; i < s->count && !s->conflict; i++) spread_member(s, i);
        if (!s->changed) return;
        s->changed = false;
        for (uint32_t i = s->count; i-- > 0 && !s->conflict;) spread_member(s, i);
    } while (s->changed && !s->conflict);
}

static bool find_maps(solver *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        start_map(s, s->facts[i].result, &s->result[i]);
        for (uint32_t j = 0; j < s->facts[i].operand_count; j++) {
            start_map(s, s->facts[i].operand[j], &s->operand[i][j]);
            s->maker[i][j] = find_member(s, mpc_operand(s->g, &s->g->nodes[s->nodes[i]], j));
        }
    }
    if (!s->conflict) spread(s);
    for (uint32_t i = 0; i < s->count && !s->conflict; i++) {
        if (!s->result[i].known) return false;
        for (uint32_t j = 0; j < s->facts[i].operand_count; j++)
            if (!s->operand[i][j].known) return false;
    }
    return !s->conflict;
}

/* --- columns --- */

static bool whole_or_none(mpc_atoms set, mpc_atoms columns) {
    return (set & columns) == 0 || (set & columns) == columns;
}

/* What a reduction is when the columns are these; false: it can't be done in this space. A reduction is accepted only
 * where it is summed as it would be alone, so its bits depend on its shape, not on the group. */
static bool classify_reduce(const mpc_space *sp, mpc_member *m, mpc_atoms columns) {
    mpc_atoms rows = sp->all & ~columns, gone = m->operand[0] & ~m->result;
    m->kind = MPC_MEMBER_ROW;
    if (gone == 0) return m->kind = MPC_MEMBER_EWISE, true;
    if (gone == columns && rows != 0) return true;
    if (gone == columns && mpc_space_elements(sp, columns) <= MPC_SPACE_SINGLE) return true;
    m->kind = MPC_MEMBER_OVER;
    if (rows == 0) return gone == columns;
    return columns != 0 && m->operand[0] == sp->all && gone == rows;
}

static bool try_columns(solver *s, uint32_t first) {
    mpc_space *sp = s->s;
    mpc_atoms columns = sp->all & ~((1u << first) - 1), rows = sp->all & ~columns;
    bool has_row = false;
    for (uint32_t i = 0; i < s->count; i++) {
        mpc_member *m = &sp->member[i];
        if (!whole_or_none(m->result, columns)) return false;
        for (uint32_t j = 0; j < s->facts[i].operand_count; j++)
            if (!whole_or_none(m->operand[j], columns)) return false;
        m->kind = MPC_MEMBER_EWISE;
        if (s->facts[i].relation == REDUCE && !classify_reduce(sp, m, columns)) return false;
        has_row |= m->kind == MPC_MEMBER_ROW;
        if (m->kind != MPC_MEMBER_OVER && (m->result & rows) != rows) return false;
    }
    sp->first_column = first;
    sp->columns = columns;
    sp->rows = mpc_space_elements(sp, rows);
    sp->cols = mpc_space_elements(sp, columns);
    sp->single = rows == 0 && (has_row || columns == 0);
    sp->blocks = rows == 0 && !sp->single;
    return true;
}

/* A block doesn't know what other blocks find, so nothing smaller than the row may be made there; nor may anybody in
 * the group read what is known only at the end. */
static bool consistent(const solver *s) {
    const mpc_space *sp = s->s;
    for (uint32_t i = 0; i < s->count; i++) {
        if (sp->blocks && sp->member[i].kind == MPC_MEMBER_EWISE && sp->member[i].result != sp->all) return false;
        for (uint32_t j = 0; j < s->facts[i].operand_count; j++)
            if (s->maker[i][j] != MPC_NONE && sp->member[s->maker[i][j]].kind == MPC_MEMBER_OVER) return false;
    }
    return true;
}

bool mpc_space_build(const mpc_graph *g, const mpc_node_id *nodes, uint32_t count, mpc_space *space) {
    if (count == 0 || count > MPC_SPACE_NODES) return false;
    solver s; /* large: its maps are begun when the members are known */
    s.g = g, s.nodes = nodes, s.count = count, s.s = space;
    s.size = 0, s.conflict = false;
    memset(space, 0, sizeof *space);
    space->count = count;
    for (uint32_t i = 0; i < count; i++) {
        find_facts(g, nodes[i], &s.facts[i]);
        int64_t size = mpc_type_elements(s.facts[i].relation == REDUCE ? s.facts[i].operand[0] : s.facts[i].result);
        if (size > s.size) s.size = size;
    }
    if (!find_atoms(&s) || !find_maps(&s)) return false;
    for (uint32_t i = 0; i < count; i++) {
        space->member[i].result = atoms_of(&s.result[i]);
        for (uint32_t j = 0; j < s.facts[i].operand_count; j++) {
            space->member[i].operand[j] = atoms_of(&s.operand[i][j]);
            space->member[i].inside[j] = s.maker[i][j] != MPC_NONE;
        }
    }
    for (uint32_t first = 0; first <= space->atom_count; first++)
        if (try_columns(&s, first) && consistent(&s)) return true;
    return false;
}
