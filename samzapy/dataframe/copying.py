"""Copies a store to a new changelog, where it may have other serdes, classes or entries (`samzapy store copy`).

    1  refuse a job that runs, and a copy that cannot be
    2  become the job's owner: no run writes to the old changelog from now on
    3  take the ends of the old changelog; refuse one that lacks committed records, or has records of other writers
    4  convert every entry, in the executors
    5  write the new changelog: each partition in one transaction
    6  in one transaction, let the checkpoints count the records of the new changelog, and record where the store is

Before step 6 the job knows nothing of the new changelog, so after a crash or an error the old store is in use. After it
the job file has to name the new one; a start with the old name is refused. The old changelog is never changed.
"""

from __future__ import annotations

import reprlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, final

from pyspark import SparkContext

from samzapy.admin.positions import must_keep_checkpoints, write_checkpoints
from samzapy.admin.running import refuse_if_running
from samzapy.admin.take_over import Claim, refuse_records_past
from samzapy.admin.user_code import make_importable
from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.serde import Serde, hinted
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint.records import Adopted, read_changelog_partitions, read_copied, read_owner, refuse_copied
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.container.inputs.starting_offsets import own_changelog_ends
from samzapy.container.supervision.job_records import Ownership, open_job
from samzapy.dataframe.partition_writer import PartitionWritten, Record, check_size
from samzapy.dataframe.reading import PURPOSE, ChangelogPart, TravellingJob, patience_s
from samzapy.dataframe.writing import ChangelogWrite, StoreWritten, own_for_write, refuse_speculation
from samzapy.errors import ConfigError, EnvironmentFailure, SerdeError, StoreRefused
from samzapy.failpoints import reach
from samzapy.operators.folds import as_tuples
from samzapy.plugins import PluginError, load_name
from samzapy.runner.spark.master import Master
from samzapy.runner.spark.sources import spark_source
from samzapy.serializers import decode_failure, task_serdes
from samzapy.serializers.typed import plain_form
from samzapy.storage.changelog.topic import changelog_of, check_beginning, check_end, usable
from samzapy.storage.inspection import Entry, key_value_store, store_of
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.expiring import stamped
from samzapy.storage.spec import check_checkpoints, store_specs
from samzapy.system.clients import SystemClients

#: (key, value) to (key, value), or to None to leave the entry out.
Convert = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class StoreCopy:
    """What to copy, and how. `job`: the job file now, `target`: the job file with the new changelog and serdes;
    `convert`: the path of a function (key, value) -> (key, value), or None to leave an entry out; empty for none.
    `overwrite`: replace what an earlier copy has left in the new changelog. `take_over`: also if a run may go on
    elsewhere."""

    job: JobConfig
    target: JobConfig
    store: str
    convert: str = ""
    overwrite: bool = False
    take_over: bool = False

    @property
    def stores(self) -> tuple[StoreConfig, StoreConfig]:
        """The store before and after. Raises ConfigError if it cannot be copied."""
        before, after = (
            key_value_store(config, self.store, changelog_for="it is what a copy reads", engine_for="can be copied")
            for config in (self.job, self.target)
        )
        if before.changelog == after.changelog:
            message = "is the changelog that the store has: a copy needs another one"
            raise ConfigError.of("--to", str(after.changelog), message)
        if (before.ttl_ms is None) != (after.ttl_ms is None):
            message = "a copy can neither add a time to live nor drop one"
            raise ConfigError.of(f"stores.{self.store}.rocksdb.ttl.ms", str(after.ttl_ms), message)
        return before, after


def copied_keys(store: str, to: str, changes: Mapping[str, str]) -> dict[str, str]:
    """The keys of the job file that a copy changes: the changelog and the `changes` below the store. Another serde
    comes with its own class, or with none."""
    for part in ("key", "msg"):
        if f"{part}.serde" in changes:
            changes = {f"{part}.type": "", **changes}
    return {f"stores.{store}.{leaf}": value for leaf, value in {"changelog": to, **changes}.items()}


def copy_on_spark(copy: StoreCopy, wait: Callable[[float], object]) -> StoreWritten:
    """Check the copy, and make it on the job's Spark (`job.spark.master`), without one on all cores of this machine.
    `wait` waits for seconds. Raises as `copy_store`."""
    must_keep_checkpoints(copy.job.task.checkpoint)
    make_importable(copy.job)
    Conversion.of(copy, None)
    source = spark_source()
    config = source.fit(copy.job)
    source.check(config)
    master = Master.parse(config.spark.master or "local[*]")
    token = secrets.token_hex(16)
    with source.application(config, master, token, verbose=False, began=lambda _: None) as application:
        return copy_store(application.context, copy, wait)


