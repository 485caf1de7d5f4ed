/* What was chosen by timing on some machine (GEMM algorithms): text by key, kept in the run's folder and used again on resume. The
 * file names the device and library it was made on; another one refuses it. One line per choice: key, tab, value. */
#ifndef MPC_RUNTIME_CHOICES_H
#define MPC_RUNTIME_CHOICES_H

#include "ir/context.h"

typedef struct mpc_choices mpc_choices;

mpc_choices *mpc_choices_create(void); /* NULL: no memory */
void mpc_choices_destroy(mpc_choices *c);
/* `owner`: "NVIDIA H200, cuBLASLt 13.1". The first call claims an empty set; a set of another owner: error E36x naming both. */
mpc_status mpc_choices_claim(mpc_choices *c, const char *owner, const mpc_sink *sink);
const char *mpc_choices_get(const mpc_choices *c, const char *key); /* NULL: none */
bool mpc_choices_set(mpc_choices *c, const char *key, const char *value);
bool mpc_choices_changed(const mpc_choices *c); /* since load or save */
/* A missing file is an empty set. Damage: an error with file and line. */
mpc_status mpc_choices_load(mpc_choices *c, const char *path, const mpc_sink *sink);
mpc_status mpc_choices_save(mpc_choices *c, const char *path, const mpc_sink *sink); /* whole or not at all; sorted by key */

#endif
