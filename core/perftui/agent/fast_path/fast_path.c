/* The hooks of a loop that is known: what each of its steps does, written to the ring and compared
   with what the steps before it did. ``lane.py`` says when. Compiled, because a hook runs once a
   millisecond at most, when the caches hold little of it: in Python these hooks took 30 us of each
   such step, most of it waiting for memory.

   Python code runs in here where a measured step ends or begins, where a loader with workers is
   asked, and for errors. Handlers of signals and what the garbage collector calls may come in
   between there, and close the lane: it is asked again after each. */

#include "../native/compiled.h"

/* A text that is generated calls a module for each of its tokens. */
enum { MOST_EVENTS = 4096, MOST_OPTIMIZERS = 8, MOST_OPTIMIZER_STEPS = 48 };

/* Where no loader is asked for batches, steps also end with more forward or backward passes than this:
   LONG_WITHOUT_OPTIMIZER of ``steps.py``. */
enum { MOST_UNFED_EVENTS = 200 };

/* As in ``ring.py``. */
enum { STEP = 0, INPUT_WAIT = 1, OPTIMIZER = 5, INPUT_CPU = 10 };
enum { PAGE = 4096 };

/* As in ``lane.py``. */
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
    LaneHead head;
    char is_open, is_fed, is_sampling, is_fetching, has_workers, is_usual;
    unsigned long own_thread;
    long long ready, cpu_start;

    int n_events, n_usual; /* n_usual is -1 while no step is known */
    int n_told;
    int optimizer_steps; /* of the step that goes on */
    uint16_t events[MOST_EVENTS], usual[MOST_EVENTS];

    unsigned char *ring;
    long long capacity;
    const int64_t *plan; /* of all ranks, or NULL */
    long long planned;

    long long index, step_start, usual_until, slow_after, micro_batches, last_activity;
    long long steps, steps_ns, steps_hooks; /* since the lane was opened */

    long long calls, fetch_calls, until_sample, sampled_ns, sampled_calls;
    double call_ns;

    int n_optimizers, going_on; /* going_on: which of them steps, or -1 */
    long long optimizer_start, finished;
    Optimizer optimizers[MOST_OPTIMIZERS];

    PyObject *iterator; /* weak */
    PyObject *pauses;   /* list */
    PyObject *is_grad_enabled, *batches_ready, *keeps;
} Lane;

static void write_record(Lane *lane, int kind, int64_t start, int64_t end, int64_t value, int64_t extra)
{
    uint64_t *head = (uint64_t *)(lane->ring + PAGE) - 1;
    uint64_t number = *head;
    Record record = {number, start, end - start, value, extra, (uint32_t)lane->index, (uint8_t)kind, 0, {0}};
    memcpy(lane->ring + PAGE + number % (uint64_t)lane->capacity * sizeof record, &record, sizeof record);
    /* After the record: the reader trusts every slot below the head. */
    __atomic_store_n(head, number + 1, __ATOMIC_RELEASE);
    lane->last_activity = end;
}

