"""The embedded systems against a model: whatever is sent, committed, aborted, fenced, compacted or deleted, a reader
sees the same as a list would hold. Both systems run the same steps, so they agree with each other as well."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings, change_columns
from samzapy.system.clients import system_factory
from samzapy.system.local.factory import MemoryCluster

KEYS = st.sampled_from([b"a", b"b", b"c"])
PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=3))), min_size=1, max_size=4)
IDS = st.sampled_from(["id-0", "id-1"])
PARTITIONS = st.integers(0, 1)


class Entry:
    """A record of the model: `state` is open, committed or aborted."""

    def __init__(self, key, value, owner):
        self.key, self.value, self.owner = key, value, owner
        self.state = "open" if owner else "committed"


class SystemMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        MemoryCluster.reset_all()
        local = {"path": str(Path(self.folder.name) / "local.db")}
        self.systems = [
            SystemSettings("s", "samzapy.system.local.factory:MemorySystemFactory"),
            SystemSettings("s", "samzapy.system.local:LocalSystemFactory", properties=local),
        ]
        self.factories = [system_factory(system) for system in self.systems]
        self.clients = []
        self.log = {0: [], 1: []}
        self.pending = {}
        self.producers = {}

    @initialize()
    def create(self):
        self.admins = self._make("admin")
        for admin in self.admins:
            admin.create(StreamSpec("t", 2, {"cleanup.policy": "compact", "delete.retention.ms": "0"}))
        self.plain = self._make("producer")
        self.consumers = self._make("consumer")
        for consumer in self.consumers:
            consumer.start({SystemStreamPartition("s", "t", partition): 0 for partition in (0, 1)})
        self.followed = [{0: [], 1: []} for _ in self.consumers]

    @rule(partition=PARTITIONS, pairs=PAIRS)
    def write(self, partition, pairs):
        for producer in self.plain:
            producer.send([OutgoingRecord("t", key, value, partition) for key, value in pairs])
            producer.flush()
        self.log[partition] += [Entry(key, value, None) for key, value in pairs]

    @rule(name=IDS)
    def take_over(self, name):
        self._decide(name, "aborted")
        self.producers[name] = self._make("producer", name)
        for producer in self.producers[name]:
            producer.init_transactions()
            producer.begin()
        self.pending[name] = []

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), partition=PARTITIONS, writes=st.lists(PAIRS, min_size=1, max_size=2), flush=st.booleans())
    def write_in_a_transaction(self, data, partition, writes, flush):
        name = data.draw(st.sampled_from(sorted(self.producers)))
        for pairs in writes:
            for producer in self.producers[name]:
                producer.send_columns(change_columns("t", partition, pairs))
                if flush:
                    producer.flush()
            self.pending[name] += [(partition, key, value) for key, value in pairs]
            if flush:
                self._flush(name)

    @precondition(lambda self: self.producers)
    @rule(data=st.data())
    def commit(self, data):
        name = data.draw(st.sampled_from(sorted(self.producers)))
        for producer in self.producers[name]:
            producer.commit()
            producer.begin()
        self._flush(name)
        self._decide(name, "committed")

    @precondition(lambda self: self.producers)
    @rule(data=st.data())
    def abort(self, data):
        name = data.draw(st.sampled_from(sorted(self.producers)))
        for producer in self.producers[name]:
            producer.abort()
            producer.begin()
        self.pending[name] = []
        self._decide(name, "aborted")

    @rule()
    def compact(self):
        for admin in self.admins:
            admin.compact("t")

    @invariant()
    def a_reader_from_the_start_ends_with_the_models_map(self):
        if not hasattr(self, "consumers"):
            return
        for partition in (0, 1):
            expected = {}
            for entry in self._visible(partition):
                expected[entry.key] = entry.value
            expected = {key: value for key, value in expected.items() if value is not None}
            for number in range(len(self.systems)):
                assert self._read_all(number, partition) == expected

    @rule()
    def a_reader_that_follows_has_seen_every_record_once_and_in_order(self):
        # Compaction may take a record before the follower polls, so what it has seen is a subsequence.
        for consumer, followed in zip(self.consumers, self.followed, strict=True):
            for batch in consumer.poll(0.0, 3):
                followed[batch.ssp.partition] += zip(batch.keys, batch.values, strict=True)
            for partition in (0, 1):
                visible = iter([(entry.key, entry.value) for entry in self._visible(partition)])
                assert all(pair in visible for pair in followed[partition])

    def teardown(self):
        for client in self.clients:
            client.close()
        self.folder.cleanup()
        MemoryCluster.reset_all()

    def _make(self, kind, *arguments):
        pairs = zip(self.factories, self.systems, strict=True)
        made = [getattr(factory, kind)(system, "c", *arguments) for factory, system in pairs]
        self.clients += made
        return made

    def _flush(self, name):
        for partition, key, value in self.pending[name]:
            self.log[partition].append(Entry(key, value, name))
        self.pending[name] = []

    def _decide(self, name, state):
        for entries in self.log.values():
            for entry in entries:
                if entry.owner == name and entry.state == "open":
                    entry.state = state

    def _visible(self, partition):
        found = []
        for entry in self.log[partition]:
            if entry.state == "open":
                break
            if entry.state == "committed":
                found.append(entry)
        return found

    def _read_all(self, number, partition):
        ssp = SystemStreamPartition("s", "t", partition)
        consumer = self.factories[number].consumer(self.systems[number], "c")
        consumer.start({ssp: 0})
        found, position = {}, -1
        while position != consumer.position(ssp):
            position = consumer.position(ssp)
            for batch in consumer.poll(0.0, 5):
                assert list(batch.offsets) == sorted(set(batch.offsets))
                assert batch.offsets[-1] < consumer.position(ssp)
                found.update(zip(batch.keys, batch.values, strict=True))
        open_from = any(entry.state == "open" for entry in self.log[partition])
        assert open_from or consumer.position(ssp) == self.admins[number].offsets([ssp])[ssp].upcoming
        consumer.close()
        return {key: value for key, value in found.items() if value is not None}


SystemMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestSystemMachine = SystemMachine.TestCase
