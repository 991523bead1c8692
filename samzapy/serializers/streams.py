"""The serdes of a job's streams, with the classes that the job file or the task's code names for them."""

from __future__ import annotations

from typing import Any

from samzapy.api.serde import Serde, hinted, serde_at
from samzapy.api.stream import SystemStream
from samzapy.config.job import JobConfig
from samzapy.config.streams.serdes import typed_name
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.serializers.annotations import MessageTypes, message_types
from samzapy.serializers.registry import TaskSerdes


class StreamSerdes:
    """Gives a stream's key and message serde; None for a part without one.

    A class in the job file counts first. Without one, the inputs of `task.inputs` and `task.broadcast.inputs` have the
    class that the task's code names, if their serde has classes (json, msgpack, avro, ...).
    """

    def __init__(self, config: JobConfig, serdes: TaskSerdes, task_class: type) -> None:
        """Raises ConfigError if an input's serde cannot decode to a class that the code names."""
        self._config = config
        self._serdes = serdes
        self._inputs = {*config.task.inputs, *(ssp.system_stream for ssp in config.task.broadcast_inputs)}
        self._inputs |= {pattern.stream for pattern in config.task.patterns}
        self._named = message_types(task_class)
        for stream in sorted(self._inputs):
            try:
                self(stream)
            except SerdeError as cause:
                message = f"{task_class.__name__} names a class for {stream}: {cause}; or set streams.ID.samza.msg.type"
                raise ConfigError([ConfigProblem("task.class", config.task.task_class, message)]) from cause

    def __call__(self, stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        config = self._config.stream(stream)
        named = self._named if stream in self._inputs else MessageTypes()
        return (
            self._serde(stream, "key", config.key_serde, config.key_type, named.key),
            self._serde(stream, "value", config.msg_serde, config.msg_type, named.message),
        )

    def make_ready(self) -> None:
        """Let the serdes of the job's streams fetch their requirements. Raises ConfigError with every problem, or
        EnvironmentFailure."""
        problems = []
        sources = (store.source.all_streams for store in self._config.stores.values() if store.source is not None)
        read = self._inputs.union(*sources)
        for stream in sorted(self._config.streams):
            for serde, leaf in zip(self(stream), ("key", "msg"), strict=True):
                try:
                    if serde is not None:
                        hinted(serde).ready(writing=stream not in read)
                except SerdeError as cause:
                    name = getattr(self._config.stream(stream), f"{leaf}_serde")
                    problems.append(ConfigProblem(f"{leaf}.serde of {stream}", name, str(cause)))
        if problems:
            raise ConfigError(problems)

    def _serde(self, stream: SystemStream, part: str, name: str | None, path: str | None, named: Any) -> Serde | None:
        if name is None:
            return None
        if path is None and named is not None and self._serdes.takes_types(name):
            return serde_at(self._serdes.of_type(name, named), stream.stream, part)
        return serde_at(self._serdes[typed_name(name, path)], stream.stream, part)
