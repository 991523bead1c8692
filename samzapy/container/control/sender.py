"""A task's control messages on their way to every partition of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samzapy.api.collector import ControlMessage
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord
from samzapy.config.job import JobConfig
from samzapy.container.control.record import SentControl, encode
from samzapy.errors import ConfigError, ConfigProblem, UnknownStream
from samzapy.system.clients import SystemClients

#: From a stream and a message to the records that carry it, one a partition.
ControlRecords = Callable[[SystemStream, ControlMessage], Sequence[OutgoingRecord]]


class ControlSender:
    """One container's; `of_task` gives what a task's collector needs."""

    def __init__(self, config: JobConfig, clients: SystemClients, job_tasks: int) -> None:
        """`job_tasks`: how many tasks the job has, in all containers."""
        self._config = config
        self._clients = clients
        self._job_tasks = job_tasks
        self._partitions: dict[SystemStream, int] = {}

    def of_task(self, task_name: str) -> ControlRecords:
        """The records of a task's control messages. It raises ConfigError for a stream that is not intermediate,
        UnknownStream."""
        sender = f"{self._config.job_name}/{task_name}"

        def records(stream: SystemStream, message: ControlMessage) -> Sequence[OutgoingRecord]:
            key, value, headers = encode(SentControl(sender, self._job_tasks, message))
            return [
                OutgoingRecord(stream.stream, key, value, partition, None, headers)
                for partition in range(self._count(stream))
            ]

        return records

    def _count(self, stream: SystemStream) -> int:
        if stream not in self._partitions:
            if stream.system in self._config.systems and not self._config.stream(stream).intermediate:
                key = f"systems.{stream.system}.streams.{stream.stream}.samza.intermediate"
                message = (
                    "must be true, here and in the jobs that read the stream, before control messages are sent to it"
                )
                raise ConfigError([ConfigProblem(key, "false", message)])
            found = self._clients.admin(stream.system).describe(stream.stream)
            if found is None:
                raise UnknownStream(stream.system, stream.stream)
            self._partitions[stream] = found.partitions
        return self._partitions[stream]
