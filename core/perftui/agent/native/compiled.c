/* The module ``_compiled``: hooks of the agent that run too often for Python. */

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

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", NULL, 0, NULL, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
