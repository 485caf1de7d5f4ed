/* Text from a token model: the window holds the newest characters from its start on, the scores at the last of them
 * give the next one: logits (or log-probabilities, which are logits too), or a distribution, told by the op that makes
 * it or by its first row. What stands after it in the window is filler, which a causal model never looks at. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "driver/predict.h"
#include "runtime/store_layout.h"

typedef struct sampler {
    mpc_step *step;
    const mpc_dataset *vocabulary;
    const mpc_options *options;
    uint32_t input, output; /* the executor's */
    int64_t window, classes;
    int32_t *tokens; /* prompt and what was written */
    int64_t count;
    double *weights;    /* [classes] */
    bool probabilities; /* the output is a distribution: its logarithms are the logits */
    FILE *to;
} sampler;

static bool find_ends(sampler *p) {
    const mpc_exec *e = p->step->exec;
    p->input = p->output = MPC_NONE;
    for (uint32_t i = 0; i < e->input_count; i++)
        if (strcmp(e->inputs[i].source, "window") == 0) p->input = i;
    for (uint32_t i = 0; i < e->output_count; i++) {
        const mpc_type *type = &e->output_types[i];
        bool fits = type->rank >= 2 && type->dims[type->rank - 1] == p->classes;
        bool named = strcmp(e->outputs[i].name, "output.logits") == 0;
        if (fits && (named || p->output == MPC_NONE)) p->output = i;
    }
    if (p->input != MPC_NONE && p->output != MPC_NONE) {
        p->window = mpc_type_elements(&e->input_types[p->input]);
        return true;
    }
    mpc_error(p->step->session->sink, "E359",
              "to write text, the model needs an output with a score for each of the %lld characters: "
              "`output logits = logits`",
              (long long)p->classes);
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

static bool read_prompt(sampler *p) {
    const char *text = p->options->prompt ? p->options->prompt : "\n";
    while (*text) {
        unsigned length;
        int64_t token = mpc_dataset_token_of(p->vocabulary, text, &length);
        if (token < 0 && p->options->prompt) {
            mpc_error(p->step->session->sink, "E217", "the prompt has `%.*s`, which the training text hasn't",
                      (int)length, text);
            return false;
        }
        p->tokens[p->count++] = token < 0 ? 0 : (int32_t)token;
        text += length;
    }
    if (p->count == 0) p->tokens[p->count++] = 0;
    return true;
}

static int32_t likeliest(const sampler *p, const void *scores, mpc_format format, int64_t at) {
    int64_t best = 0;
    for (int64_t k = 1; k < p->classes; k++)
        if (mpc_element_get(format, scores, at + k) > mpc_element_get(format, scores, at + best)) best = k;
    return (int32_t)best;
}

static double logit(const sampler *p, double score) { return p->probabilities ? log(score) : score; }

static int32_t draw(sampler *p, const void *scores, mpc_format format, int64_t at, int64_t index) {
    int32_t top = likeliest(p, scores, format, at);
    if (p->options->temperature <= 0) return top;
    double max = logit(p, mpc_element_get(format, scores, at + top)), sum = 0;
    for (int64_t k = 0; k < p->classes; k++)
        sum += p->weights[k] = exp((logit(p, mpc_element_get(format, scores, at + k)) - max) / p->options->temperature);
    double left = (double)mpc_random_uniform(p->options->seed, mpc_hash_str("sample"), 0, (uint64_t)index) * sum;
    for (int64_t k = 0; k < p->classes; k++) {
        left -= p->weights[k];
        if (left < 0) return (int32_t)k;
    }
    return top;
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
    p->tokens[p->count++] = draw(p, scores, type->format, at, index);
    return true;
}

static bool write_text(sampler *p) {
    if (p->options->prompt) fputs(p->options->prompt, p->to);
    for (int64_t i = 0; i < p->options->length; i++) {
        if (!next_token(p, i)) return false;
        fputs(mpc_dataset_token_text(p->vocabulary, p->tokens[p->count - 1]), p->to);
        fflush(p->to);
    }
    fputc('\n', p->to);
    return true;
}

bool mpc_sample_text(mpc_session *s, mpc_step *step, const mpc_dataset *vocabulary) {
    const mpc_options *o = s->cli->options;
    sampler p = {.step = step,
                 .vocabulary = vocabulary,
                 .options = o,
                 .to = stdout,
                 .classes = mpc_dataset_vocabulary(vocabulary)};
    size_t room = strlen(o->prompt ? o->prompt : "\n") + (size_t)o->length + 2;
    p.tokens = mpc_alloc(room * sizeof *p.tokens);
    p.weights = mpc_alloc((size_t)p.classes * sizeof *p.weights);
    bool ok = p.tokens && p.weights;
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    if (ok && o->out && strcmp(o->out, "-") != 0) {
        p.to = fopen(o->out, "wb");
        ok = p.to != NULL;
        if (!ok) mpc_error(s->sink, "E420", "can't write %s: %s", o->out, strerror(errno));
    }
    ok = ok && find_ends(&p) && read_prompt(&p);
    if (ok) p.probabilities = is_declared_distribution(&p);
    ok = ok && write_text(&p);
    if (p.to && p.to != stdout) ok = fclose(p.to) == 0 && ok;
    mpc_free(p.tokens);
    mpc_free(p.weights);
    return ok;
}
