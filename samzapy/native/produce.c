/* Puts columns of records into a producer's queue, and keeps what became of them.

   confluent-kafka allocates a report for each record, and takes Python's lock for it when the record is acknowledged. Here an
   interceptor notes the outcome, on librdkafka's threads: the last offset of each partition, and the first failures.

   1. Records are put one by one and in order, up to the first one that librdkafka does not take.
   2. A queue keeps its producer alive, and is used by one thread. Its topics go before the producer. */

#include "librdkafka.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURES = 16, NAME = 256, FIRST_PLACES = 64 };

/* The partition of a topic, and its last acknowledged offset. */
typedef struct {
    void *topic;
    int32_t partition;
    int64_t offset;
} Place;

typedef struct {
    int code;
    int32_t partition;
    size_t size;
    char topic[NAME];
} Failure;

struct Outcomes {
    atomic_int references;
    atomic_int wants_offsets;
    pthread_mutex_t lock;
    /* An open hash table; at most three quarters are taken. Without memory for more places, `lost` is set. */
    Place *places;
    size_t room, taken;
    int lost;
    /* Different ones; later ones are left out. */
    Failure failures[FAILURES];
    int failed;
};

Outcomes *new_outcomes(void)
{
    Outcomes *outcomes = calloc(1, sizeof(Outcomes));
    if (outcomes == NULL)
        return NULL;
    atomic_init(&outcomes->references, 1);
    atomic_init(&outcomes->wants_offsets, 0);
    pthread_mutex_init(&outcomes->lock, NULL);
    return outcomes;
}

void keep_outcomes(Outcomes *outcomes)
{
    atomic_fetch_add(&outcomes->references, 1);
}

void release_outcomes(Outcomes *outcomes)
{
    if (atomic_fetch_sub(&outcomes->references, 1) > 1)
        return;
    pthread_mutex_destroy(&outcomes->lock);
    free(outcomes->places);
    free(outcomes);
}

/* The place of a partition in a table, or the free one for it. */
static Place *place_of(Place *places, size_t room, void *topic, int32_t partition)
{
    size_t at = (((uintptr_t)topic >> 4) * 31 + (uint32_t)partition) * 0x9E3779B1u;
    for (;; at++) {
        Place *place = &places[at & (room - 1)];
        if (place->topic == NULL || (place->topic == topic && place->partition == partition))
            return place;
    }
}

static int grow(Outcomes *outcomes)
{
    size_t room = outcomes->room ? 2 * outcomes->room : FIRST_PLACES;
    Place *places = calloc(room, sizeof(Place));
    if (places == NULL)
        return -1;
    for (size_t i = 0; i < outcomes->room; i++) {
        Place *old = &outcomes->places[i];
        if (old->topic != NULL)
            *place_of(places, room, old->topic, old->partition) = *old;
    }
    free(outcomes->places);
    outcomes->places = places;
    outcomes->room = room;
    return 0;
}

static void note_offset(Outcomes *outcomes, const Message *message)
{
    if (4 * (outcomes->taken + 1) > 3 * outcomes->room && grow(outcomes) < 0) {
        outcomes->lost = 1;
        return;
    }
    Place *place = place_of(outcomes->places, outcomes->room, message->topic, message->partition);
    outcomes->taken += place->topic == NULL;
    *place = (Place){message->topic, message->partition, message->offset};
}

static void note_failure(Outcomes *outcomes, const Message *message)
{
    const char *topic = message->topic == NULL ? "" : library.topic_name(message->topic);
    for (int i = 0; i < outcomes->failed; i++) {
        const Failure *known = &outcomes->failures[i];
        if (known->code == message->error && known->partition == message->partition && !strcmp(known->topic, topic))
            return;
    }
    if (outcomes->failed == FAILURES)
        return;
    Failure *failure = &outcomes->failures[outcomes->failed++];
    failure->code = message->error;
    failure->partition = message->partition;
    failure->size = message->value_size + message->key_size;
    strncpy(failure->topic, topic, NAME - 1);
}

