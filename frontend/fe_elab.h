/* The elaborator: walks statements and writes a graph. Constants fold, blocks are called, loops are unrolled; what
 * remains are nodes. The same code evaluates constant expressions of sections, then without a builder. */
#ifndef MPC_FRONTEND_FE_ELAB_H
#define MPC_FRONTEND_FE_ELAB_H

#include "base/map.h"
#include "frontend/fe_model.h"

enum {
    FE_MAX_CALLS = 256,
    FE_MAX_EVAL = 2500,
    FE_MAX_WORK = 1000000, /* at most some 300 MB and a second */
    FE_TEXT_PER_WORK = 64, /* bytes of a name that count as one evaluation: names grow with the nesting of calls */
    FE_MAX_TURNS = 100000,
    FE_MAX_FOLD_LIST = 100000
};

typedef struct fe_binding {
    mpc_sym sym;
    fe_value value;
    mpc_span span;
    bool used;
    bool maybe;             /* assigned in one branch of an `if` only */
    bool quiet;             /* parameter, index, dimension: unused is fine */
    const fe_list *pattern; /* the names it was bound with, `[n, t, c] = ...`: one that is read is enough */
} fe_binding;

typedef struct fe_frame {
    struct fe_frame *caller;
    const fe_ast *item; /* block or model; NULL for constants and data mappings */
    mpc_span call;      /* in the caller */
    const char *path;   /* of parameters and values: "stem", "layer.3", "" */
    const char *bare;   /* indices of bare repeats: "", ".0", ".0.1" */
    const char *turns;  /* "stage 1, unit 0", or "" */
    const char *numbered; /* numbered names in the path, with how many there are: "encoder=2 encoder.0.linear=3" */
    MPC_ARRAY(fe_binding) bindings;
    MPC_ARRAY(const fe_ast *) callees; /* blocks and ops that were called here, each name once */
    MPC_ARRAY(struct fe_layer *) layers;
    bool returned;
    fe_value result;
    const fe_ast *result_at;
} fe_frame;

typedef struct fe_param {
    const char *path;
    fe_value value; /* tensor */
    mpc_span span;
    bool frozen; /* no gradient wanted */
    bool is_stat;
    uint32_t group; /* of losses that train it; 0: no loss says what it trains */
    mpc_value_id latest; /* of a statistic: its newest value in this step */
} fe_param;

typedef struct fe_field { /* a graph input */
    const char *source, *input;
    const char *inputs; /* of the model, all that are made from it: "x,z" */
    mpc_value_id id;
    mpc_type_id type;
    mpc_span span;
    bool ranged;
    int64_t lo, hi;
    const char *where;
} fe_field;

typedef struct fe_loss {
    const fe_ast *at;
    const char *name;
    fe_value mean, count;
    double weight;
    mpc_value_id mask; /* as large as the elements; MPC_NONE: all count */
    uint32_t rank;     /* of the elements; 0: it is one number */
    uint32_t group;    /* from 1, in the order of the file; 0: the loss doesn't say what it trains */
    uint32_t share;    /* losses of a group that always count alike have the same one; from 1 */
} fe_loss;

typedef struct fe_claim { /* one selector of a loss's `trains` */
    const fe_ast *loss, *glob;
    uint32_t group;
    bool matched;
} fe_claim;

typedef struct fe_elab {
    mpc_model *m;
    mpc_context *ctx;
    mpc_builder *b;   /* NULL: constants only */
    mpc_arena *arena; /* of this elaboration */
    fe_model_diag *d;
    mpc_phase phase;
    int64_t batch;
    const mpc_data_facts *facts;
    fe_frame *frame;
    MPC_ARRAY(fe_param) params;
    mpc_map *param_index;
    MPC_ARRAY(fe_field) fields;
    MPC_ARRAY(fe_loss) losses;
    MPC_ARRAY(fe_claim) claims; /* empty: every loss trains all it reaches */
    uint32_t groups;            /* of losses that train the same */
    fe_value *consts; /* by index; kind FE_HOLE: not evaluated yet */
    bool *const_busy;
    mpc_map *streams;      /* how often a path drew random numbers */
    const fe_ast *mapping; /* AST_PARM of the input whose mapping is evaluated, else NULL */
    mpc_format mapping_format;
    mpc_type_id mapping_type; /* of that input */
    mpc_format prec; /* of the region */
    const char *prec_why;
    uint32_t words_taken; /* ops that were told a format, by a region, a statement or the policy */
    const char *callee; /* name of the builtin that is running, for policies */
    bool training_read;
    unsigned in_training; /* depth of `if training` */
    bool masked;          /* inside a loss with `where`: labels may be out of range */
    bool in_metric;
    mpc_value_id rng_seed, rng_step;
    uint32_t calls, depth;
    uint64_t work; /* expressions evaluated, list elements copied, long names made */
    bool failed;   /* out of memory or the builder's error */
    mpc_str scratch;
} fe_elab;

