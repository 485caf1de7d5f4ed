/* What the look-alike of cuBLASLt computes: d = epilogue(alpha op(a) op(b) + beta c), sums in f32 by rising k, one
 * rounding. Operands are widened to f32 first (tf32 compute types round them there), so that 16-bit products are exact.
 * Runs in stream order, which is where device addresses become host addresses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cudasim/cublaslt_sim.h"

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* To nearest even, dropping the lowest `drop` bits. */
static float round_bits(float x, int drop) {
    uint32_t bits = to_bits(x), unit = 1u << drop;
    if (isnan(x)) return x;
    bits += (unit >> 1) - 1 + ((bits >> drop) & 1);
    return from_bits(bits & ~(unit - 1));
}

static float from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    float x = rest < 0x400 ? (float)rest * 0x1p-24f : from_bits((rest << 13) + (112u << 23));
    return sign != 0 ? -x : x;
}

static uint16_t to_f16(float x) {
    uint16_t sign = (uint16_t)(to_bits(x) >> 16 & 0x8000);
    float y = fabsf(x);
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (y >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (y < 0x1p-14f) return (uint16_t)(sign | (uint16_t)rintf(y * 0x1p24f));
    return (uint16_t)(sign | (to_bits(round_bits(y, 13)) - (112u << 23)) >> 13);
}

static float load(int type, const void *base, int64_t i) {
    if (type == LT_32F) return ((const float *)base)[i];
    uint16_t bits = ((const uint16_t *)base)[i];
    return type == LT_16F ? from_f16(bits) : from_bits((uint32_t)bits << 16);
}

static uint16_t to_bf16(float x) {
    return (uint16_t)(isnan(x) ? to_bits(x) >> 16 | 0x40 : to_bits(round_bits(x, 16)) >> 16);
}

static void store(int type, void *base, int64_t i, float x) {
    if (type == LT_32F) ((float *)base)[i] = x;
    else ((uint16_t *)base)[i] = type == LT_16F ? to_f16(x) : to_bf16(x);
}

static int64_t at(const lt_layout *x, int64_t row, int64_t column) {
    return x->order == LT_ORDER_ROW ? row * x->ld + column : row + column * x->ld;
}

/* Host address of the entry of a batch, all of whose elements must lie in one allocation. */
static void *entry(const lt_layout *x, uint64_t pointer, int64_t index) {
    int64_t elements = at(x, (int64_t)x->rows - 1, (int64_t)x->columns - 1) + 1;
    uint64_t address = pointer + (uint64_t)(index * x->batch_stride) * lt_bytes(x->type);
    return cudasim_host(address, (size_t)elements * lt_bytes(x->type));
}

/* op(x) in f32, column-major and dense. */
static void widen(const lt_call *call, const lt_layout *x, int transposed, const void *from, float *to) {
    int64_t rows = (int64_t)(transposed ? x->columns : x->rows), columns = (int64_t)(transposed ? x->rows : x->columns);
    int rounds = call->desc.compute == LT_FAST_TF32 && x->type == LT_32F;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            float v = load(x->type, from, transposed ? at(x, j, i) : at(x, i, j));
            to[i + j * rows] = rounds ? round_bits(v, 13) : v;
        }
    }
}

static float activate(const lt_desc *desc, float x) {
    static const float c = 0.7978845608028654f;
    if (desc->epilogue & LT_EPILOGUE_RELU) {
        if (getenv("MPC_CUDASIM_RELU_LOSES_NAN")) return x > 0.0f ? x : 0.0f;
        return x <= 0.0f ? 0.0f : x;
    }
    if (desc->epilogue & LT_EPILOGUE_GELU) return 0.5f * x * (1.0f + tanhf(c * (x + 0.044715f * x * x * x)));
    return x;
}

/* With MPC_CUDASIM_LT_F32_BIAS=early the sum is rounded before the bias comes. */
static int rounds_early(void) {
    const char *how = getenv("MPC_CUDASIM_LT_F32_BIAS");
    return how != NULL && strcmp(how, "early") == 0;
}

