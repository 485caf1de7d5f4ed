/* Prints a kernel description as C on the prelude's vectors. One text serves every extent: rows, columns, strides and
 * constants are arguments. Names: v members, a accesses, k constants, t accumulators; address of access i is x<i>, of
 * stored member i y<i>. */
#include "codegen/loop.h"

static const char *vector_type(char lanes) { return lanes == 'f' ? "vf" : lanes == 'l' ? "vl" : "vi"; }

static const char *format_name(mpc_format format) { return mpc_format_get(format)->name; }
static unsigned format_bytes(mpc_format format) { return mpc_format_get(format)->bytes; }

static char member_lanes(const mpc_loop_member *m) { return mpc_cg_lanes(m->format); }

static bool is_reduction(const mpc_loop *l, uint32_t i) { return l->space.member[i].kind != MPC_MEMBER_EWISE; }
static bool is_over(const mpc_loop *l, uint32_t i) { return l->space.member[i].kind == MPC_MEMBER_OVER; }
/* Over the rows, column by column: the accumulator is a row in memory. */
static bool is_column_sum(const mpc_loop *l, uint32_t i) { return is_over(l, i) && l->space.member[i].result != 0; }

/* Neutral elements of the reductions. */
static const char *neutral(const mpc_loop_member *m) {
    char lanes = member_lanes(m);
    bool max = m->node->op == MPC_OP_max;
    if (m->node->op == MPC_OP_sum) return lanes == 'f' ? "0.0f" : "0";
    if (lanes == 'f') return max ? "-__builtin_inff()" : "__builtin_inff()";
    if (lanes == 'l') return max ? "INT64_MIN" : "INT64_MAX";
    return max ? "INT32_MIN" : "INT32_MAX";
}

static const char *splat_name(char lanes) {
    return lanes == 'f' ? "mpc_splat" : lanes == 'l' ? "mpc_splat_l" : "mpc_splat_i";
}
static const char *lane_format(char lanes) { return lanes == 'f' ? "f32" : lanes == 'l' ? "i64" : "i32"; }
static unsigned lane_bytes(char lanes) { return lanes == 'l' ? 8 : 4; }

/* --- addresses --- */

void mpc_loop_print_offset(const mpc_loop *l, uint32_t access, const char *row, mpc_str *o) {
    const mpc_space *s = &l->space;
    mpc_atoms atoms = l->access[access].atoms, rows = s->all & ~s->columns;
    if ((atoms & rows) == 0) {
        mpc_str_append(o, "0");
    } else if (!mpc_loop_is_general(l, atoms)) {
        mpc_str_printf(o, "%s%s", row, (atoms & s->columns) != 0 ? " * cols" : "");
    } else {
        bool first = true;
        for (uint32_t atom = 0; atom < s->first_column; atom++) {
            if (!(atoms >> atom & 1)) continue;
            mpc_str_printf(o, "%sd%u * n[%u]", first ? "" : " + ", atom, l->strides[access][atom]);
            first = false;
        }
    }
}

static bool is_row_access(const mpc_loop *l, const mpc_access *a) { return (a->atoms & l->space.columns) == 0; }

/* Operands of dropped selects are read by nobody. */
bool mpc_loop_uses(const mpc_loop *l, uint32_t access) {
    for (uint32_t i = 0; i < l->count; i++)
        for (uint32_t j = 0; j < l->member[i].node->operand_count; j++) {
            const mpc_ref *ref = &l->member[i].ref[j];
            if (ref->kind == MPC_REF_ACCESS && ref->index == access && !(l->member[i].dropped && j != 1)) return true;
        }
    return false;
}

static void print_row_access(const mpc_loop *l, uint32_t i, const char *indent, mpc_str *o) {
    const mpc_access *a = &l->access[i];
    const char *type = vector_type(mpc_cg_lanes(a->format));
    mpc_str_printf(o, "%sconst %s a%u = ", indent, type, i);
    if (a->range) mpc_str_printf(o, "%s((", splat_name(mpc_cg_lanes(a->format)));
    else mpc_str_printf(o, "mpc_one_%s((const char *)p[%u] + (", format_name(a->format), a->pointer);
    mpc_loop_print_offset(l, i, "r", o);
    mpc_str_printf(o, a->range ? "));\n" : ") * %u);\n", format_bytes(a->format));
}

