/* A CSV, plain or gzip, with the header found out and with `;` and no header: all columns as numbers, the last as a
 * class. */
#include "tests/fuzz/rows.h"

static void read_with(const uint8_t *data, size_t size, const mpc_csv_options *options) {
    fuzz_diags d = fuzz_diags_open();
    fuzz_file f = fuzz_file_open(data, size);
    mpc_dataset *set = mpc_dataset_open_csv(f.path, options, &d.sink);
    fuzz_require(set || fuzz_said_error(&d), "a file that isn't read is explained");
    if (set) {
        int64_t columns = mpc_dataset_columns(set);
        char all[40], last[40];
        snprintf(all, sizeof all, "columns[0:%lld]", (long long)columns);
        snprintf(last, sizeof last, "columns[%lld]", (long long)columns - 1);
        const mpc_data_field x = {.source = all, .where = "", .row_type = {MPC_FMT_f32, 1, {columns}}};
        const mpc_data_field y = {.source = last, .where = "", .row_type = {MPC_FMT_i32, 0, {0}}, .hi = 10};
        fuzz_gather(set, &x, 1);
        fuzz_gather(set, &y, 1);
    }
    mpc_dataset_destroy(set);
    fuzz_file_close(&f);
    fuzz_diags_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_with(data, size, &(mpc_csv_options){.header = -1, .delimiter = ','});
    read_with(data, size, &(mpc_csv_options){.header = 0, .delimiter = ';', .keep_nonfinite = true});
    return 0;
}
