"""Serves a run's coordinator to people and tools, on either runner."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from samzapy.admin.store_queries import JobInspector
from samzapy.clock import Clock
from samzapy.config.job import JobConfig, TlsConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.port import ContainerPorts
from samzapy.coordinator.queries import StoreQueries, no_queries, store_texts
from samzapy.coordinator.server import Identity, made_for
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.errors import ConfigError, ConfigProblem

_CERTIFICATE, _KEY = (f"job.spark.coordinator.tls.{part}.location" for part in ("certificate", "key"))


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
        queries = StoreQueries(ports.ask, coordinator.spec.model, store_texts(config), inspector)
    return CoordinatorService(
        coordinator,
        token,
        at,
        routes=[*ports.routes, *(no_queries() if queries is None else queries.routes)],
        inspector=queries or inspector,
    )
