"""Runs the driver's side of a job, wherever its containers run: the coordinator, and the rows of the table of checks.

`InputsWatch` notices changes of the inputs:

    change                          with job.inputs.refresh.ms     without
    a new stream matches            the job starts again           the next start reads it
    a stream has new partitions     the job starts again           a warning; the next start reads them
    a stream was deleted, and       the run fails                  the run fails
    created again under its name

The positions of a job mean nothing in a stream that was created again, and its containers may skip records there
without an error. The job starts again like this:

1  the driver lists and describes the streams, one request per system, at this interval
2  a change that the job can follow: the driver reports it, and every container commits and stops
3  the run notes that its process starts the job again, and ends
4  a command executes itself anew, a program's call starts the job from the beginning: it claims the job, unless another
   run owns it meanwhile, and the containers start from their commits; a new input begins at its oldest record

A new stream that does not fit the job is announced once. A start would refuse it, so the job follows no change while
it is there. If the process dies anywhere between, the next start finds the change as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from samzapy.admin.positions import CHECKPOINT_CLOCK
from samzapy.api.checkpoint import JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import DeletesRecords, StreamDescription
from samzapy.api.task import CopartitionedTask
from samzapy.config.guarantee_warnings import GuaranteeWarning
from samzapy.config.job import JobConfig
from samzapy.container.supervision import outage
from samzapy.container.supervision.job_records import JobRecords, Ownership
from samzapy.container.supervision.logs import record_of
from samzapy.container.tasks.task_builder import load_task_class
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.overview.history import FINE_S
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import EnvironmentFailure
from samzapy.failpoints import reach
from samzapy.job.lease import Facts, UserFailure
from samzapy.job.planner import check_copartitioned, find_inputs, follow_growth, from_json, keeps_state, refusal
from samzapy.runner.base import PreparedJob, RunOptions
from samzapy.runner.checks import Checks, Row
from samzapy.runner.handover import OwnershipWatch
from samzapy.storage.changelog.topic import check_described
from samzapy.system.clients import SystemClients, traits_of

if TYPE_CHECKING:
    from samzapy.coordinator.service import Addresses, CoordinatorService

logger = logging.getLogger(__name__)

#: Seconds between two checks of the clock.
_CLOCK_PACE_S = 1.0
#: Most seconds between two checks, one request per system.
PACE_S = 30.0


def log_report(container_id: str, said: Facts | UserFailure) -> None:
    """Log a failure of the user's code that ended an attempt, and the lines that a container sent, as if they had been
    logged here. An outage is the same one for all containers."""
    if isinstance(said, UserFailure):
        logger.error("container %s: %s failed\n%s", container_id, said.where, said.traceback)
        return
    for line in said.lines:
        if line.logger == outage.__name__:
            outage.OUTAGES.repeat(f"container {container_id}", line.text)
            continue
        target = logging.getLogger(line.logger)
        if target.isEnabledFor(line.level):
            target.handle(record_of(line, container_id))
    if said.lines_left_out:
        logger.info("container %s: %d log lines are in its own file only", container_id, said.lines_left_out)


def coordinator_of(
    prepared: PreparedJob, spec: JobSpec, listen: Callable[[str, Facts | UserFailure], None] = log_report
) -> Coordinator:
    """The coordinator of a prepared job, for the containers of `spec`."""
    config = prepared.config
    return Coordinator(
        config.name,
        spec,
        config.spark.lease_ms / 1000,
        downgrades=prepared.guarantee_warnings,
        clocks=prepared.clocks,
        epoch=prepared.epoch,
        listen=listen,
    )


def serve(config: JobConfig, coordinator: Coordinator, token: str, at: Addresses) -> CoordinatorService:
    """Serve the coordinator of a job to people and tools, at its addresses.

    If the job file turns queries on, containers answer questions about stores, also for the page; else the page reads
    changelogs. Raises EnvironmentFailure if a port is taken, ConfigError for serdes that cannot be made.
    """
    # Not every local run has a server.
    from samzapy.admin.store_queries import JobInspector  # noqa: PLC0415
    from samzapy.coordinator.port import ContainerPorts  # noqa: PLC0415
    from samzapy.coordinator.queries import StoreQueries, no_queries, store_texts  # noqa: PLC0415
    from samzapy.coordinator.service import CoordinatorService  # noqa: PLC0415

    coordinator.links.update(config.page_links)
    ports, inspector = ContainerPorts(coordinator, token), JobInspector(config)
    if not config.supervision.query.enabled:
        return CoordinatorService(coordinator, token, at, routes=[*ports.routes, *no_queries()], inspector=inspector)
    queries = StoreQueries(ports.ask, coordinator.spec.model, store_texts(config), inspector)
    return CoordinatorService(coordinator, token, at, routes=[*ports.routes, *queries.routes], inspector=queries)


@contextmanager
def watching(prepared: PreparedJob, coordinator: Coordinator, options: RunOptions) -> Iterator[OwnershipWatch]:
    """Run the checks of a job as long as the context lasts: its owner, its clock, its inputs and its changelogs. Raises
    EnvironmentFailure at the end if an input was created again."""
    checks = Checks(JobRecords.of(prepared.config, "checks"))
    ownership = Ownership(prepared.config.name, checks.records, prepared.run_id)
    inputs = InputsWatch(prepared, coordinator, checks, options.on_event)
    with OwnershipWatch(ownership, coordinator, checks, options, lambda: inputs.changed) as watch:
        keep_clock(checks, coordinator)
        checks.add(Row("history", FINE_S, coordinator.sample), 0, asks=False)
        watch_changelogs(prepared, coordinator, checks, options.on_event)
        delete_passed(prepared, checks, options.on_event)
        yield watch
    if inputs.replaced:
        raise EnvironmentFailure(inputs.replaced)


def delete_passed(prepared: PreparedJob, checks: Checks, on_event: Callable[[str], None]) -> None:
    """Delete the records of the streams between steps of the job that all commits have passed. Where that is not
    allowed, a line says so."""
    config, names = prepared.config, [task.name for task in prepared.model.tasks]
    own, deleted = set(config.repartitions), dict[SystemStreamPartition, int]()

    def check() -> bool:
        clients, committed = checks.records.clients, checks.records.checkpoints.read(names).values()
        positions = {ssp: at for item in committed if item is not None for ssp, at in item.input_offsets.items()}
        for ssp, at in positions.items():
            admin = clients.admin(ssp.system)
            if ssp.system_stream in own and at > deleted.get(ssp, 0) and isinstance(admin, DeletesRecords):
                try:
                    admin.delete_records(ssp, at)
                except EnvironmentFailure as refused:
                    if refused.outage:
                        raise
                    on_event(f"warning: {ssp} grows, since its passed records are not deleted: {refused}")
                    own.clear()  # also for the look at the end of the run
                    return False
                deleted[ssp] = at
        return True

    if own and config.task.checkpoint is not None:
        checks.add(Row("passed records", PACE_S, check, last=check))


def watch_changelogs(
    prepared: PreparedJob, coordinator: Coordinator, checks: Checks, on_event: Callable[[str], None]
) -> None:
    """Report each changelog that gets more partitions than the job has tasks, or settings that lose state, once; the
    job's status has it from then on."""
    count, stores = prepared.model.changelog_partition_count, prepared.config.changelogs

    def check() -> bool:
        for stream, now in checks.records.clients.describe(stores).items():
            try:
                if now is not None:
                    check_described(now, stores[stream], count)
            except EnvironmentFailure as wrong:
                effect = f"{wrong}. This run goes on, but no start accepts it"
                on_event(f"warning: {effect}")
                coordinator.downgrades.append(GuaranteeWarning(f"stores.{stores.pop(stream).name}.changelog", effect))
        return bool(stores)

    if stores:
        checks.add(Row("changelogs", PACE_S, check))


