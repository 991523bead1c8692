"""Records the actions of a task in a replay: its outputs, and the changes of its stores with the previous values.

A step of a replay ends with a commit, so the changes of a step are its commit's changes, one per key. They are recorded
at the storage engine, so they include changes of caches, views, timers and expiry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from samzapy.api.engine import (
    Changes,
    CommittedEntries,
    Cursor,
    EngineSettings,
    Part,
    Problems,
    StorageEngine,
    StorageEngineFactory,
)
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord
from samzapy.config.job import JobConfig
from samzapy.config.streams.serdes import typed_name
from samzapy.job.lease import UserFailure
from samzapy.serializers import serde_registry
from samzapy.storage.kv.expiring import unstamped
from samzapy.storage.spec import StoreSpec


@dataclass(frozen=True)
class Output:
    """A record that the task would have sent. Key and message are plain values, as the stream's serdes decode them;
    `partition` is None if the key chooses it."""

    stream: str
    key: Any
    message: Any
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Change:
    """A change of a store; `before` and `after` are None where the key is absent."""

    store: str
    key: Any
    before: Any
    after: Any


@dataclass(frozen=True)
class Input:
    """A record that was processed, or the span of many, without key and message."""

    position: str
    key: Any = None
    message: Any = None


@dataclass(frozen=True)
class Step:
    """One message, one batch, or the windows and timers between two, with its time in milliseconds since 1970, its
    effects and its failures, including failures that an error policy has handled. `ended`: the last failure has ended
    the replay, so the job would have committed nothing of the step."""

    at: str
    time_ms: int
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    changes: tuple[Change, ...] = ()
    failures: tuple[UserFailure, ...] = ()
    ended: bool = False

    @property
    def has_effects(self) -> bool:
        """Whether the step has done anything."""
        return bool(self.outputs or self.changes or self.failures)

    def to_json(self) -> dict[str, Any]:
        """Return one object, for a line of JSON."""
        return {
            "at": self.at,
            "time-ms": self.time_ms,
            "inputs": [{"at": item.position, "key": item.key, "message": item.message} for item in self.inputs],
            "outputs": [{**vars(item), "headers": dict(item.headers)} for item in self.outputs],
            "changes": [dict(vars(item)) for item in self.changes],
            "failures": [
                {"where": item.where, "exception": item.exception, "message": item.message, "line": item.at}
                for item in self.failures
            ],
            "ended": self.ended,
        }


class Values:
    """Decodes bytes with the serdes of the job file, to plain values. Bytes that do not decode are shown as bytes."""

    def __init__(self, config: JobConfig, specs: Mapping[str, StoreSpec]) -> None:
        self._config = config
        self._registry = serde_registry(config)
        self._of_store = {name: spec.serdes(self._registry) for name, spec in specs.items()}
        self._stamped = {name for name, store in config.stores.items() if store.ttl_ms is not None}

    def record(self, stream: SystemStream, key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        """Key and message of a record of a stream; bytes of a stream that is not in the job file."""
        if stream.system not in self._config.systems:
            return key, value
        known = self._config.stream(stream)
        return (
            self._decoded(self._serde(known.key_serde, known.key_type), key),
            self._decoded(self._serde(known.msg_serde, known.msg_type), value),
        )

    def _serde(self, name: str | None, path: str | None) -> Serde | None:
        return None if name is None else self._registry[typed_name(name, path)]

    def change(self, store: str, key: bytes, before: bytes | None, after: bytes | None) -> Change:
        """A change of a store's entry."""
        keys, values = self._of_store[store]
        plain = (None if item is None else self._value(store, item) for item in (before, after))
        return Change(store, self._decoded(keys, key), *(self._decoded(values, item) for item in plain))

    def _value(self, store: str, data: bytes) -> bytes:
        return unstamped(data) if store in self._stamped else data

    @staticmethod
    def _decoded(serde: Serde | None, data: bytes | None) -> Any:
        if data is None or serde is None:
            return data
        try:
            return serde.from_bytes(data)
        except Exception:  # noqa: BLE001  # the message that does not decode is what the replay is about
            return data


