"""Shows the job to readers with a token: its page, its status, its records, its metrics; and to probes without one.

```
GET /           the page: one static file over the status and its events
GET /status     the JobStatus as JSON; its part `page` is for the page
GET /events     server-sent events: the same, every `PACE_S` seconds
GET /records    ?store=&key=, or ?stream=&partition=&offset=: {records: [{place, key, value}]} or {error}
GET /metrics    the driver's series, as Prometheus text
GET /healthz    200 while the run goes on. A container that waits for a slot, or is being restarted, does not make a job
                dead: ending the driver would not help it.
GET /readyz     200 while every container processes messages: it holds its lease, has started, restored and initialised,
                and knows how far it is behind. A container at the end of its inputs is ready, too. 503 once the job has
                to stop.
```

The page loads nothing else. It sets what comes from the job as text, and its script and style are allowed by their
hash. The driver's series are of the job, of its containers and of its input partitions; the containers serve all others
at their own ports. What is unknown has no series.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.errors import SamzapyError
from samzapy.metrics.families import Family, container_metric, counter, gauge
from samzapy.metrics.registry import CONTENT_TYPE, NUMBERS, Labels, Series, as_text
from samzapy.strict_json import encode
from samzapy.version import VERSION

#: Seconds between two events.
PACE_S = 2.0
#: The most characters of a key or a value that are shown, and of a part of a question.
LONGEST, LONGEST_QUESTION = 65_536, 4_000


#: The views that need no token. A probe gets one phrase; the page says more.
PROBES = ("/healthz", "/readyz")


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


class _Page:
    def __init__(self, coordinator: Coordinator, inspector: Inspector | None) -> None:
        self._coordinator = coordinator
        self._inspector = inspector
        html = (files("samzapy.coordinator") / "page.html").read_text(encoding="utf-8")
        self._page = HTMLResponse(html, headers={"content-security-policy": _policy(html)})
        model = coordinator.spec.model
        read = [
            (str(ssp), task.name) for container in model.containers for task in container.tasks for ssp in task.ssps
        ]
        often = Counter(name for name, _ in read)
        #: The task that reads each partition; a broadcast partition has many readers, and is left out.
        self._tasks = {name: task for name, task in read if often[name] == 1}
        self._one_question = threading.Lock()

    def page(self, _: Request) -> Response:
        return self._page

    def status(self, _: Request) -> Response:
        return Response(self._status(), media_type="application/json")

    def metrics(self, _: Request) -> Response:
        return Response(as_text(job_series(self._coordinator.status())), media_type=CONTENT_TYPE)

    def healthz(self, _: Request) -> Response:
        return _phrase(good=self._coordinator.abandoned is None)

    def readyz(self, _: Request) -> Response:
        status = self._coordinator.status()
        good = self._coordinator.abandoned is None and not status.stopping and are_ready(status.containers)
        return _phrase(good=good)

    async def events(self, _: Request) -> Response:
        async def statuses() -> AsyncIterator[bytes]:
            while True:
                yield b"data: %s\n\n" % await run_in_threadpool(self._status)
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

    def _status(self) -> bytes:
        status = self._coordinator.status()
        return encode({**status.to_json(), "page": self._extras(status)})

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


def views(coordinator: Coordinator, inspector: Inspector | None, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """The application for readers: this module's views, and further `routes`."""
    page = _Page(coordinator, inspector)
    own = {
        "/": page.page,
        "/status": page.status,
        "/events": page.events,
        "/records": page.records,
        "/metrics": page.metrics,
        "/healthz": page.healthz,
        "/readyz": page.readyz,
    }
    return Starlette(routes=[*(Route(path, handler) for path, handler in own.items()), *routes])


def are_ready(containers: Iterable[ContainerStatus]) -> bool:
    """Whether every container processes messages and its lag is known, or has processed all of them."""
    return all(
        item.state == "done"
        or (item.state == "running" and item.phase in {"running", "done"} and not item.is_lag_unknown)
        for item in containers
    )


def _phrase(*, good: bool) -> Response:
    return PlainTextResponse("ok\n") if good else PlainTextResponse("not well\n", 503)


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


