/* Text as characters: UTF-8 decoded to code points, numbered by their place in the sorted set of distinct ones. Line
 * ends are characters like any other; a byte order mark at the start is not. */
#include "runtime/data/dataset_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { CODE_POINTS = 0x110000 };

/* Decodes one code point; its length in bytes, 0 when the bytes aren't UTF-8 (overlong forms and surrogates too). */
static unsigned decode(const unsigned char *p, size_t n, uint32_t *point) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0) return 0;
    unsigned length = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (length == 0 || length > n) return 0;
    uint32_t v = length == 1 ? p[0] : p[0] & (0x7Fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0;
        v = v << 6 | (p[i] & 0x3Fu);
    }
    if (v < least[length] || v >= CODE_POINTS || (v >= 0xD800 && v < 0xE000)) return 0;
    *point = v;
    return length;
}

size_t mpc_data_utf8_prefix(const char *text, size_t size) {
    size_t i = 0;
    uint32_t point;
    for (unsigned n; i < size && (n = decode((const unsigned char *)text + i, size - i, &point)) > 0;) i += n;
    return i;
}

static void encode(uint32_t v, char out[8]) {
    memset(out, 0, 8);
    if (v < 0x80) {
        out[0] = (char)v;
    } else if (v < 0x800) {
        out[0] = (char)(0xC0 | v >> 6);
        out[1] = (char)(0x80 | (v & 0x3F));
    } else if (v < 0x10000) {
        out[0] = (char)(0xE0 | v >> 12);
        out[1] = (char)(0x80 | (v >> 6 & 0x3F));
        out[2] = (char)(0x80 | (v & 0x3F));
    } else {
        out[0] = (char)(0xF0 | v >> 18);
        out[1] = (char)(0x80 | (v >> 12 & 0x3F));
        out[2] = (char)(0x80 | (v >> 6 & 0x3F));
        out[3] = (char)(0x80 | (v & 0x3F));
    }
}

typedef struct text_points { /* code points, then numbers of characters: the memory becomes the dataset's array */
    int32_t *data;
    int64_t count;
} text_points;

static mpc_status decode_all(const mpc_dataset *d, const char *text, size_t size, text_points *t) {
    t->data = mpc_alloc((size + 1) * sizeof *t->data);
    if (!t->data) return MPC_NO_MEMORY;
    const unsigned char *p = (const unsigned char *)text;
    size_t i = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (i < size) {
        uint32_t point;
        unsigned length = decode(p + i, size - i, &point);
        if (length == 0)
            return mpc_data_error(d, "E215", 0, 0, NULL, "save the text as UTF-8",
                                  "byte %zu (0x%02X) is not UTF-8 text", i, p[i]);
        t->data[t->count++] = (int32_t)point;
        i += length;
    }
    return MPC_OK;
}

static mpc_status make_vocabulary(mpc_tokens *t, const text_points *points) {
    unsigned char *seen = mpc_alloc(CODE_POINTS / 8);
    if (!seen) return MPC_NO_MEMORY;
    memset(seen, 0, CODE_POINTS / 8);
    for (int64_t i = 0; i < points->count; i++) {
        uint32_t v = (uint32_t)points->data[i];
        if (!(seen[v / 8] >> (v % 8) & 1)) {
            seen[v / 8] = (unsigned char)(seen[v / 8] | 1u << (v % 8));
            t->vocabulary++;
        }
    }
    size_t n = (size_t)t->vocabulary;
    t->points = mpc_alloc(n * sizeof *t->points);
    t->text = mpc_alloc(n * sizeof *t->text);
    for (uint32_t v = 0, k = 0; t->points && t->text && v < CODE_POINTS; v++)
        if (seen[v / 8] >> (v % 8) & 1) {
            encode(v, t->text[k]);
            t->points[k++] = v;
        }
    mpc_free(seen);
    return t->points && t->text ? MPC_OK : MPC_NO_MEMORY;
}

static mpc_status copy_vocabulary(mpc_tokens *t, const mpc_tokens *from) {
    size_t n = (size_t)from->vocabulary;
    t->points = mpc_alloc(n * sizeof *t->points);
    t->text = mpc_alloc(n * sizeof *t->text);
    if (!t->points || !t->text) return MPC_NO_MEMORY;
    memcpy(t->points, from->points, n * sizeof *t->points);
    memcpy(t->text, from->text, n * sizeof *t->text);
    t->vocabulary = from->vocabulary;
    return MPC_OK;
}

