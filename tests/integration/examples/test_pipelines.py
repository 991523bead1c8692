"""The shipped pipelines while their processes are killed: on the embedded system, and on a real Kafka."""

import json
import random
import sqlite3
import threading
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.streams_of import StreamsOf, sent_again

from samzapy.config.loader import load_job
from samzapy.errors import SamzapyError
from samzapy.examples import users
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
PAGES, ENOUGH = 300, 20


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def system(request, tmp_path):
    """What a job file needs to find the system `events` there."""
    if request.param == "local":
        return {"systems.events.path": str(tmp_path / "local.db")}
    return {
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": request.getfixturevalue("kafka"),
        "systems.events.default.stream.replication.factor": "1",
    }


class Pipeline:
    """A shipped job file, run as a process on that system again and again."""

    def __init__(self, folder, name, keys):
        self._folder = folder
        self._path = ROOT / "configs" / f"{name}.properties"
        # Streams of a broker outlive the test.
        self.keys = keys | {"job.name": f"{name}-{uuid.uuid4().hex[:8]}", "task.commit.ms": "200"}
        self.job = load_job(self._path, self.keys)
        self.process = None

    def start(self):
        given = [f"--config={key}={value}" for key, value in self.keys.items()]
        self.process = JobProcess(self._folder, str(self._path), "--runner", "local", *given, PYTHONPATH=str(ROOT))

    def kill(self):
        self.process.kill()

    def stop(self):
        self.process.terminate()
        assert self.process.wait() == 0, self.process.errors

    def close(self):
        if self.process is not None:
            self.process.close()


class Feeder(threading.Thread):
    """Writes pairs a few at a time."""

    def __init__(self, streams, stream, pairs):
        super().__init__(daemon=True)
        self._streams, self._stream, self._pairs = streams, stream, pairs
        self._pause = threading.Event()
        self.failure = None

    def run(self):
        try:
            for start in range(0, len(self._pairs), 50):
                self._streams.send(self._stream, self._pairs[start : start + 50])
                self._pause.wait(0.05)
        except SamzapyError as failure:
            self.failure = failure


def named(*streams):
    """Names of streams that no other test has used."""
    return {stream: f"{stream}-{uuid.uuid4().hex[:8]}" for stream in streams}


def test_orders_that_are_sent_again_come_out_once_though_the_job_is_killed(system, tmp_path):
    names = named("orders", "unique")
    keys = system | {
        "task.inputs": f"events.{names['orders']}",
        "unique.orders.output": f"events.{names['unique']}",
        "unique.orders.remembered": "500",
        "stores.deduplication.changelog": f"events.{names['unique']}-changelog",
    }
    pipeline = Pipeline(tmp_path, "unique-orders", keys)
    streams, pick = StreamsOf(pipeline.job, "events"), random.Random(3)
    for stream in names.values():
        streams.create(stream, 2)
    orders = [(str(uuid.uuid4()).encode(), b'{"total":%d}' % number) for number in range(6000)]
    arrived = sent_again(orders, pick)
    feeder = Feeder(streams, names["orders"], arrived)
    feeder.start()
    try:
        for share in (0.2, 0.4, 0.6):
            pipeline.start()
            until(
                lambda share=share: len(streams.read(names["unique"])) >= share * len(orders),
                lambda: pipeline.process.errors,
            )
            pipeline.kill()
        pipeline.start()
        until(lambda: len(streams.read(names["unique"])) >= len(orders), lambda: pipeline.process.errors)
        feeder.join()
        pipeline.stop()
    finally:
        pipeline.close()
    assert feeder.failure is None
    assert len(arrived) > 1.1 * len(orders)
    assert sorted(streams.read(names["unique"])) == sorted(orders)
    kept = [key for key in streams.table(f"{names['unique']}-changelog") if key.startswith(b"key/")]
    assert len(kept) == 2 * 500


