"""The messages between the coordinator and its containers, as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from samzapy.api.lease import ContainerReport, TaskProgress
from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator.progress import ContainerFailure
from samzapy.job.model import JobModel


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


@dataclass(frozen=True)
class JobSpec:
    """The job as it travels: `raw` is the configuration as written (`${env:X}` unresolved, so that secrets stay where
    they are), `ends` the offsets to stop at (None: never), `directory` the driver's working directory when containers
    share its machine (relative paths mean the same on both sides), else None. `run_id`: the run's, which owns the job
    until a newer one is started. `transactions`: False where a system has refused the job's transactional ids."""

    model: JobModel
    raw: Mapping[str, str]
    ends: Mapping[SystemStreamPartition, int] | None = None
    directory: str | None = None
    run_id: str | None = None
    transactions: bool = True

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "model": self.model.to_json(),
            "configuration": dict(self.raw),
            "ends": None if self.ends is None else {str(ssp): offset for ssp, offset in self.ends.items()},
            "directory": self.directory,
            "run_id": self.run_id,
            "transactions": self.transactions,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobSpec:
        """The inverse of `to_json`."""
        ends = data["ends"]
        return cls(
            JobModel.from_json(data["model"]),
            data["configuration"],
            None if ends is None else {SystemStreamPartition.parse(text): offset for text, offset in ends.items()},
            data["directory"],
            data["run_id"],
            data["transactions"],
        )


V = TypeVar("V")

#: Longest text taken over from a container: enough for any one-line message, too short to fill the driver.
TEXT_LIMIT = 4_000


class WireError(ValueError):
    """Raised when a body is not what its sender should have written; names the field."""


def report_to_json(report: ContainerReport) -> dict[str, Any]:
    """A report as plain JSON values."""
    return asdict(report)


def report_from_json(container_id: str, body: Any) -> ContainerReport:
    """The inverse; the container is the one of the address. Raises WireError."""
    data = _table("report", body)
    return ContainerReport(
        container_id=container_id,
        epoch=_integer("epoch", data.get("epoch")),
        phase=_text("phase", data.get("phase")),
        processed=_integer("processed", data.get("processed", 0)),
        positions=_mapping("positions", data.get("positions", {}), _integer),
        ends=_mapping("ends", data.get("ends", {}), _integer),
        restored=_mapping("restored", data.get("restored", {}), _restored),
        restoring=_mapping("restoring", data.get("restoring", {}), _pair),
        metrics=_mapping("metrics", data.get("metrics", {}), _metrics),
        commits=_integer("commits", data.get("commits", 0)),
        clocks=_mapping("clocks", data.get("clocks", {}), _task_progress),
    )


def failure_from_json(container_id: str, body: Any) -> ContainerFailure:
    """A failure as a container sends it: epoch, error, message, exit_code, permanent. Raises WireError."""
    data = _table("failure", body)
    return ContainerFailure(
        container_id,
        _integer("epoch", data.get("epoch")),
        _text("error", data.get("error")),
        _text("message", data.get("message")),
        _integer("exit_code", data.get("exit_code")),
        data.get("permanent") is True,
    )


def epochs_from_json(body: Any) -> tuple[int, int]:
    """An attempt's epoch, and the one that it has to outgrow. Raises WireError."""
    data = _table("epoch", body)
    return _integer("epoch", data.get("epoch")), _integer("newest", data.get("newest"))


def process_from_json(body: Any) -> AttemptProcess | None:
    """Where an attempt runs, None if it does not say. Raises WireError."""
    told = _table("attempt", body).get("process")
    if told is None:
        return None
    data = _table("process", told)
    task = data.get("spark_task")
    return AttemptProcess(
        _text("process.machine", data.get("machine")),
        _integer("process.pid", data.get("pid")),
        _integer("process.started", data.get("started")),
        None if task is None else _integer("process.spark_task", task),
        _place(data.get("place")),
    )


def _place(told: Any) -> Place | None:
    if told is None:
        return None
    data = _table("process.place", told)
    executor = data.get("executor")
    return Place(
        _text("process.place.host", data.get("host")),
        None if executor is None else _text("process.place.executor", executor),
    )


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WireError(f"{name}: expected an object, got {type(value).__name__}")
    return value


def _mapping(name: str, value: Any, item: Callable[[str, Any], V]) -> dict[str, V]:
    return {key: item(f"{name}.{key}", entry) for key, entry in _table(name, value).items()}


def _integer(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WireError(f"{name}: expected an integer, got {type(value).__name__}")
    return value


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise WireError(f"{name}: expected a number, got {type(value).__name__}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise WireError(f"{name}: expected text, got {type(value).__name__}")
    return value[:TEXT_LIMIT]


def _list(name: str, value: Any, length: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise WireError(f"{name}: expected a list of {length}")
    return value


def _restored(name: str, value: Any) -> tuple[int, float, str]:
    records, seconds, source = _list(name, value, 3)
    return _integer(name, records), _number(name, seconds), _text(name, source)


def _pair(name: str, value: Any) -> tuple[int, int]:
    done, total = _list(name, value, 2)
    return _integer(name, done), _integer(name, total)


def _optional(name: str, value: Any) -> int | None:
    return None if value is None else _integer(name, value)


def _task_progress(name: str, value: Any) -> TaskProgress:
    data = _table(name, value)
    times = data.get("checkpoints")
    if times is not None and not isinstance(times, list):
        raise WireError(f"{name}.checkpoints: expected a list")
    return TaskProgress(
        _optional(f"{name}.clock", data.get("clock")),
        _text(f"{name}.held_by", data.get("held_by", "")),
        data.get("idle") is True,
        None if times is None else tuple(_integer(f"{name}.checkpoints", time) for time in times),
        data.get("open") is True,
    )


def _metrics(name: str, value: Any) -> dict[str, float]:
    return _mapping(name, value, _number)
