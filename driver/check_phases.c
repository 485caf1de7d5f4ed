/* The phases of `mpc check`: what a training does first, once each, with the functions that trainings use. Everything
 * is written into a temporary folder; of the real one it is only asked whether it could be written. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/check.h"
#include "driver/json_values.h"
#include "driver/number_text.h"

static bool out_of_memory(const mpc_check *c) {
    mpc_error(&c->cli->sink, "E901", "out of memory");
    return false;
}

static void fact(mpc_check *c, const char *key, json_t *value) { json_object_set_new(c->facts, key, value); }

static void add_loss(mpc_check *c, double loss) {
    mpc_str_printf(&c->detail, "loss %.4g", loss);
    fact(c, "loss", mpc_json_number(loss));
}

/* ---- before the first step ---- */

static bool read_model(mpc_check *c) {
    c->opened = true;
    if (!mpc_session_open(c->session, c->cli)) return false;
    mpc_str_append(&c->detail, mpc_model_name(c->session->model));
    return true;
}

static bool open_data(mpc_check *c) {
    c->prepared = true;
    if (!mpc_trainer_open(c->trainer, c->session)) return false;
    for (int i = 0; i <= MPC_SPLIT_TEST; i++) {
        const mpc_dataset *d = c->trainer->data[i];
        if (!d) continue;
        mpc_str_printf(&c->detail, "%s%s %" PRId64, c->detail.length ? ", " : "rows: ", mpc_split_name((mpc_split)i),
                       mpc_dataset_rows(d));
        fact(c, mpc_split_name((mpc_split)i), json_integer(mpc_dataset_rows(d)));
    }
    return true;
}

static bool compile(mpc_check *c) {
    if (!mpc_trainer_prepare(c->trainer)) return false;
    const mpc_session *s = c->session;
    uint64_t tensors, elements;
    char count[32], bytes[32];
    mpc_memory_report memory = {0};
    mpc_session_count_parameters(c->session, &tensors, &elements);
    mpc_exec_memory(c->trainer->runners.data[0]->step->exec, &memory);
    uint64_t all = memory.state_bytes + memory.arena_bytes + memory.workspace_bytes;
    mpc_grouped_text(elements, count);
    mpc_bytes_text((double)all, bytes);
    mpc_str_printf(&c->detail, "%s parameters, %s on %s, %s", count, s->train->precision, mpc_device_name(s->device),
                   bytes);
    fact(c, "parameters", json_integer((json_int_t)elements));
    fact(c, "step_bytes", json_integer((json_int_t)all));
    return true;
}

static bool has_init(const mpc_check *c) { return c->cli->options->init != NULL; }

static bool load_init(mpc_check *c) {
    mpc_str_append(&c->detail, c->cli->options->init);
    return mpc_init_weights(c->session);
}

static bool check_values(mpc_check *c) { return mpc_trainer_bind(c->trainer); }

/* ---- where results would go ---- */

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The path, or the nearest folder above it that is there, is a folder that can be written. */
static bool can_be_made(char *path) {
    struct stat st;
    while (stat(path, &st) != 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT && errno != ENOTDIR) return false;
        if (!slash) return access(".", W_OK | X_OK) == 0;
        *(slash == path ? slash + 1 : slash) = '\0';
    }
    errno = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    return errno == 0 && access(path, W_OK | X_OK) == 0;
}

static bool check_wanted(mpc_check *c) {
    const char *wanted = c->wanted ? c->wanted : "runs";
    if (c->wanted && is_folder(wanted) && !mpc_folder_is_empty(wanted)) {
        mpc_error(&c->cli->sink, "E351", "%s is not empty; `train` would want --overwrite, --resume or another --out",
                  wanted);
        return false;
    }
    mpc_str path = {0};
    mpc_str_append(&path, wanted);
    mpc_trim_slashes(&path);
    bool ok = path.failed ? out_of_memory(c) : can_be_made(path.data);
    if (!ok && !path.failed)
        mpc_error(&c->cli->sink, "E420", "a run couldn't be written to %s: %s: %s", wanted, path.data, strerror(errno));
    if (ok) mpc_str_printf(&c->detail, "%s can be written", wanted);
    mpc_str_free(&path);
    return ok;
}

