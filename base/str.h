/* A string builder with a sticky out-of-memory flag: append freely, check once at the end. */
#ifndef MPC_BASE_STR_H
#define MPC_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpc_str {
    char *data; /* NUL-terminated once anything was appended; NULL before */
    size_t length, capacity;
    bool failed;
} mpc_str;

void mpc_str_append(mpc_str *s, const char *text);
void mpc_str_append_n(mpc_str *s, const char *text, size_t length);
void mpc_str_printf(mpc_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mpc_str_vprintf(mpc_str *s, const char *format, va_list args);
void mpc_str_clear(mpc_str *s); /* keeps the storage */
void mpc_str_free(mpc_str *s);
/* "" instead of NULL */
const char *mpc_str_cstr(const mpc_str *s);

/* FNV-1a, 64 bit; used for content keys and random streams, so it may never change. */
uint64_t mpc_hash_bytes(const void *data, size_t size);
uint64_t mpc_hash_str(const char *text);
/* The hash of bytes as 16 digits. */
void mpc_hash_text(const void *data, size_t size, char out[17]);

/* What stands behind the last slash of a path: part of `path`. */
const char *mpc_path_name(const char *path);
bool mpc_ends_with(const char *text, const char *end);

/* Levenshtein distance with early exit: returns limit + 1 when the distance is greater than `limit`. */
unsigned mpc_edit_distance(const char *a, const char *b, unsigned limit);

/* One matcher for params, policy, freeze, --rename, explain: '.'-separated segments, `*` one segment (or part of
 * one), `**` any number of segments. Bytes are compared as they are. */
bool mpc_glob_match(const char *glob, const char *path);

/* Shortest decimal text that strtod reads back to the same double (f32: strtof to the same float); always with '.',
 * 'e', "inf" or "nan". */
void mpc_str_append_double(mpc_str *s, double value);
void mpc_str_append_float(mpc_str *s, float value);

#endif
