/* A row per kernel of a CUDA program. Kernels are compiled as for a run, by way of the cache, which keeps what the
 * compiler told of each: a report of what was compiled before costs nothing. A kernel that every launch of some kind
 * shares is one row, so what a thread moves is the mean over its launches. */
#include "driver/compile_report.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "driver/json_values.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/nvrtc.h"

typedef struct kernel_use { /* by the launches of the program */
    const mpc_launch *first;
    uint32_t launches;
    double bytes, threads; /* bytes 0: not known */
} kernel_use;

static kernel_use use_of(const mpc_program *p, uint32_t kernel) {
    kernel_use use = {.first = NULL};
    for (uint32_t i = 0; i < p->launch_count; i++) {
        const mpc_launch *l = &p->launches[i];
        if (l->instance_count == 0 || l->kernel != kernel) continue;
        if (!use.first) use.first = l;
        use.launches++;
        if (l->kind == MPC_LAUNCH_KERNEL) use.bytes += l->bytes;
        for (uint32_t k = 0; k < l->instance_count; k++)
            use.threads += (double)l->instances[k].blocks * p->kernels[kernel].threads;
    }
    return use;
}

typedef struct report_row {
    const mpc_compiled *compiled;
    const mpc_kernel *kernel;
    kernel_use use;
    mpc_kernel_report report;
} report_row;

static json_t *known(const report_row *r, json_int_t value) {
    return r->compiled->capability ? json_integer(value) : json_null();
}

static void print_json(const report_row *r) {
    const mpc_launch *first = r->use.first;
    bool ends = first && first->kind == MPC_LAUNCH_MATMUL; /* bias, activation and rounding after the library */
    json_t *line =
        json_pack("{s:s, s:s, s:s?, s:s?, s:i, s:i, s:i}", "program", r->compiled->name, "kernel", r->kernel->name,
                  "op", first ? first->op : NULL, "value", first ? first->name : NULL, "launches", (int)r->use.launches,
                  "threads", (int)r->kernel->threads, "dynamic_shared_bytes", (int)r->kernel->shared_bytes);
    json_object_set_new(line, "epilogue", json_boolean(ends));
    json_object_set_new(line, "arch",
                        r->compiled->capability ? json_sprintf("sm_%d", r->compiled->capability) : json_null());
    json_object_set_new(line, "registers", known(r, r->report.registers));
    json_object_set_new(line, "spill_bytes", known(r, r->report.spill_bytes));
    json_object_set_new(line, "static_shared_bytes", known(r, r->report.shared_bytes));
    json_object_set_new(line, "mma", known(r, r->report.mma));
    json_object_set_new(line, "wide_accesses",
                        r->compiled->capability ? json_boolean(r->report.wide > 0) : json_null());
    json_object_set_new(line, "bytes_per_thread",
                        r->use.threads > 0 && r->use.bytes > 0 ? json_real(r->use.bytes / r->use.threads)
                                                               : json_null());
    json_object_set_new(line, "note", mpc_json_text(r->kernel->note));
    if (line) json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(line);
}

static void print_row(const report_row *r) {
    const mpc_launch *first = r->use.first;
    bool is_known = r->compiled->capability != 0;
    printf("%-18s ", r->kernel->name);
    if (is_known) printf("%5u %6u ", r->report.registers, r->report.spill_bytes);
    else printf("%5s %6s ", "-", "-");
    printf("%7u %7u ", r->kernel->shared_bytes + r->report.shared_bytes, r->kernel->threads);
    if (r->use.threads > 0 && r->use.bytes > 0) printf("%8.1f ", r->use.bytes / r->use.threads);
    else printf("%8s ", "-");
    if (is_known) printf("%-4s %4u  ", r->report.wide > 0 ? "yes" : "no", r->report.mma);
    else printf("%-4s %4s  ", "-", "-");
    printf("%s%s (%s", first && first->kind == MPC_LAUNCH_MATMUL ? "end of " : "", first && first->op ? first->op : "-",
           first && first->name ? first->name : "-");
    if (r->use.launches > 1) printf(" and %u more", r->use.launches - 1);
    printf(")%s%s\n", r->kernel->note ? "; " : "", r->kernel->note ? r->kernel->note : "");
}

static void print_head(const mpc_compiled *c) {
    printf("%s", c->name);
    if (c->capability) printf(", sm_%d", c->capability);
    printf("\n%-18s %5s %6s %7s %7s %8s %-4s %4s  %s\n", "kernel", "regs", "spill", "shared", "threads", "B/thread",
           "16B", "mma", "op (value)");
}

static void print_rows(const mpc_session *s, const mpc_compiled *c, const mpc_kernel_report *reports) {
    bool json = s->cli->options->json;
    if (!json) print_head(c);
    for (uint32_t i = 0; i < c->program->kernel_count; i++) {
        report_row row = {.compiled = c, .kernel = &c->program->kernels[i], .use = use_of(c->program, i)};
        if (reports) row.report = reports[i];
        if (json) print_json(&row);
        else print_row(&row);
    }
}

static mpc_status fill_reports(const mpc_compiled *c, mpc_cubins *cubins, mpc_kernel_report *reports) {
    mpc_status status = MPC_OK;
    for (uint32_t i = 0; i < c->program->kernel_count && status == MPC_OK; i++)
        status = mpc_cubins_add(cubins, c->program, &c->program->kernels[i]);
    if (status == MPC_OK) status = mpc_cubins_build(cubins);
    for (uint32_t i = 0; i < c->program->kernel_count && status == MPC_OK; i++)
        status = mpc_cubins_report(cubins, i, &reports[i]);
    return status;
}

/* Through the cache; `reports` has an entry for each kernel. */
static mpc_status make_reports(const mpc_session *s, const mpc_compiled *c, mpc_kernel_report *reports) {
    char reason[256];
    mpc_nvrtc_api api = {0};
    mpc_cubins_options options = {.nvrtc = &api, .capability = c->capability};
    mpc_dl *dl = mpc_nvrtc_open(&api, 0, &options.nvrtc_version, reason, sizeof reason);
    if (!dl)
        return mpc_error(s->sink, "E620",
                         "NVRTC, the compiler of CUDA kernels, wasn't found (libnvrtc.so.13 or .12): %s", reason);
    mpc_cubins *cubins = mpc_cubins_create(&options, s->sink);
    mpc_status status = cubins ? fill_reports(c, cubins, reports) : MPC_FAILED;
    mpc_cubins_destroy(cubins);
    mpc_dl_close(dl);
    return status == MPC_NO_MEMORY ? mpc_error(s->sink, "E901", "out of memory") : status;
}

bool mpc_compile_report(const mpc_session *s, const mpc_compiled *c) {
    if (!c->capability) {
        print_rows(s, c, NULL);
        return true;
    }
    mpc_kernel_report *reports = mpc_alloc((c->program->kernel_count + 1) * sizeof *reports);
    if (!reports) mpc_error(s->sink, "E901", "out of memory");
    bool ok = reports && make_reports(s, c, reports) == MPC_OK;
    if (ok) print_rows(s, c, reports);
    mpc_free(reports);
    return ok;
}
