"""What goes on between the end of one start and the next, when a container starts again where it is."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from jobs.memory_job import MemoryJob

from samzapy.api.checkpoint import JobRecord
from samzapy.checkpoint import CheckpointManagerFactory
from samzapy.checkpoint.managers import FileCheckpointManager
from samzapy.checkpoint.records import write_owner
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.container.supervision.job_records import this_run
from samzapy.errors import JobTakenOver, StoreCorrupted, TransactionAborted
from samzapy.failpoints import arm, disarm
from samzapy.job.lease import ContainerLease, Directive
from samzapy.runner.prepare import prepare


class Lease(ContainerLease):
    """Grants everything, and hears how often the container says that it starts again."""

    epoch = 1
    duration_s = 0.3

    def __init__(self):
        self.restarting = 0
        self.heard = threading.Condition()

    def report(self, report):
        with self.heard:
            self.restarting += report.phase == "restarting"
            self.heard.notify_all()
        return Directive.CONTINUE


class SlowToAnswer(FileCheckpointManager):
    """Says who owns the job only after the container has reported a few times more, once it starts again."""

    lease = None
    slept = False

    def read_record(self, record, *, wait=True):
        lease = SlowToAnswer.lease
        if record is JobRecord.OWNER and lease is not None and lease.restarting:
            with lease.heard:
                SlowToAnswer.slept = lease.heard.wait_for(lambda: lease.restarting > 4, 60)
        return super().read_record(record, wait=wait)


class SlowToAnswerFactory(CheckpointManagerFactory):
    def manager(self, job, checkpoint, clients):
        return SlowToAnswer(Path(checkpoint.path))


@pytest.fixture
def attempts(tmp_path):
    """A container whose first commit after the first one fails as an aborted transaction does."""
    job = MemoryJob(
        tmp_path / "state",
        **{
            "task.checkpoint.factory": f"{__name__}:SlowToAnswerFactory",
            "task.checkpoint.path": str(tmp_path / "checkpoints"),
        },
    )
    job.send((0, "a", {"id": 1}))
    config = load_job(job.flat)
    prepared = prepare(config, until_end=True)
    model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
    lease = SlowToAnswer.lease = Lease()
    SlowToAnswer.slept = False

    def abort(name):
        raise TransactionAborted("told to")

    arm("commit.5", 2, abort)
    yield build_container(config, model, lease, ends=prepared.ends, run_id=prepared.run_id), lease, tmp_path
    SlowToAnswer.lease = None


def test_the_lease_is_kept_while_the_checkpoints_system_takes_its_time(attempts):
    container, lease, _ = attempts
    assert container.run().phase == "done"
    assert SlowToAnswer.slept
    assert lease.restarting > 4


def test_a_container_whose_job_was_started_elsewhere_does_not_start_again(attempts):
    container, _, folder = attempts

    def abort_for_another_run(name):
        write_owner(FileCheckpointManager(folder / "checkpoints"), this_run())
        raise TransactionAborted("told to")

    disarm()
    arm("commit.5", 2, abort_for_another_run)
    with pytest.raises(JobTakenOver, match="another run of job 'counting'"):
        container.run()


def test_a_store_found_damaged_at_a_read_is_rebuilt_by_a_start_in_place(attempts):
    container, lease, _ = attempts

    def damage(name):
        raise StoreCorrupted("block checksum mismatch")

    disarm()
    arm("commit.2", 2, damage)
    assert container.run().phase == "done"
    assert lease.restarting
