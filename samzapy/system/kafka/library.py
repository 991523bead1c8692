"""Gives the compiled extension the functions of the librdkafka that confluent-kafka has loaded."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from confluent_kafka import cimpl

from samzapy import native

logger = logging.getLogger(__name__)


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
            {
                name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                for name in extension.LIBRDKAFKA_FUNCTIONS
            }
        )
    except (OSError, AttributeError) as cause:
        logger.warning("librdkafka's functions are not found, so reading and writing takes more time: %s", cause)
        return None
    return extension


#: None: records are fetched and produced by confluent-kafka.
extension = _bound()

#: The shared libraries that librdkafka loads. The extension is one, and so learns of each new client's handle.
_PLUGINS = "plugin.library.paths"


def with_extension(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a client whose handle the extension gets, beside the plugins that the job has chosen."""
    assert extension is not None
    paths = filter(None, (properties.get(_PLUGINS), extension.__file__))
    return {**properties, _PLUGINS: ";".join(paths)}
