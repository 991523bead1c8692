"""Joins a stream with the current rows of a table or with its rows as of a time, and tables with one another.

The table-table join follows Samza's documentation (state management): one store, keyed like all inputs, holds the
joined rows, a change of an input writes its part of the row, and "the changelog of the store doubles as the output
stream".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.operators.columns import columns, keys_and_messages, offsets_of, runs_of_partitions
from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.expiry import Due
from samzapy.operators.joins.pending import IN_ORDER, PendingMessages, TimeRules
from samzapy.operators.joins.values import Joined, Side, check_keys, joined_of, key_of, side_of, sides, typed_values

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
            check_keys(run, keys)
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


#: The kinds of entries in the index, in the processing order at equal times.
_RIGHT, _LEFT, _FORGET = "0", "1", "2"
#: The first letters of the keys of the newest right messages.
_NEWEST = "key/"


class AsOfJoin:
    """Returns every left message once, with the newest right message of its key at its event time (inclusive). The
    right side is None if there is no such message, if it is more than `tolerance` older, or if it is a tombstone. Of
    several right messages of one key and time the last one counts.

    1. Messages of both sides wait, in the order of event time, until no earlier message can come on time. Then a right
       one becomes the newest of its key, and a left one is returned.
    2. That happens in `advance` (call it in `window`); in `add` if `limit` messages have come since the last call, so
       that a backlog does not outrun `window`; and for all left ones in `finish`.
    3. Late messages of either side are dropped and counted.
    4. Without a tolerance the newest right message of each key is kept for good.
    5. Messages of a class are kept as plain values, and returned as new objects of the class.

    Metrics: `join.late`, messages dropped because they came too late.
    """

    def __init__(
        self,
        context: Context,
        store: str,
        streams: tuple[SystemStream, SystemStream],
        tolerance: Duration | None = None,
        rules: TimeRules = IN_ORDER,
        limit: int = 10_000,
    ) -> None:
        """`streams`: the left and the right one. `store` has string keys and json (or msgpack) values and is used for
        nothing else. `tolerance`: milliseconds or text such as "1h" (see `Duration`). `limit`: entries that one call
        takes at most. Raises EnvironmentFailure for inputs that do not meet."""
        self._tolerance_ms = None if tolerance is None else milliseconds(tolerance, "tolerance of AsOfJoin")
        kinds = {ssp: (_LEFT, _RIGHT)[place] for ssp, place in sides(context, streams).items()}
        self._left, self._right = (typed_values(context, store, streams)[stream] for stream in streams)
        typed = {_LEFT: self._left, _RIGHT: self._right}
        #: The beginning and the end of the names of a partition's messages, and how the messages are kept.
        self._names = {ssp: (kind, f"/{ssp}", typed[kind]) for ssp, kind in kinds.items()}
        self._pending = PendingMessages(context, store, kinds, rules, limit)
        self._store = self._pending.store
        self._get, self._put = self._store.get, self._store.put

    def mark(self, ssp: SystemStreamPartition, time_ms: int) -> None:
        """Accept a watermark of one of the `watermarked` partitions of the task: no older message follows."""
        self._pending.mark(ssp, time_ms)

    @property
    def settled_ms(self) -> int:
        """No later result has an event time before this."""
        return self._pending.settled_ms

    def add(self, envelope: IncomingMessageEnvelope) -> list[Joined]:
        """Accept one message; returns nothing, or left messages that are complete."""
        ssp, offset, key, message, _, time_ms, _, _ = envelope
        if type(key) is not str:
            key_of(envelope)
        if not self._pending.on_time(envelope):
            return []
        kind, partition, typed = self._names[ssp]
        kept = [key, message] if typed is None else [key, *typed.kept(message)]
        # The offset distinguishes and orders messages of one partition with equal times.
        self._pending.add(envelope, time_ms, f"{kind}{offset:019d}{partition}", kept)
        return self.advance() if self._pending.is_full() else []

    def add_all(self, batch: Sequence[IncomingMessageEnvelope]) -> list[Joined]:
        """Like `add` of each message of a MessageBatch, or of any sequence of messages, in order."""
        joined: list[Joined] = []
        for run, _ in runs_of_partitions(batch):
            keys, messages, times = columns(run, 0, len(run), (None, None, None))
            check_keys(run, keys)
            places = self._pending.on_time_all(run, times)
            if not places:
                continue
            kind, partition, typed = self._names[run[0].ssp]
            offsets = offsets_of(run)
            entries = [
                [
                    times[n],
                    f"{kind}{offsets[n]:019d}{partition}",
                    [keys[n], messages[n]] if typed is None else [keys[n], *typed.kept(messages[n])],
                ]
                for n in places
            ]
            self._pending.add_all(run[0], entries)
            if self._pending.is_full(len(places)):
                joined += self.advance()
        return joined

    def advance(self) -> list[Joined]:
        """The left messages that are complete, in the order of event time; at most `limit` entries."""
        return self._in_order(*self._pending.take())

    def finish(self) -> Iterator[Joined]:
        """Every waiting left message, for the end of the inputs; for `on_end_of_stream`. A message that comes later and
        is older than the last of them is late."""
        ahead: list[Due] = []
        since_ms = 0
        while due := self._pending.take_any(since_ms):
            since_ms = due[-1].time_ms
            ahead += due
            last = max((place for place, entry in enumerate(ahead) if entry.name[0] == _LEFT), default=-1)
            if last >= 0:
                self._pending.end(ahead[last].time_ms)
                yield from self._in_order(ahead[: last + 1], ahead[last].time_ms)
                del ahead[: last + 1]
        for entry in ahead:
            self._pending.keep(*entry)

    def _in_order(self, due: Iterable[Due], passed: int) -> list[Joined]:
        get, put, tolerance_ms, left, right = self._get, self._put, self._tolerance_ms, self._left, self._right
        joined = []
        for time_ms, name, kept in due:
            kind = name[0]
            if kind == _FORGET:
                self._forget(name[1:], time_ms, passed)
                continue
            key = kept[0]
            place = f"{_NEWEST}{key}"
            newest = get(place)
            if kind == _LEFT:
                message = side_of((time_ms, kept[1] if left is None else left.message(*kept)))
                if newest is None or (tolerance_ms is not None and time_ms - newest[0] > tolerance_ms):
                    joined.append(joined_of((key, message, None)))
                else:
                    other = newest[1] if right is None else right.message(key, *newest[1:])
                    joined.append(joined_of((key, message, side_of((newest[0], other)))))
            elif kept[1] is None:
                self._store.delete(place)
            else:
                # The entry that drops a key stays in place while the key gets newer messages.
                if newest is None and tolerance_ms is not None:
                    self._pending.keep(max(time_ms + tolerance_ms, passed), f"{_FORGET}{key}")
                put(place, [time_ms, *kept[1:]])
        return joined

    def _forget(self, key: str, time_ms: int, passed: int) -> None:
        """Drop the newest message of a key if no left message after `time_ms` can meet it; else check again later."""
        newest = self._get(f"{_NEWEST}{key}")
        if newest is None or self._tolerance_ms is None:
            return
        if (until_ms := newest[0] + self._tolerance_ms) <= time_ms:
            self._store.delete(f"{_NEWEST}{key}")
        else:
            # Not before the start of the next `take`.
            self._pending.keep(max(until_ms, passed), f"{_FORGET}{key}")
