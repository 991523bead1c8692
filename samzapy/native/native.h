/* What the parts of the extension share: the declarations of their types, and small shorthands.

   Only the stable ABI of Python 3.10 is used, so one file serves every later version, too. */

#ifndef SAMZAPY_NATIVE_H
#define SAMZAPY_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <structmember.h>

/* librdkafka.c: the names of its functions, which Python looks up, and a way to set their addresses. */
PyObject *librdkafka_functions(void);
PyObject *bind_librdkafka(PyObject *module, PyObject *addresses);

/* fetch.c: FetchQueue; produce.c: ProduceQueue. */
extern PyType_Spec fetch_queue_spec;
extern PyType_Spec produce_queue_spec;

/* entries.c: NativeEntries. */
extern PyType_Spec entries_spec;
int entries_names(void);

#endif
