/* What a solver that weighs costs knows about its choices, by value name, for whoever explains them after the pass. Owns its texts. */
#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "passes/precision/cost.h"

struct mpc_plan_choices {
    mpc_arena *arena;
    mpc_map *index; /* value name -> line */
    MPC_ARRAY(mpc_choice_line) lines;
    mpc_solution solution;
    mpc_pin pin;
};

mpc_plan_choices *mpc_plan_choices_create(void) {
    mpc_plan_choices *c = mpc_alloc(sizeof *c);
    if (c == NULL) return NULL;
    *c = (mpc_plan_choices){.arena = mpc_arena_create(), .index = mpc_map_create()};
    if (c->arena != NULL && c->index != NULL) return c;
    mpc_plan_choices_destroy(c);
    return NULL;
}

void mpc_plan_choices_destroy(mpc_plan_choices *c) {
    if (c == NULL) return;
    mpc_arena_destroy(c->arena);
    mpc_map_destroy(c->index);
    mpc_array_free(&c->lines);
    mpc_free(c);
}

const mpc_choice_line *mpc_plan_choices_find(const mpc_plan_choices *c, const char *value) {
    uint32_t line;
    return mpc_map_get(c->index, value, &line) ? &c->lines.data[line] : NULL;
}

bool mpc_plan_choices_add(mpc_plan_choices *c, const mpc_choice_line *line) {
    mpc_choice_line copy = *line;
    copy.value = mpc_arena_strdup(c->arena, line->value);
    if (line->blocker != NULL) copy.blocker = mpc_arena_strdup(c->arena, line->blocker);
    if (line->choice.rule != NULL) copy.choice.rule = mpc_arena_strdup(c->arena, line->choice.rule);
    if (copy.value == NULL || (line->blocker != NULL && copy.blocker == NULL) ||
        (line->choice.rule != NULL && copy.choice.rule == NULL) || !mpc_array_push(&c->lines, copy))
        return false;
    if (mpc_map_set(c->index, copy.value, (uint32_t)c->lines.count - 1)) return true;
    c->lines.count--;
    return false;
}

mpc_solution *mpc_plan_choices_solution(mpc_plan_choices *c) { return &c->solution; }

mpc_pin *mpc_plan_choices_pin(mpc_plan_choices *c) { return &c->pin; }
