"""The join of two tables by a foreign key: a change of a customer reaches all of its orders.

    orders, by order ──> ByForeignKey ── subscriptions, by customer ──> Subscriptions <── customers, by customer
                              │                                              │
                       version of each order <────── answers, by order ──────┘
                                                            └──> Answers ──> rows of the result, by order

1. Each change of a left row gives its key a new version, which no attempt gives again: an attempt that has ended may
   have left answers to changes that the next one makes otherwise. The change goes to the task that has the right row,
   which keeps it under (foreign key, key), and answers with the version.
2. When a left row changes its foreign key, two tasks answer, in any order. Only the answer to the newest version
   counts.
3. A change of a right row is answered for all rows that are kept under its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar
from uuid import uuid4

from samzapy.pipeline.functions import Batch, form_of, made_of
from samzapy.pipeline.step import Opening, Receive, Step
from samzapy.pipeline.tables import TableStore
from samzapy.pipeline.timed import Joiner

#: The foreign key of rows without one, in a left join.
_NOBODY = "\0"


def _prefix(foreign: str) -> str:
    """What the names of the rows under a foreign key begin with, and no other's."""
    return f"{len(foreign)}:{foreign}"


@dataclass(eq=False, kw_only=True)
class ByForeignKey(Step):
    """Gives a subscription for each change of a left row, under its foreign key; deletions go on to `answers`."""

    kind: ClassVar[str] = "foreign-key"
    keeps_state: ClassVar[bool] = True
    table: TableStore
    on: Callable[[Any], Any]
    inner: bool
    is_batched = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        versions, befores = task.context.get_store(self.name), task.befores_of(self.table)
        attempt, numbers = uuid4().hex, count()
        on, inner, form = self.on, self.inner, form_of(self.table.value_type)

        def key_of(row: Any) -> str | None:
            if row is None:
                return None
            key = on(row)
            return (None if inner else _NOBODY) if key is None else str(key)

        def receive(batch: Batch) -> None:
            held = versions.get_all(dict.fromkeys(batch.keys))
            changed, rows = dict[Any, str](), []
            for place, (key, row, before) in enumerate(zip(batch.keys, batch.messages, befores, strict=True)):
                now, then = key_of(row), key_of(before)
                if now is None and then is None:
                    continue  # nothing changes: a new version would make the answer to the last change void
                is_first = held[key] is None
                version = held[key] = changed[key] = f"{attempt}-{next(numbers)}"
                if then is not None and then != now:
                    rows.append((place, then, {"key": key, "version": version, "row": None, "gone": now is None}))
                if now is not None:
                    kept = {"key": key, "version": version, "row": form.to_plain(row), "first": is_first}
                    rows.append((place, now, kept))
            versions.put_all(changed)
            emit(made_of(batch, rows))

        return [receive]


@dataclass(eq=False, kw_only=True)
class Subscriptions(Step):
    """Keeps the left rows under their foreign keys, and gives an answer for each change of either side.

    `inputs`: the subscriptions, the right table.
    """

    kind: ClassVar[str] = "subscriptions"
    keeps_state: ClassVar[bool] = True
    joiner: Joiner
    left_type: Any
    result_type: Any
    right: TableStore
    inner: bool
    is_batched = False

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        kept, rights = task.context.get_store(self.name), task.context.get_store(self.right.name)
        joiner, inner, form = self.joiner, self.inner, form_of(self.left_type)
        results = form_of(self.result_type)

        def answer(version: str, row: Any, right: Any) -> dict[str, Any]:
            result = None if right is None and inner else joiner(form.from_plain(row), right)
            return {"version": version, "result": None if result is None else results.to_plain(result)}

        def subscribe(batch: Batch) -> None:
            rows = rights.get_all(dict.fromkeys(batch.keys))
            answers = []
            for place, (foreign, change) in enumerate(zip(batch.keys, batch.messages, strict=True)):
                name, version, row = _prefix(foreign) + change["key"], change["version"], change["row"]
                if row is None:
                    kept.delete(name)
                    if not change["gone"]:
                        continue
                    result = {"version": version, "result": None}
                else:
                    kept.put(name, [version, row])
                    result = answer(version, row, rows[foreign])
                    if result["result"] is None and change["first"]:
                        continue  # nothing was there before
                answers.append((place, change["key"], result))
            emit(made_of(batch, answers))

        def change(batch: Batch) -> None:
            answers = []
            for place, (foreign, right) in enumerate(zip(batch.keys, batch.messages, strict=True)):
                prefix = _prefix(foreign)
                with kept.prefix(prefix) as subscribed:
                    for name, (version, row) in subscribed:
                        answers.append((place, name[len(prefix) :], answer(version, row, right)))
            emit(made_of(batch, answers))

        return [subscribe, change]


@dataclass(eq=False, kw_only=True)
class Answers(Step):
    """Gives the results that belong to the newest versions of their left rows."""

    kind: ClassVar[str] = "answers"
    of: ByForeignKey

    @property
    def together(self) -> Sequence[Step]:
        return (*self.inputs, self.of)

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        versions, object_of = task.context.get_store(self.of.name), form_of(self.value_type).from_plain

        def receive(batch: Batch) -> None:
            newest = versions.get_all(dict.fromkeys(batch.keys))
            answers = enumerate(zip(batch.keys, batch.messages, strict=True))
            results = [(at, key, item["result"]) for at, (key, item) in answers if item["version"] == newest[key]]
            rows = [(at, key, None if result is None else object_of(result)) for at, key, result in results]
            emit(made_of(batch, rows))

        return [receive]
