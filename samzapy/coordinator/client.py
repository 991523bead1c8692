"""Calls the coordinator over HTTP, for a container. A client is made where it is used, never before a fork."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator.changes import Changes
from samzapy.coordinator.wire import (
    METRICS_S,
    Answer,
    Attempt,
    AttemptProcess,
    Epochs,
    Failure,
    Heartbeat,
    JobSpec,
    Outgrown,
    Pace,
    Registration,
    Taken,
    Verdict,
    Versioned,
    WireError,
    pack,
    read,
)
from samzapy.errors import EnvironmentFailure, RetriableError, SamzapyError, TaskMigrated
from samzapy.job.lease import NO_FACTS, ContainerLease, ContainerReport, Directive, Facts, UserFailure
from samzapy.queries.answering import QuestionSource
from samzapy.queries.exchange import WAIT_S
from samzapy.queries.questions import Answer as Answered
from samzapy.queries.questions import Handed, Question, read_asked
from samzapy.queries.questions import pack as pack_questions
from samzapy.strict_json import encode, sendable
from samzapy.version import VERSION, refusal

M = TypeVar("M")

logger = logging.getLogger(__name__)

#: Seconds to wait for a connection and for an answer: well below a third of any sensible lease.
CONNECT_S, ANSWER_S = 2.0, 5.0

_PATIENCE = urllib3.Timeout(connect=CONNECT_S, read=ANSWER_S)

#: The statuses for a container that does not belong to this coordinator, or no longer does.
_NOT_OURS = {403, 404}


def pinned_to(fingerprint: str | None) -> dict[str, Any]:
    """What a pool takes to accept only the certificate with this SHA-256 fingerprint; without one, authorities
    decide."""
    # A pool that never uses TLS takes no fingerprint at all before urllib3 2.7, not even None.
    return {"cert_reqs": "CERT_NONE", "assert_fingerprint": fingerprint} if fingerprint else {}


class CoordinatorClient:
    """Calls one coordinator. Safe to use from several threads.

    Calls raise RetriableError if the coordinator does not answer or shows another certificate than the run's, and
    TaskMigrated if it does not know this container (another driver has taken its address).
    """

    def __init__(self, url: str, token: str, fingerprint: str | None = None) -> None:
        """`fingerprint`: the SHA-256 of the coordinator's certificate, checked before the token is sent; None without
        TLS."""
        self._url = url
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._pool = urllib3.PoolManager(headers=headers, retries=False, **pinned_to(fingerprint))

    def register(self, container_id: str, process: AttemptProcess | None = None) -> tuple[HttpLease, JobSpec]:
        """Register an attempt that runs as `process`; returns its lease and the job."""
        path = f"/containers/{quote(container_id, safe='')}/attempts"
        body = self._request("POST", path, Attempt(process))
        driver = self._read(Versioned, path, body).version
        if driver != VERSION:
            raise EnvironmentFailure(refusal(driver))
        answer = self._read(Registration, path, body)
        lease = HttpLease(
            self, container_id, answer.epoch, answer.lease_ms / 1000, answer.predecessor, resumes=answer.resumes
        )
        lease.hear(answer.checkpoint_clock)
        return lease, answer.spec

    def fail(
        self,
        container_id: str,
        epoch: int,
        error: SamzapyError,
        *,
        permanent: bool = False,
        user: UserFailure | None = None,
    ) -> bool:
        """Report why an attempt ends. `permanent`: another attempt would fail in the same way; `user`: the failure of
        the user's code, if it was one. Returns whether the coordinator wants no further attempt."""
        failure = Failure(epoch, type(error).__name__, sendable(str(error)), error.exit_code, permanent, user)
        return self.call(Verdict, "POST", f"/containers/{quote(container_id, safe='')}/failure", failure).final

    def stop(self) -> None:
        """Ask all containers to commit and stop."""
        self._request("POST", "/stop")

    def status(self) -> dict[str, Any]:
        """The job's status as JSON."""
        return self.call(dict[str, Any], "GET", "/status")

    def call(self, kind: type[M], method: str, path: str, body: Any = None) -> M:
        """One request; returns the answer."""
        return self._read(kind, path, self._request(method, path, body))

    def details(self, path: str, body: bytes, answer_s: float) -> Taken:
        """Send packed details, and wait for the answer, at most `answer_s`."""
        return self._read(
            Taken, path, self._send("POST", path, body, urllib3.Timeout(connect=CONNECT_S, read=answer_s))
        )

    def questions(self, path: str, body: bytes, answer_s: float) -> bytes:
        """Send answers about stores, and wait for the next questions, at most `answer_s`."""
        return self._send("POST", path, body, urllib3.Timeout(connect=CONNECT_S, read=answer_s))

    def close(self) -> None:
        """Drop the connections."""
        self._pool.clear()

    def _request(self, method: str, path: str, body: Any = None) -> bytes:
        return self._send(method, path, None if body is None else encode(body), _PATIENCE)

    def _send(self, method: str, path: str, data: bytes | None, patience: urllib3.Timeout) -> bytes:
        try:
            answer = self._pool.request(method, self._url + path, body=data, timeout=patience)
        except urllib3.exceptions.SSLError as cause:
            raise RetriableError(
                f"coordinator {self._url} does not show the certificate of this run ({cause})"
            ) from cause
        except urllib3.exceptions.HTTPError as cause:
            raise RetriableError(f"coordinator {self._url} does not answer ({type(cause).__name__})") from cause
        if answer.status in _NOT_OURS:
            raise TaskMigrated(f"coordinator {self._url} does not know this container: {_line(answer.data)}")
        if answer.status >= 500:
            raise RetriableError(f"coordinator {self._url} failed: {_line(answer.data)}")
        if answer.status >= 400:
            raise EnvironmentFailure(f"coordinator {self._url} refused {path}: {_line(answer.data)}")
        return answer.data

    def _read(self, kind: type[M], path: str, answer: bytes) -> M:
        try:
            return read(kind, answer)
        except WireError as cause:
            raise RetriableError(f"coordinator {self._url} sent an unreadable answer to {path}: {cause}") from cause


