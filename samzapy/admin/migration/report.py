"""Reports the results of a migration, or of a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samzapy.admin.migration.plan import MigrationPlan, StoreForm
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.stores import StoreConfig


@dataclass(frozen=True)
class Misfit:
    """An entry that cannot be rewritten, as found in the changelog; `offset`: None until it is looked up."""

    ssp: SystemStreamPartition
    key: bytes
    value: bytes
    reason: str
    offset: int | None = None

    def __str__(self) -> str:
        place = str(self.ssp) if self.offset is None else f"{self.ssp}@{self.offset}"
        return f"{place}: {self.reason}"


@dataclass
class Counts:
    """The numbers of entries of one partition: read, rewritten with a value, deleted by the function, and `misfits`,
    which do not fit."""

    entries: int = 0
    rewritten: int = 0
    deleted: int = 0
    misfits: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        """The numbers as text."""
        return tuple(f"{count:,}" for count in (self.entries, self.rewritten, self.deleted, self.misfits))


@dataclass(frozen=True)
class PartitionMigrated:
    """One changelog partition, and the task that has it; `counts` None: an earlier call has rewritten it."""

    partition: int
    task: str | None
    counts: Counts | None


@dataclass(frozen=True)
class StoreMigrated:
    """The results, or in a dry run the expected results; `misfits` are the first entries that do not fit."""

    plan: MigrationPlan
    partitions: Sequence[PartitionMigrated]
    misfits: Sequence[Misfit]

    @property
    def misfit_count(self) -> int:
        """The number of all entries that do not fit."""
        return sum(each.counts.misfits for each in self.partitions if each.counts is not None)

    def to_be_configured(self, store: StoreConfig) -> list[str]:
        """The keys, with values, that the job file must get to read the new entries; empty if it has them."""
        now, target = StoreForm.of_store(store).leaves, self.plan.target.leaves
        return [
            f"stores.{store.name}.{leaf}={target.get(leaf, '')}"
            for leaf in dict.fromkeys((*target, *now))
            if now.get(leaf) != target.get(leaf)
        ]
