/* Checkpoint folders. weights.safetensors holds parameters only, state.safetensors every other state that is not
 * derived, and the cursor. A folder gets its final name after everything in it is on disk, so a folder called step-* is
 * always whole; names that begin with "tmp-" are leftovers of a crash. Nothing here depends on time or place: equal
 * runs write equal bytes. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "runtime/file_sync.h"

static const char WEIGHTS[] = MPC_WEIGHTS_FILE, STATE[] = MPC_STATE_FILE;

static bool is_parameter(const mpc_store_entry *e) { return strcmp(e->role, "param") == 0; }
static bool is_saved(const mpc_store_entry *e) { return e->derived == MPC_FMT_none; }

static mpc_status no_memory(const mpc_sink *sink) {
    return mpc_error(sink, "E901", "not enough memory for a checkpoint");
}

static mpc_status write_part(const char *folder, const char *file, mpc_store *store, const char *const *metadata,
                             const mpc_sink *sink) {
    uint32_t n = mpc_store_count(store), count = 0;
    mpc_tensor_view *views = mpc_alloc((n + 1) * sizeof *views);
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s", folder, file);
    mpc_status status = MPC_NO_MEMORY;
    if (views && !path.failed) {
        bool weights = file == WEIGHTS;
        for (uint32_t i = 0; i < n; i++) {
            const mpc_store_entry *e = mpc_store_at(store, i);
            if (is_saved(e) && is_parameter(e) == weights)
                views[count++] = (mpc_tensor_view){.name = e->name, .type = e->type, .data = e->data};
        }
        status = mpc_safetensors_write(path.data, views, count, metadata, sink);
    }
    mpc_str_free(&path);
    mpc_free(views);
    return status == MPC_NO_MEMORY ? no_memory(sink) : status;
}

static mpc_status write_folder(const char *folder, mpc_store *store, const mpc_cursor *cursor, const mpc_sink *sink) {
    char step[24], epoch[24], row[24], seed[24];
    snprintf(step, sizeof step, "%" PRIu64, cursor->step);
    snprintf(epoch, sizeof epoch, "%" PRIu64, cursor->epoch);
    snprintf(row, sizeof row, "%" PRIu64, cursor->row);
    snprintf(seed, sizeof seed, "%" PRIu64, cursor->seed);
    mpc_str numbered = {0};
    if (mpc_numbered_list(store, &numbered) != MPC_OK) return mpc_str_free(&numbered), no_memory(sink);
    const char *weights[] = {"format", "mpc", "step", step, "numbered", mpc_str_cstr(&numbered), NULL};
    const char *state[] = {"format", "mpc", "schema", "1",    "step", step,    "epoch",
                           epoch,    "row", row,      "seed", seed,   "extra", cursor->extra ? cursor->extra : "",
                           NULL};
    mpc_status status = MPC_OK;
    if (mkdir(folder, 0777) != 0) status = mpc_error(sink, "E420", "can't make %s: %s", folder, strerror(errno));
    else status = write_part(folder, WEIGHTS, store, weights, sink);
    mpc_str_free(&numbered);
    return status == MPC_OK ? write_part(folder, STATE, store, state, sink) : status;
}

/* Gives the finished folder its name. A folder of the same step that is already there (a resumed run passed it again)
 * goes first; until the rename its successor is complete under the temporary name. */
static mpc_status put_in_place(const char *dir, const char *temporary, const char *final, const mpc_sink *sink) {
    if (rename(temporary, final) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return mpc_error(sink, "E420", "can't make %s: %s", final, strerror(errno));
        if (mpc_folder_remove(final, sink) != MPC_OK) return MPC_FAILED;
        if (rename(temporary, final) != 0) return mpc_error(sink, "E420", "can't make %s: %s", final, strerror(errno));
    }
    return mpc_folder_sync(dir, sink);
}

