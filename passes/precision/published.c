/* Looks published op lists up: a name in a system's lists, and one of our ops by the names it has there. Everything is
 * data in the two .def files; what isn't listed has no entry, and what that means is the solver's business. */
#include "passes/precision/published.h"

#include <string.h>

typedef struct list_row {
    mpc_system system;
    mpc_listed listed;
    const char *names;
} list_row;

static const list_row lists[] = {
#define PUBLISHED(system, list, names) {MPC_SYSTEM_##system, MPC_LISTED_##list, names},
#include "passes/precision/published.def"
#undef PUBLISHED
};
enum { LIST_COUNT = sizeof lists / sizeof *lists };

typedef struct name_row {
    const char *op;
    const char *torch, *grappler, *relay, *relax;
} name_row;

static const name_row names[] = {
#define NAMED(op, torch, grappler, relay, relax) {#op, torch, grappler, relay, relax},
#include "passes/precision/published_ops.def"
#undef NAMED
};
enum { NAME_COUNT = sizeof names / sizeof *names };

const char *mpc_system_name(mpc_system system) {
    static const char *const text[MPC_SYSTEM_COUNT] = {"PyTorch CUDA", "PyTorch CPU", "Apex O1",
                                                       "grappler",     "Relay",       "Relax"};
    return text[system];
}

const char *mpc_listed_name(mpc_system system, mpc_listed listed) {
    static const char *const torch[] = {
        "unlisted", "lower_precision_fp", "fp32", "fp32_set_opt_dtype", "fp32_none", "none", "promote", "banned"};
    static const char *const grappler[] = {"unlisted", "allow", "deny", "deny", "infer", "clear", "infer", "deny"};
    static const char *const tvm[] = {"unlisted", "ALWAYS", "NEVER", "NEVER", "FOLLOW", "FOLLOW", "FOLLOW", "NEVER"};
    if (system == MPC_SYSTEM_grappler) return grappler[listed];
    return system == MPC_SYSTEM_relay || system == MPC_SYSTEM_relax ? tvm[listed] : torch[listed];
}

static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; *at != '\0';) {
        size_t here = strcspn(at, " ");
        if (here == length && memcmp(at, word, length) == 0) return true;
        at += here + (at[here] == ' ');
    }
    return false;
}

static mpc_listed find_word(mpc_system system, const char *word, size_t length) {
    for (size_t i = 0; i < LIST_COUNT; i++)
        if (lists[i].system == system && has_word(lists[i].names, word, length)) return lists[i].listed;
    return MPC_LISTED_NOT;
}

mpc_listed mpc_published_find(mpc_system system, const char *name) { return find_word(system, name, strlen(name)); }

const char *mpc_published_op_at(uint32_t index) { return index < NAME_COUNT ? names[index].op : NULL; }

static const char *names_in(const name_row *row, mpc_system system) {
    if (system == MPC_SYSTEM_grappler) return row->grappler;
    if (system == MPC_SYSTEM_relay) return row->relay;
    return system == MPC_SYSTEM_relax ? row->relax : row->torch;
}

const char *mpc_published_names(mpc_system system, const char *op) {
    for (size_t i = 0; i < NAME_COUNT; i++)
        if (strcmp(names[i].op, op) == 0) return names_in(&names[i], system);
    return NULL;
}

/* Which list decides for an op of several parts: an f32 part makes it f32, then a matmul makes it low. */
static unsigned strictness(mpc_listed listed) {
    static const unsigned rank[] = {
        [MPC_LISTED_BANNED] = 7,  [MPC_LISTED_HIGH] = 6,   [MPC_LISTED_SETS] = 5,  [MPC_LISTED_LOW] = 4,
        [MPC_LISTED_PROMOTE] = 3, [MPC_LISTED_FOLLOW] = 2, [MPC_LISTED_CLEAR] = 1, [MPC_LISTED_NOT] = 0};
    return rank[listed];
}

mpc_listed mpc_published_of(mpc_system system, const char *op) {
    const char *at = mpc_published_names(system, op);
    mpc_listed found = MPC_LISTED_NOT;
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, " ");
        mpc_listed listed = find_word(system, at, length);
        if (strictness(listed) > strictness(found)) found = listed;
        at += length + (at[length] == ' ');
    }
    return found;
}
