/* Floating-point formats narrower than f32 (and any other binary format, exactly), by integer arithmetic.
 * Round to nearest even; subnormals kept; NaN stays NaN. */
#ifndef MPC_BASE_NUMFMT_H
#define MPC_BASE_NUMFMT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mpc_numfmt {
    int exponent_bits, fraction_bits;
    bool has_inf; /* false (f8e4m3): overflow has nowhere to go but NaN or saturation */
    bool saturate; /* narrowing clamps to the largest finite value */
} mpc_numfmt;

/* Value rounded to the format, returned as double (exact for every format up to f64). */
double mpc_numfmt_round(const mpc_numfmt *fmt, double value);
double mpc_numfmt_max(const mpc_numfmt *fmt); /* largest finite */
double mpc_numfmt_min_subnormal(const mpc_numfmt *fmt);

uint16_t mpc_f32_to_f16(float value);
float mpc_f16_to_f32(uint16_t bits);
uint16_t mpc_f32_to_bf16(float value);
float mpc_bf16_to_f32(uint16_t bits);
uint8_t mpc_f32_to_f8e4m3(float value); /* saturates */
float mpc_f8e4m3_to_f32(uint8_t bits);
uint8_t mpc_f32_to_f8e5m2(float value); /* saturates */
float mpc_f8e5m2_to_f32(uint8_t bits);
float mpc_f32_to_tf32(float value);

#endif
