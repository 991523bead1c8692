"""Two containers of three tasks on the memory system against a naive evaluation: own and broadcast partitions, unequal
progress, two senders of watermarks, stops within a poll, crashes at every step, successors, tasks that change places,
one of two inputs that is reset or made anew. In each guarantee: what was lost, what came twice, what is in the
stores."""

import json
import logging
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from histories import check_histories

from samzapy import InitableTask, OutgoingMessageEnvelope, RequestScope, StreamTask, SystemStream, Watermark
from samzapy import SystemStreamPartition as Ssp
from samzapy.admin.positions import write_startpoints
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.api.task import WatermarkListenerTask
from samzapy.container.event_time.control_messages import SentControl, encode
from samzapy.container.outputs.producers import transactional_id
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.job.planner import ContainerModel
from samzapy.runner.prepare import prepare
from samzapy.system.local.streams import take_over
from samzapy.testing import ManualClock
from samzapy.testing.attempt import Attempt, TestedSystemFactory
from samzapy.testing.job import Workbench

OUT = SystemStream("mem", "out")
LEFT, RIGHT, ALL, STAGE = "left", "right", "all", "stage"
PARTITIONS = range(3)
KEYS = [b"a", b"b", b"c", None]
SENDERS = ["first/0", "first/1"]
POINTS = ["commit.1", "commit.2", "commit.3", "commit.4", "commit.5a", "commit.5", "commit.6", "commit.7", "ahead.1"]
STARTS = ["start.2", "start.3", "start.5", "start.6", "start.7"]


class SeeingTask(StreamTask, InitableTask, WatermarkListenerTask):
    """Keeps the places of the messages of each key, sends each on, and does what a message says."""

    def init(self, context):
        self.name = context.task.task_name
        self.seen = context.get_store("seen")

    def process(self, envelope, collector, coordinator):
        message = envelope.message
        place = [envelope.ssp.stream, envelope.ssp.partition, envelope.offset]
        key = message["key"]
        self.seen.put(key, [*(self.seen.get(key) or []), place])
        collector.send(OutgoingMessageEnvelope(OUT, {"place": place, "task": self.name}, key=envelope.key))
        if message["do"] == "fail":
            raise ValueError("told to")
        if message["do"] == "stop":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)

    def on_watermark(self, time_ms, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(OUT, {"watermark": time_ms, "task": self.name}, key="w"))


JOB = {
    "job.name": "seeing",
    "job.container.count": "2",
    "task.inputs": "mem.left,mem.right,mem.stage",
    "task.broadcast.inputs": "mem.all#[0-1]",
    "task.commit.ms": "800000",
    "task.transaction.timeout.ms": "900000",
    "task.watermark.idle.timeout.ms": "10000",
    "task.error.process.policy": "dead-letter",
    "task.dead.letter.stream": "mem.dead",
    "systems.mem.default.stream.samza.key.serde": "string",
    "systems.mem.default.stream.samza.msg.serde": "json",
    "systems.mem.default.stream.samza.offset.default": "oldest",
    "systems.mem.streams.stage.samza.intermediate": "true",
    "stores.seen.factory": "inmemory",
    "stores.seen.key.serde": "string",
    "stores.seen.msg.serde": "json",
    "stores.seen.changelog": "mem.seen-changelog",
}


