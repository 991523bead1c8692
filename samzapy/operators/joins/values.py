"""The two sides of a join, and their messages in its store: plain values, also those of a class.

Equal keys meet in one task only if the joined inputs have the same partitions there.

    plain value               [..., value]
    object of a class         [..., its plain form]
    other, from such a side   [..., value, False]      as after `envelope._replace(message=...)`

So a job may give its inputs classes while messages wait: what is plain in the store is read as the class from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import EnvironmentFailure, SerdeError
from samzapy.operators.columns import Messages
from samzapy.operators.event_time import KEY_REMEDY
from samzapy.serializers.typed import PlainForm, is_plain, json_form, shown
from samzapy.storage.readback import ReadBack

_TEXT = frozenset({str})


class Side(NamedTuple):
    """One message of a joined pair: its event time (ms since 1970) and its value."""

    time_ms: int
    value: Any


class Joined(NamedTuple):
    """Two messages of one key, or a single message without a partner: the other side is None then."""

    key: str
    left: Side | None
    right: Side | None


# The same without the Python frames of the constructors.
side_of: Callable[[tuple[int, Any]], Side] = partial(tuple.__new__, Side)
joined_of: Callable[[tuple[str, Side | None, Side | None]], Joined] = partial(tuple.__new__, Joined)


def sides(context: Context, streams: Sequence[SystemStream]) -> dict[SystemStreamPartition, int]:
    """The place in `streams` of each partition that the task reads of them.

    Raises ValueError for a stream that is named twice, EnvironmentFailure if the task reads no partition of one stream.
    If the partition counts of the inputs differ, some task does not, and equal keys are in different tasks. (A
    `CopartitionedTask` is refused before it starts.)
    """
    task = context.task
    if len(set(streams)) < len(streams):
        raise ValueError(f"{task.task_name}: a join needs different streams, got {' and '.join(map(str, streams))}")
    places = {ssp: streams.index(ssp.system_stream) for ssp in sorted(task.ssps) if ssp.system_stream in streams}
    for place, stream in enumerate(streams):
        if place not in places.values():
            read = ", ".join(map(str, places)) or "none of the joined inputs"
            raise EnvironmentFailure(
                f"{task.task_name}: joins {' with '.join(map(str, streams))}, and reads no partition of {stream} "
                f"(it reads {read}): joined inputs must be in task.inputs with the same number of partitions each"
            )
    return places


def key_of(envelope: IncomingMessageEnvelope) -> str:
    """The join key of a message. Raises ValueError for a key that is not a string."""
    key: object = envelope.key
    if type(key) is not str:
        raise ValueError(f"{envelope.position}: a join needs a string as key, got {key!r:.100}{KEY_REMEDY}")
    return key


def check_keys(run: Messages, keys: Sequence[Any]) -> None:
    """Raise the ValueError for the first of the messages whose key is not a string."""
    if not set(map(type, keys)) <= _TEXT:
        for envelope in run:
            key_of(envelope)


class TypedValues:
    """The messages of one input with a class."""

    __slots__ = ("_back", "_classes", "_form", "_kind", "_store", "_stream")

    def __init__(self, form: PlainForm, kind: Any, store: str, stream: SystemStream) -> None:
        self._form = form
        self._back = ReadBack(form.to_plain, form.from_plain, form.reason, form.classes)
        self._classes: frozenset[type] = form.classes or frozenset()
        self._kind = kind
        self._store = store
        self._stream = stream

    def plain(self, message: Any) -> Any:
        """The plain form of an object of the class; other values stay. Raises SerdeError for an object that would not
        come back; the first ones are tried, and then some."""
        if type(message) not in self._classes:
            return message
        plain, back = self._form.to_plain(message), self._back
        if back.tick() and back.due(message):
            fault = back.fault(message, plain)
            if fault is not None:
                raise SerdeError(
                    f"store '{self._store}': the {type(message).__name__} of {self._stream} "
                    f"{fault}; a join keeps messages in its store: change the class, or join plain values"
                )
        return plain

    def kept(self, message: Any) -> list[Any]:
        """The end of the entry of a message. It is new: the store does not share it with the user."""
        if type(message) in self._classes:
            return [self.plain(message)]
        return [message] if message is None else [message, False]

    def message(self, key: str, value: Any, is_object: bool = True) -> Any:
        """The inverse of `kept`. Raises SerdeError for a value that does not fit the class (any longer)."""
        if value is None or not is_object:
            return value
        try:
            return self._form.from_plain(value)
        except ValueError as cause:
            raise SerdeError(
                f"store '{self._store}': the message of {self._stream} that waits at key {key!r:.100} is not a "
                f"{shown(self._kind)}: {self._form.reason(cause)}; give new fields defaults and old ones their types, "
                "or the join a new store with a changelog of its own"
            ) from cause

    def sides(self, key: str, entries: Sequence[Sequence[Any]]) -> list[Side]:
        """The messages of entries [event time, ..., what `kept` has added]."""
        return [side_of((entry[0], self.message(key, *entry[2:]))) for entry in entries]


def typed_values(
    context: Context, store: str, streams: Sequence[SystemStream]
) -> Mapping[SystemStream, TypedValues | None]:
    """How the messages of each input are kept; None for an input of plain values, and for one of a class without a
    plain form, such as protobuf's: the task joins a part of its messages, or the commit refuses them."""
    return {stream: _of_class(context.task.message_type(stream), store, stream) for stream in streams}


def _of_class(kind: Any, store: str, stream: SystemStream) -> TypedValues | None:
    if kind is None:
        return None
    try:
        form = json_form(kind)
    except SerdeError:
        return None
    return None if form.classes is None or is_plain(kind) else TypedValues(form, kind, store, stream)
