/* Expansions of prefix sums and of the k largest, on a view [outer, n, inner] of the operand. Prefix sums go by blocks:
 * within a block each sum is one masked reduction, then the sums of whole blocks are added up in the same way, so the
 * work is n times the size of a block and never n squared. The k largest are k maxima, each without those found before.
 */
#include <math.h>

#include "base/alloc.h"
#include "passes/expand_build.h"
#include "passes/rules.h"

enum { BLOCK = 64, DIRECT = 128 }; /* elements of a block; up to how many there is only one */

/* [outer, n, inner] around the node's axis. */
static mpc_value_id around_axis(mpc_expand *e, mpc_value_id a, int64_t dims[3]) {
    int64_t axis = mpc_attr_int(e->from, e->node, "axis");
    mpc_type t = mpc_expand_type(e, a);
    dims[0] = dims[1] = dims[2] = 1;
    for (int64_t i = 0; i < t.rank; i++) dims[i < axis ? 0 : i == axis ? 1 : 2] *= t.dims[i];
    return mpc_expand_to_shape(e, a, 3, dims);
}

static mpc_value_id window(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_attr_arg first, mpc_attr_arg second) {
    mpc_attr_arg attrs[2] = {first, second};
    return mpc_expand_build(e, &(mpc_expand_expr){op, &a, 1, attrs, 2}, MPC_FMT_none);
}

/* Elements start to stop - 1 of axis 1. */
static mpc_value_id cut(mpc_expand *e, mpc_value_id a, int64_t start, int64_t stop) {
    mpc_type t = mpc_expand_type(e, a);
    int64_t from[MPC_MAX_RANK] = {0}, to[MPC_MAX_RANK];
    if (start == 0 && stop == t.dims[1]) return a;
    for (uint32_t i = 0; i < t.rank; i++) to[i] = t.dims[i];
    from[1] = start;
    to[1] = stop;
    return window(e, MPC_OP_slice, a, MPC_A_INTS("start", from, t.rank), MPC_A_INTS("stop", to, t.rank));
}

/* Zeros on both sides of axis 1. */
static mpc_value_id widen(mpc_expand *e, mpc_value_id a, int64_t before, int64_t after) {
    if (before == 0 && after == 0) return a;
    return window(e, MPC_OP_pad, a, MPC_A_INTS("before", ((const int64_t[]){0, before, 0}), 3),
                  MPC_A_INTS("after", ((const int64_t[]){0, after, 0}), 3));
}

/* Sums within each block of a [outer, blocks * b, inner], as [outer, blocks, b, inner]. What is not yet reached is
 * selected away: a NaN spreads in one direction only. */
static mpc_value_id sums_in_blocks(mpc_expand *e, mpc_value_id a, int64_t b, bool reverse) {
    mpc_type t = mpc_expand_type(e, a);
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    int64_t dims[5] = {t.dims[0], t.dims[1] / b, 1, b, t.dims[2]};
    mpc_value_id element = mpc_expand_positions(e, b, 5, 3), sum = mpc_expand_positions(e, b, 5, 2);
    mpc_value_id reached = mpc_expand_op2(e, reverse ? MPC_OP_ge : MPC_OP_le, element, sum);
    mpc_value_id wide = mpc_expand_to_shape(e, a, 5, dims);
    mpc_value_id picked = mpc_expand_op3(e, MPC_OP_where, reached, wide, mpc_expand_number(e, 0));
    return mpc_expand_reduce(e, MPC_OP_sum, picked, 3, false);
}

/* Prefix sums along axis 1 of a [outer, n, inner]. */
static mpc_value_id prefix_sums(mpc_expand *e, mpc_value_id a, bool reverse) {
    mpc_type t = mpc_expand_type(e, a);
    int64_t n = t.dims[1], blocks = (n + BLOCK - 1) / BLOCK;
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    if (n <= DIRECT) return mpc_expand_to_shape(e, sums_in_blocks(e, a, n, reverse), 3, t.dims);
    mpc_value_id inside = sums_in_blocks(e, widen(e, a, 0, blocks * BLOCK - n), BLOCK, reverse);
    int64_t flat[3] = {t.dims[0], blocks * BLOCK, t.dims[2]}, totals[3] = {t.dims[0], blocks, t.dims[2]};
    int64_t column[4] = {t.dims[0], blocks, 1, t.dims[2]}, last = reverse ? 0 : BLOCK - 1;
    int64_t start[4] = {0, 0, last, 0}, stop[4] = {t.dims[0], blocks, last + 1, t.dims[2]};
    mpc_value_id total = window(e, MPC_OP_slice, inside, MPC_A_INTS("start", start, 4), MPC_A_INTS("stop", stop, 4));
    total = prefix_sums(e, mpc_expand_to_shape(e, total, 3, totals), reverse);
    mpc_value_id before =
        reverse ? widen(e, cut(e, total, 1, blocks), 0, 1) : widen(e, cut(e, total, 0, blocks - 1), 1, 0);
    mpc_value_id sum = mpc_expand_op2(e, MPC_OP_add, inside, mpc_expand_to_shape(e, before, 4, column));
    return cut(e, mpc_expand_to_shape(e, sum, 3, flat), 0, n);
}

