/* The safetensors format: 8 bytes little-endian header length, a JSON header, the tensors' bytes. Every number in a
 * file is untrusted: nothing is used before it was checked, and a message says at which byte the file is wrong. Tensors
 * are laid out by element size (largest first), then by name, so that all are aligned without gaps, which other readers
 * of the format refuse. */
#include "runtime/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "runtime/file_sync.h"

enum { LENGTH_BYTES = 8, LARGEST_HEADER = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    mpc_format format;
} DTYPES[] = {{"F64", MPC_FMT_f64},        {"F32", MPC_FMT_f32},        {"F16", MPC_FMT_f16}, {"BF16", MPC_FMT_bf16},
              {"F8_E4M3", MPC_FMT_f8e4m3}, {"F8_E5M2", MPC_FMT_f8e5m2}, {"I32", MPC_FMT_i32}, {"I64", MPC_FMT_i64},
              {"U8", MPC_FMT_u8},          {"BOOL", MPC_FMT_bool}};

struct mpc_safetensors {
    char *bytes;
    json_t *header;
    mpc_tensor_view *tensors; /* by place in the file */
    uint32_t count;
    mpc_map *by_name;
};

typedef struct st_reader {
    const char *path;
    const mpc_sink *sink;
    mpc_safetensors *file;
    uint64_t size, header_size; /* of the file; of the JSON text */
} st_reader;

static mpc_format dtype_format(const char *name) {
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++)
        if (strcmp(DTYPES[i].name, name) == 0) return DTYPES[i].format;
    return MPC_FMT_none;
}

static const char *format_dtype(mpc_format format) {
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; i++)
        if (DTYPES[i].format == format) return DTYPES[i].name;
    return NULL;
}

static mpc_status damaged(const st_reader *r, const char *code, uint64_t byte, const char *what) {
    return mpc_error(r->sink, code, "%s is damaged or not a safetensors file: %s (at byte %" PRIu64 ")", r->path, what,
                     byte);
}

static mpc_status bad_tensor(const st_reader *r, const char *code, const char *name, const char *what) {
    char quoted[256];
    int n = snprintf(quoted, sizeof quoted, "\"%s\"", name);
    size_t length = n > 0 && (size_t)n < sizeof quoted ? (size_t)n : sizeof quoted - 1;
    const char *header = r->file->bytes + LENGTH_BYTES;
    const char *at = memmem(header, r->header_size, quoted, length);
    uint64_t byte = LENGTH_BYTES + (at ? (uint64_t)(at - header) : 0);
    return mpc_error(r->sink, code, "%s is damaged: tensor `%s` %s (at byte %" PRIu64 ")", r->path, name, what, byte);
}

static mpc_status read_bytes(st_reader *r, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0) return mpc_error(r->sink, "E410", "can't read %s: %s", r->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return mpc_error(r->sink, "E410", "%s is not a regular file", r->path);
    r->size = (uint64_t)info.st_size;
    r->file->bytes = mpc_alloc((size_t)r->size);
    if (!r->file->bytes) return MPC_NO_MEMORY;
    for (uint64_t done = 0; done < r->size;) {
        ssize_t got = read(fd, r->file->bytes + done, (size_t)(r->size - done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return mpc_error(r->sink, "E410", "can't read %s after byte %" PRIu64 ": %s", r->path, done,
                             strerror(errno));
        if (got == 0) return damaged(r, "E411", done, "the file became shorter while it was read");
        done += (uint64_t)got;
    }
    return MPC_OK;
}

static mpc_status parse_header(st_reader *r) {
    if (r->size < LENGTH_BYTES) return damaged(r, "E411", r->size, "the file ends before its 8-byte header length");
    for (unsigned i = 0; i < LENGTH_BYTES; i++) r->header_size |= (uint64_t)(unsigned char)r->file->bytes[i] << (8 * i);
    if (r->header_size > LARGEST_HEADER) return damaged(r, "E411", 0, "the header's length is more than 100 MB");
    if (r->header_size > r->size - LENGTH_BYTES) return damaged(r, "E411", r->size, "the file ends inside its header");
    json_error_t error;
    r->file->header = json_loadb(r->file->bytes + LENGTH_BYTES, (size_t)r->header_size, JSON_REJECT_DUPLICATES, &error);
    if (!r->file->header) {
        if (json_error_code(&error) == json_error_out_of_memory) return MPC_NO_MEMORY;
        return damaged(r, "E412", LENGTH_BYTES + (uint64_t)(error.position > 0 ? error.position : 0), error.text);
    }
    if (!json_is_object(r->file->header)) return damaged(r, "E412", LENGTH_BYTES, "the header is not a JSON object");
    return MPC_OK;
}

static mpc_status check_metadata(const st_reader *r) {
    json_t *metadata = json_object_get(r->file->header, "__metadata__");
    if (!metadata) return MPC_OK;
    if (!json_is_object(metadata)) return bad_tensor(r, "E412", "__metadata__", "is not an object of strings");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) return bad_tensor(r, "E412", key, "in the metadata is not a string");
    }
    return MPC_OK;
}