def _chances(name: str) -> Callable[[], float]:
    """Numbers from 0 to 1 without an order, always the same for a name."""
    key = name.encode()[:64]

    def of(number: int) -> float:
        return int.from_bytes(blake2b(b"%d" % number, digest_size=4, key=key).digest(), "big") / 2**32

    return map(of, count()).__next__


class HttpLease(ContainerLease):
    """A lease that is renewed over HTTP. `predecessor`: the process of the previous attempt, if the coordinator knows
    it."""

    def __init__(
        self,
        client: CoordinatorClient,
        container_id: str,
        epoch: int,
        duration_s: float,
        predecessor: AttemptProcess | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] | None = None,
        *,
        resumes: bool = False,
    ) -> None:
        """`chance`, from 0 to 1, makes the time between two heartbeats, and between two details, a quarter shorter (0)
        to a quarter longer (1): the containers of a job start together, and must not report together. By default the
        container's id and the epoch decide it, so that a schedule can be repeated."""
        self.predecessor = predecessor
        self._resumes = resumes
        self._client = client
        container = f"/containers/{quote(container_id, safe='')}"
        self._path, self._details_path = f"{container}/heartbeat", f"{container}/details"
        self._epoch_path = f"{container}/epoch"
        self._epoch = epoch
        self._duration_s = duration_s
        self._noted: Facts = NO_FACTS
        self._checkpoint_clock: int | None = None
        self._clock, self._chance = clock, chance or _chances(f"{epoch} {container_id}")
        self._pace = Pace()
        self._pace_s = self._pace.heartbeat_s
        self._changes = Changes()
        self._beats, self._pieces = count(1), count(1)
        self._phase = ""
        self._details_due = self._metrics_due = -math.inf
        self._failing = False

    @property
    def resumes(self) -> bool:
        """As the coordinator knows."""
        return self._resumes

    @property
    def epoch(self) -> int:
        """The attempt's number."""
        return self._epoch

    @property
    def duration_s(self) -> float:
        """The length of the lease in seconds, as granted."""
        return self._duration_s

    @property
    def pace_s(self) -> float:
        """Seconds to the next heartbeat, as of the newest answer."""
        return self._pace_s

    @property
    def checkpoint_clock(self) -> int | None:
        """The job's checkpoint clock, as of the newest answer."""
        return self._checkpoint_clock

    def hear(self, checkpoint_clock: int | None) -> None:
        """Take the checkpoint clock of an answer."""
        self._checkpoint_clock = checkpoint_clock

    def outgrow(self, newest: int) -> None:
        """Ask the coordinator for a greater epoch. Raises RetriableError if it does not answer."""
        grown = self._client.call(Outgrown, "POST", self._epoch_path, Epochs(self._epoch, newest)).epoch
        if grown is None or grown <= newest:
            super().outgrow(newest)
        else:
            self._epoch = grown

    def report(self, report: ContainerReport) -> Directive:
        """Send a heartbeat. Raises RetriableError when the coordinator does not answer."""
        self._note(report.facts)
        beat = Heartbeat(report.epoch, report.phase, report.processed, report.commits, next(self._beats))
        try:
            answer = self._client.call(Answer, "POST", self._path, beat)
        except TaskMigrated:
            return Directive.ABANDON
        self.hear(answer.checkpoint_clock)
        self._pace, self._pace_s = answer.pace, self._varied(answer.pace.heartbeat_s)
        if answer.again:
            self._changes.forget()
            self._details_due = self._metrics_due = -math.inf
        return answer.directive

    def details(self, report: ContainerReport) -> None:
        """Send the changes, if it is time: at each new phase, and else at the coordinator's pace."""
        self._note(report.facts)
        now = self._clock.monotonic()
        new_phase = report.phase != self._phase
        if not new_phase and now < self._details_due:
            return
        metrics = new_phase or now >= self._metrics_due
        self._details_due = now + self._varied(self._pace.details_s)
        try:
            self._send(report, now, metrics=metrics)
        except Exception as cause:  # noqa: BLE001  # the lease does not depend on details
            self._changes.forget()
            # Warn once only: the outage may last for hours.
            level = logging.DEBUG if self._failing else logging.WARNING
            logger.log(level, "Details of container %s did not reach the coordinator: %s", report.container_id, cause)
            self._failing = True
        else:
            self._failing = False
            self._phase = report.phase
            if metrics:
                self._metrics_due = now + METRICS_S

    def _varied(self, seconds: float) -> float:
        return seconds * (0.75 + self._chance() / 2)

    def _note(self, facts: Facts) -> None:
        """Keep facts until they are sent. The last report goes to `details` first, all others to `report`."""
        if facts is not self._noted:
            self._noted = facts
            self._changes.note(facts)

    def _send(self, report: ContainerReport, began: float, *, metrics: bool) -> None:
        answer_s = min(ANSWER_S, self._duration_s / 3)
        for piece in self._changes.pieces(report, began, metrics=metrics):
            piece.sequence = next(self._pieces)
            if self._client.details(self._details_path, pack(piece), answer_s).again:
                self._changes.forget()
                return
            self._changes.acknowledge()
            if self._clock.monotonic() - began > self._duration_s / 6:
                # The rest is sent after the next heartbeat, which is due.
                self._details_due = self._metrics_due = -math.inf
                return


