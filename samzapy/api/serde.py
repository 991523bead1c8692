"""Objects to bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Serde(ABC):
    """Turns objects of one kind into bytes and back. None never reaches a serde: a null stays null.

    Implementations may bind `to_bytes` and `from_bytes` to functions of a C library: they are called once a message,
    mapped over whole batches. What they raise on bad data is reported as a SerdeError that names stream and offset.
    """

    #: Whether `to_bytes(x + y)` starts with `to_bytes(x)`, which is what a prefix scan needs.
    keeps_prefixes = False

    #: Whether what `to_bytes` returns takes no more memory than it is long, so that a store may keep it without a copy.
    #: C encoders often return bytes in a buffer many times their length.
    allocates_exactly = False

    #: Whether any `bytes` are their own serialization, so that a batch of them needs no call at all.
    keeps_bytes = False

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """Serialize. Raises SerdeError, TypeError or ValueError if `value` is not of the serde's kind."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """Deserialize. Raises SerdeError or ValueError if `data` is not what `to_bytes` writes."""

    def refusal(self, value: Any, cause: Exception) -> str:
        """Why `to_bytes` has refused `value` with `cause`, as an error says it: `long serde takes an int, got str 'x'`.

        For a `to_bytes` that is a C library's, whose exceptions know neither the serde nor what it takes.
        """
        return str(cause) or type(cause).__name__


class SerdeFactory(ABC):
    """Makes a serde from its configuration, for serdes that take any (`serializers.registry.NAME.*`)."""

    @abstractmethod
    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """A serde for the registry's entry `name`; `settings` are the keys below `serializers.registry.NAME.`."""
