"""Notices new inputs of a running job, and waits for the first input of a job without any.

A job with regular expressions in `task.inputs` and `job.inputs.refresh.ms` goes on with a new input like this:

1  the driver lists the streams of the systems, one request each, at this interval
2  a new stream that the job can take: the driver says so, and every container commits and stops
3  the run has noted that it has ended and starts again; the same process claims the job again, with the new model
   (`prepare_again`), unless a new run has asked for it
4  the containers start from their commits; the new input begins at its oldest record

A stream that the job cannot take is announced once and left out; the job goes on without it. If the process dies anywhere
between, the next start finds the new input as well, and it is still a new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from typing import final

from samzapy.admin.job_check import inputs_now
from samzapy.api.stream import SystemStream
from samzapy.api.task import CopartitionedTask
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import this_run
from samzapy.container.tasks.task_class import load_task_class
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import RetriableError, SamzapyError, UnknownStream, Unreachable
from samzapy.failpoints import reach
from samzapy.job.inputs import find_inputs, refusal
from samzapy.runner.base import PreparedJob
from samzapy.runner.checks import Checks, Row
from samzapy.runner.driver import handed_over
from samzapy.runner.prepare import prepare_again
from samzapy.runner.restarts import backoff_of
from samzapy.system.clients import SystemClients, job_clients

logger = logging.getLogger(__name__)

#: Seconds between two questions whether to go on waiting.
_SLICE_S = 0.2


def await_inputs(config: JobConfig, on_event: Callable[[str], None], stopped: Callable[[], bool]) -> bool:
    """Wait until the job has an input, if it may wait; returns whether it has waited.

    `on_event` gets one line at the begin of the wait. A job that is `stopped` does not wait any longer. Raises as
    `inputs_now` at the first look; later ones are repeated.
    """
    if config.task.refresh_ms is None or config.task.inputs or inputs_now(config).streams:
        return False
    patterns, pace_s = ", ".join(map(str, config.task.patterns)), config.task.refresh_ms / 1000
    on_event(f"waiting for an input: no stream matches {patterns} now; the next look is in {pace_s:g} s")
    while not stopped():
        _pause(pace_s, stopped)
        try:
            if inputs_now(config).streams:
                return True
        except SamzapyError as cause:
            logger.warning("Cannot look for inputs (%s); looking again", cause)
    return True


def _pause(seconds: float, stopped: Callable[[], bool]) -> None:
    """Wait for a time, or until the job is stopped."""
    asleep = threading.Event()
    while seconds > 0 and not stopped():
        asleep.wait(min(seconds, _SLICE_S))
        seconds -= _SLICE_S


@final
class InputsWatch:
    """Checks for streams that the patterns of the job match and that it does not read. A job without such patterns, or with an
    end, is not watched."""

    def __init__(
        self,
        prepared: PreparedJob,
        coordinator: Coordinator,
        on_event: Callable[[str], None],
        asked: Callable[[], bool],
    ) -> None:
        """`coordinator` stops the containers for a new input. `on_event` gets a line for each new stream. `asked`: whether the run was
        asked to stop."""
        self._given = prepared.given or prepared.config
        self._run_id = prepared.run_id
        self._inputs = frozenset(prepared.config.task.inputs)
        self._tasks = frozenset(task.name for task in prepared.model.tasks)
        self._coordinator = coordinator
        self._on_event = on_event
        self._asked = asked
        self._refused = set(prepared.refused)
        self._changed = False
        refresh_ms = self._given.task.refresh_ms
        self._watched = bool(self._given.task.patterns) and refresh_ms is not None and prepared.endless
        self._joining = self._watched and issubclass(load_task_class(self._given.task.task_class), CopartitionedTask)
        self._pace_s = (refresh_ms or 0) / 1000

    def watch(self, checks: Checks) -> None:
        """Check from now on."""
        if self._watched:
            checks.add(Row("inputs", self._pace_s, lambda: self._check(checks.records.clients)))

    def again(self) -> bool:
        """Whether the job is to start again: its containers were stopped for a new input, and nothing has asked for its end."""
        return self._changed and not (self._asked() or self._coordinator.draining)

    def renewed(self) -> PreparedJob | None:
        """The job again, with its current inputs; this run has ended. None if a new run has asked for the job before, and has
        it now.

        A system that does not answer is asked again, with the pauses of restarts, unless the run was asked to stop. Raises as
        `prepare_again` and `handed_over`.
        """
        reach("inputs.3")
        if handed_over(self._given, self._run_id, self._on_event):
            return None
        # One run for all attempts: each may have become the owner before it failed.
        backoff, run = backoff_of(self._given.spark), this_run()
        while True:
            try:
                with closing(job_clients(self._given, "inputs")) as clients:
                    self._new_inputs(clients)
                prepared = prepare_again(self._given, run, self._run_id, self._refused)
            except (RetriableError, Unreachable, UnknownStream) as failure:
                delay_s = backoff.after(0.0, outage=failure.outage)
                if delay_s is None or self._asked():
                    raise
                self._on_event(f"cannot start again: {failure}; trying again in {delay_s:g} s")
                _pause(delay_s, self._asked)
            else:
                reach("inputs.4")
                return prepared

    def _check(self, clients: SystemClients) -> bool:
        new = self._new_inputs(clients)
        if not new or self._coordinator.stopping:
            return True
        self._changed = True
        several = "are new inputs" if len(new) > 1 else "is a new input"
        self._on_event(f"{', '.join(map(str, new))} {several}: every task commits, and the containers start again")
        reach("inputs.2")
        self._coordinator.stop()
        return False

    def _new_inputs(self, clients: SystemClients) -> list[SystemStream]:
        """The new streams that the job can take; tells of the others."""
        listed = clients.names({pattern.stream.system for pattern in self._given.task.patterns})
        new = find_inputs(self._given, listed, self._refused).streams - self._inputs
        taken = []
        for stream, described in clients.describe(new).items():
            if described is None:
                continue  # it is gone again
            reason = refusal(self._given, stream, described.partitions, self._tasks, joining=self._joining)
            if reason is None:
                taken.append(stream)
            else:
                self._refused.add(stream)
                self._on_event(f"warning: task.inputs: {reason}; the job goes on without it")
        return taken
