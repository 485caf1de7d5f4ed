/* Splits of the data section as datasets. A source that others are split from is opened once; each `split` takes its
 * part from what is left, in the order of the file, and the source keeps the rest. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/placed_sink.h"
#include "driver/session.h"
#include "ir/schedule_rate.h"

static const mpc_data_source *find_source(const mpc_session *s, const char *split) {
    for (size_t i = 0; i < mpc_model_source_count(s->model); i++) {
        const mpc_data_source *source = mpc_model_source(s->model, i);
        if (strcmp(source->split, split) == 0) return source;
    }
    return NULL;
}

bool mpc_session_has_split(const mpc_session *s, mpc_split split) {
    return find_source(s, mpc_split_name(split)) != NULL;
}

static mpc_dataset *own(mpc_session *s, mpc_dataset *d) {
    if (!d) return NULL;
    if (mpc_array_push(&s->datasets, d)) return d;
    mpc_dataset_destroy(d);
    mpc_error(s->sink, "E901", "out of memory");
    return NULL;
}

static mpc_dataset *vocabulary_of_training(mpc_session *s, const char *split, bool *failed) {
    const mpc_data_source *train = find_source(s, "train");
    *failed = false;
    if (strcmp(split, "train") == 0 || !train || train->kind != MPC_SOURCE_TEXT) return NULL;
    bool missing;
    mpc_dataset *d = mpc_session_split(s, MPC_SPLIT_TRAIN, &missing);
    *failed = d == NULL;
    return d;
}

static bool keeps_nonfinite(const mpc_session *s) { return strcmp(s->train->nonfinite, "keep") == 0; }

/* Datasets keep a copy of their sink, so what it needs lives as long as the session. */
static const mpc_sink *sink_of(mpc_session *s, const mpc_data_source *source) {
    struct {
        mpc_placed place;
        mpc_sink sink;
    } *p = mpc_arena_alloc(s->overrides.owned, sizeof *p);
    if (!p) return s->sink;
    p->place = (mpc_placed){.to = s->sink, .span = source->span};
    p->sink = mpc_placed_sink(&p->place);
    return &p->sink;
}

static mpc_dataset *open_csv(mpc_session *s, const mpc_data_source *source, const char *path) {
    mpc_csv_options options = {
        .header = source->header, .delimiter = source->delimiter, .keep_nonfinite = keeps_nonfinite(s)};
    return mpc_dataset_open_csv(path, &options, sink_of(s, source));
}

static bool uses_field(const void *model, const char *name) { return mpc_model_maps_field(model, name); }

static mpc_dataset *open_npz(mpc_session *s, const mpc_data_source *source, const char *path) {
    mpc_field_filter filter = {.uses = uses_field, .user = s->model};
    return mpc_dataset_open_npz(path, &filter, keeps_nonfinite(s), sink_of(s, source));
}

static mpc_dataset *open_npy(mpc_session *s, const mpc_data_source *source, const char *path) {
    return mpc_dataset_open_npy(path, source->field, keeps_nonfinite(s), sink_of(s, source));
}

static mpc_dataset *open_part(mpc_session *s, const mpc_data_source *source) {
    switch (source->kind) {
    case MPC_SOURCE_NPY:
        return open_npy(s, source, source->path);
    case MPC_SOURCE_NPZ:
        return open_npz(s, source, source->path);
    case MPC_SOURCE_IDX:
        return mpc_dataset_open_idx(source->path, source->labels, keeps_nonfinite(s), sink_of(s, source));
    default:
        return open_csv(s, source, source->path);
    }
}

static mpc_dataset *open_zip(mpc_session *s, const mpc_data_source *source) {
    uint32_t n = 0;
    mpc_dataset **parts = mpc_alloc(source->part_count * sizeof *parts);
    const char **names = mpc_alloc(source->part_count * sizeof *names);
    bool ok = parts && names;
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    for (; ok && n < source->part_count; n += ok) {
        parts[n] = open_part(s, &source->parts[n]);
        names[n] = source->parts[n].field;
        ok = parts[n] != NULL;
    }
    mpc_dataset *d = ok ? mpc_dataset_zip(parts, names, n, s->sink) : NULL;
    for (uint32_t i = 0; !ok && i < n; i++) mpc_dataset_destroy(parts[i]);
    mpc_free(parts);
    mpc_free(names);
    return d;
}

