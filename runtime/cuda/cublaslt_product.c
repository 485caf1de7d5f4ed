/* One matmul launch in the library's terms. The library is column-major, we are row-major: a row-major matrix is its
 * own transpose read by columns, so c = a b is asked for as c^T = b^T a^T and nothing is copied or reordered. What is
 * easily got wrong: a leading dimension belongs to the matrix as stored, and the library wants it at least as large as
 * the rows even where there is only one column. */
#include <string.h>

#include "runtime/cuda/cublaslt_api.h"

static bool is_operand_format(mpc_format f) { return f == MPC_FMT_f32 || f == MPC_FMT_f16 || f == MPC_FMT_bf16; }

static int data_type(mpc_format f) {
    if (f == MPC_FMT_f16) return MPC_LT_R_16F;
    return f == MPC_FMT_bf16 ? MPC_LT_R_16BF : MPC_LT_R_32F;
}

static int64_t at_least(int64_t value, int64_t least) { return value > least ? value : least; }

/* op(matrix) is `rows` x `columns`; its elements lie `row` and `column` apart. One of these is 1. */
static bool make_matrix(mpc_lt_matrix *x, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    x->transposed = row != 1;
    if (x->transposed && column != 1) return false;
    x->rows = x->transposed ? columns : rows;
    x->columns = x->transposed ? rows : columns;
    x->ld = x->transposed ? row : column;
    if (x->columns == 1) x->ld = at_least(x->ld, x->rows);
    return x->ld >= x->rows;
}

/* Which batch axis the library walks: the longest; calls walk the others. */
static int longest_batch(const mpc_matmul *mm) {
    int longest = MPC_MATMUL_BATCH_DIMS - 1;
    for (int i = longest - 1; i >= 0; i--)
        if (mm->batch[i] > mm->batch[longest]) longest = i;
    return longest;
}

static void set_batch(mpc_lt_matrix *x, const int64_t *strides, int longest) {
    x->batch_stride = strides[longest];
    for (int i = 0, at = 0; i < MPC_MATMUL_BATCH_DIMS; i++)
        if (i != longest) x->steps[at++] = strides[i];
}

static const char *why_formats_fail(const mpc_matmul *mm) {
    if (!is_operand_format(mm->fa) || !is_operand_format(mm->fb)) return "operands are f32, f16 or bf16";
    if (mm->fa != mm->fb) return "both operands have one format";
    if (mm->acc != MPC_FMT_f32 && mm->acc != MPC_FMT_none) return "sums are f32";
    if (mm->fc != MPC_FMT_f32 && mm->fc != mm->fa) return "results are f32 or have the operands' format";
    return NULL;
}

const char *mpc_lt_describe(const mpc_matmul *mm, mpc_lt_product *p) {
    *p = (mpc_lt_product){.swapped = mm->c_col == 1, .tf32 = mm->compute == MPC_FMT_tf32 && mm->fa == MPC_FMT_f32};
    const char *why = why_formats_fail(mm);
    if (why != NULL) return why;
    mpc_lt_matrix *a = p->swapped ? &p->b : &p->a, *b = p->swapped ? &p->a : &p->b;
    bool fits;
    if (p->swapped) /* c^T [n, m] = b^T [n, k] a^T [k, m] */
        fits = make_matrix(b, mm->n, mm->k, mm->b_col, mm->b_row) &&
               make_matrix(a, mm->k, mm->m, mm->a_col, mm->a_row) &&
               make_matrix(&p->d, mm->n, mm->m, mm->c_col, mm->c_row);
    else
        fits = make_matrix(a, mm->m, mm->k, mm->a_row, mm->a_col) &&
               make_matrix(b, mm->k, mm->n, mm->b_row, mm->b_col) &&
               make_matrix(&p->d, mm->m, mm->n, mm->c_row, mm->c_col);
    if (!fits || p->d.transposed) return "rows or columns are contiguous and don't overlap";
    a->format = mm->fa, b->format = mm->fb, p->d.format = mm->fc;
    int longest = longest_batch(mm);
    p->batch = mm->batch[longest];
    for (int i = 0, at = 0; i < MPC_MATMUL_BATCH_DIMS; i++)
        if (i != longest) p->outer[at++] = mm->batch[i];
    set_batch(a, mm->a_batch, longest);
    set_batch(b, mm->b_batch, longest);
    set_batch(&p->d, mm->c_batch, longest);
    return p->batch <= INT32_MAX ? NULL : "batches have fewer than 2^31 entries";
}

/* ---- descriptors ---- */

