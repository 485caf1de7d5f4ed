/* Index notation, `"b t (h d) -> b t h d"`: the text as terms of named axes, and their sizes. Used by einsum, rearrange
 * and reduce. A pattern belongs to one call and lives in the elaboration's arena. */
#ifndef MPC_FRONTEND_FE_AXES_H
#define MPC_FRONTEND_FE_AXES_H

#include "frontend/fe_elab.h"

enum { FE_MAX_AXES = 24, FE_MAX_TERMS = 12, FE_MAX_GROUPS = 16 };

typedef struct fe_axis {
    const char *word; /* "..." for the axes that three dots stand for */
    mpc_span span;    /* where it stands first */
    int64_t size;     /* -1: not known */
    mpc_span sized;   /* what said so; file 0: nothing yet */
    mpc_sym dim;      /* its name as a dim of the operand: "batch" */
} fe_axis;

typedef struct fe_group { /* one axis of a tensor: `b`, `(h d)`, `1`, `...` */
    mpc_span span;
    uint32_t first, count; /* in the term's axes */
    bool rest;             /* `...`; gone once the operands' ranks are known */
} fe_group;

typedef struct fe_term { /* one operand, or the result */
    mpc_span span;
    fe_group groups[FE_MAX_GROUPS];
    uint32_t group_count;
    uint32_t axes[FE_MAX_AXES]; /* ids, in order */
    uint32_t axis_count;
} fe_term;

typedef struct fe_pattern {
    fe_elab *e;
    const fe_ast *at; /* the text */
    fe_axis axes[FE_MAX_AXES];
    uint32_t axis_count;
    fe_term in[FE_MAX_TERMS], out;
    uint32_t in_count;
    bool bad; /* reported */
} fe_pattern;

/* A value with the names of its axes, one word each. */
typedef struct fe_labelled {
    fe_value v;
    uint32_t axes[FE_MAX_AXES];
    uint32_t count;
} fe_labelled;

/* --- axes_parse.c --- */
/* Reads argument 0 of the call. NULL after an error. */
fe_pattern *fe_parse_pattern(fe_call *c);
uint32_t fe_find_axis(const fe_term *t, uint32_t axis); /* position among the term's axes; UINT32_MAX: not there */

/* --- axes_size.c --- */
/* The operands and the sizes given by name, `h = 4`: arguments of the call that its row doesn't list. At least one
 * operand. False after an error. `operands` has room for FE_MAX_TERMS. */
bool fe_pattern_arguments(fe_call *c, fe_pattern *p, fe_value *operands, const fe_ast **operand_at);
/* Meets the operands with their terms, so that every axis has a size. */
bool fe_pattern_sizes(fe_call *c, fe_pattern *p, fe_value *operands, const fe_ast **operand_at);
/* Operand i with its groups taken apart. */
fe_labelled fe_axes_split(fe_call *c, const fe_pattern *p, uint32_t i, fe_value operand);
/* The axes in another order. */
fe_labelled fe_axes_order(fe_call *c, fe_labelled x, const uint32_t *axes, const char *name);
/* The result in the form of the pattern's right side; `x` has its axes in any order. */
fe_value fe_axes_join(fe_call *c, const fe_pattern *p, fe_labelled x, const char *name);
bool fe_axes_has(const fe_labelled *x, uint32_t axis);

#endif
