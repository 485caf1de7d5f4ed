/* A matmul launch on the GPU: candidates of the library, timed once on the real buffers, the fastest kept. A launch has
 * up to two forms: *direct* writes the result itself, with bias and relu in the library's epilogue; *split* writes f32
 * sums to the accumulator for the launch's own kernel. Both round once, behind the activation, so they agree but for
 * the order of sums; what a newcomer would add, the library's gelu, isn't among them: it is another approximation of
 * gelu than the IR's (ref and cpu have that one), and it is applied to sums that the IR rounds and saves for the
 * backward pass first. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cuda/cublaslt_api.h"

enum { FORM_DIRECT, FORM_SPLIT, FORMS, WANTED = 8, CANDIDATES = FORMS * WANTED, ROUNDS = 5, RUNS = 3 };

typedef struct matmul_form {
    bool exists;
    int epilogue, compute;
    mpc_lt_product product; /* `desc` NULL: the library refused to describe it */
} matmul_form;

typedef struct candidate {
    int form; /* FORM_xxx */
    mpc_lt_algo algo;
    float times[ROUNDS]; /* milliseconds */
} candidate;

struct mpc_cuda_matmul {
    mpc_cuda *cuda;
    const mpc_launch *launch;
    mpc_choices *choices;
    const mpc_sink *sink;
    bool empty; /* no element in the result */
    matmul_form forms[FORMS];
    int candidate_count; /* tune leaves one: candidates[0] */
    candidate candidates[CANDIDATES];
    mpc_lt_alignment alignment; /* that the chosen algorithm was found for */
};

static const char *const form_names[FORMS] = {"direct", "split"};

/* ---- forms ---- */

static int epilogue_of(const mpc_matmul *mm) {
    int epilogue = (mm->has_bias ? MPC_LT_EPILOGUE_BIAS : 0) | (mm->relu ? MPC_LT_EPILOGUE_RELU : 0);
    return epilogue != 0 ? epilogue : MPC_LT_EPILOGUE_DEFAULT;
}

/* The same product with dense f32 results. */
static mpc_matmul into_accumulator(const mpc_matmul *mm) {
    mpc_matmul split = *mm;
    split.fc = MPC_FMT_f32;
    split.c_row = mm->n;
    split.c_col = 1;
    int64_t stride = mm->m * mm->n;
    for (int i = MPC_MATMUL_BATCH_DIMS - 1; i >= 0; i--) {
        split.c_batch[i] = stride;
        stride *= mm->batch[i];
    }
    return split;
}

static void open_form(mpc_cuda_matmul *m, matmul_form *form, int compute) {
    mpc_lt_close(m->cuda, &form->product);
    form->compute = compute;
    mpc_lt_open(m->cuda, &form->product, compute, form->epilogue);
}

/* NULL, or why the library can't do it. */
static const char *make_form(mpc_cuda_matmul *m, int which, const mpc_matmul *mm, int epilogue) {
    matmul_form *form = &m->forms[which];
    const char *why = mpc_lt_describe(mm, &form->product);
    if (why != NULL) return why;
    if ((epilogue & MPC_LT_EPILOGUE_BIAS) && !form->product.swapped) return "a bias runs along the rows of the result";
    form->exists = true;
    form->epilogue = epilogue;
    open_form(m, form, mpc_lt_compute_of(&form->product));
    return NULL;
}

/* "bf16[4,128,784] x bf16[4,784,512] -> f32" */
static void print_product(const mpc_matmul *mm, char *text, size_t size) {
    snprintf(text, size, "%s[%" PRId64 ",%" PRId64 "] x %s[%" PRId64 ",%" PRId64 "] -> %s",
             mpc_format_get(mm->fa)->name, mm->m, mm->k, mpc_format_get(mm->fb)->name, mm->k, mm->n,
             mpc_format_get(mm->fc)->name);
}

