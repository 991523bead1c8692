"""Every workload, in the order in which they are measured."""

from __future__ import annotations

from benchmarks.guarantees import Guarantees, Tasks
from benchmarks.recovery import Restart, RestoreLarge
from benchmarks.takeover import Takeover
from benchmarks.workloads import KeyedCount, Latency, PassThrough, Restore, Workload

WORKLOADS: dict[str, type[Workload]] = {
    each.name: each
    for each in (PassThrough, KeyedCount, Restore, RestoreLarge, Restart, Takeover, Latency, Guarantees, Tasks)
}
VARIANTS = tuple(dict.fromkeys(variant for workload in WORKLOADS.values() for variant in workload.variants))
