/* What the params section and the train section say of one parameter, and initialisers for a concrete shape. */
#ifndef MPC_FRONTEND_FE_PARAMS_H
#define MPC_FRONTEND_FE_PARAMS_H

#include "frontend/fe_elab.h"

typedef struct fe_param_settings {
    const fe_init *init;
    double decay, lr;         /* decay < 0: the optimizer's */
    double ema;               /* 0: no average */
    bool frozen, frozen_norm; /* no update; and normalisation leaves its statistics alone */
    uint32_t group;           /* of losses that train it; 0: all */
    const char *weights;      /* master, stochastic, none */
    const char *load;         /* a safetensors file; NULL: initialised */
    const char *name_in_file; /* besides its path: what is left of it behind the selector's fixed part */
} fe_param_settings;

fe_param_settings fe_resolve_param(fe_elab *e, const char *path, const fe_init *init);
/* Keys of params; NULL behind the last one. */
const char *fe_params_key(size_t i);
/* A path relative to the folder of the model file; NULL when out of memory. */
const char *fe_beside_model(const mpc_model *m, const char *path);

typedef struct fe_concrete_init { /* as attributes of a state */
    const char *kind;
    double a, b;
} fe_concrete_init;
fe_concrete_init fe_init_for(const fe_init *init, uint32_t rank, const int64_t *dims);

#endif
