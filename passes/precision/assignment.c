/* The precision assignment as a table by value name, and its text: one line per node, fields separated by tabs, in the
 * order of the nominal graph. Names are stable between elaborations of one model; an entry is used only where the op of
 * that name is the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "passes/precision/precision.h"

static const char header[] = "mpc assignment 1";

struct mpc_assignment {
    mpc_arena *arena; /* owns the strings */
    mpc_map *index;   /* value name -> line */
    MPC_ARRAY(mpc_assigned) lines;
};

mpc_assignment *mpc_assignment_create(void) {
    mpc_assignment *a = mpc_alloc(sizeof *a);
    if (a == NULL) return NULL;
    *a = (mpc_assignment){.arena = mpc_arena_create(), .index = mpc_map_create()};
    if (a->arena != NULL && a->index != NULL) return a;
    mpc_assignment_destroy(a);
    return NULL;
}

void mpc_assignment_destroy(mpc_assignment *a) {
    if (a == NULL) return;
    mpc_arena_destroy(a->arena);
    mpc_map_destroy(a->index);
    mpc_array_free(&a->lines);
    mpc_free(a);
}

size_t mpc_assignment_count(const mpc_assignment *a) { return a->lines.count; }

const mpc_assigned *mpc_assignment_find(const mpc_assignment *a, const char *value) {
    uint32_t line;
    return mpc_map_get(a->index, value, &line) ? &a->lines.data[line] : NULL;
}

bool mpc_assignment_add(mpc_assignment *a, const mpc_assigned *line) {
    mpc_assigned copy = {.value = mpc_arena_strdup(a->arena, line->value),
                         .op = mpc_arena_strdup(a->arena, line->op),
                         .why = mpc_arena_strdup(a->arena, line->why),
                         .decision = line->decision};
    if (copy.value == NULL || copy.op == NULL || copy.why == NULL || !mpc_array_push(&a->lines, copy)) return false;
    if (mpc_map_set(a->index, copy.value, (uint32_t)a->lines.count - 1)) return true;
    a->lines.count--;
    return false;
}

static void print_format(mpc_format f, mpc_str *out) {
    mpc_str_append(out, "\t");
    mpc_str_append(out, f == MPC_FMT_none ? "-" : mpc_format_get(f)->name);
}

void mpc_assignment_print(const mpc_assignment *a, mpc_str *out) {
    mpc_str_printf(out, "%s\n# value\top\treads\tcomputes\taccumulates\tstores\twhy\n", header);
    for (size_t i = 0; i < a->lines.count; i++) {
        const mpc_assigned *l = &a->lines.data[i];
        mpc_str_printf(out, "%s\t%s", l->value, l->op);
        print_format(l->decision.operand, out);
        print_format(l->decision.compute, out);
        print_format(l->decision.acc, out);
        print_format(l->decision.result, out);
        mpc_str_printf(out, "\t%s\n", l->why);
    }
}

/* Cuts the next field off; NULL at the end of the line. */
static char *take_field(char **at) {
    char *field = *at;
    if (field == NULL) return NULL;
    char *tab = strchr(field, '\t');
    if (tab != NULL) *tab = '\0';
    *at = tab == NULL ? NULL : tab + 1;
    return field;
}

static bool take_format(char **at, mpc_format *f) {
    const char *text = take_field(at);
    *f = MPC_FMT_none;
    if (text == NULL) return false;
    if (strcmp(text, "-") == 0) return true;
    *f = mpc_format_find(text);
    return *f != MPC_FMT_none; /* a cast to integers stores one */
}

static bool parse_line(char *text, mpc_assigned *out) {
    char *at = text;
    mpc_decision *d = &out->decision;
    *d = (mpc_decision){.present = true};
    out->value = take_field(&at);
    out->op = take_field(&at);
    if (out->op == NULL || !take_format(&at, &d->operand) || !take_format(&at, &d->compute) ||
        !take_format(&at, &d->acc) || !take_format(&at, &d->result))
        return false;
    out->why = take_field(&at);
    return out->why != NULL && at == NULL;
}

mpc_status mpc_assignment_parse(mpc_assignment *a, const char *text, const mpc_sink *sink) {
    mpc_assigned line;
    unsigned number = 0;
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "\n"), used = length > 0 && at[length - 1] == '\r' ? length - 1 : length;
        char *copy = mpc_arena_strndup(a->arena, at, used);
        if (copy == NULL) return mpc_error(sink, "E901", "out of memory"), MPC_NO_MEMORY;
        if (++number == 1 && strcmp(copy, header) != 0)
            return mpc_error(sink, "E110", "an assignment begins with the line `%s`", header);
        if (number > 1 && *copy != '\0' && *copy != '#') {
            if (!parse_line(copy, &line))
                return mpc_error(
                    sink, "E110",
                    "assignment, line %u: expected value, op, four formats and a reason, separated by tabs", number);
            if (!mpc_assignment_add(a, &line)) return mpc_error(sink, "E901", "out of memory"), MPC_NO_MEMORY;
        }
        at += length + (at[length] == '\n');
    }
    return number > 0 ? MPC_OK : mpc_error(sink, "E110", "an assignment begins with the line `%s`", header);
}
