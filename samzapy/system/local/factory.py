"""`systems.NAME.samza.factory=samzapy.system.local.factory:LocalSystemFactory`."""

from __future__ import annotations

from collections.abc import Iterable

from samzapy.api.system import SystemConsumer, SystemFactory, SystemProducer, SystemSettings
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.system.embedded.consumer import LogConsumer
from samzapy.system.embedded.producer import LogProducer
from samzapy.system.local.admin import LocalAdmin
from samzapy.system.local.database import local_settings
from samzapy.system.local.reader import LocalReader
from samzapy.system.local.writer import LocalWriter


class LocalSystemFactory(SystemFactory):
    """Clients of the file that `systems.NAME.path` names. `clock` dates records and times transactions out."""

    transactional = True

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def check(self, settings: SystemSettings) -> None:
        local_settings(settings)

    def durability(self, settings: SystemSettings) -> Iterable[tuple[str, str]]:
        if settings.properties.get("synchronous") != "full":
            message = (
                "normal: a power cut may take back the newest commits, of outputs, changelogs and checkpoints alike"
            )
            yield "synchronous", message

    def kept_on_this_machine(self, settings: SystemSettings) -> str:
        return f"the file {local_settings(settings).path}"

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        local = local_settings(settings)
        return LogConsumer(settings.name, lambda: LocalReader(local, self._clock))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        writer = LocalWriter(local_settings(settings), self._clock)
        return LogProducer(settings.name, writer, self._clock, transactional_id, timeout_ms)

    def admin(self, settings: SystemSettings, client_id: str) -> LocalAdmin:
        return LocalAdmin(local_settings(settings), self._clock)
