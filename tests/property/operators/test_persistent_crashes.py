"""Any disorder of event times, any crash: every persistent state is the fold of its inputs, each once."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from jobs.kept_states import KeptStates

from samzapy import (
    ContainerContext,
    Context,
    IncomingMessageEnvelope,
    JobContext,
    OutgoingMessageEnvelope,
    SystemStream,
    SystemStreamPartition,
)
from samzapy.api.checkpoint import Checkpoint
from samzapy.container.event_time.clock import EventClock
from samzapy.container.tasks.context import ContainerTaskContext, KeptStateCheckpoints
from samzapy.coordinator.clocks import Clocks, KeptClocks
from samzapy.job.lease import TaskProgress
from samzapy.metrics import Registry
from samzapy.operators.persistent import Distinct, NonWindowState, PersistentTask, Sum, WindowState
from samzapy.operators.persistent.task import next_time
from samzapy.testing import ManualClock

INTERVAL = 8
OUT = SystemStream("m", "out")


class IdsTask(PersistentTask):
    """Keeps the ids of its messages, so that one that is missing or there twice is seen; `state` is made by `make`."""

    def __init__(self, make):
        self._make = make
        self.cuts = []

    def persistent_state(self):
        return self._make()

    def process_message(self, state, message):
        item = (message.ssp.partition, message.offset)
        state.update(message.event_time, item if isinstance(state.value, set) else bit(item))
        self.collector.send(OutgoingMessageEnvelope(OUT, (message.ssp.partition, message.offset)))

    def on_checkpoint(self, time_ms, state, collector):
        self.cuts.append((time_ms, state.cut))


def bit(item):
    return 1 << (16 * item[0] + item[1])


@dataclass
class Outputs:
    """A collector with a transaction."""

    open: list = field(default_factory=list)
    committed: list = field(default_factory=list)

    def send(self, envelope):
        self.open.append(envelope.message)


class TaskRig:
    """One task of a container: its log, what is durable of it, and the attempt that runs."""

    def __init__(self, name, log, make, job_clock):
        self.name, self.log, self.make, self.job_clock = name, log, make, job_clock
        self.store, self.outputs = KeptStates(), Outputs()
        self.committed = self.checkpoint = None
        self.start()

    def start(self):
        self.offsets = dict(self.committed or dict.fromkeys(self.log, 0))
        self.outputs.open.clear()
        self.kept = KeptStateCheckpoints(
            self.name,
            self.store,
            INTERVAL,
            self.job_clock,
            self.offsets,
            ManualClock(0),
            committed=self.committed is not None,
            reset=False,
        )
        self.clock = EventClock(self.offsets, ManualClock(0), exact=True)
        self.task = IdsTask(self.make)
        context = ContainerTaskContext(self.name, {}, self.offsets, Registry(), 1, checkpoints=self.kept)
        self.task.init(Context(JobContext("j", "1", {}), ContainerContext("0", Registry()), context))
        context.seal()
        self.clock.resume(self.checkpoint)
        self.replayed = context.replayed
        self.kept.started()
        if self.committed is None:
            self.commit()

    def process(self, ssp, count):
        at = self.offsets[ssp]
        batch = [
            IncomingMessageEnvelope(ssp, at + n, None, None, event_time=time)
            for n, time in enumerate(self.log[ssp][at : at + count])
        ]
        for envelope in batch:
            self.task.process(envelope, self.outputs, None)
        self.offsets[ssp] += len(batch)
        if self.clock.passed(ssp, batch):
            self.task.on_clock(self.clock.reading, self.outputs, None)

    def commit(self, crash=""):
        """In the order of a container; ends where the crash is."""
        self.kept.take(self.task, self.clock.reading, self.outputs)
        self.check_cuts()
        if crash == "before":
            return self.start()
        self.committed = {ssp: max(offset, self.replayed.get(ssp, 0)) for ssp, offset in self.offsets.items()}
        self.checkpoint = Checkpoint(self.committed, clock=self.clock.time_ms, event_times=self.clock.marks)
        self.outputs.committed += self.outputs.open
        self.outputs.open.clear()
        if crash == "after":
            return self.start()
        return self.kept.keep()

    def check_cuts(self):
        """Each cut is exactly the messages before its offsets that are older than its time."""
        for time_ms, cut in self.task.cuts:
            if isinstance(cut, set):
                assert cut == {item for item in self.seen() if self.log[self.ssp(item)][item[1]] < time_ms}
        self.task.cuts.clear()

    def seen(self):
        return {(ssp.partition, offset) for ssp, upto in self.offsets.items() for offset in range(upto)}

    def ssp(self, item):
        return SystemStreamPartition("m", "in", item[0])

    def progress(self):
        times, is_open = self.kept.kept
        return TaskProgress(self.clock.now, "", False, times, is_open)


times = st.lists(st.integers(-1, 100) | st.integers(900, 1000), max_size=12)
actions = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 1), st.sampled_from(["1", "3", "commit", "before", "after", "crash", "job"])
    ),
    max_size=40,
)


def run_job(logs, made, plan, check):
    """Two tasks of two partitions each, over `plan`, then to the ends of their inputs."""
    clocks = Clocks(["a", "b"], KeptClocks(), 1e9, ManualClock(0))
    partitions = [SystemStreamPartition("m", "in", number) for number in range(4)]
    rigs = [
        TaskRig(name, dict(zip(own, logs[at : at + 2], strict=True)), made, lambda: clocks.kept)
        for name, own, at in (("a", partitions[:2], 0), ("b", partitions[2:], 2))
    ]
    for which, part, action in [*plan, *[(t, p, "3") for t in (0, 1) for p in (0, 1) for _ in range(5)]]:
        rig = rigs[which]
        if action.isdecimal():
            rig.process(list(rig.log)[part], int(action))
        elif action == "commit":
            rig.commit()
        elif action == "crash":
            rig.start()
        elif action == "job":
            for each in rigs:
                each.start()
                # Nobody recovers past the time that all of them have.
                assert clocks.kept is None or each.kept.kept[0][-1] <= clocks.kept
        else:
            rig.commit(crash=action)
        clocks.update({each.name: each.progress() for each in rigs})
        clocks.keep(clocks.checkpoint)
    for rig in rigs:
        rig.commit()
        assert rig.seen() == {(s.partition, n) for s, log in rig.log.items() for n in range(len(log))}
        assert sorted(rig.outputs.committed) == sorted(rig.seen())
        check(rig)


@settings(max_examples=60)
@given(logs=st.lists(times, min_size=4, max_size=4), plan=actions)
def test_a_state_is_the_fold_of_all_inputs_and_each_output_is_committed_once(logs, plan):
    run_job(logs, lambda: NonWindowState(Distinct()), plan, check_fold)


def check_fold(rig):
    assert rig.task.state.value == rig.seen()


@settings(max_examples=60)
@given(
    logs=st.lists(times, min_size=4, max_size=4),
    plan=actions,
    sizes=st.sampled_from([(24, 24), (24, 8), (30, 12)]),
    monoid=st.sampled_from([Distinct, Sum]),
)
def test_a_window_holds_every_message_in_it(logs, plan, sizes, monoid):
    def check(rig):
        window = rig.task.state.window
        inside = {i for i in rig.seen() if window and window[0] <= rig.log[rig.ssp(i)][i[1]] < window[1]}
        assert rig.task.state.value == (inside if monoid is Distinct else sum(map(bit, inside)))

    run_job(logs, lambda: WindowState(monoid(), *sizes), plan, check)


@given(last=st.integers(0, 200), clock=st.integers(0, 1_000), interval=st.integers(1, 9))
def test_the_next_time_is_the_roundest_multiple_that_was_passed(last, clock, interval):
    last -= last % interval
    passed = [multiple for multiple in range(1, clock // interval + 1) if multiple * interval > last]
    expected = max(passed, key=lambda multiple: multiple & -multiple) * interval if passed else None
    assert next_time(last, clock, interval) == expected


@given(steps=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=60), min_size=2, max_size=3))
def test_tasks_that_pass_different_times_meet_within_twice_the_longest_gap(steps):
    taken = []
    for gaps in steps:
        last, clock, times = 0, 0, {0}
        for gap in gaps:
            clock += gap
            while (time := next_time(last, clock, 1)) is not None:
                times.add(time)
                last = time
        taken.append((clock, times))
    reached = min(clock for clock, _ in taken)
    longest = max(gap for gaps in steps for gap in gaps)
    common = max(set.intersection(*(times for _, times in taken)) & set(range(reached + 1)))
    assert reached - common <= 2 * longest
