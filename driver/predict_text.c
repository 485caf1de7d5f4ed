/* Text, or token numbers, from a token model: the window holds the newest tokens from its start on, the scores at the
 * last of them give the next one: logits (or log-probabilities, which are logits too), or a distribution, told by the
 * op that makes it or by its first row. What stands after it in the window is filler, which a causal model never looks
 * at. A text's tokens are its characters; those of a token file have no text, and are read and written as numbers. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/predict.h"
#include "driver/run_log.h"
#include "driver/sampling.h"
#include "runtime/store_layout.h"

typedef struct sampler {
    mpc_step *step;
    const mpc_dataset *vocabulary; /* NULL: tokens are numbers */
    const mpc_options *options;
    mpc_sampling sampling;
    uint32_t input, output; /* the executor's */
    int64_t window, classes;
    int64_t tokens_known; /* numbers below it may be read and written */
    int32_t *tokens;      /* prompt and what was written */
    int64_t count, prompt_count;
    double *logits, *scratch; /* [classes] each */
    bool probabilities;       /* the output is a distribution: its logarithms are the logits */
    FILE *to;
} sampler;

static const mpc_sink *sink_of(const sampler *p) { return p->step->session->sink; }

/* With a vocabulary the output that scores all of it; else the first that scores anything at each position. */
static bool fits(const sampler *p, const mpc_type *type) {
    if (type->rank < 2 || !mpc_format_is_float(type->format)) return false;
    return !p->vocabulary || type->dims[type->rank - 1] == mpc_dataset_vocabulary(p->vocabulary);
}

static bool find_ends(sampler *p) {
    const mpc_exec *e = p->step->exec;
    p->input = p->output = MPC_NONE;
    for (uint32_t i = 0; i < e->input_count; i++)
        if (strcmp(e->inputs[i].source, "window") == 0) p->input = i;
    for (uint32_t i = 0; i < e->output_count; i++) {
        bool named = strcmp(e->outputs[i].name, "output.logits") == 0;
        if (fits(p, &e->output_types[i]) && (named || p->output == MPC_NONE)) p->output = i;
    }
    if (p->input != MPC_NONE && p->output != MPC_NONE) {
        const mpc_type *type = &e->output_types[p->output];
        p->window = mpc_type_elements(&e->input_types[p->input]);
        p->classes = p->tokens_known = type->dims[type->rank - 1];
        int64_t range = p->step->fields[p->step->field_of[p->input]].hi;
        if (range > 0 && range < p->tokens_known) p->tokens_known = range;
        return true;
    }
    mpc_error(sink_of(p), "E359",
              "to write %s, the model needs an output with a score for each of the %s: `output logits = logits`",
              p->vocabulary ? "text" : "tokens", p->vocabulary ? "characters of the training text" : "tokens");
    return false;
}

/* The output comes from a softmax over the characters, perhaps cast, reshaped or sliced. */
static bool comes_from_softmax(const sampler *p, const mpc_graph *g, mpc_value_id value) {
    const mpc_node *n = value == MPC_NONE ? NULL : mpc_producer(g, value);
    while (n && n->operand_count > 0 && (n->op == MPC_OP_cast || mpc_op_get(g->ctx, n->op)->kind == MPC_KIND_VIEW))
        n = mpc_producer(g, mpc_operand(g, n, 0));
    if (!n || n->op != MPC_OP_softmax) return false;
    const mpc_type *type = mpc_value_type(g, mpc_result(n, 0));
    return type->dims[mpc_attr_int(g, n, "axis")] == p->classes;
}

/* The step's own graph has softmax expanded already: the elaborated one still has it by name. */
static bool is_declared_distribution(const sampler *p) {
    const mpc_step *step = p->step;
    mpc_graph *g = mpc_session_graph(step->session, step->phase, step->batch, MPC_STAGE_PARSED);
    bool is = g && comes_from_softmax(p, g, mpc_graph_find_output(g, step->exec->outputs[p->output].name));
    mpc_graph_destroy(g);
    return is;
}

