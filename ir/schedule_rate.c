/* Schedules as functions of the updates made. Warm-up comes first and rises to the full rate; a falling schedule then
 * goes from there to its end, while `step` counts its periods from the very first update. */
#include "ir/schedule_rate.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* 1 at the end of the warm-up, 0 at the end of the training. */
static double left_linear(double done) { return 1 - done; }
static double left_cosine(double done) { return 0.5 * (1 + cos(done * 3.14159265358979323846)); }

typedef struct kind_row {
    const char *name;
    double (*left)(double done); /* NULL: it doesn't fall towards an end */
} kind_row;
static const kind_row kinds[] = {{"constant", NULL}, {"step", NULL}, {"cosine", left_cosine}, {"linear", left_linear}};

static const kind_row *find(const char *kind) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) return &kinds[i];
    return NULL;
}

bool mpc_schedule_is_known(const char *kind) { return find(kind) != NULL; }

bool mpc_schedule_needs_total(const char *kind) { return find(kind) != NULL && find(kind)->left != NULL; }

double mpc_schedule_rate(const mpc_schedule_rule *r, double applied) {
    const kind_row *kind = find(r->kind);
    double t = applied + 1;
    if (t <= r->warmup) return r->rate * t / r->warmup;
    if (strcmp(r->kind, "step") == 0 && r->every > 0) return r->rate * pow(r->factor, floor(applied / r->every));
    if (kind == NULL || kind->left == NULL) return r->rate;
    double done = r->total > r->warmup ? fmin((t - r->warmup) / (r->total - r->warmup), 1) : 1;
    return r->rate * (r->final + (1 - r->final) * kind->left(done));
}
