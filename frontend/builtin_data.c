/* Functions that stand in a data mapping only: standardize, whose mean and deviation are measured on the training rows
 * before the first step and kept as states that no step changes, and augmentations, which draw anew for every row in
 * training and do nothing else. Values here have the batch as their first axis; the text sees one row. */
#include <string.h>

#include "frontend/fe_builtins.h"

static fe_value misplaced(fe_call *c) {
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E203", c->at->span, "`%s` is about rows of the data", c->fn->name);
    fe_help(&r, "write it in the data section: input x = %s(columns[0:8])", c->fn->name);
    fe_send(&r);
    return FE_POISONED;
}

/* Argument 0 as a row of floats; poison after an error. */
static fe_value row_argument(fe_call *c) {
    if (!c->e->mapping) return misplaced(c);
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    return fe_lift(c->e, c->at, x);
}

/* ---- standardize ---- */

/* In the graph that measures there are no states: its outputs have the paths. */
static bool is_taken(fe_elab *e, const char *path) {
    return fe_find_param(e, fe_format(e, "%s.mean", path)) ||
           mpc_graph_find_output(mpc_builder_graph(e->b), path) != MPC_NONE;
}

/* The same in every phase: one number more for each standardize of the input. */
static const char *standardize_path(fe_call *c) {
    const char *base = fe_format(c->e, "%s.standardize", c->e->mapping->text), *path = base;
    for (int n = 2; is_taken(c->e, path) && !c->e->failed; n++) path = fe_format(c->e, "%s%d", base, n);
    return path;
}

/* What is measured is what the file gives, before any step of the mapping that was itself measured. */
static bool standardizes(const fe_ast *at) {
    for (; at; at = at->next) {
        bool here =
            at->kind == AST_CALL && at->kid[0]->kind == AST_NAME && strcmp(at->kid[0]->text, "standardize") == 0;
        if (here || standardizes(at->list.first)) return true;
        for (int i = 0; i < 3; i++)
            if (at->kid[i] && standardizes(at->kid[i])) return true;
    }
    return false;
}

/* (x - mean) / deviation, in f32 whatever the formats around. */
static fe_value scaled(fe_call *c, fe_value x, fe_value mean, fe_value deviation) {
    fe_elab *e = c->e;
    mpc_format outer = e->prec;
    const char *why = e->prec_why;
    e->prec = MPC_FMT_f32;
    e->prec_why = "data are standardized in f32";
    fe_value centred = fe_emit2(e, c->at, MPC_OP_sub, x, mean, NULL);
    fe_value y = centred.kind == FE_TENSOR ? fe_emit2(e, c->at, MPC_OP_div, centred, deviation, c->name) : FE_POISONED;
    e->prec = outer;
    e->prec_why = why;
    return y.kind == FE_TENSOR ? fe_mark_row(e, y) : FE_POISONED;
}

fe_value fe_fn_standardize(fe_call *c) {
    fe_value x = row_argument(c);
    if (x.kind != FE_TENSOR || !fe_want_builder(c->e, c->at)) return FE_POISONED;
    if (c->ast[0] && standardizes(c->ast[0])) {
        fe_error(c->e->d, "E203", c->at->span, "what is standardized holds something that is already");
        return FE_POISONED;
    }
    const mpc_type *t = fe_type(x);
    int64_t features = t->rank > 1 ? t->dims[t->rank - 1] : 1;
    c->path = standardize_path(c);
    if (c->e->phase == MPC_PHASE_MEASURE) {
        mpc_build_output(c->e->b, c->path, x.t->id);
        return x;
    }
    fe_value mean = fe_make_stat(c, "mean", features, false), deviation = fe_make_stat(c, "deviation", features, true);
    if (t->rank == 1) { /* a row of one number: [1] to [] */
        mean = fe_reshape(c->e, c->at, mean, 0, NULL);
        deviation = fe_reshape(c->e, c->at, deviation, 0, NULL);
    }
    return mean.kind == FE_TENSOR && deviation.kind == FE_TENSOR ? scaled(c, x, mean, deviation) : FE_POISONED;
}

