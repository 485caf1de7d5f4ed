/* Decimal text to double, correctly rounded. The fast path is exact by construction (Clinger 1990): a mantissa below
 * 2^53 times or over a power of ten up to 10^22 rounds once; everything else goes to strtod on a copy, since the text
 * isn't terminated. */
#include "runtime/data/dataset_impl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum { LONGEST_NUMBER = 500, EXACT_POWER = 22, MANTISSA_DIGITS = 19 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *slow_number(const char *p, const char *end, double *value) {
    if (p == end || (unsigned char)*p <= ' ') return NULL; /* strtod would skip blanks and line ends */
    char copy[LONGEST_NUMBER + 1];
    size_t n = (size_t)(end - p) < LONGEST_NUMBER ? (size_t)(end - p) : LONGEST_NUMBER;
    memcpy(copy, p, n);
    copy[n] = '\0';
    const char *digits = copy + (*copy == '-' || *copy == '+');
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) return NULL;
    char *stop;
    *value = strtod(copy, &stop);
    return stop == copy ? NULL : p + (stop - copy);
}

/* Exponent part at p, if one is there. */
static const char *exponent_part(const char *p, const char *end, int *exponent) {
    if (p == end || (*p != 'e' && *p != 'E')) return p;
    const char *q = p + 1;
    bool negative = q < end && *q == '-';
    if (q < end && (*q == '-' || *q == '+')) q++;
    if (q == end || !is_digit(*q)) return p;
    int e = 0;
    for (; q < end && is_digit(*q); q++)
        if (e < 10000) e = e * 10 + (*q - '0');
    *exponent += negative ? -e : e;
    return q;
}

const char *mpc_data_parse_number(const char *p, const char *end, double *value) {
    const char *start = p;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    uint64_t mantissa = 0;
    int digits = 0, exponent = 0;
    for (; p < end && is_digit(*p); p++, digits++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    if (p < end && *p == '.') {
        const char *point = ++p;
        for (; p < end && is_digit(*p); p++, digits++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        exponent = (int)(point - p);
    }
    if (digits == 0) return slow_number(start, end, value); /* nan, inf, or nothing */
    if (digits > MANTISSA_DIGITS) return slow_number(start, end, value);
    p = exponent_part(p, end, &exponent);
    if (p < end && (*p == 'x' || *p == 'X')) return NULL;
    if (mantissa > (1ull << 53) || exponent > EXACT_POWER || exponent < -EXACT_POWER)
        return slow_number(start, end, value);
    double v = (double)mantissa;
    v = exponent < 0 ? v / POWERS[-exponent] : v * POWERS[exponent];
    *value = negative ? -v : v;
    return p;
}
