/* A record is its length, the length's check sum, the bytes, their check sum; all little endian. Check sums are
 * CRC-32C, rotated and shifted as TFRecord masks them. Files of one folder are read in the order of their names, so a
 * new name is never before an old one, whatever the clock does. Names and numbers of fields:
 * tensorflow/core/util/event.proto and framework/summary.proto. */
#include "driver/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/file_sync.h"

#define PREFIX "events.out.tfevents."

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };

/* ---- bytes ---- */

/* Four bits at a time: sixteen numbers are enough for a few hundred bytes a step. */
uint32_t mpc_crc32c(const void *data, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *p = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = table[crc & 15] ^ (crc >> 4);
        crc = table[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

static void put_number(mpc_str *out, uint64_t number, int bytes) {
    char text[8];
    for (int i = 0; i < bytes; i++) text[i] = (char)(number >> (8 * i) & 0xff);
    mpc_str_append_n(out, text, (size_t)bytes);
}

static void put_varint(mpc_str *out, uint64_t number) {
    char text[10];
    size_t n = 0;
    for (; number >= 0x80; number >>= 7) text[n++] = (char)((number & 0x7f) | 0x80);
    text[n++] = (char)number;
    mpc_str_append_n(out, text, n);
}

static void put_key(mpc_str *out, unsigned field, unsigned wire) { put_varint(out, field << 3 | wire); }

static void put_bytes(mpc_str *out, unsigned field, const char *data, size_t size) {
    put_key(out, field, BYTES);
    put_varint(out, size);
    mpc_str_append_n(out, data, size);
}

static void put_double(mpc_str *out, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, FIXED64);
    put_number(out, bits, 8);
}

static void put_float(mpc_str *out, unsigned field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(out, field, FIXED32);
    put_number(out, bits, 4);
}

/* ---- events ---- */

static size_t varint_size(uint64_t number) {
    size_t n = 1;
    for (; number >= 0x80; number >>= 7) n++;
    return n;
}

/* One record: an event whose field `kind` has these bytes. */
static void put_event(mpc_events *e, unsigned kind, const char *data, size_t size) {
    mpc_str *event = &e->event;
    mpc_str_clear(event);
    put_double(event, EVENT_WALL_TIME, e->wall_time);
    put_key(event, EVENT_STEP, VARINT);
    put_varint(event, (uint64_t)e->step);
    put_bytes(event, kind, data, size);
    size_t begin = e->buffer.length;
    put_number(&e->buffer, event->length, 8);
    uint32_t check = e->buffer.failed ? 0 : mpc_crc32c(e->buffer.data + begin, 8);
    put_number(&e->buffer, masked(check), 4);
    mpc_str_append_n(&e->buffer, mpc_str_cstr(event), event->length);
    put_number(&e->buffer, masked(mpc_crc32c(mpc_str_cstr(event), event->length)), 4);
    e->buffer.failed = e->buffer.failed || event->failed;
}

void mpc_events_begin(mpc_events *e, double wall_time, int64_t step) {
    mpc_str_clear(&e->points);
    e->wall_time = wall_time;
    e->step = step;
}

void mpc_events_add(mpc_events *e, const char *group, const char *name, double value) {
    char tag[256];
    int wanted = snprintf(tag, sizeof tag, "%s/%s", group, name);
    size_t length = wanted < (int)sizeof tag ? (size_t)wanted : sizeof tag - 1;
    put_key(&e->points, SUMMARY_VALUE, BYTES);
    put_varint(&e->points, 1 + varint_size(length) + length + 1 + sizeof(float));
    put_bytes(&e->points, VALUE_TAG, tag, length);
    put_float(&e->points, VALUE_SIMPLE, (float)value);
}

void mpc_events_end(mpc_events *e) {
    if (e->points.length > 0) put_event(e, EVENT_SUMMARY, mpc_str_cstr(&e->points), e->points.length);
    e->buffer.failed = e->buffer.failed || e->points.failed;
}

/* ---- files ---- */

static mpc_status write_error(const mpc_events *e) {
    return mpc_error(e->sink, "E420", "can't write %s: %s", mpc_str_cstr(&e->path), strerror(errno));
}

mpc_status mpc_events_flush(mpc_events *e) {
    if (e->buffer.failed) return mpc_error(e->sink, "E901", "not enough memory for the event file");
    if (mpc_write_whole(e->fd, e->buffer.data, e->buffer.length) < e->buffer.length) return write_error(e);
    mpc_str_clear(&e->buffer);
    return MPC_OK;
}

/* The seconds in a name of ours or of TensorFlow's; -1: another file. */
static int64_t seconds_of(const char *name) {
    long long seconds = -1;
    return sscanf(name, PREFIX "%lld", &seconds) == 1 ? seconds : -1;
}

/* A time that no file's name in the folder has reached. */
static int64_t free_second(const char *folder) {
    int64_t second = (int64_t)time(NULL);
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d)) != NULL;)
        if (seconds_of(entry->d_name) >= second) second = seconds_of(entry->d_name) + 1;
    if (d) closedir(d);
    return second;
}

static void put_start(mpc_events *e, int64_t resume_step) {
    static const char version[] = "brain.Event:2", start[] = {SESSION_STATUS << 3, SESSION_START};
    mpc_events_begin(e, (double)time(NULL), 0);
    put_event(e, EVENT_FILE_VERSION, version, sizeof version - 1);
    e->step = resume_step + 1;
    if (resume_step >= 0) put_event(e, EVENT_SESSION_LOG, start, sizeof start);
}

mpc_status mpc_events_open(mpc_events *e, const char *folder, int64_t resume_step, const mpc_sink *sink) {
    *e = (mpc_events){.fd = -1, .sink = sink};
    mpc_str_printf(&e->path, "%s/" PREFIX "%010lld.mpc", folder, (long long)free_second(folder));
    if (e->path.failed) return mpc_error(sink, "E901", "out of memory");
    e->fd = open(e->path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (e->fd < 0) return write_error(e);
    put_start(e, resume_step);
    return mpc_events_flush(e);
}

void mpc_events_close(mpc_events *e) {
    if (e->fd >= 0) close(e->fd);
    e->fd = -1;
    mpc_str_free(&e->path);
    mpc_str_free(&e->buffer);
    mpc_str_free(&e->event);
    mpc_str_free(&e->points);
}

void mpc_events_remove(const char *folder) {
    mpc_str path = {0};
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d)) != NULL;) {
        if (seconds_of(entry->d_name) < 0) continue;
        mpc_str_clear(&path);
        mpc_str_printf(&path, "%s/%s", folder, entry->d_name);
        if (!path.failed) unlink(path.data);
    }
    if (d) closedir(d);
    mpc_str_free(&path);
}
