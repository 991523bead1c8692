"""Every stage x policy x guarantee: what is left of a message that fails, and what is not."""

import json
from typing import ClassVar

import pytest
from jobs.memory_job import GUARANTEES, OUT, MemoryJob

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream, SystemStreamPartition
from samzapy.api.envelope import OutputId
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.errors import ProducerError, RecordTooLarge, SerdeError, TaskFailed
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.job.lease import LONGEST_STACK, MOST_HANDLED
from samzapy.system.clients import system_factory

STAGES = ["deserialize", "process", "serialize", "produce"]
#: What the task is told to do with the message in the middle, stage by stage; the first is no message at all.
ORDERS = {"deserialize": b"{no json", "process": "fail", "serialize": "unserializable", "produce": "huge"}
FAILURES = {"deserialize": SerdeError, "process": TaskFailed, "serialize": SerdeError, "produce": ProducerError}
EXCEPTIONS = {
    "deserialize": "samzapy.errors.SerdeError",
    "process": "ValueError",
    "serialize": "samzapy.errors.SerdeError",
    "produce": "samzapy.errors.RecordTooLarge",
}


SECOND = {
    "samza.factory": "memory",
    "default.stream.samza.key.serde": "string",
    "default.stream.samza.msg.serde": "json",
}


class FallibleTask(StreamTask, InitableTask):
    """Counts, lists and echoes; `do` says what goes wrong between its two outputs. `failures` is how often, None:
    always."""

    calls: ClassVar[list] = []
    failures: ClassVar[dict] = {}

    def init(self, context):
        self.calls.append("init")
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        message = envelope.message
        self.calls.append(message["id"])
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        collector.send(OutgoingMessageEnvelope(OUT, [message["id"], "first"], key=envelope.key))
        order = message.get("do")
        if order == "fail" and self.fails(message["id"]):
            self.counts.put_all({"other": 1, envelope.key: 99})
            self.counts.delete_all(["gone"])
            raise ValueError("told\nto")
        if order == "exit":
            raise SystemExit(1)
        if order == "unserializable":
            collector.send(OutgoingMessageEnvelope(OUT, object(), key=envelope.key))
        if order == "refused":
            collector.send(OutgoingMessageEnvelope(SystemStream("mem", "compacted"), 1))
        if order == "huge":
            collector.send(OutgoingMessageEnvelope(OUT, "x" * 1_000_013, key=envelope.key))
        collector.send(OutgoingMessageEnvelope(OUT, [message["id"], "last"], key=envelope.key))

    def fails(self, message_id):
        left = self.failures.get(message_id)
        if left is None:
            return True
        self.failures[message_id] = left - 1
        return left > 0


class PolicyJob(MemoryJob):
    def __init__(self, folder, guarantee="at-least-once", **keys):
        FallibleTask.failures = {}
        keys = {"task.guarantee": guarantee, "task.commit.ms": "50000", **keys}
        if "dead-letter" in "".join(keys.values()):
            keys |= {"task.dead.letter.stream": "mem.dead"}
        super().__init__(folder, partitions=1, task=FallibleTask, **keys)
        self.admin.create(StreamSpec("dead", 1))

    def send_bytes(self, key, value, headers=None):
        self.producer.send([OutgoingRecord("in", key, value, 0, headers=headers)])
        self.producer.flush()

    def send_five(self, stage):
        """Ids 0 to 4 of one key, the third of them bad at `stage`."""
        order = ORDERS[stage]
        bad = order if isinstance(order, bytes) else json.dumps({"id": 2, "do": order}).encode()
        for i in range(5):
            self.send_bytes(b"k", bad if i == 2 else json.dumps({"id": i}).encode(), [("trace", b"%d" % i)])
        return bad

    def letters(self, stream="dead"):
        """(key, value, headers) of every dead letter that a reader of committed records sees."""
        ssp = SystemStreamPartition("mem", stream, 0)
        end = self.admin.offsets([ssp])[ssp].upcoming
        consumer = self._new_consumer()
        consumer.start({ssp: 0})
        found = []
        while consumer.position(ssp) < end:
            for batch in consumer.poll(0.1, 1_000):
                found += zip(batch.keys, batch.values, batch.headers, strict=True)
        consumer.close()
        return [(key, value, dict(headers)) for key, value, headers in found]

    def ids(self, which):
        return [message[0] for _, message in self.outputs() if message[1] == which]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("then", ["skip", "dead-letter"])
