"""Cancelled departures into a table of a SQLite database: the smallest job with a sink."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timezone

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.task import InitableTask, StreamTask
from samzapy.sinks import SqlSink

TABLE = "cancelled"
COLUMNS = ("day", "hour", "carrier", "flight", "origin", "dest")


class CancelledFlightsTask(StreamTask, InitableTask):
    """Writes a row for each flight without a departure, once, whatever happens to the job.

    `cancelled.flights.database` in the job file is the path of the database.
    """

    _cancelled: SqlSink

    def init(self, context: Context) -> None:
        path = context.job.config["cancelled.flights.database"]
        self._cancelled = SqlSink(lambda: _connect(path), TABLE, COLUMNS)
        context.task.register_sink(self._cancelled)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        flight = envelope.message
        if flight["dep_delay"] is None:
            day = datetime.fromtimestamp(envelope.event_time / 1000, tz=timezone.utc).date().isoformat()
            row = (day, flight["hour"], flight["carrier"], flight["flight"], flight["origin"], flight["dest"])
            self._cancelled.write(row, envelope)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {TABLE} "
        "(day TEXT, hour INTEGER, carrier TEXT, flight INTEGER, origin TEXT, dest TEXT)"
    )
    return connection
