/* Prints a kernel description as CUDA C on the packs of prelude.h. Names as in loop_emit.c: v members, a accesses, k
 * constants, t accumulators, x and y addresses; b<i> are the words an access was loaded as, s<i> members that are
 * saved, both arrays over the packs of a thread. What is easily overlooked: all threads of a team run every row value
 * and every fold, whether they hold columns or not; only what stands in a loop over columns is theirs alone. */
#include "codegen/loop.h"

enum { SLOT_BYTES = 256 }; /* of one fold: 32 warps, 8 bytes */

typedef struct team_printer {
    const mpc_loop *l;
    const mpc_loop_team *t;
    mpc_str *o;
    bool rest;                    /* what a flat row has left after its whole packs: one number a thread */
    uint32_t loop, folds;         /* folds printed so far */
    bool held[MPC_LOOP_ACCESSES]; /* words are in b<i> */
} team_printer;

static const char *format_name(mpc_format format) { return mpc_format_get(format)->name; }
static unsigned bytes_of(mpc_format format) { return mpc_format_get(format)->bytes; }
static char lanes_of(const mpc_loop_member *m) { return mpc_cg_lanes(m->format); }
static char pack_of(char lanes) { return lanes == 'f' ? 'f' : lanes == 'l' ? 'l' : 'i'; }
static const char *number_type(char lanes) { return lanes == 'f' ? "float" : lanes == 'l' ? "int64_t" : "int32_t"; }
static const char *lane_format(char lanes) { return lanes == 'f' ? "f32" : lanes == 'l' ? "i64" : "i32"; }
static unsigned lane_bytes(char lanes) { return lanes == 'l' ? 8 : 4; }
static const char *splat_name(char lanes) {
    return lanes == 'f' ? "mpc_splat" : lanes == 'l' ? "mpc_splat_l" : "mpc_splat_i";
}
static const char *index_type(const mpc_loop *l) {
    const int64_t most = (int64_t)1 << 30;
    return l->space.rows <= most && l->space.cols <= most ? "int" : "int64_t";
}

static mpc_member_kind kind_of(const mpc_loop *l, uint32_t i) { return l->space.member[i].kind; }
static bool is_over(const mpc_loop *l, uint32_t i) { return kind_of(l, i) == MPC_MEMBER_OVER; }
static bool is_column_sum(const mpc_loop *l, uint32_t i) { return is_over(l, i) && l->space.member[i].result != 0; }
static bool is_row_access(const mpc_loop *l, uint32_t i) { return (l->access[i].atoms & l->space.columns) == 0; }
/* Columns of a loop that strides: their sums are added up in memory. */
static bool sums_in_memory(const team_printer *p) { return !p->t->registers && !p->t->flat; }

static const char *neutral(const mpc_loop_member *m) {
    char lanes = lanes_of(m);
    bool max = m->node->op == MPC_OP_max;
    if (m->node->op == MPC_OP_sum) return lanes == 'f' ? "0.0f" : "0";
    if (lanes == 'f') return max ? "-MPC_INFINITY" : "MPC_INFINITY";
    if (lanes == 'l') return max ? "INT64_MIN" : "INT64_MAX";
    return max ? "INT32_MIN" : "INT32_MAX";
}

static void print_neutral(const team_printer *p, const mpc_loop_member *m) {
    mpc_str_printf(p->o, "%s<%u>(%s)", splat_name(lanes_of(m)), p->t->width, neutral(m));
}

/* --- rows: addresses and values that have no columns --- */

static void print_row_access(const team_printer *p, uint32_t i, const char *indent) {
    const mpc_access *a = &p->l->access[i];
    char lanes = mpc_cg_lanes(a->format);
    mpc_str_printf(p->o, "%sconst mpc_%c<%u> a%u = ", indent, pack_of(lanes), p->t->width, i);
    if (a->range) {
        mpc_str_printf(p->o, "%s<%u>((%s)(", splat_name(lanes), p->t->width, number_type(lanes));
        mpc_loop_print_offset(p->l, i, "(int64_t)r", p->o);
        mpc_str_append(p->o, "));\n");
        return;
    }
    mpc_str_printf(p->o, "mpc_one_%s<%u>((const char *)p[%u] + (", format_name(a->format), p->t->width, a->pointer);
    mpc_loop_print_offset(p->l, i, "(int64_t)r", p->o);
    mpc_str_printf(p->o, ") * %u);\n", bytes_of(a->format));
}

