"""Splits batches for operators: into runs of messages of one partition, and runs into columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch

Messages = Sequence[IncomingMessageEnvelope]

#: A function of a message's content, a column as long as the batch, or None for the operator's default.
Column = Callable[[Any], Any] | Sequence[Any] | None

_NAMES = ("key", "value", "time")

_ssp = attrgetter("ssp")


def runs_of_partitions(batch: Messages) -> Iterator[tuple[Messages, int]]:
    """The runs of messages of one partition, each with its index in the batch. A MessageBatch is one run."""
    if isinstance(batch, MessageBatch):
        if len(batch):
            yield batch, 0
        return
    first = 0
    for _, messages in groupby(batch, _ssp):
        run = list(messages)
        yield run, first
        first += len(run)


def columns(
    run: Messages, first: int, length: int, requested: tuple[Column, Column, Column]
) -> tuple[Sequence[Any], ...]:
    """The columns of a run, which begins at index `first` of a batch of this length: keys, contents and event times, or
    the `requested` ones. Raises TypeError for the name of a field, ValueError for a column that is not as long as the
    batch."""
    keys, messages = keys_and_messages(run)
    default: list[Callable[[], Sequence[Any]]] = [lambda: keys, lambda: messages, lambda: times_of(run)]
    result = []
    for name, column, usual in zip(_NAMES, requested, default, strict=True):
        if column is None:
            result.append(usual())
        elif callable(column):
            # Not `map`: a StopIteration of the user's function would end it silently.
            result.append([column(item) for item in messages])
        elif isinstance(column, str | bytes):
            # A sequence as well, of its letters.
            raise TypeError(f"{name}: a function or a column, got {column!r}; for a field give lambda m: m[{column!r}]")
        elif len(column) != length:
            bound = "at least" if len(column) < length else "only"
            raise ValueError(f"{name}: a column has {len(column)} values for {bound} {length} messages")
        else:
            result.append(column[first : first + len(run)])
    return tuple(result)


def keys_and_messages(run: Messages) -> tuple[Sequence[Any], Sequence[Any]]:
    """The keys and the contents of messages."""
    if isinstance(run, MessageBatch):
        return run.keys, run.messages
    return [item.key for item in run], [item.message for item in run]


def times_of(run: Messages) -> list[int]:
    """The event times of messages."""
    # A list: a system's column may be one of several parts, which is slow to look up values in.
    return list(run.timestamps) if isinstance(run, MessageBatch) else [item.event_time for item in run]


def offsets_of(run: Messages) -> Sequence[int]:
    """The offsets of messages."""
    return run.offsets if isinstance(run, MessageBatch) else [item.offset for item in run]
