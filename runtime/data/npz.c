/* NPZ, numpy's archive: a ZIP of NPY files. Large members that are stored as they are, numpy's way unless asked to
 * compress, are read in place like a file; all others are unpacked when a field asks for them. Of members that no
 * mapping takes only the name is read: they may hold anything. What the directory of the archive says of sizes is
 * compared with what deflate could make of the bytes before memory is taken. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"

#ifdef MPC_HAS_MINIZIP
#include <unzip.h>

enum {
    MAX_MEMBERS = 65536,
    MAX_NAME = 512,
    MAX_RATIO = 1040, /* deflate makes at most 1032 bytes of one */
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8
};

typedef struct npz_reader {
    mpc_dataset *d;
    const mpc_field_filter *filter; /* NULL: all are read */
    unzFile zip;
    int fd;
    uint64_t size;
    mpc_array *a;
    uint64_t position; /* of the inflated bytes */
} npz_reader;

static mpc_status damaged(const mpc_dataset *d, const char *shown, const char *what) {
    return mpc_error(&d->sink, "E219", "%s: %s: the archive is damaged", shown, what);
}

static bool read_stored(void *user, uint64_t offset, void *out, uint64_t n) {
    const npz_reader *r = user;
    return mpc_data_pread(&r->d->sink, r->a->shown, r->fd, offset, out, n);
}

static bool inflate_bytes(npz_reader *r, unsigned char *out, uint64_t n) {
    for (uint64_t done = 0; done < n;) {
        uint64_t left = n - done;
        int got = unzReadCurrentFile(r->zip, out + done, left > (1u << 30) ? 1u << 30 : (unsigned)left);
        if (got <= 0) {
            mpc_error(&r->d->sink, "E219", "%s: its data end or break after %llu bytes, %llu more were promised",
                      r->a->shown, (unsigned long long)(r->position + done), (unsigned long long)left);
            return false;
        }
        done += (uint64_t)got;
    }
    r->position += n;
    return true;
}

/* The header is read from its begin twice over: 10 bytes, then 12, then the text. Bytes that were read are kept. */
typedef struct npz_head {
    npz_reader *reader;
    unsigned char seen[12];
    uint64_t count;
} npz_head;

static bool read_inflated(void *user, uint64_t offset, void *out, uint64_t n) {
    npz_head *h = user;
    if (offset == 0 && n <= sizeof h->seen) {
        if (n > h->count && !inflate_bytes(h->reader, h->seen + h->count, n - h->count)) return false;
        if (n > h->count) h->count = n;
        memcpy(out, h->seen, (size_t)n);
        return true;
    }
    return inflate_bytes(h->reader, out, n);
}

/* Large ones are read in place later; small ones like deflated ones, whose check sum is verified. */
static mpc_status parse_stored(npz_reader *r, const unz_file_info64 *info, int64_t number) {
    int method, level;
    if (unzOpenCurrentFile2(r->zip, &method, &level, 1) != UNZ_OK) return damaged(r->d, r->a->shown, "no such member");
    uint64_t begin = unzGetCurrentFileZStreamPos64(r->zip);
    unzCloseCurrentFile(r->zip);
    if (begin > r->size || info->compressed_size > r->size - begin || info->uncompressed_size != info->compressed_size)
        return damaged(r->d, r->a->shown, "its sizes don't fit");
    mpc_npy_source source = {.read = read_stored, .user = r, .begin = begin, .end = begin + info->compressed_size};
    mpc_status status = mpc_npy_parse(&r->d->sink, r->a, &source);
    if (status == MPC_OK && r->a->bytes <= MPC_DATA_IN_MEMORY) {
        r->a->member = number;
        r->a->offset -= begin;
    }
    return status;
}

static mpc_status parse_deflated(npz_reader *r, const unz_file_info64 *info, int64_t number) {
    if (info->compressed_size > r->size || info->uncompressed_size / MAX_RATIO > info->compressed_size)
        return damaged(r->d, r->a->shown, "deflate can't have packed so many bytes so tightly");
    if (unzOpenCurrentFile(r->zip) != UNZ_OK) return damaged(r->d, r->a->shown, "no such member");
    r->position = 0;
    npz_head head = {.reader = r};
    mpc_npy_source source = {.read = read_inflated, .user = &head, .end = info->uncompressed_size};
    mpc_status status = mpc_npy_parse(&r->d->sink, r->a, &source);
    unzCloseCurrentFile(r->zip);
    r->a->member = number;
    return status;
}

