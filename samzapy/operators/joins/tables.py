"""Joins a stream with the current rows of a table, and tables with one another.

The table-table join follows Samza's documentation (state management): one store, keyed like all inputs, holds the
joined rows, a change of an input writes its part of the row, and "the changelog of the store doubles as the output
stream".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.operators.columns import columns, keys_and_messages, runs_of_partitions
from samzapy.operators.joins.values import Joined, Side, key_of, sides, typed_values

Row = dict[str, Any]


class StreamTableJoin:
    """Keeps the newest row of each key of a table, and looks it up for each message of a stream.

    The order of processing decides which row a message finds, as in Samza. With `streams.TABLE.samza.bootstrap=true` a
    start reads the table to its end before the first message of the stream. From then on it reads rows and messages
    side by side. Use `AsOfJoin` to join a message with the row of its own time.

    Metrics: `join.unmatched`, messages that found no row.
    """

    def __init__(self, context: Context, store: str, stream: SystemStream, table: SystemStream) -> None:
        """`store` has string keys and holds the table's messages by key. Raises EnvironmentFailure for inputs that do
        not meet."""
        self._of_table = {ssp: bool(place) for ssp, place in sides(context, (stream, table)).items()}
        self._rows: KeyValueStore[str, Any] = context.get_store(store)
        self._unmatched = context.task.metrics.counter("join", "unmatched")

    def add(self, envelope: IncomingMessageEnvelope) -> Joined | None:
        """Accept one message. For a message of the table, where a tombstone is a deletion, returns None. A message of
        the stream comes back as `left` with its row as `right`; the row has the time of the message, as the table's
        times are not kept."""
        if self._of_table[envelope.ssp]:
            key = key_of(envelope)
            if envelope.message is None:
                self._rows.delete(key)
            else:
                self._rows.put(key, envelope.message)
            return None
        # A message without a key has no row; the store would refuse to look for it.
        row = None if envelope.key is None else self._rows.get(key_of(envelope))
        left = Side(envelope.event_time, envelope.message)
        if row is None:
            self._unmatched.count += 1
            return Joined(envelope.key, left, None)
        return Joined(envelope.key, left, Side(envelope.event_time, row))

    def add_all(self, batch: Sequence[IncomingMessageEnvelope]) -> list[Joined]:
        """Like `add` of each message of a MessageBatch, or of any sequence of messages, in order; returns the results
        of the stream's messages. State is touched once a key."""
        result: list[Joined] = []
        for run, _ in runs_of_partitions(batch):
            keys, messages, times = columns(run, 0, len(run), (None, None, None))
            for place, key in enumerate(keys):
                if type(key) is not str and (key is not None or self._of_table[run[0].ssp]):
                    key_of(run[place])
            if self._of_table[run[0].ssp]:
                newest = dict(zip(keys, messages, strict=True))
                self._rows.put_all({key: row for key, row in newest.items() if row is not None})
                self._rows.delete_all([key for key, row in newest.items() if row is None])
                continue
            rows = self._rows.get_all({key for key in keys if key is not None})
            for key, message, time_ms in zip(keys, messages, times, strict=True):
                row = rows.get(key)
                result.append(Joined(key, Side(time_ms, message), None if row is None else Side(time_ms, row)))
                self._unmatched.count += row is None
        return result


class TableTableJoin:
    """Keeps rows by key; each of the joined tables has a part of the row under its name, if it has that key.

    1. A row lives as long as one of its parts, so an inner join is the rows that have all parts.
    2. A commit sends each changed row once, however often it changed. A deleted row is a tombstone.
    3. Rows are made of the newest messages alone, so a repetition changes nothing and `at-least-once` is enough.
    4. The record of a row is in the task's partition of the changelog. That is the partition of the key for up to ten
       tasks. With more tasks, changelog partitions follow the order of the tasks' names as text (Samza's rule:
       `Partition 10` comes before `Partition 2`), so to join the rows by key again, write them to a separate stream.
    5. The parts of a row are plain values, also those of messages of a class.
    """

    def __init__(self, context: Context, store: str, parts: Mapping[SystemStream, str]) -> None:
        """`parts`: the tables, and the name of each in a row. `store` has string keys and json (or msgpack)
        values, and holds the rows and nothing else. Raises EnvironmentFailure for inputs that do not meet."""
        streams = list(parts)
        names = [parts[stream] for stream in streams]
        if len(set(names)) < len(names) or len(names) < 2:
            raise ValueError(f"a join needs two tables or more, each with a name of its own, got {names}")
        self._part = {ssp: names[place] for ssp, place in sides(context, streams).items()}
        typed = typed_values(context, store, streams)
        self._typed = {ssp: typed[ssp.system_stream] for ssp in self._part}
        self._rows: KeyValueStore[str, Row] = context.get_store(store)

    def update(self, envelope: IncomingMessageEnvelope) -> Row | None:
        """Accept one change of one table, where a tombstone is a deletion; returns the new row, None for none."""
        key = key_of(envelope)
        part, value, typed = self._part[envelope.ssp], envelope.message, self._typed[envelope.ssp]
        if typed is not None:
            value = typed.plain(value)
        row = self._rows.get(key) or {}
        changed = _with_part(row, part, value)
        if changed is not row:
            if changed:
                self._rows.put(key, changed)
            else:
                self._rows.delete(key)
        return changed or None

    def update_all(self, batch: Sequence[IncomingMessageEnvelope]) -> list[Row | None]:
        """Like `update` of each message of a MessageBatch, or of any sequence of messages, in order; returns the rows
        as the messages leave them. State is touched once a key."""
        result: list[Row | None] = []
        for run, _ in runs_of_partitions(batch):
            part, typed = self._part[run[0].ssp], self._typed[run[0].ssp]
            keys, values = keys_and_messages(run)
            if typed is not None:
                values = list(map(typed.plain, values))
            for place, key in enumerate(keys):
                if type(key) is not str:
                    key_of(run[place])
            before = self._rows.get_all(dict.fromkeys(keys))
            rows = dict(before)
            for key, value in zip(keys, values, strict=True):
                row = rows[key] or {}
                changed = _with_part(row, part, value)
                if changed is not row:
                    rows[key] = changed
                result.append(changed or None)
            new = {key: row for key, row in rows.items() if row is not before[key] and not _alike(row, before[key])}
            self._rows.put_all({key: row for key, row in new.items() if row})
            self._rows.delete_all([key for key, row in new.items() if not row and before[key] is not None])
        return result


def _with_part(row: Row, part: str, value: Any) -> Row:
    """The row with a part, None for none; `row` itself if it has that already. It is never changed in place: the undo
    of a failed message restores the old one."""
    if _alike(row.get(part), value):
        return row
    others = {name: kept for name, kept in row.items() if name != part}
    return others if value is None else {**others, part: value}


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are the same: 1, 1.0 and True are equal in Python, and three values in a row."""
    return bool(one == other) and repr(one) == repr(other)
