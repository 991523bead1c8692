"""What every engine with a query interface of its own keeps through commits, crashes and failed messages."""

from __future__ import annotations

from typing import ClassVar

import pytest
from rigs.store_rig import store_job

from samzapy.api.event_time import TimerClock
from samzapy.container.errors.recovery import JournaledStore, UndoJournal
from samzapy.errors import ConfigError, StoreClosed, StoreError
from samzapy.testing import open_store


class Subject:
    """One engine: its keys, changes that are all different, and everything there is to read."""

    keys: ClassVar[dict[str, str]] = {}

    def change(self, view, number):
        raise AssertionError

    def read(self, view):
        raise AssertionError


class Heap(Subject):
    keys: ClassVar = {"factory": "heap", "heap.size": "3"}

    def change(self, view, number):
        view.push(f"item {number}", number, "group")
        view.push(f"item {number}", -number)

    def read(self, view):
        return view.top(9, "group"), view.top(9), list(view.groups()), view.size("group")


class Bloom(Subject):
    keys: ClassVar = {"factory": "bloom", "bloom.capacity": "1000"}

    def change(self, view, number):
        view.add("key", f"item {number}")

    def read(self, view):
        return [number for number in range(100) if view.might_contain("key", f"item {number}")]


class Distinct(Subject):
    keys: ClassVar = {"factory": "hyperloglog"}

    def change(self, view, number):
        view.add("key", number)

    def read(self, view):
        return view.estimate("key"), view.bounds("key")


class Quantiles(Subject):
    keys: ClassVar = {"factory": "quantiles"}

    def change(self, view, number):
        view.add("key", number)

    def read(self, view):
        return view.count("key"), view.quantiles("key", [0.1, 0.5, 0.9]), view.extremes("key")


class Index(Subject):
    keys: ClassVar = {"factory": "inverted-index"}

    def change(self, view, number):
        view.add(f"document {number % 3}", f"red fox {number} jumps")

    def read(self, view):
        return len(view), view.search("fox"), [view.search(str(number)) for number in range(10)]


class Cube(Subject):
    keys: ClassVar = {"factory": "cube", "cube.dimensions": "a, b", "cube.measures": "m", "cube.rollups": "a; b, a"}

    def change(self, view, number):
        view.add({"a": number % 2, "b": "x"}, {"m": number})

    def read(self, view):
        return view.roll_up("a"), view.roll_up("b"), view.roll_up()


class Timers(Subject):
    keys: ClassVar = {"factory": "timers"}

    def change(self, view, number):
        view.schedule(f"timer {number}", 1_000 - number)
        view.schedule(["same"], number, TimerClock.WALL)

    def read(self, view):
        return (
            view.first(TimerClock.EVENT, 99),
            view.first(TimerClock.WALL, 99),
            view.time_of(["same"], TimerClock.WALL),
        )


SUBJECTS = [Heap(), Bloom(), Distinct(), Quantiles(), Index(), Cube(), Timers()]


@pytest.fixture(params=SUBJECTS, ids=lambda subject: type(subject).__name__)
def subject(request):
    return request.param


def properties(subject, base="inmemory", **keys):
    return store_job(subject.keys | {"base": base, "changelog": "memory.s-log", "object.cache.size": "500"} | keys)


@pytest.fixture
def base():
    return "inmemory"


@pytest.fixture
def opened(base, subject, tmp_path):
    with open_store(properties(subject, base), "s", tmp_path) as opened:
        yield opened


def states(subject, opened):
    """What there is to read after no change, one, two, three."""
    found = [subject.read(opened.store)]
    for number in (1, 2, 3):
        subject.change(opened.store, number)
        found.append(subject.read(opened.store))
        if number < 3:
            opened.commit()
    return found


on_both = pytest.mark.parametrize("base", ["rocksdb", "inmemory"])


@on_both
def test_a_change_is_seen_at_once_and_gone_after_a_crash_before_its_commit(opened, subject):
    none, one, two, three = states(subject, opened)
    assert none != one != two != three
    opened.crash()
    assert subject.read(opened.store) == two


@on_both
def test_everything_comes_back_when_the_disk_is_lost(opened, subject):
    *_, three = states(subject, opened)
    opened.commit()
    opened.compact()
    opened.lose_local_state()
    assert subject.read(opened.store) == three


def test_a_crash_between_changelog_and_engine_leaves_the_changelogs_state(opened, subject):
    *_, three = states(subject, opened)
    opened.send_changes()
    opened.crash()
    assert subject.read(opened.store) == three


def test_discarding_goes_back_to_the_last_commit(opened, subject):
    _, _, two, _ = states(subject, opened)
    opened.stores.flush()
    opened.stores.discard()
    assert subject.read(opened.store) == two


def test_reading_and_repeating_the_last_change_write_nothing(opened, subject):
    if isinstance(subject, (Quantiles, Cube)):
        changes = (subject.read,)
    else:
        changes = (subject.read, lambda view: subject.change(view, 3))
    states(subject, opened)
    opened.commit()
    before = len(opened.changelog())
    for change in changes:
        change(opened.store)
    opened.commit()
    assert len(opened.changelog()) == before


