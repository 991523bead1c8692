"""The stores of a container as other threads read them: committed entries, page by page."""

from contextlib import nullcontext
from types import SimpleNamespace

from jobs.query_job import engine_with

from samzapy.queries import committed
from samzapy.queries.committed import LARGEST_ENTRY, CommittedStores, Entry, Problem, PublishedStore, Question, merged

QUESTION = Question("counts", None, None, 10, 1_000)


def test_published_stores_answer_until_they_are_withdrawn():
    stores = CommittedStores()
    assert stores.answer(QUESTION).problem is Problem.MOVING
    parts = {
        0: PublishedStore(engine_with({b"a": b"1"}, offset=3)),
        2: PublishedStore(engine_with({b"b": b"2"}, offset=-1)),
    }
    stores.publish({"counts": parts})
    found = stores.answer(QUESTION)
    assert (found.entries, found.as_of) == ((Entry(0, b"a", b"1"), Entry(2, b"b", b"2")), {0: 3, 2: -1})
    only = stores.answer(Question("counts", None, None, 10, 1_000, (2,)))
    assert (only.entries, only.lag) == ((Entry(2, b"b", b"2"),), None)
    assert stores.answer(Question("counts", None, None, 10, 1_000, (1,))).problem is Problem.MOVING
    stores.withdraw()
    stores.withdraw()
    assert stores.answer(QUESTION).problem is Problem.MOVING


class Noting:
    """Counts the pairs that are read of snapshots."""

    def __init__(self, taken, read):
        self._taken, self._read = taken, read

    def snapshot(self):
        snapshot = self._taken()
        iterate = snapshot.iterate

        def noted(lower, upper):
            with iterate(lower, upper) as pairs:
                for pair in pairs:
                    self._read.append(1)
                    yield pair

        return SimpleNamespace(
            marker=snapshot.marker, close=snapshot.close, iterate=lambda *bounds: nullcontext(noted(*bounds))
        )


def test_a_page_of_many_tasks_reads_and_sorts_little_more_than_a_page(monkeypatch):
    read, merges = [], []
    monkeypatch.setattr(committed, "merged", lambda *answers: merges.append(1) or merged(*answers))
    keys = sorted(b"%04d" % number for number in range(5_000))

    def noting(engine):
        engine.snapshot = Noting(engine.snapshot, read).snapshot
        return engine

    stores = CommittedStores()
    tasks = range(100)
    stores.publish(
        {"counts": {n: PublishedStore(noting(engine_with(dict.fromkeys(keys[n::100], b"1"), offset=3))) for n in tasks}}
    )
    for lower, limits in ((None, (50, 1_000_000)), (b"2500", (1_000_000, 250))):
        read.clear()
        merges.clear()
        page = stores.answer(Question("counts", lower, None, *limits))
        assert [each.key for each in page.entries] == [key for key in keys if lower is None or key >= lower][:50]
        assert (page.more, page.as_of) == (True, dict.fromkeys(tasks, 3))
        assert sum(read) < 500
        assert sum(merges) < 10


def test_the_pages_of_many_tasks_have_every_entry_once_and_in_order():
    stores = CommittedStores()
    parts = {n: {b"%03d" % key: b"1" for key in range(200) if key % (n + 2) < 2} for n in range(7)}
    stores.publish({"counts": {n: PublishedStore(engine_with(entries, offset=3)) for n, entries in parts.items()}})
    expected = sorted((key, n) for n, entries in parts.items() for key in entries)
    for limits in ((1, 1_000), (7, 1_000), (1_000, 1), (1_000, 30)):
        found, after = [], None
        while True:
            page = stores.answer(Question("counts", b"010", b"190", *limits, None, after))
            found += [each.place for each in page.entries]
            if not page.more:
                break
            after = page.entries[-1].place
        assert found == [place for place in expected if b"010" <= place[0] < b"190"]


def test_a_standby_says_how_far_it_is_behind():
    stores = CommittedStores()
    stores.publish({"counts": {0: PublishedStore(engine_with({}, offset=3), lambda: 10)}})
    assert stores.answer(QUESTION).lag == 6


def test_whatever_cannot_be_read_is_refused_in_one_line():
    def broken():
        raise RuntimeError("the changelog's end\nis not known")

    stores = CommittedStores()
    closed = engine_with({b"a": b"1"}, offset=3)
    closed.close()
    stores.publish({"counts": {0: PublishedStore(closed)}})
    found = stores.answer(QUESTION)
    assert (found.problem, found.message.count("\n")) == (Problem.REFUSED, 0)
    stores.publish({"counts": {0: PublishedStore(engine_with({b"a": bytes(LARGEST_ENTRY)}, offset=3))}})
    assert "expected at most" in stores.answer(QUESTION).message
    stores.publish({"counts": {0: PublishedStore(engine_with({b"a": b"1"}, offset=3), broken)}})
    found = stores.answer(QUESTION)
    assert found.problem is Problem.REFUSED
    assert found.message == "store 'counts': RuntimeError: the changelog's end is not known"
