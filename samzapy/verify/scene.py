"""One job under faults, and the clients next to it.

Scene            starts the job, watches it, starts it again when it has ended, stops it
Feeder           writes the events in bursts, in a thread, never past a limit that the scenario moves on
Watcher          reads committed outputs while the faults strike: each of them must still exist in the end
ForeignWriter    puts a wrong record into a changelog, and corrects it once the job has refused it
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.errors import EnvironmentFailure, ProducerError, SamzapyError
from samzapy.verify.evidence import Record, Streams, records_of
from samzapy.verify.processes import JobProcess, NoProgress, command_in, end, gone, resume, until
from samzapy.verify.target import STATE
from samzapy.verify.workload import Event, partition_of

#: Seconds that a stretch of events takes, and its writes.
STRETCH_S, _BURSTS_A_STRETCH = 2.0, 40


def mean_burst(events: int, stretches: int) -> int:
    """Events per write, so that each of the stretches takes about `STRETCH_S`."""
    return max(1, events // stretches // _BURSTS_A_STRETCH)


class Feeder:
    """Appends `events` to `stream`, `burst` at a time on average: the seed decides each number and each pause.
    `acknowledged` is the number in the log, `ends` the same by partition."""

    def __init__(
        self, producer: SystemProducer, stream: str, partitions: int, events: Iterator[Event], *, burst: int, seed: str
    ) -> None:
        self._producer = producer
        self.stream = stream
        self._events = events
        self._burst = burst
        self._chance = random.Random(f"{seed}/bursts")
        self.ends = (0,) * partitions
        self.acknowledged = 0
        self._limit = 0
        self._closed = False
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="verify-feeder", daemon=True)
        self._thread.start()

    def allow(self, limit: int) -> None:
        """Go on up to this many events in all."""
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the failure that has ended the writing, if there is one: EnvironmentFailure if the system did not
        accept an event, which says nothing about the job."""
        if isinstance(self._failure, ProducerError):
            raise EnvironmentFailure(
                f"the events could not be written to {self.stream}, so nothing about the job is proven: {self._failure}"
            ) from self._failure
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Write no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        try:
            while self._may_go_on():
                self._write()
        except Exception as failure:  # noqa: BLE001  # raised in the scenario's thread
            self._failure = failure

    def _may_go_on(self) -> bool:
        with self._changed:
            pause = self._chance.uniform(0.5, 1.5) * STRETCH_S / _BURSTS_A_STRETCH
            self._changed.wait_for(lambda: self._closed, pause)
            self._changed.wait_for(lambda: self._closed or self.acknowledged < self._limit)
            return not self._closed

    def _write(self) -> None:
        size = min(self._limit - self.acknowledged, 1 + int(self._chance.expovariate(1 / self._burst)))
        ends, batch = list(self.ends), []
        for event in islice(self._events, size):
            key, value = event.encode()
            partition = partition_of(key, len(ends))
            ends[partition] += 1
            batch.append(OutgoingRecord(self.stream, key, value, partition))
        self._producer.send(batch)
        self._producer.flush()
        self.ends = tuple(ends)
        self.acknowledged += len(batch)


_POLL_S, _POLL_RECORDS = 0.5, 5_000


class Watcher:
    """Reads a stream from its beginning into `seen`, in a thread, until it is closed. It waits for a broker that is
    away."""

    def __init__(self, streams: Streams, stream: str) -> None:
        self._streams = streams
        self._positions = dict.fromkeys(streams.partitions(stream), 0)
        self.seen: list[Record] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verify-watcher", daemon=True)
        self._thread.start()

    def close(self) -> list[Record]:
        """Stop; returns the records that it has seen."""
        self._closed.set()
        self._thread.join()
        return self.seen

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                with closing(self._streams.consumer(self._positions)) as consumer:
                    while not self._closed.is_set():
                        for batch in consumer.poll(_POLL_S, _POLL_RECORDS):
                            self.seen += records_of(batch)
                            self._positions[batch.ssp] = batch.offsets[-1] + 1
            except SamzapyError:
                self._closed.wait(_POLL_S)


#: More than all deposits together: if the job accepted it, every sum of the account would show it.
_WRONG = b"1000000000"


