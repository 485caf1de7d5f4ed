/* NaN and infinity come through matmul and convolution, also through relu, on every path: the scaler and the search for the first
 * bad value must see them. */
#include "tests/runtime/program_support.h"

enum { N = 64 };

typedef struct special {
    fixture f;
    mpc_pointer x, w, y;
} special;

static void make_matmul(special *s, mpc_format format) {
    fixture_create(&s->f, NULL);
    s->x = add_buffer(&s->f, "x", format, N * N);
    s->w = add_buffer(&s->f, "w", format, N * N);
    s->y = add_buffer(&s->f, "y", format, N * N);
    mpc_launch *l = add_launch(&s->f, MPC_LAUNCH_MATMUL, "linear");
    l->matmul = (mpc_matmul){.a = s->x,
                             .b = s->w,
                             .c = s->y,
                             .relu = true,
                             .fa = format,
                             .fb = format,
                             .fc = format,
                             .acc = MPC_FMT_f32,
                             .m = N,
                             .n = N,
                             .k = N,
                             .a_row = N,
                             .a_col = 1,
                             .b_row = N,
                             .b_col = 1,
                             .c_row = N,
                             .c_col = 1,
                             .batch = {1, 1, 1}};
}

/* A 1x1 convolution of N images of one pixel is the same product. */
static void make_conv(special *s, mpc_format format) {
    make_matmul(s, format);
    s->f.launches[0].kind = MPC_LAUNCH_CONV;
    s->f.launches[0].conv = (mpc_conv){.kind = MPC_CONV_FORWARD,
                                       .x = s->x,
                                       .w = s->w,
                                       .y = s->y,
                                       .relu = true,
                                       .fx = format,
                                       .fw = format,
                                       .fy = format,
                                       .acc = MPC_FMT_f32,
                                       .n = N,
                                       .h = 1,
                                       .wd = 1,
                                       .c = N,
                                       .oh = 1,
                                       .ow = 1,
                                       .oc = N,
                                       .kh = 1,
                                       .kw = 1,
                                       .stride = {1, 1},
                                       .dilation = {1, 1},
                                       .groups = 1};
}

static void check_special(void (*make)(special *s, mpc_format format), mpc_format format, bool no_onednn) {
    special s;
    make(&s, format);
    mpc_exec *e = load(&s.f, 1, no_onednn);
    CHECK(e);
    if (e) {
        void *x = buffer_data(e, s.x), *w = buffer_data(e, s.w), *y = buffer_data(e, s.y);
        for (int64_t i = 0; i < N * N; i++) {
            mpc_element_set(format, x, i, sample_value(1, i));
            mpc_element_set(format, w, i, 1);
        }
        mpc_element_set(format, x, 3 * N + 5, (double)NAN);
        mpc_element_set(format, x, 7 * N + 60, (double)INFINITY);
        mpc_element_set(format, x, 9 * N + 1, (double)-INFINITY);
        CHECK(e->vtable->step(e) == MPC_OK);
        const char *how = mpc_cpu_implementation(e, 0), *name = mpc_format_get(format)->name;
        for (int64_t j = 0; j < N; j++) {
            double nan = mpc_element_get(format, y, 3 * N + j), inf = mpc_element_get(format, y, 7 * N + j);
            CHECK_MSG(isnan(nan), "%s by %s: column %d is %g", name, how, (int)j, nan);
            CHECK_MSG(isinf(inf), "%s by %s: column %d is %g", name, how, (int)j, inf);
            CHECK(mpc_element_get(format, y, 9 * N + j) == 0);
            CHECK(isfinite(mpc_element_get(format, y, 11 * N + j)));
        }
        e->vtable->destroy(e);
    }
    fixture_destroy(&s.f);
}

int main(void) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    for (int f = 0; f < 3; f++)
        for (int own = 0; own < 2; own++) {
            check_special(make_matmul, formats[f], own);
            check_special(make_conv, formats[f], own);
        }
    return check_result();
}
