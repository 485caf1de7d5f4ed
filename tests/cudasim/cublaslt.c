/* Look-alike of libcublasLt.so.13: the objects, and the refusals of the real library as its manual and header state
 * them. It is as strict as they are: sizes of attributes, shapes, leading dimensions, type combinations, alignments
 * claimed and real, workspaces. An algorithm is good for a kind of problem (types, compute type, epilogue, transposes),
 * not for one shape. Work runs in stream order (cublaslt_compute.c).
 *
 * Environment: MPC_CUDASIM_RELU_LOSES_NAN makes relu(NaN) 0. MPC_CUDASIM_LT_F32_BIAS lets an f32 bias meet a 16-bit
 * result, which the header says the library has not; =early rounds before the bias is added. MPC_CUDASIM_LT_VERSION is
 * what cublasLtGetVersion says; algorithms of another version are refused. */
#include <stdlib.h>
#include <string.h>

#include "tests/cudasim/cublaslt_sim.h"

enum { CUDASIM_MISALIGNED = 716 };
enum {
    MAGIC_HANDLE = 0x4c544831,
    MAGIC_LAYOUT = 0x4c544c31,
    MAGIC_DESC = 0x4c544431,
    MAGIC_PREFERENCE = 0x4c545031,
    MAGIC_ALGO = 0x4c544131
};

typedef struct lt_handle {
    uint32_t magic;
} lt_handle;

typedef struct lt_preference {
    uint32_t magic;
    int32_t search_mode;
    uint64_t workspace_bytes, implementation_mask;
    uint32_t reduction_mask, align_a, align_b, align_c, align_d;
    float waves;
} lt_preference;

typedef struct lt_algo { /* the library's 64 bytes */
    uint32_t magic, version, id, splits, scheme, align;
    uint64_t kind; /* of problem */
    uint64_t unused[4];
} lt_algo;
_Static_assert(sizeof(lt_algo) == 64, "an algorithm has 64 bytes");

typedef struct lt_result {
    lt_algo algo;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} lt_result;

/* ---- attributes ---- */

typedef struct attribute {
    int number;
    size_t offset, size;
} attribute;
#define ATTRIBUTE(number, type, field) \
    { number, offsetof(type, field), sizeof((type *)0)->field }

static const attribute layout_attributes[] = {
    ATTRIBUTE(0, lt_layout, type),         ATTRIBUTE(1, lt_layout, order),        ATTRIBUTE(2, lt_layout, rows),
    ATTRIBUTE(3, lt_layout, columns),      ATTRIBUTE(4, lt_layout, ld),           ATTRIBUTE(5, lt_layout, batch_count),
    ATTRIBUTE(6, lt_layout, batch_stride), ATTRIBUTE(7, lt_layout, plane_offset), ATTRIBUTE(8, lt_layout, batch_mode)};
static const attribute desc_attributes[] = {
    ATTRIBUTE(0, lt_desc, compute),      ATTRIBUTE(1, lt_desc, scale_type),
    ATTRIBUTE(2, lt_desc, pointer_mode), ATTRIBUTE(3, lt_desc, transpose_a),
    ATTRIBUTE(4, lt_desc, transpose_b),  ATTRIBUTE(5, lt_desc, transpose_c),
    ATTRIBUTE(6, lt_desc, fill_mode),    ATTRIBUTE(7, lt_desc, epilogue),
    ATTRIBUTE(8, lt_desc, bias),         ATTRIBUTE(10, lt_desc, bias_stride),
    ATTRIBUTE(11, lt_desc, aux),         ATTRIBUTE(12, lt_desc, aux_ld),
    ATTRIBUTE(13, lt_desc, aux_stride),  ATTRIBUTE(14, lt_desc, alpha_stride),
    ATTRIBUTE(15, lt_desc, sm_count),    ATTRIBUTE(17, lt_desc, scales[0]),
    ATTRIBUTE(18, lt_desc, scales[1]),   ATTRIBUTE(19, lt_desc, scales[2]),
    ATTRIBUTE(20, lt_desc, scales[3]),   ATTRIBUTE(21, lt_desc, amax),
    ATTRIBUTE(22, lt_desc, aux_type),    ATTRIBUTE(25, lt_desc, fast_accumulation),
    ATTRIBUTE(26, lt_desc, bias_type)};
