"""Calls the coordinator over HTTP, for a container. A client is made where it is used, never before a fork."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator import wire
from samzapy.coordinator.status import ContainerFailure
from samzapy.errors import EnvironmentFailure, RetriableError, SamzapyError, TaskMigrated
from samzapy.job.lease import NO_FACTS, ContainerLease, ContainerReport, Directive, Facts, UserFailure
from samzapy.strict_json import encode, sendable
from samzapy.version import VERSION, refusal

M = TypeVar("M")

#: Seconds to wait for a connection and for an answer: well below a third of any sensible lease.
CONNECT_S, ANSWER_S = 2.0, 5.0
_PATIENCE = urllib3.Timeout(connect=CONNECT_S, read=ANSWER_S)
#: Connections to keep, one per thread that may call at the same time: urllib3 warns of each one that it drops.
_THREADS = 8
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
        self._pool = urllib3.PoolManager(headers=headers, retries=False, maxsize=_THREADS, **pinned_to(fingerprint))

    def register(self, container_id: str, process: wire.AttemptProcess | None = None) -> tuple[HttpLease, wire.JobSpec]:
        """Register an attempt that runs as `process`; returns its lease and the job."""
        path = f"/containers/{quote(container_id, safe='')}/attempts"
        body = self._request("POST", path, wire.Attempt(process))
        driver = self._read(wire.Versioned, path, body).version
        if driver != VERSION:
            raise EnvironmentFailure(refusal(driver))
        answer = self._read(wire.Registration, path, body)
        return HttpLease(self, container_id, answer), answer.spec

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
        kind, message = type(error).__name__, sendable(str(error))
        failure = ContainerFailure(container_id, epoch, kind, message, error.exit_code, permanent, user)
        return self.call(bool, "POST", f"/containers/{quote(container_id, safe='')}/failure", failure)

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
        self._pool.clear()

    def _request(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else encode(body)
        try:
            answer = self._pool.request(method, self._url + path, body=data, timeout=_PATIENCE)
        except urllib3.exceptions.SSLError as cause:
            line = f"coordinator {self._url} does not show the certificate of this run ({cause})"
            raise RetriableError(line) from cause
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
            return wire.read(kind, answer)
        except wire.WireError as cause:
            raise RetriableError(f"coordinator {self._url} sent an unreadable answer to {path}: {cause}") from cause


class HttpLease(ContainerLease):
    """A lease that is renewed over HTTP. `predecessor`: the process of the previous attempt, if the coordinator knows
    it. Clock and pace are as of the newest answer."""

    def __init__(
        self, client: CoordinatorClient, container_id: str, granted: wire.Registration, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.epoch, self.duration_s = granted.epoch, granted.lease_s
        self.predecessor, self.resumes = granted.predecessor, granted.resumes
        self.checkpoint_clock = granted.checkpoint_clock
        path = f"/containers/{quote(container_id, safe='')}"
        self._path, self._epoch_path = f"{path}/heartbeat", f"{path}/epoch"
        self._client, self._clock = client, clock
        self._chance = Random(f"{granted.epoch} {container_id}")
        self._sequence = count(1)
        self._newest = NO_FACTS

    def outgrow(self, newest: int) -> None:
        """Ask the coordinator for a greater epoch. Raises RetriableError if it does not answer."""
        grown = self._client.call(int, "POST", self._epoch_path, wire.Epochs(self.epoch, newest))
        if grown <= newest:
            super().outgrow(newest)
        else:
            self.epoch = grown

    def report(self, report: ContainerReport) -> Directive:
        """Send a heartbeat. The facts of a report that is sent again go once. Raises RetriableError when the
        coordinator does not answer."""
        facts, before, self._newest = report.facts, self._newest, report.facts
        if facts is before:
            facts = Facts(stalled=facts.stalled)
        beat = wire.Heartbeat.of(replace(report, port=self.port), facts, next(self._sequence), self._clock.monotonic())
        try:
            answer = self._client.call(wire.Answer, "POST", self._path, beat)
        except TaskMigrated:
            return Directive.ABANDON
        self.checkpoint_clock = answer.checkpoint_clock
        # The containers of a job start together, and must not report together.
        self.pace_s = answer.pace_s * (0.75 + self._chance.random() / 2)
        return answer.directive


def _line(data: bytes) -> str:
    return data[:200].decode("utf-8", "replace").strip()
