/* Machine code of kernels on disk, by content and architecture. A file holds some kernels; an index leads from each
 * kernel to a file that has it, so that a program finds kernels that another one needed first. */
#ifndef MPC_RUNTIME_CUDA_CUBIN_CACHE_H
#define MPC_RUNTIME_CUDA_CUBIN_CACHE_H

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernel_report.h"

typedef struct mpc_cubins mpc_cubins; /* the kernels of some programs and where they are */

typedef struct mpc_cubins_options {
    const mpc_nvrtc_api *nvrtc;
    int nvrtc_version, capability; /* 13000, 90 */
    const char *cache_dir;         /* as in mpc_exec_options */
    unsigned jobs;                 /* compilers at a time; 0: as many as there are cores */
} mpc_cubins_options;

/* NULL after a diagnostic: E662 no folder, E901. `options` and the programs must live as long as the result. */
mpc_cubins *mpc_cubins_create(const mpc_cubins_options *options, const mpc_sink *sink);
void mpc_cubins_destroy(mpc_cubins *c); /* NULL is fine */
/* A kernel behind the text `prelude` (of a program, whose device header it sees). Its number is the number of kernels
 * added before. */
mpc_status mpc_cubins_add(mpc_cubins *c, const mpc_program *program, const mpc_kernel *kernel);
/* Compiles what the cache lacks, in a few programs of about equal size, side by side. E625: NVRTC refused. E662: can't
 * write. */
mpc_status mpc_cubins_build(mpc_cubins *c);
uint32_t mpc_cubins_compiled(const mpc_cubins *c); /* kernels that weren't in the cache */

/* After build. Files are numbered; the content is complete, ends with a zero byte that isn't counted, and is freed by
 * the caller. */
uint32_t mpc_cubins_file_count(const mpc_cubins *c);
uint32_t mpc_cubins_file_of(const mpc_cubins *c, uint32_t kernel);
mpc_status mpc_cubins_read(const mpc_cubins *c, uint32_t file, char **content, uint64_t *bytes);
/* What the compiler told of a kernel when it was compiled. */
mpc_status mpc_cubins_report(const mpc_cubins *c, uint32_t kernel, mpc_kernel_report *report);
/* Forgets a file that can't be used though it is whole; the next build makes its kernels anew. */
void mpc_cubins_forget(mpc_cubins *c, uint32_t file);

#endif
