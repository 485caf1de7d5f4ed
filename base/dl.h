/* Shared libraries opened at run time from a table of symbols. One binary runs everywhere and says what it found. */
#ifndef MPC_BASE_DL_H
#define MPC_BASE_DL_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mpc_dl mpc_dl;

typedef struct mpc_dl_symbol {
    const char *name;
    size_t offset; /* where in the struct of function pointers the address goes */
    bool optional;
} mpc_dl_symbol;

/* Tries `names` (NULL-terminated) in order; fills `table` with the symbols. NULL when no name opens or a symbol that isn't
 * optional is missing; then `reason` (if not NULL, `reason_size` bytes) says which. */
mpc_dl *mpc_dl_open(const char *const *names, const mpc_dl_symbol *symbols, size_t symbol_count, void *table,
                    char *reason, size_t reason_size);
void *mpc_dl_symbol_address(mpc_dl *dl, const char *name); /* NULL: none */
const char *mpc_dl_path(const mpc_dl *dl); /* the name that opened */
void mpc_dl_close(mpc_dl *dl);

#endif
