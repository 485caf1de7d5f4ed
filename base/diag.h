/* Diagnostics: what the user is told. Library code builds one and sends it to a sink; only `driver` renders.
 * Spans are byte offsets into a registered source text; lines and columns are computed when rendering. */
#ifndef MPC_BASE_DIAG_H
#define MPC_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"

/* Source texts of a session. File ids start at 1; 0 means "no place". */
typedef struct mpc_sources mpc_sources;
mpc_sources *mpc_sources_create(void);
void mpc_sources_destroy(mpc_sources *sources);
/* Copies `name` and `text`; a file added twice under one name gets a new id. 0 when out of memory. */
uint32_t mpc_sources_add(mpc_sources *sources, const char *name, const char *text, size_t length);
uint32_t mpc_sources_find(const mpc_sources *sources, const char *name); /* the latest of that name; 0: none */
const char *mpc_sources_name(const mpc_sources *sources, uint32_t file);
const char *mpc_sources_text(const mpc_sources *sources, uint32_t file, size_t *length);
/* 1-based line and column (column counts UTF-8 characters, tab as one). */
void mpc_sources_locate(const mpc_sources *sources, uint32_t file, uint32_t offset, uint32_t *line, uint32_t *column);

typedef struct mpc_span {
    uint32_t file; /* 0: none */
    uint32_t begin, end; /* byte offsets, half open */
} mpc_span;

typedef enum mpc_severity { MPC_SEV_NOTE, MPC_SEV_WARNING, MPC_SEV_ERROR } mpc_severity;

typedef struct mpc_label {
    mpc_span span;
    const char *text; /* shown under the span; may be "" */
} mpc_label;

typedef struct mpc_diag {
    mpc_severity severity;
    const char *code; /* "E020", "W101" */
    const char *message;
    const char *place; /* for what has no span: "digits-train.csv, row 214, column 65: `10`"; or NULL */
    const mpc_label *labels; /* the first one is the place of the error */
    size_t label_count;
    const mpc_label *notes; /* text with an optional span (file 0: none) */
    size_t note_count;
    const char *help; /* or NULL */
} mpc_diag;

/* `emit` must copy what it keeps. */
typedef struct mpc_sink {
    void (*emit)(void *user, const mpc_diag *diag);
    void *user;
} mpc_sink;

/* An error or warning without a span, printf-style. Returns MPC_FAILED, so `return mpc_error(...)`. NULL sink: dropped. */
mpc_status mpc_error(const mpc_sink *sink, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
mpc_status mpc_error_at(const mpc_sink *sink, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* With what to do about it; `place`: a file or folder, NULL: none. */
mpc_status mpc_error_help(const mpc_sink *sink, const char *code, const char *place, const char *help,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
void mpc_warn(const mpc_sink *sink, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Form for people, appended to `out`: message, place, the line with carets, notes, help. `short_form`: one line. `color`: ANSI. */
void mpc_diag_render(const mpc_diag *diag, const mpc_sources *sources, bool short_form, bool color, mpc_str *out);

/* A deep copy collector, for tests and --json. */
typedef struct mpc_diag_list mpc_diag_list;
mpc_diag_list *mpc_diag_list_create(void);
void mpc_diag_list_destroy(mpc_diag_list *list);
mpc_sink mpc_diag_list_sink(mpc_diag_list *list);
size_t mpc_diag_list_count(const mpc_diag_list *list);
const mpc_diag *mpc_diag_list_get(const mpc_diag_list *list, size_t index);

/* Every code has one row in base/diag_codes.def: code, title, explanation (for `mpc help E031`). */
const char *mpc_diag_code_title(const char *code); /* NULL: unknown */
const char *mpc_diag_code_text(const char *code);
size_t mpc_diag_code_count(void);
const char *mpc_diag_code_at(size_t index);

#endif
