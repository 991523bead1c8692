"""The messages of an asynchronous task, whatever the order in which they end, fail and decode, against what must hold
of a list of them: keys in order, no gap below the position, outputs in the order of the input, and no memory kept of
the past."""

import logging

import pytest
from histories import check_histories

from samzapy import AsyncStreamTask, IncomingMessageEnvelope, OutgoingMessageEnvelope, SystemStream
from samzapy import SystemStreamPartition as Ssp
from samzapy.config.error_policy import Action, ErrorConfig, ErrorPolicy, Stage
from samzapy.config.task import AsyncConfig
from samzapy.container.errors.recovery import Recovery, TolerantCollector, UndoJournal
from samzapy.container.errors.user_failures import HandledFailures
from samzapy.container.event_time.clock import EventClock
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import Outbox
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.run_loop import Quiet
from samzapy.container.tasks.asynchronous import AsyncMessages
from samzapy.container.tasks.in_flight import EventLoop
from samzapy.container.tasks.synchronous import SECONDS
from samzapy.container.tasks.task_instance import TaskInstance, TaskStart, UserSide
from samzapy.errors import SerdeError
from samzapy.metrics import Registry
from samzapy.testing import ManualClock

OUT, ASTRAY = SystemStream("mem", "out"), SystemStream("mem", "astray")
PARTITIONS = [Ssp("mem", "left", 0), Ssp("mem", "right", 0)]
RETRIES = 2
#: An output takes 200 bytes and its own; so much may be held before no new message starts.
MOST_HELD = 600
ERRORS = ErrorConfig(
    dict.fromkeys(Stage, ErrorPolicy(Action.SKIP, RETRIES, 1_000)) | {Stage.PRODUCE: ErrorPolicy()}, None
)


class ManualEvents(EventLoop):
    """The loop with the time of the test's clock."""

    clock = ManualClock()

    def time(self):
        return self.clock.monotonic()


EVENTS = ManualEvents()


class Message:
    """One message of the model: its key, whether it does not decode, and what became of it."""

    def __init__(self, ssp, offset, key, *, skipped):
        self.ssp, self.offset, self.key, self.skipped = ssp, offset, key, skipped
        self.starts, self.flying, self.done, self.outputs = 0, None, skipped, 0

    @property
    def place(self):
        return self.ssp, self.offset


class CallbackTask(AsyncStreamTask):
    """Leaves every message to the machine."""

    def __init__(self, machine):
        self.machine = machine

    def process_async(self, envelope, collector, coordinator, callback):
        self.machine.started(envelope, collector, callback)


def serdes(stream):
    if stream == ASTRAY:
        raise ValueError("no such system")
    return None, None


