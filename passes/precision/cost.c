/* Prices: the terms of mpc_costs added up for one plan, whoever made it. mpc_plan_price knows nothing of cuts: it looks at formats and decisions only, so
 * that it can judge every solver, the cut included. Formats of copies are kept as sets (bits by format): a value has one copy per format in its set. */
#include "passes/precision/cost.h"

#include <math.h>

#include "passes/precision/cost_data.h"

static double bytes_of(mpc_format f) { return (double)mpc_format_get(f)->bits / 8; }

const mpc_device_profile *mpc_costs_profile(const mpc_costs *c) { return &c->profile; }

void mpc_costs_charge(mpc_costs *c, const double *by_value, const double *by_node) {
    c->charge_value = by_value;
    c->charge_node = by_node;
}

void mpc_costs_charge_casts(mpc_costs *c, const double *by_operand) { c->charge_operand = by_operand; }

/* --- one term --- */

double mpc_cost_move(const mpc_costs *c, double bytes) {
    const mpc_device_profile *p = &c->profile;
    return bytes / (bytes <= p->cache_bytes ? p->cache_bandwidth : p->bandwidth);
}

/* What other values have driven out of the cache since it was made comes from memory. */
static double move_by_share(const mpc_costs *c, double bytes, double far) {
    return (1 - far) * mpc_cost_move(c, bytes) + far * bytes / c->profile.bandwidth;
}

/* A loop converts low numbers as it moves them: on a CPU that takes longer than moving them within a cache. */
static double move_in_loop(const mpc_costs *c, mpc_value_id v, mpc_format f, double far) {
    double seconds = move_by_share(c, c->elements[v] * bytes_of(f), far);
    return mpc_format_is_low(f) ? fmax(seconds, c->elements[v] / c->profile.convert) : seconds;
}

double mpc_cost_read(const mpc_costs *c, mpc_value_id v, mpc_format f) { return move_in_loop(c, v, f, c->far[v]); }

double mpc_cost_write(const mpc_costs *c, mpc_value_id v, mpc_format f) {
    bool there = c->made[v] == MPC_MADE_FREE || (c->made[v] >= MPC_MADE_BEFORE && f == mpc_value_format(c->g, v));
    if (there) return 0;
    double far = c->spilled[v] ? 1 : 0;
    bool loop = c->made[v] == MPC_MADE_LOOP || c->made[v] == MPC_MADE_UPDATE;
    return loop ? move_in_loop(c, v, f, far) : move_by_share(c, c->elements[v] * bytes_of(f), far);
}

double mpc_cost_round(const mpc_costs *c, mpc_value_id v) {
    const mpc_node *n = mpc_producer(c->g, v);
    if (n == NULL || c->storage[v] != v || !c->ops[n - c->g->nodes].present) return 0;
    return 2 * mpc_cost_move(c, c->elements[v] * bytes_of(MPC_FMT_f32)) + c->elements[v] / c->profile.convert;
}

double mpc_cost_cast_charge(const mpc_costs *c, mpc_value_id v, const mpc_reading *r) {
    if (c->charge_operand == NULL || r->reader == MPC_NONE || mpc_node_op(c->g, r->reader)->cls != MPC_CLASS_LOW) return 0;
    const mpc_node *n = &c->g->nodes[r->reader];
    double sum = 0;
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (c->storage[mpc_operand(c->g, n, i)] == v) sum += c->charge_operand[n->operand_begin + i];
    return sum;
}

double mpc_cost_unfold(const mpc_costs *c, mpc_value_id v) {
    return c->profile.gap + 2 * mpc_cost_read(c, v, MPC_FMT_f32);
}

double mpc_cost_cast(const mpc_costs *c, mpc_value_id v, mpc_format from, mpc_format to) {
    if (from == to || c->made[v] == MPC_MADE_FREE) return 0;
    double convert = c->elements[v] / c->profile.convert;
    if (c->made[v] == MPC_MADE_UPDATE) return 0; /* converted as it is written */
    bool own_kernel = c->made[v] == MPC_MADE_KERNEL || c->made[v] == MPC_MADE_BEFORE;
    return own_kernel ? convert + c->profile.gap + mpc_cost_read(c, v, from) : convert;
}

