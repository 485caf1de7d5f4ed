/* Convolution launches of all three kinds, in every format, with stride, padding, dilation and groups, by oneDNN and by
 * the own kernels, against sums in double; the same bits for every number of threads; never the library's slow
 * primitives. */
#include "tests/runtime/program_support.h"

typedef struct conv_case {
    int64_t n, h, w, c, oc, k, stride, pad, dilation, groups;
    bool bias, relu;
} conv_case;

static const conv_case cases[] = {
    {3, 8, 9, 16, 32, 3, 1, 1, 1, 1, true, true},    {2, 12, 12, 32, 16, 3, 2, 1, 1, 1, false, false},
    {2, 10, 10, 3, 16, 3, 1, 1, 1, 1, true, false},  {2, 9, 9, 16, 16, 3, 1, 2, 2, 1, false, true},
    {2, 8, 8, 32, 32, 3, 1, 1, 1, 2, true, false},   {2, 8, 8, 16, 16, 3, 1, 1, 1, 16, false, false},
    {7, 6, 6, 32, 48, 1, 2, 0, 1, 1, false, false},  {2, 7, 5, 5, 7, 2, 1, 0, 1, 1, true, true},
    {37, 8, 8, 16, 16, 3, 1, 1, 1, 1, false, false},
};
static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};

static mpc_format result_format(mpc_conv_kind kind, mpc_format in) {
    return kind == MPC_CONV_GRAD_WEIGHT && in == MPC_FMT_bf16 ? MPC_FMT_f32 : in;
}

static void add_conv(fixture *f, const conv_case *k, mpc_conv_kind kind, mpc_format in) {
    mpc_launch *l = add_launch(f, MPC_LAUNCH_CONV, "conv2d");
    mpc_conv *c = &l->conv;
    mpc_format out = result_format(kind, in);
    *c = (mpc_conv){.kind = kind,
                    .has_bias = k->bias && kind == MPC_CONV_FORWARD,
                    .relu = k->relu && kind == MPC_CONV_FORWARD,
                    .acc = MPC_FMT_f32,
                    .n = k->n,
                    .h = k->h,
                    .wd = k->w,
                    .c = k->c,
                    .oc = k->oc,
                    .kh = k->k,
                    .kw = k->k,
                    .stride = {k->stride, k->stride},
                    .pad = {k->pad, k->pad},
                    .dilation = {k->dilation, k->dilation},
                    .groups = k->groups};
    c->oh = (k->h + 2 * k->pad - k->dilation * (k->k - 1) - 1) / k->stride + 1;
    c->ow = (k->w + 2 * k->pad - k->dilation * (k->k - 1) - 1) / k->stride + 1;
    c->fx = kind == MPC_CONV_GRAD_INPUT ? out : in;
    c->fw = kind == MPC_CONV_GRAD_WEIGHT ? out : in;
    c->fy = kind == MPC_CONV_FORWARD ? out : in;
    c->x = add_buffer(f, "x", c->fx, k->n * k->h * k->w * k->c);
    c->w = add_buffer(f, "w", c->fw, k->k * k->k * (k->c / k->groups) * k->oc);
    c->y = add_buffer(f, "y", c->fy, k->n * c->oh * c->ow * k->oc);
    c->bias = add_buffer(f, "bias", MPC_FMT_f32, k->oc);
}

typedef struct sums { /* expected values, the magnitudes added up, number of terms */
    double *value, *size;
    int64_t *terms;
} sums;

/* Visits every product x * w -> y once. */
static void add_products(const mpc_conv *c, const double *x, const double *w, const double *y, sums *s) {
    int64_t cg = c->c / c->groups, og = c->oc / c->groups;
    int64_t total = c->n * c->oh * c->ow * c->oc * c->kh * c->kw * cg;
    for (int64_t at = 0; at < total; at++) {
        int64_t i = at % cg, kx = at / cg % c->kw, ky = at / cg / c->kw % c->kh, rest = at / cg / c->kw / c->kh;
        int64_t o = rest % c->oc, ox = rest / c->oc % c->ow, oy = rest / c->oc / c->ow % c->oh,
                n = rest / c->oc / c->ow / c->oh;
        int64_t iy = oy * c->stride[0] - c->pad[0] + ky * c->dilation[0],
                ix = ox * c->stride[1] - c->pad[1] + kx * c->dilation[1];
        if (iy < 0 || iy >= c->h || ix < 0 || ix >= c->wd) continue;
        int64_t xi = ((n * c->h + iy) * c->wd + ix) * c->c + o / og * cg + i,
                wi = ((ky * c->kw + kx) * cg + i) * c->oc + o, yi = rest;
        int64_t to = c->kind == MPC_CONV_FORWARD ? yi : c->kind == MPC_CONV_GRAD_INPUT ? xi : wi;
        double term = c->kind == MPC_CONV_FORWARD      ? x[xi] * w[wi]
                      : c->kind == MPC_CONV_GRAD_INPUT ? y[yi] * w[wi]
                                                       : x[xi] * y[yi];
        s->value[to] += term;
        s->size[to] += fabs(term);
        s->terms[to]++;
    }
}

