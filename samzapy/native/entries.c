/* The entries of an object cache, and the calls of a task that find their key in it.

   `NativeEntries` holds what samzapy/storage/kv/entries.py describes, under the same names. Its `get` and `put` do
   what the ones there do for a key of the usual type that is held; everything else they leave to Python:

   - `_get_unusual(key)`, `_put_unusual(key, value)`: keys of other types, and None
   - `_load(key, entry)`, `_change(entry, value)`: entries that are not held, or held as absent
   - `_make_room()`: there are more entries than there may be
   - `_limit_dirty()`: there are as many dirty entries as there may be */

#include "native.h"

typedef struct {
    PyObject_HEAD
    PyObject *held;
    PyObject *dirty;
    PyObject *used;
    PyObject *usual;
    long long gets;
    long long changed;
    long long cache_size;
    long long most_dirty;
} Entries;

static struct {
    PyObject *get_unusual, *put_unusual, *load, *change, *make_room, *limit_dirty;
} names;

static PyObject *entries_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)arguments, (void)keywords;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Entries *self = (Entries *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->held = PyDict_New();
    self->dirty = PyDict_New();
    self->used = Py_NewRef(Py_None);
    self->usual = Py_NewRef(Py_None);
    self->most_dirty = 1;
    if (self->held == NULL || self->dirty == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int entries_traverse(Entries *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->held);
    Py_VISIT(self->dirty);
    Py_VISIT(self->used);
    Py_VISIT(self->usual);
    return 0;
}

static int entries_clear(Entries *self)
{
    /* The dicts stay: they are never NULL as long as anybody may call. */
    if (self->held != NULL)
        PyDict_Clear(self->held);
    if (self->dirty != NULL)
        PyDict_Clear(self->dirty);
    return 0;
}

static void entries_dealloc(Entries *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->held);
    Py_CLEAR(self->dirty);
    Py_CLEAR(self->used);
    Py_CLEAR(self->usual);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Mark an entry as used again since the hand passed, if the hand has moved. */
static int mark_used(Entries *self, PyObject *key)
{
    PyObject *used = self->used;
    if (used == Py_None || !PyDict_Check(used))
        return 0;
    return PyDict_SetItem(used, key, Py_None);
}

static PyObject *entries_get(Entries *self, PyObject *key)
{
    if ((PyObject *)Py_TYPE(key) != self->usual)
        return PyObject_CallMethodObjArgs((PyObject *)self, names.get_unusual, key, NULL);
    self->gets++;
    PyObject *value = PyDict_GetItemWithError(self->held, key);
    if (value == NULL)
        return PyErr_Occurred() ? NULL : PyObject_CallMethodObjArgs((PyObject *)self, names.load, key, key, NULL);
    Py_INCREF(value);
    if (mark_used(self, key) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    return value;
}

static PyObject *call(Entries *self, PyObject *name)
{
    return PyObject_CallMethodObjArgs((PyObject *)self, name, NULL);
}

/* Count a change of `key`. Returns whether it was dirty before, or -1. */
static int make_dirty(Entries *self, PyObject *key)
{
    Py_ssize_t before = PyDict_Size(self->dirty);
    self->changed++;
    return PyDict_SetItem(self->dirty, key, Py_None) < 0 ? -1 : PyDict_Size(self->dirty) == before;
}

/* The end of the old value may run code of the user, so nothing of `self` is used after it without another look. */
static int hold(Entries *self, PyObject *key, PyObject *value)
{
    PyObject *held = Py_NewRef(self->held);
    int failed = PyDict_SetItem(held, key, value);
    Py_DECREF(held);
    return failed;
}

static PyObject *entries_put(Entries *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "put takes a key and a value (%zd given)", count);
        return NULL;
    }
    PyObject *key = arguments[0], *value = arguments[1];
    if ((PyObject *)Py_TYPE(key) != self->usual || value == Py_None)
        return PyObject_CallMethodObjArgs((PyObject *)self, names.put_unusual, key, value, NULL);
    int was_dirty = make_dirty(self, key);
    if (was_dirty < 0)
        return NULL;
    if (was_dirty) {
        if (mark_used(self, key) < 0 || hold(self, key, value) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *known = PyDict_GetItemWithError(self->held, key);
    if (known == NULL && PyErr_Occurred())
        return NULL;
    if (known == NULL || known == Py_None) {
        /* `_change` finds out what is below, and makes the entry dirty itself. */
        if (PyDict_DelItem(self->dirty, key) < 0)
            return NULL;
        return PyObject_CallMethodObjArgs((PyObject *)self, names.change, key, value, NULL);
    }
    if (hold(self, key, value) < 0)
        return NULL;
    if (PyDict_Size(self->held) > self->cache_size)
        return call(self, names.make_room);
    if (PyDict_Size(self->dirty) >= self->most_dirty)
        return call(self, names.limit_dirty);
    Py_RETURN_NONE;
}

/* _find(entries): the values of a list of entries, None for one that is not held, and the places of those. */
static PyObject *entries_find(Entries *self, PyObject *entries)
{
    if (!PyList_Check(entries)) {
        PyErr_SetString(PyExc_TypeError, "expected a list of entries");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(entries);
    PyObject *held = Py_NewRef(self->held), *values = PyList_New(count), *places = PyList_New(0);
    self->gets += count;
    for (Py_ssize_t i = 0; values != NULL && i < count; i++) {
        PyObject *entry = Py_XNewRef(PyList_GetItem(entries, i)), *place = NULL;
        PyObject *value = entry == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(held, entry));
        int failed = places == NULL || (value == NULL && PyErr_Occurred());
        if (!failed && value != NULL)
            failed = mark_used(self, entry) < 0;
        if (!failed && value == NULL) {
            value = Py_NewRef(Py_None);
            place = PyLong_FromSsize_t(i);
            failed = place == NULL || PyList_Append(places, place) < 0;
        }
        Py_XDECREF(place);
        Py_XDECREF(entry);
        if (failed) {
            Py_XDECREF(value);
            Py_CLEAR(values);
        } else if (PyList_SetItem(values, i, value) < 0) {
            Py_CLEAR(values);
        }
    }
    Py_DECREF(held);
    PyObject *found = values == NULL ? NULL : PyTuple_Pack(2, values, places);
    Py_XDECREF(values);
    Py_XDECREF(places);
    return found;
}

/* Mark the entries of a list that are held. */
static int mark_held(Entries *self, PyObject *entries)
{
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(entries); i++) {
        PyObject *entry = Py_XNewRef(PyList_GetItem(entries, i));
        int known = entry == NULL ? -1 : PyDict_Contains(self->held, entry);
        failed = known < 0 || (known && mark_used(self, entry) < 0);
        Py_XDECREF(entry);
    }
    return failed ? -1 : 0;
}

/* _set_some(entries, values): hold the values of two lists, which become dirty. */
static PyObject *entries_set_some(Entries *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyList_Check(arguments[0]) || !PyList_Check(arguments[1]) ||
        PyList_Size(arguments[0]) != PyList_Size(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "expected two lists of one length");
        return NULL;
    }
    PyObject *held = Py_NewRef(self->held);
    Py_ssize_t size = PyList_Size(arguments[0]);
    int failed = self->used != Py_None && mark_held(self, arguments[0]) < 0;
    for (Py_ssize_t i = 0; !failed && i < size; i++) {
        PyObject *entry = Py_XNewRef(PyList_GetItem(arguments[0], i));
        PyObject *value = Py_XNewRef(PyList_GetItem(arguments[1], i));
        failed = entry == NULL || value == NULL || make_dirty(self, entry) < 0 || PyDict_SetItem(held, entry, value) < 0;
        Py_XDECREF(entry);
        Py_XDECREF(value);
    }
    Py_DECREF(held);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef entries_methods[] = {
    {"get", (PyCFunction)entries_get, METH_O, "The value of `key`, None if it has none."},
    {"_find", (PyCFunction)entries_find, METH_O, "The values of entries, and the places of those that are not held."},
    {"_set_some", (PyCFunction)(void (*)(void))entries_set_some, METH_FASTCALL, "Change entries."},
    {"put", (PyCFunction)(void (*)(void))entries_put, METH_FASTCALL, "Set `key` to `value`."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef entries_members[] = {
    {"_held", T_OBJECT_EX, offsetof(Entries, held), READONLY, NULL},
    {"_dirty", T_OBJECT_EX, offsetof(Entries, dirty), READONLY, NULL},
    {"_used", T_OBJECT, offsetof(Entries, used), 0, NULL},
    {"_usual", T_OBJECT, offsetof(Entries, usual), 0, NULL},
    {"_gets", T_LONGLONG, offsetof(Entries, gets), 0, NULL},
    {"_changed", T_LONGLONG, offsetof(Entries, changed), 0, NULL},
    {"_cache_size", T_LONGLONG, offsetof(Entries, cache_size), 0, NULL},
    {"_most_dirty", T_LONGLONG, offsetof(Entries, most_dirty), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot entries_slots[] = {
    {Py_tp_new, entries_new},
    {Py_tp_dealloc, entries_dealloc},
    {Py_tp_traverse, entries_traverse},
    {Py_tp_clear, entries_clear},
    {Py_tp_methods, entries_methods},
    {Py_tp_members, entries_members},
    {0, NULL},
};

PyType_Spec entries_spec = {
    .name = "samzapy.native.extension.NativeEntries",
    .basicsize = sizeof(Entries),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = entries_slots,
};

int entries_names(void)
{
    names.get_unusual = PyUnicode_InternFromString("_get_unusual");
    names.put_unusual = PyUnicode_InternFromString("_put_unusual");
    names.load = PyUnicode_InternFromString("_load");
    names.change = PyUnicode_InternFromString("_change");
    names.make_room = PyUnicode_InternFromString("_make_room");
    names.limit_dirty = PyUnicode_InternFromString("_limit_dirty");
    return names.get_unusual && names.put_unusual && names.load && names.change && names.make_room && names.limit_dirty ? 0 : -1;
}
