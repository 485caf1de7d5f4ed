/* What groups, schedules, memory plans and programs must look like, on small graphs: what is one kernel, what is no
 * launch at all, what is written in place, what is skipped, and that broken plans, exchanged states and failing memory
 * are noticed. */
#include <stdlib.h>

#include "base/alloc.h"
#include "codegen/codegen.h"
#include "passes/pass.h"
#include "tests/check.h"

typedef struct fixture {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *graph, *lowered;
    mpc_program *program;
} fixture;

static mpc_graph *lower(fixture *f, const mpc_graph *g, const char *pipeline) {
    mpc_pass_env env = {.ctx = f->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    return mpc_pipeline_run(g, pipeline, &env, &hooks);
}

static const char *first_code(const fixture *f) {
    return mpc_diag_list_count(f->diags) > 0 ? mpc_diag_list_get(f->diags, 0)->code : "none";
}

/* `body` stands between the braces of a graph. */
static void begin(fixture *f, const char *head, const char *body) {
    memset(f, 0, sizeof *f);
    f->sources = mpc_sources_create();
    f->diags = mpc_diag_list_create();
    f->sink = mpc_diag_list_sink(f->diags);
    f->ctx = mpc_context_create(&f->sink, f->sources);
    mpc_passes_register(f->ctx);
    mpc_str text = {0};
    mpc_str_printf(&text, "mpir 1\ngraph @g(%s) {\n%s}\n", head, body);
    uint32_t file = mpc_sources_add(f->sources, "test.mpir", mpc_str_cstr(&text), text.length);
    f->graph = mpc_graph_parse(f->ctx, file);
    CHECK_MSG(f->graph != NULL, "%s", mpc_diag_list_count(f->diags) ? mpc_diag_list_get(f->diags, 0)->message : "");
    if (f->graph != NULL) f->lowered = lower(f, f->graph, "fuse,schedule,memory");
    mpc_codegen_options options = {MPC_TARGET_C};
    if (f->lowered != NULL) f->program = mpc_codegen(f->lowered, &options);
    mpc_str_free(&text);
}

static void end(fixture *f) {
    mpc_program_destroy(f->program);
    mpc_graph_destroy(f->lowered);
    mpc_graph_destroy(f->graph);
    mpc_context_destroy(f->ctx);
    mpc_diag_list_destroy(f->diags);
    mpc_sources_destroy(f->sources);
}

static uint32_t launches_of(const fixture *f, mpc_launch_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; f->program != NULL && i < f->program->launch_count; i++)
        count += f->program->launches[i].kind == kind;
    return count;
}

static uint32_t total(const fixture *f) { return f->program != NULL ? f->program->launch_count : UINT32_MAX; }

static uint64_t bound_of(const fixture *f) {
    uint64_t bound = 0;
    CHECK(f->lowered != NULL && mpc_memory_check(f->lowered, &bound) == MPC_OK);
    return bound;
}

static void softmax_is_one_kernel(void) {
    fixture f;
    begin(&f, "%x: bf16[8,16,48]",
          "  %w = cast(%x) {to=f32} : f32[8,16,48]\n  %m = max(%w) {axes=[2] keep=true} : f32[8,16,1]\n"
          "  %d = sub(%w, %m) : f32[8,16,48]\n  %e = exp(%d) : f32[8,16,48]\n  %s = sum(%e) {axes=[2] keep=true} : "
          "f32[8,16,1]\n"
          "  %q = div(%e, %s) : f32[8,16,48]\n  %y = cast(%q) {to=bf16} : bf16[8,16,48]\n  return(\"y\": %y)\n");
    CHECK(total(&f) == 1);
    CHECK(f.lowered != NULL && f.lowered->arena_bytes == 2 * 8 * 16 * 48 * 2);
    CHECK(f.program != NULL && f.program->kernels[0].scratch_bytes == 48 * 4); /* the exponentials, not the cast */
    end(&f);
}

