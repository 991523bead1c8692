"""Shows the job to readers with a token: its page, its status, its records, and the views that the runner adds.

```
GET /           the page: one static file over the status and its events
GET /status     the JobStatus as JSON; its part `page` is for the page
GET /events     server-sent events: the same, every `PACE_S` seconds
GET /records    ?store=&key=, or ?stream=&partition=&offset=: {records: [{place, key, value}]} or {error}
```

The page loads nothing else. It sets what comes from the job as text, and its script and style are allowed by their
hash.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import JobStatus
from samzapy.errors import SamzapyError
from samzapy.strict_json import encode

#: Seconds between two events.
PACE_S = 2.0
#: A rendering is reused for this many times as long as it took: however many readers there are, a view needs at most a
#: twentieth of a core.
SHARE = 20.0
#: The most characters of a key or a value that are shown, and of a part of a question.
LONGEST, LONGEST_QUESTION = 65_536, 4_000


class Rendered(NamedTuple):
    """The answer to a reader: the body, its media type, the HTTP status."""

    body: bytes
    media_type: str
    status: int = 200


#: Renders an answer from the job's status.
View = Callable[[JobStatus], Rendered]


@dataclass(frozen=True)
class Record:
    """A record as text: its place (`store counts, partition 3` or `kafka.in[3]@17`), its key, and its value as JSON."""

    place: str
    key: str
    value: str


class Inspector(ABC):
    """Looks up committed records for the page. Any thread may call it. `stores` and `streams` (the inputs, as
    `system.stream`) are the names that may be asked about; `about_stores` says where the entries of stores come from.
    """

    stores: Sequence[str]
    streams: Sequence[str]
    about_stores: str

    @abstractmethod
    def entries(self, store: str, key: str) -> Sequence[Record]:
        """The entries with this key, one per task that has it. Raises SamzapyError."""

    @abstractmethod
    def message(self, stream: str, partition: str, offset: str) -> Sequence[Record]:
        """The message at this place, if there is one. Raises SamzapyError."""


class Shared:
    """A view of which all readers get the same rendering while it is fresh. Any thread may call it."""

    def __init__(self, render: Callable[[], Rendered]) -> None:
        self._render = render
        self._lock = threading.Lock()
        self._made = Rendered(b"", "text/plain")
        self._fresh_until = float("-inf")

    def __call__(self) -> Rendered:
        """The newest rendering. Requests during a rendering wait for its result."""
        with self._lock:
            began = time.monotonic()
            if began >= self._fresh_until:
                self._made = self._render()
                now = time.monotonic()
                self._fresh_until = now + SHARE * (now - began)
            return self._made

    def endpoint(self, _: Request) -> Response:
        """Answer a request."""
        body, media_type, status = self()
        return Response(body, status, media_type=media_type)


class _Page:
    """The page and what it asks for."""

    def __init__(self, coordinator: Coordinator, inspector: Inspector | None) -> None:
        self._coordinator = coordinator
        self._inspector = inspector
        html = (files("samzapy.coordinator.web") / "page.html").read_text(encoding="utf-8")
        self._page = HTMLResponse(html, headers={"content-security-policy": _policy(html)})
        model = coordinator.spec.model
        read = [
            (str(ssp), task.name) for container in model.containers for task in container.tasks for ssp in task.ssps
        ]
        often = Counter(name for name, _ in read)
        #: The task that reads each partition; a broadcast partition has many readers, and is left out.
        self._tasks = {name: task for name, task in read if often[name] == 1}
        self._one_question = threading.Lock()
        self.status = Shared(self._status)

    def page(self, _: Request) -> Response:
        return self._page

    async def events(self, _: Request) -> Response:
        async def statuses() -> AsyncIterator[bytes]:
            while True:
                yield b"data: %s\n\n" % (await run_in_threadpool(self.status)).body
                await asyncio.sleep(PACE_S)

        return StreamingResponse(statuses(), media_type="text/event-stream")

    def records(self, request: Request) -> Response:
        asked = {name: value[:LONGEST_QUESTION] for name, value in request.query_params.items()}
        inspector = self._inspector
        try:
            # One at a time: a question may read a whole changelog partition.
            with self._one_question:
                if inspector is None or not asked.keys() & {"store", "stream"}:
                    records: Sequence[Record] = ()
                elif "store" in asked:
                    records = inspector.entries(asked["store"], asked.get("key", ""))
                else:
                    records = inspector.message(asked["stream"], asked.get("partition", ""), asked.get("offset", ""))
        except SamzapyError as failure:
            return JSONResponse({"error": str(failure)}, 400)
        return JSONResponse({"records": [asdict(record) for record in records]})

    def _status(self) -> Rendered:
        status = self._coordinator.status()
        return Rendered(encode({**status.to_json(), "page": self._extras(status)}), "application/json")

    def _extras(self, status: JobStatus) -> dict[str, Any]:
        inspector = self._inspector
        records = (
            {}
            if inspector is None
            else {"stores": inspector.stores, "streams": inspector.streams, "about_stores": inspector.about_stores}
        )
        hosts = {item.id: host for item in status.everyone if (host := self._host_of(item.id))}
        return {"hosts": hosts, "tasks": self._tasks, "counts": COUNTS, **records}

    def _host_of(self, container_id: str) -> str | None:
        """The host that the newest attempt of a container runs on, if it is known."""
        process = self._coordinator.process(container_id)
        return None if process is None or process.place is None else process.place.host


def views(
    coordinator: Coordinator,
    inspector: Inspector | None,
    added: Mapping[str, View],
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application for readers: this module's views, the views `added` by path, and further `routes`."""
    page = _Page(coordinator, inspector)
    own = {
        "/": page.page,
        "/status": page.status.endpoint,
        "/events": page.events,
        "/records": page.records,
        **{path: Shared(_rendering(coordinator, view)).endpoint for path, view in added.items()},
    }
    return Starlette(routes=[*(Route(path, handler) for path, handler in own.items()), *routes])


def _rendering(coordinator: Coordinator, view: View) -> Callable[[], Rendered]:
    return lambda: view(coordinator.status())


def _policy(html: str) -> str:
    """The content security policy of a page: its own script and style, and requests to where it comes from."""
    allowed = {tag: re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL) for tag in ("script", "style")}
    hashes = {
        tag: base64.b64encode(hashlib.sha256(match[1].encode()).digest()).decode()
        for tag, match in allowed.items()
        if match is not None
    }
    own = "; ".join(f"{tag}-src 'sha256-{digest}'" for tag, digest in hashes.items())
    return f"default-src 'none'; {own}; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
