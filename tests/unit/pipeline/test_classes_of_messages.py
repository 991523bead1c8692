"""Messages of classes across streams of the job, stores and joins."""

import dataclasses

import msgspec
import pydantic
import pytest

from samzapy.errors import TaskFailed
from samzapy.pipeline import Collect, Count, Max, OnChange, Pipeline, Sliding, Sum, Tumbling, Within
from samzapy.testing.pipeline import PipelineDriver


@dataclasses.dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    x: int


class Struct(msgspec.Struct):
    x: int


@pytest.fixture(params=[Point, Model, Struct])
def kind(request):
    return request.param


def outputs(pipeline, *messages, restart=False):
    """What comes of (stream, message, key), with a restart before the last one if wanted."""
    with PipelineDriver(pipeline, partitions=2) as driver:
        for stream, message, key in messages[:-1]:
            driver.send(stream, message, key=key)
        if restart:
            driver.restart()
        stream, message, key = messages[-1]
        driver.send(stream, message, key=key)
        return driver.outputs("out").messages


def test_objects_come_back_from_a_stream_of_the_job_and_a_table(kind):
    pipeline = Pipeline("p")
    points = pipeline.stream("kafka.in", kind).key_by(lambda point: str(point.x)).filter(lambda point: point.x)
    points.to_table().map_values(lambda point: point.x).to("kafka.out")
    assert outputs(pipeline, ("in", kind(x=1), "a")) == [1]


def test_objects_go_out_as_they_came(kind):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in", kind).to("kafka.out")
    assert [message.x for message in outputs(pipeline, ("in", kind(x=1), "a"))] == [1]


def test_a_reduce_gets_objects_after_a_restart(kind):
    pipeline = Pipeline("p")
    total = pipeline.stream("kafka.in", kind).reduce(lambda one, two: kind(x=one.x + two.x))
    total.map_values(lambda point: point.x).to("kafka.out")
    assert outputs(pipeline, ("in", kind(x=1), "a"), ("in", kind(x=2), "a"), restart=True)[-1] == 3


def test_collected_objects_are_plain_before_and_after_a_restart(kind):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in", kind).aggregate(n=Count(), all=Collect()).to("kafka.out")
    found = outputs(pipeline, ("in", kind(x=1), "a"), ("in", kind(x=2), "a"), restart=True)
    assert found == [{"n": 1, "all": [{"x": 1}]}, {"n": 2, "all": [{"x": 1}, {"x": 2}]}]


@pytest.mark.parametrize("fold", [Count(), Sum(lambda point: point.x)], ids=["count", "sum"])
def test_a_sliding_window_has_objects_after_a_restart(kind, fold):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in", kind).window(Sliding("20s"), emit=OnChange()).aggregate(n=fold).to("kafka.out")
    assert outputs(pipeline, ("in", kind(x=1), "a"), ("in", kind(x=1), "a"), restart=True)[-1]["n"] == 2


def test_tables_of_objects_join_by_a_foreign_key(kind):
    def together(left, right) -> kind:
        return kind(x=left.x * 10 + right.x)

    together.__annotations__["return"] = kind
    pipeline = Pipeline("p")
    left, right = pipeline.table("kafka.left", kind), pipeline.table("kafka.right", kind)
    left.join(right, together, on=lambda point: point.x).map_values(lambda point: point.x).to("kafka.out")
    assert outputs(pipeline, ("right", kind(x=5), "1"), ("left", kind(x=1), "a"))[-1] == 15


@pytest.mark.parametrize(
    "keep",
    [
        lambda points: points.through().to_table(),
        lambda points: points.key_by(lambda _: "k").process(lambda *_: None),
        lambda points: points.to_table(),
        lambda points: points.reduce(lambda one, _: one),
        lambda points: points.window(Tumbling("1s")).aggregate(all=Collect()),
        lambda points: points.join(points, within=Within("1s", "1s")),
        lambda points: points.window(Sliding("1s")).aggregate(sum=Sum(lambda point: point.x)),
    ],
    ids=["through", "key_by", "to_table", "reduce", "window", "join", "sliding"],
)
def test_an_object_of_a_class_that_nobody_names_is_refused(kind, keep):
    pipeline = Pipeline("p")
    keep(pipeline.stream("kafka.in").map(lambda n: kind(x=n))).to("kafka.out")
    with pytest.raises(TaskFailed, match=rf"kafka.in\[0\]@0 in step .*value_type={kind.__name__}"):
        outputs(pipeline, ("in", 1, None if keep is None else "b"))


def test_an_object_in_a_total_is_refused(kind):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").aggregate(most=Max(lambda n: kind(x=n))).to("kafka.out")
    with pytest.raises(TaskFailed, match=f"an object of {kind.__name__} would come back as a dict: aggregate a plain"):
        outputs(pipeline, ("in", 1, "a"))


def test_a_count_needs_no_name_of_a_class(kind):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").map(lambda n: kind(x=n)).count().to("kafka.out")
    assert outputs(pipeline, ("in", 1, "a")) == [1]
