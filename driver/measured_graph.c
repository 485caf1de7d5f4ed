/* From the text of a graph to something that runs: parsed, lowered, compiled, loaded. No model and no data belong to it, so the session needs no more than its
 * context, sources and execution options. */
#include "driver/measured_graph.h"

#include <string.h>

bool mpc_measured_graph_open(mpc_session *s, const char *text, mpc_measured_graph *out) {
    mpc_pass_env env = {.ctx = s->ctx};
    *out = (mpc_measured_graph){0};
    uint32_t file = mpc_sources_add(s->sources, "<measure>", text, strlen(text));
    out->parsed = file ? mpc_graph_parse(s->ctx, file) : NULL;
    out->low = out->parsed ? mpc_pipeline_run(out->parsed, "@lower", &env, NULL) : NULL;
    out->program = out->low ? mpc_device_program(MPC_DEVICE_CPU, out->low) : NULL;
    out->store = out->program ? mpc_store_create(out->low, s->sink) : NULL;
    out->exec = out->store ? mpc_cpu_load(out->program, out->store, &s->exec_options, s->sink) : NULL;
    return out->exec && mpc_store_init(out->store, 1) == MPC_OK;
}

void mpc_measured_graph_close(mpc_measured_graph *m) {
    if (m->exec) m->exec->vtable->destroy(m->exec);
    mpc_store_destroy(m->store);
    mpc_program_destroy(m->program);
    mpc_graph_destroy(m->low);
    mpc_graph_destroy(m->parsed);
}
