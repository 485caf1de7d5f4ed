/* From a group to a kernel description. The one rule to keep in mind: a state written in place is stored at the end of
 * the last loop over its row, so every member of the group has read the old value by then. */
#include "codegen/loop.h"

#include <string.h>

#include "base/alloc.h"

enum { UNIT_ELEMENTS = 8192, ONE_UNIT = 16384, MOST_PARTIALS = 64, MOST_UNITS = 1024, CHEAP = 4 };

bool mpc_loop_is_general(const mpc_loop *l, mpc_atoms atoms) {
    mpc_atoms rows = l->space.all & ~l->space.columns;
    return (atoms & rows) != 0 && (atoms & rows) != rows;
}

/* --- what members read --- */

static uint32_t find_inside(const mpc_loop *l, mpc_value_id v) {
    mpc_node_id producer = l->cg->g->values[v].producer;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->nodes[i] == producer) return i;
    return MPC_NONE;
}

static uint32_t pointer_to(mpc_loop *l, mpc_value_id v) {
    mpc_pointer p = mpc_cg_pointer(l->cg, v);
    for (uint32_t i = 0; i < l->args.pointers.count; i++)
        if (l->args.pointers.data[i].buffer == p.buffer && l->args.pointers.data[i].byte_offset == p.byte_offset)
            return i;
    return mpc_cg_add_pointer(&l->args, p);
}

static mpc_ref const_ref(mpc_loop *l, const mpc_node *n, mpc_format format) {
    mpc_value_id v = mpc_result(n, 0);
    for (uint32_t i = 0; i < l->const_count; i++)
        if (l->constant[i].value == v) return (mpc_ref){MPC_REF_CONST, i, format};
    double value = mpc_attr_float(l->cg->g, n, "value");
    mpc_loop_const c = {v, format, 0};
    c.argument = mpc_format_is_float(format) ? mpc_cg_add_float(&l->args, (float)value)
                                             : mpc_cg_add_int(&l->args, (int64_t)value);
    l->constant[l->const_count++] = c;
    return (mpc_ref){MPC_REF_CONST, l->const_count - 1, format};
}

static mpc_ref access_ref(mpc_loop *l, mpc_value_id v, mpc_atoms atoms, const mpc_node *range) {
    mpc_format format = mpc_value_format(l->cg->g, v);
    mpc_value_id owner = range != NULL ? mpc_result(range, 0) : mpc_cg_owner(l->cg, v);
    for (uint32_t i = 0; i < l->access_count; i++)
        if (l->access[i].owner == owner && l->access[i].atoms == atoms) return (mpc_ref){MPC_REF_ACCESS, i, format};
    mpc_access *a = &l->access[l->access_count];
    *a = (mpc_access){owner, format, atoms, range != NULL, 0};
    if (range == NULL) a->pointer = pointer_to(l, v);
    return (mpc_ref){MPC_REF_ACCESS, l->access_count++, format};
}

/* Through reshapes inside the group: they are names. */
static mpc_ref operand_ref(mpc_loop *l, uint32_t member, uint32_t i) {
    mpc_value_id v = mpc_operand(l->cg->g, l->member[member].node, i);
    uint32_t inside = find_inside(l, v);
    if (inside != MPC_NONE && mpc_strided_is_view(l->cg->g, l->member[inside].node)) return l->member[inside].ref[0];
    if (inside != MPC_NONE) return (mpc_ref){MPC_REF_MEMBER, inside, mpc_value_format(l->cg->g, v)};
    const mpc_node *free_node = mpc_cg_inlined(l->cg, v);
    if (free_node != NULL && free_node->op == MPC_OP_const)
        return const_ref(l, free_node, mpc_value_format(l->cg->g, v));
    return access_ref(l, v, l->space.member[member].operand[i], free_node);
}

/* --- where members go --- */

