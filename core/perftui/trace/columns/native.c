/* The inner loops of loading a trace, compiled where a C compiler is at hand. Plain C without the
   Python API: loaded by ctypes, which lets other threads run meanwhile. All of it also exists in
   Python, with the same results. */

#include <stdint.h>
#include <stdlib.h>

/* Increased with every change of a function's meaning, here and in native.py. */
int32_t perftui_native_version(void) { return 15; }

/* The order of rows: by track, start, the longest first. The compiled form of arrays.order. */

/* Puts rows 0 to n - 1 in order of track, and of row within a track. `begins` holds where each track
   begins in `rows`, and is used up. Sets `mixed` for each track where some row starts before the
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

/* Whether row a must come before row b, which now precedes it. */
static int overtakes(const times *of, int32_t a, int32_t b) {
    return of->start[a] != of->start[b] ? of->start[a] < of->start[b]
                                        : of->duration[a] > of->duration[b];
}

/* How many of the n sorted rows stay before `row`, which now follows them. */
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

/* Sorts n rows by start, the longest first; stable. Profilers write most in order: such runs are
   checked and left. `spare` has room for n rows. */
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

/* Callers of the rows on one track: the compiled form of arrays.sweep. */

typedef struct {
    int64_t end;
    int32_t row;
} open_row;

/* One pass of arrays.sweep over a track's n rows, of which the first is row `first` of the trace.
   `outside` holds 1 for rows that are no part of the call stack; those found in this pass become 2.
   Returns how many were found, or -1 where there is no memory for the stack. */
int64_t perftui_sweep(int64_t n, int32_t first, const int64_t *start, const int64_t *duration,
                      const uint8_t *is_range, uint8_t *outside, int32_t *parent, int32_t *depth) {
    int64_t room = 256, height = 0, found = 0;
    open_row *stack = malloc(room * sizeof *stack);
    if (!stack)
        return -1;
    for (int64_t row = 0; row < n; row++) {
        int64_t begin = start[row], stop = begin + duration[row];
        if (outside[row] == 1) {
            parent[row] = -1;
            depth[row] = 0;
            continue;
        }
        while (height && stack[height - 1].end <= begin)
            height--;
        if (height && stop > stack[height - 1].end) {
            if (is_range[row]) {
                found += outside[row] == 0;
                outside[row] = 2;
            } else {
                for (int64_t i = 0; i < height; i++) {
                    int32_t each = stack[i].row;
                    if (is_range[each] && stack[i].end < stop) {
                        found += outside[each] == 0;
                        outside[each] = 2;
                    }
                }
            }
        }
        parent[row] = height ? first + stack[height - 1].row : -1;
        depth[row] = (int32_t)height;
        if (height == room) {
            open_row *larger = realloc(stack, 2 * room * sizeof *stack);
            if (!larger) {
                free(stack);
                return -1;
            }
            stack = larger;
            room *= 2;
        }
        stack[height].end = height && stack[height - 1].end < stop ? stack[height - 1].end : stop;
        stack[height].row = (int32_t)row;
        height++;
    }
    free(stack);
    return found;
}

/* Loops over callers, one pass each: a caller precedes all its callees. -1 stands for no row. */

/* The nearest wanted row among each row and its callers. */
void perftui_innermost(int64_t n, const int32_t *parent, const uint8_t *wanted, int32_t *found) {
    for (int64_t row = 0; row < n; row++) {
        if (wanted[row])
            found[row] = (int32_t)row;
        else
            found[row] = parent[row] < 0 ? -1 : found[parent[row]];
    }
}

/* Sums by name over the wanted rows, each `names` long and 0 to begin with. */
typedef struct {
    int64_t *calls, *cpu_total, *cpu_self, *device_total, *device_self;
    int64_t *first; /* the longest row, the first of equals; only if there are calls */
} by_name;

static int32_t caller_of(int64_t row, const int32_t *parent, const int32_t *around) {
    return parent[row] < 0 ? -1 : around[parent[row]];
}