static mpc_pointer result_of(const mpc_conv *c) {
    return c->kind == MPC_CONV_FORWARD ? c->y : c->kind == MPC_CONV_GRAD_INPUT ? c->x : c->w;
}

static void check_values(mpc_exec *e, const fixture *f, const mpc_conv *c, const char *what) {
    mpc_pointer result = result_of(c);
    const mpc_type *type = &f->buffers[result.buffer].type;
    int64_t n = mpc_type_elements(type);
    sums s = {.value = mpc_alloc((size_t)n * 8), .size = mpc_alloc((size_t)n * 8), .terms = mpc_alloc((size_t)n * 8)};
    memset(s.value, 0, (size_t)n * 8);
    memset(s.size, 0, (size_t)n * 8);
    memset(s.terms, 0, (size_t)n * 8);
    double *x = read_values(e, c->x), *w = read_values(e, c->w), *y = read_values(e, c->y),
           *bias = read_values(e, c->bias), *got = read_values(e, result);
    add_products(c, x, w, y, &s);
    int wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        double want = s.value[i] + (c->has_bias ? bias[i % c->oc] : 0);
        if (c->relu && want < 0) want = 0;
        wrong += !(fabs(got[i] - want) <= sum_bound(type->format, want, s.size[i] + fabs(want), s.terms[i]));
    }
    CHECK_MSG(wrong == 0, "%s kind %d %s %ldx%ldx%ldx%ld->%ld k%ld g%ld by %s: %d of %ld wrong", what, (int)c->kind,
              mpc_format_get(c->fx)->name, (long)c->n, (long)c->h, (long)c->wd, (long)c->c, (long)c->oc, (long)c->kh,
              (long)c->groups, mpc_cpu_implementation(e, 0), wrong, (long)n);
    const char *name = mpc_cpu_implementation(e, 0);
    CHECK_MSG(!strstr(name, "ref") && !strstr(name, "gemm"), "%s", name);
    double *all[] = {s.value, s.size, x, w, y, bias, got};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) mpc_free(all[i]);
    mpc_free(s.terms);
}

static void check_case(const conv_case *k, mpc_conv_kind kind, mpc_format in, bool no_onednn) {
    fixture f;
    fixture_create(&f, NULL);
    add_conv(&f, k, kind, in);
    const mpc_conv *c = &f.launches[0].conv;
    mpc_pointer result = result_of(c);
    size_t bytes = (size_t)f.buffers[result.buffer].bytes;
    uint8_t *first = mpc_alloc(bytes);
    for (unsigned threads = 1; threads <= 4; threads += 2) {
        mpc_exec *e = load(&f, threads, no_onednn);
        CHECK(e);
        if (!e) break;
        mpc_pointer all[] = {c->x, c->w, c->y, c->bias};
        for (int i = 0; i < 4; i++) fill_random(e, all[i], (uint64_t)i);
        for (int step = 0; step < 2; step++) CHECK(e->vtable->step(e) == MPC_OK);
        if (threads == 1) {
            check_values(e, &f, c, no_onednn ? "own" : "onednn");
            memcpy(first, buffer_data(e, result), bytes);
        }
        CHECK_MSG(memcmp(first, buffer_data(e, result), bytes) == 0, "%u threads, %s", threads,
                  mpc_cpu_implementation(e, 0));
        e->vtable->destroy(e);
    }
    mpc_free(first);
    fixture_destroy(&f);
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = 0; kind < 3; kind++)
            for (int f = 0; f < 3; f++)
                for (int own = 0; own < 2; own++)
                    if (cases[i].n < 10 || (!own && f != 1))
                        check_case(&cases[i], (mpc_conv_kind)kind, formats[f],
                                   own); /* many images: for the library's blocks */
    return check_result();
}
