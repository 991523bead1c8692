"""Any changes of two tables, with crashes anywhere, in each guarantee: the rows of a naive evaluation in Python.

1. Rows are {"f": a foreign key or None, "n": a number}; None deletes a row. The table of results depends on the newest
   rows alone, so it is exact in each guarantee that loses nothing, also where changes come again. Without a
   transaction an attempt that has died may have sent a result that the next one never has.
2. At-most-once may miss any change of a table: its pipelines end, and lookups meet rows that were there.
3. A lookup meets the row that its key had when the message came, or a later one behind a crash or a repartition.
"""

import naive
import pytest
from crashing import CRASHES, GUARANTEES, TICK, Play
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samzapy.pipeline import Pipeline

KEYS = ["a", "b", "c"]
rows = st.fixed_dictionaries({"f": st.sampled_from([*KEYS, "nobody", None]), "n": st.integers(0, 9)})
changes = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), rows, rows)), min_size=1, max_size=6)
#: Changes, of which table, whether time passes, and where the pipeline dies.
histories = st.lists(st.tuples(changes, st.booleans(), st.booleans(), CRASHES), min_size=1, max_size=6)


def joined(left, right, how):
    return left.join(right, lambda one, two: [one, two], how=how)


def of_foreign(left, right, how):
    return left.join(right, lambda one, two: [one, two], on=lambda row: row["f"], how=how)


def flat(pair):
    """A row of the results as a row."""
    one, _ = pair
    return {"f": one["f"], "n": one["n"] + 1}


#: What becomes of a left table: with steps, and with a dict.
TABLES = {
    "plain": (lambda table: table, lambda found: found),
    "filter": (
        lambda table: table.filter(lambda row: row["n"] % 3),
        lambda found: {key: row for key, row in found.items() if row["n"] % 3},
    ),
    "map": (
        lambda table: table.map_values(lambda row: {**row, "n": -row["n"]}),
        lambda found: {key: {**row, "n": -row["n"]} for key, row in found.items()},
    ),
}

#: A join of two tables: with steps, and with dicts.
JOINS = {
    **{
        how: (
            lambda one, two, how=how: joined(one, two, how),
            lambda one, two, how=how: naive.join_tables(one, two, how),
        )
        for how in ("inner", "left", "outer")
    },
    **{
        f"foreign {how}": (
            lambda one, two, how=how: of_foreign(one, two, how),
            lambda one, two, how=how: naive.join_by_foreign_key(one, two, how),
        )
        for how in ("inner", "left")
    },
    "itself": (lambda one, _: of_foreign(one, one, "left"), lambda one, _: naive.join_by_foreign_key(one, one, "left")),
    "foreign of foreign": (
        lambda one, two: of_foreign(of_foreign(one, two, "inner").map_values(flat), two, "left"),
        lambda one, two: naive.join_by_foreign_key(
            {key: flat(pair) for key, pair in naive.join_by_foreign_key(one, two, "inner").items()}, two, "left"
        ),
    ),
    "foreign and key": (
        lambda one, two: joined(of_foreign(one, two, "inner"), two, "outer"),
        lambda one, two: naive.join_tables(naive.join_by_foreign_key(one, two, "inner"), two, "outer"),
    ),
    "joined by foreign": (
        lambda one, two: of_foreign(joined(one, two, "inner").map_values(flat), two, "inner"),
        lambda one, two: naive.join_by_foreign_key(
            {key: flat(pair) for key, pair in naive.join_tables(one, two, "inner").items()}, two, "inner"
        ),
    ),
}

TABLE_JOINS = {
    "table": st.sampled_from(list(TABLES)),
    "join": st.sampled_from(list(JOINS)),
    "guarantee": st.sampled_from(GUARANTEES),
    "partitions": st.integers(1, 3),
    "history": histories,
}