int mpc_lt_compute_of(const mpc_lt_product *p) {
    if (p->a.format != MPC_FMT_f32) return MPC_LT_COMPUTE_32F;
    return p->tf32 ? MPC_LT_COMPUTE_32F_FAST_TF32 : MPC_LT_COMPUTE_32F_PEDANTIC;
}

static int make_layout(const mpc_cublaslt_api *lt, const mpc_lt_product *p, const mpc_lt_matrix *x, void **layout) {
    int status =
        lt->cublasLtMatrixLayoutCreate(layout, data_type(x->format), (uint64_t)x->rows, (uint64_t)x->columns, x->ld);
    if (status != 0) *layout = NULL;
    if (status != 0 || p->batch == 1) return status;
    int32_t count = (int32_t)p->batch;
    status = lt->cublasLtMatrixLayoutSetAttribute(*layout, MPC_LT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status != 0) return status;
    return lt->cublasLtMatrixLayoutSetAttribute(*layout, MPC_LT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x->batch_stride,
                                                sizeof x->batch_stride);
}

static int make_desc(const mpc_cublaslt_api *lt, mpc_lt_product *p, int compute, int epilogue) {
    int status = lt->cublasLtMatmulDescCreate(&p->desc, compute, MPC_LT_R_32F);
    if (status != 0) {
        p->desc = NULL;
        return status;
    }
    int32_t ops[2] = {p->a.transposed ? MPC_LT_OP_T : MPC_LT_OP_N, p->b.transposed ? MPC_LT_OP_T : MPC_LT_OP_N};
    status = lt->cublasLtMatmulDescSetAttribute(p->desc, MPC_LT_MATMUL_DESC_TRANSA, &ops[0], sizeof ops[0]);
    if (status == 0)
        status = lt->cublasLtMatmulDescSetAttribute(p->desc, MPC_LT_MATMUL_DESC_TRANSB, &ops[1], sizeof ops[1]);
    if (status != 0 || epilogue == MPC_LT_EPILOGUE_DEFAULT) return status;
    uint32_t value = (uint32_t)epilogue;
    status = lt->cublasLtMatmulDescSetAttribute(p->desc, MPC_LT_MATMUL_DESC_EPILOGUE, &value, sizeof value);
    if (status != 0 || (epilogue & MPC_LT_EPILOGUE_BIAS) == 0) return status;
    int32_t type = MPC_LT_R_32F;
    return lt->cublasLtMatmulDescSetAttribute(p->desc, MPC_LT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
}

int mpc_lt_open(const mpc_cuda *cuda, mpc_lt_product *p, int compute, int epilogue) {
    const mpc_cublaslt_api *lt = &cuda->cublaslt;
    int status = make_desc(lt, p, compute, epilogue);
    if (status == 0) status = make_layout(lt, p, &p->a, &p->layout_a);
    if (status == 0) status = make_layout(lt, p, &p->b, &p->layout_b);
    if (status == 0) status = make_layout(lt, p, &p->d, &p->layout_d);
    if (status != 0) mpc_lt_close(cuda, p);
    return status;
}

void mpc_lt_close(const mpc_cuda *cuda, mpc_lt_product *p) {
    const mpc_cublaslt_api *lt = &cuda->cublaslt;
    if (p->desc != NULL) lt->cublasLtMatmulDescDestroy(p->desc);
    void **layouts[] = {&p->layout_a, &p->layout_b, &p->layout_d};
    for (int i = 0; i < 3; i++) {
        if (*layouts[i] != NULL) lt->cublasLtMatrixLayoutDestroy(*layouts[i]);
        *layouts[i] = NULL;
    }
    p->desc = NULL;
}

int mpc_lt_set_bias(const mpc_cuda *cuda, const mpc_lt_product *p, mpc_device_ptr bias) {
    const void *pointer = (const void *)(uintptr_t)bias;
    return cuda->cublaslt.cublasLtMatmulDescSetAttribute(p->desc, MPC_LT_MATMUL_DESC_BIAS_POINTER, &pointer,
                                                         sizeof pointer);
}

/* ---- algorithms ---- */

/* The largest power of two, up to 256, that divides the address and every step of the calls. */
static uint32_t alignment_of(const mpc_lt_product *p, const mpc_lt_matrix *x, mpc_device_ptr address) {
    uint64_t bits = address | 256;
    for (int i = 0; i < 2; i++)
        if (p->outer[i] > 1) bits |= (uint64_t)x->steps[i] * mpc_format_get(x->format)->bytes;
    return (uint32_t)(bits & -bits);
}

mpc_lt_alignment mpc_lt_alignment_of(const mpc_lt_product *p, const mpc_lt_operands *o) {
    return (mpc_lt_alignment){alignment_of(p, &p->a, o->a), alignment_of(p, &p->b, o->b), alignment_of(p, &p->d, o->d)};
}

/* Sums split over k may be put together in f32 only: in the workspace, or in the result where that is f32 (its blocks
 * take turns, so the order is fixed). Partial sums in a 16-bit result would be rounded more than once. */
static uint32_t reduction_schemes(const mpc_lt_product *p) {
    uint32_t mask = MPC_LT_REDUCTION_SCHEME_NONE | MPC_LT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return p->d.format == MPC_FMT_f32 ? mask | MPC_LT_REDUCTION_SCHEME_INPLACE : mask;
}

static int set_preference(const mpc_cublaslt_api *lt, const mpc_lt_product *p, const mpc_lt_operands *o,
                          void *preference) {
    mpc_lt_alignment align = mpc_lt_alignment_of(p, o);
    uint32_t schemes = reduction_schemes(p);
    const struct {
        int attribute;
        uint32_t value;
    } rows[] = {{MPC_LT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes},
                {MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align.a},
                {MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align.b},
                {MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align.d},
                {MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align.d}};
    int status = lt->cublasLtMatmulPreferenceSetAttribute(preference, MPC_LT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                          &o->workspace_bytes, sizeof o->workspace_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && status == 0; i++)
        status = lt->cublasLtMatmulPreferenceSetAttribute(preference, rows[i].attribute, &rows[i].value,
                                                          sizeof rows[i].value);
    return status;
}

int mpc_lt_find(const mpc_cuda *cuda, const mpc_lt_product *p, const mpc_lt_operands *o, int wanted,
                mpc_lt_heuristic *found) {
    const mpc_cublaslt_api *lt = &cuda->cublaslt;
    void *preference = NULL;
    if (lt->cublasLtMatmulPreferenceCreate(&preference) != 0) return 0;
    int count = 0, status = set_preference(lt, p, o, preference);
    if (status == 0)
        status = lt->cublasLtMatmulAlgoGetHeuristic(cuda->lt_handle, p->desc, p->layout_a, p->layout_b, p->layout_d,
                                                    p->layout_d, preference, wanted, found, &count);
    lt->cublasLtMatmulPreferenceDestroy(preference);
    if (status != 0) return 0;
    int kept = 0;
    for (int i = 0; i < count && i < wanted; i++)
        if (found[i].state == 0 && found[i].workspace_bytes <= o->workspace_bytes) found[kept++] = found[i];
    return kept;
}

bool mpc_lt_check(const mpc_cuda *cuda, const mpc_lt_product *p, uint64_t workspace_bytes, const mpc_lt_algo *algo) {
    mpc_lt_heuristic result;
    memset(&result, 0, sizeof result);
    int status = cuda->cublaslt.cublasLtMatmulAlgoCheck(cuda->lt_handle, p->desc, p->layout_a, p->layout_b, p->layout_d,
                                                        p->layout_d, algo, &result);
    return status == 0 && result.workspace_bytes <= workspace_bytes;
}

/* ---- running ---- */

static void *step_to(const mpc_lt_matrix *x, mpc_device_ptr address, int64_t i, int64_t j) {
    int64_t elements = i * x->steps[0] + j * x->steps[1];
    return (void *)(uintptr_t)(address + (uint64_t)elements * mpc_format_get(x->format)->bytes);
}

int mpc_lt_multiply(const mpc_cuda *cuda, const mpc_lt_product *p, const mpc_lt_operands *o, const mpc_lt_algo *algo) {
    const float one = 1.0f, zero = 0.0f;
    for (int64_t i = 0; i < p->outer[0]; i++) {
        for (int64_t j = 0; j < p->outer[1]; j++) {
            void *d = step_to(&p->d, o->d, i, j);
            int status = cuda->cublaslt.cublasLtMatmul(
                cuda->lt_handle, p->desc, &one, step_to(&p->a, o->a, i, j), p->layout_a, step_to(&p->b, o->b, i, j),
                p->layout_b, &zero, d, p->layout_d, d, p->layout_d, algo, (void *)(uintptr_t)o->workspace,
                (size_t)o->workspace_bytes, cuda->stream);
            if (status != 0) return status;
        }
    }
    return 0;
}

const char *mpc_lt_status_text(const mpc_cuda *cuda, int status) {
    if (cuda->cublaslt.cublasLtGetStatusString == NULL) return "see the library's manual";
    const char *text = cuda->cublaslt.cublasLtGetStatusString(status);
    return text != NULL ? text : "unknown";
}
