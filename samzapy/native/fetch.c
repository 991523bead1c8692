/* Reads the records of a consumer's partitions from librdkafka's queues, as columns.

   confluent-kafka makes an object for each record, and a column is a call on each of them. Here a record is its key and
   its value, and librdkafka's own memory is given back at once.

   1. Partitions are forwarded to a queue of their own before they are assigned. `Consumer.poll` serves the client's other
      queues, with the callbacks.
   2. librdkafka puts errors of partitions into this queue, too, such as that a topic no longer exists. It returns some of
      them as messages, and calls the client's `error_cb` for others. confluent-kafka's ends the process outside of its own
      calls. So these consumers have `client_failed`, which works on any thread and calls `on_error`.
   3. A queue must be closed before its consumer. It keeps the consumer alive, and is used by one thread at a time.
   4. librdkafka waits until a time of the wall clock: if the clock is set back by an hour, it waits an hour longer. So
      nothing here waits in librdkafka. It writes a byte into a pipe when the empty queue gets something. */

#include "librdkafka.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

typedef struct FetchQueue {
    PyObject_HEAD
    PyObject *consumer;
    PyObject *on_error;
    void *handle;
    void *queue;
    int with_headers;
    int filled[2]; /* both ends of the pipe */
    Message **messages;
    Py_ssize_t room;
    struct FetchQueue *next;
} FetchQueue;

/* All that are open; guarded by Python's lock. */
static FetchQueue *queues;

void client_failed(void *handle, int code, const char *text, void *opaque)
{
    (void)opaque;
    PyGILState_STATE state = PyGILState_Ensure();
    FetchQueue *queue = queues;
    while (queue != NULL && queue->handle != handle)
        queue = queue->next;
    if (queue != NULL) {
        PyObject *on_error = Py_NewRef(queue->on_error);
        PyObject *done = PyObject_CallFunction(on_error, "is", code, text);
        if (done == NULL)
            PyErr_WriteUnraisable(on_error);
        Py_XDECREF(done);
        Py_DECREF(on_error);
    }
    PyGILState_Release(state);
}

static PyObject *fetch_queue_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"consumer", "on_error", "headers", NULL};
    PyObject *consumer, *on_error;
    int with_headers = 1;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OO|p", keywords, &consumer, &on_error, &with_headers))
        return NULL;
    NewClient client = take_new_client(0);
    if (client.handle == NULL)
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    FetchQueue *self = (FetchQueue *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    if (pipe(self->filled) < 0) {
        self->filled[0] = self->filled[1] = -1;
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        fcntl(self->filled[i], F_SETFL, O_NONBLOCK);
        fcntl(self->filled[i], F_SETFD, FD_CLOEXEC);
    }
    self->handle = client.handle;
    self->queue = library.new_queue(client.handle);
    library.notify(self->queue, self->filled[1], "", 1);
    self->with_headers = with_headers;
    self->consumer = Py_NewRef(consumer);
    self->on_error = Py_NewRef(on_error);
    self->next = queues;
    queues = self;
    return (PyObject *)self;
}

static void let_go(FetchQueue *self)
{
    FetchQueue **link = &queues;
    while (*link != NULL && *link != self)
        link = &(*link)->next;
    if (*link == self)
        *link = self->next;
    void *queue = self->queue;
    self->queue = NULL;
    if (queue != NULL) {
        /* The partitions may keep the queue. */
        library.notify(queue, -1, NULL, 0);
        Py_BEGIN_ALLOW_THREADS
        library.destroy_queue(queue);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < 2; i++) {
        if (self->filled[i] >= 0)
            close(self->filled[i]);
        self->filled[i] = -1;
    }
}

