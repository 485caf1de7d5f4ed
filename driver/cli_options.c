/* Options as rows: name, kind, place in mpc_options, groups of commands that take it. Shorthands such as --precision
 * become overrides of the train section, so a setting has one meaning wherever it is given. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/cli.h"

typedef enum option_kind {
    FLAG,
    TEXT,
    INTEGER,
    COUNT,
    REAL,
    LIST,
    SHORTHAND,
    FORMATS,
    STEPS,
    SEED,
    BUDGET
} option_kind;

typedef struct option_row {
    const char *name, *value; /* "--out", "DIR"; value NULL for flags */
    option_kind kind;
    size_t offset;
    unsigned groups;
    const char *doc;
} option_row;

#define AT(field) offsetof(mpc_options, field)
static const option_row OPTIONS[] = {
    {"--precision", "f32|tf32|bf16|f16|auto", SHORTHAND, 0, MPC_OPT_MODEL, "number format of the training"},
    {"--formats", "F,G", FORMATS, 0, MPC_OPT_MODEL, "two low formats beside f32 for solver mincut: f16,bf16"},
    {"--device", "cpu|cuda|ref", TEXT, AT(device), MPC_OPT_MODEL, "where steps run (default cpu)"},
    {"--threads", "N", INTEGER, AT(threads), MPC_OPT_MODEL, "threads (default: all cores); never changes a result"},
    {"--solver", "NAME", SHORTHAND, 0, MPC_OPT_MODEL, "how the precision assignment is found"},
    {"--cost-target", "NAME|FILE", TEXT, AT(cost_target), MPC_OPT_MODEL,
     "device that the assignment's costs are for (default: the one that runs)"},
    {"--batch", "N", SHORTHAND, 0, MPC_OPT_MODEL, "rows of a step"},
    {"--const", "NAME=VALUE", LIST, AT(consts), MPC_OPT_MODEL, "another value for a `const` of the file"},
    {"--set", "KEY=VALUE", LIST, AT(set), MPC_OPT_MODEL,
     "another value for a setting: optimizer.lr=3e-4, length=5 epochs"},
    {"--strict", NULL, FLAG, AT(strict), MPC_OPT_MODEL,
     "refuse where another format or device would be taken than the one asked for"},
    {"--json", NULL, FLAG, AT(json), MPC_OPT_ANY, "messages and listings as JSON, one object a line"},
    {"--short", NULL, FLAG, AT(short_form), MPC_OPT_ANY, "messages of one line"},
    {"--out", "PATH", TEXT, AT(out), MPC_OPT_OUT | MPC_OPT_PROFILE | MPC_OPT_TRAIN | MPC_OPT_PREDICT | MPC_OPT_COMPILE,
     "folder or file to write"},
    {"--resume", "DIR", TEXT, AT(resume), MPC_OPT_TRAIN, "go on from the newest checkpoint of a run"},
    {"--change", "KEY=VALUE", LIST, AT(changes), MPC_OPT_TRAIN,
     "with --resume: allow this setting to differ from the run's"},
    {"--init", "FILE", TEXT, AT(init), MPC_OPT_TRAIN | MPC_OPT_CHECK,
     "start from the weights of a safetensors file or checkpoint folder"},
    {"--rename", "A=B", LIST, AT(renames), MPC_OPT_TRAIN | MPC_OPT_CHECK,
     "with --init: names A of the file are B here (globs)"},
    {"--allow-missing", "GLOB", LIST, AT(allow_missing), MPC_OPT_TRAIN | MPC_OPT_CHECK,
     "with --init: these parameters start afresh"},
    {"--overwrite", NULL, FLAG, AT(overwrite), MPC_OPT_TRAIN, "empty a non-empty --out first"},
    {"--check-nonfinite", NULL, FLAG, AT(check_nonfinite), MPC_OPT_TRAIN | MPC_OPT_EVAL,
     "looks at every value as it is made and ends at the first NaN or infinity, which it explains (slow)"},
    {"--no-tensorboard", NULL, FLAG, AT(no_tensorboard), MPC_OPT_TRAIN,
     "no event file for TensorBoard beside log.jsonl"},
    {"--steps", "N", STEPS, 0, MPC_OPT_TRAIN | MPC_OPT_PROFILE, "length of the training in steps"},
    {"--lock", "FILE", TEXT, AT(lock), MPC_OPT_TRAIN,
     "write the precision assignment there, or refuse another than it holds"},
    {"--profile-data", "FILE", TEXT, AT(profile_data), MPC_OPT_MODEL,
     "what `mpc profile` saw: values beyond a low format stay f32"},
    {"--loss-budget", "X", BUDGET, AT(loss_budget), MPC_OPT_TRAIN | MPC_OPT_EXPLAIN,
     "the fastest assignment whose rounding moves the loss by X at most (a standard deviation)"},
    {"--sensitivity", "FILE", TEXT, AT(sensitivity), MPC_OPT_TRAIN | MPC_OPT_EXPLAIN,
     "with --loss-budget: what the loss owes to each value's rounding; measured and written when there is no such "
     "file"},
    {"--loss-check", "N", INTEGER, AT(loss_check), MPC_OPT_TRAIN | MPC_OPT_EXPLAIN,
     "with --loss-budget: batches of the check by a run (default 8; 0: none)"},
    {"--profile", "FILE.json", TEXT, AT(profile), MPC_OPT_TRAIN, "a trace of one step, launch by launch, for Perfetto"},
    {"--seed", "N", SEED, AT(seed), MPC_OPT_TRAIN | MPC_OPT_SEED, "seed of initial values, order and random ops"},
    {"--from", "DIR", TEXT, AT(from), MPC_OPT_FROM, "run folder, or a checkpoint in it"},
    {"--which", "best|last|STEP", TEXT, AT(which), MPC_OPT_FROM, "which checkpoint (default: best if there is one)"},
    {"--split", "NAME", TEXT, AT(split), MPC_OPT_FROM, "train, valid, test or predict"},
    {"--input", "FILE", TEXT, AT(input), MPC_OPT_PREDICT, "rows to predict (CSV; - is stdin)"},
    {"--prompt", "TEXT", TEXT, AT(prompt), MPC_OPT_PREDICT,
     "text models: text to go on from; models of token files: numbers, \"12 7 431\""},
    {"--length", "N", INTEGER, AT(length), MPC_OPT_PREDICT, "text models: characters or tokens to write (default 400)"},
    {"--temperature", "T", REAL, AT(temperature), MPC_OPT_PREDICT, "text models: 0 takes the likeliest (default 0.8)"},
    {"--top-k", "K", COUNT, AT(top_k), MPC_OPT_PREDICT, "text models: draws among the K likeliest (default: all)"},
    {"--stage", "parsed|grad|decided|autocast|lowered|fused|final", TEXT, AT(stage), MPC_OPT_IR,
     "after which passes (default autocast)"},
    {"--format", "text|dot|json", TEXT, AT(format), MPC_OPT_IR, "form of the graph (default text)"},
    {"--reasons", NULL, FLAG, AT(reasons), MPC_OPT_IR, "with the rule that decided each format"},
    {"--units", NULL, FLAG, AT(units), MPC_OPT_IR, "with the power of the loss scale that each value carries"},
    {"--compare-solvers", NULL, FLAG, AT(compare_solvers), MPC_OPT_EXPLAIN,
     "what every solver would decide, priced, with the rules it breaks"},
    {"--memory", NULL, FLAG, AT(memory), MPC_OPT_EXPLAIN, "bytes by class and format, before running"},
    {"--dot", NULL, FLAG, AT(dot), MPC_OPT_EXPLAIN, "the graph for Graphviz, coloured by format, casts set apart"},
    {"--check", NULL, FLAG, AT(check), MPC_OPT_FMT,
     "change nothing: list the files whose layout is another, exit status 1"},
    {"--stdout", NULL, FLAG, AT(to_stdout), MPC_OPT_FMT, "write the result to standard output, not into the files"},
    {"--over", "KEY=V1,V2,...", LIST, AT(over), MPC_OPT_SWEEP,
     "values of a constant or setting to train with (repeatable: all combinations)"},
    {"--jobs", "N", INTEGER, AT(jobs), MPC_OPT_SWEEP, "runs at a time, which share the threads (default 1)"},
    {"--random", "N", INTEGER, AT(random), MPC_OPT_SWEEP, "N of the combinations, drawn by --seed"},
    {"--params", NULL, FLAG, AT(params), MPC_OPT_SUMMARY,
     "every parameter: shape, init, decay, rate, and the line that decided"},
    {"--name", NULL, FLAG, AT(label), MPC_OPT_FMT,
     "labels for calls that only a number tells apart: linear.0.weight becomes linear_0.weight"},
    {"--other", "KEY=VALUE", LIST, AT(other_set), MPC_OPT_DIFF, "a setting for B alone: precision=f16, solver=list"},
    {"--emit", "c|cu|ptx|cubin", TEXT, AT(emit), MPC_OPT_COMPILE,
     "form of the kernels (default c; cu with --device cuda)"},
    {"--arch", "sm_80,sm_90,...", TEXT, AT(arch), MPC_OPT_COMPILE,
     "GPUs to compile CUDA kernels for, each with a report"},
    {"--passes", "PIPELINE", TEXT, AT(passes), MPC_OPT_PASSES, "passes to run: @train,autocast{format=f16},..."},
    {"--load-plugin", "FILE.so", LIST, AT(plugins), MPC_OPT_MODEL | MPC_OPT_PASSES | MPC_OPT_PLUGIN,
     "plugin with more passes, solvers, cost models, ops or formats (repeatable)"},
    {"--add-pass", "AFTER=PIPELINE", LIST, AT(added_passes), MPC_OPT_MODEL,
     "more passes after a pass: grad=my-pass,dce (repeatable)"},
    {"--verify-each", NULL, FLAG, AT(verify_each), MPC_OPT_PASSES | MPC_OPT_IR, "check the graph after every pass"},
    {"--print-after", "PASS,...|*", TEXT, AT(print_after), MPC_OPT_PASSES, "the graph after these passes, to stderr"},
    {"--print-changed", NULL, FLAG, AT(print_changed), MPC_OPT_PASSES,
     "of --print-after (default *), passes that changed the graph only"},
    {"--dump-dir", "DIR", TEXT, AT(dump_dir), MPC_OPT_PASSES, "the graph after every pass, as files"},
    {"--time-passes", NULL, FLAG, AT(time_passes), MPC_OPT_PASSES | MPC_OPT_IR, "seconds of every pass, to stderr"},
    {"--stats", NULL, FLAG, AT(stats), MPC_OPT_PASSES, "nodes and casts after every pass, to stderr"},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

bool mpc_text_list_push(mpc_text_list *list, const char *text) { return mpc_array_push(list, text); }

static bool takes(const mpc_command *command, const option_row *row) {
    return ((command->group | MPC_OPT_ANY) & row->groups) != 0;
}

static const option_row *find_option(const mpc_command *command, const char *name, size_t length) {
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(OPTIONS[i].name) == length && memcmp(OPTIONS[i].name, name, length) == 0 &&
            takes(command, &OPTIONS[i]))
            return &OPTIONS[i];
    return NULL;
}

