/* Device profiles: the built-in ones, their text form, and which of them a format gains on. A profile is what one device does to kernels of this compiler,
 * so figures of CPUs are those of one thread with oneDNN, measured; of GPUs, data sheets times the share that large products reach. Formats without a row
 * run as f32 does. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "passes/precision/cost.h"

#define CPU_F32(rate) [MPC_FMT_f32] = {rate, 0.2e-6, {4, 16, 1}, 1, 1, 0, 0}
#define CPU_LOW(format, rate) [MPC_FMT_##format] = {rate, 0.9e-6, {16, 16, 32}, 4, 2, 0, 0}
#define CPU_SLOW(format, rate) [MPC_FMT_##format] = {rate, 1e-6, {4, 16, 1}, 1, 1, 0, 0}
#define KINDS(...) {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}
#define GPU(f32_rate, low_rate) \
    KINDS([MPC_FMT_f32] = {f32_rate, 1e-6, {64, 64, 8}, 4, 1.5, 0, 0}, [MPC_FMT_bf16] = {low_rate, 1e-6, {64, 64, 32}, 8, 4, 0, 0}, \
          [MPC_FMT_f16] = {low_rate, 1e-6, {64, 64, 32}, 8, 4, 0, 0})

static const mpc_device_profile PROFILES[] = {
    {.name = "cpu-plain",
     .rate = {KINDS(CPU_F32(40e9), CPU_SLOW(bf16, 30e9), CPU_SLOW(f16, 28e9))},
     .bandwidth = 8e9, .cache_bandwidth = 30e9, .cache_bytes = 524288, .gap = 1.5e-6, .convert = 3e9},
    {.name = "cpu-avx512",
     .rate = {KINDS(CPU_F32(130e9), CPU_SLOW(bf16, 95e9), CPU_SLOW(f16, 95e9))},
     .bandwidth = 10e9, .cache_bandwidth = 60e9, .cache_bytes = 1048576, .gap = 1.5e-6, .convert = 8e9},
    {.name = "cpu-avx512bf16",
     .rate = {KINDS(CPU_F32(130e9), CPU_LOW(bf16, 230e9), CPU_SLOW(f16, 95e9))},
     .bandwidth = 10e9, .cache_bandwidth = 60e9, .cache_bytes = 1048576, .gap = 1.5e-6, .convert = 10e9},
    {.name = "cpu-amx",
     .rate = {
              {[MPC_FMT_f32] = {1.74e11, 7.16e-7, {4, 16, 1}, 1, 1, 8.69e-11, 0},
               [MPC_FMT_bf16] = {6.48e11, 1.12e-6, {16, 16, 32}, 4, 1.25, 6.56e-11, 0},
               [MPC_FMT_f16] = {1.62e11, 2.06e-6, {4, 16, 1}, 1, 1, 1.66e-10, 0}},
              {[MPC_FMT_f32] = {1.69e11, 5.17e-7, {4, 16, 1}, 1, 1, 3.78e-12, 1.68e-10},
               [MPC_FMT_bf16] = {4.3e11, 7.26e-7, {16, 16, 32}, 4, 1, 0, 1.41e-10},
               [MPC_FMT_f16] = {1.62e11, 2.01e-6, {4, 16, 1}, 1, 1, 6.23e-11, 1.66e-10}},
              {[MPC_FMT_f32] = {2.58e11, 0, {4, 16, 1}, 1, 1, 2.26e-10, 1e-10},
               [MPC_FMT_bf16] = {4.74e11, 1.78e-5, {16, 16, 32}, 4, 1, 1.19e-10, 3.21e-11},
               [MPC_FMT_f16] = {3.33e11, 0, {4, 16, 1}, 1, 1, 4.97e-10, 3.58e-10}},
              {[MPC_FMT_f32] = {1.99e11, 4.74e-5, {4, 16, 1}, 1, 1, 1.23e-10, 5.07e-10},
               [MPC_FMT_bf16] = {1.41e12, 6.43e-5, {16, 16, 32}, 4, 1, 4.32e-11, 0},
               [MPC_FMT_f16] = {1.81e11, 3.98e-5, {4, 16, 1}, 1, 1, 1.23e-10, 5.61e-10}},
              {[MPC_FMT_f32] = {1.73e11, 2.44e-5, {4, 16, 1}, 1, 1, 3.05e-10, 1.53e-10},
               [MPC_FMT_bf16] = {1.29e12, 6.94e-5, {16, 16, 32}, 4, 1, 0, 2.66e-10},
               [MPC_FMT_f16] = {1.71e11, 2.6e-5, {4, 16, 1}, 1, 1, 3.69e-10, 2.61e-10}},
              {[MPC_FMT_f32] = {1.83e11, 0, {4, 16, 1}, 1, 1, 1.98e-10, 5.71e-9},
               [MPC_FMT_bf16] = {1e15, 0, {16, 16, 32}, 4, 1, 5.95e-10, 9.12e-9},
               [MPC_FMT_f16] = {1.79e11, 0, {4, 16, 1}, 1, 1, 2.76e-10, 4.13e-9}},
              {[MPC_FMT_f32] = {1.74e11, 7.16e-7, {4, 16, 1}, 1, 1, 8.69e-11, 0},
               [MPC_FMT_bf16] = {6.48e11, 1.12e-6, {16, 16, 32}, 4, 1.25, 6.56e-11, 0},
               [MPC_FMT_f16] = {1.62e11, 2.06e-6, {4, 16, 1}, 1, 1, 1.66e-10, 0}}},
     .bandwidth = 20e9, .cache_bandwidth = 60e9, .cache_bytes = 1572864, .gap = 0.4e-6, .convert = 8e9},
    {.name = "a100",
     .rate = {GPU(17e12, 230e12)},
     .bandwidth = 1.7e12, .cache_bandwidth = 4e12, .cache_bytes = 8388608, .gap = 2.5e-6, .convert = 4e12, .keeps_attention = true},
    {.name = "h100",
     .rate = {GPU(50e12, 650e12)},
     .bandwidth = 2.8e12, .cache_bandwidth = 6e12, .cache_bytes = 16777216, .gap = 2e-6, .convert = 8e12, .keeps_attention = true},
    {.name = "h200",
     .rate = {GPU(50e12, 650e12)},
     .bandwidth = 4e12, .cache_bandwidth = 6e12, .cache_bytes = 16777216, .gap = 2e-6, .convert = 8e12, .keeps_attention = true},
};

static const char *const KIND_NAMES[MPC_COST_KINDS] = {"matmul", "matmul_weight", "matmul_batch", "conv", "conv_input", "conv_weight", "attention"};
/* Where a profile says nothing of a kind, it is as that one. */
static const mpc_cost_kind LIKE[MPC_COST_KINDS] = {MPC_COST_MATMUL, MPC_COST_MATMUL, MPC_COST_MATMUL, MPC_COST_CONV, MPC_COST_CONV, MPC_COST_CONV, MPC_COST_ATTENTION};

