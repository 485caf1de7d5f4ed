/* Arithmetic on constants. Integers are exact: what doesn't fit in 64 bits or doesn't divide is an error, never a
 * rounded value. */
#include <math.h>
#include <string.h>

#include "frontend/fe_elab.h"

/* "c = 100, from `const width = 100` (gpt.mpg:2)": where an integer of a failed division comes from. */
static const char *describe_number(fe_elab *e, const fe_ast *at, int64_t value) {
    if (at->kind != AST_NAME)
        return at->kind == AST_INT ? "" : fe_format(e, "%s = %lld", fe_source_text(e->m, at->span), (long long)value);
    const fe_const *found = fe_find_const(e->m, at);
    if (found)
        return fe_format(e, "%s = %lld (%s)", at->text, (long long)value, fe_place_text(e->d, found->item->span));
    uint32_t hits = 0;
    for (size_t i = 0; i < e->m->consts.count; i++) {
        const fe_const *c = &e->m->consts.data[i];
        if (c->expr->kind != AST_INT || c->expr->integer != value || c->item->span.file != at->span.file) continue;
        found = c;
        hits++;
    }
    if (hits != 1) return fe_format(e, "%s = %lld", at->text, (long long)value);
    return fe_format(e, "%s = %lld, from `const %s = %lld` (%s)", at->text, (long long)value, found->item->text,
                     (long long)value, fe_place_text(e->d, found->item->span));
}

static fe_value divide(fe_elab *e, const fe_ast *at, int64_t a, int64_t b) {
    if (b == 0) {
        fe_error(e->d, "E022", at->span, "division by zero");
        return FE_POISONED;
    }
    if (b != -1 && a % b == 0) return fe_int(a / b);
    if (b == -1 && a != INT64_MIN) return fe_int(-a);
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E022", at->kid[0] ? at->kid[0]->span : at->span,
                           "%lld can't be divided by %lld here", (long long)a, (long long)b);
    const char *left = at->kid[0] ? describe_number(e, at->kid[0], a) : "",
               *right = at->kid[1] ? describe_number(e, at->kid[1], b) : "";
    fe_label(&r, "%s%s%s", left, *left && *right ? ";  " : "", right);
    const char *noun = strstr(left, "width") ? "widths" : "numbers";
    int64_t below = b > 0 && a > 0 ? a - a % b : 0;
    if (below > 0 && below <= INT64_MAX - b)
        fe_help(&r, "%lld and %lld are the nearest %s that %lld divides", (long long)below, (long long)(below + b),
                noun, (long long)b);
    else fe_help(&r, "write one of them as a float for a quotient with a fraction, or int() to cut it off");
    fe_send(&r);
    return FE_POISONED;
}

static fe_value too_large(fe_elab *e, const fe_ast *at) {
    fe_error(e->d, "E017", at->span, "the result doesn't fit in a 64-bit integer");
    return FE_POISONED;
}

static fe_value power(fe_elab *e, const fe_ast *at, int64_t a, int64_t b) {
    if (b < 0) return fe_float(pow((double)a, (double)b));
    int64_t result = 1;
    for (int64_t i = 0; i < b && result != 0; i++) {
        if (__builtin_mul_overflow(result, a, &result)) return too_large(e, at);
        if (a == 1 || a == -1) return fe_int(a == 1 || b % 2 == 0 ? 1 : -1);
    }
    return fe_int(result);
}

static fe_value fold_ints(fe_elab *e, const fe_ast *at, const char *op, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = false;
    switch (*op) {
    case '+':
        over = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        if (op[1]) return power(e, at, a, b);
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case '/':
        return divide(e, at, a, b);
    default: /* % : the sign of the divisor, as in Python */
        if (b == 0) return divide(e, at, a, b);
        r = b == -1 ? 0 : a % b;
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        break;
    }
    return over ? too_large(e, at) : fe_int(r);
}