static void print_digits(const team_printer *p) {
    const mpc_loop *l = p->l;
    if (!l->has_digits) return;
    const char *type = index_type(l);
    mpc_str_printf(p->o, "        %s q = r;\n", type);
    for (uint32_t atom = l->space.first_column; atom-- > 0;) {
        if (atom > 0)
            mpc_str_printf(p->o, "        const %s d%u = q %% (%s)n[%u];\n        q /= (%s)n[%u];\n", type, atom, type,
                           l->digits[atom], type, l->digits[atom]);
        else mpc_str_printf(p->o, "        const %s d0 = q;\n", type);
        mpc_str_printf(p->o, "        (void)d%u;\n", atom);
    }
}

static void print_row_start(const team_printer *p) {
    const mpc_loop *l = p->l;
    print_digits(p);
    for (uint32_t i = 0; i < l->access_count; i++) {
        const mpc_access *a = &l->access[i];
        if (!mpc_loop_uses(l, i) || a->atoms == 0) continue;
        if (is_row_access(l, i)) {
            print_row_access(p, i, "        ");
            continue;
        }
        if (a->range) mpc_str_printf(p->o, "        const int64_t x%u = ", i);
        else mpc_str_printf(p->o, "        const char *const x%u = (const char *)p[%u] + (", i, a->pointer);
        mpc_loop_print_offset(l, i, "(int64_t)r", p->o);
        mpc_str_printf(p->o, a->range ? ";\n" : ") * %u;\n", bytes_of(a->format));
    }
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || is_over(l, i)) continue;
        mpc_str_printf(p->o, "        char *const y%u = (char *)p[%u] + (int64_t)r * %s%u;\n", i, m->pointer,
                       m->row_value ? "" : "cols * ", bytes_of(m->format));
    }
}

/* Constants, and what is read once for all rows. */
static void print_outer_packs(const team_printer *p, const char *indent) {
    const mpc_loop *l = p->l;
    unsigned w = p->t->width;
    for (uint32_t i = 0; i < l->const_count; i++) {
        char lanes = mpc_cg_lanes(l->constant[i].format);
        const char *before = lanes == 'f' ? "f[" : lanes == 'i' ? "(int32_t)n[" : "n[";
        mpc_str_printf(p->o, "%sconst mpc_%c<%u> k%u = %s<%u>(%s%u]%s);\n", indent, pack_of(lanes), w, i,
                       splat_name(lanes), w, before, l->constant[i].argument, lanes == 'b' ? " != 0 ? -1 : 0" : "");
    }
    for (uint32_t i = 0; i < l->access_count; i++)
        if (l->access[i].atoms == 0 && mpc_loop_uses(l, i)) print_row_access(p, i, indent);
}

static void print_sizes(const team_printer *p) {
    const char *type = index_type(p->l);
    mpc_str_printf(p->o, "    const %s rows = (%s)n[1], cols = (%s)n[2];\n    (void)rows, (void)cols;\n", type, type,
                   type);
}

/* --- loops over columns --- */

static void print_loop_start(const team_printer *p) {
    const mpc_loop_team *t = p->t;
    const char *type = index_type(p->l);
    if (t->registers)
        mpc_str_printf(
            p->o,
            "        MPC_UNROLL for (int j = 0; j < %u; j++) {\n            const %s c = lo + (j * %u + lane) * "
            "%u;\n%s",
            t->packs, type, t->team, t->width, t->full ? "" : "            if (c >= cols) continue;\n");
    else if (t->flat) mpc_str_printf(p->o, "        for (%s c = lo; c + %u <= cols; c += step) {\n", type, t->width);
    else mpc_str_printf(p->o, "        for (%s c = lo; c < cols; c += step) {\n", type);
    if (!t->exact) mpc_str_append(p->o, "            const int64_t m = cols - c;\n");
}
static void print_loop_end(const team_printer *p) { mpc_str_append(p->o, "        }\n"); }

/* How many numbers of a pack there are. */
static void print_valid(const team_printer *p) {
    if (p->t->exact) mpc_str_printf(p->o, "%u", p->t->width);
    else mpc_str_append(p->o, "m");
}
static const char *of_pack(const team_printer *p) { return p->t->registers ? "[j]" : ""; }

