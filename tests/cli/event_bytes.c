/* Bytes of event files: check sums as RFC 3720 has them, a whole record byte for byte, and names in their order. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/event_file.h"
#include "runtime/data/dataset_impl.h"
#include "tests/check.h"

static void check_sums(void) {
    uint8_t bytes[32];
    CHECK(mpc_crc32c("123456789", 9) == 0xe3069283u);
    CHECK(mpc_crc32c("", 0) == 0);
    memset(bytes, 0, sizeof bytes);
    CHECK(mpc_crc32c(bytes, sizeof bytes) == 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    CHECK(mpc_crc32c(bytes, sizeof bytes) == 0x62a8ab43u);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    CHECK(mpc_crc32c(bytes, sizeof bytes) == 0x46dd794eu);
}

/* One point, made with TensorFlow's own schema: wall time 1.5, step 300, tag "a/b", value 0.5. */
static void check_record(const char *folder) {
    static const uint8_t event[] = {0x09, 0,    0,    0,    0,    0, 0, 0xf8, 0x3f, /* wall_time: 1.5 */
                                    0x10, 0xac, 0x02,                               /* step: 300 */
                                    0x2a, 0x0c, 0x0a, 0x0a, 0x0a, 3,                /* summary, value, tag */
                                    'a',  '/',  'b',  0x15, 0,    0, 0, 0x3f};      /* simple_value: 0.5 */
    mpc_events e;
    CHECK(mpc_events_open(&e, folder, -1, NULL) == MPC_OK);
    mpc_events_begin(&e, 1.5, 300);
    mpc_events_add(&e, "a", "b", 0.5);
    mpc_events_end(&e);
    CHECK(e.buffer.length == 12 + sizeof event + 4);
    CHECK((uint8_t)e.buffer.data[0] == sizeof event && memcmp(e.buffer.data + 12, event, sizeof event) == 0);
    CHECK(mpc_events_flush(&e) == MPC_OK && e.buffer.length == 0);
    char *text = NULL;
    size_t size = 0;
    CHECK(mpc_data_read_file(e.path.data, NULL, &text, &size) == MPC_OK);
    CHECK(size > 40 && memcmp(text + 25, "brain.Event:2", 13) == 0);
    mpc_free(text);
    mpc_events_close(&e);
}

/* Readers take files by name: a later one's comes after it, also in the same second or when the clock went back. */
static void check_order(const char *folder) {
    mpc_events first, second;
    mpc_str future = {0};
    CHECK(mpc_events_open(&first, folder, -1, NULL) == MPC_OK && mpc_events_open(&second, folder, 5, NULL) == MPC_OK);
    CHECK(strcmp(first.path.data, second.path.data) < 0);
    mpc_events_close(&second);
    mpc_str_printf(&future, "%s/events.out.tfevents.4000000000.host", folder);
    FILE *f = fopen(future.data, "wb");
    CHECK(f && fclose(f) == 0);
    CHECK(mpc_events_open(&second, folder, 5, NULL) == MPC_OK);
    CHECK(strcmp(future.data, second.path.data) < 0);
    mpc_events_close(&first);
    mpc_events_close(&second);
    mpc_str_free(&future);
}

int main(void) {
    char folder[] = "/tmp/mpc-events-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    check_sums();
    check_record(folder);
    check_order(folder);
    mpc_events_remove(folder);
    CHECK(rmdir(folder) == 0);
    return check_result();
}