static mpc_status refuse(const mpc_cuda_matmul *m, const char *why) {
    char product[160];
    print_product(&m->launch->matmul, product, sizeof product);
    return mpc_error(m->sink, "E630", "%s: cuBLASLt can't do %s: %s", m->launch->name, product, why);
}

static mpc_status make_forms(mpc_cuda_matmul *m) {
    const mpc_matmul *mm = &m->launch->matmul;
    m->empty = mm->m == 0 || mm->n == 0 || mpc_matmul_batches(mm) == 0;
    if (m->empty) return MPC_OK;
    if (mm->k == 0) return refuse(m, "sums over nothing");
    const char *why = make_form(m, FORM_DIRECT, mm, epilogue_of(mm));
    if (m->launch->instance_count > 0) {
        mpc_matmul split = into_accumulator(mm);
        const char *why_split = make_form(m, FORM_SPLIT, &split, MPC_LT_EPILOGUE_DEFAULT);
        if (why_split != NULL) why = why_split;
    }
    return m->forms[FORM_DIRECT].exists || m->forms[FORM_SPLIT].exists ? MPC_OK : refuse(m, why);
}

mpc_cuda_matmul *mpc_cuda_matmul_create(mpc_cuda *cuda, const mpc_launch *launch, mpc_choices *choices,
                                        const mpc_sink *sink) {
    mpc_cuda_matmul *m = mpc_alloc(sizeof *m);
    if (m == NULL) {
        mpc_error(sink, "E901", "out of memory for a matmul");
        return NULL;
    }
    memset(m, 0, sizeof *m);
    m->cuda = cuda, m->launch = launch, m->choices = choices, m->sink = sink;
    if (make_forms(m) == MPC_OK) return m;
    mpc_cuda_matmul_destroy(m);
    return NULL;
}

void mpc_cuda_matmul_destroy(mpc_cuda_matmul *m) {
    if (m == NULL) return;
    for (int i = 0; i < FORMS; i++) mpc_lt_close(m->cuda, &m->forms[i].product);
    mpc_free(m);
}

/* ---- running ---- */

static mpc_lt_operands operands_of(const mpc_cuda_matmul *m, int which, const mpc_cuda_matmul_buffers *b) {
    bool swapped = m->forms[which].product.swapped;
    return (mpc_lt_operands){.a = swapped ? b->b : b->a,
                             .b = swapped ? b->a : b->b,
                             .d = which == FORM_SPLIT ? b->accumulator : b->c,
                             .workspace = b->workspace,
                             .workspace_bytes = b->workspace_bytes};
}

static int set_bias(const mpc_cuda_matmul *m, const matmul_form *form, const mpc_cuda_matmul_buffers *b) {
    return form->epilogue & MPC_LT_EPILOGUE_BIAS ? mpc_lt_set_bias(m->cuda, &form->product, b->bias) : 0;
}

static int run_candidate(const mpc_cuda_matmul *m, const candidate *c, const mpc_cuda_matmul_buffers *b) {
    const matmul_form *form = &m->forms[c->form];
    mpc_lt_operands o = operands_of(m, c->form, b);
    int status = set_bias(m, form, b);
    return status != 0 ? status : mpc_lt_multiply(m->cuda, &form->product, &o, &c->algo);
}

bool mpc_cuda_matmul_needs_epilogue(const mpc_cuda_matmul *m) {
    return m->candidate_count > 0 && m->candidates[0].form == FORM_SPLIT;
}

static bool is_aligned_enough(const mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b) {
    int form = m->candidates[0].form;
    mpc_lt_operands o = operands_of(m, form, b);
    mpc_lt_alignment now = mpc_lt_alignment_of(&m->forms[form].product, &o);
    return now.a >= m->alignment.a && now.b >= m->alignment.b && now.d >= m->alignment.d;
}

