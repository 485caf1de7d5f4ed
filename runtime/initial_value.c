/* Initial values: a function of seed, path and element, in double, rounded once to the state's format. What else the
 * model holds never changes them. */
#include "runtime/initial_value.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "runtime/store_layout.h"

enum { MAX_DRAWS = 64 }; /* all beyond two deviations: once in 10^85 */

typedef struct source {
    const mpc_store_entry *e;
    uint64_t seed, stream;
} source;

static double normal(const source *s, uint32_t draw, int64_t i) {
    return (double)mpc_random_normal(s->seed, s->stream, draw, (uint64_t)i);
}

static double value_normal(const source *s, int64_t i) { return s->e->a + s->e->b * normal(s, 0, i); }

static double value_uniform(const source *s, int64_t i) {
    return s->e->a + (s->e->b - s->e->a) * (double)mpc_random_uniform(s->seed, s->stream, 0, (uint64_t)i);
}

/* Drawn again until it lies within two deviations. */
static double value_truncated(const source *s, int64_t i) {
    double z = 3;
    for (uint32_t draw = 0; draw < MAX_DRAWS && fabs(z) > 2; draw++) z = normal(s, draw, i);
    return s->e->a + s->e->b * (fabs(z) > 2 ? 0 : z);
}

static double value_constant(const source *s, int64_t i) {
    (void)i;
    return s->e->a;
}

static double value_one(const source *s, int64_t i) {
    (void)s, (void)i;
    return 1;
}

static const struct {
    const char *init;
    double (*value)(const source *s, int64_t i); /* NULL: zero, or a rule for the whole tensor */
} rows[] = {{"", NULL},
            {"zeros", NULL},
            {"ones", value_one},
            {"constant", value_constant},
            {"normal", value_normal},
            {"truncated_normal", value_truncated},
            {"uniform", value_uniform},
            {"orthogonal", NULL},
            {"file", NULL},
            {"copy", NULL}};
enum { ROWS = sizeof rows / sizeof *rows };

bool mpc_is_known_init(const char *init) {
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(init, rows[i].init) == 0) return true;
    return false;
}

/* ---- orthogonal ---- */

/* Takes what `q` has in common with the vectors before it, twice, since once leaves the rounding of large parts. */
static void make_orthonormal(double *vectors, int64_t index, int64_t length) {
    double *v = vectors + index * length, size = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t k = 0; k < index; k++) {
            const double *u = vectors + k * length;
            double common = 0;
            for (int64_t i = 0; i < length; i++) common += u[i] * v[i];
            for (int64_t i = 0; i < length; i++) v[i] -= common * u[i];
        }
    for (int64_t i = 0; i < length; i++) size += v[i] * v[i];
    size = sqrt(size);
    for (int64_t i = 0; i < length && size > 0; i++) v[i] /= size;
}

/* As a matrix of the last axis and all others: rows or columns, whichever are fewer, are orthonormal, times the gain.
 */
static bool init_orthogonal(const source *s) {
    const mpc_type *t = &s->e->type;
    int64_t n = mpc_type_elements(t), columns = t->rank ? t->dims[t->rank - 1] : 1, lines = n / columns;
    int64_t count = lines < columns ? lines : columns, length = n / count;
    double *vectors = mpc_alloc((size_t)n * sizeof *vectors);
    if (!vectors) return false;
    for (int64_t i = 0; i < n; i++) vectors[i] = normal(s, 0, i);
    for (int64_t k = 0; k < count; k++) make_orthonormal(vectors, k, length);
    for (int64_t r = 0; r < lines; r++)
        for (int64_t c = 0; c < columns; c++) {
            double v = count == columns ? vectors[c * length + r] : vectors[r * length + c];
            mpc_element_set(t->format, s->e->data, r * columns + c, s->e->a * v);
        }
    mpc_free(vectors);
    return true;
}

bool mpc_init_state(const mpc_store_entry *e, uint64_t seed) {
    source s = {.e = e, .seed = seed, .stream = mpc_hash_str(e->name)};
    if (strcmp(e->name, "rng.seed") == 0 && e->bytes == sizeof seed) {
        memcpy(e->data, &seed, sizeof seed);
        return true;
    }
    if (strcmp(e->init, "orthogonal") == 0) return init_orthogonal(&s);
    memset(e->data, 0, (size_t)e->bytes);
    for (size_t k = 0; k < ROWS; k++) {
        if (strcmp(e->init, rows[k].init) != 0 || rows[k].value == NULL) continue;
        int64_t n = mpc_type_elements(&e->type);
        for (int64_t i = 0; i < n; i++) mpc_element_set(e->type.format, e->data, i, rows[k].value(&s, i));
    }
    return true;
}
