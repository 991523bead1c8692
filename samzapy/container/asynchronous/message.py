"""One message in flight: its callback, and the outputs it has sent so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from samzapy.api.collector import ControlMessage, MessageCollector
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import TaskCallback
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import no_envelope

if TYPE_CHECKING:
    # As in `event_loop`: most jobs have no asynchronous tasks.
    import asyncio


@dataclass
class Work:
    """A message that a task has accepted.

    `undecodable`: set until its bytes are decoded. `key`: it starts only after the messages of this key before it, None
    for no such order. `pauses`: the pauses left before further tries. `tried`: decoding was tried.
    """

    envelope: IncomingMessageEnvelope
    undecodable: Undecodable | None = None
    key: Hashable = None
    tried: bool = False
    pauses: Iterator[float] = field(default_factory=lambda: iter(()))


class ControlOutput(NamedTuple):
    """A control message among the outputs."""

    stream: SystemStream
    message: ControlMessage


#: Types of values that cannot change.
_IMMUTABLE = frozenset({str, bytes, int, float, bool, type(None)})


def as_it_is(value: Any) -> Any:
    """The value, or a copy that later changes of it do not reach. A value that cannot be copied is returned itself."""
    if type(value) in _IMMUTABLE:
        return value
    try:
        return _copied(value)
    except Exception:  # noqa: BLE001  # a class may refuse in any way; its serde has the last word
        return value


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: each if type(each) in _IMMUTABLE else _copied(each) for key, each in value.items()}
    if kind is list:
        return [each if type(each) in _IMMUTABLE else _copied(each) for each in value]
    return deepcopy(value)


class MessageOutputs(MessageCollector):
    """Gathers the outputs of one message, as of the time of each send. They are serialized when the message is done, on
    the task's thread, and dropped if it fails."""

    __slots__ = ("_position", "closed", "gathered")

    def __init__(self, position: str) -> None:
        self._position = position
        self.gathered: list[OutgoingMessageEnvelope | ControlOutput] = []
        self.closed = False

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        message, key = as_it_is(envelope.message), as_it_is(envelope.key)
        sent = (envelope.system_stream, message, key, envelope.partition_key, envelope.headers, envelope.timestamp)
        self._gather(OutgoingMessageEnvelope(*sent))

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        self._gather(ControlOutput(stream, message))

    def send_to(self, collector: MessageCollector) -> None:
        """Send the gathered outputs, in order."""
        for output in self.gathered:
            if isinstance(output, ControlOutput):
                collector.send_control(*output)
            else:
                collector.send(output)

    def _gather(self, output: OutgoingMessageEnvelope | ControlOutput) -> None:
        if self.closed:
            raise RuntimeError(f"{self._position} is done: its collector takes no more outputs")
        self.gathered.append(output)


class Settle(Protocol):
    """Takes the end of a message, from any thread."""

    def __call__(
        self, message: MessageInFlight, failure: BaseException | None, then: Callable[[], object] | None
    ) -> None:
        """`failure` None: it is processed, once `then` has run."""


class MessageInFlight(TaskCallback):
    """One try at a message."""

    __slots__ = ("_settle", "coroutine", "ended", "outputs", "started_at", "work")

    def __init__(self, work: Work, started_at: float, settle: Settle) -> None:
        self.work = work
        self.started_at = started_at
        self._settle = settle
        self.outputs = MessageOutputs(work.envelope.position)
        self.ended = False
        self.coroutine: asyncio.Task[None] | None = None

    def complete(self, then: Callable[[], object] | None = None) -> None:
        self._settle(self, None, then)

    def failure(self, error: BaseException) -> None:
        self._settle(self, _as_raised(error), None)


def _as_raised(error: object) -> BaseException:
    """The exception that `raise error` would raise, which the message fails with."""
    if isinstance(error, BaseException):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        try:
            return error()
        except Exception as failure:  # noqa: BLE001  # such as a missing argument
            return failure
    return TypeError(f"callback.failure: expected an exception, got {type(error).__name__} {error!r}")
