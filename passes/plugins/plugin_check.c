/* Checks a plugin's table row by row: versions and sizes first, since nothing else can be read safely while these
 * differ, then names, words and functions. Every refusal names the file and the row, and leaves mpc as it was. */
#include <string.h>

#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/plugins/plugin_check.h"

typedef struct check { /* of one plugin */
    mpc_context *ctx;
    const mpc_sink *sink;
    const char *path;
} check;

/* --- words --- */

typedef struct word_row {
    const char *word;
    unsigned value;
} word_row;

static bool find_word(const word_row *rows, size_t count, const char *word, size_t length, unsigned *value) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].word) != length || memcmp(rows[i].word, word, length) != 0) continue;
        *value = rows[i].value;
        return true;
    }
    return false;
}

/* Blanks between words; the sum of their values. */
static bool sum_words(const word_row *rows, size_t count, const char *text, unsigned *sum) {
    *sum = 0;
    for (const char *at = text == NULL ? "" : text; *at != '\0';) {
        size_t length = strcspn(at, " ");
        unsigned value;
        if (length > 0 && !find_word(rows, count, at, length, &value)) return false;
        if (length > 0) *sum |= value;
        at += length + strspn(at + length, " ");
    }
    return true;
}

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const word_row property_words[] = {
    {"grad", MPC_HAS_GRAD},       {"loss-scale", MPC_HAS_LOSS_SCALE}, {"update", MPC_HAS_UPDATE},
    {"guard", MPC_HAS_GUARD},     {"decisions", MPC_HAS_DECISIONS},   {"casts", MPC_HAS_CASTS},
    {"masters", MPC_HAS_MASTERS}, {"primitives", MPC_HAS_PRIMITIVES}, {"groups", MPC_HAS_GROUPS},
    {"order", MPC_HAS_ORDER},     {"places", MPC_HAS_PLACES}};
static const word_row flag_words[] = {{"exact", MPC_OPF_EXACT},
                                      {"commutes", MPC_OPF_COMMUTES},
                                      {"random", MPC_OPF_RANDOM},
                                      {"no-gradient", MPC_OPF_NO_GRAD}};
static const word_row kind_words[] = {{"composite", MPC_KIND_COMPOSITE}, {"ewise", MPC_KIND_EWISE}};
static const word_row class_words[] = {{"NONE", MPC_CLASS_NONE},
                                       {"LOW", MPC_CLASS_LOW},
                                       {"HIGH", MPC_CLASS_HIGH},
                                       {"FOLLOW", MPC_CLASS_FOLLOW},
                                       {"CLEAR", MPC_CLASS_CLEAR}};

bool mpc_plugin_properties(const char *words, unsigned *bits) {
    return sum_words(property_words, COUNT(property_words), words, bits);
}

static bool one_word(const word_row *rows, size_t count, const char *word, unsigned *value) {
    return word != NULL && find_word(rows, count, word, strlen(word), value);
}

/* --- what all rows have --- */

static mpc_status refuse(const check *c, const char *what, const char *name, const char *why) {
    return mpc_error(c->sink, "E372", "plugin %s, %s `%s`: %s", c->path, what, name, why);
}

static mpc_status check_size(const check *c, const char *what, uint32_t size, size_t wanted) {
    if (size == wanted) return MPC_OK;
    return mpc_error(c->sink, "E371",
                     "plugin %s was compiled against another header: the table of a %s has %u bytes there, in "
                     "interface %u of this mpc %zu",
                     c->path, what, size, MPC_PLUGIN_ABI, wanted);
}

/* Letters, digits and `-` for what stands in pipelines; ops and formats are words of the language: `_`. */
static mpc_status check_name(const check *c, const char *what, const char *name, char joint) {
    if (name == NULL) return mpc_error(c->sink, "E372", "plugin %s: a %s has no name", c->path, what);
    size_t length = 0;
    while ((name[length] >= 'a' && name[length] <= 'z') || (name[length] >= '0' && name[length] <= '9') ||
           name[length] == joint)
        length++;
    bool good = length > 0 && length < 64 && name[length] == '\0' && name[0] >= 'a';
    return good ? MPC_OK
                : refuse(c, what, name,
                         joint == '-' ? "a name has small letters, digits and `-`"
                                      : "a name has small letters, digits and `_`");
}