static mpc_status parse_member(npz_reader *r, const char *name, const unz_file_info64 *info, int64_t number) {
    char field[MAX_NAME], shown[1200];
    size_t n = strlen(name);
    snprintf(shown, sizeof shown, "%s (%s)", r->d->path, name);
    if (n <= 4 || strcmp(name + n - 4, ".npy") != 0)
        return mpc_error(&r->d->sink, "E219", "%s is no array: an NPZ holds .npy files", shown);
    memcpy(field, name, n - 4);
    field[n - 4] = '\0';
    for (size_t i = 0; i < r->d->arrays.count; i++)
        if (strcmp(r->d->arrays.data[i].name, field) == 0)
            return mpc_error(&r->d->sink, "E219", "%s: two members have this name", shown);
    r->a = mpc_dataset_add_array(r->d, field, r->d->path, shown);
    if (!r->a) return MPC_NO_MEMORY;
    r->a->file_size = r->size;
    if (r->filter && !r->filter->uses(r->filter->user, field)) return MPC_OK;
    if (info->flag & 1) return mpc_error(&r->d->sink, "E219", "%s is encrypted", shown);
    if (info->compression_method == METHOD_STORED) return parse_stored(r, info, number);
    if (info->compression_method == METHOD_DEFLATED) return parse_deflated(r, info, number);
    return mpc_error(&r->d->sink, "E219", "%s is packed by method %lu; np.savez and np.savez_compressed are read",
                     shown, info->compression_method);
}

static mpc_status parse_members(npz_reader *r) {
    int64_t number = 0;
    for (int at = unzGoToFirstFile(r->zip); at == UNZ_OK; at = unzGoToNextFile(r->zip), number++) {
        char name[MAX_NAME];
        unz_file_info64 info;
        if (number == MAX_MEMBERS) return damaged(r->d, r->d->path, "too many members");
        if (unzGetCurrentFileInfo64(r->zip, &info, name, sizeof name, NULL, 0, NULL, 0) != UNZ_OK ||
            info.size_filename >= sizeof name)
            return damaged(r->d, r->d->path, "the directory at its end");
        name[info.size_filename] = '\0';
        size_t good = mpc_data_utf8_prefix(name, info.size_filename);
        if (good < info.size_filename || strlen(name) != info.size_filename)
            return mpc_error(&r->d->sink, "E219", "%s: byte %zu of the name of member %lld is not UTF-8 text",
                             r->d->path, good, (long long)number);
        mpc_status status = parse_member(r, name, &info, number);
        if (status != MPC_OK) return status;
    }
    unz_global_info64 all;
    if (unzGetGlobalInfo64(r->zip, &all) == UNZ_OK && (int64_t)all.number_entry == number && number > 0) return MPC_OK;
    return number > 0 ? damaged(r->d, r->d->path, "the directory at its end")
                      : mpc_error(&r->d->sink, "E214", "%s holds no arrays", r->d->path);
}

static mpc_status open_archive(npz_reader *r, const char *path) {
    r->fd = mpc_data_open_regular(path, &r->d->sink, &r->size);
    if (r->fd < 0) return MPC_FAILED;
    r->zip = unzOpen64(path);
    if (r->zip) return MPC_OK;
    return mpc_error(&r->d->sink, "E219", "%s is no NPZ: a ZIP archive has a directory at its end, which isn't there",
                     path);
}

static void close_archive(npz_reader *r) {
    if (r->zip) unzClose(r->zip);
    if (r->fd >= 0) close(r->fd);
}

/* Where no mapping takes any, all are read, for the number of rows. */
static bool takes_none(const mpc_dataset *d, const mpc_field_filter *filter) {
    for (size_t i = 0; filter && i < d->arrays.count; i++)
        if (filter->uses(filter->user, d->arrays.data[i].name)) return false;
    return filter != NULL;
}

