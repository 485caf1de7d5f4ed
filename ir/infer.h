/* Shape inference. A rule reads operand types and attributes and sets result types, with default formats: for floats the
 * join of the float operands (f32 graphs stay f32); a node may then be given another float format by autocast. */
#ifndef MPC_IR_INFER_H
#define MPC_IR_INFER_H

#include "ir/op.h"

enum { MPC_MAX_RESULTS = 8 };

typedef struct mpc_infer {
    mpc_context *ctx;
    const mpc_op *op;
    const mpc_type_id *operands;
    uint32_t operand_count;
    const mpc_attr *attrs; /* complete or partial; use mpc_infer_int etc., which fall back to defaults */
    uint32_t attr_count;
    mpc_type_id results[MPC_MAX_RESULTS]; /* out; in: the stated types where there are some, else 0 (rule attr_typed takes results[0]) */
    uint32_t bad_operand; /* out, on failure: the operand at fault, or MPC_NONE */
    char message[256]; /* out, on failure: one sentence without the op's name, e.g. "axis 3 of a [64,784] does not exist" */
} mpc_infer;

/* Runs the op's rule after the generic checks (operand count, required attributes, kinds). */
bool mpc_infer_types(mpc_infer *infer);
bool mpc_infer_fail(mpc_infer *infer, uint32_t operand, const char *format, ...) __attribute__((format(printf, 3, 4)));
const mpc_type *mpc_infer_operand(const mpc_infer *infer, uint32_t i);
int64_t mpc_infer_int(const mpc_infer *infer, const char *key);
double mpc_infer_float(const mpc_infer *infer, const char *key);
bool mpc_infer_bool(const mpc_infer *infer, const char *key);
const char *mpc_infer_str(const mpc_infer *infer, const char *key);
mpc_format mpc_infer_format(const mpc_infer *infer, const char *key);
mpc_int_list mpc_infer_ints(const mpc_infer *infer, const char *key);

/* Shared helpers. Broadcast as numpy does (the language's stricter rule is the front end's). */
bool mpc_broadcast(const mpc_type *a, const mpc_type *b, mpc_type *out);

#endif
