/* Which processor this is. */
#ifndef MPC_RUNTIME_CPU_MODEL_H
#define MPC_RUNTIME_CPU_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* "Intel(R) Xeon(R) Processor"; "unknown cpu" where it can't be found out. */
void mpc_cpu_name(mpc_str *out);
/* Differs between processors that understand different instructions: what -march=native depends on. */
uint64_t mpc_cpu_key(void);
/* The widest relevant instruction set: "avx512_bf16+amx", "avx512", "avx2", "baseline". */
const char *mpc_cpu_features(void);
/* By its vendor's own words. */
bool mpc_cpu_is_intel(void);

#endif
