/* Constructors of the tree, and the names that calls get from the text alone: which label, variable or callee names the
 * parameters that a call makes. That is decided from the whole block, never while elaborating, so that a constant or a
 * branch can't rename. */
#include "frontend/ast.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "frontend/fe_diag.h"
#include "frontend/lex.h"

mpc_span fe_span_join(mpc_span a, mpc_span b) {
    if (!a.file || a.file != b.file) return b.file ? b : a;
    return (mpc_span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

fe_ast *fe_node(fe_parser *p, fe_ast_kind kind, mpc_span span) {
    fe_ast *n = mpc_arena_alloc(p->arena, sizeof *n);
    if (!n) {
        p->failed = p->no_memory = true;
        n = &p->nothing;
        memset(n, 0, sizeof *n);
    }
    n->kind = kind;
    n->span = n->name_span = span;
    n->depth = 1;
    return n;
}

fe_ast *fe_node_text(fe_parser *p, fe_ast_kind kind, mpc_span span, const fe_ast *name) {
    fe_ast *n = fe_node(p, kind, span);
    n->text = name->text;
    n->sym = name->sym;
    n->name_span = name->span;
    return n;
}

static void deepen(fe_ast *n, const fe_ast *kid) {
    if (kid && kid != n && kid->depth >= n->depth) n->depth = kid->depth + 1;
}

fe_ast *fe_node_close(fe_parser *p, fe_ast *n) {
    if (p->deep || p->no_memory) return n;
    for (int i = 0; i < 3; i++) deepen(n, n->kid[i]);
    for (const fe_ast *k = n->list.first; k; k = k->next) deepen(n, k);
    for (const fe_ast *k = n->other.first; k && n->kind == AST_IF; k = k->next) deepen(n, k);
    if (n->depth > FE_MAX_DEPTH) {
        fe_error(p->diag, "E004", n->span, "this nests deeper than %d levels", FE_MAX_DEPTH);
        p->failed = p->deep = true;
    }
    return n;
}

fe_ast *fe_node_unary(fe_parser *p, const char *op, mpc_span span, fe_ast *a) {
    fe_ast *n = fe_node(p, AST_UNARY, span);
    n->text = op;
    n->kid[0] = a;
    return fe_node_close(p, n);
}

fe_ast *fe_node_binary(fe_parser *p, const char *op, fe_ast *a, fe_ast *b) {
    fe_ast *n = fe_node(p, AST_BINARY, fe_span_join(a->span, b->span));
    n->text = op;
    n->kid[0] = a;
    n->kid[1] = b;
    return fe_node_close(p, n);
}

fe_ast *fe_node_sub(fe_parser *p, mpc_span span, int kind, fe_ast *begin, fe_ast *end) {
    fe_ast *n = fe_node(p, AST_SUB, span);
    n->integer = kind;
    n->kid[0] = begin;
    n->kid[1] = end;
    return fe_node_close(p, n);
}

void fe_list_add(fe_parser *p, fe_list *list, fe_ast *node) {
    if (p->no_memory || node == &p->nothing) return;
    if (list->last) list->last->next = node;
    else list->first = node;
    list->last = node;
    list->count++;
}

static bool is_target(const fe_ast *n) {
    if (n->kind == AST_NAME || n->kind == AST_HOLE) return true;
    if (n->kind != AST_LIST || !n->list.count) return false;
    for (const fe_ast *k = n->list.first; k; k = k->next)
        if (k->kind != AST_NAME && k->kind != AST_HOLE) return false;
    return true;
}

fe_list fe_targets(fe_parser *p, fe_list list) {
    for (const fe_ast *n = list.first; n && !p->quiet; n = n->next) {
        if (is_target(n)) continue;
        fe_error(p->diag, "E002", n->span,
                 "a value can't be assigned to this; left of `=` stand names, or `[a, b]` for a list");
        p->failed = true;
        break;
    }
    return list;
}

void fe_label_call(fe_parser *p, fe_ast *node, const fe_ast *label) {
    if (p->no_memory) return;
    while (node->kind == AST_INDEX) node = node->kid[0];
    if (node->kind == AST_CALL && !node->text) {
        node->text = label->text;
        node->sym = label->sym;
        node->name_span = label->span;
        return;
    }
    fe_error(p->diag, "E002", label->span, "a label names a call without one: linear(x, 8) as head");
    p->failed = true;
}

/* --- naming --- */

typedef struct count {
    const char *name;
    uint32_t count, next;
} count;

typedef struct namer {
    mpc_arena *arena;
    MPC_ARRAY(count) assigned; /* assignments of a variable */
    MPC_ARRAY(count) callees;  /* calls that are named by their callee */
    bool numbering;            /* second walk: write the numbers */
    bool failed;
} namer;

static count *find_count(count *data, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(data[i].name, name) == 0) return &data[i];
    return NULL;
}

static void note_assigned(namer *nm, const char *name) {
    count *c = find_count(nm->assigned.data, nm->assigned.count, name);
    if (c) c->count++;
    else if (!mpc_array_push(&nm->assigned, (count){name, 1, 0})) nm->failed = true;
}

static void count_assignments(namer *nm, const fe_list *body) {
    for (const fe_ast *s = body->first; s; s = s->next) {
        for (const fe_ast *t = s->kind == AST_ASSIGN ? s->list.first : NULL; t; t = t->next) {
            if (t->kind == AST_NAME) note_assigned(nm, t->text);
            for (const fe_ast *k = t->kind == AST_LIST ? t->list.first : NULL; k; k = k->next)
                if (k->kind == AST_NAME) note_assigned(nm, k->text);
        }
        if (s->kind == AST_REPEAT && s->kid[1]) note_assigned(nm, s->kid[1]->text);
        if (s->kind == AST_REPEAT && s->kid[2]) note_assigned(nm, s->kid[2]->text);
        if (s->kind == AST_REPEAT || s->kind == AST_REGION || s->kind == AST_IF) count_assignments(nm, &s->list);
        if (s->kind == AST_IF) count_assignments(nm, &s->other);
    }
}

static void name_by_callee(namer *nm, fe_ast *call, const char *name) {
    count *c = find_count(nm->callees.data, nm->callees.count, name);
    if (!nm->numbering) {
        if (c) c->count++;
        else if (!mpc_array_push(&nm->callees, (count){name, 1, 0})) nm->failed = true;
        return;
    }
    call->site = name;
    if (!c || c->count < 2) return;
    call->site = mpc_arena_printf(nm->arena, "%s.%u", name, c->next++);
    call->siblings = c->count;
    if (!call->site) nm->failed = true;
}

static void name_call(namer *nm, fe_ast *call, const char *variable) {
    if (call->text) call->site = call->text;
    else if (variable) call->site = variable;
    else if (call->kid[0]->kind == AST_NAME) name_by_callee(nm, call, call->kid[0]->text);
    else call->site = "call";
}

static void name_expression(namer *nm, fe_ast *e, const char *variable) {
    if (!e) return;
    for (int i = 0; i < 3; i++) name_expression(nm, e->kid[i], NULL);
    for (fe_ast *k = e->list.first; k; k = k->next) name_expression(nm, k, NULL);
    if (e->kind == AST_CALL) name_call(nm, e, variable); /* after its arguments: numbers follow the order of work */
}

static const char *sole_variable(const namer *nm, const fe_ast *s) {
    if (s->kind == AST_OUTPUT || s->kind == AST_LOSS || s->kind == AST_METRIC) return s->text;
    if (s->kind != AST_ASSIGN || s->list.count != 1 || s->list.first->kind != AST_NAME) return NULL;
    const char *name = s->list.first->text;
    const count *c = find_count(nm->assigned.data, nm->assigned.count, name);
    return c && c->count == 1 ? name : NULL;
}

static void name_body(namer *nm, fe_list *body) {
    for (fe_ast *s = body->first; s; s = s->next) {
        for (int i = 0; i < 3; i++) name_expression(nm, s->kid[i], i == 0 ? sole_variable(nm, s) : NULL);
        if (s->kind == AST_REPEAT || s->kind == AST_REGION || s->kind == AST_IF) name_body(nm, &s->list);
        else
            for (fe_ast *k = s->kind == AST_RETURN ? s->list.first : NULL; k; k = k->next) name_expression(nm, k, NULL);
        if (s->kind == AST_IF) name_body(nm, &s->other);
    }
}

bool fe_name_sites(mpc_arena *arena, const fe_list *parameters, fe_list *body) {
    namer nm = {.arena = arena};
    for (const fe_ast *k = parameters->first; k; k = k->next) note_assigned(&nm, k->text);
    count_assignments(&nm, body);
    name_body(&nm, body);
    nm.numbering = true;
    name_body(&nm, body);
    mpc_array_free(&nm.assigned);
    mpc_array_free(&nm.callees);
    return !nm.failed;
}

bool fe_body_assigns(const fe_list *body, mpc_sym sym) {
    for (const fe_ast *s = body->first; s; s = s->next) {
        for (const fe_ast *t = s->kind == AST_ASSIGN ? s->list.first : NULL; t; t = t->next) {
            if (t->sym == sym && t->kind == AST_NAME) return true;
            for (const fe_ast *k = t->kind == AST_LIST ? t->list.first : NULL; k; k = k->next)
                if (k->sym == sym && k->kind == AST_NAME) return true;
        }
        if (s->kind == AST_REGION && fe_body_assigns(&s->list, sym)) return true;
        if (s->kind == AST_IF && fe_body_assigns(&s->list, sym) && fe_body_assigns(&s->other, sym)) return true;
    }
    return false;
}

bool fe_ast_mentions(const fe_ast *at, mpc_sym sym) {
    if (!at) return false;
    if (at->kind == AST_NAME && at->sym == sym) return true;
    for (int i = 0; i < 3; i++)
        if (fe_ast_mentions(at->kid[i], sym)) return true;
    for (const fe_ast *k = at->kind == AST_ASSIGN ? NULL : at->list.first; k; k = k->next)
        if (fe_ast_mentions(k, sym)) return true;
    for (const fe_ast *k = at->other.first; k; k = k->next)
        if (fe_ast_mentions(k, sym)) return true;
    return false;
}
