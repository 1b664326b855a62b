/* What the files of ``_compiled`` share: the part of Python's API that every version from 3.10 on
   has, hence one library for all of them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <structmember.h>

#include <stdint.h>
#include <string.h>
#include <time.h>

#if !defined(__linux__) || !defined(__LP64__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "addresses have 64 bits, what is written is little-endian, and perf_counter_ns is CLOCK_MONOTONIC on Linux only"
#endif

static inline int64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A reference of its own to an object that is always there. ``Py_RETURN_TRUE`` and its like count none
   with the headers of Python 3.12 and later, whose own such objects cannot be freed: in an older Python,
   which may load what was compiled there, each time took one away, and after some ten thousand steps the
   interpreter aborted. */
static inline PyObject *counted(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* How a fast path begins, for who stands around a phase: see ``_compiled.pyi``. */
typedef struct {
    PyObject_HEAD
    char inside, is_off, goes_back;
} FastPathHead;

/* A row of a type's table of members. */
#define MEMBER(kind, name, type) {#name, type, offsetof(kind, name), 0, NULL}

/* Frees ``object``, whose references ``clear`` gives up. */
void let_go(PyObject *object, inquiry clear);

/* New types, or NULL with an error. */
PyObject *around_type(void);
PyObject *fast_path_type(void);
PyObject *page_type(void);
PyObject *pauses_type(void);
