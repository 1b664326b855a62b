/* Reads events of a trace file, an array of plain JSON objects, into columns.

   Only ordinary output of PyTorch is read here. At the first unusual thing (text that is no JSON, a
   time as text, an id that is no integer, an event without its category) the whole range of text is
   refused, and Python reads it. So both give the same, and this stays small. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Distinct texts, numbered in order of appearance; an open-addressing table over an arena. */

typedef struct {
    char *arena;
    int64_t *offset; /* of each text in the arena, and the end of the last */
    uint64_t *hash;
    int32_t *slots; /* number + 1, 0 where empty */
    int64_t arena_room, count_room, slot_room, count;
} texts;

static int texts_open(texts *t) {
    memset(t, 0, sizeof *t);
    t->arena_room = 1 << 12, t->count_room = 64, t->slot_room = 256;
    t->arena = malloc(t->arena_room);
    t->offset = calloc(t->count_room + 1, sizeof *t->offset);
    t->hash = malloc(t->count_room * sizeof *t->hash);
    t->slots = calloc(t->slot_room, sizeof *t->slots);
    return t->arena && t->offset && t->hash && t->slots;
}

static void texts_close(texts *t) {
    free(t->arena), free(t->offset), free(t->hash), free(t->slots);
}

static uint64_t hash_of(const char *text, int64_t length) {
    uint64_t h = 0x9e3779b97f4a7c15ULL ^ (uint64_t)length, word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdULL;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, text, (size_t)length);
    h = (h ^ word) * 0xff51afd7ed558ccdULL;
    return h ^ (h >> 29);
}

static int grow(void **block, int64_t bytes) {
    void *larger = realloc(*block, (size_t)bytes);
    if (larger)
        *block = larger;
    return larger != NULL;
}

static int texts_rehash(texts *t) {
    int64_t room = t->slot_room * 4;
    int32_t *slots = calloc((size_t)room, sizeof *slots);
    if (!slots)
        return 0;
    for (int64_t i = 0; i < t->count; i++) {
        int64_t at = (int64_t)(t->hash[i] & (uint64_t)(room - 1));
        while (slots[at])
            at = (at + 1) & (room - 1);
        slots[at] = (int32_t)i + 1;
    }
    free(t->slots);
    t->slots = slots, t->slot_room = room;
    return 1;
}

/* The number of a text, a new one where it is new; -1 without memory. */
static int32_t texts_number(texts *t, const char *text, int64_t length) {
    uint64_t h = hash_of(text, length);
    int64_t at = (int64_t)(h & (uint64_t)(t->slot_room - 1));
    for (; t->slots[at]; at = (at + 1) & (t->slot_room - 1)) {
        int32_t known = t->slots[at] - 1;
        int64_t begin = t->offset[known];
        if (t->hash[known] == h && t->offset[known + 1] - begin == length &&
            !memcmp(t->arena + begin, text, (size_t)length))
            return known;
    }
    int64_t end = t->offset[t->count];
    while (end + length > t->arena_room) {
        if (!grow((void **)&t->arena, t->arena_room * 2))
            return -1;
        t->arena_room *= 2;
    }
    if (t->count == t->count_room) {
        int64_t room = t->count_room * 2;
        if (!grow((void **)&t->offset, (room + 1) * (int64_t)sizeof *t->offset) ||
            !grow((void **)&t->hash, room * (int64_t)sizeof *t->hash))
            return -1;
        t->count_room = room;
    }
    memcpy(t->arena + end, text, (size_t)length);
    t->hash[t->count] = h;
    t->slots[at] = (int32_t)t->count + 1;
    t->offset[++t->count] = end + length;
    if (t->count * 2 > t->slot_room && !texts_rehash(t))
        return -1;
    return (int32_t)t->count - 1;
}

/* JSON. Every function takes the start of a value and returns its end, NULL if it is unusual. The
   text ends with a bracket, at which every loop stops. */

#define LARGEST_US (INT64_MAX / 4 / 1000) /* largest time: 73 years in ns may be added up */

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

/* Skips any value. `depth` bounds the recursion. */
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

#define NONE (-1)
#define LARGEST_ID 4294967295LL /* an unsigned -1: no id */
#define ORDINARY "XMIiCbnesftSTpFPNODVvRc(),"
/* Kinds of event that the format names, without begins and ends, which PyTorch does not write. */

typedef struct {
    texts tables[3]; /* names and categories as spelled between quotes; "pid,tid" as spelled */
} scanner;

enum { NAMES, CATEGORIES, TRACKS };