static double seconds_of_op(const mpc_costs *c, mpc_node_id id, mpc_format f) {
    const mpc_op_terms *t = &c->ops[id];
    if (!t->present) return 0;
    const mpc_rate *r = &c->profile.rate[t->size.kind][f];
    if (!(r->flops > 0)) r = &c->profile.rate[t->size.kind][MPC_FMT_f32];
    double memory = move_by_share(c, t->moved * bytes_of(f), t->moved > 0 ? t->far / t->moved : 0) +
                    mpc_cost_move(c, t->fixed_bytes);
    return c->profile.gap + fmax(mpc_rate_seconds(r, &t->size), r->setup + memory);
}

double mpc_cost_op(const mpc_costs *c, mpc_node_id id, mpc_format f) {
    double seconds = seconds_of_op(c, id, f);
    const mpc_price_model *model = c->ops[id].present ? c->profile.model : NULL;
    return model == NULL ? seconds : model->price(model, c->g, id, f, seconds);
}

double mpc_cost_value(const mpc_costs *c, mpc_value_id value, mpc_format f) {
    mpc_value_id v = c->storage[value];
    double seconds = 0;
    bool stored = false;
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++) {
        stored = stored || c->readings[i].crosses;
        if (c->readings[i].counted) seconds += mpc_cost_read(c, v, f);
    }
    return stored && c->elements[v] > 0 ? seconds + mpc_cost_write(c, v, f) : 0;
}

/* --- a whole plan --- */

typedef mpc_pricing pricing;

static uint32_t bit(mpc_format f) { return 1u << f; }

/* As insert-casts gives a reader its operand. */
static mpc_format operand_format(const pricing *x, mpc_node_id reader, mpc_format stored) {
    mpc_format wanted = x->p->decisions[reader].operand;
    const mpc_op *op = mpc_node_op(x->p->g, reader);
    if (wanted == MPC_FMT_none || wanted == MPC_FMT_tf32) return stored;
    if (op->cls == MPC_CLASS_LOW || op->kind == MPC_KIND_VIEW) return wanted;
    return mpc_format_join(stored, wanted) == wanted ? stored : wanted;
}

static uint32_t formats_of_reading(const pricing *x, mpc_value_id v, const mpc_reading *r) {
    mpc_format stored = x->p->format[v];
    if (r->as == MPC_READ_FIXED) return bit(r->format);
    if (r->as == MPC_READ_COPIES) return r->crosses ? x->stored[r->through] : x->needed[r->through];
    bool view = r->reader != MPC_NONE && mpc_node_op(x->p->g, r->reader)->kind == MPC_KIND_VIEW;
    if (r->reader == MPC_NONE || (view && r->as == MPC_READ_STORED)) return bit(stored);
    return bit(operand_format(x, r->reader, stored));
}

static void move(pricing *x, mpc_value_id v, mpc_format f, double seconds) {
    x->sum.values += seconds;
    x->sum.bytes[f] += x->c->elements[v] * bytes_of(f);
}

static void price_copies(pricing *x, mpc_value_id v) {
    mpc_format stored = x->p->format[v];
    for (mpc_format f = MPC_FMT_none; f < MPC_FMT_count; f++) {
        if (x->stored[v] & bit(f)) {
            double seconds = mpc_cost_write(x->c, v, f);
            if (seconds > 0) move(x, v, f, seconds);
        }
        if (f == stored || !((x->stored[v] | x->needed[v]) & bit(f))) continue;
        x->sum.cast_count++;
        x->sum.casts += mpc_cost_cast(x->c, v, stored, f);
    }
}

/* A low format among those of a reading, other than the stored one. */
static bool is_low_cast(const pricing *x, mpc_value_id v, uint32_t formats) {
    if (x->c->charge_operand == NULL || mpc_format_is_low(x->p->format[v])) return false;
    for (mpc_format f = MPC_FMT_none; f < MPC_FMT_count; f++)
        if ((formats & bit(f)) && mpc_format_is_low(f)) return true;
    return false;
}

static void price_value(pricing *x, mpc_value_id v) {
    const mpc_costs *c = x->c;
    if (c->storage[v] != v || !(c->elements[v] > 0)) return;
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++) {
        const mpc_reading *r = &c->readings[i];
        uint32_t formats = formats_of_reading(x, v, r);
        x->needed[v] |= r->as == MPC_READ_COPIES ? x->needed[r->through] : formats;
        if (r->crosses) x->stored[v] |= formats;
        if (is_low_cast(x, v, formats)) x->sum.deviation += mpc_cost_cast_charge(c, v, r);
        for (mpc_format f = MPC_FMT_none; r->counted && f < MPC_FMT_count; f++)
            if (formats & bit(f)) move(x, v, f, mpc_cost_read(c, v, f));
    }
    if (c->begin[v] < c->begin[v + 1] && mpc_cost_always_stored(c, v)) x->stored[v] |= bit(x->p->format[v]);
    price_copies(x, v);
}