static mpc_status load(mpc_dataset *d, const char *path, const mpc_field_filter *filter) {
    npz_reader r = {.d = d, .filter = filter, .fd = -1};
    mpc_status status = open_archive(&r, path);
    if (status == MPC_OK) status = parse_members(&r);
    if (status == MPC_OK && takes_none(d, filter)) {
        r.filter = NULL;
        while (d->arrays.count) mpc_array_free_parts(&d->arrays.data[--d->arrays.count]);
        status = parse_members(&r);
    }
    close_archive(&r);
    return status;
}

static mpc_status inflate_all(npz_reader *r) {
    mpc_array *a = r->a;
    uint64_t head = a->offset;
    if (a->bytes > mpc_data_memory_limit()) {
        return mpc_error(&r->d->sink, "E219",
                         "%s inflates to %llu bytes, more than this machine's memory; np.savez packs nothing", a->shown,
                         (unsigned long long)a->bytes);
    }
    a->memory = mpc_alloc((size_t)(a->bytes > head ? a->bytes : head));
    if (!a->memory) return mpc_data_no_memory(r->d);
    r->position = 0;
    unsigned char more;
    bool ok = inflate_bytes(r, a->memory, head) && inflate_bytes(r, a->memory, a->bytes);
    if (ok && unzReadCurrentFile(r->zip, &more, 1) != 0) return damaged(r->d, a->shown, "more bytes than promised");
    return ok ? MPC_OK : MPC_FAILED;
}

mpc_status mpc_npz_inflate(const mpc_dataset *d, mpc_array *a) {
    npz_reader r = {.d = (mpc_dataset *)(uintptr_t)d, .fd = -1, .a = a};
    mpc_status status = open_archive(&r, a->path);
    bool there = status == MPC_OK && unzGoToFirstFile(r.zip) == UNZ_OK;
    for (int64_t i = 0; there && i < a->member; i++) there = unzGoToNextFile(r.zip) == UNZ_OK;
    if (status == MPC_OK && (!there || unzOpenCurrentFile(r.zip) != UNZ_OK))
        status = damaged(d, a->shown, "a member is gone");
    if (status == MPC_OK) {
        status = inflate_all(&r);
        if (unzCloseCurrentFile(r.zip) != UNZ_OK && status == MPC_OK)
            status = damaged(d, a->shown, "its check sum doesn't fit");
    }
    close_archive(&r);
    if (status == MPC_OK) return MPC_OK;
    mpc_free(a->memory);
    a->memory = NULL;
    return status;
}

#else

static mpc_status load(mpc_dataset *d, const char *path, const mpc_field_filter *filter) {
    (void)filter;
    return mpc_error(&d->sink, "E210",
                     "can't read %s: mpc was built without minizip; install libminizip-dev and build again", path);
}

mpc_status mpc_npz_inflate(const mpc_dataset *d, mpc_array *a) {
    return load((mpc_dataset *)(uintptr_t)d, a->path, NULL);
}

#endif

/* One number of rows for all arrays that the mapping takes. */
static mpc_status settle_rows(mpc_dataset *d, const mpc_field_filter *filter) {
    const mpc_array *first = NULL;
    for (size_t i = 0; i < d->arrays.count; i++) {
        const mpc_array *a = &d->arrays.data[i];
        if (filter && !filter->uses(filter->user, a->name)) continue;
        if (!first) first = a;
        if (a->dims[0] != first->dims[0])
            return mpc_error(&d->sink, "E220", "%s: `%s` has %lld rows, `%s` has %lld", d->path, first->name,
                             (long long)first->dims[0], a->name, (long long)a->dims[0]);
    }
    d->rows = first ? first->dims[0] : d->arrays.data[0].dims[0];
    return MPC_OK;
}

mpc_dataset *mpc_dataset_open_npz(const char *path, const mpc_field_filter *filter, bool keep_nonfinite,
                                  const mpc_sink *sink) {
    mpc_dataset *d = mpc_dataset_create(path, sink);
    mpc_status status = d ? load(d, path, filter) : MPC_NO_MEMORY;
    if (d) d->keep_nonfinite = keep_nonfinite;
    if (status == MPC_OK) status = settle_rows(d, filter);
    return mpc_dataset_opened(d, status, path, sink);
}
