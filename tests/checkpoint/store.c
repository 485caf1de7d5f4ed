/* Checkpoint folders of a small store: all or nothing, low copies remade from masters, pruning. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ir/builder.h"
#include "runtime/checkpoint.h"
#include "tests/check.h"

static char folder[] = "/tmp/mpc-ckpt-XXXXXX";

typedef struct world {
    mpc_sources *sources;
    mpc_diag_list *list;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *graph;
    mpc_store *store;
} world;

static void add_state(mpc_builder *b, const char *name, mpc_format format, int64_t n, const char *role,
                      mpc_format derived) {
    mpc_attr_arg attrs[] = {MPC_A_STR("name", name), MPC_A_STR("role", role), MPC_A_FORMAT("derived", derived),
                            MPC_A_STR("init", "normal"), MPC_A_FLOAT("b", 1.0)};
    mpc_type_id type = mpc_type_make(mpc_builder_context(b), format, n ? 1 : 0, &n);
    mpc_build_state(b, name, type, attrs, 5);
}

static world make_world(const char *second) {
    world w = {.sources = mpc_sources_create(), .list = mpc_diag_list_create()};
    w.sink = mpc_diag_list_sink(w.list);
    w.ctx = mpc_context_create(&w.sink, w.sources);
    mpc_builder *b = mpc_builder_create(w.ctx, "step");
    add_state(b, "fc.weight", MPC_FMT_f32, 6, "param", MPC_FMT_none);
    add_state(b, "fc.weight", MPC_FMT_bf16, 6, "copy", MPC_FMT_bf16);
    add_state(b, second, MPC_FMT_f32, 3, "param", MPC_FMT_none);
    add_state(b, "norm.running_mean", MPC_FMT_f32, 3, "stat", MPC_FMT_none);
    add_state(b, "fc.weight/m", MPC_FMT_f32, 6, "moment", MPC_FMT_none);
    add_state(b, "step.applied", MPC_FMT_i32, 0, "counter", MPC_FMT_none);
    w.graph = mpc_builder_finish(b);
    w.store = w.graph ? mpc_store_create(w.graph, &w.sink) : NULL;
    if (w.store) mpc_store_init(w.store, 5);
    return w;
}

static void destroy_world(world *w) {
    mpc_store_destroy(w->store);
    mpc_graph_destroy(w->graph);
    mpc_context_destroy(w->ctx);
    mpc_diag_list_destroy(w->list);
    mpc_sources_destroy(w->sources);
}

static float *weights(world *w) { return mpc_store_find(w->store, "fc.weight", MPC_FMT_none)->data; }

static mpc_status save(world *w, uint64_t step) {
    mpc_cursor cursor = {.step = step, .epoch = 2, .row = 64, .seed = 9, .extra = "{\"best\":1}"};
    return mpc_checkpoint_save(folder, w->store, &cursor, &w->sink);
}

static char *at(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void a_checkpoint_brings_everything_back(void) {
    world w = make_world("fc.bias"), other = make_world("fc.bias");
    CHECK(w.store && other.store);
    weights(&w)[2] = 1.001f;
    CHECK(save(&w, 7) == MPC_OK);
    CHECK(save(&w, 7) == MPC_OK); /* the same step again replaces it */
    mpc_cursor cursor;
    CHECK(mpc_checkpoint_load(at("step-00000007"), other.store, MPC_LOAD_ALL, &cursor, &other.sink) == MPC_OK);
    CHECK(cursor.step == 7 && cursor.epoch == 2 && cursor.row == 64 && cursor.seed == 9);
    CHECK_STR(cursor.extra, "{\"best\":1}");
    CHECK(weights(&other)[2] == 1.001f);
    const uint16_t *copy = mpc_store_find(other.store, "fc.weight", MPC_FMT_bf16)->data;
    CHECK(copy[2] == 0x3F80); /* FC-079: the copy is the cast of the master, the master keeps its low bits */
    mpc_free((void *)(uintptr_t)cursor.extra);
    destroy_world(&w);
    destroy_world(&other);
}

static void differences_are_listed_and_nothing_is_loaded(void) {
    world w = make_world("fc.bias"), other = make_world("head.bias");
    save(&w, 8);
    float before = weights(&other)[0];
    weights(&other)[0] = before + 1;
    CHECK(mpc_checkpoint_load(at("step-00000008"), other.store, MPC_LOAD_WEIGHTS, NULL, &other.sink) == MPC_FAILED);
    CHECK(weights(&other)[0] == before + 1);
    const mpc_diag *d = mpc_diag_list_get(other.list, 0);
    CHECK_STR(d->code, "E401");
    CHECK(strstr(d->message, "1 of 3 parameters") && strstr(d->message, "missing   head.bias") &&
          strstr(d->message, "not used  fc.bias"));
    destroy_world(&w);
    destroy_world(&other);
}

static void a_full_disk_leaves_earlier_checkpoints(void) {
    world w = make_world("fc.bias");
    CHECK(save(&w, 10) == MPC_OK);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){300, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK(save(&w, 11) == MPC_FAILED);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_STR(mpc_diag_list_get(w.list, 0)->code, "E420");
    CHECK(access(at("step-00000011"), F_OK) != 0 && access(at("tmp-00000011"), F_OK) != 0);
    CHECK(mpc_checkpoint_load(at("step-00000010"), w.store, MPC_LOAD_ALL, NULL, &w.sink) == MPC_OK);
    destroy_world(&w);
}

static void pruning_keeps_the_newest_and_the_spared(void) {
    world w = make_world("fc.bias");
    for (uint64_t step = 20; step < 26; step++) save(&w, step);
    mkdir(at("tmp-00000099"), 0777);
    mkdir(at("step-00000098.mine"), 0777);
    const char *const spare[] = {"step-00000021", NULL};
    CHECK(mpc_checkpoint_prune(folder, 2, spare, &w.sink) == MPC_OK);
    char newest[64];
    CHECK(mpc_checkpoint_newest(folder, newest, sizeof newest, &w.sink) == MPC_OK);
    CHECK_STR(newest, "step-00000025");
    CHECK(access(at("step-00000024"), F_OK) == 0 && access(at("step-00000021"), F_OK) == 0);
    CHECK(access(at("step-00000023"), F_OK) != 0 && access(at("tmp-00000099"), F_OK) != 0);
    CHECK(access(at("step-00000098.mine"), F_OK) == 0);
    destroy_world(&w);
}

static void every_failed_allocation_leaves_a_whole_checkpoint(void) {
    world w = make_world("fc.bias");
    save(&w, 30);
    bool saved = false, loaded = false;
    for (uint64_t n = 1; n < 1000 && !(saved && loaded); n++) {
        mpc_alloc_fail_after(n);
        saved = mpc_checkpoint_save(folder, w.store, &(mpc_cursor){.step = 30}, NULL) == MPC_OK;
        mpc_alloc_fail_after(n);
        loaded = mpc_checkpoint_load(at("step-00000030"), w.store, MPC_LOAD_ALL, NULL, NULL) == MPC_OK;
        mpc_alloc_fail_after(0);
        CHECK(access(at("step-00000030/state.safetensors"), F_OK) == 0);
    }
    CHECK(saved && loaded);
    destroy_world(&w);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    signal(SIGXFSZ, SIG_IGN);
    a_checkpoint_brings_everything_back();
    differences_are_listed_and_nothing_is_loaded();
    a_full_disk_leaves_earlier_checkpoints();
    pruning_keeps_the_newest_and_the_spared();
    every_failed_allocation_leaves_a_whole_checkpoint();
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || check_result();
}
