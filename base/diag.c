/* Building, sending, collecting and naming diagnostics, and the source texts that spans point into. A diagnostic is
 * borrowed by the sink for the length of one call; who keeps it copies it (mpc_diag_list does). Rendering is in
 * diag_render.c. */
#include "base/diag.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/array.h"

typedef struct source {
    const char *name, *text;
    size_t length;
    uint32_t *lines; /* byte offset of each line's first byte */
    uint32_t line_count;
} source;

struct mpc_sources {
    mpc_arena *arena;
    MPC_ARRAY(source) files; /* file id - 1 */
};

mpc_sources *mpc_sources_create(void) {
    mpc_sources *sources = mpc_alloc(sizeof *sources);
    if (!sources) return NULL;
    *sources = (mpc_sources){.arena = mpc_arena_create()};
    if (sources->arena) return sources;
    mpc_free(sources);
    return NULL;
}

void mpc_sources_destroy(mpc_sources *sources) {
    if (!sources) return;
    mpc_arena_destroy(sources->arena);
    mpc_array_free(&sources->files);
    mpc_free(sources);
}

static bool index_lines(mpc_arena *arena, source *file) {
    uint32_t count = 1;
    for (size_t i = 0; i < file->length; i++) count += file->text[i] == '\n';
    file->lines = mpc_arena_alloc(arena, count * sizeof *file->lines);
    if (!file->lines) return false;
    file->line_count = 1;
    for (size_t i = 0; i < file->length; i++)
        if (file->text[i] == '\n') file->lines[file->line_count++] = (uint32_t)i + 1;
    return true;
}

uint32_t mpc_sources_add(mpc_sources *sources, const char *name, const char *text, size_t length) {
    if (length >= UINT32_MAX || sources->files.count >= UINT32_MAX - 1) return 0;
    source file = {.name = mpc_arena_strdup(sources->arena, name), .length = length};
    file.text = mpc_arena_strndup(sources->arena, text, length);
    if (!file.name || !file.text || !index_lines(sources->arena, &file)) return 0;
    return mpc_array_push(&sources->files, file) ? (uint32_t)sources->files.count : 0;
}

static const source *get_source(const mpc_sources *sources, uint32_t file) {
    return sources && file && file <= sources->files.count ? &sources->files.data[file - 1] : NULL;
}

uint32_t mpc_sources_find(const mpc_sources *sources, const char *name) {
    for (size_t i = sources->files.count; i > 0; i--)
        if (strcmp(sources->files.data[i - 1].name, name) == 0) return (uint32_t)i;
    return 0;
}

const char *mpc_sources_name(const mpc_sources *sources, uint32_t file) {
    const source *s = get_source(sources, file);
    return s ? s->name : "";
}

const char *mpc_sources_text(const mpc_sources *sources, uint32_t file, size_t *length) {
    const source *s = get_source(sources, file);
    if (length) *length = s ? s->length : 0;
    return s ? s->text : "";
}

void mpc_sources_locate(const mpc_sources *sources, uint32_t file, uint32_t offset, uint32_t *line, uint32_t *column) {
    *line = *column = 1;
    const source *s = get_source(sources, file);
    if (!s) return;
    if (offset > s->length) offset = (uint32_t)s->length;
    uint32_t low = 0, high = s->line_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (s->lines[middle] <= offset) low = middle;
        else high = middle;
    }
    *line = low + 1;
    for (uint32_t i = s->lines[low]; i < offset; i++) *column += ((unsigned char)s->text[i] & 0xc0) != 0x80;
}

/* Fills in the message. */
static void send_diag(const mpc_sink *sink, mpc_diag *diag, const char *format, va_list args) {
    if (!sink || !sink->emit) return;
    mpc_str text = {0};
    mpc_str_vprintf(&text, format, args);
    diag->message = text.failed ? "(no memory to say what is wrong)" : mpc_str_cstr(&text);
    sink->emit(sink->user, diag);
    mpc_str_free(&text);
}

static void send(const mpc_sink *sink, mpc_severity severity, const char *code, mpc_span span, const char *format,
                 va_list args) {
    mpc_label label = {span, ""};
    mpc_diag diag = {.severity = severity, .code = code, .labels = &label, .label_count = span.file != 0};
    send_diag(sink, &diag, format, args);
}

