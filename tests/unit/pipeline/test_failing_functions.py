"""Failures of users' functions: what the error names, and what is left of the message."""

import pytest

from samzapy.errors import StoreRefused, TaskFailed
from samzapy.pipeline import Pipeline, Sum, Tumbling
from samzapy.testing.pipeline import PipelineDriver

SKIP = {"task.error.process.policy": "skip"}


def stop(message):
    raise StopIteration(message)


def of_two(one, other):
    if other < 0:
        raise ValueError("negative")
    return one + other


def process(n, handle):
    handle.state.put("total", (handle.state.get("total") or 0) + n)
    handle.send(handle.state.get("total"))
    if n < 0:
        raise ValueError("negative")


def refused(key):
    raise LookupError(key)


BROKEN = {
    "map": (lambda stream: stream.map(stop), "in step 'in-map' (map)"),
    "filter": (lambda stream: stream.filter(stop), "in step 'in-filter' (filter)"),
    "flat_map": (lambda stream: stream.flat_map(stop), "in step 'in-flat-map' (flat-map)"),
    "flat_map of no list": (lambda stream: stream.flat_map(lambda _: None), "in step 'in-flat-map' (flat-map)"),
    "peek": (lambda stream: stream.peek(stop), "in step 'in-peek' (peek)"),
    "key_by": (lambda stream: stream.key_by(stop), "in step 'by-stop' (key-by)"),
    "key_by to None": (lambda stream: stream.key_by(lambda _: None), "in step 'by-key' (key-by)"),
    "process": (lambda stream: stream.process(lambda n, _: stop(n)), "in step 'in-process' (process)"),
    "process that returns": (lambda stream: stream.process(lambda n, _: n), "in step 'in-process' (process)"),
    "map_async": (lambda stream: stream.map_async(refused), "in step 'in-map-async' (map-async)"),
    "reduce to None": (lambda stream: stream.reduce(lambda *_: None), "in step 'in-reduce' (aggregate)"),
    "aggregate": (lambda stream: stream.aggregate(sum=Sum(stop)).changes(), "in step 'in-aggregate' (aggregate)"),
    "window": (lambda stream: stream.window(Tumbling("1s")).aggregate(sum=Sum(stop)), "in step 'in-window' (window)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_error_names_the_step_and_the_message(name):
    build, step = BROKEN[name]
    pipeline = Pipeline("p")
    build(pipeline.stream("kafka.in")).to("kafka.out")
    with PipelineDriver(pipeline) as driver, pytest.raises(TaskFailed) as failure:
        driver.send_batch("in", ["a"] * 3, [1, 2, 3])
    place = 1 if name == "reduce to None" else 0
    assert f"process_batch of kafka.in[0]@{place} {step[:-1]}, test_failing_functions.py:" in str(failure.value)


def test_a_null_key_of_a_stateful_step_is_refused_with_its_name():
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").count().to("kafka.out")
    with PipelineDriver(pipeline) as driver, pytest.raises(StoreRefused) as failure:
        driver.send("in", 1)
    assert "kafka.in[0]@0" in str(failure.value)
    assert "key must not be None: has the message a key? (in step 'in-count' (aggregate, test_failing" in str(
        failure.value
    )


def outputs(build, messages, config=SKIP):
    pipeline = Pipeline("p")
    build(pipeline.stream("kafka.in")).to("kafka.out")
    with PipelineDriver(pipeline, config) as driver:
        driver.send_batch("in", ["a"] * len(messages), messages)
        driver.crash("commit.7")
        driver.restart()
        driver.send("in", 10, key="a")
        return driver.outputs("out").messages


def test_a_skipped_message_leaves_nothing_in_a_total():
    assert outputs(lambda stream: stream.reduce(of_two), [1, -5, 2])[-1] == 13


def test_a_skipped_message_leaves_no_state_or_output_of_a_process():
    assert outputs(lambda stream: stream.process(process), [1, -5, 2]) == [1, 3, 13]


def test_a_skipped_message_leaves_nothing_before_the_step_that_fails():
    def build(stream):
        return stream.reduce(lambda total, n: total + n).changes().filter(lambda total: total != 6 or stop(total))

    assert outputs(build, [1, 5, 2], SKIP | {"task.batch.max.messages": "1"}) == [1, 3, 13]


def test_a_skipped_message_leaves_nothing_in_a_window():
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").window(Tumbling("10s")).reduce(of_two).to("kafka.out")
    with PipelineDriver(pipeline, SKIP) as driver:
        driver.send_batch("in", ["a"] * 3, [1, -5, 2], timestamps=[1_000] * 3)
        driver.send("in", 7, key="a", timestamp=20_000)
        driver.advance(1)
        assert [result["value"] for result in driver.outputs("out").messages] == [3]
