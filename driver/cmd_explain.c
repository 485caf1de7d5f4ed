/* mpc explain: for each value the formats that were decided and why; with --memory, the bytes of a training step by
 * class and format, planned but not allocated. */
#include <jansson.h>
#include <string.h>

#include "driver/compare_solvers.h"
#include "driver/explain_value.h"
#include "driver/loss_budget.h"
#include "passes/precision/cost.h"

static const char *format_name(mpc_format format) {
    return format == MPC_FMT_none ? "-" : mpc_format_get(format)->name;
}

static void print_place(const mpc_graph *g, const mpc_node *n) {
    if (n->loc.file) printf("  %s:%u", mpc_sym_text(g->ctx, n->loc.file), n->loc.line);
}

static void print_node(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    mpc_format stored = mpc_stored_format(g, id);
    printf("%-32s %-16s %-6s %-8s %-5s %-6s", mpc_value_name(g, n->result_begin), mpc_node_op(g, id)->name,
           d.present ? format_name(d.operand) : "-", d.present ? format_name(d.compute) : "-",
           d.present ? format_name(d.acc) : "-", format_name(stored));
    print_place(g, n);
    if (n->why) printf("  %s", mpc_sym_text(g->ctx, n->why));
    putchar('\n');
}

static void print_node_json(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    mpc_format stored = mpc_stored_format(g, id);
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i}", "value", mpc_value_name(g, n->result_begin), "op",
                  mpc_node_op(g, id)->name, "reads", format_name(d.operand), "computes", format_name(d.compute),
                  "accumulates", format_name(d.acc), "stores", format_name(stored), "why", mpc_sym_text(g->ctx, n->why),
                  "file", mpc_sym_text(g->ctx, n->loc.file), "line", (int)n->loc.line);
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

/* A name of any result, or a glob that its first one matches. */
static bool is_wanted_node(const mpc_graph *g, const mpc_node *n, const char *pattern) {
    for (uint32_t k = 0; k < n->result_count; k++)
        if (strcmp(mpc_value_name(g, mpc_result(n, k)), pattern) == 0) return true;
    return n->result_count > 0 && mpc_glob_match(pattern, mpc_value_name(g, n->result_begin));
}

static uint32_t find_wanted(const mpc_graph *g, const char *pattern, mpc_node_id *first) {
    uint32_t count = 0;
    for (mpc_node_id i = 0; i < g->node_count; i++)
        if (is_wanted_node(g, &g->nodes[i], pattern) && count++ == 0) *first = i;
    return count;
}

static void list_values(const mpc_session *s, const mpc_graph *g, const char *pattern) {
    bool json = s->cli->options->json;
    if (!json)
        printf("%-32s %-16s %-6s %-8s %-5s %-6s  %s\n", "value", "op", "reads", "computes", "acc", "stores",
               "where, why");
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        if (pattern && !is_wanted_node(g, &g->nodes[i], pattern)) continue;
        if (mpc_node_op(g, i)->cls == MPC_CLASS_NONE && !pattern) continue;
        if (json) print_node_json(g, i);
        else print_node(g, i);
    }
}

/* One value in full, several as a table. */
static bool explain_values(mpc_session *s) {
    s->plan_choices = mpc_plan_choices_create();
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, MPC_STAGE_DECIDED);
    if (!g) return false;
    const char *pattern = s->cli->options->argument;
    mpc_node_id first = 0;
    uint32_t count = pattern ? find_wanted(g, pattern, &first) : g->node_count;
    bool ok = count > 0;
    if (pattern && count == 1) ok = mpc_explain_value(s, g, first);
    else if (ok) list_values(s, g, pattern);
    else if (mpc_explain_input(s, g, pattern)) ok = true;
    else mpc_explain_unknown(s, g, pattern);
    mpc_graph_destroy(g);
    return ok;
}

static bool draw(mpc_session *s) {
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, MPC_STAGE_AUTOCAST);
    mpc_str text = {0};
    bool ok = g && mpc_explain_dot(g, &text);
    if (ok) fputs(mpc_str_cstr(&text), stdout);
    else if (g) mpc_error(s->sink, "E901", "out of memory");
    mpc_str_free(&text);
    mpc_graph_destroy(g);
    return ok;
}

