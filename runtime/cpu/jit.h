/* C text to functions: the system's compiler, and a cache on disk by content. */
#ifndef MPC_RUNTIME_CPU_JIT_H
#define MPC_RUNTIME_CPU_JIT_H

#include <stdint.h>

#include "ir/program.h"

typedef struct mpc_jit mpc_jit; /* the loaded objects of one program */

typedef struct mpc_jit_options {
    const char *compiler;  /* NULL: $MPC_CC, then cc; words separated by spaces */
    const char *cache_dir; /* NULL: $XDG_CACHE_HOME/mpc, then ~/.cache/mpc */
    unsigned jobs;         /* compilers at a time; 0: as many as there are cores */
} mpc_jit_options;

/* A function of a kernel, see ir/program.h. */
typedef void (*mpc_kernel_fn)(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end,
                              void *scratch);

/* Compiles `prelude` + kernels, or finds them in the cache; `functions` (kernel_count entries) get the addresses, which
 * live as long as the result. NULL on failure: E660 no compiler, E661 it refused the text, E662 the cache can't be
 * written. */
mpc_jit *mpc_jit_load(const char *prelude, const mpc_kernel *kernels, uint32_t kernel_count,
                      const mpc_jit_options *options, mpc_kernel_fn *functions, const mpc_sink *sink);
void mpc_jit_destroy(mpc_jit *jit);            /* NULL is fine */
uint32_t mpc_jit_compiled(const mpc_jit *jit); /* translation units that weren't in the cache */

/* First line of `COMPILER --version`; false: there is no such compiler. */
bool mpc_compiler_version(const char *compiler, mpc_str *out);
/* The words of the compiler that would be used: the argument, $MPC_CC, or cc. */
const char *mpc_compiler_command(const char *compiler);

#endif
