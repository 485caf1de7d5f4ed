/* --init: parameters from another model's file, by name and shape, strictly. --rename A=B maps names of the file to
 * names here; `*` and `**` in A stand for the same text in B, and a number in the place of the last `*` chooses a word
 * of
 * `{q,k}` in B. Numbered names of a block with another number of calls load only where a rule says what they are here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "driver/trainer.h"
#include "runtime/checkpoint.h"

/* "attend.linear.*" to "attend.{q,k}": the number where the star stands chooses the word, what follows it is kept. */
static bool rename_numbered(const char *glob, size_t glob_length, const char *to, const char *name, mpc_str *out) {
    const char *open = strchr(to, '{'), *close = open ? strchr(open, '}') : NULL;
    size_t head = glob_length - 1;
    if (!close || !glob_length || glob[head] != '*' || strncmp(name, glob, head) != 0) return false;
    char *rest = NULL;
    unsigned long number = name[head] >= '0' && name[head] <= '9' ? strtoul(name + head, &rest, 10) : 0;
    if (!rest || (*rest && *rest != '.')) return false;
    const char *word = open + 1;
    for (; number > 0 && word < close; number--) word += strcspn(word, ",}") + 1;
    if (word >= close) return false;
    mpc_str_append_n(out, to, (size_t)(open - to));
    mpc_str_append_n(out, word, strcspn(word, ",}"));
    mpc_str_printf(out, "%s%s", close + 1, rest);
    return true;
}

/* What the wildcards of `glob` stand for in `name`, put into `to`. One wildcard is enough for layers; more are taken
 * literally. */
static bool rename_by(const char *glob, size_t glob_length, const char *to, const char *name, mpc_str *out) {
    const char *star = memchr(glob, '*', glob_length), *target = strchr(to, '*');
    if (strchr(to, '{')) return rename_numbered(glob, glob_length, to, name, out);
    if (!star || !target) {
        if (strlen(name) != glob_length || memcmp(glob, name, glob_length) != 0) return false;
        mpc_str_append(out, to);
        return true;
    }
    size_t head = (size_t)(star - glob), stars = star[1] == '*' && head + 1 < glob_length ? 2 : 1;
    size_t tail = glob_length - head - stars, length = strlen(name);
    if (length < head + tail || memcmp(glob, name, head) != 0 || memcmp(star + stars, name + length - tail, tail) != 0)
        return false;
    if (stars == 1 && memchr(name + head, '.', length - tail - head)) return false;
    mpc_str_append_n(out, to, (size_t)(target - to));
    mpc_str_append_n(out, name + head, length - tail - head);
    mpc_str_append(out, target + strspn(target, "*"));
    return true;
}

/* False: no rule is about it. */
static bool name_here(const mpc_options *o, const char *name, mpc_str *out) {
    for (size_t i = 0; i < o->renames.count; i++) {
        const char *rule = o->renames.data[i], *equals = strchr(rule, '=');
        if (rename_by(rule, (size_t)(equals - rule), equals + 1, name, out)) return true;
    }
    mpc_str_append(out, name);
    return false;
}

static bool may_be_missing(const mpc_options *o, const char *name) {
    for (size_t i = 0; i < o->allow_missing.count; i++)
        if (mpc_glob_match(o->allow_missing.data[i], name)) return true;
    return false;
}

typedef struct init_lists {
    mpc_str fresh, unused; /* for the report of success */
    uint32_t loaded, fresh_count, unused_count, rounded; /* rounded: 16-bit in the file, f32 here */
    mpc_checkpoint_diff diff;
    bool *filled;      /* by store entry */
    mpc_str here;      /* numbered names of the model, */
    const char *there; /* and of the file; NULL: it doesn't say */
} init_lists;

static void append_name(mpc_str *list, uint32_t *count, const char *name, const mpc_type *type) {
    mpc_str_printf(list, "\n  %-28s ", name);
    mpc_type_print(type, list);
    ++*count;
}

static bool is_parameter(const mpc_store_entry *e) {
    return e->derived == MPC_FMT_none && strcmp(e->role, "param") == 0;
}

static void load_tensor(mpc_session *s, const mpc_tensor_view *t, const char *name, init_lists *l) {
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++) {
        mpc_store_entry *e = mpc_store_at(s->store, i);
        if (!is_parameter(e) || strcmp(e->name, name) != 0) continue;
        l->filled[i] = true; /* of another shape, it is listed as such and not as missing */
        if (!mpc_store_takes(e, t)) {
            mpc_diff_missing(&l->diff, e->name, &e->type, &t->type);
            return;
        }
        l->rounded += mpc_type_bytes(&t->type) < mpc_type_bytes(&e->type);
        mpc_store_take(e, t);
        l->loaded++;
        return;
    }
    append_name(&l->unused, &l->unused_count, t->name, &t->type);
    mpc_diff_unused(&l->diff, t->name, &t->type);
}

