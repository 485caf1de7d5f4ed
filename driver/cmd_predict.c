/* mpc predict: rows of a file or of the predict split through the outputs of the model; for text and token models, what
 * the model writes. */
#include <string.h>

#include "base/alloc.h"
#include "driver/predict.h"
#include "driver/run_recall.h"
#include "driver/trainer.h"

static bool has_source(const mpc_session *s, mpc_source_kind kind) {
    for (size_t i = 0; i < mpc_model_source_count(s->model); i++)
        if (mpc_model_source(s->model, i)->kind == kind) return true;
    return false;
}

/* Rows of a token file are only predicted when some are asked for. */
static bool writes_tokens(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    return has_source(s, MPC_SOURCE_TOKENS) && !o->input && !o->split;
}

static mpc_dataset *open_rows(mpc_session *s) {
    static const mpc_split order[] = {MPC_SPLIT_PREDICT, MPC_SPLIT_TEST};
    mpc_split split;
    bool missing = true;
    mpc_dataset *d = NULL;
    const mpc_options *o = s->cli->options;
    if (o->input) return mpc_session_open_file(s, o->input);
    if (o->split) {
        if (mpc_split_find(o->split, &split)) d = mpc_session_split(s, split, &missing);
    } else {
        for (size_t i = 0; i < 2 && missing; i++) d = mpc_session_split(s, order[i], &missing);
    }
    if (!d && missing)
        mpc_error(s->sink, "E355",
                  "nothing to predict: --input FILE.csv, or a `predict` or `test` source in the data section");
    return d;
}

/* The assignment, a step of the prediction graph, and the checkpoint's weights in the store. */
static mpc_step *load_model(mpc_session *s, int64_t batch) {
    mpc_step *step = mpc_session_assign(s) ? mpc_step_create(s, MPC_PHASE_PREDICT, batch) : NULL;
    if (!step) return NULL;
    mpc_str path = {0};
    bool ok = mpc_store_init(s->store, s->train->seed) == MPC_OK &&
              mpc_find_checkpoint(s->cli->options->from, s->cli->options->which, &path, s->sink) &&
              mpc_load_weights(s, path.data, MPC_LOAD_USED);
    mpc_str_free(&path);
    if (ok) return step;
    mpc_step_destroy(step);
    return NULL;
}

static bool predict_batch(mpc_table_writer *w, mpc_step *step, const mpc_dataset *d, uint32_t *rows, int64_t at) {
    for (int64_t i = 0; i < step->batch; i++) rows[i] = (uint32_t)(at + i);
    return mpc_step_feed(step, d, rows) && mpc_step_run(step) && mpc_table_rows(w, step);
}

static bool predict_all(mpc_table_writer *w, mpc_step *step, const mpc_dataset *d, uint32_t *rows) {
    int64_t n = mpc_dataset_rows(d), at = 0;
    for (; at + step->batch <= n; at += step->batch)
        if (!predict_batch(w, step, d, rows, at)) return false;
    if (at == n) return true;
    mpc_step *last = mpc_step_create(step->session, MPC_PHASE_PREDICT, n - at);
    bool ok = last && predict_batch(w, last, d, rows, at);
    mpc_step_destroy(last);
    return ok;
}

static bool predict_rows(mpc_session *s) {
    mpc_dataset *d = open_rows(s);
    if (!d) return false;
    mpc_session_learn_facts(s, d);
    s->facts.known = false; /* columns of labels may be missing; binding checks those that are needed */
    int64_t n = mpc_dataset_rows(d), batch = mpc_session_batch(s, d);
    mpc_step *step = load_model(s, batch);
    uint32_t *rows = mpc_alloc((size_t)batch * sizeof *rows);
    mpc_table_writer w = {0};
    bool ok = step && rows && mpc_step_bind(step, d);
    if (ok) {
        if (s->cli->options->input) mpc_run_compare_columns(step, d, s->cli->options->input);
        ok = mpc_table_open(&w, step, s->cli->options->out, n) && predict_all(&w, step, d, rows);
        ok = mpc_table_close(&w) && ok;
    }
    mpc_free(rows);
    mpc_step_destroy(step);
    return ok;
}

static bool predict_text(mpc_session *s) {
    bool missing;
    mpc_dataset *d = mpc_session_split(s, MPC_SPLIT_TRAIN, &missing);
    if (!d) {
        if (missing)
            mpc_error(s->sink, "E355",
                      "the training text gives the vocabulary, but there is no `train` in the data section");
        return false;
    }
    mpc_session_learn_facts(s, d);
    mpc_step *step = load_model(s, 1);
    bool ok = step && mpc_sample_text(s, step, d);
    mpc_step_destroy(step);
    return ok;
}

/* A token file needn't be there: the model knows how many tokens there are. */
static bool predict_tokens(mpc_session *s) {
    if (!mpc_session_try_facts(s)) return false;
    mpc_step *step = load_model(s, 1);
    bool ok = step && mpc_sample_text(s, step, NULL);
    mpc_step_destroy(step);
    return ok;
}

/* What tells a model how to write would say nothing to rows. */
static bool takes_no_prompt(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    const char *given = o->prompt ? "--prompt" : o->top_k ? "--top-k" : NULL;
    if (given)
        mpc_error(s->sink, "E387", "%s is for models that write text or tokens; rows are predicted here: leave it out",
                  given);
    return !given;
}

/* A text has no rows to predict. */
static bool takes_no_rows(const mpc_session *s) {
    const char *given = s->cli->options->input ? "--input" : s->cli->options->split ? "--split" : NULL;
    if (given)
        mpc_error(s->sink, "E387", "%s is for models of rows; this one writes text, which begins with --prompt TEXT",
                  given);
    return !given;
}

static bool predict(mpc_session *s) {
    if (has_source(s, MPC_SOURCE_TEXT)) return takes_no_rows(s) && predict_text(s);
    if (writes_tokens(s)) return predict_tokens(s);
    return takes_no_prompt(s) && predict_rows(s);
}

int mpc_cmd_predict(mpc_cli *cli) {
    if (!cli->options->from) {
        fprintf(stderr, "mpc predict: --from DIR says which checkpoint: a run folder or a checkpoint in it\n");
        return MPC_EXIT_USAGE;
    }
    mpc_session session;
    bool ok = mpc_session_open(&session, cli) && predict(&session);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
