#include "librdkafka.h"

Library library;

static const struct {
    const char *name;
    size_t place;
} wanted[] = {
    {"rd_kafka_conf_interceptor_add_on_new", offsetof(Library, add_on_new)},
    {"rd_kafka_interceptor_add_on_acknowledgement", offsetof(Library, add_on_acknowledgement)},
    {"rd_kafka_conf_interceptor_add_on_conf_destroy", offsetof(Library, add_on_settings_destroy)},
    {"rd_kafka_type", offsetof(Library, type)},
    {"rd_kafka_queue_new", offsetof(Library, new_queue)},
    {"rd_kafka_queue_get_partition", offsetof(Library, queue_of_partition)},
    {"rd_kafka_queue_forward", offsetof(Library, forward)},
    {"rd_kafka_queue_destroy", offsetof(Library, destroy_queue)},
    {"rd_kafka_queue_poll", offsetof(Library, take_event)},
    {"rd_kafka_event_type", offsetof(Library, event_kind)},
    {"rd_kafka_event_message_next", offsetof(Library, event_message)},
    {"rd_kafka_event_error", offsetof(Library, event_error)},
    {"rd_kafka_event_error_string", offsetof(Library, event_text)},
    {"rd_kafka_event_topic_partition", offsetof(Library, event_partition)},
    {"rd_kafka_event_destroy", offsetof(Library, destroy_event)},
    {"rd_kafka_topic_partition_destroy", offsetof(Library, destroy_partition)},
    {"rd_kafka_message_timestamp", offsetof(Library, timestamp)},
    {"rd_kafka_message_headers", offsetof(Library, headers)},
    {"rd_kafka_header_get_all", offsetof(Library, header)},
    {"rd_kafka_topic_name", offsetof(Library, topic_name)},
    {"rd_kafka_topic_new", offsetof(Library, new_topic)},
    {"rd_kafka_topic_destroy", offsetof(Library, destroy_topic)},
    {"rd_kafka_produce", offsetof(Library, produce)},
    {"rd_kafka_produceva", offsetof(Library, produce_arguments)},
    {"rd_kafka_last_error", offsetof(Library, last_error)},
    {"rd_kafka_error_code", offsetof(Library, error_code)},
    {"rd_kafka_error_destroy", offsetof(Library, destroy_error)},
};
enum { WANTED = sizeof(wanted) / sizeof(wanted[0]) };

PyObject *librdkafka_functions(void)
{
    PyObject *names = PyTuple_New(WANTED);
    for (Py_ssize_t i = 0; names != NULL && i < WANTED; i++) {
        PyObject *name = PyUnicode_FromString(wanted[i].name);
        if (name == NULL || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    return names;
}

PyObject *bind_librdkafka(PyObject *module, PyObject *addresses)
{
    (void)module;
    if (!PyDict_Check(addresses)) {
        PyErr_SetString(PyExc_TypeError, "expected a dict of addresses by name");
        return NULL;
    }
    void *found[WANTED];
    for (size_t i = 0; i < WANTED; i++) {
        PyObject *address = PyDict_GetItemString(addresses, wanted[i].name);
        if (address == NULL) {
            PyErr_Format(PyExc_KeyError, "no address of %s", wanted[i].name);
            return NULL;
        }
        found[i] = PyLong_AsVoidPtr(address);
        if (found[i] == NULL) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "the address of %s is null", wanted[i].name);
            return NULL;
        }
    }
    for (size_t i = 0; i < WANTED; i++)
        memcpy((char *)&library + wanted[i].place, &found[i], sizeof(void *));
    Py_RETURN_NONE;
}

static _Thread_local NewClient newest;

static void forget_newest(void)
{
    if (newest.outcomes != NULL)
        release_outcomes(newest.outcomes);
    newest = (NewClient){NULL, NULL};
}

static int noticed(void *handle, const void *settings, void *opaque, char *text, size_t size)
{
    (void)settings, (void)text, (void)size;
    Outcomes *outcomes = opaque;
    forget_newest();
    if (library.type(handle) == PRODUCER) {
        if (library.add_on_acknowledgement(handle, "samzapy", acknowledged, outcomes) != 0)
            return 0;
        keep_outcomes(outcomes);
        newest.outcomes = outcomes;
    }
    newest.handle = handle;
    return 0;
}

static int gone(void *opaque)
{
    release_outcomes(opaque);
    return 0;
}

/* librdkafka calls this when it loads the plugin, with the settings of a new client. They go last of all that belongs to a
   client: an interceptor of its destruction would come before the records that are given up. */
__attribute__((visibility("default"))) int conf_init(void *settings, void **opaque, char *text, size_t size)
{
    (void)opaque, (void)text, (void)size;
    if (library.add_on_new == NULL)
        return 0;
    Outcomes *outcomes = new_outcomes();
    if (outcomes == NULL)
        return 0;
    int failed = library.add_on_settings_destroy(settings, "samzapy", gone, outcomes);
    if (failed) {
        release_outcomes(outcomes);
        return failed;
    }
    return library.add_on_new(settings, "samzapy", noticed, outcomes);
}

NewClient take_new_client(int producer)
{
    NewClient client = newest;
    if (client.handle == NULL || (client.outcomes != NULL) != producer) {
        forget_newest();
        PyErr_Format(PyExc_RuntimeError, "librdkafka has made no %s with this plugin on this thread",
                     producer ? "producer" : "consumer");
        return (NewClient){NULL, NULL};
    }
    newest = (NewClient){NULL, NULL};
    return client;
}