class ContainerMachine:
    def __init__(self, guarantee, engine):
        self.guarantee, self.clock, self.epochs = guarantee, ManualClock(), count(1)
        keys = {**JOB, "task.guarantee": guarantee, "stores.seen.factory": engine}
        if guarantee == "at-most-once":
            keys["task.poll.batch.size"] = "1"  # polls that end before the position of a task that is ahead
        self.bench = Workbench(SeeingTask, keys, {}, {"left": 3, "right": 3, "stage": 3, "all": 2}, self.clock)
        self.settings = self.bench.job.systems["mem"]
        self.cluster = TestedSystemFactory().log(self.settings).cluster
        self.admin = self.cluster.admin("mem")
        self.admin.grow("dead", 4)
        self.producer = TestedSystemFactory().producer(self.settings, "test")
        self.posted = {}  # by partition, the message at each offset; None for a control message
        self.again = Counter()  # the messages that are processed once more, because their input was reset
        self.round, self.marks, self.crashed = 1_000, {}, False
        self.layout, self.containers = [PARTITIONS[:2], PARTITIONS[2:]], {}
        self.current = None

    def close(self):
        for name in ("commit.1", *POINTS, *STARTS):
            disarm(name)
        for attempt, _ in self.containers.values():
            attempt.give_up()
        self.bench.close()

    # Messages

    def post(self, random):
        """Messages of one to three rounds of event time in every partition, in any order, and the senders'
        watermarks."""
        for _ in range(random.randint(1, 3)):
            self.round += 1
            ssps = [(stream, partition) for stream in (LEFT, RIGHT) for partition in PARTITIONS]
            ssps += [(ALL, partition) for partition in (0, 1)]
            random.shuffle(ssps)
            for stream, partition in ssps:
                key = random.choice(KEYS)
                does = random.choices(["", "fail", "stop" if stream != LEFT else ""], [80, 8, 4])[0]
                self._append(stream, partition, key, {"key": str(key), "do": does}, self.round)
            for sender in random.sample(SENDERS, random.randint(0, 2)):
                for partition in PARTITIONS:
                    self._control(partition, sender)

    def _append(self, stream, partition, key, message, time):
        value = json.dumps(message).encode()
        self.producer.send([OutgoingRecord(stream, key, value, partition, timestamp=time)])
        self.posted.setdefault((stream, partition), []).append(message)

    def _control(self, partition, sender):
        key, value, headers = encode(SentControl(sender, 2, Watermark(self.round)))
        self.producer.send([OutgoingRecord(STAGE, key, value, partition, None, headers)])
        self.marks[sender] = self.round

    # Containers

    def _start_all(self, **overrides):
        """A new run, with the tasks where the layout has them."""
        self.stop_all(None)
        self.prepared = prepare(self._with(overrides) if overrides else self.bench.job)
        for number in (0, 1):
            self._start(number)

    def _with(self, overrides):
        streams = dict(self.bench.job.streams)
        for stream in overrides["reset"]:
            streams[stream] = replace(self.bench.job.stream(stream), reset_offset=True)
        return replace(self.bench.job, streams=streams)

    def _start(self, number):
        wanted = {f"Partition {partition}" for partition in self.layout[number]}
        model = ContainerModel(str(number), tuple(t for t in self.prepared.model.tasks if t.name in wanted))
        attempt = Attempt(self.prepared, next(self.epochs), self.clock, Path("/nowhere"), 30.0, model)
        self.current = attempt
        self.containers[number] = attempt, attempt.start()

    def _alive(self, random=None):
        if not self.containers:
            self._start_all()
        return sorted(self.containers)

    def turn(self, random):
        number = random.choice(self._alive())
        self._turns(number, random.randint(1, 6))

    def _turn(self, number):
        attempt, loop = self.containers[number]
        self.current = attempt
        with attempt.alive():
            busy = loop.turn(0.0)
        if loop.stopping:
            with attempt.alive():
                loop.wind_down()
            attempt.finish()
            del self.containers[number]
        return busy

    def commit(self, random):
        self._commit(random.choice(self._alive()))

    def _commit(self, number):
        attempt, loop = self.containers[number]
        self.current = attempt
        with attempt.alive():
            loop.commit()

    def crash(self, random):
        number = random.choice(self._alive())
        self._crash(number)
        return f"container {number}"

    def _crash(self, number):
        self.containers.pop(number)[0].crash()
        self._abort(number)

    def _abort(self, number):
        """The broker ends the transaction of a container that has died, as it does after the time-out."""
        self.crashed = True
        database = self.cluster.database
        with database.write():
            take_over(database, transactional_id(self.bench.job.job_name, str(number)), 60_000)

    def crash_at(self, random):
        """Crash where a commit, a poll or a start comes by."""
        number, point = random.choice(self._alive()), random.choice([*POINTS, *POINTS, *STARTS])
        arm(point, random.randint(1, 2), self._die)
        try:
            if point in STARTS:
                self._crash(number)
                self._start(number)
            else:
                self._turns(number, 4)
                if number in self.containers:
                    self._commit(number)
        except FailPointReached:
            self.containers.pop(number, None)
            self._abort(number)
        finally:
            disarm(point)
        return f"container {number} at {point}"

    def _die(self, point):
        self.current.die(point)

    def succeed(self, random):
        """Another attempt of each container that has gone."""
        self._alive()
        for number in {0, 1} - self.containers.keys():
            self._start(number)

    def move(self, random):
        """A new run with other tasks in each container."""
        tasks = random.sample(PARTITIONS, 3)
        cut = random.choice([1, 2])
        self.layout = [tasks[:cut], tasks[cut:]]
        if random.random() < 0.5:
            for number in list(self.containers):
                self._crash(number)
        self._start_all()
        return str(self.layout)

    def overtake(self, random):
        """One container goes ahead, the tasks change places, and a container goes on for a few polls and dies."""
        self.post(random)
        self._turns(random.choice(self._alive()), 12)
        self.move(random)
        number = random.choice(self._alive())
        self._turns(number, random.randint(1, 5))
        if number in self.containers:
            self._crash(number)

    def _turns(self, number, times):
        for _ in range(times):
            if number in self.containers:
                self._turn(number)

    def stop_all(self, random):
        for number in sorted(self.containers):
            attempt, loop = self.containers.pop(number)
            with attempt.alive():
                loop.wind_down()
            attempt.finish()

    # What must hold

    def settle(self, random):
        """Process and commit everything, and compare."""
        self._alive()
        self._drain(random)
        self._compare()

    def _drain(self, random):
        for _ in range(1_000):
            self.succeed(random)
            busy = [self._turn(number) for number in sorted(self.containers)]
            if not any(busy) and len(self.containers) == 2:
                break
        for number in (0, 1):
            self._commit(number)

    def _expected(self, task):
        """By partition that the task reads, the offsets of its messages, as often as they are to be processed."""
        own = [(stream, task) for stream in (LEFT, RIGHT)] + [(ALL, 0), (ALL, 1)]
        for ssp in own:
            messages = self.posted.get(ssp, [])
            wanted = [offset for offset in range(len(messages)) for _ in range(1 + self.again[(*ssp, offset)])]
            yield (
                ssp,
                [offset for offset in wanted if messages[offset]["do"] != "fail"],
                [offset for offset in wanted if messages[offset]["do"] == "fail"],
            )

    def _compare(self):
        states = {
            task.name: task.seen_stores["seen"] for attempt, _ in self.containers.values() for task in attempt.tasks
        }
        sent, letters = self._sent(), self._letters()
        for partition in PARTITIONS:
            name = f"Partition {partition}"
            kept = [place for key in KEYS for place in states[name].get(str(key)) or []]
            for ssp, good, bad in self._expected(partition):
                in_state = [offset for *of, offset in kept if tuple(of) == ssp]
                self._judge(f"{name}: the store about {ssp}", in_state, good, exact=True)
                self._judge(f"{name}: the outputs about {ssp}", sent.get((name, *ssp), []), good)
                self._judge(f"{name}: the letters about {ssp}", letters.get((name, *ssp), []), bad)
            self._judge_watermarks(name, sent.get((name, "watermark"), []))

    def _judge(self, what, found, wanted, exact=False):
        if self.guarantee == "effectively-once" and not exact:
            wanted = set(wanted)  # what is processed once more has its ids of the first time
        found, wanted = sorted(found), sorted(wanted)
        if self.guarantee == "at-most-once" and self.crashed:
            twice = Counter(found) - Counter(wanted)
            assert not twice, f"{what}: {sorted(twice)} twice"
        elif exact or self.guarantee != "at-least-once":
            assert found == wanted, what
        else:
            lost = Counter(wanted) - Counter(found)
            assert not lost, f"{what}: {sorted(lost)} lost"

    def _judge_watermarks(self, name, found):
        expected = min(self.marks.values()) if len(self.marks) == 2 else None
        if expected is not None and not (self.crashed and self.guarantee == "at-most-once"):
            assert max(found, default=None) == expected, f"{name}: the watermark {expected} was not told: {found}"
        if self.guarantee == "exactly-once":
            assert found == sorted(set(found)), f"{name}: {found}"

    def _records(self, stream):
        """What a reader gets; with ids, each id once, and always from the same partition."""
        seen = {}
        if (description := self.admin.describe(stream)) is None:
            return
        for partition in range(description.partitions):
            batch = self._committed(Ssp("mem", stream, partition))
            for value, headers in batch:
                ids = [held for name, held in headers or () if name == "samzapy-id"]
                if ids:
                    assert seen.setdefault(ids[0], partition) == partition, f"{ids[0]} went to two partitions"
                    if (ids[0], "read") in seen:
                        continue
                    seen[ids[0], "read"] = True
                yield value, dict(headers or ())

    def _committed(self, ssp):
        for batch in self.cluster.batches(ssp):
            yield from zip(batch.values, batch.headers or [None] * len(batch.values), strict=True)

    def _sent(self):
        found = {}
        for value, _ in self._records("out"):
            data = json.loads(value)
            if "watermark" in data:
                found.setdefault((data["task"], "watermark"), []).append(data["watermark"])
            else:
                stream, partition, offset = data["place"]
                found.setdefault((data["task"], stream, partition), []).append(offset)
        return found

    def _letters(self):
        found = {}
        for _, headers in self._records("dead"):
            about = {
                name: headers[f"samzapy-error-{name}"].decode() for name in ("task", "topic", "partition", "offset")
            }
            place = about["task"], about["topic"], int(about["partition"])
            found.setdefault(place, []).append(int(about["offset"]))
        return found

    def reset_one(self, random):
        """One of the two inputs begins at its oldest record again, once everything is committed."""
        self.settle(random)
        self._start_all(reset=[SystemStream("mem", LEFT)])
        for partition in PARTITIONS:
            self.again.update(
                (LEFT, partition, offset) for offset in range(len(self.posted.get((LEFT, partition), [])))
            )
        self.settle(random)
        self._start_all()

    def check(self):
        """Nothing: `settle` compares."""


