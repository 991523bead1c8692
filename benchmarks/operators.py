"""`python -m benchmarks.operators`: what each operator costs a message, beside a dict written by hand, in one process.

No container and no broker: the messages are made beforehand, and the operator stands on a store as a job opens it (RocksDB,
the default cache, a changelog in this process). Each loop by hand does the same with dicts and heaps, and stores nothing.
What is over is closed every 10,000 messages. The store is committed every `COMMIT` messages, and the commits count. The figure
of a row is the least CPU time of the rounds, in which the operator and its loop by hand take turns.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.bare import operators as by_hand
from benchmarks.bare.operators import CLOSE, LEFT, LEFTS, RIGHTS, SSP, Messages
from samzapy import ContainerContext, Context, IncomingMessageEnvelope, JobContext, MessageCollector, SystemStream
from samzapy.api.event_time import TimerClock
from samzapy.container.supervision.worker_process import tuned_for_messages
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.metrics import Registry
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, Within
from samzapy.operators.persistent import Count as Counted
from samzapy.operators.persistent import Keyed, NonWindowState, WindowState
from samzapy.operators.persistent.checkpoints import StateCheckpoint, encode
from samzapy.operators.windows import (
    Count,
    EventTimeWindows,
    Hopping,
    Sessions,
    Sliding,
    Tumbling,
    WindowDefinition,
    WindowedAggregation,
)
from samzapy.testing import OpenStore, open_store

COUNT, KEYS, COMMIT, ROUNDS = 200_000, 1_000, 50_000, 3
START_MS = 1_700_000_000_000
_JOB = {
    "job.name": "operators",
    "task.class": "a:B",
    "task.inputs": "mem.left,mem.right",
    "systems.mem.samza.factory": "memory",
    "stores.kept.factory": "rocksdb",
    "stores.kept.changelog": "mem.kept",
}
_OBJECTS = {"stores.kept.key.serde": "string", "stores.kept.msg.serde": "json"}


@dataclass(frozen=True)
class Row:
    """One operator: CPU seconds a million messages of the loop by hand and of samzapy, and messages a CPU second."""

    operator: str
    by_hand_cpu_s: float
    cpu_s: float

    @property
    def ratio(self) -> float:
        """CPU of samzapy over that of the loop by hand."""
        return self.cpu_s / self.by_hand_cpu_s

    @property
    def messages_per_s(self) -> float:
        """Messages a CPU second."""
        return 1e6 / self.cpu_s


class Nowhere(MessageCollector):
    """Drops what is sent."""

    def send(self, envelope: object) -> None:
        """Drop it."""

    def send_control(self, stream: object, message: object) -> None:
        """Drop it."""


#: Feeds all messages to an operator, and calls what it is given every `COMMIT` messages.
Feed = Callable[[Messages, Callable[[], None]], None]


def _stream(count: int) -> Messages:
    """Of `KEYS` keys and a thousand a second, up to 2 s out of order."""
    chance = random.Random(7)
    times = [START_MS + n - chance.randrange(2_000) for n in range(count)]
    return [IncomingMessageEnvelope(SSP, n, f"key-{chance.randrange(KEYS)}", 1, None, at) for n, at in enumerate(times)]


def _two_streams(count: int) -> Messages:
    """Half left, half right, each in order of time, of `KEYS` keys and a thousand a second."""
    chance = random.Random(7)
    return [
        IncomingMessageEnvelope(
            (LEFTS, RIGHTS)[n % 2], n, f"key-{chance.randrange(KEYS)}", {"n": n}, None, START_MS + n
        )
        for n in range(count)
    ]


@contextmanager
def _opened(**keys: str) -> Iterator[tuple[OpenStore, Context]]:
    with tempfile.TemporaryDirectory() as folder, open_store(_JOB | keys, "kept", folder) as opened:
        registry = Registry()
        task = ContainerTaskContext(
            "Partition 0", {"kept": opened.store}, dict.fromkeys((LEFTS, RIGHTS), 0), registry, 1
        )
        yield opened, Context(JobContext("operators", "1", {}), ContainerContext("0", registry), task)


def _cpu_s(run: Callable[[], object]) -> float:
    with tuned_for_messages():
        started = time.process_time()
        run()
        return time.process_time() - started


def _windows(definition: WindowDefinition) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        with _opened(**_OBJECTS) as (opened, context):
            aggregation = WindowedAggregation(definition, Count(), SystemStream("mem", "out"), inputs=[LEFT])
            windows = EventTimeWindows(context, "kept", aggregation)
            collector = Nowhere()

            def fed() -> None:
                add = windows.add
                for number, envelope in enumerate(messages, 1):
                    add(envelope, envelope.key, 1, collector)
                    if not number % CLOSE:
                        windows.advance(collector)
                        if not number % COMMIT:
                            opened.commit()
                windows.finish(collector)

            return _cpu_s(fed)

    return run


def _join(make: Callable[[Context], AsOfJoin | StreamStreamJoin]) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        with _opened(**_OBJECTS) as (opened, context):
            join = make(context)

            def fed() -> None:
                add = join.add
                for number, envelope in enumerate(messages, 1):
                    add(envelope)
                    if not number % CLOSE:
                        join.advance()
                        if not number % COMMIT:
                            opened.commit()
                for _ in join.finish():
                    pass

            return _cpu_s(fed)

    return run


def _timers(messages: Messages) -> float:
    with _opened(**{"stores.kept.factory": "timers"}) as (opened, _):
        timers = opened.store

        def fed() -> None:
            now = 0
            for number, envelope in enumerate(messages, 1):
                timers.schedule(envelope.key, envelope.event_time + by_hand.TIMEOUT_MS)
                now = max(now, envelope.event_time)
                if timers.earliest(TimerClock.EVENT) <= now:
                    for timer in timers.due(TimerClock.EVENT, now, 256):
                        timers.cancel(timer.key)
                if not number % COMMIT:
                    opened.commit()

        return _cpu_s(fed)


def _view(
    factory: str, each: Callable[[Any], Callable[[IncomingMessageEnvelope], object]], **keys: str
) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        with _opened(
            **{"stores.kept.factory": factory}, **{f"stores.kept.{name}": value for name, value in keys.items()}
        ) as (opened, _):
            take = each(opened.store)

            def fed() -> None:
                for number, envelope in enumerate(messages, 1):
                    take(envelope)
                    if not number % COMMIT:
                        opened.commit()

            return _cpu_s(fed)

    return run


def _heap(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.push([e.offset, e.key], by_hand.score(e), by_hand.group(e))


def _cube(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.add(by_hand.dimensions(e), {"delay": by_hand.score(e)})


def _index(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.add(str(e.offset), by_hand.text(e))


def _state(
    make: Callable[[], NonWindowState[Any] | WindowState[Any]], item: Callable[[Any], Any]
) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        state = make()
        state.open(10_000)

        def fed() -> None:
            begin, settle, update = state.begin, state.settle, state.update
            for number, envelope in enumerate(messages, 1):
                at = envelope.event_time
                begin(at)
                update(at, item(envelope))
                settle()
                if not number % CLOSE:
                    state.advance(at - 2_000)
                    if not number % COMMIT:
                        cut = at - at % 10_000
                        encode(StateCheckpoint(cut, {}, state.checkpoint(cut)))

        return _cpu_s(fed)

    return run


def _each(fed: Callable[[Messages], object]) -> Callable[[Messages], float]:
    return lambda messages: _cpu_s(lambda: fed(messages))


_CUBE = {
    "cube.dimensions": "carrier,origin,month",
    "cube.measures": "delay",
    "cube.rollups": "origin; origin,month; carrier,origin,month",
}
_STREAMS = (LEFT, SystemStream("mem", "right"))

#: Messages, the loop by hand, and the operator.
OPERATORS: dict[str, tuple[Callable[[int], Messages], Callable[[Messages], object], Callable[[Messages], float]]] = {
    "tumbling windows, 1 min": (_stream, by_hand.tumbling, _windows(Tumbling("1m", grace="5s"))),
    "hopping windows, 1 min every 30 s": (_stream, by_hand.hopping, _windows(Hopping("1m", "30s", grace="5s"))),
    "sessions, gap 2 s": (_stream, by_hand.sessions, _windows(Sessions("2s", grace="5s"))),
    "sliding windows, 5 s": (_stream, by_hand.sliding, _windows(Sliding("5s", grace="5s"))),
    "as-of join": (_two_streams, by_hand.as_of, _join(lambda context: AsOfJoin(context, "kept", _STREAMS, "1m"))),
    "stream-stream join, 5 s": (
        _two_streams,
        by_hand.stream_stream,
        _join(lambda context: StreamStreamJoin(context, "kept", _STREAMS, Within(0, "5s"))),
    ),
    "timers, moved by each message": (_stream, by_hand.timers, _timers),
    "cube of three roll-ups": (_stream, by_hand.cube, _view("cube", _cube, **_CUBE)),
    "heap of the 100 worst, 10 groups": (_stream, by_hand.heap, _view("heap", _heap, **{"heap.size": "100"})),
    "heap of all, 10 groups": (_stream, by_hand.sorted_lists, _view("heap", _heap)),
    "inverted index": (_stream, by_hand.inverted_index, _view("inverted-index", _index)),
    "persistent state, count by key": (
        _stream,
        by_hand.count,
        _state(lambda: NonWindowState(Keyed(Counted())), lambda envelope: (envelope.key, 1)),
    ),
    "persistent state, sliding window": (
        _stream,
        by_hand.recent_count,
        _state(lambda: WindowState(Counted(), 60_000, 10_000), lambda _: 1),
    ),
}  # fmt: skip


def run(only: Collection[str] = (), rounds: int = ROUNDS, count: int = COUNT) -> list[Row]:
    """Measure the operators named in `only` by a part of their name, all of them if it is empty; `rounds` times each."""
    rows = []
    for name, (make, hand, ours) in OPERATORS.items():
        if only and not any(part in name for part in only):
            continue
        messages = make(count)
        turns = [(_cpu_s(lambda: hand(messages)), ours(messages)) for _ in range(rounds)]  # noqa: B023
        hand_s, ours_s = (min(times) / len(messages) * 1e6 for times in zip(*turns, strict=True))
        rows.append(Row(name, hand_s, ours_s))
    return rows


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of the names of operators; default: all of them")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--messages", type=int, default=COUNT)
    options = parser.parse_args()
    print(f"{'operator':36} {'messages/CPU-s':>14} {'CPU-s/M':>8} {'by hand':>8} {'ratio':>6}")
    for name in [each for each in OPERATORS if not options.only or any(part in each for part in options.only)]:
        for row in run([name], options.rounds, options.messages):
            print(
                f"{row.operator:36} {row.messages_per_s:14,.0f} {row.cpu_s:8.2f} {row.by_hand_cpu_s:8.2f} {row.ratio:6.1f}"
            )


if __name__ == "__main__":
    main()
