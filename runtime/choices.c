/* What timing chose, as text by key. A set has one owner, the device and library it was made on: choices of another one
 * are refused, never dropped, since they decide bits. The file is the owner's line and the choices sorted by key, so
 * equal sets are equal files. */
#include "runtime/choices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "runtime/file_sync.h"

struct mpc_choices {
    mpc_map *index; /* key -> values */
    MPC_ARRAY(char *) values;
    char *owner; /* NULL: none yet */
    bool changed;
};

static const char owner_key[] = "owner";

mpc_choices *mpc_choices_create(void) {
    mpc_choices *c = mpc_alloc(sizeof *c);
    if (c == NULL) return NULL;
    *c = (mpc_choices){.index = mpc_map_create()};
    if (c->index != NULL) return c;
    mpc_free(c);
    return NULL;
}

void mpc_choices_destroy(mpc_choices *c) {
    if (c == NULL) return;
    for (size_t i = 0; i < c->values.count; i++) mpc_free(c->values.data[i]);
    mpc_array_free(&c->values);
    mpc_map_destroy(c->index);
    mpc_free(c->owner);
    mpc_free(c);
}

static char *copy_text(const char *text, size_t length) {
    char *copy = mpc_alloc(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

mpc_status mpc_choices_claim(mpc_choices *c, const char *owner, const mpc_sink *sink) {
    if (c->owner == NULL) {
        c->owner = copy_text(owner, strlen(owner));
        return c->owner != NULL ? MPC_OK : MPC_NO_MEMORY;
    }
    if (strcmp(c->owner, owner) == 0) return MPC_OK;
    return mpc_error(sink, "E363", "the choices were made on %s, this is %s", c->owner, owner);
}

const char *mpc_choices_get(const mpc_choices *c, const char *key) {
    uint32_t i;
    return mpc_map_get(c->index, key, &i) ? c->values.data[i] : NULL;
}

/* A line of the file holds both. */
static bool fits_a_line(const char *key, const char *value) {
    return key[0] != '\0' && strcmp(key, owner_key) != 0 && strpbrk(key, "\t\r\n") == NULL &&
           strpbrk(value, "\r\n") == NULL;
}

bool mpc_choices_set(mpc_choices *c, const char *key, const char *value) {
    if (!fits_a_line(key, value)) return false;
    uint32_t i;
    bool known = mpc_map_get(c->index, key, &i);
    if (known && strcmp(c->values.data[i], value) == 0) return true;
    char *copy = copy_text(value, strlen(value));
    if (copy == NULL) return false;
    if (known) {
        mpc_free(c->values.data[i]);
        c->values.data[i] = copy;
    } else if (!mpc_array_reserve(&c->values, 1) || !mpc_map_set(c->index, key, (uint32_t)c->values.count)) {
        mpc_free(copy);
        return false;
    } else {
        c->values.data[c->values.count++] = copy;
    }
    c->changed = true;
    return true;
}

bool mpc_choices_changed(const mpc_choices *c) { return c->changed; }

/* ---- file ---- */

static mpc_status read_line(mpc_choices *c, char *line, const char *path, uint32_t number, const mpc_sink *sink) {
    char *tab = strchr(line, '\t');
    if (tab == NULL) return mpc_error(sink, "E364", "%s, line %u: no tab between key and value", path, number);
    *tab = '\0';
    if (number == 1) {
        if (strcmp(line, owner_key) != 0) return mpc_error(sink, "E364", "%s, line 1 doesn't name the owner", path);
        return tab[1] == '\0' ? MPC_OK : mpc_choices_claim(c, tab + 1, sink); /* saved before any claim */
    }
    if (mpc_choices_get(c, line) != NULL)
        return mpc_error(sink, "E364", "%s, line %u: a second `%s`", path, number, line);
    if (!fits_a_line(line, tab + 1)) return mpc_error(sink, "E364", "%s, line %u: not a key and a value", path, number);
    return mpc_choices_set(c, line, tab + 1) ? MPC_OK : MPC_NO_MEMORY;
}

static mpc_status read_lines(mpc_choices *c, mpc_str *text, const char *path, const mpc_sink *sink) {
    uint32_t number = 0;
    char *line = text->data, *end = text->data + text->length;
    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        number++;
        if (stop == NULL) return mpc_error(sink, "E364", "%s, line %u is cut off", path, number);
        *stop = '\0';
        if (strlen(line) != (size_t)(stop - line))
            return mpc_error(sink, "E364", "%s, line %u holds a zero byte", path, number);
        mpc_status status = read_line(c, line, path, number, sink);
        if (status != MPC_OK) return status;
        line = stop + 1;
    }
    return MPC_OK;
}

static mpc_status read_file(FILE *file, const char *path, mpc_str *text, const mpc_sink *sink) {
    char block[4096];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0) mpc_str_append_n(text, block, got);
    if (ferror(file)) return mpc_error(sink, "E364", "%s can't be read: %s", path, strerror(errno));
    return text->failed ? MPC_NO_MEMORY : MPC_OK;
}

mpc_status mpc_choices_load(mpc_choices *c, const char *path, const mpc_sink *sink) {
    FILE *file = fopen(path, "rb");
    if (file == NULL && errno == ENOENT) return MPC_OK;
    if (file == NULL) return mpc_error(sink, "E364", "%s can't be opened: %s", path, strerror(errno));
    mpc_str text = {0};
    mpc_status status = read_file(file, path, &text, sink);
    fclose(file);
    if (status == MPC_OK && text.length > 0) status = read_lines(c, &text, path, sink);
    mpc_str_free(&text);
    if (status == MPC_OK) c->changed = false;
    return status;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_choices(const mpc_choices *c, mpc_str *out) {
    size_t count = mpc_map_count(c->index);
    const char **keys = mpc_alloc(count * sizeof *keys);
    if (keys == NULL) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) keys[i] = mpc_map_key(c->index, i);
    qsort(keys, count, sizeof *keys, compare_keys);
    mpc_str_printf(out, "%s\t%s\n", owner_key, c->owner != NULL ? c->owner : "");
    for (size_t i = 0; i < count; i++) mpc_str_printf(out, "%s\t%s\n", keys[i], mpc_choices_get(c, keys[i]));
    mpc_free(keys);
}

mpc_status mpc_choices_save(mpc_choices *c, const char *path, const mpc_sink *sink) {
    mpc_str text = {0};
    print_choices(c, &text);
    mpc_status status = text.failed ? MPC_NO_MEMORY : mpc_file_replace(path, text.data, text.length, sink);
    mpc_str_free(&text);
    if (status == MPC_OK) c->changed = false;
    return status;
}