/* Is this member's value computed, or added up, in the loop at hand? */
static bool is_made(const team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    if (kind_of(p->l, i) != MPC_MEMBER_EWISE) return m->when == p->loop;
    if (m->row_value || !(m->needed >> p->loop & 1)) return false;
    return !m->saved || m->when == p->loop;
}

static void find_read(const team_printer *p, bool *read) {
    for (uint32_t i = 0; i < p->l->count; i++) {
        const mpc_loop_member *m = &p->l->member[i];
        if (!is_made(p, i)) continue;
        for (uint32_t j = 0; j < m->node->operand_count; j++)
            if (m->ref[j].kind == MPC_REF_ACCESS && !is_row_access(p->l, m->ref[j].index) && !(m->dropped && j != 1))
                read[m->ref[j].index] = true;
    }
}

static void print_load(const team_printer *p, uint32_t i, const char *declare) {
    const mpc_access *a = &p->l->access[i];
    unsigned bytes = bytes_of(a->format), w = p->t->width;
    mpc_str_printf(p->o, "            %sb%u%s = mpc_load_raw<%u, %u, true>(x%u + (int64_t)c * %u, ", declare, i,
                   of_pack(p), bytes, w, i, bytes);
    print_valid(p);
    mpc_str_append(p->o, ");\n");
}

/* All packs of a row at once, so that their loads are under way together. */
static void print_loads(team_printer *p, const bool *read) {
    const mpc_loop *l = p->l;
    bool fresh = false;
    for (uint32_t i = 0; i < l->access_count; i++) {
        if (!read[i] || p->held[i] || l->access[i].range) continue;
        mpc_str_printf(p->o, "        mpc_raw<%u, %u> b%u[%u];\n", bytes_of(l->access[i].format), p->t->width, i,
                       p->t->packs);
        fresh = true;
    }
    if (!fresh) return;
    print_loop_start(p);
    for (uint32_t i = 0; i < l->access_count; i++) {
        if (!read[i] || p->held[i] || l->access[i].range) continue;
        print_load(p, i, "");
        p->held[i] = true;
    }
    print_loop_end(p);
}

/* The accesses of this loop as packs, from words held in registers or from memory. */
static void print_accesses(const team_printer *p, const bool *read) {
    unsigned w = p->t->width;
    for (uint32_t i = 0; i < p->l->access_count; i++) {
        const mpc_access *a = &p->l->access[i];
        if (!read[i]) continue;
        if (a->range) {
            mpc_str_printf(p->o,
                           "            const mpc_i<%u> a%u = mpc_splat_i<%u>((int32_t)(x%u + c)) + mpc_lanes<%u>();\n",
                           w, i, w, i, w);
            continue;
        }
        if (!p->t->registers) {
            mpc_str declare = {0};
            mpc_str_printf(&declare, "const mpc_raw<%u, %u> ", bytes_of(a->format), w);
            print_load(p, i, mpc_str_cstr(&declare));
            p->o->failed |= declare.failed;
            mpc_str_free(&declare);
        }
    }
    for (uint32_t i = 0; i < p->l->access_count; i++) {
        const mpc_access *a = &p->l->access[i];
        if (read[i] && !a->range)
            mpc_str_printf(p->o, "            const mpc_%c<%u> a%u = mpc_widen_%s<%u>(b%u%s);\n",
                           pack_of(mpc_cg_lanes(a->format)), w, i, format_name(a->format), w, i, of_pack(p));
    }
}

static const char ref_letter[] = {'v', 'a', 'k'};

static void print_random(const team_printer *p, const mpc_loop_member *m) {
    const char *at = m->row_value ? "(int64_t)r" : "(int64_t)r * cols + c";
    if (m->row_value) mpc_str_printf(p->o, "mpc_splat<%u>(", p->t->width);
    mpc_str_printf(p->o, "mpc_uniform<%u>(%s, %c%u.v[0], n[%u], %c%u.v[0])", m->row_value ? 1 : p->t->width, at,
                   ref_letter[m->ref[0].kind], m->ref[0].index, m->extra, ref_letter[m->ref[1].kind], m->ref[1].index);
    if (m->row_value) mpc_str_append(p->o, ".v[0])");
}

static void print_made(const team_printer *p, uint32_t i, const char *indent) {
    const mpc_loop_member *m = &p->l->member[i];
    mpc_str_printf(p->o, "%sconst mpc_%c<%u> v%u = ", indent, pack_of(lanes_of(m)), p->t->width, i);
    if (m->node->op == MPC_OP_random_uniform) print_random(p, m);
    else mpc_loop_expression(m, p->o);
    mpc_str_append(p->o, ";\n");
}

