"""The HTTP addresses of the page, for readers with access.

=======================  ==================================================================
GET /                    the page; ?search=, or a question: ?store=&key=, ?stream=&partition=&offset=
GET /events              server-sent events: the sections that have changed, as JSON by name
GET /page.css, ...       its style, its script and its icon
=======================  ==================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from importlib.resources import files

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from samzapy.coordinator.page.board import Board
from samzapy.coordinator.page.inspector import Asked
from samzapy.strict_json import encode

#: Readers that may listen for events at a time. Each holds a connection; the page of any further reader reloads itself.
READERS = 32
#: Seconds between two checks for a new snapshot, and after which a reader without news gets a keep-alive.
_LOOK_S, _SILENCE_S = 0.5, 15.0
_FILES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
#: Longest search, or part of a question, in characters; the rest is cut.
_LONGEST = 4_000


class _Events(StreamingResponse):
    """Server-sent events. `ended` is called when no more are sent, whether any was sent or not."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class _Page:
    """One method a route."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._readers = 0
        self._asking = asyncio.Semaphore(1)
        folder = files("samzapy.coordinator.page") / "static"
        self._files = {name: (folder / name).read_bytes() for name in _FILES}

    async def page(self, request: Request) -> Response:
        asked = Asked(*(_given(request, name) for name in ("store", "key", "stream", "partition", "offset")))
        search = _given(request, "search")
        if not asked.is_question:
            return HTMLResponse(await run_in_threadpool(self._board.page, search))
        async with self._asking:  # one at a time: a question may read a whole changelog partition
            if await request.is_disconnected():
                return Response(status_code=499)
            return HTMLResponse(await run_in_threadpool(self._board.page, search, asked))

    async def events(self, request: Request) -> Response:
        if self._readers >= READERS:
            return PlainTextResponse(
                f"{READERS} readers listen already; reload the page instead\n", 503, {"retry-after": "10"}
            )
        # Counted here: the events of many readers begin later.
        self._readers += 1
        return _Events(self._news(_given(request, "search")), self._leave)

    def _leave(self) -> None:
        self._readers -= 1

    async def file(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/")
        return Response(self._files[name], media_type=_FILES[name])

    async def _news(self, search: str) -> AsyncIterator[bytes]:
        sent: dict[str, str] = {}
        number, silent_s = -1, 0.0
        while True:
            if self._board.number != number:
                number = self._board.number
                sections = await run_in_threadpool(self._board.sections, search)
                changed = {name: html for name, html in sections.items() if sent.get(name) != html}
                sent = sections
                if changed:
                    silent_s = 0.0
                    yield b"data: " + encode(changed) + b"\n\n"
            await asyncio.sleep(_LOOK_S)
            silent_s += _LOOK_S
            if silent_s >= _SILENCE_S:
                silent_s = 0.0
                yield b": still here\n\n"


def page_routes(board: Board) -> list[Route]:
    """The routes of the table above."""
    page = _Page(board)
    addresses = {"/": page.page, "/events": page.events, **{f"/{name}": page.file for name in _FILES}}
    return [Route(path, handler, methods=["GET"]) for path, handler in addresses.items()]


def _given(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_LONGEST]