/* Element count by the shape; false when it isn't one or has too many elements. */
static bool read_shape(const json_t *shape, mpc_type *type) {
    uint64_t elements = 1;
    if (!json_is_array(shape) || json_array_size(shape) > MPC_MAX_RANK) return false;
    type->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < type->rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return false;
        type->dims[i] = json_integer_value(dim);
        if (type->dims[i] && elements > (UINT64_C(1) << 58) / (uint64_t)type->dims[i]) return false;
        elements *= (uint64_t)type->dims[i];
    }
    return true;
}

static mpc_status read_tensor(st_reader *r, const char *name, const json_t *entry, mpc_tensor_view *out) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    if (!dtype || !shape || !offsets) return bad_tensor(r, "E412", name, "has no dtype, shape and data_offsets");
    out->name = name;
    out->type.format = dtype_format(dtype);
    if (out->type.format == MPC_FMT_none) return bad_tensor(r, "E413", name, "has a dtype that mpc doesn't know");
    if (!read_shape(shape, &out->type)) return bad_tensor(r, "E413", name, "has a shape that can't be");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return bad_tensor(r, "E412", name, "has data_offsets that aren't two integers");
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    uint64_t room = r->size - LENGTH_BYTES - r->header_size;
    if (begin < 0 || begin > end || (uint64_t)end > room)
        return bad_tensor(r, "E414", name, "lies outside the file: the data are cut off or the offsets wrong");
    if (end - begin != mpc_type_bytes(&out->type))
        return bad_tensor(r, "E413", name, "has a size that differs from its shape's");
    out->data = r->file->bytes + LENGTH_BYTES + r->header_size + begin;
    return MPC_OK;
}

static int by_place(const void *a, const void *b) {
    const mpc_tensor_view *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    int64_t m = mpc_type_bytes(&x->type), n = mpc_type_bytes(&y->type);
    return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

/* No byte of the data belongs to two tensors or to none. */
static mpc_status check_cover(const st_reader *r) {
    const char *at = r->file->bytes + LENGTH_BYTES + r->header_size;
    for (uint32_t i = 0; i < r->file->count; i++) {
        const mpc_tensor_view *t = &r->file->tensors[i];
        if ((const char *)t->data < at) return bad_tensor(r, "E414", t->name, "overlaps the one before");
        if ((const char *)t->data > at) return bad_tensor(r, "E414", t->name, "leaves a gap after the one before");
        at = (const char *)t->data + mpc_type_bytes(&t->type);
    }
    uint64_t used = (uint64_t)(at - r->file->bytes);
    return used == r->size ? MPC_OK : damaged(r, "E414", used, "bytes after the last tensor");
}

static mpc_status read_tensors(st_reader *r) {
    mpc_safetensors *file = r->file;
    size_t n = json_object_size(file->header);
    file->tensors = mpc_alloc(n * sizeof *file->tensors);
    file->by_name = mpc_map_create();
    if (!file->tensors || !file->by_name) return MPC_NO_MEMORY;
    memset(file->tensors, 0, n * sizeof *file->tensors);
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        if (read_tensor(r, name, entry, &file->tensors[file->count]) != MPC_OK) return MPC_FAILED;
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (uint32_t i = 0; i < file->count; i++)
        if (!mpc_map_set(file->by_name, file->tensors[i].name, i)) return MPC_NO_MEMORY;
    return check_cover(r);
}

static mpc_status read_file(st_reader *r, int fd) {
    mpc_status status = read_bytes(r, fd);
    if (status == MPC_OK) status = parse_header(r);
    if (status == MPC_OK) status = check_metadata(r);
    return status == MPC_OK ? read_tensors(r) : status;
}

mpc_safetensors *mpc_safetensors_read(const char *path, const mpc_sink *sink) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        mpc_error(sink, "E410", "can't open %s: %s", path, strerror(errno));
        return NULL;
    }
    st_reader r = {.path = path, .sink = sink, .file = mpc_alloc(sizeof *r.file)};
    mpc_status status = MPC_NO_MEMORY;
    if (r.file) {
        *r.file = (mpc_safetensors){0};
        status = read_file(&r, fd);
    }
    close(fd);
    if (status == MPC_OK) return r.file;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "not enough memory to read %s", path);
    mpc_safetensors_destroy(r.file);
    return NULL;
}

