"""The records of a replay: the places that a command line names, and the records of the inputs, in an order that the
job may have had.

The order within a partition is certain. The order across partitions is not recorded, but commits bound it: the records
before a commit's positions were processed before the records after them. Between two commits the records come by their
times, the smallest time among the next ones of all partitions first; at equal times by the partition's name.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import repeat
from typing import NamedTuple

from samzapy.api.envelope import Headers
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, SystemConsumer
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.model import JobModel, TaskModel
from samzapy.storage.changelog.reading import scan

#: `kafka.in[3]@17`, and a batch: `kafka.in[3]@12 to 17`. Other words may stand around it, as in a log line.
_NAMED = re.compile(r"(?P<ssp>[^\s\[\]]+\[\d{1,9}\])@(?P<first>\d{1,18})(?: to (?P<last>\d{1,18}))?")
_BARE = re.compile(r"\d{1,18}")
_FORM = "expected an offset, or one with its partition like kafka.in[3]@17"


class Place(NamedTuple):
    """A record of an input."""

    ssp: SystemStreamPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.ssp}@{self.offset}"


def find_task(model: JobModel, name: str | None, until: str) -> TaskModel:
    """The task of that name; without a name the only one that reads the partition in `until`, or the job's only one.

    Raises ConfigError with the tasks to choose from.
    """
    if name is not None:
        for task in model.tasks:
            if task.name == name:
                return task
        raise ConfigError([ConfigProblem("--task", name, f"expected a task of the job: {_names(model.tasks)}")])
    named = _NAMED.search(until)
    readers = [task for task in model.tasks if named is None or any(_is_named(ssp, named["ssp"]) for ssp in task.ssps)]
    if not readers:
        raise _no_input("--until", until, {ssp for task in model.tasks for ssp in task.ssps})
    if len(readers) > 1:
        raise ConfigError([ConfigProblem("--task", None, f"is required: name one of {_names(readers)}")])
    return readers[0]


def find_place(option: str, text: str, ssps: Collection[SystemStreamPartition], *, last: bool) -> Place:
    """The record that `text` names among the inputs `ssps` of a task; of a batch the `last` one, or the first.

    Raises ConfigError for another form, for a partition that the task does not read, and for a bare offset where the
    task reads several partitions.
    """
    named = _NAMED.search(text)
    if named is not None:
        found = [ssp for ssp in ssps if _is_named(ssp, named["ssp"])]
        if len(found) != 1:
            raise _no_input(option, text, ssps)
        return Place(found[0], int(named["last"] if last and named["last"] else named["first"]))
    if not _BARE.fullmatch(text.strip()):
        raise ConfigError([ConfigProblem(option, text, _FORM)])
    if len(ssps) != 1:
        known = ", ".join(f"{ssp}@{text.strip()}" for ssp in sorted(ssps))
        raise ConfigError([ConfigProblem(option, text, f"the task reads several partitions: name one of {known}")])
    return Place(next(iter(ssps)), int(text))


def _is_named(ssp: SystemStreamPartition, text: str) -> bool:
    """Whether `text` names the partition, with its system, or without it as in the headers of a dead letter."""
    return text in {str(ssp), f"{ssp.stream}[{ssp.partition}]"}


def _no_input(option: str, text: str, ssps: Iterable[SystemStreamPartition]) -> ConfigError:
    known = ", ".join(map(str, sorted(ssps)))
    return ConfigError([ConfigProblem(option, text, f"names no input of the task; it reads {known}")])


def _names(tasks: Iterable[TaskModel]) -> str:
    return ", ".join(task.name for task in tasks)


Positions = Mapping[SystemStreamPartition, int]


class Row(NamedTuple):
    """One record of an input. `interval`: the number of commits between the base of the replay and the record."""

    time_ms: int
    ssp: SystemStreamPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    interval: int


class Slice(NamedTuple):
    """The records of a replay: from `starts`, through the positions of the commits in between, to the record `until`,
    which is the last one. `ends`: where each partition ends."""

    starts: Positions
    commits: Sequence[Positions]
    ends: Positions
    until: Place

    def rows(self, consumer_of: Callable[[str], SystemConsumer]) -> Generator[Row, None, None]:
        """The records in order. Raises RestoreError if a partition yields no more records before its end."""
        position = dict(self.starts)
        for interval, bounds in enumerate((*self.commits, self.ends)):
            parts = {
                ssp: OffsetRange(start, min(bounds.get(ssp, start), self.ends[ssp])) for ssp, start in position.items()
            }
            with ExitStack() as stack:
                sources = [
                    _rows(stack.enter_context(closing(consumer_of(ssp.system))), ssp, part, interval)
                    for ssp, part in sorted(parts.items())
                    if part.oldest < part.upcoming
                ]
                for row in heapq.merge(*sources, key=_moment):
                    if row.ssp == self.until.ssp and row.offset > self.until.offset:
                        return
                    yield row
                    if (row.ssp, row.offset) == self.until:
                        return
            position = {ssp: max(start, parts[ssp].upcoming) for ssp, start in position.items()}


def _moment(row: Row) -> tuple[int, SystemStreamPartition]:
    return row.time_ms, row.ssp


def _rows(consumer: SystemConsumer, ssp: SystemStreamPartition, part: OffsetRange, interval: int) -> Iterator[Row]:
    for batch in scan(consumer, ssp, part, SYSTEM_CLOCK):
        columns = (batch.timestamps, repeat(ssp), batch.offsets, batch.keys, batch.values)
        headers = batch.headers or repeat(None, len(batch.offsets))
        for row in zip(*columns, headers, repeat(interval), strict=False):
            yield Row(*row)


class Feed:
    """Hands the offered batches to the consumers of their systems, once."""

    def __init__(self, ssps: frozenset[SystemStreamPartition]) -> None:
        self.ssps = ssps
        self._offered: list[RecordBatch] = []
        self._positions: dict[SystemStreamPartition, int] = {}

    def offer(self, batches: Sequence[RecordBatch]) -> None:
        """Give these to the next poll."""
        self._offered = list(batches)

    def take(self, system: str) -> list[RecordBatch]:
        """The offered batches of a system."""
        taken = [batch for batch in self._offered if batch.ssp.system == system]
        self._offered = [batch for batch in self._offered if batch.ssp.system != system]
        self._positions.update({batch.ssp: batch.offsets[-1] + 1 for batch in taken})
        return taken

    def position(self, ssp: SystemStreamPartition, start: int) -> int:
        """The offset after the last record that was taken, `start` before the first."""
        return self._positions.get(ssp, start)


def batches_of(rows: Sequence[Row]) -> list[RecordBatch]:
    """The rows as one poll has them: one batch a partition, in the order of their first records."""
    by_ssp: dict[SystemStreamPartition, list[Row]] = {}
    for row in rows:
        by_ssp.setdefault(row.ssp, []).append(row)
    found = []
    for ssp, own in by_ssp.items():
        times, _, offsets, keys, values, headers, _ = (list(column) for column in zip(*own, strict=True))
        found.append(RecordBatch(ssp, offsets, keys, values, times, headers if any(headers) else None))
    return found
