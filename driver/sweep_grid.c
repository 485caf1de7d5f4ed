/* From --over KEY=V1,V2 to the list of runs: all combinations, the last key's values changing first, or --random N of
 * them. Values are the file's own grammar, so only commas outside brackets and quotes separate. */
#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"
#include "driver/sweep.h"

enum { MOST_RUNS = 10000, MOST_COMBINATIONS = 1000000 };

__attribute__((format(printf, 1, 2))) static int usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("mpc sweep: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return MPC_EXIT_USAGE;
}

static int out_of_memory(const mpc_sweep *s) {
    mpc_error(&s->cli->sink, "E901", "out of memory");
    return MPC_EXIT_FAILED;
}

/* ---- one --over ---- */

/* The end of the value that begins here: a comma outside brackets and quotes, or the end of the text. */
static const char *end_of_value(const char *p) {
    int depth = 0;
    for (bool quoted = false; *p; p++) {
        if (*p == '"') quoted = !quoted;
        else if (quoted) p += *p == '\\' && p[1];
        else if (strchr("([{", *p)) depth++;
        else if (strchr(")]}", *p)) depth--;
        else if (*p == ',' && depth <= 0) break;
    }
    return p;
}

static bool add_value(mpc_sweep *s, mpc_sweep_key *k, const char *begin, const char *end) {
    while (begin < end && isspace((unsigned char)*begin)) begin++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    const char *value = mpc_arena_strndup(s->arena, begin, (size_t)(end - begin));
    return value && mpc_text_list_push(&k->values, value);
}

static int read_values(mpc_sweep *s, mpc_sweep_key *k, const char *p) {
    while (true) {
        const char *end = end_of_value(p);
        if (!add_value(s, k, p, end)) return out_of_memory(s);
        const char *value = k->values.data[k->values.count - 1];
        if (!*value) return usage("--over %s has an empty value", k->text);
        for (size_t i = 0; i + 1 < k->values.count; i++)
            if (strcmp(k->values.data[i], value) == 0) return usage("--over %s says %s twice", k->text, value);
        if (!*end) return MPC_EXIT_DONE;
        p = end + 1;
    }
}

static bool says(const mpc_text_list *list, const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->data[i], key, n) == 0 && list->data[i][n] == '=') return true;
    return false;
}

/* "length" of "steps", which is an option; of a setting itself. */
static const char *setting_of(const char *key) {
    const char *setting = mpc_option_setting(key);
    return setting ? setting : key;
}

/* The same key twice: which one counts would be a guess. */
static int check_key(const mpc_sweep *s, const mpc_sweep_key *k) {
    const mpc_options *o = s->cli->options;
    const char *key = setting_of(k->key);
    bool draws = strcmp(key, "seed") == 0 && o->random > 0; /* --seed is that of the drawing then */
    if (says(&o->consts, key) || says(&o->set, key) || (says(&o->shorthand, key) && !draws))
        return usage("`%s` is given by --over and by another option: leave one out", k->key);
    for (const mpc_sweep_key *other = s->keys; other < k; other++)
        if (strcmp(setting_of(other->key), key) == 0)
            return usage("--over gives `%s` twice: list all its values in one", k->key);
    return MPC_EXIT_DONE;
}

static int read_key(mpc_sweep *s, mpc_sweep_key *k, const char *text) {
    const char *equals = strchr(text, '=');
    *k = (mpc_sweep_key){.text = text, .key = mpc_arena_strndup(s->arena, text, (size_t)(equals - text))};
    if (!k->key) return out_of_memory(s);
    bool is_const = mpc_model_has_const(s->session->model, k->key);
    k->kind = is_const ? MPC_SWEEP_CONST : mpc_option_setting(k->key) ? MPC_SWEEP_OPTION : MPC_SWEEP_SETTING;
    int status = check_key(s, k);
    return status == MPC_EXIT_DONE ? read_values(s, k, equals + 1) : status;
}

static int read_keys(mpc_sweep *s) {
    const mpc_text_list *over = &s->cli->options->over;
    s->keys = mpc_arena_alloc(s->arena, (over->count + 1) * sizeof *s->keys);
    if (!s->keys) return out_of_memory(s);
    for (size_t i = 0; i < over->count; i++) {
        int status = read_key(s, &s->keys[s->key_count++], over->data[i]);
        if (status != MPC_EXIT_DONE) return status;
    }
    return MPC_EXIT_DONE;
}

/* ---- runs ---- */

/* 0: more than can be told apart. */
static uint32_t count_combinations(const mpc_sweep *s) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->key_count && n <= MOST_COMBINATIONS; i++) n *= s->keys[i].values.count;
    return n <= MOST_COMBINATIONS ? (uint32_t)n : 0;
}

/* Keeps --random N of all combinations, in their order. */
static bool draw(const mpc_sweep *s, uint32_t all, bool *chosen) {
    const mpc_options *o = s->cli->options;
    uint32_t *order = mpc_alloc((size_t)all * sizeof *order);
    if (!order) return false;
    mpc_random_permutation(o->has_seed ? o->seed : 0, mpc_hash_str("sweep"), 0, order, all);
    for (uint32_t i = 0; i < all && i < (uint64_t)o->random; i++) chosen[order[i]] = true;
    mpc_free(order);
    return true;
}

static int list_runs(mpc_sweep *s, const bool *chosen, uint32_t all) {
    s->runs = mpc_arena_alloc(s->arena, (size_t)s->run_count * sizeof *s->runs);
    if (!s->runs) return out_of_memory(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (!chosen[i]) continue;
        s->runs[n] = (mpc_sweep_run){.choice = i, .name = mpc_arena_printf(s->arena, "%03u", n + 1)};
        if (!s->runs[n++].name) return out_of_memory(s);
    }
    return MPC_EXIT_DONE;
}

static int make_runs(mpc_sweep *s) {
    uint32_t all = count_combinations(s);
    int64_t random = s->cli->options->random;
    s->run_count = random > 0 && (uint64_t)random < all ? (uint32_t)random : all;
    if (all == 0) return usage("these are more than %d combinations", (int)MOST_COMBINATIONS);
    if (s->run_count > MOST_RUNS)
        return usage("these are %u runs, more than %d; --random N takes N of them", s->run_count, (int)MOST_RUNS);
    bool *chosen = mpc_alloc(all * sizeof *chosen);
    if (!chosen) return out_of_memory(s);
    memset(chosen, s->run_count == all, all * sizeof *chosen);
    int status = s->run_count == all || draw(s, all, chosen) ? list_runs(s, chosen, all) : out_of_memory(s);
    mpc_free(chosen);
    return status;
}

int mpc_sweep_plan(mpc_sweep *s) {
    int status = read_keys(s);
    return status == MPC_EXIT_DONE ? make_runs(s) : status;
}

const char *mpc_sweep_value(const mpc_sweep *s, const mpc_sweep_run *run, uint32_t key) {
    uint64_t rest = run->choice;
    for (uint32_t k = s->key_count - 1; k > key; k--) rest /= s->keys[k].values.count;
    return s->keys[key].values.data[rest % s->keys[key].values.count];
}

void mpc_sweep_release(mpc_sweep *s) {
    for (uint32_t i = 0; i < s->run_count && s->runs; i++) json_decref(s->runs[i].record);
    for (uint32_t i = 0; i < s->key_count; i++) mpc_array_free(&s->keys[i].values);
    mpc_folder_release(&s->hold);
    mpc_str_free(&s->folder);
    mpc_arena_destroy(s->arena);
}
