"""Keeps messages that wait for event time in the store of a join, and detects late ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.operators.columns import Messages
from samzapy.operators.event_time import Duration, EventTime, check_store, milliseconds
from samzapy.operators.expiry import Due, ExpiryIndex, due_of

_PASSED = "passed"

#: The first letter of the names of runs; names of entries begin with a digit.
_RUN = "r"
_LONGEST = 64
_NO_RUN = (inf, "")


@dataclass(frozen=True)
class TimeRules:
    """The event-time settings of a join. Durations are milliseconds or text such as "5m" (see `Duration`).

    `lateness` (default 0): the largest disorder of the messages of one partition. A message is late if it is older
    than the newest of its own partition by more than that. The order of different partitions does not matter. Messages
    that were late for all partitions stay late in a run with another lateness.

    `idle` (default None: never): the silence, in processing time, after which the other partitions no longer wait for a
    partition. When all partitions are idle, event time advances with the clock. A partition that is only behind can
    look idle: entries that expire meanwhile make its older messages late, and the output depends on that moment. Set it
    well above the longest backlog, or leave it out.

    Raises ValueError for an invalid duration.
    """

    lateness: Duration = 0
    idle: Duration | None = None

    def __post_init__(self) -> None:
        milliseconds(self.lateness, "lateness")
        milliseconds(1 if self.idle is None else self.idle, "idle", 1)


#: Each partition is in the order of event time, and no partition is ever idle.
IN_ORDER = TimeRules()


class PendingMessages:
    """Entries of one join's store that wait until no older message can come on time.

    The store holds event time (see `EventTime`), `passed`, and the index. Before the time `passed` (exclusive) all due
    entries have been taken.

        due/<time>/<name>                      value                        one entry
        due/<time>/r<offset>/<partition>       [[time, name, value], ...]   a run: entries that came from one partition

    1. A run has up to 64 entries, so that an entry which comes and goes costs no record of the changelog. The run's
       time is its first entry's less the lateness: no message on time comes before it.
    2. A run that is due in part is put back with the rest, under the time of the oldest remaining entry.
    """

    def __init__(
        self, context: Context, store: str, partitions: Iterable[SystemStreamPartition], rules: TimeRules, limit: int
    ) -> None:
        """`partitions`: the partitions of the joined inputs. `limit`: the approximate number of entries of one `take`.

        Raises ValueError for a limit below 1, StoreError for a store that does not keep its keys in the order of their
        text, ConfigError for one with `rocksdb.ttl.ms` or with a serde of single values.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        counter = context.task.metrics.counter
        check_store(context, store, "joins", lists=True)
        self.store: KeyValueStore[str, Any] = context.get_store(store)
        self._clock = context.container.clock
        self._index = ExpiryIndex(self.store)
        self._lateness_ms = milliseconds(rules.lateness, "lateness")
        self._time = EventTime(
            context,
            self.store,
            partitions,
            "joins",
            idle=rules.idle,
            grace_ms=self._lateness_ms,
            ahead=counter("join", "ahead"),
        )
        #: Lets an entry (time, name, value) wait without counting it: no new message has brought it.
        self.keep = self._index.add
        self.mark = self._time.mark
        self._get, self._put, self._receive = self.store.get, self.store.put, self._time.receive
        self._limit = limit
        self._longest = max(1, min(_LONGEST, limit // 16))
        #: The time and the key of the run that grows, by partition.
        self._runs: dict[SystemStreamPartition, tuple[float, str]] = {}
        self._added = 0
        self._late = counter("join", "late")

    @property
    def settled_ms(self) -> int:
        """No message on time has an event time before this any more."""
        return max(0, self._time.over - self._lateness_ms)

    def on_time(self, envelope: IncomingMessageEnvelope) -> bool:
        """Accept the event time of a message; returns False for one that is late, or too far ahead, which is counted.

        Raises ValueError for a message without a proper event time.
        """
        if not self._added:
            # The last `take` may have been part of a message that failed and was taken back.
            self._time.reload()
        time_ms = envelope.event_time
        if time_ms < self._receive(envelope, time_ms) - self._lateness_ms:
            self._late.count += 1
            return False
        return True

    def on_time_all(self, run: Messages, times: Sequence[int]) -> list[int]:
        """Like `on_time` of each message of one partition, in order; returns the indexes of the messages on time."""
        if not self._added:
            self._time.reload()
        lateness_ms = self._lateness_ms
        horizons = self._time.receive_all(run, times)
        places = [place for place, time_ms in enumerate(times) if time_ms >= horizons[place] - lateness_ms]
        self._late.count += len(times) - len(places)
        return places

    def add_all(self, envelope: IncomingMessageEnvelope, entries: Sequence[Sequence[Any]]) -> None:
        """Like `add` of each entry (time, name, value) of messages of one partition, of which `envelope` is the
        first."""
        begins, place = self._runs.get(envelope.ssp, _NO_RUN)
        run = self._get(place) if begins <= min([entry[0] for entry in entries]) else None
        room = 0 if run is None else max(0, self._longest - len(run))
        if run is not None and room:
            self._put(place, [*run, *entries[:room]])
        for first in range(room, len(entries), self._longest):
            self._begin(envelope, first, list(entries[first : first + self._longest]))

    def add(self, envelope: IncomingMessageEnvelope, time_ms: int, name: str, value: Any = True) -> None:
        """Let an entry of a message wait until `time_ms`, which is as far from the message's time for all messages of
        its partition."""
        begins, place = self._runs.get(envelope.ssp, _NO_RUN)
        run = self._get(place) if begins <= time_ms else None
        if run is not None and len(run) < self._longest:
            # A new list: the undo of a failed message restores the old one.
            self._put(place, [*run, [time_ms, name, value]])
            return
        self._begin(envelope, 0, [[time_ms, name, value]])

    def is_full(self, messages: int = 1) -> bool:
        """Count messages; returns whether a whole `take` of them has come since the last one."""
        self._added += messages
        return self._added >= self._limit

    def take(self) -> tuple[list[Due], int]:
        """Remove and return the due entries, the oldest first, all entries of one time together. Also returns the time
        before which nothing is left."""
        self._added = 0
        self._time.advance(self._clock.monotonic())
        passed: int = self._get(_PASSED) or 0
        before_ms = self._time.over - self._lateness_ms
        if before_ms <= passed:
            return [], passed
        due, before_ms = self._take(passed, before_ms)
        self._pass_to(before_ms)
        return due, before_ms

    def take_any(self, since_ms: int = 0) -> list[Due]:
        """Remove and return waiting entries, due or not, from `since_ms` on; empty if nothing is left."""
        return self._take(since_ms, self._index.end_ms)[0]

    def end(self, time_ms: int) -> None:
        """End the time before `time_ms`, independent of event time: older messages are late from now on."""
        self._time.end(time_ms + self._lateness_ms)
        self._pass_to(time_ms)

    def _begin(self, envelope: IncomingMessageEnvelope, number: int, run: list[Any]) -> None:
        """Begin a run that grows; `number` distinguishes runs that begin in one call."""
        slack_ms = self._lateness_ms if self._longest > 1 else 0
        begins = max(min([item[0] for item in run]) - slack_ms, self._get(_PASSED) or 0)
        name = f"{_RUN}{envelope.offset:019d}/{envelope.ssp}" + (f"/{number}" if number else "")
        self.keep(begins, name, run)
        self._runs[envelope.ssp] = begins, self._index.key(begins, name)

    def _take(self, since_ms: int, before_ms: int) -> tuple[list[Due], int]:
        """The first entries with a time before `before_ms`, about `limit` of them and some unless there are none; and
        the time before which nothing is left."""
        while True:
            taken, bound_ms = self._take_entries(since_ms, before_ms)
            due: dict[tuple[int, str], Any] = {}
            for time_ms, name, value in taken:
                if name[0] != _RUN:
                    due[time_ms, name] = value
                    continue
                rest = []
                for item in value:
                    if item[0] < bound_ms:
                        due[item[0], item[1]] = item[2]
                    else:
                        rest.append(item)
                if rest:
                    self.keep(min([item[0] for item in rest]), name, rest)
            if due or bound_ms >= before_ms:
                return [due_of((time_ms, name, due[time_ms, name])) for time_ms, name in sorted(due)], bound_ms
            since_ms = bound_ms

    def _take_entries(self, since_ms: int, before_ms: int) -> tuple[list[Due], int]:
        """The first entries of the index, runs among them; none before the returned time is left there."""
        taken: list[Due] = []
        count = 0
        while count < self._limit:
            wanted = max(1, (self._limit - count) // self._longest)
            result = self._index.take(before_ms, wanted, since_ms)
            taken += result
            if len(result) < wanted:
                return taken, before_ms
            since_ms = result[-1].time_ms
            count += sum([len(value) if name[0] == _RUN else 1 for _, name, value in result])
        while result := self._index.take(since_ms + 1, self._limit, since_ms):
            taken += result
        return taken, min(before_ms, since_ms + 1)

    def _pass_to(self, time_ms: int) -> None:
        if time_ms > (self._get(_PASSED) or 0):
            self._put(_PASSED, time_ms)
