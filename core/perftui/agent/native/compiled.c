/* The module ``_compiled``: what the agent does so often that Python would take too long. */

#include "compiled.h"

void let_go(PyObject *object, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    clear(object);
    release(object);
    Py_DECREF(type);
}

static int add(PyObject *module, const char *name, PyObject *type)
{
    if (type == NULL)
        return -1;
    if (PyModule_AddObject(module, name, type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    return 0;
}

static int execute(PyObject *module)
{
    if (add(module, "CompiledAround", around_type()) < 0)
        return -1;
    if (add(module, "CompiledFastPath", fast_path_type()) < 0)
        return -1;
    if (add(module, "CompiledPage", page_type()) < 0)
        return -1;
    return add(module, "CompiledPauses", pauses_type());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, NULL, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
