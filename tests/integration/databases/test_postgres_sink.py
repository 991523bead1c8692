"""What a SQL sink does on a real PostgreSQL that it does nowhere else."""

import datetime as dt
import threading
import uuid
from decimal import Decimal

import psycopg
import pytest
from psycopg.types.json import Jsonb
from sink_job import SinkJob, expected, expected_offsets

from samzapy import IncomingMessageEnvelope, SystemStreamPartition, TaskAttempt
from samzapy.errors import RetriableError, StaleEpoch
from samzapy.failpoints import arm, disarm
from samzapy.sinks import SqlSink

#: Starts, kills and stops a database server again and again: `make torture`.
pytestmark = pytest.mark.slow


SSP = SystemStreamPartition("sys", "in", 0)


@pytest.fixture
def dsn(postgres_server):
    return postgres_server.create_database(f"sink-{uuid.uuid4().hex}")


@pytest.fixture
def database(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (id BIGINT PRIMARY KEY, kind TEXT)")
        yield connection


@pytest.fixture
def open_sink(dsn, database):
    opened = []

    def make(epoch=1, table="numbers", columns=("id", "kind"), ssps=(SSP,), task="Partition 0", **more):
        sink = SqlSink(lambda: psycopg.connect(dsn), table, columns, **more)
        opened.append(sink)
        sink.open(TaskAttempt("job-1", task, epoch, frozenset(ssps)))
        return sink

    yield make
    for sink in opened:
        sink.close()


def write(sink, *rows):
    for offset, row in enumerate(rows):
        sink.write(row, IncomingMessageEnvelope(SSP, offset, None, None))
    sink.commit({SSP: len(rows)})


def test_values_of_every_kind_arrive_as_they_were(open_sink, database):
    database.execute(
        "CREATE TABLE kinds "
        "(id BIGINT, t TEXT, f DOUBLE PRECISION, d NUMERIC, b BYTEA, w TIMESTAMPTZ, j JSONB, ok BOOLEAN)"
    )
    when = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=dt.timezone.utc)
    rows = [
        (
            2**62,
            "tab\t newline\n backslash\\ \\N quote' \"é漢🙂",
            0.1,
            Decimal("1.10"),
            b"\x00\\\xff",
            when,
            {"a": 1},
            True,
        ),
        (-1, "", -1e300, None, b"", None, None, False),
        (0, None, None, None, None, None, None, None),
    ]
    sent = [(*row[:6], None if row[6] is None else Jsonb(row[6]), row[7]) for row in rows]
    write(open_sink(table="kinds", columns=["id", "t", "f", "d", "b", "w", "j", "ok"]), *sent)
    assert database.execute("SELECT * FROM kinds").fetchall() == rows


@pytest.mark.parametrize("kind", ["TEXT", "CHAR(3)", "TEXT COLLATE ignores_case"])
@pytest.mark.parametrize("keys", [[1, 1.0, True, 1], ["x", "X", "x ", "x"], [None, "x", None], ["a", "b"]], ids=str)
def test_an_upsert_of_many_rows_leaves_what_an_upsert_of_each_row_leaves(open_sink, database, kind, keys):
    database.execute(
        "CREATE COLLATION ignores_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    left = []
    for name, number in (("together", len(keys)), ("apart", 1)):
        database.execute(f'CREATE TABLE {name} ("id%" BIGINT, kind {kind}, UNIQUE (kind))')
        sink = open_sink(table=name, columns=['"id%"', "kind"], mode="upsert", key=["kind"])
        for offset, key in enumerate(keys):
            sink.write((offset, key), IncomingMessageEnvelope(SSP, offset, None, None))
        for offset in range(number, len(keys) + 1, number):
            sink.commit({SSP: offset})
        left.append(database.execute(f'SELECT "id%" FROM {name} ORDER BY 1').fetchall())
    assert left[0] == left[1]


def test_a_newer_attempt_does_not_wait_for_an_older_ones_open_transaction(open_sink, database):
    older = open_sink(epoch=1)
    newer = []
    # In the middle of the older attempt's transaction, with its rows in and the locks taken, the newer one starts.
    arm("sink.2", action=lambda _: newer.append(open_sink(epoch=2)))
    with pytest.raises(RetriableError, match=r"table numbers: the commit failed: .*terminat"):
        write(older, (1, "of the older"))
    with pytest.raises(StaleEpoch, match=r"a newer attempt \(epoch 2\) owns the sink 'numbers', this one has epoch 1"):
        open_sink(epoch=1)
    write(newer[0], (1, "of the newer"))
    assert database.execute("SELECT * FROM numbers").fetchall() == [(1, "of the newer")]
    assert database.execute("SELECT next_offset, epoch FROM samzapy_offsets").fetchall() == [(1, 2)]


def test_tasks_that_start_together_make_the_offsets_table_once(open_sink, database):
    together = threading.Barrier(6)
    failures = []

    def start(number):
        together.wait(30)
        try:
            open_sink(task=f"Partition {number}")
        except Exception as failure:  # noqa: BLE001  # reported below
            failures.append(failure)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert database.execute("SELECT count(*) FROM samzapy_offsets").fetchone() == (6,)


def test_a_lost_connection_restarts_in_place_and_repeats_no_row(dsn, tmp_path, postgres_server):
    job = SinkJob(tmp_path, dsn, "exactly-once")
    cuts = []

    def cut(_):
        cuts.append(1)
        with psycopg.connect(postgres_server.dsn(), autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'samzapy %'"
            )

    job.send(40)
    arm("sink.2", 3, cut)
    try:
        job.run()
    finally:
        disarm()
        job.close()
    assert cuts
    assert job.rows() == expected(40)
    assert job.offsets() == expected_offsets(40)
