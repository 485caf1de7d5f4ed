/* Trainings of small models through the driver's session, with the rows of every step chosen by the test: what the
 * training loop does between reading rows and writing records. */
#ifndef MPC_TESTS_NUMERICS_TRAIN_RUN_H
#define MPC_TESTS_NUMERICS_TRAIN_RUN_H

#include "driver/session.h"

typedef struct train_run train_run;
/* `rows`: text of a CSV file; the model calls it "rows.csv". `settings`: KEY=VALUE, NULL at the end; may be NULL. NULL
 * when something is refused; then train_refusal() has the code of the first error. */
train_run *train_open(const char *device, const char *model, const char *rows, const char *const *settings);
void train_close(train_run *t);
const char *train_refusal(void);

/* A step on rows begin .. begin + count - 1; `flush`: the window ends here. */
bool train_step(train_run *t, uint32_t begin, uint32_t count, bool flush);
/* Of the last step. NaN and a message when there is none of that name. */
double train_output(train_run *t, const char *name);
/* An element of a state, or of its copy in a low format. */
double train_state(train_run *t, const char *name, uint32_t element);
double train_copy(train_run *t, const char *name, mpc_format derived, uint32_t element);
bool train_has_state(train_run *t, const char *name, mpc_format derived);
mpc_store *train_store(train_run *t);

/* Remembers all states; compares those with this `skip` to what was remembered, to the bit, and names what differs. */
void train_remember(train_run *t);
bool train_unmoved(train_run *t, const char *skip);
/* The remembered states of `from`, copies left out as in a checkpoint. */
void train_restore(train_run *t, const train_run *from);
bool train_same_states(train_run *a, train_run *b);

#endif
