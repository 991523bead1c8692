"""A message that fails leaves nothing in heap, sketch, index or cube when the job goes on without it."""

from __future__ import annotations

import pytest

from samzapy import CoroutineTask, EndOfStreamListenerTask, InitableTask, StreamTask
from samzapy.api.context import Context
from samzapy.api.stream import SystemStream
from samzapy.bench.events import load_events
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.storage.views import CubeStore, DistinctCounts, HeapStore, InvertedIndex

FOUND: dict[str, object] = {}


class Stores(InitableTask, EndOfStreamListenerTask):
    def init(self, context: Context) -> None:
        self.heap = context.get_store("heap", HeapStore)
        self.distinct = context.get_store("distinct", DistinctCounts)
        self.index = context.get_store("index", InvertedIndex)
        self.cube = context.get_store("cube", CubeStore)

    def change(self, number: int) -> None:
        self.heap.push(number, number)
        self.distinct.add("all", number)
        self.index.add(str(number % 5), f"number {number}")
        self.cube.add({"even": number % 2 == 0}, {"number": number})
        if number % 10 == 3:
            raise ValueError(number)

    def on_end_of_stream(self, collector, coordinator) -> None:
        FOUND["heap"] = [each.item for each in self.heap.top(3)]
        FOUND["size"] = self.heap.size()
        FOUND["distinct"] = round(self.distinct.estimate("all"))
        FOUND["index"] = [hit.document for hit in self.index.search("53")], len(self.index.search("number"))
        FOUND["cube"] = [
            (each.aggregate.count, each.aggregate.measures["number"].sum) for each in self.cube.roll_up("even")
        ]


class ByMessage(Stores, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.change(int(envelope.key))


class Awaited(Stores, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.change(int(envelope.key))


@pytest.fixture
def job(tmp_path):
    engines = {"heap": "heap", "distinct": "hyperloglog", "index": "inverted-index", "cube": "cube"}
    stores = {f"stores.{name}.factory": engine for name, engine in engines.items()}
    stores |= {f"stores.{name}.base": "inmemory" for name in engines}

    def load(task, **keys):
        job = load_job(
            {
                "job.name": "views",
                "task.class": f"{__name__}:{task.__name__}",
                "task.inputs": "events.numbers",
                "systems.events.samza.factory": "local",
                "systems.events.path": str(tmp_path / "local.db"),
                "systems.events.default.stream.samza.key.serde": "string",
                "systems.events.default.stream.samza.offset.default": "oldest",
                "stores.cube.cube.dimensions": "even",
                "stores.cube.cube.measures": "number",
                "task.error.process.policy": "skip",
                **stores,
            }
            | keys
        )
        numbers = [(str(number).encode(), b"") for number in range(64)]
        load_events(job.systems["events"], SystemStream("events", "numbers"), numbers, partitions=1)
        return job

    return load


@pytest.mark.parametrize("task", [ByMessage, Awaited])
def test_a_skipped_message_is_in_no_store(job, task):
    FOUND.clear()
    LocalRunner().run(prepare(job(task), until_end=True), RunOptions())
    kept = [number for number in range(64) if number % 10 != 3]
    even, odd = ([number for number in kept if number % 2 == parity] for parity in (0, 1))
    assert FOUND["heap"] == [62, 61, 60]
    assert FOUND["size"] == FOUND["distinct"] == len(kept)
    assert FOUND["index"] == ([], 5)
    assert FOUND["cube"] == [(len(odd), sum(odd)), (len(even), sum(even))]