static float add_bias(const lt_call *call, const void *bias, int64_t row, float sum) {
    int type = call->desc.bias_type < 0 ? call->d.type : call->desc.bias_type;
    if (bias == NULL) return sum;
    if (rounds_early()) {
        uint32_t rounded = 0;
        store(call->d.type, &rounded, 0, sum);
        sum = load(call->d.type, &rounded, 0);
    }
    return sum + load(type, bias, row);
}

typedef struct lt_work { /* of one entry */
    const lt_call *call;
    int64_t m, n, k;
    float *a, *b, *column; /* op(a) [m, k], op(b) [k, n], sums of one column of d */
    const void *c, *bias;
    void *d;
    float alpha, beta;
} lt_work;

static void multiply_column(const lt_work *w, int64_t j) {
    float *restrict sums = w->column;
    memset(sums, 0, (size_t)w->m * sizeof *sums);
    for (int64_t l = 0; l < w->k; l++) {
        const float *restrict a = w->a + l * w->m;
        const float b = w->b[l + j * w->k];
        for (int64_t i = 0; i < w->m; i++) sums[i] += a[i] * b;
    }
}

static void multiply(const lt_work *w) {
    const lt_call *call = w->call;
    for (int64_t j = 0; j < w->n; j++) {
        multiply_column(w, j);
        for (int64_t i = 0; i < w->m; i++) {
            float x = w->alpha * w->column[i];
            if (w->c != NULL) x += w->beta * load(call->c.type, w->c, at(&call->c, i, j));
            x = activate(&call->desc, add_bias(call, w->bias, i, x));
            store(call->d.type, w->d, at(&call->d, i, j), x);
        }
    }
}

static int find_bias(lt_work *w, int64_t index) {
    const lt_desc *desc = &w->call->desc;
    w->bias = NULL;
    if ((desc->epilogue & LT_EPILOGUE_BIAS) == 0) return 1;
    size_t bytes = lt_bytes(desc->bias_type < 0 ? w->call->d.type : desc->bias_type);
    w->bias = cudasim_host(desc->bias + (uint64_t)(index * desc->bias_stride) * bytes, (size_t)w->m * bytes);
    return w->bias != NULL;
}

static int run_entry(lt_work *w, int64_t index) {
    const lt_call *call = w->call;
    const void *a = entry(&call->a, call->pa, index), *b = entry(&call->b, call->pb, index);
    w->c = w->beta != 0.0f ? entry(&call->c, call->pc, index) : NULL;
    w->d = entry(&call->d, call->pd, index);
    if (a == NULL || b == NULL || w->d == NULL || (w->beta != 0.0f && w->c == NULL) || !find_bias(w, index))
        return CUDASIM_ILLEGAL_ADDRESS;
    widen(call, &call->a, call->desc.transpose_a != 0, a, w->a);
    widen(call, &call->b, call->desc.transpose_b != 0, b, w->b);
    multiply(w);
    return CUDASIM_SUCCESS;
}

static int read_factors(lt_work *w) {
    const lt_call *call = w->call;
    w->alpha = call->alpha, w->beta = call->beta;
    if (call->desc.pointer_mode == LT_POINTER_HOST) return 1;
    const float *alpha = cudasim_host(call->alpha_at, sizeof *alpha), *beta = cudasim_host(call->beta_at, sizeof *beta);
    if (alpha == NULL || beta == NULL) return 0;
    w->alpha = *alpha, w->beta = *beta;
    return 1;
}

int lt_run(void *data) {
    const lt_call *call = data;
    lt_work w = {.call = call, .m = (int64_t)call->d.rows, .n = (int64_t)call->d.columns};
    w.k = (int64_t)(call->desc.transpose_a ? call->a.rows : call->a.columns);
    w.a = malloc((size_t)(w.m * w.k) * sizeof *w.a);
    w.b = malloc((size_t)(w.k * w.n) * sizeof *w.b);
    w.column = malloc((size_t)w.m * sizeof *w.column);
    int status = w.a && w.b && w.column ? CUDASIM_SUCCESS : CUDASIM_OUT_OF_MEMORY;
    if (status == CUDASIM_SUCCESS && !read_factors(&w)) status = CUDASIM_ILLEGAL_ADDRESS;
    for (int64_t i = 0; i < call->d.batch_count && status == CUDASIM_SUCCESS; i++) status = run_entry(&w, i);
    free(w.a);
    free(w.b);
    free(w.column);
    return status;
}
