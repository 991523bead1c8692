"""Converts keys and values between the bytes of a store and JSON.

    serde of the keys     a key in a request                           in an answer
    string                its text                                     a JSON string
    bytes                 a JSON string of hexadecimal digits          the same
    uuid                  a JSON string                                the same
    integer, long         a JSON number                                the same
    double                a JSON number                                the same
    json, msgpack         a JSON value, with a class if one is named   the plain value

Values are plain JSON, so that no reader needs the classes of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from samzapy.api.serde import Serde, hinted
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.errors import SamzapyError, SerdeError
from samzapy.queries.questions import Entry
from samzapy.serializers import (
    BytesSerde,
    DoubleSerde,
    JsonSerde,
    StringSerde,
    TypedSerde,
    UUIDSerde,
    as_json,
    serde_registry,
    task_serdes,
)
from samzapy.storage.kv.expiring import Expiry, put_time, unstamped
from samzapy.storage.spec import store_specs


class BadQuestion(SamzapyError):
    """Raised for a question that a store does not allow; the message names the allowed values."""


class StoreText:
    """Converts the keys and values of one store. Any thread may call it."""

    def __init__(
        self,
        store: StoreConfig,
        key_serde: Serde,
        plain_key_serde: Serde,
        value_serde: Serde,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`key_serde` is the task's, for the class of the keys if they have one; the other two make plain values."""
        self.name = store.name
        self.key_serde = store.key_serde or "bytes"
        self.value_serde = store.msg_serde or "plain values of its view"
        self.takes_paths = isinstance(key_serde, StringSerde)
        """Whether a key is its text, so that it can stand in a path."""
        self._serde = key_serde
        self._keys, self._values = plain_key_serde, value_serde
        self._from_text = _parser(key_serde)
        self._expiry = None if store.ttl_ms is None else Expiry(store.ttl_ms, clock)

    def key(self, text: str, part: str) -> bytes:
        """The bytes of a key of a request; `part` names the parameter. Raises BadQuestion."""
        try:
            encoded = self._serde.to_bytes(self._from_text(text))
        except Exception as cause:
            why = " ".join(str(cause).split()) or type(cause).__name__
            expected = "text" if self.takes_paths else f"JSON for the serde {self.key_serde}"
            raise BadQuestion(f"{part}: expected {expected}, got {text[:100]!r} ({why[:300]})") from cause
        return bytes(encoded)

    def prefix(self, text: str) -> bytes:
        """The first bytes of the keys that start with `text`. Raises BadQuestion."""
        if not self._serde.keeps_prefixes:
            raise BadQuestion(
                f"prefix: needs a key serde that keeps prefixes (string, bytes), {self.key_serde} does not"
            )
        return self.key(text, "prefix")

    def bound(self, text: str, part: str) -> bytes:
        """A bound of a range. Raises BadQuestion."""
        if not self._serde.keeps_order:
            raise BadQuestion(
                f"{part}: a range needs a key serde that keeps order (string, bytes, uuid), {self.key_serde} does not"
            )
        return self.key(text, part)

    def is_alive(self, entry: Entry) -> bool:
        """Whether it has not expired by now."""
        return self._expiry is None or put_time(entry.value) > self._expiry.horizon()

    def shown(self, entry: Entry) -> dict[str, Any]:
        """The entry as an object of JSON. Raises SerdeError for one that cannot be read."""
        value = entry.value if self._expiry is None else unstamped(entry.value)
        return {
            "key": self._json(self._keys, entry.key, "a key"),
            "value": self._json(self._values, value, "the value of a key"),
            "partition": entry.partition,
        }

    def _json(self, serde: Serde, data: bytes, part: str) -> msgspec.Raw:
        try:
            return msgspec.Raw(as_json(serde.from_bytes(data)).encode())
        except Exception as cause:
            raise SerdeError(f"store '{self.name}': {part} cannot be read: {hinted(serde).misfit(cause)}") from cause


def _parser(serde: Serde) -> Callable[[str], Any]:
    """Parses a key's text to an object that the serde takes."""
    if isinstance(serde, StringSerde):
        return str
    if isinstance(serde, TypedSerde):
        typed = JsonSerde().of_type(serde.object_type)
        return lambda text: typed.from_bytes(text.encode())
    if isinstance(serde, BytesSerde):
        return lambda text: bytes.fromhex(msgspec.json.decode(text, type=str))
    if isinstance(serde, UUIDSerde):
        return lambda text: UUID(msgspec.json.decode(text, type=str))
    if isinstance(serde, DoubleSerde):
        return lambda text: msgspec.json.decode(text, type=float)
    return msgspec.json.decode


def store_texts(config: JobConfig) -> dict[str, StoreText]:
    """The texts of a job's stores, by name. Imports the classes of keys and values. Raises ConfigError."""
    typed, plain = task_serdes(config), serde_registry(config)
    return {
        name: StoreText(spec.config, spec.serdes(typed)[0], *spec.serdes(plain))
        for name, spec in store_specs(config).items()
    }
