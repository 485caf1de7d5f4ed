/* What goes into run.json, metrics.json and listings as JSON, where a value needs more than one call. NULL: out of
 * memory; jansson's functions take it as an argument and fail then, so nobody has to ask in between. */
#include "driver/json_values.h"

#include <math.h>

json_t *mpc_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *mpc_json_text(const char *text) { return text && *text ? json_string(text) : json_null(); }

json_t *mpc_json_texts(const char *const *texts, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_string(texts[i]));
    return list;
}
