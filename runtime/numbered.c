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

bool mpc_numbered_differs(const char *here, const char *there, const char *name, mpc_numbered *mine,
                          mpc_numbered *other) {
    size_t length = strlen(name);
    while (mpc_numbered_next(&here, mine)) {
        bool under = length > mine->length + 1 && memcmp(name, mine->name, mine->length) == 0 &&
                     name[mine->length] == '.' && name[mine->length + 1] >= '0' && name[mine->length + 1] <= '9';
        if (under && find_entry(there, mine, other) && other->count != mine->count) return true;
    }
    return false;
}
