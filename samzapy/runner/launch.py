"""Runs a job from its checked file to its end: the part that the command line and Python programs share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from samzapy.admin.user_code import imported_code
from samzapy.config.job import JobConfig
from samzapy.container.supervision.log_files import PageAddress
from samzapy.coordinator.status import JobStatus
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions
from samzapy.runner.driver import StopSignals
from samzapy.runner.prepare import preparing
from samzapy.runner.refresh import await_inputs


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
    """Check the surroundings of a job, claim it and run it; blocks. `shown` is entered after the checks. `unfit`: the
    warnings of `checked`; they and the job's go to `options.on_event`.

    Raises ConfigError, EnvironmentFailure, and the errors of the run.
    """
    page = PageAddress(config.supervision.log, config.job_name)

    def on_page(address: str) -> None:
        page.write(address)
        options.on_page(address)

    def on_claimed(prepared: PreparedJob) -> None:
        for warning in (*unfit, *prepared.warnings):
            options.on_event(f"warning: {warning}")
        for weaker in prepared.guarantee_warnings:
            if not weaker.durability:
                options.on_event(f"weaker than {config.task.guarantee.value}: {weaker}")
        options.on_claimed(prepared)

    listeners = replace(options, on_page=on_page, on_claimed=on_claimed)
    awaited, stopped = _awaited(config, options, until_end=until_end)
    if stopped:
        status = JobStatus(config.name, stopping=True, seconds=0.0, containers=(), restored=(), failures=())
        return JobOutcome(status, stopped=True)
    with preparing(config, until_end=until_end, awaited=awaited, safe=options.safe) as start, shown:
        try:
            return runner.run(start, listeners)
        finally:
            page.remove()


def _awaited(config: JobConfig, options: RunOptions, *, until_end: bool) -> tuple[bool, bool]:
    """Wait for the first input, if the job has to; returns whether it has waited, and whether a stop has ended the wait."""
    if until_end or config.task.refresh_ms is None:
        return False, False
    with StopSignals() as signals:
        awaited = await_inputs(config, options.on_event, lambda: signals.received or options.stop.asked)
    return awaited, signals.received or (awaited and options.stop.asked)
