"""A task's clock against a naive one: partitions and senders of unequal progress, silence, ends, accepted messages that
are processed later, commits, crashes, and partitions that start again before their committed offsets."""

import pytest
from histories import check_histories

from samzapy import Drain, EndOfStream, IncomingMessageEnvelope, Watermark
from samzapy import SystemStreamPartition as Ssp
from samzapy.api.checkpoint import Checkpoint
from samzapy.container.event_time.clock import EventClock
from samzapy.container.event_time.control_messages import SentControl
from samzapy.testing import ManualClock

PLAIN = [Ssp("mem", "in", 0), Ssp("mem", "in", 1)]
STAGES = [Ssp("mem", "stage", 0), Ssp("mem", "stage", 1)]
IDLE_S = 5.0
MISSING = "missing"
TIMES = range(30)


class NaiveMarks:
    """The least mark of the sources that count, else the highest; it never goes back."""

    def __init__(self, sources, marks=()):
        self.sources, self.marks, self.aside, self.current = list(sources), dict(marks), set(), None
        self.settle()

    def settle(self):
        counting = [source for source in self.sources if source not in self.aside]
        if all(source in self.marks for source in counting):
            known = [self.marks[source] for source in counting]
            found = min(known) if known else max(self.marks.values(), default=None)
            if found is not None:
                self.current = found if self.current is None else max(self.current, found)

    def advance(self, source, time):
        self.aside.discard(source)
        self.marks[source] = max(time, self.marks.get(source, time))
        self.settle()

    def set_aside(self, source):
        self.aside.add(source)
        self.settle()


class NaiveSenders:
    """All that the senders of a partition have said, evaluated anew each time."""

    def __init__(self, known, now):
        self.known = {name: dict(state) for name, state in known.items()}
        self.heard = dict.fromkeys([*known, MISSING], now)
        self.silent, self.watermark = set(), None
        self.settle()

    @property
    def missing(self):
        expected = {name.split("/")[0]: state["of"] for name, state in self.known.items()}
        return max(0, sum(expected.values()) - len(self.known)) if self.known else 1

    @property
    def ended(self):
        return bool(self.known) and not self.missing and all(state["over"] for state in self.known.values())

    @property
    def drained(self):
        return self.ended and any(state["over"] == "drain" for state in self.known.values())

    def counting(self):
        counting = [name for name, state in self.known.items() if not state["over"] and name not in self.silent]
        return counting + [MISSING] * (self.missing if MISSING not in self.silent else 0)

    @property
    def idle(self):
        return not self.counting() and not self.ended

    def settle(self):
        times = {name: state["time"] for name, state in self.known.items() if state["time"] is not None}
        counting = self.counting()
        if all(name in times for name in counting):
            found = min((times[name] for name in counting), default=max(times.values(), default=None))
            if found is not None:
                self.watermark = found if self.watermark is None else max(found, self.watermark)

    def take(self, name, of, kind, time, now):
        job = name.split("/")[0]
        before = self.known.get(name)
        for other in [each for each, state in self.known.items() if each.split("/")[0] == job and state["of"] != of]:
            del self.known[other], self.heard[other]
            self.silent.discard(other)
        times = [each for each in (before["time"] if before and before["of"] == of else None, time) if each is not None]
        over = "" if kind == "watermark" else kind
        self.known[name] = {"time": max(times, default=None), "of": of, "over": over}
        self.heard[name] = now
        self.silent.discard(name)
        self.settle()

    def go_on(self):
        for state in self.known.values():
            state["over"] = ""
        self.settle()

    def look(self, now):
        found = {name for name, at in self.heard.items() if now - at >= IDLE_S} - self.silent
        self.silent |= found
        self.settle()
        return bool(found)

    def put_off(self, now):
        self.heard.update((name, now) for name in self.heard.keys() - self.silent)


