/* Loops over who called whom, one pass each: a caller stands before all that it calls. -1 stands for
   no row. */

#include <stdint.h>
#include <stdlib.h>

/* For each row the nearest wanted one among itself and its callers. */
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
    int64_t *first; /* the longest row, the first of equals; only where there are calls */
} by_name;

static int32_t caller_of(int64_t row, const int32_t *parent, const int32_t *around) {
    return parent[row] < 0 ? -1 : around[parent[row]];
}

/* The `chosen` rows, for each the position of its caller among them, or -1, and its time without what
   it called itself. `around` is what perftui_innermost found of rows that hold all of the chosen
   ones, `position` room for n. Returns how many there are. */
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

/* Marks those of `rows` that are `chosen` or begin before one of those ends, in each of the `tracks`,
   between two of `bounds`. */
void perftui_within(int64_t tracks, const int64_t *bounds, const int64_t *rows, const int64_t *start,
                    const int64_t *duration, const uint8_t *chosen, uint8_t *marked) {
    for (int64_t track = 0; track < tracks; track++) {
        int64_t reach = INT64_MIN;
        for (int64_t at = bounds[track]; at < bounds[track + 1]; at++) {
            int64_t row = rows[at];
            marked[at] = chosen[at] || start[row] < reach;
            if (chosen[at] && start[row] + duration[row] > reach)
                reach = start[row] + duration[row];
        }
    }
}

/* The time that the `chosen` rows from `first` to `last`, of one track, cover: returns how many
   intervals. */
int64_t perftui_covered(int64_t first, int64_t last, const int64_t *start, const int64_t *duration,
                        const uint8_t *chosen, int64_t *begins, int64_t *ends) {
    int64_t count = 0;
    for (int64_t row = first; row < last; row++) {
        if (!chosen[row] || duration[row] <= 0)
            continue;
        int64_t end = start[row] + duration[row];
        if (!count || start[row] > ends[count - 1])
            begins[count] = start[row], ends[count++] = end;
        else if (end > ends[count - 1])
            ends[count - 1] = end;
    }
    return count;
}

/* Fills `sums`. `around` is what perftui_innermost found of the wanted rows, `device` the device time
   that each row launched itself. A row lasts until its caller ends, at the latest. Inside another row
   of its name it adds to no total. Returns 0 where there is no memory. */
int32_t perftui_calls(int64_t n, const int64_t *start, const int64_t *duration, const int32_t *name,
                      int64_t names, const int32_t *parent, const int32_t *around,
                      const int64_t *device, const by_name *sums) {
    int64_t *end = malloc((n ? n : 1) * sizeof *end);
    int64_t *under = calloc(n ? n : 1, sizeof *under); /* device time of all that a row calls */
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
        if (last < 0) /* a thread begins, or the row between was called by nobody */
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
