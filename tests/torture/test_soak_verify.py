"""`samzapy verify` on a real Kafka and a real Spark: every kind of fault in every guarantee, a soak, and a broken
task."""

from pathlib import Path

import pytest
from rigs.verify_process import verify

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]

EXACT = {"lost": 0, "duplicated": 0, "reordered": 0, "mismatches": 0}
COUNTED = ("events", "faults", "lost", "duplicated", "mismatches")
PROMISED = {
    "at-most-once": EXACT.keys() - {"lost"},
    "at-least-once": EXACT.keys() - {"duplicated"},
    "effectively-once": EXACT.keys() - {"duplicated"},
    "exactly-once": EXACT.keys(),
}


@pytest.mark.parametrize("guarantee", PROMISED)
def test_a_guarantee_is_kept_under_a_mixture_of_all_faults(tmp_path, guarantee):
    found = verify(
        tmp_path, "--guarantee", guarantee, "--scenario", "mixed",
        "--events", "8000", "--kills", "4", "--seed", "11",
    )  # fmt: skip
    assert found.code == 0, f"{found.output}\n{found.errors}"
    (row,) = found.rows
    assert row["faults"] == 4
    assert {name: row[name] for name in PROMISED[guarantee]} == dict.fromkeys(PROMISED[guarantee], 0)


@pytest.mark.parametrize(("system", "scenario"), [("kafka", "mixed"), ("local", "driver")])
def test_a_pipeline_of_two_stages_loses_and_doubles_nothing(tmp_path, outcome, system, scenario):
    found = verify(
        tmp_path, "--task", "pipeline", "--system", system, "--scenario", scenario,
        "--events", "8000", "--kills", "4", "--seed", "11",
    )  # fmt: skip
    assert found.code == 0, f"{found.output}\n{found.errors}"
    (row,) = found.rows
    outcome(
        "SIGKILL of a pipeline of two stages", guarantee="exactly-once", system=system,
        recovery_s=max(row["recovery_s"]), **{name: row[name] for name in COUNTED},
    )  # fmt: skip


def test_a_soak_draws_rounds_until_its_time_is_over_and_prints_totals(tmp_path):
    found = verify(tmp_path, "--soak", "1", "--seed", "5", "--system", "local")
    assert found.code == 0, f"{found.output}\n{found.errors}"
    assert len(found.rows) == 1
    assert found.output.startswith("1 rounds\n")
    assert "--seed 5 --soak 1" in found.errors


def test_a_task_that_loses_inputs_is_convicted_and_the_exit_code_is_1(tmp_path):
    code = Path(__file__).with_name("forgetful.py")
    found = verify(
        tmp_path, "--system", "local", "--master", "local[2,4]", "--scenario", "driver",
        "--events", "5000", "--kills", "1", "--config", "task.class=forgetful:ForgetfulTask",
        "--config", f"job.spark.py.files={code}",
    )  # fmt: skip
    assert found.code == 1, found.errors
    (row,) = found.rows
    assert row["lost"] == 5
    assert not row["kept"]
    assert "loss: 5, first: input id 999 has no output" in found.output
    assert "again: samzapy verify " in found.output
    assert list((tmp_path / "verify").glob("*/*/run-*.log"))
