"""Gives the compiled extension the functions of the librdkafka that confluent-kafka has loaded."""

from __future__ import annotations

import ctypes
import logging
from types import ModuleType

from confluent_kafka import cimpl

from samzapy import native

logger = logging.getLogger(__name__)

#: The functions that the extension calls: librdkafka's public interface, unchanged since version 1.
_FUNCTIONS = (
    "rd_kafka_conf_interceptor_add_on_new",
    "rd_kafka_consume_batch_queue",
    "rd_kafka_header_get_all",
    "rd_kafka_message_destroy",
    "rd_kafka_message_errstr",
    "rd_kafka_message_headers",
    "rd_kafka_message_timestamp",
    "rd_kafka_queue_destroy",
    "rd_kafka_queue_forward",
    "rd_kafka_queue_get_partition",
    "rd_kafka_queue_new",
    "rd_kafka_topic_name",
)


def _bound() -> ModuleType | None:
    """The extension with librdkafka's functions; None without an extension, or if librdkafka lacks one of them."""
    extension = native.extension
    # librdkafka loads it as a plugin, and takes a list of paths.
    if extension is None or ";" in str(extension.__file__):
        return None
    try:
        # A look into confluent-kafka's module also finds what is in the libraries that it needs.
        library = ctypes.CDLL(cimpl.__file__)
        extension.bind_librdkafka(
            {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _FUNCTIONS}
        )
    except (OSError, AttributeError) as cause:
        logger.warning("librdkafka's functions are not found, so records are fetched more slowly: %s", cause)
        return None
    return extension


#: None: records are fetched by confluent-kafka.
extension = _bound()
