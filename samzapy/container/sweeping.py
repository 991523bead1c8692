"""Looks for orphaned local stores once a start, beside everything else: deleting a large one takes its time."""

from __future__ import annotations

import threading
from collections.abc import Collection

from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.storage.local.orphans import sweep_orphans


def sweep_in_background(config: JobConfig, tasks: Collection[str], clock: Clock) -> threading.Thread | None:
    """Sweep the logged stores of the job on this machine, but for those of `tasks`; None if there is nothing to do."""
    ttl_ms = config.placement.orphan_ttl_ms
    if ttl_ms < 0 or not any(store.changelog is not None for store in config.stores.values()):
        return None
    arguments = (config.logged_store_base_dir, config.job_name, frozenset(tasks), ttl_ms, clock.wall_ms())
    thread = threading.Thread(target=sweep_orphans, args=arguments, name="samzapy-orphans", daemon=True)
    thread.start()
    return thread
