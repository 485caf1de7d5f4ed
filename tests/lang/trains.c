/* `trains`: the gradient of each parameter is that of the losses that train it and of no other, all at the same
 * parameters; equal to those of models in which the other parameters are frozen and the other losses left out. */
#include <math.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "passes/passes.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

enum { BATCH = 3 };

static mpc_tensor make(mpc_arena *arena, const char *name, const mpc_type *type) {
    mpc_tensor t = mpc_tensor_make(arena, type);
    for (int64_t i = 0; i < mpc_type_elements(&t.type); i++) {
        uint64_t h = (mpc_hash_str(name) ^ (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
        double u = (double)((h ^ h >> 31) >> 12) * 0x1p-51 - 1;
        t.data[i] = mpc_format_is_float(type->format) ? u : (double)(h % 2);
    }
    return t;
}

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    return make(user, mpc_attr_str(g, state, "name"), mpc_value_type(g, mpc_result(state, 0)));
}

typedef struct step {
    session s;
    mpc_graph *g;
    mpc_arena *arena;
    mpc_tensor *values;
} step;

/* The model with `losses` and `params`, differentiated and evaluated in the formats of the graph. */
static step run(const char *losses, const char *params) {
    step t = {0};
    mpc_str text = {0};
    mpc_str_printf(
        &text,
        "block generator(z) { return tanh(linear(relu(linear(z, 8) as fc1), 6) as fc2) }\n"
        "block critic(x) { return linear(leaky_relu(layer_norm(linear(x, 8) as fc1) as norm, 0.2), 1) as fc2 }\n"
        "model gan(image: f32[batch, 6], noise: f32[batch, 4], real: bool[batch]) {\n"
        "    gen = generator(_)\n    disc = critic(_)\n    fake = gen(noise)\n"
        "    real_score = disc(image)[:, 0]\n    fake_score = disc(fake)[:, 0]\n%s\n}\nparams {\n%s\n}\n",
        losses, params);
    open_text(&t.s, "trains.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_passes_register(t.s.ctx);
    mpc_graph *forward = elaborate(&t.s, MPC_PHASE_TRAIN, BATCH);
    mpc_pass_env env = {.ctx = t.s.ctx};
    t.g = forward ? mpc_pass_grad(forward, NULL, &env) : NULL;
    if (!t.g) show_diagnostics(t.s.diags, t.s.sources);
    CHECK_MSG(t.g && mpc_graph_verify(t.g) == MPC_OK, "%s", mpc_str_cstr(&text));
    t.arena = mpc_arena_create();
    if (t.g) {
        t.values = mpc_arena_alloc(t.arena, (t.g->value_count + 1) * sizeof *t.values);
        mpc_tensor inputs[4];
        for (uint32_t i = 0; i < t.g->input_count && i < 4; i++) {
            mpc_value_id v = t.g->inputs[i].value;
            inputs[i] = make(t.arena, mpc_value_name(t.g, v), mpc_value_type(t.g, v));
        }
        mpc_eval_options options = {0};
        CHECK(mpc_evaluate(t.g, inputs, read_state, t.arena, &options, t.arena, t.values) == MPC_OK);
    }
    mpc_graph_destroy(forward);
    mpc_str_free(&text);
    return t;
}

static void end(step *t) {
    mpc_arena_destroy(t->arena);
    mpc_graph_destroy(t->g);
    close_session(&t->s);
}

static const mpc_tensor *output(const step *t, const char *name) {
    mpc_value_id v = t->g ? mpc_graph_find_output(t->g, name) : MPC_NONE;
    return v == MPC_NONE ? NULL : &t->values[v];
}

/* Every gradient of `part` is in `whole`, bit for bit; their number. */
static unsigned same_gradients(const step *whole, const step *part) {
    unsigned n = 0;
    for (uint32_t i = 0; part->g && i < part->g->output_count; i++) {
        const char *name = mpc_sym_text(part->g->ctx, part->g->outputs[i].name);
        if (strncmp(name, "grad:", 5) != 0) continue;
        const mpc_tensor *a = output(whole, name), *b = output(part, name);
        bool same = a && mpc_type_elements(&a->type) == mpc_type_elements(&b->type);
        bool zero = true;
        for (int64_t k = 0; same && k < mpc_type_elements(&a->type); k++) {
            same = a->data[k] == b->data[k];
            zero = zero && b->data[k] == 0;
        }
        CHECK_MSG(same && !zero, "%s", name);
        n++;
    }
    return n;
}

static unsigned gradients(const step *t) {
    unsigned n = 0;
    for (uint32_t i = 0; t->g && i < t->g->output_count; i++)
        n += strncmp(mpc_sym_text(t->g->ctx, t->g->outputs[i].name), "grad:", 5) == 0;
    return n;
}

#define CRITIC "    loss d = softplus(-real_score) + softplus(fake_score)"
#define GENERATOR "    loss g = softplus(-fake_score) where real weight 0.5"

static void two_losses(void) {
    step both = run(CRITIC "  trains \"disc.**\"\n" GENERATOR "  trains \"gen.**\"", "");
    step critic = run(CRITIC, "\"gen.**\" { freeze = true }"),
         generator = run(GENERATOR, "\"disc.**\" { freeze = true }");
    CHECK(same_gradients(&both, &critic) == 6 && same_gradients(&both, &generator) == 4 && gradients(&both) == 10);
    CHECK_MSG(both.g && count_op(both.g, MPC_OP_linear) == count_op(critic.g, MPC_OP_linear),
              "one forward part for both walks");
    const mpc_tensor *total = output(&both, "loss"), *d = output(&critic, "loss"), *g = output(&generator, "loss");
    CHECK(total && d && g && fabs(total->data[0] - d->data[0] - g->data[0]) < 1e-6);
    const mpc_tensor *counts[] = {output(&both, "group.1.count"), output(&both, "group.2.count"),
                                  output(&generator, "count")};
    CHECK(counts[0] && counts[1] && counts[0]->data[0] == BATCH && counts[1]->data[0] == counts[2]->data[0]);
    end(&both);
    end(&critic);
    end(&generator);
}

/* Losses with the same selectors are one group. */
static void added_losses(void) {
    static const char *const more = "    loss r = mean(abs(fake - image))";
    char two[512], one[512];
    snprintf(two, sizeof two, "%s trains \"disc.**\"\n%s trains \"gen.**\"\n%s trains \"gen.**\"", CRITIC, GENERATOR,
             more);
    snprintf(one, sizeof one, "%s\n%s", GENERATOR, more);
    step both = run(two, ""), generator = run(one, "\"disc.**\" { freeze = true }");
    CHECK(same_gradients(&both, &generator) == 4 && gradients(&both) == 10);
    end(&both);
    end(&generator);
}

/* A frozen parameter needs no loss; the name of the group stands on the state. */
static void frozen(void) {
    step t =
        run(CRITIC "  trains \"disc.fc*.*\"\n" GENERATOR "  trains \"gen.**\"", "\"disc.norm.*\" { freeze = true }");
    CHECK(gradients(&t) == 8);
    const mpc_node *gen = find_state(t.g, "gen.fc1.weight"), *disc = find_state(t.g, "disc.fc1.weight"),
                   *norm = find_state(t.g, "disc.norm.weight");
    CHECK(gen && disc && norm && mpc_attr_int(t.g, gen, "group") == 2 && mpc_attr_int(t.g, disc, "group") == 1 &&
          mpc_attr_int(t.g, norm, "group") == 0);
    end(&t);
}

int main(void) {
    two_losses();
    added_losses();
    frozen();
    return check_result();
}