mpc_status mpc_cuda_matmul_run(mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b) {
    if (m->empty) return MPC_OK;
    if (m->candidate_count == 0)
        return mpc_error(m->sink, "E632", "%s: run before an algorithm was chosen", m->launch->name);
    if (!is_aligned_enough(m, b))
        return mpc_error(m->sink, "E632",
                         "%s: its operands are less aligned than the ones its algorithm was chosen for",
                         m->launch->name);
    int status = run_candidate(m, &m->candidates[0], b);
    if (status == 0) return MPC_OK;
    return mpc_error(m->sink, "E632", "%s: cublasLtMatmul failed: %s (%d)", m->launch->name,
                     mpc_lt_status_text(m->cuda, status), status);
}

/* ---- candidates ---- */

static int find_for_form(mpc_cuda_matmul *m, int which, const mpc_cuda_matmul_buffers *b, mpc_lt_heuristic *found) {
    matmul_form *form = &m->forms[which];
    if (form->product.desc == NULL) return 0;
    mpc_lt_operands o = operands_of(m, which, b);
    return set_bias(m, form, b) == 0 ? mpc_lt_find(m->cuda, &form->product, &o, WANTED, found) : 0;
}

static void add_candidates(mpc_cuda_matmul *m, int which, const mpc_cuda_matmul_buffers *b) {
    matmul_form *form = &m->forms[which];
    mpc_lt_heuristic found[WANTED];
    if (!form->exists) return;
    int count = find_for_form(m, which, b, found);
    if (count == 0 &&
        form->compute == MPC_LT_COMPUTE_32F_PEDANTIC) { /* by its documentation as precise, with more algorithms */
        open_form(m, form, MPC_LT_COMPUTE_32F);
        count = find_for_form(m, which, b, found);
    }
    const mpc_lt_product *p = &form->product;
    if (count > 0 && form->epilogue != MPC_LT_EPILOGUE_DEFAULT &&
        !mpc_lt_epilogue_is_good(m->cuda, p->a.format, p->d.format, form->epilogue))
        count = 0;
    for (int i = 0; i < count; i++)
        m->candidates[m->candidate_count++] = (candidate){.form = which, .algo = found[i].algo};
}

/* ---- timing ---- */

typedef struct timing {
    mpc_cuda_matmul *m;
    const mpc_cuda_matmul_buffers *buffers;
    int (*run_epilogue)(void *user);
    void *user;
    void *begin, *end; /* events */
    const char *call;  /* of the driver, the first that failed, with `result` */
    int result;
} timing;

static bool is_done(timing *t, const char *call, int result) {
    if (result != 0 && t->result == 0) t->call = call, t->result = result;
    return result == 0;
}

static bool run_whole(timing *t, const candidate *c) {
    if (run_candidate(t->m, c, t->buffers) != 0) return false;
    bool ends_here = c->form != FORM_SPLIT || t->run_epilogue == NULL;
    return ends_here || is_done(t, "the launch of an epilogue", t->run_epilogue(t->user));
}

/* Milliseconds of some runs; negative: the library refused, or the driver failed. */
static float time_runs(timing *t, const candidate *c) {
    const mpc_cuda_driver *driver = &t->m->cuda->driver;
    float milliseconds = -1.0f;
    bool good = is_done(t, "cuEventRecord", driver->cuEventRecord(t->begin, t->m->cuda->stream));
    for (int i = 0; i < RUNS && good; i++) good = run_whole(t, c);
    good = good && is_done(t, "cuEventRecord", driver->cuEventRecord(t->end, t->m->cuda->stream)) &&
           is_done(t, "cuEventSynchronize", driver->cuEventSynchronize(t->end)) &&
           is_done(t, "cuEventElapsedTime", driver->cuEventElapsedTime(&milliseconds, t->begin, t->end));
    return good ? milliseconds : -1.0f;
}

/* Candidates that the library refuses to run are none. Warms up the others. */
static void drop_failing(timing *t) {
    mpc_cuda_matmul *m = t->m;
    int kept = 0;
    for (int i = 0; i < m->candidate_count && t->result == 0; i++)
        if (time_runs(t, &m->candidates[i]) >= 0.0f) m->candidates[kept++] = m->candidates[i];
    m->candidate_count = kept;
}

