"""Pipelines that would give wrong results, or none, and are refused."""

from asyncio import sleep

import pytest

from samzapy.errors import ConfigError, EnvironmentFailure, TaskFailed
from samzapy.pipeline import Count, Pipeline, Sum, Tumbling, Within, field
from samzapy.testing.pipeline import PipelineDriver

TWO_AND_THREE = {"one": 2, "two": 3}


@pytest.fixture
def pipeline():
    return Pipeline("p")


def streams(pipeline):
    return pipeline.stream("kafka.one"), pipeline.stream("kafka.two")


def tables(pipeline):
    return pipeline.table("kafka.one"), pipeline.table("kafka.two")


def merged(pipeline):
    one, two = streams(pipeline)
    return one.merge(two)


#: What needs equal keys of both inputs together, and the step that says so.
STATEFUL = {
    "count": (lambda p: merged(p).count(name="both"), r"'both' \(aggregate\)"),
    "behind a filter": (lambda p: merged(p).filter(bool).count(name="both"), r"'both' \(aggregate\)"),
    "window": (lambda p: merged(p).window(Tumbling("1m"), name="both").count(), r"'both' \(window\)"),
    "deduplicate": (lambda p: merged(p).deduplicate(name="both"), r"'both' \(deduplicate\)"),
    "process": (lambda p: merged(p).process(lambda n, handle: None, name="both"), r"'both' \(process\)"),
    "table": (lambda p: merged(p).to_table(name="both"), r"'both' \(table\)"),
    "join": (
        lambda p: p.stream("kafka.one").join(p.stream("kafka.two"), within=Within("1s"), name="both"),
        r"'both' \(join\)",
    ),
    "as-of": (lambda p: p.stream("kafka.one").join_as_of(p.stream("kafka.two"), name="both"), r"'both' \(join\)"),
    "lookup": (lambda p: p.stream("kafka.one").join(p.table("kafka.two"), name="both"), r"'both' \(lookup\)"),
    "tables": (lambda p: tables(p)[0].join(tables(p)[1], name="both"), r"'both' \(join\)"),
}


@pytest.mark.parametrize("needs", STATEFUL)
def test_inputs_of_unequal_counts_that_have_to_meet_are_refused(pipeline, needs):
    build, step = STATEFUL[needs]
    build(pipeline)
    with pytest.raises(EnvironmentFailure, match=f"kafka.one=2 kafka.two=3; .*, and step {step} needs .*through"):
        PipelineDriver(pipeline, partitions=TWO_AND_THREE).close()


def test_a_foreign_key_needs_tables_of_equal_counts(pipeline):
    tables(pipeline)[0].join(tables(pipeline)[1], on=str)
    with pytest.raises(EnvironmentFailure, match=r"partition counts differ.*answers"):
        PipelineDriver(pipeline, partitions=TWO_AND_THREE).close()


APART = {
    "stateless": lambda p: merged(p).map(str).to("kafka.out"),
    "each its own": lambda p: [each.count() for each in streams(p)],
    "through": lambda p: merged(p).through().count(),
    "key": lambda p: merged(p).key_by(lambda key, _: key).count(),
    "joined by a key": lambda p: streams(p)[0].key_by(str).join(p.stream("kafka.two").key_by(str), within=Within(0)),
    "everywhere": lambda p: p.stream("kafka.one").join(p.table("kafka.two", everywhere=True)),
    "lookups outside": lambda p: merged(p).map_async(str, cache="1h"),
}


@pytest.mark.parametrize("shape", APART)
def test_inputs_of_unequal_counts_that_never_meet_run(pipeline, shape):
    APART[shape](pipeline)
    with PipelineDriver(pipeline, partitions=TWO_AND_THREE) as driver:
        driver.send("one", 1, key="a")


@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_pipeline_without_its_timer_is_refused(pipeline, value):
    pipeline.stream("kafka.in").count()
    with pytest.raises(ConfigError, match=r"^task\.window\.ms: must be > 0, e\.g\. 1000: PipelineTask follows"):
        PipelineDriver(pipeline, {"task.window.ms": value}).close()


@pytest.mark.parametrize("name", ["steps", "timers"])
def test_a_table_may_have_the_name_of_a_store_of_the_pipeline(pipeline, name):
    def wake(handle):
        handle.send("timer")

    table = pipeline.table(f"kafka.{name}")
    table.changes().process(lambda n, handle: handle.schedule(handle.time_ms + 1), on_timer=wake).to("kafka.out")
    with PipelineDriver(pipeline) as driver:
        for key, time_ms in (("a", 1_700_000_000_000), ("b", 1_700_000_000_010)):
            driver.send(name, {"n": 1}, key=key, timestamp=time_ms)
        assert driver.store(table.step.name).get("a") == {"n": 1}
        assert driver.outputs("out").messages == ["timer"]