static const attribute preference_attributes[] = {ATTRIBUTE(0, lt_preference, search_mode),
                                                  ATTRIBUTE(1, lt_preference, workspace_bytes),
                                                  ATTRIBUTE(3, lt_preference, reduction_mask),
                                                  ATTRIBUTE(5, lt_preference, align_a),
                                                  ATTRIBUTE(6, lt_preference, align_b),
                                                  ATTRIBUTE(7, lt_preference, align_c),
                                                  ATTRIBUTE(8, lt_preference, align_d),
                                                  ATTRIBUTE(9, lt_preference, waves),
                                                  ATTRIBUTE(12, lt_preference, implementation_mask)};
#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static int refuse(const char *why) {
    cudasim_say("cublasLt: %s", why);
    return LT_INVALID_VALUE;
}

static int set_attribute(void *object, const attribute *rows, size_t count, int number, const void *value,
                         size_t size) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i].number != number) continue;
        if (value == NULL || size != rows[i].size) return refuse("an attribute of another size");
        memcpy((char *)object + rows[i].offset, value, size);
        return LT_SUCCESS;
    }
    return refuse("no such attribute");
}

static int is_a(const void *object, uint32_t magic) { return object != NULL && *(const uint32_t *)object == magic; }

static int make(void **to, const void *from, size_t size) {
    if (to == NULL) return LT_INVALID_VALUE;
    *to = malloc(size);
    if (*to == NULL) return LT_ALLOC_FAILED;
    memcpy(*to, from, size);
    return LT_SUCCESS;
}

static int destroy(void *object, uint32_t magic) {
    if (!is_a(object, magic)) return refuse("destroys what isn't there");
    memset(object, 0, sizeof(uint32_t));
    free(object);
    return LT_SUCCESS;
}

/* ---- objects ---- */

static uint32_t version(void) {
    const char *text = getenv("MPC_CUDASIM_LT_VERSION");
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 130100;
}

CUDASIM_EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
    (void)cudasim_call("cublasLtGetVersion");
    return version();
}

CUDASIM_EXPORT const char *cublasLtGetStatusString(int status);
const char *cublasLtGetStatusString(int status) {
    switch (status) {
    case LT_SUCCESS:
        return "success";
    case LT_NOT_INITIALIZED:
        return "the library was not initialized";
    case LT_ALLOC_FAILED:
        return "the resource allocation failed";
    case LT_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case LT_EXECUTION_FAILED:
        return "the function failed to launch on the GPU";
    case LT_NOT_SUPPORTED:
        return "the requested functionality is not supported";
    default:
        return "unknown cublas error";
    }
}

CUDASIM_EXPORT int cublasLtCreate(void **handle);
int cublasLtCreate(void **handle) {
    if (cudasim_call("cublasLtCreate")) return LT_NOT_INITIALIZED;
    return make(handle, &(lt_handle){MAGIC_HANDLE}, sizeof(lt_handle));
}

CUDASIM_EXPORT int cublasLtDestroy(void *handle);
int cublasLtDestroy(void *handle) {
    if (cudasim_call("cublasLtDestroy")) return LT_NOT_INITIALIZED;
    return destroy(handle, MAGIC_HANDLE);
}

CUDASIM_EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (cudasim_call("cublasLtMatrixLayoutCreate")) return LT_ALLOC_FAILED;
    lt_layout made = {
        .magic = MAGIC_LAYOUT, .type = type, .batch_count = 1, .rows = rows, .columns = columns, .ld = ld};
    return make(layout, &made, sizeof made);
}

CUDASIM_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int number, const void *value, size_t size);
int cublasLtMatrixLayoutSetAttribute(void *layout, int number, const void *value, size_t size) {
    if (cudasim_call("cublasLtMatrixLayoutSetAttribute") || !is_a(layout, MAGIC_LAYOUT)) return LT_INVALID_VALUE;
    return set_attribute(layout, layout_attributes, COUNT(layout_attributes), number, value, size);
}

