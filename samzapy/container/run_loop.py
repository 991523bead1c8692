"""The run loop of a container: polls messages for a `TaskExecutor`, and acts on what the executor says has happened.

One turn:

1. check for idle partitions, then the agenda: side inputs, windows, timers, commits; the agenda is checked between the
   executor's steps as well
2. end the inputs where they end now, if the job is being drained
3. poll, and pass the messages to the executor; after each of its steps do what the task has requested
4. end the partitions whose messages are all processed, and call tasks without a partition left

The calls go one way: the loop passes messages in, and the executor yields a `Step` after each piece of work. The loop
alone acts on a step: requests of the task, timers, commits, the stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from math import inf
from operator import attrgetter
from typing import NamedTuple

from samzapy.api.stream import SystemStreamPartition, grouped
from samzapy.api.task import WindowableTask
from samzapy.clock import Clock, Schedule
from samzapy.container.commit_protocol import AtMostOnce, CommitProtocol
from samzapy.container.event_time.clock import TaskTimers
from samzapy.container.event_time.control_messages import SentControl
from samzapy.container.inputs.inputs import NOTHING, Inputs, Polled, Run
from samzapy.container.side_inputs import SideInputs
from samzapy.container.tasks.task_instance import TaskInstance

_offset = attrgetter("offset")

#: The longest wait for anything, in seconds; then the loop checks the clock and requests.
MAX_WAIT_S = 0.1
#: The longest time between two checks of the agenda while the messages of a poll are processed, in seconds.
_MAX_CHECK_S = 0.05
#: A wall clock that has left the monotonic one by more milliseconds was set.
_SET_MS = 10


Delivery = tuple[TaskInstance, SystemStreamPartition, Run]


class Step(NamedTuple):
    """Some code of the task has run: it may have outputs, requests and due timers.

    `moved`: messages have moved its clock, and `on_clock` was not called for that. `control`: the control message that
    the task has come to; all messages before it are processed.
    """

    task: TaskInstance
    moved: bool = False
    control: tuple[SystemStreamPartition, SentControl] | None = None


class Load(NamedTuple):
    """The accepted messages of an executor.

    `full`: it takes no more now. `idle`: all are processed, or wait until `due_at` (monotonic). `busy`: there is more
    to do right now. `held`: the partitions whose tasks have enough.
    """

    full: bool = False
    idle: bool = True
    busy: bool = False
    due_at: float = inf
    held: frozenset[SystemStreamPartition] = frozenset()


class Quiet(Enum):
    """What a wait for messages in flight makes possible."""

    CALL = auto()
    """Another call into the task: no message has started and not ended, or was overtaken."""
    CHANGE = auto()
    """A change of the task's stores: the failure of no message would undo it."""
    COMMIT = auto()
    """A commit without gaps."""


