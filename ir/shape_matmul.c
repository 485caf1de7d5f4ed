/* Shapes of matmuls, convolutions and pools. Images are [n,h,w,c], convolution weights [kh,kw,c/groups,out]. A bias is
 * f32 and does not take part in the join of formats: it is added to the f32 accumulator (N02). */
#include <string.h>

#include "ir/rules.h"
#include "ir/shape_util.h"

static bool want_act(mpc_infer *in) {
    const char *act = mpc_infer_str(in, "act");
    if (strcmp(act, "none") == 0 || strcmp(act, "relu") == 0) return true;
    return mpc_infer_fail(in, MPC_NO_OPERAND, "act must be none or relu, it is %s", act);
}

static bool want_bias(mpc_infer *in, int64_t out) {
    return in->operand_count < 3 || mpc_infer_want(in, 2, MPC_FMT_f32, 1, &out);
}

/* a [..., m, k], b [..., k, n] before the transpositions of the last two axes */
bool mpc_shape_matmul(mpc_infer *in) {
    const mpc_type *a = mpc_infer_operand(in, 0), *b = mpc_infer_operand(in, 1);
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_float(in, 1)) return false;
    if (!mpc_infer_want_min_rank(in, 0, 2) || !mpc_infer_want_min_rank(in, 1, 2)) return false;
    bool ta = mpc_infer_bool(in, "ta"), tb = mpc_infer_bool(in, "tb");
    const int64_t *am = a->dims + a->rank - 2, *bm = b->dims + b->rank - 2;
    bool leading =
        b->rank == 2 || (b->rank == a->rank && memcmp(a->dims, b->dims, (a->rank - 2) * sizeof *a->dims) == 0);
    if (!leading)
        return mpc_infer_fail(in, 1, "leading axes of %s and %s must be equal, or operand 1 have 2 dims",
                              mpc_shape_text_of(a->rank, a->dims).text, mpc_shape_text_of(b->rank, b->dims).text);
    if (am[ta ? 0 : 1] != bm[tb ? 1 : 0])
        return mpc_infer_fail(in, 1, "inner dims of %s%s and %s%s differ: %lld and %lld",
                              mpc_shape_text_of(a->rank, a->dims).text, ta ? " transposed" : "",
                              mpc_shape_text_of(b->rank, b->dims).text, tb ? " transposed" : "",
                              (long long)am[ta ? 0 : 1], (long long)bm[tb ? 1 : 0]);
    mpc_type out = *a;
    out.dims[a->rank - 2] = am[ta ? 1 : 0];
    out.dims[a->rank - 1] = bm[tb ? 0 : 1];
    return mpc_infer_set_like(in, 0, mpc_infer_join(in, 2), &out);
}

bool mpc_shape_linear(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0), *w = mpc_infer_operand(in, 1);
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_float(in, 1) || !mpc_infer_want_rank(in, 1, 2)) return false;
    if (!mpc_infer_want_min_rank(in, 0, 1) || !want_act(in)) return false;
    if (x->dims[x->rank - 1] != w->dims[0])
        return mpc_infer_fail(in, 1, "last dim of %s must be the first of the weight %s",
                              mpc_shape_text_of(x->rank, x->dims).text, mpc_shape_text_of(w->rank, w->dims).text);
    mpc_type out = *x;
    out.dims[x->rank - 1] = w->dims[1];
    return want_bias(in, w->dims[1]) && mpc_infer_set_like(in, 0, mpc_infer_join(in, 2), &out);
}

typedef struct window { /* of one convolution or pool */
    int64_t kernel[2], stride[2], pad[2], dilation[2];
} window;

static bool read_pair(mpc_infer *in, const char *key, int64_t least, int64_t out[2]) {
    if (!mpc_infer_want_ints(in, key, 2, least)) return false;
    memcpy(out, mpc_infer_ints(in, key).data, 2 * sizeof *out);
    return true;
}

/* Places of the window along h and w of an image `size` */
static bool count_windows(mpc_infer *in, const window *win, const int64_t *size, int64_t *out) {
    for (int i = 0; i < 2; i++) {
        int64_t span = win->dilation[i] * (win->kernel[i] - 1) + 1, padded = size[i] + 2 * win->pad[i];
        if (win->kernel[i] < 1 || span > padded)
            return mpc_infer_fail(in, 0, "a window of %lld does not fit into %lld (with padding)", (long long)span,
                                  (long long)padded);
        out[i] = (padded - span) / win->stride[i] + 1;
    }
    return true;
}

static bool read_conv(mpc_infer *in, const int64_t *kernel, window *win) {
    memcpy(win->kernel, kernel, sizeof win->kernel);
    return read_pair(in, "stride", 1, win->stride) && read_pair(in, "pad", 0, win->pad) &&
           read_pair(in, "dilation", 1, win->dilation);
}

static bool want_groups(mpc_infer *in, int64_t channels, int64_t per_group, int64_t out) {
    int64_t groups = mpc_infer_int(in, "groups");
    if (groups >= 1 && channels == per_group * groups && out % groups == 0) return true;
    return mpc_infer_fail(
        in, 1,
        "%lld channels in %lld groups need weights of [kh,kw,channels/groups,out], out a multiple of groups; "
        "they have %lld and %lld",
        (long long)channels, (long long)groups, (long long)per_group, (long long)out);
}

