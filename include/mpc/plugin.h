/* The interface between mpc and plugins: shared objects given by --load-plugin that bring passes, solvers, cost models,
 * ops and number formats. It is all that a plugin includes, and a plugin links against nothing: mpc hands a table of
 * functions to every callback. Exported symbols would have been shorter to write, but then the dynamic linker decides,
 * with a message of its own, what a plugin of another version does, and whatever mpc happens to export becomes a
 * promise. With tables both sides see what the other was compiled for before anything is called, and the same plugin
 * works in every program that mpc's libraries are part of.
 *
 * A plugin exports one function, mpc_plugin_query, and through it one table of what it brings:
 *
 *   static const mpc_plugin_pass twice = {sizeof twice, "twice", "x + x for 2 * x", "", "", "", run};
 *   static const mpc_plugin_pass *const passes[] = {&twice, NULL};
 *   static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, "twice", "1.0", .passes = passes};
 *   const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
 *
 * compiled by `cc -shared -fPIC -I MPC/include -o twice.so twice.c`. docs/writing-a-pass.md goes from nothing to a
 * working pass; examples/plugins has one plugin of each kind.
 *
 * Rules of the interface
 * - Versions. MPC_PLUGIN_ABI changes whenever a table, a function's meaning or its arguments change; then mpc refuses a
 * plugin that was compiled for another number (E371), and compiling it anew is all there is to do unless the notes of
 * that version say more. Every table starts with its size, which guards against headers that were edited or mixed. What
 * is taken is taken whole: when anything about a plugin is refused, nothing of it is registered.
 * - Life. The tables and texts of a plugin must stay as they are while it is loaded: make them static and const.
 * Plugins have no function that is called at load or unload, and need none.
 * - Callbacks get the table of functions and a *call*: the piece of work at hand. A call, what was obtained through it,
 * and its memory are valid until the callback returns; keep nothing. A callback may run on any thread, one at a time
 * for one model.
 * - Errors are sticky. After `error`, or when a function is given something impossible, the call has failed: every
 * function still returns something harmless, building does nothing, and mpc drops the result and reports. So callbacks
 * return nothing and check nothing. A callback must not exit, print, or jump out of itself.
 * - Graphs are read and built through ids. Reading functions take ids of the graph that is read, building functions
 * give ids of the graph that is built; a pass takes one to the other by `mapped`. Formats are names ("f32", "bf16", one
 * of a plugin), classes and kinds of ops are words: numbers of mpc's own enumerations appear nowhere. */
#ifndef MPC_PLUGIN_H
#define MPC_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPC_PLUGIN_ABI 1u

typedef struct mpc_call mpc_call;
typedef uint32_t mpc_id; /* of a node or a value */
#define MPC_NO_ID UINT32_MAX
#define MPC_SELF (UINT32_MAX - 1u) /* the node that an op's rule is called for, where a node is asked for */

/* An attribute of a node to be built: MPC_INT("axis", 1), MPC_INTS("axes", axes, 2), ... */
typedef struct mpc_plugin_attr {
    const char *key;
    char kind; /* i int, f float, b bool, s text, t format (its name in s), l list of int */
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    uint32_t count;
} mpc_plugin_attr;
#define MPC_INT(k, v) \
    { (k), 'i', (v), 0, NULL, NULL, 0 }
#define MPC_FLOAT(k, v) \
    { (k), 'f', 0, (v), NULL, NULL, 0 }
#define MPC_BOOL(k, v) \
    { (k), 'b', (v), 0, NULL, NULL, 0 }
#define MPC_TEXT(k, v) \
    { (k), 's', 0, 0, (v), NULL, 0 }
#define MPC_FORMAT(k, v) \
    { (k), 't', 0, 0, (v), NULL, 0 }
#define MPC_INTS(k, v, n) \
    { (k), 'l', 0, 0, NULL, (v), (n) }

/* What was decided for a node; "" where nothing is (operands as they come, no accumulator, result as typed). */
typedef struct mpc_plugin_decision {
    const char *operand, *compute, *accumulate, *result;
} mpc_plugin_decision;

#ifdef __GNUC__
#define MPC_PLUGIN_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define MPC_PLUGIN_PRINTF
#endif

/* What mpc does for plugins. The letters say in which callbacks a function may be used: P pass, S shape, X expansion, G
 * gradient, E evaluation of an op, V solver, C cost model; without letters: in all. */