/* Rows that a model normalised by hand: 16-bit formats round each of many terms, so the sum is taken loosely. */
static bool is_distribution(const sampler *p, const void *row, mpc_format format, int64_t at) {
    double sum = 0;
    for (int64_t k = 0; k < p->classes; k++) {
        double v = mpc_element_get(format, row, at + k);
        if (!(v >= 0)) return false;
        sum += v;
    }
    return fabs(sum - 1) <= 1e-2;
}

static bool read_text(sampler *p) {
    const char *text = p->options->prompt ? p->options->prompt : "\n";
    while (*text) {
        unsigned length;
        int64_t token = mpc_dataset_token_of(p->vocabulary, text, &length);
        if (token < 0 && p->options->prompt) {
            mpc_error(sink_of(p), "E217", "the prompt has `%.*s`, which the training text hasn't", (int)length, text);
            return false;
        }
        p->tokens[p->count++] = token < 0 ? 0 : (int32_t)token;
        text += length;
    }
    return true;
}

static bool is_between_numbers(char c) { return c == ',' || c == '[' || c == ']' || isspace((unsigned char)c); }

/* Numbers with anything between them that a JSON array has. */
static bool read_numbers(sampler *p) {
    const char *text = p->options->prompt ? p->options->prompt : "";
    while (true) {
        while (*text && is_between_numbers(*text)) text++;
        if (!*text) return true;
        char *stop;
        errno = 0;
        long long token = strtoll(text, &stop, 10);
        bool whole = stop != text && (!*stop || is_between_numbers(*stop));
        if (errno || !whole || token < 0 || token >= p->tokens_known) {
            mpc_error(sink_of(p), "E217", "the prompt has `%.*s`, the model reads numbers from 0 to %lld: \"12 7 431\"",
                      (int)strcspn(text, " ,[]\n\t"), text, (long long)p->tokens_known - 1);
            return false;
        }
        p->tokens[p->count++] = (int32_t)token;
        text = stop;
    }
}

static bool read_prompt(sampler *p) {
    if (!(p->vocabulary ? read_text(p) : read_numbers(p))) return false;
    p->prompt_count = p->count;
    if (p->count == 0) p->tokens[p->count++] = 0;
    return true;
}

static int64_t draw(sampler *p, const void *scores, mpc_format format, int64_t at, int64_t index) {
    for (int64_t k = 0; k < p->tokens_known; k++) {
        double score = mpc_element_get(format, scores, at + k);
        p->logits[k] = p->probabilities ? log(score) : score;
    }
    int64_t token = mpc_sample(&p->sampling, p->logits, p->tokens_known, p->scratch, (uint64_t)index);
    if (token < 0)
        mpc_error(sink_of(p), "E381", "after %lld tokens the model's scores hold NaN, or no finite number",
                  (long long)p->count);
    return token;
}

static bool next_token(sampler *p, int64_t index) {
    mpc_exec *e = p->step->exec;
    int64_t n = p->count < p->window ? p->count : p->window;
    int32_t *in = e->vtable->input(e, p->input);
    memset(in, 0, (size_t)p->window * sizeof *in);
    memcpy(in, p->tokens + p->count - n, (size_t)n * sizeof *in);
    if (!mpc_step_run(p->step)) return false;
    const mpc_type *type = &e->output_types[p->output];
    int64_t positions = mpc_type_elements(type) / p->classes;
    int64_t at = (positions == 1 ? 0 : n - 1) * p->classes;
    const void *scores = e->vtable->output(e, p->output);
    if (index == 0 && !p->probabilities) p->probabilities = is_distribution(p, scores, type->format, at);
    int64_t token = draw(p, scores, type->format, at, index);
    if (token >= 0) p->tokens[p->count++] = (int32_t)token;
    return token >= 0;
}

/* ---- writing ---- */

