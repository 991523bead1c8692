"""Where an attempt runs, told when it registers: enough to end exactly that process, or that task of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """A host as Spark names it, and one of its executors; without one, any."""

    host: str
    executor: str | None = None


@dataclass(frozen=True)
class AttemptProcess:
    """`machine` names a running kernel and its process numbers' scope, so that `pid` and `started` (the process's start,
    in the kernel's ticks) mean one process and never a later one. `spark_task` is Spark's id of the task attempt, `place` where Spark
    runs it."""

    machine: str
    pid: int
    started: int
    spark_task: int | None = None
    place: Place | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AttemptProcess:
        """The inverse of `to_json`."""
        place = data["place"]
        return cls(
            data["machine"],
            data["pid"],
            data["started"],
            data["spark_task"],
            None if place is None else Place(place["host"], place["executor"]),
        )


@dataclass(frozen=True)
class Overdue:
    """An attempt whose lease has run out without a word about its end."""

    container_id: str
    epoch: int
    spark_task: int | None
