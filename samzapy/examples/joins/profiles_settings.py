"""Members' profiles joined with their settings: the changelog of the store is the output."""

from __future__ import annotations

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import CopartitionedTask, InitableTask, StreamTask
from samzapy.operators.joins import TableTableJoin


class ProfilesSettingsTask(StreamTask, InitableTask, CopartitionedTask):
    """Keeps `members`, by user: `{"profile": {...}, "settings": {...}}`, each part while it is there."""

    _members: TableTableJoin

    def init(self, context: Context) -> None:
        system = context.job.config["job.default.system"]
        parts = {
            SystemStream(system, "member-profiles"): "profile",
            SystemStream(system, "member-settings"): "settings",
        }
        self._members = TableTableJoin(context, "members", parts)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self._members.update(envelope)
