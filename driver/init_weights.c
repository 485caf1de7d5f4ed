/* --init: parameters from another model's file, by name and shape, strictly. --rename A=B maps names of the file to
 * names here; each `*` and `**` in A stands for the same text in B, and a number in the place of the last `*` chooses a
 * word of `{q,k}` in B. Numbered names of a block with another number of calls load only where a rule says what they
 * are here. Running statistics come along where they are known, since a frozen norm would work with none: in the file,
 * or in the other file of a checkpoint.
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

enum { WILDCARDS = 4 };
typedef struct wild { /* what each wildcard of a rule stands for */
    const char *at[WILDCARDS];
    size_t length[WILDCARDS], count;
} wild;

/* `*` stands for text without a dot, `**` for any. */
static bool match(const char *glob, const char *end, const char *name, wild *w) {
    for (; glob < end && *glob != '*'; glob++, name++)
        if (*glob != *name) return false;
    if (glob == end) return *name == '\0';
    if (w->count == WILDCARDS) return false;
    size_t mine = w->count, stars = glob + 1 < end && glob[1] == '*' ? 2 : 1;
    for (size_t n = 0;; n++) {
        w->count = mine + 1;
        w->at[mine] = name;
        w->length[mine] = n;
        if (match(glob + stars, end, name + n, w)) return true;
        if (name[n] == '\0' || (stars == 1 && name[n] == '.')) return false;
    }
}

static size_t count_wildcards(const char *text) {
    size_t count = 0;
    for (text = strchr(text, '*'); text; text = strchr(text + strspn(text, "*"), '*')) count++;
    return count;
}

/* The wildcards of `to` are those of `glob`, in order and as many. */
static bool rename_by(const char *glob, size_t glob_length, const char *to, const char *name, mpc_str *out) {
    wild w = {.count = 0};
    if (strchr(to, '{')) return rename_numbered(glob, glob_length, to, name, out);
    if (!match(glob, glob + glob_length, name, &w) || count_wildcards(to) != w.count) return false;
    for (size_t i = 0; i < w.count; i++) {
        size_t before = strcspn(to, "*");
        mpc_str_append_n(out, to, before);
        mpc_str_append_n(out, w.at[i], w.length[i]);
        to += before + strspn(to + before, "*");
    }
    mpc_str_append(out, to);
    return true;
}

static bool rename_by_rule(const mpc_options *o, size_t rule, const char *name, mpc_str *out) {
    const char *glob = o->renames.data[rule], *equals = strchr(glob, '=');
    return rename_by(glob, (size_t)(equals - glob), equals + 1, name, out);
}

/* False: no rule is about it. */
static bool name_here(const mpc_options *o, const char *name, mpc_str *out) {
    for (size_t i = 0; i < o->renames.count; i++)
        if (rename_by_rule(o, i, name, out)) return true;
    mpc_str_append(out, name);
    return false;
}

/* A rule that is about no tensor of the file is a slip, and what it was meant for would start afresh or as it is. */
static bool rules_apply(const mpc_session *s, const mpc_safetensors *file, const char *place) {
    const mpc_options *o = s->cli->options;
    mpc_str name = {0};
    bool all = true;
    for (size_t i = 0; i < o->renames.count; i++) {
        bool applies = false;
        for (uint32_t k = 0; k < mpc_safetensors_count(file) && !applies; k++)
            applies = rename_by_rule(o, i, mpc_safetensors_at(file, k)->name, &name);
        if (applies) continue;
        mpc_error(s->sink, "E406", "--rename '%s' is about no tensor of %s", o->renames.data[i], place);
        all = false;
    }
    mpc_str_free(&name);
    return all;
}

static bool is_parameter(const mpc_store_entry *e) {
    return e->derived == MPC_FMT_none && strcmp(e->role, "param") == 0;
}

/* A glob that allows nothing was meant for a name that is another one here. */
static bool allowances_apply(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    bool all = true;
    for (size_t i = 0; i < o->allow_missing.count; i++) {
        bool applies = false;
        for (uint32_t k = 0; k < mpc_store_count(s->store) && !applies; k++) {
            const mpc_store_entry *e = mpc_store_at(s->store, k);
            applies = is_parameter(e) && mpc_glob_match(o->allow_missing.data[i], e->name);
        }
        if (applies) continue;
        mpc_error_help(s->sink, "E407", NULL, "mpc summary FILE.mpg --params lists their names",
                       "--allow-missing '%s' is about no parameter of this model", o->allow_missing.data[i]);
        all = false;
    }
    return all;
}

static bool may_be_missing(const mpc_options *o, const char *name) {
    for (size_t i = 0; i < o->allow_missing.count; i++)
        if (mpc_glob_match(o->allow_missing.data[i], name)) return true;
    return false;
}

enum { LISTED = 12 };
typedef struct init_list { /* of names, for the report of success: the first ones and the count of all */
    mpc_str text;
    uint32_t count;
} init_list;

