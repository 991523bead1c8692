"""Runs the driver's side of a job, wherever its containers run: the coordinator, and the rows of the table of
checks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import final

from samzapy.admin.positions import CHECKPOINT_CLOCK
from samzapy.api.checkpoint import JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.container.supervision import outage
from samzapy.container.supervision.job_records import JobRecords, Ownership
from samzapy.container.supervision.logs import record_of
from samzapy.coordinator.coordinator import Coordinator, Oversight
from samzapy.coordinator.status import ChangelogSize
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import Facts, UserFailure
from samzapy.job.planner import changelog_partition_count
from samzapy.runner.base import PreparedJob
from samzapy.runner.checks import Checks, Row
from samzapy.runner.handover import OwnershipWatch
from samzapy.runner.inputs import InputsWatch

logger = logging.getLogger(__name__)

#: Seconds between two checks of the clock; of the changelogs, and before the first of these.
_CLOCK_PACE_S, _SIZES_PACE_S, _SIZES_FIRST_S = 1.0, 60.0, 5.0
#: Seconds that the clock of the job may stand still, while a task advances, before a warning.
_CLOCK_STALL_S = 120.0


def log_failure(container_id: str, failure: UserFailure) -> None:
    """Log a failure of the user's code that ended an attempt."""
    logger.error("container %s: %s failed\n%s", container_id, failure.where, failure.traceback)


def coordinator_of(
    prepared: PreparedJob,
    spec: JobSpec,
    clock: Clock = SYSTEM_CLOCK,
    on_failure: Callable[[str, UserFailure], None] = log_failure,
) -> Coordinator:
    """The coordinator of a prepared job, for the containers of `spec`. `on_failure` gets the failures of the user's
    code, each of a kind once."""
    config = prepared.config
    return Coordinator(
        config.name,
        spec,
        config.spark.lease_ms / 1000,
        clock,
        downgrades=prepared.guarantee_warnings,
        clocks=prepared.clocks,
        epoch=prepared.epoch,
        oversight=Oversight(
            _CLOCK_STALL_S,
            on_facts=log_lines,
            on_failure=on_failure,
        ),
    )


def log_lines(container_id: str, facts: Facts) -> None:
    """Log the lines that a container sent, as if they had been logged here. An outage is the same one for all
    containers."""
    for line in facts.lines:
        if line.logger == outage.__name__:
            outage.OUTAGES.repeat(f"container {container_id}", line.text)
            continue
        target = logging.getLogger(line.logger)
        if target.isEnabledFor(line.level):
            target.handle(record_of(line, container_id))
    if facts.lines_left_out:
        logger.info("container %s: %d log lines are in its own file only", container_id, facts.lines_left_out)


@contextmanager
def watching(
    prepared: PreparedJob,
    coordinator: Coordinator,
    on_event: Callable[[str], None] = lambda _: None,
    asked: Callable[[], bool] = lambda: False,
) -> Iterator[OwnershipWatch]:
    """Run the checks of a job as long as the context lasts: its owner, its clock, its inputs and its changelogs.
    `on_event` gets lines about handovers, inputs and changelogs. `asked`: whether the run was asked to stop."""
    config = prepared.config
    checks = Checks(JobRecords.of(config, "checks"))

    def drained() -> bool:
        return coordinator.draining and not (asked() or coordinator.stopping or coordinator.abandoned is not None)

    def restart() -> str | None:
        starts_again = inputs.changed and not (asked() or coordinator.draining)
        return prepared.run_id or "" if starts_again else None

    with (
        InputsWatch(prepared, coordinator, checks, on_event) as inputs,
        OwnershipWatch(
            Ownership(config.name, checks.records, prepared.run_id),
            coordinator,
            checks,
            config.spark.lease_ms,
            on_event=on_event,
            restart=restart,
            has_drained=drained,
        ) as watch,
    ):
        ClockKeeper(checks, coordinator)
        watch_sizes(changelogs_of(prepared), coordinator, checks, on_event)
        yield watch


@final
class ClockKeeper:
    """Writes the coordinator's checkpoint clock to the broker after each change, and at the end of the checks.

    After the loss of its driver, a job starts again at that clock. Tasks get a clock only after it is written, so no
    later start needs the states that they then remove. For a job without tasks that keep a state of their own, nothing
    is written. Gearpump calls this `SnapshotStartClock`."""

    def __init__(self, checks: Checks, coordinator: Coordinator) -> None:
        """Adds itself to `checks`."""
        self._records = checks.records
        self._coordinator = coordinator
        checks.add(Row("clock", _CLOCK_PACE_S, self._keep, last=self._keep))

    def _keep(self) -> bool:
        clock = self._coordinator.status().clocks.checkpoint
        if clock is None or clock == self._coordinator.kept_checkpoint_clock or self._coordinator.abandoned is not None:
            return True
        self._records.checkpoints.write_record(JobRecord.CLOCK, {CHECKPOINT_CLOCK: clock})
        self._coordinator.keep_checkpoint_clock(clock)
        return True


def changelogs_of(prepared: PreparedJob) -> dict[str, Sequence[SystemStreamPartition]]:
    """The changelog partitions of each store."""

    def partitions(stream: SystemStream) -> Sequence[SystemStreamPartition]:
        return [SystemStreamPartition(*stream, n) for n in range(changelog_partition_count(prepared.model))]

    stores = prepared.config.stores.values()
    return {store.name: partitions(store.changelog) for store in stores if store.changelog is not None}


def watch_sizes(
    changelogs: Mapping[str, Sequence[SystemStreamPartition]],
    coordinator: Coordinator,
    checks: Checks,
    on_event: Callable[[str], None] = logger.warning,
) -> None:
    """Report the sizes of the changelog partitions of each store to the coordinator from now on. `on_event` gets a line
    for each changelog that has grown."""
    known = {of[0].system_stream: (store, len(of)) for store, of in changelogs.items() if of}

    def size(ssps: Sequence[SystemStreamPartition]) -> ChangelogSize:
        logs = checks.records.clients.offsets(ssps)
        return ChangelogSize(len(ssps), sum(log.upcoming - log.oldest for log in logs.values()))

    def check() -> bool:
        for stream, description in checks.records.clients.describe(known).items():
            store, count = known[stream]
            if description is not None and description.partitions > count:
                known[stream] = store, description.partitions
                on_event(f"warning: {_grown(stream, store, count, description.partitions)}")
        coordinator.note_changelogs({store: size(of) for store, of in changelogs.items()}, _SIZES_PACE_S)
        return True

    if changelogs:
        checks.add(Row("changelogs", _SIZES_PACE_S, check), _SIZES_FIRST_S)


def _grown(stream: SystemStream, store: str, before: int, now: int) -> str:
    return (
        f"changelog {stream} of store '{store}' has grown from {before} to {now} partitions: this run goes on with the "
        "first "
        f"{before}, but no start accepts it, and Kafka takes no partition away. Before the next start copy its entries "
        "to a "
        f"changelog of another name, stores.{store}.changelog (samzapy.dataframe.read_store, then write_store with "
        "place_by)"
    )
