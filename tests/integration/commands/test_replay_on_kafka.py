"""A replay over a real broker: the state of a commit, committed records only, nothing written, real compaction."""

from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient
from jobs.page_view_job import page_view_job_on_kafka

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, describe_all
from samzapy.config.loader import load_job
from samzapy.errors import SamzapyError
from samzapy.replay.attempt import opened_replay
from samzapy.replay.plan import Request, plan_replay
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka


class KafkaJob:
    """The page-view count on one partition."""

    def __init__(self, folder, broker, settings, admin, unique_topic, added=""):
        self.names = {what: unique_topic(what) for what in ("views", "out", "log")}
        for what in ("views", "out"):
            admin.create(StreamSpec(self.names[what], 1))
        text = page_view_job_on_kafka(self.names["views"], folder, broker, **self.names, job__offsets__mirror="false")
        (folder / "job.properties").write_text(text + added)
        self.config = load_job(folder / "job.properties")
        self._settings, self.admin, self._broker = settings, admin, broker

    def run(self, *pages):
        """Append views of pages and run to the end; returns the error that has ended the run."""
        with closing(KafkaSystemFactory().producer(self._settings, "test")) as producer:
            producer.send([OutgoingRecord(self.names["views"], page and page.encode(), b"{}", 0) for page in pages])
            producer.flush()
        try:
            LocalRunner().run(prepare(self.config, until_end=True), RunOptions())
        except SamzapyError as error:
            return error
        return None

    def ssp(self, what):
        return SystemStreamPartition("kafka", self.names[what], 0)

    def everything(self):
        """The ends of all streams of the broker, and its consumer groups."""
        streams = describe_all(self.admin, self.admin.list_streams())
        ssps = [
            SystemStreamPartition("kafka", each.stream, n) for each in streams.values() for n in range(each.partitions)
        ]
        # A client that is gone before the answer comes leaves its future open.
        client = AdminClient({"bootstrap.servers": self._broker})
        groups = client.list_consumer_groups().result(60)
        ends = {str(ssp): log.upcoming for ssp, log in self.admin.offsets(ssps).items()}
        return ends, sorted(each.group_id for each in groups.valid)

    def replay(self, place, **given):
        with opened_replay(self.config, plan_replay(self.config, Request(str(place), **given))) as replay:
            before = counted(replay)
            steps = list(replay.steps())
            return before, steps, counted(replay), replay.failure


def counted(replay):
    return {key.decode(): int.from_bytes(value, "big") for key, value in replay.entries("counts").items()}


@pytest.fixture
def make(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic):
    return lambda added="": KafkaJob(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic, added)


@pytest.mark.slow
def test_a_failed_slice_is_replayed_with_its_state_without_a_write(make):
    job = make()
    assert job.run("/a", "/b", "/a") is None
    assert job.run("/c", "/a") is None
    failed = job.run("/b", None, "/a")
    assert f"{job.ssp('views')}@6" in str(failed)
    before = job.everything()
    state, steps, after, failure = job.replay(failed)
    assert state == Counter(["/a", "/b", "/a", "/c", "/a"])
    assert [step.at for step in steps] == [f"{job.ssp('views')}@5", f"{job.ssp('views')}@6"]
    assert [(each.stream, each.key, each.message) for each in steps[0].outputs] == [
        (f"kafka.{job.names['out']}", "/b", {"page": "/b", "views": 2})
    ]
    assert [(each.key, each.before, each.after) for each in steps[0].changes] == [("/b", 1, 2)]
    assert str(failure) == str(failed)
    assert after == state | {"/b": 2}
    earlier, steps, _, failure = job.replay(4)
    assert earlier == {"/a": 2, "/b": 1}
    assert len(steps) == 2
    assert failure is None
    assert job.everything() == before