static mpc_status check_taken(const check *c, const char *what, const char *name, bool taken) {
    return taken ? refuse(c, what, name, "the name is taken") : MPC_OK;
}

/* --- passes, solvers --- */

static bool options_are_good(const char *options) {
    static const word_row kinds[] = {{"int", 0}, {"float", 0}, {"bool", 0}, {"str", 0}};
    mpc_option_spec spec;
    char value[64];
    unsigned unused;
    while (mpc_option_next(&options, &spec)) {
        if (spec.key_length == 0 || !find_word(kinds, COUNT(kinds), spec.kind, spec.kind_length, &unused)) return false;
        if (spec.fallback_length >= sizeof value) return false;
        memcpy(value, spec.fallback, spec.fallback_length);
        value[spec.fallback_length] = '\0';
        if (!mpc_option_valid(&spec, value)) return false;
    }
    return true;
}

static mpc_status check_pass(const check *c, const mpc_plugin_pass *p) {
    static const char what[] = "pass";
    unsigned bits;
    mpc_status status = check_size(c, what, p->size, sizeof *p);
    if (status == MPC_OK) status = check_name(c, what, p->name, '-');
    if (status == MPC_OK) status = check_taken(c, what, p->name, mpc_pass_named(c->ctx, p->name) != NULL);
    if (status != MPC_OK) return status;
    if (p->run == NULL || p->doc == NULL) return refuse(c, what, p->name, "it has no function `run`, or no `doc`");
    if (p->options == NULL || !options_are_good(p->options))
        return refuse(c, what, p->name, "options are key:kind=default with kinds int, float, bool, str");
    if (!mpc_plugin_properties(p->needs, &bits) || !mpc_plugin_properties(p->provides, &bits))
        return refuse(c, what, p->name, "`needs` or `provides` has an unknown word");
    return MPC_OK;
}

static mpc_status check_solver(const check *c, const mpc_plugin_solver *s) {
    static const char what[] = "solver";
    mpc_status status = check_size(c, what, s->size, sizeof *s);
    if (status == MPC_OK) status = check_name(c, what, s->name, '-');
    if (status == MPC_OK) status = check_taken(c, what, s->name, mpc_solver_named(c->ctx, s->name) != NULL);
    if (status != MPC_OK) return status;
    return s->solve != NULL && s->doc != NULL ? MPC_OK
                                              : refuse(c, what, s->name, "it has no function `solve`, or no `doc`");
}

/* --- ops --- */

static bool has_spec(const mpc_attr_spec *specs, uint32_t count, const mpc_attr_spec *wanted) {
    for (uint32_t i = 0; i < count; i++)
        if (specs[i].key == wanted->key && specs[i].kind == wanted->kind) return true;
    return false;
}

/* A borrowed shape rule asks for the attributes of the op it was written for. */
static mpc_status check_shape(const check *c, const mpc_plugin_op *o) {
    mpc_op_id id;
    mpc_attr_spec *specs = NULL;
    uint32_t count = 0;
    if (mpc_attr_specs_parse(c->ctx, o->attributes, &specs, &count) != MPC_OK)
        return refuse(c, "op", o->name, "its attributes can't be read");
    if (o->shape_like == NULL) return o->shape != NULL ? MPC_OK : refuse(c, "op", o->name, "it has no shape rule");
    if (!mpc_op_find(c->ctx, o->shape_like, &id) || mpc_op_get(c->ctx, id)->plugin != NULL)
        return refuse(c, "op", o->name, "`shape_like` names no op of mpc");
    const mpc_op *like = mpc_op_get(c->ctx, id);
    if (like->kind == MPC_KIND_STRUCT || like->result_count != o->results || like->min_operands > o->min_operands ||
        like->max_operands < o->max_operands)
        return refuse(c, "op", o->name, "the op that `shape_like` names has other operands or results");
    for (uint32_t i = 0; i < like->attr_count; i++)
        if (strcmp(mpc_sym_text(c->ctx, like->attrs[i].key), "prec") != 0 && !has_spec(specs, count, &like->attrs[i]))
            return refuse(c, "op", o->name, "it lacks an attribute that the rule of `shape_like` reads");
    return MPC_OK;
}

