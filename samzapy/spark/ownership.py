"""The job as the property of whoever writes a store of it: no run goes on unseen, and nothing stays half written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import closing

from samzapy.admin.positions import MEMBER
from samzapy.admin.take_over import take_over_by_tool
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.config.job import JobConfig
from samzapy.container.outputs.producers import fence
from samzapy.container.supervision.job_ownership import Ownership
from samzapy.errors import SamzapyError
from samzapy.job.expansion import to_json
from samzapy.spark.partition_writer import write_clients, writer_id, writer_member
from samzapy.spark.tasks import JobTasks
from samzapy.system.clients import SystemClients

_LOG = logging.getLogger(__name__)


def own(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    tasks: JobTasks,
    unseen: str,
    wait: Callable[[float], object],
) -> JobRun:
    """Become the job's owner, so that a run that goes on `unseen` lets go, and write down what a start would.

    Without transactions nothing fences such a run: then `wait` for as many seconds as it takes to notice.
    """
    members = [MEMBER, *map(writer_member, tasks.names)]
    names = list(tasks.names.values())
    claim = take_over_by_tool(config, clients, checkpoints, members, names, wait, unseen=bool(unseen))
    if checkpoints.read_changelog_partitions() != tasks.changelog_partitions:
        checkpoints.write_changelog_partitions(tasks.changelog_partitions)
    inputs = to_json(tasks.inputs)
    if checkpoints.read_record(JobRecord.INPUTS) != inputs:
        checkpoints.write_record(JobRecord.INPUTS, inputs)
    return claim.run


def abort_open(config: JobConfig, run_id: str, system: str, partitions: Iterable[int], timeout_ms: int) -> None:
    """Abort what failed attempts have left open, which readers of the changelog would wait for; best effort.

    Not when the job is another run's by now: it has done so itself.
    """
    with closing(write_clients(config, timeout_ms)) as clients, closing(Ownership(config, run_id)) as ownership:
        try:
            ownership.look()
            fence(clients, system, [writer_id(config, number) for number in partitions])
        except SamzapyError as cause:
            _LOG.warning("An open transaction is left to its time-out: %s", cause)
