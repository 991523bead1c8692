"""Any pipeline over any streams, with crashes at any step of a commit: the results of a naive evaluation in Python.

1. Messages are (key, number, second). Sums, counts and greatest numbers do not depend on the order of partitions.
2. State is exact in each guarantee but at-most-once. Behind a repartition that needs exactly-once: a message may be in
   the stream of the job twice otherwise.
3. Outputs are compared as a reader of committed messages sees them.
"""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samzapy.pipeline import Count, Max, Pipeline, Sum, TimeRules, Tumbling, Within
from samzapy.testing.pipeline import PipelineDriver

START = 1_700_000_040_000
TICK = "tick"


def branches(stream):
    low, high = stream.branch(lambda n: n < 5, lambda _: True)
    return high.map(lambda n: n - 5).merge(low)


#: A name, what it adds to a stream, and what it does to a list of (key, number, second).
STATELESS = {
    "filter": (lambda s: s.filter(lambda n: n % 3), lambda rows: [row for row in rows if row[1] % 3]),
    "map": (lambda s: s.map(lambda n: n + 1), lambda rows: [(k, n + 1, t) for k, n, t in rows]),
    "flat map": (
        lambda s: s.flat_map(lambda n: [n] * (n % 3)),
        lambda rows: [(k, n, t) for k, n, t in rows for _ in range(n % 3)],
    ),
    "diamond": (
        lambda s: s.merge(s.map(lambda n: n * 2)),
        lambda rows: [each for k, n, t in rows for each in ((k, n, t), (k, n * 2, t))],
    ),
    "branches": (
        branches,
        lambda rows: [(k, n if n < 5 else n - 5, t) for k, n, t in rows],
    ),
    "key": (
        lambda s: s.key_by(lambda key, n: f"{key}{n % 2}"),
        lambda rows: [(f"{k}{n % 2}", n, t) for k, n, t in rows],
    ),
}


def latest(pairs):
    return {key: message for key, message in pairs if key != TICK and not key.startswith(TICK)}


def each(pairs):
    return Counter((key, str(message)) for key, message in pairs if not key.startswith(TICK))


def groups(rows, key=lambda row: row[0]):
    result = {}
    for row in rows:
        result.setdefault(key(row), []).append(row[1])
    return result


def windows(rows):
    sums = groups(rows, lambda row: (row[0], row[2] // 10 * 10))
    return Counter((key, second, sum(numbers)) for (key, second), numbers in sums.items())


def seen_windows(pairs):
    return Counter(
        (key, (result["start"] - START) // 1000, result["sum"]) for key, result in pairs if not key.startswith(TICK)
    )


def joined(stream):
    other = stream.pipeline.stream("kafka.other")
    rules = TimeRules(lateness="1h")
    return stream.join(other, lambda one, two: [one, two], within=Within("5s", "5s"), rules=rules)


#: What ends a pipeline: the step, what a reader sees of the outputs, and what should be there of rows and other rows.
ENDS = {
    "outputs": (lambda s: s, each, lambda rows, _: Counter((k, str(n)) for k, n, _ in rows)),
    "count": (lambda s: s.count(), latest, lambda rows, _: {k: len(found) for k, found in groups(rows).items()}),
    "aggregate": (
        lambda s: s.aggregate(n=Count(), sum=Sum(), most=Max()),
        latest,
        lambda rows, _: {k: {"n": len(v), "sum": sum(v), "most": max(v)} for k, v in groups(rows).items()},
    ),
    "windows": (
        lambda s: s.window(Tumbling("10s", grace="1h")).aggregate(sum=Sum()),
        seen_windows,
        lambda rows, _: windows(rows),
    ),
    "join": (
        joined,
        each,
        lambda rows, other: Counter(
            (k, str([n, m])) for k, n, t in rows for j, m, u in other if j == k and abs(t - u) <= 5
        ),
    ),
    "tables": (
        lambda s: s.count().join(s.pipeline.stream("kafka.other").count(), lambda one, two: [one, two], how="outer"),
        latest,
        lambda rows, other: {
            k: [len(groups(rows).get(k, ())) or None, len(groups(other).get(k, ())) or None]
            for k in groups([*rows, *other])
        },
    ),
}

messages = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=8
)
crashes = st.one_of(st.none(), st.just("now"), st.sampled_from([f"commit.{n}" for n in range(1, 8)]))
histories = st.lists(st.tuples(messages, st.booleans(), crashes), min_size=1, max_size=5)


def crash(driver, at):
    if at == "now":
        driver.crash()
    elif at is not None:
        try:
            driver.crash(at)
        except RuntimeError:  # the guarantee has no such step, or there was nothing to commit
            return
    if at is not None:
        driver.restart()


def play(pipeline, guarantee, partitions, history, streams):
    config = {"task.guarantee": guarantee}
    if guarantee == "effectively-once":
        config["task.batch.max.messages"] = "1"
    with PipelineDriver(pipeline, config, partitions=partitions) as driver:
        for batch, is_other, at in history:
            name = "other" if is_other and "other" in streams else "in"
            for key, number, second in batch:
                driver.post(name, number, key=key, timestamp=START + second * 1000)
            driver.run()
            crash(driver, at)
        for second in (10_000, 20_000, 30_000):
            for stream in streams:
                for partition in range(partitions):
                    time_ms = START + second * 1000
                    driver.send(stream, 1, key=TICK, partition=partition, timestamp=time_ms)
            driver.advance(1)
            driver.commit()
        driver.advance(1)
        driver.commit()
        return driver.committed("out").pairs


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chain=st.lists(st.sampled_from(list(STATELESS)), max_size=3),
    end=st.sampled_from(list(ENDS)),
    guarantee=st.sampled_from(["exactly-once", "at-least-once", "effectively-once"]),
    partitions=st.integers(1, 3),
    history=histories,
)
def test_results_of_any_pipeline_are_those_of_plain_python(chain, end, guarantee, partitions, history):
    build, seen, expected = ENDS[end]
    pipeline = Pipeline("p")
    stream = pipeline.stream("kafka.in")
    streams = ["in", "other"] if end in {"join", "tables"} else ["in"]
    rows, other = [], []
    for batch, is_other, _ in history:
        (other if is_other and "other" in streams else rows).extend(batch)
    for name in chain:
        extend, naive = STATELESS[name]
        stream, rows = extend(stream), naive(rows)
    build(stream).to("kafka.out")
    results = seen(play(pipeline, guarantee, partitions, history, streams))
    exact = guarantee == "exactly-once" or all(at is None for *_, at in history)
    if exact or ("key" not in chain and seen is latest):
        assert results == expected(rows, other)
