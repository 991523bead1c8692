"""Rewrites a store with other serdes or classes. `protocol` has the steps, `plan` decides on source and target,
`rewriting` converts the entries of a partition, `writing` brings them to the changelog."""

from samzapy.admin.migration.plan import StoreForm
from samzapy.admin.migration.protocol import MigrationRequest, migrate_store
from samzapy.admin.migration.report import Misfit, PartitionMigrated, StoreMigrated

__all__ = [
    "MigrationRequest",
    "Misfit",
    "PartitionMigrated",
    "StoreForm",
    "StoreMigrated",
    "migrate_store",
]
