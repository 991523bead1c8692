"""Joins of messages of a class: the store has plain values, and results have objects again, whatever was read back."""

import dataclasses
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_bench import LEFT, RIGHT, SOURCES, JoinBench, context, envelope, ordered
from test_batches import JOINS, batch_of

from samzapy.errors import SerdeError
from samzapy.metrics import Registry
from samzapy.operators.joins import Joined, Side, StreamStreamJoin, TableTableJoin, Within


class View(msgspec.Struct):
    number: int


@dataclasses.dataclass
class Plain:
    number: int


class Model(pydantic.BaseModel):
    number: int


KINDS = [View, Plain, Model]
runs = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), max_size=6)), max_size=9
)


def of(kind: Any, number: int) -> Any:
    return kind(number=number)


def unpacked(found: list[Joined]) -> list[tuple]:
    """The results, with objects as their numbers."""
    return ordered((j.key, *(s and (s.time_ms, s.value and s.value.number) for s in (j.left, j.right))) for j in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("join", JOINS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=runs, batches=st.booleans(), crash=st.integers(0, 9))
def test_a_join_of_objects_finds_what_the_join_of_their_numbers_finds(
    tmp_path_factory, kind, join, runs, batches, crash
):
    found = []
    for make, types in ((lambda n: n or None, {}), (lambda n: of(kind, n) if n else None, {LEFT: kind, RIGHT: kind})):
        with JoinBench(tmp_path_factory.mktemp("join"), JOINS[join](40), types=types) as bench:
            offset = 0
            for number, (source, messages) in enumerate(runs):
                envelopes = [
                    envelope(SOURCES[source], offset + n, *m, make(offset + n)) for n, m in enumerate(messages)
                ]
                offset += len(envelopes)
                if envelopes and batches:
                    bench.outputs += bench.join.add_all(batch_of(envelopes))
                else:
                    bench.outputs += [joined for each in envelopes for joined in bench.join.add(each)]
                bench.window()
                if number == crash:
                    bench.commit()
                    bench.crash()
            bench.finish()
            found.append(bench.outputs)
    sides = [side for joined in found[1] for side in joined[1:] if side]
    assert {type(side.value) for side in sides} <= {kind, type(None)}
    numbers = [Joined(j.key, *(s and s._replace(value=s.value and of(View, s.value)) for s in j[1:])) for j in found[0]]
    assert unpacked(numbers) == unpacked(found[1])


def joins_of(path, types):
    make = lambda made: StreamStreamJoin(made, "joined", (LEFT, RIGHT), Within(5, 5))  # noqa: E731
    return JoinBench(path, make, types=types)


def committed(bench):
    bench.commit()
    bench.crash()


def test_each_result_has_an_object_of_its_own(tmp_path):
    with joins_of(tmp_path, {LEFT: View}) as bench:
        bench.send(0, "a", 10, view := View(1))
        view.number = 2
        ((_, left, _),) = bench.send(2, "a", 11)
        left.value.number = 3
        ((_, left, _),) = bench.send(2, "a", 12)
        assert left.value == View(1), "what a task does to its messages does not reach the store"


@pytest.mark.parametrize("make", [*JOINS])
@pytest.mark.parametrize("value", ["text", {"number": 1}, [1, False], 0, None])
def test_a_value_that_the_task_has_put_in_the_place_of_the_message_stays(tmp_path, make, value):
    with JoinBench(tmp_path, JOINS[make](10), types={LEFT: View, RIGHT: View}) as bench:
        bench.send(0, "a", 11, value)
        committed(bench)
        found = bench.send(2, "a", 10, View(5))
        found += bench.join.finish()
        assert found == [Joined("a", Side(11, value), Side(10, View(5)))]


def test_messages_that_waited_as_plain_values_are_objects_once_their_stream_has_a_class(tmp_path):
    with joins_of(tmp_path, {}) as bench:
        bench.send(0, "a", 10, {"number": 1})
        bench.commit()
        bench.restart(bench._make, {LEFT: View})
        assert bench.send(2, "a", 11) == [Joined("a", Side(10, View(1)), Side(11, None))]


def test_a_waiting_message_that_does_not_fit_is_an_error_with_its_place(tmp_path):
    with joins_of(tmp_path, {}) as bench:
        bench.send(0, "099", 10, {"number": "many"})
        bench.commit()
        bench.restart(bench._make, {LEFT: View})
        with pytest.raises(SerdeError) as caught:
            bench.send(2, "099", 10)
        assert str(caught.value) == (
            "store 'joined': the message of mem.left that waits at key '099' is not a View: "
            "$.number: Expected int, got str; give new fields defaults and old ones their types, or the join "
            "a new store with a changelog of its own"
        )


@pytest.mark.parametrize("batches", [False, True])
def test_the_rows_of_joined_tables_have_plain_values(tmp_path, batches):
    with JoinBench(tmp_path, lambda _: None) as bench:
        made = context(bench.opened.store, Registry(), types={LEFT: View})
        join = TableTableJoin(made, "joined", {LEFT: "view", RIGHT: "other"})
        changes = [envelope(SOURCES[0], 0, "a", 1, View(1)), envelope(SOURCES[2], 1, "a", 2, {"b": 2})]
        rows = join.update_all(changes) if batches else [join.update(each) for each in changes]
        assert rows == [{"view": {"number": 1}}, {"view": {"number": 1}, "other": {"b": 2}}]
        bench.commit()
        assert bench.contents() == {"a": rows[1]}


class Login(pydantic.BaseModel):
    number: int
    pin: pydantic.SecretStr


def test_readback_refuses_a_message_that_would_not_come_back_from_a_join(tmp_path):
    message = r"^store '.*': the Login of .* does not come back as it was written: \$\.pin: SecretStr \*+ was written"
    with joins_of(tmp_path, {LEFT: Login}) as bench, pytest.raises(SerdeError, match=message) as refused:
        bench.send(0, "a", 10, Login(number=1, pin="1234"))
    assert "1234" not in str(refused.value)
