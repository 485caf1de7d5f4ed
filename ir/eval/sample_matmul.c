/* Samples of matmuls, convolutions and pools: sizes that no vector or tile divides, every transposition, stride,
 * padding, dilation and groups, and windows that hang over the border. */
#include "ir/eval/sample_util.h"
#include "ir/rules.h"

bool mpc_sample_matmul(mpc_sample *s) {
    bool ta = s->variant % 4 >= 2, tb = s->variant % 2 == 1;
    if (s->variant > 8) return false;
    if (!mpc_sample_attr(s, MPC_A_BOOL("ta", ta)) || !mpc_sample_attr(s, MPC_A_BOOL("tb", tb))) return false;
    int64_t m = 5, k = 37, n = 9, batch = 3;
    if (s->variant < 4)
        return mpc_sample_reals(s, -1, 1, 2, (const int64_t[]){ta ? k : m, ta ? m : k}) &&
               mpc_sample_reals(s, -1, 1, 2, (const int64_t[]){tb ? n : k, tb ? k : n});
    if (s->variant < 8)
        return mpc_sample_reals(s, -1, 1, 3, (const int64_t[]){batch, ta ? k : m, ta ? m : k}) &&
               mpc_sample_reals(s, -1, 1, 3, (const int64_t[]){batch, tb ? n : k, tb ? k : n});
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(2, 2, 5, 11)) && mpc_sample_reals(s, -1, 1, MPC_DIMS(11, 4));
}

bool mpc_sample_linear(mpc_sample *s) {
    if (s->variant > 4) return false;
    if (s->variant == 4) /* one row, no tail */
        return mpc_sample_reals(s, -1, 1, MPC_DIMS(64)) && mpc_sample_reals(s, -1, 1, MPC_DIMS(64, 32));
    if (!mpc_sample_reals(s, -1, 1, MPC_DIMS(2, 7, 21)) || !mpc_sample_reals(s, -1, 1, MPC_DIMS(21, 18))) return false;
    if (s->variant >= 2 && !mpc_sample_attr(s, MPC_A_STR("act", "relu"))) return false;
    return s->variant % 2 == 0 || mpc_sample_reals(s, -1, 1, MPC_DIMS(18));
}

typedef struct conv_case {
    int64_t size[2], c, out, kernel[2], stride[2], pad[2], dilation[2], groups;
} conv_case;

static const conv_case conv_cases[] = {
    {{6, 7}, 3, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},  {{9, 8}, 4, 6, {3, 2}, {2, 1}, {1, 0}, {1, 1}, 2},
    {{8, 9}, 4, 4, {3, 3}, {1, 2}, {0, 1}, {2, 1}, 4},  {{5, 5}, 17, 20, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {{7, 10}, 2, 4, {2, 3}, {3, 2}, {2, 1}, {1, 3}, 1}, {{11, 9}, 6, 9, {3, 2}, {2, 3}, {1, 2}, {2, 3}, 3},
    {{8, 6}, 5, 10, {3, 3}, {2, 1}, {1, 2}, {1, 2}, 5},
};
enum { CONV_CASES = sizeof conv_cases / sizeof *conv_cases };

static int64_t places(const conv_case *c, int i) {
    return (c->size[i] + 2 * c->pad[i] - c->dilation[i] * (c->kernel[i] - 1) - 1) / c->stride[i] + 1;
}

static bool add_conv_attrs(mpc_sample *s, const conv_case *c) {
    return mpc_sample_attr_ints(s, "stride", 2, c->stride) && mpc_sample_attr_ints(s, "pad", 2, c->pad) &&
           mpc_sample_attr_ints(s, "dilation", 2, c->dilation) && mpc_sample_attr(s, MPC_A_INT("groups", c->groups));
}

static bool add_image(mpc_sample *s, const conv_case *c) {
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(2, c->size[0], c->size[1], c->c));
}
static bool add_weight(mpc_sample *s, const conv_case *c) {
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(c->kernel[0], c->kernel[1], c->c / c->groups, c->out));
}
static bool add_dy(mpc_sample *s, const conv_case *c) {
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(2, places(c, 0), places(c, 1), c->out));
}