class _Changed(NamedTuple):
    """A change as bytes."""

    before: bytes | None
    after: bytes | None


@dataclass
class Recorder:
    """Collects effects since the last `take`. `active`: False until the task has started, because a restore is not a
    change."""

    active: bool = False
    _sent: list[tuple[str, OutgoingRecord]] = field(default_factory=list)
    _changes: dict[tuple[str, bytes], _Changed] = field(default_factory=dict)
    _failures: list[UserFailure] = field(default_factory=list)

    def sent(self, system: str, record: OutgoingRecord) -> None:
        """Note a record for a system."""
        self._sent.append((system, record))

    def wrote(self, store: str, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Note that a commit has changed an entry."""
        first = self._changes.get((store, key))
        self._changes[store, key] = _Changed(before if first is None else first.before, after)

    def failed(self, failure: UserFailure) -> None:
        """Note a failure of the user's code; repetitions of the same failure count once."""
        if not any(failure.is_again(known) and failure.message == known.message for known in self._failures):
            self._failures.append(failure)

    def take(self, values: Values) -> tuple[tuple[Output, ...], tuple[Change, ...], tuple[UserFailure, ...]]:
        """The outputs in order, the changes by store and key, and the failures since the last call."""
        outputs = tuple(_output(values, system, record) for system, record in self._sent)
        changes = tuple(
            values.change(store, key, *changed)
            for (store, key), changed in sorted(self._changes.items())
            if changed.before != changed.after
        )
        failures = tuple(self._failures)
        self.forget()
        return outputs, changes, failures

    def forget(self) -> None:
        """Drop the collected records."""
        self._sent, self._changes, self._failures = [], {}, []


def _output(values: Values, system: str, record: OutgoingRecord) -> Output:
    stream = SystemStream(system, record.stream)
    key, message = values.record(stream, record.key, record.value)
    headers = ((name, "" if held is None else held.decode(errors="replace")) for name, held in record.headers or ())
    return Output(str(stream), key, message, record.partition, record.timestamp, tuple(headers))


class RecordingEngines(StorageEngineFactory):
    """Opens the engines of another factory, and records all writes to them."""

    def __init__(self, real: StorageEngineFactory, recorder: Recorder) -> None:
        self._real = real
        self._recorder = recorder
        self._opened: RecordingEngine | None = None
        self.persistent = real.persistent

    def open(self, directory: Path | None, settings: EngineSettings, *, read_only: bool = False) -> StorageEngine:
        opened = self._real.open(directory, settings, read_only=read_only)
        self._opened = RecordingEngine(opened, settings.store, self._recorder)
        return self._opened

    def entries(self) -> dict[bytes, bytes]:
        """The entries of the engine that was opened last, nothing before the first."""
        if self._opened is None:
            return {}
        with self._opened.iterate(None, None) as pairs:
            return dict(pairs)

    def check(self, settings: EngineSettings) -> Problems:
        return self._real.check(settings)


class RecordingEngine(StorageEngine):
    """An engine that records the changes of commits, with the values before them."""

    def __init__(self, real: StorageEngine, store: str, recorder: Recorder) -> None:
        self._real = real
        self._store = store
        self._recorder = recorder

    def write(self, changes: Changes, marker: bytes) -> None:
        if self._recorder.active and changes:
            keys = list(changes)
            for key, before in zip(keys, self._real.get_all(keys), strict=True):
                self._recorder.wrote(self._store, key, before, changes[key])
        self._real.write(changes, marker)

    def get(self, key: bytes) -> bytes | None:
        return self._real.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._real.get_all(keys)

    def iterate(self, lower: bytes | None, upper: bytes | None) -> Cursor:
        return self._real.iterate(lower, upper)

    def snapshot(self) -> CommittedEntries:
        return self._real.snapshot()

    def load(self, parts: Iterable[Part], marker: bytes) -> None:
        self._real.load(parts, marker)

    def marker(self) -> bytes | None:
        return self._real.marker()

    def flush(self, *, wait: bool = True) -> bool:
        return self._real.flush(wait=wait)

    def close(self) -> None:
        self._real.close()
