"""Which partitions form a task. Broadcast partitions join every task and never form one alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from samzapy.api.stream import SystemStreamPartition

#: Tasks by name.
Groups = dict[str, frozenset[SystemStreamPartition]]


def by_partition(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task per partition number, `Partition 3`, with that partition of every input: co-partitioned inputs meet."""
    groups: dict[int, set[SystemStreamPartition]] = defaultdict(set)
    for ssp in ssps:
        groups[ssp.partition].add(ssp)
    return {f"Partition {number}": frozenset(groups[number]) for number in sorted(groups)}


def by_ssp(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task per partition of every input, named as Samza names it."""
    return {f"SystemStreamPartition [{s.system}, {s.stream}, {s.partition}]": frozenset((s,)) for s in sorted(ssps)}


def single(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task, `Task-0`, with everything."""
    return {"Task-0": frozenset(ssps)}


GROUPERS: dict[str, Callable[[Iterable[SystemStreamPartition]], Groups]] = {
    "partition": by_partition,
    "ssp": by_ssp,
    "single": single,
}
