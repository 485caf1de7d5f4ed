/* What sample rules share. Private to ir/eval. Operands are added in order; values are multiples of no power of two, so
 * that a rounding that should not happen is seen. Functions return false when out of memory. */
#ifndef MPC_IR_SAMPLE_UTIL_H
#define MPC_IR_SAMPLE_UTIL_H

#include "ir/eval/sample.h"

/* rank, dims: MPC_DIMS(3, 5, 7); a scalar is MPC_SCALAR */
#define MPC_DIMS(...) \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define MPC_SCALAR 0, NULL

double mpc_sample_real(mpc_sample *s, double lo, double hi);   /* uniform, an f32 */
int64_t mpc_sample_int(mpc_sample *s, int64_t lo, int64_t hi); /* uniform in [lo, hi) */

/* A zeroed operand; NULL when out of memory. */
mpc_tensor *mpc_sample_operand(mpc_sample *s, mpc_format format, uint32_t rank, const int64_t *dims);
/* f32, uniform, differentiable */
bool mpc_sample_reals(mpc_sample *s, double lo, double hi, uint32_t rank, const int64_t *dims);
/* the same, not differentiable */
bool mpc_sample_fixed(mpc_sample *s, double lo, double hi, uint32_t rank, const int64_t *dims);
/* f32, differentiable, near k / 8 + shift for integers k, |k| from 1 to 16: at least 0.02 from 0 and from values with
 * another shift */
bool mpc_sample_spread(mpc_sample *s, double shift, uint32_t rank, const int64_t *dims);
bool mpc_sample_integers(mpc_sample *s, mpc_format format, int64_t lo, int64_t hi, uint32_t rank, const int64_t *dims);
/* f32 [count] of NaN, infinities, zeros of both signs, subnormals, the largest, ones; element i is special i / every %
 * their number */
bool mpc_sample_specials(mpc_sample *s, int64_t every, int64_t count);
extern const int64_t mpc_sample_special_count;
bool mpc_sample_bools(mpc_sample *s, uint32_t rank, const int64_t *dims);
bool mpc_sample_number(mpc_sample *s, mpc_format format, double value); /* a scalar, not differentiable */

bool mpc_sample_attr(mpc_sample *s, mpc_attr_arg attr);
bool mpc_sample_attr_ints(mpc_sample *s, const char *key, uint32_t count,
                          const int64_t *values); /* copies: (s, key, MPC_DIMS(1, 2)) */

/* Evaluates `op` in f64 on the first `count` operands with the attributes set so far whose names `op` knows: results in
 * the sample's arena. For operands that must fit together, such as a gradient op's saved statistics. */
bool mpc_sample_forward(const mpc_sample *s, mpc_op_id op, uint32_t count, mpc_tensor *results);
/* Appends a computed tensor as f32 operand, not differentiable. */
bool mpc_sample_append(mpc_sample *s, const mpc_tensor *t);

#endif
