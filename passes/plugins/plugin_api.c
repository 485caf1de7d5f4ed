/* The table of functions that every callback of a plugin gets, and the life of a call: messages, memory, failure. An
 * error is sent once per call, in the plugin's name; whatever a callback does after that has no effect. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "passes/plugins/plugin_functions.h"

enum { MESSAGE_SIZE = 512 };

bool mpc_call_failed(const mpc_call *c) {
    const mpc_builder *b = mpc_call_builder(c);
    return c->failed || (b != NULL && mpc_builder_failed(b));
}

/* A shape rule's message is said by whoever asked for the type, with the op's name. */
static void send(mpc_call *c, const char *code, const char *text) {
    if (c->kind == MPC_CALL_SHAPE) mpc_infer_fail(c->infer, MPC_NONE, "%s", text);
    else mpc_error(mpc_context_sink(c->ctx), code, "%s: %s", c->who, text);
}

static void fail_with(mpc_call *c, const char *code, const char *format, va_list args) {
    char text[MESSAGE_SIZE];
    if (mpc_call_failed(c)) return;
    vsnprintf(text, sizeof text, format, args);
    c->failed = true;
    send(c, code, text);
    if (c->kind != MPC_CALL_PASS && mpc_call_builder(c) != NULL)
        mpc_builder_fail(mpc_call_builder(c), "%s failed", c->who); /* stops the pass that called */
}

void mpc_call_fail(mpc_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(c, "E374", format, args);
    va_end(args);
}

static void api_error(mpc_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(c, "E373", format, args);
    va_end(args);
}

static void api_warn(mpc_call *c, const char *format, ...) {
    char text[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mpc_warn(mpc_context_sink(c->ctx), "W373", (mpc_span){0}, "%s: %s", c->who, text);
}

static void *api_memory(mpc_call *c, size_t bytes) {
    if (c->scratch == NULL) c->scratch = mpc_arena_create();
    void *memory = c->scratch == NULL ? NULL : mpc_arena_alloc(c->scratch, bytes);
    if (memory == NULL) mpc_call_fail(c, "out of memory");
    return memory;
}

void mpc_call_end(mpc_call *c) {
    mpc_arena_destroy(c->scratch);
    c->scratch = NULL;
}

mpc_format mpc_call_format(mpc_call *c, const char *name) {
    if (name == NULL || *name == '\0') return MPC_FMT_none;
    mpc_format format = mpc_format_find(name);
    if (format == MPC_FMT_none) mpc_call_fail(c, "there is no format `%s`", name);
    return format;
}

const char *mpc_call_format_name(mpc_format format) {
    return format == MPC_FMT_none ? "" : mpc_format_get(format)->name;
}

const mpc_plugin_api mpc_plugin_functions = {
    .size = sizeof(mpc_plugin_api),
    .abi = MPC_PLUGIN_ABI,
    .error = api_error,
    .warn = api_warn,
    .failed = mpc_call_failed,
    .memory = api_memory,
    .option_int = mpc_api_option_int,
    .option_float = mpc_api_option_float,
    .option_bool = mpc_api_option_bool,
    .option_text = mpc_api_option_text,
    .node_count = mpc_api_node_count,
    .op = mpc_api_op,
    .op_class = mpc_api_op_class,
    .op_kind = mpc_api_op_kind,
    .operand_count = mpc_api_operand_count,
    .operand = mpc_api_operand,
    .result_count = mpc_api_result_count,
    .result = mpc_api_result,
    .attr_int = mpc_api_attr_int,
    .attr_float = mpc_api_attr_float,
    .attr_bool = mpc_api_attr_bool,
    .attr_text = mpc_api_attr_text,
    .attr_ints = mpc_api_attr_ints,
    .origin = mpc_api_origin,
    .reason = mpc_api_reason,
    .place = mpc_api_place,
    .decision = mpc_api_decision,
    .name = mpc_api_name,
    .format = mpc_api_format,
    .rank = mpc_api_rank,
    .dim = mpc_api_dim,
    .elements = mpc_api_elements,
    .producer = mpc_api_producer,
    .constant = mpc_api_constant,
    .input_count = mpc_api_input_count,
    .input = mpc_api_input,
    .output_count = mpc_api_output_count,
    .output_name = mpc_api_output_name,
    .output = mpc_api_output,
    .next_count = mpc_api_next_count,
    .next_state = mpc_api_next_state,
    .next_value = mpc_api_next_value,
    .build = mpc_api_build,
    .number = mpc_api_number,
    .cast = mpc_api_cast,
    .copy = mpc_api_copy,
    .replace = mpc_api_replace,
    .mapped = mpc_api_mapped,
    .dress = mpc_api_dress,
    .call_it = mpc_api_call_it,
    .built_format = mpc_api_built_format,
    .built_rank = mpc_api_built_rank,
    .built_dim = mpc_api_built_dim,
    .set_output = mpc_api_set_output,
    .set_next = mpc_api_set_next,
    .set_result = mpc_api_set_result,
    .dresult = mpc_api_dresult,
    .wanted = mpc_api_wanted,
    .give = mpc_api_give,
    .emit = mpc_api_emit,
    .operand_data = mpc_api_operand_data,
    .result_data = mpc_api_result_data,
    .low = mpc_api_low,
    .open = mpc_api_open,
    .wanted_low = mpc_api_wanted_low,
    .only_f32 = mpc_api_only_f32,
    .fixed = mpc_api_fixed,
    .planned = mpc_api_planned,
    .decide = mpc_api_decide,
    .decide_by_class = mpc_api_decide_by_class,
    .price_op = mpc_api_price_op,
    .price_value = mpc_api_price_value,
    .price_cast = mpc_api_price_cast,
};