typedef struct mpc_plugin_api {
    uint32_t size, abi;

    /* --- messages, memory, options --- */
    /* E373 and W373, in the plugin's name. After an error the call has failed. */
    void (*error)(mpc_call *c, const char *format, ...) MPC_PLUGIN_PRINTF;
    void (*warn)(mpc_call *c, const char *format, ...) MPC_PLUGIN_PRINTF;
    bool (*failed)(const mpc_call *c);
    /* Zeroed, until the callback returns; NULL (and failed) when there is none. */
    void *(*memory)(mpc_call *c, size_t bytes);
    int64_t (*option_int)(mpc_call *c, const char *key); /* P: the option as given, or its default */
    double (*option_float)(mpc_call *c, const char *key);
    bool (*option_bool)(mpc_call *c, const char *key);
    const char *(*option_text)(mpc_call *c, const char *key);

    /* --- reading: nodes. P V C: every node, in topological order; S X G E: MPC_SELF --- */
    uint32_t (*node_count)(mpc_call *c); /* P V C */
    const char *(*op)(mpc_call *c, mpc_id node);
    const char *(*op_class)(mpc_call *c, mpc_id node); /* LOW HIGH FOLLOW CLEAR NONE: docs/precision.md */
    /* struct ewise reduce view matmul conv pool gather random norm composite */
    const char *(*op_kind)(mpc_call *c, mpc_id node);
    uint32_t (*operand_count)(mpc_call *c, mpc_id node);
    mpc_id (*operand)(mpc_call *c, mpc_id node, uint32_t index); /* X: float operands come as f32 */
    uint32_t (*result_count)(mpc_call *c, mpc_id node);
    mpc_id (*result)(mpc_call *c, mpc_id node, uint32_t index); /* P G E V C */
    /* Attributes; `fallback` when the op declares none of this name and kind; texts and formats "" then. */
    int64_t (*attr_int)(mpc_call *c, mpc_id node, const char *key, int64_t fallback);
    double (*attr_float)(mpc_call *c, mpc_id node, const char *key, double fallback);
    bool (*attr_bool)(mpc_call *c, mpc_id node, const char *key, bool fallback);
    const char *(*attr_text)(mpc_call *c, mpc_id node, const char *key); /* of a text or a format */
    const int64_t *(*attr_ints)(mpc_call *c, mpc_id node, const char *key, uint32_t *count);
    const char *(*origin)(mpc_call *c, mpc_id node); /* forward value that it derives from; "": it is forward itself */
    const char *(*reason)(mpc_call *c, mpc_id node); /* the rule behind its formats; "": none */
    const char *(*place)(mpc_call *c, mpc_id node, uint32_t *line);       /* source file; "" and 0: none */
    bool (*decision)(mpc_call *c, mpc_id node, mpc_plugin_decision *out); /* P V: false: none made */

    /* --- reading: values --- */
    const char *(*name)(mpc_call *c, mpc_id value);
    const char *(*format)(mpc_call *c, mpc_id value);
    uint32_t (*rank)(mpc_call *c, mpc_id value);
    int64_t (*dim)(mpc_call *c, mpc_id value, uint32_t axis);
    int64_t (*elements)(mpc_call *c, mpc_id value);
    mpc_id (*producer)(mpc_call *c, mpc_id value);               /* MPC_NO_ID: an input of the graph */
    bool (*constant)(mpc_call *c, mpc_id value, double *number); /* false: not the op `const` */

    /* --- reading: the graph's ends. P V C --- */
    uint32_t (*input_count)(mpc_call *c);
    mpc_id (*input)(mpc_call *c, uint32_t index);
    uint32_t (*output_count)(mpc_call *c);
    const char *(*output_name)(mpc_call *c, uint32_t index);
    mpc_id (*output)(mpc_call *c, uint32_t index);
    uint32_t (*next_count)(mpc_call *c);
    mpc_id (*next_state)(mpc_call *c, uint32_t index);
    mpc_id (*next_value)(mpc_call *c, uint32_t index);

    /* --- building. P X G. Result types follow from the op's own rule. X and G: floats that are computed are f32, and
     * mpc names them, so a rule rounds nothing on the way; views keep their operand's format --- */
    /* The first result; the next ones have the next ids. Attributes that aren't given have their defaults. */
    mpc_id (*build)(mpc_call *c, const char *op, const mpc_id *operands, uint32_t operand_count,
                    const mpc_plugin_attr *attrs, uint32_t attr_count);
    mpc_id (*number)(mpc_call *c, double value); /* an f32 scalar, which broadcasts */
    mpc_id (*cast)(mpc_call *c, mpc_id value, const char *format);

    /* --- a pass writes a new graph: every node that is needed is copied or replaced, in order. P --- */
    mpc_id (*copy)(mpc_call *c, mpc_id node);              /* with mapped operands; maps its results; the first one */
    void (*replace)(mpc_call *c, mpc_id old, mpc_id made); /* from here on `old` is read as `made` */
    mpc_id (*mapped)(mpc_call *c, mpc_id old);             /* MPC_NO_ID: neither copied nor replaced so far */
    /* Nodes built next get this one's place, origin and reason; the first of them its name. */
    void (*dress)(mpc_call *c, mpc_id node);
    void (*call_it)(mpc_call *c, const char *name); /* name of the next node's first result; made unique */
    const char *(*built_format)(mpc_call *c, mpc_id made);
    uint32_t (*built_rank)(mpc_call *c, mpc_id made);
    int64_t (*built_dim)(mpc_call *c, mpc_id made, uint32_t axis);
    void (*set_output)(mpc_call *c, const char *name, mpc_id made); /* outputs and nexts that aren't set are copied */
    void (*set_next)(mpc_call *c, mpc_id made_state, mpc_id made);

    /* --- rules of ops --- */
    void (*set_result)(mpc_call *c, uint32_t result, const char *format, uint32_t rank, const int64_t *dims); /* S */
    mpc_id (*dresult)(mpc_call *c, uint32_t result); /* G: gradient of a result; MPC_NO_ID: zero */
    bool (*wanted)(mpc_call *c, uint32_t index); /* G: of operand `index`; X: of result `index`: false: don't bother */
    /* X: result `index`, rounded to its format by mpc. G: gradient of operand `index`, in the shape of the operand or,
     * for an op of kind ewise, of the result; mpc sums over what was broadcast and converts. */
    void (*give)(mpc_call *c, uint32_t index, mpc_id value);
    /* The same for a value that the op still to be built makes: it gets the name and the format of what it is, with the
     * one rounding in it. To be preferred. Nothing happens when `index` isn't wanted. */
    void (*emit)(mpc_call *c, uint32_t index, const char *op, const mpc_id *operands, uint32_t operand_count,
                 const mpc_plugin_attr *attrs, uint32_t attr_count);
    const double *(*operand_data)(mpc_call *c, uint32_t operand); /* E: row-major */
    double *(*result_data)(mpc_call *c, uint32_t result);         /* E: to be filled, unrounded */

    /* --- solvers. V --- */
    const char *(*low)(mpc_call *c); /* the narrow format of this plan: bf16, f16, a plugin's */
    /* A decision is needed: the op has a class and floats, and neither the user nor an earlier run has decided. */
    bool (*open)(mpc_call *c, mpc_id node);
    bool (*wanted_low)(mpc_call *c, mpc_id value); /* a LOW op reads it, directly or through ops that follow */
    bool (*only_f32)(mpc_call *c, mpc_id value);   /* no reader gains from low storage */
    /* Its type isn't up to a decision: statistics, masters, losses, integers, and all that a step computes beside the
     * model (data mapping, loss scale, update). Who decides it low all the same gets f32, with that reason. */
    bool (*fixed)(mpc_call *c, mpc_id value);
    const char *(*planned)(mpc_call *c, mpc_id value); /* format in which it will be stored, as decided so far */
    /* Formats by name, "": as in mpc_plugin_decision. The accumulator is the op's own (N04); fixed results stay as they
     * are. */
    void (*decide)(mpc_call *c, mpc_id node, const mpc_plugin_decision *decision, const char *reason);
    /* What the solver `list` decides; after the producers of its operands. */
    void (*decide_by_class)(mpc_call *c, mpc_id node);
    /* Prices on the target device in seconds; 0 without costs. Of an op of class LOW that reads `format`; of what
     * crosses borders of kernels when a value is stored so; of one cast. */
    double (*price_op)(mpc_call *c, mpc_id node, const char *format);
    double (*price_value)(mpc_call *c, mpc_id value, const char *format);
    double (*price_cast)(mpc_call *c, mpc_id value, const char *from, const char *to);
} mpc_plugin_api;

