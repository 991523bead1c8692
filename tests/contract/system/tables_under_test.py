"""A database as the contract suite reads it: streams are tables, and what is written are rows with numbers from 0
on."""

import sqlite3
import uuid
from contextlib import closing
from itertools import count

import orjson
from system_under_test import SystemUnderTest

from samzapy.api.system import StreamSettings, SystemSettings
from samzapy.system.base import partition_of


class TablesUnderTest(SystemUnderTest):
    def __init__(self, path):
        self._path = path
        sqlite3.connect(path).close()
        self.streams = {}
        super().__init__(self._settings())

    def create(self, partitions=1):
        name = f"stream-{uuid.uuid4().hex[:12]}"
        self._execute([(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT, v TEXT)', ())])
        keys = {"database.order.by": "id", "database.key": "k", "database.columns": "v"}
        keys |= {"database.partitions": str(partitions), "database.poll.interval.ms": "10"}
        self.streams[name] = StreamSettings(f"streams.{name}.", keys)
        self.settings = self._settings()
        self.admin = self._kept(self.factory.admin(self.settings, "test-admin"))
        return name

    def write(self, stream, *values, partition=0, key=b"k"):
        partitions = int(self.streams[stream].properties["database.partitions"])
        keys = (f"{key.decode()}{number or ''}" for number in count())
        fitting = next(k for k in keys if partition_of(k.encode(), partitions) == partition)
        insert = f'INSERT INTO "{stream}" SELECT coalesce(max(id) + 1, 0), ?, ? FROM "{stream}"'
        self._execute([(insert, (fitting, value.decode())) for value in values])
        return self.upcoming(self.ssp(stream)) - 1

    def reader(self, *positions):
        return _Unwrapping(super().reader(*positions))

    def _settings(self):
        url = {"database.url": f"sqlite:///{self._path}"}
        factory = "samzapy.system.database:DatabaseSystemFactory"
        return SystemSettings("tables", factory, properties=url, streams=dict(self.streams))

    def _execute(self, statements):
        with closing(sqlite3.connect(self._path)) as connection, connection:
            for statement in statements:
                connection.execute(*statement)


class _Unwrapping:
    """Gives the one column of a row's object as the value."""

    def __init__(self, consumer):
        self._consumer = consumer

    def __getattr__(self, name):
        return getattr(self._consumer, name)

    def poll(self, timeout_s, max_records):
        return [
            batch._replace(values=[orjson.loads(value)["v"].encode() for value in batch.values])
            for batch in self._consumer.poll(timeout_s, max_records)
        ]