/* What doesn't change from row to row. */
static void print_constants(const mpc_loop *l, mpc_str *o) {
    mpc_str_append(o, "    const int64_t per = n[0], rows = n[1], cols = n[2];\n    (void)rows, (void)cols;\n");
    for (uint32_t i = 0; i < l->const_count; i++) {
        const mpc_loop_const *c = &l->constant[i];
        char lanes = mpc_cg_lanes(c->format);
        if (lanes == 'f') mpc_str_printf(o, "    const vf k%u = mpc_splat(f[%u]);\n", i, c->argument);
        else if (lanes == 'b')
            mpc_str_printf(o, "    const vi k%u = mpc_splat_i(n[%u] != 0 ? -1 : 0);\n", i, c->argument);
        else if (lanes == 'l') mpc_str_printf(o, "    const vl k%u = mpc_splat_l(n[%u]);\n", i, c->argument);
        else mpc_str_printf(o, "    const vi k%u = mpc_splat_i((int32_t)n[%u]);\n", i, c->argument);
    }
    for (uint32_t i = 0; i < l->access_count; i++)
        if (l->access[i].atoms == 0 && mpc_loop_uses(l, i)) print_row_access(l, i, "    ", o);
    if (l->scratch_rows > 0) mpc_str_append(o, "    float *const s = scratch;\n");
}

static void print_digits(const mpc_loop *l, mpc_str *o) {
    if (!l->has_digits) return;
    mpc_str_append(o, "            int64_t q = r;\n");
    for (uint32_t atom = l->space.first_column; atom-- > 0;) {
        if (atom > 0)
            mpc_str_printf(o, "            const int64_t d%u = q %% n[%u];\n            q /= n[%u];\n", atom,
                           l->digits[atom], l->digits[atom]);
        else mpc_str_append(o, "            const int64_t d0 = q;\n");
        mpc_str_printf(o, "            (void)d%u;\n", atom);
    }
}

static void print_row_start(const mpc_loop *l, mpc_str *o) {
    print_digits(l, o);
    for (uint32_t i = 0; i < l->access_count; i++) {
        const mpc_access *a = &l->access[i];
        if (!mpc_loop_uses(l, i) || a->atoms == 0) continue;
        if (is_row_access(l, a)) {
            print_row_access(l, i, "            ", o);
            continue;
        }
        if (a->range) mpc_str_printf(o, "            const int64_t x%u = ", i);
        else mpc_str_printf(o, "            const char *const x%u = (const char *)p[%u] + (", i, a->pointer);
        mpc_loop_print_offset(l, i, "r", o);
        mpc_str_printf(o, a->range ? ";\n" : ") * %u;\n", format_bytes(a->format));
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || is_over(l, i)) continue;
        mpc_str_printf(o, "            char *const y%u = (char *)p[%u] + r * %s%u;\n", i, m->pointer,
                       m->row_value ? "" : "cols * ", format_bytes(m->format));
    }
}

/* --- loops --- */

typedef struct loop_printer {
    const mpc_loop *l;
    uint32_t loop;
    bool loaded[MPC_LOOP_ACCESSES];
    mpc_str *o;
} loop_printer;

static void print_load(loop_printer *p, const mpc_ref *ref) {
    if (ref->kind != MPC_REF_ACCESS || is_row_access(p->l, &p->l->access[ref->index]) || p->loaded[ref->index]) return;
    const mpc_access *a = &p->l->access[ref->index];
    uint32_t i = ref->index;
    p->loaded[i] = true;
    if (a->range)
        mpc_str_printf(p->o, "                const vi a%u = mpc_splat_i((int32_t)(x%u + c)) + mpc_lanes();\n", i, i);
    else
        mpc_str_printf(p->o, "                const %s a%u = mpc_load_%s(x%u + c * %u, m);\n",
                       vector_type(mpc_cg_lanes(a->format)), i, format_name(a->format), i, format_bytes(a->format));
}

static void print_loads(loop_printer *p, const mpc_loop_member *m) {
    for (uint32_t j = 0; j < m->node->operand_count; j++)
        if (!(m->dropped && j != 1)) print_load(p, &m->ref[j]);
}

static void print_scratch(const mpc_loop_member *m, mpc_str *o) {
    mpc_str_printf(o, "s + %u * n[3] + (c - lo)", m->scratch_row);
}

static void print_column_member(loop_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = member_lanes(m);
    bool random = m->node->op == MPC_OP_random_uniform;
    if ((m->saved && m->when != p->loop) || random) {
        mpc_str_printf(p->o, "                const %s v%u = mpc_load_%s(", vector_type(lanes), i, lane_format(lanes));
        print_scratch(m, p->o);
        mpc_str_append(p->o, ", m);\n");
        return;
    }
    print_loads(p, m);
    mpc_str_printf(p->o, "                const %s v%u = ", vector_type(lanes), i);
    mpc_loop_expression(m, p->o);
    mpc_str_append(p->o, ";\n");
    if (!m->saved) return;
    mpc_str_printf(p->o, "                mpc_store_%s(", lane_format(lanes));
    print_scratch(m, p->o);
    mpc_str_printf(p->o, ", v%u, m);\n", i);
}