mpc_status mpc_checkpoint_save(const char *dir, mpc_store *store, const mpc_cursor *cursor, const mpc_sink *sink) {
    mpc_str temporary = {0}, final = {0};
    mpc_str_printf(&temporary, "%s/tmp-%08" PRIu64, dir, cursor->step);
    mpc_str_printf(&final, "%s/step-%08" PRIu64, dir, cursor->step);
    mpc_status status = temporary.failed || final.failed ? no_memory(sink) : MPC_OK;
    if (status == MPC_OK) status = mpc_store_to_host(store);
    if (status == MPC_OK) status = mpc_folder_remove(temporary.data, sink);
    if (status == MPC_OK) {
        status = write_folder(temporary.data, store, cursor, sink);
        if (status == MPC_OK) status = put_in_place(dir, temporary.data, final.data, sink);
        if (status != MPC_OK) mpc_folder_remove(temporary.data, NULL);
    }
    mpc_str_free(&temporary);
    mpc_str_free(&final);
    return status;
}

typedef struct step_folder {
    uint64_t step;
    char name[32];
} step_folder;
typedef MPC_ARRAY(step_folder) step_folders;

static int newest_first(const void *a, const void *b) {
    uint64_t x = ((const step_folder *)a)->step, y = ((const step_folder *)b)->step;
    return x > y ? -1 : x < y;
}

/* "step-00000120" -> 120; false for what has another name: a user's copy, say. */
static bool parse_step(const char *name, uint64_t *step) {
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
    char *end;
    *step = strtoull(name + 5, &end, 10);
    return *end == '\0';
}

static mpc_status list_folder(const char *dir, step_folders *steps, const mpc_sink *sink) {
    DIR *d = opendir(dir);
    if (!d) return mpc_error(sink, "E410", "can't open %s: %s", dir, strerror(errno));
    mpc_status status = MPC_OK;
    struct dirent *entry;
    while (status == MPC_OK && (entry = readdir(d)) != NULL) {
        bool leftover = strncmp(entry->d_name, "tmp-", 4) == 0;
        step_folder s = {.step = UINT64_MAX};
        if (!leftover && !parse_step(entry->d_name, &s.step)) continue;
        if (strlen(entry->d_name) >= sizeof s.name) continue;
        memcpy(s.name, entry->d_name, strlen(entry->d_name) + 1);
        if (!mpc_array_push(steps, s)) status = no_memory(sink);
    }
    closedir(d);
    if (steps->count > 0) qsort(steps->data, steps->count, sizeof *steps->data, newest_first);
    return status;
}

static bool is_spared(const char *name, const char *const *spare) {
    for (; spare && *spare; spare++)
        if (strcmp(*spare, name) == 0) return true;
    return false;
}

mpc_status mpc_checkpoint_prune(const char *dir, int64_t keep, const char *const *spare, const mpc_sink *sink) {
    step_folders steps = {0};
    mpc_status status = list_folder(dir, &steps, sink);
    int64_t kept = 0;
    for (size_t i = 0; i < steps.count && status == MPC_OK; i++) {
        bool leftover = steps.data[i].step == UINT64_MAX;
        if (!leftover && (is_spared(steps.data[i].name, spare) || kept++ < keep)) continue;
        mpc_str path = {0};
        mpc_str_printf(&path, "%s/%s", dir, steps.data[i].name);
        status = path.failed ? no_memory(sink) : mpc_folder_remove(path.data, sink);
        mpc_str_free(&path);
    }
    mpc_array_free(&steps);
    return status;
}

mpc_status mpc_checkpoint_newest(const char *dir, char *name, size_t size, const mpc_sink *sink) {
    step_folders steps = {0};
    mpc_status status = list_folder(dir, &steps, sink);
    name[0] = '\0';
    for (size_t i = 0; i < steps.count && !name[0]; i++)
        if (steps.data[i].step != UINT64_MAX) snprintf(name, size, "%s", steps.data[i].name);
    mpc_array_free(&steps);
    return status;
}
