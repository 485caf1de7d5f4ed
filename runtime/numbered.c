/* Numbered names of a store, and their comparison with those of a file. A name with a number in one of the two only is
 * no concern of this file: it can't be mistaken for another one, since the names differ. */
#include "runtime/numbered.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

bool mpc_numbered_next(const char **at, mpc_numbered *out) {
    const char *begin = *at + strspn(*at, " "), *equals = begin + strcspn(begin, "= ");
    char *end = NULL;
    if (*equals != '=' || equals[1] < '0' || equals[1] > '9') return false;
    *out = (mpc_numbered){begin, (size_t)(equals - begin), strtoull(equals + 1, &end, 10)};
    *at = end;
    return true;
}

/* Adds the entries that aren't there yet. */
static bool add_new(mpc_map *seen, const char *list, mpc_str *out) {
    mpc_numbered n;
    mpc_str name = {0};
    bool ok = true;
    uint32_t ignore;
    while (ok && mpc_numbered_next(&list, &n)) {
        mpc_str_clear(&name);
        mpc_str_append_n(&name, n.name, n.length);
        ok = !name.failed;
        if (!ok || mpc_map_get(seen, name.data, &ignore)) continue;
        ok = mpc_map_set(seen, name.data, 1);
        mpc_str_printf(out, "%s%s=%llu", out->length ? " " : "", name.data, (unsigned long long)n.count);
    }
    mpc_str_free(&name);
    return ok;
}

mpc_status mpc_numbered_list(mpc_store *store, mpc_str *out) {
    mpc_map *seen = mpc_map_create();
    bool ok = seen != NULL;
    for (uint32_t i = 0; ok && i < mpc_store_count(store); i++)
        ok = add_new(seen, mpc_store_at(store, i)->numbered, out);
    mpc_map_destroy(seen);
    return ok && !out->failed ? MPC_OK : MPC_NO_MEMORY;
}

static bool find_entry(const char *list, const mpc_numbered *wanted, mpc_numbered *out) {
    while (mpc_numbered_next(&list, out))
        if (out->length == wanted->length && memcmp(out->name, wanted->name, wanted->length) == 0) return true;
    return false;
}

/* Is `name` the entry's own with a number behind it? */
static bool is_under(const mpc_numbered *n, const char *name) {
    return strlen(name) > n->length + 1 && memcmp(name, n->name, n->length) == 0 && name[n->length] == '.' &&
           name[n->length + 1] >= '0' && name[n->length + 1] <= '9';
}

void mpc_numbered_reach(const mpc_numbered *n, const char *name, uint64_t *count) {
    if (!is_under(n, name)) return;
    unsigned long long number = strtoull(name + n->length + 1, NULL, 10);
    if (number < UINT32_MAX && number >= *count) *count = number + 1;
}

bool mpc_numbered_differs(const char *here, const char *there, const char *name, mpc_numbered *mine,
                          mpc_numbered *other) {
    while (mpc_numbered_next(&here, mine))
        if (is_under(mine, name) && find_entry(there, mine, other) && other->count != mine->count) return true;
    return false;
}
