"""Jobs with classes of messages: what a task gets and sends, what happens to a message that does not fit, by policy."""

from __future__ import annotations

import pytest
from jobs.typed_views import Counting, PageView, Sending, Visits

from samzapy.errors import SerdeError, TaskFailed
from samzapy.storage.readback import FIRST
from samzapy.testing import TaskTestDriver

JOB = {
    "job.default.system": "kafka",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "memory",
    "systems.kafka.default.stream.samza.key.serde": "string",
    "systems.kafka.default.stream.samza.msg.serde": "json",
    "systems.kafka.default.stream.samza.offset.default": "oldest",
    "streams.out.samza.system": "kafka",
    "streams.out.samza.msg.type": "jobs.typed_views:PageView",
    "stores.visits.factory": "inmemory",
    "stores.visits.key.serde": "string",
    "stores.visits.msg.serde": "json",
    "stores.visits.msg.type": "jobs.typed_views:Visits",
    "stores.visits.changelog": "kafka.visits",
}
LETTERS = {"task.dead.letter.stream": "kafka.letters", "systems.kafka.streams.letters.samza.msg.serde": "bytes"}
MISFIT = r"kafka\.in\[0\]@1: message: \$\.user: Expected str, got int"


@pytest.fixture
def driver_of():
    made = []

    def make(task=Counting, **keys):
        made.append(TaskTestDriver(task, {**JOB, **keys}))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def test_a_task_gets_its_class_and_the_store_gives_its_own_back(driver_of):
    driver = driver_of()
    driver.send("in", PageView("ann", "/a"), "k")
    driver.send("in", {"user": "ann", "unknown": 3}, "k")
    driver.commit()
    driver.restart()
    assert driver.store("visits").get("ann") == Visits(2)
    assert driver.outputs("out").messages == [PageView("ann", "/a"), PageView("ann", "/")]
    assert driver.changelog("visits").pairs == [("ann", Visits(2))]


def test_a_message_that_does_not_fit_ends_the_attempt_with_its_place_and_the_path(driver_of):
    driver = driver_of()
    driver.send("in", {"user": "ann"})
    with pytest.raises(SerdeError, match=MISFIT):
        driver.send("in", {"user": 7})
    assert not driver.running


def test_a_message_that_does_not_fit_becomes_a_dead_letter_with_its_bytes_and_the_reason(driver_of):
    driver = driver_of(**LETTERS, **{"task.error.deserialize.policy": "dead-letter"})
    for user in ("ann", 7, "ann"):
        driver.send("in", {"user": user})
    driver.commit()
    (letter,) = driver.committed("letters")
    assert letter.message == b'{"user":7}'
    assert any(b"$.user: Expected str, got int" in (value or b"") for _, value in letter.headers)
    assert driver.store("visits").get("ann") == Visits(2)


def test_an_output_of_another_class_is_an_error_with_both(driver_of):
    driver = driver_of(Sending)
    with pytest.raises(SerdeError, match=r"kafka.out: .*: expected PageView, got dict"):
        driver.send("in", {"user": "ann"})


def test_a_value_of_another_class_is_refused_at_the_commit_with_its_key(driver_of):
    driver = driver_of()
    for number in range(FIRST):
        driver.store("visits").put("ann", Visits(number))
    driver.store("visits").put("ann", {"count": 1})
    with pytest.raises(SerdeError, match="store 'visits': value of key 'ann': expected Visits, got dict"):
        driver.commit()


def test_the_changes_of_a_message_that_failed_are_undone_in_objects_too(driver_of):
    class Failing(Counting):
        def process(self, envelope, collector, coordinator):
            super().process(envelope, collector, coordinator)
            if envelope.message.page == "/fail":
                raise ValueError("told to")

    driver = driver_of(Failing, **{"task.error.process.policy": "skip"})
    for page in ("/", "/fail", "/"):
        driver.send("in", PageView("ann", page))
    assert driver.store("visits").get("ann") == Visits(2)
    with pytest.raises(TaskFailed):
        driver_of(Failing).send("in", PageView("ann", "/fail"))
