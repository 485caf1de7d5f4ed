/* Attributes of a node are few and sorted as the op declares them, so every search is linear. A key that an op doesn't
 * declare is a defect of the caller: it asserts, and reads as zero where assertions are off. */
#include "ir/attrs.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const mpc_attr_spec *mpc_attr_spec_find(const mpc_context *ctx, const mpc_attr_spec *specs, uint32_t spec_count,
                                        const char *key) {
    for (uint32_t i = 0; i < spec_count; i++)
        if (strcmp(mpc_sym_text(ctx, specs[i].key), key) == 0) return &specs[i];
    return NULL;
}

const mpc_attr *mpc_attr_stored(const mpc_attr *attrs, uint32_t count, mpc_sym key) {
    for (uint32_t i = 0; i < count; i++)
        if (attrs[i].key == key) return &attrs[i];
    return NULL;
}

const mpc_attr *mpc_attr_resolve(const mpc_context *ctx, const mpc_op *op, const mpc_attr *attrs, uint32_t count,
                                 const char *key, mpc_attr_kind kind) {
    static const mpc_attr nothing;
    const mpc_attr_spec *spec = mpc_attr_spec_find(ctx, op->attrs, op->attr_count, key);
    bool declared = spec && spec->kind == kind;
    assert(declared && "attribute not declared by the op");
    if (!declared) return &nothing;
    const mpc_attr *stored = mpc_attr_stored(attrs, count, spec->key);
    return stored ? stored : &spec->fallback;
}

static bool same_ints(mpc_int_list a, mpc_int_list b) {
    return a.count == b.count && (!a.count || memcmp(a.data, b.data, a.count * sizeof *a.data) == 0);
}

bool mpc_attr_same(const mpc_attr *a, const mpc_attr *b) {
    if (a->key != b->key || a->kind != b->kind) return false;
    switch (a->kind) {
    case MPC_ATTR_INT:
        return a->i == b->i;
    case MPC_ATTR_FLOAT:
        return (isnan(a->f) && isnan(b->f)) || memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case MPC_ATTR_BOOL:
        return a->b == b->b;
    case MPC_ATTR_STR:
        return a->s == b->s;
    case MPC_ATTR_FORMAT:
        return a->format == b->format;
    case MPC_ATTR_INTS:
        return same_ints(a->ints, b->ints);
    }
    return false;
}

bool mpc_attrs_same(const mpc_attr *a, uint32_t a_count, const mpc_attr *b, uint32_t b_count) {
    if (a_count != b_count) return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (!mpc_attr_same(&a[i], &b[i])) return false;
    return true;
}

const char *mpc_attr_kind_name(mpc_attr_kind kind) {
    static const char *const names[] = {"int", "float", "bool", "str", "format", "ints"};
    return names[kind];
}
