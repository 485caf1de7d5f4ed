/* The bar is drawn at most ten times a second; between drawings an update costs two additions. Without a terminal a
 * plain line comes when nothing was said for some seconds. */
#include "driver/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, QUIET = 8 }; /* QUIET: seconds without a line where there is no terminal */

double mpc_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void mpc_progress_start(mpc_progress *p, double total, uint64_t first_step) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    *p = (mpc_progress){.total = total, .first_step = first_step, .started = mpc_now()};
    p->last = p->started;
    p->terminal = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    p->color = p->terminal && !(no_color && *no_color);
}

static void clear_bar(mpc_progress *p) {
    if (p->shown) fputs("\r\033[K", stderr);
    p->shown = false;
}

static void draw(mpc_progress *p, const mpc_progress_step *s, double now) {
    double elapsed = now - p->started, done = (double)(s->step - p->first_step);
    char bar[3 * BAR + 1] = "", eta[32] = "";
    if (p->total > 0) {
        int full = (int)(BAR * fmin((double)s->step / p->total, 1));
        for (int i = 0; i < BAR; i++) strcat(bar, i < full ? "━" : "╌");
        double left = done > 0 ? elapsed / done * (p->total - (double)s->step) : 0;
        snprintf(eta, sizeof eta, "  ETA %d:%02d", (int)left / 60, (int)left % 60);
    }
    fprintf(stderr, "\r\033[K%s%s%s step %llu", p->color ? "\033[36m" : "", bar, p->color ? "\033[0m" : "",
            (unsigned long long)s->step);
    if (p->total > 0) fprintf(stderr, "/%.0f", p->total);
    fprintf(stderr, "  %.0f rows/s%s  loss %.4f", elapsed > 0 ? p->rows / elapsed : 0, eta, p->smooth);
    if (s->has_scale) fprintf(stderr, "  scale %.0f, %.0f skipped", s->scale, s->skipped);
    fflush(stderr);
    p->shown = true;
}

static void print_plain(const mpc_progress *p, const mpc_progress_step *s, double now) {
    double elapsed = now - p->started;
    fprintf(stderr, "step %llu", (unsigned long long)s->step);
    if (p->total > 0) fprintf(stderr, "/%.0f", p->total);
    fprintf(stderr, "  %.0f rows/s", elapsed > 0 ? p->rows / elapsed : 0);
    if (p->has_smooth) fprintf(stderr, "  loss %.4f", p->smooth);
    if (s->has_scale) fprintf(stderr, "  scale %.0f, %.0f skipped", s->scale, s->skipped);
    fputc('\n', stderr);
    fflush(stderr);
}

void mpc_progress_update(mpc_progress *p, const mpc_progress_step *s, double now) {
    p->rows += s->rows;
    if (isfinite(s->loss)) {
        p->smooth = p->has_smooth ? 0.95 * p->smooth + 0.05 * s->loss : s->loss;
        p->has_smooth = true;
    }
    if (now - p->last < (p->terminal ? 0.1 : QUIET)) return;
    p->last = now;
    if (p->terminal) draw(p, s, now);
    else print_plain(p, s, now);
}

void mpc_progress_line(mpc_progress *p, const char *format, ...) {
    clear_bar(p);
    if (!p->terminal) p->last = mpc_now();
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
}

void mpc_progress_end(mpc_progress *p) {
    clear_bar(p);
    fflush(stderr);
}
