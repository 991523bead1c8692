"""Joins that take batches, against the same joins that take one message after the other."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, SOURCES, JoinBench, context, envelope, ordered

from samzapy.api.envelope import MessageBatch
from samzapy.metrics import Registry
from samzapy.operators.columns import runs_of_partitions
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, StreamTableJoin, TableTableJoin, TimeRules, Within

values = st.none() | st.integers(0, 99)
runs = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), values), max_size=9)),
    max_size=12,
)
JOINS = {
    "stream-stream": lambda limit: (
        lambda made: StreamStreamJoin(made, "joined", (LEFT, RIGHT), Within(4, 6), TimeRules(9), limit)
    ),
    "as-of": lambda limit: lambda made: AsOfJoin(made, "joined", (LEFT, RIGHT), 5, TimeRules(9), limit),
}


def batch_of(envelopes):
    columns = [[each[place] for each in envelopes] for place in (1, 2, 3, 5)]
    return MessageBatch(envelopes[0].ssp, *columns)


def one_by_one(join, envelopes):
    return [joined for each in envelopes for joined in join.add(each)]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=runs,
    join=st.sampled_from(sorted(JOINS)),
    limit=st.sampled_from([2, 40, 1_000]),
    window=st.booleans(),
    crash=st.integers(0, 12),
)
def test_a_batch_joins_as_its_messages_do(tmp_path_factory, runs, join, limit, window, crash):
    found = []
    ways = (one_by_one, lambda join, each: join.add_all(each), lambda join, each: join.add_all(batch_of(each)))
    for feed in ways:
        with JoinBench(tmp_path_factory.mktemp("join"), JOINS[join](limit)) as bench:
            offset = 0
            for number, (source, messages) in enumerate(runs):
                envelopes = [envelope(SOURCES[source], offset + n, *each) for n, each in enumerate(messages)]
                offset += len(envelopes)
                if envelopes:
                    bench.outputs += feed(bench.join, envelopes)
                if window:
                    bench.window()
                if number == crash:
                    bench.commit()
                    bench.crash()
            late = bench.late()
            bench.finish()
            found.append((ordered(bench.outputs), late))
    assert found[0] == found[1] == found[2]


rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None]), values), max_size=20)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows)
def test_a_batch_meets_the_rows_that_its_messages_meet(tmp_path_factory, rows):
    found = []
    envelopes = [
        envelope(SOURCES[source], n, key if source < 2 else key or "c", n, value)
        for n, (source, key, value) in enumerate(rows)
    ]
    for feed in (one_by_one_row, lambda join: join.add_all(envelopes)):
        with JoinBench(tmp_path_factory.mktemp("rows"), lambda _: None) as bench:
            registry = Registry()
            join = StreamTableJoin(context(bench.opened.store, registry), "joined", LEFT, RIGHT)
            joined = feed(join) if feed is not one_by_one_row else one_by_one_row(join, envelopes)
            found.append((joined, bench.contents(), registry.counter("join", "unmatched").count))
    assert found[0] == found[1]


def one_by_one_row(join, envelopes):
    return [joined for each in envelopes if (joined := join.add(each)) is not None]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.none() | st.integers(0, 2)), max_size=30))
def test_a_batch_changes_the_joined_rows_as_its_messages_do(tmp_path_factory, rows):
    found = []
    envelopes = [envelope(SOURCES[source], n, key, n, value) for n, (source, key, value) in enumerate(rows)]
    for feed in (
        lambda join: [join.update(each) for each in envelopes],
        lambda join: join.update_all(envelopes),
        lambda join: [row for run, _ in runs_of_partitions(envelopes) for row in join.update_all(batch_of(run))],
    ):
        with JoinBench(tmp_path_factory.mktemp("rows"), lambda _: None) as bench:
            join = TableTableJoin(context(bench.opened.store, Registry()), "joined", {LEFT: "left", RIGHT: "right"})
            found.append((feed(join), bench.contents()))
    assert found[0] == found[1] == found[2]
