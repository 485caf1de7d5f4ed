/* Register tiles for any processor: four-float vectors, multiply then add. What every other instruction set is tested
 * against. */
#include "runtime/cpu/gemm.h"

#define ISA_NAME "baseline"
#define LANES 4
#define ROW_COUNT 4
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#include "runtime/cpu/gemm_isa.inc"

const mpc_gemm_isa *mpc_gemm_isa_base(void) { return &isa_table; }
