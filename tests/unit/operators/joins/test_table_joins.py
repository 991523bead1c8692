"""Joins with tables, and inputs that do not meet."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, SOURCES, JoinBench, context, envelope

from samzapy import SystemStreamPartition
from samzapy.errors import EnvironmentFailure
from samzapy.metrics import Registry
from samzapy.operators.joins import AsOfJoin, Joined, Side, StreamStreamJoin, StreamTableJoin, TableTableJoin, Within

PARTS = {LEFT: "profile", RIGHT: "settings"}
changes = st.lists(
    st.tuples(st.sampled_from([0, 2]), st.sampled_from("abc"), st.none() | st.integers(0, 3)), max_size=30
)


def table_table(context):
    return TableTableJoin(context, "joined", PARTS)


def stream_table(context):
    return StreamTableJoin(context, "joined", LEFT, RIGHT)


def folded(records):
    """What the readers of a changelog are left with."""
    rows = {}
    for key, value in records:
        rows.pop(key.decode(), None)
        if value is not None:
            rows[key.decode()] = json.loads(value)
    return rows


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=changes, crashes=st.sets(st.integers(0, 30), max_size=3), every=st.integers(1, 5))
def test_the_changelog_is_the_join_of_the_tables_over_crashes(tmp_path, changes, crashes, every):
    with JoinBench(tmp_path, table_table) as bench:
        done = committed = 0
        while done < len(changes):
            if done in crashes:
                crashes = crashes - {done}
                bench.crash()
                done = committed
                continue
            source, key, value = changes[done]
            bench.join.update(envelope(SOURCES[source], done, key, done, value))
            done += 1
            if done % every == 0:
                bench.commit()
                committed = done
        bench.commit()
        tables = {source: {key: value for s, key, value in changes if s == source} for source in (0, 2)}
        rows = {}
        for source, name in ((0, "profile"), (2, "settings")):
            for key, value in tables[source].items():
                if value is not None:
                    rows.setdefault(key, {})[name] = value
        assert folded(bench.opened.changelog()) == rows == bench.contents()


def test_a_row_is_written_when_it_changes_and_not_otherwise(tmp_path):
    with JoinBench(tmp_path, table_table) as bench:
        records = []
        for source, value in ((0, 1), (0, 1), (2, 5), (2, None), (2, None), (0, None), (0, None)):
            row = bench.join.update(envelope(SOURCES[source], 0, "a", 0, value))
            bench.commit()
            records.append((row, len(bench.opened.changelog())))
        assert records == [
            ({"profile": 1}, 1),
            ({"profile": 1}, 1),
            ({"profile": 1, "settings": 5}, 2),
            ({"profile": 1}, 3),
            ({"profile": 1}, 3),
            (None, 4),
            (None, 4),
        ]
        assert bench.opened.changelog()[-1] == (b"a", None)


@pytest.mark.parametrize("batches", [False, True])
def test_a_row_has_the_newest_value_even_if_python_finds_the_old_one_equal(tmp_path, batches):
    changes = [
        envelope(SOURCES[0], n, "a", n, value) for n, value in enumerate([1, True, 1.0, {"x": [0]}, {"x": [False]}])
    ]
    with JoinBench(tmp_path, table_table) as bench:
        for change in changes:
            rows = bench.join.update_all([change]) if batches else [bench.join.update(change)]
            assert repr(rows) == repr([{"profile": change.message}])
            assert repr(bench.contents()) == repr({"a": {"profile": change.message}})
        if batches:
            bench.join.update_all(changes[:3])
            assert repr(bench.contents()) == repr({"a": {"profile": 1.0}})


def test_parts_need_names_of_their_own(tmp_path):
    for parts, names in (({LEFT: "x", RIGHT: "x"}, "x', 'x"), ({LEFT: "x"}, "x")):
        with pytest.raises(
            ValueError, match=f"a join needs two tables or more, each with a name of its own, got \\['{names}'"
        ):
            JoinBench(tmp_path, lambda made, parts=parts: TableTableJoin(made, "joined", parts))


def test_a_message_of_the_stream_meets_the_newest_row_of_its_key_or_none(tmp_path):
    with JoinBench(tmp_path, stream_table) as bench:
        assert bench.send(0, "ann", 1, "view") == Joined("ann", Side(1, "view"), None)
        assert bench.send(2, "ann", 2, {"region": "eu"}) is None
        assert bench.send(1, "ann", 3, "view") == Joined("ann", Side(3, "view"), Side(3, {"region": "eu"}))
        bench.commit()
        bench.send(2, "ann", 4, {"region": "us"})
        bench.crash()
        assert bench.send(0, "ann", 5, "view").right.value == {"region": "eu"}
        bench.send(2, "ann", 6, None)
        assert bench.send(0, "ann", 7, "view").right is None
        assert bench.send(0, None, 8, "view").right is None
        assert bench.registry.counter("join", "unmatched").count == 2


JOINS = {
    "table-table": table_table,
    "stream-table": stream_table,
    "stream-stream": lambda made: StreamStreamJoin(made, "joined", (LEFT, RIGHT), Within()),
    "as-of": lambda made: AsOfJoin(made, "joined", (LEFT, RIGHT)),
}


@pytest.mark.parametrize("make", JOINS.values(), ids=JOINS)
def test_a_task_that_reads_no_partition_of_one_input_is_refused(tmp_path, make):
    partitions = [SystemStreamPartition("mem", "left", 3), SystemStreamPartition("mem", "other", 3)]
    with JoinBench(tmp_path, stream_table) as bench, pytest.raises(EnvironmentFailure) as refused:
        make(context(bench.opened.store, Registry(), partitions))
    assert str(refused.value) == (
        "Partition 1: joins mem.left with mem.right, and reads no partition of mem.right (it reads mem.left[3]): "
        "joined inputs must be in task.inputs with the same number of partitions each"
    )