typedef struct init_lists {
    init_list loaded, converted, fresh, unused;
    uint32_t rounded; /* 16-bit in the file, f32 here */
    mpc_checkpoint_diff diff;
    const mpc_tensor_view **source; /* by store entry: what it is taken from, NULL: nothing */
    uint32_t statistics, statistics_wanted;
    bool twice;          /* some have two such, which has been said */
    mpc_str here, there; /* numbered names of the model and of the file; "": the file has none of them */
} init_lists;

static void append_name(init_list *list, const char *name, const mpc_type *type, const mpc_type *in_file) {
    if (list->count++ >= LISTED) return;
    mpc_str_printf(&list->text, "\n  %-28s ", name);
    if (in_file) {
        mpc_type_print(in_file, &list->text);
        mpc_str_append(&list->text, " in the file, here ");
    }
    mpc_type_print(type, &list->text);
}

static void print_list(const init_list *list, const char *what) {
    if (list->count == 0) return;
    fprintf(stderr, "%s %u:%s\n", what, list->count, mpc_str_cstr(&list->text));
    if (list->count > LISTED) fprintf(stderr, "  and %u more\n", list->count - LISTED);
}

/* Of a norm. What is standardized was measured on this training's rows. */
static bool is_statistic(const mpc_store_entry *e) {
    return e->derived == MPC_FMT_none && strcmp(e->role, "stat") == 0 && strstr(e->name, ".running_");
}

static void leave_out(const mpc_tensor_view *t, init_lists *l) {
    append_name(&l->unused, t->name, &t->type, NULL);
    mpc_diff_unused(&l->diff, t->name, &t->type);
}

static void load_tensor(mpc_session *s, const mpc_tensor_view *t, const char *name, init_lists *l) {
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++) {
        mpc_store_entry *e = mpc_store_at(s->store, i);
        if (!is_parameter(e) || strcmp(e->name, name) != 0) continue;
        if (l->source[i]) {
            mpc_error(s->sink, "E406", "`%s` and `%s` of %s are both `%s` here", l->source[i]->name, t->name,
                      l->diff.place, name);
            l->twice = true;
            return;
        }
        l->source[i] = t; /* of another shape, it is listed as such and not as missing */
        if (!mpc_store_takes(e, t)) {
            mpc_diff_missing(&l->diff, e->name, &e->type, &t->type);
            return;
        }
        l->rounded += mpc_type_bytes(&t->type) < mpc_type_bytes(&e->type);
        if (t->type.format != e->type.format) append_name(&l->converted, e->name, &e->type, &t->type);
        else append_name(&l->loaded, e->name, &e->type, NULL);
        mpc_store_take(e, t);
        return;
    }
    leave_out(t, l);
}

/* One of another size stays as it starts: its norm's parameters don't fit either, which is said of them. */
static bool load_statistic(mpc_session *s, const mpc_tensor_view *t, const char *name, init_lists *l) {
    mpc_store_entry *e = mpc_store_find(s->store, name, MPC_FMT_none);
    if (!e || !is_statistic(e)) return false;
    if (!mpc_store_takes(e, t)) return true;
    mpc_store_take(e, t);
    l->statistics++;
    return true;
}

/* `beside`: the file's tensors are states of all kinds, of which only statistics are wanted. */
static void load_tensors(mpc_session *s, const mpc_safetensors *file, bool beside, init_lists *l) {
    mpc_str name = {0};
    mpc_numbered mine, other;
    for (uint32_t i = 0; i < mpc_safetensors_count(file); i++) {
        const mpc_tensor_view *t = mpc_safetensors_at(file, i);
        mpc_str_clear(&name);
        bool told = name_here(s->cli->options, t->name, &name);
        bool moved = mpc_numbered_differs(mpc_str_cstr(&l->here), mpc_str_cstr(&l->there), t->name, &mine, &other);
        bool known = (told || !moved) && load_statistic(s, t, mpc_str_cstr(&name), l);
        if (beside || known) continue;
        if (told || !moved) load_tensor(s, t, mpc_str_cstr(&name), l);
        else leave_out(t, l);
    }
    mpc_str_free(&name);
}

static void list_missing(mpc_session *s, init_lists *l) {
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++) {
        const mpc_store_entry *e = mpc_store_at(s->store, i);
        l->statistics_wanted += is_statistic(e);
        if (!is_parameter(e)) continue;
        l->diff.wanted++;
        if (l->source[i]) continue;
        append_name(&l->fresh, e->name, &e->type, NULL);
        if (!may_be_missing(s->cli->options, e->name)) mpc_diff_missing(&l->diff, e->name, &e->type, NULL);
    }
}

