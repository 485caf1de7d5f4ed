/* NPY, numpy's file of one array: a line of Python that says type, order and shape, then the numbers. The line is read
 * by a parser of just what numpy writes; sizes are multiplied with checks and compared with the file before anybody
 * believes them. A file with more bytes than its shape takes is refused as one with fewer: either shows a lying header.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"

enum { MAX_HEADER = 1 << 20 };

typedef struct npy_header {
    const mpc_sink *sink;
    mpc_array *a;
    const char *p;
    bool has_descr, has_order, has_shape;
} npy_header;

static mpc_status bad(const npy_header *h, const char *expected) {
    char found[24];
    size_t n = 0;
    for (const char *p = h->p; *p && n + 1 < sizeof found; p++) found[n++] = isprint((unsigned char)*p) ? *p : '?';
    found[n] = '\0';
    return mpc_error(h->sink, "E219", "%s: the header of this NPY is damaged: expected %s, found `%s`", h->a->shown,
                     expected, found);
}

static void skip_blanks(npy_header *h) {
    while (*h->p == ' ' || *h->p == '\n' || *h->p == '\t') h->p++;
}

static bool take(npy_header *h, char c) {
    skip_blanks(h);
    if (*h->p != c) return false;
    h->p++;
    return true;
}

/* 'text' or "text". */
static bool take_string(npy_header *h, char *out, size_t size) {
    skip_blanks(h);
    char quote = *h->p;
    if (quote != '\'' && quote != '"') return false;
    const char *end = strchr(h->p + 1, quote);
    if (!end || (size_t)(end - h->p - 1) >= size) return false;
    memcpy(out, h->p + 1, (size_t)(end - h->p - 1));
    out[end - h->p - 1] = '\0';
    h->p = end + 1;
    return true;
}

static const char *why_not(char kind) {
    return kind == 'O'                  ? "Python objects are not read: save plain numbers"
           : kind == 'c'                ? "complex numbers are not read"
           : kind == 'U' || kind == 'S' ? "text is not read: number the words first"
           : kind == 'M' || kind == 'm' ? "times are not read: save them as numbers"
                                        : "read are f2 f4 f8, i1 to i8, u1 to u8 and bool: x.astype(np.float32)";
}

static mpc_status take_type(npy_header *h) {
    char text[64];
    if (h->has_descr) return bad(h, "each key once");
    skip_blanks(h);
    if (*h->p == '[')
        return mpc_error(h->sink, "E219", "%s holds records of several fields; save each field as an array of its own",
                         h->a->shown);
    if (!take_string(h, text, sizeof text)) return bad(h, "a type such as '<f4'");
    const char *t = text + (text[0] && strchr("<>|=", text[0]) != NULL);
    int size = isdigit((unsigned char)t[0] ? (unsigned char)t[1] : 0) && t[2] == '\0' ? t[1] - '0' : 0;
    bool power = size == 1 || size == 2 || size == 4 || size == 8;
    bool known =
        (t[0] == 'f' && power && size > 1) || ((t[0] == 'i' || t[0] == 'u') && power) || (t[0] == 'b' && size == 1);
    if (!known)
        return mpc_error(h->sink, "E219", "%s holds numbers of type '%s'; %s", h->a->shown, text, why_not(t[0]));
    h->a->element = (mpc_element){.kind = t[0] == 'f'   ? MPC_ELEMENT_FLOAT
                                          : t[0] == 'i' ? MPC_ELEMENT_INT
                                          : t[0] == 'u' ? MPC_ELEMENT_UINT
                                                        : MPC_ELEMENT_BOOL,
                                  .size = (uint8_t)size,
                                  .swapped = text[0] == '>' && size > 1};
    h->has_descr = true;
    return MPC_OK;
}

static bool take_word(npy_header *h, const char *word) {
    skip_blanks(h);
    size_t n = strlen(word);
    if (strncmp(h->p, word, n) != 0) return false;
    h->p += n;
    return true;
}

