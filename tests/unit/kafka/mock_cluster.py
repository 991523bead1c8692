"""A cluster of brokers inside this process, by librdkafka itself: for what clients do while some of them are away.

It knows metadata, records, offsets and coordinators, and no administration. The controller is the first broker.
"""

import ctypes
import socket

from confluent_kafka import cimpl

_LIB = ctypes.CDLL(cimpl.__file__)


def _function(name, result, *parameters):
    found = getattr(_LIB, name)
    found.restype, found.argtypes = result, parameters
    return found


_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_conf_new = _function("rd_kafka_conf_new", _POINTER)
_new = _function("rd_kafka_new", _POINTER, _INT, _POINTER, _TEXT, ctypes.c_size_t)
_destroy = _function("rd_kafka_destroy", None, _POINTER)
_cluster_new = _function("rd_kafka_mock_cluster_new", _POINTER, _POINTER, _INT)
_cluster_destroy = _function("rd_kafka_mock_cluster_destroy", None, _POINTER)
_bootstraps = _function("rd_kafka_mock_cluster_bootstraps", _TEXT, _POINTER)
_topic_create = _function("rd_kafka_mock_topic_create", _INT, _POINTER, _TEXT, _INT, _INT)
_leader = _function("rd_kafka_mock_partition_set_leader", _INT, _POINTER, _TEXT, ctypes.c_int32, ctypes.c_int32)
_controller = _function("rd_kafka_mock_set_controller_id", _INT, _POINTER, ctypes.c_int32)
_move = _function("rd_kafka_mock_broker_set_host_port", _INT, _POINTER, ctypes.c_int32, _TEXT, _INT)

CONTROLLER = 1


class MockCluster:
    """A context with the address `servers`."""

    def __init__(self, brokers=3):
        self._rk = _new(0, _conf_new(), ctypes.create_string_buffer(512), 512)
        self._cluster = _cluster_new(self._rk, brokers)
        assert not _controller(self._cluster, CONTROLLER)
        self.servers = _bootstraps(self._cluster).decode()

    def topic(self, name, *leaders):
        """A topic with a partition for each of these leaders."""
        assert not _topic_create(self._cluster, name.encode(), len(leaders), 1)
        for number, leader in enumerate(leaders):
            assert not _leader(self._cluster, name.encode(), number, leader)

    def kill(self, broker):
        """From now on the others name a port for it that refuses connections."""
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            assert not _move(self._cluster, broker, b"127.0.0.1", closed.getsockname()[1])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _cluster_destroy(self._cluster)
        _destroy(self._rk)
