/* The models that the language was made for, tests/lang/models: each becomes a graph for training and evaluation, of
 * two batch sizes, with the same states in both, and has gradients. */
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "passes/passes.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

/* Trainable states by name; the same in every phase that needs them. */
static void trainable(const mpc_graph *g, mpc_str *out) {
    for (uint32_t i = 0; g && i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_state && mpc_attr_bool(g, &g->nodes[i], "trainable"))
            mpc_str_printf(out, "%s ", mpc_attr_str(g, &g->nodes[i], "name"));
}

static void check_training(session *s, const char *name, const char *states) {
    mpc_graph *g = elaborate(s, MPC_PHASE_TRAIN, 8);
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_graph *backward = g ? mpc_pass_grad(g, NULL, &env) : NULL;
    mpc_str again = {0};
    trainable(g, &again);
    CHECK_MSG(backward && mpc_graph_verify(backward) == MPC_OK, "%s: gradients", name);
    CHECK_MSG(strcmp(mpc_str_cstr(&again), states) == 0, "%s: %s, not %s", name, mpc_str_cstr(&again), states);
    mpc_str_free(&again);
    mpc_graph_destroy(g);
    mpc_graph_destroy(backward);
}

/* With the files that models use. */
static void check_model(const char *path, const char *lib[2]) {
    size_t length = 0;
    char *text = read_whole(path, &length);
    other_text files[] = {{path, text ? text : "", 0},
                          {"tests/lang/models/lib/blocks.mpg", lib[0], 0},
                          {"tests/lang/models/lib/resnet.mpg", lib[1], 0},
                          {0}};
    session s;
    open_texts(&s, files, NULL, 0);
    mpc_passes_register(s.ctx);
    mpc_graph *g = elaborate(&s, MPC_PHASE_EVAL, 12);
    if (!g) show_diagnostics(s.diags, s.sources);
    CHECK_MSG(g && mpc_graph_verify(g) == MPC_OK && count_op(g, MPC_OP_state) > 0, "%s", path);
    mpc_str states = {0};
    trainable(g, &states);
    if (g) check_training(&s, path, mpc_str_cstr(&states));
    mpc_str_free(&states);
    mpc_graph_destroy(g);
    close_session(&s);
    free(text);
}

int main(void) {
    DIR *dir = opendir("tests/lang/models");
    int count = 0;
    size_t length;
    char *lib[] = {read_whole("tests/lang/models/lib/blocks.mpg", &length),
                   read_whole("tests/lang/models/lib/resnet.mpg", &length)};
    CHECK(lib[0] && lib[1]);
    for (struct dirent *e; dir && lib[0] && lib[1] && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".mpg")) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/lang/models/%s", e->d_name);
        check_model(path, (const char *[]){lib[0], lib[1]});
        count++;
    }
    if (dir) closedir(dir);
    free(lib[0]);
    free(lib[1]);
    CHECK_MSG(count >= 13, "%d models", count);
    return check_result();
}
