/* Every parameter with what holds for it and the line that decided it. What no line says follows from the layer (init),
 * the optimizer (decay) or the train section, and has no place. */
#include <inttypes.h>
#include <string.h>

#include "driver/summary.h"

static void append_init(const mpc_graph *g, const mpc_node *n, mpc_str *out) {
    const char *kind = mpc_attr_str(g, n, "init");
    bool file = strcmp(kind, "file") == 0, two = strstr(kind, "normal") || strcmp(kind, "uniform") == 0;
    mpc_str_append(out, kind);
    if (file) mpc_str_printf(out, "(\"%s\")", mpc_attr_str(g, n, "path"));
    else if (two) mpc_str_printf(out, "(%.4g, %.4g)", mpc_attr_float(g, n, "a"), mpc_attr_float(g, n, "b"));
    else if (strcmp(kind, "constant") == 0 || strcmp(kind, "orthogonal") == 0)
        mpc_str_printf(out, "(%.4g)", mpc_attr_float(g, n, "a"));
}

/* Without a word on it, weight decay acts on parameters of two and more axes. */
static double decay_of(const mpc_summary *s, const mpc_summary_param *p) {
    double own = mpc_attr_float(s->parsed, &s->parsed->nodes[p->node], "decay");
    double all = s->session->train->optimizer.weight_decay;
    return own >= 0 ? own : p->type->rank >= 2 ? all : 0;
}

static const char *kept_as(const mpc_graph *g, const mpc_node *n) {
    if (mpc_attr_format(g, n, "stored") == MPC_FMT_none) return "master";
    return strcmp(mpc_attr_str(g, n, "rounding"), "stochastic") == 0 ? "stochastic" : "none";
}

static void append_span(const mpc_summary *s, mpc_span span, mpc_str *out) {
    uint32_t line, column;
    mpc_sources_locate(s->session->sources, span.file, span.begin, &line, &column);
    mpc_str_printf(out, "%s:%" PRIu32, mpc_sources_name(s->session->sources, span.file), line);
}

static const char *const KEYS[] = {"init", "decay", "lr", "freeze", "weights", "ema"};
enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS };

/* "init gpt.mpg:36, decay gpt.mpg:39" */
static void append_lines(const mpc_summary *s, const mpc_summary_param *p, mpc_str *out) {
    for (size_t i = 0; i < KEY_COUNT; i++) {
        mpc_span span = mpc_model_param_line(s->session->model, p->name, KEYS[i]);
        if (!span.file) continue;
        mpc_str_printf(out, "%s%s ", out->length ? ", " : "", KEYS[i]);
        append_span(s, span, out);
    }
}

static void append_layer(const mpc_summary *s, const mpc_node *n, mpc_str *out) {
    if (n->loc.file) mpc_str_printf(out, "%s:%" PRIu32, mpc_sym_text(s->parsed->ctx, n->loc.file), n->loc.line);
}

/* ---- text ---- */

typedef struct columns {
    int name, shape, init;
} columns;

static columns measure(const mpc_summary *s, mpc_str *text) {
    columns c = {9, 5, 4};
    for (size_t i = 0; i < s->params.count; i++) {
        const mpc_summary_param *p = &s->params.data[i];
        c.name = mpc_column_width(c.name, strlen(p->name));
        mpc_str_clear(text);
        mpc_append_dims(text, p->type);
        c.shape = mpc_column_width(c.shape, text->length);
        mpc_str_clear(text);
        append_init(s->parsed, &s->parsed->nodes[p->node], text);
        c.init = mpc_column_width(c.init, text->length);
    }
    return c;
}

static void print_param(const mpc_summary *s, const mpc_summary_param *p, columns c, mpc_str texts[3]) {
    const mpc_graph *g = s->parsed;
    const mpc_node *n = &g->nodes[p->node];
    for (int i = 0; i < 3; i++) mpc_str_clear(&texts[i]);
    mpc_append_dims(&texts[0], p->type);
    append_init(g, n, &texts[1]);
    append_layer(s, n, &texts[2]);
    printf("%-*s  %-*s  %-*s  %-7.4g  %-5.4g  %-6s  %-10s  %-6.6g  %s", c.name, p->name, c.shape,
           mpc_str_cstr(&texts[0]), c.init, mpc_str_cstr(&texts[1]), decay_of(s, p), mpc_attr_float(g, n, "lr"),
           mpc_attr_bool(g, n, "trainable") ? "no" : "yes", kept_as(g, n), mpc_attr_float(g, n, "ema"),
           mpc_str_cstr(&texts[2]));
    mpc_str_clear(&texts[2]);
    append_lines(s, p, &texts[2]);
    printf("%s%s\n", texts[2].length ? "; " : "", mpc_str_cstr(&texts[2]));
}

bool mpc_summary_print_params(const mpc_summary *s) {
    mpc_str texts[3] = {{0}};
    columns c = measure(s, &texts[0]);
    printf("\n%-*s  %-*s  %-*s  %-7s  %-5s  %-6s  %-10s  %-6s  %s\n", c.name, "parameter", c.shape, "shape", c.init,
           "init", "decay", "lr x", "frozen", "weights", "ema", "made at; decided by");
    for (size_t i = 0; i < s->params.count; i++) print_param(s, &s->params.data[i], c, texts);
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        ok = ok && !texts[i].failed;
        mpc_str_free(&texts[i]);
    }
    if (!ok) mpc_error(s->session->sink, "E901", "out of memory");
    return ok;
}

/* ---- JSON ---- */

static json_t *lines_json(const mpc_summary *s, const mpc_summary_param *p, mpc_str *text) {
    json_t *lines = json_object();
    for (size_t i = 0; i < KEY_COUNT; i++) {
        mpc_span span = mpc_model_param_line(s->session->model, p->name, KEYS[i]);
        if (!span.file) continue;
        mpc_str_clear(text);
        append_span(s, span, text);
        json_object_set_new(lines, KEYS[i], json_string(mpc_str_cstr(text)));
    }
    return lines;
}

static json_t *param_json(const mpc_summary *s, const mpc_summary_param *p, mpc_str *text) {
    const mpc_graph *g = s->parsed;
    const mpc_node *n = &g->nodes[p->node];
    mpc_str_clear(text);
    append_init(g, n, text);
    json_t *init = json_string(mpc_str_cstr(text));
    mpc_str_clear(text);
    append_layer(s, n, text);
    json_t *made = json_string(mpc_str_cstr(text));
    return json_pack("{s:s, s:o, s:I, s:o, s:f, s:f, s:b, s:s, s:f, s:o, s:o}", "name", p->name, "shape",
                     mpc_dims_json(p->type), "elements", (json_int_t)mpc_type_elements(p->type), "init", init, "decay",
                     decay_of(s, p), "lr", mpc_attr_float(g, n, "lr"), "frozen", !mpc_attr_bool(g, n, "trainable"),
                     "weights", kept_as(g, n), "ema", mpc_attr_float(g, n, "ema"), "made_at", made, "decided_by",
                     lines_json(s, p, text));
}

json_t *mpc_summary_params_json(const mpc_summary *s) {
    json_t *list = json_array();
    mpc_str text = {0};
    for (size_t i = 0; i < s->params.count; i++) json_array_append_new(list, param_json(s, &s->params.data[i], &text));
    mpc_str_free(&text);
    return list;
}
