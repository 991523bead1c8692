/* The parts of librdkafka's public interface (rdkafka.h) that the extension uses, and the clients that are made with it.

   1. The addresses of the functions come from Python, from the library that confluent-kafka has loaded.
   2. The handles come from an interceptor: the extension is a plugin of librdkafka, too (`plugin.library.paths`), and
      librdkafka tells a plugin of every new handle, on the thread that makes it. */

#ifndef SAMZAPY_LIBRDKAFKA_H
#define SAMZAPY_LIBRDKAFKA_H

#include "native.h"

/* rd_kafka_message_t */
typedef struct {
    int error;
    void *topic;
    int32_t partition;
    void *value;
    size_t value_size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *internal;
} Message;

/* rd_kafka_vu_t: one argument of rd_kafka_produceva. */
typedef struct {
    enum { END, TOPIC_NAME, TOPIC, PARTITION, VALUE, KEY, OPAQUE, FLAGS, TIMESTAMP, HEADER } kind;
    union {
        void *topic;
        int number;
        int32_t partition;
        int64_t timestamp;
        struct {
            const void *data;
            size_t size;
        } memory;
        struct {
            const char *name;
            const void *value;
            Py_ssize_t size;
        } header;
        char room[64];
    } as;
} Argument;

/* RD_KAFKA_MSG_F_COPY, RD_KAFKA_PRODUCER, RD_KAFKA_CONF_OK, RD_KAFKA_CONF_UNKNOWN */
enum { COPY = 2, PRODUCER = 0, DONE = 0, NOT_OURS = -2 };

typedef int (*OnNew)(void *handle, const void *settings, void *opaque, char *text, size_t size);
typedef int (*OnAcknowledgement)(void *handle, Message *message, void *opaque);
typedef int (*OnSettingsDestroy)(void *opaque);
typedef int (*OnSet)(void *settings, const char *name, const char *value, char *text, size_t size, void *opaque);
typedef void (*OnError)(void *handle, int code, const char *text, void *opaque);

typedef struct {
    int (*add_on_new)(void *settings, const char *name, OnNew on_new, void *opaque);
    int (*add_on_acknowledgement)(void *handle, const char *name, OnAcknowledgement on_acknowledgement, void *opaque);
    int (*add_on_settings_destroy)(void *settings, const char *name, OnSettingsDestroy on_destroy, void *opaque);
    int (*add_on_set)(void *settings, const char *name, OnSet on_set, void *opaque);
    int (*setting)(const void *settings, const char *name, char *value, size_t *size);
    void (*set_on_error)(void *settings, OnError on_error);
    int (*type)(const void *handle);
    void *(*new_queue)(void *handle);
    void *(*queue_of_partition)(void *handle, const char *topic, int32_t partition);
    void (*forward)(void *from, void *to);
    void (*notify)(void *queue, int file, const void *text, size_t size);
    void (*destroy_queue)(void *queue);
    Py_ssize_t (*consume)(void *queue, int wait_ms, Message **messages, size_t count);
    void (*destroy_message)(Message *message);
    const char *(*error_text)(const Message *message);
    int64_t (*timestamp)(const Message *message, int *kind);
    int (*headers)(const Message *message, void **headers);
    int (*header)(const void *headers, size_t index, const char **name, const void **value, size_t *size);
    const char *(*topic_name)(const void *topic);
    void *(*new_topic)(void *handle, const char *name, void *settings);
    void (*destroy_topic)(void *topic);
    int (*produce)(void *topic, int32_t partition, int flags, void *value, size_t value_size, const void *key,
                   size_t key_size, void *opaque);
    void *(*produce_arguments)(void *handle, const Argument *arguments, size_t count);
    int (*last_error)(void);
    int (*error_code)(const void *error);
    void (*destroy_error)(void *error);
    void *(*new_partitions)(int size);
    void *(*add_partition)(void *partitions, const char *topic, int32_t partition);
    int (*pause)(void *handle, void *partitions);
    int (*resume)(void *handle, void *partitions);
    void (*destroy_partitions)(void *partitions);
} Library;

extern Library library;

/* fetch.c: an error of a consumer outside of its calls. */
void client_failed(void *handle, int code, const char *text, void *opaque);

/* produce.c: what became of a producer's records. */
typedef struct Outcomes Outcomes;
Outcomes *new_outcomes(void);
void keep_outcomes(Outcomes *outcomes);
void release_outcomes(Outcomes *outcomes);
int acknowledged(void *handle, Message *message, void *opaque);

/* A client that was made on this thread. `outcomes` is NULL for a consumer. */
typedef struct {
    void *handle;
    Outcomes *outcomes;
} NewClient;

/* The client that was made last on this thread, once. Without one, or with one of the other kind, an error is set. */
NewClient take_new_client(int producer);

#endif