static void find_store(mpc_loop *l, uint32_t i) {
    mpc_loop_member *m = &l->member[i];
    mpc_value_id result = mpc_result(m->node, 0);
    const mpc_place *place = &l->cg->g->places[result];
    bool shares = mpc_strided_is_view(l->cg->g, m->node) || mpc_cg_is_free_view(l->cg, m->node);
    if (shares || place->kind == MPC_PLACE_NONE) return;
    m->stored = true;
    m->in_place = mpc_cg_is_state(l->cg, mpc_cg_owner(l->cg, result));
    l->has_over |= l->space.member[i].kind == MPC_MEMBER_OVER;
    if (l->space.member[i].kind != MPC_MEMBER_OVER) m->pointer = pointer_to(l, result);
}

static void add_members(mpc_loop *l) {
    const mpc_graph *g = l->cg->g;
    for (uint32_t i = 0; i < l->count; i++) {
        mpc_loop_member *m = &l->member[i];
        m->node = &g->nodes[l->nodes[i]];
        m->op = mpc_node_op(g, l->nodes[i]);
        m->format = mpc_value_format(g, mpc_result(m->node, 0));
        m->row_value = (l->space.member[i].result & l->space.columns) == 0;
        for (uint32_t j = 0; j < m->node->operand_count; j++) m->ref[j] = operand_ref(l, i, j);
        find_store(l, i);
    }
}

/* --- units --- */

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void choose_units(mpc_loop *l) {
    const mpc_space *s = &l->space;
    int64_t per = UNIT_ELEMENTS, total = s->rows * s->cols;
    if (s->blocks) {
        if (l->has_over && divide_up(s->cols, per) > MOST_PARTIALS)
            per = divide_up(divide_up(s->cols, MOST_PARTIALS), 16) * 16;
        l->per_unit = per;
        l->units = divide_up(s->cols, per);
        return;
    }
    per = s->cols >= per ? 1 : per / s->cols;
    int64_t most = l->has_over ? MOST_PARTIALS : MOST_UNITS;
    if (divide_up(s->rows, per) > most) per = divide_up(s->rows, most);
    if (l->has_over && total <= ONE_UNIT) per = s->rows;
    l->per_unit = per;
    l->units = divide_up(s->rows, per);
}

/* --- loops --- */

static uint32_t when_of(const mpc_loop *l, mpc_ref ref) {
    if (ref.kind != MPC_REF_MEMBER) return 0;
    const mpc_loop_member *m = &l->member[ref.index];
    return m->when + (l->space.member[ref.index].kind == MPC_MEMBER_ROW ? 1 : 0);
}

static void order_members(mpc_loop *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        mpc_loop_member *m = &l->member[i];
        for (uint32_t j = 0; j < m->node->operand_count; j++) {
            uint32_t when = when_of(l, m->ref[j]);
            if (when > m->when) m->when = when;
        }
        bool loop = !m->row_value || (l->space.member[i].kind != MPC_MEMBER_EWISE);
        if (loop && m->when + 1 > l->loops) l->loops = m->when + 1;
    }
    if (l->loops > MPC_LOOP_LOOPS) mpc_cg_fail(l->cg, "more than %d passes over a row", MPC_LOOP_LOOPS);
}

static bool is_columns_member(const mpc_loop *l, mpc_ref ref) {
    return ref.kind == MPC_REF_MEMBER && !l->member[ref.index].row_value &&
           l->space.member[ref.index].kind == MPC_MEMBER_EWISE;
}

/* Operations to make a value again from memory. */
static uint32_t cost_of(const mpc_loop *l, uint32_t i, uint32_t depth) {
    const mpc_loop_member *m = &l->member[i];
    bool heavy = m->op->kernel != NULL && strstr(m->op->kernel, "mpc_") != NULL && !(m->op->flags & MPC_OPF_EXACT);
    bool slow = m->op->kernel != NULL && (strstr(m->op->kernel, "/") != NULL || strstr(m->op->kernel, "sqrt") != NULL);
    uint32_t cost = heavy ? 2 * CHEAP : slow ? 3 : m->node->op == MPC_OP_reshape ? 0 : 1;
    if (m->node->op == MPC_OP_random_uniform || depth > CHEAP) return 2 * CHEAP;
    for (uint32_t j = 0; j < m->node->operand_count && cost <= CHEAP; j++)
        if (is_columns_member(l, m->ref[j])) cost += cost_of(l, m->ref[j].index, depth + 1);
    return cost;
}

