"""The jobs of `jobs.joining` on any system: their inputs written, the job run or killed, their results read."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import orjson
from jobs import joining
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.flights.load import PARTITIONS, Event, load
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.verify.processes import until

TESTS = Path(__file__).parents[2]
#: In how many portions inputs are written, and how much has to come out before a kill (more than a transaction's own
#: records).
_PORTIONS, _ENOUGH = 100, 20
_PAUSE = threading.Event()


class JoinJob:
    """One of the jobs, with its streams, whose names begin with `prefix`. `keys` name a system other than the embedded
    one."""

    def __init__(self, folder: Path, task: type, prefix: str = "", **keys: str) -> None:
        self._folder, self.task, self.prefix = folder, task, prefix
        self.keys = {
            "job.name": f"{prefix}joining",
            "job.default.system": "events",
            "job.logged.store.base.dir": str(folder / "state"),
            "systems.events.samza.factory": "local",
            "systems.events.path": str(folder / "local.db"),
            "systems.events.default.stream.samza.key.serde": "string",
            "systems.events.default.stream.samza.msg.serde": "json",
            "systems.events.default.stream.samza.offset.default": "oldest",
            "task.class": f"jobs.joining:{task.__name__}",
            "task.inputs": f"events.{prefix}left,events.{prefix}right",
            "joining.prefix": prefix,
            "task.guarantee": "at-least-once" if task is joining.Tables else "exactly-once",
            "stores.state.factory": "rocksdb",
            "stores.state.key.serde": "string",
            "stores.state.msg.serde": "json",
            "stores.state.changelog": f"events.{prefix}state",
        } | keys
        self.config = load_job(self.keys)
        self.streams = Streams(self.config.systems["events"])
        self._random = random.Random(5)
        self._output = f"{prefix}{'state' if task is joining.Tables else 'joined'}"

    def load(self, inputs: list[tuple[str, list[Event]]]) -> None:
        load(self.config, [(f"{self.prefix}{stream}", events) for stream, events in inputs])
        self.streams.admin.create(StreamSpec(f"{self.prefix}joined", PARTITIONS))

    def run(self, **keys: str) -> int:
        """Run in this process, to the ends of the inputs; returns how many messages it processed."""
        config = load_job(self.keys | keys)
        return LocalRunner().run(prepare(config, until_end=True), RunOptions()).status.processed

    def partitions(self, stream: str) -> list[list[Event]]:
        """Everything that is in a stream."""
        events: list[list[Event]] = [[] for _ in range(PARTITIONS)]
        for batch in self.streams.read(f"{self.prefix}{stream}"):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps, strict=True):
                event = Event((key or b"").decode(), None if value is None else orjson.loads(value), time_ms)
                events[batch.ssp.partition].append(event)
        return events

    def check(self) -> None:
        """The results are those of plain lists."""
        expected = joining.expected(self.task, self.partitions("left"), self.partitions("right"))
        if self.task is joining.Tables:
            tables = self.streams.replay(self._output)
            results = [(key.decode(), orjson.loads(row)) for rows in tables for key, row in rows.items()]
        else:
            results = [(event.key, event.value) for events in self.partitions("joined") for event in events]
        assert sorted(map(_text, results)) == sorted(map(_text, expected))

    def survive(self, inputs: list[tuple[str, list[Event]]], kills: int) -> None:
        """Write the inputs bit by bit while the job runs and is killed in the middle of its work; then run it to the
        ends."""
        self.load([(stream, []) for stream, _ in inputs])
        portions = iter(range(_PORTIONS))
        for _ in range(kills):
            self._kill_at_work(inputs, [place for place, _ in zip(portions, range(_PORTIONS // kills), strict=False)])
        for place in portions:
            self._write(inputs, place)
        self.run()

    def _kill_at_work(self, inputs: list[tuple[str, list[Event]]], portions: list[int]) -> None:
        enough = self._produced() + _ENOUGH
        arguments = [f"--config={key}={value}" for key, value in {"task.commit.ms": 150, "task.window.ms": 100}.items()]
        file = self._folder / "joining.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.keys.items()))
        process = JobProcess(self._folder, str(file), "--runner", "local", *arguments, PYTHONPATH=str(TESTS))

        def going() -> bool:
            assert process.process.poll() is None, process.errors
            if portions:
                self._write(inputs, portions.pop(0))
            return not portions and self._produced() > enough

        try:
            until(going, lambda: process.errors)
            _PAUSE.wait(self._random.random() * 0.3)
        finally:
            process.kill()

    def _produced(self) -> int:
        return sum(self.streams.ends(self._output).values()) if self.streams.admin.describe(self._output) else 0

    def _write(self, inputs: list[tuple[str, list[Event]]], place: int) -> None:
        """One hundredth of each input."""
        producer = self.streams.producer()
        for stream, events in inputs:
            start, stop = (number * len(events) // _PORTIONS for number in (place, place + 1))
            producer.send([_record(f"{self.prefix}{stream}", event) for event in events[start:stop]])
        producer.flush()
        producer.close()


def _record(stream: str, event: Event) -> OutgoingRecord:
    value = None if event.value is None else orjson.dumps(event.value)
    return OutgoingRecord(stream, (event.key or "").encode(), value, timestamp=event.time_ms)


def _text(pair: tuple[str | None, object]) -> str:
    return json.dumps(pair, sort_keys=True)