def test_what_is_written_after_a_restore_unchanged_is_the_same_bytes(opened, subject):
    states(subject, opened)
    opened.commit()
    opened.lose_local_state()
    held = opened.stores.stores["s"]
    entries = list(held.all())
    for key, value in entries:
        held.put(key, value)
    before = dict(opened.changelog())
    opened.commit()
    assert dict(opened.changelog()) == before
    assert len(entries) == sum(value is not None for value in before.values())


@pytest.mark.parametrize("cache", ["500", "0"])
def test_a_message_that_fails_leaves_nothing_where_a_policy_goes_on(subject, tmp_path, cache):
    config = properties(subject, **{"object.cache.size": cache}) | {"task.error.process.policy": "skip"}
    with open_store(config, "s", tmp_path) as opened:
        journal = UndoJournal()
        stores = {"s": JournaledStore("s", opened.stores.stores["s"], journal)}
        view = opened.stores.as_seen(stores)["s"]
        subject.change(view, 1)
        one = subject.read(view)
        for number in (2, 3):
            journal.begin()
            subject.change(view, number)
            subject.change(view, number + 1)
            assert subject.read(view) != one
            journal.undo()
            assert subject.read(view) == one
            opened.commit()
        opened.crash()
        assert subject.read(opened.store) == one


def test_every_call_after_close_says_that_the_store_is_closed(opened, subject):
    view = opened.store
    opened.close()
    for call in (lambda: subject.read(view), lambda: subject.change(view, 1)):
        with pytest.raises(StoreClosed):
            call()


def test_a_base_that_is_no_engine_is_refused(subject, tmp_path):
    config = properties(subject, "samzapy.testing:OpenStore")
    with pytest.raises(
        (ConfigError, StoreError), match=r"base samzapy.testing:OpenStore must be a StorageEngineFactory"
    ):
        open_store(config, "s", tmp_path).__enter__()


BATCHES = {
    "bloom": ({"factory": "bloom"}, ["x", b"x", "y", "x"], 1.5),
    "hyperloglog": ({"factory": "hyperloglog"}, ["x", 7, 1.5, "x"], "bytes", b"no"),
    "quantiles": ({"factory": "quantiles"}, [1, 2.5, 3, 1], float("nan")),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch_of_items_leaves_the_sketches_that_its_items_leave(kind, tmp_path):
    keys, items, *_, odd = BATCHES[kind]
    found = []
    for way in ("each", "all"):
        subject = type("Sketches", (Subject,), {"keys": keys})()
        with open_store(properties(subject), "s", tmp_path / way) as opened:
            view = opened.store
            view.add("a", items[1])
            if way == "all":
                view.add_each(["a", "b", "a", "b"], items)
                view.add_each([], [])
            else:
                for key, item in zip("abab", items, strict=True):
                    view.add(key, item)
            with pytest.raises(StoreError):
                view.add_each(["a", "c"], [items[0], odd])
            opened.commit()
            found.append(_read(view, kind))
    assert found[0] == found[1]


def _read(view, kind):
    if kind == "bloom":
        return [view.might_contain(key, item) for key in "abc" for item in ("x", b"x", "y", "z")]
    if kind == "hyperloglog":
        return [view.estimate(key) for key in "abc"]
    return [(view.count(key), view.extremes(key), view.quantiles(key, [0.5])) for key in "abc"]


def test_facts_in_columns_leave_the_cells_that_the_facts_leave(tmp_path):
    facts = [(1, "x", 5), (True, None, None), (1, "x", 2**63), (0, "y", 2.5), (1, "x", -1)]
    found = []
    for way in ("each", "all"):
        with open_store(properties(Cube()), "s", tmp_path / way) as opened:
            view = opened.store
            view.add({"a": 1, "b": "x"}, {"m": 1})
            if way == "each":
                for a, b, m in facts:
                    view.add({"a": a, "b": b}, {"m": m})
            else:
                a, b, m = map(list, zip(*facts, strict=True))
                view.add_all({"a": a, "b": b}, {"m": m})
                view.add_all({"a": [], "b": []}, {"m": []})
            found.append((view.roll_up("a"), view.roll_up("b", "a"), view.roll_up()))
            for dimensions, measures in [
                ({"a": [1]}, {}),
                ({"a": [1], "b": [[]]}, {}),
                ({"a": [1], "b": ["x"]}, {"n": [1]}),
            ]:
                with pytest.raises(StoreError):
                    view.add_all(dimensions, measures)
            with pytest.raises(ValueError, match="columns of one length"):
                view.add_all({"a": [1], "b": ["x", "y"]})
            assert (view.roll_up("a"), view.roll_up("b", "a"), view.roll_up()) == found[-1]
    assert found[0] == found[1]


def test_a_timer_of_any_key_that_can_be_set_fires(tmp_path):
    keys = [{1: 2}, {"a": {None: 1}}, [{(1): [b"x"]}], 5, "a"]
    with open_store(properties(Timers()), "s", tmp_path) as opened:
        for number, key in enumerate(keys):
            opened.store.schedule(key, number)
        assert [timer.key for timer in opened.store.first(TimerClock.EVENT, 99)] == keys
        assert [timer.key for timer in opened.store.fire(TimerClock.EVENT, 99, 99)] == keys
