/* The module ``_compiled``: hooks of the agent that run too often for Python, and the listener to the
   garbage collector. */

#include "compiled.h"

static PyObject **reference(PyObject *object, const PyMemberDef *member)
{
    return member->type == T_OBJECT_EX ? (PyObject **)((char *)object + member->offset) : NULL;
}

int visit_members(PyObject *object, const PyMemberDef *members, visitproc visit, void *arg)
{
    for (; members->name != NULL; members++) {
        PyObject **found = reference(object, members);
        if (found != NULL)
            Py_VISIT(*found);
    }
    Py_VISIT(Py_TYPE(object));
    return 0;
}

int clear_members(PyObject *object, const PyMemberDef *members)
{
    for (; members->name != NULL; members++) {
        PyObject **found = reference(object, members);
        if (found != NULL)
            Py_CLEAR(*found);
    }
    return 0;
}

void let_go(PyObject *object, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    clear(object);
    release(object);
    Py_DECREF(type);
}

/* Listens to the garbage collector: see ``recording.py``. It is in C because a signal that arrives
   while Python code runs here is handled here, and the collector drops what its listeners raise: a
   Ctrl-C would be lost. */

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

static PyType_Spec pauses_spec = SPEC("CompiledPauses", Pauses, Py_TPFLAGS_BASETYPE);

static int execute(PyObject *module)
{
    PyType_Spec *specs[] = {&around_spec, &fast_path_spec, &page_spec, &pauses_spec};
    size_t i;
    for (i = 0; i < sizeof specs / sizeof *specs; i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        int added = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
        Py_XDECREF(type);
        if (added < 0)
            return -1;
    }
    return find_bound_method();
}

static PyModuleDef_Slot stages[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, NULL, stages, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
