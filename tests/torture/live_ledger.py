"""The ledger as an endless job under load, started again by a supervisor whenever an attempt ends."""

import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace

from crash_job import CrashJob, measured

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import SamzapyError
from samzapy.runner.prepare import prepare
from samzapy.system.kafka import KafkaSystemFactory

DEADLINE_S = 120.0
_PAUSE_S = 0.5
_FEED_S, _FED = 0.05, 10


class ImpatientKafka(KafkaSystemFactory):
    """Gives a transactional call two seconds instead of thirty."""

    transactional_call_s = 2.0


def kafka_keys(bootstrap):
    return {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": bootstrap}


class LiveLedger(CrashJob):
    """Inputs are written, and results read, at `direct`; the job itself goes to `address` (a proxy, maybe)."""

    def __init__(self, direct, address, folder, guarantee, **keys):
        super().__init__(kafka_keys(direct), uuid.uuid4().hex[:8], folder, guarantee)
        self.guarantee = guarantee
        self.flat |= {
            "task.commit.ms": "300",
            "stores.ledger.write.batch.size": "100",
            "stores.ledger.object.cache.size": "100",
            **keys,
        }
        self._address = address
        self.attempts = 0
        self.failures = []
        self.coordinator = None
        self._container = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"ledger-{guarantee}", daemon=True)

    def start(self):
        """Run until `finish`; returns when everything sent so far was processed."""
        config = load_job(self.flat)
        prepared = prepare(config)
        self._model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        self.coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw), 1.5)
        self._thread.start()
        self.catch_up()
        return self

    def catch_up(self, timeout_s=DEADLINE_S):
        """Wait until everything sent so far was processed; the seconds that took."""
        began, sent = SYSTEM_CLOCK.monotonic(), self.sent
        while self.processed() < sent:
            waited = SYSTEM_CLOCK.monotonic() - began
            assert waited < timeout_s, f"{self.guarantee}: {self.processed()} of {sent}; {self.failures}"
            self._thread.join(0.2)
        return SYSTEM_CLOCK.monotonic() - began

    def processed(self):
        """How many inputs lie before the positions of the newest reports."""
        (status,) = self.coordinator.status().containers
        return sum(status.positions.values())

    def finish(self):
        """Stop, then process what is left with nothing in the way; what became of every input."""
        self._stopping.set()
        if self._container is not None:
            self._container.stop()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.guarantee}: does not stop"
        self.run()
        return measured(self.outputs(), self.state(), range(self.sent), self.guarantee)

    def _supervise(self):
        keys = {"systems.sys.consumer.bootstrap.servers": self._address}
        config = load_job(self.flat | keys)
        while not self._stopping.is_set():
            self.attempts += 1
            self._container = build_container(config, self._model, LocalLease(self.coordinator, self._model.id))
            if self._stopping.is_set():
                return
            try:
                self._container.run()
            except SamzapyError as failure:
                self.failures.append(failure)
                self._stopping.wait(_PAUSE_S)


@contextmanager
def load_on(jobs):
    """While the context lasts every job gets new inputs, all the time."""
    over = threading.Event()
    feeders = [threading.Thread(target=_feed, args=(job, over), daemon=True) for job in jobs]
    for feeder in feeders:
        feeder.start()
    try:
        yield
    finally:
        over.set()
        for feeder in feeders:
            feeder.join(DEADLINE_S)


def _feed(job, over):
    while not over.wait(_FEED_S):
        job.send(_FED)


def for_seconds(seconds):
    """Let a fault last."""
    threading.Event().wait(seconds)
