"""A join of tables whose output is the changelog of its store.

After Samza's documentation (state management, table-table join): one store keyed like both inputs holds the joined rows, a
change of either input writes its part of the row, and "the changelog of the store doubles as the output stream".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.operators.joins.copartitioning import key_of, sides

Row = dict[str, Any]


class TableTableJoin:
    """Rows by key; each of the joined tables has a part of the row under its name, if it has that key.

    A row lives as long as one of its parts, so readers who want an inner join take the rows that have all. A commit
    sends a row that changed once, however often it did; a deleted one is a tombstone. Being made of the newest messages
    alone, the rows are the same after a repetition, so `at-least-once` is enough for them.

    The record of a row is in the partition that the task owns in the changelog. That is the partition of the key for up to
    ten tasks; with more, changelog partitions go by the order of the tasks' names as text (Samza's rule: `Partition 10`
    comes before `Partition 2`), and whoever joins the rows by key once more has to write them to a stream of his own.
    """

    def __init__(self, context: Context, store: str, parts: Mapping[SystemStream, str]) -> None:
        """`parts`: the tables, and under which name each is in a row. `store` has string keys and json (or msgpack)
        values, and holds the rows and nothing else. Raises EnvironmentFailure for inputs that do not meet."""
        streams = list(parts)
        names = [parts[stream] for stream in streams]
        if len(set(names)) < len(names) or len(names) < 2:
            raise ValueError(f"a join needs two tables or more, each with a name of its own, got {names}")
        self._part = {ssp: names[place] for ssp, place in sides(context, streams).items()}
        self._rows: KeyValueStore[str, Row] = context.get_store(store)

    def update(self, envelope: IncomingMessageEnvelope) -> Row | None:
        """Take one change of one table, a tombstone being a deletion; returns the row as it is now, None for none."""
        key = key_of(envelope.key)
        part, value = self._part[envelope.ssp], envelope.message
        row = self._rows.get(key) or {}
        if row.get(part) == value:
            return row or None
        # A new dict: the old one is what a failed message goes back to.
        changed = {name: kept for name, kept in row.items() if name != part}
        if value is not None:
            changed[part] = value
        if changed:
            self._rows.put(key, changed)
            return changed
        self._rows.delete(key)
        return None