mpc_status mpc_error(const mpc_sink *sink, const char *code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    send(sink, MPC_SEV_ERROR, code, (mpc_span){0}, format, args);
    va_end(args);
    return MPC_FAILED;
}

mpc_status mpc_error_at(const mpc_sink *sink, const char *code, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    send(sink, MPC_SEV_ERROR, code, span, format, args);
    va_end(args);
    return MPC_FAILED;
}

mpc_status mpc_error_help(const mpc_sink *sink, const char *code, const char *place, const char *help,
                          const char *format, ...) {
    mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = code, .place = place, .help = help};
    va_list args;
    va_start(args, format);
    send_diag(sink, &diag, format, args);
    va_end(args);
    return MPC_FAILED;
}

void mpc_warn(const mpc_sink *sink, const char *code, mpc_span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    send(sink, MPC_SEV_WARNING, code, span, format, args);
    va_end(args);
}

struct mpc_diag_list {
    mpc_arena *arena;
    MPC_ARRAY(mpc_diag *) items;
};

mpc_diag_list *mpc_diag_list_create(void) {
    mpc_diag_list *list = mpc_alloc(sizeof *list);
    if (!list) return NULL;
    *list = (mpc_diag_list){.arena = mpc_arena_create()};
    if (list->arena) return list;
    mpc_free(list);
    return NULL;
}

void mpc_diag_list_destroy(mpc_diag_list *list) {
    if (!list) return;
    mpc_arena_destroy(list->arena);
    mpc_array_free(&list->items);
    mpc_free(list);
}

static const char *copy_text(mpc_arena *arena, const char *text, bool *ok) {
    const char *copy = text ? mpc_arena_strdup(arena, text) : NULL;
    *ok = *ok && (!text || copy);
    return copy;
}

static const mpc_label *copy_labels(mpc_arena *arena, const mpc_label *labels, size_t count, bool *ok) {
    mpc_label *copy = count ? mpc_arena_alloc(arena, count * sizeof *copy) : NULL;
    *ok = *ok && (!count || copy);
    for (size_t i = 0; copy && i < count; i++)
        copy[i] = (mpc_label){labels[i].span, copy_text(arena, labels[i].text ? labels[i].text : "", ok)};
    return copy;
}

/* What can't be copied for want of memory is dropped as a whole. */
static void collect(void *user, const mpc_diag *diag) {
    mpc_diag_list *list = user;
    bool ok = true;
    mpc_diag *copy = mpc_arena_alloc(list->arena, sizeof *copy);
    if (!copy) return;
    *copy = *diag;
    copy->code = copy_text(list->arena, diag->code ? diag->code : "", &ok);
    copy->message = copy_text(list->arena, diag->message, &ok);
    copy->place = copy_text(list->arena, diag->place, &ok);
    copy->help = copy_text(list->arena, diag->help, &ok);
    copy->labels = copy_labels(list->arena, diag->labels, diag->label_count, &ok);
    copy->notes = copy_labels(list->arena, diag->notes, diag->note_count, &ok);
    if (ok) (void)mpc_array_push(&list->items, copy);
}

mpc_sink mpc_diag_list_sink(mpc_diag_list *list) { return (mpc_sink){collect, list}; }
size_t mpc_diag_list_count(const mpc_diag_list *list) { return list->items.count; }
const mpc_diag *mpc_diag_list_get(const mpc_diag_list *list, size_t index) { return list->items.data[index]; }

typedef struct code_row {
    const char *code, *title, *text;
} code_row;

static const code_row code_rows[] = {
#define CODE(code, title, text) {code, title, text},
#include "base/diag_codes.def"
#undef CODE
};

static const code_row *find_code(const char *code) {
    for (size_t i = 0; i < sizeof code_rows / sizeof *code_rows; i++)
        if (strcmp(code_rows[i].code, code) == 0) return &code_rows[i];
    return NULL;
}

const char *mpc_diag_code_title(const char *code) {
    const code_row *row = find_code(code);
    return row ? row->title : NULL;
}

const char *mpc_diag_code_text(const char *code) {
    const code_row *row = find_code(code);
    return row ? row->text : NULL;
}

size_t mpc_diag_code_count(void) { return sizeof code_rows / sizeof *code_rows; }
const char *mpc_diag_code_at(size_t index) { return index < mpc_diag_code_count() ? code_rows[index].code : NULL; }
