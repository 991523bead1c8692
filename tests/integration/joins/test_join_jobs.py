"""The joining jobs against oracles over their complete inputs: as they stand, crashed at commits, and killed on
Kafka."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache

import join_oracles
import orjson
import pytest
from join_jobs import JoinJob, embedded, on_kafka

from samzapy import IncomingMessageEnvelope, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.examples.joins.load import departures, impressions_and_clicks, inputs_of, profiles_and_settings, weather
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

#: Of the recorded inputs, the first days are enough for most.
DAYS = 2
JOBS = ["profiles-settings", "impressions-clicks", "departures-weather"]


@cache
def inputs(job):
    """Smaller than what the jobs' files speak of, but for the table of users."""
    if job == "profiles-settings":
        return list(
            zip(("member-profiles", "member-settings"), profiles_and_settings(members=100, changes=1_000), strict=True)
        )
    if job == "impressions-clicks":
        return list(zip(("impressions", "clicks"), impressions_and_clicks(count=1_500), strict=True))
    if job == "view-regions":
        return inputs_of(job)
    until_ms = int(datetime(2013, 1, 2 + DAYS, tzinfo=timezone.utc).timestamp()) * 1000
    return [
        ("airport-departures", departures(DAYS)),
        ("airport-weather", [each for each in weather() if each.time_ms < until_ms]),
    ]


def check(job, days=DAYS):
    """The job's output is the oracle's."""
    name = job.config.name
    if name == "profiles-settings":
        assert joined_rows(job) == join_oracles.members(
            job.partitions("member-profiles"), job.partitions("member-settings")
        )
    elif name == "view-regions":
        assert job.outputs() == join_oracles.view_regions(job.partitions("user-views"), job.partitions("user-regions"))
    elif name == "impressions-clicks":
        assert job.outputs() == join_oracles.clicked(job.partitions("impressions"), job.partitions("clicks"))
    else:
        assert job.outputs() == join_oracles.departures_weather(days)


def joined_rows(job):
    """What a reader of the store's changelog has in the end."""
    partitions = job.streams.replay("members")
    rows = {key.decode(): orjson.loads(value) for rows in partitions for key, value in rows.items()}
    assert sum(map(len, partitions)) == len(rows), "a key is in one partition"
    return rows


@pytest.fixture(autouse=True)
def no_fail_points():
    yield
    disarm()


@pytest.mark.parametrize("name", JOBS[:2])
def test_a_join_as_its_file_says(tmp_path, name):
    job = JoinJob(tmp_path, name, embedded(tmp_path))
    job.load(inputs(name))
    assert job.run() == sum(len(events) for _, events in inputs(name))
    check(job)
    assert job.run() == 0
    check(job)


@pytest.mark.parametrize(
    "name", [JOBS[1], *(pytest.param(name, marks=pytest.mark.slow) for name in (JOBS[0], JOBS[2]))]
)
def test_a_join_that_crashes_at_commit_after_commit(tmp_path, name):
    """On the table join with at-least-once, whose rows are the same after a repetition; else with exactly-once."""
    job = JoinJob(tmp_path, name, embedded(tmp_path))
    job.load(inputs(name))
    often = {"task.commit.ms": "1", "task.window.ms": "1", "task.poll.batch.size": "50"}
    crashes = 0
    for step, nth in (("commit.3", 4), ("commit.4", 3), ("commit.5", 3), ("commit.6", 2), ("commit.2", 5)):
        arm(step, nth)
        try:
            job.run(**often)
        except FailPointReached:
            crashes += 1
        disarm()
    job.run()
    assert crashes >= 3
    check(job)


class RowKinds(StreamTask, InitableTask):
    """A job of its own downstream of the joined tables: which parts each row has, and when it went."""

    def init(self, context):
        self.output = SystemStream("events", "row-kinds")

    def process(self, envelope: IncomingMessageEnvelope, collector, coordinator):
        kind = "gone" if envelope.message is None else "+".join(sorted(envelope.message))
        collector.send(OutgoingMessageEnvelope(self.output, kind, key=envelope.key))


def test_another_job_reads_the_joined_tables_from_the_changelog(tmp_path):
    job = JoinJob(tmp_path, "profiles-settings", embedded(tmp_path))
    job.load(inputs("profiles-settings"))
    # Commits in between, so that rows come and go in the changelog.
    job.run(**{"task.commit.ms": "1"})
    keys = embedded(tmp_path) | {
        "job.name": "row-kinds",
        "job.default.system": "events",
        "systems.events.samza.factory": "local",
        "systems.events.default.stream.samza.key.serde": "string",
        "systems.events.default.stream.samza.msg.serde": "json",
        "systems.events.default.stream.samza.offset.default": "oldest",
        "task.class": f"{__name__}:RowKinds",
        "task.inputs": "events.members",
    }
    job.streams.admin.create(StreamSpec("row-kinds", 4))
    LocalRunner().run(prepare(load_job(keys), until_end=True), RunOptions())
    kinds = {message.key: message.value for partition in job.partitions("row-kinds") for message in partition}
    rows = join_oracles.members(job.partitions("member-profiles"), job.partitions("member-settings"))
    assert {key: kind for key, kind in kinds.items() if kind != "gone"} == {
        key: "+".join(sorted(row)) for key, row in rows.items()
    }
    assert "gone" in kinds.values(), "some member has left both tables"


@pytest.mark.parametrize("name", ["departures-weather", "view-regions"])
def test_a_join_of_inputs_with_different_partition_counts_is_refused(tmp_path, name):
    job = JoinJob(tmp_path, name, embedded(tmp_path))
    (one, _), (other, _) = inputs(name)
    job.streams.admin.create(StreamSpec(one, 4))
    job.streams.admin.create(StreamSpec(other, 3))
    with pytest.raises(EnvironmentFailure, match=f"partition counts differ: events.{one}=4 events.{other}=3"):
        job.run()


def test_a_stream_table_join_goes_on_with_the_table_it_has(tmp_path):
    job = JoinJob(tmp_path, "view-regions", embedded(tmp_path))
    (views, seen), (users, table) = inputs("view-regions")
    job.load([(views, []), (users, table)])
    job.run()
    job.load([(views, seen)])
    job.run()
    check(job)


def test_inputs_are_the_same_for_a_seed_and_known_for_the_four_joins_only():
    for name in ("profiles-settings", "view-regions", "impressions-clicks"):
        assert inputs_of(name) == inputs_of(name)
    with pytest.raises(EnvironmentFailure, match="no inputs for job 'flights'; known: profiles-settings, view-regions"):
        inputs_of("flights")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", JOBS)
def test_a_join_on_kafka_survives_kills(tmp_path, kafka, name):
    job = JoinJob(tmp_path, name, on_kafka(tmp_path, kafka))
    job.survive(inputs(name) if name == "departures-weather" else inputs_of(name), kills=6)
    check(job)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", JOBS)
def test_a_join_on_the_embedded_system_survives_kills(tmp_path, name):
    job = JoinJob(tmp_path, name, embedded(tmp_path))
    job.survive(inputs(name) if name == "departures-weather" else inputs_of(name), kills=6)
    check(job)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_join_of_all_departures_with_the_weather(tmp_path):
    job = JoinJob(tmp_path, "departures-weather", embedded(tmp_path))
    job.load(inputs_of("departures-weather"))
    job.run()
    check(job, days=365)
