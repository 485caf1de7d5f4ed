/* Cost models of plugins: a device profile as text, and perhaps a function that corrects the time of single ops. Both
 * become a mpc_device_profile that is found by name like the built-in ones; whoever prices a plan needn't know where it
 * comes from. */
#include <math.h>
#include <string.h>

#include "passes/plugins/plugin_check.h"

typedef struct costs_row {
    mpc_device_profile profile; /* first: what is found by name; its `model` is the next field */
    mpc_price_model model;
    const mpc_plugin_costs *theirs;
} costs_row;

const mpc_device_profile *mpc_device_profile_named(const mpc_context *ctx, const char *name) {
    const mpc_device_profile *profile = mpc_device_profile_find(name);
    return profile != NULL ? profile : mpc_context_find_extension(ctx, MPC_EXT_COSTS, name);
}

/* A price that isn't one is reported, once for each time it is asked for, and the profile's taken. */
static double price(const mpc_price_model *model, const mpc_graph *g, mpc_node_id node, mpc_format format,
                    double seconds) {
    const costs_row *row = (const costs_row *)((const char *)model - offsetof(costs_row, model));
    mpc_call c = {.kind = MPC_CALL_PRICE, .ctx = g->ctx, .who = row->theirs->name, .g = g};
    double theirs = row->theirs->price(&mpc_plugin_functions, &c, node, mpc_call_format_name(format), seconds);
    bool good = !c.failed && isfinite(theirs) && theirs >= 0;
    if (!good) mpc_call_fail(&c, "the price of `%s` is no time", mpc_value_name(g, mpc_result(&g->nodes[node], 0)));
    mpc_call_end(&c);
    return good ? theirs : seconds;
}

static mpc_status parse(mpc_context *ctx, const char *path, const mpc_plugin_costs *theirs, mpc_device_profile *out) {
    const mpc_sink *sink = mpc_context_sink(ctx);
    mpc_str place = {0};
    *out = (mpc_device_profile){0};
    mpc_str_printf(&place, "plugin %s, cost model `%s`", path, theirs->name);
    mpc_status status = mpc_device_profile_parse(theirs->profile, mpc_str_cstr(&place), sink, out);
    if (status == MPC_OK && strcmp(out->name, theirs->name) != 0)
        status = mpc_error(sink, "E372", "%s: its profile has the name `%s`", mpc_str_cstr(&place), out->name);
    mpc_str_free(&place);
    return status;
}

mpc_status mpc_plugin_check_costs(mpc_context *ctx, const char *path, const mpc_plugin_costs *theirs) {
    mpc_device_profile profile;
    return parse(ctx, path, theirs, &profile);
}

mpc_status mpc_plugin_add_costs(mpc_context *ctx, const mpc_plugin_costs *theirs) {
    costs_row *row = mpc_context_alloc(ctx, sizeof *row);
    if (row == NULL) return MPC_NO_MEMORY;
    mpc_status status = parse(ctx, theirs->name, theirs, &row->profile);
    if (status != MPC_OK) return status;
    row->theirs = theirs;
    row->model.price = price;
    if (theirs->price != NULL) row->profile.model = &row->model;
    return mpc_context_extend(ctx, MPC_EXT_COSTS, theirs->name, row);
}
