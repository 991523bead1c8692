from __future__ import annotations

import subprocess

import pytest

from benchmarks.gate.against import compare, last_release
from benchmarks.gate.changes import Change, changes
from benchmarks.reporting.results import Spread
from benchmarks.workloads.base import Comparison, Workload
from samzapy.bench.measuring import Measurement, MeasurementFailed
from samzapy.errors import EnvironmentFailure


def spread(low, middle, high):
    return Spread(low, middle, high)


def measured(cpu_s):
    return Measurement(messages=1_000_000, seconds=1.0, cpu_s=cpu_s, cpu_whole_s=cpu_s, peak_rss={"main": 1, "tree": 1})


class Canned(Workload):
    """A workload whose runs take the CPU seconds that it is made with; None: the variant fails."""

    name = "canned"
    variants = ("bare", "local", "local.new")

    def __init__(self, cpu_s):
        self.cpu_s = {variant: iter(values) for variant, values in cpu_s.items()}
        self.prepared = 0

    def prepare(self):
        self.prepared += 1

    def run(self, variant):
        cpu_s = next(self.cpu_s[variant])
        if cpu_s is None:
            raise MeasurementFailed(f"{variant}: no such task")
        return measured(cpu_s)

    @classmethod
    def comparisons(cls, variant):
        return (Comparison(variant, "bare"),)


def test_a_median_that_grew_by_more_than_allowed_is_slower():
    change = Change("keyed-count.cpu", 1.0, spread(1.05, 1.2, 1.3))
    assert change.share == pytest.approx(0.2)
    assert change.is_slower(0.1)
    assert not change.is_slower(0.25)


def test_a_change_is_not_counted_while_one_repeat_is_as_quick_as_before():
    assert not Change("keyed-count.cpu", 1.0, spread(0.99, 1.2, 1.3)).is_slower(0.1)


def test_one_quick_repeat_does_not_hide_a_change_of_the_least_cpu():
    assert Change("keyed-count.cpu", 1.0, spread(0.9, 1.2, 1.3), least=1.1).is_slower(0.1)
    assert not Change("keyed-count.cpu", 1.0, spread(0.9, 1.2, 1.3), least=0.99).is_slower(0.1)


def test_only_cpu_ratios_that_both_have_are_compared():
    before = {"a.cpu": spread(1, 1, 1), "a.throughput": spread(1, 1, 1), "gone.cpu": spread(1, 1, 1)}
    now = {"a.cpu": spread(2, 2, 2), "a.throughput": spread(0.1, 0.1, 0.1), "new.cpu": spread(9, 9, 9)}
    assert changes(before, now) == [Change("a.cpu", 1, spread(2, 2, 2))]


def test_two_commits_take_turns_and_their_ratio_is_of_neighbouring_runs():
    here = Canned({"local": [2.0, 6.0, 3.0]})
    there = Canned({"local": [1.0, 2.0, 3.0]})
    said = []
    assert compare(here, there, ["bare", "local"], 3, said.append) == [
        Change("canned local", 1.0, spread(1.0, 2.0, 3.0), least=2.0)
    ]
    assert (here.prepared, there.prepared) == (1, 1)
    assert [line.partition(":")[0] for line in said] == [
        f"canned {number}/3 local {side}" for number in (1, 2, 3) for side in ("here", "there")
    ]


def test_a_variant_unknown_to_the_other_commit_is_left_out():
    here = Canned({"local": [1.0], "local.new": [1.0]})
    there = Canned({"local": [1.0], "local.new": [None]})
    said = []
    found = compare(here, there, ["local", "local.new"], 1, said.append)
    assert [change.name for change in found] == ["canned local"]
    assert "canned 1/1 local.new there: local.new: no such task" in said


def test_the_gate_is_beside_the_newest_tag_or_where_the_branch_left_main(tmp_path):
    def git(*command):
        done = subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *command],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    with pytest.raises(EnvironmentFailure, match="--against COMMIT"):
        last_release(tmp_path)
    git("commit", "--quiet", "--allow-empty", "--message", "one")
    fork = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "-b", "topic")
    git("commit", "--quiet", "--allow-empty", "--message", "two")
    assert last_release(tmp_path) == fork
    git("tag", "v0.2.0")
    git("commit", "--quiet", "--allow-empty", "--message", "three")
    assert last_release(tmp_path) == "v0.2.0"