static bool is_kept(const team_printer *p, const mpc_loop_member *m) {
    return m->saved && p->t->registers && (m->needed & ~(1u << m->when)) != 0;
}

static void print_column_member(const team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    if (is_made(p, i)) {
        print_made(p, i, "            ");
        if (is_kept(p, m)) mpc_str_printf(p->o, "            s%u[j] = v%u;\n", i, i);
        return;
    }
    mpc_str_printf(p->o, "            const mpc_%c<%u> v%u = s%u[j];\n", pack_of(lanes_of(m)), p->t->width, i, i);
}

static void print_operand_as(const team_printer *p, const mpc_loop_member *m, char lanes) {
    char from = mpc_cg_lanes(m->ref[0].format);
    if (from == lanes) mpc_str_printf(p->o, "%c%u", ref_letter[m->ref[0].kind], m->ref[0].index);
    else mpc_str_printf(p->o, "mpc_%c_from_%c(%c%u)", lanes, from, ref_letter[m->ref[0].kind], m->ref[0].index);
}

static void print_accumulate(const team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = lanes_of(m);
    bool columns = is_column_sum(p->l, i);
    if (columns && sums_in_memory(p)) {
        const char *format = lane_format(lanes);
        mpc_str_printf(
            p->o,
            "            mpc_store_%s<%u>(t%u + (int64_t)c * %u, mpc_%s_%c(mpc_load_%s<%u>(t%u + (int64_t)c * %u, ",
            format, p->t->width, i, lane_bytes(lanes), m->op->name, lanes, format, p->t->width, i, lane_bytes(lanes));
        print_valid(p);
        mpc_str_append(p->o, "), ");
        print_operand_as(p, m, lanes);
        mpc_str_append(p->o, "), ");
        print_valid(p);
        mpc_str_append(p->o, ");\n");
        return;
    }
    const char *at = columns ? "[j]" : "";
    bool keeps = !columns && !p->t->exact;
    if (p->rest) {
        mpc_str_printf(p->o, "            t%u.v[0] = mpc_%s1_%c(t%u.v[0], ", i, m->op->name, lanes, i);
        print_operand_as(p, m, lanes);
        mpc_str_append(p->o, ".v[0]);\n");
        return;
    }
    mpc_str_printf(p->o, "            t%u%s = mpc_%s_%c(t%u%s, ", i, at, m->op->name, lanes, i, at);
    if (keeps) mpc_str_printf(p->o, "mpc_keep_%c(", lanes);
    print_operand_as(p, m, lanes);
    if (keeps) mpc_str_printf(p->o, ", m, %s)", neutral(m));
    mpc_str_append(p->o, ");\n");
}

static void print_stores(const team_printer *p) {
    const mpc_loop *l = p->l;
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || m->row_value || kind_of(l, i) != MPC_MEMBER_EWISE) continue;
        if ((m->in_place ? l->loops - 1 : m->when) != p->loop) continue;
        mpc_str_printf(p->o, "            mpc_store_%s<%u, true>(y%u + (int64_t)c * %u, v%u, ", format_name(m->format),
                       p->t->width, i, bytes_of(m->format), i);
        print_valid(p);
        mpc_str_append(p->o, ");\n");
    }
}

static void print_declarations(const team_printer *p) {
    const mpc_loop *l = p->l;
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        char pack = pack_of(lanes_of(m));
        if (m->when != p->loop) continue;
        if (kind_of(l, i) == MPC_MEMBER_ROW) {
            mpc_str_printf(p->o, "        mpc_%c<%u> t%u = ", pack, p->t->width, i);
            print_neutral(p, m);
            mpc_str_append(p->o, ";\n");
        } else if (is_kept(p, m)) {
            mpc_str_printf(p->o, "        mpc_%c<%u> s%u[%u];\n", pack, p->t->width, i, p->t->packs);
        }
    }
}