CUDASIM_EXPORT int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutDestroy(void *layout) {
    (void)cudasim_call("cublasLtMatrixLayoutDestroy");
    return destroy(layout, MAGIC_LAYOUT);
}

CUDASIM_EXPORT int cublasLtMatmulDescCreate(void **desc, int compute, int scale_type);
int cublasLtMatmulDescCreate(void **desc, int compute, int scale_type) {
    if (cudasim_call("cublasLtMatmulDescCreate")) return LT_ALLOC_FAILED;
    lt_desc made = {.magic = MAGIC_DESC,
                    .compute = compute,
                    .scale_type = scale_type,
                    .epilogue = LT_EPILOGUE_DEFAULT,
                    .aux_type = -1,
                    .bias_type = -1};
    return make(desc, &made, sizeof made);
}

CUDASIM_EXPORT int cublasLtMatmulDescSetAttribute(void *desc, int number, const void *value, size_t size);
int cublasLtMatmulDescSetAttribute(void *desc, int number, const void *value, size_t size) {
    if (cudasim_call("cublasLtMatmulDescSetAttribute") || !is_a(desc, MAGIC_DESC)) return LT_INVALID_VALUE;
    return set_attribute(desc, desc_attributes, COUNT(desc_attributes), number, value, size);
}

CUDASIM_EXPORT int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatmulDescDestroy(void *desc) {
    (void)cudasim_call("cublasLtMatmulDescDestroy");
    return destroy(desc, MAGIC_DESC);
}

CUDASIM_EXPORT int cublasLtMatmulPreferenceCreate(void **preference);
int cublasLtMatmulPreferenceCreate(void **preference) {
    if (cudasim_call("cublasLtMatmulPreferenceCreate")) return LT_ALLOC_FAILED;
    lt_preference made = {.magic = MAGIC_PREFERENCE,
                          .implementation_mask = ~0ull,
                          .reduction_mask = 7,
                          .align_a = 256,
                          .align_b = 256,
                          .align_c = 256,
                          .align_d = 256};
    return make(preference, &made, sizeof made);
}

CUDASIM_EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int number, const void *value, size_t size);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int number, const void *value, size_t size) {
    if (cudasim_call("cublasLtMatmulPreferenceSetAttribute") || !is_a(preference, MAGIC_PREFERENCE))
        return LT_INVALID_VALUE;
    return set_attribute(preference, preference_attributes, COUNT(preference_attributes), number, value, size);
}

CUDASIM_EXPORT int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceDestroy(void *preference) {
    (void)cudasim_call("cublasLtMatmulPreferenceDestroy");
    return destroy(preference, MAGIC_PREFERENCE);
}

/* ---- is it a problem that the library has? ---- */

typedef struct problem {
    const lt_desc *desc;
    const lt_layout *a, *b, *c, *d;
} problem;

static int types_are_known(const problem *p) {
    int a = p->a->type, d = p->d->type;
    if (p->desc->scale_type != LT_32F || p->b->type != a || p->c->type != d) return 0;
    switch (p->desc->compute) {
    case LT_COMPUTE_32F:
    case LT_COMPUTE_32F_PEDANTIC:
        if (a == LT_32F) return d == LT_32F;
        return (a == LT_16F || a == LT_16BF) && (d == a || d == LT_32F);
    case LT_FAST_16F:
    case LT_FAST_16BF:
    case LT_FAST_TF32:
        return a == LT_32F && d == LT_32F;
    default:
        return 0;
    }
}

static int epilogue_is_known(const problem *p) {
    const lt_desc *desc = p->desc;
    uint32_t rest = desc->epilogue & ~(uint32_t)LT_EPILOGUE_BIAS;
    if (desc->epilogue != LT_EPILOGUE_DEFAULT && rest != 0 && rest != LT_EPILOGUE_RELU && rest != LT_EPILOGUE_GELU)
        return 0;
    if ((desc->epilogue & LT_EPILOGUE_BIAS) == 0) return 1;
    if (p->d->order != LT_ORDER_COL) return 0;
    if (desc->bias_type < 0 || desc->bias_type == p->d->type) return 1;
    return desc->bias_type == LT_32F && getenv("MPC_CUDASIM_LT_F32_BIAS") != NULL;
}

