"""Questions reach the attempt that holds the lease, and nobody else's answer counts."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from jobs.query_job import engine_with

from samzapy.errors import TaskMigrated
from samzapy.metrics import Registry
from samzapy.queries.answering import Answering, QuestionSource, Readers
from samzapy.queries.committed import LARGEST_ENTRY, CommittedStores, PublishedStore
from samzapy.queries.exchange import Exchange, LocalQuestions
from samzapy.queries.questions import Answer, Entry, Problem, Question

QUESTION = Question("counts", None, None, 10, 1_000)
ANSWER = Answer((Entry(0, b"a", b"1"),), {0: 4})


class Holder:
    """Who holds container 0."""

    def __init__(self, epoch=1):
        self.epoch = epoch

    def __call__(self, container_id):
        return self.epoch if container_id == "0" else None


def test_a_question_is_handed_out_and_answered():
    exchange = Exchange(Holder())
    assert exchange.take("0", 1) == []
    asked = exchange.ask("0", QUESTION)
    ((number, question),) = exchange.take("0", 1)
    assert question is QUESTION
    assert not asked.done()
    exchange.answered("0", 1, [(number, ANSWER)])
    assert asked.result(0) is ANSWER
    assert exchange.take("0", 1) == []


@pytest.mark.parametrize("container", ["0", "1"])
def test_a_container_that_has_never_asked_is_moving(container):
    assert Exchange(Holder()).ask(container, QUESTION).result(0).problem is Problem.MOVING


def test_a_container_that_waits_is_woken_once():
    exchange, woken = Exchange(Holder()), []
    exchange.take("0", 1, lambda: woken.append(1))
    exchange.ask("0", QUESTION)
    exchange.ask("0", QUESTION)
    assert woken == [1]
    assert len(exchange.take("0", 1)) == 2


class Request:
    """A request of the container: it waits if there is no question, and counts how often it was woken."""

    def __init__(self, exchange):
        self.woken = 0
        self._exchange = exchange
        self._wake = self._count
        self.taken = exchange.take("0", 1, self._wake)

    def _count(self):
        self.woken += 1

    def ends(self):
        """Woken, or over in time: the questions that it gets."""
        return self._exchange.take_waited("0", 1, self._wake)

    def is_cut(self):
        """The end of its connection is noticed."""
        self._exchange.leave("0", 1, self._wake)


def test_a_request_that_another_has_replaced_gets_no_questions_and_its_end_means_nothing():
    exchange = Exchange(Holder())
    dead, cut, live = (Request(exchange) for _ in range(3))
    assert dead.ends() == []
    cut.is_cut()
    asked = exchange.ask("0", QUESTION)
    assert not asked.done()
    assert (dead.woken, cut.woken, live.woken) == (0, 0, 1)
    ((number, question),) = live.ends()
    assert question is QUESTION
    exchange.answered("0", 1, [(number, ANSWER)])
    assert asked.result(0) is ANSWER


def test_questions_that_came_with_a_replaced_request_still_open_go_to_the_newest():
    exchange = Exchange(Holder())
    dead, live = Request(exchange), Request(exchange)
    exchange.ask("0", QUESTION)
    exchange.ask("0", QUESTION)
    assert dead.ends() == []
    assert live.woken == 1
    assert len(live.ends()) == 2


def test_the_end_of_a_replaced_request_gives_up_no_question_that_the_container_is_answering():
    exchange = Exchange(Holder())
    dead = Request(exchange)
    live = Request(exchange)
    asked = exchange.ask("0", QUESTION)
    ((number, _),) = live.ends()
    dead.is_cut()
    exchange.answered("0", 1, [(number, ANSWER)])
    assert asked.result(0) is ANSWER


def test_a_request_that_arrives_after_its_replacement_leaves_the_questions_to_it_when_it_ends():
    exchange = Exchange(Holder())
    live, late = Request(exchange), Request(exchange)
    asked = exchange.ask("0", QUESTION)
    assert (live.woken, late.woken) == (0, 1)
    late.is_cut()
    assert live.woken == 1
    assert not asked.done()
    assert len(live.ends()) == 1


def test_an_attempt_whose_only_request_is_cut_is_moving():
    exchange = Exchange(Holder())
    Request(exchange).is_cut()
    assert exchange.ask("0", QUESTION).result(0).problem is Problem.MOVING
    assert Request(exchange).taken == []
    assert not exchange.ask("0", QUESTION).done()


def test_an_attempt_with_a_successor_gets_and_answers_nothing():
    holder = Holder()
    exchange = Exchange(holder)
    exchange.take("0", 1)
    asked = exchange.ask("0", QUESTION)
    ((number, _),) = exchange.take("0", 1)
    holder.epoch = 2
    assert exchange.take("0", 1) is None
    exchange.answered("0", 1, [(number, ANSWER)])
    assert asked.result(0).problem is Problem.MOVING, "it may be of the past"
    assert exchange.ask("0", QUESTION).result(0).problem is Problem.MOVING, "the successor has not asked yet"


def test_questions_of_the_attempt_before_are_given_up_when_its_successor_comes():
    holder = Holder()
    exchange = Exchange(holder)
    exchange.take("0", 1)
    handed, waiting = exchange.ask("0", QUESTION), None
    exchange.take("0", 1)
    waiting = exchange.ask("0", QUESTION)
    holder.epoch = 2
    assert exchange.take("0", 2) == []
    assert {handed.result(0).problem, waiting.result(0).problem} == {Problem.MOVING}


def test_a_lease_that_has_run_out_answers_nothing():
    holder = Holder()
    exchange = Exchange(holder)
    exchange.take("0", 1)
    holder.epoch = None
    assert exchange.ask("0", QUESTION).result(0).problem is Problem.MOVING
    assert exchange.take("0", 1) is None


def test_an_attempt_that_leaves_gives_its_questions_up():
    exchange = Exchange(Holder())
    exchange.take("0", 1)
    asked = exchange.ask("0", QUESTION)
    exchange.leave("0", 2)
    assert not asked.done()
    exchange.leave("0", 1)
    assert asked.result(0).problem is Problem.MOVING
    assert exchange.ask("0", QUESTION).result(0).problem is Problem.MOVING


def test_a_question_that_nobody_waits_for_is_not_handed_out_and_its_answer_is_left_out():
    exchange = Exchange(Holder())
    exchange.take("0", 1)
    asked = exchange.ask("0", QUESTION)
    asked.cancel()
    assert exchange.take("0", 1) == []
    late = exchange.ask("0", QUESTION)
    ((number, _),) = exchange.take("0", 1)
    late.cancel()
    exchange.answered("0", 1, [(number, ANSWER), (99, ANSWER)])


def test_questions_are_handed_out_in_portions_and_too_many_are_refused():
    exchange = Exchange(Holder())
    exchange.take("0", 1)
    large = Question("counts", None, None, 10, 8_388_608)
    for _ in range(1_024):
        exchange.ask("0", large)
    assert exchange.ask("0", large).result(0).problem is Problem.MOVING
    assert len(exchange.take("0", 1)) == 1


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


def test_a_page_of_many_tasks_reads_little_more_than_a_page():
    keys = sorted(b"%04d" % number for number in range(5_000))
    read = []

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
        page = stores.answer(Question("counts", lower, None, *limits))
        assert [each.key for each in page.entries] == [key for key in keys if lower is None or key >= lower][:50]
        assert (page.more, page.as_of) == (True, dict.fromkeys(tasks, 3))
        assert sum(read) < 500


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


def test_an_engine_that_refuses_and_an_entry_that_is_too_large_are_refused_in_one_line():
    stores = CommittedStores()
    closed = engine_with({b"a": b"1"}, offset=3)
    closed.close()
    stores.publish({"counts": {0: PublishedStore(closed)}})
    found = stores.answer(QUESTION)
    assert (found.problem, found.message.count("\n")) == (Problem.REFUSED, 0)
    stores.publish({"counts": {0: PublishedStore(engine_with({b"a": bytes(LARGEST_ENTRY)}, offset=3))}})
    assert "expected at most" in stores.answer(QUESTION).message


def test_a_container_in_the_drivers_process_answers_by_its_thread():
    exchange, stores, metrics = Exchange(Holder()), CommittedStores(), Registry()
    stores.publish({"counts": {0: PublishedStore(engine_with({b"a": b"1"}, offset=3))}})
    source = Announcing(LocalQuestions(exchange, "0", lambda: 1))
    with Readers(stores, source).answering(metrics):
        assert source.waits.wait(30)
        answers = [exchange.ask("0", QUESTION) for _ in range(50)]
        assert {each.result(30).entries for each in answers} == {(Entry(0, b"a", b"1"),)}
    assert exchange.ask("0", QUESTION).result(0).problem is Problem.MOVING
    assert metrics.snapshot()["queries"]["questions"] == 50


class Announcing(QuestionSource):
    """A source, and whether it was asked."""

    def __init__(self, inner):
        self._inner = inner
        self.waits = threading.Event()

    def exchange(self, answers):
        try:
            if self.waits.is_set():
                return self._inner.exchange(answers)
            # The first call registers the container; its questions come with the second.
            self._inner._wait_s, before = 0, self._inner._wait_s
            found = self._inner.exchange(answers)
            self._inner._wait_s = before
            return found
        finally:
            self.waits.set()

    def hand_over(self, answers):
        self._inner.hand_over(answers)

    def close(self):
        self._inner.close()


def test_a_question_that_fails_in_any_way_costs_no_other_its_answer():
    def broken():
        raise RuntimeError("the changelog's end\nis not known")

    exchange, stores = Exchange(Holder()), CommittedStores()
    broken_part = {0: PublishedStore(engine_with({b"a": b"1"}, offset=3), broken)}
    stores.publish({"broken": broken_part, "counts": {0: PublishedStore(engine_with({b"a": b"1"}, offset=3))}})
    source = Announcing(LocalQuestions(exchange, "0", lambda: 1))
    with Readers(stores, source).answering(Registry()):
        assert source.waits.wait(30)
        bad = exchange.ask("0", Question("broken", None, None, 10, 1_000)).result(30)
        assert bad.problem is Problem.REFUSED
        assert bad.message == "store 'broken': RuntimeError: the changelog's end is not known"
        assert exchange.ask("0", QUESTION).result(30).entries == (Entry(0, b"a", b"1"),)


@pytest.mark.parametrize("failure", [TaskMigrated("another attempt"), ValueError("an answer in parts")])
def test_a_source_that_fails_is_asked_again(failure):
    class Failing(QuestionSource):
        def __init__(self):
            self.asked = 0
            self.again = threading.Event()

        def exchange(self, answers):
            self.asked += 1
            if self.asked == 2:
                self.again.set()
            raise failure

        def hand_over(self, answers):
            raise failure

    source = Failing()
    with Answering(source, CommittedStores(), Registry()):
        assert source.again.wait(30)


def test_without_a_source_no_thread_is_started():
    before = threading.active_count()
    with Readers().answering(Registry()):
        assert threading.active_count() == before
