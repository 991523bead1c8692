/* What the parts of the extension share: the declarations of their types, and small shorthands.

   Only the stable ABI of Python 3.10 is used, so one file serves every later version, too. */

#ifndef SAMZAPY_NATIVE_H
#define SAMZAPY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

/* fetch.c: FetchQueue, and the functions of librdkafka. */
extern PyType_Spec fetch_queue_spec;
PyObject *bind_librdkafka(PyObject *module, PyObject *addresses);

/* entries.c: NativeEntries. */
extern PyType_Spec entries_spec;
int entries_names(void);

/* envelopes.c */
PyObject *envelopes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
