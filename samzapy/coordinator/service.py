"""Serves the coordinator over HTTP, in a thread of the driver.

==============================  =================================================
POST /containers/ID/attempts    register {process}: {version, epoch, lease_ms, spec, predecessor,
                                checkpoint_clock}
POST /containers/ID/heartbeat   {epoch, phase, processed, commits, sequence}: {directive, checkpoint_clock, pace, again}
POST /containers/ID/details     Details, packed: {again}
POST /containers/ID/epoch       have a greater epoch {epoch, newest}: {epoch}, null if superseded
POST /containers/ID/failure     {epoch, error, message, exit_code, permanent, user}: {final}
POST /stop                      stop everything: {}
POST /containers/ID/questions   samzapy.coordinator.web.queries, as GET /stores/...
GET ...                         samzapy.coordinator.web.views
==============================  =================================================

A POST needs the token that acts, a GET one that reads (`samzapy.coordinator.web.access`). uvicorn serves both.
`samzapy.coordinator.web.admission` limits its connections, and `samzapy.coordinator.web.connection` answers a call that
repeats without uvicorn, or any framework.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from urllib.parse import unquote

import uvicorn
from starlette.types import Receive, Scope, Send

from samzapy.clock import SYSTEM_CLOCK
from samzapy.coordinator.changes import Reported
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.page.board import Board
from samzapy.coordinator.page.routes import page_routes
from samzapy.coordinator.web.access import Guard, Tokens
from samzapy.coordinator.web.admission import (
    ACCEPTED,
    HEADER_LIMIT,
    IDLE_S,
    OPEN_FILES,
    Admission,
    strangers_of,
)
from samzapy.coordinator.web.connection import REPEAT, Call, connections, kind_of
from samzapy.coordinator.web.interpreter import ShortPauses
from samzapy.coordinator.web.queries import Records
from samzapy.coordinator.web.server import WatchedServer
from samzapy.coordinator.web.tls import Identity
from samzapy.coordinator.web.views import Pauses, View, views
from samzapy.coordinator.wire import (
    PACKED_LIMIT,
    Answer,
    Attempt,
    CoordinatorAddress,
    Epochs,
    Heartbeat,
    Outgrown,
    Taken,
    Verdict,
    WireError,
    read,
    read_failure,
    registration,
    unpack,
)
from samzapy.errors import EnvironmentFailure
from samzapy.job.files import raise_limit
from samzapy.job.lease import Directive
from samzapy.strict_json import encode
from samzapy.version import VERSION

logger = logging.getLogger(__name__)

#: Largest body of a call: pieces of details stay far below.
BODY_LIMIT = PACKED_LIMIT

_NO_VIEWS: Mapping[str, View] = MappingProxyType({})
_NO_RECORDS = Records()


class Calls:
    """The ASGI application for calls with the token that acts, most of them by containers. One event loop runs it.

    The network may deliver a report after later reports of its attempt, or after the attempt's failure. The coordinator
    answers such a late report, but the report changes nothing and renews no lease.
    """

    def __init__(self, coordinator: Coordinator, registered: Callable[[], None]) -> None:
        """`registered` is called after each registration."""
        self._coordinator = coordinator
        self._registered = registered
        self._reported: dict[str, Reported] = {}
        self._counters: dict[str, Heartbeat] = {}
        self._failed: dict[str, int] = {}
        self._routes: dict[str, Callable[[str, bytes], bytes]] = {
            "attempts": self._register,
            "heartbeat": self._heartbeat,
            "details": self._details,
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
        headers = [(b"content-type", kind_of(status)), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answering(self, scope: Scope) -> Call:
        """The function that answers the body of a request; it offers itself for more, if containers repeat such
        requests."""
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
        answer = partial(_answered, path, partial(call, container_id))
        if matched[2] in _REPEATED:
            scope[REPEAT](answer)
        return answer

    def _stop(self, body: bytes) -> bytes:
        self._coordinator.stop()
        return b"{}"

    def _register(self, container_id: str, body: bytes) -> bytes:
        coordinator = self._coordinator
        process = read(Attempt, body).process
        # No other call comes between the two, because one event loop runs them all.
        predecessor, resumes = coordinator.predecessor(container_id), coordinator.has_run(container_id)
        epoch = coordinator.register(container_id, process)
        self._registered()
        clock, lease_s = coordinator.kept_checkpoint_clock, coordinator.lease_s
        spec = coordinator.spec.of(container_id)
        return registration(spec, VERSION, epoch, lease_s, clock, predecessor, resumes=resumes)

    def _heartbeat(self, container_id: str, body: bytes) -> bytes:
        beat = read(Heartbeat, body)
        coordinator = self._coordinator
        if self._is_late(container_id, beat):
            directive = coordinator.directive(container_id, beat.epoch)
            return encode(Answer(directive, coordinator.kept_checkpoint_clock, coordinator.pace_of(container_id)))
        reported = self._reported.get(container_id)
        again = reported is None or reported.epoch != beat.epoch
        if reported is None or again:
            reported = Reported(beat.epoch)
        report = reported.report(container_id, beat.phase, beat.processed, beat.commits)
        directive = coordinator.report(report, has_details=False)
        if directive is not Directive.ABANDON:
            self._counters[container_id] = beat
            self._reported[container_id] = reported
        return encode(Answer(directive, coordinator.kept_checkpoint_clock, coordinator.pace_of(container_id), again))

    def _is_late(self, container_id: str, beat: Heartbeat) -> bool:
        """Whether a later heartbeat of this attempt, or its failure, has arrived."""
        if self._failed.get(container_id) == beat.epoch:
            return True
        newest = self._counters.get(container_id)
        return newest is not None and newest.epoch == beat.epoch and 0 < beat.sequence <= newest.sequence

    def _details(self, container_id: str, body: bytes) -> bytes:
        piece = unpack(body)
        known = self._reported.get(container_id)
        if known is not None and known.is_late(piece):
            return _TAKEN
        if known is None or known.epoch != piece.epoch:
            if not piece.first:
                return _AGAIN
            known = Reported(piece.epoch)
        beat = self._counters.get(container_id)
        if beat is None or beat.epoch != piece.epoch:
            beat = Heartbeat(piece.epoch, "starting")
        changed = known.changed(piece)
        report = changed.report(container_id, beat.phase, beat.processed, beat.commits, piece, self._coordinator.now)
        if self._coordinator.detail(report):
            self._reported[container_id] = changed
        return _TAKEN

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
#: The calls that a container makes again and again.
_REPEATED = frozenset({"heartbeat", "details"})
_AGAIN, _TAKEN = encode(Taken(again=True)), encode(Taken())


@dataclass(frozen=True)
class Addresses:
    """The addresses of a coordinator: `host:port` (0: any free port), with the TLS of `identity` (None: without).
    `page_port`: a second port, for people, on this machine's loopback address and without TLS. `names`: its further
    host names."""

    host: str = "127.0.0.1"
    port: int = 0
    page_port: int | None = None
    identity: Identity | None = None
    names: tuple[str, ...] = ()


_ON_LOOPBACK = Addresses()


class CoordinatorService:
    """Serves one coordinator at its `addresses` until closed.

    `address` is for containers, `url` is its URL, and `page` is the URL of the page, with the token that reads.
    `pinned_page` adds the fingerprint of the page's certificate, if it has one, as a fragment, which a browser does not
    send. `ports` are the port of the addresses and the second one, None without. Raises EnvironmentFailure if it cannot
    listen at an address.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        token: str,
        addresses: Addresses = _ON_LOOPBACK,
        *,
        added: Mapping[str, View] = _NO_VIEWS,
        open_to_all: Iterable[str] = (),
        records: Records = _NO_RECORDS,
    ) -> None:
        """`token` is the token that acts. `added` are further views by path; paths in `open_to_all` need no token.
        `records` answers questions about the job's records."""
        host, identity = addresses.host, addresses.identity
        self.tokens = Tokens(token)
        self._sockets = [_listening(host, addresses.port)]
        fingerprint = None if identity is None else identity.fingerprint
        self.url = page = _url("http" if identity is None else "https", host, self._sockets[0])
        self.address = CoordinatorAddress(self.url, fingerprint)
        if addresses.page_port is not None:
            try:
                self._sockets.append(_listening("127.0.0.1", addresses.page_port))
            except EnvironmentFailure:
                self._sockets[0].close()
                raise
            page = _url("http", "127.0.0.1", self._sockets[1])
        first, *further = (each.getsockname()[1] for each in self._sockets)
        self.ports: tuple[int, int | None] = (first, further[0] if further else None)
        self.page = f"{page}/?token={self.tokens.read}"
        self.pinned_page = f"{self.page}#{fingerprint}" if page == self.url and fingerprint else self.page
        open_files = raise_limit(OPEN_FILES)
        self._worker = ThreadPoolExecutor(1, "coordinator-views")
        containers = len(coordinator.spec.model.containers) + len(coordinator.spec.model.standbys)
        admission = Admission(strangers_of(containers, open_files, identity is not None))
        hosts = {host.lower(), *addresses.names, *(name for each in self._sockets for name in _names(each))}
        secured = {} if identity is None else {self._sockets[0]: identity.context()}
        plain = [each for each in self._sockets if each not in secured]
        self._board = _board(coordinator, records)
        self._board.start()
        shown = views(coordinator, [*page_routes(self._board), *records.queries.routes], added, self._worker)
        self._pauses = ShortPauses()
        calls = Calls(coordinator, self._pauses.note)
        guard = Guard(records.queries.over(calls), shown, self.tokens, hosts, first, frozenset(open_to_all))
        settings = uvicorn.Config(
            guard,
            log_config=None,
            access_log=False,
            lifespan="off",
            loop="asyncio",
            http=connections(admission),
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(IDLE_S),
            # The connections that asyncio accepts in a row; the sockets themselves keep more.
            backlog=ACCEPTED,
            h11_max_incomplete_event_size=HEADER_LIMIT,
        )
        self._server = WatchedServer(settings, admission, secured)
        self._thread = threading.Thread(target=self._server.run, args=(plain,), name="coordinator", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        self._server.end()
        self._thread.join()
        self._board.close()
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._pauses.end()
        for each in self._sockets:
            each.close()


def _board(coordinator: Coordinator, records: Records) -> Board:
    readers, host_of = _readers(coordinator), partial(_host_of, coordinator)
    return Board(coordinator.status, records.inspector, SYSTEM_CLOCK, readers, host_of, pause=Pauses())


def _readers(coordinator: Coordinator) -> Mapping[str, str]:
    """The task that reads each partition; a broadcast partition has many readers, and is left out."""
    model = coordinator.spec.model
    read = [(str(ssp), task.name) for container in model.containers for task in container.tasks for ssp in task.ssps]
    often = Counter(name for name, _ in read)
    return {name: task for name, task in read if often[name] == 1}


def _host_of(coordinator: Coordinator, container_id: str) -> str:
    """The host that the newest attempt of a container runs on; empty if it is not known."""
    process = coordinator.process(container_id)
    place = None if process is None else process.place
    return "" if place is None else place.host


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as cause:
        unknown = isinstance(cause, socket.gaierror)
        # Python's text repeats the address.
        reason = cause.strerror if unknown or not cause.errno else os.strerror(cause.errno)
        way_out = (
            "name an address of this machine with job.spark.coordinator.host"
            if unknown or cause.errno == errno.EADDRNOTAVAIL
            else "choose another port with job.page.port or job.spark.coordinator.port, or 0 for any free one"
        )
        raise EnvironmentFailure(f"the driver cannot listen on {host}:{port} ({reason}): {way_out}") from cause


def _url(scheme: str, host: str, listening: socket.socket) -> str:
    return f"{scheme}://{host}:{listening.getsockname()[1]}"


def _names(listening: socket.socket) -> tuple[str, ...]:
    """The address of a socket, and this machine's name for it. No foreign page can have an address, or `localhost`, as
    its name."""
    address: str = listening.getsockname()[0]
    return (address, "localhost") if address.startswith("127.") else (address,)