static void casts_split_no_group(void) {
    fixture plain, cast;
    begin(&plain, "%x: f32[64,32], %b: f32[32]",
          "  %a = add(%x, %b) : f32[64,32]\n  %r = relu(%a) : f32[64,32]\n  %s = sum(%r) {axes=[0]} : f32[32]\n"
          "  %y = mul(%r, %r) : f32[64,32]\n  return(\"y\": %y, \"s\": %s)\n");
    begin(&cast, "%x: f32[64,32], %b: f32[32]",
          "  %a = add(%x, %b) : f32[64,32]\n  %l = cast(%a) {to=bf16} : bf16[64,32]\n  %r = relu(%l) : bf16[64,32]\n"
          "  %w = cast(%r) {to=f32} : f32[64,32]\n  %s = sum(%w) {axes=[0]} : f32[32]\n  %y = mul(%r, %r) : "
          "bf16[64,32]\n  return(\"y\": %y, \"s\": %s)\n");
    CHECK(total(&plain) == 1);
    CHECK(total(&cast) == 1);
    end(&plain);
    end(&cast);
}

static void long_column_sums_are_two_launches(void) {
    fixture f;
    begin(&f, "%x: f32[4096,64]",
          "  %y = mul(%x, %x) : f32[4096,64]\n  %s = sum(%y) {axes=[0]} : f32[64]\n  return(\"y\": %y, \"s\": %s)\n");
    CHECK(total(&f) == 2);
    CHECK(f.program != NULL && f.program->launches[0].instances[0].units == 32);
    end(&f);
}

static void heads_are_strides(void) {
    fixture f;
    begin(&f, "%x: bf16[2,8,48]",
          "  %q3 = slice(%x) {start=[0,0,0] stop=[2,8,16]} : bf16[2,8,16]\n  %k3 = slice(%x) {start=[0,0,16] "
          "stop=[2,8,32]} : bf16[2,8,16]\n"
          "  %v3 = slice(%x) {start=[0,0,32] stop=[2,8,48]} : bf16[2,8,16]\n"
          "  %q4 = reshape(%q3) {shape=[2,8,4,4]} : bf16[2,8,4,4]\n  %k4 = reshape(%k3) {shape=[2,8,4,4]} : "
          "bf16[2,8,4,4]\n"
          "  %v4 = reshape(%v3) {shape=[2,8,4,4]} : bf16[2,8,4,4]\n  %q = transpose(%q4) {perm=[0,2,1,3]} : "
          "bf16[2,4,8,4]\n"
          "  %k = transpose(%k4) {perm=[0,2,1,3]} : bf16[2,4,8,4]\n  %v = transpose(%v4) {perm=[0,2,1,3]} : "
          "bf16[2,4,8,4]\n"
          "  %s = matmul(%q, %k) {tb=true} : bf16[2,4,8,8]\n  %o = matmul(%s, %v) : bf16[2,4,8,4]\n"
          "  %t = transpose(%o) {perm=[0,2,1,3]} : bf16[2,8,4,4]\n  %y = reshape(%t) {shape=[2,8,16]} : bf16[2,8,16]\n "
          " return(\"y\": %y)\n");
    CHECK(total(&f) == 2);
    CHECK(launches_of(&f, MPC_LAUNCH_MATMUL) == 2);
    if (total(&f) == 2) {
        const mpc_matmul *s = &f.program->launches[0].matmul, *o = &f.program->launches[1].matmul;
        CHECK(s->a.byte_offset == 0 && s->b.byte_offset == 32 && o->b.byte_offset == 64);
        CHECK(s->a_row == 48 && s->a_col == 1 && s->b_row == 1 && s->b_col == 48);
        CHECK(o->c_row == 16 && o->c_col == 1);
    }
    bound_of(&f);
    end(&f);
}

#define UPDATE(w, g) \
    "  %" w ".n = sub(%" w ", %" g ") : f32[300]\n  %" w ".k = where(%ok, %" w ".n, %" w ") : f32[300]\n" \
    "  %" w ".c = cast(%" w ".n) {to=bf16} : bf16[300]\n  %" w ".d = where(%ok, %" w ".c, %" w ".low) : bf16[300]\n"
#define STATES(w) \
    "  %" w " = state() {name=" w " trainable=true} : f32[300]\n  %" w ".low = state() {name=" w \
    " role=copy derived=bf16} : bf16[300]\n"

