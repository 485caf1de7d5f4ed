/* Opening and closing a session. Everything is owned here and freed in reverse order; a half-opened session can be
 * closed. */
#include "driver/session.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/cost_target.h"
#include "driver/loss_budget.h"
#include "driver/run_plugins.h"
#include "driver/run_recall.h"
#include "driver/target_formats.h"
#include "driver/used_files.h"
#include "passes/precision/cost.h"
#include "passes/precision/range.h"
#include "runtime/choices.h"

static const char *const SPLITS[] = {"train", "valid", "test", "predict"};

const char *mpc_split_name(mpc_split split) { return SPLITS[split]; }

bool mpc_split_find(const char *name, mpc_split *split) {
    for (int i = 0; i < MPC_SPLIT_COUNT; i++)
        if (strcmp(SPLITS[i], name) == 0) {
            *split = (mpc_split)i;
            return true;
        }
    return false;
}

static const char *const DEVICES[] = {"cpu", "ref", "cuda"};

const char *mpc_device_name(mpc_device_kind device) { return DEVICES[device]; }

static bool choose_device(mpc_session *s) {
    const char *name = s->cli->options->device;
    s->exec_options.threads = (unsigned)s->cli->options->threads;
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++) {
        s->device = (mpc_device_kind)i;
        if (strcmp(name, DEVICES[i]) == 0) return true;
    }
    mpc_error(s->sink, "E356", "there is no device `%s`; there are cpu, cuda and ref", name);
    return false;
}

static uint32_t read_model_file(mpc_session *s) {
    const char *path = s->cli->options->file;
    uint32_t file = mpc_cli_read_source(s->cli, path, path);
    if (file && s->cli->edit) file = mpc_edit_source(s->sources, file, s->cli->edit);
    s->text = file ? mpc_sources_text(s->sources, file, &s->text_length) : NULL;
    return file;
}

/* `replaced`: the target lacks what was asked for, and the second format has come in its place. */
static bool refuse_one_format_twice(const mpc_session *s, bool replaced) {
    const mpc_train_config *t = s->train;
    if (replaced || strcmp(t->precision, t->also) != 0) return true;
    mpc_error_help(s->sink, "E105", NULL, "leave `also` out (--set also=none), or name the other low format",
                   "`also = %s` is the precision already: a second low format must be another one", t->also);
    return false;
}

bool mpc_session_open(mpc_session *s, mpc_cli *cli) {
    *s = (mpc_session){.cli = cli,
                       .sink = &cli->sink,
                       .sources = cli->sources,
                       .verify_each = cli->options->verify_each,
                       .time_passes = cli->options->time_passes};
    if (!choose_device(s)) return false;
    if (s->device == MPC_DEVICE_CUDA) s->exec_options.choices = mpc_choices_create();
    uint32_t file = read_model_file(s);
    if (!file) return false;
    s->ctx = mpc_context_create(s->sink, s->sources);
    s->assignment = mpc_assignment_create();
    bool whole = s->device != MPC_DEVICE_CUDA || s->exec_options.choices;
    if (!whole || !s->ctx || !s->assignment || !mpc_overrides_make(cli->options, &s->overrides)) {
        mpc_error(s->sink, "E901", "out of memory");
        return false;
    }
    mpc_run_read(s);
    if (!mpc_run_recall_overrides(s)) {
        mpc_error(s->sink, "E901", "out of memory");
        return false;
    }
    if (mpc_passes_register(s->ctx) != MPC_OK || !mpc_run_load_plugins(s)) return false;
    if (!mpc_check_added_passes(&s->added_passes, s->ctx, s->sink)) return false;
    s->profile = mpc_cost_target(s);
    if (!s->profile) return false;
    s->model = mpc_load_model_files(s, file);
    mpc_run_say_overrides(s);
    bool again = false;
    if (!s->model || !mpc_target_settle_precision(s, &again)) return false;
    if (again) {
        mpc_model_destroy(s->model);
        s->model = mpc_load_model_files(s, file);
        if (!s->model) return false;
    }
    mpc_compare_used_files(s);
    s->train = mpc_model_train(s->model);
    return refuse_one_format_twice(s, again) && mpc_session_load_observed(s) && mpc_loss_budget_recall(s);
}

mpc_session mpc_session_beside(const mpc_session *s, const mpc_train_config *config, mpc_assignment *assignment) {
    mpc_session probe = *s;
    probe.train = config;
    probe.assignment = assignment;
    probe.formats_settled = true;
    probe.store = NULL;
    probe.observed = NULL;
    probe.plan_choices = NULL;
    probe.loss_budget = 0;
    probe.sensitivity = NULL;
    probe.dial = NULL;
    return probe;
}

void mpc_session_close(mpc_session *s) {
    mpc_store_destroy(s->store);
    for (size_t i = s->datasets.count; i > 0; i--) mpc_dataset_destroy(s->datasets.data[i - 1]);
    mpc_array_free(&s->datasets);
    mpc_observations_destroy(s->observed);
    mpc_sensitivity_destroy(s->sensitivity);
    mpc_assignment_destroy(s->assignment);
    mpc_model_destroy(s->model);
    mpc_context_destroy(s->ctx);
    mpc_array_free(&s->plugins);
    mpc_array_free(&s->added_passes);
    mpc_overrides_free(&s->overrides);
    json_decref(s->run);
    mpc_str_free(&s->run_folder);
    mpc_str_free(&s->init_file);
    mpc_choices_destroy(s->exec_options.choices);
}

void mpc_session_count_parameters(mpc_session *s, uint64_t *tensors, uint64_t *elements) {
    *tensors = *elements = 0;
    for (uint32_t i = 0; i < mpc_store_count(s->store); i++) {
        const mpc_store_entry *e = mpc_store_at(s->store, i);
        if (e->derived != MPC_FMT_none || strcmp(e->role, "param") != 0) continue;
        ++*tensors;
        *elements += (uint64_t)mpc_type_elements(&e->type);
    }
}
