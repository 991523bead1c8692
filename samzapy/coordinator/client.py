"""The container's side of the coordinator's HTTP service. Made where it is used: never before a fork."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from samzapy.coordinator.wire import (
    Answer,
    Attempt,
    AttemptProcess,
    Epochs,
    Failure,
    JobSpec,
    Outgrown,
    Registration,
    Verdict,
    Versioned,
    WireError,
    read,
)
from samzapy.errors import EnvironmentFailure, RetriableError, SamzapyError, TaskMigrated
from samzapy.job.facts import UserFailure
from samzapy.job.lease import ContainerLease, ContainerReport, Directive
from samzapy.strict_json import encode
from samzapy.version import VERSION

M = TypeVar("M")

#: Seconds to wait for a connection and for an answer: well below a third of any sensible lease.
CONNECT_S, ANSWER_S = 2.0, 5.0

#: The service answers so to a container that does not, or no longer, belong to it.
_NOT_OURS = {403, 404}


class CoordinatorClient:
    """Calls one coordinator. Safe to use from several threads.

    Calls raise RetriableError when there is no answer, TaskMigrated when the answer is that this coordinator does
    not know us (another driver has taken its address).
    """

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager(
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            timeout=urllib3.Timeout(connect=CONNECT_S, read=ANSWER_S),
            retries=False,
        )

    def register(self, container_id: str, process: AttemptProcess | None = None) -> tuple[HttpLease, JobSpec]:
        """Register an attempt, which runs as `process`: its lease, and the job."""
        path = f"/containers/{quote(container_id, safe='')}/attempts"
        body = self._request("POST", path, Attempt(process))
        driver = self._read(Versioned, path, body).version
        if driver != VERSION:
            raise EnvironmentFailure(
                f"samzapy {VERSION} is installed for the executor's Python, the driver has {driver}"
            )
        answer = self._read(Registration, path, body)
        lease = HttpLease(self, container_id, answer.epoch, answer.lease_ms / 1000, answer.predecessor)
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
        """Say why an attempt ends, and whether another would only fail in the same way; `user` describes a failure of the
        user's code. Returns whether the coordinator wants no other attempt."""
        # A message may quote text that has no form in UTF-8.
        message = str(error).encode(errors="backslashreplace").decode()
        failure = Failure(epoch, type(error).__name__, message, error.exit_code, permanent, user)
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

    def close(self) -> None:
        """Drop the connections."""
        self._pool.clear()

    def _request(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else encode(body)
        try:
            answer = self._pool.request(method, self._url + path, body=data)
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
            raise RetriableError(f"coordinator {self._url} answered {path} with something else ({cause})") from cause


class HttpLease(ContainerLease):
    """A lease kept over HTTP. `predecessor`: where the attempt before it ran, as far as the coordinator knows."""

    def __init__(
        self,
        client: CoordinatorClient,
        container_id: str,
        epoch: int,
        duration_s: float,
        predecessor: AttemptProcess | None = None,
    ) -> None:
        self.predecessor = predecessor
        self._client = client
        container = f"/containers/{quote(container_id, safe='')}"
        self._path, self._epoch_path = f"{container}/report", f"{container}/epoch"
        self._epoch = epoch
        self._duration_s = duration_s
        self._checkpoint_clock: int | None = None

    @property
    def epoch(self) -> int:
        """The attempt's number."""
        return self._epoch

    @property
    def duration_s(self) -> float:
        """As the coordinator granted it."""
        return self._duration_s

    @property
    def checkpoint_clock(self) -> int | None:
        """As of the newest answer."""
        return self._checkpoint_clock

    def hear(self, checkpoint_clock: int | None) -> None:
        """Take the checkpoint clock of an answer."""
        self._checkpoint_clock = checkpoint_clock

    def outgrow(self, newest: int) -> None:
        """As the coordinator grants it. Raises RetriableError when it does not answer."""
        grown = self._client.call(Outgrown, "POST", self._epoch_path, Epochs(self._epoch, newest)).epoch
        if grown is None:
            super().outgrow(newest)
        else:
            self._epoch = grown

    def report(self, report: ContainerReport) -> Directive:
        """Send the report. Raises RetriableError when the coordinator does not answer."""
        try:
            answer = self._client.call(Answer, "POST", self._path, report)
        except TaskMigrated:
            return Directive.ABANDON
        self.hear(answer.checkpoint_clock)
        return answer.directive


def _line(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace").strip()
