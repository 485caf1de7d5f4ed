/* New parameters: the rate, one update op per parameter, and what a parameter is stored in. Whatever the optimizer, its
 * arithmetic, moments and decay are f32 and the new value is rounded at most once, at the end. A parameter without a
 * master (attribute `stored`) holds low values from here on, while its type stays f32 until `master-weights`. */
#include <string.h>

#include "base/map.h"
#include "ir/schedule_rate.h"
#include "passes/optimizer_parts.h"

/* A value that only the end of a window moves. */
static mpc_value_id select_update(mpc_optimizer *p, mpc_value_id next, mpc_value_id old) {
    return p->accumulate > 1 ? mpc_build3(p->rw.b, MPC_OP_where, p->update, next, old) : next;
}

/* Binds a state that only an update moves. */
static void bind(mpc_optimizer *p, mpc_value_id state, mpc_value_id next) {
    mpc_build_next(p->rw.b, state, select_update(p, next, state));
}

void mpc_optimizer_set_rate(mpc_optimizer *p) {
    mpc_builder *b = p->rw.b;
    p->applied = mpc_optimizer_scalar(p, "step.applied", MPC_FMT_i32, "keep");
    mpc_value_id one = mpc_build_const(b, 1, MPC_FMT_i32);
    mpc_builder_set_name(b, "step.number");
    p->next_applied = mpc_build2(b, MPC_OP_add, p->applied, one);
    static const char *const numbers[] = {"warmup", "total", "final", "every", "factor"};
    mpc_attr_arg attrs[7] = {MPC_A_STR("kind", mpc_option_str(p->o, "schedule")),
                             MPC_A_FLOAT("rate", mpc_option_float(p->o, "lr"))};
    for (uint32_t i = 0; i < 5; i++) attrs[2 + i] = MPC_A_FLOAT(numbers[i], mpc_option_float(p->o, numbers[i]));
    mpc_builder_set_name(b, "lr");
    p->rate = mpc_build(b, MPC_OP_schedule, &p->applied, 1, attrs, 7);
}

/* On masters, by default on parameters of two or more dims (N72). */
static double decay_of(const mpc_optimizer *p, const mpc_update_parameter *q) {
    const mpc_graph *g = p->rw.in;
    double own = mpc_attr_float(g, q->state, "decay");
    if (own >= 0) return own;
    return mpc_value_type(g, mpc_result(q->state, 0))->rank >= 2 ? mpc_option_float(p->o, "decay") : 0;
}

/* ---- one optimizer each: the new value of a parameter; moments are bound. MPC_NONE after an error ---- */

static mpc_attr_arg number(const mpc_optimizer *p, const char *key) {
    return MPC_A_FLOAT(key, mpc_option_float(p->o, key));
}

static mpc_attr_arg own_rate(const mpc_optimizer *p, const mpc_update_parameter *q) {
    return MPC_A_FLOAT("lr", mpc_attr_float(p->rw.in, q->state, "lr"));
}

static mpc_value_id update_adam(mpc_optimizer *p, const mpc_update_parameter *q, bool coupled) {
    mpc_value_id m = mpc_optimizer_like(p, q, "m", "keep", "moment"),
                 v = mpc_optimizer_like(p, q, "v", "keep", "moment");
    mpc_value_id operands[6] = {q->value, q->gradient, m, v, p->rate, p->next_applied};
    mpc_attr_arg attrs[6] = {number(p, "beta1"), number(p, "beta2"),
                             number(p, "eps"),   MPC_A_FLOAT("decay", decay_of(p, q)),
                             own_rate(p, q),     MPC_A_BOOL("coupled", coupled)};
    mpc_builder_set_name(p->rw.b, mpc_optimizer_path(p, q, "new"));
    mpc_value_id result = mpc_build(p->rw.b, MPC_OP_adamw, operands, 6, attrs, 6);
    if (result == MPC_NONE) return MPC_NONE;
    bind(p, m, result + 1);
    bind(p, v, result + 2);
    return result;
}

static mpc_value_id update_adamw(mpc_optimizer *p, const mpc_update_parameter *q) { return update_adam(p, q, false); }

static mpc_value_id update_coupled(mpc_optimizer *p, const mpc_update_parameter *q) { return update_adam(p, q, true); }

/* Without momentum there is no state to keep: the op's moment operand is a constant zero. */
static mpc_value_id update_momentum(mpc_optimizer *p, const mpc_update_parameter *q, bool nesterov) {
    bool keeps = mpc_option_float(p->o, "momentum") != 0;
    mpc_attr_arg nothing = MPC_A_FLOAT("value", 0);
    mpc_type_id type = p->rw.in->values[mpc_result(q->state, 0)].type;
    mpc_value_id m = keeps ? mpc_optimizer_like(p, q, "m", "keep", "moment")
                           : mpc_build_typed(p->rw.b, MPC_OP_const, type, &nothing, 1);
    mpc_value_id operands[4] = {q->value, q->gradient, m, p->rate};
    mpc_attr_arg attrs[4] = {number(p, "momentum"), MPC_A_FLOAT("decay", decay_of(p, q)), own_rate(p, q),
                             MPC_A_BOOL("nesterov", nesterov)};
    mpc_builder_set_name(p->rw.b, mpc_optimizer_path(p, q, "new"));
    mpc_value_id result = mpc_build(p->rw.b, MPC_OP_sgd, operands, 4, attrs, 4);
    if (result != MPC_NONE && keeps) bind(p, m, result + 1);
    return result;
}