const char *mpc_option_setting(const char *name) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option_row *row = &OPTIONS[i];
        if (strcmp(row->name + 2, name) != 0) continue;
        if (row->kind == STEPS) return "length";
        return row->kind == SHORTHAND || row->kind == SEED ? row->name + 2 : NULL;
    }
    return NULL;
}

static bool unknown_option(const mpc_command *command, const char *given, size_t length) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), given);
    const char *best = NULL;
    unsigned distance = 4;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!takes(command, &OPTIONS[i])) continue;
        unsigned d = mpc_edit_distance(name, OPTIONS[i].name, 3);
        if (d < distance) distance = d, best = OPTIONS[i].name;
    }
    fprintf(stderr, "mpc %s: there is no option `%s`%s%s%s\n", command->name, name, best ? "; did you mean `" : "",
            best ? best : "", best ? "`?" : "");
    fprintf(stderr, "mpc help %s lists its options\n", command->name);
    return false;
}

static bool bad_value(const option_row *row, const char *value, const char *needed) {
    fprintf(stderr, "mpc: %s takes %s, not `%s`\n", row->name, needed, value);
    return false;
}

static bool set_integer(const option_row *row, void *field, const char *value) {
    char *stop;
    errno = 0;
    long long n = strtoll(value, &stop, 10), least = row->kind == COUNT;
    if (errno || stop == value || *stop || n < least)
        return bad_value(row, value, least ? "a number from 1" : "a number from 0");
    *(int64_t *)field = n;
    return true;
}

