"""What a container is handed when it registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samzapy.api.stream import SystemStreamPartition
from samzapy.job.model import JobModel


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
