"""Serves a run's coordinator to people and tools, on either runner, with the views for metrics and probes.

`/metrics` and the probes show the same status as the page. A probe has no token, so `/healthz` and `/readyz` answer with one
phrase; the page says why a job is not ready.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping

from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.page.inspector import Inspector
from samzapy.coordinator.progress import JobStatus
from samzapy.coordinator.scrape import job_snapshot
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.web.views import Rendered, View
from samzapy.metrics.health import Health, alive, ready
from samzapy.metrics.prometheus import CONTENT_TYPE, render
from samzapy.runner.base import TOKEN

#: The views that need no token.
PROBES = ("/healthz", "/readyz")


def run_token() -> str:
    """The token that acts, for a run that starts now: that of the environment, else a random one."""
    return os.environ.get(TOKEN) or secrets.token_urlsafe(32)


def serve(
    coordinator: Coordinator, inspector: Inspector, token: str, host: str, port: int, *, second: int | None
) -> CoordinatorService:
    """Serve the coordinator of a job at `host:port`, and at the port `second` of the loopback address (None: not there).
    `inspector` answers the page's questions about records.

    Raises EnvironmentFailure if a port is taken.
    """
    return CoordinatorService(
        coordinator,
        token,
        host,
        port,
        page_port=second,
        added=views_of(coordinator),
        open_to_all=PROBES,
        inspector=inspector,
    )


def views_of(coordinator: Coordinator) -> Mapping[str, View]:
    """The views of a job's metrics and probes, by path."""
    tasks = tuple(task.name for task in coordinator.spec.model.tasks)

    def ended() -> str:
        return coordinator.abandoned or ""

    def metrics(status: JobStatus) -> Rendered:
        return Rendered(render(job_snapshot(status, tasks)), CONTENT_TYPE)

    def healthz(status: JobStatus) -> Rendered:  # noqa: ARG001  # the run alone decides
        return _in_one_word(alive(ended()))

    def readyz(status: JobStatus) -> Rendered:
        return _in_one_word(ready(status.containers, stopping=status.stopping, ended=ended()))

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def _in_one_word(health: Health) -> Rendered:
    good = health.status == 200
    return Rendered(b"ok\n" if good else b"not well\n", "text/plain", health.status)