/* ---- augmentation: rows of pixels gathered by computed indices ---- */

typedef struct picture { /* a batch of rows [h, w] or [h, w, c] */
    fe_call *c;
    fe_value x;
    int64_t n, h, w, channels;
} picture;

static bool read_picture(fe_call *c, picture *p) {
    fe_value x = row_argument(c);
    if (x.kind != FE_TENSOR || !fe_want_builder(c->e, c->at)) return false;
    const mpc_type *t = fe_type(x);
    if (t->rank != 3 && t->rank != 4) {
        fe_error(c->e->d, "E021", fe_arg_span(c, 0), "%s takes pictures [h, w] or [h, w, c]; a row is %s here",
                 c->fn->name, fe_dims_text(c->e, t->dims + 1, t->rank - 1));
        return false;
    }
    *p = (picture){
        .c = c, .x = x, .n = t->dims[0], .h = t->dims[1], .w = t->dims[2], .channels = t->rank == 4 ? t->dims[3] : 1};
    return true;
}

static fe_value both(const picture *p, mpc_op_id op, fe_value a, fe_value b) {
    bool ok = a.kind == FE_TENSOR && b.kind == FE_TENSOR;
    return ok ? fe_emit2(p->c->e, p->c->at, op, a, b, NULL) : FE_POISONED;
}

static fe_value whole(const picture *p, int64_t n) { return fe_scalar(p->c->e, p->c->at, fe_int(n), MPC_FMT_i32); }

/* 0, 1, ... along one of the axes [n, h, w]. */
static fe_value counting(const picture *p, uint32_t axis, int64_t n) {
    fe_elab *e = p->c->e;
    int64_t dims[3] = {1, 1, 1};
    dims[axis] = n;
    fe_value up = fe_typed(e, p->c->at, MPC_OP_range, mpc_type_make(e->ctx, MPC_FMT_i32, 1, &n), 0, NULL);
    return up.kind == FE_TENSOR ? fe_reshape(e, p->c->at, up, 3, dims) : FE_POISONED;
}

/* A whole number in [0, count) for each picture: i32 [n, 1, 1]. */
static fe_value draw(const picture *p, int64_t count, const char *name) {
    fe_elab *e = p->c->e;
    fe_value seed, step;
    if (!fe_rng(e, p->c->at, &seed, &step)) return FE_POISONED;
    int64_t dims[3] = {p->n, 1, 1};
    fe_op o = fe_op_begin(e, p->c->at, MPC_OP_random_uniform, name);
    fe_op_in(&o, seed);
    fe_op_in(&o, step);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, 3));
    fe_op_attr(&o, MPC_A_INT("stream", fe_stream(e, name)));
    fe_value u = fe_op_end(&o), size = fe_scalar(e, p->c->at, fe_float((double)count), MPC_FMT_f32);
    fe_value scaled_up = both(p, MPC_OP_mul, u, size);
    if (scaled_up.kind != FE_TENSOR) return FE_POISONED;
    fe_value at = fe_cast(e, p->c->at, scaled_up, MPC_FMT_i32, "user");
    return both(p, MPC_OP_minimum, at, whole(p, count - 1)); /* the product may round up to `count` */
}

/* Pixels at rows `i` and columns `j` of each picture: both i32, [n or 1, h', 1] and [n or 1, 1, w']. */
static fe_value take_pixels(const picture *p, fe_value i, fe_value j, int64_t h, int64_t w) {
    fe_elab *e = p->c->e;
    int64_t table[2] = {p->n * p->h * p->w, p->channels}, out[4] = {p->n, h, w, p->channels};
    if (table[0] > INT32_MAX) {
        fe_error(e->d, "E017", p->c->at->span, "a batch of pictures has at most 2^31 pixels here");
        return FE_POISONED;
    }
    fe_value first = both(p, MPC_OP_mul, counting(p, 0, p->n), whole(p, p->h * p->w));
    fe_value line = both(p, MPC_OP_add, first, both(p, MPC_OP_mul, i, whole(p, p->w)));
    fe_value ids = both(p, MPC_OP_add, line, j), rows = fe_reshape(e, p->c->at, p->x, 2, table);
    if (ids.kind != FE_TENSOR || rows.kind != FE_TENSOR) return FE_POISONED;
    fe_op o = fe_op_begin(e, p->c->at, MPC_OP_embedding, p->c->name ? p->c->name : p->c->fn->name);
    fe_op_in(&o, rows);
    fe_op_in(&o, ids);
    fe_value y = fe_op_end(&o);
    if (y.kind == FE_TENSOR && fe_type(p->x)->rank == 3) y = fe_reshape(e, p->c->at, y, 3, out);
    return y.kind == FE_TENSOR ? fe_mark_row(e, y) : FE_POISONED;
}

