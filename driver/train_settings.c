/* The table of the update's numbers. A new argument of an optimizer or schedule is a row here, a row of
 * frontend/train_calls.c and an option of the pass; settings that aren't numbers have their lines in the readers. */
#include "driver/train_settings.h"

#include <stddef.h>
#include <string.h>

#define FIELD(f) offsetof(mpc_train_config, f)
static const mpc_train_setting rows[] = {
    {"optimizer.lr", "lr", FIELD(optimizer.lr), false},
    {"optimizer.momentum", "momentum", FIELD(optimizer.momentum), false},
    {"optimizer.beta1", "beta1", FIELD(optimizer.beta1), false},
    {"optimizer.beta2", "beta2", FIELD(optimizer.beta2), false},
    {"optimizer.eps", "eps", FIELD(optimizer.eps), false},
    {"optimizer.weight_decay", "decay", FIELD(optimizer.weight_decay), false},
    {"schedule.warmup", "warmup", FIELD(schedule.warmup), true},
    {"schedule.final", "final", FIELD(schedule.final), false},
    {"schedule.every", "every", FIELD(schedule.every), true},
    {"schedule.factor", "factor", FIELD(schedule.factor), false},
    {"clip_norm", "clip", FIELD(clip_norm), false},
    {"clip_value", "clip_value", FIELD(clip_value), false},
};

const mpc_train_setting *mpc_train_setting_at(size_t i) { return i < sizeof rows / sizeof *rows ? &rows[i] : NULL; }

double mpc_train_setting_number(const mpc_train_config *t, const mpc_train_setting *s) {
    double value;
    memcpy(&value, (const char *)t + s->offset, sizeof value);
    return value;
}

mpc_quantity mpc_train_setting_quantity(const mpc_train_config *t, const mpc_train_setting *s) {
    mpc_quantity value;
    memcpy(&value, (const char *)t + s->offset, sizeof value);
    return value;
}

const char *mpc_train_second_format(const char *precision, const char *also) {
    bool low = strcmp(precision, "f16") == 0 || strcmp(precision, "bf16") == 0;
    return low && strcmp(also, "none") != 0 && strcmp(also, precision) != 0 ? also : NULL;
}

bool mpc_train_has_loss_scale(const char *precision, const char *also) {
    const char *second = mpc_train_second_format(precision, also);
    return strcmp(precision, "f16") == 0 || (second && strcmp(second, "f16") == 0);
}
