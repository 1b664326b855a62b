/* Shared by the files of ``_compiled``: the part of Python's API that every version from 3.10 on
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

/* A new reference to an immortal object. ``Py_RETURN_TRUE`` and its like count none with the headers
   of Python 3.12 and later, where such objects are never freed: in an older Python, which may load the
   library compiled there, each return took one reference away, and after some ten thousand steps the
   interpreter aborted. */
static inline PyObject *counted(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* The head of a fast path, for the wrappers of phases: see ``_compiled.pyi``. */
typedef struct {
    PyObject_HEAD
    char inside, is_off, goes_back;
} FastPathHead;

/* A row of a type's table of members. */
#define MEMBER(kind, name, type) {#name, type, offsetof(kind, name), 0, NULL}

/* For the functions of a type whose objects refer to others by T_OBJECT_EX ``members``. */
int visit_members(PyObject *object, const PyMemberDef *members, visitproc visit, void *arg);
int clear_members(PyObject *object, const PyMemberDef *members);

/* Frees ``object``, whose references ``clear`` gives up. */
void let_go(PyObject *object, inquiry clear);

/* These functions, of a type whose objects refer to nothing else. */
#define COLLECTED \
    static int traverse(PyObject *object, visitproc visit, void *arg) \
    { \
        return visit_members(object, members, visit, arg); \
    } \
    static int clear(PyObject *object) \
    { \
        return clear_members(object, members); \
    } \
    static void dealloc(PyObject *object) \
    { \
        let_go(object, clear); \
    }

/* The slots of every type, and what a type is made of. */
#define SLOTS \
    {Py_tp_members, members}, {Py_tp_traverse, traverse}, {Py_tp_clear, clear}, {Py_tp_dealloc, dealloc}
#define SPEC(name, kind, flags) \
    {"perftui.agent.native._compiled." name, sizeof(kind), 0, \
     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | flags, slots}

extern PyType_Spec around_spec, fast_path_spec, page_spec;

/* Prepares the globals of ``around.c``; -1 with an error. */
int find_bound_method(void);
