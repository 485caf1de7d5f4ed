/* Allocation gate, arena, arrays, maps: they grow, they keep what they hold, and each survives every failing
 * allocation. */
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "tests/check.h"

static void failing_counts_from_now_and_can_be_switched_off(void) {
    uint64_t before = mpc_alloc_count();
    mpc_alloc_fail_after(2);
    void *a = mpc_alloc(1), *b = mpc_alloc(1), *c = mpc_realloc(NULL, 4);
    CHECK(a && !b && !c);
    mpc_alloc_fail_after(0);
    void *d = mpc_alloc(0);
    CHECK(d);
    CHECK(mpc_alloc_count() == before + 4);
    mpc_free(a);
    mpc_free(d);
}

static void arena_memory_is_zeroed_aligned_and_stays(void) {
    mpc_arena *arena = mpc_arena_create();
    unsigned char *blocks[400];
    for (size_t i = 0; i < 400; i++) {
        size_t size = i % 7 == 0 ? 5000 * i : i;
        blocks[i] = mpc_arena_alloc(arena, size);
        CHECK(((uintptr_t)blocks[i] & 15) == 0);
        for (size_t j = 0; j < size; j += 97) CHECK(blocks[i][j] == 0);
        if (size) memset(blocks[i], (int)i & 0xff, size);
    }
    for (size_t i = 1; i < 400; i++) CHECK(blocks[i][0] == (i & 0xff));
    CHECK(mpc_arena_bytes(arena) > 400 * 200);
    CHECK(!mpc_arena_alloc(arena, SIZE_MAX));
    CHECK_STR(mpc_arena_printf(arena, "%s-%d", "x", 3), "x-3");
    CHECK_STR(mpc_arena_strndup(arena, "abcdef", 3), "abc");
    mpc_arena_destroy(arena);
    mpc_arena_destroy(NULL);
}

static void array_pushes_are_kept(void) {
    MPC_ARRAY(int) xs = {0};
    for (int i = 0; i < 1000; i++) CHECK(mpc_array_push(&xs, i * 3));
    for (int i = 0; i < 1000; i++) CHECK(xs.data[i] == i * 3);
    CHECK(!mpc_array_reserve(&xs, SIZE_MAX) && !mpc_array_reserve(&xs, SIZE_MAX / 4 + 1));
    mpc_alloc_fail_after(1);
    CHECK(!mpc_array_reserve(&xs, 100000));
    mpc_alloc_fail_after(0);
    CHECK(xs.count == 1000 && xs.data[999] == 2997);
    mpc_array_free(&xs);
    CHECK(!xs.data && !xs.count);
}

static void map_finds_replaces_and_keeps_insertion_order(void) {
    mpc_map *map = mpc_map_create();
    char key[32];
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "layer.%u.weight", i);
        CHECK(mpc_map_set(map, key, i));
    }
    CHECK(mpc_map_set(map, "layer.7.weight", 70007) && mpc_map_count(map) == 5000);
    uint32_t value = 0;
    CHECK(mpc_map_get(map, "layer.4999.weight", &value) && value == 4999);
    CHECK(mpc_map_get(map, "layer.7.weight", &value) && value == 70007);
    CHECK(!mpc_map_get(map, "layer.5000.weight", &value));
    CHECK_STR(mpc_map_key(map, 8), "layer.8.weight");
    CHECK(mpc_map_value(map, 7) == 70007);
    mpc_map_destroy(map);
}

/* Returns whether everything succeeded. */
static int fill_map(void) {
    mpc_map *map = mpc_map_create();
    if (!map) return 0;
    char key[32];
    uint32_t i = 0;
    for (; i < 200; i++) {
        snprintf(key, sizeof key, "k%u", i);
        if (!mpc_map_set(map, key, i)) break;
    }
    uint32_t value;
    for (uint32_t j = 0; j < i; j++) {
        snprintf(key, sizeof key, "k%u", j);
        CHECK(mpc_map_get(map, key, &value) && value == j);
    }
    mpc_map_destroy(map);
    return i == 200;
}

static void map_survives_every_failing_allocation(void) {
    int done = 0;
    for (uint64_t n = 1; !done && n < 1000; n++) {
        mpc_alloc_fail_after(n);
        done = fill_map();
        mpc_alloc_fail_after(0);
    }
    CHECK(done);
}

int main(void) {
    failing_counts_from_now_and_can_be_switched_off();
    arena_memory_is_zeroed_aligned_and_stays();
    array_pushes_are_kept();
    map_finds_replaces_and_keeps_insertion_order();
    map_survives_every_failing_allocation();
    return check_result();
}
