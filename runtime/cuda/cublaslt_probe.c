/* Tries each kind of fused epilogue once per device, on a 16x16 product with known results, before it may become a
 * candidate. The manual says what an epilogue computes, not what it does to NaN (a maximum with 0 may lose it) nor
 * where a bias of another format is added; a candidate that differs from the launch's own kernel there would change the
 * run's bits and hide overflows from the loss scaler. */
#include <math.h>
#include <string.h>

#include "runtime/cuda/cublaslt_api.h"

enum { SIDE = 16, ELEMENTS = SIDE * SIDE, SLOT = 1024, OPERAND_A = 0, OPERAND_B = 1, RESULT = 2, BIAS = 3, SLOTS = 4 };

typedef struct probe {
    mpc_cuda *cuda;
    mpc_format operands, result;
    int epilogue;
    float a[ELEMENTS], b[ELEMENTS], bias[SIDE];
} probe;

static uint32_t bit_of(mpc_format operands, mpc_format result, int epilogue) {
    uint32_t row = operands == MPC_FMT_f32 ? 0 : operands == MPC_FMT_f16 ? 1 : 2;
    uint32_t column = epilogue == MPC_LT_EPILOGUE_RELU ? 0 : epilogue == MPC_LT_EPILOGUE_BIAS ? 1 : 2;
    return 1u << ((row * 2 + (result == MPC_FMT_f32)) * 3 + column);
}

static void narrow(mpc_format f, const float *from, void *to) {
    uint16_t *halves = to;
    if (f == MPC_FMT_f32) memcpy(to, from, ELEMENTS * sizeof *from);
    else
        for (int i = 0; i < ELEMENTS; i++)
            halves[i] = f == MPC_FMT_f16 ? mpc_f32_to_f16(from[i]) : mpc_f32_to_bf16(from[i]);
}

static float widen(mpc_format f, const void *from, int i) {
    const uint16_t *halves = from;
    if (f == MPC_FMT_f32) return ((const float *)from)[i];
    return f == MPC_FMT_f16 ? mpc_f16_to_f32(halves[i]) : mpc_bf16_to_f32(halves[i]);
}

/* Half a unit in the last place of 1: with it, rounding the sum or the bias too early shows. */
static float half_unit(mpc_format f) { return f == MPC_FMT_bf16 ? 0x1p-8f : 0x1p-11f; }

/* b is ones in its first two rows. Sums of a's rows: NaN, 1 + half, half, -4, then zeros. */
static void fill(probe *p) {
    float half = half_unit(p->result);
    memset(p->a, 0, sizeof p->a);
    memset(p->b, 0, sizeof p->b);
    for (int j = 0; j < SIDE; j++) {
        p->b[j] = p->b[SIDE + j] = 1.0f;
        p->bias[j] = j % 2 == 0 ? half / 2 : 1.0f + half;
    }
    p->a[0] = NAN;
    p->a[SIDE] = 1.0f, p->a[SIDE + 1] = half;
    p->a[2 * SIDE] = half;
    p->a[3 * SIDE] = -4.0f;
}

static float expected(const probe *p, int row, int column) {
    float y = p->a[row * SIDE] + p->a[row * SIDE + 1];
    if (p->epilogue & MPC_LT_EPILOGUE_BIAS) y += p->bias[column];
    if ((p->epilogue & MPC_LT_EPILOGUE_RELU) && y < 0.0f) y = 0.0f;
    if (p->result == MPC_FMT_f16) return mpc_f16_to_f32(mpc_f32_to_f16(y));
    return p->result == MPC_FMT_bf16 ? mpc_bf16_to_f32(mpc_f32_to_bf16(y)) : y;
}

static bool is_as_expected(const probe *p, const void *result) {
    for (int i = 0; i < ELEMENTS; i++) {
        float got = widen(p->result, result, i), want = expected(p, i / SIDE, i % SIDE);
        if (isnan(want) ? !isnan(got) : !(got == want)) return false;
    }
    return true;
}

static bool multiply(const probe *p, mpc_lt_product *product, mpc_device_ptr memory) {
    mpc_lt_operands o = {.a = memory + SLOT * OPERAND_B, .b = memory + SLOT * OPERAND_A, .d = memory + SLOT * RESULT};
    mpc_lt_heuristic found;
    if ((p->epilogue & MPC_LT_EPILOGUE_BIAS) && mpc_lt_set_bias(p->cuda, product, memory + SLOT * BIAS) != 0)
        return false;
    return mpc_lt_find(p->cuda, product, &o, 1, &found) > 0 && mpc_lt_multiply(p->cuda, product, &o, &found.algo) == 0;
}

static bool run(probe *p, mpc_lt_product *product, mpc_device_ptr memory) {
    const mpc_cuda_driver *driver = &p->cuda->driver;
    _Alignas(4) uint8_t host[SLOTS * SLOT];
    memset(host, 0, sizeof host);
    fill(p);
    narrow(p->operands, p->a, host + SLOT * OPERAND_A);
    narrow(p->operands, p->b, host + SLOT * OPERAND_B);
    memcpy(host + SLOT * BIAS, p->bias, sizeof p->bias);
    if (driver->cuMemcpyHtoDAsync_v2(memory, host, sizeof host, p->cuda->stream) != 0) return false;
    bool done = multiply(p, product, memory) &&
                driver->cuMemcpyDtoHAsync_v2(host + SLOT * RESULT, memory + SLOT * RESULT, SLOT, p->cuda->stream) == 0;
    return driver->cuStreamSynchronize(p->cuda->stream) == 0 && done && is_as_expected(p, host + SLOT * RESULT);
}

static bool is_good(probe *p) {
    mpc_matmul mm = {.fa = p->operands,
                     .fb = p->operands,
                     .fc = p->result,
                     .acc = MPC_FMT_f32,
                     .m = SIDE,
                     .n = SIDE,
                     .k = SIDE,
                     .a_row = SIDE,
                     .a_col = 1,
                     .b_row = SIDE,
                     .b_col = 1,
                     .c_row = SIDE,
                     .c_col = 1,
                     .batch = {1, 1, 1}};
    mpc_lt_product product;
    mpc_device_ptr memory = 0;
    if (mpc_lt_describe(&mm, &product) != NULL) return false;
    if (mpc_lt_open(p->cuda, &product, mpc_lt_compute_of(&product), p->epilogue) != 0) return false;
    bool good = false;
    if (p->cuda->driver.cuMemAlloc_v2(&memory, SLOTS * SLOT) == 0) {
        good = run(p, &product, memory);
        p->cuda->driver.cuMemFree_v2(memory);
    }
    mpc_lt_close(p->cuda, &product);
    return good;
}

bool mpc_lt_epilogue_is_good(mpc_cuda *cuda, mpc_format operands, mpc_format result, int epilogue) {
    uint32_t bit = bit_of(operands, result, epilogue);
    if ((cuda->lt_epilogues_tried & bit) == 0) {
        probe p = {.cuda = cuda, .operands = operands, .result = result, .epilogue = epilogue};
        if (is_good(&p)) cuda->lt_epilogues_good |= bit;
        cuda->lt_epilogues_tried |= bit;
    }
    return (cuda->lt_epilogues_good & bit) != 0;
}
