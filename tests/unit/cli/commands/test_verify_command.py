"""`samzapy verify`: what it refuses before anything is started."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--system", "local", "--bootstrap", "broker:9092"], "--bootstrap is for --system kafka"),
        (["--system", "local", "--master", "spark://host:7077"], "--system"),
        (["--master", "spark://host:7077"], "--bootstrap"),
        (["--master", "mars"], "job.spark.master"),
        (["--guarantee", "twice"], "exactly-once"),
        (
            ["--system", "local", "--scenario", "broker-kill"],
            "worker, executor, driver, zombie, overlap, upgrade, foreign-writer, mixed",
        ),
        (
            ["--system", "local", "--master", "local[2,4]", "--scenario", "executor"],
            "worker, driver, zombie, overlap, upgrade, foreign-writer, mixed",
        ),
        (["--bootstrap", "broker:9092", "--master", "yarn", "--scenario", "worker"], "one of driver"),
        (["--scenario", "mars"], "broker-kill, mixed"),
        (["--config", "nonsense"], "KEY=VALUE"),
    ],
)
def test_what_cannot_be_verified_here_is_refused_with_exit_code_2(samzapy, tmp_path, arguments, told):
    code, _, error = samzapy("verify", "--folder", str(tmp_path / "run"), *arguments)
    assert code == 2
    assert told in error
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
