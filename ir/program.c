/* A program as text for people and tests: launches with what they write, then buffers. A program is one arena;
 * destroying it frees all. */
#include "ir/program.h"

void mpc_program_destroy(mpc_program *program) {
    if (program != NULL) mpc_arena_destroy(program->arena);
}

static void print_pointer(const mpc_program *p, mpc_pointer at, mpc_str *out) {
    mpc_str_append(out, p->buffers[at.buffer].name);
    if (p->buffers[at.buffer].derived != MPC_FMT_none)
        mpc_str_printf(out, ".%s", mpc_format_get(p->buffers[at.buffer].derived)->name);
    if (at.byte_offset != 0) mpc_str_printf(out, "+%llu", (unsigned long long)at.byte_offset);
}

static void print_matmul(const mpc_program *p, const mpc_matmul *m, mpc_str *out) {
    mpc_str_append(out, " a=");
    print_pointer(p, m->a, out);
    mpc_str_append(out, " b=");
    print_pointer(p, m->b, out);
    mpc_str_printf(out, " m=%lld n=%lld k=%lld", (long long)m->m, (long long)m->n, (long long)m->k);
    long long batch = mpc_matmul_batches(m);
    if (batch != 1) mpc_str_printf(out, " batch=%lld", batch);
    mpc_str_printf(out, " %s*%s->%s", mpc_format_get(m->fa)->name, mpc_format_get(m->fb)->name,
                   mpc_format_get(m->fc)->name);
    mpc_str_printf(out, "%s%s%s%s%s", m->a_col != 1 ? " ta" : "", m->b_col != 1 ? " tb" : "",
                   m->c_col != 1 ? " tc" : "", m->has_bias ? " bias" : "", m->relu ? " relu" : "");
}

static void print_conv(const mpc_program *p, const mpc_conv *c, mpc_str *out) {
    mpc_str_append(out, " x=");
    print_pointer(p, c->x, out);
    mpc_str_append(out, " w=");
    print_pointer(p, c->w, out);
    mpc_str_printf(out, " %lldx%lldx%lldx%lld k=%lldx%lld oc=%lld %s*%s->%s", (long long)c->n, (long long)c->h,
                   (long long)c->wd, (long long)c->c, (long long)c->kh, (long long)c->kw, (long long)c->oc,
                   mpc_format_get(c->fx)->name, mpc_format_get(c->fw)->name, mpc_format_get(c->fy)->name);
}

static void print_launch(const mpc_program *p, const mpc_launch *l, mpc_str *out) {
    static const char *const kinds[] = {"kernel", "matmul", "conv", "copy"};
    mpc_str_printf(out, "%s %s", kinds[l->kind], l->op);
    for (uint32_t i = 0; i < l->result_count; i++) {
        mpc_str_append(out, i == 0 ? " -> " : ", ");
        print_pointer(p, (mpc_pointer){l->results[i], 0}, out);
    }
    if (l->kind == MPC_LAUNCH_MATMUL) print_matmul(p, &l->matmul, out);
    if (l->kind == MPC_LAUNCH_CONV) print_conv(p, &l->conv, out);
    if (l->kind == MPC_LAUNCH_KERNEL) {
        int64_t units = 0;
        for (uint32_t i = 0; i < l->instance_count; i++) units += l->instances[i].units;
        mpc_str_printf(out, " %s instances=%u units=%lld", p->kernels[l->kernel].name, l->instance_count,
                       (long long)units);
    }
    if (l->has_when) {
        mpc_str_append(out, " when ");
        print_pointer(p, l->when, out);
    }
    mpc_str_append(out, "\n");
}

static void print_buffer(const mpc_buffer *b, mpc_str *out) {
    static const char *const classes[] = {"master",  "moment", "copy",     "stat",      "accum",
                                          "control", "input",  "gradient", "activation"};
    mpc_str_printf(out, "  %s: ", b->name);
    mpc_type_print(&b->type, out);
    mpc_str_printf(out, " %s %s %llu + %llu\n", classes[b->cls], b->is_state ? "state" : "arena",
                   (unsigned long long)b->offset, (unsigned long long)b->bytes);
}

void mpc_program_print(const mpc_program *program, mpc_str *out) {
    mpc_str_printf(out, "program %s: %u launches, %u kernels, arena %llu (lower bound %llu), states %llu\n",
                   program->name, program->launch_count, program->kernel_count,
                   (unsigned long long)program->arena_bytes, (unsigned long long)program->arena_lower_bound,
                   (unsigned long long)program->state_bytes);
    for (uint32_t i = 0; i < program->launch_count; i++) print_launch(program, &program->launches[i], out);
    mpc_str_append(out, "buffers\n");
    for (uint32_t i = 0; i < program->buffer_count; i++) print_buffer(&program->buffers[i], out);
}
