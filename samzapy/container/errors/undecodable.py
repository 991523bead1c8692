"""Applies the job's policy to messages that do not decode, in order with the other messages."""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.recovery import Recovery, RetryInterrupted
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.tasks.synchronous import Processing
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import SerdeError


class UndecodableProcessing(Processing):
    """Asks the policy about a message that does not decode. All others go to `processing`, also a message that decodes
    when it is tried again."""

    __slots__ = ("_processing", "_recovery", "_task")

    def __init__(self, task: TaskInstance, processing: Processing, recovery: Recovery) -> None:
        self._task = task
        self._processing = processing
        self._recovery = recovery

    def process(self, ssp: SystemStreamPartition, envelopes: Sequence[IncomingMessageEnvelope]) -> int:
        if type(envelopes) is not Undecodable:
            return self._processing.process(ssp, envelopes)
        self._task.touched = True
        try:
            return self._decode_again(ssp, envelopes)
        finally:
            self._recovery.input = None

    def _decode_again(self, ssp: SystemStreamPartition, run: Undecodable) -> int:
        (raw,) = run
        decoded: list[IncomingMessageEnvelope] = []

        def again() -> Exception | None:
            try:
                decoded.append(run.decode())
            except SerdeError as failure:
                return failure
            return None

        self._recovery.input = raw
        try:
            failure = self._recovery.recover(Stage.DESERIALIZE, run.failure, again)
        except RetryInterrupted:
            return 0
        if failure is not None:
            raise failure
        if decoded:
            return self._processing.process(ssp, decoded)
        self._task.offsets[ssp] = raw.offset + 1
        return 1