static mpc_dataset *open_as(mpc_session *s, const mpc_data_source *source, const char *split) {
    if (source->kind == MPC_SOURCE_TEXT) {
        bool failed;
        const mpc_dataset *like = vocabulary_of_training(s, split, &failed);
        return failed ? NULL : own(s, mpc_dataset_open_text(source->path, source->length, like, sink_of(s, source)));
    }
    if (source->kind == MPC_SOURCE_TOKENS)
        return own(s, mpc_dataset_open_tokens(source->path, source->length, source->token_bytes, sink_of(s, source)));
    return own(s, source->kind == MPC_SOURCE_ZIP ? open_zip(s, source) : open_part(s, source));
}

/* Takes the parts of every `split(NAME, ...)` off a dataset; returns what is left. */
static mpc_dataset *carve(mpc_session *s, const char *name, mpc_dataset *d) {
    for (size_t i = 0; d && i < mpc_model_source_count(s->model); i++) {
        const mpc_data_source *source = mpc_model_source(s->model, i);
        mpc_split part;
        if (source->kind != MPC_SOURCE_SPLIT || strcmp(source->of, name) != 0 || !mpc_split_find(source->split, &part))
            continue;
        mpc_dataset *taken = own(s, mpc_dataset_split(d, source->fraction, source->seed, false));
        mpc_dataset *rest = taken ? own(s, mpc_dataset_split(d, source->fraction, source->seed, true)) : NULL;
        if (!rest) mpc_error(s->sink, "E901", "not enough memory to split the data");
        s->splits[part] = rest ? carve(s, source->split, taken) : NULL;
        d = rest;
    }
    return d;
}

static bool check_rows(const mpc_session *s, mpc_split split) {
    const mpc_dataset *d = s->splits[split];
    if (!d || mpc_dataset_rows(d) > 0) return d != NULL;
    const mpc_data_source *source = find_source(s, mpc_split_name(split));
    if (source && source->kind == MPC_SOURCE_SPLIT)
        mpc_error_at(s->sink, "E214", source->span, "the split `%s` has no rows: %g of `%s` is less than one",
                     mpc_split_name(split), source->fraction, source->of);
    else mpc_error(s->sink, "E214", "the split `%s` has no rows", mpc_split_name(split));
    return false;
}

mpc_dataset *mpc_session_split(mpc_session *s, mpc_split split, bool *missing) {
    *missing = false;
    if (s->splits[split]) return check_rows(s, split) ? s->splits[split] : NULL; /* made when it was split off */
    const mpc_data_source *source = find_source(s, mpc_split_name(split));
    if (!source) {
        *missing = true;
        return NULL;
    }
    if (source->kind == MPC_SOURCE_SPLIT) {
        mpc_split of;
        bool none = true;
        if (!mpc_split_find(source->of, &of) || of == split || !mpc_session_split(s, of, &none)) {
            if (none)
                mpc_error_at(s->sink, "E355", source->span, "`%s` is split from `%s`, which the data section has not",
                             source->split, source->of);
            return NULL;
        }
        return check_rows(s, split) ? s->splits[split] : NULL;
    }
    mpc_dataset *whole = open_as(s, source, source->split);
    s->splits[split] = whole ? carve(s, source->split, whole) : NULL;
    return s->splits[split] && check_rows(s, split) ? s->splits[split] : NULL;
}

/* Of a source that reads another file than the one its line names. */
static mpc_data_source without_line(const mpc_data_source *source) {
    mpc_data_source other = *source;
    other.span = (mpc_span){0};
    return other;
}

/* Rows to predict of a model that takes arrays: an NPZ gives fields by name; an NPY is the first array of the source.
 */
static mpc_dataset *open_arrays(mpc_session *s, const mpc_data_source *source, const char *path) {
    size_t n = strlen(path);
    bool is_npz = n > 4 && strcmp(path + n - 4, ".npz") == 0, is_npy = n > 4 && strcmp(path + n - 4, ".npy") == 0;
    if (is_npz) return open_npz(s, source, path);
    for (uint32_t i = 0; i < source->part_count; i++) {
        mpc_data_source part = without_line(&source->parts[i]);
        if (is_npy ? part.kind == MPC_SOURCE_NPY : part.kind == MPC_SOURCE_CSV)
            return is_npy ? open_npy(s, &part, path) : open_csv(s, &part, path);
    }
    if (source->kind == MPC_SOURCE_NPY) return open_npy(s, source, path);
    mpc_error(s->sink, "E355", "the source says nothing of how to read %s: an .npz gives every field by its name",
              path);
    return NULL;
}

