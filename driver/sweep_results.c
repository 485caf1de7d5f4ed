/* What came of the runs: a record each, from the files of its folder, and the table sorted by the monitored figure. A
 * run without that figure (it failed, or nothing was finite) stands last. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/sweep.h"

void mpc_sweep_append_choice(const mpc_sweep *s, const mpc_sweep_run *run, mpc_str *out) {
    for (uint32_t k = 0; k < s->key_count; k++)
        mpc_str_printf(out, "%s%s=%s", k ? " " : "", s->keys[k].key, mpc_sweep_value(s, run, k));
}

/* ---- records ---- */

static const char *reason_of(int status) {
    return status == MPC_EXIT_DONE ? "done" : status == MPC_EXIT_DIVERGED ? "diverged" : "failed";
}

/* The last evaluation while training, from the log; NULL: none. */
static json_t *last_evaluation(const char *log) {
    FILE *f = fopen(log, "r");
    char *line = NULL;
    size_t capacity = 0;
    json_t *last = NULL;
    while (f && getline(&line, &capacity, f) > 0) {
        json_t *record = strstr(line, "\"eval\"") ? json_loads(line, 0, NULL) : NULL;
        const char *type = json_string_value(json_object_get(record, "type"));
        const char *split = json_string_value(json_object_get(record, "split"));
        if (type && split && strcmp(type, "eval") == 0 && strcmp(split, "test") != 0) {
            json_decref(last);
            last = json_incref(record);
        }
        json_decref(record);
    }
    free(line); /* getline's */
    if (f) fclose(f);
    json_object_del(last, "type");
    return last;
}

static void copy_keys(json_t *record, const json_t *metrics) {
    static const char *const keys[] = {"monitor", "best", "best_step", "step", "valid", "test"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(metrics, keys[i]);
        if (value) json_object_set(record, keys[i], value);
    }
}

json_t *mpc_sweep_record(const mpc_sweep *s, const mpc_sweep_run *run, int status, double seconds) {
    json_t *overrides = json_object();
    for (uint32_t k = 0; k < s->key_count; k++)
        json_object_set_new(overrides, s->keys[k].key, json_string(mpc_sweep_value(s, run, k)));
    json_t *record = json_pack("{s:s, s:o, s:i, s:s, s:f}", "run", run->name, "overrides", overrides, "status", status,
                               "reason", reason_of(status), "seconds", round(1e3 * seconds) / 1e3);
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s/metrics.json", mpc_str_cstr(&s->folder), run->name);
    json_t *metrics = path.failed || status != MPC_EXIT_DONE ? NULL : json_load_file(path.data, 0, NULL);
    copy_keys(record, metrics);
    json_decref(metrics);
    mpc_str_clear(&path);
    mpc_str_printf(&path, "%s/%s/log.jsonl", mpc_str_cstr(&s->folder), run->name);
    json_t *last = path.failed ? NULL : last_evaluation(path.data);
    if (last) json_object_set_new(record, "final", last);
    mpc_str_free(&path);
    return record;
}

uint32_t mpc_sweep_failures(const mpc_sweep *s) {
    uint32_t failures = 0;
    for (uint32_t i = 0; i < s->run_count; i++) {
        json_int_t status = json_integer_value(json_object_get(s->runs[i].record, "status"));
        failures += status != MPC_EXIT_DONE && status != MPC_EXIT_DIVERGED;
    }
    return failures;
}

/* ---- order ---- */

typedef struct ranked {
    const mpc_sweep_run *run;
    double key; /* smaller is better; infinity: no figure */
} ranked;

static const char *figure_of(const char *monitor) {
    const char *dot = monitor ? strchr(monitor, '.') : NULL;
    return dot ? dot + 1 : "loss";
}

static bool is_rising(const mpc_sweep *s, const char *monitor) {
    const mpc_model *m = s->session->model;
    for (size_t i = 0; i < mpc_model_metric_count(m); i++)
        if (strcmp(mpc_model_metric(m, i)->name, figure_of(monitor)) == 0)
            return mpc_model_metric(m, i)->higher_is_better;
    return false;
}

