/* Sums behind the figures. A batch in which nothing counts has weight 0 and adds nothing, whatever its mean says. */
#include "driver/totals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static uint32_t find_output(const mpc_step *step, const char *format, const char *name) {
    mpc_str text = {0};
    mpc_str_printf(&text, format, name);
    uint32_t index = text.failed ? MPC_NONE : mpc_step_output(step, text.data);
    mpc_str_free(&text);
    return index;
}

bool mpc_meter_init(mpc_meter *m, const mpc_step *step) {
    const mpc_model *model = step->session->model;
    uint32_t losses = (uint32_t)mpc_model_loss_count(model), metrics = (uint32_t)mpc_model_metric_count(model);
    *m = (mpc_meter){.loss = mpc_step_output(step, "loss"), .count = mpc_step_output(step, "count")};
    m->losses = mpc_alloc((2 * losses + 2 * metrics + 1) * sizeof *m->losses);
    if (!m->losses) return false;
    m->counts = m->losses + losses;
    m->nums = m->counts + losses;
    m->dens = m->nums + metrics;
    for (uint32_t k = 0; k < losses; k++) {
        m->losses[k] = find_output(step, "loss.%s", mpc_model_loss(model, k));
        m->counts[k] = find_output(step, "count.%s", mpc_model_loss(model, k));
    }
    for (uint32_t k = 0; k < metrics; k++) {
        m->nums[k] = find_output(step, "metric.%s.num", mpc_model_metric(model, k)->name);
        m->dens[k] = find_output(step, "metric.%s.den", mpc_model_metric(model, k)->name);
    }
    return true;
}

void mpc_meter_deinit(mpc_meter *m) { mpc_free(m->losses); }

bool mpc_totals_init(mpc_totals *t, const mpc_model *model) {
    *t = (mpc_totals){.model = model,
                      .loss_count = (uint32_t)mpc_model_loss_count(model),
                      .metric_count = (uint32_t)mpc_model_metric_count(model)};
    t->sums = mpc_alloc((2 * t->loss_count + 2 * t->metric_count + 1) * sizeof *t->sums);
    if (t->sums) mpc_totals_clear(t);
    return t->sums != NULL;
}

void mpc_totals_deinit(mpc_totals *t) { mpc_free(t->sums); }

void mpc_totals_clear(mpc_totals *t) {
    t->loss = t->count = 0;
    memset(t->sums, 0, (2 * t->loss_count + 2 * t->metric_count + 1) * sizeof *t->sums);
}

static void add_weighted(double *sum, double *weight, double mean, double count) {
    if (count <= 0) return;
    *sum += mean * count;
    *weight += count;
}

void mpc_totals_add(mpc_totals *t, const mpc_meter *m, mpc_step *step) {
    double *loss_sums = t->sums, *loss_counts = t->sums + t->loss_count;
    double *nums = loss_counts + t->loss_count, *dens = nums + t->metric_count;
    add_weighted(&t->loss, &t->count, mpc_step_scalar(step, m->loss, NAN), mpc_step_scalar(step, m->count, 1));
    for (uint32_t k = 0; k < t->loss_count; k++)
        add_weighted(&loss_sums[k], &loss_counts[k], mpc_step_scalar(step, m->losses[k], NAN),
                     mpc_step_scalar(step, m->counts[k], 1));
    for (uint32_t k = 0; k < t->metric_count; k++) {
        nums[k] += mpc_step_scalar(step, m->nums[k], 0);
        dens[k] += mpc_step_scalar(step, m->dens[k], 0);
    }
}

/* NaN without sign, whatever arithmetic made it. */
static double ratio(double sum, double count) {
    double mean = count > 0 ? sum / count : (double)NAN;
    return isnan(mean) ? fabs(mean) : mean;
}

double mpc_totals_loss(const mpc_totals *t) { return ratio(t->loss, t->count); }

double mpc_totals_loss_at(const mpc_totals *t, uint32_t k) { return ratio(t->sums[k], t->sums[t->loss_count + k]); }

double mpc_totals_metric_at(const mpc_totals *t, uint32_t k) {
    const double *nums = t->sums + 2 * t->loss_count, *dens = nums + t->metric_count;
    double mean = ratio(nums[k], dens[k]);
    return mpc_model_metric(t->model, k)->exponential ? exp(mean) : mean;
}

double mpc_totals_loss_weight(const mpc_totals *t, uint32_t k) { return t->sums[t->loss_count + k]; }

double mpc_totals_metric_weight(const mpc_totals *t, uint32_t k) {
    return t->sums[2 * t->loss_count + t->metric_count + k];
}

bool mpc_totals_find(const mpc_totals *t, const char *name, double *value, bool *higher_is_better) {
    for (uint32_t k = 0; k < t->metric_count; k++) {
        const mpc_metric_info *metric = mpc_model_metric(t->model, k);
        if (strcmp(metric->name, name) != 0) continue;
        *value = mpc_totals_metric_at(t, k);
        *higher_is_better = metric->higher_is_better;
        return true;
    }
    *higher_is_better = false;
    if (strcmp(name, "loss") == 0) {
        *value = mpc_totals_loss(t);
        return true;
    }
    for (uint32_t k = 0; k < t->loss_count; k++)
        if (strncmp(name, "loss.", 5) == 0 && strcmp(name + 5, mpc_model_loss(t->model, k)) == 0) {
            *value = mpc_totals_loss_at(t, k);
            return true;
        }
    return false;
}