void mpc_safetensors_destroy(mpc_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    mpc_map_destroy(file->by_name);
    mpc_free(file->tensors);
    mpc_free(file->bytes);
    mpc_free(file);
}

uint32_t mpc_safetensors_count(const mpc_safetensors *file) { return file->count; }

const mpc_tensor_view *mpc_safetensors_at(const mpc_safetensors *file, uint32_t index) { return &file->tensors[index]; }

const mpc_tensor_view *mpc_safetensors_find(const mpc_safetensors *file, const char *name) {
    uint32_t index;
    return mpc_map_get(file->by_name, name, &index) ? &file->tensors[index] : NULL;
}

const char *mpc_safetensors_metadata(const mpc_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

static int by_size_and_name(const void *a, const void *b) {
    const mpc_tensor_view *x = *(const mpc_tensor_view *const *)a, *y = *(const mpc_tensor_view *const *)b;
    unsigned m = mpc_format_get(x->type.format)->bytes, n = mpc_format_get(y->type.format)->bytes;
    return m != n ? (m > n ? -1 : 1) : strcmp(x->name, y->name);
}

static json_t *tensor_entry(const mpc_tensor_view *t, json_int_t begin) {
    json_t *shape = json_array();
    for (uint32_t i = 0; shape && i < t->type.rank; i++) json_array_append_new(shape, json_integer(t->type.dims[i]));
    const char *dtype = format_dtype(t->type.format);
    return dtype ? json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", begin,
                             begin + (json_int_t)mpc_type_bytes(&t->type))
                 : NULL;
}

/* JSON text of the header, from jansson's allocator; NULL when out of memory. */
static char *make_header(const mpc_tensor_view *const *order, uint32_t count, const char *const *metadata) {
    json_t *header = json_object(), *strings = json_object();
    bool ok = header && strings;
    for (const char *const *m = metadata; ok && m && m[0]; m += 2)
        ok = json_object_set_new(strings, m[0], json_string(m[1])) == 0;
    json_int_t offset = 0;
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = json_object_set_new(header, order[i]->name, tensor_entry(order[i], offset)) == 0;
        offset += mpc_type_bytes(&order[i]->type);
    }
    if (ok && json_object_size(strings) > 0) ok = json_object_set(header, "__metadata__", strings) == 0;
    char *text = ok ? json_dumps(header, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(strings);
    json_decref(header);
    return text;
}

static mpc_status write_content(mpc_file_writer *w, const char *header, const mpc_tensor_view *const *order,
                                uint32_t count) {
    uint64_t length = strlen(header), padded = (length + 7) / 8 * 8;
    unsigned char prefix[LENGTH_BYTES];
    for (unsigned i = 0; i < LENGTH_BYTES; i++) prefix[i] = (unsigned char)(padded >> (8 * i));
    mpc_status status = mpc_file_write(w, prefix, sizeof prefix);
    if (status == MPC_OK) status = mpc_file_write(w, header, (size_t)length);
    if (status == MPC_OK) status = mpc_file_write(w, "        ", (size_t)(padded - length));
    for (uint32_t i = 0; i < count && status == MPC_OK; i++)
        status = mpc_file_write(w, order[i]->data, (size_t)mpc_type_bytes(&order[i]->type));
    return status;
}

mpc_status mpc_safetensors_write(const char *path, const mpc_tensor_view *tensors, uint32_t count,
                                 const char *const *metadata, const mpc_sink *sink) {
    const mpc_tensor_view **order = mpc_alloc((count + 1) * sizeof *order);
    for (uint32_t i = 0; order && i < count; i++) order[i] = &tensors[i];
    if (order) qsort(order, count, sizeof *order, by_size_and_name);
    char *header = order ? make_header(order, count, metadata) : NULL;
    mpc_file_writer w;
    mpc_status status = header ? mpc_file_create(&w, path, sink) : MPC_NO_MEMORY;
    if (status == MPC_OK) status = mpc_file_commit(&w, write_content(&w, header, order, count));
    if (status == MPC_NO_MEMORY) status = mpc_error(sink, "E901", "not enough memory to write %s", path);
    json_free_t release; /* the text came from jansson's allocator */
    json_get_alloc_funcs(NULL, &release);
    if (header) release(header);
    mpc_free(order);
    return status;
}
