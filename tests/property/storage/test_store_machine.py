"""A store against a dict: any operations, commits and crashes in any order."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rigs.store_rig import LOGGED, store_job

from samzapy.testing import OpenStore, open_store

KEYS = st.sampled_from(["", "a", "b", "ba", "bb", "c", "ä", "\U0001f600", "\x00", "z"])
VALUES = st.one_of(st.integers(-3, 3), st.text(max_size=3), st.lists(st.integers(0, 2), max_size=2), st.booleans())


def properties(engine: str, cache: int | None, batch: int, mode: str, serde: str = "json") -> dict[str, str]:
    return {
        **store_job(LOGGED | {"factory": engine, "msg.serde": serde}),
        **({"container.cache.max.bytes": "700"} if cache is None else {"stores.s.object.cache.size": str(cache)}),
        "stores.s.write.batch.size": str(batch),
        "stores.s.object.cache.mode": mode,
        "stores.s.container.write.buffer.size.bytes": "65536",
    }


def in_order(contents: dict) -> list:
    return sorted(contents.items(), key=lambda entry: entry[0].encode())


class StoreMachine(RuleBasedStateMachine):
    """`now` is what the task sees, `logged` what is in the changelog: what any restart comes back to."""

    engine = "rocksdb"

    def __init__(self):
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="store-machine-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self.now: dict = {}
        self.logged: dict = {}
        self.half_committed = False
        self.views: list = []

    @initialize(
        cache=st.one_of(st.none(), st.integers(0, 4)),
        batch=st.integers(1, 3),
        mode=st.sampled_from(["reference", "copy"]),
        serde=st.sampled_from(["json", "string"]),
    )
    def open(self, cache, batch, mode, serde):
        self.serde = serde
        config = properties(self.engine, cache, batch if cache is None else min(batch, cache) or 1, mode, serde)
        self.context = open_store(config, "s", self.path)
        self.opened: OpenStore = self.context.__enter__()

    @property
    def store(self):
        return self.opened.store

    def meant(self, value):
        """The value, as text where the store has that: then there are some of no bytes at all."""
        return value if self.serde == "json" or isinstance(value, str) else str(value or "")

    @rule(key=KEYS)
    def get(self, key):
        assert self.store.get(key) == self.now.get(key)

    @rule(keys=st.lists(KEYS, max_size=5))
    def get_all(self, keys):
        assert self.store.get_all(keys) == {key: self.now.get(key) for key in keys}

    @precondition(lambda self: not self.half_committed)
    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.store.put(key, self.meant(value))
        self.now[key] = self.meant(value)

    @precondition(lambda self: not self.half_committed)
    @rule(entries=st.lists(st.tuples(KEYS, VALUES), max_size=6), as_mapping=st.booleans())
    def put_all(self, entries, as_mapping):
        entries = [(key, self.meant(value)) for key, value in entries]
        self.store.put_all(dict(entries) if as_mapping else entries)
        self.now.update(entries)

    @precondition(lambda self: not self.half_committed)
    @rule(entries=st.dictionaries(KEYS, VALUES, max_size=6), fails_at=st.integers(0, 8))
    def merge_all(self, entries, fails_at):
        entries = {key: self.meant(value) for key, value in entries.items()}
        calls = itertools.count(1)

        def combine(held, given):
            if next(calls) == fails_at:
                raise ArithmeticError
            return f"{held}{given}"[-8:]

        before = {key: self.now[key] for key in entries if key in self.now}
        if 0 < fails_at <= len(before):
            with pytest.raises(ArithmeticError):
                self.store.merge_all(entries, combine)
        else:
            self.store.merge_all(entries, combine)
            self.now |= entries | {key: f"{held}{entries[key]}"[-8:] for key, held in before.items()}

    @precondition(lambda self: not self.half_committed)
    @rule(key=KEYS)
    def delete(self, key):
        self.store.delete(key)
        self.now.pop(key, None)

    @precondition(lambda self: not self.half_committed)
    @rule(keys=st.lists(KEYS, max_size=4))
    def delete_all(self, keys):
        self.store.delete_all(keys)
        for key in keys:
            self.now.pop(key, None)

    @rule(lower=KEYS, upper=KEYS)
    def range(self, lower, upper):
        low, high = lower.encode(), upper.encode()
        wanted = [(k, v) for k, v in in_order(self.now) if low <= k.encode() < high]
        assert list(self.store.range(lower, upper)) == wanted

    @rule(prefix=KEYS)
    def prefix(self, prefix):
        wanted = [(k, v) for k, v in in_order(self.now) if k.startswith(prefix)]
        assert list(self.store.prefix(prefix)) == wanted

    @rule()
    def all(self):
        assert list(self.store.all()) == in_order(self.now)

    @rule()
    def open_a_view(self):
        self.views.append((self.store.all(), in_order(self.now)))

    @rule(bounds=st.tuples(KEYS, KEYS))
    def open_a_snapshot(self, bounds):
        lower, upper = sorted(bounds, key=str.encode)
        low, high = lower.encode(), upper.encode()
        wanted = [(k, v) for k, v in in_order(self.now) if low <= k.encode() < high]
        self.views.append((self.store.snapshot(lower, upper), wanted))

    @precondition(lambda self: self.views)
    @rule(index=st.integers(0, 5))
    def read_a_view(self, index):
        view, wanted = self.views.pop(index % len(self.views))
        assert list(view.iterator() if hasattr(view, "iterator") else view) == wanted
        view.close()

    @rule()
    def flush(self):
        self.store.flush()

    @precondition(lambda self: not self.half_committed)
    @rule()
    def commit(self):
        self.opened.commit()
        self.logged = dict(self.now)

    @precondition(lambda self: not self.half_committed)
    @rule()
    def log_changes(self):
        self.opened.send_changes()
        self.logged = dict(self.now)
        self.half_committed = True

    @precondition(lambda self: self.half_committed)
    @rule()
    def apply_changes(self):
        self.opened.apply()
        self.half_committed = False

    @precondition(lambda self: not self.half_committed)
    @rule()
    def discard(self):
        self.opened.stores.discard()
        self.now = dict(self.logged)

    def restarted(self):
        self.now = dict(self.logged)
        self.half_committed = False
        self.views.clear()

    @rule()
    def crash(self):
        self.opened.crash()
        self.restarted()

    @rule()
    def stop_and_start(self):
        self.opened.reopen()
        self.restarted()

    @rule()
    def lose_the_disk(self):
        self.opened.lose_local_state()
        self.restarted()

    @rule()
    def flush_the_engine(self):
        self.opened.stores.flush_engines()

    @rule()
    def compact_the_changelog(self):
        self.opened.compact()

    @invariant()
    def changelog_tells_what_is_logged(self):
        if hasattr(self, "opened"):
            told = dict(self.opened.changelog())
            assert {k.decode() for k, v in told.items() if v is not None} == set(self.logged)

    def teardown(self):
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)
        shutil.rmtree(self.path, ignore_errors=True)


class MemoryStoreMachine(StoreMachine):
    engine = "inmemory"


QUICK = settings(suppress_health_check=list(HealthCheck), stateful_step_count=40)
StoreMachine.TestCase.settings = settings(QUICK, max_examples=50)
MemoryStoreMachine.TestCase.settings = settings(QUICK, max_examples=50)

TestRocksDbStore = StoreMachine.TestCase
TestInMemoryStore = MemoryStoreMachine.TestCase


@pytest.mark.parametrize("engine", ["rocksdb", "inmemory"])
@pytest.mark.parametrize("cache", [0, 2])
def test_a_value_of_no_bytes_that_is_not_committed_is_in_every_range(engine, cache, tmp_path):
    with open_store(properties(engine, cache, 1, "reference", "string"), "s", tmp_path) as opened:
        store = opened.store
        store.put_all({"a": "", "b": "old"})
        opened.commit()
        store.put_all({"b": "", "ba": "", "c": "x"})
        expected = [("a", ""), ("b", ""), ("ba", ""), ("c", "x")]
        assert list(store.all()) == expected
        assert list(store.snapshot("a", "z").iterator()) == expected
        assert list(store.range("b", "c")) == [("b", ""), ("ba", "")]
        assert list(store.prefix("b")) == [("b", ""), ("ba", "")]
        assert store.get_all(["b", "ba", "bb"]) == {"b": "", "ba": "", "bb": None}