class ForeignWriter:
    """Writes to `changelog`, a store with numbers as values."""

    def __init__(self, streams: Streams, changelog: str) -> None:
        self._streams = streams
        self._changelog = changelog
        self._replaced: Record | None = None

    def write(self, choice: int) -> None:
        """Replace the value of one of the keys. Raises NoProgress if there is none."""
        records = [record for record in self._streams.read(self._changelog) if record.value is not None]
        if not records:
            raise NoProgress(f"{self._changelog} is empty: nothing to replace")
        self._replaced = records[choice % len(records)]
        self._send(self._replaced, _WRONG)

    def correct(self) -> None:
        """Write the value that the job itself wrote last for that key."""
        assert self._replaced is not None
        key = self._replaced.key
        own = [r.value for r in self._streams.read(self._changelog) if r.key == key and r.value != _WRONG]
        self._send(self._replaced, own[-1])

    def _send(self, place: Record, value: bytes | None) -> None:
        with closing(self._streams.producer()) as producer:
            producer.send([OutgoingRecord(self._changelog, place.key, value, place.partition)])
            producer.flush()


#: Seconds for a stop, and for a job with uncommitted work to commit: much sooner.
LONGEST_STOP_S, _SOON_S = 90.0, 5.0
#: The number of restarts of a job that ends by itself, as by a supervisor.
MOST_RESTARTS = 10


