/* A window of micro-batches: what they leave to divide at its end. A mean over the window is that of the elements that
 * counted in all of it (N61), so each micro-mean is weighted by its count, and the sum divided by the sum of counts.
 * Losses with counts of their own need sums of their own: what each is divided by is known only when the window ends.
 * What a newcomer would get wrong: one sum of a total, divided by anything, can't be right for two masks. */
#include "passes/optimizer_parts.h"

typedef struct window { /* of the losses that count alike, f32 [] each */
    int64_t group, share;
    mpc_value_id weight, valid, total; /* of this micro-step; elements so far; what the sums are divided by */
} window;

typedef struct windows {
    window *list;
    uint32_t count;
} windows;

static mpc_value_id select(mpc_optimizer *p, mpc_value_id condition, mpc_value_id a, mpc_value_id b) {
    return mpc_build3(p->rw.b, MPC_OP_where, condition, a, b);
}

static void end_window_state(mpc_optimizer *p, mpc_value_id state, mpc_value_id next, mpc_format format) {
    mpc_value_id zero = mpc_build_const(p->rw.b, 0, format);
    mpc_build_next(p->rw.b, state, select(p, p->update, zero, next));
}

static void find_window_end(mpc_optimizer *p) {
    mpc_builder *b = p->rw.b;
    mpc_value_id micro = mpc_optimizer_scalar(p, "window.micro", MPC_FMT_i32, "zero");
    mpc_value_id one = mpc_build_const(b, 1, MPC_FMT_i32), next = mpc_build2(b, MPC_OP_add, micro, one);
    mpc_value_id full = mpc_build2(b, MPC_OP_ge, next, mpc_build_const(b, (double)p->accumulate, MPC_FMT_i32));
    p->update = mpc_optimizer_named(p, "window.update", MPC_OP_or, full, p->flush);
    end_window_state(p, micro, next, MPC_FMT_i32);
}

static const char *checked(mpc_optimizer *p, const char *text) {
    if (text == NULL) mpc_builder_fail(p->rw.b, "out of memory");
    return text == NULL ? "" : text;
}

/* "NAME", "NAME.GROUP", "NAME.GROUP.SHARE": as short as it says all. */
static const char *window_name(mpc_optimizer *p, const char *name, const window *w) {
    long long group = w->group, share = w->share;
    if (share > 0) return checked(p, mpc_arena_printf(p->rw.scratch, "%s.%lld.%lld", name, group, share));
    return group > 0 ? checked(p, mpc_arena_printf(p->rw.scratch, "%s.%lld", name, group)) : name;
}

/* Valid elements of the losses of a window: of the first loss where nothing sets some apart. */
static mpc_value_id find_count(mpc_optimizer *p, const window *w) {
    const char *of = window_name(p, w->share > 0 ? "share" : "group", w);
    const char *name = w->group + w->share > 0 ? mpc_arena_printf(p->rw.scratch, "%s.count", of) : "count";
    return mpc_graph_find_output(p->rw.in, checked(p, name));
}

static void list_group(mpc_optimizer *p, windows *all, int64_t group) {
    window w = {.group = group, .share = 1};
    for (; find_count(p, &w) != MPC_NONE; w.share++) all->list[all->count++] = w;
    if (w.share == 1) all->list[all->count++] = (window){.group = group};
}

/* One for each group of losses, or for all; more where a group has several counts. */
static windows list_windows(mpc_optimizer *p) {
    windows all = {.list = mpc_rewrite_scratch(&p->rw, p->rw.in->output_count + 1, sizeof *all.list)};
    window w = {.group = 1};
    if (all.list == NULL) return all;
    for (; find_count(p, &w) != MPC_NONE; w.group++) list_group(p, &all, w.group);
    if (w.group == 1) list_group(p, &all, 0);
    return all;
}

