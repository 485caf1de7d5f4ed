/* Samples of structure and elementwise ops: equal shapes, broadcasting, a scalar, more elements than a vector holds,
 * ties, and every special value against every other. A variant that sits on a kink or a NaN is not differentiable. */
#include "ir/eval/sample_util.h"
#include "ir/rules.h"

bool mpc_sample_const(mpc_sample *s) {
    static const double values[] = {1.5, -0.3, 1e-30, 7};
    if (s->variant >= 4) return false;
    s->result_type = s->variant == 3
                         ? mpc_type_make(s->ctx, MPC_FMT_i32, MPC_SCALAR)
                         : mpc_type_make(s->ctx, MPC_FMT_f32, s->variant == 2 ? 1 : 0, (const int64_t[]){5});
    return mpc_sample_attr(s, MPC_A_FLOAT("value", values[s->variant]));
}

bool mpc_sample_range(mpc_sample *s) {
    if (s->variant > 0) return false;
    s->result_type = mpc_type_make(s->ctx, MPC_FMT_i32, MPC_DIMS(37));
    return s->result_type != 0;
}

static bool special_pairs(mpc_sample *s) {
    int64_t n = mpc_sample_special_count;
    return mpc_sample_specials(s, n, n * n) && mpc_sample_specials(s, 1, n * n);
}

/* Both from a few values, so that many are equal. */
static bool ties(mpc_sample *s) {
    for (int k = 0; k < 2; k++) {
        mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(8, 17));
        if (t == NULL) return false;
        for (int64_t i = 0; i < 8 * 17; i++) t->data[i] = (double)mpc_sample_int(s, -2, 3) * 0.75;
    }
    return true;
}

