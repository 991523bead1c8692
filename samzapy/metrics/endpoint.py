"""Serves the metrics of one container on `/metrics`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from samzapy.metrics.bounded import Series
from samzapy.metrics.prometheus import Collected

logger = logging.getLogger(__package__)


@contextmanager
def served(host: str, port: int, series: Callable[[], list[Series]]) -> Iterator[None]:
    """Answer scrapes of `http://host:port/metrics` until the end of the context; each calls `series`, in a separate thread.
    If the port is taken, a warning is logged and nothing is served: metrics never end a job.

    There is no token, so only the scraper should be able to reach the host.
    """
    # Imported only for a job file with this port.
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collected(series))
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as cause:
        logger.warning("metrics.prometheus.port: no metrics are served on %s:%d (%s)", host, port, cause)
        yield
        return
    logger.info("Metrics are served on http://%s:%d/metrics", host, port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
