"""Serves the coordinator over HTTP, in a thread of the driver.

==============================  =================================================
POST /containers/ID/attempts    register {process}: {version, epoch, lease_ms, spec, predecessor,
                                checkpoint_clock}
POST /containers/ID/report      a ContainerReport: {directive, checkpoint_clock}
POST /containers/ID/epoch       have a greater epoch {epoch, newest}: {epoch}, null if superseded
POST /containers/ID/failure     {epoch, error, message, exit_code, permanent, user}: {final}
POST /stop                      stop everything: {}
GET /status                     JobStatus as JSON
GET /                           the same as a page
==============================  =================================================

Every request needs the right Host header (against DNS rebinding) and the token. The page is plain HTML without scripts,
readable over any tunnel; it reloads itself.
"""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.clocks import ClockStatus, as_text
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import ContainerStatus, JobStatus
from samzapy.coordinator.wire import (
    Answer,
    Attempt,
    Epochs,
    Outgrown,
    Verdict,
    WireError,
    read,
    read_failure,
    read_report,
    registration,
)
from samzapy.errors import EnvironmentFailure
from samzapy.job.lease import TaskProgress
from samzapy.strict_json import encode
from samzapy.version import VERSION

#: Seconds between reloads.
RELOAD_S = 2

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p { margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; }
.failed { color: #b3261e; }
@media (prefers-color-scheme: dark) { .failed { color: #f2b8b5; } }
"""


def render(status: JobStatus) -> str:
    """The page for `status`; every text that came from outside is escaped."""
    remaining = "" if status.remaining is None else f", {status.remaining:,} to go"
    stopping = "<p>stopping</p>" if status.stopping else ""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        f'<meta http-equiv="refresh" content="{RELOAD_S}">'
        '<meta name="viewport" content="width=device-width">'
        f'<title>{escape(status.name)}</title><link rel="stylesheet" href="/style.css"></head><body>'
        f"<h1>{escape(status.name)}</h1>"
        f"<p>{status.processed:,} messages processed{remaining}, {status.commits:,} commits</p>{stopping}"
        f"{_promises(status)}{_clocks(status.clocks)}{_containers(status.containers)}{_standbys(status.standbys)}{_partitions(status.containers)}{_restores(status)}{_failures(status)}"
        "</body></html>"
    )


def _promises(status: JobStatus) -> str:
    rows = [(downgrade.key, downgrade.message) for downgrade in status.downgrades]
    counted = [(what, status.counts[name]) for name, what in COUNTS.items() if name in status.counts]
    return _table("Weaker than the guarantee", ("key", "what it does"), rows) + _table(
        "Counted", ("what", "how many"), counted
    )


def _clocks(clocks: ClockStatus) -> str:
    if clocks.job is None and all(task_progress.clock is None for task_progress in clocks.tasks.values()):
        return ""
    stalled = f"<p class=failed>{escape(str(clocks.stalled))}</p>" if clocks.stalled else ""
    own = f", all states of {as_text(clocks.checkpoint)}" if clocks.checkpoint is not None else ""
    rows = [
        (
            task,
            as_text(task_progress.clock),
            "idle" if task_progress.idle else task_progress.held_by,
            _newest(task_progress),
        )
        for task, task_progress in sorted(clocks.tasks.items())
    ]
    heads = ("task", "clock", "held by", "newest state")
    return f"<h2>Event time</h2><p>{as_text(clocks.job)}{own}</p>{stalled}{_table('Clocks', heads, rows)}"


def _newest(task_progress: TaskProgress) -> str:
    return as_text(task_progress.checkpoints[-1]) if task_progress.checkpoints else ""


def _containers(containers: Iterable[ContainerStatus]) -> str:
    rows = ((c.id, c.state, c.phase, c.attempts, c.processed, c.commits, _restoring(c.restoring)) for c in containers)
    return _table("Containers", ("container", "state", "phase", "attempts", "messages", "commits", "restoring"), rows)


def _standbys(standbys: Iterable[ContainerStatus]) -> str:
    rows = ((c.id, c.state, c.phase, c.attempts, "" if c.remaining is None else c.remaining) for c in standbys)
    return _table("Standbys", ("container", "state", "phase", "attempts", "records to go"), rows)


def _partitions(containers: Iterable[ContainerStatus]) -> str:
    rows = [
        (c.id, ssp, offset, max(0, c.ends[ssp] - offset) if ssp in c.ends else "")
        for c in containers
        for ssp, offset in sorted(c.positions.items())
    ]
    return _table("Partitions", ("container", "partition", "next offset", "to go"), rows)


def _restores(status: JobStatus) -> str:
    rows = [(r.container_id, r.store, r.records, f"{r.seconds:.2f}", r.source) for r in reversed(status.restored)]
    return _table("Restores", ("container", "store", "records", "seconds", "from"), rows[:50])


def _failures(status: JobStatus) -> str:
    rows = [(f.container_id, f.epoch, f"{f.error}: {f.message}") for f in reversed(status.failures)]
    return _table("Failures", ("container", "epoch", "reason"), rows[:50])


def _restoring(progress: tuple[int, int] | None) -> str:
    return "" if progress is None else f"{progress[0]:,} of {progress[1]:,}"


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<h2>{escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"


_SECURITY = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """Wraps the application. A browser may bring the token once, as `/?token=...`, and gets a cookie that only
    reads; everything else, and every change, needs `Authorization: Bearer`. Refusals are 403 and say which."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = f"samzapy-{next(iter(sorted(hosts))).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SECURITY)
            await send(message)

        await self._choose(scope)(scope, receive, hardened)

    def _choose(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("unknown host\n", 403)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._matches(given):
            return self._app
        if scope["method"] in {"GET", "HEAD"}:
            if self._matches(self._from_cookie(headers.get("cookie", ""))):
                return self._app
            if scope["path"] == "/" and self._matches(_from_query(scope)):
                welcome = RedirectResponse("/", 303)
                welcome.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict")
                return welcome
        return PlainTextResponse("token missing or wrong\n", 403)

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)

    def _from_cookie(self, header: str) -> str:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else str(morsel.value)


def _from_query(scope: Scope) -> str:
    query: str = scope.get("query_string", b"").decode("latin-1")
    return parse_qs(query).get("token", [""])[0]


#: Largest body taken: a report of a container with thousands of partitions and metrics stays far below.
BODY_LIMIT = 4_194_304

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class CoordinatorService:
    """Serves one coordinator on `host:port` (0: any free port) until closed. Every request needs `token`.

    Raises EnvironmentFailure when the address cannot be had.
    """

    def __init__(self, coordinator: Coordinator, token: str, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            self._socket = socket.create_server((host, port))
        except OSError as cause:
            raise EnvironmentFailure(f"coordinator: cannot listen on {host}:{port} ({cause.strerror})") from cause
        self.url = f"http://{host}:{self._socket.getsockname()[1]}"
        guarded = Guard(application(coordinator), token, _hosts(self.url))
        settings = uvicorn.Config(
            guarded,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=512,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="coordinator", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


class _Handlers:
    """One method a route."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def register(self, request: Request) -> Response:
        coordinator = self._coordinator
        container = self._container(request)
        process = read(Attempt, await _body(request)).process
        # Nothing else is handled between the two: there is one event loop.
        predecessor = coordinator.process(container)
        epoch = coordinator.register(container, process)
        clock, lease_s = coordinator.checkpoint_clocks[1], coordinator.lease_s
        return _json(registration(coordinator.spec, VERSION, epoch, lease_s, clock, predecessor))

    async def report(self, request: Request) -> Response:
        report = read_report(self._container(request), await _body(request))
        directive = self._coordinator.report(report)
        return _json(encode(Answer(directive, self._coordinator.checkpoint_clocks[1])))

    async def epoch(self, request: Request) -> Response:
        asked = read(Epochs, await _body(request))
        return _json(encode(Outgrown(self._coordinator.outgrow(self._container(request), asked.epoch, asked.newest))))

    async def failure(self, request: Request) -> Response:
        final = self._coordinator.fail(read_failure(self._container(request), await _body(request)))
        return _json(encode(Verdict(final)))

    async def stop(self, request: Request) -> Response:
        self._coordinator.stop()
        return _json(b"{}")

    async def status(self, request: Request) -> Response:
        return _json(encode(self._coordinator.status().to_json()))

    async def page(self, request: Request) -> Response:
        return HTMLResponse(render(self._coordinator.status()))

    async def style(self, request: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def malformed(self, request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{error}\n", 400)

    def _container(self, request: Request) -> str:
        container_id: str = request.path_params["id"]
        if not self._coordinator.knows(container_id):
            raise HTTPException(404, "unknown container")
        return container_id


def application(coordinator: Coordinator) -> Starlette:
    """The routes, without the guard."""
    handlers = _Handlers(coordinator)
    posts: dict[str, Handler] = {
        "/containers/{id}/attempts": handlers.register,
        "/containers/{id}/report": handlers.report,
        "/containers/{id}/failure": handlers.failure,
        "/containers/{id}/epoch": handlers.epoch,
        "/stop": handlers.stop,
    }
    gets: dict[str, Handler] = {"/status": handlers.status, "/": handlers.page, "/style.css": handlers.style}
    return Starlette(
        routes=[Route(path, handler, methods=["POST"]) for path, handler in posts.items()]
        + [Route(path, handler, methods=["GET"]) for path, handler in gets.items()],
        exception_handlers={WireError: handlers.malformed},
    )


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            raise HTTPException(413, f"body larger than {BODY_LIMIT:,} B")
        parts.append(part)
    return b"".join(parts)


def _hosts(url: str) -> set[str]:
    address = url.removeprefix("http://")
    port = address.rpartition(":")[2]
    return {address, f"localhost:{port}"} if address.startswith("127.") else {address}