static int compare_times(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_of(candidate *c) {
    qsort(c->times, ROUNDS, sizeof c->times[0], compare_times);
    return c->times[ROUNDS / 2];
}

/* Rounds over all candidates, so that a disturbance hits all of them alike. */
static bool time_all(timing *t) {
    mpc_cuda_matmul *m = t->m;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < m->candidate_count; i++) {
            m->candidates[i].times[round] = time_runs(t, &m->candidates[i]);
            if (m->candidates[i].times[round] < 0.0f) return false;
        }
    int best = 0;
    for (int i = 0; i < m->candidate_count; i++)
        if (median_of(&m->candidates[i]) < median_of(&m->candidates[best])) best = i;
    m->candidates[0] = m->candidates[best];
    m->candidate_count = 1;
    return true;
}

static mpc_status choose_with_events(timing *t) {
    mpc_cuda_matmul *m = t->m;
    drop_failing(t);
    bool timed = t->result == 0 && (m->candidate_count < 2 || time_all(t));
    if (t->result != 0) return mpc_cuda_error(m->cuda, m->sink, t->call, t->result);
    if (m->candidate_count == 0) return refuse(m, "each of its algorithms refuses to run");
    return timed ? MPC_OK : mpc_error(m->sink, "E632", "%s: an algorithm ran once and then didn't", m->launch->name);
}

static mpc_status choose_fastest(timing *t) {
    const mpc_cuda *cuda = t->m->cuda;
    const mpc_cuda_driver *driver = &cuda->driver;
    mpc_status status;
    if (!is_done(t, "cuEventCreate", driver->cuEventCreate(&t->begin, 0)))
        return mpc_cuda_error(cuda, t->m->sink, t->call, t->result);
    if (is_done(t, "cuEventCreate", driver->cuEventCreate(&t->end, 0))) {
        status = choose_with_events(t);
        driver->cuEventDestroy_v2(t->end);
    } else {
        status = mpc_cuda_error(cuda, t->m->sink, t->call, t->result);
    }
    driver->cuEventDestroy_v2(t->begin);
    return status;
}

/* ---- choices ---- */

static void print_strides(mpc_str *out, const char *name, int64_t row, int64_t column, const int64_t *batch) {
    mpc_str_printf(out, " %s %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, name, row, column, batch[0],
                   batch[1], batch[2]);
}

/* All that decides which algorithms there are: formats, shape, strides, epilogue, alignments. */
static void print_key(const mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b, mpc_str *out) {
    const mpc_matmul *mm = &m->launch->matmul;
    char product[160];
    print_product(mm, product, sizeof product);
    mpc_str_printf(out, "matmul %s%s%s%s batch %" PRId64 ",%" PRId64 ",%" PRId64, product,
                   mm->compute == MPC_FMT_tf32 ? " tf32" : "", mm->has_bias ? " bias" : "", mm->relu ? " relu" : "",
                   mm->batch[0], mm->batch[1], mm->batch[2]);
    print_strides(out, "a", mm->a_row, mm->a_col, mm->a_batch);
    print_strides(out, "b", mm->b_row, mm->b_col, mm->b_batch);
    print_strides(out, "c", mm->c_row, mm->c_col, mm->c_batch);
    for (int i = 0; i < FORMS; i++) {
        if (!m->forms[i].exists) continue;
        mpc_lt_operands o = operands_of(m, i, b);
        mpc_lt_alignment align = mpc_lt_alignment_of(&m->forms[i].product, &o);
        mpc_str_printf(out, " %s aligned %u,%u,%u", form_names[i], align.a, align.b, align.d);
    }
}

/* "split 68 0123456789abcdef...": form, compute type, the algorithm's words. */
static void print_choice(const mpc_cuda_matmul *m, mpc_str *out) {
    const candidate *c = &m->candidates[0];
    mpc_str_printf(out, "%s %d ", form_names[c->form], m->forms[c->form].compute);
    for (int i = 0; i < 8; i++) mpc_str_printf(out, "%016" PRIx64, c->algo.data[i]);
}

