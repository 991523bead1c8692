"""`stores.NAME.side.inputs` and `stores.NAME.restore.inputs`: streams that a store is filled from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.reading.keys import LIST, Key, class_path, collect
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.stream import check_system, parse_partitions, resolve_stream


@dataclass(frozen=True)
class StoreSource:
    """Where a store without a changelog has its contents from.

    `streams`: of these a task reads the partitions with the numbers of its own inputs'; `partitions`: these are read by
    every task. `processor`: the class path of the SideInputsProcessor. `replayed`: the streams are inputs of the task,
    read again at its start up to where the task goes on, and the store is the task's to write; otherwise they are side
    inputs, followed while the task runs, and the store is read-only for it.
    """

    streams: tuple[SystemStream, ...]
    partitions: frozenset[SystemStreamPartition]
    processor: str
    replayed: bool

    @property
    def all_streams(self) -> frozenset[SystemStream]:
        """The streams, whoever reads them."""
        return frozenset(self.streams) | {ssp.system_stream for ssp in self.partitions}


_PROCESSOR_CLASS = class_path(lambda _: None, tuple, "my.module:MyProcessor")

SIDE_INPUTS = Key(
    "stores.{store}.side.inputs",
    LIST,
    (),
    "Streams that fill the store, by name or id: a task reads the partitions that have the numbers of its inputs', "
    "`system.stream#3` or `system.stream#[0-2]` is read by every task. The store has no changelog, is read to the ends "
    "of the streams at the start, follows them from then on, and is read-only for the task.",
)
SIDE_PROCESSOR = Key(
    "stores.{store}.side.inputs.processor.factory",
    _PROCESSOR_CLASS,
    None,
    "The SideInputsProcessor class that makes entries of side inputs.",
    "required by side.inputs",
)
RESTORE_INPUTS = Key(
    "stores.{store}.restore.inputs",
    LIST,
    (),
    "Inputs of the task that the store is rebuilt from, instead of a changelog: they are read again from their "
    "beginning up to where the task goes on. What else the task puts into the store is lost with its files.",
)
RESTORE_PROCESSOR = Key(
    "stores.{store}.restore.inputs.processor.factory",
    _PROCESSOR_CLASS,
    None,
    "The SideInputsProcessor class that makes of restore.inputs what the task makes of them.",
    "required by restore.inputs",
)
KEYS = collect(globals())


def parse_source(
    reader: Reader,
    store: str,
    ids: Mapping[str, SystemStream],
    default_system: str | None,
    systems: Collection[str],
    inputs: Collection[SystemStream],
) -> StoreSource | None:
    """What fills the store `store`, None if nothing does. `inputs` are the task's."""
    side, replayed = (_names(reader, key, store) for key in (SIDE_INPUTS, RESTORE_INPUTS))
    for processor, needed in ((SIDE_PROCESSOR, side), (RESTORE_PROCESSOR, replayed)):
        if reader.has(processor, store=store) and not needed:
            leaf = processor.at(store=store)
            reader.problem(leaf, f"has nothing to process without {leaf.removesuffix('.processor.factory')}")
    if side and replayed:
        reader.problem(RESTORE_INPUTS.at(store=store), "cannot be combined with side.inputs")
    if not side and not replayed:
        return None
    key = SIDE_INPUTS.at(store=store) if side else RESTORE_INPUTS.at(store=store)
    streams: dict[SystemStream, None] = {}
    partitions: set[SystemStreamPartition] = set()
    for entry in side or replayed:
        name, numbers = parse_partitions(entry) or (entry, None)
        if numbers is not None and not numbers:
            reader.problem(key, f"partition range {numbers.start}-{numbers.stop - 1} is empty", entry)
        stream = resolve_stream(reader, key, name, ids, default_system)
        if stream is None:
            continue
        check_system(reader, key, stream.system, systems)
        if numbers is None:
            streams[stream] = None
        else:
            partitions.update(SystemStreamPartition(*stream, number) for number in numbers)
    processor_class = reader.require(
        SIDE_PROCESSOR if side else RESTORE_PROCESSOR, "my.module:MyProcessor", store=store
    )
    if replayed and not side:
        _check_inputs(reader, store, [*streams], partitions, inputs)
    return StoreSource(tuple(streams), frozenset(partitions), processor_class, not side)


def check_sourced(reader: Reader, store: str, *, logged: bool, expiring: bool) -> None:
    """Note what a store that is filled from streams cannot have besides."""
    key = SIDE_INPUTS if _names(reader, SIDE_INPUTS, store) else RESTORE_INPUTS
    if logged:
        reader.problem(
            key.at(store=store), f"cannot be combined with stores.{store}.changelog: the streams are what it comes from"
        )
    if expiring:
        reader.problem(
            key.at(store=store),
            f"cannot be combined with stores.{store}.rocksdb.ttl.ms: entries that are read again would live anew",
        )


def _names(reader: Reader, key: Key[tuple[str, ...]], store: str) -> tuple[str, ...]:
    return reader.get(key, store=store)


def _check_inputs(
    reader: Reader,
    store: str,
    streams: Collection[SystemStream],
    partitions: Collection[SystemStreamPartition],
    inputs: Collection[SystemStream],
) -> None:
    key = RESTORE_INPUTS.at(store=store)
    if partitions:
        reader.problem(key, "names streams, without partitions", ", ".join(sorted(map(str, partitions))))
    for stream in streams:
        if stream not in inputs:
            reader.problem(key, "must be inputs of the task (task.inputs); others are side.inputs", str(stream))
