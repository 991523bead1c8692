"""The operators as `operators` measures them: fed message by message, or in batches, with closing and committing."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.bare import operators as by_hand
from benchmarks.bare.operators import CLOSE, LEFT, LEFTS, RIGHTS, SSP, Messages
from samzapy import (
    ContainerContext,
    Context,
    IncomingMessageEnvelope,
    JobContext,
    MessageCollector,
    SystemStream,
    SystemStreamPartition,
)
from samzapy.api.batch import MessageBatch
from samzapy.api.event_time import TimerClock
from samzapy.container.supervision.worker_process import tuned_for_messages
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.metrics import Registry
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin
from samzapy.operators.persistent import NonWindowState, WindowState
from samzapy.operators.persistent.task import StateCheckpoint, encode
from samzapy.operators.windows import Count, EventTimeWindows, WindowDefinition, WindowedAggregation
from samzapy.testing import OpenStore, open_store

KEYS, COMMIT = 1_000, 50_000
#: Messages of a batch.
BATCH = 2_000
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


class Nowhere(MessageCollector):
    """Drops what is sent."""

    def send(self, envelope: object) -> None:
        """Drop it."""

    def send_control(self, stream: object, message: object) -> None:
        """Drop it."""


#: Feeds all messages to an operator, and calls what it is given every `COMMIT` messages.
Feed = Callable[[Messages, Callable[[], None]], None]


def stream(count: int) -> Messages:
    """Of `KEYS` keys and a thousand a second, up to 2 s out of order."""
    chance = random.Random(7)
    times = [START_MS + n - chance.randrange(2_000) for n in range(count)]
    return [IncomingMessageEnvelope(SSP, n, f"key-{chance.randrange(KEYS)}", 1, None, at) for n, at in enumerate(times)]


def two_streams(count: int) -> Messages:
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


def cpu_s(run: Callable[[], object]) -> float:
    """The CPU seconds of a call, in a process that is set up as a container's."""
    with tuned_for_messages():
        started = time.process_time()
        run()
        return time.process_time() - started


def _batches(messages: Messages) -> list[MessageBatch[Any, Any]]:
    """The messages as a poll of each partition brings them, `BATCH` at a time."""
    found = []
    by_ssp: dict[SystemStreamPartition, Messages] = {}
    for first in range(0, len(messages), BATCH):
        by_ssp.clear()
        for each in messages[first : first + BATCH]:
            by_ssp.setdefault(each.ssp, []).append(each)
        for ssp, run in by_ssp.items():
            offsets, keys, contents = ([each[place] for each in run] for place in (1, 2, 3))
            batch = MessageBatch(ssp, offsets, keys, contents, [each.event_time for each in run])
            found.append(batch)
    return found


def _feed_batches(
    batches: list[MessageBatch],
    add_all: Callable[[MessageBatch], object],
    close: Callable[[], object],
    commit: Callable[[], object],
) -> None:
    """Feed all batches, close every `CLOSE` messages and commit every `COMMIT`."""
    number = 0
    for batch in batches:
        add_all(batch)
        number += len(batch)
        if not number % CLOSE:
            close()
            if not number % COMMIT:
                commit()


def windows_in_batches(definition: WindowDefinition) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        batches = _batches(messages)
        with _opened(**_OBJECTS) as (opened, context):
            aggregation = WindowedAggregation(definition, Count(), SystemStream("mem", "out"), inputs=[LEFT])
            windows = EventTimeWindows(context, "kept", aggregation)
            collector = Nowhere()

            def fed() -> None:
                close = partial(windows.advance, collector)
                _feed_batches(batches, lambda batch: windows.add_all(batch, collector), close, opened.commit)
                windows.finish(collector)

            return cpu_s(fed)

    return run


def join_in_batches(make: Callable[[Context], AsOfJoin | StreamStreamJoin]) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        batches = _batches(messages)
        with _opened(**_OBJECTS) as (opened, context):
            join = make(context)

            def fed() -> None:
                _feed_batches(batches, join.add_all, join.advance, opened.commit)
                for _ in join.finish():
                    pass

            return cpu_s(fed)

    return run


def windows(definition: WindowDefinition) -> Callable[[Messages], float]:
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

            return cpu_s(fed)

    return run


def join(make: Callable[[Context], AsOfJoin | StreamStreamJoin]) -> Callable[[Messages], float]:
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

            return cpu_s(fed)

    return run


def timers(messages: Messages) -> float:
    with _opened(**{"stores.kept.factory": "timers"}) as (opened, _):
        timers = opened.store

        def fed() -> None:
            now = 0
            for number, envelope in enumerate(messages, 1):
                timers.schedule(envelope.key, envelope.event_time + by_hand.TIMEOUT_MS)
                now = max(now, envelope.event_time)
                if timers.earliest(TimerClock.EVENT) <= now:
                    for _ in timers.fire(TimerClock.EVENT, now, 256):
                        pass
                if not number % COMMIT:
                    opened.commit()

        return cpu_s(fed)


def timers_in_batches(messages: Messages) -> float:
    batches = _batches(messages)
    with _opened(**{"stores.kept.factory": "timers"}) as (opened, _):
        timers = opened.store

        def fed() -> None:
            now = number = 0
            for batch in batches:
                times = batch.timestamps
                timers.schedule_all(batch.keys, [time + by_hand.TIMEOUT_MS for time in times])
                now = max(now, *times)
                for _ in timers.fire(TimerClock.EVENT, now, len(batch)):
                    pass
                number += len(batch)
                if not number % COMMIT:
                    opened.commit()

        return cpu_s(fed)


def view_in_batches(
    factory: str, each: Callable[[Any], Callable[[Messages], object]], **keys: str
) -> Callable[[Messages], float]:
    def run(messages: Messages) -> float:
        batches = [messages[first : first + BATCH] for first in range(0, len(messages), BATCH)]
        with _opened(
            **{"stores.kept.factory": factory}, **{f"stores.kept.{name}": value for name, value in keys.items()}
        ) as (opened, _):
            take = each(opened.store)

            def fed() -> None:
                number = 0
                for batch in batches:
                    take(batch)
                    number += len(batch)
                    if not number % COMMIT:
                        opened.commit()

            return cpu_s(fed)

    return run


def view(
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

            return cpu_s(fed)

    return run


def heap(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.push([e.offset, e.key], by_hand.score(e), by_hand.group(e))


def cube(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.add(by_hand.dimensions(e), {"delay": by_hand.score(e)})


def index(store: Any) -> Callable[[IncomingMessageEnvelope], object]:
    return lambda e: store.add(str(e.offset), by_hand.text(e))


def heap_in_batches(store: Any) -> Callable[[Messages], object]:
    return lambda batch: store.push_all(
        [[e.offset, e.key] for e in batch], list(map(by_hand.score, batch)), list(map(by_hand.group, batch))
    )


def index_in_batches(store: Any) -> Callable[[Messages], object]:
    return lambda batch: store.add_all([str(e.offset) for e in batch], list(map(by_hand.text, batch)))


def state(
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

        return cpu_s(fed)

    return run


def each(fed: Callable[[Messages], object]) -> Callable[[Messages], float]:
    return lambda messages: cpu_s(lambda: fed(messages))
