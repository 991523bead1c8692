"""A job that numbers the messages of each key and writes the numbers to a table: what a crash did shows in the rows.

As a script it runs the job once, to the ends of the inputs: `sink_job.py JOB.json`; fail points by the environment.
"""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg

from samzapy import InitableTask, StreamTask
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.runner.prepare import prepare
from samzapy.sinks import SqlSink
from samzapy.system.clients import system_factory

PARTITIONS = 2


def connect(url):
    """A connection to `sqlite:PATH`, or to what psycopg makes of `url`."""
    path = url.removeprefix("sqlite:")
    return psycopg.connect(url) if path == url else sqlite3.connect(path)


class NumberingTask(StreamTask, InitableTask):
    """The row of a message is (id, key, how many of that key there were), in `numbers`; in the upsert mode the last
    row of each key, in `latest`."""

    def init(self, context):
        config = context.job.config
        self.counts = context.get_store("counts")
        self.every = int(config["test.commit.every"])
        upsert = config["test.mode"] == "upsert"
        self.sink = SqlSink(
            lambda: connect(config["test.database"]),
            "latest" if upsert else "numbers",
            ["id", "kind", "number"],
            mode=config["test.mode"],
            key=["kind"] if upsert else (),
        )
        context.task.register_sink(self.sink)

    def process(self, envelope, collector, coordinator):
        number = (self.counts.get(envelope.key) or 0) + 1
        self.counts.put(envelope.key, number)
        self.sink.write((envelope.message, envelope.key, number), envelope)
        if (envelope.offset + 1) % self.every == 0:
            coordinator.commit()


class SinkJob:
    """The job on a local system in `folder`, writing to the database at `url`; every run is a new attempt."""

    def __init__(self, folder, url, guarantee, mode="transactional"):
        self.folder = folder
        self.url = url
        self.flat = {
            "job.name": "numbering",
            "job.default.system": "sys",
            "task.class": "sink_job:NumberingTask",
            "task.inputs": "sys.in",
            "task.commit.ms": "50000",
            "task.guarantee": guarantee,
            "systems.sys.samza.factory": "local",
            "systems.sys.path": str(folder / "local.db"),
            "systems.sys.default.stream.samza.key.serde": "string",
            "systems.sys.default.stream.samza.msg.serde": "json",
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "stores.counts.factory": "rocksdb",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "json",
            "stores.counts.changelog": "sys.counts-changelog",
            "job.logged.store.base.dir": str(folder / "state"),
            "test.database": url,
            "test.mode": mode,
            "test.commit.every": "5",
        }
        settings = load_job(self.flat).systems["sys"]
        factory = system_factory(settings)
        with closing(factory.admin(settings, "test")) as admin:
            admin.create(StreamSpec("in", PARTITIONS))
        self._producer = factory.producer(settings, "test")
        self.sent = 0
        # No unique constraint on `numbers`: a repeated row is to be seen, not to be refused.
        self.query("CREATE TABLE numbers (id BIGINT, kind TEXT, number BIGINT)")
        self.query("CREATE TABLE latest (id BIGINT, kind TEXT PRIMARY KEY, number BIGINT)")

    def close(self):
        self._producer.close()

    def send(self, count):
        """Append the next ids, spread over partitions and keys."""
        ids = range(self.sent, self.sent + count)
        self.sent = ids.stop
        self._producer.send(
            [OutgoingRecord("in", kind_of(i).encode(), json.dumps(i).encode(), i % PARTITIONS) for i in ids]
        )
        self._producer.flush()

    def run(self, **overrides):
        """Run in this process, to the ends of the inputs; returns the last report."""
        return run(self.flat | overrides)

    def start(self, fail="", **overrides):
        """Run in a process of its own, with the fail points `fail`."""
        number = len(list(self.folder.glob("job-*.json")))
        path = self.folder / f"job-{number}.json"
        path.write_text(json.dumps(self.flat | overrides))
        with (self.folder / f"job-{number}.err").open("wb") as err:
            return subprocess.Popen([sys.executable, __file__, path], stderr=err, env=environment(fail))

    def query(self, statement):
        """The rows of a query; None for another statement."""
        with closing(connect(self.url)) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = cursor.fetchall() if cursor.description else None
            connection.commit()
            return rows

    def rows(self):
        """The table's rows, those of a repeated row as well."""
        return sorted(self.query("SELECT id, kind, number FROM numbers"))

    def latest(self):
        """The upsert table by key."""
        return {kind: (i, number) for i, kind, number in self.query("SELECT id, kind, number FROM latest")}

    def offsets(self):
        """The sink's offsets by partition."""
        rows = self.query("SELECT ssp, next_offset FROM samzapy_offsets")
        return {ssp: offset for ssp, offset in rows}  # noqa: C416  # psycopg's rows are tuples, SQLite's as well


def run(flat):
    config = load_job(flat)
    prepared = prepare(config, until_end=True)
    model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
    coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 5.0)
    return build_container(config, model, LocalLease(coordinator, "0"), ends=prepared.ends).run()


def environment(fail):
    import os

    return {**os.environ, "SAMZAPY_FAIL": fail}


def kind_of(i):
    """Keys of even and of odd ids differ, so a key stays on one partition."""
    return f"kind-{i % 6}"


def expected(count):
    """The rows of a run in which nothing happened."""
    seen = {}
    rows = []
    for i in range(count):
        number = seen[kind_of(i)] = seen.get(kind_of(i), 0) + 1
        rows.append((i, kind_of(i), number))
    return rows


def expected_latest(count):
    return {kind: (i, number) for i, kind, number in expected(count)}


def expected_offsets(count):
    return {f"sys.in[{p}]": len(range(p, count, PARTITIONS)) for p in range(PARTITIONS)}


if __name__ == "__main__":
    run(json.loads(Path(sys.argv[1]).read_text()))
