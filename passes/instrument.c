/* Hooks that watch a pipeline. They look at graphs and change nothing; a hook that runs out of memory or can't write a
 * file loses its text, never the run. */
#include "passes/instrument.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct mpc_instrument {
    mpc_instrument_options options;
    mpc_str text, times, reproducer;
    double total;
    unsigned number; /* of passes so far */
    bool reported;   /* times are part of the text */
};

mpc_instrument *mpc_instrument_create(const mpc_instrument_options *options) {
    mpc_instrument *i = mpc_alloc(sizeof *i);
    if (i == NULL) return NULL;
    *i = (mpc_instrument){.options = *options};
    if (i->options.print_flags == 0) i->options.print_flags = MPC_PRINT_ALL;
    return i;
}

void mpc_instrument_destroy(mpc_instrument *i) {
    if (i == NULL) return;
    mpc_str_free(&i->text);
    mpc_str_free(&i->times);
    mpc_str_free(&i->reproducer);
    mpc_free(i);
}

static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    if (list == NULL) return false;
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (*at == '*' || (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))) return true;
    return false;
}

static void write_file(const mpc_instrument *i, const char *name, const char *text) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s", i->options.dump_dir, name);
    FILE *file = path.failed ? NULL : fopen(mpc_str_cstr(&path), "wb");
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
    mpc_str_free(&path);
}

static void dump(const mpc_instrument *i, const mpc_pass *pass, const mpc_graph *g) {
    mpc_str name = {0}, text = {0};
    mpc_str_printf(&name, "%02u-%s.mpir", i->number, pass->name);
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    if (!name.failed) write_file(i, mpc_str_cstr(&name), mpc_str_cstr(&text));
    mpc_str_free(&name);
    mpc_str_free(&text);
}

static void add_stats(mpc_instrument *i, const mpc_pass *pass, const mpc_graph *g) {
    unsigned casts = 0;
    for (mpc_node_id id = 0; id < g->node_count; id++) casts += g->nodes[id].op == MPC_OP_cast;
    mpc_str_printf(&i->text, "# after %s: %u nodes, %u casts\n", pass->name, g->node_count, casts);
}

static void after(void *user, const mpc_pass *pass, const mpc_graph *before, const mpc_graph *g, double seconds) {
    mpc_instrument *i = user;
    i->number++;
    i->total += seconds;
    mpc_str_printf(&i->times, "# %9.3f ms %s\n", seconds * 1e3, pass->name);
    if (i->options.stats) add_stats(i, pass, g);
    if (i->options.dump_dir != NULL) dump(i, pass, g);
    if (!is_listed(i->options.print_after, pass->name)) return;
    if (i->options.print_changed && mpc_graph_equal(before, g)) return;
    mpc_str_printf(&i->text, "# after %s\n", pass->name);
    mpc_graph_print(g, i->options.print_flags, &i->text);
}

static void print_options(const mpc_pass_options *o, mpc_str *out) {
    mpc_str_append(out, o->pass->name);
    for (uint32_t k = 0; k < o->count; k++)
        mpc_str_printf(out, "%s%s=\"%s\"", k == 0 ? "{" : " ", o->keys[k], o->values[k]);
    if (o->count > 0) mpc_str_append(out, "}");
}

static void failed(void *user, const mpc_pass_options *options, const mpc_graph *in) {
    mpc_instrument *i = user;
    mpc_str_clear(&i->reproducer);
    mpc_str_append(&i->reproducer, "# RUN: ");
    print_options(options, &i->reproducer);
    mpc_str_append(&i->reproducer, "\n");
    mpc_graph_print(in, MPC_PRINT_ALL, &i->reproducer);
    if (i->options.dump_dir != NULL) write_file(i, "reproducer.mpir", mpc_str_cstr(&i->reproducer));
}

mpc_pipeline_hooks mpc_instrument_hooks(mpc_instrument *i) {
    return (mpc_pipeline_hooks){.after = after, .failed = failed, .user = i, .verify_each = i->options.verify_each};
}

const char *mpc_instrument_text(mpc_instrument *i) {
    if (i->options.time_passes && !i->reported) {
        mpc_str_append(&i->text, mpc_str_cstr(&i->times));
        mpc_str_printf(&i->text, "# %9.3f ms in all\n", i->total * 1e3);
        i->reported = true;
    }
    return mpc_str_cstr(&i->text);
}

const char *mpc_instrument_reproducer(const mpc_instrument *i) { return mpc_str_cstr(&i->reproducer); }
