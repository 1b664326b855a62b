/* Wraps a function of torch without a frame: see ``around.py``. Compiled, because a Python frame
   between the script and torch is visible: a warning that torch gives in the name of its caller
   would name us, and be shown again, and a traceback would lead through here. Nor can a signal
   arrive between a phase and the notes of its beginning and end. */

#include "compiled.h"

typedef struct {
    PyObject_HEAD
    PyObject *original;
    PyObject *enter, *leave;             /* leave may be NULL */
    PyObject *fast_enter, *fast_leave; /* of the fast path, or NULL */
    PyObject *phase;                     /* number, or NULL */
    FastPathHead *fast_path;             /* or NULL */
    char goes_back, insists, poses;
    PyObject *names, *weak;
} Around;

/* As in Python's ``finally``: the current exception was raised while ``error`` was handled. */
static void raise_over(PyObject *type, PyObject *error, PyObject *trace)
{
    PyObject *newer_type, *newer, *newer_trace, *outer, *last, *next;
    int links = 0;
    PyErr_Fetch(&newer_type, &newer, &newer_trace);
    PyErr_NormalizeException(&newer_type, &newer, &newer_trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        PyException_SetTraceback(error, trace);
    /* An exception that the script is handling lies beneath both. */
    outer = PyException_GetContext(error);
    last = newer;
    Py_INCREF(last);
    while ((next = PyException_GetContext(last)) != NULL && next != outer && next != error && links++ < 64) {
        Py_DECREF(last);
        last = next;
    }
    if (next != error && last != error) {
        Py_INCREF(error);
        PyException_SetContext(last, error);
    }
    Py_XDECREF(next);
    Py_DECREF(last);
    Py_XDECREF(outer);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    PyErr_Restore(newer_type, newer, newer_trace);
}

/* The token for ``leave``; None if that is not to be called. */
static PyObject *begin(Around *around, PyObject *args, PyObject *named)
{
    if (around->fast_enter != NULL) {
        PyObject *first = around->phase == NULL ? PyTuple_GetItem(args, 0) : NULL;
        PyObject *start = PyObject_CallFunctionObjArgs(around->fast_enter, first, NULL);
        int is_known = start == NULL ? -1 : PyObject_IsTrue(start);
        if (is_known > 0)
            return start;
        Py_XDECREF(start);
        if (is_known < 0)
            return NULL;
    }
    return PyObject_CallFunctionObjArgs(around->enter, args, named == NULL ? Py_None : named, NULL);
}

/* Whether the fast path has handled the end; -1 with an error. */
static int end_fast(Around *around, PyObject *args, PyObject *token, int arrived)
{
    PyObject *first, *answer;
    int is_all;
    /* A pass has ended either way; a fetch without a batch is left to the session. */
    if (around->fast_leave == NULL || !(arrived || around->phase != NULL))
        return 0;
    first = around->phase == NULL ? PyTuple_GetItem(args, 0) : around->phase;
    answer = PyObject_CallFunctionObjArgs(around->fast_leave, first, token, NULL);
    is_all = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return is_all;
}

static int end(Around *around, PyObject *args, PyObject *token, PyObject *result, int arrived)
{
    PyObject *answer;
    int is_all = end_fast(around, args, token, arrived);
    if (is_all != 0)
        return is_all < 0 ? -1 : 0;
    answer = PyObject_CallFunctionObjArgs(
        around->leave, args, token, arrived ? result : Py_None, arrived ? Py_True : Py_False, NULL);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

/* Calls the original, then ``leave`` if there is one. */
static PyObject *pass(Around *around, PyObject *args, PyObject *named, PyObject *token)
{
    PyObject *type, *error, *trace, *result;
    FastPathHead *path = around->fast_path;
    int is_notified;
    if (path != NULL) {
        path->inside = 1;
        path->goes_back = around->goes_back;
    }
    result = PyObject_Call(around->original, args, named);
    if (path != NULL) {
        path->inside = path->is_off;
        path->goes_back = 0;
    }
    if (around->leave == NULL)
        return result;
    PyErr_Fetch(&type, &error, &trace);
    is_notified = end(around, args, token, result, result != NULL);
    if (is_notified < 0 && around->insists) {
        PyObject *newer_type, *newer, *newer_trace;
        PyErr_Fetch(&newer_type, &newer, &newer_trace);
        if (end(around, args, token, NULL, 0) < 0)
            raise_over(newer_type, newer, newer_trace);
        else
            PyErr_Restore(newer_type, newer, newer_trace);
    }
    if (is_notified < 0)
        Py_CLEAR(result);
    if (type == NULL)
        return result;
    if (is_notified < 0)
        raise_over(type, error, trace);
    else
        PyErr_Restore(type, error, trace);
    return NULL;
}

static PyObject *call(Around *around, PyObject *args, PyObject *named)
{
    PyObject *token, *result;
    if (around->enter == NULL || around->original == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "it stands around nothing");
        return NULL;
    }
    /* Without an argument the original reports what is missing. */
    if ((around->fast_path != NULL && around->fast_path->inside) || PyTuple_Size(args) == 0)
        return PyObject_Call(around->original, args, named);
    token = begin(around, args, named);
    if (token == NULL)
        return NULL;
    if (token == Py_None) {
        result = PyObject_Call(around->original, args, named);
    } else if (PyTuple_Check(token)) {
        PyObject *others, *others_named;
        result = NULL;
        if (PyArg_ParseTuple(token, "O!O!", &PyTuple_Type, &others, &PyDict_Type, &others_named))
            result = pass(around, others, others_named, token);
    } else {
        result = pass(around, args, named, token);
    }
    Py_DECREF(token);
    return result;
}

/* ``types.MethodType``, which is not in the stable API. */
static PyObject *bound_method;

int find_bound_method(void)
{
    PyObject *types = PyImport_ImportModule("types");
    bound_method = types == NULL ? NULL : PyObject_GetAttrString(types, "MethodType");
    Py_XDECREF(types);
    return bound_method == NULL ? -1 : 0;
}

static PyObject *bind(PyObject *around, PyObject *object, PyObject *type)
{
    (void)type;
    if (object != NULL && object != Py_None)
        return PyObject_CallFunctionObjArgs(bound_method, around, object, NULL);
    Py_INCREF(around);
    return around;
}

/* Attributes that it lacks are the original's. */
static PyObject *get(Around *around, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr((PyObject *)around, name);
    if (found != NULL || around->original == NULL || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(around->original, name);
}

static PyObject *get_class(Around *around, void *unused)
{
    int poses = around->poses && around->original != NULL;
    PyObject *kind = (PyObject *)Py_TYPE(poses ? around->original : (PyObject *)around);
    (void)unused;
    Py_INCREF(kind);
    return kind;
}

static PyObject *represent(Around *around)
{
    return PyObject_Repr(around->original);
}

/* Pickled by its name, as functions are. */
static PyObject *reduce(PyObject *around, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(around, "__qualname__");
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    MEMBER(Around, original, T_OBJECT_EX),
    MEMBER(Around, enter, T_OBJECT_EX),
    MEMBER(Around, leave, T_OBJECT_EX),
    MEMBER(Around, fast_enter, T_OBJECT_EX),
    MEMBER(Around, fast_leave, T_OBJECT_EX),
    MEMBER(Around, phase, T_OBJECT_EX),
    MEMBER(Around, fast_path, T_OBJECT_EX),
    MEMBER(Around, goes_back, T_BOOL),
    MEMBER(Around, insists, T_BOOL),
    MEMBER(Around, poses, T_BOOL),
    {"__dictoffset__", T_PYSSIZET, offsetof(Around, names), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Around, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__class__", (getter)get_class, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int traverse(Around *around, visitproc visit, void *arg)
{
    Py_VISIT(around->names);
    return visit_members((PyObject *)around, members, visit, arg);
}

static int clear(Around *around)
{
    Py_CLEAR(around->names);
    return clear_members((PyObject *)around, members);
}

static void dealloc(Around *around)
{
    PyObject_GC_UnTrack(around);
    if (around->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)around);
    let_go((PyObject *)around, (inquiry)clear);
}

static PyType_Slot slots[] = {
    SLOTS,
    {Py_tp_methods, methods},
    {Py_tp_call, call},
    {Py_tp_descr_get, bind},
    {Py_tp_getattro, get},
    {Py_tp_repr, represent},
    {Py_tp_getset, properties},
    {0, NULL},
};

/* As a method it is called with the object, not bound to it first. */
PyType_Spec around_spec = SPEC("CompiledAround", Around, Py_TPFLAGS_METHOD_DESCRIPTOR);
