"""A job whose inputs are not those of its last checkpoint."""

import logging

from jobs.memory_job import MemoryJob

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.inputs.starting_offsets import committed_changelogs, of_inputs


def without_system(flat, system):
    return {key: value for key, value in flat.items() if not key.startswith(f"systems.{system}.")}


def test_a_system_that_was_renamed_since_the_last_checkpoint_starts_at_its_default(tmp_path, caplog):
    job = MemoryJob(tmp_path, partitions=1)
    job.send((0, "a", {"id": 1}))
    old = {key.replace("systems.mem.", "systems.k."): value for key, value in job.flat.items() if "systems.mem." in key}
    job.flat.update(old)
    job.run(**{"task.inputs": "k.in"})
    job.flat = without_system(job.flat, "k")
    with caplog.at_level(logging.WARNING):
        report = job.run()
    assert report.processed == 1
    warning = "Partition 0: the checkpoint has positions in k.in, no inputs of the job any more: they are dropped"
    assert warning in caplog.messages
    caplog.clear()
    assert job.run().processed == 0
    assert not caplog.messages


def test_the_positions_of_inputs_that_stay_are_kept_with_the_changelogs(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    stays, gone = SystemStreamPartition("mem", "in", 0), SystemStreamPartition("gone", "in", 0)
    found = of_inputs(job.config, "Partition 0", Checkpoint({stays: 3, gone: 4}, {"counts": 7}))
    assert found == Checkpoint({stays: 3}, {"counts": 7})
    assert committed_changelogs(job.config, found) == {"counts": 7}
    assert of_inputs(job.config, "Partition 0", None) is None
