"""Spare executors get ready as soon as no container waits for a slot."""

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.wire import JobSpec, Place
from samzapy.job.lease import ContainerReport
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.runner.spark.spares import Spares

TASK = TaskModel("Partition 0", frozenset({SystemStreamPartition("m", "in", 0)}), 0)


class Executors:
    """Two executors: a container runs in the first."""

    def __init__(self):
        self.used = {"0": True, "1": False}
        self.fails = False

    def executor_ids(self):
        if self.fails:
            raise RuntimeError("the JVM has ended")
        return frozenset(self.used)

    def unused(self, executor_id):
        return None if self.used[executor_id] else Place("a", executor_id)


class Job:
    def __init__(self):
        self.coordinator = Coordinator("job", JobSpec(JobModel((ContainerModel("0", (TASK,)),)), {}), 15.0)
        self.executors = Executors()
        self.warmed = []
        self.spares = Spares(self.executors, self.coordinator, self.warm)
        self.epoch = self.coordinator.register("0")

    def warm(self, place):
        self.warmed.append(place.executor)
        self.executors.used[place.executor] = True


def test_an_executor_that_has_run_nothing_gets_ready_once():
    job = Job()
    assert job.spares.look()
    assert job.spares.look()
    assert job.warmed == ["1"]
    job.executors.used["2"] = False
    assert job.spares.look()
    assert job.warmed == ["1", "2"]


def test_no_executor_gets_ready_while_a_container_waits_for_a_slot():
    job = Job()
    job.coordinator.report(ContainerReport("0", job.epoch, "failed"))
    assert job.spares.look()
    assert not job.warmed
    job.coordinator.register("0")
    assert job.spares.look()
    assert job.warmed == ["1"]


def test_an_executor_that_has_gone_is_forgotten_and_a_new_one_of_its_number_gets_ready():
    job = Job()
    job.spares.look()
    del job.executors.used["1"]
    job.spares.look()
    job.executors.used["1"] = False
    job.spares.look()
    assert job.warmed == ["1", "1"]


def test_a_spark_that_does_not_answer_is_asked_again():
    job = Job()
    job.executors.fails = True
    assert job.spares.look()
    job.executors.fails = False
    assert job.spares.look()
    assert job.warmed == ["1"]