def play(pipeline, guarantee, partitions, history, names):
    """The outputs and the play, when the history has passed."""
    with Play(pipeline, guarantee, partitions) as played:
        for batch, is_right, passing, at in history:
            for key, row in batch:
                played.post(names[is_right], key, row)
            played.go_on(at, passing=passing)
        played.end(names, {"f": TICK, "n": 1})
        stores = [step.name for step in pipeline.plan.steps if step.name.startswith("results")]
        return played.outputs(), {name: played.state(name) for name in stores}


def check_tables(table, join, guarantee, partitions, history):
    pipeline = Pipeline("p")
    left, right = pipeline.table("kafka.left"), pipeline.table("kafka.right")
    (extend, of_rows), (build, naive_join) = TABLES[table], JOINS[join]
    result = build(extend(left), right)
    result.path = "results"
    result.stored()
    result.to("kafka.out")
    outputs, stores = play(pipeline, guarantee, partitions, history, ["left", "right"])
    crashed = any(at is not None for *_, at in history)
    if guarantee == "at-most-once" and crashed:
        return
    sides = [[change for batch, side, *_ in history for change in batch if side == of] for of in (False, True)]
    expected = naive_join(of_rows(naive.table(sides[0])), naive.table(sides[1]))
    assert stores == {"results-rows": expected}
    if guarantee == "exactly-once" or not crashed:
        assert naive.table(outputs) == expected


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(**TABLE_JOINS)
def test_joins_of_any_tables_are_those_of_dicts(**drawn):
    check_tables(**drawn)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=1_500, deadline=None, suppress_health_check=list(HealthCheck))
@given(**TABLE_JOINS)
def test_joins_of_very_many_tables_are_those_of_dicts(**drawn):
    check_tables(**drawn)


LOOKUPS = {
    "how": st.sampled_from(["inner", "left"]),
    "everywhere": st.booleans(),
    "repartitioned": st.booleans(),
    "guarantee": st.sampled_from(GUARANTEES),
    "partitions": st.integers(1, 3),
    "history": histories,
}


def possible_rows(history, numbers):
    """The key of each message by its number, and the rows it may meet: the newest one that it finds, and all later."""
    result = {}
    newest, at = {}, iter(numbers)
    for batch, is_table, *_ in history:
        for key, row in batch:
            if is_table:
                newest[key] = row
                for other, rows in result.values():
                    if other == key:
                        rows.append(row)
            else:
                result[next(at)] = key, [newest.get(key)]
    return result


def check_lookups(how, everywhere, repartitioned, guarantee, partitions, history):
    numbers = range(sum(len(batch) for batch, is_table, *_ in history if not is_table))
    pipeline = Pipeline("p")
    stream = pipeline.stream("kafka.in")
    if repartitioned:
        stream = stream.key_by(lambda key, _: key)
    table = pipeline.table("kafka.rows", everywhere=everywhere)
    stream.join(table, lambda number, row: [number, row], how=how, on=(lambda key, _: key) if everywhere else None).to(
        "kafka.out"
    )
    at = iter(numbers)
    numbered = [
        ([(key, row if is_table else next(at)) for key, row in batch], is_table, *more)
        for batch, is_table, *more in history
    ]
    outputs, _ = play(pipeline, guarantee, partitions, numbered, ["in", "rows"])
    crashed, possible = any(at is not None for *_, at in history), possible_rows(history, numbers)
    found = {}
    for key, (number, row) in outputs:
        assert key == possible[number][0]
        found.setdefault(number, []).append(row)
    is_lost = guarantee == "at-most-once" and crashed
    for number, (key, several) in possible.items():
        may_be = several[:1] if not crashed and not repartitioned else several
        if is_lost:
            may_be = [None, *(row for batch, *_ in history for other, row in batch if other == key)]
        rows = found.get(number, [])
        assert all(row in may_be for row in rows)
        assert rows or is_lost or (how == "inner" and None in may_be)
        assert len(rows) <= 1 or (guarantee == "at-least-once" and crashed)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(**LOOKUPS)
def test_messages_of_any_stream_meet_the_present_rows(**drawn):
    check_lookups(**drawn)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(**LOOKUPS)
def test_messages_of_very_many_streams_meet_the_present_rows(**drawn):
    check_lookups(**drawn)