@pytest.mark.parametrize("retry", ["", "retry(2, 0) then "])
def test_a_message_that_fails_is_skipped_or_a_letter_and_the_others_go_on(tmp_path, guarantee, stage, then, retry):
    if stage != "process":
        retry = ""  # the same bytes and the same object fail again
    job = PolicyJob(tmp_path, guarantee, **{f"task.error.{stage}.policy": retry + then})
    bad = job.send_five(stage)
    report = job.run()
    kept = stage in {"serialize", "produce"}  # only the output is given up there, not its message
    ids = [0, 1, 2, 3, 4] if kept else [0, 1, 3, 4]
    assert job.ids("first") == job.ids("last") == ids
    assert job.changelog() == {"k": len(ids)}
    assert report.positions == {"mem.in[0]": 5}
    done = "skipped" if then == "skip" else "dead-lettered"
    assert report.metrics["errors"][f"{stage}.{done}"] == 1
    assert report.metrics["errors"][f"{stage}.retried"] == (2 if retry else 0)
    letters = job.letters()
    if then == "skip":
        assert letters == []
        return
    ((key, value, headers),) = letters
    assert (key, value) == (b"k", bad)
    assert headers["trace"] == b"2"
    assert headers["samzapy-error-stage"] == stage.encode()
    assert headers["samzapy-error-exception"] == EXCEPTIONS[stage].encode()
    assert headers["samzapy-error-topic"] == b"in"
    assert (headers["samzapy-error-partition"], headers["samzapy-error-offset"]) == (b"0", b"2")
    assert headers["samzapy-error-task"] == b"Partition 0"
    assert int(headers["samzapy-error-time-ms"]) > 0
    assert b"\n" not in headers["samzapy-error-reason"]
    assert headers["samzapy-error-reason"]
    assert EXCEPTIONS[stage].rpartition(".")[2] in headers["samzapy-error-traceback"].decode()
    if guarantee == "effectively-once":
        identity = OutputId.of(list(headers.items()))
        fields = identity.source.split(":")
        assert (fields[4], fields[6], fields[8]) == ("in", "0", "letter")
        assert (identity.offset, identity.number) == (2, 0)


def test_each_message_that_fails_reaches_the_driver_with_its_line_and_place(tmp_path):
    job = PolicyJob(tmp_path, **{"task.error.process.policy": "skip"})
    for number in range(60):
        job.send_bytes(b"k", json.dumps({"id": number, "do": ORDERS["process"]}).encode())
    container, coordinator = job.container()
    container.run()
    found = [each.failure for each in coordinator.status().handled]
    assert [each.first for each in found] == list(range(MOST_HANDLED))
    assert {each.handled for each in found} == {"skipped"}
    assert found[0].where == "process of mem.in[0]@0"
    assert "test_error_policies.py:" in found[0].at
    assert 0 < len(found[0].traceback) <= LONGEST_STACK
    assert coordinator.status().counts == {"errors.process.skipped": 60}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_message_that_fails_without_a_policy_ends_the_attempt(tmp_path, guarantee, stage):
    others = {f"task.error.{other}.policy": "skip" for other in STAGES if other != stage}
    for keys in ({}, others):
        job = PolicyJob(tmp_path / str(len(keys)), guarantee, **keys)
        job.send_five(stage)
        with pytest.raises(FAILURES[stage]):
            job.run()
        assert job.changelog() == {}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_repetition_that_succeeds_leaves_no_trace_of_the_failures(tmp_path, guarantee):
    job = PolicyJob(tmp_path, guarantee, **{"task.error.process.policy": "retry(3, 0)"})
    FallibleTask.failures = {1: 2}
    job.send((0, "k", {"id": 0}), (0, "k", {"id": 1, "do": "fail"}), (0, "k", {"id": 2}))
    report = job.run()
    assert job.ids("first") == job.ids("last") == [0, 1, 2]
    assert job.changelog() == {"k": 3}
    assert FallibleTask.calls == ["init", 0, 1, 1, 1, 2]
    assert report.metrics["errors"]["process.retried"] == 2
    assert report.processed == 3


