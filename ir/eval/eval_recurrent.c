/* Recurrent layers in doubles, example by example and step by step, straight from their equations; the expansion of
 * passes/expand_recurrent.c does all inputs in one product and all weight gradients in another, so the two share
 * nothing. Gate order: i f g o (lstm), r z n (gru), as in PyTorch. */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct layer {
    mpc_eval *e;
    int64_t b, t, c, h, gates;
    bool reverse;
} layer;

static layer read_layer(mpc_eval *e, int64_t gates) {
    const int64_t *x = e->operands[0].type.dims;
    return (layer){
        e, x[0], x[1], x[2], e->operands[2].type.dims[0], gates, mpc_attr_bool(e->graph, e->node, "reverse")};
}

/* Place of the k-th step of example i among [b,t]; of the step before it, -1 at the first. */
static int64_t place(const layer *l, int64_t i, int64_t k) { return i * l->t + (l->reverse ? l->t - 1 - k : k); }
static int64_t before(const layer *l, int64_t i, int64_t k) { return k > 0 ? place(l, i, k - 1) : -1; }

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }

/* out[j] = sum over k of row[k] w[k][j] */
static void row_times(const double *row, const mpc_tensor *w, double *out) {
    int64_t rows = w->type.dims[0], cols = w->type.dims[1];
    for (int64_t j = 0; j < cols; j++) out[j] = 0;
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < cols; j++) out[j] += row[k] * w->data[k * cols + j];
}

/* out[k] += sum over j of w[k][j] row[j] */
static void add_times_row(const mpc_tensor *w, const double *row, double *out) {
    int64_t rows = w->type.dims[0], cols = w->type.dims[1];
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < cols; j++) out[k] += w->data[k * cols + j] * row[j];
}

/* out[k][j] += a[k] b[j] */
static void add_outer(const double *a, int64_t rows, const double *b, int64_t cols, double *out) {
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < cols; j++) out[k * cols + j] += a[k] * b[j];
}

/* The state that step k of example i starts from: an earlier row of `steps`, or of the initial state. */
static const double *state_before(const layer *l, const mpc_tensor *steps, const mpc_tensor *first, int64_t i,
                                  int64_t k) {
    int64_t at = before(l, i, k);
    return at < 0 ? first->data + i * l->h : steps->data + at * l->h;
}

/* Step k of example i; `input` and `hidden` [gates h] are scratch. */
typedef void step_function(const layer *l, int64_t i, int64_t k, double *input, double *hidden);

static bool forward(mpc_eval *e, int64_t gates, step_function *step) {
    layer l = read_layer(e, gates);
    double *input = mpc_eval_scratch(e, gates * l.h), *hidden = mpc_eval_scratch(e, gates * l.h);
    if (input == NULL || hidden == NULL) return false;
    for (int64_t i = 0; i < l.b; i++)
        for (int64_t k = 0; k < l.t; k++) step(&l, i, k, input, hidden);
    return true;
}

/* (x, w_input, w_hidden, bias, h0, c0) -> y, c, gates */
static void lstm_step(const layer *l, int64_t i, int64_t k, double *input, double *hidden) {
    mpc_eval *e = l->e;
    int64_t at = place(l, i, k), h = l->h;
    const double *c = state_before(l, &e->results[1], &e->operands[5], i, k), *bias = e->operands[3].data;
    double *gates = e->results[2].data + at * 4 * h;
    row_times(e->operands[0].data + at * l->c, &e->operands[1], input);
    row_times(state_before(l, &e->results[0], &e->operands[4], i, k), &e->operands[2], hidden);
    for (int64_t j = 0; j < 4 * h; j++) {
        double a = input[j] + bias[j] + hidden[j];
        gates[j] = j / h == 2 ? tanh(a) : sigmoid(a);
    }
    for (int64_t j = 0; j < h; j++) {
        double now = gates[h + j] * c[j] + gates[j] * gates[2 * h + j];
        e->results[1].data[at * h + j] = now;
        e->results[0].data[at * h + j] = gates[3 * h + j] * tanh(now);
    }
}

bool mpc_eval_lstm(mpc_eval *e) { return forward(e, 4, lstm_step); }

/* (x, w_input, w_hidden, bias, bias_hidden, h0) -> y, h, gates: r, z, n and the hidden part of n */
static void gru_step(const layer *l, int64_t i, int64_t k, double *input, double *hidden) {
    mpc_eval *e = l->e;
    int64_t at = place(l, i, k), h = l->h;
    const double *old = state_before(l, &e->results[1], &e->operands[5], i, k), *bias = e->operands[3].data;
    double *gates = e->results[2].data + at * 4 * h;
    row_times(e->operands[0].data + at * l->c, &e->operands[1], input);
    row_times(old, &e->operands[2], hidden);
    for (int64_t j = 0; j < 3 * h; j++) input[j] += bias[j];
    for (int64_t j = 0; j < 2 * h; j++) gates[j] = sigmoid(input[j] + hidden[j]);
    for (int64_t j = 0; j < h; j++) {
        gates[3 * h + j] = hidden[2 * h + j] + e->operands[4].data[j];
        double n = gates[2 * h + j] = tanh(input[2 * h + j] + gates[j] * gates[3 * h + j]), z = gates[h + j];
        e->results[0].data[at * h + j] = e->results[1].data[at * h + j] = (1 - z) * n + z * old[j];
    }
}

bool mpc_eval_gru(mpc_eval *e) { return forward(e, 3, gru_step); }

/* --- backward --- */

