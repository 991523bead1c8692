"""A join on a store of its own, fed from partitions, committed and crashed: what a container does, in miniature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from rigs.store_rig import LOGGED, store_job

from samzapy import IncomingMessageEnvelope, SystemStream, SystemStreamPartition
from samzapy.api.context import ContainerContext, Context, JobContext
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.container.errors.recovery import JournaledStore, UndoJournal
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.metrics import Registry
from samzapy.testing import OpenStore, open_store

LEFT, RIGHT = SystemStream("mem", "left"), SystemStream("mem", "right")
#: Two partitions of the left input: one that was there and one that came by an expansion.
SOURCES = (
    SystemStreamPartition("mem", "left", 1),
    SystemStreamPartition("mem", "left", 3),
    SystemStreamPartition("mem", "right", 1),
)
#: With a small cache, so that what is read back is often what was written and not the object that was put.
JOB = store_job(LOGGED | {"factory": "inmemory", "object.cache.size": "4", "write.batch.size": "2"}, "joined")


def context(
    store: Any,
    registry: Registry,
    partitions: Iterable[SystemStreamPartition] = SOURCES,
    types: Mapping[SystemStream, Any] = MappingProxyType({}),
    clock: Clock = SYSTEM_CLOCK,
) -> Context:
    offsets = dict.fromkeys(partitions, 0)
    task = ContainerTaskContext("Partition 1", {"joined": store}, offsets, registry, 1, types=types)
    return Context(JobContext("joining", "1", JOB), ContainerContext("0", registry, clock), task)


@final
class JoinBench:
    """One task's join, exactly-once: a crash takes store, outputs and positions back to the last commit together."""

    def __init__(
        self,
        path: Path,
        make: Callable[[Context], Any],
        inputs: Sequence[Sequence[tuple]] = ((), (), ()),
        types: Mapping[SystemStream, Any] = MappingProxyType({}),
        clock: Clock = SYSTEM_CLOCK,
    ):
        """`inputs`: (key, time, value) of each of `SOURCES`, in order. `types`: the classes of the streams'
        messages."""
        self._clock = clock
        self._opening = open_store(JOB, "joined", path)
        self.opened: OpenStore = self._opening.__enter__()
        self._make = make
        self._inputs = inputs
        self._types = types
        self.positions = [0, 0, 0]
        self.outputs: list[Any] = []
        self._committed: tuple[list[int], int] = ([0, 0, 0], 0)
        self._start()

    def __enter__(self) -> JoinBench:
        return self

    def __exit__(self, *failure: object) -> None:
        self._opening.__exit__(*failure)

    def _start(self) -> None:
        self.registry = Registry()
        self._journal = UndoJournal()
        store = JournaledStore("s", self.opened.store, self._journal)
        self.join = self._make(context(store, self.registry, types=self._types, clock=self._clock))

    def read(self, source: int) -> bool:
        """Process the next message of a source; whether there was one."""
        offset = self.positions[source]
        if offset == len(self._inputs[source]):
            return False
        self.positions[source] += 1
        self.outputs += self.join.add(envelope(SOURCES[source], offset, *self._inputs[source][offset]))
        return True

    def fail(self, source: int) -> tuple[int, int] | None:
        """Process the next message of a source and undo it, as for one whose task raised; returns which it was."""
        place = source, self.positions[source]
        self._journal.begin()
        kept = len(self.outputs)
        if not self.read(source):
            return None
        del self.outputs[kept:]
        self._journal.undo()
        return place

    def read_all(self) -> None:
        for source in range(3):
            while self.read(source):
                pass

    def send(self, source: int, key: Any, time_ms: int, value: Any = None) -> list[Any]:
        """Process one message that is in no input."""
        self.positions[source] += 1
        return self.join.add(envelope(SOURCES[source], self.positions[source], key, time_ms, value))

    def window(self) -> None:
        self.outputs += self.join.advance()

    def drain(self) -> None:
        """Call `window` until there can be nothing left to do."""
        for _ in range(sum(map(len, self._inputs)) + 2):
            self.window()

    def finish(self) -> None:
        self.outputs += self.join.finish()

    def commit(self) -> None:
        self.opened.commit()
        self._committed = list(self.positions), len(self.outputs)

    def crash(self) -> None:
        self.opened.crash()
        positions, count = self._committed
        self.positions = list(positions)
        del self.outputs[count:]
        self._start()

    def restart(self, make: Callable[[Context], Any], types: Mapping[SystemStream, Any] = MappingProxyType({})) -> None:
        """Open another join on what the store has."""
        self._make, self._types = make, types
        self._start()

    def contents(self) -> dict[str, Any]:
        with self.opened.store.all() as entries:
            return dict(entries)

    def kept(self) -> dict[str, Any]:
        """What the store has beside event time and the interval."""
        known = {"clock", "grace", "passed", "taken/due/", "within"}
        return {key: value for key, value in self.contents().items() if key not in known and not key.startswith("m|")}

    def late(self) -> int:
        return self.registry.counter("join", "late").count


def envelope(ssp: SystemStreamPartition, offset: int, key: Any, time_ms: int, value: Any) -> IncomingMessageEnvelope:
    return IncomingMessageEnvelope(ssp, offset, key, value, event_time=time_ms)


def run(bench: JoinBench, steps: Iterable[int | str]) -> None:
    """Numbers read from a source, words are methods; then read what is left."""
    for step in steps:
        if isinstance(step, int):
            bench.read(step)
        else:
            getattr(bench, step)()
    bench.read_all()


def on_time(messages: Sequence[tuple], lateness_ms: int) -> list[tuple]:
    """Those of one partition that are not older than its newest so far, less the lateness."""
    kept, newest = [], None
    for message in messages:
        if newest is None or message[1] >= newest - lateness_ms:
            kept.append(message)
            newest = message[1] if newest is None else max(newest, message[1])
    return kept


def least_mark(inputs: Sequence[Sequence[tuple]], lateness_ms: int) -> int | None:
    """How far event time has come when everything was read."""
    if not all(inputs):
        return None
    return min(max(message[1] for message in of_source) for of_source in inputs) - lateness_ms


def ordered(found: Iterable[Any]) -> list[Any]:
    """What was found, whatever the order it came in."""
    return sorted(found, key=repr)
