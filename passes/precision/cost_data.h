/* The terms behind mpc_costs, for the solvers of passes/precision that minimise their sum. */
#ifndef MPC_PASSES_COST_DATA_H
#define MPC_PASSES_COST_DATA_H

#include "passes/precision/cost.h"
#include "passes/precision/precision.h"

typedef enum mpc_read_as {
    MPC_READ_STORED,   /* in the storage format: loops widen in registers */
    MPC_READ_OPERANDS, /* in the format that the reader's operands are read in: LOW ops, views */
    MPC_READ_FIXED,    /* in `format` */
    MPC_READ_COPIES,   /* in every format in which the view `through` is needed */
} mpc_read_as;

typedef struct mpc_reading {
    mpc_node_id reader; /* MPC_NONE: an output or a next value */
    mpc_read_as as;
    mpc_format format;    /* of FIXED */
    mpc_value_id through; /* of COPIES: the view's result */
    bool crosses;         /* the copy in that format has to be stored */
    bool counted;         /* reading it is a term of its own; LOW ops have it in theirs */
} mpc_reading;

typedef enum mpc_made {
    MPC_MADE_LOOP,   /* written in every format that is needed */
    MPC_MADE_KERNEL, /* written in its storage format; other formats are made by a kernel that reads that */
    MPC_MADE_BEFORE, /* inputs and states: there already */
    MPC_MADE_UPDATE, /* parameters: low copies are written by the update */
    MPC_MADE_FREE,   /* frozen parameters: their low copies are there already; constants */
} mpc_made;

typedef struct mpc_op_terms { /* of a LOW op */
    bool present;
    mpc_op_size size;
    double moved; /* operand elements whose format is decided */
    double far;   /* of these, how many have left the cache since they were made */
    double fixed_bytes;
} mpc_op_terms;

struct mpc_costs {
    const mpc_plan *plan;
    const mpc_graph *g;
    mpc_device_profile profile;
    mpc_arena *arena;
    uint32_t *begin;       /* by value, + 1: into readings; of the values that are their own storage */
    mpc_reading *readings; /* STORED ones: one per reading group */
    mpc_value_id *storage; /* by value */
    mpc_value_id *folded;  /* by value: stored in another format than this one, it costs a kernel; MPC_NONE */
    mpc_made *made;        /* by value */
    double *elements;      /* by value; 0: no float, nothing to price */
    double *far;           /* by value: share of the loops' readings of it that find it out of the cache */
    bool *spilled;         /* by value: somebody does */
    mpc_op_terms *ops;     /* by node */
    const double *charge_value, *charge_node, *charge_operand;
};

/* cost_distance.c: fills far, spilled and the `far` of ops, once readings are there. false: out of memory. */
bool mpc_costs_find_far(mpc_costs *c, mpc_arena *scratch);

double mpc_cost_move(const mpc_costs *c, double bytes);
double mpc_cost_write(const mpc_costs *c, mpc_value_id v, mpc_format f);
double mpc_cost_read(const mpc_costs *c, mpc_value_id v, mpc_format f);
/* What mpc_costs_charge_casts says of one reading, should it be low. */
double mpc_cost_cast_charge(const mpc_costs *c, mpc_value_id v, const mpc_reading *r);
/* An activation that doesn't fold into its product. */
double mpc_cost_unfold(const mpc_costs *c, mpc_value_id v);
/* A LOW op that reads f32 makes f32: storing the value low takes a pass of its own. 0: it isn't made by a LOW op. */
double mpc_cost_round(const mpc_costs *c, mpc_value_id v);
/* The storage format is always written by itself. */
static inline bool mpc_cost_always_stored(const mpc_costs *c, mpc_value_id v) { return c->made[v] == MPC_MADE_KERNEL; }
/* ---- parts of a price ---- */
typedef struct mpc_pricing {
    const mpc_plan *p;
    const mpc_costs *c;
    uint32_t *stored, *needed; /* by value: sets of formats that cross a border, that somebody asks for */
    mpc_plan_cost sum;
} mpc_pricing;
bool mpc_pricing_begin(mpc_pricing *x, const mpc_plan *plan, const mpc_costs *c, mpc_arena *arena);
mpc_plan_cost mpc_pricing_all(mpc_pricing *x);
typedef struct mpc_terms { /* values that are their own storage, views before what they look at; values for ties and charges; LOW ops */
    mpc_value_id *values, *ties;
    mpc_node_id *nodes;
    uint32_t value_count, tie_count, node_count;
} mpc_terms;
/* Their sum now, from plan->format and plan->decisions; what lies around them was priced before. */
double mpc_price_terms(mpc_pricing *x, const mpc_terms *terms);

/* insert-casts would place a cast on the view's source instead of on the view. */
bool mpc_is_relabeling(const mpc_graph *g, const mpc_node *n);

#endif
