/* Values that the user wants in one storage format: the option `agree` of autocast, "a|layer.*.b@m.mpg:12;c|d". A group
 * takes the format that one of its members has by the user's word or by its type; else the widest that the solver gives
 * to any. A newcomer would look for gradients here: they have their values' formats, so only forward values are
 * matched. */
#include <string.h>

#include "passes/precision/precision.h"

static mpc_status no_memory(const mpc_plan *p) {
    mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory");
    return MPC_NO_MEMORY;
}

/* --- reading --- */

typedef struct reading {
    mpc_plan *p;
    mpc_agreement *pairs; /* room for one per value and group */
    uint32_t count;
    mpc_sym why; /* of the group being read */
} reading;

static bool is_candidate(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return mpc_format_is_float(mpc_value_format(g, v)) && (n == NULL || n->origin == 0);
}

static bool matches_any(const char *globs, size_t length, const char *name) {
    char glob[256];
    for (const char *at = globs, *end = globs + length; at < end;) {
        size_t n = strcspn(at, "|@;");
        if (n < sizeof glob) {
            memcpy(glob, at, n);
            glob[n] = '\0';
            if (mpc_glob_match(glob, name)) return true;
        }
        at += n + 1;
    }
    return false;
}

static mpc_status read_group(reading *r, const char *text, size_t length) {
    const mpc_graph *g = r->p->g;
    size_t globs = strcspn(text, "@;");
    const char *place = globs < length ? text + globs + 1 : "";
    int place_length = globs < length ? (int)(length - globs - 1) : 0;
    mpc_str why = {0};
    mpc_str_printf(&why, "policy %.*s%sagree `%.*s`", place_length, place, place_length ? ": " : "", (int)globs, text);
    r->why = mpc_intern(g->ctx, mpc_str_cstr(&why));
    mpc_str_free(&why);
    mpc_value_id last = MPC_NONE;
    uint32_t before = r->count;
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        if (!is_candidate(g, v) || !matches_any(text, globs, mpc_value_name(g, v))) continue;
        if (last != MPC_NONE) r->pairs[r->count++] = (mpc_agreement){last, v, r->why};
        last = v;
    }
    if (r->count > before) return MPC_OK;
    return mpc_error(mpc_context_sink(g->ctx), "E113", "autocast: `agree` of `%.*s` finds %s", (int)globs, text,
                     last == MPC_NONE ? "no value" : "one value only");
}

mpc_status mpc_plan_read_agreements(mpc_plan *p, const char *text) {
    size_t groups = 1;
    for (const char *at = text; *at != '\0'; at++) groups += *at == ';';
    if (*text == '\0') return MPC_OK;
    reading r = {.p = p,
                 .pairs = mpc_arena_alloc(p->arena, groups * ((size_t)p->g->value_count + 1) * sizeof *r.pairs)};
    if (r.pairs == NULL) return no_memory(p);
    mpc_status status = MPC_OK;
    for (const char *at = text; *at != '\0' && status == MPC_OK;) {
        size_t length = strcspn(at, ";");
        status = read_group(&r, at, length);
        at += length + (at[length] == ';');
    }
    p->agree = r.pairs;
    p->agree_count = r.count;
    return status;
}

/* --- settling --- */

typedef struct settling {
    mpc_plan *p;
    mpc_value_id *root; /* by value */
    mpc_value_id *pin;  /* by root: the member whose format is not up to a decision; MPC_NONE */
    mpc_format *wide;   /* by root */
} settling;

static mpc_value_id find_root(settling *s, mpc_value_id v) {
    while (s->root[v] != v) v = s->root[v] = s->root[s->root[v]];
    return v;
}

static bool settling_init(settling *s, mpc_plan *p) {
    size_t values = (size_t)p->g->value_count + 1;
    *s = (settling){.p = p,
                    .root = mpc_arena_alloc(p->arena, values * sizeof *s->root),
                    .pin = mpc_arena_alloc(p->arena, values * sizeof *s->pin),
                    .wide = mpc_arena_alloc(p->arena, values * sizeof *s->wide)};
    if (s->root == NULL || s->pin == NULL || s->wide == NULL) return false;
    for (mpc_value_id v = 0; v < p->g->value_count; v++) {
        s->root[v] = v;
        s->pin[v] = MPC_NONE;
        s->wide[v] = MPC_FMT_none;
    }
    for (uint32_t i = 0; i < p->agree_count; i++) s->root[find_root(s, p->agree[i].b)] = find_root(s, p->agree[i].a);
    return true;
}

static bool is_pinned(const mpc_plan *p, mpc_value_id v) {
    mpc_node_id id = p->g->values[v].producer;
    return p->fixed.result[v] || id == MPC_NONE || p->given[id] || mpc_is_written_cast(p->g, &p->g->nodes[id]);
}

static void append_member(const mpc_plan *p, mpc_value_id v, mpc_str *out) {
    const mpc_graph *g = p->g;
    mpc_node_id id = g->values[v].producer;
    mpc_sym why = id == MPC_NONE ? 0 : p->why[id];
    mpc_str_printf(out, "`%s`", mpc_value_name(g, v));
    if (id != MPC_NONE && g->nodes[id].loc.file != 0)
        mpc_str_printf(out, " (%s:%u)", mpc_sym_text(g->ctx, g->nodes[id].loc.file), g->nodes[id].loc.line);
    mpc_str_printf(out, " is %s", mpc_format_get(p->format[v])->name);
    if (p->fixed.result[v]) mpc_str_append(out, " by its type");
    else if (why != 0) mpc_str_printf(out, " (%s)", mpc_sym_text(g->ctx, why));
}

