/* The inner loop of nesting a trace, compiled where a C compiler is at hand. Plain C without the
   Python API: loaded by ctypes, which lets other threads run meanwhile. It also exists in Python,
   with the same results. */

#include <stdint.h>
#include <stdlib.h>

/* Increased with every change of a function's meaning, here and in native.py. */
int32_t perftui_native_version(void) { return 15; }

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
