/* Arrays of numbers in files: opened, read into memory when small, read piece by piece when large. Nothing is trusted
 * that a header says before it was compared with the size of the file, and a file that became shorter since is an error
 * of the read that meets its end. Large arrays are read with pread: a mapping would answer a shrunken file with a
 * signal. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/numfmt.h"
#include "runtime/data/dataset_impl.h"

static const char *kind_of_file(mode_t mode) {
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

int mpc_data_open_regular(const char *path, const mpc_sink *sink, uint64_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait for its writer */
    if (fd < 0 || fstat(fd, &info) != 0) {
        mpc_error(sink, "E210", "can't open %s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        mpc_error(sink, "E210", "%s is %s, not a file", path, kind_of_file(info.st_mode));
    } else {
        *size = (uint64_t)info.st_size;
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

bool mpc_data_pread(const mpc_sink *sink, const char *shown, int fd, uint64_t offset, void *out, uint64_t n) {
    for (uint64_t done = 0; done < n;) {
        uint64_t left = n - done;
        ssize_t got =
            pread(fd, (char *)out + done, left > (1u << 30) ? 1u << 30 : (size_t)left, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            mpc_error(sink, "E210", "can't read %s at byte %llu: %s", shown, (unsigned long long)(offset + done),
                      strerror(errno));
            return false;
        }
        if (got == 0) {
            mpc_error(sink, "E218", "%s ends at byte %llu, where %llu more were there when it was opened", shown,
                      (unsigned long long)(offset + done), (unsigned long long)left);
            return false;
        }
        done += (uint64_t)got;
    }
    return true;
}

uint64_t mpc_data_memory_limit(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 36;
}

static char *copy_text(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = mpc_alloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

mpc_array *mpc_dataset_add_array(mpc_dataset *d, const char *name, const char *path, const char *shown) {
    mpc_array a = {.name = copy_text(name), .path = copy_text(path), .shown = copy_text(shown), .member = -1, .fd = -1};
    if (a.name && a.path && a.shown && mpc_array_push(&d->arrays, a)) return &d->arrays.data[d->arrays.count - 1];
    mpc_array_free_parts(&a);
    return NULL;
}

void mpc_array_free_parts(mpc_array *a) {
    if (a->fd >= 0) close(a->fd);
    mpc_free(a->name);
    mpc_free(a->path);
    mpc_free(a->shown);
    mpc_free(a->memory);
}

int64_t mpc_array_width(const mpc_array *a) {
    int64_t n = 1;
    for (uint32_t i = 1; i < a->rank; i++) n *= a->dims[i];
    return n;
}

static mpc_status read_small(const mpc_dataset *d, mpc_array *a) {
    a->memory = mpc_alloc(a->bytes ? (size_t)a->bytes : 1);
    if (!a->memory) return mpc_data_no_memory(d);
    if (mpc_data_pread(&d->sink, a->shown, a->fd, a->offset, a->memory, a->bytes)) return MPC_OK;
    mpc_free(a->memory);
    a->memory = NULL;
    return MPC_FAILED;
}

/* The place of element `i`, counted row by row, in an array that is stored column by column. */
static uint64_t place_by_columns(const mpc_array *a, uint64_t i) {
    uint64_t place = 0;
    for (uint32_t k = a->rank; k-- > 0; i /= (uint64_t)a->dims[k])
        place = place * (uint64_t)a->dims[k] + i % (uint64_t)a->dims[k];
    return place;
}

static mpc_status turn_around(const mpc_dataset *d, mpc_array *a) {
    size_t size = a->element.size;
    unsigned char *rows = mpc_alloc((size_t)a->bytes);
    if (!rows) return mpc_data_no_memory(d);
    for (uint64_t i = 0; i < a->bytes / size; i++)
        memcpy(rows + i * size, a->memory + place_by_columns(a, i) * size, size);
    mpc_free(a->memory);
    a->memory = rows;
    return MPC_OK;
}

static mpc_status open_array(const mpc_dataset *d, mpc_array *a) {
    if (a->member >= 0) return mpc_npz_inflate(d, a);
    uint64_t size = 0;
    a->fd = mpc_data_open_regular(a->path, &d->sink, &size);
    if (a->fd < 0) return MPC_FAILED;
    mpc_status status = MPC_OK;
    if (size != a->file_size)
        status = mpc_error(&d->sink, "E218", "%s has %llu bytes, it had %llu when it was opened", a->shown,
                           (unsigned long long)size, (unsigned long long)a->file_size);
    else if (a->bytes <= MPC_DATA_IN_MEMORY) status = read_small(d, a);
    if (status == MPC_OK && !a->memory) return MPC_OK;
    close(a->fd);
    a->fd = -1;
    return status;
}

mpc_status mpc_array_prepare(const mpc_dataset *d, mpc_array *a) {
    if (a->memory || a->fd >= 0) return MPC_OK;
    mpc_status status = open_array(d, a);
    return status == MPC_OK && a->columns_first ? turn_around(d, a) : status;
}

mpc_status mpc_array_read(const mpc_dataset *d, const mpc_array *a, int64_t first, int64_t count, void *out) {
    uint64_t at = (uint64_t)first * a->element.size, n = (uint64_t)count * a->element.size;
    if (!a->memory) return mpc_data_pread(&d->sink, a->shown, a->fd, a->offset + at, out, n) ? MPC_OK : MPC_FAILED;
    memcpy(out, a->memory + at, (size_t)n);
    return MPC_OK;
}

static uint64_t bits_of(mpc_element e, const unsigned char *p) {
    uint64_t bits = 0;
    for (int i = 0; i < e.size; i++) {
        int from = e.swapped ? i : e.size - 1 - i; /* this machine is little endian */
        bits = bits << 8 | p[from];
    }
    return bits;
}

static int64_t signed_of(uint64_t bits, int size) {
    int shift = 64 - 8 * size;
    return (int64_t)(bits << shift) >> shift;
}

double mpc_element_number(mpc_element e, const unsigned char *p) {
    uint64_t bits = bits_of(e, p);
    if (e.kind == MPC_ELEMENT_INT) return (double)signed_of(bits, e.size);
    if (e.kind == MPC_ELEMENT_BOOL) return bits != 0;
    if (e.kind == MPC_ELEMENT_UINT) return (double)bits;
    if (e.size == 2) return (double)mpc_f16_to_f32((uint16_t)bits);
    if (e.size == 8) {
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    uint32_t low = (uint32_t)bits;
    float narrow;
    memcpy(&narrow, &low, sizeof narrow);
    return (double)narrow;
}

bool mpc_element_integer(mpc_element e, const unsigned char *p, int64_t *value) {
    uint64_t bits = bits_of(e, p);
    if (e.kind == MPC_ELEMENT_FLOAT) {
        double v = mpc_element_number(e, p);
        if (!(v >= -0x1p63 && v < 0x1p63)) return false;
        *value = (int64_t)v;
        return (double)*value == v;
    }
    *value = e.kind == MPC_ELEMENT_INT    ? signed_of(bits, e.size)
             : e.kind == MPC_ELEMENT_BOOL ? bits != 0
                                          : (int64_t)bits;
    return e.kind != MPC_ELEMENT_UINT || bits <= INT64_MAX;
}
