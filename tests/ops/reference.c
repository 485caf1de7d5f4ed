/* docs/ops.md is what the op registry says. `test_ops_reference --print > docs/ops.md` writes it, without arguments the
 * test compares. */
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "ir/op.h"

typedef struct section {
    mpc_op_kind kind;
    const char *title, *text;
} section;

static const section sections[] = {
    {MPC_KIND_STRUCT, "Structure", "Values that no operand determines."},
    {MPC_KIND_EWISE, "Elementwise",
     "Operands broadcast as in numpy; an element of the result depends on the matching elements only."},
    {MPC_KIND_REDUCE, "Reductions", "Accumulate in f32 whatever the storage."},
    {MPC_KIND_VIEW, "Views", "Move elements and change none."},
    {MPC_KIND_MATMUL, "Matrix products", "Exact products, f32 accumulation, one rounding."},
    {MPC_KIND_CONV, "Convolutions", "Images are [n,h,w,c], weights [kh,kw,c/groups,out]."},
    {MPC_KIND_POOL, "Pools", "Over images [n,h,w,c]."},
    {MPC_KIND_GATHER, "Look-ups", "By integer index."},
    {MPC_KIND_RANDOM, "Random numbers", "Counter-based: the same on every device."},
    {MPC_KIND_NORM, "Norms", "Over a list of tensors."},
    {MPC_KIND_COMPOSITE, "Composites",
     "Keep their name through gradients and precision assignment, then expand into the ops above."},
};

static const char *class_text(mpc_class cls) {
    switch (cls) {
    case MPC_CLASS_LOW:
        return "LOW: gains from 16-bit operands";
    case MPC_CLASS_HIGH:
        return "HIGH: f32 inside";
    case MPC_CLASS_FOLLOW:
        return "FOLLOW: as its neighbours";
    case MPC_CLASS_CLEAR:
        return "CLEAR: never a reason for a cast";
    default:
        return "no class: never assigned a format";
    }
}

static void print_operands(const mpc_op *op, mpc_str *out) {
    if (op->max_operands == UINT32_MAX) mpc_str_printf(out, "%u or more operands", op->min_operands);
    else if (op->max_operands != op->min_operands)
        mpc_str_printf(out, "%u to %u operands", op->min_operands, op->max_operands);
    else if (op->max_operands == 0) mpc_str_append(out, "no operands");
    else mpc_str_printf(out, "%u operand%s", op->max_operands, op->max_operands > 1 ? "s" : "");
    mpc_str_printf(out, ", %u result%s", op->result_count, op->result_count > 1 ? "s" : "");
}

static void print_ints(mpc_int_list list, mpc_str *out) {
    for (uint32_t i = 0; i < list.count; i++) mpc_str_printf(out, i > 0 ? ",%lld" : "[%lld", (long long)list.data[i]);
    mpc_str_append(out, list.count > 0 ? "]" : "[]");
}

static void print_default(const mpc_context *ctx, const mpc_attr_spec *spec, mpc_str *out) {
    const mpc_attr *a = &spec->fallback;
    switch (spec->kind) {
    case MPC_ATTR_INT:
        mpc_str_printf(out, "%lld", (long long)a->i);
        return;
    case MPC_ATTR_FLOAT:
        mpc_str_printf(out, "%.9g", a->f);
        return;
    case MPC_ATTR_BOOL:
        mpc_str_append(out, a->b ? "true" : "false");
        return;
    case MPC_ATTR_STR:
        mpc_str_printf(out, "\"%s\"", mpc_sym_text(ctx, a->s));
        return;
    case MPC_ATTR_FORMAT:
        mpc_str_append(out, a->format == MPC_FMT_none ? "none" : mpc_format_get(a->format)->name);
        return;
    case MPC_ATTR_INTS:
        print_ints(a->ints, out);
        return;
    }
}

