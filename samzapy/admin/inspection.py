"""Answers the page's questions about committed records: a key of a store, a message of an input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice

from samzapy.admin.store_queries import Question, store_entries
from samzapy.admin.streams import Literal, Range, Record, as_text, records
from samzapy.api.stream import SystemStream
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.coordinator.page.inspector import LONGEST, Asked, Found, Inspector
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange
from samzapy.serializers import serde_registry

#: Seconds without progress after which the search for a message ends: the readers of a page wait for one another.
_PATIENCE_S = 10.0


class JobInspector(Inspector):
    """Reads the changelogs and inputs of one job, with new clients for each question.

    Stores without a changelog are left out: their entries are only on the hosts of their containers.
    """

    def __init__(self, config: JobConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock

    @property
    def stores(self) -> Sequence[str]:
        return sorted(name for name, store in self._config.stores.items() if store.changelog is not None)

    @property
    def streams(self) -> Sequence[str]:
        return sorted({str(stream) for stream in self._config.task.inputs})

    def answer(self, asked: Asked) -> Sequence[Found]:
        return self._entries(asked) if asked.store else self._message(asked)

    def _entries(self, asked: Asked) -> Sequence[Found]:
        if asked.store not in self.stores:
            allowed = f"the stores with a changelog are {', '.join(self.stores)}"
            raise ConfigError([ConfigProblem("store", asked.store, allowed)])
        with store_entries(Question(self._config, asked.store)) as entries:
            return [
                _found(f"store {asked.store}, partition {entry.partition}", *entries.values(entry))
                for entry in entries.of_keys([asked.key])
            ]

    def _message(self, asked: Asked) -> Sequence[Found]:
        if asked.stream not in self.streams:
            raise ConfigError([ConfigProblem("stream", asked.stream, f"the inputs are {', '.join(self.streams)}")])
        if not asked.partition.isdecimal() or len(asked.partition) > 9:
            raise ConfigError([ConfigProblem("partition", asked.partition, "expected a number from 0")])
        stream = SystemStream.parse(asked.stream)
        wanted = Range(asked.offset, (int(asked.partition),), patience_s=_PATIENCE_S)
        settings = self._config.systems[stream.system]
        try:
            with closing(records(settings, stream, wanted, self._clock)) as found:
                return [self._shown(stream, record) for record in islice(found, 1)]
        except OffsetOutOfRange as cause:
            raise ConfigError([ConfigProblem("offset", asked.offset, str(cause))]) from cause

    def _shown(self, stream: SystemStream, record: Record) -> Found:
        registry = serde_registry(self._config)
        known = self._config.stream(stream)
        place = f"{record.ssp}@{record.offset}"

        def decoded(serde: str | None, data: bytes | None, part: str) -> object:
            return Literal(serde or "bytes", registry[serde or "bytes"]).decode(data, place, part)

        return _found(
            place, decoded(known.key_serde, record.key, "key"), decoded(known.msg_serde, record.value, "message")
        )


def _found(place: str, key: object, value: object) -> Found:
    return Found(place, as_text(key)[:LONGEST], as_text(value)[:LONGEST])