/* A pass, `name{key=value}` in pipelines. It reads one graph and writes another: inputs of the graph are copied before
 * `run`, and afterwards every output and next value that it didn't set. */
typedef struct mpc_plugin_pass {
    uint32_t size;
    const char *name, *doc;
    const char *options; /* "factor:float=2 mode:str=on": key:kind=default; kinds int float bool str */
    /* Words: grad loss-scale update guard decisions casts masters primitives groups order places. A pipeline in which
     * something required isn't there is refused before it runs. Decisions, groups, order and places don't survive a
     * pass that rebuilds. */
    const char *needs, *provides;
    void (*run)(const mpc_plugin_api *mpc, mpc_call *c);
} mpc_plugin_pass;

/* A solver, `autocast{solver=name}` or --solver name: decides every node that is `open`. */
typedef struct mpc_plugin_solver {
    uint32_t size;
    const char *name, *doc;
    bool needs_costs; /* price_* are asked for */
    void (*solve)(const mpc_plugin_api *mpc, mpc_call *c);
} mpc_plugin_solver;

/* A cost model, --cost-target name. */
typedef struct mpc_plugin_costs {
    uint32_t size;
    const char *name, *doc;
    /* Text form of a device profile, as `mpc calibrate` writes it. Its formats must be known when the plugin is loaded:
     * a plugin's own aren't yet. */
    const char *profile;
    /* Seconds of an op of class LOW whose operands are read in `format`; asked for often, in any order; `seconds` is
     * what the profile says. NULL: as the profile says. Must be finite and not negative. */
    double (*price)(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node, const char *format, double seconds);
} mpc_plugin_costs;

