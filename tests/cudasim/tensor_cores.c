/* mma and ldmatrix of the stand-in against plain loops over matrices, with fragments built as the PTX manual draws
 * them, here once more and from the other side: by element of the matrix, not by register. */
#include "tests/cudasim/sim_test.h"

#include <math.h>

static const char text[] = "#define K(name) MPC_KERNEL(name, 32, 4, 2, 2)\n"
                           /* p[0]: a fragments [32][4], p[1]: b [32][2], p[2]: d [32][4] */
                           "#define MMA(name, op) K(name) { MPC_ENTER \\\n"
                           "  const int t = mpc_thread(); \\\n"
                           "  float d[4]; \\\n"
                           "  for (int i = 0; i < 4; i++) d[i] = ((float *)p[2])[4 * t + i]; \\\n"
                           "  op(d, (const uint32_t *)p[0] + 4 * t, (const uint32_t *)p[1] + 2 * t); \\\n"
                           "  for (int i = 0; i < 4; i++) ((float *)p[2])[4 * t + i] = d[i]; }\n"
                           "MMA(k_f16, mpc_mma_f16) MMA(k_bf16, mpc_mma_bf16) MMA(k_tf32, mpc_mma_tf32)\n"
                           /* shared memory is a copy of p[0], 16 rows of 16 elements; p[1] gets both fragments */
                           "K(k_ldmatrix) { MPC_ENTER\n"
                           "  const int t = mpc_thread();\n"
                           "  uint32_t r[4];\n"
                           "  mpc_store16(mpc_shared() + 16 * t, mpc_load16((const char *)p[0] + 16 * t));\n"
                           "  mpc_barrier();\n"
                           "  const char *row = mpc_shared() + 32 * (t % 8 + t / 8 % 2 * 8) + 16 * (t / 16);\n"
                           "  mpc_ldmatrix4(r, row);\n"
                           "  for (int i = 0; i < 4; i++) ((uint32_t *)p[1])[8 * t + i] = r[i];\n"
                           "  mpc_ldmatrix4_transposed(r, row);\n"
                           "  for (int i = 0; i < 4; i++) ((uint32_t *)p[1])[8 * t + 4 + i] = r[i]; }\n";
static void *module;

static uint32_t bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, 4);
    return b;
}
/* Small integers are exact in every format. */
static uint32_t f16_of(float x) {
    const uint32_t b = bits_of(x);
    return x == 0 ? 0 : (b >> 16 & 0x8000u) | (((b >> 23 & 0xffu) - 112u) << 10) | (b >> 13 & 0x3ffu);
}
static uint32_t bf16_of(float x) { return bits_of(x) >> 16; }

enum { M = 16, N = 8, MAX_K = 16 };
static float a[M][MAX_K], b[MAX_K][N], d[M][N];

static void make(int depth) {
    for (int k = 0; k < depth; k++) {
        for (int r = 0; r < M; r++) a[r][k] = (float)((r * 7 + k * 5) % 13 - 6);
        for (int c = 0; c < N; c++) b[k][c] = (float)((k * 3 + c * 11) % 17 - 8);
    }
    for (int r = 0; r < M; r++)
        for (int c = 0; c < N; c++) d[r][c] = (float)(r - 2 * c);
}

/* Element (r, k) of a: `per` elements in a register, 4 lanes side by side, then registers down, then to the right. */
static void put(uint32_t *fragment, int registers, int row, int k, int per, uint32_t bits) {
    const int lane = row % 8 * 4 + k / per % 4, block = k / (4 * per);
    const int reg = registers == 4 ? row / 8 + 2 * block : block;
    fragment[lane * registers + reg] |= bits << (k % per * (32 / per) % 32);
}

static void check_mma(const char *name, int depth, uint32_t (*bits)(float), uint32_t noise) {
    uint32_t fa[32 * 4] = {0}, fb[32 * 2] = {0};
    float fd[32 * 4];
    const int per = depth == 8 ? 1 : 2;
    make(depth);
    for (int k = 0; k < depth; k++) {
        for (int r = 0; r < M; r++) put(fa, 4, r, k, per, bits(a[r][k]) | noise);
        for (int c = 0; c < N; c++) put(fb, 2, c, k, per, bits(b[k][c]) | noise);
    }
    for (int r = 0; r < M; r++)
        for (int c = 0; c < N; c++) fd[(r % 8 * 4 + c / 2) * 4 + r / 8 * 2 + c % 2] = d[r][c];
    block_args args = {.blocks = 1,
                       .p = {device_copy(fa, sizeof fa), device_copy(fb, sizeof fb), device_copy(fd, sizeof fd)}};
    CHECK(launch(kernel_of(module, name), args, 32, 0, NULL) == 0);
    CHECK(cuMemcpyDtoH_v2(fd, args.p[2], sizeof fd) == 0);
    for (int r = 0; r < M; r++) {
        for (int c = 0; c < N; c++) {
            float sum = d[r][c];
            for (int k = 0; k < depth; k++) sum += a[r][k] * b[k][c];
            const float got = fd[(r % 8 * 4 + c / 2) * 4 + r / 8 * 2 + c % 2];
            CHECK_MSG(got == sum, "%s [%d][%d]: %g, not %g", name, r, c, (double)got, (double)sum);
        }
    }
}

static void ldmatrix_gives_fragments(void) {
    uint16_t in[16][16], out[32][8][2];
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 16; c++) in[r][c] = (uint16_t)(r * 256 + c);
    block_args args = {.blocks = 1, .p = {device_copy(in, sizeof in), device_copy(NULL, sizeof out)}};
    CHECK(launch(kernel_of(module, "k_ldmatrix"), args, 32, sizeof in, NULL) == 0);
    CHECK(cuMemcpyDtoH_v2(out, args.p[1], sizeof out) == 0);
    for (int t = 0; t < 32; t++) {
        for (int j = 0; j < 4; j++) { /* matrix j: rows from j % 2 * 8, columns from j / 2 * 8 */
            for (int h = 0; h < 2; h++) {
                CHECK(out[t][j][h] == in[t / 4 + j % 2 * 8][t % 4 * 2 + h + j / 2 * 8]);
                CHECK(out[t][4 + j][h] == in[t % 4 * 2 + h + j % 2 * 8][t / 4 + j / 2 * 8]);
            }
        }
    }
}

int main(void) {
    open_device();
    char *image = image_of(text);
    if (!image) return check_result();
    module = load(image);
    free(image);
    check_mma("k_f16", 16, f16_of, 0);
    check_mma("k_bf16", 16, bf16_of, 0);
    check_mma("k_tf32", 8, bits_of, 0x1fff); /* bits that tf32 does not have */
    ldmatrix_gives_fragments();
    close_device();
    return check_result();
}
