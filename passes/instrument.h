/* Ready-made hooks for a pipeline: text after passes, only what changed, times, a file per pass, and a reproducer when a pass fails.
 * Text is collected, never printed: the caller shows it. */
#ifndef MPC_PASSES_INSTRUMENT_H
#define MPC_PASSES_INSTRUMENT_H

#include "passes/pass.h"

typedef struct mpc_instrument_options {
    const char *print_after; /* names of passes separated by commas, "*": all; NULL: none */
    bool print_changed; /* of those, only passes that changed the graph */
    bool time_passes;
    bool stats; /* nodes and casts after each pass */
    bool verify_each;
    const char *dump_dir; /* an existing folder: NN-PASS.mpir after each pass, and reproducer.mpir when one fails; NULL: none */
    unsigned print_flags; /* of mpc_graph_print; 0: all */
} mpc_instrument_options;

typedef struct mpc_instrument mpc_instrument;
mpc_instrument *mpc_instrument_create(const mpc_instrument_options *options); /* strings must outlive it; NULL: out of memory */
void mpc_instrument_destroy(mpc_instrument *i);
mpc_pipeline_hooks mpc_instrument_hooks(mpc_instrument *i);
/* What was collected: printed graphs, then the table of times. */
const char *mpc_instrument_text(mpc_instrument *i);
/* After a failed pass: a file for `mpc opt` that fails in the same way, as text; "" when none failed. */
const char *mpc_instrument_reproducer(const mpc_instrument *i);

#endif
