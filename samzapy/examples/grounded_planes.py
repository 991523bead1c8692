"""Planes that have not departed again for some days: a timer a plane, in event time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.event_time import Timers
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask, TimerTask


class GroundedPlanesTask(StreamTask, TimerTask, InitableTask):
    """Each departure sets its plane's timer anew; one that fires is a plane that has stood for too long.

    `grounded.hours` in the job file is how long a plane may stand, `grounded.output` names the output.
    """

    _timers: Timers
    _output: SystemStream
    _patience_ms: int

    def init(self, context: Context) -> None:
        config = context.job.config
        self._timers = context.task.timers
        self._output = SystemStream.parse(config["grounded.output"])
        self._patience_ms = int(config["grounded.hours"]) * 3_600_000

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        if flight["dep_delay"] is not None and flight["tailnum"] is not None:
            self._timers.schedule(flight["tailnum"], envelope.event_time + self._patience_ms)

    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        since = datetime.fromtimestamp((time_ms - self._patience_ms) / 1000, tz=timezone.utc)
        grounded = {"tailnum": key, "since": since.isoformat(timespec="minutes")}
        collector.send(OutgoingMessageEnvelope(self._output, grounded, key=key))