void *perftui_scanner_open(void) {
    scanner *s = malloc(sizeof *s);
    for (int i = 0; s && i < 3; i++)
        if (!texts_open(&s->tables[i])) {
            for (; i >= 0; i--)
                texts_close(&s->tables[i]);
            free(s);
            return NULL;
        }
    return s;
}

void perftui_scanner_close(scanner *s) {
    for (int i = 0; i < 3; i++)
        texts_close(&s->tables[i]);
    free(s);
}

int64_t perftui_scanner_count(const scanner *s, int32_t table) { return s->tables[table].count; }

const char *perftui_scanner_text(const scanner *s, int32_t table, int64_t number, int64_t *length) {
    const texts *t = &s->tables[table];
    *length = t->offset[number + 1] - t->offset[number];
    return t->arena + t->offset[number];
}

static int is(span key, const char *word) {
    return key.length == (int64_t)strlen(word) && !memcmp(key.at, word, (size_t)key.length);
}

typedef struct {
    char phase;
    int has_ts, has_dur, has_cat, has_args;
    span name, cat, pid, tid;
    int64_t ts, dur, correlation, external, legacy, bytes;
    int64_t change, device_type, device, allocated, reserved, address; /* of an allocator */
} event;

/* The column of an argument, NULL if it is not kept. */
static int64_t *column_of(span key, event *e) {
    switch (key.length) {
    case 4:
        return is(key, "Addr") ? &e->address : NULL;
    case 5:
        return is(key, "bytes") ? &e->bytes : is(key, "Bytes") ? &e->change : NULL;
    case 9:
        return is(key, "Device Id") ? &e->device : NULL;
    case 11:
        return is(key, "correlation")   ? &e->correlation
               : is(key, "External id") ? &e->external
               : is(key, "external id") ? &e->legacy
               : is(key, "Device Type") ? &e->device_type
                                        : NULL;
    case 14:
        return is(key, "Total Reserved") ? &e->reserved : NULL;
    case 15:
        return is(key, "Total Allocated") ? &e->allocated : NULL;
    }
    return NULL;
}

typedef const char *(*member)(const char *p, const char *end, span key, event *e);

/* An object; `take` is called with each of its values. */
static const char *members(const char *p, const char *end, event *e, member take) {
    span key;
    if (*p != '{')
        return NULL;
    p = blank(p + 1);
    if (*p == '}')
        return p + 1;
    for (;;) {
        if (*p != '"' || !(p = string(p, end, &key)))
            return NULL;
        p = blank(p);
        if (*p++ != ':')
            return NULL;
        if (!(p = take(blank(p), end, key, e)))
            return NULL;
        p = blank(p);
        if (*p == '}')
            return p + 1;
        if (*p++ != ',')
            return NULL;
        p = blank(p);
    }
}

static const char *argument(const char *p, const char *end, span key, event *e) {
    int64_t *column = column_of(key, e);
    if (memchr(key.at, '\\', (size_t)key.length))
        return NULL;
    return column ? integer(p, column) : skip(p, end, 0);
}

/* The value of one of the event's own fields. */
static const char *field(const char *p, const char *end, span key, event *e) {
    span text;
    const char *begin = p;
    if (key.length == 2 && is(key, "ph")) {
        if (*p != '"' || !(p = string(p, end, &text)))
            return NULL;
        e->phase = text.length == 1 ? *text.at : '?';
        return p;
    }
    if (key.length == 2 && is(key, "ts"))
        return e->has_ts = 1, microseconds(p, &e->ts);
    if (key.length == 3 && is(key, "dur"))
        return e->has_dur = 1, microseconds(p, &e->dur);
    if (key.length == 3 && (is(key, "pid") || is(key, "tid"))) {
        if (*p == '{' || *p == '[' || !(p = skip(p, end, 0)))
            return NULL;
        span *id = *key.at == 'p' ? &e->pid : &e->tid;
        id->at = begin, id->length = p - begin;
        return p;
    }
    if (key.length == 4 && is(key, "name"))
        return *p == '"' ? string(p, end, &e->name) : NULL;
    if (key.length == 3 && is(key, "cat")) {
        e->has_cat = 1;
        return *p == '"' ? string(p, end, &e->cat) : NULL;
    }
    if (key.length == 4 && is(key, "args"))
        return e->has_args++ ? NULL : members(p, end, e, argument);
    if (memchr(key.at, '\\', (size_t)key.length))
        return NULL;
    return skip(p, end, 0);
}

