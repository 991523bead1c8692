"""A stream joined with a table that is read first: every message meets the newest row of its key."""

from __future__ import annotations

import pytest
from join_jobs import JoinJob, embedded, on_kafka
from join_oracles import view_regions

from samzapy.examples.joins.load import inputs_of


def check(job):
    assert job.outputs() == view_regions(job.partitions("user-views"), job.partitions("user-regions"))


def test_a_stream_table_join_reads_its_table_before_the_first_message(tmp_path):
    job = JoinJob(tmp_path, "view-regions", embedded(tmp_path))
    job.load(inputs_of("view-regions"))
    # Few at a time, so that without the bootstrap both inputs would come in turns.
    job.run(**{"task.poll.batch.size": "20"})
    check(job)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("system", ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_a_stream_table_join_survives_kills_and_reads_its_table_first_again(tmp_path, request, system):
    keys = embedded(tmp_path) if system == "embedded" else on_kafka(tmp_path, request.getfixturevalue("kafka"))
    job = JoinJob(tmp_path, "view-regions", keys)
    (views, seen), (users, table) = inputs_of("view-regions")
    job.load([(users, table)])
    job.survive([(views, seen)], kills=6)
    check(job)