/* One number of each thread to one of the team, in all its threads. */
static void print_team_fold(team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = lanes_of(m);
    bool rounds = mpc_cg_rounds(m->format);
    mpc_str_printf(p->o, "        const mpc_%c<%u> v%u = ", pack_of(lanes), p->t->width, i);
    if (rounds) mpc_str_printf(p->o, "mpc_round_%s(", format_name(m->format));
    mpc_str_printf(p->o, "%s<%u>(mpc_%s_%s_%c<%u>(mpc_fold_%s_%c(t%u).v[0]", splat_name(lanes), p->t->width,
                   p->t->team > 32 ? "block" : "team", m->op->name, lanes, p->t->team, m->op->name, lanes, i);
    if (p->t->team > 32) mpc_str_printf(p->o, ", slots + %u", SLOT_BYTES * p->folds++);
    mpc_str_printf(p->o, "))%s;\n", rounds ? ")" : "");
}

static void print_pack(const team_printer *p, const bool *read) {
    const mpc_loop *l = p->l;
    print_accesses(p, read);
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        bool reduces = kind_of(l, i) != MPC_MEMBER_EWISE;
        if (reduces && m->when == p->loop) print_accumulate(p, i);
        else if (!reduces && !m->row_value && m->needed >> p->loop & 1) print_column_member(p, i);
    }
    print_stores(p);
}

/* The numbers after the last whole pack of a flat row, by the first threads. */
static void print_rest(const team_printer *p, const bool *read) {
    mpc_loop_team one = *p->t;
    team_printer rest = *p;
    if (one.width == 1) return;
    mpc_str_printf(
        p->o, "        if (cols / %u * %u + lo / %u < cols) {\n            const %s c = cols / %u * %u + lo / %u;\n",
        one.width, one.width, one.width, index_type(p->l), one.width, one.width, one.width);
    one.width = 1;
    rest.t = &one;
    rest.rest = true;
    print_outer_packs(&rest, "            ");
    print_pack(&rest, read);
    print_loop_end(p);
}

static void print_loop(team_printer *p) {
    const mpc_loop *l = p->l;
    bool read[MPC_LOOP_ACCESSES] = {false};
    find_read(p, read);
    print_declarations(p);
    if (p->t->registers) print_loads(p, read);
    print_loop_start(p);
    print_pack(p, read);
    print_loop_end(p);
    if (p->t->flat) print_rest(p, read);
    for (uint32_t i = 0; i < l->count; i++)
        if (kind_of(l, i) == MPC_MEMBER_ROW && l->member[i].when == p->loop) print_team_fold(p, i);
}

/* --- one row --- */

static void print_row_members(const team_printer *p, uint32_t stage) {
    const mpc_loop *l = p->l;
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->row_value || m->when != stage || kind_of(l, i) != MPC_MEMBER_EWISE) continue;
        if (!mpc_strided_is_view(l->cg->g, m->node)) print_made(p, i, "        ");
    }
}

/* States are written when every thread of the team has read them. */
static void print_row_stores(const team_printer *p) {
    const mpc_loop *l = p->l;
    bool any = false, in_place = false;
    for (uint32_t i = 0; i < l->count; i++) {
        bool stores = l->member[i].stored && l->member[i].row_value && !is_over(l, i);
        any |= stores;
        in_place |= stores && l->member[i].in_place;
    }
    if (!any) return;
    if (in_place && p->t->team > 32) mpc_str_append(p->o, "        mpc_barrier();\n");
    else if (in_place) mpc_str_printf(p->o, "        mpc_warp_barrier(mpc_members<%u>());\n", p->t->team);
    mpc_str_append(p->o, "        if (lane == 0 && chunk == 0) {\n");
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (!m->stored || !m->row_value || is_over(l, i)) continue;
        mpc_str_printf(p->o, "            mpc_store_%s<1>(y%u, mpc_part<1, 0>(v%u), 1);\n", format_name(m->format), i,
                       i);
    }
    mpc_str_append(p->o, "        }\n");
}

static uint32_t folds_of_row(const mpc_loop *l) {
    uint32_t folds = 0;
    for (uint32_t i = 0; i < l->count; i++) folds += kind_of(l, i) == MPC_MEMBER_ROW;
    return folds;
}

static void print_row(team_printer *p) {
    const mpc_loop *l = p->l;
    uint32_t last = l->loops;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->member[i].row_value && l->member[i].when > last) last = l->member[i].when;
    if (p->t->team > 32 && folds_of_row(l) > 0)
        mpc_str_printf(p->o, "        char *const slots = mpc_shared() + turn * %u;\n        turn ^= 1;\n",
                       SLOT_BYTES * folds_of_row(l));
    print_row_start(p);
    for (uint32_t stage = 0; stage <= last; stage++) {
        print_row_members(p, stage);
        p->loop = stage;
        if (stage < l->loops) print_loop(p);
    }
    print_row_stores(p);
}

