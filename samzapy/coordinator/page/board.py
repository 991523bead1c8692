"""Renders the page: takes a snapshot of the job every few seconds, and renders its HTML once for all readers.

The HTML has sections. The page contains all of them; an open browser gets the changed ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from samzapy.clock import Clock
from samzapy.config.guarantee_warnings import COUNTS
from samzapy.coordinator.clocks import as_text
from samzapy.coordinator.page.history import PACE_S, History
from samzapy.coordinator.page.inspector import Asked, Found, Inspector
from samzapy.coordinator.page.view import Tables, catch_up_s, container_rows, graph, store_rows, tables
from samzapy.coordinator.status import JobStatus
from samzapy.errors import SamzapyError
from samzapy.job.lease import TaskProgress

logger = logging.getLogger(__name__)

#: The sections that change while the job runs, in the order of the page. Each has a template.
SECTIONS = ("state", "overview", "containers", "tasks", "stores", "errors")
#: A snapshot and its rendering may use a core divided by this: 20,000 partitions are rendered every three seconds.
SHARE = 40.0
#: Pieces of a template that are rendered between two pauses: some hundred microseconds.
_PIECES = 200
#: Searches with cached HTML; the results of further searches are rendered for each reader.
_DRAWN = 16
#: Clocks of tasks that are shown, the slowest first.
_CLOCKS = 50
#: Failures that are shown, newest first.
_FAILURES = 50
#: What the page shows for an unknown number.
_UNKNOWN = "\u2013"
_NO_READERS: Mapping[str, str] = MappingProxyType({})


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.0f}"


def _bytes(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _environment() -> Environment:
    folder = files("samzapy.coordinator.page") / "templates"
    templates = {each.name: each.read_text() for each in folder.iterdir() if each.name.endswith(".html")}
    environment = Environment(
        loader=DictLoader(templates), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        number=_number, bytes=_bytes, duration=_duration, percent=_percent, time=as_text, share=_share
    )
    return environment


def _go_on() -> None:
    """The default of `pause`."""


def _share(progress: Sequence[int]) -> float:
    done, total = progress
    return done / total if total else 1.0


@dataclass(frozen=True)
class Answers:
    """A reader's question, the records found, and the reason why it could not be answered (empty if it could)."""

    asked: Asked
    found: Sequence[Found] = ()
    error: str = ""


class Board:
    """The page of one job. One thread calls `refresh` periodically; any thread may call the other methods."""

    def __init__(
        self,
        status: Callable[[], JobStatus],
        inspector: Inspector,
        clock: Clock,
        readers: Mapping[str, str] = _NO_READERS,
        host_of: Callable[[str], str] = lambda container_id: "",  # noqa: ARG005
        *,
        pause: Callable[[], None] = _go_on,
        work_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`readers`: the task that reads each partition, where it is known. `host_of`: the host of the container with
        that id, empty if it is not known. `pause` is called again and again during a snapshot and a drawing, and may
        let other threads run; `work_s` is the CPU time of the thread, in seconds."""
        self._clock = clock
        self._status = status
        self._readers, self._host_of = readers, host_of
        self._history = History(clock)
        self._inspector = inspector
        self._environment = _environment()
        self._pause, self._work_s = pause, work_s
        self._drawing_s = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="page", daemon=True)
        self._lock = threading.Lock()
        self._drawn: dict[str, dict[str, str]] = {}
        self._snapshot = status()
        self.number = 0
        """The number of snapshots so far."""

    def start(self) -> None:
        """Take snapshots from now on, in a thread: every `PACE_S` seconds, or less often if one takes long."""
        self._thread.start()

    def close(self) -> None:
        """Take no more snapshots. The last one can still be read."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def refresh(self) -> float:
        """Take a new snapshot. It is rendered for its first reader. Returns the seconds until the next one is due:
        `PACE_S`, or more if this snapshot and the previous rendering took long."""
        began = self._work_s()
        snapshot = self._status()
        with self._lock:
            self._snapshot = snapshot
            self._history.observe(snapshot, self._pause)
            self._drawn.clear()
            self.number += 1
            drawing_s, self._drawing_s = self._drawing_s, 0.0
        return max(PACE_S, SHARE * (self._work_s() - began + drawing_s))

    def sections(self, search: str = "") -> dict[str, str]:
        """The HTML of each section by name; `search` narrows the tables."""
        with self._lock:
            drawn = self._drawn.get(search)
            if drawn is None:
                drawn = self._draw(search)
                if len(self._drawn) < _DRAWN:
                    self._drawn[search] = drawn
            return drawn

    def page(self, search: str = "", asked: Asked = Asked()) -> str:  # noqa: B008  # frozen
        """The whole page, with the answer to `asked`, which may take seconds."""
        return self._environment.get_template("page.html").render(
            sections=self.sections(search),
            name=self._snapshot.name,
            search=search,
            answers=self._answer(asked),
            stores=self._inspector.stores,
            about_stores=self._inspector.about_stores,
            streams=self._inspector.streams,
        )

    def _keep(self) -> None:
        due_s = PACE_S
        while not self._closed.wait(due_s):
            try:
                due_s = self.refresh()
            except Exception:
                logger.exception("Cannot take a new snapshot of the job for its page")

    def _draw(self, search: str) -> dict[str, str]:
        began = self._work_s()
        values = self._values(search)
        drawn = {name: self._rendered(f"{name}.html", values) for name in SECTIONS}
        self._drawing_s += self._work_s() - began
        return drawn

    def _rendered(self, template: str, values: Mapping[str, Any]) -> str:
        stream = self._environment.get_template(template).stream(values)
        stream.enable_buffering(_PIECES)
        parts = []
        for part in stream:
            parts.append(part)
            self._pause()
        return "".join(parts)

    def _values(self, search: str) -> Mapping[str, Any]:
        status, history = self._snapshot, self._history
        found: Tables = tables(status, history, self._readers, search, self._pause)
        return {
            "status": status,
            "search": search,
            "found": found,
            "stores": store_rows(status),
            "state": _state(status),
            "rate": history.rate,
            "rates": graph(history.rates),
            "lag": history.lag,
            "lags": graph(history.lags),
            "catch_up_s": catch_up_s(history),
            "clocks": nsmallest(_CLOCKS, status.clocks.tasks.items(), key=_slowest_first),
            "counted": [(what, status.counts[name]) for name, what in COUNTS.items() if name in status.counts],
            "containers": container_rows(status.containers, self._host_of, status.at, self._pause),
            "standbys": container_rows(status.standbys, self._host_of, status.at, self._pause),
            "failures": status.failures[::-1][:_FAILURES],
        }

    def _answer(self, asked: Asked) -> Answers:
        if not asked.is_question:
            return Answers(asked)
        try:
            return Answers(asked, self._inspector.answer(asked))
        except SamzapyError as failure:
            return Answers(asked, error=str(failure))


def _slowest_first(clock: tuple[str, TaskProgress]) -> tuple[bool, int, str]:
    name, progress = clock
    return progress.idle, -1 if progress.clock is None else progress.clock, name


def _state(status: JobStatus) -> str:
    """The job in one word: of several states, the most urgent."""
    containers = status.containers
    if status.stopping:
        return "stopping"
    if status.draining:
        return "draining"
    if any(container.stalled for container in containers):
        return "stalled"
    states = {container.state for container in containers}
    if states == {"done"}:
        return "done"
    phases = {container.phase for container in containers if container.state != "done"}
    if "restoring" in phases:
        return "restoring"
    return "running" if phases <= {"running"} and states <= {"running", "done"} else "starting"