class AsyncMachine:
    def __init__(self, *, ids, concurrency, key_order):
        self.ids, self.concurrency, self.key_order = ids, concurrency, key_order
        self.clock = EVENTS.clock = ManualClock()
        self.outbox, metrics = Outbox(), Registry()
        recovery = Recovery("Partition 0", ERRORS, metrics, lambda _: None, self.clock, None, HandledFailures())
        collector = TolerantCollector(serdes, lambda _: None, lambda *_: [], self.outbox, recovery)
        offsets = dict.fromkeys(PARTITIONS, 0)
        self.task = TaskInstance(
            "Partition 0",
            UserSide(CallbackTask(self), collector),
            None,
            TaskStart(offsets),
            EventClock(offsets, self.clock),
        )
        self.messages = AsyncMessages(
            self.task,
            collector,
            UndoJournal(),
            EVENTS,
            AsyncConfig(concurrency, key_order=key_order),
            metrics.histogram("process", "seconds", SECONDS),
            ids=OutputIds(("job", "1"), "Partition 0", (), str) if ids else None,
            most_held_bytes=MOST_HELD,
        )
        self.known = {ssp: [] for ssp in PARTITIONS}
        self.ended, self.wrong = [], []

    def close(self):
        self.messages.close()

    # The task's side

    def started(self, envelope, collector, callback):
        message = self.known[envelope.ssp][envelope.offset]
        if self.key_order and message.key is not None:
            same = [each for each in self.all() if each.key == message.key and each is not message and not each.done]
            if any(each.flying or each.starts for each in same):
                self.wrong.append(f"{message.place} starts while another of its key is not done")
            earlier = [each for each in same if each.ssp == message.ssp and each.offset < message.offset]
            if not message.starts and earlier:
                self.wrong.append(f"{message.place} starts before an earlier one of its key")
        held = [each for each in self.ended if each.offset >= self.task.offsets[each.ssp]]
        size = sum(200 + 200 * each.outputs for each in held if each.outputs)
        if self.ids and size >= MOST_HELD and not (message.starts or (self.key_order and message.key)):
            self.wrong.append(f"{message.place} starts although {size} bytes are held")
        message.starts += 1
        message.flying, message.collector = callback, collector
        for number in range(message.outputs):
            collector.send(
                OutgoingMessageEnvelope(OUT, b"%d:%d" % (message.offset, number), message.ssp.stream.encode())
            )
        if len(self.flying()) > self.concurrency:
            self.wrong.append(f"{message.place} is one too many")

    def all(self):
        return [message for messages in self.known.values() for message in messages]

    def flying(self):
        return [message for message in self.all() if message.flying]

    # Steps

    def accept(self, random):
        ssp = random.choice(PARTITIONS)
        for _ in range(random.randint(1, 4)):
            key, bad = random.choice([b"a", b"a", b"a", b"b", None]), random.random() < 0.3
            message = Message(ssp, len(self.known[ssp]), key, skipped=bad)
            message.outputs = 0 if bad else random.randint(0, 2)
            self.known[ssp].append(message)
            envelope = IncomingMessageEnvelope(ssp, message.offset, message.key, b"")
            self.messages.accept(ssp, Undecodable(envelope, SerdeError("bad")) if bad else [envelope])

    def start(self, random):
        self.clock.advance(random.choice([0.0, 0.5, 1.0, 2.0]))
        self.messages.start()

    def complete(self, random):
        if flying := self.flying():
            self.end(random.choice(flying), failed=False)

    def fail(self, random):
        if flying := self.flying():
            self.end(random.choice(flying), failed=True)

    def complete_the_newest(self, random):
        """The oldest one takes long, and the outputs of the others are held."""
        if len(flying := self.flying()) > 1:
            self.end(flying[-1], failed=False)

    def send_astray(self, random):
        """It has ended, but one of its outputs cannot be sent."""
        if flying := self.flying():
            message = random.choice(flying)
            message.collector.send(OutgoingMessageEnvelope(ASTRAY, b"", b""))
            self.end(message, failed=True, astray=True)

    def end(self, message, *, failed, astray=False):
        callback, message.flying = message.flying, None
        if not failed or message.starts > RETRIES:
            message.done = True
            self.ended.append(message)
            message.outputs = 0 if failed else message.outputs
        callback.failure(ValueError("told to")) if failed and not astray else callback.complete()

    def drain(self, random):
        """Everything that was accepted comes to its end, however much was held before."""
        for _ in range(10 * len(self.all()) + 10):
            self.clock.advance(2.0)
            self.messages.start()
            for message in self.flying():
                self.end(message, failed=False)
        positions = {ssp: len(messages) for ssp, messages in self.known.items()}
        assert self.task.offsets == positions, "messages that never start"
        assert (len(self.messages.waiting), self.messages.unsettled, self.messages.prevents(Quiet.COMMIT)) == (
            0,
            False,
            False,
        )
        assert not self.messages.holds_up_stop
        assert not self.messages._order._bytes  # else fewer and fewer messages are in flight together

    # What must hold

    def check(self):
        self.messages.check(self.clock.monotonic())
        assert not self.wrong
        sent = [(*record.value.split(b":"), record.key) for record in self.outbox.get("mem", ())]
        for ssp, messages in self.known.items():
            position = self.task.offsets[ssp]
            undone = [message.offset for message in messages if not message.done and not message.skipped]
            assert position == min(undone, default=len(messages))
            own = [(int(offset), int(number)) for offset, number, stream in sent if stream == ssp.stream.encode()]
            if self.ids:
                ended = [message for message in messages[:position] if message.done]
            else:
                ended = [message for message in self.ended if message.ssp == ssp]
            assert own == [(each.offset, number) for each in ended for number in range(each.outputs)]


STEPS = {"accept": 4, "start": 6, "complete": 2, "complete_the_newest": 4, "fail": 2, "send_astray": 1, "drain": 1}


@pytest.mark.parametrize(
    ("ids", "concurrency", "key_order"), [(True, 1, True), (True, 4, True), (True, 4, False), (False, 3, True)]
)
def test_messages_that_end_in_any_order_keep_the_order_of_the_input(ids, concurrency, key_order, caplog):
    caplog.set_level(logging.CRITICAL, "samzapy")
    check_histories(
        lambda: AsyncMachine(ids=ids, concurrency=concurrency, key_order=key_order), STEPS, histories=200, length=40
    )
