/* Diagnostics for people (stderr, with colour on a terminal) and for programs (one JSON object a line). */
#include <jansson.h>
#include <string.h>

#include "driver/cli.h"

static json_t *span_json(const mpc_sources *sources, mpc_span span) {
    if (!span.file) return json_null();
    uint32_t line, column, end_line, end_column;
    mpc_sources_locate(sources, span.file, span.begin, &line, &column);
    mpc_sources_locate(sources, span.file, span.end, &end_line, &end_column);
    return json_pack("{s:s, s:i, s:i, s:i, s:i}", "file", mpc_sources_name(sources, span.file), "line", (int)line,
                     "column", (int)column, "end_line", (int)end_line, "end_column", (int)end_column);
}

static json_t *labels_json(const mpc_sources *sources, const mpc_label *labels, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s?, s:o}", "text", labels[i].text, "span", span_json(sources, labels[i].span)));
    return list;
}

static void print_json(const mpc_diag_printer *p, const mpc_diag *d) {
    static const char *const names[] = {"note", "warning", "error"};
    json_t *object =
        json_pack("{s:s, s:s?, s:s?, s:s?, s:o, s:o, s:s?}", "severity", names[d->severity], "code", d->code, "message",
                  d->message, "place", d->place, "labels", labels_json(p->sources, d->labels, d->label_count), "notes",
                  labels_json(p->sources, d->notes, d->note_count), "help", d->help);
    if (object) json_dumpf(object, p->to, JSON_COMPACT);
    fputc('\n', p->to);
    json_decref(object);
}

static void print_diag(void *user, const mpc_diag *diag) {
    const mpc_diag_printer *p = user;
    if (p->json) {
        print_json(p, diag);
        return;
    }
    mpc_str text = {0};
    mpc_diag_render(diag, p->sources, p->short_form, p->color, &text);
    if (text.failed) fprintf(p->to, "%s: %s\n", diag->code ? diag->code : "error", diag->message);
    else fputs(mpc_str_cstr(&text), p->to);
    mpc_str_free(&text);
}

static void drop(void *user, const mpc_diag *diag) {
    (void)user;
    (void)diag;
}

mpc_sink mpc_cli_mute(mpc_cli *cli) {
    mpc_sink before = cli->sink;
    cli->sink.emit = drop;
    return before;
}

mpc_sink mpc_diag_printer_sink(mpc_diag_printer *printer) { return (mpc_sink){.emit = print_diag, .user = printer}; }
