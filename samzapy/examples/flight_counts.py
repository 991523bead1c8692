"""How many flights have left each airport, counted exactly once: Gearpump's counting processor, by key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import EndOfStreamListenerTask
from samzapy.operators.persistent import Count, Keyed, NonWindowState, PersistentState, PersistentTask

Counts = dict[str, int]


class FlightCountTask(PersistentTask[Counts], EndOfStreamListenerTask):
    """Sends, with each checkpoint, the counts of before its time, and at the end of the input those of everything:
    `{"task": ..., "until": ..., "counts": {"EWR": ...}}`, without `until` at the end.

    The counts of one `until`, added up over the tasks, are those of the whole job at that moment.
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
