/* From the command line to a device profile. A name wins over a file of the same name; a file must contain a `.` or a `/`, so that a mistyped name is told
 * as one. Without an option it is the device that runs: a decision about it needs no measurement, and is the same on every machine of a kind. */
#include "driver/cost_target.h"

#include <string.h>

#include "base/alloc.h"
#include "driver/run_options.h"
#include "runtime/cpu/cpu_model.h"
#include "runtime/cuda/cuda.h"
#include "runtime/data/dataset_impl.h"

const char *mpc_cost_target_of_cpu(void) {
    const char *features = mpc_cpu_features();
    if (strstr(features, "amx")) return "cpu-amx";
    /* Measured on Intel's processors without the matrix unit: a bf16 product takes 1.2 to 1.9 times as long as one of f32. */
    if (strstr(features, "bf16") && !mpc_cpu_is_intel()) return "cpu-avx512bf16";
    return strstr(features, "avx512") ? "cpu-avx512" : "cpu-plain";
}

/* GPUs by the name that the driver gives; one that isn't listed is taken for the nearest. No GPU here: a compilation for one. */
static const char *target_of_gpu(void) {
    static const char *const rows[][2] = {{"A100", "a100"}, {"A10", "a100"}, {"3090", "a100"}, {"A6000", "a100"},
                                          {"H100", "h100"}, {"L40", "h100"}, {"4090", "h100"}};
    mpc_cuda *cuda = mpc_cuda_open_compiler(NULL);
    const char *found = "h200";
    for (size_t i = 0; cuda && i < sizeof rows / sizeof *rows; i++)
        if (strstr(cuda->name, rows[i][0])) {
            found = rows[i][1];
            break;
        }
    mpc_cuda_close(cuda);
    return found;
}

static const mpc_device_profile *read_file(mpc_session *s, const char *path) {
    char *text;
    size_t length;
    mpc_device_profile *profile = mpc_context_alloc(s->ctx, sizeof *profile);
    if (!profile) {
        mpc_error(s->sink, "E901", "out of memory");
        return NULL;
    }
    if (mpc_data_read_file(path, s->sink, &text, &length) != MPC_OK) return NULL;
    mpc_status status = mpc_device_profile_parse(text, path, s->sink, profile);
    mpc_free(text);
    return status == MPC_OK ? profile : NULL;
}

static void refuse_name(mpc_session *s, const char *name) {
    mpc_str names = {0};
    for (uint32_t i = 0; i < mpc_device_profile_count(); i++)
        mpc_str_printf(&names, "%s%s", i > 0 ? ", " : "", mpc_device_profile_at(i)->name);
    mpc_error(s->sink, "E150", "there is no device profile `%s`; there is: %s (a file has a `.` or `/` in its name)", name,
              mpc_str_cstr(&names));
    mpc_str_free(&names);
}

const mpc_device_profile *mpc_cost_target(mpc_session *s) {
    const char *name;
    if (!mpc_run_file_option(s, "cost_target", s->cli->options->cost_target, &name)) return NULL;
    if (!name) return mpc_device_profile_find(s->device == MPC_DEVICE_CUDA ? target_of_gpu() : mpc_cost_target_of_cpu());
    const mpc_device_profile *found = mpc_device_profile_named(s->ctx, name);
    if (found) return found;
    s->cost_target_is_file = strpbrk(name, "./") != NULL;
    if (s->cost_target_is_file) return read_file(s, name);
    refuse_name(s, name);
    return NULL;
}
