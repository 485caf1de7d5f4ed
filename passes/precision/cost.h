/* What an assignment costs on a device. Time is a sum of independent terms, so that a solver can minimise it exactly:
 *   ops     every LOW op: max(its products at the rate of its operands' format and shape and what packing them costs, its
 *           operands' bytes) + setup + gap
 *   values  every value that crosses the border of a fusion group, per format in which it is needed there: one write, and
 *           one read per reading group (operands of LOW ops are read in the term above); a product of f32 that is stored low: a
 *           pass that rounds it
 *   casts   every (value, format) that isn't the storage format: a kernel of its own behind a matmul or an input, an
 *           instruction elsewhere
 * What is the same for all assignments (launches of loops, integers, masters) is not counted. Seconds, bytes, per step. */
#ifndef MPC_PASSES_PRECISION_COST_H
#define MPC_PASSES_PRECISION_COST_H

#include "passes/pass.h"

/* ---- the device ---- */
typedef enum mpc_cost_kind {
    MPC_COST_MATMUL,
    MPC_COST_MATMUL_WEIGHT, /* the first operand is turned around, as in the gradient of a weight; f32 results */
    MPC_COST_MATMUL_BATCH, /* several products in one op, small ones in general, operands strided */
    MPC_COST_CONV,
    MPC_COST_CONV_INPUT,  /* gradients: of the input, */
    MPC_COST_CONV_WEIGHT, /* of the weights; f32 results */
    MPC_COST_ATTENTION,
    MPC_COST_KINDS
} mpc_cost_kind;

typedef struct mpc_op_size { /* of a LOW op, in elements */
    mpc_cost_kind kind;
    double batch, extent[3]; /* products: how many, each of rows, columns, depth. A convolution has one for each place of its window */
    double operands, result; /* elements, all of them */
} mpc_op_size;
/* Kind and extents of a LOW op's products; false where it makes none. fused: attention meets the keys of its window
 * alone. */
bool mpc_op_size_find(const mpc_graph *g, mpc_node_id id, bool fused, mpc_op_size *out);

typedef struct mpc_rate { /* of one kind of op with operands in one format */
    double flops; /* per second, on large shapes; 0: the device has no such op */
    double setup; /* seconds per launch beyond the gap */
    uint32_t tile[3]; /* rows, columns, depth: extents are rounded up to them, small and odd shapes waste the rest */
    uint32_t align; /* rows in memory that aren't multiples of it ... */
    double misaligned; /* ... take so many times as long (N05); 1: no matter */
    double pack, store; /* seconds per element of the operands, of the result: what bringing them into tiles and back costs beside products */
} mpc_rate;
const char *mpc_cost_kind_name(mpc_cost_kind kind);
/* Of one call, without the gap before it and the time that memory takes. */
double mpc_rate_seconds(const mpc_rate *rate, const mpc_op_size *size);

/* Corrects the time of single LOW ops: a plugin's (include/mpc/plugin.h). */
typedef struct mpc_price_model mpc_price_model;
struct mpc_price_model {
    double (*price)(const mpc_price_model *model, const mpc_graph *g, mpc_node_id node, mpc_format format, double seconds);
};

typedef struct mpc_device_profile {
    char name[48];
    mpc_rate rate[MPC_COST_KINDS][MPC_FMT_count];
    double bandwidth; /* bytes per second to memory */
    double cache_bandwidth, cache_bytes; /* values up to cache_bytes move at cache_bandwidth */
    double gap; /* seconds between two launches */
    double convert; /* elements per second that a loop converts in registers: it moves 16-bit numbers no faster */
    uint32_t lacks; /* bits by format: those that it can neither hold nor compute in; 0: none */
    bool keeps_attention; /* attention stays one op (expand{keep=attention}) */
    const mpc_price_model *model; /* NULL: the rates say all; never part of the text form */
} mpc_device_profile;

