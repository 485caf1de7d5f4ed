/* Loading a plugin: open, ask for its table, check all of it (plugin_check.c), then register. Only the last step
 * changes anything, and by then only memory can fail. The shared object is released by the context, after everything
 * that points into it is gone. */
#include <stdio.h>
#include <string.h>

#include "base/dl.h"
#include "passes/plugins.h"
#include "passes/plugins/plugin_check.h"

typedef struct entry_points {
    const mpc_plugin *(*query)(uint32_t abi);
} entry_points;

static void close_object(void *object) { mpc_dl_close(object); }

/* A path, like every other file that is named to mpc; never a search through the system's libraries. */
static mpc_dl *open_object(mpc_context *ctx, const char *path, entry_points *entry) {
    static const mpc_dl_symbol symbols[] = {{"mpc_plugin_query", offsetof(entry_points, query), false}};
    char reason[512];
    mpc_str full = {0};
    mpc_str_printf(&full, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    const char *names[] = {mpc_str_cstr(&full), NULL};
    mpc_dl *dl = full.failed ? NULL : mpc_dl_open(names, symbols, 1, entry, reason, sizeof reason);
    if (full.failed) mpc_error(mpc_context_sink(ctx), "E901", "out of memory");
    else if (dl == NULL) mpc_error(mpc_context_sink(ctx), "E370", "plugin %s: %s", path, reason);
    mpc_str_free(&full);
    return dl;
}

/* --- registering --- */

static const char *who(mpc_context *ctx, const char *what, const char *name) {
    mpc_str text = {0};
    mpc_str_printf(&text, "%s `%s` (plugin)", what, name);
    char *kept = text.failed ? NULL : mpc_context_alloc(ctx, text.length + 1);
    if (kept != NULL) memcpy(kept, text.data, text.length + 1);
    mpc_str_free(&text);
    return kept;
}

enum { REBUILDS = MPC_HAS_DECISIONS | MPC_HAS_GROUPS | MPC_HAS_ORDER | MPC_HAS_PLACES };

static mpc_status add_pass(mpc_context *ctx, const mpc_plugin_pass *theirs) {
    mpc_plugin_pass_row *row = mpc_context_alloc(ctx, sizeof *row);
    if (row == NULL) return MPC_NO_MEMORY;
    *row = (mpc_plugin_pass_row){.pass = {.name = theirs->name,
                                          .doc = theirs->doc,
                                          .options = theirs->options,
                                          .destroys = REBUILDS,
                                          .run = mpc_plugin_run_pass},
                                 .theirs = theirs,
                                 .who = who(ctx, "pass", theirs->name)};
    (void)mpc_plugin_properties(theirs->needs, &row->pass.requires);
    (void)mpc_plugin_properties(theirs->provides, &row->pass.provides);
    return row->who == NULL ? MPC_NO_MEMORY : mpc_context_extend(ctx, MPC_EXT_PASS, theirs->name, row);
}

static mpc_status add_solver(mpc_context *ctx, const mpc_plugin_solver *theirs) {
    mpc_plugin_solver_row *row = mpc_context_alloc(ctx, sizeof *row);
    if (row == NULL) return MPC_NO_MEMORY;
    *row = (mpc_plugin_solver_row){.solver = {.name = theirs->name,
                                              .doc = theirs->doc,
                                              .solve = mpc_plugin_run_solver,
                                              .needs_costs = theirs->needs_costs},
                                   .theirs = theirs,
                                   .who = who(ctx, "solver", theirs->name)};
    return row->who == NULL ? MPC_NO_MEMORY : mpc_context_extend(ctx, MPC_EXT_SOLVER, theirs->name, row);
}

static mpc_status add_op(mpc_context *ctx, const mpc_plugin_op *theirs) {
    mpc_op op;
    mpc_plugin_describe_op(ctx, theirs, &op);
    return mpc_op_register(ctx, &op, theirs->attributes, NULL);
}

static mpc_status add_format(mpc_context *ctx, const mpc_plugin_format *theirs) {
    mpc_numfmt fmt = mpc_plugin_numbers(theirs);
    mpc_format format;
    return mpc_format_register(theirs->name, &fmt, mpc_context_sink(ctx), &format);
}

/* `list` ends with NULL; a missing one is empty. */
#define EACH(type, row, list) for (const type *const *row = (list); row != NULL && *row != NULL; row++)

static mpc_status register_all(mpc_context *ctx, const mpc_plugin *p) {
    mpc_status status = MPC_OK;
    EACH(mpc_plugin_format, format, p->formats) if (status == MPC_OK) status = add_format(ctx, *format);
    EACH(mpc_plugin_op, op, p->ops) if (status == MPC_OK) status = add_op(ctx, *op);
    EACH(mpc_plugin_pass, pass, p->passes) if (status == MPC_OK) status = add_pass(ctx, *pass);
    EACH(mpc_plugin_solver, solver, p->solvers) if (status == MPC_OK) status = add_solver(ctx, *solver);
    EACH(mpc_plugin_costs, costs, p->costs) if (status == MPC_OK) status = mpc_plugin_add_costs(ctx, *costs);
    return status;
}

mpc_status mpc_plugin_load(mpc_context *ctx, const char *path) {
    const mpc_sink *sink = mpc_context_sink(ctx);
    entry_points entry;
    mpc_dl *dl = open_object(ctx, path, &entry);
    if (dl == NULL) return MPC_FAILED;
    const mpc_plugin *plugin = entry.query(MPC_PLUGIN_ABI);
    mpc_status status = mpc_plugin_check(ctx, path, plugin);
    if (status != MPC_OK) {
        mpc_dl_close(dl);
        return status;
    }
    if (!mpc_context_own(ctx, close_object, dl)) {
        mpc_dl_close(dl);
        return mpc_error(sink, "E901", "out of memory");
    }
    status = register_all(ctx, plugin);
    return status == MPC_NO_MEMORY ? mpc_error(sink, "E901", "out of memory") : status;
}
