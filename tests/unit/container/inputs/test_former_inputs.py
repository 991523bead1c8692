"""A job whose inputs are not those of its last checkpoint."""

import logging

import pytest
from jobs.memory_job import MemoryJob

from samzapy.admin.job_check import inspect_start
from samzapy.admin.positions import write_startpoints
from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.inputs.starting_offsets import committed_changelogs, of_inputs
from samzapy.errors import ConfigError


def without_system(flat, system):
    return {key: value for key, value in flat.items() if not key.startswith(f"systems.{system}.")}


@pytest.fixture
def grouper():
    return "partition"


@pytest.fixture
def renamed(tmp_path, grouper):
    """A job that has read two messages under the name k, and has one more to read."""
    job = MemoryJob(tmp_path, partitions=1, **{"job.systemstreampartition.grouper.factory": grouper})
    job.send((0, "a", {"id": 1}), (0, "a", {"id": 2}))
    old = {key.replace("systems.mem.", "systems.k."): value for key, value in job.flat.items() if "systems.mem." in key}
    job.flat.update(old)
    kept = {"job.default.system": "k", "stores.counts.changelog": "k.counts-changelog"}
    job.run(**{"task.inputs": "k.in"}, **kept)
    job.send((0, "a", {"id": 3}))
    job.flat = without_system(job.flat, "k")
    return job


@pytest.mark.parametrize("grouper", ["partition", "ssp"])
def test_a_system_renamed_since_the_last_run_is_refused(renamed):
    with pytest.raises(ConfigError) as refused:
        renamed.run()
    assert refused.value.exit_code == 2
    said = str(refused.value)
    assert "task.inputs: mem.in is the stream that earlier runs of the job have read as k.in (the same id)" in said
    assert "name it k.in as before" in said
    assert "samzapy startpoint set JOB.properties 2 --input 'mem.in[0]'" in said


def test_a_renamed_system_goes_on_where_the_startpoints_are(renamed):
    config = load_job(renamed.flat)
    write_startpoints(config, inspect_start(config, pytest.fail)[0], "2", ("mem.in[0]",))
    assert renamed.run().processed == 1
    assert [each["count"] for _, each in renamed.outputs()] == [1, 2, 3]
    assert renamed.run().processed == 0


def test_an_input_replaced_by_another_stream_starts_at_its_default(tmp_path, caplog):
    job = MemoryJob(tmp_path, partitions=1)
    job.send((0, "a", {"id": 1}))
    job.run()
    job.admin.create(StreamSpec("in2", 1))
    with caplog.at_level(logging.WARNING):
        assert job.run(**{"task.inputs": "mem.in2"}).processed == 0
    warning = "Partition 0: the checkpoint has positions in mem.in, no inputs of the job any more: they are dropped"
    assert warning in caplog.messages


def test_the_positions_of_inputs_that_stay_are_kept_with_the_changelogs(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    stays, gone = SystemStreamPartition("mem", "in", 0), SystemStreamPartition("gone", "in", 0)
    found = of_inputs(job.config, "Partition 0", Checkpoint({stays: 3, gone: 4}, {"counts": 7}))
    assert found == Checkpoint({stays: 3}, {"counts": 7})
    assert committed_changelogs(job.config, found) == {"counts": 7}
    assert of_inputs(job.config, "Partition 0", None) is None
