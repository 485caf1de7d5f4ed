/* The prelude's functions against libm in double, by compiling a small program of them: the stated ulp bounds hold over
 * a dense sample of all bit patterns (argument `all`: every pattern), special values are right, conversions are exact,
 * and narrower vector units give the same bits. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/numfmt.h"
#include "base/rng.h"
#include "codegen/cg.h"
#include "tests/check.h"

typedef void (*map_function)(const float *a, const float *b, float *out, int64_t count);
typedef struct function {
    const char *name;
    double (*exact)(double a, double b);
    double bound; /* ulp */
    bool two;
} function;

static double d_exp(double a, double b) { return (void)b, exp(a); }
static double d_log(double a, double b) { return (void)b, log(a); }
static double d_log1p(double a, double b) { return (void)b, log1p(a); }
static double d_expm1(double a, double b) { return (void)b, expm1(a); }
static double d_round(double a, double b) { return (void)b, nearbyint(a); }
static double d_floor(double a, double b) { return (void)b, floor(a); }
static double d_ceil(double a, double b) { return (void)b, ceil(a); }
static double d_sign(double a, double b) { return (void)b, a > 0 ? 1 : a < 0 ? -1 : a; }
static double d_tanh(double a, double b) { return (void)b, tanh(a); }
static double d_sigmoid(double a, double b) { return (void)b, a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)); }
static double d_erf(double a, double b) { return (void)b, erf(a); }
static double d_sin(double a, double b) { return (void)b, sin(a); }
static double d_cos(double a, double b) { return (void)b, cos(a); }
static double d_sqrt(double a, double b) { return (void)b, sqrt(a); }
static double d_pow(double a, double b) { return pow(a, b); }
static double d_bf16(double a, double b) { return (void)b, (double)mpc_bf16_to_f32(mpc_f32_to_bf16((float)a)); }
static double d_f16(double a, double b) { return (void)b, (double)mpc_f16_to_f32(mpc_f32_to_f16((float)a)); }
static double d_f8e4m3(double a, double b) { return (void)b, (double)mpc_f8e4m3_to_f32(mpc_f32_to_f8e4m3((float)a)); }
static double d_f8e5m2(double a, double b) { return (void)b, (double)mpc_f8e5m2_to_f32(mpc_f32_to_f8e5m2((float)a)); }

