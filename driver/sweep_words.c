/* The command line of a run: the sweep's own words without those that only a sweep takes, then the run's values, which
 * stand last so that they win. The same words are parsed here to try a run before it is started. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/sweep.h"

static bool is_over_seed(const mpc_sweep *s) {
    for (uint32_t k = 0; k < s->key_count; k++)
        if (strcmp(s->keys[k].key, "seed") == 0) return true;
    return false;
}

static bool is_name(const char *name, size_t length, const char *option) {
    return strlen(option) == length && memcmp(option, name, length) == 0;
}

/* Options with a value that runs don't get. */
static bool is_own(const mpc_sweep *s, const char *name, size_t length, bool resumes) {
    static const char *const own[] = {"--over", "--jobs", "--random", "--out", "-o", "--threads"};
    static const char *const begin[] = {"--init", "--rename", "--allow-missing"}; /* a resumed run has begun */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (is_name(name, length, own[i])) return true;
    for (size_t i = 0; resumes && i < sizeof begin / sizeof *begin; i++)
        if (is_name(name, length, begin[i])) return true;
    return is_over_seed(s) && is_name(name, length, "--seed");
}

bool mpc_sweep_common_words(mpc_sweep *s, bool resumes, mpc_text_list *out) {
    char **argv = s->cli->argv;
    for (int i = 0; i < s->cli->argc; i++) {
        size_t length = strcspn(argv[i], "=");
        if (argv[i] == s->cli->options->file || strcmp(argv[i], "--") == 0 || strcmp(argv[i], "--json") == 0) continue;
        if (is_own(s, argv[i], length, resumes)) {
            i += argv[i][length] != '=';
            continue;
        }
        if (!mpc_text_list_push(out, argv[i])) return false;
    }
    return true;
}

static bool push_pair(mpc_text_list *out, const char *a, const char *b) {
    return a && b && mpc_text_list_push(out, a) && mpc_text_list_push(out, b);
}

static bool push_value(mpc_sweep *s, const mpc_sweep_run *run, uint32_t k, mpc_text_list *out) {
    const mpc_sweep_key *key = &s->keys[k];
    const char *value = mpc_sweep_value(s, run, k);
    if (key->kind == MPC_SWEEP_OPTION) return push_pair(out, mpc_arena_printf(s->arena, "--%s", key->key), value);
    return push_pair(out, key->kind == MPC_SWEEP_CONST ? "--const" : "--set",
                     mpc_arena_printf(s->arena, "%s=%s", key->key, value));
}

bool mpc_sweep_words(mpc_sweep *s, const mpc_sweep_run *run, mpc_text_list *out) {
    bool ok = mpc_text_list_push(out, "train") && mpc_sweep_common_words(s, run->resumes, out);
    for (uint32_t k = 0; ok && k < s->key_count; k++) ok = push_value(s, run, k, out);
    const char *folder = mpc_arena_printf(s->arena, "%s/%s", mpc_str_cstr(&s->folder), run->name);
    ok = ok && push_pair(out, run->resumes ? "--resume" : "--out", folder) &&
         (run->resumes || mpc_text_list_push(out, "--overwrite")) &&
         push_pair(out, "--threads", mpc_arena_printf(s->arena, "%u", s->threads)) &&
         push_pair(out, "--", s->cli->options->file) && mpc_text_list_push(out, NULL);
    return ok;
}

/* What loading says of later runs it has said of the first one; errors aren't kept back. */
static void pass_errors_on(const mpc_diag_list *said, const mpc_sink *sink) {
    for (size_t i = 0; i < mpc_diag_list_count(said); i++) {
        const mpc_diag *d = mpc_diag_list_get(said, i);
        if (d->severity == MPC_SEV_ERROR) sink->emit(sink->user, d);
    }
}

static bool load(mpc_sweep *s, const mpc_options *options) {
    mpc_diag_list *said = mpc_diag_list_create();
    if (!said) return false;
    mpc_cli cli = *s->cli;
    cli.options = options;
    cli.sink = mpc_diag_list_sink(said);
    mpc_session session;
    bool ok = mpc_session_open(&session, &cli);
    mpc_session_close(&session);
    pass_errors_on(said, &s->cli->sink);
    mpc_diag_list_destroy(said);
    return ok;
}

static bool try_run(mpc_sweep *s, const mpc_sweep_run *run) {
    mpc_text_list words = {0};
    mpc_options options = {0};
    bool ok = mpc_sweep_words(s, run, &words);
    if (!ok) mpc_error(&s->cli->sink, "E901", "out of memory");
    ok = ok &&
         mpc_options_parse(&options, mpc_command_find("train"), (int)words.count - 2,
                           (char **)(uintptr_t)(words.data + 1)) &&
         load(s, &options);
    mpc_options_free(&options);
    mpc_array_free(&words);
    return ok;
}

bool mpc_sweep_try(mpc_sweep *s) {
    for (uint32_t i = 0; i < s->run_count; i++) {
        if (try_run(s, &s->runs[i])) continue;
        mpc_str text = {0};
        mpc_sweep_append_choice(s, &s->runs[i], &text);
        fprintf(stderr, "mpc sweep: nothing was run: %s can't be\n", mpc_str_cstr(&text));
        mpc_str_free(&text);
        return false;
    }
    return true;
}
