"""Session windows on the embedded system and on Kafka, over complete inputs and through kills of their process."""

import json
import signal
import threading
from collections import defaultdict
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams
from rigs.windows_rig import sessions_of

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.gallery.load import page_views
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOB = Path(__file__).parents[3] / "configs" / "visits.properties"
GAP_MS, GRACE_MS, PARTITIONS = 30 * 60_000, 5 * 60_000, 4


class Visits:
    """The job with streams that no other test has."""

    def __init__(self, folder, prefix, keys):
        self._folder = folder
        self.views, self.visits, self.late = (f"{prefix}-{name}" for name in ("views", "visits", "late"))
        self.keys = {
            "job.name": prefix,
            "job.logged.store.base.dir": str(folder / "state"),
            "task.inputs": f"events.{self.views}",
            "task.guarantee": "exactly-once",
            "task.commit.ms": "200",
            "task.window.ms": "50",
            "visits.output": f"events.{self.visits}",
            "visits.late": f"events.{self.late}",
            "streams.late-views.samza.physical.name": self.late,
            "stores.windows.changelog": f"events.{prefix}-windows",
        } | keys
        self._job = load_job(JOB, self.keys)
        self.streams = Streams(self._job.systems["events"])
        for stream in (self.views, self.visits, self.late):
            # What happened years ago is not to be removed for its age.
            self.streams.admin.create(StreamSpec(stream, PARTITIONS, {"retention.ms": "-1"}))

    def start(self, **environ):
        arguments = [f"--config={key}={value}" for key, value in self.keys.items()]
        return JobProcess(self._folder, str(JOB), "--runner", "local", *arguments, **environ)

    def run(self):
        return LocalRunner().run(prepare(self._job, until_end=True), RunOptions()).status.processed

    def read(self, stream):
        """The committed (key, time, message) of each partition, in order."""
        records = [[] for _ in range(PARTITIONS)]
        for batch in self.streams.read(stream):
            rows = zip(batch.keys, batch.timestamps, batch.values, strict=True)
            records[batch.ssp.partition] += [(key.decode(), time_ms, json.loads(value)) for key, time_ms, value in rows]
        return records

    def results(self):
        """The visits: (user, start, end, value)."""
        messages = [message for records in self.read(self.visits) for _, _, message in records]
        assert {message["kind"] for message in messages} <= {"final"}
        return [(message["key"], message["start"], message["end"], message["value"]) for message in messages]

    def check(self):
        """Visits and late views are those of plain lists; returns both."""
        visits, late = expected(self.read(self.views))
        aside = [record for records in self.read(self.late) for record in records]
        assert sorted(self.results(), key=lambda visit: visit[:3]) == visits
        assert sorted(map(str, aside)) == sorted(map(str, late))
        return visits, late


def expected(partitions):
    """The sessions of each user, and the late page views."""
    views, late = defaultdict(list), []
    for records in partitions:
        newest = 0
        for user, time_ms, message in records:
            newest = max(newest, time_ms)
            if time_ms + GRACE_MS >= newest or any(
                session[0][0] <= time_ms < session[-1][0] + GAP_MS and session[-1][0] + GAP_MS + GRACE_MS > newest
                for session in sessions_of(views[user], GAP_MS)
            ):
                views[user].append((time_ms, message["page"]))
            else:
                late.append((user, time_ms, message))
    visits = [
        (
            user,
            session[0][0],
            session[-1][0] + GAP_MS,
            {"views": len(session), "pages": sorted({page for _, page in session})},
        )
        for user, of_user in views.items()
        for session in sessions_of(of_user, GAP_MS)
    ]
    return sorted(visits, key=lambda visit: visit[:3]), late


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def job(request, tmp_path, unique_topic):
    if request.param == "local":
        return Visits(tmp_path, "visits", {"systems.events.path": str(tmp_path / "local.db")})
    keys = {
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": request.getfixturevalue("kafka"),
        "systems.events.default.stream.replication.factor": "1",
    }
    return Visits(tmp_path, unique_topic("visits")[-60:].strip("-_"), keys)


def test_windows_are_those_of_the_inputs_after_kills_in_the_middle(job):
    records = (
        OutgoingRecord(job.views, event.key.encode(), json.dumps(event.value).encode(), timestamp=event.time_ms)
        for event in page_views(600_000)
    )
    ended = threading.Event()

    def feed():
        with closing(job.streams.producer()) as producer:
            while not ended.wait(0.05) and (batch := list(islice(records, 200))):
                producer.send(batch)
                producer.flush()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        for _ in range(3):
            with closing(job.start()) as process:
                # Read while the job runs: what a kill leaves open hides what comes after it until the next start.
                before = len(job.results())
                until(lambda before=before: len(job.results()) > before + 50, lambda: process.errors)
                process.kill()
        for step in ("commit.4", "commit.5", "commit.6"):
            with closing(job.start(SAMZAPY_FAIL=f"{step}:4:kill")) as process:
                assert process.wait() == -signal.SIGKILL, process.errors
    finally:
        ended.set()
        feeder.join()
    job.run()
    visits, late = job.check()
    assert len(visits) > 150
    assert late
