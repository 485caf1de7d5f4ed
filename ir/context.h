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
    MPC_FMT_count
} mpc_format;

typedef enum mpc_format_kind { MPC_FORMAT_FLOAT, MPC_FORMAT_INT, MPC_FORMAT_BOOL } mpc_format_kind;

typedef struct mpc_format_info {
    const char *name;
    unsigned bytes;
    mpc_format_kind kind;
    mpc_numfmt fmt; /* of floats */
    bool storable;
} mpc_format_info;

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
