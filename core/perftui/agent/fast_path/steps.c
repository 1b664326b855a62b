/* Where steps end on the fast path, and what is written of them. */

#include "fast_path.h"

void write_record(FastPath *path, int kind, int64_t start, int64_t end, int64_t value, int64_t extra)
{
    uint64_t *head = (uint64_t *)(path->ring + PAGE) - 1;
    uint64_t number = *head;
    Record record = {number, start, end - start, value, extra, (uint32_t)path->index, (uint8_t)kind, 0, {0}};
    memcpy(path->ring + PAGE + number % (uint64_t)path->capacity * sizeof record, &record, sizeof record);
    /* After the record: the reader trusts every slot below the head. */
    __atomic_store_n(head, number + 1, __ATOMIC_RELEASE);
    path->last_activity = end;
}

int is_next(FastPath *path, int event)
{
    return path->is_usual && path->n_events < path->n_usual && path->usual[path->n_events] == event;
}

void push(FastPath *path, int event)
{
    path->is_usual = (char)is_next(path, event);
    path->events[path->n_events++] = (uint16_t)event;
    path->calls++;
}

Py_ssize_t length(PyObject *list)
{
    if (list != NULL)
        return PyList_Size(list);
    PyErr_SetString(PyExc_TypeError, "it cannot be deleted");
    return -1;
}

/* Whether another rank has planned a window meanwhile. */
static int is_planned(FastPath *path)
{
    return path->plan != NULL && __atomic_load_n(path->plan, __ATOMIC_RELAXED) != path->planned;
}

/* A measured step begins or, as one more that has ended, ends. */
static int update_meter(FastPath *path, int ended)
{
    PyObject *result = PyObject_CallMethod((PyObject *)path, "update_meter", "i", ended);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

int may_end(FastPath *path, int64_t end, int n_left)
{
    int64_t start = path->step_start;
    int going_on = path->going_on;
    Py_ssize_t pauses = length(path->pauses);
    if (pauses < 0)
        return -1;
    if (end >= path->usual_until || end - start > path->slow_after || pauses > 0 || is_planned(path))
        return 0;
    if (path->steps >= path->most_steps)
        return 0;
    if (!path->is_sampling)
        return 1;
    if (update_meter(path, 1) < 0)
        return -1;
    /* Somebody may have closed the fast path meanwhile, and opened it in another step. */
    if (!path->is_open || path->step_start != start || path->going_on != going_on)
        return 0;
    return path->is_usual && path->n_events + n_left == path->n_usual;
}

int end_step(FastPath *path, int64_t end, int was_sampling)
{
    int64_t start = path->step_start;
    int64_t hooks = (int64_t)((double)path->calls * path->call_ns);
    write_record(path, STEP, start, end, path->micro_batches, hooks);
    path->index++;
    path->step_start = end;
    path->steps++;
    path->steps_ns += end - start;
    path->steps_hooks += hooks;
    path->calls = 0;
    path->n_events = path->n_reported = path->optimizer_steps = 0;
    path->is_usual = 1;
    if (!was_sampling && --path->until_sample == 0)
        return update_meter(path, 0);
    return 0;
}
