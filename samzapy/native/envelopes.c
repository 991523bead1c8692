/* Makes envelopes from columns: samzapy/api/envelope.py has their fields. */

#include "native.h"

enum { SSP, OFFSET, KEY, MESSAGE, HEADERS, EVENT_TIME, ARRIVAL_TIME, SIZE, FIELDS };

/* The bytes of a serialized message. */
static PyObject *size_of(PyObject *data)
{
    if (data == Py_None)
        return PyLong_FromLong(0);
    Py_ssize_t size = PyObject_Size(data);
    return size < 0 ? NULL : PyLong_FromSsize_t(size);
}

/* One envelope, a tuple; takes over the references of `fields`, any of which may be NULL after an error. */
static PyObject *envelope(PyTypeObject *type, allocfunc allocate, PyObject **fields)
{
    PyObject *made = allocate(type, FIELDS);
    int failed = made == NULL;
    for (Py_ssize_t i = 0; i < FIELDS; i++) {
        failed = failed || fields[i] == NULL;
        if (failed)
            Py_XDECREF(fields[i]);
        else
            failed = PyTuple_SetItem(made, i, fields[i]) < 0;
    }
    if (failed)
        Py_CLEAR(made);
    return made;
}

static PyObject *nth(PyObject *column, Py_ssize_t i)
{
    if (column == Py_None)
        return Py_NewRef(Py_None);
    return PyList_Check(column) ? Py_XNewRef(PyList_GetItem(column, i)) : PySequence_GetItem(column, i);
}

/* envelopes(type, ssp, offsets, keys, messages, headers or None, times, arrival, values): a list; all columns have the
   length of `offsets`. */
PyObject *envelopes(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    if (given != 9 || !PyType_Check(arguments[0]) || !PyType_IsSubtype((PyTypeObject *)arguments[0], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "expected a class of tuples, a partition, and the columns");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)arguments[0];
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    PyObject *ssp = arguments[1], *keys = arguments[3], *messages = arguments[4], *headers = arguments[5];
    PyObject *times = arguments[6], *arrival = arguments[7], *values = arguments[8];
    Py_ssize_t count = PyObject_Size(arguments[2]);
    if (count < 0)
        return NULL;
    PyObject *offsets = PyObject_GetIter(arguments[2]);
    PyObject *made = offsets == NULL ? NULL : PyList_New(count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        PyObject *fields[FIELDS], *value = nth(values, i);
        fields[SSP] = Py_NewRef(ssp);
        fields[OFFSET] = PyIter_Next(offsets);
        fields[KEY] = nth(keys, i);
        fields[MESSAGE] = nth(messages, i);
        fields[HEADERS] = nth(headers, i);
        fields[EVENT_TIME] = nth(times, i);
        fields[ARRIVAL_TIME] = Py_NewRef(arrival);
        fields[SIZE] = value == NULL ? NULL : size_of(value);
        Py_XDECREF(value);
        PyObject *one = envelope(type, allocate, fields);
        if (one == NULL || PyList_SetItem(made, i, one) < 0)
            Py_CLEAR(made);
    }
    Py_XDECREF(offsets);
    return made;
}
