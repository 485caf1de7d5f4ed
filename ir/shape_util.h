/* What the shape rules share: requirements with their messages, and setting a result. Private to ir/shape_*.c. Every
 * function that returns false has recorded the failure, so rules are chains of &&. */
#ifndef MPC_IR_SHAPE_UTIL_H
#define MPC_IR_SHAPE_UTIL_H

#include "ir/infer.h"

/* For failures that are no single operand's fault. */
#define MPC_NO_OPERAND UINT32_MAX

typedef struct mpc_shape_text {
    char text[192];
} mpc_shape_text;
/* "[64,784]", by value, so that `mpc_shape_text_of(t).text` is an argument of a message. */
mpc_shape_text mpc_shape_text_of(uint32_t rank, const int64_t *dims);

bool mpc_infer_set(mpc_infer *in, uint32_t result, mpc_format format, uint32_t rank, const int64_t *dims);
bool mpc_infer_set_like(mpc_infer *in, uint32_t result, mpc_format format, const mpc_type *shape);
bool mpc_infer_set_scalar(mpc_infer *in, uint32_t result, mpc_format format);
/* Join of the float formats among the first `count` operands; f32 when none is float. */
mpc_format mpc_infer_join(const mpc_infer *in, uint32_t count);

bool mpc_infer_want_float(mpc_infer *in, uint32_t i);
bool mpc_infer_want_int(mpc_infer *in, uint32_t i);
bool mpc_infer_want_bool(mpc_infer *in, uint32_t i);
bool mpc_infer_want_rank(mpc_infer *in, uint32_t i, uint32_t rank);
bool mpc_infer_want_min_rank(mpc_infer *in, uint32_t i, uint32_t rank);
bool mpc_infer_want_shape(mpc_infer *in, uint32_t i, uint32_t rank, const int64_t *dims);
bool mpc_infer_want_like(mpc_infer *in, uint32_t i, uint32_t other);
/* format and shape at once */
bool mpc_infer_want(mpc_infer *in, uint32_t i, mpc_format format, uint32_t rank, const int64_t *dims);
bool mpc_infer_want_scalar(mpc_infer *in, uint32_t i, mpc_format format);
/* An attribute of exactly `count` integers, each at least `least`. */
bool mpc_infer_want_ints(mpc_infer *in, const char *key, uint32_t count, int64_t least);
/* 0 <= axis < rank of operand 0 */
bool mpc_infer_want_axis(mpc_infer *in, int64_t axis);

#endif