def keep_clock(checks: Checks, coordinator: Coordinator) -> None:
    """Write the coordinator's checkpoint clock to the broker after each change, and at the end of the checks.

    After the loss of its driver, a job starts again at that clock. Tasks get a clock only after it is written, so no
    later start needs the states that they then remove. For a job without tasks that keep a state of their own, nothing
    is written. Gearpump calls this `SnapshotStartClock`."""

    def keep() -> bool:
        clock = coordinator.status().clocks.checkpoint
        if clock is None or coordinator.abandoned is not None:
            return True
        if clock != coordinator.kept_checkpoint_clock:
            checks.records.checkpoints.write_record(JobRecord.CLOCK, {CHECKPOINT_CLOCK: clock})
            coordinator.keep_checkpoint_clock(clock)
        return True

    checks.add(Row("clock", _CLOCK_PACE_S, keep, last=keep))


@final
class InputsWatch:
    """A row of the checks: the inputs of the job. `changed`: the containers were stopped so that the job starts again.
    `replaced`: an input was created again, as the message of the run's failure; empty for none."""

    def __init__(
        self,
        prepared: PreparedJob,
        coordinator: Coordinator,
        checks: Checks,
        on_event: Callable[[str], None],
        pace_s: float = PACE_S,
    ) -> None:
        """`on_event` gets a line for each change."""
        config = self._config = prepared.config
        self._given = prepared.given or config
        self._coordinator = coordinator
        self._records = checks.records
        self._on_event = on_event
        self._known = {
            stream: description
            for stream, description in prepared.inputs.items()
            if not traits_of(config.systems[stream.system]).read_only
        }
        self._tasks = frozenset(task.name for task in prepared.model.tasks)
        self._task_class = load_task_class(config.task.task_class)
        refresh_ms = self._given.task.refresh_ms
        self._follows = refresh_ms is not None and prepared.endless
        self._refused: set[SystemStream] = set()
        self.changed, self.replaced = False, ""
        if self._known or self._follows:
            checks.add(Row("inputs", pace_s if refresh_ms is None else min(pace_s, refresh_ms / 1000), self._check))

    def _check(self) -> bool:
        clients = self._records.clients
        described = clients.describe(self._known)
        if self._is_replaced(described):
            return False
        changes = self._grown(described)
        if self._follows:
            changes += self._new(clients)
        if changes and not self._refused and not self._coordinator.stopping:
            self.changed = True
            self._on_event(f"{', '.join(changes)}: every task commits, and the job starts again")
            reach("inputs.2")
            self._coordinator.stop()
        return not self.changed

    def _is_replaced(self, described: Mapping[SystemStream, StreamDescription | None]) -> bool:
        """Whether a stream was created again; stops the containers then."""
        for stream, now in described.items():
            before = self._known[stream]
            # A store is filled again from a new side input, without a word of the operator.
            if now is not None and now.stream_id != before.stream_id and stream in self._config.task.all_inputs:
                self.replaced = (
                    f"{stream}: it was deleted and created again while the job ran (id {before.stream_id}, now "
                    f"{now.stream_id}), so the positions of the job mean nothing in it: the job stops; the next start "
                    "says how to go on"
                )
                self._coordinator.stop()
                self._on_event(f"error: {self.replaced}")
                return True
        return False

    def _grown(self, described: Mapping[SystemStream, StreamDescription | None]) -> list[str]:
        """The streams with new partitions that the job follows, as words; reports the others. A container notices by
        itself that its stream is gone."""
        counts = {stream: (now or self._known[stream]).partitions for stream, now in described.items()}
        changes = []
        for stream, now in described.items():
            before = self._known[stream]
            if now is None or now.partitions <= before.partitions:
                continue
            change = f"{stream} has grown from {before.partitions} to {now.partitions} partitions"
            is_input = stream in self._config.task.all_inputs
            reason = self._unfit(counts) if is_input else ""
            if is_input and self._follows and not reason:
                changes.append(change)
                continue
            self._known[stream] = now
            effect = (
                f", and the job goes on without the new ones, but no start accepts them: {reason}"
                if reason
                else ": the next start of the job reads the new ones, from their beginning"
                if is_input
                else ": its stores lack their rows until a start that reads them"
            )
            self._on_event(f"warning: {change}{effect}")
        return changes

    def _unfit(self, counts: Mapping[SystemStream, int]) -> str:
        """The reason why a start would refuse these partition counts; empty if it would not."""
        inputs = {stream: count for stream, count in counts.items() if stream in self._config.task.inputs}
        recorded = from_json(self._records.checkpoints.read_record(JobRecord.INPUTS).newest)
        try:
            followed = follow_growth(recorded, inputs, keeps_state=keeps_state(self._config.stores))
            check_copartitioned(self._config, followed, self._task_class)
        except EnvironmentFailure as refused:
            return str(refused)
        return ""

    def _new(self, clients: SystemClients) -> list[str]:
        """The new streams that the job can follow, as words; reports the others."""
        listed = clients.names({pattern.stream.system for pattern in self._given.task.patterns})
        matching = find_inputs(self._given, listed).streams - set(self._config.task.inputs)
        joining = issubclass(self._task_class, CopartitionedTask)
        changes, refused = [], set()
        for stream, description in clients.describe(matching).items():
            if description is None:
                continue  # it is gone again
            reason = refusal(self._given, stream, description.partitions, self._tasks, joining=joining)
            if reason is None:
                changes.append(f"{stream} is a new input")
                continue
            refused.add(stream)
            if stream not in self._refused:
                self._on_event(f"warning: task.inputs: {reason}; the job goes on without it")
        self._refused = refused
        return changes
