"""The table-table join of Samza's state documentation: one store by user, whose changelog is the job's output."""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask


class JoinUsersTask(StreamTask, InitableTask):
    """Keeps what each table says of a user in the store `users`, by the table's name; who is in none of them is deleted.

    A row that is read again changes nothing.
    """

    _users: KeyValueStore[str, dict[str, Any]]

    def init(self, context: Context) -> None:
        self._users = context.get_store("users")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        user = dict(self._users.get(envelope.key) or {})
        if envelope.message is None:
            user.pop(envelope.ssp.stream, None)
        else:
            user[envelope.ssp.stream] = envelope.message
        if user:
            self._users.put(envelope.key, user)
        else:
            self._users.delete(envelope.key)
