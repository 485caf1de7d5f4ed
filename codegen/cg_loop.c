/* Launches of a fusion group: the loop kernel, and when a reduction over rows was split among units, a second launch
 * that puts the parts together in order. */
#include "base/alloc.h"
#include "codegen/loop.h"

enum { FOLD_COLUMNS = 512, MOST_OP_NAMES = 4 };

static void place_parts(mpc_loop *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        mpc_loop_member *m = &l->member[i];
        if (l->space.member[i].kind != MPC_MEMBER_OVER) continue;
        int64_t cols = l->space.member[i].result != 0 ? l->space.cols : 1;
        uint64_t bytes = (uint64_t)(l->units * cols) * (mpc_cg_lanes(m->format) == 'l' ? 8 : 4);
        m->extra = mpc_cg_add_pointer(&l->args, mpc_cg_workspace(l->cg, bytes));
        if (l->units == 1 && m->stored)
            m->pointer = mpc_cg_add_pointer(&l->args, mpc_cg_pointer(l->cg, mpc_result(m->node, 0)));
        if (l->units == 1 && !m->stored) m->pointer = mpc_cg_add_pointer(&l->args, mpc_cg_workspace(l->cg, bytes));
    }
}

/* "sub+exp+mul+...": what a profile shows. */
static const char *op_names(const mpc_loop *l) {
    mpc_str text = {0};
    uint32_t names = 0;
    const mpc_op *last = NULL;
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (m->op == last || m->op->kind == MPC_KIND_VIEW || names > MOST_OP_NAMES) continue;
        last = m->op;
        mpc_str_printf(&text, "%s%s", names > 0 ? "+" : "", names == MOST_OP_NAMES ? "..." : m->op->name);
        names++;
    }
    char *copy = mpc_arena_strdup(l->cg->arena, names > 0 ? mpc_str_cstr(&text) : "copy");
    if (copy == NULL || text.failed) mpc_cg_no_memory(l->cg);
    mpc_str_free(&text);
    return copy;
}

static double count_bytes(const mpc_loop *l) {
    double bytes = 0;
    for (uint32_t i = 0; i < l->access_count; i++)
        if (!l->access[i].range)
            bytes += (double)(mpc_space_elements(&l->space, l->access[i].atoms) *
                              mpc_format_get(l->access[i].format)->bytes);
    for (uint32_t i = 0; i < l->count; i++)
        if (l->member[i].stored)
            bytes += (double)(mpc_space_elements(&l->space, l->space.member[i].result) *
                              mpc_format_get(l->member[i].format)->bytes);
    return bytes;
}

static void fold_parts(mpc_loop *l) {
    mpc_cg_fold folds[MPC_SPACE_NODES];
    uint32_t count = 0;
    const mpc_node *node = NULL;
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        if (l->space.member[i].kind != MPC_MEMBER_OVER || !m->stored) continue;
        node = m->node;
        folds[count++] = (mpc_cg_fold){.op = m->op->name,
                                       .lanes = mpc_cg_lanes(m->format),
                                       .partial = l->args.pointers.data[m->extra],
                                       .units = l->units,
                                       .cols = l->space.member[i].result != 0 ? l->space.cols : 1,
                                       .result = mpc_result(m->node, 0)};
    }
    if (count > 0) mpc_cg_fold_partials(l->cg, node, folds, count);
}

static void add_results(const mpc_loop *l, mpc_launch *launch, mpc_value_id first) {
    for (uint32_t i = 0; i < l->count; i++) {
        const mpc_loop_member *m = &l->member[i];
        bool split = l->space.member[i].kind == MPC_MEMBER_OVER && l->units > 1;
        if (m->stored && !split && mpc_result(m->node, 0) != first)
            mpc_cg_add_result(l->cg, launch, mpc_result(m->node, 0));
    }
}

static void launch_loop(mpc_loop *l, uint32_t kernel) {
    const mpc_loop_member *first = NULL;
    for (uint32_t i = 0; i < l->count && first == NULL; i++)
        if (l->member[i].stored && !(l->space.member[i].kind == MPC_MEMBER_OVER && l->units > 1)) first = &l->member[i];
    const mpc_loop_member *named = first;
    for (uint32_t i = 0; i < l->count && named == NULL; i++)
        if (l->member[i].stored) named = &l->member[i];
    mpc_launch *launch = mpc_cg_new_launch(l->cg, named->node, mpc_result(named->node, 0), MPC_LAUNCH_KERNEL);
    if (launch == NULL) return;
    if (first == NULL) launch->result_count = 0; /* only parts: the fold writes the results */
    launch->kernel = kernel;
    launch->op = op_names(l);
    launch->bytes = count_bytes(l);
    launch->flops = (double)(l->space.rows * l->space.cols) * l->count;
    add_results(l, launch, first != NULL ? mpc_result(first->node, 0) : MPC_NONE);
    if (l->condition != MPC_NONE) {
        launch->has_when = true;
        launch->when = mpc_cg_pointer(l->cg, l->condition);
    }
    mpc_cg_args args = l->args; /* the fold still reads the pointers */
    mpc_cg_args copy = {.units = args.units, .blocks = args.blocks, .failed = args.failed};
    for (size_t i = 0; i < args.pointers.count; i++) mpc_cg_add_pointer(&copy, args.pointers.data[i]);
    for (size_t i = 0; i < args.ints.count; i++) mpc_cg_add_int(&copy, args.ints.data[i]);
    for (size_t i = 0; i < args.floats.count; i++) mpc_cg_add_float(&copy, args.floats.data[i]);
    mpc_cg_add_instance(l->cg, launch, &copy);
}

