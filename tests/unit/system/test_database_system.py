"""Tables of a SQLite database as streams."""

import base64
import json
import sqlite3

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSettings, SystemSettings
from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange, Unreachable
from samzapy.system.database import DatabaseSystemFactory
from samzapy.testing import ManualClock


class Shop:
    """A database with a connection that writes, and the streams that are read of it."""

    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:///{path}"
        self.clock = ManualClock()
        self.writer = sqlite3.connect(path, isolation_level=None)
        self.write = self.writer.execute
        self.streams = {}
        self._clients = []

    def stream(self, name="t", **keys):
        given = {"poll.interval.ms": "1000"} | {key.replace("_", "."): value for key, value in keys.items()}
        prefixed = {f"database.{key}": value for key, value in given.items()}
        self.streams[name] = StreamSettings(f"streams.{name}.", prefixed)

    @property
    def settings(self):
        properties = {"database.url": self.url}
        return SystemSettings("shop", "database", properties=properties, streams=self.streams)

    def admin(self):
        return self._kept(DatabaseSystemFactory(self.clock).admin(self.settings, "a"))

    def reader(self, offset=0, stream="t", partitions=1):
        reader = self._kept(DatabaseSystemFactory(self.clock).consumer(self.settings, "c"))
        reader.start({SystemStreamPartition("shop", stream, partition): offset for partition in range(partitions)})
        return reader

    def rest(self, reader, most=1000):
        """What can be read now, at the next look: (offset, key, value)."""
        self.clock.advance(1)
        found = []
        while batches := reader.poll(0.0, most):
            for batch in batches:
                values = [None if value is None else json.loads(value) for value in batch.values]
                found += zip(batch.offsets, batch.keys, values, strict=True)
        return found

    def upcoming(self, stream="t"):
        ssp = SystemStreamPartition("shop", stream, 0)
        return self.admin().offsets([ssp])[ssp].upcoming

    def close(self):
        for client in self._clients:
            client.close()
        self.writer.close()

    def _kept(self, client):
        self._clients.append(client)
        return client


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path / "shop.db")
    yield shop
    shop.close()


@pytest.fixture
def versions(shop):
    """Customers, whose version is drawn anew by each change."""
    shop.write("CREATE TABLE t (id TEXT PRIMARY KEY, name TEXT, gone BOOLEAN, version INTEGER NOT NULL UNIQUE)")
    shop.stream(order_by="version", deleted_column="gone", columns="name")
    return shop


# Rows as messages


def test_a_row_is_its_key_as_text_and_its_columns_as_an_object(shop):
    shop.write(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price DECIMAL(10,2), made DATE, raw BLOB, good BOOLEAN)"
    )
    shop.write("INSERT INTO t VALUES (7, 'käse', '1.10', '2024-02-29', x'00ff', 1), (9, NULL, NULL, NULL, NULL, NULL)")
    shop.stream(order_by="id")
    raw = base64.b64encode(b"\x00\xff").decode()
    assert shop.rest(shop.reader()) == [
        (7, b"7", {"id": 7, "name": "käse", "price": 1.1, "made": "2024-02-29", "raw": raw, "good": True}),
        (9, b"9", {"id": 9, "name": None, "price": None, "made": None, "raw": None, "good": None}),
    ]


def test_a_key_of_several_columns_is_an_array_and_a_key_that_is_null_none(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER)")
    shop.write("INSERT INTO t VALUES (1, 'x', 2), (2, NULL, 3)")
    shop.stream(order_by="id", key="a,b")
    shop.stream("u", table="t", order_by="id", key="a")
    assert [key for _, key, _ in shop.rest(shop.reader())] == [b'["x",2]', b"[null,3]"]
    assert [key for _, key, _ in shop.rest(shop.reader(stream="u"))] == [b"x", None]


def test_a_changed_row_comes_again_at_its_new_place_and_a_deleted_one_as_a_tombstone(versions):
    versions.write("INSERT INTO t VALUES ('a', 'ann', 0, 1), ('b', 'bob', 0, 2)")
    reader = versions.reader()
    assert versions.rest(reader) == [(1, b"a", {"name": "ann"}), (2, b"b", {"name": "bob"})]
    versions.write("UPDATE t SET name = 'anna', version = 3 WHERE id = 'a'")
    versions.write("UPDATE t SET gone = 1, version = 4 WHERE id = 'b'")
    assert versions.rest(reader) == [(3, b"a", {"name": "anna"}), (4, b"b", None)]
    assert versions.rest(versions.reader()) == [(3, b"a", {"name": "anna"}), (4, b"b", None)]


