"""Drives a task under test: stores, commits and crashes work as in a job, and the test controls time and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any

from samzapy.api.collector import columns_of
from samzapy.api.envelope import Headers
from samzapy.api.task import AnyTask
from samzapy.config.job import JobConfig
from samzapy.container.run_loop import RunLoop
from samzapy.container.side_inputs import POLL_MS
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import ConfigError
from samzapy.failpoints import arm, disarm
from samzapy.runner.prepare import prepare
from samzapy.testing.attempt import Attempt
from samzapy.testing.job import JobSource, Outputs, Partitions, Workbench

if TYPE_CHECKING:
    from typing_extensions import Self


class ManualClock:
    """A `samzapy.clock.Clock` that stands still until a test moves it."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        """`wall_ms`: the time of day to begin with, in milliseconds since 1970; `monotonic` begins at 0."""
        self._began_ms = wall_ms
        self._now = 0.0

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def wall_ms(self) -> int:
        """Milliseconds since 1970; moves with `monotonic`."""
        return self._began_ms + round(self._now * 1000)

    def advance(self, seconds: float) -> None:
        """Move both on. Raises ValueError for a negative time: time does not go back."""
        self.advance_to(self._now + seconds)

    def advance_to(self, monotonic: float) -> None:
        """Move both on until `monotonic()` has this value. Raises ValueError if it is greater already."""
        if monotonic < self._now:
            raise ValueError(f"the clock is at {self._now} s and cannot go back to {monotonic}")
        self._now = monotonic

    def set_wall(self, wall_ms: int) -> None:
        """Set only the time of day, in either direction, as an operator may."""
        self._began_ms = wall_ms - round(self._now * 1000)


class TaskTestDriver:
    """Runs a job's tasks in this thread, a message or a batch at a time, on streams in memory; nothing outside the test
    is touched.

        with TaskTestDriver(PageViewCountTask, config, partitions=2) as driver:
            driver.send("page-views", {"user": "ann"}, key="/home")
            assert driver.outputs("counts").messages == [{"page": "/home", "views": 1}]

    It drives a container's own parts, in the same order as in a job: caches, stores (in a folder of its own), serdes,
    commits with their numbered steps in the job's guarantee, restores. Time stands still except for `advance`: commits
    and windows come when `task.commit.ms` and `task.window.ms` have passed on `clock`, when the task asks, or when
    `commit` and `window` are called. Only the pauses of `task.error.*` retries and the waits of asynchronous tasks
    take real time. Failures after which a job starts again by itself, such as an aborted transaction, end the task
    here.

    A call raises the errors of the task, or of samzapy for it (TaskFailed, SerdeError, ConfigError, ...). The task has
    then ended without a commit, and `restart` continues from the last commit. Not thread-safe.
    """

    def __init__(
        self,
        task: type[AnyTask] | None,
        config: JobSource,
        overrides: Mapping[str, str] | None = None,
        *,
        partitions: Partitions = 1,
        clock: ManualClock | None = None,
        patience_s: float = 30.0,
    ) -> None:
        """`config`: a job file or its pairs, with `overrides` on top. `task` replaces its `task.class`; None keeps it.

        `partitions`: of each input, or by input (`{"in": 4}`; others have as many partitions as the largest of these).
        For a job with regular expressions in `task.inputs` it names the streams that match. Outputs exist when they are
        first written, as wide as the widest input. `patience_s`: seconds of CPU time in which a task must come to rest,
        and real seconds in which an asynchronous task must end one of its messages, or the call raises TimeoutError.

        Raises ConfigError with every problem, and the errors of the task's start.
        """
        self.clock = clock or ManualClock()
        self._patience_s = patience_s
        self._epochs = count(1)
        self._attempt: Attempt | None = None
        self._bench = Workbench(task, config, overrides, partitions, self.clock)
        try:
            self._prepared = prepare(self.job)
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def job(self) -> JobConfig:
        """The tested job."""
        return self._bench.job

    # Messages

    def send(
        self,
        stream: str,
        message: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Let a message arrive, and process it with all its consequences.

        `stream`: `in`, `system.in` or an id. Without `partition` the key's hash chooses, 0 without a key. `timestamp`:
        milliseconds since 1970, default the clock's. A None message is a tombstone. Raises ConfigError for a stream
        that the job does not read, SerdeError for values that its serdes do not take, and the errors of processing.
        """
        self._running()
        self.post(stream, message, key, partition=partition, timestamp=timestamp, headers=headers)
        self.run()

    def send_batch(
        self,
        stream: str,
        keys: Sequence[Any] | None,
        messages: Sequence[Any],
        *,
        partition: int | None = None,
        timestamps: Sequence[int | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Like `send`, for messages that arrive together: the messages of a partition are one batch of a BatchTask, as
        `task.batch.*` and `task.poll.batch.size` let them. Raises ValueError for columns of different lengths."""
        self._running()
        for key, message, timestamp, carried in columns_of(keys, messages, timestamps, headers):
            self.post(stream, message, key, partition=partition, timestamp=timestamp, headers=carried)
        self.run()

    def post(
        self,
        stream: str,
        message: Any,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Like `send`, but without processing before the next `run`. Allowed while the task is down."""
        streams = self._bench.streams
        streams.send(streams.input(stream), message, key, partition, timestamp, headers)

    def run(self) -> None:
        """Process all waiting messages."""
        attempt, loop = self._running()
        if any(store.source for store in self.job.stores.values()):
            # Streams that fill stores are looked at so often.
            self.clock.advance(POLL_MS / 1000)
        # Waits for messages in flight do not count here: the event loop limits them.
        began = thread_time()
        with attempt.alive():
            while not loop.stopping and loop.turn(0.0):
                self._check_patience(thread_time() - began)
            if loop.stopping:
                loop.wind_down()
        if loop.stopping:
            attempt.finish()

    def turn(self) -> bool:
        """Take one turn of the run loop, for a test that completes the callbacks of an asynchronous task itself.
        Returns whether more work is ready."""
        attempt, loop = self._running()
        with attempt.alive():
            return loop.turn(0.0)

    def outputs(self, stream: str, partition: int | None = None) -> Outputs:
        """All outputs to a stream that are not aborted, committed or not; empty for a stream without records. Partition
        by partition, in order in each."""
        return self._bench.streams.read(stream, partition, committed=False)

    def committed(self, stream: str, partition: int | None = None) -> Outputs:
        """Like `outputs`, for a reader of committed records: in exactly-once nothing before the commit."""
        return self._bench.streams.read(stream, partition, committed=True)

    # Time

    def window(self) -> None:
        """Call `window` of every task now."""
        self._call(lambda loop: loop.window())

    def commit(self) -> None:
        """Commit now every task with code that has run since its last commit."""
        self._call(lambda loop: loop.commit())

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every commit and window that comes due on the way."""
        end = self.clock.monotonic() + seconds
        _, loop = self._running()
        while not loop.stopping and loop.due_at <= end:
            self.clock.advance_to(max(loop.due_at, self.clock.monotonic()))
            self.run()
        self.clock.advance_to(max(end, self.clock.monotonic()))
        if not loop.stopping:
            self.run()

    # State

    def store(self, name: str, partition: int = 0, *, task: str | None = None) -> Any:
        """The store as the task has it, including uncommitted changes; a put of the test counts as the task's change.

        The task is the reader of `partition`, or has the given name. Ends with the task. Raises ConfigError.
        """
        self._bench.streams.store(name)
        result = self._instance(partition, task)
        result.touched = True
        return result.seen_stores[name]

    def changelog(self, name: str, partition: int | None = None) -> Outputs:
        """The committed records of a store's changelog, as they were written (nothing is compacted): a commit writes
        one a changed key. A deletion's message is None. Nothing for a store without a changelog. Raises ConfigError."""
        return self._bench.streams.changelog(name, partition)

    def task(self, partition: int = 0, *, task: str | None = None) -> AnyTask:
        """The task object itself, found as in `store`."""
        return self._instance(partition, task).task

    # Ends and beginnings

    @property
    def running(self) -> bool:
        """Whether the task runs. False after a crash, a failure, a stop, and a shutdown that the task has
        requested."""
        return self._attempt is not None and self._attempt.running

    def crash(self, at: str | None = None, during: Callable[[], object] | None = None, nth: int = 1) -> None:
        """End as a SIGKILL would, now or at a fail point (`samzapy.failpoints`): no task is closed, no transaction is
        aborted, and only the contents of the disk at that instant are left.

        `at`: `commit.1` to `commit.7` (after that step of a commit), `start.1` to `start.7`, `restore.batch`, ...; the
        `nth` passing counts. `during`: the call that makes it pass there; by default a commit for `commit.*`, a start
        after a crash for the others. Raises RuntimeError if the task did not pass there; it then keeps running.
        """
        if at is None:
            self._running()[0].crash()
            return
        arm(at, nth, lambda point: self._newest.die(point))  # noqa: PLW0108  # the newest at that moment
        try:
            (during or (self.commit if at.startswith("commit.") else self._start_after_crash))()
        except BaseException:
            if not self._newest.died:
                raise
            return
        finally:
            disarm(at)
        raise RuntimeError(
            f"fail point {at!r} was not reached: no such step in {self.job.task.guarantee.value}, "
            "or nothing to do there"
        )

    def restart(self) -> None:
        """Start the task again from its last commit, and process the waiting messages; stops a running task first."""
        if self.running:
            self.stop()
        self._start()

    def stop(self) -> None:
        """Stop as a job does on request: finish the messages in flight, commit everything, close the task."""
        attempt, loop = self._running()
        with attempt.alive():
            loop.wind_down()
        attempt.finish()

    def close(self) -> None:
        """End the test: release everything and remove the files, without a commit. Closing twice is allowed."""
        if self.running:
            self._newest.give_up()
        self._bench.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._attempt = Attempt(self._prepared, next(self._epochs), self.clock, self._bench.state, self._patience_s)
        self._loop = self._attempt.start()
        self.run()

    def _start_after_crash(self) -> None:
        if self.running:
            self.crash()
        self._start()

    def _call(self, what: Callable[[RunLoop], None]) -> None:
        attempt, loop = self._running()
        with attempt.alive():
            what(loop)
        self.run()

    @property
    def _newest(self) -> Attempt:
        assert self._attempt is not None
        return self._attempt

    def _running(self) -> tuple[Attempt, RunLoop]:
        if not self.running:
            raise RuntimeError("the task does not run: it has crashed, failed or stopped; restart() starts it again")
        return self._newest, self._loop

    def _instance(self, partition: int, name: str | None) -> TaskInstance:
        tasks = self._running()[0].tasks
        if name is not None:
            result = [task for task in tasks if task.name == name]
        else:
            everybodys = self.job.task.broadcast_inputs
            result = [task for task in tasks if any(p.partition == partition for p in task.offsets.keys() - everybodys)]
        if len(result) != 1:
            known = ", ".join(task.name for task in tasks)
            value, key = (str(partition), "partition") if name is None else (name, "task")
            raise ConfigError.of(key, value, f"is {len(result)} tasks; name one of: {known}")
        return result[0]

    def _check_patience(self, worked_s: float) -> None:
        if worked_s > self._patience_s:
            busy = ", ".join(f"{task.name} after {task.processed} messages" for task in self._newest.tasks)
            raise TimeoutError(f"the task does not come to rest within {self._patience_s:g} s of CPU time: {busy}")
