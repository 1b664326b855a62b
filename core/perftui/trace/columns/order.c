/* The order of rows: by track, start, the longest first. The compiled form of nesting.order. */

#include <stdint.h>

/* Puts rows 0 to n - 1 in order of track, and of row within a track. `begins` holds where each track
   begins in `rows`, and is used up. Says of each track in `mixed` whether some row starts before the
   one that precedes it, or with it and lasts longer. */
void perftui_by_track(int64_t n, const int32_t *track, const int64_t *start,
                      const int64_t *duration, int64_t tracks, int64_t *begins, int32_t *rows,
                      int32_t *last, uint8_t *mixed) {
    for (int64_t each = 0; each < tracks; each++)
        last[each] = -1, mixed[each] = 0;
    for (int64_t row = 0; row < n; row++) {
        int32_t here = track[row], before = last[here];
        if (before >= 0 && (start[row] < start[before] ||
                            (start[row] == start[before] && duration[row] > duration[before])))
            mixed[here] = 1;
        last[here] = (int32_t)row;
        rows[begins[here]++] = (int32_t)row;
    }
}

typedef struct {
    const int64_t *start, *duration;
} times;

/* Whether row a comes before row b, which stands before it. */
static int overtakes(const times *of, int32_t a, int32_t b) {
    return of->start[a] != of->start[b] ? of->start[a] < of->start[b]
                                        : of->duration[a] > of->duration[b];
}

/* How many of the n rows, in order, `row` that stands behind them does not overtake. */
static int64_t not_overtaken(const times *of, const int32_t *rows, int64_t n, int32_t row) {
    int64_t begin = 0, stop = n;
    while (begin < stop) {
        int64_t middle = begin + (stop - begin) / 2;
        if (overtakes(of, row, rows[middle]))
            stop = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

/* Merges rows[0..left) with rows[left..n), both in order; `spare` has room for `left` rows. */
static void merge(const times *of, int32_t *rows, int64_t left, int64_t n, int32_t *spare) {
    int64_t kept = not_overtaken(of, rows, left, rows[left]), i = 0, at = kept, next = left;
    for (; kept + i < left; i++)
        spare[i] = rows[kept + i];
    for (int64_t held = i, taken = 0; taken < held;)
        rows[at++] = next < n && overtakes(of, rows[next], spare[taken]) ? rows[next++]
                                                                           : spare[taken++];
}

/* Puts n rows in order of start, the longest first; equal ones stay as they are. Profilers write
   most in order: such runs are checked and left. `spare` has room for n rows. */
void perftui_sort(int64_t n, const int64_t *start, const int64_t *duration, int32_t *rows,
                  int32_t *spare) {
    const times of = {start, duration};
    const int64_t shortest = 16;
    for (int64_t i = 1; i < n; i++) {
        int64_t begin = i / shortest * shortest, at = i;
        int32_t row = rows[i];
        for (; at > begin && overtakes(&of, row, rows[at - 1]); at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
    for (int64_t width = shortest; width < n; width *= 2)
        for (int64_t begin = 0; begin + width < n; begin += 2 * width) {
            int64_t whole = n - begin < 2 * width ? n - begin : 2 * width;
            if (overtakes(&of, rows[begin + width], rows[begin + width - 1]))
                merge(&of, rows + begin, width, whole, spare);
        }
}
