/* Convolutions and pools. A size is one number or [height, width]; `pad = same` is the padding on both sides that keeps
 * the size at stride 1. Weights are [kh, kw, in / groups, out]; those of conv2d_transpose, whose computation is the
 * input gradient of a convolution, are that convolution's: [kh, kw, out / groups, in]. */
#include <string.h>

#include "frontend/fe_builtins.h"

static const fe_history *shrink(fe_call *c, fe_value x, const mpc_type *out) {
    const fe_history *before = x.t->history;
    if (before && before->height == out->dims[1] && before->width == out->dims[2]) return before;
    fe_history *h = fe_alloc(c->e, sizeof *h);
    uint32_t line = 0, column = 0;
    if (!h) return before;
    fe_locate(c->e->m, c->at->span, &line, &column);
    *h = (fe_history){.before = before,
                      .height = out->dims[1],
                      .width = out->dims[2],
                      .line = line,
                      .count = before ? before->count + 1 : 1};
    return h;
}

static fe_value finish_window(fe_call *c, fe_value x, fe_value v, int64_t stride) {
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(c->e, v.t) : NULL;
    if (!t) return FE_POISONED;
    t->history = shrink(c, x, &t->shape);
    t->stride = stride > 1 ? fe_format(c->e, "stride = %lld", (long long)stride) : NULL;
    v.t = t;
    return v;
}

static const char *ordinal(fe_elab *e, uint32_t n) {
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    return fe_format(e, "%u%s", n, n % 10 < 4 && n / 10 % 10 != 1 ? ends[n % 10] : "th");
}

static void explain_history(fe_call *c, fe_report *r, const fe_history *h) {
    fe_elab *e = c->e;
    const char *sizes = "", *lines = "";
    int64_t first_height = 0, first_width = 0;
    bool halved = true;
    uint32_t count = h ? h->count + 1 : 0;
    for (const fe_history *k = h; k; k = k->before) {
        sizes = *sizes ? fe_format(e, "%lld -> %s", (long long)k->height, sizes)
                       : fe_format(e, "%lld", (long long)k->height);
        if (k->line) lines = *lines ? fe_format(e, "%u, %s", k->line, lines) : fe_format(e, "%u", k->line);
        if (k->before)
            halved = halved && (k->before->height + 1) / 2 >= k->height && k->before->height / 2 <= k->height;
        first_height = k->height;
        first_width = k->width;
    }
    if (count < 2) return;
    const char *number = fe_format(e, "%lld", (long long)first_height);
    bool vowel = *number == '8' || strncmp(number, "11", 3) == 0 || strncmp(number, "18", 3) == 0;
    fe_note(r, (mpc_span){0}, "this is the %s %s of a%s %lld x %lld image: %s (line%s %s)", ordinal(e, count),
            halved ? "halving" : "shrinking", vowel ? "n" : "", (long long)first_height, (long long)first_width, sizes,
            count > 2 ? "s" : "", lines);
}

static bool is_image(fe_call *c, fe_value x) {
    if (fe_type(x)->rank == 4) return true;
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 0),
                           "%s takes images, [batch, height, width, channels]", c->fn->name);
    fe_label(&r, "%s", fe_shape_text(c->e, x));
    fe_send(&r);
    return false;
}

/* The window against the image, before the shape rule sees it. */
static bool window_fits(fe_call *c, fe_value x, const int64_t *kernel, const int64_t *pad, const int64_t *dilation,
                        const char *verb) {
    const mpc_type *t = fe_type(x);
    if (!is_image(c, x)) return false;
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        int64_t span = 0;
        bool over = __builtin_mul_overflow(kernel[i] - 1, dilation[i], &span);
        ok = ok && !over && span < t->dims[1 + i] + 2 * pad[i];
    }
    if (ok) return true;
    const fe_ast *callee = c->at->kid[0];
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E023", callee ? callee->span : c->at->span,
                           "the image is smaller than the kernel");
    fe_label(&r, "%s is %s: nothing left to %s", fe_arg_text(c, 0), fe_shape_text(c->e, x), verb);
    explain_history(c, &r, x.t->history);
    fe_send(&r);
    return false;
}

