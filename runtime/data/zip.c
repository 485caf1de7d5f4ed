/* Several sources side by side: a dataset that takes over the arrays and the table of its parts. Rows belong together
 * by their number, so all parts have as many. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/data/dataset_impl.h"

static mpc_status refuse(const mpc_sink *sink, const mpc_dataset *part, const char *why) {
    return mpc_error(sink, "E220", "%s can't be zipped: %s", part->path, why);
}

static mpc_status rename_array(mpc_array *a, const char *name) {
    char *copy = mpc_alloc(strlen(name) + 1);
    if (!copy) return MPC_NO_MEMORY;
    memcpy(copy, name, strlen(name) + 1);
    mpc_free(a->name);
    a->name = copy;
    return MPC_OK;
}

static mpc_status take_arrays(mpc_dataset *d, mpc_dataset *part) {
    for (size_t i = 0; i < part->arrays.count; i++)
        for (size_t k = 0; k < d->arrays.count; k++)
            if (strcmp(part->arrays.data[i].name, d->arrays.data[k].name) == 0)
                return mpc_error(&d->sink, "E220", "%s and %s both have a field `%s`", d->arrays.data[k].shown,
                                 part->arrays.data[i].shown, d->arrays.data[k].name);
    if (!mpc_array_reserve(&d->arrays, part->arrays.count)) return MPC_NO_MEMORY;
    for (size_t i = 0; i < part->arrays.count; i++) d->arrays.data[d->arrays.count++] = part->arrays.data[i];
    part->arrays.count = 0;
    return MPC_OK;
}

static mpc_status take_part(mpc_dataset *d, mpc_dataset *part, const char *name) {
    if (part->is_sequence) return refuse(&d->sink, part, "windows of text or tokens have no rows beside them");
    if (part->rows != d->rows)
        return mpc_error(&d->sink, "E220", "%s has %lld rows, %s has %lld", d->path, (long long)d->rows, part->path,
                         (long long)part->rows);
    if (part->table.columns > 0 && d->table.columns > 0) return refuse(&d->sink, part, "one CSV is enough");
    if (part->table.columns > 0) {
        d->table = part->table;
        part->table = (mpc_table){0};
        char *path = d->path; /* messages about cells name the table's file */
        d->path = part->path;
        part->path = path;
    }
    mpc_status status = MPC_OK;
    if (name && part->arrays.count == 1) status = rename_array(&part->arrays.data[0], name);
    return status == MPC_OK ? take_arrays(d, part) : status;
}

mpc_dataset *mpc_dataset_zip(mpc_dataset **parts, const char *const *names, uint32_t count, const mpc_sink *sink) {
    mpc_dataset *d = count ? mpc_dataset_create(parts[0]->path, sink) : NULL;
    mpc_status status = d ? MPC_OK : MPC_NO_MEMORY;
    if (d) {
        d->rows = parts[0]->rows;
        d->keep_nonfinite = parts[0]->keep_nonfinite;
    }
    for (uint32_t i = 0; i < count && status == MPC_OK; i++) status = take_part(d, parts[i], names[i]);
    for (uint32_t i = 0; i < count; i++) mpc_dataset_destroy(parts[i]);
    return mpc_dataset_opened(d, status, "zip", sink);
}
