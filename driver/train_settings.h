/* The numbers of the train section that the update depends on: one row each for its key on the command line and in
 * run.json, and for the option of the pass `optimizer` that takes it. */
#ifndef MPC_DRIVER_TRAIN_SETTINGS_H
#define MPC_DRIVER_TRAIN_SETTINGS_H

#include "frontend/frontend.h"

typedef struct mpc_train_setting {
    const char *key;    /* "optimizer.lr" */
    const char *option; /* "lr" */
    size_t offset;      /* in mpc_train_config, of a double or an mpc_quantity */
    bool is_quantity;
} mpc_train_setting;

const mpc_train_setting *mpc_train_setting_at(size_t i); /* NULL behind the last one */
double mpc_train_setting_number(const mpc_train_config *t, const mpc_train_setting *s);
mpc_quantity mpc_train_setting_quantity(const mpc_train_config *t, const mpc_train_setting *s);

/* The second low format where `also` adds one to what `precision` says, else NULL: f32 and the same again add none. */
const char *mpc_train_second_format(const char *precision, const char *also);
/* Some gradients may be f16: the update keeps a loss scale. */
bool mpc_train_has_loss_scale(const char *precision, const char *also);

#endif
