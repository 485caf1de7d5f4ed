/* A row per kernel of a CUDA program. Registers and spills come from the assembler; widths of accesses and tensor-core
 * instructions are read off the PTX, between a kernel's entry and the brace that ends it. A kernel that every launch of
 * some kind shares is one row, so what a thread moves is the mean over its launches. */
#include "driver/compile_report.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/cuda/nvrtc.h"

typedef struct kernel_use { /* by the launches of the program */
    const mpc_launch *first;
    uint32_t launches;
    double bytes, threads; /* bytes 0: not known */
} kernel_use;

typedef struct kernel_text { /* what its PTX says */
    bool wide;
    uint32_t mma;
} kernel_text;

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

static const char *find_within(const char *at, const char *end, const char *text) {
    const char *found = strstr(at, text);
    return found && found < end ? found : NULL;
}

static kernel_text read_ptx(const char *ptx, const char *name) {
    static const char *const wide[] = {".v4.f32", ".v4.u32", ".v4.b32", ".v2.u64", ".v2.b64", ".v2.f64", ", 16, "};
    static const char *const tensor[] = {"mma.sync", "wgmma.mma_async"};
    kernel_text text = {.wide = false};
    mpc_str entry = {0};
    mpc_str_printf(&entry, ".entry %s(", name);
    const char *begin = entry.failed ? NULL : strstr(ptx, entry.data);
    mpc_str_free(&entry);
    if (!begin) return text;
    const char *end = strstr(begin, "\n}");
    if (!end) end = begin + strlen(begin);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) text.wide = text.wide || find_within(begin, end, wide[i]);
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++)
        for (const char *at = begin; (at = find_within(at, end, tensor[i])) != NULL; at++) text.mma++;
    return text;
}

typedef struct report_row {
    const mpc_compiled *compiled;
    const mpc_kernel *kernel;
    kernel_use use;
    kernel_text text;
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
    json_object_set_new(line, "mma", known(r, r->text.mma));
    json_object_set_new(line, "wide_accesses", r->compiled->capability ? json_boolean(r->text.wide) : json_null());
    json_object_set_new(line, "bytes_per_thread",
                        r->use.threads > 0 && r->use.bytes > 0 ? json_real(r->use.bytes / r->use.threads)
                                                               : json_null());
    json_object_set_new(line, "note", r->kernel->note ? json_string(r->kernel->note) : json_null());
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
    if (is_known) printf("%-4s %4u  ", r->text.wide ? "yes" : "no", r->text.mma);
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

static bool print_rows(const mpc_session *s, const mpc_compiled *c, const char *ptx, const mpc_kernel_report *reports) {
    bool json = s->cli->options->json;
    if (!json) print_head(c);
    for (uint32_t i = 0; i < c->program->kernel_count; i++) {
        report_row row = {.compiled = c, .kernel = &c->program->kernels[i], .use = use_of(c->program, i)};
        if (reports) row.report = reports[i];
        if (ptx) row.text = read_ptx(ptx, row.kernel->name);
        if (json) print_json(&row);
        else print_row(&row);
    }
    return true;
}

bool mpc_compile_report(const mpc_session *s, const mpc_compiled *c, const char *ptx) {
    if (!c->capability) return print_rows(s, c, NULL, NULL);
    mpc_str made = {0};
    mpc_kernel_report *reports = mpc_alloc((c->program->kernel_count + 1) * sizeof *reports);
    if (!reports) mpc_error(s->sink, "E901", "out of memory");
    bool ok = reports && mpc_nvrtc_report(c->program, c->capability, reports, s->sink) == MPC_OK;
    if (ok && !ptx) ok = mpc_nvrtc_assemble(c->program, c->capability, MPC_NVRTC_PTX, &made, s->sink) == MPC_OK;
    if (ok) ok = print_rows(s, c, ptx ? ptx : mpc_str_cstr(&made), reports);
    mpc_str_free(&made);
    mpc_free(reports);
    return ok;
}