static bool set_real(const option_row *row, void *field, const char *value) {
    char *stop;
    double v = strtod(value, &stop);
    if (stop == value || *stop || !isfinite(v) || v < 0) return bad_value(row, value, "a number from 0");
    *(double *)field = v;
    return true;
}

/* "--precision f16" as "precision=f16"; a name with a dash is quoted, it would be a subtraction otherwise. The text is
 * mpc_alloc'ed and freed by mpc_options_free. */
static bool add_shorthand(mpc_options *o, const char *key, const char *value, const char *unit) {
    mpc_str text = {0};
    const char *quote = isalpha((unsigned char)value[0]) && strchr(value, '-') && !strchr(value, '"') ? "\"" : "";
    mpc_str_printf(&text, "%s=%s%s%s%s", key, quote, value, quote, unit);
    if (!text.failed && mpc_text_list_push(&o->shorthand, text.data)) return true;
    mpc_str_free(&text);
    fprintf(stderr, "mpc: out of memory\n");
    return false;
}

static bool set_seed(mpc_options *o, const option_row *row, const char *value) {
    int64_t n = 0;
    if (!set_integer(row, &n, value)) return false;
    o->seed = (uint64_t)n;
    o->has_seed = true;
    return add_shorthand(o, "seed", value, "");
}