static bool pair(fe_call *c, uint32_t i, int64_t fallback, int64_t least, int64_t out[2]) {
    out[0] = out[1] = fallback;
    if (!fe_given(c, i)) return true;
    uint32_t n = fe_arg_ints(c, i, out, 2, 2);
    if (c->bad) return false;
    bool ok = n == 2 && out[0] >= least && out[1] >= least && out[0] < 1 << 20 && out[1] < 1 << 20;
    if (!ok)
        fe_error(c->e->d, "E017", fe_arg_span(c, i), "%s: one number of at least %lld, or two: [height, width]",
                 c->fn->name, (long long)least);
    c->bad = !ok;
    return ok;
}

/* --- convolutions --- */

typedef struct conv_sizes {
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t channels, groups;
} conv_sizes;

enum { IN, CHANNELS, KERNEL, STRIDE, PAD, DILATION, GROUPS, BIAS, INIT, OUTPUT_PAD }; /* arguments */

/* The word, if it names no variable; other names are evaluated here. */
static bool is_same(fe_call *c) {
    if (c->v[PAD].kind != FE_STRING) return false;
    const fe_ast *at = c->ast[PAD];
    if (at->kind == AST_NAME && (strcmp(at->text, "same") != 0 || fe_lookup(c->e, at->sym))) {
        c->v[PAD] = fe_eval(c->e, at, NULL);
        c->bad = c->bad || c->v[PAD].kind == FE_POISON;
    }
    return c->v[PAD].kind == FE_STRING && strcmp(c->v[PAD].s, "same") == 0;
}

/* Half of what a window covers beyond one place, on each of `axes` last axes. */
static bool pad_same(fe_call *c, conv_sizes *s, int axes) {
    for (int i = 2 - axes; i < 2; i++) {
        int64_t beyond = 0;
        if (__builtin_mul_overflow(s->kernel[i] - 1, s->dilation[i], &beyond) || beyond % 2) {
            fe_error(c->e->d, "E017", fe_arg_span(c, PAD),
                     "%s: `same` pads both sides alike; a window of %lld places needs a number", c->fn->name,
                     (long long)beyond + 1);
            c->bad = true;
            return false;
        }
        s->pad[i] = beyond / 2;
    }
    return true;
}

static bool read_counts(fe_call *c, conv_sizes *s) {
    s->channels = fe_arg_int(c, CHANNELS, 1);
    s->groups = fe_arg_int(c, GROUPS, 1);
    return !c->bad && fe_want_positive(c, CHANNELS, s->channels, "channels") &&
           fe_want_positive(c, GROUPS, s->groups, "groups");
}

static bool read_conv(fe_call *c, conv_sizes *s) {
    if (!pair(c, KERNEL, 1, 1, s->kernel) || !pair(c, STRIDE, 1, 1, s->stride) || !pair(c, DILATION, 1, 1, s->dilation))
        return false;
    if (!(is_same(c) ? pad_same(c, s, 2) : pair(c, PAD, 0, 0, s->pad))) return false;
    return read_counts(c, s);
}

static bool read_transposed(fe_call *c, conv_sizes *s, int64_t output_pad[2]) {
    return pair(c, KERNEL, 1, 1, s->kernel) && pair(c, STRIDE, 1, 1, s->stride) && pair(c, PAD, 0, 0, s->pad) &&
           pair(c, DILATION, 1, 1, s->dilation) && pair(c, OUTPUT_PAD, 0, 0, output_pad) && read_counts(c, s);
}

static bool groups_divide(fe_call *c, int64_t in, const conv_sizes *s) {
    if (in % s->groups == 0 && s->channels % s->groups == 0) return true;
    fe_error(c->e->d, "E022", fe_arg_span(c, GROUPS),
             "%lld input and %lld output channels can't be divided into %lld groups", (long long)in,
             (long long)s->channels, (long long)s->groups);
    return false;
}

static void add_window(fe_op *o, const conv_sizes *s) {
    fe_op_attr(o, MPC_A_INTS("stride", s->stride, 2));
    fe_op_attr(o, MPC_A_INTS("pad", s->pad, 2));
    fe_op_attr(o, MPC_A_INTS("dilation", s->dilation, 2));
    fe_op_attr(o, MPC_A_INT("groups", s->groups));
}

