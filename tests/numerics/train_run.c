/* See train_run.h. Model and rows are written to a folder of their own under $TMPDIR and removed again. Steps of
 * different sizes are made on first use and share the session's states, as the last batch of an epoch does. */
#include "train_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/eval/eval.h"

enum { MAX_STEPS = 8, MAX_STATES = 256, MAX_ARGS = 64, MAX_ROWS = 64 };

struct train_run {
    char folder[256], model[300], rows[300];
    char *args[MAX_ARGS];
    mpc_options options;
    mpc_sources *sources;
    mpc_cli cli;
    mpc_session session;
    mpc_dataset *data;
    mpc_step *steps[MAX_STEPS];
    uint32_t step_count;
    mpc_step *last;
    void *kept[MAX_STATES];
};

static char refusal[16];

const char *train_refusal(void) { return refusal; }

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str text = {0};
    if (diag->severity == MPC_SEV_ERROR && refusal[0] == '\0') snprintf(refusal, sizeof refusal, "%s", diag->code);
    mpc_diag_render(diag, user, true, false, &text);
    if (diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s\n", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

static bool write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    if (f == NULL) return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static bool write_files(train_run *t, const char *model, const char *rows) {
    const char *tmp = getenv("TMPDIR");
    snprintf(t->folder, sizeof t->folder, "%s/mpc-numerics-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(t->folder) == NULL) return false;
    snprintf(t->model, sizeof t->model, "%s/model.mpg", t->folder);
    snprintf(t->rows, sizeof t->rows, "%s/rows.csv", t->folder);
    return write_file(t->model, model) && write_file(t->rows, rows);
}

static bool parse_options(train_run *t, const char *device, const char *const *settings) {
    int count = 0;
    t->args[count++] = t->model;
    t->args[count++] = strdup("--device");
    t->args[count++] = strdup(device);
    t->args[count++] = strdup("--solver"); /* the rules are about formats by class, whatever pays on this machine */
    t->args[count++] = strdup("list");
    for (; settings != NULL && *settings != NULL && count + 2 < MAX_ARGS; settings++) {
        t->args[count++] = strdup("--set");
        t->args[count++] = strdup(*settings);
    }
    return mpc_options_parse(&t->options, mpc_command_find("train"), count, t->args);
}

static mpc_step *step_of_size(train_run *t, int64_t batch) {
    for (uint32_t i = 0; i < t->step_count; i++)
        if (t->steps[i]->batch == batch) return t->steps[i];
    mpc_step *step = t->step_count < MAX_STEPS ? mpc_step_create(&t->session, MPC_PHASE_TRAIN, batch) : NULL;
    if (step == NULL) return NULL;
    t->steps[t->step_count++] = step;
    return step;
}

static bool open_session(train_run *t) {
    bool missing;
    t->sources = mpc_sources_create();
    t->cli = (mpc_cli){.options = &t->options, .sources = t->sources, .sink = {.emit = print_diag, .user = t->sources}};
    if (!mpc_session_open(&t->session, &t->cli)) return false;
    t->data = mpc_session_split(&t->session, MPC_SPLIT_TRAIN, &missing);
    if (t->data == NULL) return false;
    mpc_session_learn_facts(&t->session, t->data);
    if (!mpc_session_plan_length(&t->session, t->data)) return false;
    mpc_step *nominal = step_of_size(t, t->session.train->batch);
    return nominal != NULL && mpc_step_bind(nominal, t->data) &&
           mpc_store_init(t->session.store, t->session.train->seed) == MPC_OK;
}

train_run *train_open(const char *device, const char *model, const char *rows, const char *const *settings) {
    train_run *t = calloc(1, sizeof *t);
    if (t == NULL) abort();
    refusal[0] = '\0';
    if (write_files(t, model, rows) && parse_options(t, device, settings) && open_session(t)) return t;
    train_close(t);
    return NULL;
}

void train_close(train_run *t) {
    if (t == NULL) return;
    for (uint32_t i = t->step_count; i > 0; i--) mpc_step_destroy(t->steps[i - 1]);
    if (t->sources != NULL) mpc_session_close(&t->session);
    mpc_sources_destroy(t->sources);
    mpc_options_free(&t->options);
    for (int i = 1; i < MAX_ARGS; i++) free(t->args[i]);
    for (int i = 0; i < MAX_STATES; i++) free(t->kept[i]);
    unlink(t->model);
    unlink(t->rows);
    rmdir(t->folder);
    free(t);
}

bool train_step(train_run *t, uint32_t begin, uint32_t count, bool flush) {
    uint32_t rows[MAX_ROWS];
    t->last = count <= MAX_ROWS ? step_of_size(t, count) : NULL;
    if (t->last == NULL) return false;
    for (uint32_t i = 0; i < count; i++) rows[i] = begin + i;
    if (!mpc_step_feed(t->last, t->data, rows)) return false;
    mpc_step_set_flush(t->last, flush);
    return t->last->exec->vtable->step(t->last->exec) == MPC_OK;
}

double train_output(train_run *t, const char *name) {
    uint32_t index = mpc_step_output(t->last, name);
    if (index == MPC_NONE) fprintf(stderr, "no output %s\n", name);
    return mpc_step_scalar(t->last, index, NAN);
}

mpc_store *train_store(train_run *t) { return t->session.store; }

static double element_of(const mpc_store_entry *e, uint32_t element) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor tensor = mpc_tensor_make(arena, &e->type);
    mpc_tensor_from_bytes(&tensor, e->data);
    double value = tensor.data[element];
    mpc_arena_destroy(arena);
    return value;
}

bool train_has_state(train_run *t, const char *name, mpc_format derived) {
    return mpc_store_find(t->session.store, name, derived) != NULL;
}

double train_copy(train_run *t, const char *name, mpc_format derived, uint32_t element) {
    const mpc_store_entry *e = mpc_store_find(t->session.store, name, derived);
    if (e == NULL) fprintf(stderr, "no state %s\n", name);
    return e == NULL ? NAN : element_of(e, element);
}

double train_state(train_run *t, const char *name, uint32_t element) {
    return train_copy(t, name, MPC_FMT_none, element);
}

void train_remember(train_run *t) {
    for (uint32_t i = 0; i < mpc_store_count(t->session.store) && i < MAX_STATES; i++) {
        const mpc_store_entry *e = mpc_store_at(t->session.store, i);
        free(t->kept[i]);
        t->kept[i] = malloc(e->bytes + 1);
        if (t->kept[i] == NULL) abort();
        memcpy(t->kept[i], e->data, e->bytes);
    }
}

bool train_unmoved(train_run *t, const char *skip) {
    uint32_t seen = 0, moved = 0;
    for (uint32_t i = 0; i < mpc_store_count(t->session.store) && i < MAX_STATES; i++) {
        const mpc_store_entry *e = mpc_store_at(t->session.store, i);
        if (strcmp(e->skip, skip) != 0) continue;
        seen++;
        if (memcmp(t->kept[i], e->data, e->bytes) == 0) continue;
        fprintf(stderr, "state %s has moved\n", e->name);
        moved++;
    }
    return seen > 0 && moved == 0;
}

void train_restore(train_run *t, const train_run *from) {
    for (uint32_t i = 0; i < mpc_store_count(t->session.store) && i < MAX_STATES; i++) {
        mpc_store_entry *e = mpc_store_at(t->session.store, i);
        if (e->derived == MPC_FMT_none) memcpy(e->data, from->kept[i], e->bytes);
    }
    mpc_store_derive(t->session.store);
}

bool train_same_states(train_run *a, train_run *b) {
    uint32_t count = mpc_store_count(a->session.store);
    if (count != mpc_store_count(b->session.store)) return false;
    for (uint32_t i = 0; i < count; i++) {
        const mpc_store_entry *x = mpc_store_at(a->session.store, i), *y = mpc_store_at(b->session.store, i);
        if (x->bytes != y->bytes || memcmp(x->data, y->data, x->bytes) != 0) return false;
    }
    return true;
}