static mpc_value_id update_sgd(mpc_optimizer *p, const mpc_update_parameter *q) { return update_momentum(p, q, false); }

static mpc_value_id update_nesterov(mpc_optimizer *p, const mpc_update_parameter *q) {
    return update_momentum(p, q, true);
}

static mpc_value_id update_lion(mpc_optimizer *p, const mpc_update_parameter *q) {
    mpc_value_id m = mpc_optimizer_like(p, q, "m", "keep", "moment");
    mpc_value_id operands[4] = {q->value, q->gradient, m, p->rate};
    mpc_attr_arg attrs[4] = {number(p, "beta1"), number(p, "beta2"), MPC_A_FLOAT("decay", decay_of(p, q)),
                             own_rate(p, q)};
    mpc_builder_set_name(p->rw.b, mpc_optimizer_path(p, q, "new"));
    mpc_value_id result = mpc_build(p->rw.b, MPC_OP_lion, operands, 4, attrs, 4);
    if (result != MPC_NONE) bind(p, m, result + 1);
    return result;
}

typedef mpc_value_id (*update_rule)(mpc_optimizer *p, const mpc_update_parameter *q);
static const struct {
    const char *kind;
    update_rule rule;
} kinds[] = {{"adamw", update_adamw},
             {"adam", update_coupled},
             {"sgd", update_sgd},
             {"nesterov", update_nesterov},
             {"lion", update_lion}};

static update_rule find_rule(const char *kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, kind) == 0) return kinds[i].rule;
    return NULL;
}

mpc_status mpc_optimizer_check_kind(const mpc_pass_options *o, const mpc_sink *sink) {
    const char *kind = mpc_option_str(o, "kind"), *schedule = mpc_option_str(o, "schedule");
    if (!mpc_schedule_is_known(schedule))
        return mpc_error(sink, "E105", "optimizer: `schedule` must be constant, cosine, linear or step, it is `%s`",
                         schedule);
    if (find_rule(kind) != NULL) return MPC_OK;
    return mpc_error(sink, "E105", "optimizer: `kind` must be adamw, adam, sgd, nesterov or lion, it is `%s`", kind);
}

/* ---- what a parameter is stored in ---- */

/* Random numbers of this update for one parameter: a function of seed, updates made and path, so that a run can be
 * repeated and resumed, and a skipped step draws the same ones again. */
static mpc_value_id draw(mpc_optimizer *p, const mpc_update_parameter *q) {
    const mpc_type *type = mpc_value_type(p->rw.in, mpc_result(q->state, 0));
    mpc_value_id operands[2] = {p->seed, p->applied};
    mpc_attr_arg attrs[2] = {MPC_A_INTS("shape", type->dims, type->rank),
                             MPC_A_INT("stream", (int64_t)(mpc_hash_str(mpc_optimizer_path(p, q, "rounding")) >> 1))};
    return mpc_build(p->rw.b, MPC_OP_random_uniform, operands, 2, attrs, 2);
}

/* The new value as a parameter without master keeps it, in f32: rounded once (N73). */
static mpc_value_id round_to_storage(mpc_optimizer *p, const mpc_update_parameter *q, mpc_value_id fresh) {
    mpc_format to = mpc_attr_format(p->rw.in, q->state, "stored");
    bool random = strcmp(mpc_attr_str(p->rw.in, q->state, "rounding"), "stochastic") == 0;
    mpc_attr_arg narrow[2] = {MPC_A_FORMAT("to", to), MPC_A_STR("by", "master")};
    mpc_attr_arg widen[2] = {MPC_A_FORMAT("to", MPC_FMT_f32), MPC_A_STR("by", "master")};
    mpc_op_id op = to == MPC_FMT_bf16 ? MPC_OP_stochastic_bf16 : MPC_OP_stochastic_f16;
    mpc_value_id u = random ? draw(p, q) : MPC_NONE;
    mpc_builder_set_name(p->rw.b, mpc_optimizer_path(p, q, "stored"));
    mpc_value_id low =
        random ? mpc_build2(p->rw.b, op, fresh, u) : mpc_build(p->rw.b, MPC_OP_cast, &fresh, 1, narrow, 2);
    mpc_builder_set_name(p->rw.b, mpc_optimizer_path(p, q, "kept"));
    return mpc_build(p->rw.b, MPC_OP_cast, &low, 1, widen, 2);
}

