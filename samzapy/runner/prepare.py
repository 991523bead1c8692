"""Checks and sets up a job before any container runs; creates nothing before everything is checked.

`preparing` stops before the first step that needs ownership, so that the previous run goes on while a runner gets ready
to claim the job."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from samzapy.admin.job_check import check_copies, checked_inputs, refuse_renamed, resolved, streams_of, weakly_kept
from samzapy.admin.positions import kept_clocks
from samzapy.admin.running import has_ended, may_answer
from samzapy.admin.take_over import Claim, refuse_foreign, take_over
from samzapy.admin.user_code import JobCode, checked_code
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import AnyTask, CopartitionedTask, StreamTask
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import peek_owner, read_changelog_partitions, refuse_copied, write_changelog_partitions
from samzapy.config.guarantee_warnings import guarantee_warnings
from samzapy.config.job import JobConfig, checkpoint_stream
from samzapy.config.reading.keys import keys_of
from samzapy.config.streams.systems import BETWEEN, LOG, new_stream
from samzapy.config.task import AsyncConfig
from samzapy.container.outputs.producers import check_transaction_timeout, transactional_id, weakened_state
from samzapy.container.supervision.job_records import HandoverRequest, open_job, this_run
from samzapy.container.tasks.task_builder import never_called
from samzapy.coordinator.clocks import KeptClocks
from samzapy.errors import JobTakenOver
from samzapy.failpoints import arm_from_environment, reach
from samzapy.job.planner import (
    InputPartitions,
    JobModel,
    check_copartitioned,
    follow_growth,
    forget_gone,
    from_json,
    growth,
    keeps_state,
    late_inputs,
    parted,
    plan,
    refuse_further_tasks,
    to_json,
    without_idle_standbys,
)
from samzapy.runner.base import PreparedJob, StartableJob
from samzapy.runner.handover import Handover
from samzapy.runner.spark.master import stays_here
from samzapy.storage.changelog.topic import changelog_spec, check_described, vanished
from samzapy.storage.local.directory import check_writable
from samzapy.storage.spec import check_checkpoints, make_ready
from samzapy.system.clients import KnownStreams, SystemClients, load_factory


def prepare(config: JobConfig, *, until_end: bool = False) -> PreparedJob:
    """Check, claim and set up, in this order. An active run of the job is fenced; it is not asked to hand the job over.

    0  find the inputs that the patterns of the job file match
    1  check that the systems allow the guarantee, that the task class and the stores' engines can be imported, and that
       the systems and engines accept their settings
    2  check that every input exists, including the inputs of stores and the stream of dead letters; count the
       partitions
    3  if the job's checkpoints exist already, take the job over, as described in `take_over`
    4  refuse inputs that earlier runs have read under other names; build the model: tasks keep their changelog
       partitions, and with state they get the inputs' new partitions; check that the existing changelogs are compacted,
       have a partition for each task, hold no records of another job, and are not the old ones of copied stores
    5  create the checkpoint topic (or folder), if there is none, and take the job over
    6  create the missing changelogs and the streams of metrics
    7  read the present ends of the inputs, with `until_end` and for `bounded` streams
    8  list the warnings about the guarantee, including warnings about copies of changelogs and checkpoints

    Inputs with different partition counts cause a warning (Samza's rule: one task for each partition number of the
    largest), and for a CopartitionedTask, which would miss matches, an error. Raises ConfigError, EnvironmentFailure.
    """
    with preparing(config, until_end=until_end) as job:
        return job.claim()


@contextmanager
def preparing(
    given: JobConfig, *, until_end: bool = False, after: str = "", safe: bool = False
) -> Iterator[StartableJob]:
    """Do steps 0 to 2 of `prepare`. The job's `claim` does the others, and asks an active run to let go. `after`: the
    id of the run that has ended so that this one starts the job again; empty for none. `safe`: see
    `HandoverRequest`."""
    arm_from_environment(os.environ)
    run, config = this_run(), resolved(given)
    code = checked_code(config)
    code.streams.make_ready()
    make_ready(code.engines, code.serdes)
    if stays_here(config):
        for base in {config.base_dir(config.stores[name]) for name, spec in code.engines.items() if spec.persistent}:
            check_writable(base)
    config = without_idle_standbys(config, [name for name, spec in code.engines.items() if spec.persistent])
    with open_job(config, "driver") as (clients, checkpoints):
        streams = KnownStreams(clients)
        streams.fetch(streams_of(config))
        counts = checked_inputs(config, streams)
        check_transaction_timeout(config.task.transaction_timeout_ms, clients, code.state.system)
        check_copies(config, clients.admin, streams)
        job = _CheckedJob(
            given=given,
            config=config,
            code=code,
            clients=clients,
            checkpoints=checkpoints,
            streams=streams,
            counts=counts,
            run=run,
            until_end=until_end,
            after=after,
            safe=safe,
        )
        with closing(job):
            yield job


@dataclass(eq=False, kw_only=True)
class _CheckedJob(StartableJob):
    """A job after step 2 of `prepare`. `config`: the job file `given`, with streams in place of its patterns, and
    without idle standbys. `streams`: as they were at the first check."""

    given: JobConfig
    config: JobConfig
    code: JobCode
    clients: SystemClients
    checkpoints: CheckpointManager
    streams: KnownStreams
    counts: Mapping[SystemStream, int]
    run: JobRun
    until_end: bool
    after: str
    safe: bool
    handover: Handover | None = None

    def __post_init__(self) -> None:
        self.model = plan(self.config, self.counts)

    @property
    def endless(self) -> bool:
        return not self.until_end and not any(self.config.stream(stream).bounded for stream in self.counts)

    def announce(self) -> bool:
        config, checkpoints = self.config, self.checkpoints
        if not config.handover_ms or self.after or not self._started_before():
            return False
        before, complete = peek_owner(checkpoints)
        if before is None or before.job != (config.name, config.id) or not may_answer(before):
            return False
        if complete and has_ended(checkpoints, before):
            return False
        request = HandoverRequest(before.id, self.run, safe=self.safe)
        self.handover = Handover(config, before, request, goes_on=may_answer)
        self.handover.begin()
        return True

    def claim(self) -> PreparedJob:
        """Steps 3 to 8. Raises JobTakenOver if the run that starts again has lost the job meanwhile."""
        config, task_class = self.config, self.code.task_class
        owner, _ = peek_owner(self.checkpoints) if self.after else (None, True)
        if owner is not None and owner.id != self.after:
            raise JobTakenOver.by(config.name, owner.started_ms, owner.host, owner.pid)
        if self.handover is not None:
            self.handover.complete()
        # 3  the job is taken over
        claim = self._take_over(self.model, self.run) if self._started_before() else None
        # 4  the model
        with one_pass(self.checkpoints):
            planned = self._plan()
            clocks, missing = self._check_state(planned.model)
        # 5  checkpoints
        self.checkpoints.start()
        if claim is None or not _covers(claim, config.job_name, planned.model):
            claim = self._take_over(planned.model, self.run if claim is None else claim.run)
        # 6  streams
        self._create(missing, planned.model.changelog_partition_count)
        self._record(planned)
        # This context lasts as long as the run: a reader would go on fetching the containers' checkpoints.
        self.checkpoints.close()
        reach("handover.7")
        kept = weakly_kept(config, self.streams)
        weaker = guarantee_warnings(config, load_factory, task_class)
        return PreparedJob(
            config=config,
            model=planned.model,
            ends=self._ends(planned.model),
            warnings=tuple(_warnings(config, self.counts, planned.inputs, task_class)),
            run_id=claim.run.id,
            guarantee_warnings=(*weaker, *weakened_state(config.stores, claim.state), *kept),
            clocks=clocks,
            transactions=claim.state.system is not None,
            epoch=None if config.task.checkpoint is None else claim.run.epoch,
            lease_ms=claim.run.lease_ms,
            given=self.given,
            inputs={
                stream: result
                for stream in config.task.all_inputs | config.sources
                if (result := self.streams(stream)) is not None
            },
        )

    def close(self) -> None:
        if self.handover is not None:
            self.handover.close()

    def _started_before(self) -> bool:
        """Whether the job has checkpoints already, and so may have an owner."""
        stream = checkpoint_stream(self.config)
        return stream is not None and self.streams(stream) is not None

    def _take_over(self, model: JobModel, run: JobRun) -> Claim:
        members = [container.id for container in model.containers]
        tasks = [task.name for task in model.tasks]
        wait = threading.Event().wait
        return take_over(self.config, self.clients, self.checkpoints, self.code.state, members, tasks, wait, run=run)

    def _plan(self) -> _Planned:
        """The model of the job, from its inputs and the records of earlier runs."""
        config, checkpoints, counts, patterns = self.config, self.checkpoints, self.counts, self.given.task.patterns
        refuse_renamed(config, checkpoints, self.streams)
        before = from_json(checkpoints.read_record(JobRecord.INPUTS).newest)
        known = forget_gone(before, config.task.inputs, patterns)
        late = late_inputs(config, patterns, known, ever=bool(before))
        inputs = follow_growth(known, counts, keeps_state=keeps_state(config.stores), late=late)
        check_copartitioned(config, inputs, self.code.task_class)
        previous = read_changelog_partitions(checkpoints)
        if patterns:
            refuse_further_tasks(config, counts, counts.keys() - known.keys(), previous)
        return _Planned(plan(config, counts, previous, inputs), inputs, before, previous)

    def _check_state(self, model: JobModel) -> tuple[KeptClocks, set[SystemStream]]:
        """The clocks of earlier runs, and the changelogs that do not exist yet. Raises unless the existing changelogs
        fit the stores and hold no records of another job."""
        config, checkpoints = self.config, self.checkpoints
        refuse_copied(checkpoints, config.stores)
        committed = checkpoints.read(task.name for task in model.tasks)
        clocks = kept_clocks(committed, checkpoints.read_record(JobRecord.CLOCK).newest)
        check_checkpoints(self.code.engines, committed.values())
        partitions = model.changelog_partition_count
        missing = set()
        for stream, store in config.changelogs.items():
            description = self.streams(stream)
            if description is None:
                missing.add(stream)
            else:
                check_described(description, store, partitions)
        refuse_foreign(config, model, committed, checkpoints, self.clients, self.streams)
        return clocks, missing

    def _create(self, missing: Collection[SystemStream], partitions: int) -> None:
        """Create the `missing` changelogs, and the streams of metrics."""
        logged = self.config.changelogs
        specs = {stream: changelog_spec(logged[stream], partitions) for stream in missing}
        reported = [item.stream for item in self.config.metrics_reporters if item.stream]
        systems = self.config.systems
        specs |= {stream: new_stream(systems[stream.system], stream.stream, 1, LOG) for stream in reported}
        between = [item for item in sorted(self.config.repartitions) if self.streams(item) is None]
        specs |= {item: new_stream(systems[item.system], item.stream, self.counts[item], BETWEEN) for item in between}
        self.clients.create(specs)
        self.streams.fetch([*missing, *between])
        for stream in missing:
            created = self.streams(stream)
            if created is None:
                raise vanished(logged[stream], stream.stream)
            check_described(created, logged[stream], partitions)

    def _record(self, planned: _Planned) -> None:
        owned = {task.name: task.changelog_partition for task in planned.model.tasks}
        write_changelog_partitions(self.checkpoints, {**planned.changelog_partitions, **owned})
        if planned.inputs != planned.inputs_before:
            self.checkpoints.write_record(JobRecord.INPUTS, to_json(planned.inputs))

    def _ends(self, model: JobModel) -> dict[SystemStreamPartition, int] | None:
        read = {ssp for task in model.tasks for ssp in task.ssps}
        # The job's own tasks end the streams between its steps.
        own = self.config.repartitions
        given = {ssp for ssp in read if ssp.system_stream not in own}
        bounded = {ssp for ssp in given if self.until_end or self.config.stream(ssp.system_stream).bounded}
        return {ssp: offsets.upcoming for ssp, offsets in self.clients.offsets(bounded).items()} or None


@dataclass(frozen=True)
class _Planned:
    """The model of the job and its inputs; the inputs and the changelog partitions as earlier runs have recorded
    them."""

    model: JobModel
    inputs: Mapping[SystemStream, InputPartitions]
    inputs_before: Mapping[SystemStream, InputPartitions]
    changelog_partitions: Mapping[str, int]


def _covers(claim: Claim, job_name: str, model: JobModel) -> bool:
    """Whether the record of the run has the transactional ids of all containers of the model."""
    ids = {transactional_id(job_name, container.id) for container in model.containers}
    return ids <= set(claim.run.transactional_ids or ())


def _warnings(
    config: JobConfig,
    counts: Mapping[SystemStream, int],
    inputs: Mapping[SystemStream, InputPartitions],
    task_class: type[AnyTask],
) -> Iterable[str]:
    yield from config.warnings
    yield from never_called(task_class, config.task.window_ms)
    yield from growth(inputs, counts)
    # With a task for each partition no task expects them to meet. Of one that joins its inputs this is known.
    if config.grouper != "ssp" and not issubclass(task_class, CopartitionedTask) and (apart := parted(config, inputs)):
        yield f"task.inputs: {apart}"
    if issubclass(task_class, StreamTask) and config.task.asynchronous != AsyncConfig():
        given = [key.name for key in keys_of(AsyncConfig) if key.name in config.resolved]
        yield f"{', '.join(given)}: without effect on a StreamTask, which processes messages one by one"
