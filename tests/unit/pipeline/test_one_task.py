"""In a job of one task, messages with positions pass a stream of the job without going through it."""

import pytest
from rigs.pipeline_rig import Surroundings, counting, totals

import samzapy
from samzapy.errors import EnvironmentFailure
from samzapy.pipeline import Count, Pipeline, TimeRules, Tumbling, Within
from samzapy.testing.pipeline import PipelineDriver

START = 1_700_000_040_000


def counts():
    pipeline = Pipeline("counts")
    pipeline.stream("shop.in").key_by(lambda item: item["k"]).count().to("shop.out")
    return pipeline


@pytest.mark.parametrize(("partitions", "between"), [(1, 0), (2, 3)])
def test_one_task_sends_no_message_through_the_stream(partitions, between):
    with PipelineDriver(counts(), partitions=partitions) as driver:
        for key in "aba":
            driver.send("in", {"k": key}, key=key)
        assert driver.outputs("counts-by-k").messages == [b"+1"] * between
        assert driver.outputs("out").pairs == [("a", 1), ("b", 1), ("a", 2)]


def test_messages_with_one_offset_of_several_inputs_all_join():
    pipeline = Pipeline("joined")
    several = pipeline.stream("shop.one").merge(pipeline.stream("shop.two"))
    pairs = several.flat_map(lambda item: [item, item * 10]).key_by(lambda _: "k")
    other = pipeline.stream("shop.other").key_by(lambda _: "k")
    rules = TimeRules(lateness="1h")
    pairs.join(other, lambda left, right: [left, right], within=Within("5s", "5s"), rules=rules).to("shop.out")
    with PipelineDriver(pipeline) as driver:
        for stream, item in (("one", 1), ("two", 2), ("other", 0)):
            driver.send(stream, item, timestamp=START)
        for stream in ("one", "two", "other"):
            driver.send(stream, -1, timestamp=START + 9_000_000)
        for _ in range(4):
            driver.advance(1)
        lefts = [left for left, right in driver.outputs("out").messages if right == 0]
        assert sorted(lefts) == [1, 2, 10, 20]


def test_records_that_are_still_in_the_stream_count_before_its_watermark():
    pipeline = Pipeline("left")
    windows = pipeline.stream("shop.in").key_by(lambda item: item["k"]).window(Tumbling("10s"))
    windows.aggregate(n=Count()).to("shop.out")
    with PipelineDriver(pipeline) as driver:
        driver.send("left-by-k", b"-", key="a", timestamp=START)
        driver.send("in", {"k": "a"}, timestamp=START + 1000)
        driver.send("in", {"k": "b"}, timestamp=START + 60_000)
        driver.advance(1)
        driver.advance(1)
        assert [(each["key"], each["n"]) for each in driver.outputs("out").messages] == [("a", 2)]


def test_a_table_behind_the_stream_joins_the_table_that_it_comes_from():
    pipeline = Pipeline("chain")
    table = pipeline.table("shop.in")
    again = table.changes().key_by(lambda key, _: key).to_table(name="again")
    table.join(again, lambda one, two: [one, two]).to("shop.out")
    with PipelineDriver(pipeline) as driver:
        for row in ("x", "y", None):
            driver.send("in", row, key="k")
        assert driver.outputs("out").pairs[-1] == ("k", None)
        assert ("k", ["y", "y"]) in driver.outputs("out").pairs


@pytest.mark.parametrize("stages", [2, 3])
def test_a_run_of_one_task_ends_and_counts_all(tmp_path, monkeypatch, stages):
    monkeypatch.chdir(tmp_path)
    pipeline = counting("views", stages)
    around = Surroundings(pipeline, {"views-in": 1, "views-out": 1})
    for _ in range(2):
        around.write("views-in", [{"page": page} for page in ("ax", "ay", "ax")])
        samzapy.run(pipeline, runner="local", until_end=True, progress=False)
    assert totals(around.read("views-out")) == ({"ax": 4, "ay": 2} if stages == 2 else {"a": {"most": 4}})


def test_an_input_that_grows_from_one_partition_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipeline = counting("views", 2)
    around = Surroundings(pipeline, {"views-in": 1, "views-out": 1})
    around.write("views-in", [{"page": "a"}])
    samzapy.run(pipeline, runner="local", until_end=True, progress=False)
    around.grow("views-in", 2)
    with pytest.raises(
        EnvironmentFailure, match=r"shop.views-by-page connects steps .* has 1 part.* widest input has 2"
    ):
        samzapy.run(pipeline, runner="local", until_end=True, progress=False)