typedef struct fe_builtin fe_builtin;
typedef struct fe_layer {
    const fe_ast *at; /* the call with the hole */
    const fe_builtin *fn;
    const fe_block *block;
    const char *path, *numbered, *text;
    fe_value *v; /* arguments, FE_HOLE where a tensor is missing */
    const fe_ast **ast;
    uint32_t count, applied;
    mpc_span first; /* first application */
} fe_layer;

typedef struct fe_call {
    fe_elab *e;
    const fe_ast *at;
    const fe_builtin *fn;
    const fe_block *block;
    const char *name; /* of the result: label or variable, else NULL */
    const char *path; /* of parameters */
    const char *numbered; /* as in the frame, with the call's own */
    fe_layer *layer;
    fe_value *v;
    const fe_ast **ast; /* NULL where an argument wasn't given */
    uint32_t count;
    bool bad; /* an argument was wrong; reported */
} fe_call;

struct fe_builtin {
    const char *name;
    const char *args; /* "x channels | kernel stride?": `|` before keyword-only ones, `?` may be left out, `!` a word */
    fe_value (*run)(fe_call *c);
    bool parameters; /* makes some: may be a layer */
};

/* --- elab.c --- */
fe_value fe_no_memory_value(fe_elab *e);
void *fe_alloc(fe_elab *e, size_t size); /* NULL after reporting */
const char *fe_format(fe_elab *e, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* "" when out of memory */

/* --- elab_statement.c, elab_expr.c, elab_fold.c, elab_index.c --- */
void fe_run_body(fe_elab *e, const fe_list *body);
/* W102 for names of the frame, from that one on, that nothing mentions. */
void fe_warn_unused(fe_elab *e, size_t from);
fe_value fe_eval(fe_elab *e, const fe_ast *at, const char *name);
/* For several names: all results of a call that gives one or several. */
fe_value fe_eval_all(fe_elab *e, const fe_ast *at, const char *name);
fe_value fe_fold_binary(fe_elab *e, const fe_ast *at, fe_value a, fe_value b);
fe_value fe_fold_unary(fe_elab *e, const fe_ast *at, fe_value a);
fe_value fe_eval_index(fe_elab *e, const fe_ast *at, const char *name);
fe_value fe_binary(fe_elab *e, const fe_ast *at, const char *op, fe_value a, fe_value b, const char *name);
fe_binding *fe_lookup(fe_elab *e, mpc_sym sym);
void fe_bind(fe_elab *e, const fe_ast *name, fe_value v, bool quiet);
fe_value fe_list_value(fe_elab *e, fe_kind kind, uint32_t count); /* items poisoned */
fe_value fe_shape_list(fe_elab *e, const fe_tensor *t);

/* --- elab_call.c --- */
fe_value fe_eval_call(fe_elab *e, const fe_ast *at, const char *name);
void fe_check_layers(fe_elab *e, fe_frame *frame);
const char *fe_join(fe_elab *e, const char *path, const char *name);
fe_frame *fe_push_frame(fe_elab *e, const fe_ast *item, mpc_span call, const char *path);
void fe_pop_frame(fe_elab *e);

/* --- elab_block.c --- */
fe_value fe_call_block(fe_call *c);

/* --- elab_args.c --- */
bool fe_bind_arguments(fe_call *c);
const char *fe_signature(fe_elab *e, const fe_builtin *fn);
bool fe_given(const fe_call *c, uint32_t i);
int64_t fe_arg_int(fe_call *c, uint32_t i, int64_t fallback);
double fe_arg_float(fe_call *c, uint32_t i, double fallback);
bool fe_arg_bool(fe_call *c, uint32_t i, bool fallback);
fe_value fe_arg_tensor(fe_call *c, uint32_t i);       /* poison and `bad` when it isn't one */
fe_value fe_arg_float_tensor(fe_call *c, uint32_t i); /* integers are converted */
const mpc_type *fe_arg_type(fe_call *c, uint32_t i);
/* An axis of argument 0, which has that rank; negative ones from the end. In a mapping it counts within the row. */
uint32_t fe_arg_axis(fe_call *c, uint32_t i, uint32_t rank, int64_t fallback);
/* A list of integers, or one integer repeated `repeat` times (0: not allowed). Count, or UINT32_MAX after an error. */
uint32_t fe_arg_ints(fe_call *c, uint32_t i, int64_t *out, uint32_t max, uint32_t repeat);
mpc_format fe_arg_format(fe_call *c, uint32_t i);
const fe_init *fe_arg_init(fe_call *c, uint32_t i, const fe_init *fallback);
mpc_span fe_arg_span(const fe_call *c, uint32_t i);
/* Text of an argument's source, for messages. */
const char *fe_arg_text(fe_call *c, uint32_t i);

/* --- elab_emit.c --- */
enum { FE_MAX_OP_ATTRS = 10, FE_MAX_OP_IN = 8 };
typedef struct fe_op {
    fe_elab *e;
    const fe_ast *at;
    const char *name;
    mpc_op_id op;
    mpc_format format; /* of float results, none: inferred */
    fe_value in[FE_MAX_OP_IN];
    const fe_value *many; /* instead of `in` */
    uint32_t in_count;
    mpc_attr_arg attrs[FE_MAX_OP_ATTRS];
    uint32_t attr_count;
} fe_op;
fe_op fe_op_begin(fe_elab *e, const fe_ast *at, mpc_op_id op, const char *name);
void fe_op_in(fe_op *o, fe_value v);
void fe_op_attr(fe_op *o, mpc_attr_arg attr);
fe_value fe_op_end(fe_op *o); /* the first result */
fe_value fe_emit1(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value a, const char *name);
fe_value fe_emit2(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value a, fe_value b, const char *name);
fe_value fe_other_result(fe_elab *e, fe_value first, uint32_t index);
/* A number as a scalar of the graph. */
fe_value fe_scalar(fe_elab *e, const fe_ast *at, fe_value number, mpc_format format);
/* A const or range of that type; E017 when `type` is 0. */
fe_value fe_typed(fe_elab *e, const fe_ast *at, mpc_op_id op, mpc_type_id type, double value, const char *name);
fe_value fe_cast(fe_elab *e, const fe_ast *at, fe_value v, mpc_format to, const char *by);
fe_value fe_to_float(fe_elab *e, const fe_ast *at, fe_value v); /* integers and bools to f32 */
fe_value fe_reshape(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank, const int64_t *dims);
fe_value fe_expand(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank, const int64_t *dims);
fe_value fe_reduce(fe_elab *e, const fe_ast *at, mpc_op_id op, fe_value v, const int64_t *axes, uint32_t count);
fe_value fe_slice(fe_elab *e, const fe_ast *at, fe_value v, uint32_t axis, int64_t start, int64_t stop);
fe_value fe_tensor_value(fe_elab *e, mpc_value_id id, mpc_span made);
fe_tensor *fe_tensor_copy(fe_elab *e, const fe_tensor *t);
const mpc_type *fe_type(fe_value v); /* of a tensor; lives as long as the elaboration */
/* "[batch, 10]" */
const char *fe_shape_text(fe_elab *e, fe_value v);
const char *fe_dims_text(fe_elab *e, const int64_t *dims, uint32_t rank);
/* Location of the following nodes; they have no reason of their own. File 0: none. */
void fe_set_place(fe_elab *e, mpc_span span);
void fe_locate(const mpc_model *m, mpc_span span, uint32_t *line, uint32_t *column);
/* Error E016 without a builder, and false. */
bool fe_want_builder(fe_elab *e, const fe_ast *at);

/* --- elab_param.c --- */
fe_value fe_make_param(fe_call *c, const char *suffix, uint32_t rank, const int64_t *dims, const fe_init *init);
fe_value fe_make_stat(fe_call *c, const char *suffix, int64_t size, bool ones);
fe_param *fe_find_param(fe_elab *e, const char *path);
bool fe_norm_frozen(fe_elab *e, const char *path);
const fe_init *fe_init_value(fe_elab *e, fe_init init);
bool fe_rng(fe_elab *e, const fe_ast *at, fe_value *seed, fe_value *step);
int64_t fe_stream(fe_elab *e, const char *name);
void fe_check_selectors(fe_elab *e);
/* The format that a region or policy word names; none after an error. */
mpc_format fe_region_format(mpc_model *m, const fe_ast *word);

/* --- elab_policy.c --- */
typedef struct fe_worded { /* an op that a word about precision may be about */
    const char *op, *path;
    mpc_format type; /* of its result */
    mpc_span at;
    bool takes;      /* it can be told a format: it computes floats */
} fe_worded;
/* What the policy says about an op, with its place; none where it says nothing or a region is nearer. */
mpc_format fe_policy_format(fe_elab *e, const fe_worded *op, const char **why);
/* E111: `word` asks for a format of what is no float; to be completed with help and sent. */
fe_report fe_begin_refusal(fe_elab *e, mpc_span word, const char *asked, const fe_worded *what);
/* E111, W109; false: the line has found nothing. */
bool fe_check_policy_line(fe_elab *e, const fe_selector *s);

/* --- elab_map.c --- */
fe_value fe_field_value(fe_elab *e, const fe_ast *at, const char *source, uint32_t rank, const int64_t *dims);
bool fe_is_field_name(const fe_elab *e, const fe_ast *at);
fe_value fe_eval_field(fe_elab *e, const fe_ast *at);
void fe_map_inputs(fe_elab *e);
const mpc_data_source *fe_text_source(const mpc_model *m); /* NULL: the data are neither text nor tokens */
/* Integers of `v` must lie in [0, k). */
void fe_limit_range(fe_elab *e, fe_value v, int64_t k, const char *what);
void fe_mapping_mismatch(fe_elab *e, const fe_ast *value_at, fe_value v, const int64_t *dims, uint32_t rank);

/* --- elab_row.c --- */
/* Axes that the text doesn't see: 1 for a row of the data while a mapping is evaluated, else 0. */
uint32_t fe_lead(const fe_elab *e, fe_value v);
fe_value fe_mark_row(fe_elab *e, fe_value v);
/* A constant of a mapping, repeated for every row. */
fe_value fe_lift(fe_elab *e, const fe_ast *at, fe_value v);
/* A row with axes of size 1 after the batch, up to `rank` axes altogether. */
fe_value fe_widen_row(fe_elab *e, const fe_ast *at, fe_value v, uint32_t rank);
/* Operands of an elementwise op, so that they broadcast row by row. */
void fe_meet_rows(fe_elab *e, const fe_ast *at, fe_value *v, uint32_t count);
/* Both arguments become rows when one is. */
void fe_lift_arguments(fe_call *c, uint32_t a, uint32_t b);

/* --- elab_output.c --- */
void fe_run_loss(fe_elab *e, const fe_ast *at);
void fe_run_metric(fe_elab *e, const fe_ast *at);
void fe_run_output(fe_elab *e, const fe_ast *at);
void fe_finish_losses(fe_elab *e);
/* Fills `share` of all losses. */
void fe_share_losses(fe_elab *e);

/* --- elab_trains.c --- */
/* Reads the model's `trains`, which stand in its text, so that parameters know their group when they are made. */
void fe_read_claims(fe_elab *e);
uint32_t fe_group_of_loss(const fe_elab *e, const fe_ast *loss); /* 0: it trains what it reaches */
/* Group of a parameter; an error when no loss or more than one trains it. */
uint32_t fe_group_of_parameter(fe_elab *e, const char *path, mpc_span span);
void fe_check_claims(fe_elab *e); /* selectors that match nothing */
const char *fe_group_text(fe_elab *e, uint32_t group); /* names of its losses: "`d`, `r`" */

/* --- elab_prune.c --- */
mpc_graph *fe_prune(fe_elab *e, const mpc_graph *g);
void fe_check_reached(fe_elab *e, const mpc_graph *g);

/* --- builtins.c --- */
const fe_builtin *fe_find_builtin(const char *name);
const fe_builtin *fe_builtin_at(size_t index); /* NULL at the end */
/* An op that a plugin brought, as a function; NULL: none of this name. */
const fe_builtin *fe_find_plugin_op(fe_elab *e, const char *name);

/* --- suggest.c --- */
typedef struct fe_suggestion {
    const char *word, *best;
    unsigned distance;
} fe_suggestion;
fe_suggestion fe_suggest(const char *word);
void fe_suggest_try(fe_suggestion *s, const char *candidate);
/* What people who come from elsewhere mean: "filters" -> "channels". NULL: nothing known. */
const char *fe_alias(const char *word);
bool fe_is_module(const char *word); /* of Python, before a dot: here ops have none */

/* --- use.c --- */
/* The blocks or constants that the file sees where `at` stands. */
void fe_suggest_names(const mpc_model *m, const fe_ast *at, bool is_block, fe_suggestion *s);
/* Says which file of the model declares what `at` names but doesn't see; false: none does. */
bool fe_help_elsewhere(const mpc_model *m, const fe_ast *at, bool is_block, fe_report *r);

#endif
