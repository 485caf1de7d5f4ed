/* Matmuls and convolutions become library calls: shapes, strides and formats, no text. Transposes, slices and expands
 * around a matmul are strides here if the memory pass said so. */
#include <string.h>

#include "codegen/cg.h"

typedef struct matrix { /* of one operand: two axes and the batch axes before them */
    int64_t dims[2], strides[2];
    int64_t batch[MPC_MATMUL_BATCH_DIMS], batch_strides[MPC_MATMUL_BATCH_DIMS];
} matrix;

/* `merge`: all axes but the last are rows of one matrix. */
static matrix make_matrix(const mpc_strided *s, bool merge) {
    matrix m = {.batch = {1, 1, 1}};
    uint32_t last = s->rank - 1;
    m.dims[1] = s->dims[last];
    m.strides[1] = s->strides[last];
    if (merge) {
        m.dims[0] = 1;
        for (uint32_t i = 0; i < last; i++) m.dims[0] *= s->dims[i];
        mpc_strided_collapse(s, 0, last, &m.strides[0]);
    } else {
        m.dims[0] = s->dims[last - 1];
        m.strides[0] = s->strides[last - 1];
        for (uint32_t i = 0; i + 2 < s->rank; i++) {
            uint32_t at = MPC_MATMUL_BATCH_DIMS - (s->rank - 2) + i;
            m.batch[at] = s->dims[i];
            m.batch_strides[at] = s->strides[i];
        }
    }
    for (int i = 0; i < 2; i++) /* of one row or column only any stride is right */
        if (m.dims[i] == 1 && m.strides[1 - i] != 1) m.strides[i] = 1;
    return m;
}

static void swap_axes(matrix *m, bool swap) {
    if (!swap) return;
    int64_t dim = m->dims[0], stride = m->strides[0];
    m->dims[0] = m->dims[1], m->strides[0] = m->strides[1];
    m->dims[1] = dim, m->strides[1] = stride;
}

/* Neighbouring batch axes that all three operands walk in one stride become one axis. */
static void collapse_batch(mpc_matmul *mm) {
    for (uint32_t i = MPC_MATMUL_BATCH_DIMS - 1; i > 0; i--) {
        bool one = mm->batch[i - 1] == 1;
        int64_t n = mm->batch[i];
        bool runs = mm->a_batch[i - 1] == mm->a_batch[i] * n && mm->b_batch[i - 1] == mm->b_batch[i] * n &&
                    mm->c_batch[i - 1] == mm->c_batch[i] * n;
        if (one || !(runs || n == 1)) continue;
        if (n == 1) {
            mm->a_batch[i] = mm->a_batch[i - 1], mm->b_batch[i] = mm->b_batch[i - 1],
            mm->c_batch[i] = mm->c_batch[i - 1];
        }
        mm->batch[i] = n * mm->batch[i - 1];
        mm->batch[i - 1] = 1;
        mm->a_batch[i - 1] = mm->b_batch[i - 1] = mm->c_batch[i - 1] = 0;
    }
}

/* The one format that is no operand's: f32 operands rounded to tf32 on the way into the product. */
static mpc_format compute_of(const mpc_cg *cg, const mpc_node *n) {
    return mpc_attr_format(cg->g, n, "prec") == MPC_FMT_tf32 ? MPC_FMT_tf32 : MPC_FMT_none;
}

static void fill_matmul(mpc_cg *cg, const mpc_node *n, mpc_matmul *mm) {
    mpc_strided sa, sb, sc;
    mpc_value_id a = mpc_operand(cg->g, n, 0), b = mpc_operand(cg->g, n, 1), c = mpc_result(n, 0);
    bool linear = n->op == MPC_OP_linear;
    bool ta = !linear && mpc_attr_bool(cg->g, n, "ta"), tb = !linear && mpc_attr_bool(cg->g, n, "tb");
    mm->a = mpc_cg_layout(cg, a, &sa);
    mm->b = mpc_cg_layout(cg, b, &sb);
    mm->c = mpc_cg_layout(cg, c, &sc);
    if (!mpc_cg_ok(cg)) return;
    bool merge = linear || (sb.rank == 2 && !ta);
    matrix ma = make_matrix(&sa, merge), mb = make_matrix(&sb, false), mc = make_matrix(&sc, merge);
    swap_axes(&ma, ta);
    swap_axes(&mb, tb);
    mm->m = ma.dims[0], mm->n = mb.dims[1], mm->k = ma.dims[1];
    mm->a_row = ma.strides[0], mm->a_col = ma.strides[1];
    mm->b_row = mb.strides[0], mm->b_col = mb.strides[1];
    mm->c_row = mc.strides[0], mm->c_col = mc.strides[1];
    for (uint32_t i = 0; i < MPC_MATMUL_BATCH_DIMS; i++) {
        mm->batch[i] = mc.batch[i];
        mm->a_batch[i] = ma.batch[i] == 1 ? 0 : ma.batch_strides[i];
        mm->b_batch[i] = mb.batch[i] == 1 ? 0 : mb.batch_strides[i];
        mm->c_batch[i] = mc.batch[i] == 1 ? 0 : mc.batch_strides[i];
    }
    collapse_batch(mm);
    mm->fa = mpc_value_format(cg->g, a);
    mm->fb = mpc_value_format(cg->g, b);
    mm->fc = mpc_value_format(cg->g, c);
    mm->acc = mpc_attr_format(cg->g, n, "acc");
    mm->compute = compute_of(cg, n);
    mm->has_bias = linear && n->operand_count > 2;
    mm->relu = linear && strcmp(mpc_attr_str(cg->g, n, "act"), "relu") == 0;
    if (mm->has_bias) mm->bias = mpc_cg_pointer(cg, mpc_operand(cg->g, n, 2));
}

