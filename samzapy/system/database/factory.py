"""`systems.NAME.samza.factory=database`."""

from __future__ import annotations

from contextlib import closing

from samzapy.api.system import SystemConsumer, SystemFactory, SystemProducer, SystemSettings
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.streams.database import database_config
from samzapy.errors import EnvironmentFailure
from samzapy.system.database.admin import DatabaseAdmin
from samzapy.system.database.connection import Database
from samzapy.system.database.reader import DatabaseReader
from samzapy.system.embedded.consumer import LogConsumer


class DatabaseSystemFactory(SystemFactory):
    """Clients of the database at `systems.NAME.database.url`. `clock` decides when to look again, and is SQLite's clock."""

    read_only = True
    lists_streams = False
    orders_by_time = True

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock

    def check(self, settings: SystemSettings) -> None:
        Database(database_config(settings)).close()

    def kept_on_this_machine(self, settings: SystemSettings) -> str | None:
        with closing(Database(database_config(settings))) as database:
            return "a file of SQLite" if database.dialect == "sqlite" else None

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        config = database_config(settings)
        return LogConsumer(settings.name, lambda: DatabaseReader(config, self._clock))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        raise EnvironmentFailure(
            f"system '{settings.name}' is a database, which is read only; to write rows register a samzapy.sinks.SqlSink"
        )

    def admin(self, settings: SystemSettings, client_id: str) -> DatabaseAdmin:
        return DatabaseAdmin(database_config(settings), self._clock)
