/* Reports of the front end. The text of a report lives in the model's arena, so nothing needs freeing on the way out. A
 * report that repeats an earlier one (same code, same place) is dropped: a block that is called twelve times has one
 * mistake, not twelve. */
#include "frontend/fe_diag.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

static const char *format_text(fe_model_diag *d, const char *format, va_list args) {
    mpc_str s = {0};
    mpc_str_vprintf(&s, format, args);
    const char *text = s.failed ? NULL : mpc_arena_strdup(d->arena, mpc_str_cstr(&s));
    mpc_str_free(&s);
    if (text) return text;
    d->no_memory = true;
    return "";
}

fe_report fe_begin(fe_model_diag *d, mpc_severity severity, const char *code, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *message = format_text(d, format, args);
    va_end(args);
    fe_report r = {.d = d, .severity = severity, .code = code, .message = message};
    if (span.file) r.labels[r.label_count++] = (mpc_label){span, ""};
    return r;
}

void fe_label(fe_report *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (r->label_count) r->labels[0].text = format_text(r->d, format, args);
    va_end(args);
}

void fe_second(fe_report *r, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (r->label_count < FE_MAX_LABELS)
        r->labels[r->label_count++] = (mpc_label){span, format_text(r->d, format, args)};
    va_end(args);
}

void fe_note(fe_report *r, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (r->note_count < FE_MAX_NOTES) r->notes[r->note_count++] = (mpc_label){span, format_text(r->d, format, args)};
    va_end(args);
}

void fe_help(fe_report *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    r->help = format_text(r->d, format, args);
    va_end(args);
}

/* true the first time */
static bool remember(fe_model_diag *d, const fe_report *r) {
    if (!r->label_count) return true;
    mpc_span span = r->labels[0].span;
    for (uint32_t i = 0; i < d->seen_count; i++) {
        const fe_seen *s = &d->seen[i];
        if (s->span.file == span.file && s->span.begin == span.begin && s->span.end == span.end &&
            strcmp(s->code, r->code) == 0)
            return false;
    }
    size_t capacity = d->seen_capacity;
    if (!mpc_array_reserve_((void **)&d->seen, &capacity, d->seen_count, 1, sizeof *d->seen)) {
        d->no_memory = true;
        return true;
    }
    d->seen_capacity = (uint32_t)capacity;
    d->seen[d->seen_count++] = (fe_seen){r->code, span, r->severity == MPC_SEV_ERROR};
    return true;
}

void fe_send(fe_report *r) {
    fe_model_diag *d = r->d;
    if (d->no_memory || !remember(d, r)) return;
    if (r->severity == MPC_SEV_ERROR && d->errors++ >= FE_MAX_ERRORS) return;
    if (d->chain) d->chain(d->chain_user, r);
    const mpc_sink *sink = mpc_context_sink(d->ctx);
    if (!sink || !sink->emit) return;
    mpc_diag diag = {.severity = r->severity,
                     .code = r->code,
                     .message = r->message,
                     .place = r->place,
                     .labels = r->labels,
                     .label_count = r->label_count,
                     .notes = r->notes,
                     .note_count = r->note_count,
                     .help = r->help};
    sink->emit(sink->user, &diag);
}

void fe_error(fe_model_diag *d, const char *code, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *message = format_text(d, format, args);
    va_end(args);
    fe_report r = fe_begin(d, MPC_SEV_ERROR, code, span, "%s", message);
    fe_send(&r);
}

void fe_warning(fe_model_diag *d, const char *code, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *message = format_text(d, format, args);
    va_end(args);
    fe_report r = fe_begin(d, MPC_SEV_WARNING, code, span, "%s", message);
    fe_send(&r);
}

void fe_no_memory(fe_model_diag *d) {
    if (d->errors) return;
    d->no_memory = true;
    d->errors++;
    mpc_error(mpc_context_sink(d->ctx), "E901", "out of memory while reading the model");
}

void fe_diag_restart(fe_model_diag *d) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->seen_count; i++)
        if (!d->seen[i].error) d->seen[kept++] = d->seen[i];
    d->seen_count = kept;
    d->errors = 0;
    d->no_memory = false;
}

void fe_diag_deinit(fe_model_diag *d) {
    mpc_free(d->seen);
    d->seen = NULL;
    d->seen_count = d->seen_capacity = 0;
}

const char *fe_place_text(fe_model_diag *d, mpc_span span) {
    if (!span.file) return "";
    const mpc_sources *sources = mpc_context_sources(d->ctx);
    uint32_t line = 0, column = 0;
    mpc_sources_locate(sources, span.file, span.begin, &line, &column);
    const char *name = mpc_sources_name(sources, span.file);
    if (strncmp(name, "--", 2) == 0) return name; /* an option has one line */
    const char *text = mpc_arena_printf(d->arena, "%s:%u", name, line);
    return text ? text : "";
}
