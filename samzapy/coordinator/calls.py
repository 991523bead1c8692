"""Answers the calls of containers.

==============================  =================================================
POST /containers/ID/attempts    register {process}: {version, epoch, lease_ms, spec, predecessor,
                                checkpoint_clock}
POST /containers/ID/heartbeat   Heartbeat: {directive, checkpoint_clock, pace_s}
POST /containers/ID/epoch       have a greater epoch {epoch, newest}: {epoch}, null if superseded
POST /containers/ID/failure     {epoch, error, message, exit_code, permanent, user}: {final}
POST /stop                      stop everything: {}
==============================  =================================================
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.wire import (
    Answer,
    Attempt,
    Epochs,
    Heartbeat,
    Outgrown,
    Registration,
    Verdict,
    WireError,
    read,
    read_failure,
)
from samzapy.job.lease import Directive
from samzapy.strict_json import encode
from samzapy.version import VERSION

logger = logging.getLogger(__name__)

#: Largest body of a call: a heartbeat has some 300 bytes for each partition.
BODY_LIMIT = 16_777_216

#: Answers the body of a call: the HTTP status, and the body of the answer. It raises nothing.
Call = Callable[[bytes], tuple[int, bytes]]


class Calls:
    """The ASGI application for calls with the token that acts, most of them by containers. One event loop runs it.

    The network may deliver a report after later reports of its attempt, or after the attempt's failure. The coordinator
    answers such a late report, but the report changes nothing and renews no lease.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._newest: dict[str, tuple[int, int]] = {}
        self._failed: dict[str, int] = {}
        self._routes: dict[str, Callable[[str, bytes], bytes]] = {
            "attempts": self._register,
            "heartbeat": self._heartbeat,
            "epoch": self._epoch,
            "failure": self._failure,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        answer = self._answering(scope)
        status, body = 413, b""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message["body"])
            size += len(message["body"])
            if size > BODY_LIMIT:
                body = f"body larger than {BODY_LIMIT:,} B\n".encode()
                break
            if not message["more_body"]:
                status, body = answer(b"".join(parts))
                break
        kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answering(self, scope: Scope) -> Call:
        """The function that answers the body of a request."""
        path: str = scope["path"]
        if path == "/stop":
            return partial(_answered, path, self._stop)
        matched = _CONTAINER.fullmatch(path)
        call = None if matched is None else self._routes.get(matched[2])
        if matched is None or call is None:
            return lambda body: (404, b"no such call\n")  # noqa: ARG005
        container_id = unquote(matched[1])
        if not self._coordinator.knows(container_id):
            return lambda body: (404, b"unknown container\n")  # noqa: ARG005
        return partial(_answered, path, partial(call, container_id))

    def _stop(self, body: bytes) -> bytes:
        self._coordinator.stop()
        return b"{}"

    def _register(self, container_id: str, body: bytes) -> bytes:
        coordinator = self._coordinator
        process = read(Attempt, body).process
        # No other call comes between the two, because one event loop runs them all.
        predecessor, resumes = coordinator.predecessor(container_id), coordinator.has_run(container_id)
        return encode(
            Registration.of(
                coordinator.spec.of(container_id),
                version=VERSION,
                epoch=coordinator.register(container_id, process),
                lease_s=coordinator.lease_s,
                checkpoint_clock=coordinator.kept_checkpoint_clock,
                predecessor=predecessor,
                resumes=resumes,
            )
        )

    def _heartbeat(self, container_id: str, body: bytes) -> bytes:
        beat = read(Heartbeat, body)
        coordinator = self._coordinator
        if self._is_late(container_id, beat):
            directive = coordinator.directive(container_id, beat.report.epoch)
        else:
            directive = coordinator.report(beat.received(container_id, coordinator.now))
            if directive is not Directive.ABANDON:
                self._newest[container_id] = beat.report.epoch, beat.sequence
        return encode(Answer(directive, coordinator.kept_checkpoint_clock, coordinator.pace_s(container_id)))

    def _is_late(self, container_id: str, beat: Heartbeat) -> bool:
        """Whether a later heartbeat of this attempt, or its failure, has arrived."""
        epoch, sequence = self._newest.get(container_id, (None, 0))
        is_older = epoch == beat.report.epoch and 0 < beat.sequence <= sequence
        return is_older or self._failed.get(container_id) == beat.report.epoch

    def _epoch(self, container_id: str, body: bytes) -> bytes:
        asked = read(Epochs, body)
        return encode(Outgrown(self._coordinator.outgrow(container_id, asked.epoch, asked.newest)))

    def _failure(self, container_id: str, body: bytes) -> bytes:
        failure = read_failure(container_id, body)
        self._failed[container_id] = max(failure.epoch, self._failed.get(container_id, failure.epoch))
        return encode(Verdict(self._coordinator.fail(failure)))


def _answered(path: str, call: Callable[[bytes], bytes], body: bytes) -> tuple[int, bytes]:
    try:
        return 200, call(body)
    except WireError as error:
        return 400, f"{error}\n".encode()
    except Exception as error:
        logger.exception("%s failed", path)
        return 500, f"{type(error).__name__}\n".encode()


_CONTAINER = re.compile(r"/containers/([^/]+)/([a-z]+)")