/* Called for each record by librdkafka's threads, and by those that call librdkafka. */
int acknowledged(void *handle, Message *message, void *opaque)
{
    (void)handle;
    Outcomes *outcomes = opaque;
    if (!message->error && !atomic_load_explicit(&outcomes->wants_offsets, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&outcomes->lock);
    if (message->error)
        note_failure(outcomes, message);
    else
        note_offset(outcomes, message);
    pthread_mutex_unlock(&outcomes->lock);
    return 0;
}

typedef struct {
    PyObject_HEAD
    PyObject *producer;
    void *handle;
    Outcomes *outcomes;
    /* Topic names and their handles, as capsules. */
    PyObject *topics;
} ProduceQueue;

static void topic_gone(PyObject *capsule)
{
    library.destroy_topic(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *produce_queue_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"producer", "wants_offsets", NULL};
    PyObject *producer;
    int wants_offsets;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "Op", keywords, &producer, &wants_offsets))
        return NULL;
    NewClient client = take_new_client(1);
    if (client.handle == NULL)
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    ProduceQueue *self = (ProduceQueue *)allocate(type, 0);
    if (self == NULL) {
        release_outcomes(client.outcomes);
        return NULL;
    }
    self->handle = client.handle;
    self->outcomes = client.outcomes;
    atomic_store(&self->outcomes->wants_offsets, wants_offsets);
    self->producer = Py_NewRef(producer);
    self->topics = PyDict_New();
    if (self->topics == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void produce_queue_dealloc(ProduceQueue *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->topics);
    if (self->outcomes != NULL)
        release_outcomes(self->outcomes);
    Py_CLEAR(self->producer);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The handle of a topic, made once. */
static void *topic_of(ProduceQueue *self, PyObject *name)
{
    PyObject *known = PyDict_GetItemWithError(self->topics, name);
    if (known != NULL)
        return PyCapsule_GetPointer(known, NULL);
    if (PyErr_Occurred())
        return NULL;
    PyObject *text = PyUnicode_AsUTF8String(name);
    const char *data = text == NULL ? NULL : PyBytes_AsString(text);
    void *topic = data == NULL ? NULL : library.new_topic(self->handle, data, NULL);
    Py_XDECREF(text);
    if (topic == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "librdkafka refuses the topic name %R", name);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(topic, NULL, topic_gone);
    if (capsule == NULL) {
        library.destroy_topic(topic);
        return NULL;
    }
    int failed = PyDict_SetItem(self->topics, name, capsule);
    Py_DECREF(capsule);
    return failed < 0 ? NULL : topic;
}

/* Bytes, or the UTF-8 of a string, and their size; NULL for None. The empty bytes are not NULL. */
static int memory_of(PyObject *object, const void **data, size_t *size)
{
    const char *found = NULL;
    Py_ssize_t length = 0;
    if (PyUnicode_Check(object)) {
        found = PyUnicode_AsUTF8AndSize(object, &length);
        if (found == NULL)
            return -1;
    } else if (object != Py_None) {
        char *bytes;
        if (PyBytes_AsStringAndSize(object, &bytes, &length) < 0)
            return -1;
        found = bytes;
    }
    *data = found;
    *size = (size_t)length;
    return 0;
}

/* Stands for a Python error among librdkafka's codes. */
enum { PYTHON_ERROR = INT_MAX };

/* Put one record with a timestamp, headers or both. Returns librdkafka's error code, 0 for none, or PYTHON_ERROR. */
static int put_whole(ProduceQueue *self, void *topic, int32_t partition, PyObject *key, PyObject *value, PyObject *time,
                     PyObject *headers)
{
    /* The items of other sequences may be made when they are asked for. */
    PyObject *pairs = headers == Py_None ? PyTuple_New(0) : PySequence_Tuple(headers);
    if (pairs == NULL)
        return PYTHON_ERROR;
    Py_ssize_t count = PyTuple_Size(pairs);
    size_t used = 0;
    int code = PYTHON_ERROR;
    Argument *arguments = PyMem_Calloc((size_t)count + 6, sizeof(Argument));
    if (arguments == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    const void *data;
    size_t size;
    arguments[used].kind = TOPIC;
    arguments[used++].as.topic = topic;
    arguments[used].kind = PARTITION;
    arguments[used++].as.partition = partition;
    arguments[used].kind = FLAGS;
    arguments[used++].as.number = COPY;
    if (memory_of(value, &data, &size) < 0)
        goto done;
    arguments[used].kind = VALUE;
    arguments[used].as.memory.data = data;
    arguments[used++].as.memory.size = size;
    if (memory_of(key, &data, &size) < 0)
        goto done;
    arguments[used].kind = KEY;
    arguments[used].as.memory.data = data;
    arguments[used++].as.memory.size = size;
    if (time != Py_None) {
        long long milliseconds = PyLong_AsLongLong(time);
        if (PyErr_Occurred())
            goto done;
        /* librdkafka takes 0 for now. */
        arguments[used].kind = TIMESTAMP;
        arguments[used++].as.timestamp = milliseconds ? milliseconds : 1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        /* A tuple, so what is in it lives as long as `pairs`. */
        PyObject *pair = PyTuple_GetItem(pairs, i);
        if (pair == NULL || PyTuple_Size(pair) != 2) {
            PyErr_SetString(PyExc_TypeError, "headers are (name, value) tuples");
            goto done;
        }
        arguments[used].kind = HEADER;
        if (memory_of(PyTuple_GetItem(pair, 0), &data, &size) < 0)
            goto done;
        if (data == NULL) {
            PyErr_SetString(PyExc_TypeError, "the name of a header is a string");
            goto done;
        }
        arguments[used].as.header.name = data;
        if (memory_of(PyTuple_GetItem(pair, 1), &data, &size) < 0)
            goto done;
        arguments[used].as.header.value = data;
        arguments[used++].as.header.size = (Py_ssize_t)size;
    }
    void *error = library.produce_arguments(self->handle, arguments, used);
    code = error == NULL ? 0 : library.error_code(error);
    if (error != NULL)
        library.destroy_error(error);
done:
    PyMem_Free(arguments);
    Py_DECREF(pairs);
    return code;
}

/* The same without both. */
static int put(void *topic, int32_t partition, PyObject *key, PyObject *value)
{
    const void *data, *key_data;
    size_t size, key_size;
    if (memory_of(value, &data, &size) < 0 || memory_of(key, &key_data, &key_size) < 0)
        return PYTHON_ERROR;
    return library.produce(topic, partition, COPY, (void *)data, size, key_data, key_size, NULL) < 0 ? library.last_error() : 0;
}

/* The item of a column, NULL for an error; the column itself if it stands for all records. */
static PyObject *nth(PyObject *column, Py_ssize_t i)
{
    if (PyList_Check(column) && i < PyList_Size(column))
        return Py_NewRef(PyList_GetItem(column, i));
    return column == Py_None || PyLong_Check(column) ? Py_NewRef(column) : PySequence_GetItem(column, i);
}

/* One record of the columns; as `put_whole`. */
static int put_nth(ProduceQueue *self, void *topic, PyObject *const *columns, Py_ssize_t i)
{
    PyObject *number = nth(columns[0], i), *key = nth(columns[1], i), *value = nth(columns[2], i);
    PyObject *time = nth(columns[3], i), *headers = nth(columns[4], i);
    int code = PYTHON_ERROR;
    if (number != NULL && key != NULL && value != NULL && time != NULL && headers != NULL) {
        long partition = PyLong_AsLong(number);
        if (partition != (int32_t)partition)
            PyErr_Format(PyExc_OverflowError, "no partition has the number %ld", partition);
        if (!PyErr_Occurred()) {
            code = time == Py_None && headers == Py_None
                       ? put(topic, (int32_t)partition, key, value)
                       : put_whole(self, topic, (int32_t)partition, key, value, time, headers);
        }
    }
    Py_XDECREF(number);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(time);
    Py_XDECREF(headers);
    return code;
}

/* put(topic, first, numbers, keys, values, times, headers): the index of the first record that was not taken, and why. */
static PyObject *produce_queue_put(ProduceQueue *self, PyObject *const *arguments, Py_ssize_t given)
{
    if (given != 7) {
        PyErr_SetString(PyExc_TypeError, "expected a topic, an index, and the columns");
        return NULL;
    }
    void *topic = topic_of(self, arguments[0]);
    Py_ssize_t i = topic == NULL ? -1 : PyLong_AsSsize_t(arguments[1]);
    Py_ssize_t count = topic == NULL || (i < 0 && PyErr_Occurred()) ? -1 : PyObject_Size(arguments[4]);
    if (count < 0)
        return NULL;
    int code = 0;
    while (i < count && code == 0) {
        code = put_nth(self, topic, arguments + 2, i);
        i += code == 0;
    }
    if (code == PYTHON_ERROR)
        return NULL;
    return Py_BuildValue("ni", i, code);
}

/* failures(): (code, topic, partition, bytes of the record). */
static PyObject *produce_queue_failures(ProduceQueue *self, PyObject *nothing)
{
    (void)nothing;
    Outcomes *outcomes = self->outcomes;
    Failure failures[FAILURES];
    /* No object is made under the lock: that may run other code. */
    pthread_mutex_lock(&outcomes->lock);
    int count = outcomes->failed;
    memcpy(failures, outcomes->failures, sizeof(failures));
    pthread_mutex_unlock(&outcomes->lock);
    PyObject *found = PyList_New(count);
    for (int i = 0; found != NULL && i < count; i++) {
        const Failure *each = &failures[i];
        PyObject *failure =
            Py_BuildValue("(isin)", each->code, each->topic, (int)each->partition, (Py_ssize_t)each->size);
        if (failure == NULL || PyList_SetItem(found, i, failure) < 0)
            Py_CLEAR(found);
    }
    return found;
}

/* offsets(): (topic, partition, last offset) of each partition. */
static PyObject *produce_queue_offsets(ProduceQueue *self, PyObject *nothing)
{
    (void)nothing;
    Outcomes *outcomes = self->outcomes;
    pthread_mutex_lock(&outcomes->lock);
    size_t room = outcomes->room;
    Place *places = outcomes->lost ? NULL : malloc((room + 1) * sizeof(Place));
    if (places != NULL && room)
        memcpy(places, outcomes->places, room * sizeof(Place));
    pthread_mutex_unlock(&outcomes->lock);
    if (places == NULL)
        return PyErr_NoMemory();
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < room; i++) {
        const Place *each = &places[i];
        if (each->topic == NULL)
            continue;
        PyObject *offset = Py_BuildValue("(siL)", library.topic_name(each->topic), (int)each->partition,
                                         (long long)each->offset);
        if (offset == NULL || PyList_Append(found, offset) < 0)
            Py_CLEAR(found);
        Py_XDECREF(offset);
    }
    free(places);
    return found;
}

/* pause(counts, on): keep back what waits for any partition of these topics, or send it again. */
static PyObject *produce_queue_pause(ProduceQueue *self, PyObject *const *arguments, Py_ssize_t given)
{
    if (given != 2 || !PyDict_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "expected a dict of numbers of partitions by topic, and a flag");
        return NULL;
    }
    int on = PyObject_IsTrue(arguments[1]);
    void *partitions = on < 0 ? NULL : library.new_partitions(0);
    if (partitions == NULL)
        return on < 0 ? NULL : PyErr_NoMemory();
    PyObject *topic, *count;
    for (Py_ssize_t at = 0; PyDict_Next(arguments[0], &at, &topic, &count);) {
        const char *name = PyUnicode_AsUTF8AndSize(topic, NULL);
        long most = name == NULL ? -1 : PyLong_AsLong(count);
        if (PyErr_Occurred())
            break;
        for (int32_t i = 0; i < most; i++)
            library.add_partition(partitions, name, i);
    }
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        (on ? library.pause : library.resume)(self->handle, partitions);
        Py_END_ALLOW_THREADS
    }
    library.destroy_partitions(partitions);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *produce_queue_clear(ProduceQueue *self, PyObject *nothing)
{
    (void)nothing;
    Outcomes *outcomes = self->outcomes;
    pthread_mutex_lock(&outcomes->lock);
    outcomes->failed = 0;
    outcomes->taken = 0;
    if (outcomes->places != NULL)
        memset(outcomes->places, 0, outcomes->room * sizeof(Place));
    pthread_mutex_unlock(&outcomes->lock);
    Py_RETURN_NONE;
}

static PyMethodDef produce_queue_methods[] = {
    {"put", (PyCFunction)(void (*)(void))produce_queue_put, METH_FASTCALL, "Queue records of a topic."},
    {"failures", (PyCFunction)produce_queue_failures, METH_NOARGS, "Some of the records that were not acknowledged."},
    {"offsets", (PyCFunction)produce_queue_offsets, METH_NOARGS, "The last acknowledged offset of each partition."},
    {"pause", (PyCFunction)(void (*)(void))produce_queue_pause, METH_FASTCALL, "Keep back what waits, or send it."},
    {"clear", (PyCFunction)produce_queue_clear, METH_NOARGS, "Forget failures and offsets."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot produce_queue_slots[] = {
    {Py_tp_new, produce_queue_new},
    {Py_tp_dealloc, produce_queue_dealloc},
    {Py_tp_methods, produce_queue_methods},
    {0, NULL},
};

PyType_Spec produce_queue_spec = {
    .name = "samzapy.native.extension.ProduceQueue",
    .basicsize = sizeof(ProduceQueue),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = produce_queue_slots,
};
