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

#endif
