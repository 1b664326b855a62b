/* The fast path: writes the events of a known loop to the ring, and compares each step with those
   before it. ``recording/fast_path.py`` says when. Compiled, because a hook runs once a
   millisecond at most, when the caches hold little of it: in Python these hooks took 30 us of each
   such step, most of it waiting for memory.

   Python code runs in here where a measured step ends or begins, where a loader with workers is
   asked, and for errors. Signal handlers and callbacks of the garbage collector may run there
   and close the fast path: whether it is open is checked again after each. */

#include "compiled.h"

/* Generating text calls a module for each token. */
enum { MOST_EVENTS = 4096, MOST_OPTIMIZERS = 8, MOST_OPTIMIZER_STEPS = 48 };

/* Where no loader is asked for batches, steps also end with more forward or backward passes than this:
   LONG_WITHOUT_OPTIMIZER of ``recording/steps.py``. */
enum { MOST_UNFED_EVENTS = 200 };

/* As in ``wire/ring.py``. */
enum { STEP = 0, INPUT_WAIT = 1, OPTIMIZER = 5, INPUT_CPU = 10 };
enum { PAGE = 4096 };

/* As in ``recording/fast_path.py``. */
enum { FETCHED, WITH_GRADIENTS, WITHOUT, WENT_BACK, ASKED, STEPPED };

typedef struct {
    uint64_t number;
    int64_t start, duration, value, extra;
    uint32_t step;
    uint8_t kind, flag, unused[2];
} Record;

typedef struct {
    PyObject *reference; /* weak */
    int number;
} Optimizer;

typedef struct {
    FastPathHead head;
    char is_open, is_fed, is_sampling, is_fetching, has_workers, is_usual;
    unsigned long own_thread;
    long long ready, cpu_start;

    int n_events, n_usual; /* n_usual is -1 while no step is known */
    int n_reported;
    int optimizer_steps; /* of the step that goes on */
    uint16_t events[MOST_EVENTS], usual[MOST_EVENTS];

    unsigned char *ring;
    long long capacity;
    const int64_t *plan; /* of all ranks, or NULL */
    long long planned;

    long long index, step_start, usual_until, slow_after, micro_batches, last_activity;
    long long steps, steps_ns, steps_hooks; /* since the fast path was opened */
    long long most_steps; /* most steps that may end here */

    long long calls, fetch_calls, until_sample, sampled_ns, sampled_calls;
    double call_ns;

    int n_optimizers, going_on; /* going_on: index of the one that steps, or -1 */
    long long optimizer_start, finished;
    Optimizer optimizers[MOST_OPTIMIZERS];

    PyObject *iterator; /* weak */
    PyObject *pauses;   /* list */
    PyObject *is_grad_enabled, *batches_ready, *guards;
} FastPath;

/* Appends one record to the ring. */
static void write_record(FastPath *path, int kind, int64_t start, int64_t end, int64_t value, int64_t extra)
{
    uint64_t *head = (uint64_t *)(path->ring + PAGE) - 1;
    uint64_t number = *head;
    Record record = {number, start, end - start, value, extra, (uint32_t)path->index, (uint8_t)kind, 0, {0}};
    memcpy(path->ring + PAGE + number % (uint64_t)path->capacity * sizeof record, &record, sizeof record);
    /* After the record: the reader trusts every slot below the head. */
    __atomic_store_n(head, number + 1, __ATOMIC_RELEASE);
    path->last_activity = end;
}

/* Whether the events so far, with ``event``, match the steps before. */
static int is_next(FastPath *path, int event)
{
    return path->is_usual && path->n_events < path->n_usual && path->usual[path->n_events] == event;
}

/* Appends ``event``. */
static void push(FastPath *path, int event)
{
    path->is_usual = (char)is_next(path, event);
    path->events[path->n_events++] = (uint16_t)event;
    path->calls++;
}

/* Length of ``list``, or -1 with an error if it is no list, or deleted. */
static Py_ssize_t length(PyObject *list)
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

