"""`samzapy check` and `samzapy run`: the serdes of a store are those that it was written with."""

import shutil
import sys

import pytest

#: Another name of the job file for the serde that the store has.
ALIAS = (
    "-c",
    "serializers.registry.mine.class=org.apache.samza.serializers.LongSerdeFactory",
    "-c",
    "stores.counts.msg.serde=mine",
)
SPELLED_OUT = (
    "-c",
    "serializers.registry.mine.class=samzapy.serializers.primitives.LongSerde",
    "-c",
    "stores.counts.msg.serde=mine",
)


@pytest.fixture
def longs(samzapy, ran, tmp_path):
    """The folder of a job that has run with `long` counts; calls a command on it."""
    shutil.copytree(ran, ".", dirs_exist_ok=True)

    def call(command, *arguments):
        also = ("--runner", "local", "--until-end") if command == "run" else ()
        code, output, errors = samzapy(command, "job.properties", *also, *arguments)
        return code, output + errors

    return call


COMMANDS = ["check", "run"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("leaf", "given", "before", "after"), [("msg", "double", "long", "double"), ("key", "json", "string", "json")]
)
def test_another_serde_than_the_stores_own_is_refused_and_both_are_named(longs, command, leaf, given, before, after):
    code, said = longs(command, "-c", f"stores.counts.{leaf}.serde={given}")
    assert code == 2
    text = f"stores.counts.{leaf}.serde: the store was written with {before}, this is {after}"
    assert text in " ".join(said.split())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("names", [ALIAS, SPELLED_OUT])
def test_another_name_of_the_same_serde_is_accepted(longs, command, names):
    code, said = longs(command, *names)
    assert code == 0, said


def test_where_no_local_store_is_left_the_checkpoint_says_what_the_changelog_was_written_with(longs):
    shutil.rmtree("state/views-1")
    code, said = longs("run", "-c", "stores.counts.msg.serde=double")
    assert code == 2
    assert "stores.counts.msg.serde: the store was written with long, this is double" in " ".join(said.split())


def test_a_class_that_does_not_read_what_the_store_holds_is_refused_in_one_line(samzapy, tmp_path, monkeypatch):
    assert samzapy("init", "greeted")[0] == 0
    monkeypatch.chdir(tmp_path / "greeted")
    monkeypatch.setattr(sys, "path", [*sys.path])
    run = ("run", "greeted.properties", "--runner", "local", "--until-end")
    codes = []
    for change in (
        ("", ""),
        ("last_page: str\n", "last_page: str\n    since: int = 0\n"),
        ("visits: int\n", "visits: str  # of another length\n"),
    ):
        code = tmp_path / "greeted" / "greeted.py"
        code.write_text(code.read_text().replace(*change))
        monkeypatch.delitem(sys.modules, "greeted", raising=False)
        codes.append(samzapy(*run))
    monkeypatch.delitem(sys.modules, "greeted", raising=False)
    assert [code for code, _, _ in codes] == [0, 0, 2], codes
    (line,) = [line for line in codes[-1][2].splitlines() if "stores.visits.msg.type" in line]
    assert "does not read what the store holds: key 'ann': $.visits: Expected str, got int" in line