static const function functions[] = {
    {"exp", d_exp, 1, false},
    {"log", d_log, 1, false},
    {"log1p", d_log1p, 1, false},
    {"expm1", d_expm1, 2, false},
    {"round", d_round, 0, false},
    {"floor", d_floor, 0, false},
    {"ceil", d_ceil, 0, false},
    {"sign", d_sign, 0, false},
    {"tanh", d_tanh, 2, false},
    {"sigmoid", d_sigmoid, 3, false},
    {"erf", d_erf, 2, false},
    {"sin", d_sin, 0.6, false},
    {"cos", d_cos, 0.6, false},
    {"sqrt", d_sqrt, 0.5, false},
    {"pow", d_pow, 0.6, true},
    {"round_bf16", d_bf16, 0, false},
    {"round_f16", d_f16, 0, false},
    {"round_f8e4m3", d_f8e4m3, 0, false},
    {"round_f8e5m2", d_f8e5m2, 0, false},
    {"memory_bf16", d_bf16, 0, false},
    {"memory_f16", d_f16, 0, false},
    {"memory_f8e4m3", d_f8e4m3, 0, false},
    {"memory_f8e5m2", d_f8e5m2, 0, false},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static void write_source(FILE *f) {
    fputs(mpc_text_prelude_c_h, f);
    for (int i = 0; i < FUNCTIONS; i++) {
        const char *name = functions[i].name;
        fprintf(f, "void map_%s(const float *a, const float *b, float *o, int64_t n) {\n    (void)b;\n", name);
        fprintf(f, "    for (int64_t c = 0; c < n; c += 16) {\n        const int64_t m = n - c;\n        vf x = "
                   "mpc_load_f32(a + c, m);\n");
        if (strncmp(name, "memory_", 7) == 0) {
            fprintf(
                f,
                "        char t[128];\n        mpc_store_%s(t, mpc_round_%s(x), m);\n        x = mpc_load_%s(t, m);\n",
                name + 7, name + 7, name + 7);
        } else {
            fprintf(f, "        x = mpc_%s(x%s);\n", name, functions[i].two ? ", mpc_load_f32(b + c, m)" : "");
        }
        fprintf(f, "        mpc_store_f32(o + c, x, m);\n    }\n}\n");
    }
    fputs("void uniform(float *o, int64_t at, int64_t n, uint64_t seed, uint64_t stream, uint32_t step) { "
          "mpc_fill_uniform(o, at, n, seed, stream, step); }\n",
          f);
}

static void *compile(const char *dir, const char *flags) {
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/m.c", dir);
    FILE *f = fopen(path, "w");
    if (f == NULL) return NULL;
    write_source(f);
    fclose(f);
    const char *cc = getenv("MPC_CC");
    static int number;
    snprintf(command, sizeof command,
             "%s -std=gnu17 -O2 %s -ffp-contract=off -Wno-psabi -fPIC -shared -o %s/m%d.so %s/m.c -lm", cc ? cc : "cc",
             flags, dir, ++number, dir);
    if (system(command) != 0) return NULL;
    snprintf(path, sizeof path, "%s/m%d.so", dir, number);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Distance in units of the last place of the f32 nearest to `exact`. */
static double ulps(float got, double exact) {
    if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
    float nearest = (float)exact;
    if (got == nearest)
        return got == 0 && !signbit(got) != !signbit(exact) ? INFINITY : fabs(exact - (double)got) > 0 ? 0.5 : 0;
    if (isinf(nearest) || isinf(got))
        return isinf(nearest) && fabsf(got) == 3.40282347e38f && fabs(exact) < 3.4028236e38 ? 1 : INFINITY;
    float step = nextafterf(fabsf(nearest), INFINITY) - fabsf(nearest);
    return fabs((double)got - exact) / (double)step;
}

static float from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

enum { BLOCK = 4096 };

/* Exponents of pow: any bits, 2, small integers, and what gives finite results. */
static float draw_second(uint64_t u, int64_t n) {
    if (n % 11 == 0) return 30 * (mpc_random_uniform(7, 1, 1, u) - 0.5f);
    if (n % 7 == 0) return (float)(int)(mpc_random_bits(5, 2, 1, u) % 41) - 20.0f;
    return from_bits(mpc_random_bits(1, 2, 3, u) % 3 == 0 ? (uint32_t)mpc_random_bits(3, 2, 1, u) : 0x40000000u);
}

static void check_function(void *lib, const function *fn, uint32_t stride) {
    char name[64];
    snprintf(name, sizeof name, "map_%s", fn->name);
    map_function map;
    *(void **)&map = dlsym(lib, name);
    CHECK_MSG(map != NULL, "%s", name);
    if (map == NULL) return;
    static float a[BLOCK], b[BLOCK], out[BLOCK];
    double worst = 0, worst_at = 0, worst_b = 0, worst_got = 0;
    for (uint64_t u = 0; u < 1ull << 32;) {
        int64_t n = 0;
        for (; n < BLOCK && u < 1ull << 32; n++, u += stride) {
            a[n] = from_bits((uint32_t)u);
            b[n] = fn->two ? draw_second(u, n) : 0;
        }
        map(a, b, out, n - 1 > 0 ? n - 1 : n); /* a tail of 15 */
        for (int64_t i = 0; i < n - 1; i++) {
            double exact = fn->exact((double)a[i], (double)b[i]), error = ulps(out[i], exact);
            if (error > worst)
                worst = error, worst_at = (double)a[i], worst_b = (double)b[i], worst_got = (double)out[i];
        }
    }
    CHECK_MSG(worst <= fn->bound, "%s(%.9g, %.9g) = %.9g is %g ulp off, bound %g", fn->name, worst_at, worst_b,
              worst_got, worst, fn->bound);
}

static void check_same_bits(void *lib, void *other, uint32_t stride) {
    static float a[BLOCK], b[BLOCK], x[BLOCK], y[BLOCK];
    for (int k = 0; k < FUNCTIONS; k++) {
        char name[64];
        snprintf(name, sizeof name, "map_%s", functions[k].name);
        map_function f, g;
        *(void **)&f = dlsym(lib, name);
        *(void **)&g = dlsym(other, name);
        uint32_t wrong = 0;
        for (uint64_t u = 0; u < 1ull << 32;) {
            for (int64_t i = 0; i < BLOCK; i++, u += stride)
                a[i] = from_bits((uint32_t)u), b[i] = from_bits((uint32_t)(u * 7919));
            f(a, b, x, BLOCK);
            g(a, b, y, BLOCK);
            for (int i = 0; i < BLOCK; i++) wrong += memcmp(&x[i], &y[i], 4) != 0 && !(isnan(x[i]) && isnan(y[i]));
        }
        CHECK_MSG(wrong == 0, "%s: %u results differ between vector units", functions[k].name, wrong);
    }
}

static void check_uniform(void *lib) {
    void (*uniform)(float *, int64_t, int64_t, uint64_t, uint64_t, uint32_t);
    *(void **)&uniform = dlsym(lib, "uniform");
    static float out[1000];
    const int64_t starts[] = {0, 1, 63, 64, 129, ((int64_t)1 << 34) - 70};
    for (int s = 0; s < 6; s++) {
        uniform(out, starts[s], 333, 0x123456789abcdefull, 0xfedcba9876543210ull, 77);
        for (int64_t i = 0; i < 333; i++)
            CHECK(out[i] ==
                  mpc_random_uniform(0x123456789abcdefull, 0xfedcba9876543210ull, 77, (uint64_t)(starts[s] + i)));
    }
}

int main(int argc, char **argv) {
    char dir[] = "/tmp/mpc-math-XXXXXX", command[128];
    uint32_t stride = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 9973;
    if (mkdtemp(dir) == NULL) return 1;
    void *native = compile(dir, "-march=native");
    if (native == NULL) return 77; /* no compiler */
    for (int i = 0; i < FUNCTIONS; i++) check_function(native, &functions[i], stride);
    check_uniform(native);
    const char *narrower[] = {"-mavx2 -mfma -mf16c", "-msse4.2"};
    for (int i = 0; i < 2; i++) {
        void *lib = compile(dir, narrower[i]);
        CHECK(lib != NULL);
        if (lib == NULL) continue;
        check_same_bits(native, lib, 99991);
        check_uniform(lib);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0) fprintf(stderr, "left %s\n", dir);
    return check_result();
}
