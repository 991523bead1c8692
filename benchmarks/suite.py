"""Every workload, in the order in which they are measured."""

from __future__ import annotations

from benchmarks.workloads.base import Workload
from benchmarks.workloads.guarantees import Guarantees, Tasks
from benchmarks.workloads.keyed_count import KeyedCount
from benchmarks.workloads.operator_jobs import OperatorJobs
from benchmarks.workloads.pass_through import PassThrough
from benchmarks.workloads.recovery import Restart, Restore, RestoreLarge
from benchmarks.workloads.takeover import Takeover

WORKLOADS: dict[str, type[Workload]] = {
    each.name: each
    for each in (PassThrough, KeyedCount, Restore, RestoreLarge, Restart, Takeover, Guarantees, Tasks, OperatorJobs)
}
VARIANTS = tuple(dict.fromkeys(variant for workload in WORKLOADS.values() for variant in workload.variants))
