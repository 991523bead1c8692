"""Shows the progress of a run on standard error: as bars on a terminal and in a notebook with ipywidgets, as a line for
each phase elsewhere; and the log, above the bars."""

from __future__ import annotations

import logging
import threading
from importlib.util import find_spec
from typing import final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from samzapy.api.stream import grouped
from samzapy.cli.output import QuietProgress, line_on
from samzapy.config.guarantee_warnings import counts_in_words
from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.logs import formatter
from samzapy.coordinator.status import ContainerStatus, JobStatus, RestoredStore
from samzapy.errors import counted


@final
class RunDisplay(QuietProgress):
    """Shows statuses and events of one run; both may come from any thread.

    Attempts, phases and restores are lines; on a terminal a bar below them counts messages.
    """

    def __init__(self, console: Console) -> None:
        self._shown: dict[str, ContainerStatus] = {}
        self._reported: set[int | None] = set()
        self._bar: TaskID | None = None
        self._most = 0
        self._guard = threading.Lock()
        has_bars = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
        )
        super().__init__(*columns, console=console, transient=True, disable=not has_bars)

    def event(self, line: str) -> None:
        with self._guard:
            line_on(self.console, line)

    def status(self, status: JobStatus) -> None:
        with self._guard:
            for container in status.containers:
                self._announce(container, self._shown.get(container.id))
                self._shown[container.id] = container
            self._announce_restores(status)
            self._show_progress(status)

    def _announce(self, container: ContainerStatus, before: ContainerStatus | None) -> None:
        if container.attempts > max(1, before.attempts if before else 1):
            line_on(self.console, f"container {container.id}: attempt {container.attempts}")
        if container.phase and (before is None or before.phase != container.phase):
            line_on(self.console, f"container {container.id}: {container.phase}")

    def _announce_restores(self, status: JobStatus) -> None:
        """Print one line for each attempt that has restored its stores; nothing about stores that began empty."""
        of_epoch = grouped((store.epoch, store) for store in status.restored if store.epoch not in self._reported)
        for container in status.containers:
            if container.epoch not in of_epoch or container.phase in {"", "starting", "restoring"}:
                continue
            self._reported.add(container.epoch)
            stores = [store for store in of_epoch[container.epoch] if store.source != "nothing"]
            if stores:
                line_on(self.console, f"container {container.id}: restored {_restored(stores)}")

    def _show_progress(self, status: JobStatus) -> None:
        """Move the bar of the remaining offsets; in an endless run it counts messages."""
        done, total, unit = status.processed, None, "messages"
        if status.remaining is not None:
            self._most = max(self._most, status.remaining)
            done, total, unit = self._most - status.remaining, self._most, "offsets"
        if self._bar is None:
            self._bar = self.add_task(status.name, total=total, unit=unit)
        self.update(self._bar, completed=done, total=total, unit=unit)


def summary(status: JobStatus) -> str:
    """One line about a whole run."""
    rate = status.processed / status.seconds if status.seconds else 0.0
    parts = [
        f"{counted(status.processed, 'message')} in {status.seconds:.1f} s ({rate:,.0f} msg/s)",
        counted(status.commits, "commit"),
    ]
    stores = [store for store in status.restored if store.source != "nothing"]
    if stores:
        parts.append(f"restored {_restored(stores)}")
    if status.failed:
        parts.append(counted(status.failed, "failed attempt"))
    parts += counts_in_words(status.counts)
    return "; ".join(parts)


def _restored(stores: list[RestoredStore]) -> str:
    records = sum(store.records for store in stores)
    seconds = max(store.seconds for store in stores)  # they are restored in parallel
    sources = ", ".join(sorted({store.source for store in stores}))
    return f"{counted(records, 'record')} in {seconds:.2f} s from {sources}"


#: Left to the log files: the clients, which write many lines in an outage, and the failure that the command ends with.
_CLIENTS, _FAILURE = "samzapy.kafka", ("samzapy.container.restart", "ERROR")


class _Plain(logging.Handler):
    """Prints each line as the formatter makes it, without the traceback, which the log files have."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        line_on(self._console, self.format(record).partition("\nTraceback (most")[0])


def terminal_log(config: LogConfig, job_name: str, console: Console) -> logging.Handler:
    """The handler for a console."""
    handler = _Plain(console)
    handler.setFormatter(formatter(job_name, as_json=config.as_json))
    handler.addFilter(lambda r: r.name != _CLIENTS and (config.as_json or (r.name, r.levelname) != _FAILURE))
    return handler
