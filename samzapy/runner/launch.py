"""Runs a job from its checked file to its end: the part that the command line and Python programs share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from samzapy.admin.user_code import imported_code
from samzapy.config.job import JobConfig
from samzapy.container.supervision.log_files import PageAddress
from samzapy.coordinator.status import JobStatus
from samzapy.errors import JobTakenOver
from samzapy.failpoints import reach
from samzapy.runner.base import JobOutcome, PreparedJob, Restart, Runner, RunOptions
from samzapy.runner.inputs import await_inputs
from samzapy.runner.prepare import preparing
from samzapy.runner.stopping import StopSignals


def checked(config: JobConfig, runner: Callable[[], Runner]) -> tuple[JobConfig, Runner, tuple[str, ...]]:
    """Import the user's code, make the runner and let it check the job; returns the job to run, runner and warnings.

    Creates nothing and connects to nothing. Raises ConfigError, EnvironmentFailure.
    """
    imported_code(config)
    built = runner()
    fitted = built.fit(config)
    return fitted, built, built.check(fitted)


def launch(
    config: JobConfig,
    runner: Runner,
    options: RunOptions,
    shown: AbstractContextManager[object],
    *,
    until_end: bool,
    unfit: tuple[str, ...] = (),
) -> JobOutcome:
    """Run a job to its end as `launch_once` does, and again from the beginning for each change of its inputs."""
    restart: Restart | None = Restart()
    while restart is not None:
        outcome = launch_once(config, runner, options, shown, until_end=until_end, unfit=unfit, restart=restart)
        restart = outcome.restart
    return outcome


def launch_once(
    config: JobConfig,
    runner: Runner,
    options: RunOptions,
    shown: AbstractContextManager[object],
    *,
    until_end: bool,
    unfit: tuple[str, ...] = (),
    restart: Restart = Restart(),  # noqa: B008  # frozen
) -> JobOutcome:
    """Check the surroundings of a job, claim it and run it; blocks. `shown` is entered after the checks. `unfit`: the
    warnings of `checked`; they and the job's go to `options.on_event`. `restart`: from the outcome of the run before,
    if the job starts again. If another run has taken the job over meanwhile, this one ends well.

    Raises ConfigError, EnvironmentFailure, and the errors of the run.
    """
    page = PageAddress(config.supervision.log, config.job_name)
    claimed = False

    def on_page(address: str) -> None:
        page.write(address)
        options.on_page(address)

    def on_claimed(prepared: PreparedJob) -> None:
        nonlocal claimed
        claimed = True
        if restart.after is not None:
            reach("inputs.4")
        for warning in (*unfit, *prepared.warnings):
            options.on_event(f"warning: {warning}")
        for weaker in prepared.guarantee_warnings:
            if not weaker.durability:
                options.on_event(f"weaker than {config.task.guarantee.value}: {weaker}")
        options.on_claimed(prepared)

    listeners = replace(options, on_page=on_page, on_claimed=on_claimed)
    awaited, stopped = _awaited(config, options, until_end=until_end)
    if stopped:
        return _without_containers(config)
    with preparing(config, until_end=until_end, awaited=awaited, safe=options.safe, restart=restart) as start, shown:
        try:
            return runner.run(start, listeners)
        except JobTakenOver as taken:
            if restart.after is None or claimed:
                raise
            options.on_event(f"{taken}: this run ends")
            return _without_containers(config)
        finally:
            page.remove()


def _without_containers(config: JobConfig) -> JobOutcome:
    """The outcome of a run that has ended before it had containers."""
    status = JobStatus(name=config.name, stopping=True)
    return JobOutcome(status, stopped=True)


def _awaited(config: JobConfig, options: RunOptions, *, until_end: bool) -> tuple[bool, bool]:
    """Wait for the first input, if the job has to; returns whether it has waited, and whether a stop has ended the
    wait."""
    if until_end or config.task.refresh_ms is None:
        return False, False
    with StopSignals() as signals:
        awaited = await_inputs(config, options.on_event, lambda: signals.received or options.stop.asked)
    return awaited, signals.received or (awaited and options.stop.asked)