def copy_store(context: SparkContext, copy: StoreCopy, wait: Callable[[float], object]) -> StoreWritten:
    """Copy a store of a job that does not run.

    Raises ConfigError for a copy that cannot be, SerdeError and StoreRefused for an entry that does not fit,
    EnvironmentFailure for a job that runs and for a new changelog with entries; ForeignRecords, StateLost,
    ProducerError.
    """
    before, after = copy.stores
    refuse_speculation(context)
    with open_job(copy.job, PURPOSE) as (clients, checkpoints):
        # 1  a run, and the new changelog
        unseen = refuse_if_running(copy.job, read_owner(checkpoints), take_over=copy.take_over)
        refuse_copied(checkpoints, copy.job.stores)
        source = OldChangelog.find(copy.job, before, clients, checkpoints)
        stall_s = patience_s(copy.job.task.transaction_timeout_ms)
        write = ChangelogWrite(after, source.tasks, source.partitions, clients, stall_s)
        write.check_changelog(overwrite=copy.overwrite)
        # 2  the owner
        claim = own_for_write(copy.job, clients, checkpoints, source.tasks, unseen, wait)
        reach("copy.2")
        # 3  the committed state
        parts = source.parts(clients, checkpoints)
        # 4  every entry
        maker = RecordCopier(
            TravellingJob.of(copy.job, context),
            TravellingJob.of(copy.target, context),
            before.name,
            copy.convert,
            parts,
            write.max_record_bytes,
        )
        numbers = context.parallelize(range(len(parts)), len(parts))
        records = write.sorted_records(numbers.mapPartitions(maker.records))
        reach("copy.4")
        # 5  the new changelog
        timed = after.ttl_ms is not None
        written = write.write(copy.target, records, claim.run.id, overwrite=copy.overwrite, timed=timed)
        reach("copy.5")
        # 6  the checkpoints
        write.adopt(checkpoints, written)
        switch(copy, after, claim, source, written, clients, checkpoints)
    return StoreWritten.of(written)


def switch(
    copy: StoreCopy,
    store: StoreConfig,
    claim: Claim,
    source: OldChangelog,
    written: Sequence[PartitionWritten],
    clients: SystemClients,
    checkpoints: CheckpointManager,
) -> None:
    """Step 6. Raises JobTakenOver if another run owns the job; then the old changelog stays in use."""
    last = {source.tasks[part.partition]: part.last_offset for part in written}
    serdes = store_specs(copy.target)[store.name].serde_names
    committed = checkpoints.read(source.tasks.values())
    updates: dict[str, Checkpoint] = {
        task: replace(
            checkpoint,
            changelog_offsets={**checkpoint.changelog_offsets, store.name: last.get(task, -1)},
            serdes={**checkpoint.serdes, store.name: serdes},
        )
        for task, checkpoint in committed.items()
        if checkpoint is not None
    }
    copied = {**read_copied(checkpoints), store.name: str(store.changelog)}
    with closing(Ownership.of(copy.job, claim.run.id)) as ownership:
        write_checkpoints(
            copy.job.job_name,
            clients,
            checkpoints,
            claim.state,
            updates,
            records={JobRecord.COPIED: {"stores": copied}},
            check_owner=ownership.poll,
        )


@final
@dataclass(frozen=True)
class OldChangelog:
    """The changelog that a copy reads. `tasks`: names by changelog partition."""

    config: JobConfig
    store: StoreConfig
    tasks: Mapping[int, str]
    partitions: int
    topic_id: str

    @classmethod
    def find(
        cls, config: JobConfig, store: StoreConfig, clients: SystemClients, checkpoints: CheckpointManager
    ) -> OldChangelog:
        """Raises EnvironmentFailure for a job without state, and for a changelog that cannot be used."""
        tasks = {number: task for task, number in read_changelog_partitions(checkpoints).items()}
        if not tasks:
            line = f"job {config.name} (id {config.id}) has never started, so store '{store.name}' has nothing to copy"
            raise EnvironmentFailure(line)
        stream = changelog_of(store)
        topic = usable(clients.admin(stream.system).describe(stream.stream), store, max(tasks))
        return cls(config, store, tasks, max(tasks) + 1, topic.stream_id)  # some may have been added

    def parts(self, clients: SystemClients, checkpoints: CheckpointManager) -> list[ChangelogPart]:
        """The partitions of the tasks, up to their ends now. Raises ConfigError for other serdes than the checkpoints
        name, StateLost and ForeignRecords as a start does."""
        committed = checkpoints.read(self.tasks.values())
        check_checkpoints(store_specs(self.config), committed.values())
        adopted = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED).newest)
        ssps = {SystemStreamPartition(*changelog_of(self.store), number): self.tasks[number] for number in self.tasks}
        logs = clients.offsets(ssps)
        ends: dict[SystemStreamPartition, int] = {}
        for ssp, task in ssps.items():
            checkpoint, log = committed[task], logs[ssp]
            last = -1 if checkpoint is None else checkpoint.changelog_offsets.get(self.store.name, -1)
            written_to = None if checkpoint is None else checkpoint.changelog_ids.get(self.store.name)
            check_end(ssp, log, last, written_to, self.topic_id, adopted.end(ssp, self.topic_id))
            if self.store.ttl_ms is None:
                check_beginning(ssp, log, last)
            if (own := own_changelog_ends(self.config, checkpoint)) is not None:
                ends[ssp] = max(own.get(self.store.name, 0), adopted.end(ssp, self.topic_id))
        refuse_records_past(ends, dict.fromkeys(ends, self.store.name), clients)
        return [ChangelogPart(ssp, log) for ssp, log in sorted(logs.items())]


