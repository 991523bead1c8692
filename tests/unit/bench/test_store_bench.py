import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from samzapy.bench.plan import read_plan
from samzapy.bench.scenarios import SCENARIOS, Material, Parameters, Stopwatch
from samzapy.bench.stores import run_plan
from samzapy.cli.main import cli
from samzapy.errors import ConfigError

SMALL = {"bench.repeats": "2", "bench.warmup": "0"}


def keys(test, store=None, **parameters):
    found = {**SMALL, "test.methods": test}
    found |= {f"test.{test}.stores.s.{key}": value for key, value in (store or {}).items()}
    found |= {f"test.{test}.set-1.{name.replace('_', '.')}": str(value) for name, value in parameters.items()}
    return found


def measured(given):
    plan = read_plan(given)
    return run_plan(plan, scale=1.0)


def case(name, rate, **more):
    same = {"scenario": "put", "target": "store", "store_keys": {}, "parameters": {"count": 5}}
    return {"name": name, "median_ops_per_s": rate, **same, **more}


COUNTS = {"keys": 40, "count": 30}


@pytest.mark.slow
@pytest.mark.parametrize("test", SCENARIOS)
def test_every_scenario_measures_a_store_with_a_changelog(test):
    parameters = {**COUNTS, "count": 4} if test in {"commit", "range-scan", "delete-scan"} else COUNTS
    store = {"key.serde": "string", "msg.serde": "json", "changelog": "local.changes"}
    (result,) = measured(keys(test, store, **parameters))
    for figures in result.repeats:
        assert figures.operations > 0
        assert 0 < figures.p50_us <= figures.p99_us <= figures.p999_us


def test_what_was_restored_is_every_record_of_the_changelog():
    (result,) = measured(keys("restore", {"changelog": "local.changes"}, keys=10, count=35))
    assert [each.operations for each in result.repeats] == [35, 35]


class Asked:
    """A target that notes the keys that it is asked for, and has none of them."""

    def __init__(self):
        self.keys = []
        self.store = self

    def get(self, key):
        self.keys.append(key)


@pytest.mark.parametrize("serde", ["string", "bytes"])
def test_keys_that_are_not_there_lie_among_those_that_are(serde):
    target = Asked()
    scenario = SCENARIOS["readmissing"](Material(serde, "json", 7), Parameters("", {"keys": "50", "count": "100"}))
    scenario.run(target, Stopwatch())
    present, asked = sorted(scenario.keys), sorted(set(target.keys))
    assert len(target.keys) == 100
    assert not set(present) & set(asked)
    # At least the first half of the keys asked for is followed by one that is there.
    assert present[0] < asked[0] < asked[len(asked) // 2] < present[-1]


def test_a_key_that_changes_often_is_one_changelog_record_per_commit():
    given = keys("overwrite", {"changelog": "local.changes"}, keys=1, count=30, commit_every=10)
    (result,) = measured(given)
    assert [each.changelog_per_change for each in result.repeats] == [0.1, 0.1]


def test_the_hit_rate_is_the_stores():
    cached = measured(keys("readrandom", {"object.cache.size": "1000"}, **COUNTS))[0]
    uncached = measured(keys("readrandom", {"object.cache.size": "0"}, **COUNTS))[0]
    assert [each.hit_rate for each in (*cached.repeats, *uncached.repeats)] == [1.0, 1.0, 0.0, 0.0]


def test_the_raw_store_runs_the_same_scenario():
    (result,) = measured(keys("overwrite", target="raw", **COUNTS))
    assert result.case.target == "raw"
    assert [(run.operations, run.hit_rate) for run in result.repeats] == [(30, None), (30, None)]


def test_scale_multiplies_the_counts_and_nothing_else():
    (result,) = run_plan(read_plan(keys("fillseq", keys=400, value_bytes=30)), scale=0.1)
    assert (result.parameters["keys"], result.parameters["value.bytes"]) == (40, 30)
    assert result.repeats[0].operations == 40


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"test.methods": ""}, "test.methods: required"),
        ({"test.methods": "fillsek"}, "test.methods: one of .*fillseq.*, got 'fillsek'"),
        ({"test.fillseq.scenario": "fill"}, "test.fillseq.scenario: one of .*, got 'fill'"),
        ({"bench.repeats": "0"}, "bench.repeats: integer >= 1, got '0'"),
        ({"bench.repeat": "3"}, "bench.repeat: unknown key; did you mean bench.repeats"),
        ({"test.fillseq.set-1.target": "disk"}, "set-1.target: one of store, raw, got 'disk'"),
        ({"test.fillseq.set-2.keys": "5"}, "test.fillseq.set-2.keys: unknown key, or a set above set.count=1, got .5."),
        (
            {"test.fillseq.set.count": "2", "test.fillseq.set-1.label": "set-2"},
            "label: expected a label of its own for each set of a test, got .fillseq/set-2.",
        ),
        (keys("restore", **COUNTS), "stores.s.changelog: required by scenario restore"),
        ({"test.fillseq.set-1.key": "5"}, "test.fillseq.set-1.key: unknown parameter; did you mean keys"),
        ({"test.fillseq.set-1.keys": "many"}, "test.fillseq.set-1.keys: integer >= 1, got 'many'"),
        ({"test.fillseq.stores.s.msg.serde": "long"}, "msg.serde: to measure, one of bytes, string, json, got 'long'"),
    ],
)
def test_a_slip_in_the_file_is_named(given, told):
    with pytest.raises(ConfigError, match=told):
        measured(keys("fillseq") | {"stores.s.factory": "inmemory"} | given)


@pytest.fixture
def samzapy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = {**keys("fillseq", {"factory": "inmemory"}, keys=50), "test.methods": "fillseq,readrandom"}
    lines |= {"test.readrandom.set-1.keys": "50", "test.readrandom.set-1.count": "50"}
    (tmp_path / "b.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def call(*arguments):
        done = CliRunner().invoke(cli, ["bench", "store", "b.properties", *arguments], prog_name="samzapy")
        return done.exit_code, done.stdout, done.stderr

    return call


def test_the_command_writes_json_with_the_machine(samzapy, tmp_path):
    code, output, _ = samzapy("--json", "r.json")
    assert code == 0
    assert "fillseq/set-1" in output
    written = json.loads((tmp_path / "r.json").read_text())
    assert [each["name"] for each in written["results"]] == ["fillseq/set-1", "readrandom/set-1"]
    assert {"cores", "memory_bytes", "load_average"} <= set(written["machine"])
    assert set(written["results"][0]["repeats"][0]) >= {"ops_per_s", "p999_us", "cpu_us_per_op", "rss_mib"}


def test_only_the_named_test_runs(samzapy):
    code, output, _ = samzapy("--only", "readrandom")
    assert code == 0
    assert "fillseq" not in output
    assert samzapy("--only", "fill")[0] == 2


def test_an_unwritable_file_is_reported_before_anything_runs(samzapy):
    assert samzapy("--json", "missing/file") == (3, "", "error: missing/file: No such file or directory\n")


@pytest.mark.slow
def test_the_shipped_file_runs():
    path = Path(__file__).parents[3] / "configs" / "bench" / "store.properties"
    plan = read_plan(path, SMALL | {"bench.repeats": "1"})
    results = run_plan(plan, scale=0.0002)
    assert {result.case.test for result in results} == {case.test for case in plan.cases}