static int64_t token_of_point(const mpc_tokens *t, uint32_t point) {
    int64_t low = 0, high = t->vocabulary;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (t->points[mid] < point) low = mid + 1;
        else high = mid;
    }
    return low < t->vocabulary && t->points[low] == point ? low : -1;
}

static mpc_status number_tokens(const mpc_dataset *d, text_points *points, const char *vocabulary_of) {
    const mpc_tokens *t = &d->tokens;
    int32_t *table = mpc_alloc(CODE_POINTS * sizeof *table);
    if (!table) return MPC_NO_MEMORY;
    memset(table, 0xFF, CODE_POINTS * sizeof *table);
    for (int64_t k = 0; k < t->vocabulary; k++) table[t->points[k]] = (int32_t)k;
    mpc_status status = MPC_OK;
    for (int64_t i = 0; i < points->count; i++) {
        uint32_t point = (uint32_t)points->data[i];
        points->data[i] = table[point];
        if (points->data[i] >= 0) continue;
        char shown[8];
        encode(point, shown);
        status = mpc_data_error(d, "E217", 0, 0, NULL, "add it to the training text, or take it out here",
                                "character %lld, `%s` (U+%04X), does not occur in %s", (long long)i + 1, shown, point,
                                vocabulary_of);
        break;
    }
    mpc_free(table);
    return status;
}

static mpc_status number(mpc_dataset *d, text_points *points, const mpc_dataset *like) {
    mpc_tokens *t = &d->tokens;
    if (points->count < t->length + 1)
        return mpc_data_error(d, "E216", 0, 0, NULL, "a shorter `length`, or more text",
                              "%lld characters, but one window and the character after it take %lld",
                              (long long)points->count, (long long)t->length + 1);
    mpc_status status = like ? copy_vocabulary(t, &like->root->tokens) : make_vocabulary(t, points);
    return status == MPC_OK ? number_tokens(d, points, like ? like->root->path : "") : status;
}

static mpc_status load(mpc_dataset *d, const char *text, size_t size, const mpc_dataset *like) {
    text_points points = {0};
    mpc_status status = decode_all(d, text, size, &points);
    if (status == MPC_OK) status = number(d, &points, like);
    mpc_array *a = status == MPC_OK ? mpc_dataset_add_array(d, "text", d->path, d->path) : NULL;
    if (status == MPC_OK && !a) status = MPC_NO_MEMORY;
    if (status != MPC_OK) {
        mpc_free(points.data);
        return status;
    }
    a->element = (mpc_element){.kind = MPC_ELEMENT_INT, .size = sizeof *points.data};
    a->rank = 1;
    a->dims[0] = points.count;
    a->bytes = (uint64_t)points.count * sizeof *points.data;
    a->memory = (unsigned char *)points.data;
    d->rows = (points.count - 1) / d->tokens.length;
    return MPC_OK;
}

mpc_dataset *mpc_dataset_open_text(const char *path, int64_t length, const mpc_dataset *like, const mpc_sink *sink) {
    char *text;
    size_t size;
    if (mpc_data_read_file(path, sink, &text, &size) != MPC_OK) return NULL;
    mpc_dataset *d = mpc_dataset_create(path, sink);
    mpc_status status = MPC_NO_MEMORY;
    if (d) {
        d->is_text = d->is_sequence = true;
        d->tokens.length = length > 0 ? length : 1;
        status = load(d, text, size, like);
    }
    mpc_free(text);
    return mpc_dataset_opened(d, status, path, sink);
}

int64_t mpc_dataset_vocabulary(const mpc_dataset *d) { return d->root->tokens.vocabulary; }

const char *mpc_dataset_token_text(const mpc_dataset *d, int64_t token) {
    const mpc_tokens *t = &d->root->tokens;
    return token >= 0 && token < t->vocabulary ? t->text[token] : "";
}

int64_t mpc_dataset_token_of(const mpc_dataset *d, const char *utf8, unsigned *length) {
    uint32_t point = 0;
    unsigned n = decode((const unsigned char *)utf8, strnlen(utf8, 4), &point);
    if (n == 0 && utf8[0] == '\0') n = 1; /* the character NUL can't be asked for */
    if (length) *length = n ? n : 1;
    return n && utf8[0] ? token_of_point(&d->root->tokens, point) : -1;
}
