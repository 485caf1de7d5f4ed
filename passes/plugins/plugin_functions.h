/* The functions behind mpc_plugin_api (include/mpc/plugin.h), which documents them; plugin_api.c puts them into the
 * table. Private to passes/plugins. A function that is handed something impossible fails the call and returns something
 * harmless. */
#ifndef MPC_PASSES_PLUGIN_FUNCTIONS_H
#define MPC_PASSES_PLUGIN_FUNCTIONS_H

#include "passes/plugins/plugin_call.h"

/* plugin_read.c */
uint32_t mpc_api_node_count(mpc_call *c);
const char *mpc_api_op(mpc_call *c, mpc_id node);
const char *mpc_api_op_class(mpc_call *c, mpc_id node);
const char *mpc_api_op_kind(mpc_call *c, mpc_id node);
uint32_t mpc_api_operand_count(mpc_call *c, mpc_id node);
mpc_id mpc_api_operand(mpc_call *c, mpc_id node, uint32_t index);
uint32_t mpc_api_result_count(mpc_call *c, mpc_id node);
mpc_id mpc_api_result(mpc_call *c, mpc_id node, uint32_t index);
const char *mpc_api_origin(mpc_call *c, mpc_id node);
const char *mpc_api_reason(mpc_call *c, mpc_id node);
const char *mpc_api_place(mpc_call *c, mpc_id node, uint32_t *line);
bool mpc_api_decision(mpc_call *c, mpc_id node, mpc_plugin_decision *out);
const char *mpc_api_name(mpc_call *c, mpc_id value);
const char *mpc_api_format(mpc_call *c, mpc_id value);
uint32_t mpc_api_rank(mpc_call *c, mpc_id value);
int64_t mpc_api_dim(mpc_call *c, mpc_id value, uint32_t axis);
int64_t mpc_api_elements(mpc_call *c, mpc_id value);
mpc_id mpc_api_producer(mpc_call *c, mpc_id value);
bool mpc_api_constant(mpc_call *c, mpc_id value, double *number);
uint32_t mpc_api_input_count(mpc_call *c);
mpc_id mpc_api_input(mpc_call *c, uint32_t index);
uint32_t mpc_api_output_count(mpc_call *c);
const char *mpc_api_output_name(mpc_call *c, uint32_t index);
mpc_id mpc_api_output(mpc_call *c, uint32_t index);
uint32_t mpc_api_next_count(mpc_call *c);
mpc_id mpc_api_next_state(mpc_call *c, uint32_t index);
mpc_id mpc_api_next_value(mpc_call *c, uint32_t index);

/* plugin_attrs.c */
int64_t mpc_api_attr_int(mpc_call *c, mpc_id node, const char *key, int64_t fallback);
double mpc_api_attr_float(mpc_call *c, mpc_id node, const char *key, double fallback);
bool mpc_api_attr_bool(mpc_call *c, mpc_id node, const char *key, bool fallback);
const char *mpc_api_attr_text(mpc_call *c, mpc_id node, const char *key);
const int64_t *mpc_api_attr_ints(mpc_call *c, mpc_id node, const char *key, uint32_t *count);
int64_t mpc_api_option_int(mpc_call *c, const char *key);
double mpc_api_option_float(mpc_call *c, const char *key);
bool mpc_api_option_bool(mpc_call *c, const char *key);
const char *mpc_api_option_text(mpc_call *c, const char *key);

/* plugin_build.c */
mpc_id mpc_api_build(mpc_call *c, const char *op, const mpc_id *operands, uint32_t operand_count,
                     const mpc_plugin_attr *attrs, uint32_t attr_count);
void mpc_api_emit(mpc_call *c, uint32_t index, const char *op, const mpc_id *operands, uint32_t operand_count,
                  const mpc_plugin_attr *attrs, uint32_t attr_count);
mpc_id mpc_api_number(mpc_call *c, double value);
mpc_id mpc_api_cast(mpc_call *c, mpc_id value, const char *format);
mpc_id mpc_api_copy(mpc_call *c, mpc_id node);
void mpc_api_replace(mpc_call *c, mpc_id old, mpc_id made);
mpc_id mpc_api_mapped(mpc_call *c, mpc_id old);
void mpc_api_dress(mpc_call *c, mpc_id node);
void mpc_api_call_it(mpc_call *c, const char *name);
const char *mpc_api_built_format(mpc_call *c, mpc_id made);
uint32_t mpc_api_built_rank(mpc_call *c, mpc_id made);
int64_t mpc_api_built_dim(mpc_call *c, mpc_id made, uint32_t axis);
void mpc_api_set_output(mpc_call *c, const char *name, mpc_id made);
void mpc_api_set_next(mpc_call *c, mpc_id made_state, mpc_id made);

/* plugin_rules.c */
void mpc_api_set_result(mpc_call *c, uint32_t result, const char *format, uint32_t rank, const int64_t *dims);
mpc_id mpc_api_dresult(mpc_call *c, uint32_t result);
bool mpc_api_wanted(mpc_call *c, uint32_t index);
void mpc_api_give(mpc_call *c, uint32_t index, mpc_id value);
const double *mpc_api_operand_data(mpc_call *c, uint32_t operand);
double *mpc_api_result_data(mpc_call *c, uint32_t result);

/* plugin_solve.c */
const char *mpc_api_low(mpc_call *c);
bool mpc_api_open(mpc_call *c, mpc_id node);
bool mpc_api_wanted_low(mpc_call *c, mpc_id value);
bool mpc_api_only_f32(mpc_call *c, mpc_id value);
bool mpc_api_fixed(mpc_call *c, mpc_id value);
const char *mpc_api_planned(mpc_call *c, mpc_id value);
void mpc_api_decide(mpc_call *c, mpc_id node, const mpc_plugin_decision *decision, const char *reason);
void mpc_api_decide_by_class(mpc_call *c, mpc_id node);
double mpc_api_price_op(mpc_call *c, mpc_id node, const char *format);
double mpc_api_price_value(mpc_call *c, mpc_id value, const char *format);
double mpc_api_price_cast(mpc_call *c, mpc_id value, const char *from, const char *to);

#endif
