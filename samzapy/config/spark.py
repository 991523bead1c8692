"""`job.spark.*`: where containers run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SparkConfig:
    """`master` (default `local[N,4]`, N the container count); `conf` are Spark's own keys given as
    `job.spark.conf.spark.*`; `py_files` are shipped to the executors; a container that is lost for good is resubmitted
    up to `max_resubmits` times, after `resubmit_backoff_ms` that doubles up to `resubmit_backoff_max_ms`."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    max_resubmits: int = 8
    resubmit_backoff_ms: int = 1_000
    resubmit_backoff_max_ms: int = 30_000
    lease_ms: int = 15_000
    coordinator_host: str | None = None
    coordinator_port: int = 0
