/* What this machine offers, in one line each, for `mpc --version` and bug reports. Everything is found out on the spot:
 * nothing is kept between calls. */
#include <unistd.h>

#include "runtime/cpu/cpu_model.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cuda/cuda.h"
#include "runtime/device.h"

static void describe_cpu(mpc_str *out) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    mpc_str_append(out, "cpu: ");
    mpc_cpu_name(out);
    mpc_str_printf(out, ", %ld threads, %s\n", cores < 1 ? 1 : cores, mpc_cpu_features());
}

static void describe_onednn(mpc_str *out) {
    char reason[256];
    mpc_dnn *dnn = mpc_dnn_open(reason, sizeof reason);
    mpc_str_append(out, "oneDNN ");
    if (dnn) mpc_dnn_version(dnn, out);
    else mpc_str_printf(out, "not found (%s)", reason);
    mpc_str_append(out, "\n");
    mpc_dnn_close(dnn);
}

static void describe_compiler(mpc_str *out) {
    mpc_str_printf(out, "compiler %s: ", mpc_compiler_command(NULL));
    if (!mpc_compiler_version(NULL, out)) mpc_str_append(out, "not found");
    mpc_str_append(out, "\n");
}

void mpc_runtime_info(mpc_str *out) {
    describe_cpu(out);
    describe_onednn(out);
    describe_compiler(out);
    mpc_cuda_describe(out);
}
