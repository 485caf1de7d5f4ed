/* Conversions against a slow reference that searches the format's values: all 2^16 patterns, and around every boundary
 * of f32. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/numfmt.h"
#include "base/rng.h"
#include "tests/check.h"

static const mpc_numfmt f16 = {5, 10, true, false}, bf16 = {8, 7, true, false}, tf32 = {8, 10, true, false};
static const mpc_numfmt e4m3 = {4, 3, false, true}, e5m2 = {5, 2, true, true}, f64 = {11, 52, true, false},
                        f32 = {8, 23, true, false};

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static bool same_bits(float a, float b) { return to_bits(a) == to_bits(b) || (isnan(a) && isnan(b)); }

/* The value of a 16-bit pattern, from the definition of the format. */
static double value16(const mpc_numfmt *fmt, uint16_t bits) {
    int fields = 15 - fmt->fraction_bits, bias = (1 << (fields - 1)) - 1;
    int exponent = (bits & 0x7fff) >> fmt->fraction_bits, fraction = bits & ((1 << fmt->fraction_bits) - 1);
    double value;
    if (exponent == (1 << fields) - 1) value = fraction ? (double)NAN : HUGE_VAL;
    else if (exponent == 0) value = ldexp(fraction, 1 - bias - fmt->fraction_bits);
    else value = ldexp(1 + ldexp(fraction, -fmt->fraction_bits), exponent - bias);
    return bits & 0x8000 ? -value : value;
}

typedef struct format16 {
    const mpc_numfmt *fmt;
    uint16_t (*narrow)(float);
    float (*widen)(uint16_t);
} format16;

static const format16 formats16[] = {{&f16, mpc_f32_to_f16, mpc_f16_to_f32}, {&bf16, mpc_f32_to_bf16, mpc_bf16_to_f32}};

static void every_pattern_widens_to_its_value_and_back(const format16 *f) {
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double expected = value16(f->fmt, bits);
        float value = f->widen(bits);
        if (isnan(expected)) {
            CHECK_MSG(isnan(value), "pattern %04x", i);
            CHECK_MSG(isnan(f->widen(f->narrow(value))), "pattern %04x", i);
            continue;
        }
        CHECK_MSG((double)value == expected && !signbit(value) == !signbit(expected), "pattern %04x", i);
        CHECK_MSG(f->narrow(value) == bits, "pattern %04x", i);
        CHECK_MSG(mpc_numfmt_round(f->fmt, expected) == expected, "pattern %04x", i);
    }
}

/* Halfway between neighbours goes to the even pattern; one f32 above and below go to the nearer. */
static void between_neighbours_rounds_to_nearest_even(const format16 *f) {
    for (uint32_t i = 0; i < 0x7fff; i++) {
        double low = value16(f->fmt, (uint16_t)i), high = value16(f->fmt, (uint16_t)(i + 1));
        if (isnan(low) || isnan(high) || isinf(low)) break;
        if (isinf(high)) high = 2 * low - value16(f->fmt, (uint16_t)(i - 1)); /* as if the exponent went on */
        float middle = (float)((low + high) / 2);
        uint16_t even = (uint16_t)(i & 1 ? i + 1 : i);
        CHECK_MSG((double)middle == (low + high) / 2, "the middle is exact in f32");
        CHECK_MSG(f->narrow(middle) == even, "above %04x", i);
        CHECK_MSG(f->narrow(-middle) == (even | 0x8000), "below -%04x", i);
        CHECK_MSG(f->narrow(nextafterf(middle, HUGE_VALF)) == i + 1, "above %04x", i);
        CHECK_MSG(f->narrow(nextafterf(middle, 0.0f)) == i, "above %04x", i);
    }
}

static void direct_routines_agree_with_the_general_one(uint32_t pattern) {
    float value = from_bits(pattern);
    for (size_t k = 0; k < 2; k++) {
        float direct = formats16[k].widen(formats16[k].narrow(value));
        float general = (float)mpc_numfmt_round(formats16[k].fmt, (double)value);
        CHECK_MSG(same_bits(direct, general), "%08x: %a, %a", pattern, (double)direct, (double)general);
    }
    CHECK_MSG(same_bits(mpc_f32_to_tf32(value), (float)mpc_numfmt_round(&tf32, (double)value)), "%08x", pattern);
    CHECK_MSG(same_bits(mpc_f8e4m3_to_f32(mpc_f32_to_f8e4m3(value)), (float)mpc_numfmt_round(&e4m3, (double)value)),
              "%08x", pattern);
    CHECK_MSG(same_bits(mpc_f8e5m2_to_f32(mpc_f32_to_f8e5m2(value)), (float)mpc_numfmt_round(&e5m2, (double)value)),
              "%08x", pattern);
    CHECK(same_bits(value, (float)mpc_numfmt_round(&f32, (double)value)));
}

/* Every f32 exponent and both signs, with fractions near every power of two and near all ones. */
static void sampled_f32_values_agree(void) {
    for (uint32_t top = 0; top < 512; top++)
        for (uint32_t bit = 0; bit < 24; bit++)
            for (int32_t d = -1; d <= 1; d++) {
                uint32_t fraction = ((1u << bit) + (uint32_t)d) & 0x7fffffu;
                direct_routines_agree_with_the_general_one(top << 23 | fraction);
                direct_routines_agree_with_the_general_one(top << 23 | (~fraction & 0x7fffffu));
            }
    for (uint64_t i = 0; i < 100000; i++) direct_routines_agree_with_the_general_one(mpc_random_bits(7, 0, 0, i));
}