class SecondSystemTask(StreamTask):
    """Sends to a second system what comes after the first message, and fails at what it is told to."""

    def process(self, envelope, collector, coordinator):
        if envelope.offset > 0:
            collector.send(OutgoingMessageEnvelope(SystemStream("second", "out"), envelope.offset, key="k"))
        collector.send(OutgoingMessageEnvelope(OUT, envelope.offset, key="k"))
        if envelope.message.get("do") == "fail":
            raise ValueError("told to")


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once"])
@pytest.mark.parametrize("then", ["skip", "dead-letter", "retry(2, 0) then skip"])
def test_a_message_that_fails_leaves_nothing_on_a_system_it_sent_to_first(tmp_path, guarantee, then):
    settings = {f"systems.second.{key}": value for key, value in SECOND.items()} | {
        "systems.second.cluster": str(tmp_path)
    }
    keys = {"task.error.process.policy": then, "task.dead.letter.stream": "mem.dead", "task.guarantee": guarantee}
    job = MemoryJob(tmp_path / "state", 1, SecondSystemTask, **settings, **keys, **{"task.commit.ms": "50000"})
    job.admin.create(StreamSpec("dead", 1))
    factory = system_factory(job.config.systems["second"])
    admin = factory.admin(job.config.systems["second"], "test")
    admin.create(StreamSpec("out", 1))
    job.send((0, "k", {}), (0, "k", {"do": "fail"}))
    job.run()
    out = SystemStreamPartition("second", "out", 0)
    assert admin.offsets([out])[out].upcoming == 0
    assert job.outputs() == [("k", 0)]
    job.send((0, "k", {}))
    job.run()
    assert admin.offsets([out])[out].upcoming == 1


def test_a_task_that_exits_is_no_message_s_failure(tmp_path):
    job = PolicyJob(tmp_path, **{"task.error.process.policy": "skip"})
    job.send((0, "k", {"id": 0, "do": "exit"}))
    with pytest.raises(TaskFailed, match="SystemExit"):
        job.run()


def test_ignored_exceptions_are_skipped_at_once_and_the_others_are_not(tmp_path):
    keys = {"task.ignored.exceptions": "ArithmeticError,ValueError", "task.error.process.policy": "retry(3, 0)"}
    job = PolicyJob(tmp_path, **keys)
    job.send_five("process")
    errors = job.run().metrics["errors"]
    assert (errors["process.skipped"], errors["process.retried"]) == (1, 0)
    assert FallibleTask.calls == ["init", 0, 1, 2, 3, 4]
    job = PolicyJob(tmp_path / "other", **{"task.ignored.exceptions": "ArithmeticError"})
    job.send_five("process")
    with pytest.raises(TaskFailed):
        job.run()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("step", ["commit.3", "commit.4", "commit.5a"])
def test_an_aborted_commit_leaves_no_letter_and_the_next_one_leaves_one(tmp_path, stage, step):
    job = PolicyJob(tmp_path, "exactly-once", **{f"task.error.{stage}.policy": "dead-letter"})
    job.run()
    job.send_five(stage)
    arm(step)
    try:
        with pytest.raises(FailPointReached):
            job.run()
    finally:
        disarm()
    # The next attempt's take-over aborts what the crash left open; a reader would wait for that, so it reads
    # afterwards.
    job.run()
    assert len(job.letters()) == 1


def test_a_stop_interrupts_a_repetition_and_commits_what_was_before_it(tmp_path):
    job = PolicyJob(tmp_path, **{"task.error.process.policy": "retry(1000, 1h)".replace("1h", "3600s")})
    job.send((0, "k", {"id": 0}), (0, "k", {"id": 1, "do": "fail"}), (0, "k", {"id": 2}))
    container, _ = job.container(until_end=False)
    fails = FallibleTask.fails

    def stop_then_fail(self, message_id):
        container.stop()
        return fails(self, message_id)

    FallibleTask.fails = stop_then_fail
    try:
        report = container.run()
    finally:
        FallibleTask.fails = fails
    assert report.phase == "done"
    assert report.positions == {"mem.in[0]": 1}
    assert job.changelog() == {"k": 1}
    assert job.ids("first") == [0]


