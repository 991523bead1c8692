"""Any pipeline over any streams, with crashes anywhere, in each guarantee: the results of a naive evaluation in Python.

1. Messages are (key, number, second). Sums, counts and greatest numbers do not depend on the order of partitions, and
   none becomes less by a further message.
2. Exactly-once: the results, each once. Effectively-once: the same for a receiver that drops repeated ids. Results of
   time have no ids, and where two partitions meet their order decides about ids: there results may come again, and the
   state is exact. At-least-once: no result is missing; a total may count more behind a repartition only. At-most-once:
   no total counts more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import naive
import pytest
from crashing import CRASHES, GUARANTEES, START, TICK, Play, bag, check_bag, check_totals, no_more
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from samzapy.pipeline import Count, Hopping, Max, Pipeline, Sessions, Sliding, Sum, TimeRules, Tumbling, Within

RULES = TimeRules(lateness="60s")


def branches(stream):
    low, high = stream.branch(lambda n: n < 5, lambda _: True)
    return high.map(lambda n: n - 5).merge(low)


def other_key(key, number):
    return key if key.startswith(TICK) else "abc"[number % 3]


#: A name, what it adds to a stream, and what it does to a list of (key, number, second).
STATELESS = {
    "filter": (
        lambda s: s.filter(lambda key, n: n % 3 or key.startswith(TICK)),
        lambda rows: [row for row in rows if row[1] % 3],
    ),
    "map": (lambda s: s.map(lambda n: n + 1), lambda rows: [(k, n + 1, t) for k, n, t in rows]),
    "flat map": (
        lambda s: s.flat_map(lambda key, n: [n] * (1 if key.startswith(TICK) else n % 3)),
        lambda rows: [(k, n, t) for k, n, t in rows for _ in range(n % 3)],
    ),
    "diamond": (
        lambda s: s.merge(s.map(lambda n: n * 2)),
        lambda rows: [each for k, n, t in rows for each in ((k, n, t), (k, n * 2, t))],
    ),
    "branches": (branches, lambda rows: [(k, n if n < 5 else n - 5, t) for k, n, t in rows]),
    "part of key": (
        lambda s: s.key_by(lambda key, n: f"{key}{n % 2}"),
        lambda rows: [(f"{k}{n % 2}", n, t) for k, n, t in rows],
    ),
    "other key": (lambda s: s.key_by(other_key), lambda rows: [(other_key(k, n), n, t) for k, n, t in rows]),
    "through": (lambda s: s.through(), lambda rows: rows),
}
REPARTITIONS = {"part of key", "other key", "through"}


def in_seconds(name):
    """Takes window results as ((key, second), sum); `name`: the edge of the window that names it."""

    def seen(pairs):
        return [((key, (result[name] - START) // 1000), result["sum"]) for key, result in pairs]

    return seen


def windowed(definition):
    return lambda s: s.window(definition).aggregate(sum=Sum()).to("kafka.out")


def joined(how):
    def build(stream):
        other, within = stream.pipeline.stream("kafka.other"), Within("5s", "5s")
        stream.join(other, lambda one, two: [one, two], within=within, how=how, rules=RULES).to("kafka.out")

    return build


def as_of(stream):
    other = stream.pipeline.stream("kafka.other")
    stream.join_as_of(other, lambda one, two: [one, two], rules=RULES).to("kafka.out")


def counts(stream):
    other = stream.pipeline.stream("kafka.other").count(name="right")
    stream.count(name="left").join(other, lambda one, two: [one, two], how="outer").to("kafka.out")


def add(number, handle):
    handle.state.put(handle.key, (handle.state.get(handle.key) or 0) + number)
    handle.send(handle.state.get(handle.key))


def add_and_wait(number, handle):
    handle.state.put(handle.key, (handle.state.get(handle.key) or 0) + number)
    handle.schedule(handle.time_ms + 7_000)


def totals(rows):
    return {key: sum(numbers) for key, numbers in naive.by_key(rows).items()}


def sizes(rows):
    return {key: len(numbers) for key, numbers in naive.by_key(rows).items()}


def both_sizes(rows, other):
    left, right = sizes(rows), sizes(other)
    return {key: [left.get(key), right.get(key)] for key in left | right}


class End(NamedTuple):
    """What ends a pipeline: the step, and what should come out of rows and other rows.

    `totals`: the results are totals of places. `seen`: from (key, message) to those. `of_time`: time makes the results.
    `other`: it reads the other stream, too. `state`: what each of these stores should have.
    """

    build: Callable[[Any], None]
    expected: Callable[[Any, Any], Any]
    totals: bool = True
    seen: Callable[[Any], Any] = list
    of_time: bool = False
    other: bool = False
    state: Callable[[Any, Any], dict[str, Any]] = lambda rows, other: {}


ENDS = {
    "outputs": End(lambda s: s.to("kafka.out"), lambda rows, _: [row[:2] for row in rows], totals=False),
    "deduplicate": End(
        lambda s: s.deduplicate(lambda n: n).to("kafka.out"), lambda rows, _: {row[:2] for row in rows}, totals=False
    ),
    "count": End(
        lambda s: s.count(name="count").to("kafka.out"),
        lambda rows, _: sizes(rows),
        state=lambda rows, _: {"count": sizes(rows)},
    ),
    "count alone": End(lambda s: s.count(name="count"), lambda *_: {}, state=lambda rows, _: {"count": sizes(rows)}),
    "aggregate": End(
        lambda s: s.aggregate(name="all", n=Count(), sum=Sum(), most=Max()).to("kafka.out"),
        lambda rows, _: {k: {"n": len(v), "sum": sum(v), "most": max(v)} for k, v in naive.by_key(rows).items()},
        state=lambda rows, _: {"all": {k: [len(v), sum(v), max(v)] for k, v in naive.by_key(rows).items()}},
    ),
    "reduce": End(
        lambda s: s.reduce(lambda one, two: one + two, name="sum").to("kafka.out"),
        lambda rows, _: totals(rows),
        state=lambda rows, _: {"sum": totals(rows)},
    ),
    "process": End(
        lambda s: s.process(add, name="add").to("kafka.out"),
        lambda rows, _: totals(rows),
        state=lambda rows, _: {"add": totals(rows)},
    ),
    "timers": End(
        lambda s: s.process(
            add_and_wait, on_timer=lambda handle: handle.send(handle.state.get(handle.key)), name="add"
        ).to("kafka.out"),
        lambda rows, _: totals(rows),
        of_time=True,
        state=lambda rows, _: {"add": totals(rows)},
    ),
    "tumbling": End(
        windowed(Tumbling("10s", grace="60s")),
        lambda rows, _: naive.tumbling(rows, 10),
        seen=in_seconds("start"),
        of_time=True,
    ),
    "hopping": End(
        windowed(Hopping("10s", "5s", grace="60s")),
        lambda rows, _: naive.hopping(rows, 10, 5),
        seen=in_seconds("start"),
        of_time=True,
    ),
    "sliding": End(
        windowed(Sliding("8s", grace="60s")),
        lambda rows, _: naive.sliding(rows, 8),
        seen=in_seconds("end"),
        of_time=True,
    ),
    "sessions": End(
        windowed(Sessions("5s", grace="60s")),
        lambda rows, _: naive.sessions(rows, 5),
        seen=in_seconds("start"),
        of_time=True,
    ),
    "inner": End(joined("inner"), lambda *both: naive.pairs(*both, 5, "inner"), totals=False, other=True),
    "left": End(joined("left"), lambda *both: naive.pairs(*both, 5, "left"), totals=False, other=True, of_time=True),
    "outer": End(joined("outer"), lambda *both: naive.pairs(*both, 5, "outer"), totals=False, other=True, of_time=True),
    "as-of": End(as_of, naive.as_of, totals=False, other=True, of_time=True),
    "counts": End(
        counts, both_sizes, other=True, state=lambda rows, other: {"left": sizes(rows), "right": sizes(other)}
    ),
}
#: Those that a missing message changes, and not only makes less.
CHANGED = {"sliding", "sessions", "left", "outer", "as-of"}


def promised(end, guarantee, *, crashed, repartitioned):
    """What holds of the outputs, and of the state."""
    shape = ENDS[end]
    if guarantee == "exactly-once" or not crashed:
        return "exact", "exact"
    if guarantee == "at-most-once":
        return ("nothing" if end in CHANGED else "known" if end == "deduplicate" else "at most"), "at most"
    if guarantee == "effectively-once":
        ordered = not shape.other or (shape.totals is False and shape.of_time)
        return ("known" if not ordered and not shape.totals else "nothing" if not ordered else "repeated"), "exact"
    if repartitioned and shape.totals:
        return "at least", "at least"
    return "repeated", "exact"


def check_state(found, expected, promise):
    if promise == "exact":
        assert found == expected
    elif promise == "at least":
        assert found.keys() == expected.keys()
        assert all(no_more(total, found[key]) for key, total in expected.items())
    else:
        assert all(no_more(total, expected.get(key)) for key, total in found.items())


messages = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=8
)
#: Messages, of which stream, whether time passes, and where the pipeline dies; `stride`: seconds between two batches.
histories = st.lists(st.tuples(messages, st.booleans(), st.booleans(), CRASHES), min_size=1, max_size=5)
PIPELINES = {
    "chain": st.lists(st.sampled_from(list(STATELESS)), max_size=3),
    "end": st.sampled_from(list(ENDS)),
    "guarantee": st.sampled_from(GUARANTEES),
    "partitions": st.integers(1, 3),
    "stride": st.sampled_from([0, 100]),
    "history": histories,
}


def in_time(history, stride):
    """The history with the seconds of each batch behind those of the last one."""
    return [
        ([(key, number, second + at * stride) for key, number, second in batch], *more)
        for at, (batch, *more) in enumerate(history)
    ]


def check(chain, end, guarantee, partitions, stride, history):
    shape, pipeline, history = ENDS[end], Pipeline("p"), in_time(history, stride)
    stream, rows, other = pipeline.stream("kafka.in"), [], []
    for batch, is_other, *_ in history:
        (other if is_other and shape.other else rows).extend(batch)
    for name in chain:
        extend, of_rows = STATELESS[name]
        stream, rows = extend(stream), of_rows(rows)
    shape.build(stream)
    streams = ["in", "other"] if shape.other else ["in"]
    with Play(pipeline, guarantee, partitions) as play:
        for batch, is_other, passing, at in history:
            for key, number, second in batch:
                play.post("other" if is_other and shape.other else "in", key, number, second)
            play.go_on(at, passing=passing)
        play.end(streams)
        found = shape.seen(play.outputs())
        states = {store: play.state(store) for store in shape.state([], [])}
    of_outputs, of_state = promised(
        end,
        guarantee,
        crashed=any(at is not None for *_, at in history),
        repartitioned=not REPARTITIONS.isdisjoint(chain),
    )
    event(f"{guarantee} {end}: {of_outputs}")
    for store, expected in shape.state(rows, other).items():
        check_state(states[store], expected, of_state)
    if of_outputs != "nothing":
        expected = shape.expected(rows, other)
        (check_totals if shape.totals else check_bag)(found, expected, of_outputs)
    if of_outputs == "exact" and shape.totals and shape.of_time and end != "timers":
        assert bag(found) == bag(shape.expected(rows, other).items())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(**PIPELINES)
def test_results_of_any_pipeline_are_those_of_plain_python(**drawn):
    check(**drawn)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(**PIPELINES)
def test_results_of_very_many_pipelines_are_those_of_plain_python(**drawn):
    check(**drawn)
