"""Tables of a SQLite database as streams."""

import base64
import json
import sqlite3

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSettings, SystemSettings
from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange
from samzapy.system.database import DatabaseSystemFactory
from samzapy.testing import ManualClock

SECOND = 2**30
#: The number of the last row of a second.
LAST = SECOND - 1
#: Where a manual clock begins: 2023-11-14 22:13:20.
NOW_S = 1_700_000_000


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
        for partition in range(partitions):
            reader.register(SystemStreamPartition("shop", stream, partition), offset)
        reader.start()
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
    expected = r"shop.t: streams.t.database.order.by: the row with key b has version=None, expected an integer >= 0 in every row "
    with pytest.raises(EnvironmentFailure, match=expected):
        shop.rest(reader)
    shop.write("UPDATE t SET version = -4 WHERE id = 'b'")
    with pytest.raises(EnvironmentFailure, match=r"key b has version=-4, expected an integer >= 0"):
        shop.rest(shop.reader())


# Timestamps


@pytest.fixture
def dated(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)")
    shop.stream(order_by="changed", columns="id")
    return shop


def put(shop, **changed):
    """Rows by id, at seconds before now."""
    for name, ago in changed.items():
        time = f"datetime({NOW_S} - {ago}, 'unixepoch')"
        shop.write(f"INSERT OR REPLACE INTO t VALUES ({name[1:]}, {time})")


def numbers(found):
    return [(divmod(offset, SECOND), value["id"]) for offset, _, value in found]


def test_rows_of_one_time_are_numbered_in_the_order_of_their_key(dated):
    put(dated, r3=60, r1=60, r2=60, r9=61, r4=59)
    assert numbers(dated.rest(dated.reader(), most=2)) == [
        ((NOW_S - 61, LAST), 9),
        ((NOW_S - 60, 0), 1),
        ((NOW_S - 60, 1), 2),
        ((NOW_S - 60, LAST), 3),
        ((NOW_S - 59, LAST), 4),
    ]


def test_the_last_row_a_partition_has_of_a_second_is_known_though_others_have_more_of_it(dated):
    dated.stream(order_by="changed", columns="id", partitions="2")
    put(dated, **{f"r{number}": 60 for number in range(20)}, r99=50)
    ssps = [SystemStreamPartition("shop", "t", partition) for partition in range(2)]
    dated.clock.advance(1)
    for most in (1, 2, 3, 20, 21, 22):
        reader, found = dated.reader(partitions=2), []
        while any(reader.position(ssp) < dated.upcoming() for ssp in ssps):
            for batch in reader.poll(0.0, most):
                values = map(json.loads, batch.values)
                found += numbers(zip(batch.offsets, batch.keys, values, strict=True))
        assert sorted(row for _, row in found) == [*range(20), 99]
        assert sorted((place for place, row in found if row < 99), reverse=True)[:2] == [(NOW_S - 60, LAST)] * 2


def test_a_poll_ends_between_two_seconds_where_it_can(dated):
    put(dated, r1=60, r2=60, r3=59, r4=59, r5=59)
    reader, ssp = dated.reader(), SystemStreamPartition("shop", "t", 0)
    dated.clock.advance(1)
    for most, rows, boundary in ((3, 2, True), (2, 2, False), (2, 1, True)):
        (batch,) = reader.poll(0.0, most)
        upcoming = batch.offsets[-1] + 1
        assert len(batch.offsets) == rows
        assert (reader.boundary(ssp, upcoming) == upcoming) is boundary
        assert reader.boundary(ssp, upcoming) in {(NOW_S - 59) * SECOND, (NOW_S - 58) * SECOND}


def test_a_poll_of_one_row_reads_a_second_that_holds_many(dated):
    put(dated, r1=60, r2=60, r3=60)
    assert [row for _, row in numbers(dated.rest(dated.reader(), most=1))] == [1, 2, 3]


def test_fractions_of_a_second_are_ordered_whether_they_are_written_or_not(dated):
    dated.write(
        "INSERT INTO t VALUES (1, '2023-11-14 22:00:00.5'), (2, '2023-11-14 22:00:00'), (3, '2023-11-14 22:00:01')"
    )
    dated.write("INSERT INTO t VALUES (4, '2023-11-14 22:00:00.000001'), (5, '2023-11-14 21:59:59.999999')")
    assert [row["id"] for _, _, row in dated.rest(dated.reader())] == [5, 2, 4, 1, 3]


def test_a_start_within_a_second_repeats_it_and_loses_no_row_whatever_has_changed(dated):
    put(dated, r1=60, r2=60, r3=60, r4=60)
    dated.clock.advance(1)
    (batch,) = dated.reader().poll(0.0, 2)
    assert [json.loads(value)["id"] for value in batch.values] == [1, 2]
    put(dated, r1=30)  # so 3 is now second: whoever goes on at the third has missed it
    again = numbers(dated.rest(dated.reader(batch.offsets[-1] + 1)))
    assert again == [((NOW_S - 60, 2), 2), ((NOW_S - 60, 3), 3), ((NOW_S - 60, LAST), 4), ((NOW_S - 30, LAST), 1)]


def test_a_reader_that_goes_on_repeats_nothing_though_rows_before_it_have_moved(dated):
    put(dated, r1=60, r2=60, r3=60, r4=60)
    reader = dated.reader()
    dated.clock.advance(1)
    (batch,) = reader.poll(0.0, 2)
    put(dated, r1=30)
    rest = numbers(dated.rest(reader))
    assert len(batch.offsets) == 2
    assert rest == [((NOW_S - 60, 2), 3), ((NOW_S - 60, LAST), 4), ((NOW_S - 30, LAST), 1)]


