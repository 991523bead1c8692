"""`map_async`: order, cache, retries, time-outs, pace."""

import asyncio
import dataclasses

import pytest

from samzapy.errors import TaskFailed
from samzapy.pipeline import Pipeline
from samzapy.pipeline.custom import Pace
from samzapy.testing.pipeline import PipelineDriver

Found = dataclasses.make_dataclass("Found", ["n"])


def answers(function, numbers, config=None, **options):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").map_async(function, **options).to("kafka.out")
    with PipelineDriver(pipeline, config or {}) as driver:
        for n in numbers:
            if n is None:
                driver.stop()
                driver.restart()
            else:
                driver.send("in", n, key="a")
        return driver.outputs("out").messages


async def tenfold(n):
    await asyncio.sleep(0)
    return n * 10


@pytest.mark.parametrize("function", [tenfold, lambda n: n * 10, lambda n: tenfold(int(n))])
def test_answers_come_in_the_order_of_the_messages(function):
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").map_async(function, concurrency=2).to("kafka.out")

    async def of_a_notebook():
        with PipelineDriver(pipeline) as driver:
            driver.send_batch("in", ["a"] * 5, list(range(5)))
            return driver.outputs("out").messages

    assert asyncio.run(of_a_notebook()) == [0, 10, 20, 30, 40]


def test_a_cache_asks_nobody_again_after_a_restart():
    asked = []

    def ask(n):
        asked.append(n)
        return n * 10

    assert answers(ask, [1, 1, None, 1, 2], cache="1h", key=lambda n: n) == [10, 10, 10, 20]
    assert asked == [1, 2]


def test_a_cache_has_the_answer_to_the_first_message_of_a_key_in_a_batch():
    pipeline = Pipeline("p")
    pipeline.stream("kafka.in").map_async(lambda n: n * 10, cache="1h").to("kafka.out")
    with PipelineDriver(pipeline) as driver:
        driver.send_batch("in", ["a", "b", "a"], [1, 2, 3])
        assert driver.outputs("out").messages == [10, 20, 10]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_failed_question_is_asked_again(is_async):
    failures = [ConnectionError("first"), ConnectionError("second")]

    def ask(n):
        if failures:
            raise failures.pop(0)
        return n

    async def ask_later(n):
        return ask(n)

    assert answers(ask_later if is_async else ask, [7], retry=2) == [7]


def test_a_question_without_an_answer_in_time_fails_its_message_only():
    async def ask(n):
        return await asyncio.Event().wait() if n == 2 else n

    skip = {"task.error.process.policy": "skip"}
    assert answers(ask, [1, 2, 3], skip, timeout="50ms") == [1, 3]


def test_a_class_in_a_cache_is_refused():
    with pytest.raises(TaskFailed, match=r"in step .in-map-async. .*value_type=Found"):
        answers(Found, [1], cache="1h")


def test_a_pace_gives_each_call_its_turn():
    pace = Pace(0.001)
    waits = [pace.wait_s() for _ in range(3)]
    assert waits[0] == 0
    assert 1_900 < waits[2] <= 2_000
    assert Pace(None).wait_s() == 0
