"""Notices changes of the input streams of a running job.

1. A stream that has grown: the new partitions are read by the next start of the job, from their beginning. A line says so.
2. A stream that was deleted and created again: the positions of the containers mean nothing in the new one, and they may skip
   records there without an error. So they stop, and the run fails. The next start refuses the positions as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from types import TracebackType
from typing import final

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.runner.base import PreparedJob
from samzapy.runner.driver import Periodic
from samzapy.system.clients import SystemClients, job_clients
from samzapy.system.factories import load_factory

logger = logging.getLogger(__name__)

#: Seconds between two looks, one request a system.
PACE_S = 30.0
#: Seconds that the end of a run waits for a look, which changes nothing.
_PATIENCE_S = 2.0


@final
class InputStreamsWatch:
    """A context that looks at the inputs of the job. Raises EnvironmentFailure at the end of the context if one was created
    again, unless there is an exception already."""

    def __init__(
        self,
        prepared: PreparedJob,
        coordinator: Coordinator,
        on_event: Callable[[str], None],
        pace_s: float = PACE_S,
    ) -> None:
        """`coordinator` stops the containers. `on_event` gets a line for each of these streams."""
        self._config = prepared.config
        self._coordinator = coordinator
        self._on_event = on_event
        self._known: dict[SystemStream, StreamDescription] = {
            stream: found
            for stream, found in prepared.inputs.items()
            if load_factory(prepared.config.systems[stream.system]).lists_streams
        }
        self._clients: SystemClients | None = None
        self._replaced = ""
        self._looks = Periodic("input-streams", pace_s, self._look, last=self._close)

    def __enter__(self) -> InputStreamsWatch:
        if self._known:
            self._looks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._looks.end(_PATIENCE_S)
        if self._replaced and kind is None:
            raise EnvironmentFailure(self._replaced)

    def _look(self) -> bool:
        try:
            if self._clients is None:
                self._clients = job_clients(self._config, "input-streams")
            return self._compare(self._clients.describe(self._known))
        except SamzapyError as cause:
            logger.warning("Cannot look at the inputs (%s); looking again", cause)
            self._close()
            return True

    def _compare(self, found: Mapping[SystemStream, StreamDescription | None]) -> bool:
        """Compare the streams with the start's; returns whether to look again."""
        for stream, now in found.items():
            before = self._known[stream]
            if now is None:
                continue  # the containers find out
            if now.stream_id != before.stream_id:
                self._replaced = (
                    f"{stream}: it was deleted and created again while the job ran (id {before.stream_id}, now {now.stream_id}), "
                    "so the positions of the job mean nothing in it: the job stops; the next start says how to go on"
                )
                self._coordinator.stop()
                self._on_event(f"error: {self._replaced}")
                return False
            if now.partitions > before.partitions:
                self._on_event(
                    f"warning: {stream} has grown from {before.partitions} to {now.partitions} partitions: the next start of the "
                    "job reads the new ones, from their beginning"
                )
                self._known[stream] = now
        return True

    def _close(self) -> None:
        if self._clients is not None:
            with closing(self._clients):
                self._clients = None
