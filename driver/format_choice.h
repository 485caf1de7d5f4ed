/* The formats that a step runs in where f16 is among those asked for: a value that is f16 means a loss scale, which
 * costs time of its own, so an assignment is weighed in the step that it runs in. */
#ifndef MPC_DRIVER_FORMAT_CHOICE_H
#define MPC_DRIVER_FORMAT_CHOICE_H

#include "driver/session.h"
#include "passes/precision/cost.h"

typedef struct mpc_formats_tried { /* a training step, decided and priced */
    const char *precision, *also;  /* that it runs in; "none": no second one */
    bool scaled;                   /* has a loss scale */
    bool as_list;                  /* mincut took the formats of the solver list (W155) */
    mpc_graph *graph;              /* the caller destroys it; NULL: it failed */
    mpc_plan_cost cost;
    double bound;       /* no assignment of these formats that keeps the hard rules is faster; 0: not known */
    double f16_seconds; /* of the best with a loss scale and a value in f16; 0: there is none */
    double f32_seconds; /* of a step without any low format or loss scale; 0: not asked for */
} mpc_formats_tried;

/* The assignment of the nominal training step by the solver of `train`, as it would run: without f16 and its loss scale
 * where no value is f16, or where mincut finds what is faster so. `choices`: filled by solvers that weigh costs; NULL:
 * no bound. false after diagnostics. */
bool mpc_formats_try(mpc_session *s, const mpc_train_config *train, mpc_plan_choices *choices, mpc_formats_tried *out);

/* Once per session, before the first training step is made: takes f16 and its loss scale out of the train section where
 * the assignment needs neither, with note W157; a run that is gone on with keeps what it had. false after diagnostics.
 */
bool mpc_formats_settle(mpc_session *s);

#endif