@dataclass(frozen=True)
class RecordCopier:
    """Builds the records of the new changelog from the entries of the old one; it travels."""

    job: TravellingJob
    target: TravellingJob
    store: str
    convert: str
    parts: Sequence[ChangelogPart]
    max_record_bytes: int | None

    def records(self, numbers: Iterable[int]) -> Iterator[Record]:
        """The records of the parts with these numbers. Raises SerdeError and StoreRefused that name the record of the
        entry."""
        with self.job.arrived() as config, self.target.arrived() as target:
            copy = StoreCopy(config, target, self.store, self.convert)
            conversion = Conversion.of(copy, self.max_record_bytes)
            for number in numbers:
                part = self.parts[number]
                with part.opened(config, store_of(config.stores, self.store)) as contents:
                    for key, value, time_ms in contents.timed(part.ssp.partition):
                        try:
                            entry = conversion(key, value)
                        except EnvironmentFailure:
                            raise
                        except (SerdeError, StoreRefused) as cause:
                            place = part.place(config, Entry(part.ssp.partition, key, value))
                            raise type(cause)(f"{place}: {cause}") from cause
                        if entry is not None:
                            data = entry[1] if time_ms is None else stamped(time_ms, entry[1])
                            yield (part.ssp.partition, entry[0]), data


@final
@dataclass(frozen=True)
class Conversion:
    """Converts an entry's bytes. `source`: the serdes of keys and values before; `change`: the function in between."""

    source: tuple[Serde, Serde]
    target: EntryCodec
    change: Convert
    changed_by: str
    max_record_bytes: int | None

    @classmethod
    def of(cls, copy: StoreCopy, max_record_bytes: int | None) -> Conversion:
        """Raises ConfigError for a class or a function that cannot be used, EnvironmentFailure for a serde without its
        schema."""
        before, after = copy.stores
        source, target = _serdes(copy.job, before, writing=False), _serdes(copy.target, after, writing=True)
        change, name = _change(copy.convert, before, after)
        return cls(source, EntryCodec(after.name, *target), change, name, max_record_bytes)

    def __call__(self, key_bytes: bytes, value_bytes: bytes) -> tuple[bytes, bytes] | None:
        """The new entry, None to leave it out. Raises SerdeError, StoreRefused, EnvironmentFailure."""
        store = f"store '{self.target.store}'"
        key = _read(self.source[0], key_bytes, store, "key")
        key = as_tuples(key) if type(key) is list else key  # json and msgpack read the tuple of a task so
        value = _read(self.source[1], value_bytes, store, f"value of key {reprlib.repr(key)}")
        try:
            result = self.change(key, value)
        except Exception as cause:
            text = " ".join(f"{type(cause).__name__}: {cause}".split())
            raise SerdeError(f"{store}: key {reprlib.repr(key)}: {self.changed_by} failed ({text})") from cause
        if result is None:
            return None
        if not isinstance(result, tuple) or len(result) != 2:
            said = f"returned {reprlib.repr(result)}, expected (key, value), or None to leave the entry out"
            raise SerdeError(f"{store}: key {reprlib.repr(key)}: {self.changed_by} {said}")
        data = self.target.encode_key(result[0]), self.target.encode_value(*result)
        check_size(self.target.store, result[0], len(data[0]) + len(data[1]), self.max_record_bytes)
        return data


def _serdes(config: JobConfig, store: StoreConfig, *, writing: bool) -> tuple[Serde, Serde]:
    serdes = store_specs(config)[store.name].serdes(task_serdes(config))
    for serde, leaf in zip(serdes, ("key", "msg"), strict=True):
        try:
            hinted(serde).ready(writing=writing)
        except SerdeError as cause:
            raise ConfigError.of(f"stores.{store.name}.{leaf}.serde", None, str(cause)) from cause
    return serdes


def _read(serde: Serde, data: bytes, store: str, part: str) -> Any:
    try:
        return serde.from_bytes(data)
    except EnvironmentFailure:
        raise
    except Exception as cause:
        raise decode_failure(type(serde).__name__, store, part, SerdeError(hinted(serde).misfit(cause))) from cause


def _change(path: str, before: StoreConfig, after: StoreConfig) -> tuple[Convert, str]:
    """The user's function, else one from objects of the old classes to objects of the new ones; and its name."""
    if path:
        try:
            function = load_name(path)
        except PluginError as cause:
            raise ConfigError.of("--convert", path, str(cause)) from cause
        if not callable(function):
            raise ConfigError.of("--convert", path, "must be a function of key and value")
        return function, path
    key, value = _reclassed(before.key_type, after.key_type), _reclassed(before.msg_type, after.msg_type)
    return lambda old_key, old_value: (key(old_key), value(old_value)), "the new class"


def _reclassed(before: str | None, after: str | None) -> Callable[[Any], Any]:
    if before == after:
        return lambda value: value
    to_plain = plain_form(load_name(before)).to_plain if before else lambda value: value
    from_plain = plain_form(load_name(after)).from_plain if after else lambda value: value
    return lambda value: from_plain(to_plain(value))
