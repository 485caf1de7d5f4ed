/* The message about a checkpoint that doesn't fit the model. Names that are missing are paired with unused ones of the
 * same type and the same last word; when all find a partner a layer was renamed, and the message says how to load it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "runtime/checkpoint.h"

enum { LISTED = 12, WIDEST = 40 };

void mpc_diff_missing(mpc_checkpoint_diff *diff, const char *name, const mpc_type *type, const mpc_type *in_file) {
    if (!mpc_array_push(&diff->missing, (mpc_diff_line){name, type, in_file})) diff->failed = true;
}

void mpc_diff_unused(mpc_checkpoint_diff *diff, const char *name, const mpc_type *type) {
    if (!mpc_array_push(&diff->unused, (mpc_diff_line){name, type, NULL})) diff->failed = true;
}

void mpc_diff_free(mpc_checkpoint_diff *diff) {
    mpc_array_free(&diff->missing);
    mpc_array_free(&diff->unused);
}

/* ---- lists ---- */

static void append_dims(mpc_str *out, const mpc_type *type) {
    if (type->format != MPC_FMT_f32) mpc_str_append(out, mpc_format_get(type->format)->name);
    mpc_str_append(out, "[");
    for (uint32_t i = 0; i < type->rank; i++) mpc_str_printf(out, "%s%lld", i ? ", " : "", (long long)type->dims[i]);
    mpc_str_append(out, "]");
}

static size_t longest_name(const mpc_checkpoint_diff *d) {
    size_t width = 0;
    const mpc_diff_list *lists[] = {&d->missing, &d->unused};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count && i < LISTED; i++) {
            size_t n = strlen(lists[k]->data[i].name);
            if (n > width && n < WIDEST) width = n;
        }
    return width;
}

static void append_list(mpc_str *out, const mpc_diff_list *list, const char *what, size_t width) {
    const char *before = "";
    for (size_t i = 0; i < list->count && i < LISTED; i++) {
        const mpc_diff_line *line = &list->data[i];
        const char *word = line->in_file ? "differs" : what;
        mpc_str_printf(out, "\n  %-9s %-*s  ", strcmp(word, before) == 0 ? "" : word, (int)width, line->name);
        append_dims(out, line->type);
        before = word;
        if (!line->in_file) continue;
        mpc_str_append(out, " here, in the file ");
        append_dims(out, line->in_file);
    }
    if (list->count > LISTED) mpc_str_printf(out, "\n            and %zu more", list->count - LISTED);
}

/* ---- renaming ---- */