_BUILD = gauge("build_info", "The version of samzapy that the driver has; always 1.")
_SECONDS = gauge("job_run_seconds", "Time from the first attempt's start to the newest report.")
_JOB_PROCESSED = counter("job_messages_processed", "Messages processed by all containers and attempts.")
_JOB_COMMITS = counter("job_commits", "Commits made by all containers and attempts.")
_FAILURES = counter("job_failures", "Attempts of containers that have failed.")
_WEAKENED = gauge("job_weakened_promises", "Reasons why the job's guarantee is weakened.")
_STOPPING = gauge("job_stopping", "1 after the job was asked to stop.")
_CLOCK = gauge("job_clock_timestamp_seconds", "Event time that all tasks of the job have reached.")
_CHECKPOINT_CLOCK = gauge(
    "job_checkpoint_timestamp_seconds", "Latest event time for which every task has a checkpoint of its state."
)
_STALLED = gauge("job_clock_stalled_seconds", "Time for which the job's clock has stood still while a task's advanced.")
_CONTAINERS = gauge("containers", "Containers, by the state of their lease and by phase.")
_UP = gauge("container_up", "1 if an attempt of the container holds its lease, or has ended well.")
_RESTARTS = counter("container_restarts", "Attempts of the container after the first.")
_POSITION = gauge("partition_position", "Next offset to process, when the end was last asked for.")
_END = gauge(
    "partition_end_offset",
    "Offset after the partition's last message, when last asked for; absent if that was long ago.",
)
_LAG = gauge("partition_lag_messages", "Offsets between position and end; absent if it is unknown.")
_WORST_LAG = gauge(
    "container_lag_max_messages", "The largest lag of the container's partitions; absent if it is unknown."
)
_LAG_AGE = gauge(
    "lag_age_seconds", "Time since the container's lag was measured; after three periods the lag is unknown."
)
_AGE = gauge("partition_oldest_unread_seconds", "Time for which the oldest unprocessed message has waited.")
_CONTAINER_STALLED = gauge(
    "container_stalled_seconds", "Time for which the container has made no progress; absent unless it is stalled."
)
_RESTORE_READ = gauge("restore_offsets_read", "Changelog offsets read by the restore under way.")
_RESTORE_ALL = gauge("restore_offsets_expected", "Changelog offsets to read by the restore under way.")

_NUMBERS = {
    (group, name): named
    for group, names in NUMBERS.items()
    for name in names
    if (named := container_metric(group, name)) is not None
}
#: The families that the driver exports. Of `errors` it has what was skipped and dead-lettered.
OF_THE_DRIVER = (
    *(_BUILD, _SECONDS, _JOB_PROCESSED, _JOB_COMMITS, _FAILURES, _WEAKENED, _STOPPING),
    *(_CLOCK, _CHECKPOINT_CLOCK, _STALLED, _CONTAINERS, _UP, _RESTARTS),
    *(_POSITION, _END, _LAG, _WORST_LAG, _LAG_AGE, _AGE, _CONTAINER_STALLED, _RESTORE_READ, _RESTORE_ALL),
    *dict.fromkeys(named.family for named in _NUMBERS.values()),
)


def job_series(status: JobStatus) -> Series:
    """The series of a job. The first label is `job`."""
    series, place = Series(), (("job", status.name),)
    clocks = status.clocks
    series.add(_BUILD, 1.0, (*place, ("version", VERSION)))
    for family, value in (
        (_SECONDS, status.seconds),
        (_JOB_PROCESSED, status.processed),
        (_JOB_COMMITS, status.commits),
        (_FAILURES, status.failed),
        (_WEAKENED, len(status.downgrades)),
        (_STOPPING, status.stopping),
        (_STALLED, 0.0 if clocks.stalled is None else clocks.stalled.seconds),
        (_CLOCK, None if clocks.job is None else clocks.job / 1000),
        (_CHECKPOINT_CLOCK, None if clocks.checkpoint is None else clocks.checkpoint / 1000),
    ):
        _add(series, family, value, place)
    for role, containers in (("active", status.containers), ("standby", status.standbys)):
        for each in containers:
            series.add(_CONTAINERS, 1.0, (*place, ("role", role), ("state", each.state), ("phase", each.phase)))
            _add_container(series, each, (*place, ("container", each.id)), status.at)
    return series


def _add_container(series: Series, container: ContainerStatus, place: Labels, now: float) -> None:
    read, expected = container.restoring or (None, None)
    partitions = container.partitions
    for family, value in (
        (_UP, container.state in {"running", "done"}),
        (_RESTARTS, max(0, container.attempts - 1)),
        (_RESTORE_READ, read),
        (_RESTORE_ALL, expected),
        (_CONTAINER_STALLED, None if container.stalled is None else container.stalled.seconds),
        (_LAG_AGE, container.lag_age_s(now)),
        (_WORST_LAG, _largest(at.lag for at in partitions.values())),
    ):
        _add(series, family, value, place)
    for ssp, at in partitions.items():
        stream, _, number = ssp.rpartition("[")
        where = (*place, ("stream", stream), ("partition", number.rstrip("]")))
        for family, value in ((_POSITION, at.position), (_END, at.end), (_LAG, at.lag), (_AGE, at.age_s)):
            _add(series, family, value, where)
    for (group, name), named in _NUMBERS.items():
        _add(series, named.family, container.metrics.get(group, {}).get(name), (*place, *named.labels))


def _add(series: Series, family: Family, value: float | None, labels: Labels) -> None:
    if value is not None:
        series.add(family, float(value), labels)


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