static int layout_is_sound(const lt_layout *x) {
    if (!is_a(x, MAGIC_LAYOUT) || x->rows == 0 || x->columns == 0 || x->batch_count < 1) return 0;
    return x->ld >= (int64_t)(x->order == LT_ORDER_ROW ? x->columns : x->rows);
}

static int shapes_agree(const problem *p) {
    int ta = p->desc->transpose_a != 0, tb = p->desc->transpose_b != 0;
    uint64_t m = ta ? p->a->columns : p->a->rows, k = ta ? p->a->rows : p->a->columns;
    uint64_t kb = tb ? p->b->columns : p->b->rows, n = tb ? p->b->rows : p->b->columns;
    const lt_layout *all[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (all[i]->batch_count != p->d->batch_count) return 0;
    return k == kb && p->d->rows == m && p->d->columns == n && p->c->rows == m && p->c->columns == n;
}

static int check_problem(const problem *p) {
    if (!is_a(p->desc, MAGIC_DESC)) return refuse("no descriptor");
    const lt_layout *all[] = {p->a, p->b, p->c, p->d};
    for (int i = 0; i < 4; i++)
        if (!layout_is_sound(all[i]))
            return refuse("a layout that can't be: its leading dimension is too small, or it is empty");
    if (!shapes_agree(p)) return refuse("shapes or batch counts don't agree");
    for (int i = 0; i < 4; i++)
        if (all[i]->order > LT_ORDER_ROW || all[i]->batch_mode != 0) return LT_NOT_SUPPORTED;
    if (p->d->batch_count > 1 && p->d->batch_stride == 0) return refuse("results of a batch in one place");
    if (p->desc->transpose_c != 0 || p->desc->fill_mode != 0 || p->desc->pointer_mode > LT_POINTER_DEVICE)
        return LT_NOT_SUPPORTED;
    if (p->desc->aux != 0 || p->desc->amax != 0 || p->desc->scales[0] != 0 || p->desc->scales[1] != 0)
        return LT_NOT_SUPPORTED;
    return types_are_known(p) && epilogue_is_known(p) ? LT_SUCCESS : LT_NOT_SUPPORTED;
}

/* ---- algorithms ---- */

typedef struct algo_row {
    uint32_t id, align, splits, scheme;
} algo_row;
/* Fast ones want 16-byte rows; 2 and 1: split sums reduced in the workspace, and in a result that is f32. */
static const algo_row algo_rows[] = {{66, 16, 1, 0}, {31, 16, 1, 0}, {24, 16, 4, 2}, {21, 4, 1, 0},
                                     {23, 4, 2, 1},  {13, 2, 1, 0},  {0, 1, 1, 0}};

static uint64_t kind_of(const problem *p) {
    const lt_desc *d = p->desc;
    uint64_t kind = (uint64_t)d->compute;
    const uint32_t parts[] = {(uint32_t)p->a->type, (uint32_t)p->d->type, d->epilogue,
                              (uint32_t)(d->transpose_a * 2 + d->transpose_b)};
    for (int i = 0; i < 4; i++) kind = kind * 1021 + parts[i];
    return kind;
}

static size_t workspace_of(const problem *p, const lt_algo *algo) {
    if (algo->scheme == 0) return 0;
    if (algo->scheme == 1) return 4096; /* counters */
    return (size_t)(p->d->rows * p->d->columns) * (size_t)p->d->batch_count * algo->splits * sizeof(float);
}

/* Largest power of two up to 256 that divides the pointer (0: any), the leading dimension where it counts, and the
 * batch stride. */
static uint32_t alignment(const lt_layout *x, uint64_t pointer) {
    uint64_t bits = pointer | 256;
    int lines = (x->order == LT_ORDER_ROW ? x->rows : x->columns) > 1;
    if (lines) bits |= (uint64_t)x->ld * lt_bytes(x->type);
    if (x->batch_count > 1) bits |= (uint64_t)x->batch_stride * lt_bytes(x->type);
    return (uint32_t)(bits & -bits);
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t alignment_of_layouts(const problem *p) {
    uint32_t ab = least(alignment(p->a, 0), alignment(p->b, 0));
    return least(ab, least(alignment(p->c, 0), alignment(p->d, 0)));
}

static int takes(const problem *p, const lt_algo *algo) {
    uint64_t k = p->desc->transpose_a ? p->a->rows : p->a->columns;
    if (algo->align > 1 && algo->align > alignment_of_layouts(p)) return 0;
    if (algo->splits > 1 && (k < 64 * algo->splits || p->desc->compute == LT_COMPUTE_32F_PEDANTIC)) return 0;
    return algo->scheme != 1 || p->desc->epilogue == LT_EPILOGUE_DEFAULT;
}

static lt_algo algo_of(const problem *p, const algo_row *row) {
    return (lt_algo){.magic = MAGIC_ALGO,
                     .version = version(),
                     .id = row->id,
                     .splits = row->splits,
                     .scheme = row->scheme,
                     .align = row->align,
                     .kind = kind_of(p)};
}

CUDASIM_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                                  void *preference, int wanted, lt_result *results, int *count);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, lt_result *results, int *count) {
    if (cudasim_call("cublasLtMatmulAlgoGetHeuristic")) return LT_NOT_SUPPORTED;
    if (!is_a(handle, MAGIC_HANDLE)) return LT_NOT_INITIALIZED;
    if (!is_a(preference, MAGIC_PREFERENCE) || wanted <= 0 || results == NULL || count == NULL)
        return refuse("heuristic: arguments");
    const lt_preference *want = preference;
    problem p = {desc, a, b, c, d};
    *count = 0;
    int status = check_problem(&p);
    if (status != LT_SUCCESS) return status;
    if (p.desc->epilogue != LT_EPILOGUE_DEFAULT && (p.desc->epilogue & LT_EPILOGUE_BIAS) && p.desc->bias == 0)
        return refuse("no bias");
    uint32_t claimed = least(least(want->align_a, want->align_b), least(want->align_c, want->align_d));
    for (size_t i = 0; i < COUNT(algo_rows) && *count < wanted; i++) {
        lt_result result = {.algo = algo_of(&p, &algo_rows[i]), .waves = 1.0f};
        result.workspace_bytes = workspace_of(&p, &result.algo);
        if (!takes(&p, &result.algo) || (result.algo.align > 1 && claimed < result.algo.align)) continue;
        if ((result.algo.scheme & ~want->reduction_mask) != 0 || result.workspace_bytes > want->workspace_bytes)
            continue;
        results[(*count)++] = result;
    }
    return *count > 0 ? LT_SUCCESS : LT_NOT_SUPPORTED;
}

