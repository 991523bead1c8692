"""The expiry index against a dict, over every way an entry can come and go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.store_rig import LOGGED, store_job

from samzapy.errors import StoreError
from samzapy.operators.expiry import Due, ExpiryIndex
from samzapy.testing import open_store

JOB = store_job(LOGGED | {"factory": "inmemory"}, "waiting")

times = st.integers(0, 20) | st.sampled_from([999, 1_357_034_400_000, 10**16 - 2])
names = st.sampled_from(["", "a", "b", "a/b", "é", "0"])
steps = st.lists(
    st.tuples(st.just("add"), times, names, st.integers(0, 9))
    | st.tuples(st.just("remove"), times, names)
    | st.tuples(st.just("take"), times, st.integers(1, 4))
    | st.tuples(st.sampled_from(["commit", "crash"])),
    max_size=40,
)


@settings(max_examples=60)
@given(steps=steps)
def test_what_is_due_comes_once_oldest_first_over_commits_and_crashes(steps, tmp_path_factory):
    with open_store(JOB, "waiting", tmp_path_factory.mktemp("expiry")) as opened:
        opened.store.put("du", 1)
        opened.store.put("due0", 1)
        model, committed = {}, {}
        for what, *arguments in steps:
            index = ExpiryIndex(opened.store)
            if what == "add":
                time_ms, name, value = arguments
                index.add(time_ms, name, value)
                model[time_ms, name] = value
            elif what == "remove":
                index.remove(*arguments)
                model.pop(tuple(arguments), None)
            elif what == "take":
                before_ms, limit = arguments
                due = sorted((key for key in model if key[0] < before_ms), key=lambda key: (key[0], key[1].encode()))
                assert index.take(before_ms, limit) == [Due(*key, model.pop(key)) for key in due[:limit]]
            elif what == "commit":
                opened.commit()
                committed = dict(model)
            else:
                opened.crash()
                model = dict(committed)


def test_a_scan_begins_where_the_caller_says_that_nothing_is_left_before(tmp_path):
    with open_store(JOB, "waiting", tmp_path) as opened:
        index = ExpiryIndex(opened.store, "other/")
        for time_ms in (5, 10, 20):
            index.add(time_ms, "k")
        assert [due.time_ms for due in index.take(20, 10, since_ms=10)] == [10]
        assert [due.time_ms for due in index.take(10**16 + 5, 10)] == [5, 20]
        assert index.take(7, 10, since_ms=8) == []


def test_a_store_whose_keys_are_not_in_the_order_of_their_text_is_refused(tmp_path):
    job = JOB | {"stores.waiting.key.serde": "json"}
    with (
        open_store(job, "waiting", tmp_path) as opened,
        pytest.raises(StoreError, match="store 'waiting': prefix needs a key serde that keeps prefixes"),
    ):
        ExpiryIndex(opened.store)