/* --- reductions over rows --- */

static void print_over_start(const team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = lanes_of(m);
    unsigned w = p->t->width;
    if (!is_column_sum(p->l, i)) {
        mpc_str_printf(p->o, "    mpc_%c<%u> t%u = ", pack_of(lanes), w, i);
        print_neutral(p, m);
        mpc_str_append(p->o, ";\n");
        return;
    }
    if (sums_in_memory(p)) {
        mpc_str_printf(p->o, "    char *const t%u = (char *)p[%u] + (int64_t)unit * cols * %u;\n", i, m->extra,
                       lane_bytes(lanes));
        print_loop_start(p);
        mpc_str_printf(p->o, "            mpc_store_%s<%u>(t%u + (int64_t)c * %u, ", lane_format(lanes), w, i,
                       lane_bytes(lanes));
    } else {
        mpc_str_printf(p->o,
                       "    mpc_%c<%u> t%u[%u];\n    MPC_UNROLL for (int j = 0; j < %u; j++) t%u[j] = ", pack_of(lanes),
                       w, i, p->t->packs, p->t->packs, i);
        print_neutral(p, m);
        mpc_str_append(p->o, ";\n");
        return;
    }
    print_neutral(p, m);
    mpc_str_append(p->o, ", ");
    print_valid(p);
    mpc_str_append(p->o, ");\n");
    print_loop_end(p);
}

/* Stores `value` (packs of `width`) as elements `at`, ... of the result, or of this unit's part. */
static void print_over_store(const team_printer *p, uint32_t i, unsigned width, const char *at, const char *value) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = lanes_of(m);
    const char *columns = is_column_sum(p->l, i) ? "cols" : "1";
    if (p->l->units > 1) {
        mpc_str_printf(p->o, "mpc_store_%s<%u>((char *)p[%u] + ((int64_t)unit * %s + %s) * %u, %s, ",
                       lane_format(lanes), width, m->extra, columns, at, lane_bytes(lanes), value);
    } else {
        bool rounds = mpc_cg_rounds(m->format);
        mpc_str_printf(p->o, "mpc_store_%s<%u>((char *)p[%u] + (int64_t)(%s) * %u, %s%s%s%s%s, ",
                       format_name(m->format), width, m->pointer, at, bytes_of(m->format), rounds ? "mpc_round_" : "",
                       rounds ? format_name(m->format) : "", rounds ? "(" : "", value, rounds ? ")" : "");
    }
    if (width == 1) mpc_str_append(p->o, "1");
    else print_valid(p);
    mpc_str_append(p->o, ");\n");
}

/* The teams of a block put their sums together through shared memory, in order. */
static void print_combine(const team_printer *p, uint32_t i) {
    const mpc_loop_team *t = p->t;
    char lanes = lanes_of(&p->l->member[i]);
    unsigned held = t->team * t->packs * t->width;
    const char *type = number_type(lanes), *format = lane_format(lanes), *op = p->l->member[i].op->name;
    mpc_str_printf(p->o, "    {\n        %s *const s = (%s *)mpc_shared();\n        mpc_barrier();\n", type, type);
    mpc_str_printf(
        p->o,
        "        MPC_UNROLL for (int j = 0; j < %u; j++)\n            mpc_store_%s<%u, true>(s + team * %u + (j * %u + "
        "lane) * %u, t%u[j], %u);\n        mpc_barrier();\n",
        t->packs, format, t->width, held, t->team, t->width, i, t->width);
    mpc_str_printf(p->o,
                   "        for (int i = mpc_thread(); i < %u && lo + i < cols; i += %u) {\n            mpc_%c<1> v = "
                   "mpc_load_%s<1>(s + i, 1);\n",
                   held, t->threads, pack_of(lanes), format);
    mpc_str_printf(
        p->o,
        "            for (int g = 1; g < %u; g++) v = mpc_%s_%c(v, mpc_load_%s<1>(s + g * %u + i, 1));\n            ",
        t->threads / t->team, op, lanes, format, held);
    print_over_store(p, i, 1, "lo + i", "v");
    mpc_str_append(p->o, "        }\n    }\n");
}

