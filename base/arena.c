/* An arena is a list of chunks; allocation moves a pointer in the newest. Chunks grow with the arena, so a large graph
 * costs few heap calls and a small one little memory. What is too large for a chunk gets one of its own, behind the
 * current one. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIGNMENT = 16, FIRST_CHUNK = 4096, LARGEST_CHUNK = 1 << 20 };

typedef struct chunk {
    struct chunk *previous;
    size_t used, capacity; /* bytes of `bytes` */
    _Alignas(ALIGNMENT) unsigned char bytes[];
} chunk;

struct mpc_arena {
    chunk *current;
    size_t next_chunk;
    size_t total; /* bytes taken from the heap */
};

mpc_arena *mpc_arena_create(void) {
    mpc_arena *arena = mpc_alloc(sizeof *arena);
    if (arena) *arena = (mpc_arena){.next_chunk = FIRST_CHUNK, .total = sizeof *arena};
    return arena;
}

void mpc_arena_destroy(mpc_arena *arena) {
    if (!arena) return;
    for (chunk *c = arena->current; c;) {
        chunk *previous = c->previous;
        mpc_free(c);
        c = previous;
    }
    mpc_free(arena);
}

static chunk *add_chunk(mpc_arena *arena, size_t capacity) {
    if (capacity > SIZE_MAX - sizeof(chunk)) return NULL;
    chunk *c = mpc_alloc(sizeof(chunk) + capacity);
    if (!c) return NULL;
    c->used = 0;
    c->capacity = capacity;
    arena->total += sizeof(chunk) + capacity;
    return c;
}

static void *take(chunk *c, size_t size) {
    void *p = c->bytes + c->used;
    c->used += size;
    return memset(p, 0, size);
}

void *mpc_arena_alloc(mpc_arena *arena, size_t size) {
    if (size > SIZE_MAX - ALIGNMENT) return NULL;
    size = size ? (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
    chunk *current = arena->current;
    if (current && size <= current->capacity - current->used) return take(current, size);
    if (current && size > arena->next_chunk / 4) { /* its own chunk; the current one keeps its rest */
        chunk *own = add_chunk(arena, size);
        if (!own) return NULL;
        own->previous = current->previous;
        current->previous = own;
        return take(own, size);
    }
    chunk *c = add_chunk(arena, size > arena->next_chunk ? size : arena->next_chunk);
    if (!c) return NULL;
    c->previous = current;
    arena->current = c;
    if (arena->next_chunk < LARGEST_CHUNK) arena->next_chunk *= 2;
    return take(c, size);
}

char *mpc_arena_strndup(mpc_arena *arena, const char *text, size_t length) {
    if (length == SIZE_MAX) return NULL;
    char *copy = mpc_arena_alloc(arena, length + 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *mpc_arena_strdup(mpc_arena *arena, const char *text) { return mpc_arena_strndup(arena, text, strlen(text)); }

char *mpc_arena_printf(mpc_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) return NULL;
    char *text = mpc_arena_alloc(arena, (size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

size_t mpc_arena_bytes(const mpc_arena *arena) { return arena->total; }
