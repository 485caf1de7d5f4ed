/* Random operands and attributes for the generic tests: a new row of ops.def is tested the day it is added. */
#ifndef MPC_IR_SAMPLE_H
#define MPC_IR_SAMPLE_H

#include "ir/builder.h"
#include "ir/eval/eval.h"

typedef struct mpc_sample { /* what a sample rule fills */
    mpc_context *ctx;
    const mpc_op *op;
    uint64_t seed;
    uint32_t variant; /* 0, 1, ...: the rule covers its attribute space over variants; false when there are no more */
    mpc_arena *arena;
    uint32_t operand_count;
    mpc_tensor operands[12]; /* f32 or integer types; the test converts floats to the format under test */
    bool differentiable[12]; /* a gradient with respect to this operand is checked */
    mpc_attr_arg attrs[12];
    uint32_t attr_count;
    mpc_type_id result_type; /* of attr_typed ops; 0 otherwise */
    uint64_t draws;          /* random numbers taken so far */
} mpc_sample;

#endif