static void updates_are_one_skippable_launch_in_place(void) {
    fixture f;
    begin(&f, "%g: f32[300], %h: f32[300], %ok: bool[]",
          STATES("v") STATES("w") "  %y = add(%v.low, %w.low) : bf16[300]\n" UPDATE("v", "g") UPDATE(
              "w",
              "h") "  next %v, %v.k\n  next %v.low, %v.d\n  next %w, %w.k\n  next %w.low, %w.d\n  return(\"y\": %y)\n");
    CHECK(total(&f) == 2);
    CHECK(launches_of(&f, MPC_LAUNCH_COPY) == 0);
    if (total(&f) == 2) {
        const mpc_launch *l = &f.program->launches[1];
        CHECK(l->has_when && l->instance_count == 2 && l->result_count == 4);
        CHECK(!f.program->launches[0].has_when);
    }
    bound_of(&f);
    end(&f);
}

static void readers_of_old_values_come_first(void) {
    fixture f; /* written as the last: the reader of w */
    begin(&f, "%g: f32[40,40]",
          "  %w = state() {name=w trainable=true} : f32[40,40]\n  %n = sub(%w, %g) : f32[40,40]\n  %y = matmul(%g, %w) "
          ": f32[40,40]\n"
          "  next %w, %n\n  return(\"y\": %y)\n");
    CHECK(total(&f) == 2);
    CHECK(launches_of(&f, MPC_LAUNCH_COPY) == 0);
    if (total(&f) == 2) CHECK(f.program->launches[0].kind == MPC_LAUNCH_MATMUL);
    bound_of(&f);
    end(&f);
}

static void impossible_places_cost_a_copy(void) {
    fixture f; /* the next value itself decides what is read of the old one */
    begin(&f, "%g: f32[40,40]",
          "  %w = state() {name=w trainable=true} : f32[40,40]\n  %n = matmul(%w, %g) : f32[40,40]\n  next %w, %n\n  "
          "return(\"y\": %n)\n");
    CHECK(launches_of(&f, MPC_LAUNCH_COPY) == 1);
    bound_of(&f);
    end(&f);
    begin(&f, "",
          "  %a = state() {name=a} : f32[4]\n  %b = state() {name=b} : f32[4]\n  next %a, %b\n  next %b, %a\n  "
          "return(\"y\": %a)\n");
    CHECK(f.program == NULL);
    CHECK_STR(first_code(&f), "E610");
    end(&f);
}

static void old_values_survive_as_outputs(void) {
    fixture f;
    begin(&f, "",
          "  %t = state() {name=t skip=advance} : i32[]\n  %one = const() {value=1} : i32[]\n  %n = add(%t, %one) : "
          "i32[]\n"
          "  next %t, %n\n  return(\"before\": %t, \"after\": %n)\n");
    CHECK(total(&f) == 2);
    if (total(&f) == 2) {
        const mpc_program *p = f.program;
        CHECK(p->launches[0].kind == MPC_LAUNCH_COPY);
        CHECK(!p->buffers[p->outputs[0].buffer].is_state && p->buffers[p->outputs[1].buffer].is_state);
    }
    end(&f);
}

static const char chain[] =
    "  %a = matmul(%x, %x) : f32[32,32]\n  %b = matmul(%a, %x) : f32[32,32]\n  %c = matmul(%b, %x) : f32[32,32]\n"
    "  %d = matmul(%c, %x) : f32[32,32]\n  return(\"y\": %d)\n";

static void dead_values_give_their_memory_back(void) {
    fixture f;
    begin(&f, "%x: f32[32,32]", chain);
    CHECK(f.lowered != NULL && f.lowered->arena_bytes == 3 * 4096);
    CHECK(bound_of(&f) == 3 * 4096);
    end(&f);
}

static void the_checker_sees_broken_plans(void) {
    fixture f;
    begin(&f, "%x: f32[32,32]", chain);
    mpc_value_id b = mpc_graph_find_value(f.lowered, "b"), c = mpc_graph_find_value(f.lowered, "c");
    f.lowered->places[b].offset = f.lowered->places[c].offset + 64;
    CHECK(mpc_memory_check(f.lowered, NULL) == MPC_FAILED);
    CHECK_STR(first_code(&f), "V61");
    end(&f);
    begin(&f, "%x: f32[32,32]", chain);
    f.lowered->places[mpc_graph_find_value(f.lowered, "b")] = (mpc_place){MPC_PLACE_NONE, 0, 0, MPC_NONE};
    CHECK(mpc_memory_check(f.lowered, NULL) == MPC_FAILED);
    CHECK_STR(first_code(&f), "V60");
    end(&f);
    begin(&f, "%g: f32[40,40]",
          "  %w = state() {name=w trainable=true} : f32[40,40]\n  %n = sub(%g, %g) : f32[40,40]\n  %y = matmul(%n, %w) "
          ": f32[40,40]\n"
          "  next %w, %n\n  return(\"y\": %y)\n");
    f.lowered->places[mpc_graph_find_value(f.lowered, "n")] =
        (mpc_place){MPC_PLACE_IN_VALUE, 0, 0, mpc_graph_find_value(f.lowered, "w")};
    CHECK(mpc_memory_check(f.lowered, NULL) == MPC_FAILED);
    CHECK_STR(first_code(&f), "V62");
    end(&f);
}