typedef struct conv_params {
    fe_value weight, bias; /* FE_HOLE: none */
} conv_params;

/* `last` two extents of the weight; default: uniform within 1 / sqrt(kh kw last[0]) */
static conv_params make_params(fe_call *c, const conv_sizes *s, const int64_t last[2]) {
    int64_t dims[] = {s->kernel[0], s->kernel[1], last[0], last[1]};
    bool bias = fe_arg_bool(c, BIAS, true);
    fe_init fan = {FE_INIT_FAN_IN, (double)dims[0] * (double)dims[1] * (double)dims[2], 0};
    conv_params p = {.bias = {.kind = FE_HOLE}};
    p.weight = fe_make_param(c, "weight", 4, dims, fe_arg_init(c, INIT, &fan));
    if (bias && !c->bad) p.bias = fe_make_param(c, "bias", 1, &s->channels, &fan);
    return p;
}

static fe_value emit_conv(fe_call *c, fe_value x, const conv_sizes *s, const char *name) {
    conv_params p = make_params(c, s, (int64_t[]){fe_type(x)->dims[3] / s->groups, s->channels});
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_conv2d, name);
    fe_op_in(&o, x);
    fe_op_in(&o, p.weight);
    if (p.bias.kind != FE_HOLE) fe_op_in(&o, p.bias);
    add_window(&o, s);
    return fe_op_end(&o);
}

fe_value fe_fn_conv2d(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, IN);
    conv_sizes s;
    if (c->bad || !read_conv(c, &s) || x.kind != FE_TENSOR ||
        !window_fits(c, x, s.kernel, s.pad, s.dilation, "convolve"))
        return FE_POISONED;
    if (!groups_divide(c, fe_type(x)->dims[3], &s)) return FE_POISONED;
    fe_value v = emit_conv(c, x, &s, c->name);
    return v.kind == FE_TENSOR ? finish_window(c, x, v, s.stride[0]) : v;
}

static bool read_line(fe_call *c, conv_sizes *s) {
    *s = (conv_sizes){.kernel = {1, fe_arg_int(c, KERNEL, 1)},
                      .stride = {1, fe_arg_int(c, STRIDE, 1)},
                      .dilation = {1, fe_arg_int(c, DILATION, 1)}};
    if (is_same(c)) pad_same(c, s, 1);
    else s->pad[1] = fe_arg_int(c, PAD, 0);
    if (c->bad || !fe_want_positive(c, KERNEL, s->kernel[1], "the kernel") ||
        !fe_want_positive(c, STRIDE, s->stride[1], "the stride") ||
        !fe_want_positive(c, DILATION, s->dilation[1], "the dilation"))
        return false;
    int64_t most = 1 << 20;
    if (s->pad[1] >= 0 && s->pad[1] < most && s->kernel[1] < most && s->stride[1] < most && s->dilation[1] < most)
        return read_counts(c, s);
    fe_error(c->e->d, "E017", c->at->span,
             "conv1d: kernel, stride, pad and dilation are at most 2^20, pad not negative");
    return false;
}

/* A row of an image of height 1: x [batch, time, channels]. */
fe_value fe_fn_conv1d(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, IN);
    conv_sizes s;
    if (c->bad || !read_line(c, &s) || x.kind != FE_TENSOR) return FE_POISONED;
    mpc_type t = *fe_type(x);
    if (t.rank != 3 || s.dilation[1] * (s.kernel[1] - 1) >= t.dims[1] + 2 * s.pad[1]) {
        fe_error(c->e->d, t.rank != 3 ? "E021" : "E023", fe_arg_span(c, IN),
                 t.rank != 3 ? "conv1d takes [batch, time, channels]; this is %s"
                             : "a sequence of %s is shorter than the kernel",
                 fe_shape_text(c->e, x));
        return FE_POISONED;
    }
    if (!groups_divide(c, t.dims[2], &s)) return FE_POISONED;
    fe_value row = fe_reshape(c->e, c->at, x, 4, (int64_t[]){t.dims[0], 1, t.dims[1], t.dims[2]});
    fe_value v = row.kind == FE_TENSOR ? emit_conv(c, row, &s, c->name) : FE_POISONED;
    if (v.kind != FE_TENSOR) return FE_POISONED;
    return fe_reshape(c->e, c->at, v, 3, (int64_t[]){t.dims[0], fe_type(v)->dims[2], s.channels});
}

