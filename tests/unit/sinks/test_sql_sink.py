"""A SQL sink by itself, on SQLite."""

import sqlite3
from contextlib import closing

import pytest

from samzapy import IncomingMessageEnvelope, SystemStreamPartition, TaskAttempt
from samzapy.errors import EnvironmentFailure, RetriableError, StaleEpoch, TaskFailed, TaskMigrated
from samzapy.sinks import SqlSink
from samzapy.sinks.database import is_transient

A, B = SystemStreamPartition("sys", "in", 0), SystemStreamPartition("sys", "more", 0)


class Table:
    """A database with one table, and the sinks that were opened on it."""

    def __init__(self, path):
        self.path = path
        self._sinks = []
        self.query("CREATE TABLE seen (id INTEGER, kind TEXT UNIQUE)")

    def connect(self, **more):
        return sqlite3.connect(self.path, timeout=0.1, **more)

    def query(self, statement):
        with closing(self.connect()) as connection, connection:
            return connection.execute(statement).fetchall()

    @property
    def rows(self):
        return self.query("SELECT id, kind FROM seen ORDER BY id")

    @property
    def offsets(self):
        return dict(self.query("SELECT ssp, next_offset FROM samzapy_offsets"))

    def sink(self, **more):
        self._sinks.append(SqlSink(self.connect, "seen", ["id", "kind"], **more))
        return self._sinks[-1]

    def open(self, epoch=1, ssps=(A,), task="Partition 0", ids=None, **more):
        sink = self.sink(**more)
        sink.held = sink.open(TaskAttempt("job-1", task, epoch, frozenset(ssps), ids or {}))
        return sink

    def close(self):
        for sink in self._sinks:
            sink.close()


@pytest.fixture
def table(tmp_path):
    table = Table(tmp_path / "rows.db")
    yield table
    table.close()


def message(offset, ssp=A):
    return IncomingMessageEnvelope(ssp, offset, None, None)


def test_rows_and_offsets_are_visible_after_a_commit_and_not_before(table):
    sink = table.open()
    sink.write((1, "a"), message(0))
    assert table.rows == []
    sink.commit({A: 1})
    assert table.rows == [(1, "a")]
    assert table.offsets == {str(A): 1}


def test_a_successor_finds_the_offsets_and_the_rows_of_its_inputs_are_not_written_again(table):
    first = table.open()
    for offset in range(3):
        first.write((offset, None), message(offset))
    first.commit({A: 3})
    first.close()
    second = table.open(epoch=2)
    assert second.held == {A: 3}
    for offset in range(5):
        second.write((offset, None), message(offset))
    second.commit({A: 5})
    assert [i for i, _ in table.rows] == [0, 1, 2, 3, 4]
    assert second.metrics() == {"rows": 2, "dropped": 3}


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": ["kind"]}])
def test_an_offset_of_an_earlier_stream_is_none_and_the_next_commit_lowers_it(table, mode):
    first = table.open(ssps=(A, B), ids={A.system_stream: "old", B.system_stream: "same"}, **mode)
    first.write((1, "a"), message(4))
    first.commit({A: 5, B: 7})
    second = table.open(epoch=2, ssps=(A, B), ids={A.system_stream: "new", B.system_stream: "same"}, **mode)
    assert second.held == {B: 7}
    second.write((2, "b"), message(0))
    second.commit({A: 1, B: 7})
    assert table.rows == [(1, "a"), (2, "b")]
    assert table.offsets == {str(A): 1, str(B): 7}
    assert table.open(epoch=3, ids={A.system_stream: "new"}, **mode).held == {A: 1, B: 7}


def of_earlier_version(table):
    """The table of offsets as a version without stream ids made it, with an offset of A."""
    table.query(
        "CREATE TABLE samzapy_offsets (job TEXT NOT NULL, task TEXT NOT NULL, sink TEXT NOT NULL, ssp TEXT NOT NULL,"
        " next_offset BIGINT, epoch BIGINT NOT NULL, commit_number BIGINT NOT NULL, PRIMARY KEY (job, task, sink, ssp))"
    )
    table.query(f"INSERT INTO samzapy_offsets VALUES ('job-1', 'Partition 0', 'seen', '{A}', 5, 1, 3)")


def test_a_table_of_an_earlier_version_keeps_its_offsets_and_gets_the_ids(table):
    of_earlier_version(table)
    second = table.open(epoch=2, ids={A.system_stream: "old"})
    assert second.held == {A: 5}
    second.commit({A: 6})
    assert table.open(epoch=3, ids={A.system_stream: "new"}).held == {}


