"""Notices changes of the input streams of a running job.

1. A stream that has grown: the new partitions are read by the next start of the job, from their beginning. A line says so.
2. A stream that was deleted and created again: the positions of the containers mean nothing in the new one, and they may skip
   records there without an error. So they stop, and the run fails. The next start refuses the positions as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import final

from samzapy.api.stream import SystemStream
from samzapy.api.system import StreamDescription
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import EnvironmentFailure
from samzapy.runner.base import PreparedJob
from samzapy.runner.checks import Checks, Row
from samzapy.system.factories import load_factory

#: Seconds between two checks, one request a system.
PACE_S = 30.0


@final
class InputStreamsWatch:
    """A context that checks the inputs of the job, and ends after the checks. Raises EnvironmentFailure at the end of the context if one was created
    again, unless there is an exception already."""

    def __init__(
        self,
        prepared: PreparedJob,
        coordinator: Coordinator,
        on_event: Callable[[str], None],
        checks: Checks,
        pace_s: float = PACE_S,
    ) -> None:
        """`coordinator` stops the containers. `on_event` gets a line for each of these streams."""
        self._checks = checks
        self._coordinator = coordinator
        self._on_event = on_event
        self._known: dict[SystemStream, StreamDescription] = {
            stream: found
            for stream, found in prepared.inputs.items()
            if load_factory(prepared.config.systems[stream.system]).lists_streams
        }
        self._replaced = ""
        self._row = Row("input-streams", pace_s, self._check)

    def __enter__(self) -> InputStreamsWatch:
        if self._known:
            self._checks.add(self._row)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._replaced and kind is None:
            raise EnvironmentFailure(self._replaced)

    def _check(self) -> bool:
        return self._compare(self._checks.records.clients.describe(self._known))

    def _compare(self, found: Mapping[SystemStream, StreamDescription | None]) -> bool:
        """Compare the streams with the start's; returns whether to check again."""
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