bool mpc_sample_pair(mpc_sample *s) {
    bool integers = s->op->shape == mpc_shape_bcast || s->op->shape == mpc_shape_compare;
    switch (s->variant) {
    case 0:
        return mpc_sample_spread(s, 0, MPC_DIMS(3, 5, 7)) && mpc_sample_spread(s, 0.0625, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_spread(s, 0, MPC_DIMS(6, 35)) && mpc_sample_spread(s, 0.0625, MPC_DIMS(35));
    case 2:
        return mpc_sample_spread(s, 0, MPC_DIMS(4, 1, 6)) && mpc_sample_spread(s, 0.0625, MPC_DIMS(5, 1));
    case 3:
        return mpc_sample_spread(s, 0, MPC_SCALAR) && mpc_sample_spread(s, 0.0625, MPC_DIMS(33));
    case 4:
        return ties(s);
    case 5:
        return special_pairs(s);
    case 6:
        return integers && mpc_sample_integers(s, MPC_FMT_i32, -50, 50, MPC_DIMS(5, 9)) &&
               mpc_sample_integers(s, MPC_FMT_i32, -50, 50, MPC_DIMS(9));
    default:
        return false;
    }
}

bool mpc_sample_pair_same(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_spread(s, 0, MPC_DIMS(3, 5, 7)) && mpc_sample_spread(s, 0.0625, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_spread(s, 0, MPC_SCALAR) && mpc_sample_spread(s, 0.0625, MPC_SCALAR);
    case 2:
        return mpc_sample_spread(s, 0, MPC_DIMS(2, 67)) && mpc_sample_spread(s, 0.0625, MPC_DIMS(2, 67));
    default:
        return false;
    }
}

bool mpc_sample_pair_nonzero(mpc_sample *s) {
    if (s->variant == 4 || s->variant == 6) return special_pairs(s);
    return s->variant < 6 && mpc_sample_pair(s);
}

bool mpc_sample_one(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_spread(s, 0, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_spread(s, 0, MPC_SCALAR);
    case 2:
        return mpc_sample_spread(s, 0.03, MPC_DIMS(4, 33));
    case 3:
        return mpc_sample_fixed(s, -30, 30, MPC_DIMS(300));
    case 4:
        return mpc_sample_specials(s, 1, 2 * mpc_sample_special_count);
    default:
        return false;
    }
}

/* Where 1 + x would lose x. */
bool mpc_sample_near_zero(mpc_sample *s) {
    return s->variant < 5 ? mpc_sample_one(s) : s->variant == 5 && mpc_sample_fixed(s, -1e-4, 1e-4, MPC_DIMS(200));
}

bool mpc_sample_above_minus_one(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_reals(s, -0.9, 4, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_reals(s, -0.9, 4, MPC_SCALAR);
    case 2:
        return mpc_sample_fixed(s, -0.999, 3e4, MPC_DIMS(300));
    case 3:
        return mpc_sample_fixed(s, -1e-4, 1e-4, MPC_DIMS(200));
    case 4:
        return mpc_sample_specials(s, 1, 2 * mpc_sample_special_count);
    default:
        return false;
    }
}

/* Halves of both signs, ties among them, up to where every f32 is whole. */
static bool halves(mpc_sample *s) {
    mpc_tensor *t = mpc_sample_operand(s, MPC_FMT_f32, MPC_DIMS(8, 35));
    for (int64_t i = 0; t != NULL && i < 8 * 35; i++)
        t->data[i] = (double)mpc_sample_int(s, -40, 40) * 0.5 * (double)(1 << (i % 8 == 7 ? 18 : i % 8));
    return t != NULL;
}

bool mpc_sample_whole(mpc_sample *s) {
    if (s->variant < 5) return mpc_sample_one(s);
    if (s->variant == 5) return halves(s);
    return s->variant == 6 && s->op->shape == mpc_shape_same &&
           mpc_sample_integers(s, MPC_FMT_i32, -3, 4, MPC_DIMS(5, 9));
}

/* All samples of `plain`, then the same with tanh. */
static bool both_forms(mpc_sample *s, bool (*plain)(mpc_sample *), uint32_t variants) {
    uint32_t variant = s->variant;
    if (variant >= variants && !mpc_sample_attr(s, MPC_A_BOOL("tanh", true))) return false;
    s->variant = variant % variants;
    bool ok = variant < 2 * variants && plain(s);
    s->variant = variant;
    return ok;
}

bool mpc_sample_gelu(mpc_sample *s) { return both_forms(s, mpc_sample_one, 5); }
bool mpc_sample_gelu_grad(mpc_sample *s) { return both_forms(s, mpc_sample_pair_same, 3); }

/* Large angles too: their reduction is where accuracy is lost. */
bool mpc_sample_angle(mpc_sample *s) {
    return s->variant < 5 ? mpc_sample_one(s) : s->variant == 5 && mpc_sample_fixed(s, -1e8, 1e8, MPC_DIMS(200));
}

bool mpc_sample_positive(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_reals(s, 0.1, 4, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_reals(s, 0.1, 4, MPC_SCALAR);
    case 2:
        return mpc_sample_fixed(s, 1e-3, 3e4, MPC_DIMS(300));
    case 3:
        return mpc_sample_specials(s, 1, 2 * mpc_sample_special_count);
    default:
        return false;
    }
}

bool mpc_sample_pow(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_reals(s, 0.2, 2.5, MPC_DIMS(3, 5, 7)) && mpc_sample_reals(s, -2, 2, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_reals(s, 0.2, 2.5, MPC_DIMS(4, 33)) && mpc_sample_reals(s, -2, 2, MPC_SCALAR);
    case 2:
        return mpc_sample_spread(s, 0, MPC_DIMS(40)) && mpc_sample_number(s, MPC_FMT_f32, 3);
    case 3:
        return mpc_sample_spread(s, 0, MPC_DIMS(40)) && mpc_sample_number(s, MPC_FMT_f32, 2);
    default:
        return false;
    }
}

bool mpc_sample_where(mpc_sample *s) {
    switch (s->variant) {
    case 0:
        return mpc_sample_bools(s, MPC_DIMS(3, 5, 7)) && mpc_sample_spread(s, 0, MPC_DIMS(3, 5, 7)) &&
               mpc_sample_spread(s, 0.0625, MPC_DIMS(3, 5, 7));
    case 1:
        return mpc_sample_bools(s, MPC_DIMS(4, 1)) && mpc_sample_spread(s, 0, MPC_DIMS(33)) &&
               mpc_sample_spread(s, 0.0625, MPC_SCALAR);
    case 2:
        return mpc_sample_bools(s, MPC_DIMS(2 * 16)) && mpc_sample_specials(s, 1, 2 * mpc_sample_special_count) &&
               mpc_sample_specials(s, 2, 2 * mpc_sample_special_count);
    case 3:
        return mpc_sample_bools(s, MPC_SCALAR) && mpc_sample_integers(s, MPC_FMT_i32, -9, 9, MPC_DIMS(9)) &&
               mpc_sample_integers(s, MPC_FMT_i32, -9, 9, MPC_DIMS(9));
    default:
        return false;
    }
}

bool mpc_sample_logic(mpc_sample *s) {
    if (s->variant > 1 || !mpc_sample_bools(s, MPC_DIMS(6, 35))) return false;
    return s->op->min_operands == 1
               ? s->variant == 0
               : mpc_sample_bools(s, s->variant == 0 ? 2 : 1, (const int64_t[]){s->variant == 0 ? 6 : 35, 35});
}

typedef struct cast_case {
    mpc_format from, to;
} cast_case;

bool mpc_sample_cast(mpc_sample *s) {
    static const cast_case cases[] = {
        {MPC_FMT_f32, MPC_FMT_bf16}, {MPC_FMT_f32, MPC_FMT_f16},    {MPC_FMT_f32, MPC_FMT_f32},
        {MPC_FMT_f32, MPC_FMT_i32},  {MPC_FMT_i32, MPC_FMT_f32},    {MPC_FMT_bool, MPC_FMT_f32},
        {MPC_FMT_i32, MPC_FMT_i64},  {MPC_FMT_f32, MPC_FMT_f8e4m3}, {MPC_FMT_i32, MPC_FMT_bf16},
        {MPC_FMT_i32, MPC_FMT_bool}, {MPC_FMT_u8, MPC_FMT_f32},     {MPC_FMT_f32, MPC_FMT_f8e5m2},
        {MPC_FMT_f32, MPC_FMT_u8},   {MPC_FMT_f32, MPC_FMT_bool},   {MPC_FMT_bool, MPC_FMT_i32},
        {MPC_FMT_i64, MPC_FMT_i32},
    };
    uint32_t plain = sizeof cases / sizeof *cases;
    if (s->variant < plain) {
        cast_case c = cases[s->variant];
        if (!mpc_sample_attr(s, MPC_A_FORMAT("to", c.to))) return false;
        if (c.from == MPC_FMT_bool) return mpc_sample_bools(s, MPC_DIMS(5, 9));
        if (c.from == MPC_FMT_u8) return mpc_sample_integers(s, c.from, 0, 256, MPC_DIMS(5, 9));
        if (c.from != MPC_FMT_f32) return mpc_sample_integers(s, c.from, -300, 300, MPC_DIMS(5, 9));
        return mpc_sample_reals(s, -40, 40, MPC_DIMS(5, 19));
    }
    static const mpc_format narrow[] = {MPC_FMT_bf16, MPC_FMT_f16, MPC_FMT_f8e4m3, MPC_FMT_f8e5m2, MPC_FMT_i32};
    if (s->variant >= plain + sizeof narrow / sizeof *narrow) return false;
    return mpc_sample_attr(s, MPC_A_FORMAT("to", narrow[s->variant - plain])) &&
           mpc_sample_specials(s, 1, 2 * mpc_sample_special_count);
}

bool mpc_sample_unscale(mpc_sample *s) {
    if (s->variant == 0) return mpc_sample_spread(s, 0, MPC_DIMS(3, 35)) && mpc_sample_number(s, MPC_FMT_f32, 0x1p-16);
    return s->variant == 1 && mpc_sample_specials(s, 1, mpc_sample_special_count) &&
           mpc_sample_number(s, MPC_FMT_f32, 0x1p-10);
}