static bool make_folder(mpc_check *c) {
    mpc_trainer *t = c->trainer;
    return check_wanted(c) && mpc_run_folder_create(&t->folder, c->session) &&
           mpc_run_folder_describe(&t->folder, c->session) &&
           mpc_log_open(&t->log, t->folder.log.data, -1, c->session->sink) == MPC_OK;
}

/* ---- steps ---- */

static bool train_once(mpc_check *c) {
    mpc_trainer *t = c->trainer;
    t->started = t->last_eval_time = t->last_save_time = mpc_now();
    mpc_progress_start(&t->progress, 0, 0);
    bool ok = mpc_trainer_begin_window(t) && mpc_trainer_account(t, true);
    mpc_progress_end(&t->progress);
    if (!ok) return false;
    double loss = mpc_totals_loss(&t->window);
    add_loss(c, loss);
    fact(c, "step_ms", json_real(1e3 * t->step_seconds));
    if (t->stopped) {
        mpc_report_stop(t, t->stopped);
        return false;
    }
    if (!isfinite(loss)) mpc_error(c->session->sink, "E383", "the loss of the first update is %g", loss);
    return isfinite(loss);
}

/* A split that training doesn't see, if there is one. */
static mpc_split other_split(const mpc_trainer *t) {
    return t->data[MPC_SPLIT_VALID] ? MPC_SPLIT_VALID : t->data[MPC_SPLIT_TEST] ? MPC_SPLIT_TEST : MPC_SPLIT_TRAIN;
}

/* The first rows of a split through a step. */
static bool run_rows(mpc_trainer *t, mpc_step *step, const mpc_dataset *d) {
    for (int64_t i = 0; i < step->batch; i++) t->rows[i] = (uint32_t)i;
    return mpc_step_feed(step, d, t->rows) && mpc_step_run(step);
}

static bool evaluate_once(mpc_check *c) {
    mpc_trainer *t = c->trainer;
    mpc_split split = other_split(t);
    const mpc_dataset *d = t->data[split];
    mpc_runner *r = mpc_runners_get(&t->runners, MPC_PHASE_EVAL, mpc_session_batch(c->session, d));
    if (!r || !run_rows(t, r->step, d)) return false;
    mpc_totals_clear(&t->evaluated);
    mpc_totals_add(&t->evaluated, &r->meter, r->step);
    mpc_str_printf(&c->detail, "%" PRId64 " rows of %s, ", r->step->batch, mpc_split_name(split));
    add_loss(c, mpc_totals_loss(&t->evaluated));
    fact(c, "split", json_string(mpc_split_name(split)));
    return true;
}

/* Draws no random numbers that training would have: those of a check are thrown away with it. */
static bool predict_once(mpc_check *c) {
    mpc_trainer *t = c->trainer;
    if (!mpc_model_predicts(c->session->model)) {
        mpc_str_append(&c->detail, "nothing to predict: the model has no output");
        return true;
    }
    mpc_dataset *d = t->data[t->data[MPC_SPLIT_TEST] ? MPC_SPLIT_TEST : other_split(t)];
    mpc_step *step = mpc_step_create(c->session, MPC_PHASE_PREDICT, mpc_session_batch(c->session, d));
    bool ok = step && mpc_step_bind(step, d) && run_rows(t, step, d);
    if (ok) {
        mpc_str_printf(&c->detail, "%" PRId64 " rows, outputs: %u", step->batch, step->exec->output_count);
        fact(c, "outputs", json_integer(step->exec->output_count));
    }
    mpc_step_destroy(step);
    return ok;
}

/* ---- checkpoints ---- */

static bool find_saved(const mpc_check *c, mpc_str *path) {
    return mpc_find_checkpoint(c->trainer->folder.path.data, "last", path, c->session->sink);
}