class JobRefused(SamzapyError):
    """Raised when the job does not start; `exit_code` is the job's."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code or 1
        super().__init__(message)


class Scene:
    """The current run of the job, and the feeder that writes its events."""

    def __init__(self, job_file: Path, feeder: Feeder, containers: int, patience_s: float) -> None:
        """`containers`: the number in the job file, and the most that a run may have. `patience_s`: seconds for a start
        or a recovery."""
        self._patience_s = patience_s
        self._job_file = job_file
        self._most = self._containers = containers
        self._overlaps = 0
        self._earlier: list[JobProcess] = []
        self._started = self._stopping = False
        self._left: list[psutil.Process] = []
        self.feeder = feeder
        self.gave_up: list[str] = []
        self.run = self._new_run()

    def kill_driver(self) -> None:
        """SIGKILL to the driver, and a new driver at once: workers of the old one may still run."""
        self._left += self.run.kill()
        self.run = self._new_run()

    def upgrade(self, meanwhile: Callable[[], object]) -> None:
        """Start a second run on the same local state, as for a new version of the job; the first one hands the job
        over. `meanwhile` is called again and again. Raises NoProgress if the second run does not get to work, or the
        first does not end."""
        first = self._put_aside()
        self.run = self._new_run()

        def check() -> object:
            meanwhile()
            return self._running()

        self.until(check, "the new run at work")
        self._ends_superseded(first)

    def overlap(self, *, stopped: bool) -> None:
        """Start a second run with another number of containers and its own local state, which asks for no handover.

        The first run goes on, or is `stopped` until the second one works. Raises NoProgress if it does not end because
        it was superseded."""
        first = self._put_aside()
        frozen = first.suspend() if stopped else []
        self._overlaps += 1
        self._containers = 1 if self._containers > 1 else self._most
        try:
            self.run = self._new_run("--config", "job.handover.ms=0")
            self.until(self._running, "a second run at work")
        finally:
            resume(frozen)
        self._ends_superseded(first)

    def _put_aside(self) -> JobProcess:
        self._earlier.append(self.run)
        self._left += self.run.below()
        return self.run

    def _ends_superseded(self, first: JobProcess) -> None:
        self.until(lambda: first.exit_code is not None, "the previous run has let go", LONGEST_STOP_S)
        if "has taken over" not in first.errors:
            raise NoProgress(f"the previous run ended with exit code {first.exit_code}: {first.last_words}")

    @property
    def state(self) -> Path:
        """The folder with the local stores of the newest run."""
        return self._job_file.with_name(self._state)

    def refuse(self, words: str) -> None:
        """Wait until the job has ended with an error that contains `words`; a job with nothing to commit is asked to
        stop.

        Then start it again, which must end in the same way. Raises NoProgress if the job goes on, or ends well."""
        self._end_refused(words, _SOON_S)
        self.run = self._new_run()
        self._end_refused(words, self._patience_s)

    def go_on(self, *command: str) -> None:
        """Run `samzapy COMMAND...`, then start the job again. Raises NoProgress if the command keeps failing."""
        errors = [""]

        def done() -> bool:
            ran = command_in(self._job_file.parent, command)
            errors[0] = ran.stderr.strip()
            return ran.returncode == 0

        # A process that has just ended may still hold the stores.
        until(done, lambda: f"samzapy {' '.join(command)}: {errors[0]}", LONGEST_STOP_S)
        self.run = self._new_run()

    def status(self) -> dict[str, Any] | None:
        """The job's status; None while no coordinator answers. Starts a job again that has ended. Raises JobRefused."""
        self.feeder.check()
        code = self.run.exit_code
        if code is None or self._stopping:
            return self.run.status() if code is None else None
        if code == 2 or not self._started or len(self.gave_up) >= MOST_RESTARTS:
            raise JobRefused(f"the job ended: {self.run.last_words}", code)
        self.gave_up.append(self.run.last_words)
        self.run = self._new_run()
        return None

    def epochs(self) -> set[int]:
        """The epochs of the attempts that hold the containers now."""
        status = self.status()
        return set() if status is None else {container["epoch"] for container in status["containers"]}

    def until(self, check: Callable[[], Any], what: str, timeout_s: float | None = None) -> None:
        """Wait until `check` is true, by default as long as for a recovery. Raises NoProgress with the job's status,
        JobRefused, and the feeder's failure."""
        until(check, lambda: f"{what}; {self._described()}", timeout_s or self._patience_s)

    def recovered(self) -> None:
        """Wait until every container runs and all of them together have processed what the log holds now. Raises as
        `until` does."""
        ends = self.feeder.ends
        self.until(lambda: self._caught_up(ends), f"processed up to {list(ends)}")

    def _caught_up(self, ends: tuple[int, ...]) -> bool:
        status = self._running()
        if status is None:
            return False
        self._started = True
        positions = self._positions(status)
        return len(positions) == len(ends) and all(positions[n] >= end for n, end in enumerate(ends))

    def fed(self, number: int) -> None:
        """Wait until the log holds this number of events."""

        def check() -> bool:
            self.status()
            return self.feeder.acknowledged >= number

        self.until(check, f"{number} events written")

    def stop(self) -> None:
        """Make it commit and stop. Raises NoProgress if it does not stop, or fails to commit."""
        self._stopping = True
        self.run.terminate()
        self.until(lambda: self.run.exit_code is not None, "stopped", LONGEST_STOP_S)
        if self.run.exit_code:
            raise NoProgress(f"the job stopped with exit code {self.run.exit_code}: {self.run.last_words}")
        # Workers of a killed driver must end by themselves.
        self.until(lambda: all(map(gone, self._left)), "the end of what killed drivers had started", LONGEST_STOP_S)

    def close(self) -> None:
        """End everything."""
        for run in (*self._earlier, self.run):
            run.close()
        end(self._left)

    def _new_run(self, *arguments: str) -> JobProcess:
        keys = {"job.container.count": str(self._containers), "job.logged.store.base.dir": self._state}
        more = [part for key, value in keys.items() for part in ("--config", f"{key}={value}")]
        return JobProcess(self._job_file.parent, self._job_file.name, *(more if self._overlaps else ()), *arguments)

    @property
    def _state(self) -> str:
        return f"{STATE}-{self._overlaps}" if self._overlaps else STATE

    def _running(self) -> dict[str, Any] | None:
        """The status if every container runs."""
        status = self.status()
        return status if status and all(item["phase"] == "running" for item in status["containers"]) else None

    def _end_refused(self, words: str, patience_s: float) -> None:
        run = self.run
        with suppress(NoProgress):
            until(lambda: run.exit_code is not None, "refused", patience_s)
        if run.exit_code is None:
            run.terminate()
            until(lambda: run.exit_code is not None, "the job goes on", LONGEST_STOP_S)
        if run.exit_code == 0 or words not in run.last_words:
            raise NoProgress(f"the job ended with exit code {run.exit_code}, and did not refuse: {run.last_words}")

    def _described(self) -> str:
        status = self.run.status() if self.run.exit_code is None else None
        if status is None:
            return f"the job says: {self.run.last_words}"
        phases = ", ".join(f"{c['id']} {c['state']}/{c['phase']}" for c in status["containers"])
        return f"containers {phases}; positions {self._positions(status)}; the job says: {self.run.last_words}"

    def _positions(self, status: dict[str, Any]) -> dict[int, int]:
        """Those of the input, by partition."""
        named = [item for container in status["containers"] for item in container["positions"].items()]
        split = [(*ssp.rstrip("]").rpartition("["), offset) for ssp, offset in named]
        return {int(number): offset for stream, _, number, offset in split if stream.endswith(f".{self.feeder.stream}")}
