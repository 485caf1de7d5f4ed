/* One word of a model's text in another way, for explain to try what it advises. The file on disk stays as it is; the
 * text is added to the sources under the same name, so whoever wants the one that the user wrote asks the session for
 * its own (mpc_session.text), not the sources for the latest. */
#include <string.h>

#include "driver/cli.h"

/* The line's text without its end; NULL: there are fewer. */
static const char *find_line(const char *text, size_t length, uint32_t line, size_t *size) {
    const char *at = text, *end = text + length;
    for (; line > 1 && at < end; at++) line -= *at == '\n';
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    *size = (size_t)((stop ? stop : end) - at);
    return line == 1 ? at : NULL;
}

/* Where `from` stands in the line, or its first letter; `size`: not there. */
static size_t find_word(const char *line, size_t size, const char *from) {
    size_t n = strlen(from), at = 0;
    if (!n)
        while (at < size && (line[at] == ' ' || line[at] == '\t')) at++;
    while (n && at < size && (size - at < n || strncmp(line + at, from, n) != 0)) at++;
    return at;
}

uint32_t mpc_edit_source(mpc_sources *sources, uint32_t file, const mpc_text_edit *edit) {
    size_t length = 0, size = 0;
    const char *name = mpc_sources_name(sources, file), *text = mpc_sources_text(sources, file, &length);
    if (strcmp(name, edit->file) != 0) return file;
    const char *line = find_line(text, length, edit->line, &size);
    if (!line) return 0;
    size_t word = find_word(line, size, edit->from), before = (size_t)(line - text) + word,
           after = before + strlen(edit->from);
    if (word == size) return 0;
    mpc_str changed = {0};
    mpc_str_append_n(&changed, text, before);
    mpc_str_append(&changed, edit->to);
    mpc_str_append_n(&changed, text + after, length - after);
    uint32_t other = changed.failed ? 0 : mpc_sources_add(sources, name, changed.data, changed.length);
    mpc_str_free(&changed);
    return other;
}