class TaskExecutor(ABC):
    """Processes the messages of a container's tasks: one at a time, in batches, or with several in flight."""

    @abstractmethod
    def process(
        self, deliveries: Iterable[Delivery], ended: Collection[SystemStreamPartition]
    ) -> Generator[Step, None, None]:
        """Process the messages, or accept them for later calls, and go on with accepted ones. Nothing more comes of the
        partitions that have `ended`. A caller that closes the generator leaves the rest to the next start."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """The messages that it has accepted."""

    @abstractmethod
    def settle(self, quiet: Quiet, task: TaskInstance | None = None, *, stopping: bool) -> str:
        """Wait for messages in flight, of the task or of all. `stopping`: the loop ends, so only messages that must end
        are waited for. Returns the tasks that prevent a commit for too long, else nothing."""

    @abstractmethod
    def close(self) -> None:
        """Give up the messages in flight."""


class LoopControl(NamedTuple):
    """What a run loop asks its container, and its periods.

    `should_stop`, asked between steps: whether to commit and stop. It raises to end the attempt without a commit.
    `should_drain`, asked between polls: whether to end the inputs at their `heads`, the ends of their partitions now.
    `window_ms`, `commit_ms`: milliseconds between calls of `window`, and between commits; zero or less: never.
    """

    should_stop: Callable[[], bool]
    should_drain: Callable[[], bool]
    heads: Callable[[], Mapping[SystemStreamPartition, int]]
    window_ms: int
    commit_ms: int


class RunLoop:
    """Runs the tasks of one container on the calling thread until a stop is requested, all tasks have voted for one, or
    all inputs have ended. A drain ends the inputs at their present ends."""

    def __init__(
        self,
        tasks: Sequence[TaskInstance],
        inputs: Inputs,
        executor: TaskExecutor,
        *,
        side: SideInputs,
        committer: CommitProtocol,
        control: LoopControl,
        clock: Clock,
    ) -> None:
        now = clock.monotonic()
        self._tasks = tasks
        self.inputs = inputs
        self.side = side
        self._executor = executor
        self.committer = committer
        self._should_stop, self._should_drain, self._heads = control[:3]
        self._clock = clock
        self._draining = False
        self._readers = grouped((ssp, task) for task in tasks for ssp in task.offsets)
        #: The partitions of each task that have not ended.
        self._open: dict[str, set[SystemStreamPartition]] = {task.name: set(task.offsets) for task in tasks}
        self._windowed = [task for task in tasks if isinstance(task.task, WindowableTask)]
        self._timed = [task for task in tasks if task.timers or task.event_clock.intermediate]
        self._window = Schedule(control.window_ms if self._windowed else 0, now)
        self._commit = Schedule(control.commit_ms, now)
        #: By task, the monotonic time of its next timer, while the wall clock is so far ahead of the monotonic one.
        self._timers, self._ahead_ms = dict[str, float](), -inf
        for task in self._timed:
            self._await_timers(task)
        self._idle = Schedule(min((task.event_clock.check_ms for task in tasks), default=0), now)
        #: What is due, in this order; without a schedule at each check.
        self._agenda: list[tuple[Schedule | None, Callable[[], object]]] = [
            *([(None, side.poll)] if side.follows else []),
            (self._window, self.window),
            (None, self._advance_clocks),
            (self._commit, self.commit),
        ]
        #: The monotonic time of the next check of the agenda between steps.
        self._check_at = now
        #: The offsets after the last polled messages. A task that has not reached its offset has unprocessed messages.
        self._polled: dict[SystemStreamPartition, int] = {}
        #: The monotonic time of the last poll that had room for more, and the time up to which silence counts: a
        #: partition is not silent while polls are full of others, or while the loop processes messages and does not
        #: poll.
        self._room_at, self._silent_until = now, inf
        self._ending: set[SystemStreamPartition] = set()
        self._announced: set[str] = set()
        self._positions_wanted = False
        #: The positions of the consumers when there was nothing to process: past records that are not messages.
        self.caught_up: Mapping[SystemStreamPartition, int] = {}
        #: Whether the tasks, the ends of their inputs or a request have ended the loop.
        self.stopping = False

    def run(self) -> None:
        """Process until the end. The caller makes the final commit."""
        self._ending |= self.inputs.take_ended()
        self._end_partitions([*self._tasks])
        while not (self.stopping or self._should_stop()):
            self.turn()
        self.wind_down()

    def turn(self, longest_wait_s: float = MAX_WAIT_S) -> bool:
        """Run the steps above once; returns whether there is more to do right now.

        A poll waits at most `longest_wait_s`. Called by `run`, and by tests that move the clock themselves.
        """
        self._check_idle()
        self._check_agenda()
        self._check_drain()
        polled = self._poll(longest_wait_s)
        steps = self._executor.process(self._deliveries(polled), self._ending)
        for step in steps:
            self._handle(step)
            if self.stopping:
                break
        steps.close()
        self._ending |= self.inputs.take_ended()
        if self._ending and not self.stopping:
            self._end_partitions([])
        return bool(polled.ends) or self._executor.load.busy

    @property
    def due_at(self) -> float:
        """The monotonic time of the next window, commit, timer or gathered batch; infinity for never."""
        timer = min(self._timers.values(), default=inf)
        return min(self._window.due_at, self._commit.due_at, timer, self._executor.load.due_at)

    def window(self) -> None:
        """Call `window` of every task that has one, now."""
        for task in self._windowed:
            self._settle(Quiet.CALL, task)
            task.window()
            self._after_call(task)

    def commit(self) -> None:
        """Commit now every task that has run user code. The state of all of them is one transaction."""
        if busy := self._settle(Quiet.COMMIT):
            self.committer.leave_out(f"messages are in flight for longer than task.commit.max.delay.ms: {busy}")
        else:
            self.committer.commit(self._tasks)

    def wind_down(self) -> None:
        """Wait for the messages in flight; called after the last turn."""
        self.stopping = True
        self._settle(Quiet.CALL)

    def close(self) -> None:
        """Give up the messages that are in flight, before the tasks are closed."""
        self._executor.close()

    def request_positions(self) -> None:
        """Request an update of `caught_up` for the next time there is nothing to process; from any thread."""
        self._positions_wanted = True

    def _settle(self, quiet: Quiet, task: TaskInstance | None = None) -> str:
        return self._executor.settle(quiet, task, stopping=self.stopping)

    # Messages

    def _poll(self, longest_wait_s: float) -> Polled:
        load = self._executor.load
        if load.full:
            return NOTHING
        self.inputs.hold(load.held)
        until_due_s = max(self.due_at - self._clock.monotonic(), 0.0)
        polled = self.inputs.poll(min(until_due_s, longest_wait_s) if load.idle else 0.0)
        if polled.full:
            self._silent_until = self._room_at
        else:
            self._room_at = self._clock.monotonic()
            self._silent_until = self._room_at if polled.ends else inf
        if polled.ends:
            self._polled.update(polled.ends)
            if isinstance(self.committer, AtMostOnce):
                self.committer.write_ahead(self._tasks, polled.ends)
        elif self._positions_wanted and load.idle and load.due_at == inf:
            self._positions_wanted = False
            self.caught_up = {ssp: self.inputs.position(ssp) for ssp in self._readers}
        self._ending |= self.inputs.take_ended()
        return polled

    def _deliveries(self, polled: Polled) -> Iterator[Delivery]:
        """The messages of a poll for each task that reads their partition, decoded as they are taken."""
        for ssp, run in polled.runs:
            for task in self._readers[ssp]:
                if task.event_clock.reopens(ssp):
                    self.inputs.go_on(ssp)
                    self._ending.discard(ssp)
                if run[0].offset >= task.offsets[ssp]:
                    yield task, ssp, run
                # A broadcast partition is read from the position of the task that is furthest behind.
                elif rest := run[bisect_left(run, task.offsets[ssp], key=_offset) :]:
                    yield task, ssp, rest
            del run  # processed messages are freed before the next ones are decoded

    def _handle(self, step: Step) -> None:
        """Do what a step of the executor has made necessary."""
        task = step.task
        if task.requests.pending:
            self._handle_requests(task)
        if step.control is not None:
            self._handle_control(task, *step.control)
        else:
            self._advance_clock(task, moved=step.moved)
        if task.over_budget():
            self.commit()
        if self._clock.monotonic() >= self._check_at:
            self._check_agenda()
        self.stopping |= self._should_stop()

    def _handle_control(self, task: TaskInstance, ssp: SystemStreamPartition, control: SentControl) -> None:
        before = task.event_clock.now
        if task.event_clock.receive(ssp, control):
            self.inputs.finish(ssp)
        self._advance_clock(task, moved=task.event_clock.now != before)

    def _after_call(self, task: TaskInstance) -> None:
        """Hand over the outputs of a call into the task, and carry out its requests."""
        task.collector.hand_over()
        self._await_timers(task)
        if task.requests.pending:
            self._handle_requests(task)

    def _handle_requests(self, task: TaskInstance) -> None:
        """Commits first, then shutdowns, as the coordinator's contract says."""
        requests = task.requests
        if requests.commit_asked:
            self.commit()
        requests.done()
        self.stopping |= requests.shutdown_all or all(item.requests.shutdown_vote for item in self._tasks)

    # Time

    def _check_agenda(self) -> None:
        now = self._clock.monotonic()
        for schedule, action in self._agenda:
            if schedule is None or schedule.due(now):
                action()
        self._check_at = min(now + _MAX_CHECK_S, self._window.due_at, self._commit.due_at)

    def _check_idle(self) -> None:
        now = self._clock.monotonic()
        if not self._idle.due(now):
            return
        held_back, polled = self.inputs.held_back(), self._polled
        for task in self._tasks:
            waiting = {ssp for ssp, at in task.offsets.items() if at < polled.get(ssp, at)}
            moved = task.event_clock.check_idle(min(now, self._silent_until), waiting | held_back)
            # The watermark may move without the clock.
            if moved or task.event_clock.intermediate:
                self._advance_clock(task, moved=moved)

    def _advance_clocks(self) -> None:
        now = self._clock.monotonic()
        ahead_ms = self._clock.wall_ms() - now * 1000
        if was_set := abs(ahead_ms - self._ahead_ms) > _SET_MS:
            self._ahead_ms = ahead_ms
        for task in [task for task in self._timed if was_set or self._timers.get(task.name, inf) <= now]:
            self._advance_clock(task, moved=False)

    def _advance_clock(self, task: TaskInstance, *, moved: bool) -> None:
        """Follow a task's clock: `on_clock` if it has `moved`, then due timers, then `on_watermark`."""
        if moved and task.listens:
            self._settle(Quiet.CHANGE, task)
            task.on_clock()
            self._after_call(task)
        if task.timers is not None:
            self._fire_timers(task, task.timers)
        # A stop leaves the watermark to the next start, which fires the remaining timers before it.
        if not self.stopping and (time_ms := task.event_clock.take_watermark()) is not None:
            self._settle(Quiet.CHANGE, task)
            task.watermark(time_ms)
            self._after_call(task)
        self._await_timers(task)

    def _await_timers(self, task: TaskInstance) -> None:
        if task.timers is not None:
            self._timers[task.name] = self._clock.monotonic() + task.timers.wait_s()

    def _fire_timers(self, task: TaskInstance, timers: TaskTimers) -> None:
        """Fire the due timers in order of time, including timers that become due meanwhile."""
        if not timers.is_due():
            return
        self._settle(Quiet.CALL, task)
        while not self.stopping:
            fired = 0
            for timer in timers.take_due():
                fired += 1
                task.fire(timer)
                if task.requests.pending:
                    self._after_call(task)
                if self.stopping:
                    return
                if self._commit.due(self._clock.monotonic()):
                    task.collector.hand_over()
                    self.commit()
            task.collector.hand_over()
            if not fired or self._should_stop() or not timers.is_due():
                return
            if task.over_budget():
                self.commit()

    # Ends

    def _check_drain(self) -> None:
        if not self._draining and self._should_drain():
            self._draining = True
            self.inputs.end_at(self._heads())

    def _end_partitions(self, over: list[TaskInstance]) -> None:
        """End the partitions whose polled messages are all processed; call their tasks, and `over`, if none is left."""
        for ssp in sorted(self._ending):
            readers = [task for task in self._readers[ssp] if ssp in self._open[task.name]]
            done = [task for task in readers if task.offsets[ssp] >= self._polled.get(ssp, 0)]
            for task in done:
                self._open[task.name].discard(ssp)
                self._advance_clock(task, moved=task.event_clock.end(ssp))
                if task.follows_partitions:
                    self._settle(Quiet.CALL, task)
                    task.partition_end(ssp)
                    self._after_call(task)
            if len(done) == len(readers):
                self._ending.discard(ssp)
            over += done
        for task in over:
            if not self._open[task.name] and task.name not in self._announced:
                self._announced.add(task.name)
                self._announce_end(task)
        self.stopping |= 0 < len(self._announced) == len(self._tasks)

    def _announce_end(self, task: TaskInstance) -> None:
        if self._draining or task.event_clock.drained:
            task.drain()
        else:
            task.end_of_stream()
        self._after_call(task)