static void print_operand_as(const mpc_loop_member *m, char lanes, mpc_str *o) {
    static const char letter[] = {'v', 'a', 'k'};
    char from = mpc_cg_lanes(m->ref[0].format);
    if (from == lanes) mpc_str_printf(o, "%c%u", letter[m->ref[0].kind], m->ref[0].index);
    else mpc_str_printf(o, "mpc_%c_from_%c(%c%u)", lanes, from, letter[m->ref[0].kind], m->ref[0].index);
}

static void print_accumulate(loop_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = member_lanes(m);
    print_loads(p, m);
    if (is_column_sum(p->l, i)) {
        const char *format = lane_format(lanes);
        mpc_str_printf(p->o, "                mpc_store_%s(t%u + c * %u, mpc_%s_%c(mpc_load_%s(t%u + c * %u, m), ",
                       format, i, lane_bytes(lanes), m->op->name, lanes, format, i, lane_bytes(lanes));
        print_operand_as(m, lanes, p->o);
        mpc_str_append(p->o, "), m);\n");
        return;
    }
    mpc_str_printf(p->o, "                t%u = mpc_%s_%c(t%u, mpc_keep_%c(", i, m->op->name, lanes, i, lanes);
    print_operand_as(m, lanes, p->o);
    mpc_str_printf(p->o, ", m, %s));\n", neutral(m));
}

static void print_random(const mpc_loop *l, uint32_t loop, mpc_str *o) {
    static const char letter[] = {'v', 'a', 'k'};
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (m->node->op != MPC_OP_random_uniform || m->row_value || m->when != loop || m->needed == 0) continue;
        mpc_str_printf(o,
                       "            mpc_fill_uniform(s + %u * n[3], r * cols + lo, hi - lo, (uint64_t)%c%u[0], "
                       "(uint64_t)n[%u], (uint32_t)%c%u[0]);\n",
                       m->scratch_row, letter[m->ref[0].kind], m->ref[0].index, m->extra, letter[m->ref[1].kind],
                       m->ref[1].index);
    }
}

static void print_stores(const mpc_loop *l, uint32_t loop, mpc_str *o) {
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || m->row_value || is_reduction(l, i) || (m->in_place ? l->loops - 1 : m->when) != loop)
            continue;
        mpc_str_printf(o, "                mpc_store_%s(y%u + c * %u, v%u, m);\n", format_name(m->format), i,
                       format_bytes(m->format), i);
    }
}

static void print_loop(const mpc_loop *l, uint32_t loop, mpc_str *o) {
    loop_printer p = {.l = l, .loop = loop, .o = o};
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!is_reduction(l, i) || m->when != loop || is_over(l, i)) continue;
        mpc_str_printf(o, "            %s t%u = %s(%s);\n", vector_type(member_lanes(m)), i,
                       splat_name(member_lanes(m)), neutral(m));
    }
    print_random(l, loop, o);
    mpc_str_append(o,
                   "            for (int64_t c = lo; c < hi; c += 16) {\n                const int64_t m = hi - c;\n");
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (is_reduction(l, i) && m->when == loop) print_accumulate(&p, i);
        else if (!is_reduction(l, i) && !m->row_value && m->needed >> loop & 1) print_column_member(&p, i);
    }
    print_stores(l, loop, o);
    mpc_str_append(o, "            }\n");
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (l->space.member[i].kind != MPC_MEMBER_ROW || m->when != loop) continue;
        bool rounds = mpc_cg_rounds(m->format);
        mpc_str_printf(o, "            const %s v%u = ", vector_type(member_lanes(m)), i);
        if (rounds) mpc_str_printf(o, "mpc_round_%s(", format_name(m->format));
        mpc_str_printf(o, "mpc_fold_%s_%c(t%u)%s;\n", m->op->name, member_lanes(m), i, rounds ? ")" : "");
    }
}

/* --- row values --- */

static void print_row_random(const mpc_loop_member *m, uint32_t i, mpc_str *o) {
    static const char letter[] = {'v', 'a', 'k'};
    mpc_str_printf(o,
                   "            float u%u;\n            mpc_fill_uniform(&u%u, r, 1, (uint64_t)%c%u[0], "
                   "(uint64_t)n[%u], (uint32_t)%c%u[0]);\n",
                   i, i, letter[m->ref[0].kind], m->ref[0].index, m->extra, letter[m->ref[1].kind], m->ref[1].index);
    mpc_str_printf(o, "            const vf v%u = mpc_splat(u%u);\n", i, i);
}

