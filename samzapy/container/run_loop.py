"""The run loop of a container: polls messages for a `TaskExecutor`, and does the work that the clock and the tasks ask for.

One turn:

1. look at the clock: side inputs, idle partitions, windows, timers, the commit that is due; repeat this between
   messages when something is due
2. end the inputs where they end now, if the job is being drained
3. poll, and give each task the messages of its partitions
4. let the executor go on with messages in flight
5. tell tasks that all their partitions have ended
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import WindowableTask
from samzapy.clock import Clock, Schedule
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.inputs.inputs import Inputs, Messages
from samzapy.container.side_inputs import NoSideInputs
from samzapy.container.tasks.task_instance import TaskInstance

_offset = attrgetter("offset")

#: The longest wait for anything, in seconds; then the loop looks at the clock and at requests.
MAX_WAIT_S = 0.1
#: The longest time between two looks at the clock while the messages of a poll are processed, in seconds.
_MAX_LOOK_S = 0.05


def _no_drain() -> None:
    """The default of `LoopControl.drain_to`: the job is never drained."""


@dataclass(frozen=True)
class LoopControl:
    """The questions that a run loop asks its container.

    1. `should_stop`, between slices: whether to commit and stop. It raises to end the attempt without a commit.
    2. `drain_to`, between polls: the offsets where the inputs end once the job is drained, None until then.
    """

    should_stop: Callable[[], bool]
    drain_to: Callable[[], Mapping[SystemStreamPartition, int] | None] = _no_drain


@dataclass(frozen=True)
class LoopPeriods:
    """Milliseconds between calls of `window`, and between commits. Zero or less: never."""

    window_ms: int
    commit_ms: int


class TaskExecutor(ABC):
    """Processes the messages of a run loop's tasks: one at a time, or with several in flight.

    The loop polls, looks at the clock, commits and obeys the tasks' requests. It passes itself to the calls that may have to
    do one of these in between.
    """

    #: Whether messages of earlier turns may still end after a stop.
    lingers: bool

    @abstractmethod
    def wants_input(self, loop: RunLoop) -> bool:
        """Whether to poll in this turn."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether everything that was polled is processed, or waits until `due_at`."""

    @property
    def due_at(self) -> float:
        """The monotonic time when accepted messages must be processed; infinity for never."""
        return inf

    @abstractmethod
    def process(
        self,
        loop: RunLoop,
        task: TaskInstance,
        ssp: SystemStreamPartition,
        envelopes: Sequence[IncomingMessageEnvelope],
    ) -> None:
        """Process messages of one partition, or accept them for the turns to come."""

    @abstractmethod
    def skip(self, task: TaskInstance, ssp: SystemStreamPartition, offset: int) -> None:
        """Move the position past a record that is not a message of the user."""

    @abstractmethod
    def advance(self, loop: RunLoop) -> bool:
        """Continue with accepted messages; returns whether there is more to do right now."""

    @abstractmethod
    def finish(self, loop: RunLoop, task: TaskInstance) -> bool:
        """Process the accepted messages of a task; False if the loop must stop before that is done."""

    @abstractmethod
    def settle(self, loop: RunLoop, task: TaskInstance) -> None:
        """Wait until the task has no message in flight."""

    @abstractmethod
    def leave_nothing_to_undo(self, loop: RunLoop, task: TaskInstance) -> None:
        """Wait until the failure of no message would undo what the task does to its stores from now on."""

    @abstractmethod
    def busy_for_commit(self, loop: RunLoop) -> str:
        """Wait until a commit has no gaps; returns the tasks that prevent it for too long, empty for none."""

    @abstractmethod
    def partition_ended(self, loop: RunLoop, task: TaskInstance, ssp: SystemStreamPartition) -> None:
        """The partition no longer holds the task's clock back, once its polled messages are processed."""

    @abstractmethod
    def is_done(self, loop: RunLoop, task: TaskInstance) -> bool:
        """Whether a task without open partitions has processed everything."""

    @abstractmethod
    def wind_down(self, loop: RunLoop) -> None:
        """Wait until no message is in flight; called after the last turn."""

    @abstractmethod
    def close(self) -> None:
        """Give up the messages that are in flight."""


