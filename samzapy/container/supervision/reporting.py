"""Reports the metrics of one container from a separate thread.

A report may wait for a broker. The run loop and the heartbeat must not wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import final

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, SystemProducer
from samzapy.clock import Clock
from samzapy.config.supervision import ReporterConfig
from samzapy.metrics import Publish, Registry, Reporter, SnapshotHeader, reporters
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: Seconds between two checks for due reports: intervals are whole seconds.
_PACE_S = 0.25
#: Seconds to wait for the acknowledgement of a snapshot, and for the last reports at the container's end.
_ACK_S, _LAST_S = 5.0, 10.0


@final
class Reporting:
    """A context that reports as often as the job file says, and once at its end."""

    def __init__(
        self,
        wanted: Sequence[ReporterConfig],
        header: SnapshotHeader,
        tasks: frozenset[str],
        metrics: Registry,
        new_clients: Callable[[], SystemClients],
        clock: Clock,
    ) -> None:
        """Connects to nothing yet; without `wanted` reporters nothing is ever started. `header`
        names the container in each snapshot of `metrics`; `tasks` names the groups that belong to tasks; `new_clients`
        makes the clients of the reporters' streams. Raises EnvironmentFailure for a reporter's library that is not
        installed."""
        self._streams = _Streams(new_clients, header.host)
        self._reporters = reporters(wanted, metrics, header, self._streams.publisher, clock, tasks)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Reporting:
        if self._reporters:
            self._thread = threading.Thread(
                target=_run, args=(self._reporters, self._streams, self._closed), name="samzapy-metrics", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._thread is None:
            return
        self._closed.set()
        self._thread.join(_LAST_S)
        if self._thread.is_alive():
            logger.warning("The last metrics were not published within %g s", _LAST_S)


def _run(reporters_: list[Reporter], streams: _Streams, closed: threading.Event) -> None:
    while not closed.wait(_PACE_S):
        for reporter in reporters_:
            reporter.tick()
    for reporter in reporters_:
        reporter.report()
    streams.close()


class _Streams:
    """The reporters' streams, with clients that no other thread uses."""

    def __init__(self, clients: Callable[[], SystemClients], host: str) -> None:
        self._new_clients = clients
        self._host = host.encode()
        self._clients: SystemClients | None = None

    def publisher(self, stream: SystemStream) -> Publish:
        """Sends snapshots to the stream, all of a host to one partition, as Samza does. Raises SamzapyError."""

        def publish(snapshot: bytes) -> None:
            record = OutgoingRecord(stream.stream, None, snapshot, partition_key=self._host)
            try:
                producer = self._producer(stream.system)
                producer.send([record])
                producer.flush(_ACK_S)
            except Exception:
                # A failed producer cannot be used again; the next report makes another.
                self.close()
                raise

        return publish

    def close(self) -> None:
        clients, self._clients = self._clients, None
        if clients is None:
            return
        try:
            clients.close()
        except Exception as cause:  # noqa: BLE001  # metrics never end a job
            logger.warning("Closing the metrics' clients: %s", cause)

    def _producer(self, system: str) -> SystemProducer:
        if self._clients is None:
            self._clients = self._new_clients()
        return self._clients.producer(system)
