"""Shows the job: `/status` as JSON, its page, and the views that the runner adds, such as `/metrics`.

```
GET /                           the page, see samzapy.coordinator.page
GET /status                     the JobStatus as JSON, without metrics
GET /containers/ID/metrics      the metrics of one container as JSON, by group and name
```

Readers never delay reports, however many there are. A separate thread renders a view from the job's status, one at a
time (`Kept`), and all readers get the same answer until its age is `SHARE` times the CPU time of its rendering. So each
view needs at most a fortieth of a core, and the view of a small job is a few milliseconds old. A long rendering makes
`Pauses`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import JobStatus
from samzapy.strict_json import encode

logger = logging.getLogger(__name__)

#: The time for which an answer is reused, as a multiple of the CPU time of its rendering.
SHARE = 40.0
#: Seconds of work between two rests of the rendering thread, and seconds of a rest.
WORK_S, REST_S = 0.002, 0.008


class Rendered(NamedTuple):
    """The answer to a reader: the body, its media type, the HTTP status."""

    body: bytes
    media_type: str
    status: int = 200


#: Renders an answer from the job's status.
View = Callable[[JobStatus], Rendered]


class Pauses:
    """Lets reports through while a view is rendered: after `WORK_S` of work the thread rests for `REST_S`.

    A computing thread releases Python's lock only now and then, and the thread of the reports needs the lock again
    after each read and write of a socket. Without rests it would be many times slower. Used by one thread at a time.
    """

    def __init__(
        self, work_s: Callable[[], float] = time.thread_time, rest: Callable[[float], None] = time.sleep
    ) -> None:
        """`work_s` is the CPU time of the thread, in seconds; `rest` sleeps."""
        self._work_s, self._rest = work_s, rest
        self._since = 0.0

    def __call__(self) -> None:
        """Rest, if it is time."""
        # Less than before: another thread has taken over.
        if not 0 <= self._work_s() - self._since < WORK_S:
            self._rest(REST_S)
            self._since = self._work_s()


class Kept:
    """One view, rendered on request if the last answer is too old. Used by the thread of one event loop."""

    def __init__(
        self,
        look: Callable[[], JobStatus],
        view: View,
        worker: ThreadPoolExecutor,
        clock: Clock = SYSTEM_CLOCK,
        work_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`look` gets the job's status and `view` renders it, both in a thread of `worker`; `work_s` returns the CPU
        time of that thread in seconds."""
        self._look, self._view, self._worker, self._clock, self._work_s = look, view, worker, clock, work_s
        self._fresh_until = float("-inf")
        self._newest: asyncio.Future[Rendered] | None = None

    async def __call__(self, request: Request) -> Response:
        """The answer. Requests during a rendering wait for its result."""
        newest = self._newest
        if newest is None or (newest.done() and self._clock.monotonic() >= self._fresh_until):
            newest = self._newest = asyncio.get_running_loop().run_in_executor(self._worker, self._make)
        made = await asyncio.shield(newest)
        return Response(made.body, made.status, media_type=made.media_type)

    def _make(self) -> Rendered:
        began = self._work_s()
        try:
            return self._view(self._look())
        except Exception as error:
            logger.exception("Cannot render a view of the job")
            return Rendered(f"{type(error).__name__}\n".encode(), "text/plain", 500)
        finally:
            self._fresh_until = self._clock.monotonic() + SHARE * (self._work_s() - began)


def views(
    coordinator: Coordinator, page: Iterable[Route], added: Mapping[str, View], worker: ThreadPoolExecutor
) -> Starlette:
    """The application for readers: the `page`, this module's views, and the views `added` by path, rendered in threads
    of `worker`."""

    def as_json(status: JobStatus) -> Rendered:
        return Rendered(encode(status.to_json()), "application/json")

    kept = {"/status": as_json, **added}
    routes = [Route(path, Kept(coordinator.status, view, worker).__call__) for path, view in kept.items()]

    async def metrics(request: Request) -> Response:
        wanted = request.path_params["id"]
        found = next((each for each in coordinator.status().everyone if each.id == wanted), None)
        if found is None:
            return PlainTextResponse("unknown container\n", 404)
        return Response(encode(dict(found.metrics.items())), media_type="application/json")

    return Starlette(routes=[*page, *routes, Route("/containers/{id}/metrics", metrics)])