static void want(mpc_loop *l, uint32_t i, uint32_t loop) { l->member[i].needed |= 1u << loop; }

static void want_operands(mpc_loop *l, const mpc_loop_member *m, uint32_t loop) {
    for (uint32_t j = 0; j < m->node->operand_count; j++)
        if (is_columns_member(l, m->ref[j]) && !(m->dropped && j != 1)) want(l, m->ref[j].index, loop);
}

/* From the last member to the first: who wants a value in which loop is known when its turn comes. */
static void keep_or_repeat(mpc_loop *l, uint32_t i) {
    mpc_loop_member *m = &l->member[i];
    const mpc_member *space = &l->space.member[i];
    if (space->kind != MPC_MEMBER_EWISE) {
        want_operands(l, m, m->when);
        return;
    }
    if (m->row_value) return;
    if (m->stored) want(l, i, m->in_place ? l->loops - 1 : m->when);
    uint32_t later = m->needed & ~(1u << m->when);
    bool wide = mpc_cg_lanes(m->format) == 'l';
    if (later != 0 && !wide && cost_of(l, i, 0) > CHEAP) m->saved = !l->repeats;
    if (m->node->op == MPC_OP_random_uniform && m->needed != 0) m->saved = !l->repeats;
    if (m->saved) {
        m->scratch_row = l->scratch_rows++;
        want(l, i, m->when);
    }
    for (uint32_t loop = 0; loop < l->loops; loop++)
        if (m->needed >> loop & 1 && (!m->saved || loop == m->when)) want_operands(l, m, loop);
}

static void keep_members(mpc_loop *l) {
    l->scratch_rows = 0;
    for (uint32_t i = 0; i < l->count; i++) l->member[i].needed = 0, l->member[i].saved = false;
    for (uint32_t i = l->count; i-- > 0 && mpc_cg_ok(l->cg);) keep_or_repeat(l, i);
}

/* Who makes what in which loop, and in how many units. */
static void share_work(mpc_loop *l) {
    bool cuda = l->cg->target == MPC_TARGET_CUDA;
    if (!cuda) choose_units(l);
    keep_members(l);
    if (!cuda || mpc_cuda_loop_plan(l)) return;
    l->repeats = true;
    keep_members(l);
    mpc_cuda_loop_plan(l);
}

/* --- skipping --- */

static bool selects_next(const mpc_loop *l, const mpc_loop_member *m, mpc_value_id state, mpc_value_id *condition) {
    if (m->node->op != MPC_OP_where || m->ref[0].kind != MPC_REF_ACCESS || m->ref[2].kind != MPC_REF_ACCESS)
        return false;
    const mpc_access *c = &l->access[m->ref[0].index], *old = &l->access[m->ref[2].index];
    if (c->atoms != 0 || c->range || c->format != MPC_FMT_bool || old->range || old->owner != state) return false;
    if (*condition != MPC_NONE && *condition != c->owner) return false;
    return *condition = c->owner, true;
}

static const char *state_name(const mpc_loop *l, mpc_value_id state) {
    return mpc_attr_str(l->cg->g, mpc_producer(l->cg->g, state), "name");
}

/* The member whose select decides about `m`: itself, or, for a low copy, its master's. */
static mpc_loop_member *deciding(mpc_loop *l, mpc_loop_member *m, mpc_value_id state, mpc_value_id *old) {
    *old = state;
    if (m->node->op != MPC_OP_cast || m->ref[0].kind != MPC_REF_MEMBER) return m;
    mpc_loop_member *master = &l->member[m->ref[0].index];
    if (!master->stored || !master->in_place) return m;
    *old = mpc_cg_owner(l->cg, mpc_result(master->node, 0));
    return strcmp(state_name(l, state), state_name(l, *old)) == 0 ? master : m;
}