/* Columns first: only a list of numbers looks the same both ways, which the shape decides. */
static mpc_status take_order(npy_header *h, bool *columns_first) {
    if (h->has_order) return bad(h, "each key once");
    *columns_first = take_word(h, "True");
    if (!*columns_first && !take_word(h, "False")) return bad(h, "True or False");
    h->has_order = true;
    return MPC_OK;
}

static mpc_status take_shape(npy_header *h) {
    if (h->has_shape) return bad(h, "each key once");
    if (!take(h, '(')) return bad(h, "a shape such as (100, 3)");
    while (!take(h, ')')) {
        skip_blanks(h);
        if (!isdigit((unsigned char)*h->p)) return bad(h, "a size");
        if (h->a->rank == MPC_MAX_RANK)
            return mpc_error(h->sink, "E219", "%s has more than %d axes", h->a->shown, MPC_MAX_RANK);
        int64_t n = 0;
        for (; isdigit((unsigned char)*h->p); h->p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *h->p - '0', &n))
                return bad(h, "a size below 2^63");
        if (*h->p == 'L') h->p++; /* written by Python 2 */
        h->a->dims[h->a->rank++] = n;
        if (!take(h, ',') && (skip_blanks(h), *h->p != ')')) return bad(h, "`,` or `)`");
    }
    h->has_shape = true;
    return MPC_OK;
}

static mpc_status take_entries(npy_header *h, bool *columns_first) {
    if (!take(h, '{')) return bad(h, "`{`");
    while (!take(h, '}')) {
        char key[32];
        if (!take_string(h, key, sizeof key) || !take(h, ':')) return bad(h, "'descr', 'fortran_order' or 'shape'");
        mpc_status status = strcmp(key, "descr") == 0           ? take_type(h)
                            : strcmp(key, "fortran_order") == 0 ? take_order(h, columns_first)
                            : strcmp(key, "shape") == 0         ? take_shape(h)
                                                                : bad(h, "'descr', 'fortran_order' or 'shape'");
        if (status != MPC_OK) return status;
        if (!take(h, ',') && (skip_blanks(h), *h->p != '}')) return bad(h, "`,` or `}`");
    }
    skip_blanks(h);
    if (*h->p) return bad(h, "the end");
    return h->has_descr && h->has_order && h->has_shape ? MPC_OK : bad(h, "'descr', 'fortran_order' and 'shape'");
}

/* Bytes of the elements: the product of all sizes, which may pass what the machine counts. */
static bool count_bytes(const mpc_array *a, uint64_t *bytes) {
    *bytes = a->element.size;
    bool empty = false, fits = true;
    for (uint32_t i = 0; i < a->rank; i++) {
        empty = empty || a->dims[i] == 0;
        fits = fits && (empty || !__builtin_mul_overflow(*bytes, (uint64_t)a->dims[i], bytes));
    }
    if (empty) *bytes = 0;
    return fits && *bytes <= INT64_MAX;
}

static mpc_status check_shape(const npy_header *h, bool columns_first, uint64_t there) {
    mpc_array *a = h->a;
    if (a->rank == 0) return mpc_error(h->sink, "E219", "%s holds a single number, which has no rows", a->shown);
    bool fits = count_bytes(a, &a->bytes);
    if (!fits || a->bytes != there)
        return mpc_error(h->sink, "E219", "%s: its shape takes %s%llu bytes, but %llu are there%s", a->shown,
                         fits ? "" : "more than ", fits ? (unsigned long long)a->bytes : (unsigned long long)INT64_MAX,
                         (unsigned long long)there, fits && a->bytes > there ? ": is the file cut off?" : "");
    if (a->bytes == 0) return mpc_error(h->sink, "E214", "%s holds no numbers", a->shown);
    a->columns_first = columns_first && a->rank > 1;
    if (a->columns_first && a->bytes > MPC_DATA_IN_MEMORY)
        return mpc_error(h->sink, "E219",
                         "%s is stored column by column, and of more than 64 MiB; save np.ascontiguousarray(x)",
                         a->shown);
    if (a->dims[0] >= UINT32_MAX)
        return mpc_error(h->sink, "E219", "%s has more than %u rows", a->shown, UINT32_MAX - 1);
    return MPC_OK;
}