/* Column j becomes w - 1 - j in one half of the pictures. */
fe_value fe_fn_random_flip(fe_call *c) {
    picture p;
    if (!read_picture(c, &p)) return FE_POISONED;
    if (c->e->phase != MPC_PHASE_TRAIN) return p.x;
    fe_value j = counting(&p, 2, p.w), back = both(&p, MPC_OP_sub, whole(&p, p.w - 1), j);
    fe_value step = both(&p, MPC_OP_mul, draw(&p, 2, "random_flip"), both(&p, MPC_OP_sub, back, j));
    return take_pixels(&p, counting(&p, 1, p.h), both(&p, MPC_OP_add, j, step), p.h, p.w);
}

static bool pad_picture(picture *p, int64_t pad) {
    if (pad == 0) return true;
    uint32_t rank = fe_type(p->x)->rank;
    int64_t sides[4] = {0, pad, pad, 0};
    fe_op o = fe_op_begin(p->c->e, p->c->at, MPC_OP_pad, NULL);
    fe_op_in(&o, p->x);
    fe_op_attr(&o, MPC_A_INTS("before", sides, rank));
    fe_op_attr(&o, MPC_A_INTS("after", sides, rank));
    p->x = fe_op_end(&o);
    p->h += 2 * pad;
    p->w += 2 * pad;
    return p->x.kind == FE_TENSOR;
}

/* The middle, where nothing is drawn. */
static fe_value middle(const picture *p, int64_t h, int64_t w) {
    int64_t top = (p->h - h) / 2, left = (p->w - w) / 2;
    fe_value y = fe_slice(p->c->e, p->c->at, p->x, 1, top, top + h);
    if (y.kind == FE_TENSOR) y = fe_slice(p->c->e, p->c->at, y, 2, left, left + w);
    return y.kind == FE_TENSOR ? fe_mark_row(p->c->e, y) : FE_POISONED;
}

fe_value fe_fn_random_crop(fe_call *c) {
    picture p;
    int64_t size[2];
    if (!read_picture(c, &p)) return FE_POISONED;
    uint32_t n = fe_arg_ints(c, 1, size, 2, 2);
    int64_t pad = fe_arg_int(c, 2, 0);
    if (c->bad) return FE_POISONED;
    bool fits = n == 2 && pad >= 0 && pad <= 1 << 20 && size[0] > 0 && size[1] > 0 && size[0] <= p.h + 2 * pad &&
                size[1] <= p.w + 2 * pad;
    if (!fits) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 1),
                 "random_crop cuts [height, width] out of a picture of %lld x %lld with `pad` zeros around it",
                 (long long)p.h, (long long)p.w);
        return FE_POISONED;
    }
    if (!pad_picture(&p, pad)) return FE_POISONED;
    if (c->e->phase != MPC_PHASE_TRAIN) return middle(&p, size[0], size[1]);
    fe_value top = draw(&p, p.h - size[0] + 1, "random_crop.top"),
             left = draw(&p, p.w - size[1] + 1, "random_crop.left");
    fe_value i = both(&p, MPC_OP_add, counting(&p, 1, size[0]), top),
             j = both(&p, MPC_OP_add, counting(&p, 2, size[1]), left);
    return take_pixels(&p, i, j, size[0], size[1]);
}
