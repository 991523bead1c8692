"""Holds questions in the driver until the containers fetch and answer them.

1. Only the attempt that holds a container's lease gets its questions, and only its answers count. An attempt that was
   superseded, or has let its lease run out, answers nothing.
2. A container waits for questions all the time. If it neither waits nor has open questions, its tasks are moving.
3. If an attempt is superseded or leaves, its open questions are answered with `MOVING`.
4. A request may wait on a dead connection while the container waits on a new one. So the newest request gets the
   questions, and the end of an older request changes nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import count

from samzapy.errors import TaskMigrated
from samzapy.queries.answering import QuestionSource
from samzapy.queries.questions import HANDED_BYTES, Answer, Problem, Question

#: Most open questions of a container.
_MOST_OPEN = 1_024
#: Seconds that a container waits for questions.
WAIT_S = 10.0

_MOVING = Answer(problem=Problem.MOVING, message="its container is starting or moving")
_BUSY = Answer(problem=Problem.MOVING, message=f"its container has {_MOST_OPEN:,} questions to answer already")


class _Desk:
    """The questions of one attempt."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.waiting: deque[tuple[int, Question]] = deque()
        self.open: dict[int, Future[Answer]] = {}
        # A request is identified by the function that wakes it: the waiting ones, oldest first; the newest of all; the
        # last one woken.
        self.requests: list[Callable[[], None]] = []
        self.newest: Callable[[], None] | None = None
        self.woken: Callable[[], None] | None = None

    def next_to_wake(self) -> Callable[[], None] | None:
        """The newest waiting request; None without one, or if it has been woken already."""
        newest = self.requests[-1] if self.requests else None
        if newest is self.woken:
            return None
        self.woken = newest
        return newest

    def end(self, request: Callable[[], None]) -> bool:
        """Note that a request no longer waits; returns whether it was the newest waiting one."""
        is_last = self.requests[-1:] == [request]
        self.requests = [each for each in self.requests if each is not request]
        return is_last


class Exchange:
    """Passes questions to containers, and their answers back; any thread."""

    def __init__(self, holder: Callable[[str], int | None]) -> None:
        """`holder` returns the epoch of the attempt that holds a container's lease, None without one."""
        self._holder = holder
        self._desks: dict[str, _Desk] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()

    def ask(self, container_id: str, question: Question) -> Future[Answer]:
        """Queue a question and return its future answer. A caller that gives up cancels it."""
        holder = self._holder(container_id)
        answer: Future[Answer] = Future()
        wake = None
        refusal: Answer | None = None
        with self._lock:
            desk = self._desks.get(container_id)
            if desk is None or holder is None or desk.epoch != holder:
                refusal = _MOVING
            elif len(desk.open) >= _MOST_OPEN:
                refusal = _BUSY
            else:
                number = next(self._numbers)
                desk.open[number] = answer
                desk.waiting.append((number, question))
                opened = desk.open
                wake = desk.next_to_wake()
        if refusal is not None:
            answer.set_result(refusal)
            return answer
        answer.add_done_callback(lambda _: opened.pop(number, None))
        if wake is not None:
            wake()
        return answer

    def take(
        self, container_id: str, epoch: int, wake: Callable[[], None] | None = None
    ) -> list[tuple[int, Question]] | None:
        """The next questions for the attempt; None if it does not own the container. If there are none yet, `wake` is
        called once, on any thread, when a question comes; the request waits until `take_waited` or `leave`."""
        holder = self._holder(container_id)
        with self._lock:
            desk = self._desks.get(container_id)
            if holder != epoch:
                return None
            gone: list[Future[Answer]] = []
            if desk is None or desk.epoch != epoch:
                gone = [] if desk is None else list(desk.open.values())
                desk = self._desks[container_id] = _Desk(epoch)
            taken, desk.newest = _next(desk), wake
            if not taken and wake is not None:
                desk.requests.append(wake)
        _answer_all(gone)
        return taken

    def take_waited(self, container_id: str, epoch: int, wake: Callable[[], None]) -> list[tuple[int, Question]] | None:
        """End the wait of the request with that `wake`; returns its questions, none if a newer request waits. None if
        the attempt does not own the container."""
        holder = self._holder(container_id)
        with self._lock:
            desk = self._desks.get(container_id)
            if holder != epoch:
                return None
            return _next(desk) if desk is not None and desk.epoch == epoch and desk.end(wake) else []

    def answered(self, container_id: str, epoch: int, answers: Iterable[tuple[int, Answer]]) -> None:
        """Take answers. Answers of a superseded attempt and answers to cancelled questions are dropped."""
        with self._lock:
            desk = self._desks.get(container_id)
            if desk is None or desk.epoch != epoch:
                return
            found = [(future, answer) for n, answer in answers if (future := desk.open.pop(n, None)) is not None]
        # The attempt may have lost its lease since it took the questions.
        owned = not found or self._holder(container_id) == epoch
        for future, answer in found:
            _answer(future, answer if owned else _MOVING)

    def leave(self, container_id: str, epoch: int, wake: Callable[[], None] | None = None) -> None:
        """End the wait of the request with that `wake`. The attempt no longer waits if the request was its newest and
        no other one waits, or if `wake` is None."""
        other: Callable[[], None] | None = None
        gone: list[Future[Answer]] = []
        with self._lock:
            desk = self._desks.get(container_id)
            if desk is None or desk.epoch != epoch:
                return
            if wake is not None:
                desk.end(wake)
            if wake is None or (wake is desk.newest and not desk.requests):
                del self._desks[container_id]
                gone = list(desk.open.values())
            elif desk.waiting:
                other = desk.next_to_wake()
        _answer_all(gone)
        if other is not None:
            other()