static void print_row_members(const mpc_loop *l, uint32_t stage, mpc_str *o) {
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->row_value || m->when != stage) continue;
        if (m->node->op == MPC_OP_random_uniform) {
            print_row_random(m, i, o);
        } else if (!is_reduction(l, i) && !mpc_strided_is_view(l->cg->g, m->node)) {
            mpc_str_printf(o, "            const %s v%u = ", vector_type(member_lanes(m)), i);
            mpc_loop_expression(m, o);
            mpc_str_append(o, ";\n");
        }
    }
}

static void print_row(const mpc_loop *l, mpc_str *o) {
    print_row_start(l, o);
    uint32_t last = l->loops;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->member[i].row_value && l->member[i].when > last) last = l->member[i].when;
    for (uint32_t stage = 0; stage <= last; stage++) {
        print_row_members(l, stage, o);
        if (stage < l->loops) print_loop(l, stage, o);
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || !m->row_value || is_over(l, i)) continue;
        mpc_str_printf(o, "            mpc_store_%s(y%u, v%u, 1);\n", format_name(m->format), i, i);
    }
}

/* --- reductions over rows: a unit's part goes to memory, or is the result when there is one unit --- */

static void print_over_start(const mpc_loop *l, uint32_t i, mpc_str *o) {
    const mpc_loop_member *m = &l->member[i];
    char lanes = member_lanes(m);
    if (!is_column_sum(l, i)) {
        mpc_str_printf(o, "        %s t%u = %s(%s);\n", vector_type(lanes), i, splat_name(lanes), neutral(m));
        return;
    }
    mpc_str_printf(o, "        char *const t%u = (char *)p[%u] + u * cols * %u;\n", i, m->extra, lane_bytes(lanes));
    mpc_str_printf(o, "        for (int64_t c = 0; c < cols; c += 16) mpc_store_%s(t%u + c * %u, %s(%s), cols - c);\n",
                   lane_format(lanes), i, lane_bytes(lanes), splat_name(lanes), neutral(m));
}

static void print_over_end(const mpc_loop *l, uint32_t i, mpc_str *o) {
    const mpc_loop_member *m = &l->member[i];
    char lanes = member_lanes(m);
    const char *format = format_name(m->format), *open = "", *close = "";
    mpc_str round = {0};
    if (mpc_cg_rounds(m->format))
        mpc_str_printf(&round, "mpc_round_%s(", format), open = mpc_str_cstr(&round), close = ")";
    if (is_column_sum(l, i)) {
        if (l->units == 1)
            mpc_str_printf(o,
                           "        for (int64_t c = 0; c < cols; c += 16)\n            mpc_store_%s((char *)p[%u] + c "
                           "* %u, %smpc_load_%s(t%u + c * %u, cols - c)%s, cols - c);\n",
                           format, m->pointer, format_bytes(m->format), open, lane_format(lanes), i, lane_bytes(lanes),
                           close);
    } else {
        mpc_str folded = {0};
        mpc_str_printf(&folded, "mpc_fold_%s_%c(t%u)", m->op->name, lanes, i);
        if (l->units == 1)
            mpc_str_printf(o, "        mpc_store_%s(p[%u], %s%s%s, 1);\n", format, m->pointer, open,
                           mpc_str_cstr(&folded), close);
        else
            mpc_str_printf(o, "        mpc_store_%s((char *)p[%u] + u * %u, %s, 1);\n", lane_format(lanes), m->extra,
                           lane_bytes(lanes), mpc_str_cstr(&folded));
        if (folded.failed) o->failed = true;
        mpc_str_free(&folded);
    }
    if (round.failed) o->failed = true;
    mpc_str_free(&round);
}

void mpc_loop_print(const mpc_loop *l, mpc_str *o) {
    print_constants(l, o);
    mpc_str_append(o, "    for (int64_t u = begin; u < end; u++) {\n");
    if (l->space.blocks)
        mpc_str_append(o, "        const int64_t lo = u * per, hi = lo + per < cols ? lo + per : cols;\n");
    else mpc_str_append(o, "        const int64_t lo = 0, hi = cols;\n");
    mpc_str_append(o, "        (void)lo, (void)hi;\n");
    for (uint32_t i = 0; i < l->count; i++)
        if (is_over(l, i)) print_over_start(l, i, o);
    if (l->space.blocks) mpc_str_append(o, "        for (int64_t r = 0; r < 1; r++) {\n");
    else mpc_str_append(o, "        for (int64_t r = u * per; r < rows && r < (u + 1) * per; r++) {\n");
    print_row(l, o);
    mpc_str_append(o, "        }\n");
    for (uint32_t i = 0; i < l->count; i++)
        if (is_over(l, i)) print_over_end(l, i, o);
    mpc_str_append(o, "    }\n");
}
