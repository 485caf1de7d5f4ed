/* Vendor libraries are opened by name at run time and reached through a struct of function pointers, so the binary
 * starts without them. A library that lacks a required symbol counts as absent, and the next name is tried. */
#include "base/dl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct mpc_dl {
    void *handle;
    char *name;
};

static void say(char *reason, size_t size, const char *what, const char *detail) {
    if (reason && size) snprintf(reason, size, "%s%s", what, detail ? detail : "");
}

/* Object and function pointers have one representation wherever dlsym exists. */
static const char *fill_table(void *handle, const mpc_dl_symbol *symbols, size_t count, void *table) {
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && !symbols[i].optional) return symbols[i].name;
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

static mpc_dl *wrap(void *handle, const char *name) {
    mpc_dl *dl = mpc_alloc(sizeof *dl);
    char *copy = mpc_alloc(strlen(name) + 1);
    if (!dl || !copy) {
        mpc_free(dl);
        mpc_free(copy);
        return NULL;
    }
    strcpy(copy, name);
    *dl = (mpc_dl){handle, copy};
    return dl;
}

mpc_dl *mpc_dl_open(const char *const *names, const mpc_dl_symbol *symbols, size_t symbol_count, void *table,
                    char *reason, size_t reason_size) {
    say(reason, reason_size, "no name given", NULL);
    for (; *names; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            say(reason, reason_size, "", dlerror());
            continue;
        }
        const char *missing = fill_table(handle, symbols, symbol_count, table);
        mpc_dl *dl = missing ? NULL : wrap(handle, *names);
        if (dl) return dl;
        say(reason, reason_size, missing ? "it has no symbol " : "out of memory", missing);
        dlclose(handle);
    }
    return NULL;
}

void *mpc_dl_symbol_address(mpc_dl *dl, const char *name) { return dlsym(dl->handle, name); }
const char *mpc_dl_path(const mpc_dl *dl) { return dl->name; }

void mpc_dl_close(mpc_dl *dl) {
    if (!dl) return;
    dlclose(dl->handle);
    mpc_free(dl->name);
    mpc_free(dl);
}
