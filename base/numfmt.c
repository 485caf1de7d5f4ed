/* Rounding to narrow formats and their bit patterns, by integer arithmetic only: the same on every machine and under
 * any rounding mode. One general routine rounds a double to any binary format; f16 and bf16, which are hot, have direct
 * routines that tests compare with it on every input that matters. Saturating formats turn infinity into their largest
 * number too. */
#include "base/numfmt.h"

#include <math.h>
#include <string.h>

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int bias_of(const mpc_numfmt *fmt) { return (1 << (fmt->exponent_bits - 1)) - 1; }

/* Without infinities the top exponent holds numbers too, all but the last pattern, which is NaN. */
double mpc_numfmt_max(const mpc_numfmt *fmt) {
    double step = ldexp(1.0, -fmt->fraction_bits);
    if (fmt->has_inf) return ldexp(2.0 - step, bias_of(fmt));
    return ldexp(2.0 - 2.0 * step, bias_of(fmt) + 1);
}

double mpc_numfmt_min_subnormal(const mpc_numfmt *fmt) { return ldexp(1.0, 1 - bias_of(fmt) - fmt->fraction_bits); }

static double overflow(const mpc_numfmt *fmt, double sign) {
    if (fmt->saturate) return copysign(mpc_numfmt_max(fmt), sign);
    return fmt->has_inf ? copysign(HUGE_VAL, sign) : (double)NAN;
}

/* m >> shift, to nearest, ties to even; 1 <= shift <= 63 and m < 2^53. */
static uint64_t shift_round(uint64_t m, int shift) {
    uint64_t kept = m >> shift, rest = m & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

double mpc_numfmt_round(const mpc_numfmt *fmt, double value) {
    if (isnan(value) || value == 0) return value;
    if (isinf(value)) return overflow(fmt, value);
    uint64_t bits = bits_of_double(value);
    int field = (int)(bits >> 52 & 0x7ff);
    uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | (field ? UINT64_C(1) << 52 : 0);
    int exponent = (field ? field : 1) - 1023; /* |value| = m * 2^(exponent - 52) */
    int smallest = 1 - bias_of(fmt);
    int last = (exponent > smallest ? exponent : smallest) - fmt->fraction_bits; /* of the result's last place */
    int shift = last - (exponent - 52);
    double rounded = fabs(value);
    if (shift > 54) return copysign(0.0, value);
    if (shift > 0) rounded = ldexp((double)shift_round(m, shift), last);
    return rounded > mpc_numfmt_max(fmt) ? overflow(fmt, value) : copysign(rounded, value);
}

uint16_t mpc_f32_to_f16(float value) {
    uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffffu;
    uint32_t sign = bits >> 16 & 0x8000u;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 */
    if (magnitude >= 0x38800000u)                                    /* normal in f16: rebias, round at bit 13 */
        return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13));
    if (magnitude < 0x33000000u) return (uint16_t)sign; /* below 2^-25 */
    uint32_t m = (magnitude & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | shift_round(m, 126 - (int)(magnitude >> 23)));
}

float mpc_f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, fraction = bits & 0x3ffu;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f;
    return float_of_bits(sign | bits_of_float(magnitude));
}

uint16_t mpc_f32_to_bf16(float value) {
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float mpc_bf16_to_f32(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }

float mpc_f32_to_tf32(float value) {
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7f800000u) == 0x7f800000u) return float_of_bits((bits & 0x7fffffu) ? bits | 0x400000u : bits);
    return float_of_bits((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu);
}

static const mpc_numfmt e4m3 = {4, 3, false, true};
static const mpc_numfmt e5m2 = {5, 2, true, true};

/* The pattern of a value that the format holds exactly; NaN has all bits set. */
static uint8_t encode8(const mpc_numfmt *fmt, double value) {
    unsigned sign = signbit(value) ? 0x80u : 0;
    if (isnan(value)) return (uint8_t)(sign | 0x7fu);
    if (value == 0) return (uint8_t)sign;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [1/2, 1) */
    int field = exponent - 1 + bias_of(fmt);
    unsigned last = field > 0 ? (unsigned)ldexp(fraction, fmt->fraction_bits + 1)
                              : (unsigned)ldexp(fabs(value), bias_of(fmt) - 1 + fmt->fraction_bits);
    unsigned base = field > 0 ? (unsigned)(field - 1) << fmt->fraction_bits : 0; /* `last` carries the hidden one */
    return (uint8_t)(sign | (base + last));
}

static float decode8(const mpc_numfmt *fmt, uint8_t bits) {
    int field = (bits & 0x7f) >> fmt->fraction_bits, top = (1 << fmt->exponent_bits) - 1;
    int fraction = bits & ((1 << fmt->fraction_bits) - 1), all = (1 << fmt->fraction_bits) - 1;
    double value = field ? ldexp((double)(fraction + all + 1), field - bias_of(fmt) - fmt->fraction_bits)
                         : ldexp((double)fraction, 1 - bias_of(fmt) - fmt->fraction_bits);
    if (field == top && fmt->has_inf) value = fraction ? (double)NAN : HUGE_VAL;
    if (field == top && !fmt->has_inf && fraction == all) value = (double)NAN;
    return (float)(bits & 0x80 ? -value : value);
}

uint8_t mpc_f32_to_f8e4m3(float value) { return encode8(&e4m3, mpc_numfmt_round(&e4m3, (double)value)); }
float mpc_f8e4m3_to_f32(uint8_t bits) { return decode8(&e4m3, bits); }
uint8_t mpc_f32_to_f8e5m2(float value) { return encode8(&e5m2, mpc_numfmt_round(&e5m2, (double)value)); }
float mpc_f8e5m2_to_f32(uint8_t bits) { return decode8(&e5m2, bits); }
