/* Layers with weights, and pooling. Default initialisers: weights and biases of linear and conv2d uniform within 1 /
 * sqrt(fan in), embeddings normal with deviation 0.02; all can be replaced by `init =` or the params section. */
#include <string.h>

#include "frontend/fe_builtins.h"

/* --- initialisers --- */

static fe_value init_value(fe_call *c, fe_init init) {
    if (c->bad) return FE_POISONED;
    return (fe_value){.kind = FE_INIT, .init = fe_init_value(c->e, init)};
}

fe_value fe_fn_normal(fe_call *c) {
    fe_init init = {FE_INIT_NORMAL, fe_arg_float(c, 0, 0), fe_arg_float(c, 1, 1)};
    return init_value(c, init);
}

fe_value fe_fn_uniform(fe_call *c) {
    fe_init init = {FE_INIT_UNIFORM, fe_arg_float(c, 0, -1), fe_arg_float(c, 1, 1)};
    return init_value(c, init);
}

fe_value fe_fn_constant(fe_call *c) {
    fe_init init = {FE_INIT_CONSTANT, fe_arg_float(c, 0, 0), 0};
    return init_value(c, init);
}

fe_value fe_fn_named_init(fe_call *c) {
    fe_init init = {strcmp(c->fn->name, "xavier") == 0 ? FE_INIT_XAVIER : FE_INIT_KAIMING, 0, 0};
    return init_value(c, init);
}

/* --- parameters --- */

fe_value fe_fn_param(fe_call *c) {
    static const fe_init fallback = {.kind = FE_INIT_FAN_IN};
    int64_t dims[MPC_MAX_RANK];
    uint32_t n = fe_arg_ints(c, 0, dims, MPC_MAX_RANK, 1);
    const fe_init *init = fe_arg_init(c, 1, &fallback);
    return c->bad ? FE_POISONED : fe_make_param(c, "", n, dims, init);
}

static bool positive(fe_call *c, uint32_t i, int64_t value, const char *what) {
    if (value >= 1) return true;
    fe_error(c->e->d, "E017", fe_arg_span(c, i), "%s: %s must be at least 1, not %lld", c->fn->name, what,
             (long long)value);
    return false;
}

fe_value fe_fn_linear(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    int64_t out = fe_arg_int(c, 1, 1);
    bool bias = fe_arg_bool(c, 2, true);
    const mpc_type *t = fe_arg_type(c, 0);
    if (c->bad || x.kind != FE_TENSOR || !positive(c, 1, out, "the number of outputs")) return FE_POISONED;
    if (t->rank < 1) {
        fe_error(c->e->d, "E021", fe_arg_span(c, 0), "linear needs at least one axis; this is a single number");
        return FE_POISONED;
    }
    int64_t dims[] = {t->dims[t->rank - 1], out};
    fe_init fan = {FE_INIT_FAN_IN, (double)dims[0], 0};
    fe_value w = fe_make_param(c, "weight", 2, dims, fe_arg_init(c, 3, &fan));
    fe_value b = bias && !c->bad ? fe_make_param(c, "bias", 1, &out, &fan) : FE_POISONED;
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_linear, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, w);
    if (bias) fe_op_in(&o, b);
    return fe_op_end(&o);
}

/* --- images --- */

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

/* The window against the image, before the shape rule sees it. */
static bool window_fits(fe_call *c, fe_value x, const int64_t *kernel, const int64_t *pad, const int64_t *dilation,
                        const char *verb) {
    const mpc_type *t = fe_type(x);
    if (t->rank != 4) {
        fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 0),
                               "%s takes images, [batch, height, width, channels]", c->fn->name);
        fe_label(&r, "%s", fe_shape_text(c->e, x));
        fe_send(&r);
        return false;
    }
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

typedef struct conv_sizes {
    int64_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t channels, groups;
} conv_sizes;

static bool read_conv(fe_call *c, conv_sizes *s) {
    s->channels = fe_arg_int(c, 1, 1);
    s->groups = fe_arg_int(c, 6, 1);
    if (c->bad || !pair(c, 2, 1, 1, s->kernel) || !pair(c, 3, 1, 1, s->stride) || !pair(c, 4, 0, 0, s->pad) ||
        !pair(c, 5, 1, 1, s->dilation))
        return false;
    return positive(c, 1, s->channels, "channels") && positive(c, 6, s->groups, "groups");
}

