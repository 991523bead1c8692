"""The job as the property of whoever writes a store of it: no run goes on unseen, and nothing stays half written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.container.delivery import transaction_system, transactional_id
from samzapy.container.ownership import Ownership, this_run
from samzapy.errors import SamzapyError
from samzapy.job.expansion import to_json
from samzapy.runner.running import NO_DRIVER
from samzapy.spark.partition_writer import write_clients
from samzapy.spark.tasks import JobTasks

_LOG = logging.getLogger(__name__)
_MOST_AT_ONCE = 8


def own(
    config: JobConfig,
    checkpoints: CheckpointManager,
    tasks: JobTasks,
    unseen: str,
    wait: Callable[[float], object],
) -> JobRun:
    """Become the job's owner, so that a run that goes on `unseen` lets go, and write down what a start would.

    Without transactions nothing fences such a run: then `wait` for as many seconds as it takes to notice.
    """
    run = replace(this_run(SYSTEM_CLOCK), pid=NO_DRIVER)
    checkpoints.start()
    checkpoints.write_owner(run)
    if unseen and transaction_system(config) is None:
        wait(config.spark.lease_ms / 1000)
    if checkpoints.read_changelog_partitions() != tasks.changelog_partitions:
        checkpoints.write_changelog_partitions(tasks.changelog_partitions)
    inputs = to_json(tasks.inputs)
    if checkpoints.read_record(JobRecord.INPUTS) != inputs:
        checkpoints.write_record(JobRecord.INPUTS, inputs)
    return run


def abort_open(config: JobConfig, run_id: str, system: str, task_names: Iterable[str], timeout_ms: int) -> None:
    """Abort what failed attempts have left open, which readers of the changelog would wait for; best effort.

    Not when the job is another run's by now: its tasks have done so themselves, and must not be fenced.
    """
    with closing(write_clients(config, timeout_ms)) as clients, closing(Ownership(config, run_id)) as ownership:
        producers = [clients.transactional(system, transactional_id(config, name)) for name in task_names]
        try:
            ownership.look()
            with ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="samzapy-abort") as pool:
                list(pool.map(lambda producer: producer.init_transactions(), producers))
        except SamzapyError as cause:
            _LOG.warning("An open transaction is left to its time-out: %s", cause)
