/* Tensors of the evaluator: elements as doubles that hold exactly what the storage format holds, whatever the format.
 * 64-bit integers beyond 2^53 are the one exception: they lose their last bits on the way in. */
#include <math.h>
#include <string.h>

#include "base/numfmt.h"
#include "ir/eval/eval.h"

mpc_tensor mpc_tensor_make(mpc_arena *arena, const mpc_type *type) {
    mpc_tensor t = {.type = *type};
    int64_t count = mpc_type_elements(type);
    t.data = mpc_arena_alloc(arena, (size_t)(count > 0 ? count : 1) * sizeof(double));
    return t;
}

static double clamp_to_int(double value, double low, double high) {
    if (value != value) return 0;
    value = trunc(value) + 0.0; /* no negative zero */
    return value < low ? low : value > high ? high : value;
}

double mpc_round_to(mpc_format format, double value) {
    switch (format) {
    case MPC_FMT_none:
    case MPC_FMT_f64:
        return value;
    case MPC_FMT_f32:
        return (double)(float)value;
    case MPC_FMT_bool:
        return value != 0 ? 1 : 0;
    case MPC_FMT_u8:
        return clamp_to_int(value, 0, 255);
    case MPC_FMT_i32:
        return clamp_to_int(value, -0x1p31, 0x1p31 - 1);
    case MPC_FMT_i64:
        return clamp_to_int(value, -0x1p63, 0x1p63 - 1024);
    default:
        return mpc_numfmt_round(&mpc_format_get(format)->fmt, value);
    }
}

static double load(mpc_format format, const unsigned char *p) {
    uint16_t half;
    float single;
    int32_t word;
    int64_t wide;
    double twice;
    switch (format) {
    case MPC_FMT_f64:
        return memcpy(&twice, p, sizeof twice), twice;
    case MPC_FMT_f16:
        return memcpy(&half, p, sizeof half), (double)mpc_f16_to_f32(half);
    case MPC_FMT_bf16:
        return memcpy(&half, p, sizeof half), (double)mpc_bf16_to_f32(half);
    case MPC_FMT_f8e4m3:
        return (double)mpc_f8e4m3_to_f32(*p);
    case MPC_FMT_f8e5m2:
        return (double)mpc_f8e5m2_to_f32(*p);
    case MPC_FMT_i32:
        return memcpy(&word, p, sizeof word), (double)word;
    case MPC_FMT_i64:
        return memcpy(&wide, p, sizeof wide), (double)wide;
    case MPC_FMT_u8:
        return (double)*p;
    case MPC_FMT_bool:
        return *p != 0 ? 1 : 0;
    default:
        return memcpy(&single, p, sizeof single), (double)single;
    }
}

static void store(mpc_format format, double value, unsigned char *p) {
    uint16_t half;
    float single = (float)value;
    int32_t word;
    int64_t wide;
    switch (format) {
    case MPC_FMT_f64:
        memcpy(p, &value, sizeof value);
        return;
    case MPC_FMT_f16:
        half = mpc_f32_to_f16(single), memcpy(p, &half, sizeof half);
        return;
    case MPC_FMT_bf16:
        half = mpc_f32_to_bf16(single), memcpy(p, &half, sizeof half);
        return;
    case MPC_FMT_f8e4m3:
        *p = mpc_f32_to_f8e4m3(single);
        return;
    case MPC_FMT_f8e5m2:
        *p = mpc_f32_to_f8e5m2(single);
        return;
    case MPC_FMT_i32:
        word = (int32_t)mpc_round_to(format, value), memcpy(p, &word, sizeof word);
        return;
    case MPC_FMT_i64:
        wide = (int64_t)mpc_round_to(format, value), memcpy(p, &wide, sizeof wide);
        return;
    case MPC_FMT_u8:
        *p = (unsigned char)mpc_round_to(format, value);
        return;
    case MPC_FMT_bool:
        *p = value != 0;
        return;
    default:
        memcpy(p, &single, sizeof single);
    }
}

void mpc_tensor_from_bytes(mpc_tensor *t, const void *bytes) {
    int64_t count = mpc_type_elements(&t->type);
    size_t size = mpc_format_get(t->type.format)->bytes;
    const unsigned char *p = bytes;
    for (int64_t i = 0; i < count; i++) t->data[i] = load(t->type.format, p + (size_t)i * size);
}

void mpc_tensor_to_bytes(const mpc_tensor *t, void *bytes) {
    int64_t count = mpc_type_elements(&t->type);
    size_t size = mpc_format_get(t->type.format)->bytes;
    unsigned char *p = bytes;
    for (int64_t i = 0; i < count; i++) store(t->type.format, t->data[i], p + (size_t)i * size);
}
