"""The SPI of serdes, which turn objects into bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Serde(ABC):
    """Turns objects of one kind into bytes and back. None never reaches a serde: a null stays null.

    Implementations may bind `to_bytes` and `from_bytes` to functions of a C library. samzapy calls them once per
    message, mapped over whole batches. Their errors on bad data are reported as a SerdeError with stream and offset.
    """

    #: Whether `to_bytes(x + y)` starts with `to_bytes(x)`, as a prefix scan needs.
    keeps_prefixes = False

    #: Whether x < y exactly when `to_bytes(x) < to_bytes(y)`, as a query for a range needs. (Numbers of samzapy's
    #: serdes do not: negative ones come after the others.)
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

    #: Whether the result of `to_bytes` takes about as much memory as its length, so a store may keep it without a copy.
    #: C encoders often return bytes in a buffer many times as large.
    allocates_exactly = False

    #: Whether any `bytes` are their own serialization, so a batch of them needs no call.
    keeps_bytes = False

    #: If the encoded bytes contain this pattern, the value may not round-trip, and a store calls `check`. None: every
    #: value round-trips.
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
        """The serde for one `part` (`key` or `value`) of the messages of a stream, or of the entries of a store with
        that changelog, where the bytes depend on the place."""
        return self

    def ready(self, *, writing: bool) -> None:
        """Fetch everything that reading needs, with `writing` also what writing needs; once per start of the job.

        Raises SerdeError if the job's settings do not fit, EnvironmentFailure for a service that does not answer.
        """

    def rare_bytes(self, value: Any, cause: Exception) -> bytes | None:
        """Encode a value that the fast path rejected with `cause`, such as an int beyond 64 bits. None keeps the
        error."""
        return None

    def wider(self) -> Serde | None:
        """A serde of the same format that accepts more values and is slower. A stream switches to it when this serde
        has refused an output."""
        return None


class _Unhinted(HintedSerde):
    """A user's serde, with its functions unwrapped."""

    def __init__(self, serde: Serde) -> None:
        self.keeps_prefixes = serde.keeps_prefixes
        self.keeps_order = serde.keeps_order
        self.object_type = serde.object_type
        self.to_bytes = serde.to_bytes  # type: ignore[method-assign]
        self.from_bytes = serde.from_bytes  # type: ignore[method-assign]
        self._serde = serde

    def to_bytes(self, value: Any) -> bytes:
        """See `Serde.to_bytes`."""
        return self._serde.to_bytes(value)

    def from_bytes(self, data: bytes) -> Any:
        """See `Serde.from_bytes`."""
        return self._serde.from_bytes(data)


def hinted(serde: Serde) -> HintedSerde:
    """The serde with its hints; a user's serde has none."""
    return serde if isinstance(serde, HintedSerde) else _Unhinted(serde)


def serde_at(serde: Serde, stream: str, part: str) -> Serde:
    """The serde for a `part` of a stream; see `HintedSerde.at`."""
    return serde.at(stream, part) if isinstance(serde, HintedSerde) else serde