/* An op: a row as in ir/ops.def. kind composite: `expand` builds it from other ops, and every device has it at once;
 * kind ewise: a primitive whose kernel is a C expression in vectors of f32 with operands $0 $1 $2 (add: "$0 + $1"; the
 * functions are those of the generated kernels: mpc_exp, mpc_tanh, mpc_select, ...), written so that C and CUDA compile
 * it. In a model the op is a function: operands in order, attributes by name. */
typedef struct mpc_plugin_op {
    uint32_t size;
    const char *name, *doc;
    const char *kind;       /* composite, ewise */
    const char *op_class;   /* LOW HIGH FOLLOW CLEAR NONE */
    const char *flags;      /* words: exact commutes random no-gradient; "": none */
    const char *attributes; /* "axis:int=0 eps:float=1e-5 prec:format=none": kinds int float bool str format ints; none:
                             * required. With `prec` the user's @FORMAT reaches it. */
    uint32_t min_operands, max_operands, results;
    const char *kernel;     /* ewise; else "" */
    const char *shape_like; /* an op of mpc whose shape rule is taken: tanh, add, softmax; NULL: `shape` */
    void (*shape)(const mpc_plugin_api *mpc, mpc_call *c);
    void (*eval)(const mpc_plugin_api *mpc, mpc_call *c);   /* in f64: the judge of accuracy */
    void (*expand)(const mpc_plugin_api *mpc, mpc_call *c); /* composite */
    /* NULL: a composite is differentiated by its expansion. Where dy is 0 because a selection further on threw the value away, the
     * gradient must be 0 too: a slope that isn't finite there makes it NaN. */
    void (*grad)(const mpc_plugin_api *mpc, mpc_call *c);
} mpc_plugin_op;

/* A float format, simulated: values are rounded exactly as the format says, to nearest even with subnormals kept, and
 * stored in 4 bytes on the devices ref and cpu. */
typedef struct mpc_plugin_format {
    uint32_t size;
    const char *name, *doc;           /* small letters, digits, at most 15 */
    int exponent_bits, fraction_bits; /* 2 to 8 (8 only with infinities), 1 to 22 */
    bool infinities; /* the top exponent is infinity and NaN; else it holds numbers, all but the last, which is NaN */
    bool saturates;  /* what is too large becomes the largest number; else infinity, or NaN where there is none */
} mpc_plugin_format;

/* The first three fields of a plugin's table: what it was compiled for. */
#define MPC_PLUGIN_VERSION sizeof(mpc_plugin), MPC_PLUGIN_ABI, sizeof(mpc_plugin_api)

/* What a plugin brings: lists that end with NULL; NULL: none. */
typedef struct mpc_plugin {
    uint32_t size, abi, api_size; /* MPC_PLUGIN_VERSION; these three stay where they are in every version */
    const char *name, *version;
    const mpc_plugin_pass *const *passes;
    const mpc_plugin_solver *const *solvers;
    const mpc_plugin_costs *const *costs;
    const mpc_plugin_op *const *ops;
    const mpc_plugin_format *const *formats;
} mpc_plugin;

#if defined(__GNUC__) && !defined(MPC_PLUGIN_HOST)
/* The one function that a plugin exports. `abi`: MPC_PLUGIN_ABI of the mpc that loads it; NULL: the plugin knows no
 * such version. */
__attribute__((visibility("default"))) const mpc_plugin *mpc_plugin_query(uint32_t abi);
#endif

#ifdef __cplusplus
}
#endif

#endif