static double bytes_of(const mpc_cg *cg, mpc_value_id v) { return (double)mpc_type_bytes(mpc_value_type(cg->g, v)); }

void mpc_cg_matmul(mpc_cg *cg, const mpc_node *n) {
    mpc_launch *launch = mpc_cg_new_launch(cg, n, mpc_result(n, 0), MPC_LAUNCH_MATMUL);
    if (launch == NULL) return;
    mpc_matmul *mm = &launch->matmul;
    fill_matmul(cg, n, mm);
    double batch = (double)mpc_matmul_batches(mm);
    launch->flops = 2.0 * batch * (double)mm->m * (double)mm->n * (double)mm->k;
    launch->bytes = bytes_of(cg, mpc_operand(cg->g, n, 0)) + bytes_of(cg, mpc_operand(cg->g, n, 1)) +
                    bytes_of(cg, mpc_result(n, 0));
    /* f32 operands with a 16-bit result, say, are nothing that the library has */
    bool other_format = mm->fc != MPC_FMT_f32 && mm->fc != mm->fa;
    if (cg->target == MPC_TARGET_CUDA && (mm->has_bias || mm->relu || other_format))
        mpc_cuda_matmul_epilogue(cg, n, launch);
}

typedef struct conv_roles { /* which value is x, w and y (dy) */
    mpc_conv_kind kind;
    mpc_value_id x, w, y;
} conv_roles;

static conv_roles find_roles(const mpc_graph *g, const mpc_node *n) {
    mpc_value_id a = mpc_operand(g, n, 0), b = mpc_operand(g, n, 1), r = mpc_result(n, 0);
    if (n->op == MPC_OP_conv2d_grad_input) return (conv_roles){MPC_CONV_GRAD_INPUT, r, b, a};
    if (n->op == MPC_OP_conv2d_grad_weight) return (conv_roles){MPC_CONV_GRAD_WEIGHT, a, r, b};
    return (conv_roles){MPC_CONV_FORWARD, a, b, r};
}

static void fill_conv(mpc_cg *cg, const mpc_node *n, const conv_roles *roles, mpc_conv *cv) {
    const mpc_graph *g = cg->g;
    const int64_t *x = mpc_value_type(g, roles->x)->dims, *w = mpc_value_type(g, roles->w)->dims,
                  *y = mpc_value_type(g, roles->y)->dims;
    *cv = (mpc_conv){.kind = roles->kind,
                     .n = x[0],
                     .h = x[1],
                     .wd = x[2],
                     .c = x[3],
                     .oh = y[1],
                     .ow = y[2],
                     .oc = y[3],
                     .kh = w[0],
                     .kw = w[1],
                     .groups = mpc_attr_int(g, n, "groups"),
                     .acc = mpc_attr_format(g, n, "acc"),
                     .compute = compute_of(cg, n)};
    mpc_int_list stride = mpc_attr_ints(g, n, "stride"), pad = mpc_attr_ints(g, n, "pad"),
                 dilation = mpc_attr_ints(g, n, "dilation");
    for (int i = 0; i < 2; i++) {
        cv->stride[i] = stride.data[i];
        cv->pad[i] = pad.data[i];
        cv->dilation[i] = dilation.data[i];
    }
    cv->x = mpc_cg_pointer(cg, roles->x);
    cv->w = mpc_cg_pointer(cg, roles->w);
    cv->y = mpc_cg_pointer(cg, roles->y);
    cv->fx = mpc_value_format(g, roles->x);
    cv->fw = mpc_value_format(g, roles->w);
    cv->fy = mpc_value_format(g, roles->y);
    if (n->op != MPC_OP_conv2d) return;
    cv->has_bias = n->operand_count > 2;
    if (cv->has_bias) cv->bias = mpc_cg_pointer(cg, mpc_operand(g, n, 2));
    cv->relu = strcmp(mpc_attr_str(g, n, "act"), "relu") == 0;
}

mpc_conv mpc_cg_describe_conv(mpc_cg *cg, const mpc_node *n) {
    mpc_conv cv;
    conv_roles roles = find_roles(cg->g, n);
    fill_conv(cg, n, &roles, &cv);
    return cv;
}

void mpc_cg_conv(mpc_cg *cg, const mpc_node *n) {
    mpc_launch *launch = mpc_cg_new_launch(cg, n, mpc_result(n, 0), MPC_LAUNCH_CONV);
    if (launch == NULL) return;
    conv_roles roles = find_roles(cg->g, n);
    mpc_conv *cv = &launch->conv;
    fill_conv(cg, n, &roles, cv);
    launch->flops = 2.0 * (double)(cv->n * cv->oh * cv->ow * cv->oc) *
                    (double)(cv->kh * cv->kw * cv->c / (cv->groups > 0 ? cv->groups : 1));
    launch->bytes = bytes_of(cg, roles.x) + bytes_of(cg, roles.w) + bytes_of(cg, roles.y);
}
