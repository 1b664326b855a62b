/* The longest of stretches of events, and what fills the columns of a track: the compiled form of
   longest.py and track_index.py. */

#include <stdint.h>

/* Where the largest values are: of every block of 2^shift values, from levels[0] of `places` on, then
   of every block of as many of those, from levels[1] on; levels[n_levels - 1] is where they end.
   `maxima` are the values there. */
typedef struct {
    int64_t shift, n_levels;
    const int64_t *values, *maxima, *places, *levels;
} blocks;

/* The first position of the largest value in [begin, stop), -1 where that is empty. */
static int64_t longest(const blocks *of, int64_t begin, int64_t stop) {
    int64_t best = -1, most = 0;
    for (int64_t at = begin; at < stop;) {
        int64_t level = 0, width = 1, wider = 1LL << of->shift;
        while (level < of->n_levels - 1 && (at & (wider - 1)) == 0 && at + wider <= stop)
            level++, width = wider, wider <<= of->shift;
        int64_t block = level ? of->levels[level - 1] + (at >> (of->shift * level)) : 0;
        int64_t value = level ? of->maxima[block] : of->values[at];
        if (best < 0 || value > most) {
            best = level ? of->places[block] : at;
            most = value;
        }
        at += width;
    }
    return best;
}

/* How many of the ascending values from `begin` to `stop` are below `limit`, or equal to it if so
   asked, counted from the first of all. */
static int64_t below(const int64_t *values, int64_t begin, int64_t stop, int64_t limit, int equal) {
    while (begin < stop) {
        int64_t middle = begin + (stop - begin) / 2;
        if (values[middle] < limit || (equal && values[middle] == limit))
            begin = middle + 1;
        else
            stop = middle;
    }
    return begin;
}

/* Which of n events, by start and without overlap, covers most of each [times[i], times[i + 1]): the
   first of equals, -1 where none does. The values of `of` are the durations. */
void perftui_dominant(const blocks *of, int64_t n, const int64_t *start, const int64_t *end,
                      int64_t columns, const int64_t *times, int64_t *found) {
    int64_t first = 0, behind = 0;
    for (int64_t i = 0; i < columns; i++) {
        int64_t low = times[i], high = times[i + 1], most = 0;
        first = below(end, first, n, low, 1);
        behind = below(start, behind, n, high, 0);
        found[i] = -1;
        if (behind <= first)
            continue;
        /* Only the first and the last can stick out of a column; those between are whole. */
        int64_t candidates[3] = {first, longest(of, first + 1, behind - 1), behind - 1};
        for (int each = 0; each < 3; each++) {
            int64_t at = candidates[each];
            if (at < first)
                continue;
            int64_t covered =
                (end[at] < high ? end[at] : high) - (start[at] > low ? start[at] : low);
            if (covered > most) {
                most = covered;
                found[i] = at;
            }
        }
    }
}
