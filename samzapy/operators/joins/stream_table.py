"""A join of a stream with a table: each message with the row that its key has at that moment."""

from __future__ import annotations

from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.operators.joins.copartitioning import key_of, sides
from samzapy.operators.joins.results import Joined, Side


class StreamTableJoin:
    """Keeps the table's newest row of each key, and looks it up for each message of the stream.

    Which row a message finds goes by the order of processing, as in Samza. Give the table
    `streams.TABLE.samza.bootstrap=true`, and a start reads it to its end before the first message of the stream; from then
    on rows and messages are read side by side. Where a message has to meet the row of its own time, use `AsOfJoin`.

    Metrics: `join.unmatched`, messages that found no row.
    """

    def __init__(self, context: Context, store: str, stream: SystemStream, table: SystemStream) -> None:
        """`store` has string keys and holds the table's messages by key. Raises EnvironmentFailure for inputs that do not
        meet."""
        self._of_table = {ssp: bool(place) for ssp, place in sides(context, (stream, table)).items()}
        self._rows: KeyValueStore[str, Any] = context.get_store(store)
        self._unmatched = context.task.metrics.counter("join", "unmatched")

    def add(self, envelope: IncomingMessageEnvelope) -> Joined | None:
        """Take one message: of the table, a tombstone being a deletion, for which None is returned; of the stream, which
        is returned as `left` with its row (and the time of the message, as the table's times are not kept) as `right`."""
        if self._of_table[envelope.ssp]:
            self._keep(envelope)
            return None
        # A message without a key has no row; the store would refuse to look for it.
        row = None if envelope.key is None else self._rows.get(key_of(envelope.key))
        left = Side(envelope.event_time, envelope.message)
        if row is None:
            self._unmatched.count += 1
            return Joined(envelope.key, left, None)
        return Joined(envelope.key, left, Side(envelope.event_time, row))

    def _keep(self, envelope: IncomingMessageEnvelope) -> None:
        key = key_of(envelope.key)
        if envelope.message is None:
            self._rows.delete(key)
        else:
            self._rows.put(key, envelope.message)