/* Masked sums are fast along the last axis only: an axis in the middle goes there and back. */
void mpc_expand_cumsum(mpc_expand *e) {
    static const int64_t swap[3] = {0, 2, 1};
    int64_t dims[3];
    mpc_type out = mpc_expand_result_type(e, 0);
    mpc_value_id sums = around_axis(e, mpc_expand_f32(e, 0), dims);
    bool reverse = mpc_attr_bool(e->from, e->node, "reverse"), middle = dims[2] > 1;
    if (dims[0] * dims[1] * dims[2] != 0) {
        if (middle) sums = mpc_expand_permute(e, sums, swap);
        sums = mpc_expand_to_shape(e, sums, 3, (const int64_t[]){dims[0] * dims[2], dims[1], 1});
        sums = prefix_sums(e, sums, reverse);
        if (middle) sums = mpc_expand_to_shape(e, sums, 3, (const int64_t[]){dims[0], dims[2], dims[1]});
        if (middle) sums = mpc_expand_permute(e, sums, swap);
    }
    e->results[0] = mpc_expand_to_shape(e, sums, out.rank, out.dims);
}

typedef struct search { /* for the k largest along axis 1 */
    mpc_value_id x, at; /* [outer, n, inner], positions [n, 1] */
    mpc_value_id taken; /* those found so far; MPC_NONE: none */
    int64_t n;
} search;

/* The next largest value and where it is, both [outer, 1, inner]. Where all that is left is -infinity, those taken look
 * like the maximum too. */
static mpc_value_id next_largest(mpc_expand *e, search *s, mpc_value_id *index) {
    mpc_value_id left = s->x;
    if (s->taken != MPC_NONE) left = mpc_expand_op3(e, MPC_OP_where, s->taken, mpc_expand_number(e, -HUGE_VAL), s->x);
    mpc_value_id max = mpc_expand_reduce(e, MPC_OP_max, left, 1, true);
    mpc_value_id same = mpc_expand_op2(e, MPC_OP_eq, left, max);
    mpc_value_id hit = mpc_expand_op2(e, MPC_OP_or, same, mpc_expand_op1(e, MPC_OP_is_nan, left));
    if (s->taken != MPC_NONE) hit = mpc_expand_op2(e, MPC_OP_and, hit, mpc_expand_op1(e, MPC_OP_not, s->taken));
    mpc_value_id candidates = mpc_expand_op3(e, MPC_OP_where, hit, s->at, mpc_expand_int(e, s->n));
    *index = mpc_expand_reduce(e, MPC_OP_min, candidates, 1, true);
    mpc_value_id found = mpc_expand_op2(e, MPC_OP_eq, s->at, *index);
    s->taken = s->taken == MPC_NONE ? found : mpc_expand_op2(e, MPC_OP_or, s->taken, found);
    return max;
}

static void join(mpc_expand *e, uint32_t r, const mpc_value_id *parts, uint32_t count) {
    mpc_type out = mpc_expand_result_type(e, r);
    mpc_attr_arg axis = MPC_A_INT("axis", 1);
    mpc_value_id all = parts[0];
    if (count > 1) all = mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_concat, parts, count, &axis, 1}, MPC_FMT_none);
    e->results[r] = mpc_expand_to_shape(e, all, out.rank, out.dims);
}

void mpc_expand_top_k(mpc_expand *e) {
    uint32_t k = (uint32_t)mpc_attr_int(e->from, e->node, "k");
    int64_t dims[3];
    mpc_value_id *parts = mpc_alloc(2 * (size_t)k * sizeof *parts);
    if (parts == NULL) {
        mpc_builder_fail(e->b, "out of memory");
        return;
    }
    search s = {.x = around_axis(e, mpc_expand_f32(e, 0), dims), .taken = MPC_NONE, .n = dims[1]};
    s.at = mpc_expand_positions(e, s.n, 3, 1);
    for (uint32_t i = 0; i < k; i++) parts[i] = next_largest(e, &s, &parts[k + i]);
    join(e, 0, parts, k);
    join(e, 1, parts + k, k);
    mpc_free(parts);
}
