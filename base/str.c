/* The string builder, the content hash, edit distance and the path matcher. Appending after a failure does nothing, so
 * writers need one check at the end. The hash is part of files on disk and of random streams: it may never change. */
#include "base/str.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool reserve(mpc_str *s, size_t extra) {
    if (s->failed) return false;
    if (extra < s->capacity - s->length) return true;
    size_t capacity = s->capacity < 64 ? 64 : s->capacity;
    bool fits = extra < SIZE_MAX / 4 && s->length < SIZE_MAX / 4;
    while (fits && capacity - s->length <= extra) capacity *= 2;
    char *data = fits ? mpc_realloc(s->data, capacity) : NULL;
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity = capacity;
    return true;
}

void mpc_str_append_n(mpc_str *s, const char *text, size_t length) {
    if (!reserve(s, length)) return;
    if (length) memcpy(s->data + s->length, text, length);
    s->length += length;
    s->data[s->length] = '\0';
}

void mpc_str_append(mpc_str *s, const char *text) { mpc_str_append_n(s, text, strlen(text)); }

void mpc_str_vprintf(mpc_str *s, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    size_t room = s->failed ? 0 : s->capacity - s->length;
    int length = vsnprintf(room ? s->data + s->length : NULL, room, format, args);
    if (length < 0) {
        s->failed = true;
    } else if ((size_t)length < room) {
        s->length += (size_t)length;
    } else if (reserve(s, (size_t)length)) {
        vsnprintf(s->data + s->length, (size_t)length + 1, format, again);
        s->length += (size_t)length;
    } else if (s->data) {
        s->data[s->length] = '\0';
    }
    va_end(again);
}

void mpc_str_printf(mpc_str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mpc_str_vprintf(s, format, args);
    va_end(args);
}

void mpc_str_clear(mpc_str *s) {
    s->length = 0;
    s->failed = false;
    if (s->data) s->data[0] = '\0';
}

void mpc_str_free(mpc_str *s) {
    mpc_free(s->data);
    *s = (mpc_str){0};
}

const char *mpc_str_cstr(const mpc_str *s) { return s->data ? s->data : ""; }

uint64_t mpc_hash_bytes(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t mpc_hash_str(const char *text) { return mpc_hash_bytes(text, strlen(text)); }

void mpc_hash_text(const void *data, size_t size, char out[17]) {
    snprintf(out, 17, "%016" PRIx64, mpc_hash_bytes(data, size));
}

const char *mpc_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool mpc_ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* One row of the distance table after another; `row[j]` is the distance of a[0..i] and b[0..j]. */
static unsigned next_row(unsigned *row, char c, unsigned i, const char *b, size_t length) {
    unsigned diagonal = row[0], smallest = row[0] = i + 1;
    for (size_t j = 0; j < length; j++) {
        unsigned above = row[j + 1];
        unsigned best = diagonal + (b[j] != c);
        if (above + 1 < best) best = above + 1;
        if (row[j] + 1 < best) best = row[j] + 1;
        row[j + 1] = best;
        diagonal = above;
        if (best < smallest) smallest = best;
    }
    return smallest;
}

unsigned mpc_edit_distance(const char *a, const char *b, unsigned limit) {
    enum { LONGEST = 127 };
    size_t la = strlen(a), lb = strlen(b);
    size_t gap = la > lb ? la - lb : lb - la;
    if (gap > limit) return limit + 1;
    if (la > LONGEST || lb > LONGEST) return strcmp(a, b) == 0 ? 0 : limit + 1;
    unsigned row[LONGEST + 1];
    for (unsigned j = 0; j <= lb; j++) row[j] = j;
    for (unsigned i = 0; i < la; i++)
        if (next_row(row, a[i], i, b, lb) > limit) return limit + 1;
    return row[lb] > limit ? limit + 1 : row[lb];
}

static size_t segment_length(const char *s) { return strcspn(s, "."); }

/* `*` matches any bytes of one segment; greedy with one point to come back to. */
static bool segment_matches(const char *glob, size_t glob_length, const char *text, size_t text_length) {
    size_t g = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < text_length) {
        if (g < glob_length && glob[g] == '*') {
            star = g++;
            resume = t;
        } else if (g < glob_length && glob[g] == text[t]) {
            g++, t++;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (g < glob_length && glob[g] == '*') g++;
    return g == glob_length;
}

/* The same over segments, with `**` in the part of the star: the point to come back to is its latest occurrence. */
bool mpc_glob_match(const char *glob, const char *path) {
    const char *g = glob, *p = path; /* NULL: past the last segment */
    const char *star = NULL, *resume = NULL;
    bool has_star = false;
    while (p) {
        size_t gl = g ? segment_length(g) : 0, pl = segment_length(p);
        if (g && gl == 2 && g[0] == '*' && g[1] == '*') {
            has_star = true;
            star = g = g[gl] ? g + gl + 1 : NULL;
            resume = p;
        } else if (g && segment_matches(g, gl, p, pl)) {
            g = g[gl] ? g + gl + 1 : NULL;
            p = p[pl] ? p + pl + 1 : NULL;
        } else if (has_star) {
            size_t skip = segment_length(resume);
            resume = resume[skip] ? resume + skip + 1 : NULL;
            g = star;
            p = resume;
        } else {
            return false;
        }
    }
    while (g && strcmp(g, "**") != 0 && strncmp(g, "**.", 3) == 0) g += 3;
    return !g || strcmp(g, "**") == 0;
}

/* Names a number's special values, or makes digits look like a float's. */
static void append_number(mpc_str *s, const char *digits) {
    mpc_str_append(s, digits);
    if (!strpbrk(digits, ".e")) mpc_str_append(s, ".0");
}

static bool append_special(mpc_str *s, double value) {
    if (isnan(value)) mpc_str_append(s, "nan");
    else if (isinf(value)) mpc_str_append(s, value < 0 ? "-inf" : "inf");
    else return false;
    return true;
}

void mpc_str_append_double(mpc_str *s, double value) {
    if (append_special(s, value)) return;
    char digits[40];
    int precision =
        fabs(value) >= DBL_MIN ? DBL_DIG : 1; /* normal numbers: DBL_DIG digits survive, so fewer need no try */
    do snprintf(digits, sizeof digits, "%.*g", precision, value);
    while (strtod(digits, NULL) != value && precision++ < DBL_DECIMAL_DIG);
    append_number(s, digits);
}

void mpc_str_append_float(mpc_str *s, float value) {
    if (append_special(s, (double)value)) return;
    char digits[40];
    int precision = fabsf(value) >= FLT_MIN ? FLT_DIG : 1;
    do snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    while (strtof(digits, NULL) != value && precision++ < FLT_DECIMAL_DIG);
    append_number(s, digits);
}
