/* Text of one elementwise member. The op's row gives the expression; here its operands get names and conversions
 * between lane classes, and the result is rounded to its format at once, so that what the next member reads is what
 * memory would hold. */
#include <ctype.h>
#include <string.h>

#include "codegen/loop.h"

static bool is_copy(const mpc_op *op) { return op->kernel != NULL && strcmp(op->kernel, "$0") == 0; }

/* A member's own format; an access has the format of its storage, which a reshape can't change. */
static char lanes_of(const mpc_ref *ref) { return mpc_cg_lanes(ref->format); }

/* The class in which the expression works: of the result, or for comparisons the wider of the operands'. */
static char working_lanes(const mpc_loop_member *m) {
    char result = mpc_cg_lanes(m->format);
    if (is_copy(m->op)) return lanes_of(&m->ref[0]);
    if (result != 'b' || m->node->op == MPC_OP_where) return result;
    char lanes = lanes_of(&m->ref[0]);
    for (uint32_t j = 1; j < m->node->operand_count; j++) {
        char other = lanes_of(&m->ref[j]);
        if (other == 'f' || (other == 'l' && lanes != 'f') || (other == 'i' && lanes == 'b')) lanes = other;
    }
    return lanes;
}

static const char ref_letter[] = {'v', 'a', 'k'};

static void print_operand(const mpc_ref *ref, char lanes, mpc_str *out) {
    char from = lanes_of(ref);
    if (from == lanes) mpc_str_printf(out, "%c%u", ref_letter[ref->kind], ref->index);
    else mpc_str_printf(out, "mpc_%c_from_%c(%c%u)", lanes, from, ref_letter[ref->kind], ref->index);
}

static bool is_condition(const mpc_loop_member *m, uint32_t operand) {
    return m->node->op == MPC_OP_where && operand == 0;
}

static void print_kernel(const mpc_loop_member *m, const char *kernel, char lanes, mpc_str *out) {
    for (const char *c = kernel; *c != '\0'; c++) {
        if (*c == '$' && isdigit((unsigned char)c[1])) {
            uint32_t i = (uint32_t)(*++c - '0');
            print_operand(&m->ref[i], is_condition(m, i) ? 'b' : lanes, out);
        } else {
            mpc_str_append_n(out, c, 1);
        }
    }
}

/* Comparisons of i64 give masks of i64. Division by an unused lane's zero must not trap. */
static void print_raw(const mpc_loop_member *m, char lanes, mpc_str *out) {
    bool compares =
        mpc_cg_lanes(m->format) == 'b' && lanes == 'l' && strstr(m->op->kernel, "mpc_") == NULL && !is_copy(m->op);
    bool divides = strcmp(m->op->kernel, "$0 / $1") == 0 && lanes != 'f';
    if (compares) mpc_str_append(out, "mpc_mask_l(");
    print_kernel(m, divides ? "mpc_div($0, $1)" : m->op->kernel, lanes, out);
    if (compares) mpc_str_append(out, ")");
}

/* A name, in the result's lanes: views, reductions over nothing, selects whose condition the launch has checked. */
static void print_name(const mpc_loop_member *m, const mpc_ref *ref, mpc_str *out) {
    bool rounds = mpc_cg_rounds(m->format) && m->format != ref->format;
    if (rounds) mpc_str_printf(out, "mpc_round_%s(", mpc_format_get(m->format)->name);
    print_operand(ref, mpc_cg_lanes(m->format), out);
    if (rounds) mpc_str_append(out, ")");
}

static void print_value(const mpc_loop_member *m, mpc_str *out) {
    char lanes = working_lanes(m), result = mpc_cg_lanes(m->format);
    bool made_bool = result == 'b' && !is_copy(m->op) && m->node->op != MPC_OP_where;
    bool converts = !made_bool && lanes != result;
    bool rounds = mpc_cg_rounds(m->format) && !(is_copy(m->op) && m->format == m->ref[0].format);
    if (rounds) mpc_str_printf(out, "mpc_round_%s(", mpc_format_get(m->format)->name);
    if (converts) mpc_str_printf(out, "mpc_%c_from_%c(", result, lanes);
    print_raw(m, lanes, out);
    if (converts) mpc_str_append(out, ")");
    if (rounds) mpc_str_append(out, ")");
}

void mpc_loop_expression(const mpc_loop_member *m, mpc_str *out) {
    if (m->dropped) print_name(m, &m->ref[1], out);
    else if (m->op->kind != MPC_KIND_EWISE) print_name(m, &m->ref[0], out);
    else print_value(m, out);
}