/* "f16,bf16" as precision=f16 and also=bf16. */
static bool set_formats(mpc_options *o, const option_row *row, const char *value) {
    char first[32] = "";
    size_t n = strcspn(value, ",");
    if (n == 0 || n >= sizeof first || value[n] != ',' || strcspn(value + n + 1, ",") == 0 ||
        strchr(value + n + 1, ','))
        return bad_value(row, value, "two formats, as f16,bf16");
    memcpy(first, value, n);
    return add_shorthand(o, "precision", first, "") && add_shorthand(o, "also", value + n + 1, "");
}

static bool set_option(mpc_options *o, const option_row *row, const char *value) {
    char *field = (char *)o + row->offset;
    int64_t n = 0;
    switch (row->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case INTEGER:
    case COUNT:
        return set_integer(row, field, value);
    case REAL:
        return set_real(row, field, value);
    case LIST:
        return mpc_text_list_push((mpc_text_list *)field, value);
    case SHORTHAND:
        return add_shorthand(o, row->name + 2, value, "");
    case FORMATS:
        return set_formats(o, row, value);
    case STEPS:
        return set_integer(row, &n, value) && add_shorthand(o, "length", value, " steps");
    case SEED:
        return set_seed(o, row, value);
    case BUDGET:
        o->has_loss_budget = true;
        return set_real(row, field, value);
    }
    return false;
}

static bool check_pair(const option_row *row, const char *value) {
    bool pair = row->value && strchr(row->value, '=');
    if (!pair || (strchr(value, '=') && value[0] != '=')) return true;
    return bad_value(row, value, row->value);
}

