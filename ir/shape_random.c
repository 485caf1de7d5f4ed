/* Shapes of the draws beside the uniform one: their numbers come from base/rng.h, so the only thing to check is the
 * rate. A draw is f32 whatever the graph computes in: which elements are hit is not a matter of precision. */
#include "ir/rules.h"
#include "ir/shape_util.h"

bool mpc_shape_bernoulli(mpc_infer *in) {
    double p = mpc_infer_float(in, "p");
    if (!(p >= 0 && p <= 1)) return mpc_infer_fail(in, MPC_NO_OPERAND, "p must lie in [0, 1], it is %g", p);
    return mpc_shape_random(in);
}

/* One draw for each index of the first axis. */
bool mpc_shape_drop_path(mpc_infer *in) { return mpc_infer_want_min_rank(in, 0, 1) && mpc_shape_dropout(in); }
