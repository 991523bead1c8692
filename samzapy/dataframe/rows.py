"""Makes rows of the entries of a store, in the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql import types as sql

from samzapy.api.engine import EngineSettings
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.dataframe.columns import ReadColumn, read_column
from samzapy.dataframe.job import TravellingJob
from samzapy.dataframe.parts import StorePart
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.serializers import decode_failure, serde_registry
from samzapy.storage.engines import entry_serdes, load_engines
from samzapy.storage.inspection import Entry, Selection, store_of

COLUMNS = ("partition", "task", "key", "value")

_ARROW_ROWS = 10_000


@dataclass(frozen=True)
class Wanted:
    """The columns of a frame, in order, and the types wanted for keys and values; None leaves a type to the serde."""

    columns: tuple[str, ...]
    key: sql.DataType | None
    value: sql.DataType | None

    def of(self, config: JobConfig, store: StoreConfig) -> dict[str, ReadColumn]:
        """How keys and values are read. Raises ConfigError for a type that cannot be had."""
        settings = EngineSettings(store.name, store.properties)
        engine = load_engines(config)[store.name]
        key, value = entry_serdes(store, engine, settings, serde_registry(config))
        return {"key": read_column("key_schema", key, self.key), "value": read_column("schema", value, self.value)}

    def frame_schema(self, read: Mapping[str, ReadColumn]) -> sql.StructType:
        """The frame's. Raises ConfigError for a column that there is not."""
        types = {"partition": sql.IntegerType(), "task": sql.StringType(), **{n: c.type for n, c in read.items()}}
        for name in self.columns:
            if name not in types:
                raise ConfigError([ConfigProblem("columns", name, f"expected some of {', '.join(COLUMNS)}")])
        return sql.StructType([sql.StructField(name, types[name]) for name in self.columns])


@dataclass(frozen=True)
class RowReader:
    """The function of a Spark partition; it travels, and everything it opens is opened where it arrives."""

    job: TravellingJob
    store: str
    wanted: Wanted
    parts: Sequence[StorePart]
    tasks: Mapping[int, str]

    def rows(self, numbers: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """The rows of the parts of these numbers. Raises SerdeError that names stream[partition]@offset."""
        with self.job.arrived() as config:
            store = store_of(config, self.store)
            read = self.wanted.of(config, store)
            cells = self._cells(read)
            for number in numbers:
                part = self.parts[number]
                with part.opened(config, store) as contents:
                    for entry in contents.entries(Selection()):
                        try:
                            row = tuple([cell(entry) for cell in cells])
                        except Exception as cause:
                            self._fail(config, store, part, entry, read)
                            raise AssertionError from cause
                        yield row

    def batches(self, schema: sql.StructType, numbers: Iterator[Any]) -> Iterator[Any]:
        """The same by Arrow: record batches with the numbers in, record batches of the schema out."""
        import pyarrow as pa  # noqa: PLC0415  # optional
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # needs pyarrow

        arrow = to_arrow_schema(schema, timezone="UTC")
        rows = self.rows(number for batch in numbers for number in batch.column(0).to_pylist())
        while chunk := list(islice(rows, _ARROW_ROWS)):
            columns = [
                pa.array(column, field.type) for column, field in zip(zip(*chunk, strict=True), arrow, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _cells(self, read: Mapping[str, ReadColumn]) -> list[Callable[[Entry], Any]]:
        tasks, read_key, read_value = self.tasks, read["key"].read, read["value"].read
        cells: dict[str, Callable[[Entry], Any]] = {
            "partition": lambda entry: entry.partition,
            "task": lambda entry: tasks.get(entry.partition),
            "key": lambda entry: read_key(entry.key),
            "value": lambda entry: read_value(entry.value),
        }
        return [cells[name] for name in self.wanted.columns]

    @staticmethod
    def _fail(
        config: JobConfig, store: StoreConfig, part: StorePart, entry: Entry, read: Mapping[str, ReadColumn]
    ) -> None:
        """Read key and value once more, to say which of them it is."""
        named = (("key", store.key_serde, entry.key), ("value", store.msg_serde, entry.value))
        for what, serde, data in named:
            try:
                read[what].read(data)
            except Exception as cause:
                raise decode_failure(serde or "store's", part.place(config, entry), what, cause) from cause
