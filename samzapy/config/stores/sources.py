"""`stores.NAME.side.inputs` and `stores.NAME.restore.inputs`: the streams that fill a store without a changelog."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.reading.keys import LIST, Key, class_path, collect
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.stream import StreamNames, parse_partitions


@dataclass(frozen=True)
class StoreSource:
    """The streams that fill a store without a changelog.

    1. A task reads the partitions of `streams` with the numbers of its inputs; every task reads all of `partitions`.
    2. `processor` is the class path of the SideInputsProcessor.
    3. If `replayed`, the streams are inputs of the task: its start reads them again up to the task's position, and the
       task may write to the store.
    4. Otherwise they are side inputs: the store follows them while the task runs, and the task only reads it.
    """

    streams: tuple[SystemStream, ...]
    partitions: frozenset[SystemStreamPartition]
    processor: str
    replayed: bool

    @property
    def all_streams(self) -> frozenset[SystemStream]:
        """All the streams, including `partitions`."""
        return frozenset(self.streams) | {ssp.system_stream for ssp in self.partitions}


_PROCESSOR_CLASS = class_path(lambda _: None, tuple, "my.module:MyProcessor")

SIDE_INPUTS = Key(
    "stores.{store}.side.inputs",
    LIST,
    (),
    "Streams that fill the store, by name or id. A task reads the partitions with the same numbers as its inputs. "
    "Every task reads `system.stream#3` or `system.stream#[0-2]`. The store has no changelog. A start reads the "
    "streams to their ends, and the store follows them from then on. The task can only read the store.",
)
SIDE_PROCESSOR = Key(
    "stores.{store}.side.inputs.processor.factory",
    _PROCESSOR_CLASS,
    None,
    "The SideInputsProcessor class that turns side inputs into entries.",
    "required by side.inputs",
)
RESTORE_INPUTS = Key(
    "stores.{store}.restore.inputs",
    LIST,
    (),
    "Inputs of the task that rebuild the store instead of a changelog. A start reads them again from their "
    "beginning up to the task's position. Any other entry of the store is lost with its files.",
)
RESTORE_PROCESSOR = Key(
    "stores.{store}.restore.inputs.processor.factory",
    _PROCESSOR_CLASS,
    None,
    "The SideInputsProcessor class that makes the same entries from restore.inputs as the task.",
    "required by restore.inputs",
)
KEYS = collect(globals())


def parse_source(
    reader: Reader, store: str, names: StreamNames, is_input: Callable[[SystemStream], bool]
) -> StoreSource | None:
    """Read the streams that fill the store, None if there are none. `is_input`: whether the task reads a stream."""
    side, replayed = reader.get(SIDE_INPUTS, store=store), reader.get(RESTORE_INPUTS, store=store)
    for processor, needed in ((SIDE_PROCESSOR, side), (RESTORE_PROCESSOR, replayed)):
        if reader.has(processor, store=store) and not needed:
            leaf = processor.at(store=store)
            reader.problem(
                leaf,
                f"has no effect without {leaf.removesuffix('.processor.factory')}: add that key or remove this one",
            )
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
        stream = names.find(reader, key, name)
        if stream is not None and numbers is None:
            streams[stream] = None
        elif stream is not None and numbers is not None:
            partitions.update(SystemStreamPartition(*stream, number) for number in numbers)
    processor_class = reader.require(
        SIDE_PROCESSOR if side else RESTORE_PROCESSOR, "my.module:MyProcessor", store=store
    )
    if replayed and not side:
        _check_inputs(reader, store, [*streams], partitions, is_input)
    return StoreSource(tuple(streams), frozenset(partitions), processor_class, not side)


def check_sourced(reader: Reader, store: str, *, logged: bool, expiring: bool) -> None:
    """Note the keys that a store filled from streams cannot have."""
    key = SIDE_INPUTS if reader.get(SIDE_INPUTS, store=store) else RESTORE_INPUTS
    if logged:
        reader.problem(
            key.at(store=store),
            f"cannot be combined with stores.{store}.changelog: the store is filled from the streams",
        )
    if expiring:
        reader.problem(
            key.at(store=store),
            f"cannot be combined with stores.{store}.rocksdb.ttl.ms: entries that are read again would get a new time to live",
        )


def _check_inputs(
    reader: Reader,
    store: str,
    streams: Collection[SystemStream],
    partitions: Collection[SystemStreamPartition],
    is_input: Callable[[SystemStream], bool],
) -> None:
    key = RESTORE_INPUTS.at(store=store)
    if partitions:
        reader.problem(key, "expected whole streams, without partitions", ", ".join(sorted(map(str, partitions))))
    for stream in streams:
        if not is_input(stream):
            reader.problem(
                key, "expected inputs of the task (task.inputs); for other streams use side.inputs", str(stream)
            )
