/* Values for JSON that jansson has no call for. */
#ifndef MPC_DRIVER_JSON_VALUES_H
#define MPC_DRIVER_JSON_VALUES_H

#include <jansson.h>

json_t *mpc_json_number(double value); /* null for NaN and infinity, which JSON hasn't */
json_t *mpc_json_text(const char *text); /* null for NULL and "" */
json_t *mpc_json_texts(const char *const *texts, size_t count);

#endif