static mpc_value_id count_true(mpc_optimizer *p, mpc_value_id flags, const mpc_type *type) {
    mpc_attr_arg to = MPC_A_FORMAT("to", MPC_FMT_f32);
    int64_t axes[MPC_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) axes[i] = i;
    mpc_attr_arg over = MPC_A_INTS("axes", axes, type->rank);
    mpc_value_id numbers = mpc_build(p->rw.b, MPC_OP_cast, &flags, 1, &to, 1);
    return type->rank == 0 ? numbers : mpc_build(p->rw.b, MPC_OP_sum, &numbers, 1, &over, 1);
}

/* Updates that are not 0, and those of them that the rounding undid. */
static void count_lost(mpc_optimizer *p, const mpc_update_parameter *q, mpc_value_id fresh, mpc_value_id kept) {
    mpc_builder *b = p->rw.b;
    const mpc_type type = *mpc_value_type(p->rw.in, mpc_result(q->state, 0));
    mpc_value_id moved = mpc_build2(b, MPC_OP_ne, fresh, q->value), still = mpc_build2(b, MPC_OP_eq, kept, q->value);
    mpc_value_id lost = count_true(p, mpc_build2(b, MPC_OP_and, moved, still), &type);
    moved = count_true(p, moved, &type);
    p->lost = p->lost == MPC_NONE ? lost : mpc_build2(b, MPC_OP_add, p->lost, lost);
    p->moved = p->moved == MPC_NONE ? moved : mpc_build2(b, MPC_OP_add, p->moved, moved);
}

/* Output `lost`: which share of the elements that should have moved didn't. */
static void output_lost(mpc_optimizer *p) {
    if (p->lost == MPC_NONE) return;
    mpc_value_id some = mpc_build2(p->rw.b, MPC_OP_maximum, p->moved, mpc_build_const(p->rw.b, 1, MPC_FMT_f32));
    mpc_builder_set_name(p->rw.b, "update.lost");
    mpc_build_output(p->rw.b, "lost", mpc_build2(p->rw.b, MPC_OP_div, p->lost, some));
}

/* ---- averages ---- */

/* NAME/ema moves by 1 - ema of the way to the new parameter: in this form what it converges to is exact. */
static void update_average(mpc_optimizer *p, const mpc_update_parameter *q, mpc_value_id fresh) {
    mpc_builder *b = p->rw.b;
    double factor = mpc_attr_float(p->rw.in, q->state, "ema");
    if (factor <= 0) return;
    mpc_attr_arg attrs[3] = {MPC_A_STR("skip", "keep"), MPC_A_STR("role", "ema"), MPC_A_STR("init", "copy")};
    const char *name = mpc_optimizer_path(p, q, "ema");
    mpc_builder_set_name(b, name);
    mpc_value_id old = mpc_build_state(b, name, p->rw.in->values[mpc_result(q->state, 0)].type, attrs, 3);
    mpc_value_id way = mpc_build2(b, MPC_OP_sub, fresh, old);
    mpc_value_id part = mpc_build2(b, MPC_OP_mul, way, mpc_build_const(b, 1 - factor, MPC_FMT_f32));
    mpc_builder_set_name(b, mpc_optimizer_path(p, q, "average"));
    bind(p, old, mpc_build2(b, MPC_OP_add, old, part));
}

/* ---- all of it ---- */

static void update_one(mpc_optimizer *p, const mpc_update_parameter *q, update_rule rule) {
    mpc_value_id fresh = rule(p, q);
    if (fresh == MPC_NONE) return;
    if (mpc_attr_format(p->rw.in, q->state, "stored") != MPC_FMT_none) {
        mpc_value_id kept = round_to_storage(p, q, fresh);
        count_lost(p, q, fresh, kept);
        fresh = kept;
    }
    update_average(p, q, fresh);
    bind(p, q->value, fresh);
}

static bool some_random(const mpc_optimizer *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        const mpc_node *n = p->parameters[i].state;
        if (mpc_attr_format(p->rw.in, n, "stored") != MPC_FMT_none &&
            strcmp(mpc_attr_str(p->rw.in, n, "rounding"), "stochastic") == 0)
            return true;
    }
    return false;
}

/* The state `rng.seed`, which models with dropout have already. */
static mpc_value_id find_seed(mpc_optimizer *p) {
    mpc_value_id there = mpc_graph_find_value(p->rw.in, "rng.seed");
    if (there != MPC_NONE) return p->rw.map[there];
    return mpc_rewrite_state(&p->rw, "rng.seed", mpc_scalar_type(p->rw.in->ctx, MPC_FMT_i64), "keep", "rng", 0);
}

void mpc_optimizer_update(mpc_optimizer *p) {
    update_rule rule = find_rule(mpc_option_str(p->o, "kind"));
    p->lost = p->moved = MPC_NONE;
    if (some_random(p)) p->seed = find_seed(p);
    for (uint32_t i = 0; i < p->count; i++) update_one(p, &p->parameters[i], rule);
    output_lost(p);
    bind(p, p->applied, p->next_applied);
}
