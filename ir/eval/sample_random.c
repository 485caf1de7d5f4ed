/* Samples of the draws beside the uniform one: sizes that are no multiple of a block of four, rates at both ends. */
#include "ir/eval/sample_util.h"
#include "ir/rules.h"

static bool add_source(mpc_sample *s) {
    return mpc_sample_number(s, MPC_FMT_i64, -987654321) && mpc_sample_number(s, MPC_FMT_i32, 3 + s->variant) &&
           mpc_sample_attr(s, MPC_A_INT("stream", 0x0fedcba987654321));
}

bool mpc_sample_bernoulli(mpc_sample *s) {
    static const double rates[] = {0.3, 0, 1};
    return s->variant < 3 && add_source(s) && mpc_sample_attr_ints(s, "shape", 2, (const int64_t[]){53, 7}) &&
           mpc_sample_attr(s, MPC_A_FLOAT("p", rates[s->variant]));
}

bool mpc_sample_drop_path(mpc_sample *s) {
    static const double rates[] = {0.25, 0, 0.9};
    if (s->variant > 2) return false;
    bool flat = s->variant == 1;
    if (flat ? !mpc_sample_reals(s, -2, 2, MPC_DIMS(19)) : !mpc_sample_reals(s, -2, 2, MPC_DIMS(13, 5, 7)))
        return false;
    return add_source(s) && mpc_sample_attr(s, MPC_A_FLOAT("rate", rates[s->variant]));
}