/* The `chosen` rows, the position of each one's caller among them (or -1), and its self time.
   `around` is the result of perftui_innermost for rows that include all chosen ones, `position`
   room for n. Returns the number of chosen rows. */
int64_t perftui_called(int64_t n, const int64_t *duration, const int32_t *parent,
                       const int32_t *around, const uint8_t *chosen, int32_t *position,
                       int64_t *rows, int32_t *caller, int64_t *own) {
    int64_t count = 0;
    for (int64_t row = 0; row < n; row++) {
        position[row] = -1;
        if (!chosen[row])
            continue;
        int32_t by = caller_of(row, parent, around), at = by < 0 ? -1 : position[by];
        position[row] = (int32_t)count;
        rows[count] = row, caller[count] = at, own[count] = duration[row];
        if (at >= 0)
            own[at] -= duration[row];
        count++;
    }
    for (int64_t at = 0; at < count; at++)
        own[at] = own[at] < 0 ? 0 : own[at];
    return count;
}

/* Fills `sums`. `around` is the result of perftui_innermost for the wanted rows, `device` the device
   time that each row launched itself. A row lasts until its caller ends, at the latest. Inside another
   row of its name it adds to no total. Returns 0 if out of memory. */
int32_t perftui_calls(int64_t n, const int64_t *start, const int64_t *duration, const int32_t *name,
                      int64_t names, const int32_t *parent, const int32_t *around,
                      const int64_t *device, const by_name *sums) {
    int64_t *end = malloc((n ? n : 1) * sizeof *end);
    int64_t *under = calloc(n ? n : 1, sizeof *under); /* device time of a row's callees */
    uint8_t *inside = malloc(n ? n : 1); /* whether another row of its name is around it */
    int32_t *open = calloc(names ? names : 1, sizeof *open); /* by name, `last` and its callers */
    int32_t last = -1, done = end && under && inside && open;
    for (int64_t row = 0; done && row < n; row++) {
        if (around[row] != row)
            continue;
        int32_t by = caller_of(row, parent, around), called = name[row];
        end[row] = start[row] + duration[row];
        if (by >= 0 && end[row] > end[by])
            end[row] = end[by] > start[row] ? end[by] : start[row];
        int64_t lasting = end[row] - start[row];
        for (; last != by && last >= 0; last = caller_of(last, parent, around))
            open[name[last]]--;
        if (last < 0) /* a thread begins, or the row between has no caller */
            for (int32_t each = by; each >= 0; each = caller_of(each, parent, around))
                open[name[each]]++;
        last = (int32_t)row;
        inside[row] = open[called]++ > 0;
        if (!sums->calls[called] || duration[row] > duration[sums->first[called]])
            sums->first[called] = row;
        sums->calls[called]++;
        sums->cpu_total[called] += inside[row] ? 0 : lasting;
        sums->cpu_self[called] += lasting;
        if (by >= 0)
            sums->cpu_self[name[by]] -= lasting;
        sums->device_self[called] += device[row];
    }
    for (int64_t row = n - 1; done && row >= 0; row--) {
        if (around[row] != row)
            continue;
        int32_t by = caller_of(row, parent, around);
        under[row] += device[row];
        if (by >= 0)
            under[by] += under[row];
        sums->device_total[name[row]] += inside[row] ? 0 : under[row];
    }
    free(end), free(under), free(inside), free(open);
    return done;
}

/* The longest event in a stretch, and the event that fills each column of a track: the compiled form
   of the search in analysis/timeline/track.py. */

/* Places of the largest values: of every block of 2^shift values, from levels[0] of `places` on, then
   of every block of as many of those, from levels[1] on; they end at levels[n_levels - 1].
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

/* Position of the first of the ascending values from `begin` to `stop` that is not below `limit`, or
   not equal to it either if so asked. */
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

/* The one of n events, by start and without overlap, that covers most of each [times[i],
   times[i + 1]): the first of equals, -1 for none. The values of `of` are the durations. */
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
