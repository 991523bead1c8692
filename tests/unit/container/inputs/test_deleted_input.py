"""An input that is deleted while the job reads it."""

import threading

import pytest
from jobs.memory_job import MemoryJob
from rigs.in_between import first

from samzapy.container.commit_protocol import StateWriter
from samzapy.errors import EnvironmentFailure, InputDeleted, UnknownStream


def test_a_deleted_input_ends_the_run_and_names_what_was_committed(tmp_path):
    job, raised = MemoryJob(tmp_path, **{"task.window.ms": "20"}), []
    job.send(*[(number % 2, "key", {"id": number}) for number in range(5)])
    container, _ = job.container(until_end=False)

    def run():
        with pytest.raises(EnvironmentFailure) as failed:
            container.run()
        raised.append(failed.value)

    thread = threading.Thread(target=run)
    thread.start()
    job.task.calls.wait_for(("process",), 5)
    job.send((0, "key", {"id": 5, "do": "commit-all"}))
    job.task.calls.wait_for(("process", "Partition 0", 3), 1)
    # The commit comes before the next window.
    job.task.calls.wait_for(("window",), sum(call[0] == "window" for call in list(job.task.calls)) + 4)
    job.admin.delete("in")
    thread.join(30)
    (error,) = raised
    assert isinstance(error, InputDeleted)
    assert error.exit_code == 3
    assert str(error) == (
        "input 'mem.in' was deleted while the job read it; committed are mem.in[0]@4, mem.in[1]@2; "
        "take it out of task.inputs, or create it again and run the job once with samza.reset.offset=true"
    )


def test_an_unknown_output_is_not_taken_for_a_deleted_input(tmp_path):
    job = MemoryJob(tmp_path)
    job.send((0, "key", {"id": 0}))
    job.admin.delete("out")
    with pytest.raises(UnknownStream, match="topic 'out' does not exist"):
        job.run()


def test_a_message_names_eight_partitions_at_most():
    text = str(InputDeleted("kafka", "in", dict.fromkeys(range(1000), 7)))
    assert "kafka.in[7]@7 and 992 more; take it out" in text


def test_a_changelog_that_is_deleted_is_for_a_start_to_create(tmp_path, monkeypatch):
    job = MemoryJob(tmp_path)
    job.send((0, "key", {"id": 0}))
    commit = (monkeypatch, StateWriter, "acknowledge_changes")
    first(*commit, lambda: first(*commit, lambda: job.admin.delete("counts-changelog")))
    about = r"it is the changelog of store 'counts' \(committed are mem\.in\[0\]@0, mem\.in\[1\]@0\), and a start of"
    with pytest.raises(UnknownStream, match=about):
        job.run()