static void load_tensors(mpc_session *s, const mpc_safetensors *file, init_lists *l) {
    mpc_str name = {0};
    mpc_numbered mine, other;
    for (uint32_t i = 0; i < mpc_safetensors_count(file); i++) {
        const mpc_tensor_view *t = mpc_safetensors_at(file, i);
        mpc_str_clear(&name);
        bool told = name_here(s->cli->options, t->name, &name);
        bool moved = l->there && mpc_numbered_differs(mpc_str_cstr(&l->here), l->there, t->name, &mine, &other);
        if (told || !moved) load_tensor(s, t, mpc_str_cstr(&name), l);
        else {
            append_name(&l->unused, &l->unused_count, t->name, &t->type);
            mpc_diff_unused(&l->diff, t->name, &t->type);
        }
    }
    mpc_str_free(&name);
}

static void list_missing(mpc_session *s, init_lists *l) {
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++) {
        const mpc_store_entry *e = mpc_store_at(s->store, i);
        if (!is_parameter(e)) continue;
        l->diff.wanted++;
        if (l->filled[i]) continue;
        append_name(&l->fresh, &l->fresh_count, e->name, &e->type);
        if (!may_be_missing(s->cli->options, e->name)) mpc_diff_missing(&l->diff, e->name, &e->type, NULL);
    }
}

/* The first missing name that a number in the file can't be taken for. */
static bool numbers_differ(const init_lists *l, mpc_numbered *mine, mpc_numbered *other) {
    for (size_t i = 0; l->there && i < l->diff.missing.count; i++)
        if (mpc_numbered_differs(mpc_str_cstr(&l->here), l->there, l->diff.missing.data[i].name, mine, other))
            return true;
    return false;
}

/* Unused tensors alone are no error: the file may hold more than is wanted. */
static bool judge_lists(mpc_session *s, init_lists *l) {
    mpc_numbered mine, other;
    if (numbers_differ(l, &mine, &other)) return mpc_diff_report_numbered(&l->diff, &mine, &other, s->sink) == MPC_OK;
    if (l->diff.missing.count || l->diff.failed) return mpc_diff_report(&l->diff, s->sink) == MPC_OK;
    fprintf(stderr, "%u parameters from %s\n", l->loaded, l->diff.place);
    if (l->rounded)
        mpc_warn(s->sink, "W173", (mpc_span){0}, "%s has no masters: %u parameters start from the rounded values that it holds",
                 l->diff.place, l->rounded);
    if (l->fresh_count) fprintf(stderr, "new:%s\n", mpc_str_cstr(&l->fresh));
    if (l->unused_count) fprintf(stderr, "not used:%s\n", mpc_str_cstr(&l->unused));
    return true;
}

static mpc_safetensors *open_init(mpc_session *s, mpc_str *place) {
    mpc_str path = {0};
    struct stat info;
    bool folder = false;
    mpc_str_append(&path, s->cli->options->init);
    if (!path.failed && stat(path.data, &info) == 0 && S_ISDIR(info.st_mode)) {
        if (!mpc_find_checkpoint(s->cli->options->init, NULL, &path, s->sink)) {
            mpc_str_free(&path);
            return NULL;
        }
        folder = true;
        mpc_checkpoint_place(s->cli->options->init, mpc_str_cstr(&path), place);
        mpc_str_append(&path, "/weights.safetensors");
    }
    if (!folder) mpc_str_append(place, s->cli->options->init);
    mpc_safetensors *file = path.failed ? NULL : mpc_safetensors_read(path.data, s->sink);
    mpc_str_free(&path);
    return file;
}

bool mpc_load_weights(mpc_session *s, const char *path, mpc_load_mode mode) {
    mpc_str place = {0};
    mpc_checkpoint_place(s->cli->options->from, path, &place);
    mpc_status status = mpc_checkpoint_load_from(path, mpc_str_cstr(&place), s->store, mode, NULL, s->sink);
    mpc_str_free(&place);
    return status == MPC_OK;
}

bool mpc_init_weights(mpc_session *s) {
    mpc_str place = {0};
    mpc_safetensors *file = open_init(s, &place);
    init_lists l = {.filled = file ? mpc_alloc(mpc_store_count(s->store) + 1) : NULL,
                    .there = file ? mpc_safetensors_metadata(file, "numbered") : NULL,
                    .diff = {.place = mpc_str_cstr(&place), .kind = "parameters", .settable = true}};
    bool ok = false;
    if (l.filled && mpc_numbered_list(s->store, &l.here) == MPC_OK) {
        memset(l.filled, 0, mpc_store_count(s->store) + 1);
        load_tensors(s, file, &l);
        list_missing(s, &l);
        ok = judge_lists(s, &l);
        mpc_store_restart_averages(s->store);
        ok = mpc_store_derive(s->store) == MPC_OK && ok;
    } else if (file) mpc_error(s->sink, "E901", "out of memory");
    mpc_free(l.filled);
    mpc_str_free(&l.here);
    mpc_str_free(&l.fresh);
    mpc_str_free(&l.unused);
    mpc_diff_free(&l.diff);
    mpc_safetensors_destroy(file);
    mpc_str_free(&place);
    return ok;
}