static const char *const CLASSES[MPC_BUF_CLASS_COUNT] = {
    "masters", "moments", "low copies", "statistics", "accumulators", "control", "inputs", "gradients", "activations"};

static void sum_buffers(const mpc_program *p, uint64_t bytes[MPC_BUF_CLASS_COUNT][MPC_FMT_count]) {
    for (uint32_t i = 0; i < p->buffer_count; i++)
        bytes[p->buffers[i].cls][p->buffers[i].type.format] += p->buffers[i].bytes;
}

/* A parameter that isn't f32 has no master: it is all there is of it. */
static const char *class_name(int cls, int format) {
    return cls == MPC_BUF_MASTER && format != MPC_FMT_f32 ? "parameters" : CLASSES[cls];
}

static void print_memory(const mpc_program *p, int64_t batch) {
    uint64_t bytes[MPC_BUF_CLASS_COUNT][MPC_FMT_count] = {{0}};
    sum_buffers(p, bytes);
    printf("bytes of a training step, batch %lld\n%-14s %-8s %14s\n", (long long)batch, "class", "format", "bytes");
    for (int c = 0; c < MPC_BUF_CLASS_COUNT; c++)
        for (int f = 1; f < MPC_FMT_count; f++)
            if (bytes[c][f])
                printf("%-14s %-8s %14llu\n", class_name(c, f), format_name((mpc_format)f), (unsigned long long)bytes[c][f]);
    printf("%-23s %14llu\n", "states, allocated", (unsigned long long)p->state_bytes);
    printf("%-23s %14llu  inputs, gradients and activations share it; at least %llu\n", "arena, allocated",
           (unsigned long long)p->arena_bytes, (unsigned long long)p->arena_lower_bound);
    printf("%-23s %14llu  and the libraries' workspace\n", "together",
           (unsigned long long)(p->state_bytes + p->arena_bytes));
}

static void print_memory_json(const mpc_program *p) {
    uint64_t bytes[MPC_BUF_CLASS_COUNT][MPC_FMT_count] = {{0}};
    sum_buffers(p, bytes);
    json_t *classes = json_object();
    for (int c = 0; c < MPC_BUF_CLASS_COUNT; c++) {
        json_t *formats = json_object();
        for (int f = 1; f < MPC_FMT_count; f++)
            if (bytes[c][f])
                json_object_set_new(formats, format_name((mpc_format)f), json_integer((json_int_t)bytes[c][f]));
        json_object_set_new(classes, CLASSES[c], formats);
    }
    json_t *all =
        json_pack("{s:o, s:I, s:I, s:I}", "classes", classes, "state_bytes", (json_int_t)p->state_bytes, "arena_bytes",
                  (json_int_t)p->arena_bytes, "arena_lower_bound", (json_int_t)p->arena_lower_bound);
    if (all) json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

static bool explain_memory(mpc_session *s) {
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, MPC_STAGE_FINAL);
    mpc_program *program = g ? mpc_device_program(s->device, g) : NULL;
    bool ok = program != NULL;
    if (ok && s->cli->options->json) print_memory_json(program);
    else if (ok) print_memory(program, s->train->batch);
    mpc_program_destroy(program);
    mpc_graph_destroy(g);
    return ok;
}

/* The dial; a VALUE is explained under the assignment that it found. */
static bool turn_dial(mpc_session *s) {
    bool missing = false;
    mpc_dataset *d = mpc_session_split(s, MPC_SPLIT_TRAIN, &missing);
    if (missing) mpc_error(s->sink, "E355", "the data section has no `train`: there is nothing to measure the loss on");
    if (!d) return false;
    mpc_session_learn_facts(s, d);
    return mpc_session_plan_length(s, d) && mpc_loss_budget_apply(s, d, stdout) &&
           (!s->cli->options->argument || explain_values(s));
}

int mpc_cmd_explain(mpc_cli *cli) {
    mpc_session session;
    bool ok = mpc_session_open(&session, cli) && mpc_session_try_facts(&session) &&
              (cli->options->compare_solvers ? mpc_compare_solvers(&session)
               : cli->options->has_loss_budget ? turn_dial(&session)
               : cli->options->memory        ? explain_memory(&session)
               : cli->options->dot           ? draw(&session)
                                             : explain_values(&session));
    mpc_plan_choices_destroy(session.plan_choices);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