class HttpQuestions(QuestionSource):
    """Gets the questions about the stores of one container over HTTP."""

    def __init__(self, client: CoordinatorClient, container_id: str, epoch: Callable[[], int]) -> None:
        """`epoch` returns the attempt's present epoch."""
        self._client = client
        self._path = f"/containers/{quote(container_id, safe='')}/questions"
        self._epoch = epoch

    def exchange(self, answers: Sequence[tuple[int, Answered]]) -> Sequence[tuple[int, Question]]:
        """See `QuestionSource.exchange`. Raises RetriableError if the coordinator does not answer, TaskMigrated if
        another attempt has the container."""
        return self._asked(Handed(self._epoch(), list(answers)), WAIT_S + ANSWER_S)

    def hand_over(self, answers: Sequence[tuple[int, Answered]]) -> None:
        """See `QuestionSource.hand_over`. Raises the same errors as `exchange`."""
        self._asked(Handed(self._epoch(), list(answers), busy=True), ANSWER_S)

    def _asked(self, handed: Handed, answer_s: float) -> Sequence[tuple[int, Question]]:
        body = pack_questions(handed)
        try:
            asked = read_asked(self._client.questions(self._path, body, answer_s))
        except ValueError as cause:
            raise RetriableError(f"the coordinator sent an unreadable answer to {self._path}: {cause}") from cause
        if not asked.owned:
            raise TaskMigrated("a newer attempt runs this container")
        return asked.questions


def _line(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace").strip()
