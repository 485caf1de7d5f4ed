/* The registry of ops: one descriptor per op, filled from the rows of ir/ops.def, extended by plugins. Rules are reached
 * through function pointers; there is no switch over ops. */
#ifndef MPC_IR_OP_H
#define MPC_IR_OP_H

#include "ir/context.h"

typedef uint32_t mpc_op_id; /* index into the registry; MPC_OP_xxx for built-in ops */

enum mpc_builtin_op {
#define OP(name, ...) MPC_OP_##name,
#include "ir/ops.def"
#undef OP
    MPC_OP_builtin_count
};

typedef enum mpc_op_kind {
    MPC_KIND_STRUCT, /* state, const, range: no computation */
    MPC_KIND_EWISE, /* one result element from the matching elements of broadcast operands */
    MPC_KIND_REDUCE,
    MPC_KIND_VIEW, /* moves elements, changes none */
    MPC_KIND_MATMUL,
    MPC_KIND_CONV,
    MPC_KIND_POOL,
    MPC_KIND_GATHER,
    MPC_KIND_RANDOM,
    MPC_KIND_NORM, /* reductions over a list of tensors: global_norm */
    MPC_KIND_COMPOSITE, /* expands into the others */
} mpc_op_kind;

/* What the op computes in (docs/precision.md). NONE: control scalars and structure, never assigned. */
typedef enum mpc_class { MPC_CLASS_NONE, MPC_CLASS_LOW, MPC_CLASS_HIGH, MPC_CLASS_FOLLOW, MPC_CLASS_CLEAR } mpc_class;

enum {
    MPC_OPF_EXACT = 1, /* exactly rounded: devices agree to the bit */
    MPC_OPF_COMMUTES = 2,
    MPC_OPF_RANDOM = 4, /* never merged, never folded */
    MPC_OPF_NO_GRAD = 8, /* gradient is zero by definition (compare, argmax, ...) */
    MPC_OPF_EFFECT = 16, /* kept by dce */
    MPC_OPF_KEEPS_FORMAT = 32, /* the result's format is operand 0's: a device may make it another name for the operand */
};

typedef enum mpc_attr_kind {
    MPC_ATTR_INT,
    MPC_ATTR_FLOAT,
    MPC_ATTR_BOOL,
    MPC_ATTR_STR,
    MPC_ATTR_FORMAT,
    MPC_ATTR_INTS,
} mpc_attr_kind;

typedef struct mpc_int_list {
    const int64_t *data;
    uint32_t count;
} mpc_int_list;

typedef struct mpc_attr {
    mpc_sym key;
    mpc_attr_kind kind;
    union {
        int64_t i;
        double f;
        bool b;
        mpc_sym s;
        mpc_format format;
        mpc_int_list ints; /* in the graph's arena */
    };
} mpc_attr;

typedef struct mpc_attr_spec {
    mpc_sym key;
    mpc_attr_kind kind;
    bool required; /* no default in the row */
    mpc_attr fallback;
} mpc_attr_spec;

/* Attributes of graph inputs, same notation as in ops.def. source: the data field ("columns[0:64]", "window", "next(window)");
 * lo, hi: half-open range that integer values must lie in (E201 when they don't); model: the model's inputs that are
 * made from it, "x" or "x,z"; where: what asks for the range. */
#define MPC_INPUT_ATTRS "source:str= model:str= lo:int=0 hi:int=0 where:str="

struct mpc_op;
struct mpc_infer;
struct mpc_eval;
struct mpc_grad;
struct mpc_expand;
struct mpc_sample;

typedef bool (*mpc_shape_rule)(struct mpc_infer *infer); /* ir/infer.h */
typedef bool (*mpc_eval_rule)(struct mpc_eval *eval); /* ir/eval/eval.h */
typedef void (*mpc_grad_rule)(struct mpc_grad *grad); /* passes/grad.h */
typedef void (*mpc_expand_rule)(struct mpc_expand *expand); /* passes/expand.h */
typedef bool (*mpc_sample_rule)(struct mpc_sample *sample); /* ir/eval/sample.h */

typedef struct mpc_op {
    const char *name;
    const char *doc;
    mpc_op_kind kind;
    uint32_t min_operands, max_operands; /* max UINT32_MAX: any number */
    uint32_t result_count;
    mpc_class cls;
    unsigned flags;
    const char *kernel; /* of EWISE: C expression in f32 vectors, $0 $1 $2 are the operands (codegen's prelude functions) */
    const mpc_attr_spec *attrs;
    uint32_t attr_count;
    mpc_shape_rule shape;
    mpc_eval_rule eval;
    mpc_sample_rule sample;
    mpc_grad_rule grad; /* NULL: none (set by passes) */
    mpc_expand_rule expand; /* NULL for primitives (set by passes) */
    const void *plugin; /* of a plugin's op: what its rules find their own functions by; NULL for built-in ops */
} mpc_op;

uint32_t mpc_op_count(const mpc_context *ctx);
const mpc_op *mpc_op_get(const mpc_context *ctx, mpc_op_id id);
mpc_op *mpc_op_get_mutable(mpc_context *ctx, mpc_op_id id); /* to fill in rules at start-up */
bool mpc_op_find(const mpc_context *ctx, const char *name, mpc_op_id *id);
/* Adds a plugin's op. `attrs` in the notation of ops.def. */
mpc_status mpc_op_register(mpc_context *ctx, const mpc_op *op, const char *attrs, mpc_op_id *id);
/* "stride:ints=[1,1] groups:int=1 name:str": key:kind, then =default or nothing when required. In the context's arena. */
mpc_status mpc_attr_specs_parse(mpc_context *ctx, const char *text, mpc_attr_spec **specs, uint32_t *count);
const char *mpc_class_name(mpc_class cls);

#endif