def test_a_table_of_an_earlier_version_that_may_not_be_altered_works_without_ids_and_that_is_said(table, caplog):
    of_earlier_version(table)
    connection = table.connect()
    denied = {sqlite3.SQLITE_ALTER_TABLE: sqlite3.SQLITE_DENY}
    connection.set_authorizer(lambda action, *_: denied.get(action, sqlite3.SQLITE_OK))
    sink = SqlSink(lambda: connection, "seen", ["id", "kind"])
    attempt = TaskAttempt("job-1", "Partition 0", 2, frozenset([A, B]), {A.system_stream: "old"})
    with closing(sink):
        assert sink.open(attempt) == {A: 5}
        sink.commit({A: 6, B: 1})
    assert table.offsets == {str(A): 6, str(B): 1}
    assert "samzapy_offsets has no column stream_id, and it cannot be added" in caplog.text


def test_a_row_of_an_input_after_the_committed_offsets_waits(table):
    sink = table.open(ssps=(A, B))
    sink.write((1, "a"), message(0))
    sink.write((2, "b"), message(7))
    sink.write((3, "c"), message(0, B))
    sink.commit({A: 5, B: 1})
    assert table.rows == [(1, "a"), (3, "c")]
    sink.commit({A: 8, B: 1})
    assert table.rows == [(1, "a"), (2, "b"), (3, "c")]


def test_an_attempt_that_was_overtaken_commits_nothing(table):
    older = table.open(epoch=1)
    table.open(epoch=2)
    older.write((1, "a"), message(0))
    with pytest.raises(TaskMigrated, match=r"job-1/Partition 0: a newer attempt \(epoch 2\) owns the sink 'seen'"):
        older.commit({A: 1})
    assert table.rows == []


def test_an_attempt_older_than_the_owner_cannot_open(table):
    table.open(epoch=2).commit({A: 1})
    with pytest.raises(StaleEpoch, match="this one has epoch 1") as stale:
        table.open(epoch=1)
    assert stale.value.newest == 2
    assert table.open(epoch=2).held == {A: 1}


def test_a_commit_on_a_connection_that_the_same_attempt_has_given_up_changes_nothing(table):
    given_up = table.open(epoch=1)
    table.open(epoch=1)
    given_up.write((1, "a"), message(0))
    with pytest.raises(RetriableError, match="commit number 2, expected 1 and 1"):
        given_up.commit({A: 1})
    assert table.rows == []


def test_other_tasks_and_other_sinks_of_a_task_have_offsets_of_their_own(table):
    table.open().commit({A: 3})
    table.open(task="Partition 1").commit({A: 5})
    table.open(name="copy").commit({A: 7})
    assert table.open(epoch=2).held == {A: 3}
    assert table.open(epoch=2, task="Partition 1").held == {A: 5}
    assert table.open(epoch=2, name="copy").held == {A: 7}


def test_an_upsert_replaces_the_row_of_its_key_and_repeated_rows_are_written_again(table):
    first = table.open(mode="upsert", key=["kind"])
    first.write((1, "a"), message(0))
    first.write((2, "a"), message(1))
    first.commit({A: 2})
    assert table.rows == [(2, "a")]
    second = table.open(epoch=2, mode="upsert", key=["kind"])
    second.write((8, "a"), message(1))
    second.write((9, "b"))
    second.commit({A: 2})
    assert table.rows == [(8, "a"), (9, "b")]


@pytest.mark.parametrize("collation", ["BINARY", "NOCASE", "RTRIM"])
@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", "a"],
        [1, 1.0, True, "1", "1.0", 1],
        [0.0, -0.0, 0.0],
        [None, "a", None],
        ["x", "X", "x ", "x"],
        [b"x", "x", b"x"],
        [2, 2, 2.0],
    ],
)
def test_an_upsert_of_many_rows_leaves_what_an_upsert_of_each_row_leaves(table, keys, collation):
    table.query("DROP TABLE seen")
    table.query(f"CREATE TABLE seen (id INTEGER, part INTEGER, kind TEXT COLLATE {collation}, UNIQUE (kind, part))")

    def left(offsets):
        sink = SqlSink(table.connect, "seen", ["id", "part", "kind"], mode="upsert", key=["kind", "part"])
        sink.open(TaskAttempt("job-1", "Partition 0", 1, frozenset([A])))
        for number, kind in enumerate(keys):
            sink.write((number, 5, kind), message(number))
        for offset in offsets:
            sink.commit({A: offset})
        sink.close()
        rows = table.query("SELECT id FROM seen ORDER BY id")
        table.query("DELETE FROM seen")
        return rows

    assert left([len(keys)]) == left(range(len(keys) + 1))


