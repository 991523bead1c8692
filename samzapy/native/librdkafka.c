#include "librdkafka.h"

Library library;

static const struct {
    const char *name;
    size_t place;
} wanted[] = {
    {"rd_kafka_conf_interceptor_add_on_new", offsetof(Library, add_on_new)},
    {"rd_kafka_interceptor_add_on_acknowledgement", offsetof(Library, add_on_acknowledgement)},
    {"rd_kafka_conf_interceptor_add_on_conf_destroy", offsetof(Library, add_on_settings_destroy)},
    {"rd_kafka_conf_interceptor_add_on_conf_set", offsetof(Library, add_on_set)},
    {"rd_kafka_conf_set_error_cb", offsetof(Library, set_on_error)},
    {"rd_kafka_conf_get", offsetof(Library, setting)},
    {"rd_kafka_type", offsetof(Library, type)},
    {"rd_kafka_queue_new", offsetof(Library, new_queue)},
    {"rd_kafka_queue_get_partition", offsetof(Library, queue_of_partition)},
    {"rd_kafka_queue_forward", offsetof(Library, forward)},
    {"rd_kafka_queue_io_event_enable", offsetof(Library, notify)},
    {"rd_kafka_queue_destroy", offsetof(Library, destroy_queue)},
    {"rd_kafka_consume_batch_queue", offsetof(Library, consume)},
    {"rd_kafka_message_destroy", offsetof(Library, destroy_message)},
    {"rd_kafka_message_errstr", offsetof(Library, error_text)},
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
    {"rd_kafka_topic_partition_list_new", offsetof(Library, new_partitions)},
    {"rd_kafka_topic_partition_list_add", offsetof(Library, add_partition)},
    {"rd_kafka_pause_partitions", offsetof(Library, pause)},
    {"rd_kafka_resume_partitions", offsetof(Library, resume)},
    {"rd_kafka_topic_partition_list_destroy", offsetof(Library, destroy_partitions)},
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

/* The settings at hand are of a client that leaves its errors to the extension. */
static _Thread_local int takes_errors;

/* "samzapy.errors" is a property of the plugin. confluent-kafka sets "log.queue" after its own `error_cb`. */
static int property_set(void *settings, const char *name, const char *value, char *text, size_t size, void *opaque)
{
    (void)value, (void)text, (void)size, (void)opaque;
    if (strcmp(name, "samzapy.errors") == 0) {
        takes_errors = 1;
        return DONE;
    }
    if (takes_errors && strcmp(name, "log.queue") == 0)
        library.set_on_error(settings, client_failed);
    return NOT_OURS;
}

static int has_our_on_error(const void *settings)
{
    char found[32] = "", ours[32];
    size_t size = sizeof(found);
    snprintf(ours, sizeof(ours), "%p", (void *)client_failed);
    return library.setting(settings, "error_cb", found, &size) == 0 && strcmp(found, ours) == 0;
}

static int noticed(void *handle, const void *settings, void *opaque, char *text, size_t size)
{
    (void)text, (void)size;
    Outcomes *outcomes = opaque;
    forget_newest();
    int producer = library.type(handle) == PRODUCER;
    if (producer == has_our_on_error(settings))
        return 0;
    if (producer) {
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
    takes_errors = 0;
    Outcomes *outcomes = new_outcomes();
    if (outcomes == NULL)
        return 0;
    int failed = library.add_on_settings_destroy(settings, "samzapy", gone, outcomes);
    if (failed) {
        release_outcomes(outcomes);
        return failed;
    }
    return library.add_on_set(settings, "samzapy", property_set, NULL) || library.add_on_new(settings, "samzapy", noticed, outcomes);
}

NewClient take_new_client(int producer)
{
    NewClient client = newest;
    if (client.handle == NULL || (client.outcomes != NULL) != producer) {
        forget_newest();
        PyErr_Format(PyExc_RuntimeError, "librdkafka has made no %s with this plugin and its error_cb on this thread",
                     producer ? "producer" : "consumer");
        return (NewClient){NULL, NULL};
    }
    newest = (NewClient){NULL, NULL};
    return client;
}
