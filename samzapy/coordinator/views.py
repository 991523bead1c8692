"""Shows the job to readers with a token: its page, its status, its records, its metrics; and to probes without one.

```
GET /           the page: one static file over the status and its events
GET /status     the JobStatus as JSON, with the `diagnosis`; its part `page` is for the page
GET /events     server-sent events: the same, every `PACE_S` seconds
GET /records    ?store=&key=&how=, or ?stream=&partition=&from=&key=: {records: [{place, key, value}]} or {error}
GET /log        ?container=: the newest lines of the log about a container, as text; without one, of the whole job
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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
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
from samzapy.coordinator.overview.diagnosis import diagnose
from samzapy.coordinator.overview.history import Sample
from samzapy.coordinator.status import ContainerStatus, JobStatus, PartitionStatus
from samzapy.errors import SamzapyError
from samzapy.metrics.families import Family, container_metric, counter, gauge
from samzapy.metrics.registry import COMMIT_STEPS, CONTENT_TYPE, NUMBERS, PERCENTILES, Labels, Series, as_text
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


#: How a store is asked: for the entry of a key, for those with a prefix, or for what the changelog has of a key.
HOW = ("key", "prefix", "history")
#: Records in an answer, and the most that are read for it.
MOST_RECORDS, MOST_READ = 50, 100_000


class Inspector(ABC):
    """Looks up committed records for the page. Any thread may call it. `stores` and `streams` (the inputs, as
    `system.stream`) are the names that may be asked about; `about_stores` says where the entries of stores come from.
    """

    stores: Sequence[str]
    streams: Sequence[str]
    about_stores: str

    @property
    def steps(self) -> Sequence[Mapping[str, object]]:
        """The steps of a pipeline, for its picture."""
        return ()

    @abstractmethod
    def entries(self, store: str, key: str, how: str = "key") -> Sequence[Record]:
        """The entries with this key, one per task that has it, or as `HOW` says; `MOST_RECORDS` at most. Raises
        SamzapyError."""

    @abstractmethod
    def messages(self, stream: str, partition: str, start: str, key: str | None = None) -> Sequence[Record]:
        """The messages from `start` on, an offset, `oldest`, `newest` or a time (ISO 8601); with `key`, those of this
        key. It reads `MOST_READ` messages and returns `MOST_RECORDS` at most. Raises SamzapyError."""

    def log(self, container: str) -> str:
        """The newest lines of the log about a container; without one, of the whole job."""
        return ""


class _Page:
    def __init__(self, coordinator: Coordinator, inspector: Inspector | None) -> None:
        self._coordinator = coordinator
        self._inspector = inspector
        html = (files("samzapy.coordinator.overview") / "page.html").read_text(encoding="utf-8")
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
                    records = inspector.entries(asked["store"], asked.get("key", ""), asked.get("how", "key"))
                else:
                    place = asked["stream"], asked.get("partition", ""), asked.get("from", "")
                    records = inspector.messages(*place, asked.get("key") or None)
        except SamzapyError as failure:
            return JSONResponse({"error": str(failure)}, 400)
        return JSONResponse({"records": [asdict(record) for record in records]})

    def log(self, request: Request) -> Response:
        text = "" if self._inspector is None else self._inspector.log(request.query_params.get("container", ""))
        return PlainTextResponse(text)

    def _status(self) -> bytes:
        status, history = self._coordinator.status(), self._coordinator.history
        diagnosis = asdict(diagnose(status, history.fine, history.coarse))
        return encode({**status.to_json(), "diagnosis": diagnosis, "page": self._extras(status)})

    def _extras(self, status: JobStatus) -> dict[str, Any]:
        names = ("stores", "streams", "about_stores", "steps")
        records = {} if self._inspector is None else {name: getattr(self._inspector, name) for name in names}
        hosts = {item.id: host for item in status.everyone if (host := self._host_of(item.id))}
        history = self._coordinator.history
        names_of = {"columns": Sample._fields, "commit_steps": COMMIT_STEPS, "percentiles": tuple(PERCENTILES)}
        over_time = {**names_of, "fine": history.fine, "coarse": history.coarse}
        own = {"hosts": hosts, "tasks": self._tasks, "counts": COUNTS, "history": over_time}
        return {**own, "links": dict(self._coordinator.links), **records}

    def _host_of(self, container_id: str) -> str | None:
        """The host that the newest attempt of a container runs on, if it is known."""
        process = self._coordinator.process(container_id)
        return None if process is None or process.place is None else process.place.host


def views(coordinator: Coordinator, inspector: Inspector | None, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """The application for readers: this module's views, and further `routes`."""
    page = _Page(coordinator, inspector)
    names = ("status", "events", "records", "log", "metrics", *(path[1:] for path in PROBES))
    own = [Route("/", page.page), *(Route(f"/{name}", getattr(page, name)) for name in names)]
    return Starlette(routes=[*own, *routes])


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
_CONTAINERS = gauge("containers", "Containers, by the state of their lease and by phase.")
#: The families of a job, of a container and of an input partition, each with its value; None: it has no series.
_OF_JOB: Mapping[Family, Callable[[JobStatus], float | None]] = {
    gauge("job_run_seconds", "Time from the first attempt's start to the newest report."): lambda job: job.seconds,
    counter("job_messages_processed", "Messages processed by all containers and attempts."): lambda job: job.processed,
    counter("job_commits", "Commits made by all containers and attempts."): lambda job: job.commits,
    counter("job_failures", "Attempts of containers that have failed."): lambda job: job.failed,
    gauge("job_weakened_promises", "Reasons why the job's guarantee is weakened."): lambda job: len(job.downgrades),
    gauge("job_stopping", "1 after the job was asked to stop."): lambda job: job.stopping,
    gauge("job_clock_timestamp_seconds", "Event time that all tasks of the job have reached.", 0.001): (
        lambda job: job.clocks.job
    ),
    gauge(
        "job_checkpoint_timestamp_seconds",
        "Latest event time for which every task has a checkpoint of its state.",
        0.001,
    ): lambda job: job.clocks.checkpoint,
    gauge(
        "job_clock_stalled_seconds", "Time for which the job's clock has stood still while a task's advanced."
    ): lambda job: 0.0 if job.clocks.stalled is None else job.clocks.stalled.seconds,
}
_OF_CONTAINER: Mapping[Family, Callable[[ContainerStatus, float], float | None]] = {
    gauge("container_up", "1 if an attempt of the container holds its lease, or has ended well."): (
        lambda container, _: container.state in {"running", "done"}
    ),
    counter("container_restarts", "Attempts of the container after the first."): (
        lambda container, _: max(0, container.attempts - 1)
    ),
    gauge("restore_offsets_read", "Changelog offsets read by the restore under way."): (
        lambda container, _: container.restoring[0] if container.restoring else None
    ),
    gauge("restore_offsets_expected", "Changelog offsets to read by the restore under way."): (
        lambda container, _: container.restoring[1] if container.restoring else None
    ),
    gauge(
        "container_stalled_seconds", "Time for which the container has made no progress; absent unless it is stalled."
    ): lambda container, _: None if container.stalled is None else container.stalled.seconds,
    gauge(
        "lag_age_seconds", "Time since the container's lag was measured; after three periods the lag is unknown."
    ): lambda container, now: container.lag_age_s(now),
    gauge("container_lag_max_messages", "The largest lag of the container's partitions; absent if it is unknown."): (
        lambda container, _: max((at.lag for at in container.partitions.values() if at.lag is not None), default=None)
    ),
}
_OF_PARTITION: Mapping[Family, Callable[[PartitionStatus], float | None]] = {
    gauge("partition_position", "Next offset to process, when the end was last asked for."): lambda at: at.position,
    gauge(
        "partition_end_offset",
        "Offset after the partition's last message, when last asked for; absent if that was long ago.",
    ): lambda at: at.end,
    gauge("partition_lag_messages", "Offsets between position and end; absent if it is unknown."): lambda at: at.lag,
    gauge("partition_oldest_unread_seconds", "Time for which the oldest unprocessed message has waited."): (
        lambda at: at.age_s
    ),
}