static int by_key(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return strcmp(x->run->name, y->run->name);
}

/* All runs that ended, the best first; *count of them. NULL: out of memory. */
static ranked *rank(const mpc_sweep *s, uint32_t *count) {
    ranked *list = mpc_alloc((s->run_count + 1) * sizeof *list);
    *count = 0;
    for (uint32_t i = 0; list && i < s->run_count; i++) {
        const json_t *record = s->runs[i].record, *best = json_object_get(record, "best");
        if (!record) continue;
        const char *monitor = json_string_value(json_object_get(record, "monitor"));
        double sign = is_rising(s, monitor) ? -1 : 1;
        list[(*count)++] = (ranked){&s->runs[i], json_is_number(best) ? sign * json_number_value(best) : HUGE_VAL};
    }
    if (list) qsort(list, *count, sizeof *list, by_key);
    return list;
}

/* ---- table ---- */

static const char *common_monitor(const ranked *list, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *monitor = json_string_value(json_object_get(list[i].run->record, "monitor"));
        if (monitor) return monitor;
    }
    return "best";
}

static int width_of(const mpc_sweep *s, uint32_t key) {
    size_t width = strlen(s->keys[key].key);
    for (size_t i = 0; i < s->keys[key].values.count; i++) {
        size_t n = strlen(s->keys[key].values.data[i]);
        if (n > width) width = n;
    }
    return (int)width;
}

static void print_figure(const json_t *value, int width) {
    if (json_is_number(value)) printf("  %*.*g", width, 5, json_number_value(value));
    else printf("  %*s", width, "-");
}

static void print_run(const mpc_sweep *s, const mpc_sweep_run *run, const char *monitor) {
    const json_t *r = run->record, *test = json_object_get(r, "test");
    printf("%-4s", run->name);
    for (uint32_t k = 0; k < s->key_count; k++) printf("  %-*s", width_of(s, k), mpc_sweep_value(s, run, k));
    print_figure(json_object_get(r, "best"), (int)strlen(monitor));
    print_figure(json_object_get(r, "best_step"), 9);
    print_figure(test ? json_object_get(test, figure_of(monitor)) : NULL, 5 + (int)strlen(figure_of(monitor)));
    printf("  %7.1f", json_number_value(json_object_get(r, "seconds")));
    json_int_t status = json_integer_value(json_object_get(r, "status"));
    if (status == MPC_EXIT_DIVERGED) printf("  diverged");
    else if (status > MPC_EXIT_SIGNAL)
        printf("  killed by signal %d: see %s/%s.txt", (int)status - MPC_EXIT_SIGNAL, s->folder.data, run->name);
    else if (status != MPC_EXIT_DONE)
        printf("  failed (exit status %d): see %s/%s.txt", (int)status, s->folder.data, run->name);
    putchar('\n');
}

static void print_table(const mpc_sweep *s, const ranked *list, uint32_t count) {
    const char *monitor = common_monitor(list, count);
    if (count == 0) return;
    printf("%-4s", "run");
    for (uint32_t k = 0; k < s->key_count; k++) printf("  %-*s", width_of(s, k), s->keys[k].key);
    printf("  %s  %9s  test.%s  seconds\n", monitor, "best step", figure_of(monitor));
    for (uint32_t i = 0; i < count; i++) print_run(s, list[i].run, monitor);
}

bool mpc_sweep_print(mpc_sweep *s) {
    uint32_t count;
    ranked *list = rank(s, &count);
    if (!list) {
        mpc_error(&s->cli->sink, "E901", "out of memory");
        return false;
    }
    if (!s->cli->options->json) print_table(s, list, count);
    for (uint32_t i = 0; s->cli->options->json && i < count; i++) {
        json_dumpf(list[i].run->record, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
    mpc_free(list);
    return true;
}