static mpc_format format_of_operands(const pricing *x, mpc_node_id id) {
    const mpc_node *n = &x->p->g->nodes[id];
    mpc_format join = MPC_FMT_none;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        if (x->p->fixed.operand[n->operand_begin + i]) continue;
        mpc_value_id v = mpc_operand(x->p->g, n, i);
        mpc_format f = operand_format(x, id, x->p->format[v]);
        join = join == MPC_FMT_none ? f : mpc_format_join(join, f);
    }
    return join == MPC_FMT_none ? MPC_FMT_f32 : join;
}

static void price_op(pricing *x, mpc_node_id id) {
    const mpc_costs *c = x->c;
    if (!c->ops[id].present) return;
    mpc_format f = format_of_operands(x, id);
    x->sum.ops += mpc_cost_op(c, id, f);
    x->sum.bytes[f] += c->ops[id].moved * bytes_of(f);
    x->sum.bytes[MPC_FMT_f32] += c->ops[id].fixed_bytes;
    if (c->charge_node != NULL && mpc_format_is_low(f)) x->sum.deviation += c->charge_node[id];
}

static void price_ties(pricing *x, mpc_value_id v) {
    const mpc_costs *c = x->c;
    double rounding = mpc_format_is_low(x->p->format[v]) ? mpc_cost_round(c, v) : 0;
    if (rounding > 0 && format_of_operands(x, c->g->values[v].producer) == MPC_FMT_f32) x->sum.ops += rounding;
    if (c->folded[v] != MPC_NONE && x->p->format[v] != x->p->format[c->folded[v]])
        x->sum.values += mpc_cost_unfold(c, v);
    if (c->charge_value != NULL && mpc_format_is_low(x->p->format[v])) x->sum.deviation += c->charge_value[v];
}

bool mpc_pricing_begin(mpc_pricing *x, const mpc_plan *plan, const mpc_costs *c, mpc_arena *arena) {
    size_t size = ((size_t)c->g->value_count + 1) * sizeof(uint32_t);
    *x = (pricing){.p = plan, .c = c, .stored = mpc_arena_alloc(arena, size), .needed = mpc_arena_alloc(arena, size)};
    return x->stored != NULL && x->needed != NULL;
}

double mpc_price_terms(mpc_pricing *x, const mpc_terms *t) {
    x->sum = (mpc_plan_cost){0};
    for (uint32_t i = 0; i < t->value_count; i++) x->stored[t->values[i]] = x->needed[t->values[i]] = 0;
    for (uint32_t i = 0; i < t->value_count; i++) price_value(x, t->values[i]);
    for (uint32_t i = 0; i < t->tie_count; i++) price_ties(x, t->ties[i]);
    for (uint32_t i = 0; i < t->node_count; i++) price_op(x, t->nodes[i]);
    return x->sum.ops + x->sum.values + x->sum.casts + x->sum.deviation;
}

mpc_plan_cost mpc_pricing_all(mpc_pricing *x) {
    const mpc_costs *c = x->c;
    double all = 0;
    for (uint32_t v = c->g->value_count; v-- > 0;) price_value(x, v); /* views come before what they look at */
    for (uint32_t v = 0; v < c->g->value_count; v++) price_ties(x, v);
    for (mpc_node_id id = 0; id < c->g->node_count; id++) price_op(x, id);
    for (int f = 0; f < MPC_FMT_count; f++) all += x->sum.bytes[f];
    x->sum.f32_share = all > 0 ? x->sum.bytes[MPC_FMT_f32] / all : 0;
    x->sum.seconds = x->sum.ops + x->sum.values + x->sum.casts + x->sum.deviation;
    return x->sum;
}

mpc_plan_cost mpc_plan_price(const mpc_plan *plan, const mpc_costs *c) {
    mpc_arena *scratch = mpc_arena_create();
    mpc_pricing x;
    bool ok = scratch != NULL && mpc_pricing_begin(&x, plan, c, scratch);
    mpc_plan_cost cost = ok ? mpc_pricing_all(&x) : (mpc_plan_cost){.seconds = NAN};
    mpc_arena_destroy(scratch);
    return cost;
}