static bool measure_checkpoint(const mpc_check *c, double *bytes) {
    static const char *const files[] = {"weights", "state"};
    mpc_str folder = {0}, path = {0};
    bool ok = find_saved(c, &folder);
    *bytes = 0;
    for (size_t i = 0; ok && i < 2; i++) {
        struct stat st;
        mpc_str_clear(&path);
        mpc_str_printf(&path, "%s/%s.safetensors", folder.data, files[i]);
        if (!path.failed && stat(path.data, &st) == 0) *bytes += (double)st.st_size;
    }
    mpc_str_free(&folder);
    mpc_str_free(&path);
    return ok;
}

static bool save(mpc_check *c) {
    char size[32];
    double bytes;
    if (!mpc_trainer_save(c->trainer, false) || !measure_checkpoint(c, &bytes)) return false;
    mpc_bytes_text(bytes, size);
    mpc_str_printf(&c->detail, "a checkpoint takes %s", size);
    fact(c, "checkpoint_bytes", json_integer((json_int_t)bytes));
    return true;
}

static uint64_t state_bytes(mpc_store *store) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < mpc_store_count(store); i++) bytes += mpc_store_at(store, i)->bytes;
    return bytes;
}

static void copy_states(mpc_store *store, uint8_t *copy) {
    for (uint32_t i = 0; i < mpc_store_count(store); i++) {
        const mpc_store_entry *e = mpc_store_at(store, i);
        memcpy(copy, e->data, e->bytes);
        copy += e->bytes;
    }
}

/* The first state whose bytes aren't those of the copy; NULL: all are. */
static const mpc_store_entry *find_changed(mpc_store *store, const uint8_t *copy) {
    for (uint32_t i = 0; i < mpc_store_count(store); i++) {
        const mpc_store_entry *e = mpc_store_at(store, i);
        if (memcmp(copy, e->data, e->bytes) != 0) return e;
        copy += e->bytes;
    }
    return NULL;
}

/* Every state gets other bytes first, so that what isn't loaded is seen. */
static void overwrite_states(mpc_store *store) {
    for (uint32_t i = 0; i < mpc_store_count(store); i++) {
        const mpc_store_entry *e = mpc_store_at(store, i);
        memset(e->data, 0x5a, e->bytes);
    }
}

static bool load(mpc_check *c) {
    mpc_store *store = c->session->store;
    mpc_cursor cursor = {0};
    mpc_str path = {0};
    bool ok = find_saved(c, &path) &&
              mpc_checkpoint_load(path.data, store, MPC_LOAD_ALL, &cursor, c->session->sink) == MPC_OK;
    mpc_free((void *)(uintptr_t)cursor.extra);
    mpc_str_free(&path);
    return ok && mpc_store_to_host(store) == MPC_OK;
}

static bool reload(mpc_check *c) {
    mpc_store *store = c->session->store;
    if (mpc_store_to_host(store) != MPC_OK) return false;
    uint8_t *copy = mpc_alloc((size_t)state_bytes(store) + 1);
    if (!copy) return out_of_memory(c);
    copy_states(store, copy);
    overwrite_states(store);
    bool ok = load(c);
    const mpc_store_entry *changed = ok ? find_changed(store, copy) : NULL;
    mpc_free(copy);
    if (changed) mpc_error(c->session->sink, "E382", "the state `%s` isn't what was saved", changed->name);
    if (ok && !changed) mpc_str_printf(&c->detail, "%u states, all as they were saved", mpc_store_count(store));
    return ok && !changed;
}

static const mpc_check_phase PHASES[] = {
    {"model", read_model, NULL},    {"data", open_data, NULL},         {"compile", compile, NULL},
    {"values", check_values, NULL}, {"init", load_init, has_init},     {"folder", make_folder, NULL},
    {"train", train_once, NULL},    {"evaluate", evaluate_once, NULL}, {"save", save, NULL},
    {"reload", reload, NULL},       {"predict", predict_once, NULL},
};

const mpc_check_phase *mpc_check_phase_at(size_t i) { return i < sizeof PHASES / sizeof *PHASES ? &PHASES[i] : NULL; }
