"""One job, run in turns by the real Apache Samza and by samzapy: each goes on exactly where the other has stopped.

Needs the Java side built first (`make test-samza` does it).
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.java import SPARK, find_java
from samzapy.system.base import partition_of
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

JVM = Path(__file__).parent / "jvm" / "target"
#: More than ten: the order of the task names as text is not that of their numbers.
PARTITIONS = 12
SERDES = {
    "strings": ("string", "string"),
    "integers": ("string", "integer"),
    "longs": ("long", "long"),
    "jsons": ("string", "json"),
    "bytes": ("bytes", "bytes"),
}
JAVA_SERDES = {"string": "String", "integer": "Integer", "long": "Long", "json": "Json", "bytes": "Byte"}
DECODERS = {
    "string": bytes.decode,
    "integer": lambda data: struct.unpack(">i", data)[0],
    "long": lambda data: struct.unpack(">q", data)[0],
    "json": json.loads,
    "bytes": bytes,
}


class Ledger:
    """The job, its input, and what its changelogs say."""

    def __init__(self, folder, bootstrap, settings):
        self.folder = folder
        self.name = f"ledger_{os.getpid()}"
        self.input = f"{self.name}-in"
        self.factory, self.settings = KafkaSystemFactory(), settings
        self.admin = self.factory.admin(settings, "test")
        self.producer = self.factory.producer(settings, "test")
        self.admin.create(StreamSpec(self.input, PARTITIONS))
        self.sent = 0
        self.file = folder / "job.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.keys(bootstrap).items()))

    def keys(self, bootstrap):
        """A job file of Samza's, as it would run there."""
        keys = {
            "job.name": self.name,
            "job.default.system": "kafka",
            "app.name": self.name,
            "job.coordinator.factory": "org.apache.samza.standalone.PassthroughJobCoordinatorFactory",
            "task.name.grouper.factory": "org.apache.samza.container.grouper.task.SingleContainerGrouperFactory",
            "processor.id": "0",
            "task.class": "samzapy.tests.LedgerTask",
            "task.inputs": f"kafka.{self.input}",
            # A commit of sixty stores takes Samza longer than a second on a busy machine; the tasks ask for theirs.
            "task.commit.ms": "600000",
            "task.checkpoint.factory": "org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory",
            "task.checkpoint.replication.factor": "1",
            "systems.kafka.samza.factory": "org.apache.samza.system.kafka.KafkaSystemFactory",
            "systems.kafka.consumer.bootstrap.servers": bootstrap,
            "systems.kafka.producer.bootstrap.servers": bootstrap,
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "systems.kafka.default.stream.samza.key.serde": "string",
            "systems.kafka.default.stream.samza.msg.serde": "string",
            "job.logged.store.base.dir": str(self.folder / "jvm-state"),
        }
        for serde, java in JAVA_SERDES.items():
            keys[f"serializers.registry.{serde}.class"] = f"org.apache.samza.serializers.{java}SerdeFactory"
        for store, (key_serde, msg_serde) in SERDES.items():
            keys |= {
                f"stores.{store}.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
                f"stores.{store}.key.serde": key_serde,
                f"stores.{store}.msg.serde": msg_serde,
                f"stores.{store}.changelog": f"kafka.{self.name}-{store}",
                f"stores.{store}.changelog.replication.factor": "1",
            }
        return keys

    def send(self, n):
        """The next n messages over 40 keys, some of them deletions, and a farewell to every task."""
        ids = range(self.sent, self.sent + n)
        self.sent += n
        keyed = [(f"key-{i % 40}", "gone" if i % 23 == 0 else f"m{i}") for i in ids]
        records = [
            OutgoingRecord(self.input, key.encode(), message.encode(), partition_of(key.encode(), PARTITIONS))
            for key, message in keyed
        ]
        records += [OutgoingRecord(self.input, b"bye", b"bye", partition) for partition in range(PARTITIONS)]
        self.producer.send(records)
        self.producer.flush()

    def run_on_the_jvm(self):
        command = [str(find_java(SPARK).command), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", f"{JVM}/classes:{JVM}/lib/*", "samzapy.tests.RunJob", str(self.file)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-3_000:]

    def run_here(self, **changes):
        overrides = {
            "task.class": "ledger_task:LedgerTask",
            "job.logged.store.base.dir": str(self.folder / "state"),
            "task.checkpoint.write.versions": "1",
            **changes,
        }
        command = [str(Path(sys.executable).with_name("samzapy")), "run", str(self.file), "--runner", "local"]
        command += ["--until-end", *(part for pair in overrides.items() for part in ("--config", "=".join(pair)))]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        }
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr[-3_000:]

    def stores(self):
        """Every store by partition: its changelog, replayed."""
        found = {}
        for store, (key_serde, msg_serde) in SERDES.items():
            for partition, records in enumerate(self.read(f"{self.name}-{store}")):
                contents = found[store, partition] = {}
                for raw_key, value in records:
                    key = DECODERS[key_serde](raw_key)
                    contents.pop(key, None)
                    if value is not None:
                        contents[key] = DECODERS[msg_serde](value)
        return found

    def expected(self):
        """Every store by partition: the input, folded. Changelog partitions follow the task names' order as text."""
        names = sorted(f"Partition {number}" for number in range(PARTITIONS))
        found = {(store, partition): {} for store in SERDES for partition in range(PARTITIONS)}
        for number, records in enumerate(self.read(self.input)):
            strings, integers, longs, jsons, data = (found[s, names.index(f"Partition {number}")] for s in SERDES)
            for raw_key, raw_message in records:
                key, message = raw_key.decode(), raw_message.decode()
                if message == "bye":
                    continue
                if message == "gone":
                    strings.pop(key, None)
                    continue
                strings[key] = f"{strings[key]},{message}" if key in strings else message
                integers[key] = integers.get(key, 0) + 1
                longs[len(key)] = longs.get(len(key), 0) + 10_000_000_000
                jsons[key] = {"last": message, "count": integers[key]}
                data[raw_key] = message.encode("utf-16-be")
        return found

    def read(self, stream):
        """The records of every partition, as (key, value)."""
        ssps = [SystemStreamPartition("kafka", stream, partition) for partition in range(PARTITIONS)]
        ends = self.admin.offsets(ssps)
        consumer = self.factory.consumer(self.settings, "test")
        consumer.start({ssp: ends[ssp].oldest for ssp in ssps})
        records = [[] for _ in ssps]
        while any(consumer.position(ssp) < ends[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(1.0, 10_000):
                records[batch.ssp.partition] += zip(batch.keys, batch.values, strict=True)
        consumer.close()
        return records


@pytest.fixture
def ledger(tmp_path, kafka, kafka_settings):
    found = Ledger(tmp_path, kafka, kafka_settings)
    yield found
    found.producer.close()
    found.admin.close()


def test_a_jvm_job_is_continued_here_and_continued_there_again(ledger):
    ledger.send(500)
    ledger.run_on_the_jvm()
    assert ledger.stores() == ledger.expected()
    ledger.send(500)
    ledger.run_here()
    assert ledger.stores() == ledger.expected()
    ledger.send(500)
    ledger.run_on_the_jvm()
    assert ledger.stores() == ledger.expected()
    ledger.send(500)
    ledger.run_here()
    assert ledger.stores() == ledger.expected()


def test_the_changelogs_are_the_same_to_the_byte(ledger):
    """Both run the whole input, each into changelogs of its own; per key, the last record is compared. Samza also
    writes a tombstone for a key that came and went between two commits."""
    ledger.send(500)
    ledger.run_on_the_jvm()
    mine = {f"stores.{store}.changelog": f"kafka.{ledger.name}-{store}-here" for store in SERDES}
    ledger.run_here(**{"job.name": f"{ledger.name}_here"}, **mine)
    for store in SERDES:
        theirs, ours = (
            [dict(records) for records in ledger.read(stream)]
            for stream in (f"{ledger.name}-{store}", f"{ledger.name}-{store}-here")
        )
        needless = [theirs_of.keys() - ours_of.keys() for theirs_of, ours_of in zip(theirs, ours, strict=True)]
        assert all(theirs[n][key] is None for n, keys in enumerate(needless) for key in keys)
        assert ours == [
            {k: v for k, v in each.items() if k not in keys} for each, keys in zip(theirs, needless, strict=True)
        ]
        assert any(ours)
