"""`python -m benchmarks.operators`: what each operator costs a message, beside a dict written by hand, in one process.

No container and no broker: the messages are made beforehand, and the operator stands on a store as a job opens it
(RocksDB, the default cache, a changelog in this process). Each loop by hand does the same with dicts and heaps, and
stores nothing. What is over is closed every 10,000 messages. The store is committed every `COMMIT` messages, and the
commits count. The figure of a row is the least CPU time of the rounds, in which the operator and its loop by hand take
turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from dataclasses import dataclass

from benchmarks.bare import operators as by_hand
from benchmarks.bare.operators import LEFT, Messages
from benchmarks.workloads.operator_feeds import (
    cpu_s,
    cube,
    heap,
    heap_in_batches,
    index,
    index_in_batches,
    join,
    join_in_batches,
    state,
    stream,
    timers,
    timers_in_batches,
    two_streams,
    view,
    view_in_batches,
    windows,
    windows_in_batches,
)
from samzapy import SystemStream
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, Within
from samzapy.operators.persistent import Count as Counted
from samzapy.operators.persistent import Keyed, NonWindowState, WindowState
from samzapy.operators.windows import Hopping, Sessions, Sliding, Tumbling

COUNT, ROUNDS = 200_000, 3


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


_CUBE = {
    "cube.dimensions": "carrier,origin,month",
    "cube.measures": "delay",
    "cube.rollups": "origin; origin,month; carrier,origin,month",
}
_STREAMS = (LEFT, SystemStream("mem", "right"))

#: Messages, the loop by hand, and the operator.
OPERATORS: dict[str, tuple[Callable[[int], Messages], Callable[[Messages], object], Callable[[Messages], float]]] = {
    "tumbling windows, 1 min": (stream, by_hand.tumbling, windows(Tumbling("1m", grace="5s"))),
    "hopping windows, 1 min every 30 s": (stream, by_hand.hopping, windows(Hopping("1m", "30s", grace="5s"))),
    "tumbling windows, 1 min, batches": (stream, by_hand.tumbling, windows_in_batches(Tumbling("1m", grace="5s"))),
    "hopping windows, 1 min every 5 s": (stream, by_hand.hopping_often, windows(Hopping("1m", "5s", grace="5s"))),
    "hopping windows, 1 min every 5 s, batches": (
        stream,
        by_hand.hopping_often,
        windows_in_batches(Hopping("1m", "5s", grace="5s")),
    ),
    "sessions, gap 2 s": (stream, by_hand.sessions, windows(Sessions("2s", grace="5s"))),
    "sessions, gap 2 s, batches": (stream, by_hand.sessions, windows_in_batches(Sessions("2s", grace="5s"))),
    "sliding windows, 5 s": (stream, by_hand.sliding, windows(Sliding("5s", grace="5s"))),
    "sliding windows, 5 s, batches": (stream, by_hand.sliding, windows_in_batches(Sliding("5s", grace="5s"))),
    "as-of join": (two_streams, by_hand.as_of, join(lambda context: AsOfJoin(context, "kept", _STREAMS, "1m"))),
    "as-of join, batches": (
        two_streams,
        by_hand.as_of,
        join_in_batches(lambda context: AsOfJoin(context, "kept", _STREAMS, "1m")),
    ),
    "stream-stream join, 5 s": (
        two_streams,
        by_hand.stream_stream,
        join(lambda context: StreamStreamJoin(context, "kept", _STREAMS, Within(0, "5s"))),
    ),
    "stream-stream join, 5 s, batches": (
        two_streams,
        by_hand.stream_stream,
        join_in_batches(lambda context: StreamStreamJoin(context, "kept", _STREAMS, Within(0, "5s"))),
    ),
    "timers, moved by each message": (stream, by_hand.timers, timers),
    "timers, moved by each message, batches": (stream, by_hand.timers, timers_in_batches),
    "cube of three roll-ups": (stream, by_hand.cube, view("cube", cube, **_CUBE)),
    "heap of the 100 worst, 10 groups": (stream, by_hand.heap, view("heap", heap, **{"heap.size": "100"})),
    "heap of the 100 worst, 10 groups, batches": (
        stream,
        by_hand.heap,
        view_in_batches("heap", heap_in_batches, **{"heap.size": "100"}),
    ),
    "heap of all, 10 groups": (stream, by_hand.sorted_lists, view("heap", heap)),
    "inverted index": (stream, by_hand.inverted_index, view("inverted-index", index)),
    "inverted index, batches": (
        stream,
        by_hand.inverted_index,
        view_in_batches("inverted-index", index_in_batches),
    ),
    "persistent state, count by key": (
        stream,
        by_hand.count,
        state(lambda: NonWindowState(Keyed(Counted())), lambda envelope: (envelope.key, 1)),
    ),
    "persistent state, sliding window": (
        stream,
        by_hand.recent_count,
        state(lambda: WindowState(Counted(), 60_000, 10_000), lambda _: 1),
    ),
}  # fmt: skip


def named(only: Collection[str]) -> list[str]:
    """The operators with one of these parts in their names, all of them if there is none."""
    return [name for name in OPERATORS if not only or any(part in name for part in only)]


def measure(name: str, rounds: int = ROUNDS, count: int = COUNT) -> Row:
    """Measure one operator, `rounds` times."""
    make, hand, ours = OPERATORS[name]
    messages = make(count)
    turns = [(cpu_s(lambda: hand(messages)), ours(messages)) for _ in range(rounds)]
    hand_s, ours_s = (min(times) / len(messages) * 1e6 for times in zip(*turns, strict=True))
    return Row(name, hand_s, ours_s)


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of the names of operators; default: all of them")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--messages", type=int, default=COUNT)
    options = parser.parse_args()
    print(f"{'operator':40} {'messages/CPU-s':>14} {'CPU-s/M':>8} {'by hand':>8} {'ratio':>6}")
    for name in named(options.only):
        row = measure(name, options.rounds, options.messages)
        print(
            f"{name:40} {row.messages_per_s:14,.0f} {row.cpu_s:8.2f} {row.by_hand_cpu_s:8.2f} {row.ratio:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
