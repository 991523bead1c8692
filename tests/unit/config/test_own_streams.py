"""Streams that belong to the job alone, and job files that give them to somebody else, too."""

from pathlib import Path

import pytest

from samzapy.api.stream import SystemStream
from samzapy.config.job import own_streams
from samzapy.config.loader import load_job

CHANGELOG = {
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "kafka.s",
}
OTHER = {key.replace("stores.s.", "stores.t."): value for key, value in CHANGELOG.items()}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"task.inputs": "kafka.s"}, "task.inputs names it too"),
        ({"task.broadcast.inputs": "kafka.s#0"}, "task.broadcast.inputs names it too"),
        (
            {"task.dead.letter.stream": "kafka.s", "task.error.process.policy": "dead-letter"},
            "task.dead.letter.stream names it too",
        ),
        ({"streams.out.samza.system": "kafka", "streams.out.samza.physical.name": "s"}, "streams.out names it too"),
        ({"views.output": "kafka.s"}, "views.output names it too"),
        ({"views.output": "s", "job.default.system": "kafka"}, "views.output names it too"),
        (
            {"metrics.reporters": "m", "metrics.reporter.m.class": "snapshot", "metrics.reporter.m.stream": "kafka.s"},
            "metrics.reporter.m.stream names it too",
        ),
        (
            {
                "stores.side.factory": "inmemory",
                "stores.side.key.serde": "string",
                "stores.side.msg.serde": "json",
                "stores.side.side.inputs": "kafka.s",
                "stores.side.side.inputs.processor.factory": "a:B",
            },
            "stores.side.side.inputs names it too",
        ),
    ],
)
def test_a_changelog_that_is_another_stream_of_the_job_is_refused(problems, changes, why):
    expected = f"stores.s.changelog: expected a separate stream, but {why}, got 'kafka.s'"
    assert problems({**CHANGELOG, **changes}) == [expected]


def test_a_changelog_in_the_checkpoint_topic_is_refused(problems):
    topic = "kafka.__samza_checkpoint_ver_1_for_views_1"
    changes = {**CHANGELOG, **OTHER, "stores.s.changelog": topic}
    refused = "changelog: expected a separate stream, but it is"
    assert problems(changes) == [f"stores.s.{refused} the job's checkpoint topic, got '{topic}'"]


def test_a_jobs_own_streams_are_its_changelogs_and_its_checkpoints(load):
    assert own_streams(load(CHANGELOG)) == {
        SystemStream("kafka", "s"): "the changelog of store 's'",
        SystemStream("kafka", "__samza_checkpoint_ver_1_for_views_1"): "the job's checkpoint topic",
        SystemStream("kafka", "__samzapy_state_checkpoints_for_views_1"): "the topic of the job's state checkpoints",
    }


@pytest.mark.parametrize("path", sorted(Path("configs").glob("*.properties")), ids=lambda path: path.stem)
def test_the_job_files_that_come_along_keep_their_changelogs_to_themselves(path):
    load_job(path, environ={})