/* FC-099 */
static void bf16_conversion_isnt_truncation(void) {
    CHECK(mpc_bf16_to_f32(mpc_f32_to_bf16(0.2691408770292272f)) == 0.26953125f);
    CHECK(mpc_bf16_to_f32(mpc_f32_to_bf16(3.14f)) == 3.140625f);
    CHECK(fabsf(mpc_bf16_to_f32(mpc_f32_to_bf16(1e-08f)) - 1.00117177e-08f) < 1e-16f);
    CHECK(mpc_f32_to_bf16(from_bits(0x3F808000u)) == 0x3F80);
    CHECK(mpc_f32_to_bf16(from_bits(0x3F818000u)) == 0x3F82);
}

/* FC-101 */
static void f16_overflows_from_65520(void) {
    CHECK(mpc_f16_to_f32(mpc_f32_to_f16(65504.0f)) == 65504.0f);
    CHECK(mpc_f16_to_f32(mpc_f32_to_f16(65519.996f)) == 65504.0f);
    CHECK(isinf(mpc_f16_to_f32(mpc_f32_to_f16(65520.0f))));
    CHECK(isinf(mpc_f16_to_f32(mpc_f32_to_f16(65536.0f))));
    CHECK(mpc_f16_to_f32(mpc_f32_to_f16(0x1p-24f)) == 0x1p-24f);
    CHECK(mpc_f32_to_f16(0x1p-25f) == 0);
    CHECK(mpc_f32_to_f16(2.98e-08f) == 0);
    CHECK(mpc_f16_to_f32(mpc_f32_to_f16(3e-08f)) == 0x1p-24f);
    CHECK(mpc_f32_to_f16(-2.98e-08f) == 0x8000);
}

static void f8_narrowing_saturates_and_keeps_nan(void) {
    CHECK(mpc_numfmt_max(&e4m3) == 448 && mpc_numfmt_max(&e5m2) == 57344);
    CHECK(mpc_f8e4m3_to_f32(mpc_f32_to_f8e4m3(1e9f)) == 448.0f &&
          mpc_f8e4m3_to_f32(mpc_f32_to_f8e4m3(-HUGE_VALF)) == -448.0f);
    CHECK(mpc_f8e5m2_to_f32(mpc_f32_to_f8e5m2(1e9f)) == 57344.0f &&
          mpc_f8e5m2_to_f32(mpc_f32_to_f8e5m2(HUGE_VALF)) == 57344.0f);
    CHECK(isnan(mpc_f8e4m3_to_f32(mpc_f32_to_f8e4m3(NAN))) && isnan(mpc_f8e5m2_to_f32(mpc_f32_to_f8e5m2(NAN))));
    for (unsigned i = 0; i < 256; i++) {
        float a = mpc_f8e4m3_to_f32((uint8_t)i), b = mpc_f8e5m2_to_f32((uint8_t)i);
        CHECK_MSG(isnan(a) ? (i & 0x7f) == 0x7f : mpc_f32_to_f8e4m3(a) == i, "e4m3 %02x", i);
        CHECK_MSG(isnan(b) || isinf(b) ? (i & 0x7f) >= 0x7c : mpc_f32_to_f8e5m2(b) == i, "e5m2 %02x", i);
    }
    CHECK(mpc_f8e4m3_to_f32(0x08) == 0x1p-6f && mpc_f8e4m3_to_f32(0x01) == 0x1p-9f && mpc_f8e4m3_to_f32(0x38) == 1.0f);
    CHECK(mpc_f8e5m2_to_f32(0x3c) == 1.0f && mpc_f8e5m2_to_f32(0x01) == 0x1p-16f && isinf(mpc_f8e5m2_to_f32(0x7c)));
}

static void limits_of_formats_are_right(void) {
    CHECK(mpc_numfmt_max(&f16) == 65504 && mpc_numfmt_min_subnormal(&f16) == 0x1p-24);
    CHECK(mpc_numfmt_max(&bf16) == (double)from_bits(0x7f7f0000u) && mpc_numfmt_min_subnormal(&bf16) == 0x1p-133);
    CHECK(mpc_numfmt_min_subnormal(&e4m3) == 0x1p-9);
    CHECK(mpc_numfmt_round(&f64, 0.1) == 0.1 && mpc_numfmt_round(&f64, 5e-324) == 5e-324);
    CHECK(isinf(mpc_numfmt_round(&f32, 1e39)) && mpc_numfmt_round(&f32, 1e-50) == 0);
    CHECK(signbit(mpc_numfmt_round(&f16, -1e-30)) != 0);
}

int main(void) {
    for (size_t k = 0; k < 2; k++) {
        every_pattern_widens_to_its_value_and_back(&formats16[k]);
        between_neighbours_rounds_to_nearest_even(&formats16[k]);
    }
    sampled_f32_values_agree();
    bf16_conversion_isnt_truncation();
    f16_overflows_from_65520();
    f8_narrowing_saturates_and_keeps_nan();
    limits_of_formats_are_right();
    return check_result();
}