def test_two_jobs_one_on_the_others_state_agree_with_a_count_though_both_are_killed(system, tmp_path):
    names = named("views", "counts", "popular")
    log = f"{names['counts']}-changelog"
    first = Pipeline(
        tmp_path,
        "page-views",
        system
        | {
            "task.inputs": f"events.{names['views']}",
            "task.guarantee": "exactly-once",
            "page.views.output": f"events.{names['counts']}",
            "stores.counts.changelog": f"events.{log}",
        },
    )
    second = Pipeline(
        tmp_path,
        "popular-pages",
        system
        | {
            "streams.counts.samza.physical.name": log,
            "popular.pages.views": str(ENOUGH),
            "popular.pages.output": f"events.{names['popular']}",
            "stores.announced.changelog": f"events.{names['popular']}-changelog",
        },
    )
    streams, pick = StreamsOf(first.job, "events"), random.Random(5)
    for stream in names.values():
        streams.create(stream, 4)
    pages = [f"/page-{int(PAGES * pick.random() ** 2)}".encode() for _ in range(6000)]
    views = Counter(pages)
    feeder = Feeder(streams, names["views"], [(page, b"{}") for page in pages])
    feeder.start()

    def counted():
        return sum(int.from_bytes(value, "big") for value in streams.table(log).values())

    def told():
        return [key for key, _ in streams.read(names["popular"])]

    expected = {page for page, count in views.items() if count >= ENOUGH}
    try:
        first.start()
        until(lambda: streams.exists(log), lambda: first.process.errors)
        second.start()
        for share, killed in ((0.2, first), (0.4, second), (0.5, first), (0.6, second)):
            until(lambda share=share: counted() >= share * len(pages), lambda: first.process.errors)
            killed.kill()
            killed.start()
        until(lambda: counted() >= len(pages), lambda: first.process.errors)
        until(lambda: len(told()) >= len(expected), lambda: second.process.errors)
        feeder.join()
        first.stop()
        second.stop()
    finally:
        first.close()
        second.close()
    assert feeder.failure is None
    assert {page: int.from_bytes(count, "big") for page, count in streams.table(log).items()} == dict(views)
    assert sorted(told()) == sorted(expected)
    assert 0 < len(expected) < len(views)


class Changes(threading.Thread):
    """Puts, changes, marks and brings back users, each in a transaction of its own."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self._path = path
        self._pause = threading.Event()
        self.done = 0

    def run(self):
        pick = random.Random(11)
        with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as connection:
            for number in range(600):
                user = f"user-{pick.randint(0, 40)}"
                table, column = pick.choice([("profiles", "name"), ("settings", "theme")])
                others = {"profiles": "city", "settings": "mails"}[table]
                connection.execute(
                    f"INSERT INTO {table} (user_id, {column}, {others}) VALUES (?, ?, 0) ON CONFLICT (user_id) DO UPDATE"
                    f" SET {column} = excluded.{column}, deleted = {int(pick.random() < 0.3)}",
                    (user, f"value {number}"),
                )
                self.done = number + 1
                self._pause.wait(0.02)

    def expected(self):
        """What SQL makes of the tables, by user."""
        found = {}
        with closing(sqlite3.connect(self._path)) as connection:
            for table, column in (("profiles", "name"), ("settings", "theme")):
                rows = connection.execute(f"SELECT user_id, {column} FROM {table} WHERE NOT deleted").fetchall()
                for user, value in rows:
                    found.setdefault(user, {})[table] = value
        return found


def test_a_table_joined_into_a_changelog_is_the_join_though_the_job_is_killed(system, tmp_path):
    users.create(tmp_path / "users.db")
    log = f"users-{uuid.uuid4().hex[:8]}"
    keys = {
        "systems.shop.database.url": f"sqlite:///{tmp_path}/users.db",
        "streams.profiles.database.poll.interval.ms": "20",
        "streams.settings.database.poll.interval.ms": "20",
        "stores.users.changelog": f"events.{log}",
        "task.guarantee": "exactly-once",
    }
    pipeline = Pipeline(tmp_path, "users", system | keys)
    streams, changes = StreamsOf(pipeline.job, "events"), Changes(tmp_path / "users.db")

    def output():
        users = {key.decode(): json.loads(value) for key, value in streams.table(log).items()}
        own = {"profiles": "name", "settings": "theme"}
        return {user: {name: row[own[name]] for name, row in parts.items()} for user, parts in users.items()}

    changes.start()
    try:
        for change in (150, 350):
            pipeline.start()
            until(lambda change=change: changes.done >= change and streams.exists(log), lambda: pipeline.process.errors)
            before = len(streams.read(log))
            until(lambda before=before: len(streams.read(log)) > before, lambda: pipeline.process.errors)
            pipeline.kill()
        pipeline.start()
        changes.join()
        expected = changes.expected()
        until(lambda: output() == expected, lambda: f"{output()} {expected} {pipeline.process.errors}")
        pipeline.stop()
    finally:
        pipeline.close()
    assert len(expected) > 20
    assert output() == expected
