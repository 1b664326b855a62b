/* The fast path: what a loop that is known does in each step, written to the ring and compared with
   what the steps before it did. ``fast_path.py`` says when. Compiled, because a hook runs once a
   millisecond at most, when the caches hold little of it: in Python these hooks took 30 us of each
   such step, most of it waiting for memory.

   Python code runs in here where a measured step ends or begins, where a loader with workers is
   asked, and for errors. Handlers of signals and what the garbage collector calls may come in
   between there, and close the fast path: whether it is open is asked again after each. */

#include "../native/compiled.h"

/* A text that is generated calls a module for each of its tokens. */
enum { MOST_EVENTS = 4096, MOST_OPTIMIZERS = 8, MOST_OPTIMIZER_STEPS = 48 };

/* Where no loader is asked for batches, steps also end with more forward or backward passes than this:
   LONG_WITHOUT_OPTIMIZER of ``steps.py``. */
enum { MOST_UNFED_EVENTS = 200 };

/* As in ``wire/ring.py``. */
enum { STEP = 0, INPUT_WAIT = 1, OPTIMIZER = 5, INPUT_CPU = 10 };
enum { PAGE = 4096 };

/* As in ``fast_path.py``. */
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
    long long most_steps; /* no further one ends here */

    long long calls, fetch_calls, until_sample, sampled_ns, sampled_calls;
    double call_ns;

    int n_optimizers, going_on; /* going_on: which of them steps, or -1 */
    long long optimizer_start, finished;
    Optimizer optimizers[MOST_OPTIMIZERS];

    PyObject *iterator; /* weak */
    PyObject *pauses;   /* list */
    PyObject *is_grad_enabled, *batches_ready, *guards;
} FastPath;

#pragma GCC visibility push(hidden)

/* Appends one record to the ring. */
void write_record(FastPath *path, int kind, int64_t start, int64_t end, int64_t value, int64_t extra);

/* Whether all has happened as in the steps before, and then this ``event`` did. */
int is_next(FastPath *path, int event);

/* Notes that ``event`` has happened. */
void push(FastPath *path, int event);

/* How long ``list`` is, or -1 with an error where it is none, or deleted. */
Py_ssize_t length(PyObject *list);

/* Whether the step may end here at ``end``, where all but ``n_left`` of its events have happened; -1 with
   an error. The fast path may be closed when this returns 0. */
int may_end(FastPath *path, int64_t end, int n_left);

/* The step is written, and the next one begins. -1 with an error; the fast path may be closed when this
   returns. */
int end_step(FastPath *path, int64_t end, int was_sampling);

/* The hooks, as methods. */
extern PyMethodDef fast_path_hooks[];

#pragma GCC visibility pop
