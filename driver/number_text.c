/* Numbers for people: digits in threes, bytes in decimal units. Listings for programs print numbers as they are. */
#include "driver/number_text.h"

#include <inttypes.h>
#include <stdio.h>

void mpc_grouped_text(uint64_t n, char out[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

void mpc_bytes_text(double bytes, char out[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++) bytes /= 1000;
    snprintf(out, 32, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
}
