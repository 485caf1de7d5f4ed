/* The train section as options of passes. Numbers are written with all their digits, since the text is what decides. */
#include <string.h>

#include "driver/session.h"
#include "driver/train_settings.h"

static const char *const STAGES[] = {"parsed", "grad", "autocast", "lowered", "fused", "final", "decided"};

bool mpc_stage_find(const char *name, mpc_stage *stage) {
    for (size_t i = 0; i < sizeof STAGES / sizeof *STAGES; i++)
        if (strcmp(STAGES[i], name) == 0) {
            *stage = (mpc_stage)i;
            return true;
        }
    return false;
}

static void option(mpc_str *out, const char *key, double value) {
    mpc_str_printf(out, " %s=", key);
    mpc_str_append_double(out, value);
}

static void loss_scale(const mpc_train_config *t, mpc_str *out) {
    const mpc_scale_config *c = &t->loss_scale;
    bool on = mpc_train_has_loss_scale(t->precision, t->also);
    mpc_str_printf(out, "loss-scale{mode=%s", !on ? "none" : c->dynamic ? "dynamic" : "static");
    if (on) {
        option(out, "init", c->init);
        option(out, "growth", c->growth);
        option(out, "backoff", c->backoff);
        option(out, "max", c->max);
        option(out, "min", c->min);
        mpc_str_printf(out, " interval=%lld", (long long)c->interval);
    }
    mpc_str_append(out, "}");
}

static double in_updates(const mpc_session *s, mpc_quantity q) {
    return q.unit == MPC_UNIT_EPOCHS ? q.value * (double)s->updates_per_epoch : q.value;
}

static void optimizer(const mpc_session *s, mpc_str *out) {
    const mpc_train_config *t = s->train;
    mpc_str_printf(out, "optimizer{kind=%s accumulate=%lld nominal=%lld schedule=%s", t->optimizer.kind,
                   (long long)t->accumulate, (long long)t->batch, t->schedule.kind);
    const mpc_train_setting *row;
    for (size_t i = 0; (row = mpc_train_setting_at(i)) != NULL; i++)
        option(out, row->option, row->is_quantity ? in_updates(s, mpc_train_setting_quantity(t, row))
                                                  : mpc_train_setting_number(t, row));
    option(out, "total", s->total_updates);
    mpc_str_append(out, "}");
}

static void own_passes(const mpc_session *s, mpc_phase phase, mpc_stage stage, mpc_str *out) {
    const mpc_train_config *t = s->train;
    if (stage == MPC_STAGE_PARSED) return;
    if (phase == MPC_PHASE_TRAIN) {
        mpc_str_append(out, s->each_gradient ? "grad{each=true}" : "grad");
        if (stage == MPC_STAGE_GRAD) return;
        mpc_str_append(out, s->watch_choices ? ",watch-choices," : s->given_choices ? ",watch-choices{given=true}," : ",");
        loss_scale(t, out);
        mpc_str_append(out, ",");
        optimizer(s, out);
        mpc_str_printf(out, ",guard{on_nonfinite=%s},", t->on_nonfinite);
    } else if (stage == MPC_STAGE_GRAD) {
        return;
    }
    const char *agree = mpc_model_agreements(s->model);
    mpc_str_printf(out, "autocast{format=%s solver=%s", t->precision, s->loss_budget > 0 ? "mincut" : t->solver);
    const char *second = mpc_train_second_format(t->precision, t->also);
    if (second) mpc_str_printf(out, " also=%s", second);
    if (agree && *agree && phase != MPC_PHASE_MEASURE) mpc_str_printf(out, " agree=\"%s\"", agree);
    mpc_str_append(out, "}");
    if (stage == MPC_STAGE_DECIDED) return;
    mpc_str_append(out, ",insert-casts,master-weights");
    if (stage >= MPC_STAGE_LOWERED) {
        const char *kept =
            s->device == MPC_DEVICE_CUDA ? "{keep=attention}" : ""; /* it has a kernel for the whole op */
        mpc_str_printf(out, ",@clean,fold-casts,expand%s,@clean", kept);
    }
    if (stage >= MPC_STAGE_FUSED) mpc_str_append(out, ",fuse");
    if (stage >= MPC_STAGE_FINAL) mpc_str_append(out, ",schedule,memory");
}

void mpc_pipeline_text_for(const mpc_session *s, mpc_phase phase, mpc_stage stage, mpc_str *out) {
    mpc_str text = {0};
    own_passes(s, phase, stage, &text);
    mpc_add_passes(&s->added_passes, &text);
    out->failed = out->failed || text.failed;
    mpc_str_append(out, mpc_str_cstr(&text));
    mpc_str_free(&text);
}