static bool parse_choice(const char *text, candidate *c, int *compute) {
    char form[8], words[8 * 16 + 1], rest;
    if (sscanf(text, "%7s %d %128[0-9a-f]%c", form, compute, words, &rest) != 3 || strlen(words) != 8 * 16)
        return false;
    for (c->form = 0; c->form < FORMS; c->form++)
        if (strcmp(form, form_names[c->form]) == 0) break;
    for (int i = 0; i < 8; i++) {
        char word[17] = {0};
        memcpy(word, words + 16 * i, 16);
        c->algo.data[i] = strtoull(word, NULL, 16);
    }
    return c->form < FORMS;
}

/* Only what could have been chosen here: f32 operands never get a compute type that rounds them. */
static bool may_compute_in(const matmul_form *form, int compute) {
    int own = mpc_lt_compute_of(&form->product);
    return compute == own || (own == MPC_LT_COMPUTE_32F_PEDANTIC && compute == MPC_LT_COMPUTE_32F);
}

static bool use_stored(mpc_cuda_matmul *m, const char *text, const mpc_cuda_matmul_buffers *b) {
    candidate c = {0};
    int compute;
    if (!parse_choice(text, &c, &compute)) return false;
    matmul_form *form = &m->forms[c.form];
    if (!form->exists || !may_compute_in(form, compute)) return false;
    if (form->compute != compute) open_form(m, form, compute);
    if (form->product.desc == NULL || set_bias(m, form, b) != 0) return false;
    if (!mpc_lt_check(m->cuda, &form->product, b->workspace_bytes, &c.algo)) return false;
    m->candidates[0] = c;
    m->candidate_count = 1;
    return true;
}

static mpc_status keep_choice(mpc_cuda_matmul *m, const char *key) {
    if (m->choices == NULL) return MPC_OK;
    mpc_str value = {0};
    print_choice(m, &value);
    bool kept = !value.failed && mpc_choices_set(m->choices, key, mpc_str_cstr(&value));
    mpc_str_free(&value);
    return kept ? MPC_OK : mpc_error(m->sink, "E901", "out of memory for the choice of a matmul");
}

static mpc_status choose(timing *t, const char *key) {
    mpc_cuda_matmul *m = t->m;
    const char *stored = m->choices != NULL ? mpc_choices_get(m->choices, key) : NULL;
    m->candidate_count = 0;
    if (stored != NULL) {
        if (use_stored(m, stored, t->buffers)) return MPC_OK;
        return mpc_error(m->sink, "E631", "%s: the library doesn't take the stored choice `%s` for `%s`",
                         m->launch->name, stored, key);
    }
    for (int i = 0; i < FORMS; i++) add_candidates(m, i, t->buffers);
    if (m->candidate_count == 0) return refuse(m, "it has no algorithm for this");
    mpc_status status = m->candidate_count > 1 ? choose_fastest(t) : MPC_OK;
    return status == MPC_OK ? keep_choice(m, key) : status;
}

mpc_status mpc_cuda_matmul_tune(mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b, int (*run_epilogue)(void *user),
                                void *user) {
    if (m->empty) return MPC_OK;
    timing t = {.m = m, .buffers = b, .run_epilogue = run_epilogue, .user = user};
    mpc_str key = {0};
    print_key(m, b, &key);
    mpc_status status =
        key.failed ? mpc_error(m->sink, "E901", "out of memory for a matmul") : choose(&t, mpc_str_cstr(&key));
    mpc_str_free(&key);
    if (status != MPC_OK) return status;
    int form = m->candidates[0].form;
    mpc_lt_operands o = operands_of(m, form, b);
    m->alignment = mpc_lt_alignment_of(&m->forms[form].product, &o);
    return MPC_OK;
}
