/* What graphs of one session share: interned symbols and types, the op registry, the diagnostics sink.
 * A context is used by one thread at a time. Everything here lives until mpc_context_destroy. */
#ifndef MPC_IR_CONTEXT_H
#define MPC_IR_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/numfmt.h"
#include "base/status.h"

typedef uint32_t mpc_sym; /* interned string; 0 is the empty string and means "none" */
typedef uint32_t mpc_type_id; /* interned tensor type; 0 is "no type" */

typedef enum mpc_format {
    MPC_FMT_none = 0,
#define FORMAT(name, bytes, kind, e, f, inf, sat, storable) MPC_FMT_##name,
#include "ir/formats.def"
#undef FORMAT
    MPC_FMT_builtin_count,
    MPC_FMT_user = MPC_FMT_builtin_count, /* the first of MPC_USER_FORMATS places for formats that plugins bring */
    MPC_FMT_count = MPC_FMT_user + 4      /* size of tables by format; a place that nobody took is no format */
} mpc_format;
enum { MPC_USER_FORMATS = MPC_FMT_count - MPC_FMT_user };

typedef enum mpc_format_kind { MPC_FORMAT_FLOAT, MPC_FORMAT_INT, MPC_FORMAT_BOOL } mpc_format_kind;

typedef struct mpc_format_info {
    const char *name;
    unsigned bytes; /* of an element here; a user's format is simulated in 4 */
    unsigned bits;  /* of an element on a device that has the format: what costs count */
    mpc_format_kind kind;
    mpc_numfmt fmt; /* of floats */
    bool storable;
} mpc_format_info;

/* Takes a place for a float format of 2 to 8 exponent bits and 1 to 22 fraction bits. Formats belong to the process, as the built-in
 * ones do: one that has been added stays, and adding the same one again gives the same place. To be called while no other thread
 * uses formats. E372: the name is taken by another format, or no place is left. */
mpc_status mpc_format_register(const char *name, const mpc_numfmt *fmt, const mpc_sink *sink, mpc_format *format);
/* The same checks, without taking anything. */
mpc_status mpc_format_check(const char *name, const mpc_numfmt *fmt, const mpc_sink *sink);
bool mpc_format_is_user(mpc_format format);

const mpc_format_info *mpc_format_get(mpc_format format);
mpc_format mpc_format_find(const char *name); /* MPC_FMT_none when unknown */
bool mpc_format_is_float(mpc_format format);
/* f16, bf16 and narrower */
bool mpc_format_is_low(mpc_format format);
/* The format that holds both (f16 with bf16 gives f32), as a concat or an add of the two would need (N43). */
mpc_format mpc_format_join(mpc_format a, mpc_format b);

enum { MPC_MAX_RANK = 8 };

typedef struct mpc_type {
    mpc_format format;
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK];
} mpc_type;

typedef struct mpc_context mpc_context;
struct mpc_op;

/* Registers every row of ir/ops.def (shape, eval, sample rules). `passes` adds gradient and expansion rules
 * (mpc_passes_register). `sink` and `sources` must outlive the context. NULL when out of memory. */
mpc_context *mpc_context_create(const mpc_sink *sink, mpc_sources *sources);
void mpc_context_destroy(mpc_context *ctx);
const mpc_sink *mpc_context_sink(const mpc_context *ctx);
mpc_sources *mpc_context_sources(const mpc_context *ctx);

/* What plugins add to tables of other layers: rows by kind and name, which live as long as the context. `name` and `row` are the
 * caller's. */
typedef enum mpc_extension_kind { MPC_EXT_PASS, MPC_EXT_SOLVER, MPC_EXT_COSTS, MPC_EXT_KINDS } mpc_extension_kind;
mpc_status mpc_context_extend(mpc_context *ctx, mpc_extension_kind kind, const char *name, const void *row);
uint32_t mpc_context_extension_count(const mpc_context *ctx, mpc_extension_kind kind);
const void *mpc_context_extension_at(const mpc_context *ctx, mpc_extension_kind kind, uint32_t index);
const void *mpc_context_find_extension(const mpc_context *ctx, mpc_extension_kind kind, const char *name); /* NULL: none */
/* Memory that lives as long as the context; zeroed; NULL when out of memory. */
void *mpc_context_alloc(mpc_context *ctx, size_t size);
/* `release(owned)` is called after everything else of the context is gone; false (and not called) when out of memory. */
bool mpc_context_own(mpc_context *ctx, void (*release)(void *owned), void *owned);

mpc_sym mpc_intern(mpc_context *ctx, const char *text); /* 0 when out of memory or text is "" */
mpc_sym mpc_intern_n(mpc_context *ctx, const char *text, size_t length);
const char *mpc_sym_text(const mpc_context *ctx, mpc_sym sym);

/* 0 when out of memory, when rank > MPC_MAX_RANK, a dim is negative, or the element count passes 2^62. */
mpc_type_id mpc_type_make(mpc_context *ctx, mpc_format format, uint32_t rank, const int64_t *dims);
const mpc_type *mpc_type_get(const mpc_context *ctx, mpc_type_id id);
/* Same dims, other format. */
mpc_type_id mpc_type_with_format(mpc_context *ctx, mpc_type_id id, mpc_format format);
int64_t mpc_type_elements(const mpc_type *type); /* 1 for a scalar */
int64_t mpc_type_bytes(const mpc_type *type);
/* "f32[64,784]" */
void mpc_type_print(const mpc_type *type, mpc_str *out);

#endif
