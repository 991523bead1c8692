"""A broker that refuses to delete the records between the steps of a pipeline: a line says so."""

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from rigs.job_process import JobProcess
from rigs.pipeline_rig import Surroundings, counting, totals
from secured_broker import SecuredBroker, both_sides, password

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

TESTS = Path(__file__).parents[2]
NAME = "kept"


def test_a_pipeline_that_may_delete_no_records_counts_and_says_so_once(tmp_path):
    with SecuredBroker(tmp_path) as broker:
        between = f"{NAME}-by-page"
        broker.take_from("bob", ResourceType.TOPIC, between, AclOperation.DELETE)
        keys = {
            **both_sides({"bootstrap.servers": broker.sasl, **password("bob", "bob")}),
            "systems.kafka.default.stream.replication.factor": "1",
            "task.guarantee": "exactly-once",
            "job.logged.store.base.dir": str(tmp_path / "state"),
        }
        around = Surroundings(counting(NAME, 2, "kafka"), {f"{NAME}-in": 2, f"{NAME}-out": 1}, **keys)
        environ = {"PYTHONPATH": f"{TESTS}:{TESTS / 'jobs'}", "COUNTING": f"{NAME}:2:kafka"}
        options = ["--runner=local", "--until-end", *(f"--config={key}={value}" for key, value in keys.items())]
        for runs in (1, 2):
            around.write(f"{NAME}-in", [{"page": f"x{number % 3}"} for number in range(300)])
            with closing(JobProcess(tmp_path, "counting_pipeline:pipeline", *options, **environ)) as job:
                assert job.wait(120) == 0, job.errors
                errors = job.errors
            assert totals(around.read(f"{NAME}-out")) == {f"x{number}": 100 * runs for number in range(3)}
            assert {first for first, _ in around.extent(between).values()} == {0}
            (line,) = [line for line in errors.splitlines() if "its passed records are not deleted" in line]
            assert "not authorised" in line
            assert "User:bob needs the ACL DELETE on this topic" in line
