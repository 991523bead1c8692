"""The joining jobs of `configs/`, on any system: their inputs written, the job run or killed, their outputs read."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from join_oracles import Message, Partition, counted
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.flights.dataset import Event
from samzapy.examples.flights.load import PARTITIONS, load
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.verify.processes import until

CONFIGS = Path(__file__).parents[3] / "configs"
#: In how many portions inputs are written, and how much has to come out before a kill (more than a transaction's own
#: records).
_PORTIONS, _ENOUGH = 100, 20
_PAUSE = threading.Event()
Inputs = Sequence[tuple[str, Sequence[Event]]]


def embedded(folder: Path) -> dict[str, str]:
    """Keys that keep everything in `folder`."""
    return {"systems.events.path": str(folder / "local.db"), "job.logged.store.base.dir": str(folder / "state")}


def on_kafka(folder: Path, bootstrap: str) -> dict[str, str]:
    """Keys for the job on a broker."""
    return {
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": bootstrap,
        "systems.events.producer.bootstrap.servers": bootstrap,
        "job.logged.store.base.dir": str(folder / "state"),
    }


class JoinJob:
    """One of the jobs, with its streams."""

    def __init__(self, folder: Path, name: str, keys: Mapping[str, str]) -> None:
        self._folder = folder
        self._file = CONFIGS / f"{name}.properties"
        self._keys = dict(keys)
        self.config = load_job(self._file, self._keys, strict=True)
        self.streams = Streams(self.config.systems["events"])
        self._drawn = random.Random(5)
        self._output = self.config.raw.get("join.output", "").removeprefix("events.")
        if self._output:
            self.streams.admin.create(StreamSpec(self._output, PARTITIONS))

    def load(self, inputs: Inputs) -> None:
        load(self.config, inputs)

    def run(self, **keys: str) -> int:
        """Run in this process, to the ends of the inputs; returns how many messages it processed."""
        config = load_job(self._file, self._keys | keys)
        return LocalRunner().run(prepare(config, until_end=True), RunOptions()).status.processed

    def start(self, **keys: str) -> JobProcess:
        """Run in a process of its own, until it is stopped."""
        given = [f"--config={key}={value}" for key, value in (self._keys | keys).items()]
        return JobProcess(self._folder, str(self._file), "--runner", "local", *given)

    def partitions(self, stream: str) -> list[Partition]:
        """Everything that is in an input."""
        found: list[Partition] = [[] for _ in range(PARTITIONS)]
        for batch in self.streams.read(stream):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps, strict=True):
                message = Message((key or b"").decode(), None if value is None else orjson.loads(value), time_ms)
                found[batch.ssp.partition].append(message)
        return found

    def outputs(self) -> Counter[str]:
        """Everything it has sent, each as often as it is there."""
        return counted((each.key, each.value) for partition in self.partitions(self._output) for each in partition)

    def produced(self) -> int:
        """How far its output, or its changelog, has come."""
        streams = [self._output] if self._output else [store.changelog.stream for store in self.config.stores.values()]  # type: ignore[union-attr]
        return sum(
            end
            for stream in streams
            if self.streams.admin.describe(stream)
            for end in self.streams.ends(stream).values()
        )

    def survive(self, inputs: Inputs, kills: int) -> None:
        """Write the inputs bit by bit while the job runs and is killed again and again, in the middle of its work; then
        let it run to the ends."""
        load(self.config, [(stream, []) for stream, _ in inputs])
        writing = _Writing(self.streams.producer(), inputs)
        try:
            for _ in range(kills):
                self._kill_at_work(writing, _PORTIONS // kills)
            while writing.more():
                pass
        finally:
            writing.close()
        self.run()

    def _kill_at_work(self, writing: _Writing, portions: int) -> None:
        """Kill it somewhere between two commits, after some that came of the next `portions` of the inputs at most."""
        enough = self.produced() + _ENOUGH
        process = self.start(**{"task.commit.ms": "150", "task.window.ms": "100"})

        def going() -> bool:
            assert process.process.poll() is None, process.errors
            nonlocal portions
            if portions > 0:
                writing.more()
                portions -= 1
            return self.produced() > enough

        try:
            until(going, lambda: process.errors)
            _PAUSE.wait(self._drawn.random() * 0.3)
        finally:
            process.kill()


class _Writing:
    """Inputs side by side, each in its order, a hundredth of each at a time."""

    def __init__(self, producer: Any, inputs: Inputs) -> None:
        self._producer = producer
        self._inputs = inputs
        self._written = 0

    def more(self) -> bool:
        """Write the next portion; whether there was one."""
        if self._written == _PORTIONS:
            return False
        for stream, events in self._inputs:
            start, stop = (place * len(events) // _PORTIONS for place in (self._written, self._written + 1))
            self._producer.send([_record(stream, event) for event in events[start:stop]])
        self._producer.flush()
        self._written += 1
        return True

    def close(self) -> None:
        self._producer.close()


def _record(stream: str, event: Event) -> OutgoingRecord:
    value = None if event.value is None else orjson.dumps(event.value)
    return OutgoingRecord(stream, (event.key or "").encode(), value, timestamp=event.time_ms)