static int check_algo(const problem *p, const lt_algo *algo) {
    if (algo->magic != MAGIC_ALGO) return refuse("an algorithm that nobody made");
    if (algo->version != version()) return refuse("an algorithm of another version");
    if (algo->kind != kind_of(p)) return refuse("an algorithm for another kind of problem");
    return takes(p, algo) ? LT_SUCCESS : LT_NOT_SUPPORTED;
}

CUDASIM_EXPORT int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                           const lt_algo *algo, lt_result *result);
int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d, const lt_algo *algo,
                            lt_result *result) {
    if (cudasim_call("cublasLtMatmulAlgoCheck")) return LT_NOT_SUPPORTED;
    problem p = {desc, a, b, c, d};
    if (!is_a(handle, MAGIC_HANDLE) || algo == NULL || result == NULL) return LT_INVALID_VALUE;
    int status = check_problem(&p);
    if (status == LT_SUCCESS) status = check_algo(&p, algo);
    if (status != LT_SUCCESS) return status;
    result->workspace_bytes = workspace_of(&p, algo);
    result->state = LT_SUCCESS;
    result->waves = 1.0f;
    return LT_SUCCESS;
}

/* ---- the product ---- */

static int same_layout(const lt_layout *x, const lt_layout *y) {
    return x->type == y->type && x->order == y->order && x->ld == y->ld && x->batch_stride == y->batch_stride;
}