static void print_over_end(const team_printer *p, uint32_t i) {
    const mpc_loop_member *m = &p->l->member[i];
    char lanes = lanes_of(m);
    mpc_str value = {0};
    if (!is_column_sum(p->l, i)) {
        mpc_str_printf(
            p->o,
            "    {\n        mpc_barrier();\n        const mpc_%c<1> v = %s<1>(mpc_block_%s_%c<%u>(mpc_fold_%s_%c(t%u)."
            "v[0], mpc_shared()));\n        if (mpc_thread() == 0) ",
            pack_of(lanes), splat_name(lanes), m->op->name, lanes, p->t->threads, m->op->name, lanes, i);
        print_over_store(p, i, 1, "0", "v");
        mpc_str_append(p->o, "    }\n");
    } else if (p->t->registers && p->t->threads > p->t->team) {
        print_combine(p, i);
    } else if (p->t->registers || p->l->units == 1) {
        mpc_str_append(p->o, "    mpc_barrier();\n");
        print_loop_start(p);
        mpc_str_append(p->o, "            ");
        if (p->t->registers) mpc_str_printf(&value, "t%u[j]", i);
        else
            mpc_str_printf(&value, "mpc_load_%s<%u>(t%u + (int64_t)c * %u, %s)", lane_format(lanes), p->t->width, i,
                           lane_bytes(lanes), p->t->exact ? "16" : "m");
        print_over_store(p, i, p->t->width, "c", mpc_str_cstr(&value));
        print_loop_end(p);
    }
    p->o->failed |= value.failed;
    mpc_str_free(&value);
}

/* --- the kernel --- */

static void print_places(const team_printer *p) {
    const mpc_loop_team *t = p->t;
    const char *type = index_type(p->l);
    if (t->flat) {
        mpc_str_printf(
            p->o,
            "    const int lane = mpc_thread(), unit = block;\n    const %s lo = ((%s)block * %u + lane) * %u, step = "
            "(%s)blocks * %u;\n    (void)unit;\n",
            type, type, t->threads, t->width, type, t->threads * t->width);
        return;
    }
    mpc_str_printf(
        p->o,
        "    const int chunks = (int)n[3], chunk = block %% chunks, unit = block / chunks;\n    const int lane = "
        "mpc_thread() %% %u, team = mpc_thread() / %u;\n    (void)chunk, (void)unit, (void)team;\n",
        t->team, t->team);
    if (t->registers)
        mpc_str_printf(p->o, "    const %s lo = (%s)chunk * %u;\n", type, type, t->team * t->packs * t->width);
    else mpc_str_printf(p->o, "    const %s lo = lane * %u, step = %u;\n", type, t->width, t->team * t->width);
    if (t->team > 32 && folds_of_row(p->l) > 0) mpc_str_append(p->o, "    int turn = 0;\n");
}

static void print_row_loop(const team_printer *p) {
    const mpc_loop *l = p->l;
    const char *type = index_type(l);
    unsigned teams = p->t->threads / p->t->team;
    if (p->t->flat) mpc_str_append(p->o, "    {\n        const int r = 0;\n        (void)r;\n");
    else if (l->has_over)
        mpc_str_printf(p->o,
                       "    const %s end = unit * (%s)n[0] + (%s)n[0] < rows ? (unit + 1) * (%s)n[0] : rows;\n    for "
                       "(%s r = unit * "
                       "(%s)n[0] + team; r < end; r += %u) {\n",
                       type, type, type, type, type, type, teams);
    else
        mpc_str_printf(p->o, "    for (%s r = (%s)unit * %u + team; r < rows; r += (%s)(blocks / chunks) * %u) {\n",
                       type, type, teams, type, teams);
}

void mpc_cuda_loop_print(const mpc_loop *l, mpc_str *o, uint32_t *shared_bytes) {
    team_printer p = {.l = l, .t = &l->team, .o = o};
    bool any_over = false;
    print_sizes(&p);
    print_outer_packs(&p, "    ");
    print_places(&p);
    for (uint32_t i = 0; i < l->count; i++) {
        if (!is_over(l, i)) continue;
        print_over_start(&p, i);
        any_over = true;
    }
    print_row_loop(&p);
    print_row(&p);
    mpc_str_append(o, "    }\n");
    for (uint32_t i = 0; i < l->count; i++)
        if (is_over(l, i)) print_over_end(&p, i);
    *shared_bytes = l->team.team > 32 ? 2 * SLOT_BYTES * folds_of_row(l) : 0;
    if (any_over && *shared_bytes < SLOT_BYTES) *shared_bytes = SLOT_BYTES;
}
