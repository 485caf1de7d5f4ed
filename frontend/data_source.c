/* Sources of the data section as they are written. A row of the table is one kind with its arguments; what a reader
 * stores is checked for its form only, since opening files is the driver's. */
#include <string.h>

#include "frontend/fe_data.h"
#include "frontend/fe_params.h"

typedef struct source_kind {
    const char *name;
    mpc_source_kind kind;
    const char *arguments[5]; /* known names */
    bool (*read)(mpc_model *m, const fe_ast *call, mpc_data_source *s);
} source_kind;

static const fe_ast *argument(const fe_ast *call, const char *name, uint32_t position) {
    uint32_t i = 0;
    for (const fe_ast *a = call->list.first; a; a = a->next, i++)
        if (a->text ? strcmp(a->text, name) == 0 : i == position) return a->kid[0];
    return NULL;
}

static bool wrong(mpc_model *m, const fe_ast *at, const char *message) {
    fe_error(&m->diag, "E205", at->span, "%s", message);
    return false;
}

/* The path at an argument, beside the model's file; `help` when it isn't one. */
static bool read_path(mpc_model *m, const fe_ast *call, const fe_ast *path, const char *help, const char **out) {
    if (!path || path->kind != AST_STRING || !*path->text) return wrong(m, path ? path : call, help);
    *out = fe_beside_model(m, path->text);
    if (!*out) m->diag.no_memory = true;
    return *out != NULL;
}

static bool read_csv(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    const fe_ast *header = argument(call, "header", 1), *delimiter = argument(call, "delimiter", UINT32_MAX);
    s->header = -1;
    s->delimiter = ',';
    if (!read_path(m, call, argument(call, "path", 0), "a source names its file: csv(\"train.csv\")", &s->path))
        return false;
    fe_value h = header ? fe_eval_constant(m, header) : FE_POISONED;
    if (header && h.kind != FE_BOOL) return wrong(m, header, "header is true or false");
    if (header) s->header = h.i != 0;
    if (delimiter && (delimiter->kind != AST_STRING || strlen(delimiter->text) != 1))
        return wrong(m, delimiter, "the delimiter is one character: \",\" or \"\\t\"");
    if (delimiter) s->delimiter = delimiter->text[0];
    return true;
}

static bool read_length(mpc_model *m, const fe_ast *call, mpc_data_source *s, const char *help) {
    const fe_ast *length = argument(call, "length", 1);
    fe_value v = length ? fe_eval_constant(m, length) : FE_POISONED;
    if (length && v.kind == FE_POISON) return false;
    if (!length || v.kind != FE_INT || v.i < 1 || v.i > 1 << 24) return wrong(m, length ? length : call, help);
    s->length = v.i;
    return true;
}

static bool read_text(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    return read_path(m, call, argument(call, "path", 0), "a source names its file: text(\"file.txt\", length = 128)",
                     &s->path) &&
           read_length(m, call, s, "a text is cut into windows: text(\"file.txt\", length = 128)");
}

static bool read_tokens(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    static const char help[] = "tokens are cut into windows: tokens(\"train.bin\", length = 1024, format = u16)";
    const fe_ast *format = argument(call, "format", 2);
    const char *word = !format ? "u16" : format->kind == AST_NAME || format->kind == AST_STRING ? format->text : "";
    s->token_bytes = strcmp(word, "u16") == 0 ? 2 : strcmp(word, "u32") == 0 ? 4 : 0;
    if (!s->token_bytes) return wrong(m, format, "the format of tokens is u16 or u32: two or four bytes each");
    return read_path(m, call, argument(call, "path", 0), help, &s->path) && read_length(m, call, s, help);
}

static bool read_npy(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    s->field = "values";
    return read_path(m, call, argument(call, "path", 0), "a source names its file: npy(\"x.npy\")", &s->path);
}

static bool read_npz(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    return read_path(m, call, argument(call, "path", 0), "a source names its file: npz(\"pairs.npz\")", &s->path);
}

static bool read_idx(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    static const char help[] =
        "IDX files come as images, labels or both: idx(images = \"train-images\", labels = \"train-labels\")";
    const fe_ast *images = argument(call, "images", 0), *labels = argument(call, "labels", 1);
    if (!images && !labels) return wrong(m, call, help);
    return (!images || read_path(m, call, images, help, &s->path)) &&
           (!labels || read_path(m, call, labels, help, &s->labels));
}

static bool read_split(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    const fe_ast *of = argument(call, "of", 0), *fraction = argument(call, "fraction", 1),
                 *seed = argument(call, "seed", 2);
    if (!of || of->kind != AST_NAME || !fraction)
        return wrong(m, call, "split takes another split, a fraction and a seed: split(train, 0.1, seed = 1)");
    fe_value f = fe_eval_constant(m, fraction), n = seed ? fe_eval_constant(m, seed) : fe_int(0);
    if (f.kind == FE_POISON || n.kind == FE_POISON) return false;
    if (!fe_is_number(f) || !(fe_number(f) > 0 && fe_number(f) < 1))
        return wrong(m, fraction, "the fraction lies between 0 and 1");
    if (n.kind != FE_INT || n.i < 0) return wrong(m, seed, "a seed is a whole number of at least 0");
    s->of = of->text;
    s->fraction = fe_number(f);
    s->seed = (uint64_t)n.i;
    return true;
}