AS_OF, PRESENT = "how: this join is one of inner, left, got 'outer'", "within and rules belong to two streams"
MISUSED = [
    (lambda one, two, rows: rows.join(rows, on=str, how="outer"), AS_OF),
    (lambda one, two, rows: one.merge(Pipeline("q").stream("kafka.in")), "'in' is a step of another pipeline than 'p'"),
    (lambda one, two, rows: rows.join(rows, how="right"), "how: this join is one of inner, left, outer, got 'right'"),
    (lambda one, two, rows: one.join(two, within=Within("1s"), on=str), r"takes no on="),
    (lambda one, two, rows: one.join(rows, within=Within("1s")), PRESENT),
    (lambda one, two, rows: one.window(Tumbling("1m")).aggregate(key=Count()), "'key'"),
    (
        lambda one, two, rows: one.window(Tumbling("1m")).aggregate(name="w"),
        r"such as Count\(\) for name, got 'w'; a window's ",
    ),
    (lambda one, two, rows: one.window("1m"), r"windows such as Tumbling\('1m'\), got '1m'"),
    (lambda one, two, rows: one.key_by("page"), r"\(arguments: 1 or 2\), got 'page'; .* field\('page'\)"),
    (lambda one, two, rows: rows.map_values(None), "1 or 2.*None"),
    (lambda one, two, rows: one.filter(lambda: True), "1 or 2.*<lambda>"),
    (lambda one, two, rows: one.aggregate(sum=Sum("size")), r"arguments: 1\).*field\('size'\)"),
    (lambda one, two, rows: one.process(lambda n: n), "arguments: 2.*<lambda>"),
    (lambda one, two, rows: one.join(rows, "left"), "arguments: 2.*'left'"),
    (lambda one, two, rows: (one.through("x"), two.through("x")), r"through\('x'\): the pipeline has a stream"),
    (lambda one, two, rows: one.filter(sleep), "only map_async awaits a coroutine function, got <function sleep"),
    (lambda one, two, rows: one.filter(field("a") > 1 and field("b")), r"\(a > 1\) is true or false .* with & and"),
]


@pytest.mark.parametrize(("build", "reason"), MISUSED)
def test_what_a_step_cannot_work_with_is_refused_where_it_is_given(pipeline, build, reason):
    with pytest.raises((TypeError, ValueError), match=reason):
        build(*streams(pipeline), pipeline.table("kafka.rows"))


def by_x(pipeline, given, out):
    pipeline.stream(f"kafka.{given}").key_by(lambda item: item["x"]).count().to(f"kafka.{out}")


TAKEN = r"^by-x-out: connects steps, .* give key_by a name=, got 'kafka.p-by-x'"
SENT = [lambda rows: rows.to("kafka.out"), lambda rows: rows.changes().through(), lambda rows: rows.join(rows, on=str)]
SENT += [lambda rows: rows.changes().broadcast().to("kafka.out")]
NAMED = "^name of a step: a name that no other step has, such as n-2, got 'n'"
PLANS = [
    (lambda p: [each.count(name="n") for each in streams(p)], NAMED),
    (lambda p: [each.key_by(str, name="n") for each in streams(p)], NAMED),
    (lambda p: [table.join(tables(p)[1], name="n") for table in tables(p)], NAMED),
    (lambda p: p.stream("kafka.one").window(Tumbling("1m")).late(), r"one-late: late\(\) needs an aggregation"),
    (lambda p: by_x(p, "p-by-x", "out"), TAKEN),
    (lambda p: by_x(p, "in", "p-by-x"), TAKEN),
    *((lambda p, send=send: send(p.table("kafka.rows", everywhere=True)), "each task would send all") for send in SENT),
]


@pytest.mark.parametrize(("build", "reason"), PLANS)
def test_a_plan_that_gives_wrong_results_is_refused(pipeline, build, reason):
    with pytest.raises(ConfigError, match=reason):
        assert [build(pipeline), pipeline.explain()]


def test_results_that_nobody_reads_are_reported_with_their_step(pipeline, caplog):
    pipeline.stream("kafka.in").window(Tumbling("1m")).count()
    pipeline.explain()
    assert caplog.messages == ["Nothing reads what step 'in-window' (window) gives: send it with to()"]


def test_an_output_that_no_step_has_is_refused_with_the_known_ones(pipeline):
    pipeline.stream("kafka.in").to("kafka.out")
    with PipelineDriver(pipeline) as driver, pytest.raises(ConfigError, match=r"are kafka.in, kafka.out, got 'outs'"):
        driver.committed("outs" if driver.outputs("out") == [] else "out")


KEYLESS = [(lambda s: s.deduplicate(), "deduplicate"), (lambda s: s.map_async(str, cache="1h"), "c")]


@pytest.mark.parametrize(("build", "name"), KEYLESS, ids=["deduplicate", "cache"])
def test_a_message_without_a_key_is_not_taken_for_another_one(pipeline, build, name):
    build(pipeline.stream("kafka.in")).to("kafka.out")
    with (
        PipelineDriver(pipeline) as driver,
        pytest.raises(TaskFailed, match=rf"kafka.in\[0\]@0: .*{name}.* needs a key"),
    ):
        driver.send("in", 1)


KEYS = [
    ({"key": lambda _, key=key: key}, "by-key.*a key")
    for key in ({"a": 1}, {"a"}, b"a", 1.5, True, None, (1, object()))
]
TIMES = [({"time": lambda _, at=at: at}, r"one\[0\]@0: time: expected") for at in (None, "1", 1.5, True, -1)]
STATE = ({"process": lambda _, handle: setattr(handle, "state", 1)}, "'state'")
TIMER = ({"process": lambda _, handle: handle.schedule(1)}, "on_timer")


@pytest.mark.parametrize(("used", "reason"), [*KEYS, *TIMES, STATE, TIMER])
def test_what_a_function_must_not_give_or_do_ends_the_task_by_name(pipeline, used, reason):
    stream = pipeline.stream("kafka.one", time=used.get("time"))
    stream.key_by(used.get("key", str)).count()
    stream.process(used.get("process", lambda _, handle: None))
    with PipelineDriver(pipeline) as driver, pytest.raises(TaskFailed, match=reason):
        driver.send("one", 1, key="a")