static const char *missing_part(const mpc_plugin_op *o) {
    unsigned value;
    if (o->doc == NULL || o->attributes == NULL) return "it has no `doc`, or no `attributes`";
    if (!one_word(kind_words, COUNT(kind_words), o->kind, &value)) return "its kind is neither composite nor ewise";
    bool composite = value == MPC_KIND_COMPOSITE;
    if (!one_word(class_words, COUNT(class_words), o->op_class, &value))
        return "its class is none of LOW HIGH FOLLOW CLEAR NONE";
    if (!sum_words(flag_words, COUNT(flag_words), o->flags, &value)) return "`flags` has an unknown word";
    if (o->results == 0 || o->results > MPC_MAX_RESULTS || o->min_operands > o->max_operands || o->max_operands == 0)
        return "its numbers of operands or results make no sense";
    if (o->eval == NULL) return "it has no function `eval`";
    if (composite) return o->expand == NULL ? "a composite has no function `expand`" : NULL;
    if (o->kernel == NULL || *o->kernel == '\0' || o->expand != NULL)
        return "an ewise op has a `kernel` and no `expand`";
    if (o->grad == NULL && (value & MPC_OPF_NO_GRAD) == 0) return "an ewise op has `grad`, or the flag no-gradient";
    return o->results == 1 && o->max_operands <= 3 ? NULL : "an ewise op has one result and at most three operands";
}

static mpc_status check_op(const check *c, const mpc_plugin_op *o) {
    mpc_status status = check_size(c, "op", o->size, sizeof *o);
    if (status == MPC_OK) status = check_name(c, "op", o->name, '_');
    if (status == MPC_OK) status = check_taken(c, "op", o->name, mpc_op_find(c->ctx, o->name, NULL));
    if (status != MPC_OK) return status;
    const char *missing = missing_part(o);
    return missing != NULL ? refuse(c, "op", o->name, missing) : check_shape(c, o);
}

void mpc_plugin_describe_op(mpc_context *ctx, const mpc_plugin_op *o, mpc_op *out) {
    unsigned kind = 0, cls = 0, flags = 0;
    mpc_op_id like = 0;
    (void)one_word(kind_words, COUNT(kind_words), o->kind, &kind);
    (void)one_word(class_words, COUNT(class_words), o->op_class, &cls);
    (void)sum_words(flag_words, COUNT(flag_words), o->flags, &flags);
    *out = (mpc_op){.name = o->name,
                    .doc = o->doc,
                    .kind = (mpc_op_kind)kind,
                    .min_operands = o->min_operands,
                    .max_operands = o->max_operands,
                    .result_count = o->results,
                    .cls = (mpc_class)cls,
                    .flags = flags,
                    .kernel = o->kernel,
                    .shape = mpc_plugin_run_shape,
                    .eval = mpc_plugin_run_eval,
                    .grad = o->grad == NULL ? NULL : mpc_plugin_run_grad,
                    .expand = o->expand == NULL ? NULL : mpc_plugin_run_expand,
                    .plugin = o};
    if (o->shape_like != NULL && mpc_op_find(ctx, o->shape_like, &like)) out->shape = mpc_op_get(ctx, like)->shape;
}

/* --- formats --- */

mpc_numfmt mpc_plugin_numbers(const mpc_plugin_format *f) {
    return (mpc_numfmt){f->exponent_bits, f->fraction_bits, f->infinities, f->saturates};
}

