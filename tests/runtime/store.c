/* States: found by name and format, flat by class and format, initial values by (seed, name, element) only, low copies
 * bit-exact. */
#include "tests/runtime/program_support.h"

static mpc_value_id add_named(mpc_builder *b, const char *name, mpc_format format, int64_t n, const char *role,
                              const char *init, double a, double std) {
    mpc_type_id type = mpc_type_make(mpc_builder_context(b), format, 1, &n);
    return mpc_build_state(b, name, type,
                           (mpc_attr_arg[]){MPC_A_STR("name", name), MPC_A_STR("role", role), MPC_A_STR("init", init),
                                            MPC_A_FLOAT("a", a), MPC_A_FLOAT("b", std)},
                           5);
}

static void add_copy(mpc_builder *b, const char *name, mpc_format format, int64_t n) {
    mpc_type_id type = mpc_type_make(mpc_builder_context(b), format, 1, &n);
    mpc_builder_set_name(b, format == MPC_FMT_bf16 ? "copy.bf16" : "copy.f16");
    mpc_build_state(
        b, name, type,
        (mpc_attr_arg[]){MPC_A_STR("name", name), MPC_A_STR("role", "copy"), MPC_A_FORMAT("derived", format)}, 3);
}

static void add_rng(mpc_builder *b) {
    mpc_type_id i64 = mpc_type_make(mpc_builder_context(b), MPC_FMT_i64, 0, NULL);
    mpc_build_state(b, "rng.seed", i64, (mpc_attr_arg[]){MPC_A_STR("name", "rng.seed"), MPC_A_STR("role", "rng")}, 2);
}

static mpc_builder *make_many(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "states");
    add_rng(b);
    add_named(b, "fc.weight/m", MPC_FMT_f32, 1000, "moment", "zeros", 0, 0);
    add_named(b, "fc.weight", MPC_FMT_f32, 1000, "param", "normal", 1, 0.5);
    add_copy(b, "fc.weight", MPC_FMT_bf16, 1000);
    add_named(b, "fc.bias", MPC_FMT_f32, 10, "param", "uniform", -2, 6);
    add_copy(b, "fc.weight", MPC_FMT_f16, 1000);
    add_named(b, "bn.var", MPC_FMT_f32, 10, "stat", "ones", 0, 0);
    add_named(b, "scaler.scale", MPC_FMT_f32, 1, "scaler", "constant", 65536, 0);
    return b;
}

static mpc_builder *make_one(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "states");
    add_named(b, "fc.weight", MPC_FMT_f32, 1000, "param", "normal", 1, 0.5);
    return b;
}

static mpc_builder *make_unknown(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "states");
    add_named(b, "w", MPC_FMT_f32, 3, "param", "xavier", 0, 0);
    return b;
}

static const float *floats(fixture *f, const char *name) { return mpc_store_find(f->store, name, MPC_FMT_none)->data; }

static void check_layout(fixture *f) {
    CHECK(mpc_store_count(f->store) == 8);
    static const char *const order[] = {"fc.weight", "fc.bias", "fc.weight/m",  "fc.weight",
                                        "fc.weight", "bn.var",  "scaler.scale", "rng.seed"};
    const uint8_t *end = NULL;
    for (uint32_t i = 0; i < mpc_store_count(f->store) && i < 8; i++) {
        const mpc_store_entry *e = mpc_store_at(f->store, i);
        CHECK_STR(e->name, order[i]);
        CHECK(((uintptr_t)e->data & 63) == 0);
        CHECK(!end || ((const uint8_t *)e->data >= end && (const uint8_t *)e->data < end + 64));
        end = (const uint8_t *)e->data + e->bytes;
    }
    CHECK(!mpc_store_find(f->store, "fc.weight", MPC_FMT_f8e4m3) && !mpc_store_find(f->store, "fc", MPC_FMT_none));
    CHECK(mpc_store_find(f->store, "fc.weight", MPC_FMT_f16)->type.format == MPC_FMT_f16);
    uint64_t bytes = 0;
    const void *control = mpc_store_control(f->store, &bytes);
    CHECK(bytes == 128 && control == mpc_store_find(f->store, "scaler.scale", MPC_FMT_none)->data);
}

static void check_values(fixture *f) {
    const uint64_t seed = UINT64_C(0xfedcba9876543210);
    CHECK(mpc_store_init(f->store, seed) == MPC_OK);
    CHECK(memcmp(mpc_store_find(f->store, "rng.seed", MPC_FMT_none)->data, &seed, 8) == 0);
    const float *w = floats(f, "fc.weight"), *bias = floats(f, "fc.bias");
    const uint16_t *bf16 = mpc_store_find(f->store, "fc.weight", MPC_FMT_bf16)->data,
                   *f16 = mpc_store_find(f->store, "fc.weight", MPC_FMT_f16)->data;
    double sum = 0, squares = 0;
    for (int i = 0; i < 1000; i++) {
        sum += (double)w[i];
        squares += ((double)w[i] - 1) * ((double)w[i] - 1);
        CHECK(bf16[i] == mpc_f32_to_bf16(w[i]) && f16[i] == mpc_f32_to_f16(w[i]));
    }
    CHECK(fabs(sum / 1000 - 1) < 0.08 && fabs(sqrt(squares / 1000) - 0.5) < 0.05);
    for (int i = 0; i < 10; i++) CHECK(bias[i] >= -2 && bias[i] < 6);
    CHECK(floats(f, "bn.var")[9] == 1 && floats(f, "scaler.scale")[0] == 65536 && floats(f, "fc.weight/m")[5] == 0);
    CHECK(w[3] == (float)(1 + 0.5 * (double)mpc_random_normal(seed, mpc_hash_str("fc.weight"), 0, 3)));
}

static void check_independence(fixture *f) {
    fixture other;
    fixture_create(&other, make_one);
    mpc_store_init(other.store, 5);
    mpc_store_init(f->store, 5);
    CHECK(memcmp(floats(f, "fc.weight"), floats(&other, "fc.weight"), 4000) == 0);
    mpc_store_init(other.store, 6);
    CHECK(memcmp(floats(f, "fc.weight"), floats(&other, "fc.weight"), 4000) != 0);
    fixture_destroy(&other);
}

static void check_unknown(void) {
    fixture f;
    fixture_create(&f, make_unknown);
    CHECK(!f.store && mpc_diag_list_count(f.diags) == 1);
    fixture_destroy(&f);
}

static void check_out_of_memory(fixture *f) {
    int failures = 0;
    for (uint64_t n = 1; n < 200; n++) {
        mpc_alloc_fail_after(n);
        mpc_store *store = mpc_store_create(f->graph, NULL);
        mpc_alloc_fail_after(0);
        mpc_store_destroy(store);
        if (store) break;
        failures++;
    }
    CHECK(failures > 3 && failures < 199);
}

int main(void) {
    fixture f;
    fixture_create(&f, make_many);
    check_layout(&f);
    check_values(&f);
    check_independence(&f);
    check_out_of_memory(&f);
    fixture_destroy(&f);
    check_unknown();
    return check_result();
}
