"""Serves a run's coordinator to people and tools, on either runner, with the views for metrics and probes.

`/metrics` and the probes show the same status as the page. A probe has no token, so it gets one phrase; the page says
more.

/healthz   200 while the run goes on. A container that waits for a slot, or is being restarted, does not make a job
           dead: ending the driver would not help it.
/readyz    200 while every container processes messages: it holds its lease, has started, restored and initialised, and
           knows how far it is behind. A container at the end of its inputs is ready, too. 503 once the job has to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from samzapy.admin.inspection import JobInspector
from samzapy.clock import Clock
from samzapy.config.job import JobConfig, TlsConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.job_series import job_series
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.coordinator.web.queries import ContainerPorts, StoreQueries, no_queries
from samzapy.coordinator.web.tls import Identity, made_for
from samzapy.coordinator.web.views import Rendered, View
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.metrics.series import CONTENT_TYPE, as_text
from samzapy.queries.questions import StoreOwners
from samzapy.queries.text import store_texts

_CERTIFICATE, _KEY = (f"job.spark.coordinator.tls.{part}.location" for part in ("certificate", "key"))
#: The views that need no token.
PROBES = ("/healthz", "/readyz")


def coordinator_identity(tls: TlsConfig, host: str, clock: Clock, *, remote: bool) -> Identity | None:
    """The certificate for a run's coordinator at `host`: the job file's, else a new one; None without TLS. `remote`:
    the containers are on other machines. Raises ConfigError."""
    if not (remote if tls.enabled is None else tls.enabled):
        return None
    if tls.certificate is None or tls.private_key is None:
        return made_for(host, datetime.fromtimestamp(clock.wall_ms() / 1000, timezone.utc))
    found = Identity(_pem(_CERTIFICATE, tls.certificate), _pem(_KEY, tls.private_key))
    for key, path, look in (
        (_CERTIFICATE, tls.certificate, lambda: found.fingerprint),
        (_KEY, tls.private_key, found.context),
    ):
        try:
            look()
        except ValueError as cause:
            raise ConfigError([ConfigProblem(key, path, str(cause))]) from cause
    return found


def _pem(key: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="ascii")
    except OSError as cause:
        raise ConfigError([ConfigProblem(key, path, f"cannot be read ({cause.strerror})")]) from cause
    except UnicodeDecodeError as cause:
        raise ConfigError([ConfigProblem(key, path, "is not a PEM file")]) from cause


def serve(config: JobConfig, coordinator: Coordinator, token: str, at: Addresses) -> CoordinatorService:
    """Serve the coordinator of a job at its addresses.

    If the job file turns queries on, containers answer questions about stores, also for the page; else the page reads
    changelogs. Raises EnvironmentFailure if a port is taken, ConfigError for serdes that cannot be made.
    """
    limits, inspector = config.supervision.query, JobInspector(config)
    ports = ContainerPorts(coordinator, token)
    queries = None
    if limits.enabled:
        owners = StoreOwners(coordinator.spec.model, limits.keyed, config.task.broadcast_inputs)
        queries = StoreQueries(ports.ask, owners, store_texts(config), inspector)
    return CoordinatorService(
        coordinator,
        token,
        at,
        added=views_of(coordinator),
        open_to_all=PROBES,
        routes=[*ports.routes, *(no_queries() if queries is None else queries.routes)],
        inspector=queries or inspector,
    )


def views_of(coordinator: Coordinator) -> Mapping[str, View]:
    """The views of a job's metrics, and of its probes, by path."""

    def metrics(status: JobStatus) -> Rendered:
        return Rendered(as_text(job_series(status)), CONTENT_TYPE)

    def healthz(status: JobStatus) -> Rendered:  # noqa: ARG001  # the run alone decides
        return _phrase(good=coordinator.abandoned is None)

    def readyz(status: JobStatus) -> Rendered:
        good = coordinator.abandoned is None and not status.stopping and are_ready(status.containers)
        return _phrase(good=good)

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def are_ready(containers: Iterable[ContainerStatus]) -> bool:
    """Whether every container processes messages and its lag is known, or has processed all of them."""
    return all(
        each.state == "done"
        or (each.state == "running" and each.phase in {"running", "done"} and not each.is_lag_unknown)
        for each in containers
    )


def _phrase(*, good: bool) -> Rendered:
    return Rendered(b"ok\n", "text/plain") if good else Rendered(b"not well\n", "text/plain", 503)