/* Whether the calling thread's hooks may come here. */
static int is_here(Lane *lane)
{
    if (!lane->is_open || lane->ring == NULL || lane->capacity <= 0)
        return 0;
    if (!lane->is_grad_enabled || !lane->batches_ready || !lane->keeps)
        return 0;
    return PyThread_get_thread_ident() == lane->own_thread;
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

static int has_room(Lane *lane)
{
    if (!lane->is_fed)
        return lane->n_events < MOST_UNFED_EVENTS;
    return lane->n_events < MOST_EVENTS && referent(lane->iterator) != Py_None;
}

/* Whether the batch never came that was asked for: nobody was told of the end of that. */
static int is_broken_off(Lane *lane)
{
    return lane->is_fetching && !lane->head.inside;
}

/* How long ``list`` is, or -1 with an error where it is none, or deleted. */
static Py_ssize_t length(PyObject *list)
{
    if (list != NULL)
        return PyList_Size(list);
    PyErr_SetString(PyExc_TypeError, "it cannot be deleted");
    return -1;
}

static int takes(Py_ssize_t n_args, Py_ssize_t n)
{
    if (n_args == n)
        return 1;
    PyErr_Format(PyExc_TypeError, "%zd arguments are taken, not %zd", n, n_args);
    return 0;
}

/* Whether all has happened as in the steps before, and then this ``event`` did. */
static int is_next(Lane *lane, int event)
{
    return lane->is_usual && lane->n_events < lane->n_usual && lane->usual[lane->n_events] == event;
}

static void push(Lane *lane, int event)
{
    lane->is_usual = (char)is_next(lane, event);
    lane->events[lane->n_events++] = (uint16_t)event;
    lane->calls++;
}

/* An error of ours ends the recording; one of the script's signal handlers is passed on. */
static PyObject *failed(Lane *lane)
{
    PyObject *type, *error, *trace, *kept;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        /* By where it came through it is known for a handler's. */
        PyException_SetTraceback(error, trace);
    kept = PyObject_CallFunctionObjArgs(lane->keeps, error, NULL);
    if (kept == Py_True) {
        Py_DECREF(kept);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return PyLong_FromLong(0);
    }
    if (kept == NULL) {
        /* A handler has raised meanwhile. */
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return NULL;
    }
    Py_DECREF(kept);
    PyErr_Restore(type, error, trace);
    return NULL;
}

/* Whether another rank has planned a window meanwhile. */
static int is_planned(Lane *lane)
{
    return lane->plan != NULL && __atomic_load_n(lane->plan, __ATOMIC_RELAXED) != lane->planned;
}

static int call_method(Lane *lane, const char *name)
{
    PyObject *result = PyObject_CallMethod((PyObject *)lane, name, NULL);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Whether the step may end here at ``end``, where all but ``n_left`` of its events have happened; -1 with
   an error. The lane may be closed when this returns 0. */
static int may_end(Lane *lane, int64_t end, int n_left)
{
    int64_t start = lane->step_start;
    int going_on = lane->going_on;
    Py_ssize_t pauses = length(lane->pauses);
    if (pauses < 0)
        return -1;
    if (end >= lane->usual_until || end - start > lane->slow_after || pauses > 0 || is_planned(lane))
        return 0;
    if (!lane->is_sampling)
        return 1;
    if (call_method(lane, "end_sample") < 0)
        return -1;
    /* Somebody may have closed the lane meanwhile, and opened it in another step. */
    if (!lane->is_open || lane->step_start != start || lane->going_on != going_on)
        return 0;
    return lane->is_usual && lane->n_events + n_left == lane->n_usual;
}

/* The step is written, and the next one begins. -1 with an error; the lane may be closed when this
   returns. */
static int end_step(Lane *lane, int64_t end, int was_sampling)
{
    int64_t start = lane->step_start;
    int64_t hooks = (int64_t)((double)lane->calls * lane->call_ns);
    write_record(lane, STEP, start, end, lane->micro_batches, hooks);
    lane->index++;
    lane->step_start = end;
    lane->steps++;
    lane->steps_ns += end - start;
    lane->steps_hooks += hooks;
    lane->calls = 0;
    lane->n_events = lane->n_told = lane->optimizer_steps = 0;
    lane->is_usual = 1;
    if (!was_sampling && --lane->until_sample == 0)
        return call_method(lane, "begin_sample");
    return 0;
}

/* iterator: it is asked for a batch. When, or 0 where that is for the session. */
static PyObject *enter_fetch(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    if (!takes(n_args, 1))
        return NULL;
    if (!is_here(lane) || !lane->is_fed || referent(lane->iterator) != args[0])
        return PyLong_FromLong(0);
    if (lane->is_usual && lane->n_events == lane->n_usual) {
        int64_t end = clock_ns(CLOCK_MONOTONIC);
        int was_sampling = lane->is_sampling, taken = may_end(lane, end, 0);
        if (taken < 0 || (taken && end_step(lane, end, was_sampling) < 0))
            return failed(lane);
        if (!taken || !lane->is_open)
            return PyLong_FromLong(0);
        lane->calls++;
    } else if (is_next(lane, ASKED)) {
        /* The next of several micro batches. */
        push(lane, ASKED);
    } else {
        return PyLong_FromLong(0);
    }
    lane->is_fetching = 1;
    if (lane->has_workers) {
        PyObject *ready = PyObject_CallFunctionObjArgs(lane->batches_ready, args[0], NULL);
        if (ready == NULL)
            return failed(lane);
        lane->ready = PyLong_AsLongLong(ready);
        Py_DECREF(ready);
        if (PyErr_Occurred())
            return failed(lane);
    } else {
        lane->cpu_start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* iterator, start: it has given a batch. Whether that is all. */
static PyObject *leave_fetch(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    int64_t start, end;
    if (!takes(n_args, 2))
        return NULL;
    start = PyLong_AsLongLong(args[1]);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    if (!is_here(lane) || !lane->is_fed || !has_room(lane) || referent(lane->iterator) != args[0])
        return counted(Py_False);
    lane->is_fetching = 0;
    end = clock_ns(CLOCK_MONOTONIC);
    write_record(lane, INPUT_WAIT, start, end, lane->ready, 0);
    if (!lane->has_workers) {
        int64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - lane->cpu_start;
        write_record(lane, INPUT_CPU, end, end, used, 0);
        lane->calls += lane->fetch_calls;
    }
    push(lane, FETCHED);
    return counted(Py_True);
}

/* The outermost module is called. When, or 0 where that is for the session. */
static PyObject *enter_forward(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    PyObject *enabled;
    (void)args;
    if (!takes(n_args, 0))
        return NULL;
    if (!is_here(lane) || !has_room(lane) || is_broken_off(lane))
        return PyLong_FromLong(0);
    enabled = PyObject_CallObject(lane->is_grad_enabled, NULL);
    if (enabled == NULL)
        return failed(lane);
    push(lane, enabled == Py_True ? WITH_GRADIENTS : WITHOUT);
    Py_DECREF(enabled);
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* The autograd engine is called. */
static PyObject *enter_backward(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    (void)args;
    if (!takes(n_args, 0))
        return NULL;
    if (!is_here(lane) || !has_room(lane) || is_broken_off(lane))
        return PyLong_FromLong(0);
    push(lane, WENT_BACK);
    return PyLong_FromLongLong(clock_ns(CLOCK_MONOTONIC));
}

/* kind, start: a forward or backward pass has returned or raised. Whether that is all. */
static PyObject *leave(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    long kind;
    int64_t start;
    if (!takes(n_args, 2))
        return NULL;
    kind = PyLong_AsLong(args[0]);
    start = PyErr_Occurred() ? -1 : PyLong_AsLongLong(args[1]);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    if (!is_here(lane))
        return counted(Py_False);
    write_record(lane, (int)kind, start, clock_ns(CLOCK_MONOTONIC), 0, 0);
    lane->calls++;
    return counted(Py_True);
}

/* optimizer: its step begins. Whether it is known, and no other's goes on. */
static PyObject *enter_optimizer(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    int i;
    if (!takes(n_args, 1))
        return NULL;
    if (!is_here(lane) || lane->going_on >= 0 || is_broken_off(lane))
        return counted(Py_False);
    for (i = 0; i < lane->n_optimizers; i++)
        if (referent(lane->optimizers[i].reference) == args[0]) {
            lane->going_on = i;
            lane->optimizer_start = clock_ns(CLOCK_MONOTONIC);
            lane->calls++;
            return counted(Py_True);
        }
    return counted(Py_False);
}

/* The optimizer that steps has done so at ``end``. */
static void write_optimizer(Lane *lane, int64_t end, int event)
{
    write_record(lane, OPTIMIZER, lane->optimizer_start, end, 0, 0);
    lane->going_on = -1;
    lane->finished++;
    lane->optimizer_steps++;
    push(lane, event);
}

/* optimizer: its step is done. Whether it began here, and all was as usual where that may end a step. */
static PyObject *leave_optimizer(Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    Optimizer *optimizer;
    int64_t end;
    int event, was_sampling = lane->is_sampling, taken;
    if (!takes(n_args, 1))
        return NULL;
    if (!is_here(lane) || !has_room(lane))
        return counted(Py_False);
    if (lane->going_on < 0 || lane->going_on >= lane->n_optimizers)
        return counted(Py_False);
    optimizer = &lane->optimizers[lane->going_on];
    if (referent(optimizer->reference) != args[0] || lane->optimizer_steps >= MOST_OPTIMIZER_STEPS)
        return counted(Py_False);
    event = STEPPED + optimizer->number;
    end = clock_ns(CLOCK_MONOTONIC);
    if (!lane->is_fed) {
        /* One within a backward pass ends no step before that has ended. */
        if (lane->head.inside || !is_next(lane, event))
            return counted(Py_False);
        if (lane->n_events + 1 == lane->n_usual) {
            taken = may_end(lane, end, 1);
            if (taken < 0)
                return failed(lane);
            if (!taken)
                return counted(Py_False);
            write_optimizer(lane, end, event);
            if (end_step(lane, end, was_sampling) < 0)
                return failed(lane);
            return counted(Py_True);
        }
    }
    write_optimizer(lane, end, event);
    return counted(Py_True);
}

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

static PyObject *get_events(Lane *lane, void *unused)
{
    int i, n = lane->n_events;
    PyObject *list = PyList_New(n);
    (void)unused;
    for (i = 0; list != NULL && i < n; i++) {
        PyObject *event = PyLong_FromLong(lane->events[i]);
        if (event == NULL || PyList_SetItem(list, i, event) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int set_events(Lane *lane, PyObject *list, void *unused)
{
    int i, n = numbers(list, lane->events);
    (void)unused;
    if (n < 0)
        return -1;
    lane->n_events = n;
    lane->optimizer_steps = 0;
    /* A step of which the machine has been told ends there, or what it was told would stay. */
    lane->is_usual = n == 0;
    for (i = 0; i < n; i++)
        lane->optimizer_steps += lane->events[i] >= STEPPED;
    return 0;
}

static int set_usual(Lane *lane, PyObject *list, void *unused)
{
    (void)unused;
    lane->n_usual = list == Py_None ? -1 : numbers(list, lane->usual);
    return PyErr_Occurred() ? -1 : 0;
}

static void forget_optimizers(Lane *lane)
{
    while (lane->n_optimizers > 0) {
        lane->n_optimizers--;
        Py_CLEAR(lane->optimizers[lane->n_optimizers].reference);
    }
}

/* A list of weak references to optimizers, each with its number. */
static int set_optimizers(Lane *lane, PyObject *list, void *unused)
{
    Py_ssize_t i, n = length(list);
    (void)unused;
    if (n < 0)
        return -1;
    forget_optimizers(lane);
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
        lane->optimizers[lane->n_optimizers++] = (Optimizer){reference, number};
    }
    return 0;
}

static int traverse(Lane *lane, visitproc visit, void *arg)
{
    int i;
    for (i = 0; i < lane->n_optimizers; i++)
        Py_VISIT(lane->optimizers[i].reference);
    Py_VISIT(lane->iterator);
    Py_VISIT(lane->pauses);
    Py_VISIT(lane->is_grad_enabled);
    Py_VISIT(lane->batches_ready);
    Py_VISIT(lane->keeps);
    Py_VISIT(Py_TYPE(lane));
    return 0;
}

static int clear(Lane *lane)
{
    lane->is_open = 0;
    forget_optimizers(lane);
    Py_CLEAR(lane->iterator);
    Py_CLEAR(lane->pauses);
    Py_CLEAR(lane->is_grad_enabled);
    Py_CLEAR(lane->batches_ready);
    Py_CLEAR(lane->keeps);
    return 0;
}

static void dealloc(Lane *lane)
{
    let_go((PyObject *)lane, (inquiry)clear);
}

typedef PyObject *Hook(Lane *lane, PyObject *const *args, Py_ssize_t n_args);

/* The hook, with what it costs added up. The one that ends a measured step is not counted, nor the one
   that begins it: both do more than the others. */
static PyObject *measured(Hook *hook, Lane *lane, PyObject *const *args, Py_ssize_t n_args)
{
    int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    long long steps = lane->steps;
    PyObject *result = hook(lane, args, n_args);
    if (lane->is_sampling && lane->steps == steps) {
        int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        lane->sampled_ns += end - start - (start - before);
        lane->sampled_calls++;
    }
    return result;
}

#define MEASURED(name) \
    static PyObject *name##_hook(Lane *lane, PyObject *const *args, Py_ssize_t n_args) \
    { \
        return lane->is_sampling ? measured(name, lane, args, n_args) : name(lane, args, n_args); \
    }

MEASURED(enter_fetch)
MEASURED(leave_fetch)
MEASURED(enter_forward)
MEASURED(enter_backward)
MEASURED(leave)
MEASURED(enter_optimizer)
MEASURED(leave_optimizer)

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name##_hook, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    FUNCTION(enter_fetch),
    FUNCTION(leave_fetch),
    FUNCTION(enter_forward),
    FUNCTION(enter_backward),
    FUNCTION(leave),
    FUNCTION(enter_optimizer),
    FUNCTION(leave_optimizer),
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"inside", T_BOOL, offsetof(Lane, head.inside), 0, NULL},
    {"is_off", T_BOOL, offsetof(Lane, head.is_off), 0, NULL},
    {"goes_back", T_BOOL, offsetof(Lane, head.goes_back), 0, NULL},
    MEMBER(Lane, is_open, T_BOOL),
    MEMBER(Lane, is_fed, T_BOOL),
    MEMBER(Lane, is_sampling, T_BOOL),
    MEMBER(Lane, is_fetching, T_BOOL),
    MEMBER(Lane, has_workers, T_BOOL),
    MEMBER(Lane, own_thread, T_ULONG),
    MEMBER(Lane, ready, T_LONGLONG),
    MEMBER(Lane, cpu_start, T_LONGLONG),
    MEMBER(Lane, n_told, T_INT),
    MEMBER(Lane, capacity, T_LONGLONG),
    MEMBER(Lane, ring, T_ULONGLONG),
    MEMBER(Lane, plan, T_ULONGLONG),
    MEMBER(Lane, planned, T_LONGLONG),
    MEMBER(Lane, index, T_LONGLONG),
    MEMBER(Lane, step_start, T_LONGLONG),
    MEMBER(Lane, usual_until, T_LONGLONG),
    MEMBER(Lane, slow_after, T_LONGLONG),
    MEMBER(Lane, micro_batches, T_LONGLONG),
    MEMBER(Lane, last_activity, T_LONGLONG),
    MEMBER(Lane, steps, T_LONGLONG),
    MEMBER(Lane, steps_ns, T_LONGLONG),
    MEMBER(Lane, steps_hooks, T_LONGLONG),
    MEMBER(Lane, calls, T_LONGLONG),
    MEMBER(Lane, fetch_calls, T_LONGLONG),
    MEMBER(Lane, until_sample, T_LONGLONG),
    MEMBER(Lane, sampled_ns, T_LONGLONG),
    MEMBER(Lane, sampled_calls, T_LONGLONG),
    MEMBER(Lane, call_ns, T_DOUBLE),
    MEMBER(Lane, going_on, T_INT),
    MEMBER(Lane, optimizer_start, T_LONGLONG),
    MEMBER(Lane, finished, T_LONGLONG),
    MEMBER(Lane, iterator, T_OBJECT_EX),
    MEMBER(Lane, pauses, T_OBJECT_EX),
    MEMBER(Lane, is_grad_enabled, T_OBJECT_EX),
    MEMBER(Lane, batches_ready, T_OBJECT_EX),
    MEMBER(Lane, keeps, T_OBJECT_EX),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"events", (getter)get_events, (setter)set_events, NULL, NULL},
    {"usual", NULL, (setter)set_usual, NULL, NULL},
    {"optimizers", NULL, (setter)set_optimizers, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {0, NULL},
};

static PyType_Spec spec = {
    "perftui.agent.native._compiled.CompiledLane",
    sizeof(Lane),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};

PyObject *lane_type(void)
{
    return PyType_FromSpec(&spec);
}
