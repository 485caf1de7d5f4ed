/* IDX, the format of the MNIST files: two zero bytes, a type, the number of axes, big-endian sizes, then the numbers.
 * Plain files are read in place; gzipped ones are inflated as a whole. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"

enum { FIXED = 4, MAX_HEAD = FIXED + 4 * MPC_MAX_RANK };

static bool find_element(unsigned char code, mpc_element *out) {
    static const struct {
        unsigned char code;
        mpc_element element;
    } types[] = {{0x08, {MPC_ELEMENT_UINT, 1, false}}, {0x09, {MPC_ELEMENT_INT, 1, false}},
                 {0x0B, {MPC_ELEMENT_INT, 2, true}},   {0x0C, {MPC_ELEMENT_INT, 4, true}},
                 {0x0D, {MPC_ELEMENT_FLOAT, 4, true}}, {0x0E, {MPC_ELEMENT_FLOAT, 8, true}}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == code) {
            *out = types[i].element;
            return true;
        }
    return false;
}

/* The first bytes of a file of `size` bytes, of which min(size, MAX_HEAD) are in `head`. */
static mpc_status parse_head(const mpc_sink *sink, mpc_array *a, const unsigned char *head, uint64_t size) {
    if (size < FIXED || head[0] != 0 || head[1] != 0 || !find_element(head[2], &a->element))
        return mpc_error(
            sink, "E219",
            "%s is no IDX: it begins with %02X %02X %02X, not with 00 00 and a type 08, 09, 0B, 0C, 0D or 0E", a->shown,
            head[0], head[1], head[2]);
    a->rank = head[3];
    if (a->rank == 0 || a->rank > MPC_MAX_RANK)
        return mpc_error(sink, "E219", "%s has %u axes; read are 1 to %d", a->shown, a->rank, MPC_MAX_RANK);
    a->offset = FIXED + 4 * (uint64_t)a->rank;
    if (size < a->offset) return mpc_error(sink, "E219", "%s is cut off in its header", a->shown);
    a->bytes = a->element.size;
    bool fits = true;
    for (uint32_t i = 0; i < a->rank; i++) {
        const unsigned char *p = head + FIXED + 4 * i;
        a->dims[i] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
        if (a->dims[i] == 0) return mpc_error(sink, "E214", "%s holds no numbers", a->shown);
        fits = fits && !__builtin_mul_overflow(a->bytes, (uint64_t)a->dims[i], &a->bytes);
    }
    if (!fits || a->bytes != size - a->offset)
        return mpc_error(sink, "E219", "%s: its sizes take %s%llu bytes, but %llu are there%s", a->shown,
                         fits ? "" : "more than ", fits ? (unsigned long long)a->bytes : (unsigned long long)UINT64_MAX,
                         (unsigned long long)(size - a->offset),
                         fits && a->bytes > size - a->offset ? ": is the file cut off?" : "");
    return MPC_OK;
}

static bool is_gzip(const unsigned char *head, uint64_t size) {
    return size >= 2 && head[0] == 0x1F && head[1] == 0x8B;
}

static mpc_status load_gzip(const mpc_sink *sink, mpc_array *a) {
    char *data;
    size_t size;
    if (mpc_data_read_file(a->path, sink, &data, &size) != MPC_OK) return MPC_FAILED;
    unsigned char head[MAX_HEAD] = {0};
    memcpy(head, data, size < sizeof head ? size : sizeof head);
    mpc_status status = parse_head(sink, a, head, size);
    if (status == MPC_OK) {
        memmove(data, data + a->offset, (size_t)a->bytes);
        a->memory = (unsigned char *)data;
        return MPC_OK;
    }
    mpc_free(data);
    return status;
}

static mpc_status load_file(const mpc_sink *sink, mpc_array *a) {
    unsigned char head[MAX_HEAD] = {0};
    int fd = mpc_data_open_regular(a->path, sink, &a->file_size);
    if (fd < 0) return MPC_FAILED;
    uint64_t n = a->file_size < sizeof head ? a->file_size : sizeof head;
    bool ok = mpc_data_pread(sink, a->shown, fd, 0, head, n);
    close(fd);
    if (!ok) return MPC_FAILED;
    return is_gzip(head, a->file_size) ? load_gzip(sink, a) : parse_head(sink, a, head, a->file_size);
}

static mpc_status load(mpc_dataset *d, const char *name, const char *path) {
    mpc_array *a = mpc_dataset_add_array(d, name, path, path);
    if (!a) return MPC_NO_MEMORY;
    mpc_status status = load_file(&d->sink, a);
    const mpc_array *first = &d->arrays.data[0];
    if (status == MPC_OK && a->dims[0] != first->dims[0])
        return mpc_error(&d->sink, "E220", "%s has %lld rows, %s has %lld", first->path, (long long)first->dims[0],
                         path, (long long)a->dims[0]);
    d->rows = a->dims[0];
    return status;
}

mpc_dataset *mpc_dataset_open_idx(const char *images, const char *labels, bool keep_nonfinite, const mpc_sink *sink) {
    const char *path = images ? images : labels;
    mpc_dataset *d = mpc_dataset_create(path, sink);
    mpc_status status = d ? MPC_OK : MPC_NO_MEMORY;
    if (d) d->keep_nonfinite = keep_nonfinite;
    if (status == MPC_OK && images) status = load(d, "images", images);
    if (status == MPC_OK && labels) status = load(d, "labels", labels);
    return mpc_dataset_opened(d, status, path, sink);
}
