"""`samzapy verify`: what it refuses before anything is started."""

from pathlib import Path

import pytest

from samzapy.cli.commands.verify import Verification
from samzapy.cli.main import cli
from samzapy.devkafka import DevBroker
from samzapy.verify.campaign import Row
from samzapy.verify.checkers import Verdict
from samzapy.verify.scenario import Scenario


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


def test_the_command_that_repeats_a_run_has_no_secrets():
    keys = ["systems.kafka.producer.sasl.password=hunter2", "x.password=${env:PASSWORD}", "task.commit.ms=50"]
    given = cli.get_command(None, "verify").make_context("verify", [part for key in keys for part in ("-c", key)])
    command = Verification(**given.params)._command(seed=7)
    assert "hunter2" not in command
    assert "--config 'x.password=${env:PASSWORD}' --config task.commit.ms=50" in command


def test_a_file_that_cannot_be_written_is_told_before_anything_starts(samzapy, tmp_path):
    code, _, error = samzapy("verify", "--system", "local", "--folder", "run", "--json", "missing/rows.json")
    assert (code, error) == (3, "error: missing/rows.json: No such file or directory\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("system", ["local", "kafka"])
def test_a_kept_promise_leaves_what_was_in_the_folder_and_a_broker_there_alone(samzapy, tmp_path, monkeypatch, system):
    brokers, kept = [], [tmp_path / "kafka" / "broker.json", tmp_path / "001-worker-exactly-once" / "run-1.log"]
    for file in kept:
        file.parent.mkdir()
        file.write_text("mine")

    def run(scenario):
        scenario._folder.mkdir()
        (scenario._folder / "run-1.log").write_text("")
        brokers.append(scenario._target.broker)
        plan = scenario._plan
        return Row(plan=plan, verdict=Verdict(plan.guarantee, ()), struck=(), recoveries_s=(), seconds=1.0)

    monkeypatch.setattr(Scenario, "run", run)
    monkeypatch.setattr(DevBroker, "start", lambda _: "127.0.0.1:9092")
    code, _, error = samzapy("verify", "--folder", ".", "--system", system, "--scenario", "worker")
    assert code == 0, error
    assert sorted(Path().glob("*/*")) == sorted(file.relative_to(tmp_path) for file in kept)
    assert [each.log.parent.parent == tmp_path for each in brokers if each] == [False] * (system == "kafka")