/* One argument that begins with "--", or -o for --out; *i moves past its value. */
static bool take_option(mpc_options *o, const mpc_command *command, int argc, char **argv, int *i) {
    const char *arg = strcmp(argv[*i], "-o") == 0 ? "--out" : argv[*i];
    const char *equals = strchr(arg, '=');
    size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
    const option_row *row = find_option(command, arg, length);
    if (!row) return unknown_option(command, arg, length);
    const char *value = equals ? equals + 1 : NULL;
    if (row->kind == FLAG && value) {
        fprintf(stderr, "mpc: %s takes no value\n", row->name);
        return false;
    }
    if (row->kind != FLAG && !value) {
        if (*i + 1 >= argc) {
            fprintf(stderr, "mpc: %s needs a value: %s %s\n", row->name, row->name, row->value);
            return false;
        }
        value = argv[++*i];
    }
    return check_pair(row, value ? value : "") && set_option(o, row, value);
}

static bool take_positional(mpc_options *o, const mpc_command *command, const char *arg, int *count) {
    if (*count >= command->positional_max) {
        fprintf(stderr, "mpc %s: one argument too many: `%s`\nusage: mpc %s %s\n", command->name, arg, command->name,
                command->arguments);
        return false;
    }
    if ((*count)++ == 0) o->file = arg;
    else o->argument = arg;
    return mpc_text_list_push(&o->files, arg);
}

static bool is_option(const char *arg) { return strncmp(arg, "--", 2) == 0 || strcmp(arg, "-o") == 0; }

bool mpc_options_parse(mpc_options *o, const mpc_command *command, int argc, char **argv) {
    *o = (mpc_options){.length = 400, .temperature = 0.8, .loss_check = -1, .jobs = 1};
    int count = 0;
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (!only_positional && strcmp(arg, "--") == 0) only_positional = true;
        else if (!only_positional && is_option(arg) ? !take_option(o, command, argc, argv, &i)
                                                    : !take_positional(o, command, arg, &count))
            return false;
    }
    o->has_device = o->device != NULL;
    if (!o->has_device) o->device = "cpu";
    if (count >= command->positional_min) return true;
    fprintf(stderr, "usage: mpc %s %s\n", command->name, command->arguments);
    return false;
}

void mpc_options_free(mpc_options *o) {
    for (size_t i = 0; i < o->shorthand.count; i++) mpc_free((void *)(uintptr_t)o->shorthand.data[i]);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (OPTIONS[i].kind == LIST) mpc_array_free((mpc_text_list *)((char *)o + OPTIONS[i].offset));
    mpc_array_free(&o->shorthand);
    mpc_array_free(&o->files);
}

void mpc_options_describe(const mpc_command *command, mpc_str *out) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option_row *row = &OPTIONS[i];
        if (!takes(command, row)) continue;
        char left[80];
        snprintf(left, sizeof left, "%s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        mpc_str_printf(out, "  %-32s %s\n", left, row->doc);
    }
}

/* `o`: of its kind, without key and value. */
static bool add_override(mpc_override_list *out, const char *text, mpc_override o) {
    const char *equals = strchr(text, '=');
    o.key = mpc_arena_strndup(out->owned, text, (size_t)(equals - text));
    o.value = equals + 1;
    return o.key && mpc_array_push(out, o);
}

bool mpc_overrides_make(const mpc_options *o, mpc_override_list *out) {
    *out = (mpc_override_list){.owned = mpc_arena_create()};
    if (!out->owned) return false;
    const struct {
        const mpc_text_list *texts;
        mpc_override like;
    } lists[] = {{&o->consts, {.is_const = true}},
                 {&o->set, {.from = MPC_FROM_OPTION}},
                 {&o->shorthand, {.from = MPC_FROM_OPTION}},
                 {&o->changes, {.from = MPC_FROM_CHANGE}}};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; i < lists[k].texts->count; i++)
            if (!add_override(out, lists[k].texts->data[i], lists[k].like)) return false;
    return true;
}

void mpc_overrides_free(mpc_override_list *list) {
    mpc_array_free(list);
    mpc_arena_destroy(list->owned);
}
