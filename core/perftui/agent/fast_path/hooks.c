/* The hooks of the fast path. */

#include "fast_path.h"

/* Whether the calling thread's hooks may come here. */
static int is_here(FastPath *path)
{
    if (!path->is_open || path->ring == NULL || path->capacity <= 0)
        return 0;
    if (!path->is_grad_enabled || !path->batches_ready || !path->guards)
        return 0;
    return PyThread_get_thread_ident() == path->own_thread;
}

/* What a weak reference refers to, borrowed; None where that is gone. */
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

/* Whether the batch that was asked for never came, and nobody saw the end of that. */
static int is_broken_off(FastPath *path)
{
    return path->is_fetching && !path->head.inside;
}

/* An error of ours ends the recording; one of the script's signal handlers is passed on. */
static PyObject *failed(FastPath *path)
{
    PyObject *type, *error, *trace, *kept;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        /* By where it came through it is known for a handler's. */
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
        /* A handler has raised meanwhile. */
        return NULL;
    Py_DECREF(kept);
    return PyLong_FromLong(0);
}

/* iterator: it is asked for a batch. When, or 0 where that is for the session. */
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

/* iterator, start: it has given a batch. Whether that is all. */
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

/* The outermost module is called. When, or 0 where that is for the session. */
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

/* kind, start: a forward or backward pass has returned or raised. Whether that is all. */
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

/* optimizer: its step begins. Whether it is known, and no other's goes on. */
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

/* The optimizer that steps has done so at ``end``. */
static void write_optimizer(FastPath *path, int64_t end, int event)
{
    write_record(path, OPTIMIZER, path->optimizer_start, end, 0, 0);
    path->going_on = -1;
    path->finished++;
    path->optimizer_steps++;
    push(path, event);
}

/* optimizer: its step is done. Whether it began here, and all was as usual where that may end a step. */
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
        /* One within a backward pass ends no step before that has ended. */
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

/* The hook, with what it costs added up. The one that ends a measured step is not counted, nor the one
   that begins it: both do more than the others. */
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

PyMethodDef fast_path_hooks[] = {
    METHOD(enter_fetch),
    METHOD(leave_fetch),
    METHOD(enter_forward),
    METHOD(enter_backward),
    METHOD(leave),
    METHOD(enter_optimizer),
    METHOD(leave_optimizer),
    {NULL, NULL, 0, NULL},
};
