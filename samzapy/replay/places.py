"""Finds the task and the offsets that a command line names, in each form in which samzapy prints them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.model import JobModel, TaskModel

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
