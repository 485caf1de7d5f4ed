/* Memory that lives and dies together: a context's, a graph's, a program's. Nothing is freed singly. */
#ifndef MPC_BASE_ARENA_H
#define MPC_BASE_ARENA_H

#include <stddef.h>

typedef struct mpc_arena mpc_arena;

mpc_arena *mpc_arena_create(void); /* NULL when out of memory */
void mpc_arena_destroy(mpc_arena *arena); /* NULL is fine */

/* Zeroed, aligned to 16 bytes; NULL when out of memory. */
void *mpc_arena_alloc(mpc_arena *arena, size_t size);
char *mpc_arena_strndup(mpc_arena *arena, const char *text, size_t length);
char *mpc_arena_strdup(mpc_arena *arena, const char *text);
char *mpc_arena_printf(mpc_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t mpc_arena_bytes(const mpc_arena *arena);

#endif
