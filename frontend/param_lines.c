/* Which line of the file decided what a parameter has, for listings. It finds what fe_resolve_param (param_settings.c)
 * followed, without evaluating anything: train speaks for all parameters, later lines of params win. */
#include <string.h>

#include "frontend/fe_model.h"

/* Of `load`, `from` and `init` the later one counts: they all say what a parameter starts as. */
static bool says(const fe_ast *entry, const char *key) {
    bool starts = strcmp(key, "init") == 0;
    return strcmp(entry->text, key) == 0 ||
           (starts && (strcmp(entry->text, "load") == 0 || strcmp(entry->text, "from") == 0));
}

static mpc_span line_of_train(const mpc_model *m, const char *path, const char *key) {
    mpc_span found = {0};
    for (size_t i = 0; i < m->freeze.count; i++)
        if (strcmp(key, "freeze") == 0 && mpc_glob_match(m->freeze.data[i].glob, path)) found = m->freeze.data[i].span;
    bool of_all = strcmp(key, "ema") == 0 || strcmp(key, "weights") == 0;
    for (size_t i = 0; of_all && i < m->train.count; i++)
        if (strcmp(m->train.data[i].key, key) == 0) found = m->train.data[i].span;
    return found;
}

mpc_span mpc_model_param_line(const mpc_model *m, const char *path, const char *key) {
    mpc_span found = line_of_train(m, path, key);
    for (size_t i = 0; i < m->params.count; i++) {
        const fe_selector *s = &m->params.data[i];
        if (!mpc_glob_match(s->glob, path)) continue;
        for (const fe_ast *entry = s->entries; entry; entry = entry->next)
            if (says(entry, key)) found = entry->span;
    }
    return found;
}
