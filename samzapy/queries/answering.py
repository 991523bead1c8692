"""Answers questions in a thread of the container. The thread asks the driver for them, so the container needs no
port."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import final

from samzapy.api.metrics import MetricsRegistry
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError
from samzapy.queries.committed import CommittedStores
from samzapy.queries.questions import HANDED_BYTES, Answer, Problem, Question

logger = logging.getLogger(__name__)

#: Seconds between two requests to a driver that does not answer.
_AGAIN_S = 0.5
#: Characters of an unexpected error in an answer.
_LONGEST_REASON = 500


class QuestionSource(ABC):
    """Supplies a container with its questions."""

    @abstractmethod
    def exchange(self, answers: Sequence[tuple[int, Answer]]) -> Sequence[tuple[int, Question]]:
        """Hand over answers, and wait for the next questions: some seconds at most, then there are none.

        Raises SamzapyError if there is no driver that takes them.
        """

    @abstractmethod
    def hand_over(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """Hand over answers without waiting for questions. Raises the same errors as `exchange`."""

    def close(self) -> None:  # noqa: B027  # a source may end its wait by itself
        """End a wait that is under way, if that is possible; any thread."""


@final
class Answering:
    """A context that answers the questions of `source` from `stores` in a daemon thread."""

    def __init__(
        self, source: QuestionSource, stores: CommittedStores, metrics: MetricsRegistry, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._source = source
        self._stores = stores
        self._clock = clock
        self._questions = metrics.counter("queries", "questions")
        self._entries = metrics.counter("queries", "entries")
        self._time = metrics.timer("queries", "answer")
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samzapy-queries", daemon=True)

    def __enter__(self) -> Answering:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        # Do not wait for the thread: a distant driver may hold it for some seconds, and it uses nothing of the
        # container.
        self._closed.set()
        self._source.close()

    def _run(self) -> None:
        answers: list[tuple[int, Answer]] = []
        failing = False
        while not self._closed.is_set():
            try:
                answers = self._answered(self._source.exchange(answers))
                failing = False
            except Exception as cause:  # an error here must not end the thread
                logger.log(
                    logging.DEBUG if failing else logging.INFO,
                    "Questions about the stores are not answered: %s",
                    cause,
                    exc_info=not isinstance(cause, SamzapyError),
                )
                failing = True
                answers = []
                self._closed.wait(_AGAIN_S)

    def _answered(self, questions: Sequence[tuple[int, Question]]) -> list[tuple[int, Answer]]:
        """Answer the questions; returns the answers that have not been handed over yet."""
        answers: list[tuple[int, Answer]] = []
        size = 0
        for number, question in questions:
            if size >= HANDED_BYTES:
                self._source.hand_over(answers)
                answers, size = [], 0
            answer = self._answer(question)
            answers.append((number, answer))
            size += answer.size
        return answers

    def _answer(self, question: Question) -> Answer:
        began = self._clock.monotonic()
        try:
            answer = self._stores.answer(question)
        except Exception as cause:  # one question must not cost the others their answers
            logger.exception("A question about store '%s' failed", question.store)
            reason = " ".join(f"{type(cause).__name__}: {cause}".split())[:_LONGEST_REASON]
            answer = Answer(problem=Problem.REFUSED, message=f"store '{question.store}': {reason}")
        self._questions.inc()
        self._entries.inc(len(answer.entries))
        self._time.update(self._clock.monotonic() - began)
        return answer


@dataclass(frozen=True)
class Readers:
    """The readers of a container's stores: `stores` has the committed entries, `source` the questions; None without
    queries."""

    stores: CommittedStores = field(default_factory=CommittedStores)
    source: QuestionSource | None = None

    def answering(self, metrics: MetricsRegistry) -> AbstractContextManager[object]:
        """A context in which the questions are answered."""
        return nullcontext() if self.source is None else Answering(self.source, self.stores, metrics)
