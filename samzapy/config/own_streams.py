"""Lists the streams that only the job itself uses, its changelogs and checkpoints, and refuses other uses of a
changelog.

1. A changelog that is an input would feed itself without end.
2. A changelog that is also an output, or another store's, would be restored into a store that never held those entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samzapy.api.stream import SystemStream
from samzapy.config.job import JobConfig
from samzapy.config.reading.reader import Reader


def checkpoint_topic(job_name: str, job_id: str) -> str:
    """The topic of a job's checkpoints, as Samza spells it."""
    return f"__samza_checkpoint_ver_1_for_{job_name.replace('_', '-')}_{job_id.replace('_', '-')}"


def state_checkpoint_topic(job_name: str, job_id: str) -> str:
    """The topic of the checkpoints of the tasks' own states."""
    return f"__samzapy_state_checkpoints_for_{job_name}_{job_id}"


def checkpoint_stream(config: JobConfig) -> SystemStream | None:
    """The stream of the job's checkpoints; None if they are not in a topic."""
    checkpoint = config.task.checkpoint
    if checkpoint is None or checkpoint.system is None:
        return None
    return SystemStream(checkpoint.system, checkpoint_topic(config.name, config.id))


def state_checkpoint_stream(config: JobConfig) -> SystemStream | None:
    """The stream of the job's state checkpoints; None if no system is configured for it."""
    if config.state_checkpoint.system is None:
        return None
    return SystemStream(config.state_checkpoint.system, state_checkpoint_topic(config.name, config.id))


def own_streams(config: JobConfig) -> Mapping[SystemStream, str]:
    """The streams that only the runtime may write to, each with its description, as `the changelog of store 's'`."""
    result = dict(_checkpoints(config))
    for store in config.stores.values():
        if store.changelog is not None:
            result[store.changelog] = f"the changelog of store '{store.name}'"
    return result


def never_inputs(config: JobConfig) -> Mapping[SystemStream, str]:
    """The streams that no pattern makes an input, each with its use: streams of the runtime, outputs that the job file
    names, and streams that fill stores."""
    result = {
        stream: f"{key} names it"
        for stream, key in (*_fillers(config), *_reported(config), *_outputs(config.resolved, config))
    }
    return result | dict(own_streams(config))


def check_changelogs(reader: Reader, config: JobConfig) -> None:
    """Note a problem for every changelog with another use; `parse_stores` notes changelogs that two stores share."""
    uses: dict[SystemStream, str] = {}
    for stream, use in _other_uses(reader, config):
        uses.setdefault(stream, use)
    for store in config.stores.values():
        if store.changelog is not None and store.changelog in uses:
            key = f"stores.{store.name}.changelog"
            reader.problem(key, f"expected a separate stream, but {uses[store.changelog]}", str(store.changelog))


def _checkpoints(config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    checkpoints, states = checkpoint_stream(config), state_checkpoint_stream(config)
    if checkpoints is not None:
        yield checkpoints, "the job's checkpoint topic"
    if states is not None:
        yield states, "the topic of the job's state checkpoints"


def _other_uses(reader: Reader, config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    for stream, key in _named(reader, config):
        yield stream, f"{key} names it too"
    for stream, what in _checkpoints(config):
        yield stream, f"it is {what}"


def _named(reader: Reader, config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    """The streams that the file names, each with its key."""
    task = config.task
    yield from ((stream, "task.inputs") for stream in task.inputs)
    yield from ((ssp.system_stream, "task.broadcast.inputs") for ssp in task.broadcast_inputs)
    for store in config.stores.values():
        if store.source is not None and store.source.replayed:
            key = f"stores.{store.name}.restore.inputs"
            yield from ((stream, key) for stream in store.source.all_streams)
    yield from _fillers(config)
    yield from _reported(config)
    yield from ((stream, f"streams.{stream_id}") for stream_id, stream in config.stream_ids.items())
    yield from _outputs(reader.values, config)


def _fillers(config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    for store in config.stores.values():
        if store.source is not None and not store.source.replayed:
            key = f"stores.{store.name}.side.inputs"
            yield from ((stream, key) for stream in store.source.all_streams)


def _reported(config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    if config.task.errors.dead_letters is not None:
        yield config.task.errors.dead_letters, "task.dead.letter.stream"
    for reporter in config.metrics_reporters:
        if reporter.stream is not None:
            yield reporter.stream, f"metrics.reporter.{reporter.name}.stream"


def _outputs(values: Mapping[str, str], config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    """The streams in the user's own keys that end in `.output` or `.outputs`."""
    for key, value in values.items():
        if not key.endswith((".output", ".outputs")):
            continue
        for name in filter(None, map(str.strip, value.split(","))):
            try:
                stream = config.stream_ids.get(name) or SystemStream.parse(name, config.default_system)
            except ValueError:
                continue
            if stream.system in config.systems:
                yield stream, key
