"""How the answers of several tasks become one: in order, complete, nothing twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samzapy.queries.committed import Answer, Entry, Problem, Question, merged, pack, unpack

MUCH = 2**31


def answer(partition, keys, *, more=False, offset=7):
    return Answer(tuple(Entry(partition, key.encode(), b"v") for key in keys), {partition: offset}, more)


def places(found):
    return [(entry.key.decode(), entry.partition) for entry in found.entries]


@pytest.mark.parametrize(("most", "most_bytes", "expected"), [(2, MUCH, "ab"), (10, 3, "ab"), (10, 1, "a")])
def test_a_page_ends_at_its_entries_or_its_bytes(most, most_bytes, expected):
    found = merged([answer(0, "ac"), answer(1, "bd")], most, most_bytes)
    assert ("".join(key for key, _ in places(found)), found.more) == (expected, True)


def test_the_first_problem_is_the_answer_and_the_largest_lag_counts():
    moving = Answer(problem=Problem.MOVING, message="m")
    assert merged([answer(0, "a"), moving, Answer(problem=Problem.REFUSED)], 10, MUCH) is moving
    assert merged([Answer(lag=3), Answer(lag=8), Answer()], 10, MUCH).lag == 8
    assert merged([Answer()], 10, MUCH).lag is None


def cut(entries, question, partition):
    """What an engine with these keys answers."""
    lower = question.lower_of(partition)
    found = [key for key in sorted(entries) if lower is None or key >= lower]
    keys = found[: question.most]
    return Answer(tuple(Entry(partition, key, b"v") for key in keys), {partition: 1}, len(keys) < len(found))


@given(st.lists(st.frozensets(st.binary(max_size=2), max_size=9), min_size=1, max_size=4), st.integers(1, 5))
def test_pages_of_several_tasks_have_every_entry_once_and_in_order(tasks, most):
    after, found = None, []
    while True:
        question = Question("s", None, None, most, MUCH, after=after)
        page = merged([cut(keys, question, number) for number, keys in enumerate(tasks)], most, MUCH)
        found += [entry.place for entry in page.entries]
        if not page.more:
            break
        after = page.entries[-1].place
    assert found == sorted((key, number) for number, keys in enumerate(tasks) for key in keys)


def test_questions_and_answers_come_back_as_they_went():
    question = Question("s", b"\x00", None, 3, 5, (1, 2), (b"\xff", 2))
    assert unpack(Question, pack(question)) == question
    full = Answer((Entry(1, b"k", b"\xff"),), {1: -1}, True, 9, Problem.MOVING, "why")
    assert unpack(Answer, pack(full)) == full


@pytest.mark.parametrize("body", [b"", b"{}", b"\x92\x01", b"\x93\x01\x02\x03", b"\xff" * 9])
def test_any_other_bytes_are_refused(body):
    with pytest.raises(ValueError, match="body: "):
        unpack(Question, body)
    with pytest.raises(ValueError, match="body: "):
        unpack(Answer, body)