static void print_attrs(const mpc_context *ctx, const mpc_op *op, mpc_str *out) {
    static const char *const kinds[] = {"int", "float", "bool", "str", "format", "ints"};
    if (op->attr_count == 0) return;
    mpc_str_append(out, "Attributes: ");
    for (uint32_t i = 0; i < op->attr_count; i++) {
        const mpc_attr_spec *spec = &op->attrs[i];
        mpc_str_printf(out, "%s`%s: %s", i > 0 ? ", " : "", mpc_sym_text(ctx, spec->key), kinds[spec->kind]);
        if (!spec->required) {
            mpc_str_append(out, " = ");
            print_default(ctx, spec, out);
        }
        mpc_str_append(out, "`");
    }
    mpc_str_append(out, ".\n\n");
}

static void print_op(const mpc_context *ctx, const mpc_op *op, mpc_str *out) {
    size_t length = strlen(op->doc);
    bool ended = length > 0 && op->doc[length - 1] == '.';
    mpc_str_printf(out, "### %s\n\n%s%s\n\n", op->name, op->doc, ended ? "" : ".");
    print_operands(op, out);
    mpc_str_printf(out, "; %s", class_text(op->cls));
    if (op->flags & MPC_OPF_EXACT) mpc_str_append(out, "; exactly rounded, equal to the bit on every device");
    if (op->flags & MPC_OPF_COMMUTES) mpc_str_append(out, "; commutative");
    if (op->flags & MPC_OPF_RANDOM) mpc_str_append(out, "; random, never merged");
    if (op->flags & MPC_OPF_NO_GRAD) mpc_str_append(out, "; no gradient");
    if (op->flags & MPC_OPF_KEEPS_FORMAT) mpc_str_append(out, "; in its operand's format");
    mpc_str_append(out, ".\n\n");
    print_attrs(ctx, op, out);
}

static void print_reference(const mpc_context *ctx, mpc_str *out) {
    mpc_str_append(
        out,
        "# Ops\n\nGenerated from the op table (`ir/ops.def`); `tests/ops/reference.c` writes and checks this page.\n"
        "Every op computes in f32 on its operands as stored and rounds each result once, to nearest even.\n\n");
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
        mpc_str_printf(out, "## %s\n\n%s\n\n", sections[s].title, sections[s].text);
        for (mpc_op_id id = 0; id < mpc_op_count(ctx); id++)
            if (mpc_op_get(ctx, id)->kind == sections[s].kind) print_op(ctx, mpc_op_get(ctx, id), out);
    }
    while (out->length > 1 && out->data[out->length - 2] == '\n') out->data[--out->length] = 0;
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = f != NULL ? calloc(1, 1 << 20) : NULL;
    if (text != NULL) (void)!fread(text, 1, (1 << 20) - 1, f);
    if (f != NULL) fclose(f);
    return text;
}

int main(int argc, char **argv) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    mpc_str out = {0};
    if (ctx == NULL) return 1;
    print_reference(ctx, &out);
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        bool written = fwrite(out.data, 1, out.length, stdout) == out.length && fflush(stdout) == 0;
        mpc_str_free(&out);
        mpc_context_destroy(ctx);
        return written ? 0 : 1;
    }
    for (mpc_op_id id = 0; id < mpc_op_count(ctx); id++) {
        char heading[64];
        snprintf(heading, sizeof heading, "### %s\n", mpc_op_get(ctx, id)->name);
        CHECK_MSG(strstr(mpc_str_cstr(&out), heading) != NULL, "%s is in no section", mpc_op_get(ctx, id)->name);
    }
    char *page = read_file("docs/ops.md");
    CHECK_MSG(page != NULL && strcmp(page, mpc_str_cstr(&out)) == 0, "docs/ops.md is not what the op table says: "
                                                                     "build/dev/tests/ops/test_ops_reference --print > "
                                                                     "docs/ops.md");
    free(page);
    mpc_str_free(&out);
    mpc_context_destroy(ctx);
    return check_result();
}