static void smaller_batches_reuse_kernels(void) {
    fixture large, small;
    const char *form = "  %%c = const() {value=%s} : f32[]\n  %%a = mul(%%x, %%c) : f32[%s,300]\n  %%s = sum(%%a) "
                       "{axes=[1] keep=true} : f32[%s,1]\n"
                       "  %%y = sub(%%a, %%s) : f32[%s,300]\n  return(\"y\": %%y)\n";
    char body[512];
    snprintf(body, sizeof body, form, "0.03125", "32", "32", "32");
    begin(&large, "%x: f32[32,300]", body);
    snprintf(body, sizeof body, form, "0.14285714285714285", "7", "7", "7");
    begin(&small, "%x: f32[7,300]", body);
    CHECK(total(&large) == 1 && total(&small) == 1);
    if (total(&large) == 1 && total(&small) == 1)
        CHECK_STR(large.program->kernels[0].text, small.program->kernels[0].text);
    end(&large);
    end(&small);
}

static const char mixed[] =
    "  %w = state() {name=w trainable=true} : f32[64,32]\n  %h = matmul(%x, %w) : "
    "f32[128,32]\n  %r = relu(%h) : f32[128,32]\n"
    "  %s = sum(%r) {axes=[0]} : f32[32]\n  %m = max(%r) {axes=[1] keep=true} : f32[128,1]\n  "
    "%q = sub(%r, %m) : f32[128,32]\n"
    "  %t = transpose(%q) {perm=[1,0]} : f32[32,128]\n  %g = matmul(%x, %q) {ta=true} : "
    "f32[64,32]\n  %norm = global_norm(%g, %s) : f32[]\n"
    "  %u = sub(%w, %g) : f32[64,32]\n  next %w, %u\n  return(\"t\": %t, \"norm\": %norm, \"s\": %s)\n";

static void text_is_deterministic(void) {
    fixture a, b;
    mpc_str x = {0}, y = {0};
    begin(&a, "%x: f32[128,64]", mixed);
    begin(&b, "%x: f32[128,64]", mixed);
    CHECK(a.program != NULL && b.program != NULL);
    if (a.program != NULL && b.program != NULL) {
        mpc_program_source(a.program, &x);
        mpc_program_print(a.program, &x);
        mpc_program_source(b.program, &y);
        mpc_program_print(b.program, &y);
        CHECK(strcmp(mpc_str_cstr(&x), mpc_str_cstr(&y)) == 0);
    }
    mpc_str_free(&x);
    mpc_str_free(&y);
    end(&a);
    end(&b);
}

static void failing_memory_is_reported(void) {
    fixture f;
    begin(&f, "%x: f32[128,64]", mixed);
    mpc_codegen_options options = {MPC_TARGET_C};
    uint32_t failures = 0;
    bool done = false;
    for (uint64_t n = 1; !done && n < 2000; n++) {
        mpc_alloc_fail_after(n);
        mpc_graph *g = lower(&f, f.graph, "fuse,schedule,memory");
        mpc_program *p = g != NULL ? mpc_codegen(g, &options) : NULL;
        mpc_alloc_fail_after(0);
        done = p != NULL;
        failures += p == NULL;
        mpc_program_destroy(p);
        mpc_graph_destroy(g);
    }
    CHECK(done && failures > 50);
    end(&f);
}

int main(void) {
    softmax_is_one_kernel();
    casts_split_no_group();
    long_column_sums_are_two_launches();
    heads_are_strides();
    updates_are_one_skippable_launch_in_place();
    readers_of_old_values_come_first();
    impossible_places_cost_a_copy();
    old_values_survive_as_outputs();
    dead_values_give_their_memory_back();
    the_checker_sees_broken_plans();
    smaller_batches_reuse_kernels();
    text_is_deterministic();
    failing_memory_is_reported();
    return check_result();
}
