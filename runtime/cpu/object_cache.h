/* Compiled translation units on disk: CACHE/HASH.so, each followed by a trailer that proves it whole. */
#ifndef MPC_RUNTIME_CPU_OBJECT_CACHE_H
#define MPC_RUNTIME_CPU_OBJECT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* The folder to use, in `arena`, made if need be. Unless it is `wanted`, one in $TMPDIR or /tmp that only the user can
 * write to stands in for a home that can't be written to. NULL: none of them. */
const char *mpc_cache_folder(const char *wanted, mpc_arena *arena);
/* The file is there and complete. Another file of that name is removed. */
bool mpc_cache_check(const char *path);
/* Appends the trailer to a finished object and gives it its name at once, whoever else does the same. */
bool mpc_cache_publish(const char *temporary, const char *path);

#endif
