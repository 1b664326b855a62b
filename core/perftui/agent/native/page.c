/* The counting of batches on a worker's page: see ``worker_times.py``; ``PlainPage`` does the
   same. Compiled, because a loader without workers counts in the training itself, where it took
   15 us of a step of 1 ms in Python. */

#include "compiled.h"

enum { IDLE, FETCH, COLLATE };
static const int64_t BRIEF_NS = 5000000;

typedef struct {
    PyObject_HEAD
    char may_be_brief, is_brief;
    int stage;
    long long number, since, began, batches, sized, bytes, fetch, collate, squares;
    unsigned long long address; /* of the record, 0 while nothing is written */
    PyObject *whose; /* the batch being made, or NULL */
    PyObject *batch_bytes;
} Page;

static void store(Page *page)
{
    int64_t *record = (int64_t *)(uintptr_t)page->address;
    if (record == NULL)
        return;
    page->number++;
    /* A reader that sees two numbers, or another record at its second look, tries again. */
    __atomic_store_n(&record[0], page->number, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    record[1] = page->batches;
    record[2] = page->sized;
    record[3] = page->bytes;
    record[4] = page->fetch;
    record[5] = page->collate;
    record[6] = page->squares;
    record[7] = page->stage;
    record[8] = page->since;
    __atomic_store_n(&record[9], page->number, __ATOMIC_RELEASE);
}

static void enter_stage(Page *page, int stage)
{
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (page->stage == FETCH)
        page->fetch += now - page->since;
    else if (page->stage == COLLATE)
        page->collate += now - page->since;
    else
        page->began = now;
    page->stage = stage;
    page->since = now;
    if (!page->is_brief)
        store(page);
}

/* The batch enters ``stage``. */
static PyObject *mark(Page *page, PyObject *stage)
{
    long number = PyLong_AsLong(stage);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    enter_stage(page, (int)number);
    return counted(Py_None);
}

/* whose: a batch that begins. Whether it is counted: none is while another one is being made. */
static PyObject *enter(Page *page, PyObject *whose)
{
    if (page->whose != NULL && page->whose != whose)
        return counted(Py_False);
    Py_INCREF(whose);
    Py_XDECREF(page->whose);
    page->whose = whose;
    page->stage = IDLE; /* the end of the batch before may have been missed */
    enter_stage(page, FETCH);
    return counted(Py_True);
}

/* whose: it has ended, if it is the one being made. */
static PyObject *leave(Page *page, PyObject *whose)
{
    if (page->whose != whose)
        return counted(Py_None);
    if (page->stage != IDLE) {
        page->is_brief = 0;
        enter_stage(page, IDLE);
    }
    Py_CLEAR(page->whose);
    return counted(Py_None);
}

/* Another process makes the current batch. */
static PyObject *forget(Page *page, PyObject *unused)
{
    (void)unused;
    Py_CLEAR(page->whose);
    return counted(Py_None);
}

/* batch is complete. */
static PyObject *count(Page *page, PyObject *batch)
{
    long long bytes, took;
    PyObject *size;
    enter_stage(page, IDLE);
    size = PyObject_CallFunctionObjArgs(page->batch_bytes, batch, NULL);
    if (size == NULL)
        return NULL;
    bytes = PyLong_AsLongLong(size);
    Py_DECREF(size);
    if (PyErr_Occurred())
        return NULL;
    took = (page->since - page->began) / 1000;
    page->squares += took * took;
    page->batches++;
    if (bytes >= 0) {
        page->sized++;
        page->bytes += bytes;
    }
    page->is_brief = page->may_be_brief && page->since - page->began < BRIEF_NS;
    store(page);
    return counted(Py_None);
}

static PyMethodDef methods[] = {
    {"mark", (PyCFunction)mark, METH_O, NULL},
    {"count", (PyCFunction)count, METH_O, NULL},
    {"enter", (PyCFunction)enter, METH_O, NULL},
    {"leave", (PyCFunction)leave, METH_O, NULL},
    {"forget", (PyCFunction)forget, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    MEMBER(Page, may_be_brief, T_BOOL),
    MEMBER(Page, is_brief, T_BOOL),
    MEMBER(Page, stage, T_INT),
    MEMBER(Page, number, T_LONGLONG),
    MEMBER(Page, since, T_LONGLONG),
    MEMBER(Page, began, T_LONGLONG),
    MEMBER(Page, batches, T_LONGLONG),
    MEMBER(Page, sized, T_LONGLONG),
    MEMBER(Page, bytes, T_LONGLONG),
    MEMBER(Page, fetch, T_LONGLONG),
    MEMBER(Page, collate, T_LONGLONG),
    MEMBER(Page, squares, T_LONGLONG),
    MEMBER(Page, address, T_ULONGLONG),
    MEMBER(Page, whose, T_OBJECT_EX),
    MEMBER(Page, batch_bytes, T_OBJECT_EX),
    {NULL, 0, 0, 0, NULL},
};

COLLECTED

static PyType_Slot slots[] = {SLOTS, {Py_tp_methods, methods}, {0, NULL}};

PyType_Spec page_spec = SPEC("CompiledPage", Page, Py_TPFLAGS_BASETYPE);