_NUMBERS = {
    (group, name): named
    for group, names in NUMBERS.items()
    for name in names
    if (named := container_metric(group, name)) is not None
}
#: The families that the driver exports. Of `errors` it has what was skipped and dead-lettered.
OF_THE_DRIVER = (
    *(_BUILD, *_OF_JOB, _CONTAINERS, *_OF_CONTAINER, *_OF_PARTITION),
    *dict.fromkeys(named.family for named in _NUMBERS.values()),
)


def job_series(status: JobStatus) -> Series:
    """The series of a job. The first label is `job`."""
    series, place = Series(), (("job", status.name),)
    series.add(_BUILD, 1.0, (*place, ("version", VERSION)))
    for family, value_of in _OF_JOB.items():
        _add(series, family, value_of(status), place)
    for role, containers in (("active", status.containers), ("standby", status.standbys)):
        for item in containers:
            series.add(_CONTAINERS, 1.0, (*place, ("role", role), ("state", item.state), ("phase", item.phase)))
            _add_container(series, item, (*place, ("container", item.id)), status.at)
    return series


def _add_container(series: Series, container: ContainerStatus, place: Labels, now: float) -> None:
    for family, value_of in _OF_CONTAINER.items():
        _add(series, family, value_of(container, now), place)
    for ssp, at in container.partitions.items():
        stream, _, number = ssp.rpartition("[")
        where = (*place, ("stream", stream), ("partition", number.rstrip("]")))
        for of_partition, value_at in _OF_PARTITION.items():
            _add(series, of_partition, value_at(at), where)
    for (group, name), named in _NUMBERS.items():
        _add(series, named.family, container.metrics.get(group, {}).get(name), (*place, *named.labels))


def _add(series: Series, family: Family, value: float | None, labels: Labels) -> None:
    if value is not None:
        series.add(family, value * family.scale, labels)
