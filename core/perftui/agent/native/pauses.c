/* Listens to the garbage collector: see ``recording.py``. Compiled, because a signal that arrives
   while Python code runs here is handled here, and the collector drops what its listeners raise: a
   Ctrl-C would be lost. */

#include "compiled.h"

static const int64_t SHORTEST_NS = 100000;

typedef struct {
    PyObject_HEAD
    unsigned long thread;
    long long begun;
    PyObject *found; /* list */
} Pauses;

/* phase, info: as the collector calls its listeners. */
static PyObject *on_phase(Pauses *pauses, PyObject *const *args, Py_ssize_t n_args)
{
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (n_args != 2) {
        PyErr_SetString(PyExc_TypeError, "a phase and what is known of it");
        return NULL;
    }
    if (PyThread_get_thread_ident() != pauses->thread)
        return counted(Py_None);
    if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
        pauses->begun = now;
    } else if (pauses->begun && now - pauses->begun >= SHORTEST_NS && pauses->found != NULL) {
        PyObject *pause, *generation = PyDict_GetItemString(args[1], "generation");
        if (generation == NULL) {
            PyErr_SetString(PyExc_KeyError, "generation");
            return NULL;
        }
        pause = Py_BuildValue("(LLO)", pauses->begun, (long long)now - pauses->begun, generation);
        if (pause == NULL || PyList_Append(pauses->found, pause) < 0) {
            Py_XDECREF(pause);
            return NULL;
        }
        Py_DECREF(pause);
    }
    return counted(Py_None);
}

static PyMethodDef methods[] = {
    {"on_phase", (PyCFunction)(void (*)(void))on_phase, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    MEMBER(Pauses, thread, T_ULONG),
    MEMBER(Pauses, found, T_OBJECT_EX),
    {NULL, 0, 0, 0, NULL},
};

COLLECTED

static PyType_Slot slots[] = {SLOTS, {Py_tp_methods, methods}, {0, NULL}};

PyType_Spec pauses_spec = SPEC("CompiledPauses", Pauses, Py_TPFLAGS_BASETYPE);
