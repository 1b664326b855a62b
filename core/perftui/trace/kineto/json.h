/* JSON. Every function takes where a value begins and gives where it ends, NULL where it is odd. The
   text ends with a bracket, at which every loop stops. */

#include <stdint.h>
#include <string.h>

#define LARGEST_US (INT64_MAX / 4 / 1000) /* beyond lies no time: 73 years in ns are added up */

typedef struct {
    const char *at;
    int64_t length;
} span;

static const char *blank(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

static int is_hex(char c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static const char *string(const char *p, const char *end, span *inner) {
    const char *begin = ++p;
    for (; p < end && *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p == '\\') {
            if (++p >= end || !*p || !strchr("\"\\/bfnrtu", *p))
                return NULL;
            if (*p == 'u' && (end - p < 5 || !is_hex(p[1]) || !is_hex(p[2]) || !is_hex(p[3]) ||
                              !is_hex(p[4])))
                return NULL;
        }
    }
    if (p >= end)
        return NULL;
    inner->at = begin, inner->length = p - begin;
    return p + 1;
}

static const char *digits(const char *p) {
    if (*p < '0' || *p > '9')
        return NULL;
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

static const char *number(const char *p) {
    p += *p == '-';
    p = *p == '0' ? p + 1 : digits(p);
    if (p && *p == '.')
        p = digits(p + 1);
    if (p && (*p == 'e' || *p == 'E')) {
        p++;
        p = digits(p + (*p == '+' || *p == '-'));
    }
    return p;
}

/* Any value, looked at no further. `depth` bounds the recursion. */
static const char *skip(const char *p, const char *end, int depth) {
    span inner;
    char closing;
    switch (*p) {
    case '"':
        return string(p, end, &inner);
    case 't':
        return end - p > 4 && !memcmp(p, "true", 4) ? p + 4 : NULL;
    case 'f':
        return end - p > 5 && !memcmp(p, "false", 5) ? p + 5 : NULL;
    case 'n':
        return end - p > 4 && !memcmp(p, "null", 4) ? p + 4 : NULL;
    case '{':
    case '[':
        break;
    default:
        return number(p);
    }
    if (depth > 64)
        return NULL;
    closing = *p == '{' ? '}' : ']';
    p = blank(p + 1);
    if (*p == closing)
        return p + 1;
    for (;;) {
        if (closing == '}') {
            if (*p != '"' || !(p = string(p, end, &inner)))
                return NULL;
            p = blank(p);
            if (*p++ != ':')
                return NULL;
            p = blank(p);
        }
        if (!(p = skip(p, end, depth + 1)))
            return NULL;
        p = blank(p);
        if (*p == closing)
            return p + 1;
        if (*p++ != ',')
            return NULL;
        p = blank(p);
    }
}

static const char *integer(const char *p, int64_t *value) {
    const char *begin = p, *stop = number(p);
    int64_t found = 0;
    int negative = *p == '-';
    if (!stop || stop - begin > 18)
        return NULL;
    for (p += negative; p < stop; p++) {
        if (*p < '0' || *p > '9')
            return NULL;
        found = found * 10 + (*p - '0');
    }
    *value = negative ? -found : found;
    return stop;
}

/* Microseconds with up to three decimals, as exact nanoseconds. */
static const char *microseconds(const char *p, int64_t *nanoseconds) {
    const char *stop = number(p);
    int64_t whole = 0, part = 0;
    int negative = *p == '-', places = 0;
    if (!stop)
        return NULL;
    for (p += negative; p < stop && *p != '.'; p++) {
        if (*p < '0' || *p > '9' || whole > LARGEST_US / 10)
            return NULL;
        whole = whole * 10 + (*p - '0');
    }
    for (p += p < stop; p < stop; p++, places++) {
        if (*p < '0' || *p > '9' || (places >= 3 && *p != '0'))
            return NULL;
        if (places < 3)
            part = part * 10 + (*p - '0');
    }
    for (; places < 3; places++)
        part *= 10;
    *nanoseconds = whole * 1000 + part;
    if (negative)
        *nanoseconds = -*nanoseconds;
    return whole >= LARGEST_US ? NULL : stop;
}
