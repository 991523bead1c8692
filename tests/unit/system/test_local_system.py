import os
import sqlite3
import stat
from threading import Event, Thread

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    PositionVoid,
    ProducerError,
    TransactionAborted,
    UnknownStream,
)
from samzapy.system.local import database
from samzapy.system.local.database import LocalLog, OutcomeUnknown, local_log
from samzapy.system.local.factory import LocalSystemFactory
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("local", "s", 0)


class Local:
    def __init__(self, path, **properties):
        self.clock = ManualClock()
        self.path = path
        self.settings = SystemSettings("local", "", properties={"path": str(path), **properties})
        self.factory = LocalSystemFactory(self.clock)
        self.clients = []

    def admin(self):
        return self._kept(self.factory.admin(self.settings, "a"))

    def producer(self, transactional_id=None, timeout_ms=1000):
        made = self._kept(self.factory.producer(self.settings, "p", transactional_id, timeout_ms))
        if transactional_id:
            made.init_transactions()
            made.begin()
        return made

    def consumer(self, offset=0):
        made = self._kept(self.factory.consumer(self.settings, "c"))
        made.start({SSP: offset})
        return made

    def read(self):
        consumer = self.consumer()
        found = [value for batch in consumer.poll(0.0, 100_000) for value in batch.values]
        return found, consumer.position(SSP)

    def _kept(self, client):
        self.clients.append(client)
        return client


@pytest.fixture
def make(tmp_path):
    made = []

    def local(path=tmp_path / "local.db", **properties):
        made.append(Local(path, **properties))
        return made[-1]

    yield local
    for system in made:
        for client in system.clients:
            client.close()


@pytest.fixture
def local(make):
    found = make()
    found.admin().create(StreamSpec("s", 1))
    return found


def send(producer, *values, stream="s"):
    producer.send([OutgoingRecord(stream, b"k", value, 0) for value in values])


# The file


def test_the_file_and_its_new_folders_are_the_owners_alone(make, tmp_path):
    path = tmp_path / "new" / "folder" / "local.db"
    make(path).admin().create(StreamSpec("s", 1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in path.parents[:2]] == [0o700, 0o700]
    assert [found.name for found in path.parent.iterdir() if found.name.startswith(".")] == []


def test_looking_does_not_make_a_file(make, tmp_path):
    local = make(tmp_path / "none" / "local.db")
    assert local.admin().list_streams() == []
    assert local.admin().describe("s") is None
    with pytest.raises(UnknownStream):
        local.admin().offsets([SSP])
    with pytest.raises(UnknownStream):
        local.consumer()
    with pytest.raises(UnknownStream):
        send(local.producer(), b"v")
    assert not (tmp_path / "none").exists()


def test_a_file_of_another_program_is_refused(make, tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(EnvironmentFailure, match="some other program"):
        make(path).admin().list_streams()


def test_a_file_of_a_later_format_is_refused(make, local):
    for client in local.clients:
        client.close()
    connection = sqlite3.connect(local.path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(EnvironmentFailure, match="format 99, this version reads 1"):
        make().admin().list_streams()


def test_a_path_that_cannot_be_made_is_named(make, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFailure, match="local\\.db"):
        make(tmp_path / "file" / "local.db").admin().create(StreamSpec("s", 1))


def test_a_damaged_page_is_an_error_and_no_short_read(make, local):
    producer = local.producer()
    send(producer, *[b"v" * 100] * 5000)
    producer.flush()
    for client in local.clients:
        client.close()
    data = bytearray(local.path.read_bytes())
    data[-3 * 8192 : -2 * 8192] = b"\xff" * 8192
    local.path.write_bytes(data)
    with pytest.raises(EnvironmentFailure, match="malformed"):
        make().read()


# Locks


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(database, "PATIENCE_S", 0.02)


@pytest.fixture
def locked(local):
    holder = sqlite3.connect(local.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield holder
    holder.close()


def test_a_flush_that_does_not_get_the_lock_fails_by_name(make, locked, hasty):
    producer = make().producer()
    send(producer, b"v")
    with pytest.raises(ProducerError, match=r"locked by another process for 0\.02 s"):
        producer.flush()


def test_a_commit_that_does_not_get_the_lock_can_be_aborted_and_repeated(make, local, hasty):
    producer = make().producer("id")
    send(producer, b"v")
    holder = sqlite3.connect(local.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransactionAborted):
        producer.commit()
    holder.close()
    producer.abort()
    producer.begin()
    send(producer, b"again")
    producer.commit()
    assert local.read()[0] == [b"again"]


def test_a_disk_that_is_full_at_a_commit_is_a_failure_of_the_environment(tmp_path):
    database = LocalLog("local", tmp_path / "local.db").open(create=True)
    execute = database.execute

    def full(statement, *values):
        if statement == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return execute(statement, *values)

    database.execute = full
    with pytest.raises(EnvironmentFailure, match="database or disk is full") as refused, database.write():
        pass
    assert not isinstance(refused.value, OutcomeUnknown)
    database.execute = execute
    with database.write():
        pass
    database.close()


def test_reading_goes_on_while_another_process_writes(local):
    producer = local.producer()
    send(producer, b"v")
    producer.flush()
    holder = sqlite3.connect(local.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("DELETE FROM records")
    assert local.read() == ([b"v"], 1)
    holder.close()


def test_a_connection_is_refused_after_a_fork(local):
    admin = local.admin()
    admin.list_streams()
    pid = os.fork()
    if pid == 0:
        try:
            admin.list_streams()
        except EnvironmentFailure as error:
            os._exit(0 if "after a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# Reading


def test_a_waiting_reader_wakes_when_another_connection_writes(local):
    waiting, got = Event(), []
    consumer = local.consumer()

    def wait():
        waiting.set()
        got.extend(value for batch in consumer.poll(30.0, 10) for value in batch.values)

    reader = Thread(target=wait)
    reader.start()
    assert waiting.wait(30)
    producer = local.producer()
    send(producer, b"v")
    producer.flush()
    reader.join(30)
    assert got == [b"v"]


VOID, GONE = r"^local\.s: it was deleted and created again", r"local\.db\): the file was removed or replaced"
TAKEN = [
    (lambda local: local.admin().delete("s"), UnknownStream, "'s'"),
    (lambda local: (local.admin().delete("s"), local.admin().create(StreamSpec("s", 1))), PositionVoid, VOID),
    (lambda local: local.path.unlink(), EnvironmentFailure, GONE),
    (lambda local: (local.path.unlink(), local.path.touch()), EnvironmentFailure, GONE),
]


@pytest.mark.parametrize(("take", "error", "text"), TAKEN)
def test_what_is_taken_from_under_a_reader_is_an_error_and_not_empty(local, take, error, text):
    consumer = local.consumer()
    consumer.poll(0.0, 1)
    take(local)
    with pytest.raises(error, match=text):
        consumer.poll(0.0, 1)


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = SystemSettings("local", "", properties={"path": "~/log.db"})
    assert local_log(settings).path == tmp_path / "log.db"
    with pytest.raises(ConfigError, match=r"systems.local.path: expected a path, or one below the home folder"):
        local_log(SystemSettings("local", "", properties={"path": "~no-such-user/log.db"}))