const char *mpc_cost_kind_name(mpc_cost_kind kind) { return KIND_NAMES[kind]; }

uint32_t mpc_device_profile_count(void) { return sizeof PROFILES / sizeof *PROFILES; }

const mpc_device_profile *mpc_device_profile_at(uint32_t index) { return &PROFILES[index]; }

const mpc_device_profile *mpc_device_profile_find(const char *name) {
    for (uint32_t i = 0; i < mpc_device_profile_count(); i++)
        if (strcmp(PROFILES[i].name, name) == 0) return &PROFILES[i];
    return NULL;
}

static double round_up(double extent, uint32_t tile) { return tile > 1 ? ceil(extent / tile) * tile : extent; }

static bool is_aligned(const mpc_op_size *z, uint32_t align) {
    return align <= 1 || (fmod(z->extent[1], align) == 0 && fmod(z->extent[2], align) == 0);
}

double mpc_rate_seconds(const mpc_rate *r, const mpc_op_size *z) {
    double products = z->batch;
    for (int i = 0; i < 3; i++) products *= round_up(z->extent[i], r->tile[i]);
    double misaligned = is_aligned(z, r->align) ? 1 : r->misaligned;
    return r->setup + misaligned * (2 * products / r->flops + z->operands * r->pack + z->result * r->store);
}