static bool want_images(mpc_infer *in) {
    return mpc_infer_want_float(in, 0) && mpc_infer_want_rank(in, 0, 4) && mpc_infer_want_float(in, 1) &&
           mpc_infer_want_rank(in, 1, 4);
}

bool mpc_shape_conv2d(mpc_infer *in) {
    window win;
    if (!want_images(in) || !want_act(in)) return false;
    const int64_t *x = mpc_infer_operand(in, 0)->dims, *w = mpc_infer_operand(in, 1)->dims;
    int64_t dims[4] = {x[0], 0, 0, w[3]};
    return want_groups(in, x[3], w[2], w[3]) && read_conv(in, w, &win) && count_windows(in, &win, x + 1, dims + 1) &&
           want_bias(in, w[3]) && mpc_infer_set(in, 0, mpc_infer_join(in, 2), 4, dims);
}

/* (dy [n,ho,wo,out], w [kh,kw,c/groups,out]) -> dx [n,h,w,c] */
bool mpc_shape_conv2d_grad_input(mpc_infer *in) {
    window win;
    if (!want_images(in)) return false;
    const int64_t *w = mpc_infer_operand(in, 1)->dims, *dy = mpc_infer_operand(in, 0)->dims;
    int64_t dims[4] = {dy[0], mpc_infer_int(in, "h"), mpc_infer_int(in, "w"), w[2] * mpc_infer_int(in, "groups")};
    int64_t expected[4] = {dy[0], 0, 0, w[3]};
    return want_groups(in, dims[3], w[2], w[3]) && read_conv(in, w, &win) &&
           count_windows(in, &win, dims + 1, expected + 1) && mpc_infer_want_shape(in, 0, 4, expected) &&
           mpc_infer_set(in, 0, mpc_infer_join(in, 2), 4, dims);
}

/* (x [n,h,w,c], dy [n,ho,wo,out]) -> dw [kh,kw,c/groups,out] */
bool mpc_shape_conv2d_grad_weight(mpc_infer *in) {
    window win;
    if (!want_images(in)) return false;
    const int64_t *x = mpc_infer_operand(in, 0)->dims, *dy = mpc_infer_operand(in, 1)->dims;
    int64_t groups = mpc_infer_int(in, "groups");
    int64_t dims[4] = {mpc_infer_int(in, "kh"), mpc_infer_int(in, "kw"), groups > 0 ? x[3] / groups : 0, dy[3]};
    int64_t expected[4] = {x[0], 0, 0, dy[3]};
    return want_groups(in, x[3], dims[2], dy[3]) && read_conv(in, dims, &win) &&
           count_windows(in, &win, x + 1, expected + 1) && mpc_infer_want_shape(in, 1, 4, expected) &&
           mpc_infer_set(in, 0, mpc_infer_join(in, 2), 4, dims);
}

/* Padding narrower than the kernel: so every window holds an element of the image. */
static bool read_pool(mpc_infer *in, window *win) {
    *win = (window){.dilation = {1, 1}};
    if (!read_pair(in, "kernel", 1, win->kernel) || !read_pair(in, "stride", 1, win->stride) ||
        !read_pair(in, "pad", 0, win->pad))
        return false;
    if (win->pad[0] < win->kernel[0] && win->pad[1] < win->kernel[1]) return true;
    return mpc_infer_fail(in, MPC_NO_OPERAND, "pad must be smaller than kernel");
}

bool mpc_shape_pool(mpc_infer *in) {
    window win;
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_rank(in, 0, 4)) return false;
    mpc_type out = *mpc_infer_operand(in, 0);
    return read_pool(in, &win) && count_windows(in, &win, mpc_infer_operand(in, 0)->dims + 1, out.dims + 1) &&
           mpc_infer_set_like(in, 0, out.format, &out);
}

bool mpc_shape_pool_grad(mpc_infer *in) {
    window win;
    if (!want_images(in)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    int64_t expected[4] = {x->dims[0], 0, 0, x->dims[3]};
    return read_pool(in, &win) && count_windows(in, &win, x->dims + 1, expected + 1) &&
           mpc_infer_want_shape(in, 1, 4, expected) && mpc_infer_set_like(in, 0, x->format, x);
}

bool mpc_shape_avg_pool_grad(mpc_infer *in) {
    window win;
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_rank(in, 0, 4)) return false;
    const mpc_type *dy = mpc_infer_operand(in, 0);
    int64_t dims[4] = {dy->dims[0], mpc_infer_int(in, "h"), mpc_infer_int(in, "w"), dy->dims[3]};
    int64_t expected[4] = {dims[0], 0, 0, dims[3]};
    return read_pool(in, &win) && count_windows(in, &win, dims + 1, expected + 1) &&
           mpc_infer_want_shape(in, 0, 4, expected) && mpc_infer_set(in, 0, dy->format, 4, dims);
}
