"""Serves a run's coordinator to people and tools, on either runner, with the views for metrics and probes.

`/metrics` and the probes show the same status as the page. A probe has no token, so `/healthz` and `/readyz` answer with one
phrase; the page says why a job is not ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from samzapy.admin.inspection import JobInspector
from samzapy.clock import Clock
from samzapy.config import spark
from samzapy.config.job import JobConfig
from samzapy.config.spark import TlsConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.progress import JobStatus
from samzapy.coordinator.scrape import job_snapshot
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.web.live import LiveInspector
from samzapy.coordinator.web.queries import Records, StoreQueries
from samzapy.coordinator.web.tls import Identity, made_for
from samzapy.coordinator.web.views import Pauses, Rendered, View
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.metrics.bounded import Bounds
from samzapy.metrics.health import Health, alive, ready
from samzapy.metrics.prometheus import CONTENT_TYPE, render
from samzapy.queries.exchange import Exchange
from samzapy.queries.owners import StoreOwners
from samzapy.queries.text import store_texts

#: The views that need no token.
PROBES = ("/healthz", "/readyz")


def coordinator_identity(tls: TlsConfig, host: str, clock: Clock, *, remote: bool) -> Identity | None:
    """The certificate of a run's coordinator at `host`, None for no TLS: that of the job file, else a new one. `remote`: the
    containers are on other machines. Raises ConfigError."""
    if not (remote if tls.enabled is None else tls.enabled):
        return None
    if tls.certificate is None or tls.key is None:
        return made_for(host, datetime.fromtimestamp(clock.wall_ms() / 1000, timezone.utc))
    found = Identity(_pem(spark.TLS_CERTIFICATE.name, tls.certificate), _pem(spark.TLS_KEY.name, tls.key))
    for key, path, look in (
        (spark.TLS_CERTIFICATE.name, tls.certificate, lambda: found.fingerprint),
        (spark.TLS_KEY.name, tls.key, found.context),
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
        raise ConfigError([ConfigProblem(key, path, "is no file in PEM")]) from cause


def serve(
    coordinator: Coordinator,
    records: Records,
    token: str,
    host: str,
    port: int,
    *,
    second: int | None,
    max_series: int,
    identity: Identity | None = None,
) -> CoordinatorService:
    """Serve the coordinator of a job at `host:port`, with TLS if it has an `identity`, and without TLS at the port `second` of the
    loopback address (None: not there). `records` answers questions about the job's records; `/metrics` has `max_series` series
    at most.

    Raises EnvironmentFailure if a port is taken.
    """
    return CoordinatorService(
        coordinator,
        token,
        Addresses(host, port, second, identity),
        added=views_of(coordinator, Bounds(job=max_series)),
        open_to_all=PROBES,
        records=records,
    )


def records_of(config: JobConfig, coordinator: Coordinator, exchange: Exchange) -> Records:
    """What answers questions about the job's records. If the job file has queries on, those about its stores go to its
    containers, those of the page as well; without, the page reads the changelogs.

    Raises ConfigError for serdes that cannot be made.
    """
    inspector, limits = JobInspector(config), config.supervision.query
    if not limits.enabled:
        return Records(inspector)
    owners = StoreOwners(coordinator.spec.model, limits.keyed, config.task.broadcast_inputs)
    texts = store_texts(config)
    live = LiveInspector(inspector, exchange, owners, texts, limits.timeout_ms / 1000)
    return Records(live, StoreQueries(coordinator, exchange, owners, texts, limits))


def views_of(coordinator: Coordinator, bounds: Bounds = Bounds()) -> Mapping[str, View]:  # noqa: B008  # frozen
    """The views of a job's metrics, in bounded number, and of its probes, by path."""
    tasks = frozenset(task.name for task in coordinator.spec.model.tasks)
    pause = Pauses()

    def ended() -> str:
        return coordinator.abandoned or ""

    def metrics(status: JobStatus) -> Rendered:
        return Rendered(render(job_snapshot(status, tasks, pause), bounds, pause), CONTENT_TYPE)

    def healthz(status: JobStatus) -> Rendered:  # noqa: ARG001  # the run alone decides
        return _in_one_word(alive(ended()))

    def readyz(status: JobStatus) -> Rendered:
        return _in_one_word(ready(status.containers, stopping=status.stopping, ended=ended()))

    return {"/metrics": metrics, "/healthz": healthz, "/readyz": readyz}


def _in_one_word(health: Health) -> Rendered:
    good = health.status == 200
    return Rendered(b"ok\n" if good else b"not well\n", "text/plain", health.status)
