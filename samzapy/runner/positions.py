"""The positions a job has reached, and how an operator moves them while it stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRun
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint.target import Positions, Target
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.job_records import open_job
from samzapy.container.supervision.job_ownership import this_run
from samzapy.container.tasks.task_class import load_task_class
from samzapy.coordinator.clocks import KeptClocks
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.model import JobModel
from samzapy.job.transactions import StateTransactions, state_transactions, transactional_id
from samzapy.runner.clock_keeper import read_clocks
from samzapy.runner.running import NO_DRIVER, refuse_if_running
from samzapy.runner.take_over import take_over
from samzapy.system.clients import SystemClients
from samzapy.system.factories import has_transactions

#: What writes positions, among those that write a job's state.
MEMBER = "positions"


@dataclass(frozen=True)
class JobPositions:
    """Where every task stands (None: it has never committed), what its inputs hold now, the run started last, and how far
    the job has come in event time."""

    checkpoints: Mapping[str, Checkpoint | None]
    logs: Mapping[SystemStreamPartition, OffsetRange]
    owner: JobRun | None
    clocks: KeptClocks


def read_positions(config: JobConfig, model: JobModel) -> JobPositions:
    """As they are committed now; the job may be running. Raises ConfigError for a job without checkpoints."""
    must_keep_checkpoints(config)
    with open_job(config, "checkpoint") as (clients, checkpoints):
        return _read(model, clients, checkpoints)


def _read(model: JobModel, clients: SystemClients, checkpoints: CheckpointManager) -> JobPositions:
    found = checkpoints.read_all(task.name for task in model.tasks)
    logs: dict[SystemStreamPartition, OffsetRange] = {}
    ssps = {ssp for task in model.tasks for ssp in task.ssps}
    for system in sorted({ssp.system for ssp in ssps}):
        logs.update(clients.admin(system).offsets(sorted(ssp for ssp in ssps if ssp.system == system)))
    return JobPositions(found, logs, checkpoints.read_owner(), read_clocks(checkpoints, model))


@dataclass(frozen=True)
class Move:
    """What to change: all inputs, or `inputs` (`system.stream`, `system.stream[partition]`), to `target`. `take_over`: also
    while a run that cannot be seen from here may be going on; it is made to let go. `dry_run`: only say what would be."""

    target: Target
    inputs: tuple[str, ...] = ()
    take_over: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Moved:
    """One partition of one task: its position before (None: it had none) and after."""

    task: str
    ssp: SystemStreamPartition
    before: int | None
    after: int


def move_positions(
    config: JobConfig,
    model: JobModel,
    move: Move,
    wait: Callable[[float], object],
    clock: Clock = SYSTEM_CLOCK,
) -> list[Moved]:
    """Commit other positions for a job that is not running.

    1  look for a run; refuse if there is one, or may be one elsewhere (unless `take_over`)
    2  become the job's owner, so that any run that goes on unseen lets go; with transactions, fence its containers as
       well; without, `wait` as many seconds as an unseen run takes to notice
    3  read the checkpoints, and write them with the new offsets: all in one transaction, where there are transactions

    Changelog offsets and local stores stay as they are. Raises EnvironmentFailure when refused, ConfigError for a job whose
    tasks keep positions with states of their own: a startpoint moves those, too.
    """
    must_keep_checkpoints(config)
    _refuse_own_state(config)
    with open_job(config, "checkpoint") as (clients, checkpoints):
        unseen = refuse_if_running(config, checkpoints.read_owner(), anyway=move.dry_run, take_over=move.take_over)
        before = _read(model, clients, checkpoints)
        chosen = {ssp: before.logs[ssp] for ssp in chosen_inputs(before.logs, move.inputs)}
        after = move.target.offsets(config, chosen, clients.admin)
        if not move.dry_run:
            checkpoints.start()
            state = state_transactions(config, has_transactions)
            tasks = [task.name for task in model.tasks]
            run = replace(this_run(clock), pid=NO_DRIVER)
            claim = take_over(config, clients, checkpoints, state, [MEMBER], tasks, wait, run=run)
            if unseen and claim.state.system is None and not claim.waited:
                wait(config.spark.lease_ms / 1000)
            before = _read(model, clients, checkpoints)
            write_checkpoints(config, clients, checkpoints, claim.state, _moved(before, after, model, clock))
    return [
        Moved(task.name, ssp, _committed(before, task.name).get(ssp), after[ssp])
        for task in model.tasks
        for ssp in sorted(task.ssps)
        if ssp in after
    ]


def _refuse_own_state(config: JobConfig) -> None:
    path = config.task.task_class
    try:
        task_class = load_task_class(path)
    except ConfigError:
        # A class that is not to be had here says nothing about its positions.
        return
    if issubclass(task_class, StateCheckpointTask):
        message = "keeps its positions with a state of its own; use `samzapy startpoint set`, which moves both"
        raise ConfigError([ConfigProblem("task.class", path, message)])


def write_checkpoints(
    config: JobConfig,
    clients: SystemClients,
    checkpoints: CheckpointManager,
    state: StateTransactions,
    changed: Mapping[str, Checkpoint],
) -> None:
    """Write them all at once, in a transaction where there are transactions. The job is this process's (`take_over` with
    `MEMBER`)."""
    if state.system is None:
        checkpoints.write(changed)
        return
    producer = clients.transactional(state.system, transactional_id(config.job_name, MEMBER))
    producer.init_transactions()
    producer.begin()
    checkpoints.write(changed, producer)
    producer.commit()


def _moved(before: JobPositions, after: Positions, model: JobModel, clock: Clock) -> dict[str, Checkpoint]:
    changed = {}
    for task in model.tasks:
        moved = {ssp: after[ssp] for ssp in task.ssps if ssp in after}
        if not moved:
            continue
        old = before.checkpoints[task.name] or Checkpoint({})
        changed[task.name] = replace(
            old,
            input_offsets={**old.input_offsets, **moved},
            time_ms=clock.wall_ms(),
            # What the messages before the old position had brought is not what those before the new one bring.
            event_times={ssp: each for ssp, each in old.event_times.items() if ssp not in moved},
            senders={ssp: each for ssp, each in old.senders.items() if ssp not in moved},
            held_by="",
            idle=(),
        )
    return changed


def _committed(positions: JobPositions, task: str) -> Mapping[SystemStreamPartition, int]:
    checkpoint = positions.checkpoints[task]
    return {} if checkpoint is None else checkpoint.input_offsets


def chosen_inputs(
    logs: Iterable[SystemStreamPartition], inputs: tuple[str, ...], key: str = "--input"
) -> list[SystemStreamPartition]:
    """Those of the partitions that `inputs` (`system.stream`, `system.stream[partition]`) name; all for none. Raises
    ConfigError for a text that names none; `key` is what the caller calls them."""
    known = sorted(logs)
    if not inputs:
        return known
    chosen: set[SystemStreamPartition] = set()
    for text in inputs:
        matching = [ssp for ssp in known if text in {str(ssp), str(ssp.system_stream)}]
        if not matching:
            names = ", ".join(dict.fromkeys(str(ssp.system_stream) for ssp in known))
            problem = ConfigProblem(key, text, f"an input of the job ({names}), or a partition of one like a.b[0]")
            raise ConfigError([problem])
        chosen.update(matching)
    return sorted(chosen)


def must_keep_checkpoints(config: JobConfig) -> None:
    """Raise ConfigError for a job without checkpoints."""
    if config.task.checkpoint is None:
        raise ConfigError([ConfigProblem("task.checkpoint.factory", "none", "the job keeps no positions")])