bool mpc_device_gains(const mpc_device_profile *p, mpc_format low) {
    static const mpc_op_size large[] = {{MPC_COST_MATMUL, 1, {1024, 1024, 1024}, 2 << 20, 1 << 20},
                                        {MPC_COST_CONV, 9, {65536, 64, 64}, 4 << 20, 4 << 20},
                                        {MPC_COST_ATTENTION, 64, {1024, 1024, 64}, 8 << 20, 4 << 20}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const mpc_rate *r = p->rate[large[i].kind];
        if (r[low].flops > 0 && mpc_rate_seconds(&r[low], &large[i]) < mpc_rate_seconds(&r[MPC_FMT_f32], &large[i])) return true;
    }
    return false;
}

/* --- text --- */

static const struct scalar_row {
    const char *key;
    size_t offset;
} SCALARS[] = {
    {"bandwidth", offsetof(mpc_device_profile, bandwidth)},
    {"cache_bandwidth", offsetof(mpc_device_profile, cache_bandwidth)},
    {"cache_bytes", offsetof(mpc_device_profile, cache_bytes)},
    {"gap", offsetof(mpc_device_profile, gap)},
    {"convert", offsetof(mpc_device_profile, convert)},
};
enum { SCALAR_COUNT = sizeof SCALARS / sizeof *SCALARS };

void mpc_device_profile_print(const mpc_device_profile *p, mpc_str *out) {
    mpc_str_printf(out, "mpc device profile 1\nname %s\nattention %s\n", p->name, p->keeps_attention ? "one" : "expanded");
    for (mpc_format f = MPC_FMT_none; f < MPC_FMT_count; f++)
        if (p->lacks >> f & 1) mpc_str_printf(out, "lacks %s\n", mpc_format_get(f)->name);
    for (int i = 0; i < SCALAR_COUNT; i++) {
        mpc_str_printf(out, "%s ", SCALARS[i].key);
        mpc_str_append_double(out, *(const double *)((const char *)p + SCALARS[i].offset));
        mpc_str_append(out, "\n");
    }
    mpc_str_append(out, "# op format flops/s setup rows columns depth align misaligned pack store\n");
    for (int k = 0; k < MPC_COST_KINDS; k++)
        for (mpc_format f = MPC_FMT_none; f < MPC_FMT_count; f++) {
            const mpc_rate *r = &p->rate[k][f];
            if (!(r->flops > 0)) continue;
            mpc_str_printf(out, "%s %s ", KIND_NAMES[k], mpc_format_get(f)->name);
            mpc_str_append_double(out, r->flops);
            mpc_str_append(out, " ");
            mpc_str_append_double(out, r->setup);
            mpc_str_printf(out, " %u %u %u %u ", r->tile[0], r->tile[1], r->tile[2], r->align);
            const double last[] = {r->misaligned, r->pack, r->store};
            for (int i = 0; i < 3; i++) {
                mpc_str_append(out, i > 0 ? " " : "");
                mpc_str_append_double(out, last[i]);
            }
            mpc_str_append(out, "\n");
        }
}