/* A measured step begins, or one more has ended. */
static int update_meter(FastPath *path, int ended)
{
    PyObject *result = PyObject_CallMethod((PyObject *)path, "update_meter", "i", ended);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Whether the step may end here at ``end``, with all but ``n_left`` of its events; -1 with
   an error. The fast path may be closed when this returns 0. */
static int may_end(FastPath *path, int64_t end, int n_left)
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

/* Writes the step and begins the next. -1 with an error; the fast path may be closed when this
   returns. */
static int end_step(FastPath *path, int64_t end, int was_sampling)
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

/* The hooks. */

/* Whether the calling thread may use the fast path. */
static int is_here(FastPath *path)
{
    if (!path->is_open || path->ring == NULL || path->capacity <= 0)
        return 0;
    if (!path->is_grad_enabled || !path->batches_ready || !path->guards)
        return 0;
    return PyThread_get_thread_ident() == path->own_thread;
}

/* Target of a weak reference, borrowed; None if it is gone. */
static PyObject *referent(PyObject *reference)
{
    PyObject *alive = PyWeakref_GetObject(reference);
    if (alive != NULL)
        return alive;
    PyErr_Clear();
    return Py_None;
}

static int has_room(FastPath *path)
{
    if (!path->is_fed)
        return path->n_events < MOST_UNFED_EVENTS;
    return path->n_events < MOST_EVENTS && referent(path->iterator) != Py_None;
}

/* Whether the requested batch never came, and its end was missed. */
static int is_broken_off(FastPath *path)
{
    return path->is_fetching && !path->head.inside;
}

/* An error of ours ends the recording; that of a signal handler of the script is passed on. */
static PyObject *failed(FastPath *path)
{
    PyObject *type, *error, *trace, *kept;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        /* Its traceback shows whether it is a handler's. */
        PyException_SetTraceback(error, trace);
    kept = PyObject_CallFunctionObjArgs(path->guards, error, NULL);
    if (kept != NULL && kept != Py_True) {
        Py_DECREF(kept);
        PyErr_Restore(type, error, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    if (kept == NULL)
        /* A handler has raised in between. */
        return NULL;
    Py_DECREF(kept);
    return PyLong_FromLong(0);
}

/* iterator is asked for a batch. Returns the time, or 0 to leave it to the session. */
static PyObject *enter_fetch(FastPath *path, PyObject *const *args)
{
    if (!is_here(path) || !path->is_fed || referent(path->iterator) != args[0])
        return PyLong_FromLong(0);
    if (path->is_usual && path->n_events == path->n_usual) {
        int64_t end = clock_ns(CLOCK_MONOTONIC);
        int was_sampling = path->is_sampling, taken = may_end(path, end, 0);
        if (taken < 0 || (taken && end_step(path, end, was_sampling) < 0))
            return failed(path);
        if (!taken || !path->is_open)
            return PyLong_FromLong(0);
        path->calls++;
    } else if (is_next(path, ASKED)) {
        /* The next of several micro batches. */
        push(path, ASKED);
    } else {
        return PyLong_FromLong(0);
    }
    path->is_fetching = 1;
    if (path->has_workers) {
        PyObject *ready = PyObject_CallFunctionObjArgs(path->batches_ready, args[0], NULL);
        if (ready == NULL)
            return failed(path);
        path->ready = PyLong_AsLongLong(ready);
        Py_DECREF(ready);
        if (PyErr_Occurred())
            return failed(path);
    }
    path->cpu_start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* iterator, start: it has returned a batch. Whether that was handled here. */
static PyObject *leave_fetch(FastPath *path, PyObject *const *args)
{
    int64_t start, end, used;
    start = PyLong_AsLongLong(args[1]);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    if (!is_here(path) || !path->is_fed || !has_room(path) || referent(path->iterator) != args[0])
        return counted(Py_False);
    path->is_fetching = 0;
    end = clock_ns(CLOCK_MONOTONIC);
    write_record(path, INPUT_WAIT, start, end, path->ready, 0);
    used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - path->cpu_start;
    write_record(path, INPUT_CPU, end, end, used, 0);
    path->calls += path->fetch_calls;
    push(path, FETCHED);
    return counted(Py_True);
}

/* The outermost module is called. Returns the time, or 0 to leave it to the session. */
static PyObject *enter_forward(FastPath *path, PyObject *const *args)
{
    PyObject *enabled;
    (void)args;
    if (!is_here(path) || !has_room(path) || is_broken_off(path))
        return PyLong_FromLong(0);
    enabled = PyObject_CallObject(path->is_grad_enabled, NULL);
    if (enabled == NULL)
        return failed(path);
    push(path, enabled == Py_True ? WITH_GRADIENTS : WITHOUT);
    Py_DECREF(enabled);
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* The autograd engine is called. */
static PyObject *enter_backward(FastPath *path, PyObject *const *args)
{
    (void)args;
    if (!is_here(path) || !has_room(path) || is_broken_off(path))
        return PyLong_FromLong(0);
    push(path, WENT_BACK);
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* kind, start: a forward or backward pass has returned or raised. Whether that was handled here. */
static PyObject *leave(FastPath *path, PyObject *const *args)
{
    long kind;
    int64_t start;
    kind = PyLong_AsLong(args[0]);
    start = PyErr_Occurred() ? -1 : PyLong_AsLongLong(args[1]);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    if (!is_here(path))
        return counted(Py_False);
    write_record(path, (int)kind, start, clock_ns(CLOCK_MONOTONIC), 0, 0);
    path->calls++;
    return counted(Py_True);
}

/* optimizer: its step begins. Whether it is known, and no other one steps. */
static PyObject *enter_optimizer(FastPath *path, PyObject *const *args)
{
    int i;
    if (!is_here(path) || path->going_on >= 0 || is_broken_off(path))
        return counted(Py_False);
    for (i = 0; i < path->n_optimizers; i++)
        if (referent(path->optimizers[i].reference) == args[0]) {
            path->going_on = i;
            path->optimizer_start = clock_ns(CLOCK_MONOTONIC);
            path->calls++;
            return counted(Py_True);
        }
    return counted(Py_False);
}

/* The current optimizer step ends at ``end``. */
static void write_optimizer(FastPath *path, int64_t end, int event)
{
    write_record(path, OPTIMIZER, path->optimizer_start, end, 0, 0);
    path->going_on = -1;
    path->finished++;
    path->optimizer_steps++;
    push(path, event);
}

/* optimizer: its step ends. Whether it began here, and all was as usual if that may end a step. */
static PyObject *leave_optimizer(FastPath *path, PyObject *const *args)
{
    Optimizer *optimizer;
    int64_t end;
    int event, was_sampling = path->is_sampling, taken;
    if (!is_here(path) || !has_room(path))
        return counted(Py_False);
    if (path->going_on < 0 || path->going_on >= path->n_optimizers)
        return counted(Py_False);
    optimizer = &path->optimizers[path->going_on];
    if (referent(optimizer->reference) != args[0] || path->optimizer_steps >= MOST_OPTIMIZER_STEPS)
        return counted(Py_False);
    event = STEPPED + optimizer->number;
    end = clock_ns(CLOCK_MONOTONIC);
    if (!path->is_fed) {
        /* An optimizer step within a backward pass ends no step before the pass ends. */
        if (path->head.inside || !is_next(path, event))
            return counted(Py_False);
        if (path->n_events + 1 == path->n_usual) {
            taken = may_end(path, end, 1);
            if (taken < 0)
                return failed(path);
            if (!taken)
                return counted(Py_False);
            write_optimizer(path, end, event);
            if (end_step(path, end, was_sampling) < 0)
                return failed(path);
            return counted(Py_True);
        }
    }
    write_optimizer(path, end, event);
    return counted(Py_True);
}

typedef PyObject *Hook(FastPath *path, PyObject *const *args);

/* Calls the hook and adds up its cost. The hooks that begin or end a measured step are not counted:
   both do more than the others. */
static PyObject *measured(Hook *hook, FastPath *path, PyObject *const *args)
{
    int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    long long steps = path->steps;
    PyObject *result = hook(path, args);
    if (path->is_sampling && path->steps == steps) {
        int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        path->sampled_ns += end - start - (start - before);
        path->sampled_calls++;
    }
    return result;
}

#define HOOK(name, takes) \
    static PyObject *name##_hook(FastPath *path, PyObject *const *args, Py_ssize_t n_args) \
    { \
        if (n_args != takes) \
            return PyErr_Format(PyExc_TypeError, "%d arguments are taken, not %zd", takes, n_args); \
        return path->is_sampling ? measured(name, path, args) : name(path, args); \
    }

HOOK(enter_fetch, 1)
HOOK(leave_fetch, 2)
HOOK(enter_forward, 0)
HOOK(enter_backward, 0)
HOOK(leave, 2)
HOOK(enter_optimizer, 1)
HOOK(leave_optimizer, 1)

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name##_hook, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(enter_fetch),
    METHOD(leave_fetch),
    METHOD(enter_forward),
    METHOD(enter_backward),
    METHOD(leave),
    METHOD(enter_optimizer),
    METHOD(leave_optimizer),
    {NULL, NULL, 0, NULL},
};

/* The class: its attributes and references. */

/* Copies a list of numbers to ``values``; returns their count, or -1 with an error. */
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
    /* If the step machine has seen events of a step, it must end there, or they would stay. */
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
    SLOTS, {Py_tp_methods, methods}, {Py_tp_getset, properties}, {0, NULL},
};

PyType_Spec fast_path_spec = SPEC("CompiledFastPath", FastPath, Py_TPFLAGS_BASETYPE);