static mpc_status parse_text(npy_header *h, const char *text, size_t length, uint64_t there) {
    bool columns_first = false;
    h->p = text;
    if (strlen(text) != length) return bad(h, "no zero byte");
    mpc_status status = take_entries(h, &columns_first);
    return status == MPC_OK ? check_shape(h, columns_first, there) : status;
}

mpc_status mpc_npy_parse(const mpc_sink *sink, mpc_array *a, const mpc_npy_source *from) {
    npy_header h = {.sink = sink, .a = a};
    unsigned char head[12];
    uint64_t all = from->end - from->begin;
    if (all < 10)
        return mpc_error(sink, "E219", "%s has %llu bytes: too few for an NPY", a->shown, (unsigned long long)all);
    if (!from->read(from->user, from->begin, head, 10)) return MPC_FAILED;
    if (memcmp(head, "\x93NUMPY", 6) != 0)
        return mpc_error(sink, "E219",
                         "%s is no NPY: it begins with %02X %02X %02X %02X %02X %02X, not with 93 4E 55 4D 50 59",
                         a->shown, head[0], head[1], head[2], head[3], head[4], head[5]);
    if (head[6] < 1 || head[6] > 3)
        return mpc_error(sink, "E219", "%s is an NPY of version %d; read are 1, 2 and 3", a->shown, head[6]);
    uint64_t length = head[8] | (uint64_t)head[9] << 8, begin = 10;
    if (head[6] > 1) {
        if (all < 12 || !from->read(from->user, from->begin, head, 12))
            return all < 12 ? mpc_error(sink, "E219", "%s is cut off in its header", a->shown) : MPC_FAILED;
        length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
        begin = 12;
    }
    if (length > MAX_HEADER || length > all - begin)
        return mpc_error(sink, "E219", "%s: a header of %llu bytes doesn't fit into %llu", a->shown,
                         (unsigned long long)length, (unsigned long long)all);
    char *text = mpc_alloc((size_t)length + 1);
    if (!text) return MPC_NO_MEMORY;
    text[length] = '\0';
    mpc_status status = from->read(from->user, from->begin + begin, text, length) ? MPC_OK : MPC_FAILED;
    a->offset = from->begin + begin + length;
    if (status == MPC_OK) status = parse_text(&h, text, (size_t)length, from->end - a->offset);
    mpc_free(text);
    return status;
}

typedef struct open_file {
    const mpc_sink *sink;
    const char *shown;
    int fd;
} open_file;

static bool read_file(void *user, uint64_t offset, void *out, uint64_t n) {
    const open_file *f = user;
    return mpc_data_pread(f->sink, f->shown, f->fd, offset, out, n);
}

static mpc_status load(mpc_dataset *d, const char *path, const char *name) {
    mpc_array *a = mpc_dataset_add_array(d, name, path, path);
    if (!a) return MPC_NO_MEMORY;
    int fd = mpc_data_open_regular(path, &d->sink, &a->file_size);
    if (fd < 0) return MPC_FAILED;
    open_file f = {.sink = &d->sink, .shown = path, .fd = fd};
    mpc_npy_source source = {.read = read_file, .user = &f, .end = a->file_size};
    mpc_status status = mpc_npy_parse(&d->sink, a, &source);
    close(fd);
    d->rows = a->dims[0];
    return status;
}

mpc_dataset *mpc_dataset_open_npy(const char *path, const char *name, bool keep_nonfinite, const mpc_sink *sink) {
    mpc_dataset *d = mpc_dataset_create(path, sink);
    if (d) d->keep_nonfinite = keep_nonfinite;
    return mpc_dataset_opened(d, d ? load(d, path, name) : MPC_NO_MEMORY, path, sink);
}
