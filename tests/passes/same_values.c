/* Clean-up and lowering change no bit: whole models, trained a few steps by the evaluator under different legal
 * pipelines, end with the same states. */
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "step_sim.h"

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (file == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, file) == 0) abort();
    fclose(file);
    return text;
}

static step_sim *train(const char *text, const char *front, const char *tail) {
    mpc_str pipeline = {0};
    mpc_str_printf(&pipeline, "%s,%s", front, tail);
    step_sim *s = sim_create(text, mpc_str_cstr(&pipeline));
    mpc_str_free(&pipeline);
    for (uint64_t step = 0; s != NULL && step < 3; step++) {
        if (step == 0) sim_randomize(s, 7);
        CHECK(sim_step(s));
    }
    return s;
}

static void agree(const char *path, const char *front, const char *const *tails, size_t count) {
    char *text = read_file(path);
    step_sim *first = train(text, front, tails[0]);
    CHECK_MSG(first != NULL, "%s %s", path, tails[0]);
    CHECK(first == NULL || sim_state(first, "step.applied", 0) == 3);
    for (size_t i = 1; first != NULL && i < count; i++) {
        step_sim *other = train(text, front, tails[i]);
        CHECK_MSG(other != NULL && sim_same_states(first, other), "%s: %s", path, tails[i]);
        CHECK(other != NULL && sim_output(first, "loss") == sim_output(other, "loss"));
        sim_destroy(other);
    }
    sim_destroy(first);
    free(text);
}

int main(void) {
    static const char *const models[] = {"tests/passes/models/mlp.mpir", "tests/passes/models/attention.mpir",
                                         "tests/passes/models/convolution.mpir"};
    static const char *const formats[] = {"f32", "bf16", "f16"};
    static const char *const composite[] = {"dce", "fold,dce", "cse,dce", "fold-casts,dce",
                                            "cse,fold,fold-casts,cse,fold,dce"};
    static const char *const primitive[] = {"dce,expand,dce", "dce,expand,fold,dce", "fold,cse,dce,expand,cse,dce",
                                            "dce,expand,@clean,fold-casts,dce", "@clean,fold-casts,@lower"};
    /* Attention evaluated as one op and as its expansion differ in the last bits; among themselves they must not. */
    static const char *const kept[] = {"dce,expand{keep=attention}", "@clean,expand{keep=attention},@clean,fold-casts",
                                       "@clean,fold-casts,@lower{expand.keep=attention}"};
    for (size_t m = 0; m < 3; m++)
        for (size_t f = 0; f < 3; f++) {
            mpc_str front = {0};
            mpc_str_printf(&front,
                           "grad,loss-scale{mode=%s "
                           "init=1024},optimizer{clip=1},guard,autocast{format=%s},insert-casts,master-weights",
                           f == 2 ? "dynamic" : "none", formats[f]);
            agree(models[m], mpc_str_cstr(&front), composite, sizeof composite / sizeof *composite);
            agree(models[m], mpc_str_cstr(&front), primitive, sizeof primitive / sizeof *primitive);
            agree(models[m], mpc_str_cstr(&front), kept, sizeof kept / sizeof *kept);
            mpc_str_free(&front);
        }
    return check_result();
}
