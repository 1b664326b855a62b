/* The class of the fast path: its attributes, and what it refers to. */

#include "fast_path.h"

/* A list of numbers becomes ``values``; how many, or -1 with an error. */
static int numbers(PyObject *list, uint16_t *values)
{
    Py_ssize_t i, n = length(list);
    if (n > MOST_EVENTS) {
        PyErr_SetString(PyExc_ValueError, "a step of too many events");
        return -1;
    }
    for (i = 0; i < n; i++) {
        long value = PyLong_AsLong(PyList_GetItem(list, i));
        if (value < 0 || value > UINT16_MAX) {
            PyErr_SetString(PyExc_ValueError, "no event has that number");
            return -1;
        }
        values[i] = (uint16_t)value;
    }
    return (int)n;
}

static PyObject *get_events(FastPath *path, void *unused)
{
    int i, n = path->n_events;
    PyObject *list = PyList_New(n);
    (void)unused;
    for (i = 0; list != NULL && i < n; i++) {
        PyObject *event = PyLong_FromLong(path->events[i]);
        if (event == NULL || PyList_SetItem(list, i, event) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int set_events(FastPath *path, PyObject *list, void *unused)
{
    int i, n = numbers(list, path->events);
    (void)unused;
    if (n < 0)
        return -1;
    path->n_events = n;
    path->optimizer_steps = 0;
    /* A step of which the step machine has seen events ends there, or those events would stay. */
    path->is_usual = n == 0;
    for (i = 0; i < n; i++)
        path->optimizer_steps += path->events[i] >= STEPPED;
    return 0;
}

static int set_usual(FastPath *path, PyObject *list, void *unused)
{
    (void)unused;
    path->n_usual = list == Py_None ? -1 : numbers(list, path->usual);
    return PyErr_Occurred() ? -1 : 0;
}

static void forget_optimizers(FastPath *path)
{
    while (path->n_optimizers > 0) {
        path->n_optimizers--;
        Py_CLEAR(path->optimizers[path->n_optimizers].reference);
    }
}

/* A list of weak references to optimizers, each with its number. */
static int set_optimizers(FastPath *path, PyObject *list, void *unused)
{
    Py_ssize_t i, n = length(list);
    (void)unused;
    if (n < 0)
        return -1;
    forget_optimizers(path);
    for (i = 0; i < n && i < MOST_OPTIMIZERS; i++) {
        PyObject *pair = PyList_GetItem(list, i), *reference;
        int number;
        if (pair == NULL || !PyArg_ParseTuple(pair, "Oi", &reference, &number))
            return -1;
        if (number < 0 || number > UINT16_MAX - STEPPED) {
            PyErr_SetString(PyExc_ValueError, "no event has the number of that optimizer");
            return -1;
        }
        Py_INCREF(reference);
        path->optimizers[path->n_optimizers++] = (Optimizer){reference, number};
    }
    return 0;
}

static PyMemberDef members[] = {
    {"inside", T_BOOL, offsetof(FastPath, head.inside), 0, NULL},
    {"is_off", T_BOOL, offsetof(FastPath, head.is_off), 0, NULL},
    {"goes_back", T_BOOL, offsetof(FastPath, head.goes_back), 0, NULL},
    MEMBER(FastPath, is_open, T_BOOL),
    MEMBER(FastPath, is_fed, T_BOOL),
    MEMBER(FastPath, is_sampling, T_BOOL),
    MEMBER(FastPath, is_fetching, T_BOOL),
    MEMBER(FastPath, has_workers, T_BOOL),
    MEMBER(FastPath, own_thread, T_ULONG),
    MEMBER(FastPath, ready, T_LONGLONG),
    MEMBER(FastPath, cpu_start, T_LONGLONG),
    MEMBER(FastPath, n_reported, T_INT),
    MEMBER(FastPath, capacity, T_LONGLONG),
    MEMBER(FastPath, ring, T_ULONGLONG),
    MEMBER(FastPath, plan, T_ULONGLONG),
    MEMBER(FastPath, planned, T_LONGLONG),
    MEMBER(FastPath, index, T_LONGLONG),
    MEMBER(FastPath, step_start, T_LONGLONG),
    MEMBER(FastPath, usual_until, T_LONGLONG),
    MEMBER(FastPath, slow_after, T_LONGLONG),
    MEMBER(FastPath, micro_batches, T_LONGLONG),
    MEMBER(FastPath, last_activity, T_LONGLONG),
    MEMBER(FastPath, steps, T_LONGLONG),
    MEMBER(FastPath, steps_ns, T_LONGLONG),
    MEMBER(FastPath, steps_hooks, T_LONGLONG),
    MEMBER(FastPath, most_steps, T_LONGLONG),
    MEMBER(FastPath, calls, T_LONGLONG),
    MEMBER(FastPath, fetch_calls, T_LONGLONG),
    MEMBER(FastPath, until_sample, T_LONGLONG),
    MEMBER(FastPath, sampled_ns, T_LONGLONG),
    MEMBER(FastPath, sampled_calls, T_LONGLONG),
    MEMBER(FastPath, call_ns, T_DOUBLE),
    MEMBER(FastPath, going_on, T_INT),
    MEMBER(FastPath, optimizer_start, T_LONGLONG),
    MEMBER(FastPath, finished, T_LONGLONG),
    MEMBER(FastPath, iterator, T_OBJECT_EX),
    MEMBER(FastPath, pauses, T_OBJECT_EX),
    MEMBER(FastPath, is_grad_enabled, T_OBJECT_EX),
    MEMBER(FastPath, batches_ready, T_OBJECT_EX),
    MEMBER(FastPath, guards, T_OBJECT_EX),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"events", (getter)get_events, (setter)set_events, NULL, NULL},
    {"usual", NULL, (setter)set_usual, NULL, NULL},
    {"optimizers", NULL, (setter)set_optimizers, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int traverse(FastPath *path, visitproc visit, void *arg)
{
    int i;
    for (i = 0; i < path->n_optimizers; i++)
        Py_VISIT(path->optimizers[i].reference);
    return visit_members((PyObject *)path, members, visit, arg);
}

static int clear(FastPath *path)
{
    path->is_open = 0;
    forget_optimizers(path);
    return clear_members((PyObject *)path, members);
}

static void dealloc(PyObject *path)
{
    let_go(path, (inquiry)clear);
}

static PyType_Slot slots[] = {
    SLOTS, {Py_tp_methods, fast_path_hooks}, {Py_tp_getset, properties}, {0, NULL},
};

PyType_Spec fast_path_spec = SPEC("CompiledFastPath", FastPath, Py_TPFLAGS_BASETYPE);
