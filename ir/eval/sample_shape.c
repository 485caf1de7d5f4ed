/* Samples of reductions, views and gathers: every axis, several axes, kept axes, empty slices, repeated and foreign
 * indices. */
#include <math.h>

#include "ir/eval/sample_util.h"
#include "ir/rules.h"

bool mpc_sample_reduce(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 6, 35)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(0));
    if (s->variant == 1)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 6, 35)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(2));
    if (s->variant == 2)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 6, 7)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(1));
    if (s->variant == 3)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 6, 7)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(0, 2));
    if (s->variant == 4)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 6, 7)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(1, 2)) &&
               mpc_sample_attr(s, MPC_A_BOOL("keep", true));
    if (s->variant == 5)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 700)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(0, 1));
    if (s->variant == 6) return mpc_sample_reals(s, -2, 2, MPC_DIMS(7)) && mpc_sample_attr_ints(s, "axes", MPC_SCALAR);
    if (s->variant == 7)
        return mpc_sample_fixed(s, -2, 2, MPC_DIMS(300, 40)) && mpc_sample_attr_ints(s, "axes", MPC_DIMS(0));
    return s->variant == 8 && mpc_sample_specials(s, 1, mpc_sample_special_count) &&
           mpc_sample_attr_ints(s, "axes", MPC_DIMS(0));
}

bool mpc_sample_var(mpc_sample *s) {
    if (s->variant < 9) return mpc_sample_reduce(s);
    return s->variant == 9 && mpc_sample_reals(s, 99, 101, MPC_DIMS(5, 6, 35)) && /* far from 0: two passes */
           mpc_sample_attr_ints(s, "axes", MPC_DIMS(0, 2)) && mpc_sample_attr(s, MPC_A_BOOL("unbiased", true));
}

bool mpc_sample_cumsum(mpc_sample *s) {
    if (s->variant > 6 || !mpc_sample_attr(s, MPC_A_BOOL("reverse", s->variant % 2 == 1))) return false;
    if (s->variant < 3)
        return mpc_sample_attr(s, MPC_A_INT("axis", s->variant)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 5, 7));
    if (s->variant < 5)
        return mpc_sample_attr(s, MPC_A_INT("axis", 1)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 150, 3));
    if (s->variant == 5) return mpc_sample_attr(s, MPC_A_INT("axis", 0)) && mpc_sample_fixed(s, -2, 2, MPC_DIMS(5000));
    return mpc_sample_attr(s, MPC_A_INT("axis", 0)) && mpc_sample_specials(s, 1, 90);
}

bool mpc_sample_top_k(mpc_sample *s) {
    static const int64_t axes[] = {2, 1, 0, 1, 0, 0}, k[] = {3, 5, 1, 4, 6, 7};
    if (s->variant > 5 || !mpc_sample_attr(s, MPC_A_INT("axis", axes[s->variant])) ||
        !mpc_sample_attr(s, MPC_A_INT("k", k[s->variant])))
        return false;
    if (s->variant < 2) return mpc_sample_reals(s, -2, 2, MPC_DIMS(4, 5, 35));
    if (s->variant == 2) return mpc_sample_reals(s, -2, 2, MPC_DIMS(7, 3));
    if (s->variant == 4) return mpc_sample_specials(s, 1, mpc_sample_special_count);
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(7, 20)); /* ties, with -infinity among them */
    for (int64_t i = 0; t != NULL && i < 7 * 20; i++)
        t->data[i] = s->variant == 5 && i % 2 == 0 ? -HUGE_VAL : (double)mpc_sample_int(s, 0, 4);
    return t != NULL;
}

bool mpc_sample_argmax(mpc_sample *s) {
    if (s->variant > 2 || !mpc_sample_attr(s, MPC_A_INT("axis", s->variant))) return false;
    if (s->variant < 2) return mpc_sample_fixed(s, -2, 2, MPC_DIMS(4, 6, 10));
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(4, 6, 40)); /* ties: the first wins */
    for (int64_t i = 0; t != NULL && i < 4 * 6 * 40; i++) t->data[i] = (double)mpc_sample_int(s, 0, 4);
    return t != NULL;
}

bool mpc_sample_reshape(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(4, 6, 5)) && mpc_sample_attr_ints(s, "shape", MPC_DIMS(8, 15));
    if (s->variant == 1)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(12)) && mpc_sample_attr_ints(s, "shape", MPC_DIMS(3, 1, 4));
    return s->variant == 2 && mpc_sample_reals(s, -2, 2, MPC_DIMS(1, 1)) &&
           mpc_sample_attr_ints(s, "shape", MPC_SCALAR);
}

bool mpc_sample_transpose(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(9, 35)) && mpc_sample_attr_ints(s, "perm", MPC_DIMS(1, 0));
    if (s->variant == 1)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 3, 4, 5)) &&
               mpc_sample_attr_ints(s, "perm", MPC_DIMS(0, 2, 1, 3));
    return s->variant == 2 && mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 4, 5)) &&
           mpc_sample_attr_ints(s, "perm", MPC_DIMS(2, 0, 1));
}