class SmallLetters(PolicyJob):
    """Its dead letters have a stream for small records."""

    most = 20_000

    def __init__(self, folder, **keys):
        super().__init__(folder, **keys)
        self.admin.create(StreamSpec("small", 1, {"max.message.bytes": str(self.most)}))
        self.keys = {"task.dead.letter.stream": "mem.small"}

    def send_failing(self, size):
        self.send_bytes(b"k", b'{"id": 0, "do": "fail"}'.ljust(size), [("trace", b"0")])


def test_a_dead_letter_has_less_of_the_traceback_if_its_stream_takes_no_more(tmp_path):
    job = SmallLetters(tmp_path, **{"task.error.process.policy": "dead-letter"})
    sizes = [1_000, job.most - 1_100, job.most - 400]
    for size in sizes:
        job.send_failing(size)
    assert job.run(**job.keys).positions == {"mem.in[0]": 3}
    letters = job.letters("small")
    assert [len(value) for _, value, _ in letters] == sizes
    whole, shorter, shortest = (headers for _, _, headers in letters)
    assert [headers["samzapy-error-offset"] for headers in (whole, shorter, shortest)] == [b"0", b"1", b"2"]
    assert whole.keys() == shorter.keys() == shortest.keys()
    traceback = shorter["samzapy-error-traceback"]
    assert traceback
    assert traceback != whole["samzapy-error-traceback"]
    assert whole["samzapy-error-traceback"].endswith(traceback)
    assert shorter["samzapy-error-reason"] == whole["samzapy-error-reason"]
    assert shortest["samzapy-error-traceback"] == b""


def test_an_input_too_large_for_a_letter_is_skipped_if_such_outputs_are(tmp_path):
    job = SmallLetters(tmp_path, **{"task.error.process.policy": "dead-letter", "task.error.produce.policy": "skip"})
    job.send_failing(job.most)
    job.send_failing(1_000)
    report = job.run(**job.keys)
    assert report.positions == {"mem.in[0]": 2}
    errors = report.metrics["errors"]
    assert (errors["produce.skipped"], errors["process.dead-lettered"], len(job.letters("small"))) == (1, 1, 1)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_an_input_too_large_for_a_letter_ends_the_attempt_with_its_place(tmp_path, policy):
    job = SmallLetters(tmp_path, **{"task.error.process.policy": "dead-letter", "task.error.produce.policy": policy})
    job.send_failing(job.most)
    with pytest.raises(RecordTooLarge, match=r"^mem\.small: the dead letter about mem\.in\[0\]@0 does not fit"):
        job.run(**job.keys)


@pytest.mark.parametrize("guarantee", GUARANTEES[1:])
def test_a_send_that_fails_is_made_again_from_the_last_commit(tmp_path, guarantee):
    job = PolicyJob(tmp_path, guarantee, **{"task.error.produce.policy": "retry(2, 0)"})
    job.admin.create(StreamSpec("compacted", 1, {"cleanup.policy": "compact"}))
    job.send((0, "k", {"id": 0, "do": "refused"}))
    with pytest.raises(ProducerError, match="needs a key"):
        job.run()
    assert FallibleTask.calls.count("init") == 3


class InPlaceTask(StreamTask, InitableTask):
    """Counts in an object that it changes in place, and fails at every other call after it has."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.calls.append(envelope.offset)
        count = self.counts.get(envelope.key) or {"n": 0}
        count["n"] += 1
        self.counts.put(envelope.key, count)
        if len(self.calls) % 2:
            raise ValueError("told to")


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    ("policy", "expected"), [("retry(1, 0)", 10), ("skip", 5), ("retry(2, 0) then skip", 10), ("dead-letter", 5)]
)
def test_an_object_changed_in_place_is_as_before_after_a_failed_message(tmp_path, guarantee, policy, expected):
    keys = {"task.error.process.policy": policy}
    if policy == "dead-letter":
        keys["task.dead.letter.stream"] = "mem.dead"
    job = MemoryJob(
        tmp_path, partitions=1, task=InPlaceTask, **{"task.guarantee": guarantee, "task.commit.ms": "50000"}, **keys
    )
    job.admin.create(StreamSpec("dead", 1))
    job.send(*((0, "k", {"id": number}) for number in range(10)))
    job.run()
    assert job.changelog() == {"k": {"n": expected}}
