"""The local system between processes: several writers at once, and writers that are killed."""

import subprocess
import sys
from collections import defaultdict
from contextlib import closing

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.local.factory import LocalSystemFactory

SSP = SystemStreamPartition("local", "s", 0)

OPEN = """
import sys
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.local.factory import LocalSystemFactory
path, name = sys.argv[1], sys.argv[2]
settings = SystemSettings("local", "", properties={"path": path})
"""

#: Writes its name with growing numbers in batches, and says after each flush how many are durable.
WRITER = (
    OPEN
    + """
producer = LocalSystemFactory().producer(settings, name)
for start in range(0, int(sys.argv[3]), 50):
    producer.send([OutgoingRecord("s", name.encode(), b"%d" % i, 0) for i in range(start, start + 50)])
    producer.flush()
    print(start + 50, flush=True)
"""
)

#: The same in transactions; each is flushed before it is committed.
TRANSACTIONAL_WRITER = (
    OPEN
    + """
producer = LocalSystemFactory().producer(settings, name, "id-" + name)
producer.init_transactions()
for start in range(0, int(sys.argv[3]), 50):
    producer.begin()
    producer.send([OutgoingRecord("s", name.encode(), b"%d" % i, 0) for i in range(start, start + 50)])
    producer.flush()
    print("flushed", flush=True)
    producer.commit()
    print(start + 50, flush=True)
"""
)

CREATOR = (
    OPEN
    + """
sys.stdin.readline()
admin = LocalSystemFactory().admin(settings, name)
assert admin.create(StreamSpec("of-" + name, 3))
print(admin.create(StreamSpec("shared", 2)), flush=True)
"""
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "local.db"


@pytest.fixture
def start(path):
    running = []

    def process(script, name, count=0):
        command = [sys.executable, "-c", script, str(path), name, str(count)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield process
    for started in running:
        started.kill()
        started.communicate()


def settings(path):
    return SystemSettings("local", "", properties={"path": str(path)})


def create(path):
    with closing(LocalSystemFactory().admin(settings(path), "a")) as admin:
        admin.create(StreamSpec("s", 1))


def read(path):
    """The numbers of each writer, in the order of the log; and all offsets."""
    numbers, offsets = defaultdict(list), []
    with (
        closing(LocalSystemFactory().admin(settings(path), "a")) as admin,
        closing(LocalSystemFactory().consumer(settings(path), "c")) as consumer,
    ):
        bound = admin.offsets([SSP])[SSP].upcoming
        consumer.start({SSP: 0})
        while consumer.position(SSP) < bound:
            batches = consumer.poll(0.0, 10_000)
            if not batches and consumer.position(SSP) < bound:
                break  # an open transaction: nothing more is decided
            for batch in batches:
                offsets.extend(batch.offsets)
                for key, value in zip(batch.keys, batch.values, strict=True):
                    numbers[key.decode()].append(int(value))
    return numbers, offsets


def test_writers_in_several_processes_lose_nothing_and_keep_their_orders(path, start):
    create(path)
    names = ["w0", "w1", "w2"]
    for writer in [start(WRITER, name, 10_000) for name in names]:
        writer.communicate()
        assert writer.returncode == 0
    numbers, offsets = read(path)
    assert numbers == {name: list(range(10_000)) for name in names}
    assert offsets == list(range(30_000))


def test_processes_that_open_a_new_file_at_once_share_it(path, start):
    creators = [start(CREATOR, name) for name in ("a", "b", "c", "d")]
    for creator in creators:
        creator.stdin.write("go\n")
        creator.stdin.flush()
    answers = [creator.communicate()[0].strip() for creator in creators]
    assert sorted(answers) == ["False", "False", "False", "True"]
    with closing(LocalSystemFactory().admin(settings(path), "a")) as admin:
        assert admin.list_streams() == ["of-a", "of-b", "of-c", "of-d", "shared"]


@pytest.mark.parametrize("flushes", [1, 7, 40])
def test_a_killed_writer_loses_nothing_that_was_flushed(path, start, flushes):
    create(path)
    killed, other = start(WRITER, "killed", 1_000_000), start(WRITER, "other", 1000)
    durable = 0
    for _ in range(flushes):
        durable = int(killed.stdout.readline())
    killed.kill()
    durable = max([durable, *map(int, killed.communicate()[0].split())])
    other.communicate()
    numbers, _ = read(path)
    found = numbers["killed"]
    assert found == list(range(len(found)))
    assert len(found) >= durable
    assert len(found) % 50 == 0
    assert numbers["other"] == list(range(1000))


def test_a_writer_killed_in_a_transaction_is_ended_by_its_successor(path, start):
    create(path)
    killed = start(TRANSACTIONAL_WRITER, "killed", 1_000_000)
    committed = [killed.stdout.readline().strip() for _ in range(9)]
    killed.kill()
    rest = killed.communicate()[0].split()
    durable = max(int(line) for line in [*committed, *rest] if line != "flushed")
    with closing(LocalSystemFactory().producer(settings(path), "next", "id-killed")) as successor:
        successor.init_transactions()
        successor.begin()
        successor.send([OutgoingRecord("s", b"next", b"0", 0)])
        successor.commit()
    numbers, _ = read(path)
    found = numbers["killed"]
    assert found == list(range(len(found)))
    assert len(found) >= durable
    assert len(found) % 50 == 0
    assert numbers["next"] == [0]
