"""A librdkafka that has no cluster: it hands out the messages that a test has put, and keeps the records that it is
given.

It belongs to a copy of the extension, since the extension keeps librdkafka's addresses for the whole process.
"""

import ctypes
import importlib.util
import itertools
import os
import shutil
from ctypes import CFUNCTYPE, POINTER, byref, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p, cast

from samzapy import native

PRODUCER, CONSUMER = 0, 1
_copies = itertools.count()


class Message(ctypes.Structure):
    _fields_ = (
        ("error", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("value", c_void_p),
        ("value_size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("internal", c_void_p),
    )


class Memory(ctypes.Structure):
    _fields_ = (("data", c_void_p), ("size", c_size_t))


class HeaderMemory(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("value", c_void_p), ("size", c_int64))


class ArgumentValue(ctypes.Union):
    _fields_ = (
        ("topic", c_void_p),
        ("partition", c_int32),
        ("timestamp", c_int64),
        ("memory", Memory),
        ("header", HeaderMemory),
        ("room", c_char * 64),
    )


class Argument(ctypes.Structure):
    _fields_ = (("kind", c_int), ("as_", ArgumentValue))


_END, _NAME, _TOPIC, _PARTITION, _VALUE, _KEY, _OPAQUE, _FLAGS, _TIMESTAMP, _HEADER = range(10)

_TYPES = {
    "rd_kafka_conf_interceptor_add_on_new": (c_int, c_void_p, c_char_p, c_void_p, c_void_p),
    "rd_kafka_interceptor_add_on_acknowledgement": (c_int, c_void_p, c_char_p, c_void_p, c_void_p),
    "rd_kafka_conf_interceptor_add_on_conf_destroy": (c_int, c_void_p, c_char_p, c_void_p, c_void_p),
    "rd_kafka_conf_interceptor_add_on_conf_set": (c_int, c_void_p, c_char_p, c_void_p, c_void_p),
    "rd_kafka_conf_set_error_cb": (None, c_void_p, c_void_p),
    "rd_kafka_conf_get": (c_int, c_void_p, c_char_p, c_void_p, POINTER(c_size_t)),
    "rd_kafka_type": (c_int, c_void_p),
    "rd_kafka_queue_new": (c_void_p, c_void_p),
    "rd_kafka_queue_get_partition": (c_void_p, c_void_p, c_char_p, c_int32),
    "rd_kafka_queue_forward": (None, c_void_p, c_void_p),
    "rd_kafka_queue_io_event_enable": (None, c_void_p, c_int, c_char_p, c_size_t),
    "rd_kafka_queue_destroy": (None, c_void_p),
    "rd_kafka_consume_batch_queue": (c_int64, c_void_p, c_int, POINTER(c_void_p), c_size_t),
    "rd_kafka_message_destroy": (None, c_void_p),
    "rd_kafka_message_errstr": (c_void_p, c_void_p),
    "rd_kafka_message_timestamp": (c_int64, c_void_p, POINTER(c_int)),
    "rd_kafka_message_headers": (c_int, c_void_p, POINTER(c_void_p)),
    "rd_kafka_header_get_all": (c_int, c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_size_t)),
    "rd_kafka_topic_name": (c_void_p, c_void_p),
    "rd_kafka_topic_new": (c_void_p, c_void_p, c_char_p, c_void_p),
    "rd_kafka_topic_destroy": (None, c_void_p),
    "rd_kafka_produce": (c_int, c_void_p, c_int32, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    "rd_kafka_produceva": (c_void_p, c_void_p, POINTER(Argument), c_size_t),
    "rd_kafka_last_error": (c_int,),
    "rd_kafka_error_code": (c_int, c_void_p),
    "rd_kafka_error_destroy": (None, c_void_p),
    "rd_kafka_topic_partition_list_new": (c_void_p, c_int),
    "rd_kafka_topic_partition_list_add": (c_void_p, c_void_p, c_char_p, c_int32),
    "rd_kafka_pause_partitions": (c_int, c_void_p, c_void_p),
    "rd_kafka_resume_partitions": (c_int, c_void_p, c_void_p),
    "rd_kafka_topic_partition_list_destroy": (None, c_void_p),
}


def _bytes(data, size):
    return None if not data else ctypes.string_at(data, size)


class FakeLibrdkafka:
    """`events`: what a FetchQueue takes next: what `record` and `error` make, and (code, text) for a call of
    `error_cb`.
    `later`: events that come after a call without any; `waits`: milliseconds that calls may wait in librdkafka.
    `produced`: what a ProduceQueue has put, as (topic, partition, key, value, time, headers). `living`: messages that
    were not destroyed. `keeps_error_cb`: the client does not leave its `error_cb` to the extension."""

    def __init__(self, folder):
        path = folder / f"extension{next(_copies)}.so"
        shutil.copy(native.extension.__file__, path)
        spec = importlib.util.spec_from_file_location("extension", path)
        self.extension = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.extension)
        self._plugin = ctypes.CDLL(str(path))
        self._handles = itertools.count(1_000)
        self._kept, self._names, self._topics, self._by_message = [], {}, {}, {}
        self._kind, self._on_set, self._on_error, self.keeps_error_cb = CONSUMER, None, None, False
        self.events, self.later, self.waits, self.produced, self.living = [], [], [], [], set()
        functions = {name: CFUNCTYPE(*types)(self._function(name)) for name, types in _TYPES.items()}
        self._kept.append(functions)
        self.extension.bind_librdkafka({name: cast(each, c_void_p).value for name, each in functions.items()})

    def _function(self, name):
        return getattr(self, "_" + name.removeprefix("rd_kafka_"), lambda *_: 0)

    def fetch_queue(self, on_error=print, *, headers=True):
        return self.extension.FetchQueue(self._client(CONSUMER), on_error, headers)

    def produce_queue(self):
        return self.extension.ProduceQueue(self._client(PRODUCER), False)

    def record(self, topic, partition, offset, key=None, value=b"v", time=5, headers=None):
        buffers = [
            None if each is None else ctypes.create_string_buffer(each, max(1, len(each))) for each in (key, value)
        ]
        at = [None if each is None else ctypes.addressof(each) for each in buffers]
        sizes = [len(each or b"") for each in (key, value)]
        message = Message(0, self._topic(topic), partition, at[1], sizes[1], at[0], sizes[0], offset, None)
        return self._message(message, time, headers, buffers)

    def error(self, code, text, topic=None, partition=-1):
        message = Message(code, None if topic is None else self._topic(topic), partition)
        return self._message(message, 0, None, text)

    def _message(self, message, *about):
        address = ctypes.addressof(message)
        self._by_message[address] = (*about, message)
        self.living.add(address)
        return address

    def _client(self, kind):
        self._kind = kind
        self._plugin.conf_init(c_void_p(1), byref(c_void_p()), None, c_size_t(0))
        return object()

    def _text(self, text):
        if text not in self._names:
            self._names[text] = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._names[text])

    def _topic(self, name):
        handle = self._text(name)
        self._topics[handle] = name
        return handle

    # librdkafka's functions

    def _conf_interceptor_add_on_new(self, settings, name, on_new, opaque):
        # As confluent-kafka does: its own callback first, then the last property.
        self._on_error = 1
        on_set = CFUNCTYPE(c_int, c_void_p, c_char_p, c_char_p, c_void_p, c_size_t, c_void_p)(self._on_set)
        if self._kind == CONSUMER:
            assert on_set(settings, b"samzapy.errors", b"queue", None, 0, None) == 0
        if not self.keeps_error_cb:
            assert on_set(settings, b"log.queue", b"true", None, 0, None) == -2
        noticed = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)(on_new)
        return noticed(2, settings, opaque, None, 0)

    def _conf_interceptor_add_on_conf_set(self, settings, name, on_set, opaque):
        self._on_set = on_set
        return 0

    def _conf_set_error_cb(self, settings, on_error):
        self._on_error = on_error

    def _conf_get(self, settings, name, found, size):
        assert name == b"error_cb"
        value = b"%#x" % self._on_error
        ctypes.memmove(found, value + b"\0", len(value) + 1)
        size[0] = len(value) + 1
        return 0

    def _type(self, handle):
        return self._kind

    def _queue_new(self, handle):
        return 3

    def _queue_get_partition(self, handle, topic, partition):
        return 4

    def _queue_io_event_enable(self, queue, file, text, size):
        self._file = file

    def _consume_batch_queue(self, queue, wait_ms, messages, most):
        count = 0
        self.waits.append(wait_ms)
        while self.events and count < most:
            event = self.events.pop(0)
            if isinstance(event, tuple):
                CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)(self._on_error)(2, *event, None)
            else:
                messages[count] = event
                count += 1
        if not count and self.later:
            self.events[:], self.later[:] = self.later, []
            os.write(self._file, b"\0")
        return count

    def _message_destroy(self, message):
        self.living.remove(message)

    def _message_errstr(self, message):
        return self._text(self._by_message[message][2])

    def _message_timestamp(self, message, kind):
        return self._by_message[message][0]

    def _message_headers(self, message, found):
        if self._by_message[message][1] is None:
            return -1
        found[0] = message
        return 0

    def _header_get_all(self, message, index, name, value, size):
        headers = self._by_message[message][1]
        if index >= len(headers):
            return -1
        buffers = [None if each is None else ctypes.create_string_buffer(each) for each in headers[index]]
        self._kept.append(buffers)
        name[0] = ctypes.addressof(buffers[0])
        value[0] = None if buffers[1] is None else ctypes.addressof(buffers[1])
        size[0] = len(headers[index][1] or b"")
        return 0

    def _topic_name(self, topic):
        return topic

    def _topic_new(self, handle, name, settings):
        return self._topic(name.decode())

    def _produce(self, topic, partition, flags, value, value_size, key, key_size, opaque):
        record = (self._topics[topic], partition, _bytes(key, key_size), _bytes(value, value_size), None, None)
        self.produced.append(record)
        return 0

    def _produceva(self, handle, arguments, count):
        found, headers = {}, []
        for each in arguments[:count]:
            if each.kind == _TOPIC:
                found["topic"] = self._topics[each.as_.topic]
            elif each.kind == _PARTITION:
                found["partition"] = each.as_.partition
            elif each.kind in {_KEY, _VALUE}:
                found[each.kind] = _bytes(each.as_.memory.data, each.as_.memory.size)
            elif each.kind == _TIMESTAMP:
                found["time"] = each.as_.timestamp
            elif each.kind == _HEADER:
                headers.append((each.as_.header.name.decode(), _bytes(each.as_.header.value, each.as_.header.size)))
        self.produced.append(
            (found["topic"], found["partition"], found[_KEY], found[_VALUE], found.get("time"), headers or None)
        )
