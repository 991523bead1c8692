"""Shows the job: `/status` as JSON, its page, and the views that the runner adds, such as `/metrics`.

```
GET /                           the page, see samzapy.coordinator.page
GET /status                     the JobStatus as JSON, without metrics
GET /containers/ID/metrics      the metrics of one container as JSON, by group and name
```

Looking never holds up reports, however many look: a view is made from the job's status in a thread of its own (`Kept`), one
at a time, and is shown to everybody who asks until it has aged `SHARE` times as long as it took. So all who look need at most
a twentieth of a core for each view, and the view of a small job is a few milliseconds old.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import SHARE, JobStatus
from samzapy.strict_json import encode

logger = logging.getLogger(__name__)


class Rendered(NamedTuple):
    """The answer to a look: the body, its media type, the HTTP status."""

    body: bytes
    media_type: str
    status: int = 200


#: Makes an answer of the job's status.
View = Callable[[JobStatus], Rendered]


class Kept:
    """One view, as it was when somebody last asked for it and it was due. Used by the thread of one event loop."""

    def __init__(
        self, look: Callable[[], JobStatus], view: View, worker: ThreadPoolExecutor, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`look` takes the job's status, and `view` makes the answer of it, both in a thread of `worker`."""
        self._look, self._view, self._worker, self._clock = look, view, worker, clock
        self._fresh_until = float("-inf")
        self._newest: asyncio.Future[Rendered] | None = None

    async def __call__(self, request: Request) -> Response:
        """The answer; everybody who asks while it is made waits for the same one."""
        newest = self._newest
        if newest is None or (newest.done() and self._clock.monotonic() >= self._fresh_until):
            newest = self._newest = asyncio.get_running_loop().run_in_executor(self._worker, self._make)
        made = await asyncio.shield(newest)
        return Response(made.body, made.status, media_type=made.media_type)

    def _make(self) -> Rendered:
        began = self._clock.monotonic()
        try:
            return self._view(self._look())
        except Exception as error:
            logger.exception("A view of the job cannot be made")
            return Rendered(f"{type(error).__name__}\n".encode(), "text/plain", 500)
        finally:
            ended = self._clock.monotonic()
            self._fresh_until = ended + SHARE * (ended - began)


def as_json(status: JobStatus) -> Rendered:
    """`/status`. The metrics are left out: those of a large job are millions."""
    found = status.to_json()
    for container in (*found["containers"], *found["standbys"]):
        del container["metrics"]
    return Rendered(encode(found), "application/json")


def views(
    coordinator: Coordinator, page: Iterable[Route], added: Mapping[str, View], worker: ThreadPoolExecutor
) -> Starlette:
    """All that can be looked at: the `page`, this module's views, and those `added` by path, made in threads of `worker`."""
    kept = {"/status": as_json, **added}
    routes = [Route(path, Kept(coordinator.status, view, worker).__call__) for path, view in kept.items()]

    async def metrics(request: Request) -> Response:
        wanted = request.path_params["id"]
        found = next((each for each in coordinator.status().everyone if each.id == wanted), None)
        if found is None:
            return PlainTextResponse("unknown container\n", 404)
        return Response(encode(dict(found.metrics.items())), media_type="application/json")

    return Starlette(routes=[*page, *routes, Route("/containers/{id}/metrics", metrics)])