static bool stores_something(const mpc_loop *l) {
    for (uint32_t i = 0; i < l->count; i++)
        if (l->member[i].stored) return true;
    return false;
}

static uint32_t add_c_kernel(mpc_loop *l, mpc_str *body) {
    mpc_loop_print(l, body);
    if (body->failed || l->args.failed) mpc_cg_no_memory(l->cg);
    uint64_t scratch = (uint64_t)l->scratch_rows * (uint64_t)l->args.ints.data[MPC_LOOP_ARG_SCRATCH] * 4;
    return mpc_cg_add_kernel(l->cg, mpc_str_cstr(body), &l->args, scratch);
}

void mpc_cg_loop(mpc_cg *cg, const mpc_node_id *nodes, uint32_t count) {
    mpc_loop *l = mpc_alloc(sizeof *l);
    if (l == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    cg->workspace_used = 0;
    mpc_str body = {0};
    if (mpc_loop_describe(l, cg, nodes, count) && stores_something(l)) {
        place_parts(l);
        uint32_t kernel = cg->target == MPC_TARGET_C ? add_c_kernel(l, &body) : mpc_cuda_loop_kernel(l);
        if (mpc_cg_ok(cg)) launch_loop(l, kernel);
        if (mpc_cg_ok(cg) && l->units > 1) fold_parts(l);
    }
    mpc_str_free(&body);
    mpc_cg_free_args(&l->args);
    mpc_free(l);
}

static void print_fold(const mpc_cg *cg, const mpc_cg_fold *f, mpc_str *o) {
    mpc_format format = mpc_value_format(cg->g, f->result);
    const char *name = mpc_format_get(format)->name, *lane = f->lanes == 'f' ? "f32" : f->lanes == 'l' ? "i64" : "i32";
    const char *type = f->lanes == 'f' ? "vf" : f->lanes == 'l' ? "vl" : "vi";
    unsigned bytes = f->lanes == 'l' ? 8 : 4, result = mpc_format_get(format)->bytes;
    mpc_str_append(
        o, "    const int64_t per = n[0], units = n[1], cols = n[2];\n    for (int64_t u = begin; u < end; u++)\n");
    mpc_str_append(o, "        for (int64_t c = u * per; c < cols && c < (u + 1) * per; c += 16) {\n");
    mpc_str_printf(o, "            %s t = mpc_load_%s((const char *)p[0] + c * %u, cols - c);\n", type, lane, bytes);
    mpc_str_printf(o,
                   "            for (int64_t i = 1; i < units; i++) t = mpc_%s_%c(t, mpc_load_%s((const char *)p[0] + "
                   "(i * cols + c) * %u, cols - c));\n",
                   f->op, f->lanes, lane, bytes);
    if (mpc_cg_rounds(format)) mpc_str_printf(o, "            t = mpc_round_%s(t);\n", name);
    mpc_str_printf(o, "            mpc_store_%s((char *)p[1] + c * %u, t, cols - c);\n        }\n", name, result);
}

static uint32_t fold_kernel(mpc_cg *cg, const mpc_cg_fold *f, mpc_cg_args *args) {
    if (cg->target == MPC_TARGET_CUDA) return mpc_cuda_fold_kernel(cg, f, args);
    mpc_str body = {0};
    mpc_cg_add_pointer(args, f->partial);
    mpc_cg_add_pointer(args, mpc_cg_pointer(cg, f->result));
    mpc_cg_add_int(args, FOLD_COLUMNS);
    mpc_cg_add_int(args, f->units);
    mpc_cg_add_int(args, f->cols);
    args->units = (f->cols + FOLD_COLUMNS - 1) / FOLD_COLUMNS;
    print_fold(cg, f, &body);
    if (body.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(&body), args, 0);
    mpc_str_free(&body);
    return kernel;
}

/* One launch per kernel; parts that are folded alike are its instances. */
void mpc_cg_fold_partials(mpc_cg *cg, const mpc_node *n, const mpc_cg_fold *folds, uint32_t count) {
    size_t first = cg->launches.count;
    for (uint32_t i = 0; i < count && mpc_cg_ok(cg); i++) {
        mpc_cg_args args = {0};
        uint32_t kernel = fold_kernel(cg, &folds[i], &args);
        mpc_launch *launch = NULL;
        for (size_t j = first; j < cg->launches.count; j++)
            if (cg->launches.data[j].kernel == kernel) launch = &cg->launches.data[j];
        if (launch == NULL) {
            launch = mpc_cg_add_launch(cg, n, folds[i].result, kernel, &args);
        } else {
            mpc_cg_add_instance(cg, launch, &args);
            mpc_cg_add_result(cg, launch, folds[i].result);
        }
        if (launch != NULL) launch->op = "fold";
    }
}