def test_a_second_is_read_when_the_lag_has_passed_since_its_end(dated):
    put(dated, r1=12, r2=8)
    reader = dated.reader()
    assert numbers(dated.rest(reader)) == [((NOW_S - 12, LAST), 1)]
    put(dated, r3=8)  # late
    assert numbers(dated.rest(reader)) == []
    assert numbers(dated.rest(reader)) == [((NOW_S - 8, 0), 2), ((NOW_S - 8, LAST), 3)]


def test_a_row_of_the_future_waits_and_holds_nothing_back(dated):
    put(dated, r1=-3600, r2=100)
    reader = dated.reader()
    assert [row["id"] for _, _, row in dated.rest(reader)] == [2]
    put(dated, r3=5)
    dated.clock.advance(10)
    assert [row["id"] for _, _, row in dated.rest(reader)] == [3]
    dated.clock.advance(3600)
    assert [row["id"] for _, _, row in dated.rest(reader)] == [1]


def test_a_position_that_the_clock_has_not_reached_is_warned_of_once_with_what_to_do(dated, caplog):
    put(dated, r1=60)
    reader = dated.reader()
    dated.rest(reader)
    dated.clock.advance(3600)  # a clock that is wrong for one look
    dated.rest(reader)
    assert not caplog.messages
    dated.clock.set_wall(NOW_S * 1000)
    put(dated, r2=-60)
    dated.clock.advance(120)
    assert dated.rest(reader) == dated.rest(reader) == []
    (said,) = caplog.messages
    assert (
        "shop.t: the clock of the database is at 2023-11-14T22:15:21Z, but the table was read up to 2023-11-14T23:13:"
        in said
    )
    assert said.endswith("samzapy checkpoint set JOB 2023-11-14T22:15:11Z")
    # The next start has the same positions.
    dated.rest(dated.reader(reader.position(SystemStreamPartition("shop", "t", 0))))
    assert len(caplog.messages) == 2


def test_a_reader_at_the_end_of_a_table_that_is_written_now_is_not_ahead(dated, caplog):
    put(dated, r1=0)
    dated.clock.set_wall(NOW_S * 1000)
    reader = dated.reader(dated.upcoming())
    dated.clock.set_wall(NOW_S * 1000 - 1900)
    assert dated.rest(reader) == []
    assert not caplog.messages


def test_the_end_of_a_dated_table_is_reached_though_its_last_row_is_deleted(dated):
    put(dated, r1=60, r2=20)
    end = dated.upcoming()
    assert end == (NOW_S - 20 + 1) * SECOND
    dated.write("DELETE FROM t WHERE id = 2")
    reader = dated.reader()
    dated.rest(reader)
    assert reader.position(SystemStreamPartition("shop", "t", 0)) >= end


@pytest.mark.parametrize("value", ["'2023-11-14T22:00:00'", "'yesterday'", "1700000000", "'2023-11-14 22:00:00+01:00'"])
def test_a_time_that_is_written_otherwise_is_shown_and_not_misread(dated, value):
    dated.write(f"INSERT INTO t VALUES (1, {value})")
    allowed = r"streams\.t\.database\.order\.by: expected a time, as text 2026-01-31 12:00:00 in UTC, got "
    with pytest.raises(EnvironmentFailure, match=allowed):
        dated.upcoming()


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


def test_a_dated_table_is_found_by_time_to_the_second(dated):
    put(dated, r1=60, r2=20)
    ssp, admin = SystemStreamPartition("shop", "t", 0), dated.admin()
    times = [0, (NOW_S - 60) * 1000 + 1, NOW_S * 1000]
    found = [admin.offsets_at([ssp], time)[ssp] // SECOND for time in times]
    assert found == [NOW_S - 60, NOW_S - 20, NOW_S - 19]


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
        ("n TEXT PRIMARY KEY", {}, "an integer or a timestamp, this is TEXT"),
        ("n TIMESTAMP, m INTEGER", {"key": "m"}, "the table needs a primary key, or a unique, not null key"),
        ("n TIMESTAMP, m INTEGER UNIQUE", {"key": "m"}, "the table needs a primary key, or a unique, not null key"),
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


def test_a_unique_key_takes_the_place_of_a_primary_key(shop):
    shop.write("CREATE TABLE t (code TEXT NOT NULL UNIQUE, n TIMESTAMP NOT NULL)")
    shop.write("INSERT INTO t VALUES ('b', '2020-01-01 00:00:00'), ('a', '2020-01-01 00:00:00')")
    shop.stream(order_by="n", key="code")
    assert [key for _, key, _ in shop.rest(shop.reader())] == [b"a", b"b"]


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
    assert shop.admin().upcoming_goes_back
    reader = shop.reader(4)
    assert shop.rest(reader) == []
    shop.write("INSERT INTO t DEFAULT VALUES")
    assert [offset for offset, _, _ in shop.rest(reader)] == [4]
    assert not caplog.records


def test_a_table_that_counts_anew_is_refused_where_the_database_knows_it(shop):
    shop.write("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    shop.write("INSERT INTO t VALUES (1), (2)")
    shop.stream(order_by="id")
    with pytest.raises(
        OffsetOutOfRange, match=r"shop\.t\[0\]@5: the log holds offsets 0 to 3 .*checkpoint set JOB oldest"
    ):
        shop.rest(shop.reader(5))


def test_a_table_that_may_count_anew_is_warned_of(versions, caplog):
    versions.write("INSERT INTO t VALUES ('a', 'ann', 0, 1)")
    assert versions.rest(versions.reader(5)) == []
    assert [record.getMessage() for record in caplog.records] == [
        "shop.t[0]@5: the last row is 1; were the rows after it deleted?"
    ]