/* The first missing name that a number in the file can't be taken for. */
static bool numbers_differ(const init_lists *l, mpc_numbered *mine, mpc_numbered *other) {
    for (size_t i = 0; i < l->diff.missing.count; i++)
        if (mpc_numbered_differs(mpc_str_cstr(&l->here), mpc_str_cstr(&l->there), l->diff.missing.data[i].name, mine,
                                 other))
            return true;
    return false;
}

/* Unused tensors alone are no error: the file may hold more than is wanted. */
static bool judge_lists(mpc_session *s, init_lists *l) {
    mpc_numbered mine, other;
    if (l->twice) return false;
    if (numbers_differ(l, &mine, &other)) return mpc_diff_report_numbered(&l->diff, &mine, &other, s->sink) == MPC_OK;
    if (l->diff.missing.count || l->diff.failed) return mpc_diff_report(&l->diff, s->sink) == MPC_OK;
    fprintf(stderr, "%u of %u parameters", l->loaded.count + l->converted.count, l->diff.wanted);
    if (l->statistics_wanted) fprintf(stderr, " and %u of %u statistics", l->statistics, l->statistics_wanted);
    fprintf(stderr, " from %s\n", l->diff.place);
    print_list(&l->loaded, "loaded");
    print_list(&l->converted, "converted");
    if (l->rounded)
        mpc_warn(s->sink, "W173", (mpc_span){0},
                 "%s has no masters: %u parameters start from the rounded values that it holds", l->diff.place,
                 l->rounded);
    print_list(&l->fresh, "new");
    print_list(&l->unused, "not used");
    return true;
}

/* One entry of the model's list: how far the numbers go in both. */
static void count_names(mpc_session *s, const mpc_safetensors *file, const char **at, init_lists *l) {
    mpc_numbered n;
    uint64_t here = 0, there = 0;
    if (!mpc_numbered_next(at, &n)) {
        *at += strlen(*at);
        return;
    }
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++)
        if (is_parameter(mpc_store_at(s->store, i))) mpc_numbered_reach(&n, mpc_store_at(s->store, i)->name, &here);
    for (uint32_t i = 0; i < mpc_safetensors_count(file); i++)
        mpc_numbered_reach(&n, mpc_safetensors_at(file, i)->name, &there);
    if (there == 0) return;
    mpc_str_printf(&l->here, "%.*s=%llu ", (int)n.length, n.name, (unsigned long long)here);
    mpc_str_printf(&l->there, "%.*s=%llu ", (int)n.length, n.name, (unsigned long long)there);
}

/* What the file says of its numbers; where it says nothing, as one of another program, the names themselves are
 * counted, and so are the model's: a call without parameters has no name in either. */
static bool list_numbers(mpc_session *s, const mpc_safetensors *file, init_lists *l) {
    const char *said = mpc_safetensors_metadata(file, "numbered");
    mpc_str all = {0};
    if (mpc_numbered_list(s->store, &all) != MPC_OK) return mpc_str_free(&all), false;
    if (said) {
        mpc_str_append(&l->here, mpc_str_cstr(&all));
        mpc_str_append(&l->there, said);
    } else {
        for (const char *at = mpc_str_cstr(&all); *at;) count_names(s, file, &at, l);
    }
    mpc_str_free(&all);
    return !l->here.failed && !l->there.failed;
}

/* The file, and what a checkpoint keeps beside it, else NULL. */
static mpc_safetensors *open_init(mpc_session *s, mpc_str *place, mpc_safetensors **states) {
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
    if (file && !mpc_states_beside(path.data, states, s->sink)) {
        mpc_safetensors_destroy(file);
        file = NULL;
    }
    mpc_str_clear(&s->init_file);
    mpc_str_append(&s->init_file, mpc_str_cstr(&path));
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
    mpc_safetensors *states = NULL, *file = open_init(s, &place, &states);
    size_t entries = (size_t)mpc_store_count(s->store) + 1;
    init_lists l = {.source = file ? mpc_alloc(entries * sizeof *l.source) : NULL,
                    .diff = {.place = mpc_str_cstr(&place), .kind = "parameters", .settable = true}};
    bool ok = false;
    if (l.source && list_numbers(s, file, &l)) {
        memset(l.source, 0, entries * sizeof *l.source);
        load_tensors(s, file, false, &l);
        if (states) load_tensors(s, states, true, &l);
        list_missing(s, &l);
        ok = rules_apply(s, file, l.diff.place) && allowances_apply(s) && judge_lists(s, &l);
        mpc_store_restart_averages(s->store);
        ok = mpc_store_derive(s->store) == MPC_OK && ok;
    } else if (file) mpc_error(s->sink, "E901", "out of memory");
    mpc_free(l.source);
    mpc_str *texts[] = {&l.here, &l.there, &l.loaded.text, &l.converted.text, &l.fresh.text, &l.unused.text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) mpc_str_free(texts[i]);
    mpc_diff_free(&l.diff);
    mpc_safetensors_destroy(states);
    mpc_safetensors_destroy(file);
    mpc_str_free(&place);
    return ok;
}