static int check_memory(const lt_call *call, const problem *p, const lt_algo *algo, const void *workspace,
                        size_t bytes) {
    if (call->pa == 0 || call->pb == 0 || call->pd == 0 || (call->pc == 0 && call->reads_c)) return refuse("no matrix");
    const uint64_t pointers[] = {call->pa, call->pb, call->pc, call->pd};
    const lt_layout *layouts[] = {p->a, p->b, p->c, p->d};
    for (int i = 0; i < 4; i++)
        if (pointers[i] % lt_bytes(layouts[i]->type) != 0) return refuse("a matrix that isn't aligned to its elements");
    if (call->pc == call->pd && !same_layout(p->c, p->d)) return refuse("c and d in one place with two layouts");
    size_t needed = workspace_of(p, algo);
    if (bytes < needed || (needed > 0 && workspace == NULL)) return refuse("a workspace that is too small");
    if (bytes > 0 && (uintptr_t)workspace % 256 != 0) return refuse("a workspace that isn't aligned to 256 bytes");
    if ((p->desc->epilogue & LT_EPILOGUE_BIAS) && p->desc->bias == 0) return refuse("no bias");
    return LT_SUCCESS;
}

/* A kernel that is given less than it was made for reads at misaligned addresses, which ends the context. */
static int fail_misaligned(void *data) {
    (void)data;
    cudasim_say("cublasLtMatmul: matrices that are less aligned than the algorithm needs");
    return CUDASIM_MISALIGNED;
}

static int is_misaligned(const lt_call *call, const problem *p, const lt_algo *algo) {
    uint32_t aligned = least(alignment(p->a, call->pa), alignment(p->b, call->pb));
    aligned = least(aligned, least(alignment(p->c, call->pc), alignment(p->d, call->pd)));
    return algo->align > 1 && algo->align > aligned;
}

static lt_call make_call(const problem *p, const void *alpha, const void *beta) {
    lt_call call = {.desc = *p->desc, .a = *p->a, .b = *p->b, .c = *p->c, .d = *p->d, .reads_c = 1};
    if (p->desc->pointer_mode == LT_POINTER_DEVICE) {
        call.alpha_at = (uint64_t)(uintptr_t)alpha, call.beta_at = (uint64_t)(uintptr_t)beta;
    } else {
        memcpy(&call.alpha, alpha, sizeof call.alpha);
        memcpy(&call.beta, beta, sizeof call.beta);
        call.reads_c = call.beta != 0.0f;
    }
    return call;
}

CUDASIM_EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *pa, void *a, const void *pb,
                                  void *b, const void *beta, const void *pc, void *c, void *pd, void *d,
                                  const lt_algo *algo, void *workspace, size_t bytes, void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *pa, void *a, const void *pb, void *b,
                   const void *beta, const void *pc, void *c, void *pd, void *d, const lt_algo *algo, void *workspace,
                   size_t bytes, void *stream) {
    if (cudasim_call("cublasLtMatmul")) return LT_EXECUTION_FAILED;
    if (!is_a(handle, MAGIC_HANDLE)) return LT_NOT_INITIALIZED;
    problem p = {desc, a, b, c, d};
    int status = check_problem(&p);
    if (status != LT_SUCCESS) return status;
    if (alpha == NULL || beta == NULL) return refuse("no alpha or beta");
    lt_algo any = algo_of(&p, &algo_rows[COUNT(algo_rows) - 1]);
    if (algo == NULL) algo = &any; /* the library chooses */
    status = check_algo(&p, algo);
    if (status != LT_SUCCESS) return status;
    lt_call call = make_call(&p, alpha, beta);
    call.pa = (uint64_t)(uintptr_t)pa, call.pb = (uint64_t)(uintptr_t)pb;
    call.pc = (uint64_t)(uintptr_t)pc, call.pd = (uint64_t)(uintptr_t)pd;
    status = check_memory(&call, &p, algo, workspace, bytes);
    if (status != LT_SUCCESS) return status;
    int (*run)(void *) = is_misaligned(&call, &p, algo) ? fail_misaligned : lt_run;
    return cudasim_enqueue(stream, run, &call, sizeof call, "cublasLtMatmul") == CUDASIM_SUCCESS ? LT_SUCCESS
                                                                                                 : LT_EXECUTION_FAILED;
}
