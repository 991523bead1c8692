"""A run that was cut off from Kafka, and comes back when another has long been started in its place."""

import threading
from dataclasses import replace

import pytest
from live_ledger import DEADLINE_S, LiveLedger

from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import JobTakenOver, SamzapyError
from samzapy.runner.prepare import prepare

pytestmark = pytest.mark.kafka


class Run:
    """One run of the ledger in a thread of its own, as a run that is written down as the job's owner."""

    def __init__(self, job, address, folder):
        keys = {"systems.sys.consumer.bootstrap.servers": address, "job.logged.store.base.dir": str(folder)}
        config = load_job(job.flat | keys)
        prepared = prepare(config)
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        self.coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw), 60.0)
        self._container = build_container(config, model, LocalLease(self.coordinator, model.id), run_id=prepared.run_id)
        self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._container.run()
        except SamzapyError as failure:
            self.failure = failure

    def wait_until_committed(self, messages):
        while True:
            (status,) = self.coordinator.status().containers
            if sum(status.positions.values()) >= messages and status.commits > 1:
                return
            assert self._thread.is_alive(), self.failure
            self._thread.join(0.2)

    def end(self):
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "it goes on"
        return self.failure


def test_a_producer_that_takes_over_behind_its_successor_commits_nothing(proxied, tmp_path, outcome):
    direct, proxy = proxied
    address = f"127.0.0.1:{proxy.port}"
    job = LiveLedger(direct, address, tmp_path / "successor", "exactly-once")
    job.send(20)
    cut_off = Run(job, address, tmp_path / "cut-off")
    cut_off.wait_until_committed(20)
    proxy.refuse()
    proxy.reset()
    job.send(20)
    # The successor does everything there is, and ends well: nobody is left to fence the one that comes back.
    job.run()
    proxy.heal()
    assert isinstance(cut_off.end(), JobTakenOver)
    job.send(20)
    job.run()
    outcome("superseded while cut off", **job.numbers(1))
    job.close()
