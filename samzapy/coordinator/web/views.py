"""Shows the job: `/status` as JSON, `/` as a page, and the views that the runner adds, such as `/metrics`.

```
GET /                           the page: plain HTML without scripts, readable over any tunnel; it reloads itself
GET /status                     the JobStatus as JSON, without metrics
GET /containers/ID/metrics      the metrics of one container as JSON, by group and name
GET /style.css
```

Looking never holds up reports, however many look: a view is made from the job's status in a thread of its own (`Kept`), one
at a time, and is shown to everybody who asks until it has aged `SHARE` times as long as it took. So all who look need at most
a twentieth of a core for each view, and the view of a small job is a few milliseconds old.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.changes import MetricValues
from samzapy.coordinator.clocks import ClockStatus, as_text
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import ContainerStatus, JobStatus
from samzapy.job.lease import TaskProgress
from samzapy.strict_json import encode

logger = logging.getLogger(__name__)

#: How much longer a view is shown than it took to make.
SHARE = 20.0


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


def as_page(status: JobStatus) -> Rendered:
    """`/`."""
    return Rendered(render(status).encode(), "text/html")


def views(
    coordinator: Coordinator, added: Mapping[str, View], worker: ThreadPoolExecutor, routes_before: Iterable[Route] = ()
) -> Starlette:
    """All that can be looked at: `routes_before`, this module's views, and those `added` by path, made in threads of
    `worker`."""
    kept = {"/status": as_json, "/": as_page, **added}
    routes = [Route(path, Kept(coordinator.status, view, worker).__call__) for path, view in kept.items()]

    async def style(_: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def metrics(request: Request) -> Response:
        wanted = request.path_params["id"]
        found = next((each for each in coordinator.status().everyone if each.id == wanted), None)
        if found is None:
            return PlainTextResponse("unknown container\n", 404)
        values = found.metrics
        groups = values.groups() if isinstance(values, MetricValues) else values
        return Response(encode(groups), media_type="application/json")

    return Starlette(
        routes=[*routes_before, *routes, Route("/style.css", style), Route("/containers/{id}/metrics", metrics)]
    )


#: Seconds between reloads.
RELOAD_S = 2
#: The most rows of a table.
ROWS = 500

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
        for task, task_progress in heapq.nsmallest(ROWS, clocks.tasks.items())
    ]
    heads = ("task", "clock", "held by", "newest state")
    return f"<h2>Event time</h2><p>{as_text(clocks.job)}{own}</p>{stalled}{_table('Clocks', heads, rows)}"


def _newest(task_progress: TaskProgress) -> str:
    return as_text(task_progress.checkpoints[-1]) if task_progress.checkpoints else ""


def _containers(containers: Iterable[ContainerStatus]) -> str:
    shown = heapq.nsmallest(ROWS, containers, key=_is_sound)
    rows = ((c.id, c.state, c.phase, c.attempts, c.processed, c.commits, _restoring(c.restoring)) for c in shown)
    return _table("Containers", ("container", "state", "phase", "attempts", "messages", "commits", "restoring"), rows)


def _is_sound(container: ContainerStatus) -> bool:
    """Of many, those that do not run are shown first."""
    return container.state in {"running", "done"} and container.phase in {"running", "done"}


def _standbys(standbys: Iterable[ContainerStatus]) -> str:
    rows = ((c.id, c.state, c.phase, c.attempts, "" if c.remaining is None else c.remaining) for c in standbys)
    return _table("Standbys", ("container", "state", "phase", "attempts", "records to go"), rows)


def _partitions(containers: Iterable[ContainerStatus]) -> str:
    """Those with the most to go, if there are too many."""
    rows = [(c.id, ssp, at, _to_go(c, ssp)) for c in containers for ssp, at in sorted(c.positions.items())]
    if len(rows) > ROWS:
        rows = heapq.nlargest(ROWS, rows, key=lambda row: row[3] if isinstance(row[3], int) else -1)
    return _table("Partitions", ("container", "partition", "next offset", "to go"), rows)


def _to_go(container: ContainerStatus, ssp: str) -> int | str:
    end = container.ends.get(ssp)
    return "" if end is None else max(0, end - container.positions[ssp])


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
