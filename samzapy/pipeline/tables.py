"""Tables: the newest value of each key in a store, and their joins.

A table gives its changes: a message per change, None for a deletion. What a join of tables needs of the change before
is in their stores, so its results need no store of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from samzapy.pipeline.functions import Batch, made_of, of_batch, refuse_null_keys, selected, with_columns
from samzapy.pipeline.stateless import Calling, Source
from samzapy.pipeline.step import Opening, Receive, Step, StoreNeed, ignore
from samzapy.pipeline.timed import Joiner


@dataclass(eq=False, kw_only=True)
class TableStore(Step):
    """Keeps the newest message of each key. A null message deletes its key."""

    kind: ClassVar[str] = "table"
    keeps_messages = True

    @property
    def stores(self) -> Mapping[str, StoreNeed]:
        return {self.name: StoreNeed(self.value_type)}

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        store, befores = task.context.get_store(self.name), task.befores_of(self)

        def receive(batch: Batch) -> None:
            keys, messages = batch.keys, batch.messages
            refuse_null_keys(batch, keys, f"a row of table '{self.name}'")
            # What a key had before each change: its store's value, then the change before.
            held: dict[Any, Any] = store.get_all(dict.fromkeys(keys))
            before = []
            for key, message in zip(keys, messages, strict=True):
                before.append(held[key])
                held[key] = message
            store.put_all({key: row for key, row in held.items() if row is not None})
            store.delete_all([key for key, row in held.items() if row is None])
            befores[:] = before
            emit(batch)

        return [receive]


@dataclass(eq=False, kw_only=True)
class TableFilter(Calling):
    """The rows for which `function` is true. A row that no longer is one is deleted."""

    kind: ClassVar[str] = "filter"
    of_table: bool = True

    def given(self, batch: Batch, results: Sequence[Any]) -> Batch:
        rows = zip(batch.messages, results, strict=True)
        return with_columns(batch, messages=[row if wanted else None for row, wanted in rows])


@dataclass(eq=False, kw_only=True)
class Changes(Step):
    """The changes of a table as a stream, without its deletions."""

    kind: ClassVar[str] = "changes"
    skips_nulls: ClassVar[bool] = True

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        return [emit]


@dataclass(eq=False, kw_only=True)
class Lookup(Step):
    """Each message of a stream with the present row of a table: of its key, or of `on(message)`.

    `inputs`: the stream, the table. The table's step has the store.
    """

    kind: ClassVar[str] = "lookup"
    skips_nulls: ClassVar[bool] = True
    joiner: Joiner
    table: TableStore
    on: Callable[..., Any] | None = None
    inner: bool = True

    @property
    def together(self) -> Sequence[Step]:
        return self.inputs

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        store, joiner, inner = task.context.get_store(self.table.name), self.joiner, self.inner
        keys_of = None if self.on is None else of_batch(self.on)

        def receive(batch: Batch) -> None:
            keys = batch.keys if keys_of is None else keys_of(batch)
            rows = store.get_all({key for key in keys if key is not None})
            result = [rows.get(key) for key in keys]
            if inner:
                batch = selected(batch, [row is not None for row in result])
                result = [row for row in result if row is not None]
            emit(with_columns(batch, messages=[joiner(*pair) for pair in zip(batch.messages, result, strict=True)]))

        return [receive, ignore]


@dataclass(eq=False, kw_only=True)
class JoinOfTables(Step):
    """The rows of two tables with one key. `inner`: the sides that a row must have.

    Both inputs are stores, and a change of one meets the present row of the other. A result that is gone is a deletion.
    """

    kind: ClassVar[str] = "join"
    joiner: Joiner
    tables: tuple[TableStore, TableStore]
    inner: tuple[bool, bool] = (True, True)

    @property
    def together(self) -> Sequence[Step]:
        return self.inputs

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        stores = [task.context.get_store(table.name) for table in self.tables]
        joiner, (needs_left, needs_right) = self.joiner, self.inner
        # One change may be in both stores already: then nobody knows what the result was before.
        left, right = self.tables
        are_related = _is_made_of(left, right, task) or _is_made_of(right, left, task)

        def result(left: Any, right: Any) -> Any:
            if (left is None and (needs_left or right is None)) or (right is None and needs_right):
                return None
            return joiner(left, right)

        def receiver(side: int) -> Receive:
            befores, other = task.befores_of(self.tables[side]), stores[1 - side]

            def receive(batch: Batch) -> None:
                rows = other.get_all(dict.fromkeys(batch.keys))
                changes = []
                for place, (key, new, before) in enumerate(zip(batch.keys, batch.messages, befores, strict=True)):
                    row = rows[key]
                    pair, pair_before = ((new, row), (before, row)) if side == 0 else ((row, new), (row, before))
                    joined = result(*pair)
                    was = before if are_related else result(*pair_before)
                    if joined is not None or was is not None:
                        changes.append((place, key, joined))
                emit(made_of(batch, changes))

            return receive

        return [receiver(0), receiver(1)]


def _is_made_of(step: Step, table: TableStore, task: Opening) -> bool:
    """Whether a change of the table changes the step within the same call."""
    if step is table or (isinstance(step, Source) and step not in task.direct):
        return step is table
    return any(_is_made_of(parent, table, task) for parent in step.inputs)