/* "data/x.npy" -> "x" */
static const char *stem(mpc_model *m, const char *path) {
    const char *name = mpc_path_name(path), *dot = strrchr(name, '.');
    const char *text = mpc_arena_strndup(m->arena, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    if (!text) m->diag.no_memory = true;
    return text ? text : name;
}

static bool read_part(mpc_model *m, const fe_ast *argument, mpc_data_source *part) {
    if (!fe_read_source(m, argument->kid[0], part)) return false;
    bool rows = part->kind == MPC_SOURCE_CSV || part->kind == MPC_SOURCE_NPY || part->kind == MPC_SOURCE_NPZ ||
                part->kind == MPC_SOURCE_IDX;
    if (!rows) return wrong(m, argument, "csv, npy, npz and idx can be zipped");
    if (argument->text && part->kind != MPC_SOURCE_NPY)
        return wrong(m, argument, "only the array of an NPY gets a name here: zip(x = npy(\"train-x.npy\"), ...)");
    if (part->kind == MPC_SOURCE_NPY) part->field = argument->text ? argument->text : stem(m, part->path);
    return true;
}

static bool read_zip(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    if (call->list.count < 2)
        return wrong(m, call, "zip takes two sources or more: zip(npy(\"x.npy\"), npy(\"y.npy\"))");
    mpc_data_source *parts = mpc_arena_alloc(m->arena, call->list.count * sizeof *parts);
    if (!parts) {
        m->diag.no_memory = true;
        return false;
    }
    for (const fe_ast *a = call->list.first; a; a = a->next) {
        parts[s->part_count] = (mpc_data_source){.split = s->split, .span = a->span};
        if (!read_part(m, a, &parts[s->part_count])) return false;
        s->part_count++;
    }
    s->parts = parts;
    s->path = parts[0].path;
    return true;
}

static const source_kind kinds[] = {
    {"csv", MPC_SOURCE_CSV, {"path", "header", "delimiter"}, read_csv},
    {"text", MPC_SOURCE_TEXT, {"path", "length"}, read_text},
    {"tokens", MPC_SOURCE_TOKENS, {"path", "length", "format"}, read_tokens},
    {"npy", MPC_SOURCE_NPY, {"path"}, read_npy},
    {"npz", MPC_SOURCE_NPZ, {"path"}, read_npz},
    {"idx", MPC_SOURCE_IDX, {"images", "labels"}, read_idx},
    {"zip", MPC_SOURCE_ZIP, {NULL}, read_zip},
    {"split", MPC_SOURCE_SPLIT, {"of", "fraction", "seed"}, read_split},
};

static void unknown_argument(mpc_model *m, const fe_ast *a, const source_kind *k) {
    static const char *const about_columns[] = {"label", "labels", "target", "scale", "shape", "columns", "features"};
    mpc_str known = {0};
    for (uint32_t i = 0; k->arguments[i]; i++) mpc_str_printf(&known, i ? ", %s" : "%s", k->arguments[i]);
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E011", a->name_span, "%s has no argument `%s`", k->name, a->text);
    fe_label(&r, "%s(%s)", k->name, mpc_str_cstr(&known));
    for (size_t i = 0; i < sizeof about_columns / sizeof *about_columns; i++)
        if (strcmp(a->text, about_columns[i]) == 0)
            fe_help(&r, "which columns feed an input, and how, is a line of its own: input x = columns[0:4] / 16");
    fe_send(&r);
    mpc_str_free(&known);
}

/* Names of arguments are known; those of zip are names of fields. */
static bool only_arguments(mpc_model *m, const fe_ast *call, const source_kind *k) {
    uint32_t most = 0;
    while (k->arguments[most]) most++;
    for (const fe_ast *a = call->list.first; a && most; a = a->next) {
        bool known = a->text == NULL;
        for (uint32_t i = 0; a->text && i < most; i++) known = known || strcmp(k->arguments[i], a->text) == 0;
        if (known) continue;
        unknown_argument(m, a, k);
        return false;
    }
    if (most && call->list.count > most) return wrong(m, call, "too many arguments for this source");
    return true;
}

bool fe_read_source(mpc_model *m, const fe_ast *value, mpc_data_source *s) {
    const char *callee = value->kind == AST_CALL && value->kid[0]->kind == AST_NAME ? value->kid[0]->text : "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(callee, kinds[i].name) != 0) continue;
        s->kind = kinds[i].kind;
        return only_arguments(m, value, &kinds[i]) && kinds[i].read(m, value, s);
    }
    static const char *const later[] = {"images", "hdf5", "parquet"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(callee, later[i]) == 0) {
            fe_error(&m->diag, "E009", value->span, "sources of kind `%s` are not supported yet", callee);
            return false;
        }
    return wrong(m, value,
                 "a source is csv, npy, npz, idx, tokens, text, zip or split: csv(\"file.csv\"), split(train, 0.1)");
}