static mpc_status check_format(const check *c, const mpc_plugin_format *f) {
    mpc_status status = check_size(c, "format", f->size, sizeof *f);
    if (status == MPC_OK) status = check_name(c, "format", f->name, '_');
    if (status != MPC_OK) return status;
    if (f->doc == NULL) return refuse(c, "format", f->name, "it has no `doc`");
    mpc_numfmt fmt = mpc_plugin_numbers(f);
    return mpc_format_check(f->name, &fmt, c->sink);
}

/* Formats that other plugins brought, perhaps for another context, keep their places. */
static mpc_status check_room(const check *c, const mpc_plugin *p) {
    int room = 0, wanted = 0;
    for (int i = MPC_FMT_user; i < MPC_FMT_count; i++) room += !mpc_format_is_user((mpc_format)i);
    for (uint32_t i = 0; p->formats != NULL && p->formats[i] != NULL; i++)
        wanted += mpc_format_find(p->formats[i]->name) == MPC_FMT_none;
    if (wanted <= room) return MPC_OK;
    return mpc_error(c->sink, "E372", "plugin %s: it brings %d formats, and there is room for %d", c->path, wanted,
                     room);
}

/* --- all --- */

/* Every row of a list by CHECK, and no name twice. */
#define CHECK_LIST(check_one, list, what) \
    for (uint32_t i = 0; status == MPC_OK && (list) != NULL && (list)[i] != NULL; i++) { \
        status = check_one(&c, (list)[i]); \
        for (uint32_t k = 0; status == MPC_OK && k < i; k++) \
            status = check_taken(&c, what, (list)[i]->name, strcmp((list)[k]->name, (list)[i]->name) == 0); \
    }

static mpc_status check_costs(const check *c, const mpc_plugin_costs *m) {
    static const char what[] = "cost model";
    mpc_status status = check_size(c, what, m->size, sizeof *m);
    if (status == MPC_OK) status = check_name(c, what, m->name, '-');
    bool taken = status == MPC_OK && (mpc_context_find_extension(c->ctx, MPC_EXT_COSTS, m->name) != NULL ||
                                      mpc_device_profile_find(m->name) != NULL);
    if (status == MPC_OK) status = check_taken(c, what, m->name, taken);
    if (status == MPC_OK && (m->profile == NULL || m->doc == NULL))
        status = refuse(c, what, m->name, "it has no `profile`, or no `doc`");
    return status == MPC_OK ? mpc_plugin_check_costs(c->ctx, c->path, m) : status;
}

mpc_status mpc_plugin_check(mpc_context *ctx, const char *path, const mpc_plugin *p) {
    check c = {.ctx = ctx, .sink = mpc_context_sink(ctx), .path = path};
    if (p == NULL)
        return mpc_error(c.sink, "E371", "plugin %s doesn't know plugin interface %u, which this mpc has", path,
                         MPC_PLUGIN_ABI);
    if (p->abi != MPC_PLUGIN_ABI)
        return mpc_error(c.sink, "E371", "plugin %s was compiled for plugin interface %u, this mpc has %u", path,
                         p->abi, MPC_PLUGIN_ABI);
    mpc_status status = check_size(&c, "plugin", p->size, sizeof *p);
    if (status == MPC_OK) status = check_size(&c, "list of functions", p->api_size, sizeof(mpc_plugin_api));
    if (status == MPC_OK) status = check_name(&c, "plugin", p->name, '-');
    if (status != MPC_OK) return status;
    CHECK_LIST(check_format, p->formats, "format")
    CHECK_LIST(check_op, p->ops, "op")
    CHECK_LIST(check_pass, p->passes, "pass")
    CHECK_LIST(check_solver, p->solvers, "solver")
    CHECK_LIST(check_costs, p->costs, "cost model")
    return status == MPC_OK ? check_room(&c, p) : status;
}
