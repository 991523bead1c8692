"""Opens a run's coordinator to people and tools, on either runner: which views there are, and who gets which token.

`/metrics` and the probes are made from the same status as the page. A probe has no token, so `/healthz` and `/readyz` answer
with one word; the page says why a job is not ready.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping

from samzapy.admin.inspection import JobInspector
from samzapy.config.job import JobConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import JobStatus
from samzapy.coordinator.scrape import job_snapshot
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.web.queries import Records, StoreQueries
from samzapy.coordinator.web.views import Rendered, View
from samzapy.metrics.health import Health, alive, ready
from samzapy.metrics.prometheus import CONTENT_TYPE, render
from samzapy.metrics.series import JobSnapshot
from samzapy.queries.exchange import Exchange
from samzapy.queries.owners import StoreOwners
from samzapy.queries.text import store_texts
from samzapy.runner.base import TOKEN

#: The views that need no token.
PROBES = ("/healthz", "/readyz")


def run_token() -> str:
    """The token that acts of a run that starts now."""
    return os.environ.get(TOKEN) or secrets.token_urlsafe(32)


def serve(
    coordinator: Coordinator, records: Records, token: str, host: str, port: int, *, second: int | None
) -> CoordinatorService:
    """Serve the coordinator of a job at `host:port`, and on the loopback port `second` (None: nowhere else). `records`
    answers questions about the job's records.

    Raises EnvironmentFailure when a port cannot be had.
    """
    return CoordinatorService(
        coordinator,
        token,
        host,
        port,
        page_port=second,
        added=views_of(coordinator),
        open_to_all=PROBES,
        records=records,
    )


def records_of(config: JobConfig, coordinator: Coordinator, exchange: Exchange) -> Records:
    """What answers questions about the job's records: those about its stores only if the job file has queries on.

    Raises ConfigError for serdes that cannot be made.
    """
    inspector, limits = JobInspector(config), config.supervision.query
    if not limits.enabled:
        return Records(inspector)
    owners = StoreOwners(coordinator.spec.model, limits.keyed, config.task.broadcast_inputs)
    return Records(inspector, StoreQueries(coordinator, exchange, owners, store_texts(config), limits))


def views_of(coordinator: Coordinator) -> Mapping[str, View]:
    """The views of a job's metrics and health, by path."""
    tasks = tuple(task.name for task in coordinator.spec.model.tasks)

    def snapshot(status: JobStatus) -> JobSnapshot:
        return job_snapshot(status, tasks, coordinator.abandoned or "")

    def metrics(status: JobStatus) -> Rendered:
        return Rendered(render(snapshot(status)), CONTENT_TYPE)

    def probe(ask: Callable[[JobSnapshot], Health]) -> View:
        def answer(status: JobStatus) -> Rendered:
            good = ask(snapshot(status)).status == 200
            return Rendered(b"ok\n" if good else b"not well\n", "text/plain", 200 if good else 503)

        return answer

    return {"/metrics": metrics, "/healthz": probe(alive), "/readyz": probe(ready)}