class RunLoop:
    """Runs the tasks of one container on the calling thread until a stop is requested, all tasks have voted for one, or all
    inputs have ended. A drain ends the inputs at their present ends."""

    def __init__(
        self,
        tasks: Sequence[TaskInstance],
        inputs: Inputs,
        side: NoSideInputs,
        committer: CommitProtocol,
        control: LoopControl,
        clock: Clock,
        periods: LoopPeriods,
        executor: TaskExecutor,
    ) -> None:
        now = clock.monotonic()
        self.tasks = tasks
        self.inputs = inputs
        self._executor = executor
        self._committer = committer
        self._side = side
        self.should_stop = control.should_stop
        self._drain_to = control.drain_to
        self._draining = False
        self.clock = clock
        self._by_ssp: dict[SystemStreamPartition, list[TaskInstance]] = {}
        for task in tasks:
            for ssp in task.offsets:
                self._by_ssp.setdefault(ssp, []).append(task)
        self._open: Mapping[str, set[SystemStreamPartition]] = {task.name: set(task.offsets) for task in tasks}
        self._windowed = [task for task in tasks if isinstance(task.task, WindowableTask)]
        self._timed = [task for task in tasks if task.timers.can_fire]
        self._following = [task for task in tasks if task.event_clock.intermediate]
        self._window = Schedule(periods.window_ms if self._windowed else 0, now)
        self._commit = Schedule(periods.commit_ms, now)
        self._idle = Schedule(min((task.event_clock.look_ms for task in tasks), default=0), now)
        #: The monotonic time of the next look at the clock between the messages of a poll.
        self._look_at = now
        #: The offsets after the last polled messages. A task that has not reached its offset has unprocessed messages.
        self._polled: dict[SystemStreamPartition, int] = {}
        #: The time of the last poll if it has returned messages, else infinity. Silence after it does not count, since
        #: the loop has not polled again.
        self._asked_until = inf
        self._announced_ends: set[str] = set()
        self._asked_where = False
        #: The positions of the consumers when there was nothing to process: past records that are not messages.
        self.caught_up: Mapping[SystemStreamPartition, int] = {}
        self.stopping = False

    def run(self) -> None:
        """Process until the end. The caller makes the final commit."""
        self._end_streams()
        while not self.stop_asked:
            self.turn()
        self.wind_down()

    def turn(self, longest_wait_s: float = MAX_WAIT_S) -> bool:
        """Run the steps above once; returns whether there is more to do right now.

        A poll waits at most `longest_wait_s`. Called by `run`, and by tests that move the clock themselves.
        """
        executor = self._executor
        self.look_at_clock()
        self._look_for_drain()
        found = False
        for ssp, envelopes in self._poll(longest_wait_s):
            found = True
            if self.stopping:
                break
            for task in self._by_ssp[ssp]:
                if not self.stopping:
                    self._take(task, ssp, envelopes)
            del envelopes  # processed messages are freed before the next ones are decoded
        busy = executor.advance(self)
        if executor.lingers or not self.stopping:
            self._end_streams()
        return found or busy

    @property
    def due_at(self) -> float:
        """The monotonic time of the next window, commit, wall-clock timer or gathered batch; infinity for never."""
        due_at = min(self._window.due_at, self._commit.due_at, self._executor.due_at)
        for task in self._timed:
            due_at = min(due_at, self.clock.monotonic() + task.timers.wait_s())
        return due_at

    def window(self) -> None:
        """Call `window` of every task that has one, now."""
        for task in self._windowed:
            self._call_window(task)

    def commit(self) -> None:
        """Commit now every task that has run user code. The state of all of them is one transaction."""
        busy = self._executor.busy_for_commit(self)
        if busy:
            self._committer.leave_out(f"messages are in flight for longer than task.commit.max.delay.ms: {busy}")
        else:
            self._committer.commit(self.tasks)

    def wind_down(self) -> None:
        """Wait for the messages in flight; called after the last turn."""
        self._executor.wind_down(self)

    def close(self) -> None:
        """Give up the messages that are in flight, before the tasks are closed."""
        self._executor.close()

    def _look_for_drain(self) -> None:
        if not self._draining and (ends := self._drain_to()) is not None:
            self._draining = True
            self.inputs.end_at(ends)

    def _poll(self, longest_wait_s: float) -> Iterable[Messages]:
        executor = self._executor
        if not executor.wants_input(self):
            return ()
        ends, runs = self.inputs.poll(min(self.wait_s(), longest_wait_s) if executor.idle else 0.0)
        self._asked_until = self.clock.monotonic() if ends else inf
        if ends:
            self._polled.update(ends)
            self._committer.before(self.tasks, ends)
        elif self._asked_where and executor.idle and executor.due_at == inf:
            self._asked_where = False
            self.caught_up = {ssp: self.inputs.position(ssp) for ssp in self._by_ssp}
        return runs

    def ask_where(self) -> None:
        """Request an update of `caught_up` for the next time there is nothing to process; from any thread."""
        self._asked_where = True

    def _take(
        self, task: TaskInstance, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]
    ) -> None:
        if task.event_clock.intermediate and self._hear(task, ssp, envelopes):
            return
        if envelopes[0].offset < task.offsets[ssp]:
            # A broadcast partition is read from the position of the task that is furthest behind.
            envelopes = envelopes[bisect_left(envelopes, task.offsets[ssp], key=_offset) :]
        self._executor.process(self, task, ssp, envelopes)

    @property
    def stop_asked(self) -> bool:
        """Whether the loop must end."""
        return self.stopping or self.should_stop()

    def _hear(self, task: TaskInstance, ssp: SystemStreamPartition, run: Sequence[IncomingMessageEnvelope]) -> bool:
        """Take a control message for the task's clock; False for messages of the user."""
        # A control message applies to everything before it, so those messages are processed first.
        if isinstance(run, ControlRun) and not self._executor.finish(self, task):
            return True
        if task.event_clock.reopens(ssp):
            self.inputs.go_on(ssp)
        if not isinstance(run, ControlRun):
            return False
        if run[0].offset >= task.offsets[ssp]:
            self._executor.skip(task, ssp, run[0].offset)
            before = task.event_clock.now
            if task.event_clock.take(ssp, run.control):
                self.inputs.finish(ssp)
            self.follow(task, moved=task.event_clock.now != before)
            self.look_between_runs(self.clock.monotonic())
        return True

    def follow(self, task: TaskInstance, *, moved: bool) -> None:
        """Follow a task's clock: `on_clock` if it has `moved`, then due timers, then `on_watermark`."""
        if moved and task.listens:
            self._executor.leave_nothing_to_undo(self, task)
            task.tell_time()
            self.after_call(task)
        self.fire(task)
        # A stop leaves the watermark to the next start, which fires the remaining timers before it.
        if not self.stopping and (time_ms := task.event_clock.take_watermark()) is not None:
            self._executor.leave_nothing_to_undo(self, task)
            task.watermark(time_ms)
            self.after_call(task)

    def look_between_runs(self, now: float) -> None:
        """Look at the clock if anything may be due at the monotonic time `now`. This costs one comparison for each run
        of a poll. Without it a commit would wait for the whole poll, however long the messages of many partitions
        take."""
        if now >= self._look_at:
            self.look_at_clock(amid_poll=True)

    def look_at_clock(self, *, amid_poll: bool = False) -> None:
        """Do everything that is due: side inputs, idle partitions, windows, timers, the commit. `amid_poll`: some
        polled messages may not be processed yet, so no partition counts as idle."""
        now = self.clock.monotonic()
        self._side.follow(now)
        if not amid_poll and now >= self._idle.due_at and self._idle.due(now):
            self._look_for_idle(min(now, self._asked_until))
        if now >= self._window.due_at and self._window.due(now):
            self.window()
        for task in self._following:
            self.follow(task, moved=False)
        for task in self._timed:
            self.fire(task)
        if now >= self._commit.due_at and self._commit.due(now):
            self.commit()
        # Not the timers: to ask all of many tasks costs more than a look every `_MAX_LOOK_S`.
        self._look_at = min(now + _MAX_LOOK_S, self._window.due_at, self._commit.due_at)

    def _look_for_idle(self, now: float) -> None:
        held_back, polled = self.inputs.held_back(), self._polled
        for task in self.tasks:
            waiting = {ssp for ssp, at in task.offsets.items() if at < polled.get(ssp, at)}
            if task.event_clock.look_for_idle(now, waiting | held_back):
                self.follow(task, moved=True)

    def fire(self, task: TaskInstance) -> None:
        """Fire the due timers in order of time, including timers that become due meanwhile."""
        if not task.timers.is_due():
            return
        self._executor.settle(self, task)
        while not self.stopping and task.timers.is_due():
            fired = 0
            for timer in task.timers.take_due():
                fired += 1
                task.fire(timer)
                if task.requests.pending:
                    self.after_call(task)
                if self.stopping:
                    return
                if self._commit.due(self.clock.monotonic()):
                    task.collector.hand_over()
                    self.commit()
            task.collector.hand_over()
            if not fired or self.should_stop():
                return
            if task.over_budget():
                self.commit()

    def _call_window(self, task: TaskInstance) -> None:
        self._executor.settle(self, task)
        task.window()
        self.after_call(task)

    def wait_s(self) -> float:
        """The seconds that the loop may wait without a look at the clock."""
        until = self.due_at - self.clock.monotonic()
        return min(max(until, 0.0), MAX_WAIT_S)

    def after_call(self, task: TaskInstance) -> None:
        """Hand over the outputs of a call into the task, and carry out its requests."""
        task.collector.hand_over()
        if task.requests.pending:
            self.obey(task)

    def obey(self, task: TaskInstance) -> None:
        """Commits first, then shutdowns, as the coordinator's contract says."""
        requests = task.requests
        if requests.commit_asked:
            self.commit()
        requests.done()
        if requests.shutdown_all or all(each.requests.shutdown_vote for each in self.tasks):
            self.stopping = True

    def _end_streams(self) -> None:
        executor = self._executor
        for ssp in self.inputs.take_ended():
            for task in self._by_ssp[ssp]:
                self._open[task.name].discard(ssp)
                executor.partition_ended(self, task, ssp)
        for task in self.tasks:
            announced, name = self._announced_ends, task.name
            if not self._open[name] and name not in announced and executor.is_done(self, task):
                announced.add(name)
                self._announce_end(task)
        if self.tasks and len(self._announced_ends) == len(self.tasks):
            self.stopping = True

    def _announce_end(self, task: TaskInstance) -> None:
        if self._draining or task.event_clock.drained:
            task.drain()
        else:
            task.end_of_stream()
        self.after_call(task)