/* Built-in: cpu-plain, cpu-avx512, cpu-avx512bf16, cpu-amx, a100, h100, h200. NULL: no such name. */
const mpc_device_profile *mpc_device_profile_find(const char *name);
/* Built-in ones, then those of plugins. */
const mpc_device_profile *mpc_device_profile_named(const mpc_context *ctx, const char *name);
uint32_t mpc_device_profile_count(void);
const mpc_device_profile *mpc_device_profile_at(uint32_t index);
/* The text form of a profile (docs/precision.md) and back; E150 with the line on errors. */
void mpc_device_profile_print(const mpc_device_profile *profile, mpc_str *out);
mpc_status mpc_device_profile_parse(const char *text, const char *file, const mpc_sink *sink, mpc_device_profile *out);
/* Does any op run faster on operands of this format than on f32? */
bool mpc_device_gains(const mpc_device_profile *profile, mpc_format low);

/* ---- prices ---- */
struct mpc_plan;
typedef struct mpc_costs mpc_costs;

/* Of plan->g, for the decisions that are `given` and those still open; in `arena`. Makes the fusion groups of the uncast graph
 * on the way. NULL after a diagnostic. */
mpc_costs *mpc_costs_create(const struct mpc_plan *plan, const mpc_device_profile *profile, mpc_pass_env *env, mpc_arena *arena);
const mpc_device_profile *mpc_costs_profile(const mpc_costs *costs);

typedef struct mpc_plan_cost {
    double seconds, ops, values, casts; /* seconds = ops + values + casts + deviation */
    double deviation; /* what predicted loss deviations were charged, in seconds (mpc_costs_charge) */
    uint32_t cast_count; /* (value, format) pairs that need a conversion */
    double bytes[MPC_FMT_count]; /* moved across borders, by format */
    double f32_share; /* of these bytes */
} mpc_plan_cost;
/* Of a plan whose nodes all have decisions, whoever made them: any formats, hard rules kept or not. */
mpc_plan_cost mpc_plan_price(const struct mpc_plan *plan, const mpc_costs *costs);

/* Of a graph with the decisions of autocast, before casts are inserted; E108 where a decision is missing. */
mpc_status mpc_graph_price(const mpc_graph *decided, const mpc_device_profile *profile, mpc_pass_env *env, mpc_plan_cost *out);

/* The same as a plan with its costs, in `arena`: every decision is `given`. */
mpc_status mpc_plan_of_graph(const mpc_graph *decided, const mpc_device_profile *profile, mpc_pass_env *env, mpc_arena *arena,
                             struct mpc_plan *plan, const mpc_costs **costs);

/* One term each, seconds. Of a LOW op with operands in `format`; 0 for other nodes. */
double mpc_cost_op(const mpc_costs *costs, mpc_node_id node, mpc_format format);
/* Everything that crosses borders when the value is stored in `format` and read so by everybody; 0 when nothing crosses. */
double mpc_cost_value(const mpc_costs *costs, mpc_value_id value, mpc_format format);
/* Of one cast of the value. */
double mpc_cost_cast(const mpc_costs *costs, mpc_value_id value, mpc_format from, mpc_format to);

/* Seconds added when a value is stored low, or the operands of a LOW op are read low: sensitivity times the price of deviation.
 * Arrays by value and by node; NULL: none. They must outlive `costs`. */
void mpc_costs_charge(mpc_costs *costs, const double *by_value, const double *by_node);
/* Seconds added when the operand in a slot (index into graph->operands) of a LOW op is read low but stored otherwise: what a cast adds to the deviation, and
 * low storage has in its own charge. NULL: none. */
void mpc_costs_charge_casts(mpc_costs *costs, const double *by_operand);

/* ---- what the solver knows about its choices ---- */
typedef enum mpc_blocker_kind {
    MPC_BLOCK_NONE,  /* its own terms decide */
    MPC_BLOCK_RULE,  /* a hard rule: type fixed, N40, N43, N45, N60 */
    MPC_BLOCK_VALUE, /* another value's format, by a hard rule or by the price of a cast */
    MPC_BLOCK_USER,  /* the user's word on it: a region, a statement, a policy, an agreement */
} mpc_blocker_kind;
typedef struct mpc_choice { /* by node of a plan that mincut solved */
    bool present;
    double f32, low; /* seconds of the whole plan with this node's decision in either format (of a LOW op what it reads), all others as they
                      * are, less the smaller of both; HUGE_VAL where a hard rule forbids it then */
    mpc_blocker_kind blocked_by; /* why the other format isn't taken */
    mpc_node_id blocker; /* the neighbour, for VALUE; else MPC_NONE */
    mpc_format low_format; /* of `low` */
    const char *rule; /* "N43", for RULE and for VALUE by a rule; else NULL */
} mpc_choice;

