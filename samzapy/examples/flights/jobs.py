"""Two small jobs over the flights.

CancelledFlightsTask    a sink: cancelled departures as rows of a SQLite database
FlightCountTask         a persistent state: departures of each airport, counted exactly once
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import datetime, timezone

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import EndOfStreamListenerTask, InitableTask, StreamTask
from samzapy.operators.persistent import Count, Keyed, NonWindowState, PersistentState, PersistentTask
from samzapy.sinks import SqlSink

TABLE = "cancelled"
COLUMNS = ("day", "hour", "carrier", "flight", "origin", "dest")


class CancelledFlightsTask(StreamTask, InitableTask):
    """Writes a row for each cancelled flight, exactly once, whatever happens to the job.

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


Counts = dict[str, int]


class FlightCountTask(PersistentTask[Counts], EndOfStreamListenerTask):
    """Sends, with each checkpoint, the counts before its time, and at the end of the input all counts:
    `{"task": ..., "until": ..., "counts": {"EWR": ...}}`, without `until` at the end.

    The counts of one `until`, added up over the tasks, are the whole job's counts at that moment.
    `flight.counts.output` in the job file names the output as `system.stream`.
    """

    _output: SystemStream
    _task_name: str

    def persistent_state(self) -> PersistentState[Counts]:
        return NonWindowState(Keyed(Count()))

    def process_message(self, state: PersistentState[Counts], message: IncomingMessageEnvelope) -> None:
        state.update(message.event_time, (message.message["origin"], 1))

    def on_start(self, context: Context) -> None:
        self._output = SystemStream.parse(context.job.config["flight.counts.output"])
        self._task_name = context.task.task_name

    def on_checkpoint(self, time_ms: int, state: PersistentState[Counts], collector: MessageCollector) -> None:
        until = datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat()
        self._send({"task": self._task_name, "until": until, "counts": state.cut}, collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self._send({"task": self._task_name, "counts": self.state.value}, collector)

    def _send(self, message: Mapping[str, object], collector: MessageCollector) -> None:
        collector.send(OutgoingMessageEnvelope(self._output, message, key=self._task_name))
