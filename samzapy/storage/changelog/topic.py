"""Creates the changelog topic of a store, and checks it at every start."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin, describe_all
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, StateLost, UnknownStream

_SEGMENT_BYTES = 536_870_912
_MAX_MESSAGE_BYTES = 1_000_012
_START_AFRESH = "to start from nothing, delete the checkpoint topic, too"
#: Kafka's default, for a topic without the setting.
_KAFKAS_RETENTION_MS = 604_800_000


def changelog_spec(config: StoreConfig, partitions: int) -> StreamSpec:
    """The topic to create for a store with a changelog; `changelog_properties` win over the defaults.

    Raises ConfigError if they ask for another policy than compaction, unless the store's entries expire anyway.
    """
    stream = changelog_of(config)
    topic = {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(config.changelog_delete_retention_ms),
        "segment.bytes": str(_SEGMENT_BYTES),
        "max.message.bytes": str(_MAX_MESSAGE_BYTES),
        **config.changelog_properties,
    }
    if topic["cleanup.policy"] != "compact" and config.ttl_ms is None:
        key = f"stores.{config.name}.changelog.kafka.cleanup.policy"
        raise ConfigError([ConfigProblem(key, topic["cleanup.policy"], "must be compact: state would be lost")])
    return StreamSpec(stream.stream, partitions, topic, config.changelog_replication_factor)


def check_described(description: StreamDescription, config: StoreConfig, partitions: int) -> None:
    """Raise EnvironmentFailure for a changelog that is not compacted or has not exactly `partitions` partitions."""
    check_changelog(description, config)
    if description.partitions != partitions:
        raise EnvironmentFailure(
            f"changelog {description.stream} has {description.partitions} partitions, job has {partitions} tasks"
        )


def find_changelog(admin: SystemAdmin, config: StoreConfig, partitions: int) -> StreamDescription | None:
    """The changelog, checked; None if there is none yet. Changes nothing. Raises as `check_described`."""
    description = admin.describe(changelog_spec(config, partitions).stream)
    if description is not None:
        check_described(description, config, partitions)
    return description


def ensure_changelog(admin: SystemAdmin, config: StoreConfig, partitions: int) -> StreamDescription:
    """Create the changelog if it is missing, and check it. Raises as `check_described`."""
    found = find_changelog(admin, config, partitions)
    if found is None:
        spec = changelog_spec(config, partitions)
        admin.create(spec)
        found = find_changelog(admin, config, partitions)
        if found is None:
            raise vanished(config, spec.stream)
    return found


def vanished(config: StoreConfig, stream: str) -> EnvironmentFailure:
    """The error for a changelog that does not exist right after its creation."""
    return EnvironmentFailure(f"changelog {stream} of store '{config.name}' was created but is not there")


class Changelogs:
    """The changelogs of a container's stores. Each is asked for once, for the partitions of all tasks.

    The ends are as of the first look, when no predecessor of the tasks writes.
    """

    def __init__(self, admin_of: Callable[[str], SystemAdmin], partitions: Collection[int]) -> None:
        """`partitions`: the changelog partitions of the tasks."""
        self._admin_of = admin_of
        self._partitions = partitions
        self._found: dict[str, tuple[StreamDescription, Mapping[SystemStreamPartition, OffsetRange]]] = {}

    def find(self, stores: Iterable[StoreConfig]) -> None:
        """Take the first look at the changelogs of these stores now, on this thread: two questions a system, whatever
        the number of stores and tasks. Raises as `usable`."""
        by_system: dict[str, list[StoreConfig]] = {}
        for config in stores:
            if config.changelog is not None and config.name not in self._found:
                by_system.setdefault(config.changelog.system, []).append(config)
        for system, wanted in by_system.items():
            self._find(self._admin_of(system), wanted)

    def _find(self, admin: SystemAdmin, stores: Sequence[StoreConfig]) -> None:
        streams = {config.name: changelog_of(config) for config in stores}
        described = describe_all(admin, [stream.stream for stream in streams.values()])
        first = min(self._partitions)
        topics = {config.name: usable(described[changelog_of(config).stream], config, first) for config in stores}
        ssps = {
            name: [SystemStreamPartition(*stream, each) for each in self._partitions if each < topics[name].partitions]
            for name, stream in streams.items()
        }
        logs = admin.offsets(chain.from_iterable(ssps.values()))
        for name, own in ssps.items():
            self._found[name] = topics[name], {ssp: logs[ssp] for ssp in own}

    def get(self, config: StoreConfig, ssp: SystemStreamPartition) -> tuple[StreamDescription, OffsetRange]:
        """The changelog of a store, and the offsets of its partition `ssp`. Raises as `usable`."""
        self.find([config])
        topic, logs = self._found[config.name]
        check_partition(topic, ssp.partition)
        return topic, logs[ssp]


def changelog_of(config: StoreConfig) -> SystemStream:
    """The changelog of a store that has one. Raises ConfigError."""
    if config.changelog is None:
        raise ConfigError([ConfigProblem(f"stores.{config.name}.changelog", None, "is required here")])
    return config.changelog


def usable(description: StreamDescription | None, config: StoreConfig, partition: int) -> StreamDescription:
    """The changelog as a task needs it. Raises UnknownStream, or EnvironmentFailure if it cannot hold its state."""
    if description is None:
        raise UnknownStream(*changelog_of(config), store=config.name)
    check_changelog(description, config)
    check_partition(description, partition)
    return description


def check_partition(description: StreamDescription, partition: int) -> None:
    """Raise EnvironmentFailure if the topic does not have that partition."""
    if partition >= description.partitions:
        raise EnvironmentFailure(
            f"changelog {description.stream} has {description.partitions} partitions, "
            f"the task needs partition {partition}"
        )


def check_changelog(description: StreamDescription, config: StoreConfig) -> None:
    """Raise EnvironmentFailure unless the topic is only compacted or, for a store with a TTL, keeps records that
    long."""
    policy = description.setting("cleanup.policy") or "delete"
    if config.ttl_ms is not None and policy != "compact":
        kept_bytes = int(description.setting("retention.bytes") or "-1")
        if kept_bytes >= 0:
            raise EnvironmentFailure(
                f"changelog {description.stream} keeps {kept_bytes} bytes of each partition (retention.bytes), "
                "whatever the age of its records: state would be lost; set it to -1"
            )
        kept_ms = int(description.setting("retention.ms") or _KAFKAS_RETENTION_MS)
        if 0 <= kept_ms < config.ttl_ms:
            raise EnvironmentFailure(
                f"changelog {description.stream} keeps records for {kept_ms} ms (retention.ms), "
                f"stores.{config.name}.rocksdb.ttl.ms is {config.ttl_ms}: state would be lost"
            )
    elif policy != "compact":
        raise EnvironmentFailure(f"changelog {description.stream} must be compact (is {policy}): state would be lost")


def check_end(ssp: SystemStreamPartition, log: OffsetRange, committed: int) -> None:
    """Raise StateLost if a changelog partition ends before the last record that the task's checkpoint counts.

    `committed` is the offset of that record, -1 for none.
    """
    if committed >= log.upcoming:
        raise StateLost(
            f"changelog {ssp} ends before offset {log.upcoming}, the last checkpoint is at {committed}: "
            "it was deleted or created again, and the state with it",
            _START_AFRESH,
        )


def check_beginning(ssp: SystemStreamPartition, log: OffsetRange, committed: int) -> None:
    """Raise StateLost if the state of a task that has committed cannot come from the changelog alone.

    Compaction never moves the beginning, so records were deleted.
    """
    if committed >= 0 and log.oldest > 0:
        raise StateLost(
            f"changelog {ssp} begins at offset {log.oldest} instead of 0: records were deleted from it and no local "
            "store or snapshot holds them, so the state would be partial",
            _START_AFRESH,
        )


def delete_retention_ms(description: StreamDescription, config: StoreConfig) -> int:
    """The milliseconds for which the topic keeps deletions: by its configuration, else by the job file."""
    return int(description.setting("delete.retention.ms") or config.changelog_delete_retention_ms)


def max_record_bytes(description: StreamDescription) -> int | None:
    """The largest record (key and value) that the topic takes, None if unknown."""
    limit = description.setting("max.message.bytes")
    return None if limit is None else int(limit)