def _next(desk: _Desk) -> list[tuple[int, Question]]:
    taken: list[tuple[int, Question]] = []
    room = HANDED_BYTES
    while desk.waiting and (not taken or room >= desk.waiting[0][1].most_bytes):
        number, question = desk.waiting.popleft()
        if number in desk.open:
            taken.append((number, question))
            room -= question.most_bytes
    return taken


def _answer_all(gone: Iterable[Future[Answer]]) -> None:
    for each in gone:
        _answer(each, _MOVING)


def _answer(future: Future[Answer], answer: Answer) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(answer)


class LocalQuestions(QuestionSource):
    """Gets the questions of a container in the driver's own process."""

    def __init__(self, exchange: Exchange, container_id: str, epoch: Callable[[], int], wait_s: float = WAIT_S) -> None:
        """`epoch` returns the attempt's present epoch."""
        self._exchange = exchange
        self._container_id = container_id
        self._epoch = epoch
        self._wait_s = wait_s
        self._news = threading.Event()
        self._closed = False

    def exchange(self, answers: Sequence[tuple[int, Answer]]) -> Sequence[tuple[int, Question]]:
        """See `QuestionSource.exchange`. Raises TaskMigrated if another attempt has the container."""
        epoch = self._epoch()
        self._exchange.answered(self._container_id, epoch, answers)
        self._news.clear()
        if self._closed:
            return []
        wake = self._news.set
        taken = self._exchange.take(self._container_id, epoch, wake)
        if taken is None:
            raise TaskMigrated(f"another attempt has container {self._container_id}")
        if not taken:
            self._news.wait(self._wait_s)
            taken = self._exchange.take_waited(self._container_id, epoch, wake) or []
        return taken

    def hand_over(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """See `QuestionSource.hand_over`."""
        self._exchange.answered(self._container_id, self._epoch(), answers)

    def close(self) -> None:
        """End the wait; the attempt answers no more."""
        self._closed = True
        self._exchange.leave(self._container_id, self._epoch())
        self._news.set()
