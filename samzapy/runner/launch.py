"""Runs a job from its checked file to its end: the part that the command line and Python programs share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from samzapy.admin.user_code import imported_code
from samzapy.config.job import JobConfig
from samzapy.container.supervision.logs import PageAddress, log_folder
from samzapy.coordinator.status import JobStatus
from samzapy.errors import JobTakenOver
from samzapy.failpoints import reach
from samzapy.runner.base import JobOutcome, PreparedJob, Runner, RunOptions
from samzapy.runner.prepare import preparing


def checked(config: JobConfig, runner: Callable[[], Runner]) -> tuple[JobConfig, Runner]:
    """Import the user's code, make the runner and let it check the job; returns the job to run, and the runner.

    Creates nothing and connects to nothing. Raises ConfigError, EnvironmentFailure.
    """
    imported_code(config)
    built = runner()
    return built.fit(config), built


def launch(
    config: JobConfig, runner: Runner, options: RunOptions, shown: AbstractContextManager[object], *, until_end: bool
) -> JobOutcome:
    """Run a job to its end as `launch_once` does, and again from the beginning as often as it has to."""
    after: str | None = ""
    while after is not None:
        outcome = launch_once(config, runner, options, shown, until_end=until_end, after=after)
        after = outcome.restart
    return outcome


def launch_once(
    config: JobConfig,
    runner: Runner,
    options: RunOptions,
    shown: AbstractContextManager[object],
    *,
    until_end: bool,
    after: str = "",
) -> JobOutcome:
    """Check the surroundings of a job, claim it and run it; blocks. `shown` is entered after the checks. The job's
    warnings go to `options.on_event`. `after`: the id of the run that this one starts again, empty for none. If another
    run has taken the job over meanwhile, this one ends well.

    Raises ConfigError, EnvironmentFailure, and the errors of the run.
    """
    page = PageAddress(log_folder(config.supervision.log, config.job_name))
    claimed = False

    def on_page(address: str) -> None:
        page.write(address)
        options.on_page(address)

    def on_claimed(prepared: PreparedJob) -> None:
        nonlocal claimed
        claimed = True
        page.write("")
        if after:
            reach("inputs.4")
        for warning in prepared.warnings:
            options.on_event(f"warning: {warning}")
        for weaker in prepared.guarantee_warnings:
            if not weaker.durability:
                options.on_event(f"weaker than {config.task.guarantee.value}: {weaker}")
        options.on_claimed(prepared)

    listeners = replace(options, on_page=on_page, on_claimed=on_claimed)
    with preparing(config, until_end=until_end, after=after, safe=options.safe) as start, shown:
        try:
            return runner.run(start, listeners)
        except JobTakenOver as taken:
            if not after or claimed:
                raise
            options.on_event(f"{taken}: this run ends")
            return JobOutcome(JobStatus(name=config.name, stopping=True), stopped=True)
        finally:
            page.remove()
