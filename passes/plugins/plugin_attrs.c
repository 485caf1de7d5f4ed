/* Attributes of nodes and options of passes, as a plugin asks for them: by key, with a fallback where an op declares
 * nothing of the kind, since a pass meets ops that it has never heard of. */
#include <string.h>

#include "passes/plugins/plugin_functions.h"

static const mpc_op *owner(mpc_call *c, mpc_id node, const mpc_graph **g, const mpc_node **n) {
    *n = NULL;
    if (c->kind == MPC_CALL_SHAPE && node == MPC_SELF) return c->infer->op;
    *n = mpc_call_node(c, node, g);
    return *n == NULL ? NULL : mpc_op_get(c->ctx, (*n)->op);
}

static bool declares(const mpc_call *c, const mpc_op *op, const char *key, mpc_attr_kind kind) {
    for (uint32_t i = 0; op != NULL && i < op->attr_count; i++)
        if (op->attrs[i].kind == kind && strcmp(mpc_sym_text(c->ctx, op->attrs[i].key), key) == 0) return true;
    return false;
}

int64_t mpc_api_attr_int(mpc_call *c, mpc_id node, const char *key, int64_t fallback) {
    const mpc_graph *g;
    const mpc_node *n;
    if (!declares(c, owner(c, node, &g, &n), key, MPC_ATTR_INT)) return fallback;
    return n == NULL ? mpc_infer_int(c->infer, key) : mpc_attr_int(g, n, key);
}

double mpc_api_attr_float(mpc_call *c, mpc_id node, const char *key, double fallback) {
    const mpc_graph *g;
    const mpc_node *n;
    if (!declares(c, owner(c, node, &g, &n), key, MPC_ATTR_FLOAT)) return fallback;
    return n == NULL ? mpc_infer_float(c->infer, key) : mpc_attr_float(g, n, key);
}

bool mpc_api_attr_bool(mpc_call *c, mpc_id node, const char *key, bool fallback) {
    const mpc_graph *g;
    const mpc_node *n;
    if (!declares(c, owner(c, node, &g, &n), key, MPC_ATTR_BOOL)) return fallback;
    return n == NULL ? mpc_infer_bool(c->infer, key) : mpc_attr_bool(g, n, key);
}

const char *mpc_api_attr_text(mpc_call *c, mpc_id node, const char *key) {
    const mpc_graph *g;
    const mpc_node *n;
    const mpc_op *op = owner(c, node, &g, &n);
    if (declares(c, op, key, MPC_ATTR_STR)) return n == NULL ? mpc_infer_str(c->infer, key) : mpc_attr_str(g, n, key);
    if (!declares(c, op, key, MPC_ATTR_FORMAT)) return "";
    return mpc_call_format_name(n == NULL ? mpc_infer_format(c->infer, key) : mpc_attr_format(g, n, key));
}

const int64_t *mpc_api_attr_ints(mpc_call *c, mpc_id node, const char *key, uint32_t *count) {
    const mpc_graph *g;
    const mpc_node *n;
    *count = 0;
    if (!declares(c, owner(c, node, &g, &n), key, MPC_ATTR_INTS)) return NULL;
    mpc_int_list list = n == NULL ? mpc_infer_ints(c->infer, key) : mpc_attr_ints(g, n, key);
    *count = list.count;
    return list.data;
}

/* --- options --- */

static bool has_option(mpc_call *c, const char *key) {
    for (uint32_t i = 0; c->options != NULL && i < c->options->count; i++)
        if (strcmp(c->options->keys[i], key) == 0) return true;
    mpc_call_fail(c, "there is no option `%s`", key);
    return false;
}

int64_t mpc_api_option_int(mpc_call *c, const char *key) {
    return has_option(c, key) ? mpc_option_int(c->options, key) : 0;
}

double mpc_api_option_float(mpc_call *c, const char *key) {
    return has_option(c, key) ? mpc_option_float(c->options, key) : 0;
}

bool mpc_api_option_bool(mpc_call *c, const char *key) {
    return has_option(c, key) && mpc_option_bool(c->options, key);
}

const char *mpc_api_option_text(mpc_call *c, const char *key) {
    return has_option(c, key) ? mpc_option_str(c->options, key) : "";
}
