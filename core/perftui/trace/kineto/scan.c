/* Reads events of a trace file, an array of plain JSON objects, into columns.

   Only what PyTorch ordinarily writes is read here. At the first thing out of the ordinary (text that
   is no JSON, a time as text, an id that is no integer, an event without its category) the whole
   range of text is refused, and Python reads it. So both give the same, and this stays small. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "texts.h"

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

/* The column that an argument goes into, NULL for one that is not kept. */
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

/* An object, each of whose values `take` is given. */
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

/* The number of the event's process and thread; -1 where it lacks one, or without memory. */
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

/* Reads `text`, an array of events. Returns 1, or 0 where something in it is out of the ordinary. */
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
