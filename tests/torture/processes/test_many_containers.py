"""Many containers on few cores, killed at random: workers, executors and drivers.

A container has 16 tasks with three stores each. What is checked is the promise; a recovery of 64 containers on two
cores takes minutes, because each of them is a process that has to start.
"""

import pytest
from rigs.verify_process import verify

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

#: Executors and containers in each; partitions.
SIZES = {
    "8 containers": (4, 2, 128),
    "64 containers": pytest.param((8, 8, 1_000), marks=[pytest.mark.large, pytest.mark.timeout(7_200)]),
}


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
def test_no_container_loses_or_repeats_anything_when_any_of_many_is_killed(tmp_path, size):
    executors, cores, partitions = size
    found = verify(
        tmp_path, "--guarantee", "exactly-once", "--events", "40000", "--kills", "6", "--seed", "3",
        "--scenario", "worker", "--scenario", "executor", "--scenario", "driver",
        "--master", f"local-cluster[{executors},{cores},1024]",
        "--containers", str(executors * cores), "--partitions", str(partitions),
        # On a loaded machine a container may be silent for long.
        "--config", "job.spark.lease.ms=30s",
    )  # fmt: skip
    assert found.code == 0, f"{found.output}\n{found.errors}"
    assert [row["faults"] for row in found.rows] == [2, 2, 2]
    wrong = [(row["lost"], row["duplicated"], row["mismatches"]) for row in found.rows]
    assert wrong == [(0, 0, 0)] * 3
