/* The learning rate of a schedule, as the op `schedule` defines it; the driver tells it too, before anything runs. */
#ifndef MPC_IR_SCHEDULE_RATE_H
#define MPC_IR_SCHEDULE_RATE_H

#include <stdbool.h>

typedef struct mpc_schedule_rule {
    const char *kind; /* constant, cosine, linear, step */
    double rate;
    double warmup, total; /* in updates */
    double final;         /* cosine, linear: fraction of `rate` at `total` */
    double every, factor; /* step: updates, and what they multiply the rate by */
} mpc_schedule_rule;

bool mpc_schedule_is_known(const char *kind);
/* Does the kind need to know how many updates there will be? */
bool mpc_schedule_needs_total(const char *kind);
/* Rate of the update that follows `applied` ones. */
double mpc_schedule_rate(const mpc_schedule_rule *rule, double applied);

#endif