static void write_token(const sampler *p, int64_t at) {
    if (p->vocabulary) fputs(mpc_dataset_token_text(p->vocabulary, p->tokens[at]), p->to);
    else fprintf(p->to, at == 0 || (at == 1 && p->prompt_count == 0) ? "%d" : " %d", p->tokens[at]);
}

static void append_json(const sampler *p, int64_t begin, int64_t end, mpc_str *out) {
    mpc_str text = {0};
    if (!p->vocabulary) mpc_str_append(out, "[");
    for (int64_t i = begin; i < end; i++) {
        if (p->vocabulary) mpc_str_append(&text, mpc_dataset_token_text(p->vocabulary, p->tokens[i]));
        else mpc_str_printf(out, i == begin ? "%d" : ", %d", p->tokens[i]);
    }
    if (p->vocabulary) mpc_json_append_string(out, mpc_str_cstr(&text));
    else mpc_str_append(out, "]");
    mpc_str_free(&text);
}

/* {"prompt": ..., "text": ...} or {"prompt": [...], "tokens": [...]} */
static bool write_json(const sampler *p) {
    mpc_str out = {0};
    int64_t first = p->count - p->options->length;
    mpc_str_append(&out, "{\"prompt\": ");
    append_json(p, 0, p->options->prompt ? p->prompt_count : 0, &out);
    mpc_str_append(&out, p->vocabulary ? ", \"text\": " : ", \"tokens\": ");
    append_json(p, first, p->count, &out);
    mpc_str_append(&out, "}\n");
    bool ok = !out.failed;
    if (ok) fputs(out.data, p->to);
    else mpc_error(sink_of(p), "E901", "out of memory");
    mpc_str_free(&out);
    return ok;
}

static bool write_sample(sampler *p) {
    bool json = p->options->json;
    for (int64_t i = 0; !json && p->options->prompt && i < p->prompt_count; i++) write_token(p, i);
    for (int64_t i = 0; i < p->options->length; i++) {
        if (!next_token(p, i)) return false;
        if (json) continue;
        write_token(p, p->count - 1);
        fflush(p->to);
    }
    if (json) return write_json(p);
    fputc('\n', p->to);
    return true;
}

static bool close_output(const sampler *p, const char *path) {
    bool ok = fflush(p->to) == 0 && !ferror(p->to);
    if (p->to != stdout) ok = fclose(p->to) == 0 && ok;
    if (!ok) mpc_error(sink_of(p), "E420", "can't write %s: %s", path, strerror(errno));
    return ok;
}

static bool sample(sampler *p) {
    const mpc_options *o = p->options;
    bool named = o->out && strcmp(o->out, "-") != 0;
    p->to = named ? fopen(o->out, "wb") : stdout;
    if (!p->to) {
        mpc_error(sink_of(p), "E420", "can't write %s: %s", o->out, strerror(errno));
        return false;
    }
    p->probabilities = is_declared_distribution(p);
    bool ok = write_sample(p);
    return close_output(p, named ? o->out : "standard output") && ok;
}

bool mpc_sample_text(mpc_session *s, mpc_step *step, const mpc_dataset *vocabulary) {
    const mpc_options *o = s->cli->options;
    sampler p = {.step = step,
                 .vocabulary = vocabulary,
                 .options = o,
                 .sampling = {.temperature = o->temperature, .top_k = o->top_k, .seed = o->seed}};
    if (!find_ends(&p)) return false;
    size_t room = strlen(o->prompt ? o->prompt : "\n") + (size_t)o->length + 2;
    p.tokens = mpc_alloc(room * sizeof *p.tokens);
    p.logits = mpc_alloc(2 * (size_t)p.classes * sizeof *p.logits);
    p.scratch = p.logits ? p.logits + p.classes : NULL;
    bool ok = p.tokens && p.logits;
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    ok = ok && read_prompt(&p) && sample(&p);
    mpc_free(p.tokens);
    mpc_free(p.logits);
    return ok;
}
