"""Where tasks have their state: learnt, kept with the job, and believed by a later run as far as that makes sense."""

from contextlib import contextmanager

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.managers import FileCheckpointManager
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.wire import Place
from samzapy.job.planner import ContainerModel, TaskModel
from samzapy.runner.checks import Checks
from samzapy.runner.spark.placement import Locality, place_records
from samzapy.runner.spark.worker import place_of, this_place


def container(number, *tasks):
    ssps = frozenset({SystemStreamPartition("m", "in", 0)})
    return ContainerModel(str(number), tuple(TaskModel(f"Partition {task}", ssps, task) for task in tasks))


@pytest.fixture
def config(tmp_path):
    def make(**keys):
        FileCheckpointManager(tmp_path / "places-1").start()
        return load_job(
            {
                "job.name": "places",
                "job.default.system": "m",
                "systems.m.samza.factory": "memory",
                "task.class": "a:B",
                "task.inputs": "in",
                "task.checkpoint.factory": "samzapy.checkpoint:FileCheckpointManagerFactory",
                "task.checkpoint.path": str(tmp_path),
                **{key.replace("_", "."): value for key, value in keys.items()},
            }
        )

    return make


@contextmanager
def places(config):
    checks, locality = Checks(JobRecords.of(config, "checks")), Locality(place_records(config))
    locality.watch(checks)
    yield locality
    checks.end()


AFFINE = {"job.host-affinity.enabled": "true"}


def test_a_later_run_knows_the_hosts_and_not_the_executors_which_have_other_numbers_by_then(config):
    with places(config(**AFFINE)) as first:
        assert first.of(container(0, 0, 1)) is None
        first.note(container(0, 0, 1), Place("a", "1"))
        assert first.of(container(0, 0, 1)) == Place("a", "1")
    with places(config(**AFFINE)) as second:
        assert second.of(container(0, 0, 1)) == Place("a")
        assert second.hosts() == {"a"}


def test_a_container_of_tasks_from_several_hosts_goes_to_the_one_of_most_of_them(config):
    with places(config(**AFFINE)) as locality:
        locality.note(container(0, 0), Place("a", "1"))
        locality.note(container(1, 1, 2), Place("b", "2"))
        assert locality.of(container(0, 0, 1, 2, 3)) == Place("b", "2")
        assert locality.of(container(0, 7)) is None


def test_without_host_affinity_nothing_is_kept_with_the_job(config):
    with places(config()) as first:
        first.note(container(0, 0), Place("a", "1"))
        assert first.of(container(0, 0)) == Place("a", "1")
    with places(config(**AFFINE)) as second:
        assert second.of(container(0, 0)) is None


@pytest.mark.parametrize("tasks", ["[1]", "7", "null", '{"Partition 0": "a"}', '{"Partition 0": {"host": 7}}'])
def test_a_record_that_cannot_be_read_is_as_good_as_none(config, tmp_path, tasks):
    (tmp_path / "places-1").mkdir(exist_ok=True)
    (tmp_path / "places-1" / "samzapy-locality.json").write_text(f'{{"format": 1, "tasks": {tasks}}}')
    with places(config(**AFFINE)) as locality:
        assert locality.of(container(0, 0)) is None


def test_an_executor_is_known_by_the_command_that_starts_it():
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    command = ["java", "-cp", "x", backend, "--driver-url", "spark://d", "--executor-id", "7", "--hostname", "10.0.0.3"]
    assert place_of(command) == Place("10.0.0.3", "7")
    assert place_of([*command, "--cores", "1"]) == Place("10.0.0.3", "7")
    assert place_of(["java", "-cp", "x", "org.apache.spark.deploy.SparkSubmit"]) is None
    assert place_of(["java", "--hostname", "x", "--executor-id"]) is None
    assert this_place() is None