static fe_value fold_floats(const char *op, double a, double b) {
    switch (*op) {
    case '+':
        return fe_float(a + b);
    case '-':
        return fe_float(a - b);
    case '*':
        return fe_float(op[1] ? pow(a, b) : a * b);
    case '/':
        return fe_float(a / b);
    default:
        return fe_float(a - b * floor(a / b));
    }
}

static fe_value compare(const char *op, int order) { /* order: -1, 0, 1; 2: unordered */
    if (strcmp(op, "==") == 0) return fe_bool(order == 0);
    if (strcmp(op, "!=") == 0) return fe_bool(order != 0);
    if (order == 2) return fe_bool(false);
    if (strcmp(op, "<") == 0) return fe_bool(order < 0);
    if (strcmp(op, ">") == 0) return fe_bool(order > 0);
    if (strcmp(op, "<=") == 0) return fe_bool(order <= 0);
    return fe_bool(order >= 0);
}

static int order_of(fe_value a, fe_value b) {
    if (a.kind == FE_STRING) {
        int c = strcmp(a.s, b.s);
        return c < 0 ? -1 : c > 0;
    }
    if (a.kind != FE_FLOAT && b.kind != FE_FLOAT) return a.i < b.i ? -1 : a.i > b.i;
    double x = fe_number(a), y = fe_number(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static fe_value refuse(fe_elab *e, const fe_ast *at, fe_value a, fe_value b) {
    fe_error(e->d, "E014", at->span, "`%s` has no meaning for %s and %s", at->text, fe_kind_name(a.kind),
             fe_kind_name(b.kind));
    return FE_POISONED;
}

static fe_value join_lists(fe_elab *e, const fe_ast *at, fe_value a, fe_value b) {
    if ((uint64_t)a.count + b.count > FE_MAX_FOLD_LIST) {
        fe_error(e->d, "E017", at->span, "this list has more than %d elements", FE_MAX_FOLD_LIST);
        return FE_POISONED;
    }
    fe_value v = fe_list_value(e, FE_LIST, a.count + b.count);
    if (v.kind == FE_POISON) return v;
    if (a.count) memcpy(v.items, a.items, a.count * sizeof *v.items);
    if (b.count) memcpy(v.items + a.count, b.items, b.count * sizeof *v.items);
    return v;
}

fe_value fe_fold_binary(fe_elab *e, const fe_ast *at, fe_value a, fe_value b) {
    const char *op = at->text;
    bool logic = strcmp(op, "and") == 0 || strcmp(op, "or") == 0;
    bool relation = *op == '=' || *op == '!' || *op == '<' || *op == '>';
    if (logic) {
        if (a.kind != FE_BOOL || b.kind != FE_BOOL) return refuse(e, at, a, b);
        return fe_bool(*op == 'a' ? a.i && b.i : a.i || b.i);
    }
    if (a.kind == FE_LIST && b.kind == FE_LIST && *op == '+') return join_lists(e, at, a, b);
    bool numbers = fe_is_number(a) && fe_is_number(b);
    if (relation && (numbers || (a.kind == b.kind && (a.kind == FE_STRING || a.kind == FE_BOOL))))
        return compare(op, order_of(a, b));
    if (!numbers) return refuse(e, at, a, b);
    if (a.kind == FE_INT && b.kind == FE_INT) return fold_ints(e, at, op, a.i, b.i);
    return fold_floats(op, fe_number(a), fe_number(b));
}

fe_value fe_fold_unary(fe_elab *e, const fe_ast *at, fe_value a) {
    bool negate = *at->text == '-';
    if (!negate && a.kind == FE_BOOL) return fe_bool(!a.i);
    if (negate && a.kind == FE_INT) return a.i == INT64_MIN ? too_large(e, at) : fe_int(-a.i);
    if (negate && a.kind == FE_FLOAT) return fe_float(-a.f);
    fe_error(e->d, "E014", at->span, "`%s` has no meaning for %s", at->text, fe_kind_name(a.kind));
    return FE_POISONED;
}