typedef struct {
    int64_t *start, *duration, *correlation, *external_id, *bytes;
    int32_t *name, *category, *track;
    int32_t *begin, *stop; /* of each row's event in the text */
    int32_t *metadata_begin, *metadata_stop;
    int64_t *memory_start, *memory_change, *memory_device_type, *memory_device;
    int64_t *memory_allocated, *memory_reserved, *memory_address, *memory_track;
    int64_t room, rows, metadata, memory, events, complete;
} output;

static int64_t identifier(int64_t value) { return value == LARGEST_ID ? NONE : value; }

static int is_recording(span cat) {
    return cat.length == 5 && (cat.at[0] | 32) == 't' && (cat.at[1] | 32) == 'r' &&
           (cat.at[2] | 32) == 'a' && (cat.at[3] | 32) == 'c' && (cat.at[4] | 32) == 'e';
}

/* The number of the event's process and thread; -1 if it lacks one, or without memory. */
static int32_t track_of(scanner *s, const event *e) {
    char key[160];
    if (!e->pid.length || !e->tid.length)
        return -1;
    if (e->pid.length + e->tid.length + 1 > (int64_t)sizeof key)
        return -1;
    memcpy(key, e->pid.at, (size_t)e->pid.length);
    key[e->pid.length] = ',';
    memcpy(key + e->pid.length + 1, e->tid.at, (size_t)e->tid.length);
    return texts_number(&s->tables[TRACKS], key, e->pid.length + 1 + e->tid.length);
}

static int add_row(scanner *s, output *out, const event *e) {
    int64_t row = out->rows;
    if (!e->has_ts || !e->has_dur || !e->has_cat || !e->name.at)
        return 0;
    if (e->dur < 0)
        return 0;
    out->start[row] = e->ts;
    out->duration[row] = e->dur;
    out->correlation[row] = identifier(e->correlation);
    out->external_id[row] = identifier(identifier(e->external) == NONE ? e->legacy : e->external);
    out->bytes[row] = identifier(e->bytes);
    out->name[row] = texts_number(&s->tables[NAMES], e->name.at, e->name.length);
    out->category[row] = texts_number(&s->tables[CATEGORIES], e->cat.at, e->cat.length);
    out->track[row] = track_of(s, e);
    out->rows++;
    return out->name[row] >= 0 && out->category[row] >= 0 && out->track[row] >= 0;
}

static int add_memory(scanner *s, output *out, const event *e) {
    int64_t row = out->memory++;
    out->memory_start[row] = e->ts;
    out->memory_change[row] = e->change;
    out->memory_device_type[row] = e->device_type;
    out->memory_device[row] = e->device;
    out->memory_allocated[row] = e->allocated;
    out->memory_reserved[row] = e->reserved;
    out->memory_address[row] = e->address;
    out->memory_track[row] = track_of(s, e);
    return e->has_ts && out->memory_track[row] >= 0;
}

/* Reads `text`, an array of events. Returns 1, or 0 if something in it is unusual. */
int32_t perftui_scan(scanner *s, const char *text, int64_t length, output *out) {
    const char *p = blank(text), *end = text + length;
    out->rows = out->metadata = out->memory = out->events = out->complete = 0;
    if (length >= INT32_MAX || *p != '[' || end[-1] != ']')
        return 0;
    p = blank(p + 1);
    if (*p == ']')
        return p + 1 == end;
    for (;;) {
        event e = {.correlation = NONE, .external = NONE, .legacy = NONE, .bytes = NONE,
                   .change = NONE, .device_type = NONE, .device = NONE, .allocated = NONE,
                   .reserved = NONE, .address = NONE};
        const char *begin = p;
        if (out->rows >= out->room || out->metadata >= out->room ||
            out->memory >= out->room || !(p = members(p, end, &e, field)))
            return 0;
        if (!e.phase || !strchr(ORDINARY, e.phase))
            return 0;
        out->events++;
        if (e.phase == 'M') {
            out->metadata_begin[out->metadata] = (int32_t)(begin - text);
            out->metadata_stop[out->metadata++] = (int32_t)(p - text);
        } else if (e.phase == 'X') {
            out->complete++;
            if (!is_recording(e.cat)) {
                out->begin[out->rows] = (int32_t)(begin - text);
                out->stop[out->rows] = (int32_t)(p - text);
                if (!add_row(s, out, &e))
                    return 0;
            }
        } else if (e.phase == 'i' && is(e.name, "[memory]") && !add_memory(s, out, &e)) {
            return 0;
        }
        p = blank(p);
        if (*p == ']')
            return p + 1 == end;
        if (*p++ != ',')
            return 0;
        p = blank(p);
    }
}
