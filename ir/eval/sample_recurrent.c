/* Samples of the recurrent layers: several steps forward and in reverse, one step alone. The saved operands of the
 * gradient ops are made by the forward op. */
#include <string.h>

#include "ir/eval/sample_util.h"
#include "ir/rules.h"

enum { VARIANTS = 3, SAVED = 3 };

static const struct {
    int64_t b, t, c, h;
    bool reverse;
} layers[VARIANTS] = {{2, 4, 3, 5, false}, {3, 3, 4, 8, true}, {2, 1, 5, 3, false}};

static bool add_weights(mpc_sample *s, int64_t gates) {
    int64_t b = layers[s->variant].b, t = layers[s->variant].t, c = layers[s->variant].c, h = layers[s->variant].h;
    return mpc_sample_reals(s, -1.5, 1.5, MPC_DIMS(b, t, c)) &&
           mpc_sample_reals(s, -0.8, 0.8, MPC_DIMS(c, gates * h)) &&
           mpc_sample_reals(s, -0.8, 0.8, MPC_DIMS(h, gates * h)) &&
           mpc_sample_reals(s, -0.5, 0.5, MPC_DIMS(gates * h)) &&
           mpc_sample_attr(s, MPC_A_BOOL("reverse", layers[s->variant].reverse));
}

static bool add_state(mpc_sample *s) {
    return mpc_sample_reals(s, -1, 1, MPC_DIMS(layers[s->variant].b, layers[s->variant].h));
}

bool mpc_sample_lstm(mpc_sample *s) {
    return s->variant < VARIANTS && add_weights(s, 4) && add_state(s) && add_state(s);
}

bool mpc_sample_gru(mpc_sample *s) {
    return s->variant < VARIANTS && add_weights(s, 3) &&
           mpc_sample_reals(s, -0.5, 0.5, MPC_DIMS(layers[s->variant].h)) && add_state(s);
}

/* Operands from `first` on are dropped except the last `states`; then come saved results from `from` on, and the
 * gradients of y and of the states. */
static bool add_saved(mpc_sample *s, mpc_op_id forward, uint32_t states, uint32_t from) {
    mpc_tensor saved[SAVED];
    if (!mpc_sample_forward(s, forward, s->operand_count, saved)) return false;
    memmove(s->operands + 3, s->operands + s->operand_count - states, states * sizeof *s->operands);
    s->operand_count = 3 + states;
    for (uint32_t i = from; i < SAVED; i++)
        if (!mpc_sample_append(s, &saved[i])) return false;
    for (int i = 0; i < (s->variant == 1 ? 2 : 1); i++)
        if (!mpc_sample_reals(s, -1, 1, 3, saved[0].type.dims)) return false;
    return true;
}

bool mpc_sample_lstm_grad(mpc_sample *s) { return mpc_sample_lstm(s) && add_saved(s, MPC_OP_lstm, 2, 0); }

bool mpc_sample_gru_grad(mpc_sample *s) { return mpc_sample_gru(s) && add_saved(s, MPC_OP_gru, 1, 1); }
