/* What the compiler made of kernels, read off its words. The assembler's report stands in the log, kernel by kernel;
 * the PTX of a kernel runs from its entry to the brace in the first column. Accesses of arguments and of memory known
 * to be shared or local don't count as wide, whatever their width: they say nothing of how tensors are laid out. */
#include "runtime/cuda/kernel_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_HEAD "\nmpc kernel "
enum { TAIL_BYTES = 16384 }; /* lines of a batch's kernels fit, and the trailer of the file */

static bool line_has(const char *line, size_t length, const char *text) {
    return memmem(line, length, text, strlen(text)) != NULL;
}

/* 16 bytes or more between global memory and a thread, or shared memory. Where an address comes from a table, the
 * compiler doesn't know what memory it is in. */
static bool is_wide(const char *line, size_t length) {
    static const char *const others[] = {".param", ".shared", ".local", ".const"};
    static const char *const forms[] = {".v4.f32", ".v4.u32", ".v4.s32", ".v4.b32", ".v2.f64", ".v2.u64",
                                        ".v2.s64", ".v2.b64", ".v4.b64", ".v8.",    ".b128"};
    if (line_has(line, length, "cp.async")) return line_has(line, length, ", 16");
    if (!line_has(line, length, "ld.") && !line_has(line, length, "st.")) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (line_has(line, length, others[i])) return false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (line_has(line, length, forms[i])) return true;
    return false;
}

static void read_ptx(const char *name, const char *ptx, mpc_kernel_report *r) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *line = strstr(ptx, entry);
    while (line && *line && *line != '}') {
        size_t length = strcspn(line, "\n");
        r->wide += is_wide(line, length);
        r->mma += line_has(line, length, "mma.sync") || line_has(line, length, "wgmma.mma_async");
        line += length + (line[length] == '\n');
    }
}

/* The number that stands before `words` in the line; 0: none. */
static uint32_t number_before(const char *line, size_t length, const char *words) {
    const char *end = memmem(line, length, words, strlen(words)), *begin = end;
    while (begin && begin > line && begin[-1] >= '0' && begin[-1] <= '9') begin--;
    return begin && begin < end ? (uint32_t)strtoul(begin, NULL, 10) : 0;
}

static void read_log_line(const char *line, size_t length, mpc_kernel_report *r) {
    if (line_has(line, length, " bytes stack frame")) {
        r->stack_bytes = number_before(line, length, " bytes stack frame");
        r->spill_bytes =
            number_before(line, length, " bytes spill stores") + number_before(line, length, " bytes spill loads");
    }
    if (!line_has(line, length, "Used ")) return;
    r->registers = number_before(line, length, " registers");
    r->shared_bytes = number_before(line, length, " bytes smem");
    r->constant_bytes = number_before(line, length, " bytes cmem");
}

static void read_log(const char *name, const char *log, mpc_kernel_report *r) {
    char entry[128];
    snprintf(entry, sizeof entry, "entry function '%s'", name);
    const char *line = strstr(log, entry);
    if (line) line += strcspn(line, "\n");
    while (line && *line) {
        line += *line == '\n';
        size_t length = strcspn(line, "\n");
        if (line_has(line, length, "entry function '")) return; /* the next kernel's */
        read_log_line(line, length, r);
        line += length;
    }
}

mpc_kernel_report mpc_kernel_report_read(const char *name, const char *ptx, const char *log) {
    mpc_kernel_report r = {0};
    read_ptx(name, ptx, &r);
    read_log(name, log, &r);
    return r;
}

void mpc_kernel_report_print(const char *name, const mpc_kernel_report *r, mpc_str *out) {
    mpc_str_printf(out, LINE_HEAD "%s %u %u %u %u %u %u %u\n", name, r->registers, r->stack_bytes, r->spill_bytes,
                   r->shared_bytes, r->constant_bytes, r->mma, r->wide);
}

mpc_kernel_report mpc_kernel_report_find(const char *name, const char *content, uint64_t bytes) {
    mpc_kernel_report r = {0};
    char head[128];
    int length = snprintf(head, sizeof head, LINE_HEAD "%s ", name);
    uint64_t tail = bytes < TAIL_BYTES ? bytes : TAIL_BYTES;
    const char *line = memmem(content + (bytes - tail), (size_t)tail, head, (size_t)length);
    if (line &&
        sscanf(line + length, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
               &r.registers, &r.stack_bytes, &r.spill_bytes, &r.shared_bytes, &r.constant_bytes, &r.mma, &r.wide) != 7)
        memset(&r, 0, sizeof r);
    return r;
}
