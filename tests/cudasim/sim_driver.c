/* The stand-in's one device: what it says about itself, and the names of errors. It takes the compute capability from
 * the environment, everything else is that of a large GPU, so that limits are those a program meets. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

SIM_API(SIM_ANY, cuDriverGetVersion, (int *version), (version)) {
    *version = 13990; /* no release has this number: what is compiled for the stand-in is never taken for the real thing */
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDeviceGetCount, (int *count), (count)) {
    *count = 1;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDeviceGet, (int *device, int ordinal), (device, ordinal)) {
    *device = 0;
    return ordinal ? SIM_INVALID_DEVICE : CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDeviceGetName, (char *name, int length, int device), (name, length, device)) {
    if (device || length < 1) return device ? SIM_INVALID_DEVICE : CUDASIM_INVALID_VALUE;
    snprintf(name, (size_t)length, "mpc CUDA stand-in");
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDeviceTotalMem_v2, (size_t * bytes, int device), (bytes, device)) {
    *bytes = sim_configuration()->memory;
    return device ? SIM_INVALID_DEVICE : CUDASIM_SUCCESS;
}

SIM_API(SIM_INITIALIZED, cuDeviceGetUuid_v2, (char uuid[16], int device), (uuid, device)) {
    memcpy(uuid, "mpc CUDA standin", 16);
    return device ? SIM_INVALID_DEVICE : CUDASIM_SUCCESS;
}

/* CUdevice_attribute. Not listed: 0. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},                               /* threads per block */
    {2, 1024},       {3, 1024},  {4, 64},    /* block */
    {5, 2147483647}, {6, 65535}, {7, 65535}, /* grid */
    {8, 48 * 1024},                          /* shared memory per block without asking */
    {9, 65536},                              /* constant memory */
    {10, 32},                                /* warp */
    {12, 65536},                             /* registers per block */
    {13, 1500000},                           /* clock, kHz */
    {14, 512},                               /* texture alignment */
    {15, 1},         {19, 1},    {31, 1},    /* overlap, mapping of host memory, concurrent kernels */
    {32, 1},                                 /* ECC */
    {36, 2000000},                           /* memory clock, kHz */
    {37, 4096},                              /* memory bus, bits */
    {38, 32 << 20},                          /* L2 */
    {39, 2048},                              /* threads per multiprocessor */
    {40, 2},         {41, 1},                /* copy engines, unified addresses */
    {82, 65536},                             /* registers per multiprocessor */
};

SIM_API(SIM_INITIALIZED, cuDeviceGetAttribute, (int *value, int attribute, int device), (value, attribute, device)) {
    const sim_config *c = sim_configuration();
    if (device) return SIM_INVALID_DEVICE;
    if (attribute < 1 || attribute > 200) return CUDASIM_INVALID_VALUE;
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) *value = attributes[i].value;
    if (attribute == 16) *value = c->processors;
    if (attribute == 75) *value = c->arch / 10;
    if (attribute == 76) *value = c->arch % 10;
    if (attribute == 81) *value = sim_max_shared() + 1024; /* per multiprocessor */
    if (attribute == 97) *value = sim_max_shared();
    return CUDASIM_SUCCESS;
}

/* ---- errors ---- */
static const struct {
    int result;
    const char *name, *text;
} errors[] = {
    {CUDASIM_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDASIM_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDASIM_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {SIM_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {SIM_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {SIM_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {SIM_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {SIM_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {SIM_NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {SIM_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDASIM_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {SIM_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {SIM_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {SIM_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDASIM_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {SIM_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {SIM_MISALIGNED, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDASIM_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {SIM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {SIM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {SIM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {SIM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {SIM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing stream"},
    {SIM_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {SIM_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed"},
    {SIM_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int error_text(int error, const char **text, bool name) {
    if (!text) return CUDASIM_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == error) *text = name ? errors[i].name : errors[i].text;
    return *text ? CUDASIM_SUCCESS : CUDASIM_INVALID_VALUE;
}

/* Not counted: a program asks for these because something failed. */
CUDASIM_EXPORT int cuGetErrorName(int error, const char **text);
CUDASIM_EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorName(int error, const char **text) { return error_text(error, text, true); }
int cuGetErrorString(int error, const char **text) { return error_text(error, text, false); }
