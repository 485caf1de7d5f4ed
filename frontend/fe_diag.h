/* Diagnostics of the front end: at most ten errors, none twice for one place, and the chain of block calls added to
 * each. */
#ifndef MPC_FRONTEND_FE_DIAG_H
#define MPC_FRONTEND_FE_DIAG_H

#include "ir/context.h"

enum { FE_MAX_ERRORS = 10, FE_MAX_LABELS = 4, FE_MAX_NOTES = 12 };

struct fe_report;
typedef struct fe_seen {
    const char *code;
    mpc_span span;
    bool error;
} fe_seen;

typedef struct fe_model_diag {
    mpc_context *ctx;
    mpc_arena *arena; /* texts; lives as long as the model */
    unsigned errors;  /* sent so far */
    fe_seen *seen;
    uint32_t seen_count, seen_capacity;
    bool no_memory;
    void (*chain)(void *user, struct fe_report *report); /* adds "called from" notes; NULL: none */
    void *chain_user;
} fe_model_diag;

typedef struct fe_report {
    fe_model_diag *d;
    mpc_severity severity;
    const char *code, *message, *help, *place;
    mpc_label labels[FE_MAX_LABELS], notes[FE_MAX_NOTES];
    uint32_t label_count, note_count;
} fe_report;

/* A report whose first label is `span`, without text. */
fe_report fe_begin(fe_model_diag *d, mpc_severity severity, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Text of the first label. */
void fe_label(fe_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fe_second(fe_report *r, mpc_span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fe_note(fe_report *r, mpc_span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void fe_help(fe_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fe_send(fe_report *r);
/* One label without text. */
void fe_error(fe_model_diag *d, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void fe_warning(fe_model_diag *d, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A new elaboration: its errors count and are sent again, warnings stay said. */
void fe_diag_restart(fe_model_diag *d);
/* E901, once. */
void fe_no_memory(fe_model_diag *d);
void fe_diag_deinit(fe_model_diag *d);

/* "digits.mpg:12" in the diagnostics' arena. */
const char *fe_place_text(fe_model_diag *d, mpc_span span);

#endif
