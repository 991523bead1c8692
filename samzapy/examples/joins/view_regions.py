"""Page views with the region of their user: a stream joined with a table that is read first."""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.joins.sending import SendingTask, inputs
from samzapy.operators.joins import Joined, StreamTableJoin


class ViewRegionsTask(SendingTask):
    """Keeps `users`; sends each view with its user's region, None for a user that is not known."""

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
