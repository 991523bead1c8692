"""Plays a history of batches and crashes on a pipeline, and what each guarantee promises of its results."""

from collections import Counter
from contextlib import ExitStack

from hypothesis import strategies as st

from samzapy.pipeline.stateless import To
from samzapy.testing.pipeline import PipelineDriver

START = 1_700_000_040_000
#: The key of messages that move event time on, and what other keys of it begin with.
TICK = "tick"

GUARANTEES = ["exactly-once", "effectively-once", "at-least-once", "at-most-once"]
POINTS = [
    "now",
    *(f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")),
    *(f"start.{n}" for n in range(1, 8)),
    "ahead.1",
]
#: Where the pipeline dies, if it does: the point, whether time passes there, and at which passing.
CRASHES = st.one_of(
    st.none(), st.tuples(st.sampled_from(POINTS), st.booleans(), st.sampled_from([1, 1, 2])), st.just(("now", False, 1))
)


def crash(driver, point, passing, nth):
    """Die there and start again, unless the pipeline does not come by."""
    try:
        if point == "now":
            driver.crash()
        elif passing and point.startswith("commit"):
            driver.crash(point, during=lambda: driver.advance(1), nth=nth)
        else:
            driver.crash(point, nth=nth)
    except RuntimeError:
        if driver.running:
            return
    driver.restart()


class Play:
    """A pipeline in a guarantee. `post(stream, key, message, second)` before `end`."""

    def __init__(self, pipeline, guarantee, partitions):
        self._stack, self._partitions, self._steps = ExitStack(), partitions, pipeline.plan.steps
        driver = PipelineDriver(pipeline, {"task.guarantee": guarantee}, partitions=partitions)
        self.driver = self._stack.enter_context(driver)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self._stack.close()

    def post(self, stream, key, message, second=0):
        self.driver.post(stream, message, key=key, timestamp=START + second * 1000)

    def go_on(self, at, *, passing):
        """Process what is there; time passes or not; the pipeline dies or not."""
        self.driver.run()
        if passing:
            self.driver.advance(1)
        if at is not None:
            crash(self.driver, *at)

    def end(self, streams, message=1):
        """Let event time pass through all stages."""
        for second in (10_000, 20_000, 30_000, 40_000, 50_000):
            for stream in streams:
                for partition in range(self._partitions):
                    time_ms = START + second * 1000
                    self.driver.send(stream, message, key=TICK, partition=partition, timestamp=time_ms)
            self.driver.advance(1)
            self.driver.commit()
        for _ in range(2):
            self.driver.advance(1)
            self.driver.commit()

    def outputs(self):
        """(key, message) of each output, as a receiver has them that drops repeated ids."""
        seen, result = set(), []
        for output in self.driver.committed("out") if any(isinstance(step, To) for step in self._steps) else ():
            name = dict(output.headers or ()).get("samzapy-id")
            if name is not None and name in seen:
                continue
            seen.add(name)
            if not output.key.startswith(TICK):
                result.append((output.key, output.message))
        return result

    def state(self, store):
        """The entries of a store, of all tasks."""
        result = {}
        for partition in range(self._partitions):
            with self.driver.store(store, partition).all() as entries:
                result |= {key: value for key, value in entries if not key.startswith(TICK)}
        return result


def no_more(one, other):
    """Whether a result counts no more than another one: numbers, or dicts or lists of them."""
    if one is None or other is None:
        return one is None
    if isinstance(one, dict):
        return all(no_more(each, other[name]) for name, each in one.items())
    if isinstance(one, list):
        return all(map(no_more, one, other))
    return one <= other


def bag(results):
    return Counter((key, str(result)) for key, result in results)


def check_bag(found, expected, promise):
    """Compare (key, result) of two lists, in any order."""
    found, expected = bag(found), bag(expected)
    if promise == "exact":
        assert found == expected
    elif promise == "repeated":
        assert found.keys() == expected.keys()
        assert found >= expected
    elif promise == "at most":
        assert found <= expected
    else:
        assert found.keys() <= expected.keys()


def check_totals(found, expected, promise):
    """Compare (place, total) with the total of each place, of which the last one counts."""
    last = dict(found)
    if promise in {"exact", "repeated"}:
        assert last == expected
    elif promise == "at least":
        assert last.keys() == expected.keys()
        assert all(no_more(total, last[place]) for place, total in expected.items())
    else:
        assert last.keys() <= expected.keys()
        assert all(no_more(total, expected[place]) for place, total in found)
