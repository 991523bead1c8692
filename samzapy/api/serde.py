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

    #: Whether the result of `to_bytes` takes about as much memory as its length, so a store may keep it without a copy.
    #: C encoders often return bytes in a buffer many times as large.
    allocates_exactly = False

    #: Whether any `bytes` are their own serialization, so a batch of them needs no call.
    keeps_bytes = False

    #: Bytes that occur in every serialization that may be read as a value other than the original; None if there are
    #: none. A store calls `check` if it finds them.
    doubt: bytes | None = None

    #: The class, generic or union that `from_bytes` makes objects of; None if that depends on the bytes.
    object_type: Any = None

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """Serialize. Raises SerdeError, TypeError or ValueError if `value` is not of the serde's kind."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """Deserialize. Raises SerdeError or ValueError if `to_bytes` cannot have written `data`."""

    def refusal(self, value: Any, cause: Exception) -> str:
        """The reason why `to_bytes` refused `value`, for an error: `long serde takes an int, got str 'x'`.

        Overridden by serdes with a `to_bytes` from a C library, since its exception `cause` does not name the serde.
        """
        return str(cause) or type(cause).__name__

    def check(self, value: Any) -> None:
        """Raise SerdeError if `to_bytes` has written another value for `value`. Called if `doubt` is in the bytes."""

    def at(self, stream: str, part: str) -> Serde:
        """The serde for one `part` (`key` or `value`) of the messages of a stream, of the entries of a store with that
        changelog. By default the serde itself; overridden where the bytes depend on the place."""
        return self

    def ready(self, *, writing: bool) -> None:
        """Fetch everything that reading needs, and with `writing` also everything that writing needs. Called once at a
        start of the job.

        Raises SerdeError if the job's settings do not fit, EnvironmentFailure for a service that does not answer.
        """

    def rare_bytes(self, value: Any, cause: Exception) -> bytes | None:
        """The bytes of a rare value of the format that `to_bytes` has refused with `cause`; None for all others.
        `from_bytes` must make the value of them. A store asks for each value that `to_bytes` has refused."""
        return None

    def wider(self) -> Serde | None:
        """A serde of the same format that takes more values and costs more. A stream switches to it when this serde
        has refused an output. None if there is none."""
        return None

    def misfit(self, cause: Exception) -> str:
        """The reason why `from_bytes` refused some bytes, for an error: `$.user: Expected str, got int`."""
        return str(cause) or type(cause).__name__


class SerdeFactory(ABC):
    """Makes a serde from its settings, for serdes that have any (`serializers.registry.NAME.*`)."""

    @abstractmethod
    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """A serde for the registry's entry `name`; `settings` are the keys below `serializers.registry.NAME.`."""
