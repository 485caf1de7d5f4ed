/* What the compiler made of a kernel: registers and spills from the assembler's words, widths of accesses and
 * tensor-core instructions from the PTX. */
#ifndef MPC_RUNTIME_CUDA_KERNEL_REPORT_H
#define MPC_RUNTIME_CUDA_KERNEL_REPORT_H

#include "base/str.h"
#include "ir/program.h"

typedef struct mpc_kernel_report {
    uint32_t registers;                    /* per thread; 0: the compiler didn't tell */
    uint32_t stack_bytes, spill_bytes;     /* per thread; spills are stores and loads together */
    uint32_t shared_bytes, constant_bytes; /* static shared memory per block; arguments and constants */
    uint32_t mma;                          /* tensor-core instructions in the text */
    uint32_t wide;                         /* accesses of 16 bytes or more */
} mpc_kernel_report;

/* Of one kernel, from the PTX and the log of a compilation with --ptxas-options=-v. */
mpc_kernel_report mpc_kernel_report_read(const char *name, const char *ptx, const char *log);
/* The same as a line, behind the code in a file. */
void mpc_kernel_report_print(const char *name, const mpc_kernel_report *r, mpc_str *out);
/* Finds the line in the last part of a file's content. All zero: there is none. */
mpc_kernel_report mpc_kernel_report_find(const char *name, const char *content, uint64_t bytes);

#endif