/* The size of the image that a convolution would make x from; output_pad chooses among those. */
static bool grown_size(fe_call *c, fe_value x, const conv_sizes *s, const int64_t *output_pad, int64_t size[2]) {
    for (int i = 0; i < 2; i++) {
        int64_t in = fe_type(x)->dims[1 + i], reach = s->dilation[i] * (s->kernel[i] - 1) + 1;
        if (output_pad[i] >= s->stride[i]) {
            fe_error(c->e->d, "E017", fe_arg_span(c, OUTPUT_PAD), "%s: output_pad must be smaller than the stride",
                     c->fn->name);
            return false;
        }
        size[i] = (in - 1) * s->stride[i] + reach + output_pad[i] - 2 * s->pad[i];
        if (size[i] >= 1 && in >= 1) continue;
        fe_error(c->e->d, "E023", fe_arg_span(c, PAD), "%s: the padding leaves nothing of %s", c->fn->name,
                 fe_shape_text(c->e, x));
        return false;
    }
    return true;
}

fe_value fe_fn_conv2d_transpose(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, IN);
    conv_sizes s;
    int64_t output_pad[2], size[2];
    if (c->bad || !read_transposed(c, &s, output_pad) || x.kind != FE_TENSOR || !is_image(c, x)) return FE_POISONED;
    int64_t in = fe_type(x)->dims[3];
    if (!groups_divide(c, in, &s) || !grown_size(c, x, &s, output_pad, size)) return FE_POISONED;
    conv_params p = make_params(c, &s, (int64_t[]){s.channels / s.groups, in});
    if (c->bad) return FE_POISONED;
    const char *name = c->name ? c->name : "conv2d_transpose";
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_conv2d_grad_input, p.bias.kind != FE_HOLE ? NULL : name);
    fe_op_in(&o, x);
    fe_op_in(&o, p.weight);
    fe_op_attr(&o, MPC_A_INT("h", size[0]));
    fe_op_attr(&o, MPC_A_INT("w", size[1]));
    add_window(&o, &s);
    fe_value v = fe_op_end(&o);
    return p.bias.kind != FE_HOLE ? fe_binary(c->e, c->at, "+", v, p.bias, name) : v;
}

/* --- pools --- */

fe_value fe_fn_pool(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    int64_t size[2], stride[2], pad[2], one[] = {1, 1};
    if (c->bad || !pair(c, 1, 1, 1, size) || !pair(c, 2, 0, 1, stride) || !pair(c, 3, 0, 0, pad)) return FE_POISONED;
    if (!fe_given(c, 2)) memcpy(stride, size, sizeof stride);
    if (!window_fits(c, x, size, pad, one, "pool")) return FE_POISONED;
    bool max = strcmp(c->fn->name, "max_pool") == 0;
    fe_op o = fe_op_begin(c->e, c->at, max ? MPC_OP_max_pool : MPC_OP_avg_pool, c->name);
    fe_op_in(&o, max ? x : fe_to_float(c->e, c->at, x));
    fe_op_attr(&o, MPC_A_INTS("kernel", size, 2));
    fe_op_attr(&o, MPC_A_INTS("stride", stride, 2));
    fe_op_attr(&o, MPC_A_INTS("pad", pad, 2));
    fe_value v = fe_op_end(&o);
    return v.kind == FE_TENSOR ? finish_window(c, x, v, stride[0]) : v;
}

/* Over all positions of an image. */
fe_value fe_fn_global_pool(fe_call *c) {
    static const int64_t axes[] = {1, 2};
    bool max = strcmp(c->fn->name, "global_max_pool") == 0;
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad || x.kind != FE_TENSOR || !is_image(c, x)) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, max ? MPC_OP_max : MPC_OP_mean, c->name ? c->name : c->fn->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, 2));
    return fe_op_end(&o);
}