static void open_window(mpc_optimizer *p, window *w, mpc_value_id nominal) {
    mpc_builder *b = p->rw.b;
    mpc_value_id output = find_count(p, w);
    mpc_value_id one = mpc_build_const(b, 1, MPC_FMT_f32), count = output == MPC_NONE ? one : p->rw.map[output];
    w->weight = mpc_optimizer_named(p, window_name(p, "window.weight", w), MPC_OP_div, count, nominal);
    mpc_value_id seen = mpc_optimizer_scalar(p, window_name(p, "window.count", w), MPC_FMT_f32, "zero");
    w->valid = mpc_optimizer_named(p, window_name(p, "window.valid", w), MPC_OP_add, seen, count);
    mpc_value_id some = mpc_build2(b, MPC_OP_gt, w->valid, p->zero);
    w->total = select(p, some, mpc_build2(b, MPC_OP_div, w->valid, nominal), one);
    end_window_state(p, seen, w->valid, MPC_FMT_f32);
}

/* The value `window.valid` is made in any case: `guard` asks it whether anything counted. */
static windows open_windows(mpc_optimizer *p) {
    mpc_value_id nominal = mpc_build_const(p->rw.b, mpc_option_float(p->o, "nominal"), MPC_FMT_f32), valid = p->zero;
    windows all = list_windows(p);
    bool common = all.count == 1 && all.list[0].group + all.list[0].share == 0;
    for (uint32_t i = 0; i < all.count; i++) {
        open_window(p, &all.list[i], nominal);
        const char *name = i + 1 == all.count ? "window.valid" : "window.some";
        if (!common) valid = mpc_optimizer_named(p, name, MPC_OP_add, valid, all.list[i].valid);
    }
    if (common) p->total = all.list[0].total;
    return all;
}

static const window *find_window(mpc_optimizer *p, const windows *all, int64_t group, int64_t share) {
    for (uint32_t i = 0; i < all->count; i++)
        if ((all->count == 1 && share == 0) || (all->list[i].group == group && all->list[i].share == share))
            return &all->list[i];
    mpc_builder_fail(p->rw.b, "optimizer: a gradient of group %lld, share %lld, which no count is of", (long long)group,
                     (long long)share);
    return NULL;
}

/* The sum of g * (count / nominal); over the sum of count / nominal it is the mean. The quotient is 1 for full
 * micro-batches, whatever the nominal count is, so then nothing but the sum is rounded. */
static mpc_value_id add_up(mpc_optimizer *p, const mpc_update_parameter *q, const mpc_gradient_part *part,
                           const window *w) {
    const char *suffix = "acc";
    if (part->share > 0) suffix = checked(p, mpc_arena_printf(p->rw.scratch, "acc.%lld", (long long)part->share));
    mpc_value_id sum = mpc_optimizer_like(p, q, suffix, "zero", "accum");
    mpc_value_id weighted = mpc_build2(p->rw.b, MPC_OP_mul, p->rw.map[part->gradient], w->weight);
    mpc_value_id next = mpc_build2(p->rw.b, MPC_OP_add, sum, weighted);
    end_window_state(p, sum, next, MPC_FMT_f32);
    return next;
}

/* A parameter counts the elements of the losses that train it, each share for itself. */
static void accumulate_parameter(mpc_optimizer *p, uint32_t i, const windows *all) {
    mpc_update_parameter *q = &p->parameters[i];
    mpc_value_id mean = MPC_NONE;
    for (const mpc_gradient_part *part = q->parts; part != NULL; part = part->next) {
        const window *w = find_window(p, all, mpc_attr_int(p->rw.in, q->state, "group"), part->share);
        if (w == NULL) return;
        mpc_value_id next = add_up(p, q, part, w);
        mpc_value_id own = mpc_optimizer_named(p, mpc_optimizer_path(p, q, "mean"), MPC_OP_div, next, w->total);
        mean = mean == MPC_NONE ? own : mpc_build2(p->rw.b, MPC_OP_add, mean, own);
        p->sums[i] = p->total != MPC_NONE ? next : mean;
    }
    q->gradient = mean;
}

void mpc_optimizer_accumulate(mpc_optimizer *p) {
    find_window_end(p);
    windows all = open_windows(p);
    for (uint32_t i = 0; i < p->count; i++) accumulate_parameter(p, i, &all);
}