static mpc_status refuse(const mpc_plan *p, mpc_sym why, mpc_value_id a, mpc_value_id b) {
    mpc_str text = {0};
    append_member(p, a, &text);
    mpc_str_append(&text, ", ");
    append_member(p, b, &text);
    mpc_status status =
        mpc_error(mpc_context_sink(p->g->ctx), "E112", "%s: %s", mpc_sym_text(p->g->ctx, why), mpc_str_cstr(&text));
    mpc_str_free(&text);
    return status;
}

static mpc_status find_pins(settling *s) {
    const mpc_plan *p = s->p;
    for (uint32_t i = 0; i < p->agree_count; i++) {
        mpc_value_id members[] = {p->agree[i].a, p->agree[i].b};
        for (int k = 0; k < 2; k++) {
            mpc_value_id v = members[k], *pin = &s->pin[find_root(s, v)];
            if (!is_pinned(p, v)) continue;
            if (*pin == MPC_NONE) *pin = v;
            else if (p->format[*pin] != p->format[v]) return refuse(p, p->agree[i].why, *pin, v);
        }
    }
    return MPC_OK;
}

/* The decision of a free node whose result shall have this format. */
static mpc_decision decision_with(const mpc_plan *p, mpc_node_id id, mpc_format result) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_decision d = {.present = true, .compute = MPC_FMT_f32, .result = result};
    mpc_class cls = mpc_node_op(p->g, id)->cls;
    if (mpc_node_has_attr(p->g, n, "acc")) d.acc = mpc_attr_format(p->g, n, "acc");
    if (cls == MPC_CLASS_CLEAR || mpc_format_is_low(result)) d.operand = result;
    else if (cls == MPC_CLASS_LOW) d.operand = p->low;
    return d;
}

static void settle_value(mpc_plan *p, mpc_value_id v, mpc_format format, mpc_sym why) {
    mpc_node_id id = p->g->values[v].producer;
    if (is_pinned(p, v) || !mpc_is_assigned(p->g, id)) return;
    mpc_plan_decide(p, id, decision_with(p, id, format), "%s: %s", mpc_sym_text(p->g->ctx, why),
                    mpc_format_get(format)->name);
    p->given[id] = true;
}

mpc_status mpc_plan_pin_agreements(mpc_plan *p) {
    settling s;
    if (p->agree_count == 0) return MPC_OK;
    if (!settling_init(&s, p)) return no_memory(p);
    mpc_status status = find_pins(&s);
    for (uint32_t i = 0; i < p->agree_count && status == MPC_OK; i++) {
        mpc_value_id pin = s.pin[find_root(&s, p->agree[i].a)];
        if (pin == MPC_NONE) continue;
        mpc_format format = p->format[pin];
        settle_value(p, p->agree[i].a, format, p->agree[i].why);
        settle_value(p, p->agree[i].b, format, p->agree[i].why);
        if (p->format[p->agree[i].b] != format) status = refuse(p, p->agree[i].why, pin, p->agree[i].b);
        else if (p->format[p->agree[i].a] != format) status = refuse(p, p->agree[i].why, pin, p->agree[i].a);
    }
    return status;
}

static void find_widest(settling *s) {
    const mpc_plan *p = s->p;
    for (uint32_t i = 0; i < p->agree_count; i++) {
        mpc_format *wide = &s->wide[find_root(s, p->agree[i].a)];
        mpc_format pair = mpc_format_join(p->format[p->agree[i].a], p->format[p->agree[i].b]);
        *wide = *wide == MPC_FMT_none ? pair : mpc_format_join(*wide, pair);
    }
}

/* Takes back what the solver decided, for another try. */
static void reopen(mpc_plan *p) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (p->given[id] || !mpc_is_assigned(g, id)) continue;
        p->decisions[id] = (mpc_decision){0};
        p->why[id] = 0;
        for (uint32_t i = 0; i < g->nodes[id].result_count; i++) {
            mpc_value_id v = mpc_result(&g->nodes[id], i);
            p->format[v] = p->say[v] = mpc_value_format(g, v);
        }
    }
}

mpc_status mpc_plan_settle_agreements(mpc_plan *p, bool *again) {
    settling s;
    *again = false;
    if (p->agree_count == 0) return MPC_OK;
    if (!settling_init(&s, p)) return no_memory(p);
    find_widest(&s);
    for (uint32_t i = 0; i < p->agree_count; i++) {
        mpc_value_id members[] = {p->agree[i].a, p->agree[i].b};
        for (int k = 0; k < 2; k++) {
            mpc_format wide = s.wide[find_root(&s, members[k])];
            if (p->format[members[k]] == wide) continue;
            settle_value(p, members[k], wide, p->agree[i].why);
            if (p->format[members[k]] != wide) return refuse(p, p->agree[i].why, members[k], members[1 - k]);
            *again = true;
        }
    }
    if (*again) reopen(p);
    return MPC_OK;
}