static void fetch_queue_dealloc(FetchQueue *self)
{
    PyTypeObject *type = Py_TYPE(self);
    let_go(self);
    PyMem_Free(self->messages);
    Py_XDECREF(self->consumer);
    Py_XDECREF(self->on_error);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *fetch_queue_close(FetchQueue *self, PyObject *nothing)
{
    (void)nothing;
    let_go(self);
    Py_RETURN_NONE;
}

static int is_open(FetchQueue *self)
{
    if (self->queue == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the queue is closed");
    return self->queue != NULL;
}

static PyObject *fetch_queue_follow(FetchQueue *self, PyObject *arguments)
{
    const char *topic;
    int partition;
    if (!PyArg_ParseTuple(arguments, "si", &topic, &partition) || !is_open(self))
        return NULL;
    void *queue = library.queue_of_partition(self->handle, topic, partition);
    if (queue == NULL) {
        PyErr_Format(PyExc_RuntimeError, "librdkafka has no queue of %s[%d]", topic, partition);
        return NULL;
    }
    library.forward(queue, self->queue);
    library.destroy_queue(queue);
    Py_RETURN_NONE;
}

static PyObject *bytes_of(const void *data, size_t size)
{
    return data == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

/* The (name, value) pairs of a message; None without any. */
static PyObject *headers_of(const Message *message)
{
    void *found;
    if (library.headers(message, &found) != 0)
        return Py_NewRef(Py_None);
    PyObject *pairs = PyList_New(0);
    const char *name;
    const void *value;
    size_t size;
    for (size_t i = 0; pairs != NULL && library.header(found, i, &name, &value, &size) == 0; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
        PyObject *data = text == NULL ? NULL : bytes_of(value, size);
        PyObject *pair = data == NULL ? NULL : PyTuple_Pack(2, text, data);
        if (pair == NULL || PyList_Append(pairs, pair) < 0)
            Py_CLEAR(pairs);
        Py_XDECREF(text);
        Py_XDECREF(data);
        Py_XDECREF(pair);
    }
    if (pairs != NULL && PyList_Size(pairs) == 0) {
        Py_DECREF(pairs);
        return Py_NewRef(Py_None);
    }
    return pairs;
}

/* Offsets only grow: if there are as many as lie between the first and the last, they are a range. */
static PyObject *offsets_of(Message **messages, Py_ssize_t count)
{
    int64_t first = messages[0]->offset, last = messages[count - 1]->offset;
    if (last - first + 1 == count)
        return PyObject_CallFunction((PyObject *)&PyRange_Type, "LL", (long long)first, (long long)last + 1);
    PyObject *offsets = PyList_New(count);
    for (Py_ssize_t i = 0; offsets != NULL && i < count; i++) {
        PyObject *offset = PyLong_FromLongLong(messages[i]->offset);
        if (offset == NULL || PyList_SetItem(offsets, i, offset) < 0)
            Py_CLEAR(offsets);
    }
    return offsets;
}

/* Keys or values. */
static PyObject *bytes_column(Message **messages, Py_ssize_t count, int keys)
{
    PyObject *column = PyList_New(count);
    for (Py_ssize_t i = 0; column != NULL && i < count; i++) {
        const Message *message = messages[i];
        PyObject *data = keys ? bytes_of(message->key, message->key_size) : bytes_of(message->value, message->value_size);
        if (data == NULL || PyList_SetItem(column, i, data) < 0)
            Py_CLEAR(column);
    }
    return column;
}

/* Records of one batch of a producer often have one time: they share its object. */
static PyObject *times_column(Message **messages, Py_ssize_t count)
{
    PyObject *column = PyList_New(count), *time = NULL;
    int64_t known = 0;
    int kind;
    for (Py_ssize_t i = 0; column != NULL && i < count; i++) {
        int64_t now = library.timestamp(messages[i], &kind);
        if (time == NULL || now != known) {
            Py_XDECREF(time);
            time = PyLong_FromLongLong(now);
            known = now;
        }
        if (time == NULL || PyList_SetItem(column, i, Py_NewRef(time)) < 0)
            Py_CLEAR(column);
    }
    Py_XDECREF(time);
    return column;
}

/* None if no message has any. librdkafka parses the headers of each record for that, also if there are none, which costs
   more than the other columns. */
static PyObject *headers_column(Message **messages, Py_ssize_t count)
{
    void *found;
    Py_ssize_t first = 0;
    while (first < count && library.headers(messages[first], &found) != 0)
        first++;
    if (first == count)
        return Py_NewRef(Py_None);
    PyObject *column = PyList_New(count);
    for (Py_ssize_t i = 0; column != NULL && i < count; i++) {
        PyObject *headers = i < first ? Py_NewRef(Py_None) : headers_of(messages[i]);
        if (headers == NULL || PyList_SetItem(column, i, headers) < 0)
            Py_CLEAR(column);
    }
    return column;
}

/* (topic, partition, offsets, keys, values, times, headers) of records of one partition. */
static PyObject *run_of(Message **messages, Py_ssize_t count, int with_headers)
{
    PyObject *parts[7] = {NULL};
    const char *topic = library.topic_name(messages[0]->topic);
    parts[0] = PyUnicode_DecodeUTF8(topic, (Py_ssize_t)strlen(topic), NULL);
    parts[1] = PyLong_FromLong(messages[0]->partition);
    parts[2] = offsets_of(messages, count);
    parts[3] = bytes_column(messages, count, 1);
    parts[4] = bytes_column(messages, count, 0);
    parts[5] = times_column(messages, count);
    parts[6] = with_headers ? headers_column(messages, count) : Py_NewRef(Py_None);
    PyObject *run = PyTuple_New(7);
    int failed = run == NULL;
    for (Py_ssize_t i = 0; i < 7; i++) {
        failed = failed || parts[i] == NULL;
        if (failed)
            Py_XDECREF(parts[i]);
        else
            failed = PyTuple_SetItem(run, i, parts[i]) < 0;
    }
    if (failed)
        Py_CLEAR(run);
    return run;
}

/* (code, text, topic, partition) of a message that is an error. */
static PyObject *report_of(const Message *message)
{
    const char *topic = message->topic == NULL ? "" : library.topic_name(message->topic);
    const char *text = library.error_text(message);
    return Py_BuildValue("(issi)", message->error, text == NULL ? "" : text, topic, (int)message->partition);
}

static int append(PyObject *list, PyObject *item)
{
    int failed = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

/* Runs and reports, in order. Every message is destroyed, whatever happens. */
static int sort_out(FetchQueue *self, Py_ssize_t count, PyObject *runs, PyObject *reports)
{
    Message **messages = self->messages;
    int failed = 0;
    for (Py_ssize_t start = 0, end; start < count; start = end) {
        const Message *first = messages[start];
        end = start + 1;
        if (first->error) {
            failed = failed || append(reports, report_of(first)) < 0;
        } else {
            while (end < count && !messages[end]->error && messages[end]->topic == first->topic &&
                   messages[end]->partition == first->partition)
                end++;
            failed = failed || append(runs, run_of(messages + start, end - start, self->with_headers)) < 0;
        }
        for (Py_ssize_t i = start; i < end; i++)
            library.destroy_message(messages[i]);
    }
    return failed ? -1 : 0;
}

static int make_room(FetchQueue *self, Py_ssize_t most)
{
    if (most <= self->room)
        return 0;
    Message **messages = PyMem_Realloc(self->messages, (size_t)most * sizeof(Message *));
    if (messages == NULL)
        return -1;
    self->messages = messages;
    self->room = most;
    return 0;
}

/* Take at most `most` messages that have arrived; waits for the first one. Returns their number. Needs no lock of Python. */
static Py_ssize_t take_messages(FetchQueue *self, Py_ssize_t most, int wait_ms)
{
    struct pollfd filled = {self->filled[0], POLLIN, 0};
    char earlier[64];
    while (read(self->filled[0], earlier, sizeof(earlier)) == (ssize_t)sizeof(earlier))
        ;
    Py_ssize_t count = library.consume(self->queue, 0, self->messages, (size_t)most);
    if (count != 0 || wait_ms <= 0)
        return count;
    poll(&filled, 1, wait_ms);
    return library.consume(self->queue, 0, self->messages, (size_t)most);
}

static PyObject *fetch_queue_take(FetchQueue *self, PyObject *arguments)
{
    Py_ssize_t most, count;
    int wait_ms;
    if (!PyArg_ParseTuple(arguments, "ni", &most, &wait_ms) || !is_open(self))
        return NULL;
    if (most < 1) {
        PyErr_SetString(PyExc_ValueError, "at least one record has to be asked for");
        return NULL;
    }
    if (make_room(self, most) < 0)
        return PyErr_NoMemory();
    PyObject *runs = PyList_New(0), *reports = PyList_New(0), *taken = NULL;
    if (runs != NULL && reports != NULL) {
        Py_BEGIN_ALLOW_THREADS
        count = take_messages(self, most, wait_ms);
        Py_END_ALLOW_THREADS
        if (sort_out(self, count, runs, reports) == 0)
            taken = PyTuple_Pack(2, runs, reports);
    }
    Py_XDECREF(runs);
    Py_XDECREF(reports);
    return taken;
}

static PyMethodDef fetch_queue_methods[] = {
    {"follow", (PyCFunction)fetch_queue_follow, METH_VARARGS, "Get the records of a partition from now on."},
    {"take", (PyCFunction)fetch_queue_take, METH_VARARGS, "Take records that have arrived, as columns, and events."},
    {"close", (PyCFunction)fetch_queue_close, METH_NOARGS, "Drop what has arrived; closing twice is allowed."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot fetch_queue_slots[] = {
    {Py_tp_new, fetch_queue_new},
    {Py_tp_dealloc, fetch_queue_dealloc},
    {Py_tp_methods, fetch_queue_methods},
    {0, NULL},
};

PyType_Spec fetch_queue_spec = {
    .name = "samzapy.native.extension.FetchQueue",
    .basicsize = sizeof(FetchQueue),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = fetch_queue_slots,
};