/* All that the group stores are states that keep their value when one flag is false: then the launch runs only when it
 * is true. */
static void find_condition(mpc_loop *l) {
    mpc_value_id condition = MPC_NONE, old;
    l->condition = MPC_NONE;
    for (uint32_t i = 0; i < l->count; i++) {
        mpc_loop_member *m = &l->member[i];
        if (!m->stored) continue;
        if (!m->in_place) return;
        mpc_loop_member *d = deciding(l, m, mpc_cg_owner(l->cg, mpc_result(m->node, 0)), &old);
        if (!selects_next(l, d, old, &condition)) return;
    }
    for (uint32_t i = 0; i < l->count && condition != MPC_NONE; i++) {
        mpc_loop_member *m = &l->member[i];
        if (m->stored) deciding(l, m, mpc_cg_owner(l->cg, mpc_result(m->node, 0)), &old)->dropped = true;
    }
    l->condition = condition;
}

/* --- arguments --- */

static void add_general_arguments(mpc_loop *l) {
    for (uint32_t i = 0; i < l->access_count; i++) l->has_digits |= mpc_loop_is_general(l, l->access[i].atoms);
    if (!l->has_digits) return;
    for (uint32_t atom = 0; atom < l->space.first_column; atom++)
        l->digits[atom] = mpc_cg_add_int(&l->args, l->space.extent[atom]);
    for (uint32_t i = 0; i < l->access_count; i++) {
        if (!mpc_loop_is_general(l, l->access[i].atoms)) continue;
        for (uint32_t atom = 0; atom < l->space.first_column; atom++)
            if (l->access[i].atoms >> atom & 1)
                l->strides[i][atom] = mpc_cg_add_int(&l->args, mpc_space_stride(&l->space, l->access[i].atoms, atom));
    }
}

static void add_random_arguments(mpc_loop *l) {
    for (uint32_t i = 0; i < l->count; i++)
        if (l->member[i].node->op == MPC_OP_random_uniform)
            l->member[i].extra = mpc_cg_add_int(&l->args, mpc_attr_int(l->cg->g, l->member[i].node, "stream"));
}

bool mpc_loop_describe(mpc_loop *l, mpc_cg *cg, const mpc_node_id *nodes, uint32_t count) {
    *l = (mpc_loop){.cg = cg, .nodes = nodes, .count = count};
    if (!mpc_space_build(cg->g, nodes, count, &l->space)) {
        mpc_cg_fail(cg, "the group of %s has no iteration space",
                    mpc_value_name(cg->g, mpc_result(&cg->g->nodes[nodes[0]], 0)));
        return false;
    }
    for (int i = 0; i <= MPC_LOOP_ARG_SCRATCH; i++) mpc_cg_add_int(&l->args, 0);
    add_members(l);
    if (l->args.failed) mpc_cg_no_memory(cg);
    if (!mpc_cg_ok(cg)) return false;
    order_members(l);
    find_condition(l);
    share_work(l);
    add_general_arguments(l);
    add_random_arguments(l);
    if (l->args.failed) mpc_cg_no_memory(cg);
    if (!mpc_cg_ok(cg)) return false;
    int64_t row = l->space.blocks ? l->per_unit : l->space.cols;
    l->args.ints.data[MPC_LOOP_ARG_PER_UNIT] = l->per_unit;
    l->args.ints.data[MPC_LOOP_ARG_ROWS] = l->space.rows;
    l->args.ints.data[MPC_LOOP_ARG_COLS] = l->space.cols;
    l->args.ints.data[MPC_LOOP_ARG_SCRATCH] =
        cg->target == MPC_TARGET_C ? divide_up(row, 16) * 16 : l->team.chunks;
    l->args.units = l->units;
    l->args.blocks = (uint32_t)(l->team.row_blocks * l->team.chunks);
    return true;
}
