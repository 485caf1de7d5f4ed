/* Values of the elaboration: constants, lists, tensors (a value of the graph with what is known about it), layers,
 * initialisers. */
#ifndef MPC_FRONTEND_FE_VALUE_H
#define MPC_FRONTEND_FE_VALUE_H

#include "frontend/ast.h"
#include "ir/builder.h"

typedef enum fe_kind {
    FE_POISON, /* an error was reported: anything made from it is silent poison */
    FE_INT,
    FE_FLOAT,
    FE_BOOL,
    FE_STRING,
    FE_QUANTITY, /* f and s = unit */
    FE_LIST,
    FE_TUPLE, /* several results */
    FE_TENSOR,
    FE_LAYER,
    FE_INIT,
    FE_HOLE,
} fe_kind;

/* How an image got small: for the message when a window no longer fits. */
typedef struct fe_history {
    const struct fe_history *before;
    int64_t height, width; /* after this step */
    uint32_t line;         /* 0: the input */
    uint32_t count;        /* steps so far */
} fe_history;

typedef struct fe_tensor {
    mpc_value_id id;
    mpc_type_id type;
    mpc_type shape;              /* a copy: pointers into the context's table don't last */
    mpc_sym names[MPC_MAX_RANK]; /* of dims, 0: none */
    mpc_span made;               /* where it was made */
    const char *stride;          /* "stride = 2" of the convolution that made it, or NULL */
    bool row;                    /* of a data mapping: the first axis is the batch, which expressions don't see */
    uint32_t field; /* 1 + index of the data field whose integers these are, 0: none; value = field + offset */
    int64_t offset;
    const fe_history *history;
} fe_tensor;

typedef enum fe_init_kind {
    FE_INIT_ZEROS,
    FE_INIT_ONES,
    FE_INIT_CONSTANT,
    FE_INIT_NORMAL,
    FE_INIT_UNIFORM,
    FE_INIT_KAIMING,
    FE_INIT_XAVIER,
    FE_INIT_KAIMING_NORMAL,
    FE_INIT_XAVIER_NORMAL,
    FE_INIT_TRUNCATED,
    FE_INIT_ORTHOGONAL,
    FE_INIT_FAN_IN
} fe_init_kind;

typedef struct fe_init {
    fe_init_kind kind;
    double a, b; /* constant: a; normal, truncated: mean, std; uniform: low, high; orthogonal: gain */
} fe_init;

struct fe_layer;
typedef struct fe_value {
    fe_kind kind;
    uint32_t count; /* of items */
    union {
        int64_t i; /* and bool */
        double f;
        const char *s;
        struct fe_value *items;
        const fe_tensor *t;
        struct fe_layer *layer;
        const fe_init *init;
    };
    const char *unit; /* of FE_QUANTITY */
    bool or_first;    /* of FE_TUPLE: where one value is wanted, the first is meant */
} fe_value;

#define FE_POISONED ((fe_value){.kind = FE_POISON})
static inline fe_value fe_int(int64_t i) { return (fe_value){.kind = FE_INT, .i = i}; }
static inline fe_value fe_float(double f) { return (fe_value){.kind = FE_FLOAT, .f = f}; }
static inline fe_value fe_bool(bool b) { return (fe_value){.kind = FE_BOOL, .i = b}; }
static inline bool fe_is_number(fe_value v) { return v.kind == FE_INT || v.kind == FE_FLOAT; }
static inline double fe_number(fe_value v) { return v.kind == FE_INT ? (double)v.i : v.f; }
/* "a number", "a tensor [batch, 10]" without the shape: for messages */
const char *fe_kind_name(fe_kind kind);

#endif
