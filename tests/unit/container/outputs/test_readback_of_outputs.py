"""Outputs of a class that would not come back as they were sent are refused at the send."""

from collections import Counter
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field, SecretStr

from samzapy import BatchTask, StreamTask, SystemStream
from samzapy.errors import SerdeError
from samzapy.storage.readback import EVERY, FIRST
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")
JOB = {"task.inputs": "sys.in", "systems.sys.default.stream.samza.msg.serde": "json"}


class Login(BaseModel):
    user: str
    pin: SecretStr


class Excluding(BaseModel):
    left: int = Field(5, exclude=True)


@dataclass(frozen=True)
class Place:
    city: str
    weight: float = 0.0


class Sending(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send_message(OUT, made(envelope.message))


class SendingBatches(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        collector.send_batch(OUT, None, list(map(made, batch.messages)))


def made(message):
    return Login(user="ann", pin="1234") if message == "login" else Excluding(left=message)


def job(kind):
    return JOB | {"systems.sys.streams.out.samza.msg.type": f"{__name__}:{kind}"}


@pytest.mark.parametrize("task", [Sending, SendingBatches])
def test_readback_refuses_an_output_that_would_not_come_back(task):
    with TaskTestDriver(task, job("Login")) as driver, pytest.raises(SerdeError) as refused:
        driver.send("in", "login")
    text = str(refused.value)
    assert "sys.out: Login does not come back as it was written: $.pin: SecretStr ****" in text
    assert "1234" not in text


@pytest.mark.parametrize("task", [Sending, SendingBatches])
def test_readback_of_outputs_takes_samples_after_the_first(task):
    with TaskTestDriver(task, job("Excluding")) as driver:
        driver.send_batch("in", None, [5] * FIRST)
        driver.send_batch("in", None, [6] * 10)

        def send_many():
            for _ in range(3):
                driver.send_batch("in", None, [6] * EVERY)

        with pytest.raises(SerdeError, match=r"\$\.left: int 6 was written, int 5 is read"):
            send_many()


@dataclass
class Counted:
    number: int

    def __post_init__(self):
        counts["made"] += 1


counts = Counter()


class SendingMany(BatchTask):
    def process_batch(self, batch, collector, coordinator):
        collector.send_batch(OUT, None, [Counted(number) for number in batch.messages])


def test_readback_of_large_batches_takes_samples_only():
    counts.clear()
    with TaskTestDriver(SendingMany, job("Counted")) as driver:
        for _ in range(3):
            driver.send_batch("in", None, list(range(EVERY)))
        assert counts["made"] <= 3 * EVERY + FIRST + 3


class Keyed(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send_message(OUT, {"n": 1}, Place("rome", envelope.message))


def test_readback_refuses_a_key_that_would_be_another_one():
    keys = {
        "systems.sys.streams.out.samza.key.serde": "json",
        "systems.sys.streams.out.samza.key.type": f"{__name__}:Place",
    }
    with TaskTestDriver(Keyed, JOB | keys) as driver:
        driver.send("in", 1.0)
        with pytest.raises(
            SerdeError, match=r"sys\.out: Place is not read back .*\$\.weight: Expected float, got bool"
        ):
            driver.send("in", True)
