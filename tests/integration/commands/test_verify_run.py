"""`samzapy verify` on the embedded system and a real Spark, with a kill."""

import pytest
from rigs.verify_process import verify

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_killed_worker_breaks_no_promise_and_a_line_says_so(tmp_path):
    found = verify(
        tmp_path, "--system", "local", "--master", "local[2,4]", "--scenario", "worker",
        "--events", "5000", "--kills", "2", "--seed", "7",
    )  # fmt: skip
    assert found.code == 0, found.errors
    (row,) = found.rows
    assert (row["events"], row["faults"]) == (5000, 2)
    assert (row["lost"], row["duplicated"], row["reordered"], row["mismatches"]) == (0, 0, 0, 0)
    assert len(row["recovery_s"]) == 2
    assert "exactly-once on local" in found.output
    assert found.output.count("kept") == 2
    again = "again with: samzapy verify --events 5000 --kills 2 --system local --master 'local[2,4]' --scenario worker"
    assert f"{again} --seed 7" in found.errors
    assert not list((tmp_path / "verify").iterdir())


def test_a_second_run_takes_over_and_another_writer_is_refused_with_a_line(tmp_path):
    found = verify(
        tmp_path, "--system", "local", "--master", "local[2,4]", "--scenario", "overlap", "--scenario",
        "foreign-writer", "--guarantee", "at-least-once", "--events", "6000", "--kills", "2", "--seed", "7",
    )  # fmt: skip
    assert found.code == 0, f"{found.output}\n{found.errors}"
    overlap, foreign = found.rows
    for row in (overlap, foreign):
        assert (row["faults"], row["lost"], row["reordered"], row["mismatches"]) == (1, 0, 0, 0)
    lines = {line.split()[0]: line.split()[-1] for line in found.output.splitlines() if line.split()}
    assert (lines["overlap"], lines["foreign-writer"]) == ("kept", "refused")