static fe_value emit_conv(fe_call *c, fe_value x, fe_value w, fe_value b, const conv_sizes *s) {
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_conv2d, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, w);
    if (b.kind != FE_HOLE) fe_op_in(&o, b);
    fe_op_attr(&o, MPC_A_INTS("stride", s->stride, 2));
    fe_op_attr(&o, MPC_A_INTS("pad", s->pad, 2));
    fe_op_attr(&o, MPC_A_INTS("dilation", s->dilation, 2));
    fe_op_attr(&o, MPC_A_INT("groups", s->groups));
    fe_value v = fe_op_end(&o);
    if (v.kind == FE_TENSOR) v = finish_window(c, x, v, s->stride[0]);
    return v;
}

fe_value fe_fn_conv2d(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    conv_sizes s;
    bool bias = fe_arg_bool(c, 7, true);
    if (!read_conv(c, &s) || x.kind != FE_TENSOR || !window_fits(c, x, s.kernel, s.pad, s.dilation, "convolve"))
        return FE_POISONED;
    int64_t in = fe_type(x)->dims[3];
    if (in % s.groups || s.channels % s.groups) {
        fe_error(c->e->d, "E022", fe_arg_span(c, 6),
                 "%lld input and %lld output channels can't be divided into %lld groups", (long long)in,
                 (long long)s.channels, (long long)s.groups);
        return FE_POISONED;
    }
    int64_t dims[] = {s.kernel[0], s.kernel[1], in / s.groups, s.channels};
    fe_init fan = {FE_INIT_FAN_IN, (double)dims[0] * (double)dims[1] * (double)dims[2], 0};
    fe_value w = fe_make_param(c, "weight", 4, dims, fe_arg_init(c, 8, &fan));
    fe_value b = bias && !c->bad ? fe_make_param(c, "bias", 1, &s.channels, &fan) : (fe_value){.kind = FE_HOLE};
    return c->bad ? FE_POISONED : emit_conv(c, x, w, b, &s);
}

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

fe_value fe_fn_global_avg_pool(fe_call *c) {
    static const int64_t axes[] = {1, 2};
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    if (fe_type(x)->rank != 4) {
        fe_error(c->e->d, "E021", fe_arg_span(c, 0),
                 "global_avg_pool takes images, [batch, height, width, channels]; this is %s", fe_shape_text(c->e, x));
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_mean, c->name ? c->name : "global_avg_pool");
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, 2));
    return fe_op_end(&o);
}

/* --- embedding --- */

fe_value fe_fn_embedding(fe_call *c) {
    static const fe_init fallback = {FE_INIT_NORMAL, 0, 0.02};
    fe_elab *e = c->e;
    fe_value ids = fe_arg_tensor(c, 0);
    int64_t dims[] = {fe_arg_int(c, 1, 1), fe_arg_int(c, 2, 1)};
    const fe_init *init = fe_arg_init(c, 3, &fallback);
    if (c->bad || !positive(c, 1, dims[0], "the number of rows") || !positive(c, 2, dims[1], "the width"))
        return FE_POISONED;
    if (mpc_format_get(fe_type(ids)->format)->kind != MPC_FORMAT_INT) {
        fe_error(e->d, "E021", fe_arg_span(c, 0), "embedding looks up whole numbers; this is %s",
                 mpc_format_get(fe_type(ids)->format)->name);
        return FE_POISONED;
    }
    fe_value w = fe_make_param(c, "weight", 2, dims, init);
    fe_op o = fe_op_begin(e, c->at, MPC_OP_embedding, c->name);
    fe_op_in(&o, w);
    fe_op_in(&o, ids);
    fe_value v = fe_op_end(&o);
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(e, v.t) : NULL;
    if (!t) return FE_POISONED;
    memset(t->names, 0, sizeof t->names);
    memcpy(t->names, ids.t->names, fe_type(ids)->rank * sizeof *t->names);
    v.t = t;
    bool kept = e->masked;
    e->masked = false; /* a token id outside the table is wrong wherever the loss looks */
    fe_limit_range(e, ids, dims[0],
                   fe_format(e, "%s, the table has %lld rows (%s)", fe_source_text(e->m, c->at->span),
                             (long long)dims[0], fe_place_text(e->d, c->at->span)));
    e->masked = kept;
    return v;
}