/* A table that outlives the pass, by value name: put one into mpc_pass_env.choices and autocast fills it. */
typedef struct mpc_choice_line {
    const char *value; /* first result of the node */
    const char *blocker; /* name of the neighbour's first result; NULL: none */
    mpc_choice choice; /* node ids are of the graph that autocast saw */
} mpc_choice_line;
typedef struct mpc_plan_choices mpc_plan_choices;
mpc_plan_choices *mpc_plan_choices_create(void); /* NULL: out of memory */
void mpc_plan_choices_destroy(mpc_plan_choices *choices);
const mpc_choice_line *mpc_plan_choices_find(const mpc_plan_choices *choices, const char *value);
bool mpc_plan_choices_add(mpc_plan_choices *choices, const mpc_choice_line *line); /* copies texts */
/* Of the plan that was chosen, of all-f32, and a lower bound for any plan that keeps the hard rules (equal to the plan's where
 * the cut is exact: two formats). */
typedef struct mpc_solution {
    bool present;
    bool as_list; /* instead of `present`: nothing multiplies faster than f32 there, so the plan is that of the solver list */
    mpc_plan_cost cost, f32;
    double bound;
    double seconds; /* processor time of the search, groups not included */
} mpc_solution;
mpc_solution *mpc_plan_choices_solution(mpc_plan_choices *choices);

/* A decision that the next solve shall hold, to find the cheapest plan that has it so and keeps the hard rules; `value` NULL: none. */
typedef struct mpc_pin {
    const char *value; /* first result of the node */
    mpc_format format;
    bool possible;    /* the solver found it so; false: a hard rule forbids it, or the solver takes no pins */
    const char *rule; /* "N43", "range": what forbids it; lives as long as the program; NULL: nothing */
} mpc_pin;
mpc_pin *mpc_plan_choices_pin(mpc_plan_choices *choices);

/* ---- rules that reasons cite (cited_rule.c) ---- */
enum { MPC_RULE_SIZE = 12 };
/* "N43": the first rule that a text cites, as a word of its own; false: none. */
bool mpc_find_rule(const char *text, char rule[MPC_RULE_SIZE]);
/* The rule that range evidence (range.h) cites against an operand or a result of the node in a low format (none: in any); N45 where a literal of its does it. */
void mpc_find_range_rule(const struct mpc_plan *plan, mpc_node_id id, mpc_format low, char rule[MPC_RULE_SIZE]);

/* ---- what can be said of any assignment (explain_node.c) ---- */
enum { MPC_MOST_BLOCKERS = 8 };
typedef struct mpc_explained {
    bool present; /* the node has a decision */
    mpc_format other; /* the format that it could have instead */
    double seconds, total; /* what a step costs more with it, all else as it is (HUGE_VAL: its type forbids it), and what it costs now */
    mpc_blocker_kind kind; /* USER, else RULE or VALUE, as the class rules have it (solver `list`) */
    char rule[MPC_RULE_SIZE]; /* "N43", the first that the reason cites; else "type", where the op's own types say all, or "class" */
    mpc_value_id blockers[MPC_MOST_BLOCKERS]; /* for VALUE: were all of them in the other format, so would be this one */
    uint32_t blocker_count;
} mpc_explained;
/* `low`: what a f32 one could be instead. */
mpc_status mpc_graph_explain(const mpc_graph *decided, mpc_node_id id, mpc_format low, mpc_pass_env *env, mpc_explained *out);
/* Does a decided node read (a LOW op) or store (others) a low format? */
bool mpc_is_decided_low(const mpc_graph *decided, mpc_node_id id);

#endif
