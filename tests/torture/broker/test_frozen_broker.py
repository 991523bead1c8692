"""The local runner in every guarantee on a broker that answers nobody for a minute and a half, and then goes on."""

import threading
import uuid

import pytest
from crash_job import CrashJob, LedgerTask
from live_ledger import kafka_keys
from outcomes import GUARANTEES

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.devkafka import DevBroker
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.verify.processes import resume, suspend, with_children

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

FROZEN_S = 90.0
EVENTS, BEFORE = 400, 100
_PATIENCE_S = 400.0


class GatedLedgerTask(LedgerTask):
    """Says when it has come to the middle, and waits there for the broker to be frozen."""

    there = threading.Semaphore(0)
    gate = threading.Event()

    def process(self, envelope, collector, coordinator):
        if envelope.message == BEFORE and not self.gate.is_set():
            self.there.release()
            self.gate.wait(_PATIENCE_S)
        super().process(envelope, collector, coordinator)


class LocalRun(threading.Thread):
    """One job under the local runner, to the ends of its inputs."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.job, self.events, self.outcome, self.failure = job, [], None, None
        self.ended_at = None

    def run(self):
        try:
            prepared = prepare(load_job(self.job.flat), until_end=True)
            self.outcome = LocalRunner().run(prepared, RunOptions(on_event=self.events.append))
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            self.ended_at = SYSTEM_CLOCK.monotonic()


def ledger(address, folder, guarantee):
    job = CrashJob(kafka_keys(address), uuid.uuid4().hex[:8], folder, guarantee)
    job.flat |= {
        "task.class": f"{__name__}:GatedLedgerTask",
        "task.commit.ms": "300",
        "stores.ledger.write.batch.size": "100",
        "stores.ledger.object.cache.size": "100",
    }
    job.send(EVENTS)
    return job


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """All guarantees at once: (run, seconds from the thaw to its end) by guarantee."""
    with DevBroker(tmp_path_factory.mktemp("frozen"), tied=True) as broker:
        address, pid = broker.running.bootstrap, broker.running.pid
        runs = {each: LocalRun(ledger(address, tmp_path_factory.mktemp("state"), each)) for each in GUARANTEES}
        for run in runs.values():
            run.start()
        for _ in runs:
            assert GatedLedgerTask.there.acquire(timeout=60)
        suspend(with_children(pid))
        try:
            GatedLedgerTask.gate.set()
            threading.Event().wait(FROZEN_S)
        finally:
            resume(with_children(pid))
        thawed_at = SYSTEM_CLOCK.monotonic()
        for run in runs.values():
            run.join(_PATIENCE_S)
        yield {guarantee: (run, run.ended_at - thawed_at) for guarantee, run in runs.items()}
        for run in runs.values():
            run.job.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_broker_that_freezes_is_outlasted_by_the_local_runner(frozen, guarantee, outcome):
    run, recovery_s = frozen[guarantee]
    assert run.failure is None, (run.failure, run.events)
    assert run.outcome is not None, run.events
    outcome(
        "broker frozen for 90 s, local runner",
        recovery_s=recovery_s,
        **{key: value for key, value in run.job.numbers(faults=1).items() if key != "recovery_s"},
    )
