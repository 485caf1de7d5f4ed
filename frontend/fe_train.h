/* Keys of the train section and their values: shared by the file's section and the overrides. */
#ifndef MPC_FRONTEND_FE_TRAIN_H
#define MPC_FRONTEND_FE_TRAIN_H

#include "frontend/fe_elab.h"

typedef struct fe_train_key {
    const char *name;
    const char *fallback; /* text of the default */
    bool (*store)(mpc_model *m, const struct fe_train_key *k, const fe_setting *s, void *out);
    const void *rule; /* allowed words or callees (NULL-terminated), or the least count */
    size_t offset;    /* in mpc_train_config */
} fe_train_key;

const fe_train_key *fe_train_key_at(size_t i);
const fe_train_key *fe_find_train_key(const char *name);
/* The setting of a key, made from its default when the file has none. NULL when out of memory. */
fe_setting *fe_train_setting(mpc_model *m, const fe_train_key *k);
/* A key's setting into m->config. */
void fe_store_train_key(mpc_model *m, const fe_train_key *k);
/* After overrides: all keys. */
void fe_complete_train(mpc_model *m);
/* Help for a key that train doesn't have. */
void fe_explain_key(fe_report *r, const char *key, const char *value, const char *option);

/* adamw(...), cosine(...), dynamic(...): callee and arguments into the struct at `out`. */
bool fe_store_train_call(mpc_model *m, const fe_train_key *k, const fe_setting *s, void *out);
/* Is there such an argument? Names of all of them go to `all` (", a, b"). */
bool fe_train_call_takes(const char *callee, const char *argument, mpc_str *all, fe_suggestion *near);
/* An argument of which a number without a unit means steps. */
bool fe_train_counts_steps(const char *callee, const char *argument);
bool fe_read_quantity(mpc_model *m, fe_value v, bool bare_steps, mpc_quantity *out);

#endif