bool mpc_sample_slice(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 40)) && mpc_sample_attr_ints(s, "start", MPC_DIMS(1, 3)) &&
               mpc_sample_attr_ints(s, "stop", MPC_DIMS(4, 39));
    return s->variant == 1 && mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 4, 6)) &&
           mpc_sample_attr_ints(s, "start", MPC_DIMS(0, 2, 0)) && mpc_sample_attr_ints(s, "stop", MPC_DIMS(3, 3, 6));
}

bool mpc_sample_pad(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 20)) && mpc_sample_attr_ints(s, "before", MPC_DIMS(1, 3)) &&
               mpc_sample_attr_ints(s, "after", MPC_DIMS(2, 0));
    return s->variant == 1 && mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 4)) &&
           mpc_sample_attr_ints(s, "before", MPC_DIMS(0, 1)) && mpc_sample_attr_ints(s, "after", MPC_DIMS(0, 1)) &&
           mpc_sample_attr(s, MPC_A_FLOAT("value", -0.5));
}

bool mpc_sample_concat(mpc_sample *s) {
    if (s->variant > 2 || !mpc_sample_attr(s, MPC_A_INT("axis", s->variant == 2 ? 0 : s->variant))) return false;
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 20)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 20));
    if (s->variant == 2) return mpc_sample_reals(s, -2, 2, MPC_DIMS(17)); /* of one tensor */
    return mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 3, 5)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 1, 5)) &&
           mpc_sample_reals(s, -2, 2, MPC_DIMS(2, 4, 5));
}

bool mpc_sample_expand(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(35)) && mpc_sample_attr_ints(s, "shape", MPC_DIMS(4, 35));
    if (s->variant == 1)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 1, 5)) && mpc_sample_attr_ints(s, "shape", MPC_DIMS(2, 3, 4, 5));
    return s->variant == 2 && mpc_sample_reals(s, -2, 2, MPC_SCALAR) && mpc_sample_attr_ints(s, "shape", MPC_DIMS(6));
}

bool mpc_sample_embedding(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(6, 20)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 6, MPC_DIMS(3, 4));
    return s->variant == 1 && mpc_sample_fixed(s, -2, 2, MPC_DIMS(4, 5)) &&
           mpc_sample_integers(s, MPC_FMT_i32, -2, 7, MPC_DIMS(30));
}

bool mpc_sample_embedding_grad(mpc_sample *s) {
    if (s->variant > 1 || !mpc_sample_attr(s, MPC_A_INT("rows", 6))) return false;
    if (s->variant == 0)
        return mpc_sample_fixed(s, -2, 2, MPC_DIMS(3, 40, 20)) &&
               mpc_sample_integers(s, MPC_FMT_i32, 0, 6, MPC_DIMS(3, 40));
    return mpc_sample_fixed(s, -2, 2, MPC_DIMS(9, 5)) && mpc_sample_integers(s, MPC_FMT_i32, -2, 9, MPC_DIMS(9));
}

bool mpc_sample_gather(mpc_sample *s) {
    if (s->variant == 0)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(5, 10)) && mpc_sample_integers(s, MPC_FMT_i32, 0, 10, MPC_DIMS(5)) &&
               mpc_sample_attr(s, MPC_A_INT("axis", 1));
    if (s->variant == 1)
        return mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 4, 5)) &&
               mpc_sample_integers(s, MPC_FMT_i32, 0, 4, MPC_DIMS(3, 5)) && mpc_sample_attr(s, MPC_A_INT("axis", 1));
    return s->variant == 2 && mpc_sample_fixed(s, -2, 2, MPC_DIMS(5, 10)) &&
           mpc_sample_integers(s, MPC_FMT_i32, -3, 13, MPC_DIMS(10)) && mpc_sample_attr(s, MPC_A_INT("axis", 0));
}

bool mpc_sample_one_hot(mpc_sample *s) {
    return s->variant == 0 && mpc_sample_integers(s, MPC_FMT_i32, -1, 9, MPC_DIMS(4, 6)) &&
           mpc_sample_attr(s, MPC_A_INT("depth", 8));
}

static bool add_rng(mpc_sample *s) {
    return mpc_sample_number(s, MPC_FMT_i64, 1234567) && mpc_sample_number(s, MPC_FMT_i32, 5 + s->variant) &&
           mpc_sample_attr(s, MPC_A_INT("stream", 0x1234567890abcdef));
}

bool mpc_sample_random(mpc_sample *s) {
    return s->variant < 2 && add_rng(s) &&
           mpc_sample_attr_ints(s, "shape", s->variant == 0 ? 2 : 1, (const int64_t[]){53, 7});
}

bool mpc_sample_dropout(mpc_sample *s) {
    static const double rates[] = {0.25, 0, 0.9};
    return s->variant < 3 && mpc_sample_reals(s, -2, 2, MPC_DIMS(6, 35)) && add_rng(s) &&
           mpc_sample_attr(s, MPC_A_FLOAT("rate", rates[s->variant]));
}
