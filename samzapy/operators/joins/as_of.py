"""Joins each left message with the last right message of its key that is not younger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.operators.columns import columns, offsets_of, runs_of_partitions
from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.expiry import Due
from samzapy.operators.joins.pending import IN_ORDER, PendingMessages, TimeRules
from samzapy.operators.joins.values import Joined, check_keys, joined_of, key_of, side_of, sides, typed_values

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
