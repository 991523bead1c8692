"""Opens a run's coordinator to people and tools, on either runner: which views there are, and who gets which token.

`/metrics` and the probes are made from the same status as the page. A probe has no token, so `/healthz` and `/readyz` answer
with one word; the page says why a job is not ready.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.page.inspector import Inspector
from samzapy.coordinator.progress import JobStatus
from samzapy.coordinator.scrape import health_snapshot, job_snapshot
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.web.views import Pauses, Rendered, View
from samzapy.metrics.bounded import Bounds
from samzapy.metrics.health import Health, alive, ready
from samzapy.metrics.prometheus import CONTENT_TYPE, render
from samzapy.metrics.series import JobSnapshot
from samzapy.runner.base import TOKEN

#: The views that need no token.
PROBES = ("/healthz", "/readyz")


def run_token() -> str:
    """The token that acts of a run that starts now."""
    return os.environ.get(TOKEN) or secrets.token_urlsafe(32)


def serve(
    coordinator: Coordinator,
    inspector: Inspector,
    token: str,
    host: str,
    port: int,
    *,
    second: int | None,
    max_series: int,
) -> CoordinatorService:
    """Serve the coordinator of a job at `host:port`, and on the loopback port `second` (None: nowhere else). `inspector`
    answers the page's questions about records; `/metrics` has `max_series` series at most.

    Raises EnvironmentFailure when a port cannot be had.
    """
    return CoordinatorService(
        coordinator,
        token,
        host,
        port,
        page_port=second,
        added=views_of(coordinator, Bounds(job=max_series)),
        open_to_all=PROBES,
        inspector=inspector,
    )


def views_of(coordinator: Coordinator, bounds: Bounds = Bounds()) -> Mapping[str, View]:  # noqa: B008  # frozen
    """The views of a job's metrics, in bounded number, and of its health, by path."""
    tasks = frozenset(task.name for task in coordinator.spec.model.tasks)
    pause = Pauses()

    def metrics(status: JobStatus) -> Rendered:
        snapshot = job_snapshot(status, tasks, coordinator.abandoned or "", pause)
        return Rendered(render(snapshot, bounds, pause), CONTENT_TYPE)

    def probe(ask: Callable[[JobSnapshot], Health]) -> View:
        def answer(status: JobStatus) -> Rendered:
            good = ask(health_snapshot(status, coordinator.abandoned or "")).status == 200
            return Rendered(b"ok\n" if good else b"not well\n", "text/plain", 200 if good else 503)

        return answer

    return {"/metrics": metrics, "/healthz": probe(alive), "/readyz": probe(ready)}
