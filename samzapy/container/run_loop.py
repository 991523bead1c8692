"""The run loop: poll a batch, process it in slices, and between slices look at the clock and at requests.

A slice is as many messages of one partition as a task has lately processed in about 50 ms, so timers and stop
requests are seen in time whatever a message costs, and cheap messages pay for them once in thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import WindowableTask
from samzapy.clock import Clock
from samzapy.container.commit.boundaries import BoundedCommits
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.event_time.control_messages import ControlRun
from samzapy.container.inputs.inputs import Inputs, Messages
from samzapy.container.schedule import Schedule
from samzapy.container.tasks.task_instance import TaskInstance

_SLICE_SECONDS = 0.05
_MIN_SLICE = 1
#: What a slice sends waits in memory until its end: more than this no longer stays in the processor's cache.
_MAX_SLICE = 256
#: How long the loop waits for anything without looking at what else there is.
MAX_WAIT_S = 0.1


def _never() -> None:
    """Nobody drains the job."""


@dataclass(frozen=True)
class LoopControl:
    """What a run loop looks at: `should_stop` between slices (it may raise to end the attempt without a commit), and
    between polls `drain_to`, which says where the inputs end once the job is to be drained, None until then."""

    should_stop: Callable[[], bool]
    drain_to: Callable[[], Mapping[SystemStreamPartition, int] | None] = _never


class RunLoop:
    """Runs the tasks of one container on the calling thread until it is told to stop, all tasks have voted, or all
    inputs have ended; to be drained is to have them end where they end then."""

    def __init__(
        self,
        tasks: Sequence[TaskInstance],
        inputs: Inputs,
        committer: CommitProtocol,
        control: LoopControl,
        clock: Clock,
        *,
        window_ms: int,
        commit_ms: int,
    ) -> None:
        now = clock.monotonic()
        self._tasks = tasks
        self._inputs = inputs
        self._commits = BoundedCommits(committer, inputs.boundaries, tasks)
        self._side = inputs.side
        self._should_stop = control.should_stop
        self._drain_to = control.drain_to
        self._draining = False
        self._clock = clock
        self._by_ssp: dict[SystemStreamPartition, list[TaskInstance]] = {}
        for task in tasks:
            for ssp in task.offsets:
                self._by_ssp.setdefault(ssp, []).append(task)
        self._open: Mapping[str, set[SystemStreamPartition]] = {task.name: set(task.offsets) for task in tasks}
        self._windowed = [task for task in tasks if isinstance(task.task, WindowableTask)]
        self._timed = [task for task in tasks if task.timers.can_fire]
        self._following = [task for task in tasks if task.event_clock.intermediate]
        self._window = Schedule(window_ms if self._windowed else 0, now)
        self._commit = Schedule(commit_ms, now)
        self._idle = Schedule(min((task.event_clock.look_ms for task in tasks), default=0), now)
        self._slice = 100
        self._stopping = False

    def run(self) -> None:
        """Process until the end. The caller makes the final commit."""
        self._end_streams()
        while not self._may_stop():
            self.turn()
        self.wind_down()

    def turn(self, longest_wait_s: float = MAX_WAIT_S) -> bool:
        """Once around: what is due by the clock, then what a poll brings; whether there is more to do right now.

        A poll waits `longest_wait_s` at the most. For `run`, and for those who move the clock themselves.
        """
        self._timers()
        self._look_for_drain()
        found = False
        # Not by a name of its own: what was processed is to be gone before the next is polled.
        for ssp, envelopes in self._poll(longest_wait_s):
            found = True
            for task in self._by_ssp[ssp]:
                if not self.stopped:
                    self._process(task, ssp, envelopes)
        if not self._stopping:
            self._end_streams()
        self._commits.catch_up()
        return found

    @property
    def stopped(self) -> bool:
        """Whether the tasks, or the ends of their inputs, have ended the loop, and a commit may stand here."""
        return self._stopping and self._commits.possible

    @property
    def due_at(self) -> float:
        """When the next window, commit or wall-clock timer is due, on the monotonic clock; infinity for never."""
        due_at = min(self._window.due_at, self._commit.due_at)
        for task in self._timed:
            due_at = min(due_at, self._clock.monotonic() + task.timers.wait_s())
        return due_at

    def window(self) -> None:
        """Call `window` of every task that has one, now."""
        for task in self._windowed:
            self._call_window(task)

    def commit(self) -> None:
        """Commit every task whose code has run, now: the state of all of them is one transaction."""
        self._commits.commit()

    def wind_down(self) -> None:
        """After the last turn: wait for what the tasks have begun."""

    def _look_for_drain(self) -> None:
        if not self._draining and (ends := self._drain_to()) is not None:
            self._draining = True
            self._inputs.end_at(ends)

    def _poll(self, longest_wait_s: float) -> list[Messages]:
        polled = self._inputs.poll(min(self._wait(), longest_wait_s))
        if polled:
            self._commits.before({ssp: envelopes[-1].offset + 1 for ssp, envelopes in polled})
        return polled

    def _process(
        self, task: TaskInstance, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]
    ) -> None:
        if task.event_clock.intermediate and self._hear(task, ssp, envelopes):
            return
        if envelopes[0].offset < task.offsets[ssp]:
            # A broadcast partition is read from the position of the task that is furthest behind.
            envelopes = [envelope for envelope in envelopes if envelope.offset >= task.offsets[ssp]]
        done, total, timers = 0, len(envelopes), task.timers
        timers.begin(ssp, envelopes)
        while done < total:
            started = self._clock.monotonic()
            part = envelopes if total <= self._slice and not done else envelopes[done : done + self._slice]
            part = timers.until_due(part)
            processed = task.process(ssp, part)
            done += processed
            task.collector.hand_over()
            took = self._clock.monotonic() - started
            self._resize(processed, took)
            if task.requests.pending:
                self._obey(task)
            self._fire(task)
            if task.over_budget():
                self.commit()
            if done < total:
                self._timers()
            if self._may_stop():
                self._stopping = True
                return

    def _may_stop(self) -> bool:
        """Whether the loop is to end, and a commit may stand here."""
        return (self._stopping or self._should_stop()) and self._commits.possible

    def _hear(self, task: TaskInstance, ssp: SystemStreamPartition, run: Sequence[IncomingMessageEnvelope]) -> bool:
        """Take a control message for the task's clock; False for messages, which are to be processed."""
        if task.event_clock.reopens(ssp):
            self._inputs.go_on(ssp)
        if not isinstance(run, ControlRun):
            return False
        if run[0].offset >= task.offsets[ssp]:
            task.skip(ssp, run[0].offset)
            before = task.event_clock.now
            if task.event_clock.take(ssp, run.control):
                self._inputs.finish(ssp)
            self._follow(task, moved=task.event_clock.now != before)
        return True

    def _follow(self, task: TaskInstance, *, moved: bool) -> None:
        """Tell a task how far its clock has come: `on_clock` if it has `moved`, then due timers, then `on_watermark`."""
        if moved:
            task.tell_time()
            self._after_call(task)
        self._fire(task)
        time_ms = task.event_clock.take_watermark()
        if time_ms is not None and not self._stopping:
            task.watermark(time_ms)
            self._after_call(task)

    def _resize(self, processed: int, took: float) -> None:
        if took > 2 * _SLICE_SECONDS:
            self._slice = max(_MIN_SLICE, int(processed * _SLICE_SECONDS / took))
        elif took < _SLICE_SECONDS / 2 and processed >= self._slice:
            self._slice = min(2 * self._slice, _MAX_SLICE)

    def _timers(self) -> None:
        now = self._clock.monotonic()
        if self._side is not None:
            self._side.follow(now)
        if now >= self._idle.due_at and self._idle.due(now):
            for task in self._tasks:
                if task.event_clock.look_for_idle(now):
                    self._follow(task, moved=True)
        if now >= self._window.due_at and self._window.due(now):
            self.window()
        for task in self._following:
            self._follow(task, moved=False)
        for task in self._timed:
            self._fire(task)
        if now >= self._commit.due_at and self._commit.due(now):
            self.commit()

    def _fire(self, task: TaskInstance) -> None:
        """Fire what is due, in the order of time, and what that makes due."""
        while not self._stopping and task.timers.is_due():
            fired = 0
            for timer in task.timers.take_due():
                fired += 1
                task.fire(timer)
                if task.requests.pending:
                    self._after_call(task)
                if self._stopping:
                    return
            task.collector.hand_over()
            if not fired or self._should_stop():
                return
            if task.over_budget():
                self.commit()

    def _call_window(self, task: TaskInstance) -> None:
        task.window()
        self._after_call(task)

    def _wait(self) -> float:
        until = self.due_at - self._clock.monotonic()
        return min(max(until, 0.0), MAX_WAIT_S)

    def _after_call(self, task: TaskInstance) -> None:
        task.collector.hand_over()
        if task.requests.pending:
            self._obey(task)

    def _obey(self, task: TaskInstance) -> None:
        """Commits first, then shutdowns, as the coordinator's contract says."""
        requests = task.requests
        if requests.commit_asked:
            self.commit()
        requests.done()
        if requests.shutdown_all or all(each.requests.shutdown_vote for each in self._tasks):
            self._stopping = True

    def _end_streams(self) -> None:
        for ssp in self._inputs.take_ended():
            for task in self._by_ssp[ssp]:
                left = self._open[task.name]
                left.discard(ssp)
                self._follow(task, moved=task.event_clock.end(ssp))
                if not left:
                    self._tell_of_end(task)
        if self._tasks and not any(self._open.values()):
            self._stopping = True

    def _tell_of_end(self, task: TaskInstance) -> None:
        if self._draining or task.event_clock.drained:
            task.drain()
        else:
            task.end_of_stream()
        self._after_call(task)