class ClockMachine:
    def __init__(self, later):
        self.later = later  # messages are accepted first and processed later, as by an asynchronous task
        self.time = ManualClock()
        self.offsets = dict.fromkeys([*PLAIN, *STAGES], 0)
        self.checkpoint, self.kept = None, None
        self.earlier, self.last_told = None, None
        self.begin({}, {}, None)

    def close(self):
        pass

    def begin(self, marks, senders, checkpoint):
        now = self.time.monotonic()
        self.clock = EventClock(self.offsets, self.time, int(IDLE_S * 1000), intermediate=STAGES, exact=True)
        self.clock.resume(checkpoint)
        self.marks, self.stages = NaiveMarks(self.offsets, marks), NaiveMarks(STAGES)
        self.senders = {ssp: NaiveSenders(senders.get(ssp, {}), now) for ssp in STAGES}
        self.heard, self.idle, self.seen = dict.fromkeys(PLAIN, now), set(), {}
        self.ended, self.over, self.closing, self.pending = set(), set(), set(), []
        for ssp in STAGES:
            self.follow(ssp)
            if self.senders[ssp].ended:
                self.over.add(ssp)

    def follow(self, ssp):
        senders = self.senders[ssp]
        for marks in (self.marks, self.stages):
            if senders.watermark is not None and ssp not in self.ended:
                marks.advance(ssp, senders.watermark)
            if senders.idle:
                marks.set_aside(ssp)

    def end(self, ssp):
        self.ended.add(ssp)
        self.marks.set_aside(ssp)
        if ssp in STAGES:
            self.stages.set_aside(ssp)

    def reach_end(self, ssp):
        """The run loop's part: the partition's end reaches the clock once its messages are processed."""
        if any(each == ssp and self.offsets[ssp] < end for each, _, end in self.pending):
            self.closing.add(ssp)
            return
        self.closing.discard(ssp)
        for run in [run for each, run, _ in self.pending if each == ssp]:
            self.count(ssp, [each.event_time for each in run])
        self.pending = [each for each in self.pending if each[0] != ssp]
        self.clock.end(ssp)
        self.end(ssp)

    def accepted_to(self, ssp):
        return max([end for each, _, end in self.pending if each == ssp], default=self.offsets[ssp])

    def open(self, ssps):
        return [ssp for ssp in ssps if ssp not in (self.ended | self.closing) - self.over]

    def messages(self, random):
        times = [random.choice([-1, *TIMES]) for _ in range(random.randint(1, 3))]
        ssps = [ssp for ssp in self.open(PLAIN) if ssp not in self.ended]
        if not ssps:
            return
        ssp = random.choice(ssps)
        first = self.accepted_to(ssp)
        run = [IncomingMessageEnvelope(ssp, first + n, None, None, event_time=time) for n, time in enumerate(times)]
        if self.later:
            self.clock.accepted(ssp, run)
            self.pending.append((ssp, run, first + len(run)))
        else:
            self.offsets[ssp] += len(run)
            self.clock.passed(ssp, run)
            self.count(ssp, times)

    def count(self, ssp, times):
        if max(times) >= 0:
            self.marks.advance(ssp, max(times))

    def process(self, random):
        if not self.pending:
            return
        ssp = random.choice(sorted({ssp for ssp, _, _ in self.pending}))
        runs = [end for each, _, end in self.pending if each == ssp]
        self.offsets[ssp] = runs[0] if runs and runs[0] > self.offsets[ssp] else max([*runs, self.offsets[ssp]])
        self.clock.done()
        # In the order of acceptance: one that is not processed holds up those after it.
        while self.pending and self.offsets[self.pending[0][0]] >= self.pending[0][2]:
            ssp, run, _ = self.pending.pop(0)
            self.count(ssp, [each.event_time for each in run])
        for ssp in sorted(self.closing):
            self.reach_end(ssp)

    def control(self, random):
        sender = random.choice(["a/0", "a/1", "b/0", "b/0"])
        kind = random.choice(["watermark", "watermark", "watermark", "end", "drain"])
        time, of = random.choice(TIMES), 1 if sender == "b/0" or random.random() < 0.2 else 2
        ssps = [] if self.pending else self.open(STAGES)  # everything before a control message is processed first
        if not ssps:
            return
        ssp = random.choice(ssps)
        if ssp in self.over:
            assert self.clock.reopens(ssp)
            self.over.discard(ssp)
            self.ended.discard(ssp)
            self.senders[ssp].go_on()
        before = self.senders[ssp].ended
        self.offsets[ssp] += 1
        message = {"watermark": Watermark(time), "end": EndOfStream(), "drain": Drain()}[kind]
        ends = self.clock.receive(ssp, SentControl(sender, of, message))
        self.senders[ssp].take(sender, of, kind, time if kind == "watermark" else None, self.time.monotonic())
        self.follow(ssp)
        assert ends == (self.senders[ssp].ended and not before)
        if ends:
            self.reach_end(ssp)

    def partition_ends(self, random):
        ssps = [ssp for ssp in self.open(PLAIN) if ssp not in self.ended]
        if ssps:
            self.reach_end(random.choice(ssps))

    def look(self, random):
        waiting = {ssp for ssp in [*PLAIN, *STAGES] if random.random() < 0.3}
        self.time.advance(random.choice([1.0, 3.0, 6.0]))
        now = self.time.monotonic()
        self.clock.check_idle(now, waiting)
        for ssp in PLAIN:
            if self.seen.get(ssp) != self.offsets[ssp] or ssp in waiting:
                self.seen[ssp], self.heard[ssp] = self.offsets[ssp], now
                self.idle.discard(ssp)
        found = {ssp for ssp in PLAIN if now - self.heard[ssp] >= IDLE_S} - self.idle
        self.idle |= found
        for ssp in self.idle if found else ():
            self.marks.set_aside(ssp)
        for ssp, senders in self.senders.items():
            if ssp in waiting:
                senders.put_off(now)
            elif senders.look(now):
                self.follow(ssp)

    def call(self, random):
        told = self.clock.take_watermark()
        current = self.stages.current
        news = current if current is not None and (self.last_told is None or current > self.last_told) else None
        assert told == news
        if news is not None:
            self.last_told = news

    def commit(self, random):
        if self.pending:
            return
        clock = self.clock
        known = {ssp: dict(states) for ssp, states in clock.senders.items()}
        self.checkpoint = Checkpoint(
            dict(self.offsets), clock=clock.time_ms, event_times=dict(clock.marks), senders=known, told=clock.told
        )
        senders = {ssp: {n: dict(s) for n, s in each.known.items()} for ssp, each in self.senders.items()}
        self.kept = dict(self.marks.marks), senders, self.time_ms, self.last_told

    def crash_and_restart(self, random):
        if self.checkpoint is None:
            return
        back = {random.choice([*PLAIN, *STAGES])} if random.random() < 0.3 else set()
        marks, senders, self.earlier, self.last_told = self.kept
        self.offsets = dict(self.checkpoint.input_offsets)
        back = {ssp for ssp in back if self.offsets[ssp] > 0}
        for ssp in back:
            self.offsets[ssp] -= 1
        self.begin(
            {ssp: mark for ssp, mark in marks.items() if ssp not in back},
            {ssp: each for ssp, each in senders.items() if ssp not in back},
            self.checkpoint,
        )
        if any(ssp in senders for ssp in back):
            # Its control messages come as for the first time, so the task hears again what follows from them.
            self.last_told = None
        for ssp in sorted(self.over):
            self.reach_end(ssp)

    @property
    def time_ms(self):
        now = self.marks.current
        return self.earlier if now is None else max(now, self.earlier or now)

    def check(self):
        clock = self.clock
        assert (clock.now, clock.time_ms) == (self.marks.current, self.time_ms)
        assert dict(clock.marks) == self.marks.marks
        assert clock.watermark == self.stages.current
        assert clock.over == self.over
        assert clock.drained == any(senders.drained for senders in self.senders.values())
        assert {ssp: set(states) for ssp, states in clock.senders.items()} == {
            ssp: set(each.known) for ssp, each in self.senders.items() if each.known
        }


STEPS = {"messages": 3, "process": 3, "control": 7, "partition_ends": 1, "look": 2, "call": 4, "commit": 3}


@pytest.mark.parametrize("later", [False, True])
def test_a_clock_agrees_with_a_naive_one_after_any_history(later):
    check_histories(lambda: ClockMachine(later), {**STEPS, "crash_and_restart": 2}, histories=500, length=40)
