/* The log's lines are written by hand, not through a JSON library: a line a step must cost next to nothing. Resuming
 * cuts the file by the step that its lines carry, not by a stored length, since lengths depend on times and a
 * checkpoint must not. */
#include "driver/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/file_sync.h"

enum { LARGE = 1 << 15 };

static mpc_status log_error(const mpc_log *log) {
    return mpc_error(log->sink, "E420", "can't write %s: %s", log->path, strerror(errno));
}

/* Whether a line stays when the run goes on after `step`. */
static bool keeps_line(const char *line, size_t length, int64_t step) {
    json_t *record = json_loadb(line, length, 0, NULL);
    const char *type = json_string_value(json_object_get(record, "type"));
    const char *split = json_string_value(json_object_get(record, "split"));
    const json_t *at = json_object_get(record, "step");
    bool over = type && (strcmp(type, "end") == 0 || (split && strcmp(split, "test") == 0)); /* the end comes again */
    bool keep = type && !over && (!json_is_integer(at) || json_integer_value(at) <= step);
    json_decref(record);
    return keep;
}

/* Length of the part of a log that belongs to steps up to `step`. */
static size_t kept_length(const char *text, size_t size, int64_t step) {
    size_t at = 0;
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end || !keeps_line(text + at, (size_t)(end - text) - at, step)) break;
        at = (size_t)(end - text) + 1;
    }
    return at;
}

mpc_status mpc_log_open(mpc_log *log, const char *path, int64_t resume_step, const mpc_sink *sink) {
    *log = (mpc_log){.fd = -1, .path = path, .sink = sink, .events.fd = -1};
    size_t keep = 0;
    if (resume_step >= 0 && access(path, F_OK) == 0) {
        char *text;
        size_t size;
        if (mpc_data_read_file(path, sink, &text, &size) != MPC_OK) return MPC_FAILED;
        keep = kept_length(text, size, resume_step);
        mpc_free(text);
    }
    log->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (log->fd < 0 || ftruncate(log->fd, (off_t)keep) != 0 || lseek(log->fd, 0, SEEK_END) < 0) return log_error(log);
    return MPC_OK;
}

mpc_status mpc_log_open_events(mpc_log *log, const char *folder, int64_t resume_step) {
    return mpc_events_open(&log->events, folder, resume_step, log->sink);
}

void mpc_json_append_string(mpc_str *out, const char *text) {
    mpc_str_append_n(out, "\"", 1);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') mpc_str_printf(out, "\\%c", c);
        else if (c < 0x20) mpc_str_printf(out, "\\u%04x", c);
        else mpc_str_append_n(out, text, 1);
    }
    mpc_str_append_n(out, "\"", 1);
}

static void key_of(mpc_log *log, const char *key) {
    mpc_str_append_n(&log->buffer, ",", 1);
    mpc_json_append_string(&log->buffer, key);
    mpc_str_append_n(&log->buffer, ":", 1);
}

void mpc_log_begin(mpc_log *log, const char *type) {
    log->group = NULL;
    mpc_str_clear(&log->nonfinite);
    mpc_str_append(&log->buffer, "{\"type\":\"");
    mpc_str_append(&log->buffer, type);
    mpc_str_append_n(&log->buffer, "\"", 1);
}

static bool finite_or_null(mpc_log *log, const char *key, double value) {
    key_of(log, key);
    if (isfinite(value)) return true;
    mpc_str_append(&log->buffer, "null");
    if (log->nonfinite.length) mpc_str_append_n(&log->nonfinite, ",", 1);
    mpc_json_append_string(&log->nonfinite, key);
    return false;
}

void mpc_log_number(mpc_log *log, const char *key, double value) {
    if (log->group) mpc_events_add(&log->events, log->group, key, value);
    if (!finite_or_null(log, key, value)) return;
    char text[32];
    int n = snprintf(text, sizeof text, "%.7g",
                     value); /* the shortest exact form costs ten times as much, five times a line */
    mpc_str_append_n(&log->buffer, text, (size_t)n);
}

void mpc_log_fixed(mpc_log *log, const char *key, double value, int digits) {
    if (finite_or_null(log, key, value)) mpc_str_printf(&log->buffer, "%.*f", digits, value);
}

void mpc_log_int(mpc_log *log, const char *key, int64_t value) {
    key_of(log, key);
    mpc_str_printf(&log->buffer, "%lld", (long long)value);
}

void mpc_log_text(mpc_log *log, const char *key, const char *value) {
    key_of(log, key);
    mpc_json_append_string(&log->buffer, value);
}

void mpc_log_bool(mpc_log *log, const char *key, bool value) {
    key_of(log, key);
    mpc_str_append(&log->buffer, value ? "true" : "false");
}

static double seconds_since_1970(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void mpc_log_chart(mpc_log *log, const char *group, int64_t step) {
    if (log->events.fd < 0) return;
    log->group = group;
    mpc_events_begin(&log->events, seconds_since_1970(), step);
}

mpc_status mpc_log_end(mpc_log *log) {
    if (log->group) mpc_events_end(&log->events);
    if (log->nonfinite.length) {
        mpc_str_append(&log->buffer, ",\"nonfinite\":[");
        mpc_str_append(&log->buffer, log->nonfinite.data);
        mpc_str_append(&log->buffer, "]");
    }
    mpc_str_append(&log->buffer, "}\n");
    return log->buffer.length > LARGE ? mpc_log_flush(log) : MPC_OK;
}

/* A full disk takes part of a line: lines are whole or absent. */
static mpc_status cut_short(mpc_log *log, size_t written) {
    mpc_status status = log_error(log);
    size_t whole = written;
    while (whole > 0 && log->buffer.data[whole - 1] != '\n') whole--;
    off_t end = lseek(log->fd, 0, SEEK_CUR);
    if (end < 0 || ftruncate(log->fd, end - (off_t)(written - whole)) != 0) return status;
    lseek(log->fd, 0, SEEK_END);
    mpc_str_clear(&log->buffer); /* the rest is lost, and what comes now begins a line */
    return status;
}

mpc_status mpc_log_flush(mpc_log *log) {
    if (log->buffer.failed) return mpc_error(log->sink, "E901", "not enough memory for the log");
    size_t written = mpc_write_whole(log->fd, log->buffer.data, log->buffer.length);
    if (written < log->buffer.length) return cut_short(log, written);
    mpc_str_clear(&log->buffer);
    return log->events.fd >= 0 ? mpc_events_flush(&log->events) : MPC_OK;
}

void mpc_log_close(mpc_log *log) {
    if (log->fd >= 0) close(log->fd);
    log->fd = -1;
    mpc_events_close(&log->events);
    mpc_str_free(&log->buffer);
    mpc_str_free(&log->nonfinite);
}
