"""The messages of a join in its store: plain values, also those of a class.

    plain value               [..., value]
    object of a class         [..., its plain form]
    other, from such a side   [..., value, False]      as after `envelope._replace(message=...)`

So a job may give its inputs classes while messages wait: what is plain in the store is read as the class from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samzapy.api.context import Context
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import SerdeError
from samzapy.serializers.plain import PlainForm, json_form
from samzapy.serializers.typed import is_plain, shown


class TypedValues:
    """The messages of one input with a class."""

    __slots__ = ("_classes", "_form", "_kind", "_where")

    def __init__(self, form: PlainForm, kind: Any, where: str) -> None:
        """`where`: the store and the input, for errors."""
        self._form = form
        self._classes: frozenset[type] = form.classes or frozenset()
        self._kind = kind
        self._where = where

    def plain(self, message: Any) -> Any:
        """The plain form of an object of the class; other values stay."""
        return self._form.to_plain(message) if type(message) in self._classes else message

    def kept(self, message: Any) -> list[Any]:
        """The end of the entry of a message. It is new: the store does not share it with the user."""
        if type(message) in self._classes:
            return [self._form.to_plain(message)]
        return [message] if message is None else [message, False]

    def message(self, key: str, value: Any, is_object: bool = True) -> Any:
        """The inverse of `kept`. Raises SerdeError for a value that does not fit the class (any longer)."""
        if value is None or not is_object:
            return value
        try:
            return self._form.from_plain(value)
        except ValueError as cause:
            raise SerdeError(
                f"{self._where}: the message that waits at key {key!r:.100} is not a {shown(self._kind)}: "
                f"{self._form.reason(cause)}"
            ) from cause


def typed_values(
    context: Context, store: str, streams: Sequence[SystemStream]
) -> Mapping[SystemStream, TypedValues | None]:
    """How the messages of each input are kept; None for an input of plain values. Raises SerdeError for a class without a
    plain form, such as protobuf's."""
    found: dict[SystemStream, TypedValues | None] = {}
    for stream in streams:
        kind = context.task.message_type(stream)
        found[stream] = None
        if kind is not None:
            where = f"{context.task.task_name}: store '{store}': {stream}"
            try:
                form = json_form(kind)
            except SerdeError as cause:
                raise SerdeError(f"{where}: a join keeps messages as plain values: {cause}") from cause
            if form.classes is not None and not is_plain(kind):
                found[stream] = TypedValues(form, kind, where)
    return found


def by_partition(
    values: Mapping[SystemStream, TypedValues | None], partitions: Mapping[SystemStreamPartition, Any]
) -> dict[SystemStreamPartition, TypedValues | None]:
    """The same for the partitions of the inputs."""
    return {ssp: values[ssp.system_stream] for ssp in partitions}
