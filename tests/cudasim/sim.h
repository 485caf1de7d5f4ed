/* What the look-alikes of NVRTC and cuBLASLt use of the stand-in's libcuda.so.1 (they link to it): call counting with
 * faults, the translation of device addresses, and work in stream order. Results are CUresult numbers: 0 is success.
 * All functions may be called from any thread.
 *
 * A device address is not a host address: it has bit 60 set, so that host code that dereferences one crashes at once.
 * Translate with cudasim_host, and do it where the work runs (in `run`), not where it is enqueued. */
#ifndef MPC_TESTS_CUDASIM_SIM_H
#define MPC_TESTS_CUDASIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDASIM_EXPORT __attribute__((visibility("default")))

enum {
    CUDASIM_SUCCESS = 0,
    CUDASIM_INVALID_VALUE = 1,
    CUDASIM_OUT_OF_MEMORY = 2,
    CUDASIM_INVALID_HANDLE = 400,
    CUDASIM_ILLEGAL_ADDRESS = 700,
    CUDASIM_LAUNCH_FAILED = 719
};

/* To be called first in every exported function of a look-alike, with its exported name: writes the line of
 * MPC_CUDASIM_TRACE, counts the call, and tells whether MPC_CUDASIM_FAIL wants it to fail (the caller then returns a
 * plausible error and does nothing). */
CUDASIM_EXPORT bool cudasim_call(const char *name);
/* One line on stderr with MPC_CUDASIM_VERBOSE, else nothing: why a call is about to return an error. */
CUDASIM_EXPORT void cudasim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs `run` on a copy of the `size` bytes at `data` in stream order, later (or records it as a node of the graph under
 * capture and runs it at every launch of the graph). A result of `run` other than 0 is a sticky error of the context,
 * as from a kernel. Returns a CUresult for a wrong stream, a sticky error, no memory. `name` must live as long as the
 * process. stream NULL: the legacy stream. */
CUDASIM_EXPORT int cudasim_enqueue(void *stream, int (*run)(void *data), const void *data, size_t size,
                                   const char *name);
/* Is the stream being captured? (Calls that synchronise must fail then.) */
CUDASIM_EXPORT bool cudasim_is_capturing(void *stream);

/* In `run`, or on the thread that makes the driver's calls: host address of `bytes` bytes at a device address; NULL
 * where they are not wholly inside one live allocation (a message with MPC_CUDASIM_VERBOSE), or `device` is 0. */
CUDASIM_EXPORT void *cudasim_host(uint64_t device, size_t bytes);

#endif