bool mpc_sample_conv2d(mpc_sample *s) {
    if (s->variant >= 2 * CONV_CASES) return false;
    const conv_case *c = &conv_cases[s->variant % CONV_CASES];
    if (!add_image(s, c) || !add_weight(s, c) || !add_conv_attrs(s, c)) return false;
    if (s->variant < CONV_CASES) return true;
    if (s->variant % 2 == 0 && !mpc_sample_attr(s, MPC_A_STR("act", "relu"))) return false;
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(c->out));
}

bool mpc_sample_conv2d_grad_input(mpc_sample *s) {
    if (s->variant >= CONV_CASES) return false;
    const conv_case *c = &conv_cases[s->variant];
    return add_dy(s, c) && add_weight(s, c) && add_conv_attrs(s, c) && mpc_sample_attr(s, MPC_A_INT("h", c->size[0])) &&
           mpc_sample_attr(s, MPC_A_INT("w", c->size[1]));
}

bool mpc_sample_conv2d_grad_weight(mpc_sample *s) {
    if (s->variant >= CONV_CASES) return false;
    const conv_case *c = &conv_cases[s->variant];
    return add_image(s, c) && add_dy(s, c) && add_conv_attrs(s, c) &&
           mpc_sample_attr(s, MPC_A_INT("kh", c->kernel[0])) && mpc_sample_attr(s, MPC_A_INT("kw", c->kernel[1]));
}

typedef struct pool_case {
    int64_t h, w, c, kernel[2], stride[2], pad[2];
} pool_case;

static const pool_case pool_cases[] = {
    {6, 8, 5, {2, 2}, {2, 2}, {0, 0}}, {7, 6, 17, {3, 3}, {2, 2}, {1, 1}}, {5, 6, 3, {3, 2}, {1, 1}, {0, 1}},
    {5, 5, 4, {5, 5}, {1, 1}, {0, 0}}, {9, 9, 2, {2, 2}, {3, 3}, {0, 0}},
};
enum { POOL_CASES = sizeof pool_cases / sizeof *pool_cases };

static bool add_pool_attrs(mpc_sample *s, const pool_case *c) {
    return mpc_sample_attr_ints(s, "kernel", 2, c->kernel) && mpc_sample_attr_ints(s, "stride", 2, c->stride) &&
           mpc_sample_attr_ints(s, "pad", 2, c->pad);
}

static bool add_pooled(mpc_sample *s, const pool_case *c) {
    int64_t h = (c->h + 2 * c->pad[0] - c->kernel[0]) / c->stride[0] + 1,
            w = (c->w + 2 * c->pad[1] - c->kernel[1]) / c->stride[1] + 1;
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(2, h, w, c->c));
}

bool mpc_sample_pool(mpc_sample *s) {
    if (s->variant >= POOL_CASES) return false;
    const pool_case *c = &pool_cases[s->variant];
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(2, c->h, c->w, c->c)) && add_pool_attrs(s, c);
}

/* The last variant has equal elements: the first maximum takes the gradient. */
bool mpc_sample_max_pool_grad(mpc_sample *s) {
    if (s->variant > POOL_CASES) return false;
    const pool_case *c = &pool_cases[s->variant % POOL_CASES];
    double spread = s->variant == POOL_CASES ? 0 : 1;
    return mpc_sample_fixed(s, -spread, spread, MPC_DIMS(2, c->h, c->w, c->c)) && add_pooled(s, c) &&
           add_pool_attrs(s, c);
}

bool mpc_sample_avg_pool_grad(mpc_sample *s) {
    if (s->variant >= POOL_CASES) return false;
    const pool_case *c = &pool_cases[s->variant];
    return add_pooled(s, c) && add_pool_attrs(s, c) && mpc_sample_attr(s, MPC_A_INT("h", c->h)) &&
           mpc_sample_attr(s, MPC_A_INT("w", c->w));
}