static bool read_rate(const char *line, mpc_device_profile *p) {
    char kind[16], format[16];
    mpc_rate r = {0};
    int k = 0;
    int found = sscanf(line, "%15s %15s %lf %lf %u %u %u %u %lf %lf %lf", kind, format, &r.flops, &r.setup, &r.tile[0], &r.tile[1], &r.tile[2],
                       &r.align, &r.misaligned, &r.pack, &r.store);
    if (found != 9 && found != 11) return false;
    while (k < MPC_COST_KINDS && strcmp(KIND_NAMES[k], kind) != 0) k++;
    mpc_format f = mpc_format_find(format);
    if (k == MPC_COST_KINDS || f == MPC_FMT_none || !(r.flops > 0) || !isfinite(r.flops) || !(r.setup >= 0) ||
        !(r.misaligned >= 1) || !(r.pack >= 0) || !(r.store >= 0))
        return false;
    p->rate[k][f] = r;
    return true;
}

static bool read_line(const char *line, mpc_device_profile *p) {
    char key[32], text[48];
    if (line[0] == '\0' || line[0] == '#') return true;
    if (read_rate(line, p)) return true;
    if (sscanf(line, "%31s %47s", key, text) != 2) return false;
    if (strcmp(key, "name") == 0) return snprintf(p->name, sizeof p->name, "%s", text) > 0;
    if (strcmp(key, "attention") == 0) {
        p->keeps_attention = strcmp(text, "one") == 0;
        return p->keeps_attention || strcmp(text, "expanded") == 0;
    }
    if (strcmp(key, "lacks") == 0) {
        mpc_format f = mpc_format_find(text);
        if (!mpc_format_is_low(f)) return false; /* all have f32, and what isn't a float */
        p->lacks |= 1u << f;
        return true;
    }
    for (int i = 0; i < SCALAR_COUNT; i++) {
        char *stop;
        double value = strtod(text, &stop);
        if (strcmp(key, SCALARS[i].key) != 0) continue;
        *(double *)((char *)p + SCALARS[i].offset) = value;
        return *stop == '\0' && value > 0 && isfinite(value);
    }
    return false;
}

static mpc_status refuse(const char *file, unsigned line, const char *what, const mpc_sink *sink) {
    return mpc_error(sink, "E150", "%s:%u: %s", file, line, what);
}

static void fill_in(mpc_device_profile *p) {
    for (int k = 0; k < MPC_COST_KINDS; k++)
        for (mpc_format f = MPC_FMT_none; f < MPC_FMT_count; f++)
            if (!(p->rate[k][f].flops > 0)) p->rate[k][f] = p->rate[LIKE[k]][f];
}

static const char *what_is_missing(const mpc_device_profile *p) {
    for (int i = 0; i < SCALAR_COUNT; i++)
        if (!(*(const double *)((const char *)p + SCALARS[i].offset) > 0)) return SCALARS[i].key;
    for (int k = 0; k < MPC_COST_KINDS; k++)
        if (!(p->rate[k][MPC_FMT_f32].flops > 0)) return KIND_NAMES[k];
    return NULL;
}

mpc_status mpc_device_profile_parse(const char *text, const char *file, const mpc_sink *sink, mpc_device_profile *out) {
    unsigned number = 0;
    *out = (mpc_device_profile){.name = "unnamed"};
    for (const char *at = text; *at != '\0';) {
        char line[256];
        size_t length = strcspn(at, "\n");
        number++;
        if (length >= sizeof line) return refuse(file, number, "line too long", sink);
        memcpy(line, at, length);
        line[length] = '\0';
        at += length + (at[length] == '\n');
        bool header = number == 1;
        if (header && strcmp(line, "mpc device profile 1") != 0)
            return refuse(file, 1, "a device profile begins with `mpc device profile 1`", sink);
        if (!header && !read_line(line, out)) return refuse(file, number, "not a line of a device profile", sink);
    }
    fill_in(out);
    const char *missing = what_is_missing(out);
    if (missing == NULL) return MPC_OK;
    return mpc_error(sink, "E150", "%s: the device profile has no %s%s", file, missing, strchr(missing, '_') ? "" : " (f32 rates are needed)");
}