typedef struct back {
    layer l;
    double *dstate, *dhidden; /* [h]: gradients that came from the step behind */
    double *dinput, *drecur;  /* [gates h]: of the sums before the functions; an lstm has one for both */
    double *next;             /* [h] */
} back;

static bool begin_back(back *s, mpc_eval *e, int64_t gates) {
    s->l = read_layer(e, gates);
    int64_t h = s->l.h;
    s->dstate = mpc_eval_scratch(e, h);
    s->dhidden = mpc_eval_scratch(e, h);
    s->dinput = mpc_eval_scratch(e, gates * h);
    s->drecur = mpc_eval_scratch(e, gates * h);
    s->next = mpc_eval_scratch(e, h);
    return s->dstate != NULL && s->dhidden != NULL && s->dinput != NULL && s->drecur != NULL && s->next != NULL;
}

/* What both kinds do with the gradients of a step's sums; h is what w_hidden was multiplied with. */
static void spread(back *s, int64_t at, const double *h) {
    mpc_eval *e = s->l.e;
    int64_t n = s->l.gates * s->l.h;
    const double *x = e->operands[0].data + at * s->l.c;
    add_times_row(&e->operands[1], s->dinput, e->results[0].data + at * s->l.c);
    add_outer(x, s->l.c, s->dinput, n, e->results[1].data);
    add_outer(h, s->l.h, s->drecur, n, e->results[2].data);
    for (int64_t j = 0; j < n; j++) e->results[3].data[j] += s->dinput[j];
    for (int64_t j = 0; j < s->l.h; j++) s->dhidden[j] = 0;
    add_times_row(&e->operands[2], s->drecur, s->dhidden);
}

/* (x, w_input, w_hidden, h0, c0, y, c, gates, dy, dc?) */
static void lstm_back(back *s, int64_t i, int64_t k) {
    mpc_eval *e = s->l.e;
    int64_t at = place(&s->l, i, k), h = s->l.h;
    const double *g = e->operands[7].data + at * 4 * h, *c = e->operands[6].data + at * h;
    const double *old = state_before(&s->l, &e->operands[6], &e->operands[4], i, k);
    for (int64_t j = 0; j < h; j++) {
        double in = g[j], forget = g[h + j], fresh = g[2 * h + j], out = g[3 * h + j], squashed = tanh(c[j]);
        double dy = e->operands[8].data[at * h + j] + s->dhidden[j];
        double dc = s->dstate[j] + dy * out * (1 - squashed * squashed);
        if (e->operand_count > 9) dc += e->operands[9].data[at * h + j];
        s->dinput[j] = dc * fresh * in * (1 - in);
        s->dinput[h + j] = dc * old[j] * forget * (1 - forget);
        s->dinput[2 * h + j] = dc * in * (1 - fresh * fresh);
        s->dinput[3 * h + j] = dy * squashed * out * (1 - out);
        s->dstate[j] = dc * forget;
    }
    for (int64_t j = 0; j < 4 * h; j++) s->drecur[j] = s->dinput[j];
    spread(s, at, state_before(&s->l, &e->operands[5], &e->operands[3], i, k));
}

bool mpc_eval_lstm_grad(mpc_eval *e) {
    back s;
    if (!begin_back(&s, e, 4)) return false;
    for (int64_t i = 0; i < s.l.b; i++) {
        for (int64_t j = 0; j < s.l.h; j++) s.dstate[j] = s.dhidden[j] = 0;
        for (int64_t k = s.l.t; k-- > 0;) lstm_back(&s, i, k);
        for (int64_t j = 0; j < s.l.h; j++) {
            e->results[4].data[i * s.l.h + j] = s.dhidden[j];
            e->results[5].data[i * s.l.h + j] = s.dstate[j];
        }
    }
    return true;
}

/* (x, w_input, w_hidden, h0, h, gates, dy, dh?) */
static void gru_back(back *s, int64_t i, int64_t k) {
    mpc_eval *e = s->l.e;
    int64_t at = place(&s->l, i, k), h = s->l.h;
    const double *g = e->operands[5].data + at * 4 * h;
    const double *old = state_before(&s->l, &e->operands[4], &e->operands[3], i, k);
    for (int64_t j = 0; j < h; j++) {
        double r = g[j], z = g[h + j], n = g[2 * h + j], part = g[3 * h + j];
        double dh = e->operands[6].data[at * h + j] + s->dstate[j] + s->dhidden[j];
        if (e->operand_count > 7) dh += e->operands[7].data[at * h + j];
        double dn = dh * (1 - z) * (1 - n * n);
        s->dinput[j] = s->drecur[j] = dn * part * r * (1 - r);
        s->dinput[h + j] = s->drecur[h + j] = dh * (old[j] - n) * z * (1 - z);
        s->dinput[2 * h + j] = dn;
        s->drecur[2 * h + j] = dn * r;
        e->results[4].data[j] += dn * r;
        s->next[j] = dh * z;
    }
    spread(s, at, old);
    for (int64_t j = 0; j < h; j++) s->dstate[j] = s->next[j];
}

bool mpc_eval_gru_grad(mpc_eval *e) {
    back s;
    if (!begin_back(&s, e, 3)) return false;
    for (int64_t i = 0; i < s.l.b; i++) {
        for (int64_t j = 0; j < s.l.h; j++) s.dstate[j] = s.dhidden[j] = 0;
        for (int64_t k = s.l.t; k-- > 0;) gru_back(&s, i, k);
        for (int64_t j = 0; j < s.l.h; j++) e->results[5].data[i * s.l.h + j] = s.dhidden[j] + s.dstate[j];
    }
    return true;
}
