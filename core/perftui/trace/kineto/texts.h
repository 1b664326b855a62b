/* Distinct texts, numbered in order of appearance; an open-addressing table over an arena. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