def test_rows_that_the_table_refuses_are_named_by_their_inputs_and_none_is_written(table):
    sink = table.open()
    sink.write((1, "a"), message(5))
    sink.write((2, "a"), message(6))
    with pytest.raises(
        TaskFailed, match=r"table seen refused one of 2 rows from sys.in\[0\]@5 to sys.in\[0\]@6: UNIQUE"
    ):
        sink.commit({A: 7})
    assert table.rows == []
    assert table.offsets == {str(A): None}


def test_a_locked_database_is_worth_another_try_and_the_sink_lets_go_of_its_lock(table):
    sink = table.open()
    with closing(table.connect(isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RetriableError, match="table seen: the commit failed: database is locked"):
            sink.commit({A: 1})
    assert table.open(epoch=2).held == {}


def test_offsets_that_somebody_has_deleted_are_an_error(table):
    sink = table.open()
    table.query("DELETE FROM samzapy_offsets")
    with pytest.raises(EnvironmentFailure, match=r"sys.in\[0\]: the row has been deleted from samzapy_offsets"):
        sink.commit({A: 1})


def test_the_rows_of_a_message_that_failed_are_taken_back_and_no_others(table):
    sink = table.open(ssps=(A, B))
    sink.write((1, "a"), message(0))
    sink.write((2, "b"), message(1))
    sink.write((3, "c"), message(1, B))
    sink.write((4, "d"), message(1))
    sink.forget(message(1))
    sink.commit({A: 2, B: 2})
    assert table.rows == [(1, "a"), (3, "c")]


@pytest.mark.parametrize(
    ("table_name", "columns", "said"),
    [("missing", ["id"], "no such table: missing"), ("seen", ["id", "missing"], "no such column: missing")],
)
def test_a_table_or_column_that_is_not_there_is_named_when_the_sink_is_opened(table, table_name, columns, said):
    sink = SqlSink(table.connect, table_name, columns)
    with pytest.raises(EnvironmentFailure, match=f"table {table_name}: cannot be opened: {said}"):
        sink.open(TaskAttempt("job-1", "Partition 0", 1, frozenset([A])))


def test_a_connection_in_autocommit_mode_is_refused(table):
    sink = SqlSink(lambda: table.connect(isolation_level=None), "seen", ["id"])
    with pytest.raises(EnvironmentFailure, match="sqlite3 connection is in autocommit mode"):
        sink.open(TaskAttempt("job-1", "Partition 0", 1, frozenset([A])))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((1,), r"a tuple of id, kind, got \(1,\)"),
        ({"id": 1, "kind": 2}, "a tuple of id, kind, got"),
        ("ab", "got 'ab'"),
    ],
)
def test_a_row_that_does_not_fit_the_columns_is_refused_where_it_is_written(table, row, said):
    with pytest.raises(ValueError, match=said):
        table.open().write(row, message(0))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": "seen; DROP TABLE seen"}, "cannot be the name"),
        ({"columns": ["a b"]}, "cannot be the name"),
        ({"columns": []}, "upsert needs a key among the columns"),
        ({"mode": "append"}, "transactional or upsert, got 'append'"),
        ({"mode": "upsert"}, "upsert needs a key"),
        ({"mode": "upsert", "key": ["other"]}, "upsert needs a key among the columns"),
        ({"key": ["id"]}, "upsert needs a key"),
    ],
)
def test_what_a_sink_cannot_be_made_of_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        SqlSink(**{"connect": lambda: None, "table": "seen", "columns": ["id"]} | arguments)


@pytest.mark.parametrize("state", ["25006", "25P03", "25P04"])
@pytest.mark.parametrize("attribute", ["sqlstate", "pgcode"])
def test_a_server_that_became_read_only_or_ended_the_session_is_worth_another_try(state, attribute):
    class Error(Exception):
        pass

    class InternalError(Error):
        pass

    failure = InternalError("cannot execute UPDATE in a read-only transaction")
    assert not is_transient(failure)
    setattr(failure, attribute, state)
    assert is_transient(failure)
