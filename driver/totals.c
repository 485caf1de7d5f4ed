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
    *m = (mpc_meter){.losses = mpc_alloc((3 * losses + 2 * metrics + 1) * sizeof *m->losses)};
    if (!m->losses) return false;
    m->counts = m->losses + losses;
    m->weights = m->counts + losses;
    m->nums = m->weights + losses;
    m->dens = m->nums + metrics;
    for (uint32_t k = 0; k < losses; k++) {
        m->losses[k] = find_output(step, "loss.%s", mpc_model_loss(model, k));
        m->counts[k] = find_output(step, "count.%s", mpc_model_loss(model, k));
        m->weights[k] = find_output(step, "weight.%s", mpc_model_loss(model, k));
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
    t->sums = mpc_alloc((mpc_totals_sum_count(t) + 1) * sizeof *t->sums);
    if (t->sums) mpc_totals_clear(t);
    return t->sums != NULL;
}

void mpc_totals_deinit(mpc_totals *t) { mpc_free(t->sums); }

size_t mpc_totals_sum_count(const mpc_totals *t) { return 3 * (size_t)t->loss_count + 2 * (size_t)t->metric_count; }

void mpc_totals_clear(mpc_totals *t) { memset(t->sums, 0, mpc_totals_sum_count(t) * sizeof *t->sums); }

static double *loss_counts(const mpc_totals *t) { return t->sums + 2 * t->loss_count; }

static double *metric_nums(const mpc_totals *t) { return t->sums + 3 * t->loss_count; }

/* A weight may differ between batches: `weight 1 / batch`. */
static void add_loss(mpc_totals *t, uint32_t k, double mean, double count, double weight) {
    if (count <= 0) return;
    t->sums[k] += mean * count;
    t->sums[t->loss_count + k] += weight * (mean * count);
    loss_counts(t)[k] += count;
}

void mpc_totals_add(mpc_totals *t, const mpc_meter *m, mpc_step *step) {
    double *nums = metric_nums(t), *dens = nums + t->metric_count;
    for (uint32_t k = 0; k < t->loss_count; k++)
        add_loss(t, k, mpc_step_scalar(step, m->losses[k], NAN), mpc_step_scalar(step, m->counts[k], 1),
                 mpc_step_scalar(step, m->weights[k], 1));
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

double mpc_totals_loss(const mpc_totals *t) {
    double total = 0;
    for (uint32_t k = 0; k < t->loss_count; k++)
        if (loss_counts(t)[k] > 0) total += t->sums[t->loss_count + k] / loss_counts(t)[k];
    return ratio(total, mpc_totals_count(t) > 0 ? 1 : 0);
}

double mpc_totals_count(const mpc_totals *t) {
    double count = 0;
    for (uint32_t k = 0; k < t->loss_count; k++) count += loss_counts(t)[k];
    return count;
}

double mpc_totals_loss_at(const mpc_totals *t, uint32_t k) { return ratio(t->sums[k], loss_counts(t)[k]); }

double mpc_totals_metric_at(const mpc_totals *t, uint32_t k) {
    const double *nums = metric_nums(t), *dens = nums + t->metric_count;
    double mean = ratio(nums[k], dens[k]);
    return mpc_model_metric(t->model, k)->exponential ? exp(mean) : mean;
}

double mpc_totals_loss_weight(const mpc_totals *t, uint32_t k) { return loss_counts(t)[k]; }

double mpc_totals_metric_weight(const mpc_totals *t, uint32_t k) { return metric_nums(t)[t->metric_count + k]; }

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
