/* The parser of the text form: state and the helpers shared by its files. Internal to ir. Every helper returns false
 * after an error, which has then been sent; the first error ends the parse. */
#ifndef MPC_IR_IR_PARSER_H
#define MPC_IR_IR_PARSER_H

#include "ir/builder_internal.h"
#include "ir/ir_lexer.h"

typedef struct mpc_ir_name { /* of a value, where it is defined */
    mpc_sym sym;
    mpc_span span;
} mpc_ir_name;

typedef struct mpc_ir_place {
    mpc_value_id value;
    mpc_place place;
} mpc_ir_place;

typedef struct mpc_ir_parser {
    mpc_context *ctx;
    uint32_t file;
    mpc_ir_lexer lexer;
    mpc_ir_token token; /* the next one, not yet used */
    mpc_builder *b;
    bool failed;
    mpc_arena *scratch;           /* lists of integers */
    mpc_idmap values;             /* name -> value */
    MPC_ARRAY(mpc_ir_name) names; /* of the node being read, and so on */
    MPC_ARRAY(mpc_value_id) operands;
    MPC_ARRAY(mpc_type_id) operand_types;
    MPC_ARRAY(mpc_type_id) types;
    MPC_ARRAY(mpc_attr) attrs;
    MPC_ARRAY(int64_t) ints;
    MPC_ARRAY(uint32_t) groups; /* by node */
    mpc_idmap placed;           /* values that have a place */
    MPC_ARRAY(mpc_ir_place) places;
    bool any_group;
    uint64_t arena_bytes;
} mpc_ir_parser;

bool mpc_ir_fail(mpc_ir_parser *p, const char *code, mpc_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool mpc_ir_no_memory(mpc_ir_parser *p);
mpc_span mpc_ir_span(const mpc_ir_parser *p); /* of the next token */

void mpc_ir_advance(mpc_ir_parser *p);
bool mpc_ir_at_punct(const mpc_ir_parser *p, char punct);
bool mpc_ir_at_word(const mpc_ir_parser *p, const char *word);
bool mpc_ir_accept(mpc_ir_parser *p, char punct); /* uses the token if it is this one */
bool mpc_ir_expect(mpc_ir_parser *p, char punct);
bool mpc_ir_unexpected(mpc_ir_parser *p, const char *wanted);

/* ir_parse_attrs.c */
bool mpc_ir_parse_unsigned(mpc_ir_parser *p, uint64_t limit, uint64_t *value);
bool mpc_ir_parse_format(mpc_ir_parser *p, mpc_format *format);
bool mpc_ir_parse_type(mpc_ir_parser *p, mpc_type_id *type);
/* "{key=value ...}" or nothing; into p->attrs, in the order of the declarations. `drop`: without what equals its
 * default. */
bool mpc_ir_parse_attrs(mpc_ir_parser *p, const char *owner, const mpc_attr_spec *specs, uint32_t count, bool drop);

/* ir_parse_node.c */
bool mpc_ir_define(mpc_ir_parser *p, const mpc_ir_name *name, mpc_value_id value);
bool mpc_ir_parse_ref(mpc_ir_parser *p, mpc_value_id *value);
bool mpc_ir_parse_name(mpc_ir_parser *p, mpc_ir_name *name);
bool mpc_ir_parse_node(mpc_ir_parser *p);

#endif