mpc_dataset *mpc_session_open_file(mpc_session *s, const char *path) {
    static const char *const order[] = {"predict", "test", "train"};
    const mpc_data_source *source = NULL;
    for (size_t i = 0; i < 3 && !source; i++) {
        source = find_source(s, order[i]);
        if (source && source->kind == MPC_SOURCE_SPLIT) source = NULL;
    }
    if (!source) {
        mpc_error(s->sink, "E355", "the data section says nothing of how to read %s: it has no source of its own",
                  path);
        return NULL;
    }
    mpc_data_source other = without_line(source);
    other.path = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    other.labels = NULL;
    if (source->kind != MPC_SOURCE_ZIP && source->kind != MPC_SOURCE_NPY && source->kind != MPC_SOURCE_NPZ)
        return open_as(s, &other, "predict");
    return own(s, open_arrays(s, &other, other.path));
}

/* The fields of a dataset as facts; in the model's context, which outlives every elaboration. */
static bool learn_arrays(mpc_session *s, const mpc_dataset *d) {
    uint32_t n = mpc_dataset_array_count(d);
    mpc_array_fact *facts = mpc_arena_alloc(s->overrides.owned, (n ? n : 1) * sizeof *facts);
    for (uint32_t i = 0; facts && i < n; i++) {
        mpc_data_array a = mpc_dataset_array(d, i);
        facts[i] = (mpc_array_fact){.name = a.name, .rank = a.rank};
        memcpy(facts[i].dims, a.dims, sizeof a.dims);
    }
    s->facts.arrays = facts;
    s->facts.array_count = facts ? n : 0;
    return facts != NULL;
}

void mpc_session_learn_facts(mpc_session *s, const mpc_dataset *d) {
    s->facts = (mpc_data_facts){.known = true,
                                .columns = mpc_dataset_columns(d),
                                .column_names = mpc_dataset_column_names(d),
                                .vocabulary = mpc_dataset_vocabulary(d)};
    if (!learn_arrays(s, d)) mpc_error(s->sink, "E901", "out of memory");
}

/* The files of a source can be opened, as far as one look tells. */
static bool is_there(const mpc_data_source *source) {
    bool there = source->part_count > 0 || access(source->path ? source->path : source->labels, R_OK) == 0;
    for (uint32_t i = 0; i < source->part_count; i++) there = there && is_there(&source->parts[i]);
    return there;
}

bool mpc_session_try_facts(mpc_session *s) {
    const mpc_data_source *source = find_source(s, "train");
    if (!source || source->kind == MPC_SOURCE_SPLIT || !is_there(source)) return true;
    bool missing;
    const mpc_dataset *d = mpc_session_split(s, MPC_SPLIT_TRAIN, &missing);
    if (!d) return false;
    mpc_session_learn_facts(s, d);
    return mpc_session_plan_length(s, d);
}

int64_t mpc_session_epoch_rows(const mpc_session *s, const mpc_dataset *train) {
    int64_t rows = mpc_dataset_rows(train);
    return s->train->drops_last ? rows - rows % s->train->batch : rows;
}

int64_t mpc_session_batch(const mpc_session *s, const mpc_dataset *d) {
    int64_t rows = mpc_dataset_rows(d);
    return rows < s->train->batch ? rows : s->train->batch;
}

bool mpc_session_plan_length(mpc_session *s, const mpc_dataset *train) {
    const mpc_train_config *t = s->train;
    int64_t rows = mpc_session_epoch_rows(s, train), steps = (rows + t->batch - 1) / t->batch;
    if (rows == 0) {
        mpc_error(s->sink, "E369",
                  "%lld training rows fill no batch of %lld, and last_batch = drop leaves them all out",
                  (long long)mpc_dataset_rows(train), (long long)t->batch);
        return false;
    }
    s->updates_per_epoch = (steps + t->accumulate - 1) / t->accumulate;
    s->total_updates = t->length.value;
    if (t->length.unit == MPC_UNIT_EPOCHS) s->total_updates = ceil(t->length.value * (double)s->updates_per_epoch);
    if (t->length.unit != MPC_UNIT_MINUTES) return true;
    s->total_updates = 0;
    if (!mpc_schedule_needs_total(t->schedule.kind)) return true;
    mpc_error(s->sink, "E357",
              "a %s schedule needs a length in steps or epochs: how many steps a time gives isn't known before",
              t->schedule.kind);
    return false;
}
