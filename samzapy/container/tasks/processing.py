"""Processes the messages of one synchronous task, a slice at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.container.tasks.task_instance import TaskInstance

Process = Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]

_offset = attrgetter("offset")


class Processing(ABC):
    """Calls the `process` of one task. What happens to messages that fail is what its subclasses differ in."""

    __slots__ = ()

    @abstractmethod
    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        """Process messages of one partition until the task asks for something; returns how many were processed.

        Raises what ends the attempt, naming the message's position; the task's position stays before it.
        """


class StrictProcessing(Processing):
    """The first message that fails ends the attempt."""

    __slots__ = ("_process", "_task")

    def __init__(self, task: TaskInstance, process: Process) -> None:
        self._task = task
        self._process = process

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        task = self._task
        process, collector, requests = self._process, task.collector, task.requests
        task.touched = True
        envelope = envelopes[0]
        try:
            for envelope in envelopes:  # the handler and the position need the last one
                if (returned := process(envelope, collector, requests)) is not None:
                    task.refuse_awaitable(f"process of {envelope.position}", returned)
                if requests.pending:
                    break
        except BaseException as cause:  # noqa: BLE001  # told where
            task.raise_failure(envelope, cause)
        done = bisect_right(envelopes, envelope.offset, key=_offset) if requests.pending else len(envelopes)
        task.passed(ssp, envelopes, done)
        return done