STEPS = {"post": 3, "turn": 6, "commit": 2, "crash": 1, "crash_at": 3, "succeed": 2, "move": 1, "settle": 1}


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, "samzapy")


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "effectively-once", "exactly-once"])
def test_two_containers_agree_with_a_naive_evaluation(guarantee):
    others, histories = ({"overtake": 4}, 8) if guarantee == "at-most-once" else ({"reset_one": 1}, 16)
    check_histories(lambda: ContainerMachine(guarantee, "inmemory"), {**STEPS, **others}, histories, length=30)


@pytest.fixture
def stopped():
    """A machine that has stopped with everything committed."""
    machine, random = ContainerMachine("exactly-once", "rocksdb"), Random(0)
    for _ in range(3):
        machine.post(random)
    machine.settle(random)
    machine.stop_all(random)
    yield machine
    machine.close()


def test_state_is_not_begun_anew_because_one_of_two_inputs_is(stopped):
    stopped.admin.delete("seen-changelog")
    with pytest.raises(SamzapyError, match="seen-changelog"):
        stopped._start_all(reset=[SystemStream("mem", LEFT)])


def test_a_startpoint_that_is_passed_over_hides_no_input_made_anew(stopped):
    stopped.admin.delete(LEFT)
    stopped.admin.create(StreamSpec(LEFT, 3))
    stopped._append(LEFT, 0, b"a", {"key": "a", "do": ""}, 1)
    write_startpoints(stopped.bench.job, stopped.prepared.model, "999", (), clock=stopped.clock)
    with pytest.raises(EnvironmentFailure, match="deleted and created again"):
        stopped._start_all()