static bool same_type(const mpc_type *a, const mpc_type *b) {
    bool same = a->format == b->format && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static const char *last_word(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot : name;
}

/* Brings the partner of each missing name to its place in the list of unused ones; false: some have none. */
static bool pair_up(mpc_checkpoint_diff *d) {
    mpc_diff_line *unused = d->unused.data;
    if (!d->missing.count || d->missing.count != d->unused.count) return false;
    for (size_t i = 0; i < d->missing.count; i++) {
        const mpc_diff_line *want = &d->missing.data[i];
        size_t at = i;
        while (at < d->unused.count && (!same_type(want->type, unused[at].type) ||
                                        strcmp(last_word(want->name), last_word(unused[at].name)) != 0))
            at++;
        if (at == d->unused.count || want->in_file) return false;
        mpc_diff_line partner = unused[at];
        unused[at] = unused[i];
        unused[i] = partner;
    }
    return true;
}

/* Lengths of what two names don't share: "head.weight", "linear.weight" have "head" and "linear". */
static void differing_heads(const char *here, const char *there, size_t *a, size_t *b) {
    size_t n = strlen(here), m = strlen(there);
    *a = n, *b = m;
    for (size_t k = 1; k < n && k < m && here[n - k] == there[m - k]; k++)
        if (here[n - k] == '.') *a = n - k, *b = m - k;
}

/* One pattern for all pairs, 'linear.*=head.*'; false: there is none. */
static bool find_renaming(const mpc_checkpoint_diff *d, mpc_str *from, mpc_str *to) {
    const char *here = d->missing.data[0].name, *there = d->unused.data[0].name;
    size_t a, b, c, e;
    differing_heads(here, there, &a, &b);
    if (!here[a]) return false;
    bool deep = false;
    for (size_t i = 0; i < d->missing.count; i++) {
        const char *x = d->missing.data[i].name, *y = d->unused.data[i].name;
        differing_heads(x, y, &c, &e);
        if (c != a || e != b || memcmp(x, here, a) != 0 || memcmp(y, there, b) != 0) return false;
        deep = deep || strchr(x + a + 1, '.');
    }
    mpc_str_printf(from, "%.*s.%s", (int)b, there, deep ? "**" : "*");
    mpc_str_printf(to, "%.*s.%s", (int)a, here, deep ? "**" : "*");
    return true;
}

static bool all_differ(const mpc_checkpoint_diff *d) {
    for (size_t i = 0; i < d->missing.count; i++)
        if (!d->missing.data[i].in_file) return false;
    return true;
}

static void append_help(const mpc_checkpoint_diff *d, bool paired, mpc_str *out) {
    if (all_differ(d)) return;
    mpc_str from = {0}, to = {0};
    bool one = paired && find_renaming(d, &from, &to);
    const char *old_name = one ? mpc_str_cstr(&from) : "OLD.*", *new_name = one ? mpc_str_cstr(&to) : "NEW.*";
    if (one && strcmp(old_name, new_name) == 0)
        mpc_str_printf(out, "the file calls %s what this model does: a --rename gives them another name; leave it out",
                       old_name);
    else if (paired && d->settable)
        mpc_str_printf(out, "same shapes, so probably renamed: --rename '%s=%s'", old_name, new_name);
    else if (paired)
        mpc_str_printf(out, "same shapes, so probably renamed from %s to %s; mpc train --init DIR takes --rename",
                       old_name, new_name);
    else if (d->settable) mpc_str_append(out, "where only names differ: --rename 'OLD.*=NEW.*'");
    if (d->settable) mpc_str_printf(out, "\nto start them afresh: --allow-missing '%s'", new_name);
    mpc_str_free(&from);
    mpc_str_free(&to);
}

mpc_status mpc_diff_report(mpc_checkpoint_diff *d, const mpc_sink *sink) {
    if (d->failed) return mpc_error(sink, "E901", "out of memory");
    mpc_str message = {0}, help = {0};
    bool paired = pair_up(d);
    if (d->missing.count)
        mpc_str_printf(&message, "%zu of %u %s of this model are not in %s", d->missing.count, d->wanted, d->kind,
                       d->place);
    else mpc_str_printf(&message, "%s holds %zu tensors that this model has no place for", d->place, d->unused.count);
    size_t width = longest_name(d);
    append_list(&message, &d->missing, "missing", width);
    append_list(&message, &d->unused, "not used", width);
    append_help(d, paired, &help);
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E401",
                     .message = mpc_str_cstr(&message),
                     .help = help.length ? mpc_str_cstr(&help) : NULL};
    if (sink) sink->emit(sink->user, &diag);
    mpc_str_free(&message);
    mpc_str_free(&help);
    return MPC_FAILED;
}

/* "body.linear.*=body.{first,second,third}" */
static void append_mapping(mpc_str *out, const mpc_numbered *n) {
    static const char *const words[] = {"first", "second", "third"};
    const char *dot = n->name + n->length;
    while (dot > n->name && dot[-1] != '.') dot--;
    mpc_str_printf(out, "'%.*s.*=%.*s{", (int)n->length, n->name, (int)(dot - n->name), n->name);
    for (uint64_t i = 0; i < n->count && i < 4; i++)
        mpc_str_printf(out, "%s%s", i ? "," : "", i < 3 ? words[i] : "...");
    mpc_str_append(out, "}'");
}

mpc_status mpc_diff_report_numbered(const mpc_checkpoint_diff *d, const mpc_numbered *here, const mpc_numbered *there,
                                    const mpc_sink *sink) {
    if (d->failed) return mpc_error(sink, "E901", "out of memory");
    mpc_str message = {0}, help = {0};
    mpc_str_printf(
        &message, "%llu calls are numbered under `%.*s` in this model, %llu in %s: numbers don't say which is which",
        (unsigned long long)here->count, (int)here->length, here->name, (unsigned long long)there->count, d->place);
    size_t width = longest_name(d);
    append_list(&message, &d->missing, "here", width);
    append_list(&message, &d->unused, "there", width);
    mpc_str_append(&help, "give the calls labels, linear(x, n) as first, and say which is which: ");
    mpc_str_append(&help, d->settable ? "--rename " : "mpc train --init DIR --rename ");
    append_mapping(&help, there);
    mpc_diag diag = {
        .severity = MPC_SEV_ERROR, .code = "E402", .message = mpc_str_cstr(&message), .help = mpc_str_cstr(&help)};
    if (sink) sink->emit(sink->user, &diag);
    mpc_str_free(&message);
    mpc_str_free(&help);
    return MPC_FAILED;
}
