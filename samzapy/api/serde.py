"""The SPI of serdes, which turn objects into bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Serde(ABC):
    """Turns objects of one kind into bytes and back. None never reaches a serde: a null stays null.

    `to_bytes` and `from_bytes` may be functions of a C library: samzapy maps them over whole batches. Errors on bad
    data become a SerdeError with stream and offset.
    """

    #: Whether `to_bytes(x + y)` starts with `to_bytes(x)`, as a prefix scan needs.
    keeps_prefixes = False
    #: Whether x < y exactly when `to_bytes(x) < to_bytes(y)`, as a query for a range needs (samzapy's numbers: no).
    keeps_order = False
    #: The class, generic or union that `from_bytes` makes objects of; None if that depends on the bytes.
    object_type: Any = None

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """Serialize. Raises SerdeError, TypeError or ValueError if `value` is not of the serde's kind."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """Deserialize. Raises SerdeError or ValueError if `to_bytes` cannot have written `data`."""


class SerdeFactory(ABC):
    """Makes a serde from its settings, for serdes that have any (`serializers.registry.NAME.*`)."""

    @abstractmethod
    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """A serde for the registry's entry `name`; `settings` are the keys below `serializers.registry.NAME.`."""


class HintedSerde(Serde):
    """What samzapy's own serdes add for stores and streams; no part of the public interface."""

    #: Whether the result of `to_bytes` takes about as much memory as its length, so that it needs no copy to be kept.
    allocates_exactly = False
    #: Whether any `bytes` are their own serialization, so a batch of them needs no call.
    keeps_bytes = False
    #: A store calls `check` for encoded bytes with this pattern: the value may not round-trip. None: every value does.
    doubt: bytes | None = None

    def check(self, value: Any) -> None:
        """Raise SerdeError if `to_bytes` has written another value for `value`."""

    def refusal(self, value: Any, cause: Exception) -> str:
        """The reason why `to_bytes` refused `value`, for an error: `long serde takes an int, got str 'x'`."""
        return str(cause) or type(cause).__name__

    def misfit(self, cause: Exception) -> str:
        """The reason why `from_bytes` refused some bytes, for an error: `$.user: Expected str, got int`."""
        return str(cause) or type(cause).__name__

    def at(self, stream: str, part: str) -> HintedSerde:
        """The serde for a `part` (`key` or `value`) of a stream or changelog, where the bytes depend on the place."""
        return self

    def ready(self, *, writing: bool) -> None:
        """Fetch what reading needs, with `writing` also what writing needs. Raises SerdeError, EnvironmentFailure."""


class FunctionSerde(HintedSerde):
    """A serde of two functions. An object has them as attributes: a method would be a Python frame for each message."""

    def __init__(self, to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any]) -> None:
        self._calls = to_bytes, from_bytes
        self.to_bytes, self.from_bytes = self._calls  # type: ignore[assignment, method-assign]

    def to_bytes(self, value: Any) -> bytes:
        return self._calls[0](value)

    def from_bytes(self, data: bytes) -> Any:
        return self._calls[1](data)


class _Unhinted(FunctionSerde):
    """A user's serde, with its functions unwrapped."""

    def __init__(self, serde: Serde) -> None:
        super().__init__(serde.to_bytes, serde.from_bytes)
        self.keeps_prefixes, self.keeps_order = serde.keeps_prefixes, serde.keeps_order
        self.object_type = serde.object_type


def hinted(serde: Serde) -> HintedSerde:
    """The serde with its hints; a user's serde has none."""
    return serde if isinstance(serde, HintedSerde) else _Unhinted(serde)


def serde_at(serde: Serde, stream: str, part: str) -> Serde:
    """The serde for a `part` of a stream; see `HintedSerde.at`."""
    return serde.at(stream, part) if isinstance(serde, HintedSerde) else serde
