"""Rows between `process` and the commit, each with the input it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.stream import SystemStreamPartition
from samzapy.sinks.database import Row

#: A row, and the input it comes from; (None, -1) if it comes from none.
WaitingRow = tuple[SystemStreamPartition | None, int, Row]


class WaitingRows:
    """What a sink was given since its last commit, in order."""

    __slots__ = ("_rows", "add")

    def __init__(self) -> None:
        self._rows: list[WaitingRow] = []
        self.add = self._rows.append

    def __len__(self) -> int:
        return len(self._rows)

    def before(self, offsets: Mapping[SystemStreamPartition, int]) -> list[WaitingRow]:
        """The rows whose inputs are done. Those of later inputs wait on: a crash would bring their inputs again."""
        return [each for each in self._rows if each[0] is None or each[1] < offsets[each[0]]]

    def remove(self, done: list[WaitingRow]) -> None:
        """Forget what `before` returned."""
        if len(done) == len(self._rows):
            self._rows.clear()
        else:
            gone = set(map(id, done))
            self._rows[:] = [each for each in self._rows if id(each) not in gone]

    def forget(self, ssp: SystemStreamPartition, offset: int) -> None:
        """Drop the rows of one input, wherever they are: messages of an asynchronous task write side by side."""
        self._rows[:] = [each for each in self._rows if each[1] != offset or each[0] != ssp]


def span(rows: list[WaitingRow]) -> str:
    """How many rows, and from which inputs: the first and last, for an error that cannot say which row it was."""
    inputs = [f"{ssp}@{offset}" for ssp, offset, _ in rows if ssp is not None]
    where = f" from {inputs[0]} to {inputs[-1]}" if inputs else ""
    return f"{len(rows):,} rows{where}"
