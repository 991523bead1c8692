"""Four tasks, one for each join.

ProfilesSettingsTask     two tables; the changelog of their join is the output
ViewRegionsTask          page views with the region of the user: a stream joined with a table that is read first
ImpressionsClicksTask    impressions of advertisements with their clicks, within half an hour
DeparturesWeatherTask    departures with the last weather report before each, at most an hour old
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import CopartitionedTask, EndOfStreamListenerTask, InitableTask, StreamTask, WindowableTask
from samzapy.operators.joins import (
    AsOfJoin,
    Joined,
    Side,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    TimeRules,
    Within,
)


class SendingTask(StreamTask, InitableTask, CopartitionedTask):
    """Sends joined messages to `join.output` of the job file, a `system.stream`."""

    _output: SystemStream

    def init(self, context: Context) -> None:
        """Read the output from the job file. A subclass calls this method and makes its join."""
        self._output = SystemStream.parse(context.job.config["join.output"])

    @abstractmethod
    def message(self, joined: Joined) -> dict[str, Any]:
        """The message to send, with the key of both sides."""

    def send(self, found: Iterable[Joined], collector: MessageCollector) -> None:
        """Send one message for each."""
        for joined in found:
            collector.send(OutgoingMessageEnvelope(self._output, self.message(joined), key=joined.key))


def inputs(context: Context, *streams: str) -> tuple[SystemStream, SystemStream]:
    """Two streams of the job's default system."""
    system = context.job.config["job.default.system"]
    left, right = (SystemStream(system, stream) for stream in streams)
    return left, right


class ProfilesSettingsTask(StreamTask, InitableTask, CopartitionedTask):
    """Keeps `members`, by user: `{"profile": {...}, "settings": {...}}`, without the parts that the user does not
    have."""

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


class ViewRegionsTask(SendingTask):
    """Keeps `users`; sends each view with its user's region, None for an unknown user."""

    _views: StreamTableJoin

    def init(self, context: Context) -> None:
        super().init(context)
        views, users = inputs(context, "user-views", "user-regions")
        self._views = StreamTableJoin(context, "users", stream=views, table=users)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        joined = self._views.add(envelope)
        if joined is not None:
            self.send([joined], collector)

    def message(self, joined: Joined) -> dict[str, Any]:
        view, user = joined.left, joined.right
        assert view is not None, "an update of the table gives nothing"
        return {**view.value, "region": None if user is None else user.value["region"]}


#: A click counts if it comes within half an hour of the impression.
CLICKED_WITHIN_MS = 30 * 60_000
#: Time by which the messages of a partition may be out of order.
LATENESS_MS = 60_000


class ImpressionsClicksTask(SendingTask, WindowableTask, EndOfStreamListenerTask):
    """Sends each click with its impression, impressions without a click, and clicks without an impression."""

    _waiting: StreamStreamJoin

    def init(self, context: Context) -> None:
        super().init(context)
        self._waiting = StreamStreamJoin(
            context,
            "waiting",
            inputs(context, "impressions", "clicks"),
            Within(after=CLICKED_WITHIN_MS),
            TimeRules(LATENESS_MS),
        )

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.send(self._waiting.add(envelope), collector)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._waiting.advance(), collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._waiting.finish(), collector)

    def message(self, joined: Joined) -> dict[str, Any]:
        sides = {"impression": joined.left, "click": joined.right}
        return {name: _message(side) for name, side in sides.items()}


def _message(side: Side | None) -> dict[str, Any] | None:
    return None if side is None else {"time_ms": side.time_ms, **side.value}


#: Older observations are ignored.
OBSERVED_WITHIN_MS = 3_600_000


class DeparturesWeatherTask(SendingTask, WindowableTask, EndOfStreamListenerTask):
    """Sends each departure with the `weather` at its airport, None without a recent observation."""

    _departures: AsOfJoin

    def init(self, context: Context) -> None:
        super().init(context)
        streams = inputs(context, "airport-departures", "airport-weather")
        self._departures = AsOfJoin(context, "departures", streams, OBSERVED_WITHIN_MS)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.send(self._departures.add(envelope), collector)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._departures.advance(), collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._departures.finish(), collector)

    def message(self, joined: Joined) -> dict[str, Any]:
        departure, weather = joined.left, joined.right
        assert departure is not None, "every result is a departure"
        observed = None if weather is None else {"observed_ms": weather.time_ms, **weather.value}
        return {"departed_ms": departure.time_ms, **departure.value, "weather": observed}
