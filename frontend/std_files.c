/* The files of std/ as texts. The table is written by CMake from what lies there (mpc_embed_std): a new file needs no
 * other change. */
#include <string.h>

#include "frontend/fe_model.h"

const mpc_std_file *mpc_std_at(size_t index) { return index < fe_std_count ? &fe_std_files[index] : NULL; }

const mpc_std_file *mpc_std_find(const char *name) {
    for (size_t i = 0; i < fe_std_count; i++)
        if (strcmp(fe_std_files[i].name, name) == 0) return &fe_std_files[i];
    return NULL;
}