def test_a_text_that_is_none_is_named_with_its_column(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    shop.write("INSERT INTO t VALUES (3, CAST(x'edb080' AS TEXT))")
    shop.stream(order_by="id")
    with pytest.raises(EnvironmentFailure, match=r"system 'shop' .*Could not decode to UTF-8 column 'name_5'"):
        shop.rest(shop.reader())


# Rows that turn up late


def test_a_row_that_comes_after_the_look_waits_for_a_lag_of_its_own(versions):
    versions.stream(order_by="version", safety_lag_ms="3000")
    versions.write("INSERT INTO t VALUES ('a', 'ann', 0, 5)")
    reader = versions.reader()
    versions.rest(reader)
    versions.write("INSERT INTO t VALUES ('c', 'cay', 0, 9)")
    seen = [[offset for offset, _, _ in versions.rest(reader)] for _ in range(3)]
    versions.write("INSERT INTO t VALUES ('b', 'bob', 0, 8)")
    seen += [[offset for offset, _, _ in versions.rest(reader)] for _ in range(4)]
    assert seen == [[], [], [5], [], [], [8, 9], []]


def test_a_row_without_a_place_in_the_order_is_named(shop):
    shop.write("CREATE TABLE t (id TEXT PRIMARY KEY, version INTEGER UNIQUE)")
    shop.write("INSERT INTO t VALUES ('a', 1)")
    shop.stream(order_by="version")
    reader = shop.reader()
    assert len(shop.rest(reader)) == 1
    shop.write("INSERT INTO t VALUES ('b', NULL)")
    expected = r"shop.t: streams.t.database.order.by: the row with key b has version=None, expected an integer >= 0 in "
    with pytest.raises(EnvironmentFailure, match=expected):
        shop.rest(reader)
    shop.write("UPDATE t SET version = -4 WHERE id = 'b'")
    with pytest.raises(EnvironmentFailure, match=r"key b has version=-4, expected an integer >= 0"):
        shop.rest(shop.reader())


# Times


@pytest.mark.parametrize("value", ["'2023-11-14T22:00:00'", "'yesterday'", "1700000000", "'2023-11-14 22:00:00+01:00'"])
def test_a_time_in_another_format_is_refused(shop, value):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
    shop.write(f"INSERT INTO t VALUES (1, {value})")
    shop.stream(order_by="id", timestamp_column="changed")
    allowed = r"streams\.t\.database\.timestamp\.column: expected a time, as text 2026-01-31 12:00:00 in UTC, got "
    with pytest.raises(EnvironmentFailure, match=allowed):
        shop.rest(shop.reader())


def test_messages_carry_the_time_of_their_row_and_are_found_by_it(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY, changed DATETIME)")
    shop.write("INSERT INTO t VALUES (4, '2024-01-01 00:00:00.250'), (5, NULL), (6, '2024-01-01 00:00:02')")
    shop.stream(order_by="id", timestamp_column="changed")
    shop.clock.advance(1)
    (batch,) = shop.reader().poll(0.0, 10)
    start = 1_704_067_200_000
    assert list(batch.timestamps) == [start + 250, -1, start + 2000]
    ssp, admin = batch.ssp, shop.admin()
    times = [start, start + 250, start + 251, start + 2000, start + 2001]
    assert [admin.offsets_at([ssp], time)[ssp] for time in times] == [4, 4, 6, 6, 7]


def test_a_time_needs_a_column_that_has_one(versions):
    needed = r"shop\.t: a time needs streams\.t\.database\.timestamp\.column"
    with pytest.raises(EnvironmentFailure, match=needed):
        versions.admin().offsets_at([SystemStreamPartition("shop", "t", 0)], 0)


# What does not fit


def refusal(shop, **keys):
    shop.stream(**keys)
    with pytest.raises((ConfigError, EnvironmentFailure)) as refused:
        shop.admin().describe("t")
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_table_that_is_not_there_is_named_with_those_that_are(shop):
    shop.write("CREATE TABLE customers (id INTEGER PRIMARY KEY)")
    assert refusal(shop, order_by="id") == f"system 'shop' ({shop.url}): table t does not exist; there are: customers"


def test_columns_that_are_not_there_are_told_together(versions):
    versions.stream(order_by="versoin", deleted_column="deleted", columns="name,nmae")
    with pytest.raises(ConfigError) as refused:
        versions.admin().describe("t")
    there = f"a column of table t in {versions.url}: id, name, gone, version"
    assert str(refused.value).splitlines() == [
        f"streams.t.database.order.by: {there}, got 'versoin'",
        f"streams.t.database.deleted.column: {there}, got 'deleted'",
        f"streams.t.database.columns: {there}, got 'nmae'",
    ]


@pytest.mark.parametrize(
    ("table", "keys", "expected"),
    [
        ("id INTEGER PRIMARY KEY, n INTEGER", {}, "an integer must be unique: the primary key, or with a unique index"),
        ("n INTEGER, m INTEGER, UNIQUE (n, m)", {"key": "m"}, "an integer must be unique"),
        ("n TEXT PRIMARY KEY", {}, "from a sequence; this is TEXT"),
        ("n TIMESTAMP PRIMARY KEY", {}, "rows can share a time; name a column that grows"),
        ("n INTEGER UNIQUE", {}, "streams.t.database.key: required, since table t has no primary key"),
        ("n INTEGER PRIMARY KEY, m INTEGER", {"timestamp_column": "m"}, "a timestamp, this is INTEGER, got 'm'"),
    ],
)
def test_an_order_that_could_lose_rows_is_refused(shop, table, keys, expected):
    shop.write(f"CREATE TABLE t ({table})")
    assert expected in refusal(shop, order_by="n", **keys)


def test_a_partial_unique_index_makes_no_order(shop):
    shop.write("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, live BOOLEAN)")
    shop.write("CREATE UNIQUE INDEX i ON t (n) WHERE live")
    assert "an integer must be unique" in refusal(shop, order_by="n")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("shop.db", "systems.shop.database.url: a URL like sqlite:///shop.db or postgresql+psycopg://"),
        ("nosuch://u:secret@h/d", "needs a database driver that is not installed"),
        ("mssql+pyodbc://u:secret@h/d", "needs a database driver that is not installed"),
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(shop, url, expected):
    shop.url = url
    with pytest.raises(ConfigError) as refused:
        DatabaseSystemFactory().check(shop.settings)
    assert expected in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named_and_not_made(shop, tmp_path):
    shop.url = f"sqlite:///{tmp_path}/other.db"
    assert refusal(shop, order_by="id") == f"system 'shop' ({shop.url}): there is no such file"
    assert not (tmp_path / "other.db").exists()


def test_a_table_that_vanishes_is_told_in_one_line_and_found_again_when_it_is_back(versions):
    reader = versions.reader()
    assert versions.rest(reader) == []
    versions.write("ALTER TABLE t RENAME TO hidden")
    with pytest.raises(EnvironmentFailure, match=r"system 'shop' \(sqlite:///.*\): no such table: t"):
        versions.rest(reader)
    versions.write("INSERT INTO hidden VALUES ('a', 'ann', 0, 1)")
    versions.write("ALTER TABLE hidden RENAME TO t")
    assert versions.rest(reader) == [(1, b"a", {"name": "ann"})]


# Positions beyond the last row


def test_rows_that_were_read_may_be_deleted_and_reading_goes_on(shop, caplog):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    shop.write("INSERT INTO t VALUES (1), (2), (3)")
    shop.stream(order_by="id")
    shop.write("DELETE FROM t")
    assert shop.upcoming() == 0
    assert DatabaseSystemFactory().traits(shop.settings).upcoming_goes_back
    reader = shop.reader(4)
    assert shop.rest(reader) == []
    shop.write("INSERT INTO t DEFAULT VALUES")
    assert [offset for offset, _, _ in shop.rest(reader)] == [4]
    assert not caplog.records


def test_a_table_that_counts_anew_is_refused_where_the_database_knows_it(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    shop.write("INSERT INTO t VALUES (1), (2), (3), (4)")
    shop.stream(order_by="id")
    running = shop.reader()
    shop.rest(running)
    shop.write("DELETE FROM t")
    assert shop.rest(running) == []
    shop.write("UPDATE sqlite_sequence SET seq = 0")
    shop.write("INSERT INTO t DEFAULT VALUES")
    shop.write("INSERT INTO t DEFAULT VALUES")
    for reader in (shop.reader(5), running):
        with pytest.raises(
            OffsetOutOfRange, match=r"shop\.t\[0\]@5: the log holds offsets 0 to 3 .*checkpoint set JOB oldest"
        ):
            shop.rest(reader)


def test_a_table_that_may_count_anew_is_warned_of(versions, caplog):
    versions.write("INSERT INTO t VALUES ('a', 'ann', 0, 1)")
    assert versions.rest(versions.reader(5)) == []
    assert [record.getMessage() for record in caplog.records] == [
        "shop.t[0]@5: the last row is 1; were the rows after it deleted?"
    ]


def test_a_server_that_does_not_answer_is_waited_for(shop):
    pytest.importorskip("psycopg")
    shop.url = "postgresql+psycopg://ann@127.0.0.1:1/shop"
    shop.stream(order_by="id")
    with pytest.raises(Unreachable, match=r"system 'shop' \(postgresql") as caught:
        shop.upcoming()
    assert caught.value.service == "the database"
