/* A CSV, plain or gzip, with the header found out and with `;` and no header: all columns as numbers, the last as a
 * class. */
#include "tests/fuzz/rows.h"

static mpc_dataset *open_found_out(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_csv(path, &(mpc_csv_options){.header = -1, .delimiter = ','}, sink);
}
static mpc_dataset *open_bare(const char *path, const mpc_sink *sink) {
    return mpc_dataset_open_csv(path, &(mpc_csv_options){.header = 0, .delimiter = ';', .keep_nonfinite = true}, sink);
}

static void use(mpc_dataset *set) {
    int64_t columns = mpc_dataset_columns(set);
    char all[40], last[40];
    snprintf(all, sizeof all, "columns[0:%lld]", (long long)columns);
    snprintf(last, sizeof last, "columns[%lld]", (long long)columns - 1);
    const mpc_data_field x = {.source = all, .where = "", .row_type = {MPC_FMT_f32, 1, {columns}}};
    const mpc_data_field y = {.source = last, .where = "", .row_type = {MPC_FMT_i32, 0, {0}}, .hi = 10};
    fuzz_gather(set, &x, 1);
    fuzz_gather(set, &y, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_data(data, size, open_found_out, use);
    fuzz_data(data, size, open_bare, use);
    return 0;
}
