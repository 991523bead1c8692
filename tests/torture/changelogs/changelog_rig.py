"""A store on a real Kafka's changelog, and a changelog in any shape a cluster may leave it in."""

import uuid

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, change_columns
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.serializers.registry import serde_registry
from samzapy.storage.opening import StoreOpener, StoreOwner
from samzapy.storage.spec import store_specs
from samzapy.system.kafka import KafkaSystemFactory

FACTORY = KafkaSystemFactory()
_PAUSE_S = 0.2
_DEADLINE_S = 60.0


class ChangelogRig:
    """One changelog partition, written by hand and restored from; `expected` is what its committed records amount
    to."""

    def __init__(self, bootstrap, folder):
        self.stream = f"shape-{uuid.uuid4().hex[:10]}"
        self.ssp = SystemStreamPartition("sys", self.stream, 0)
        self._config = load_job(
            {
                "job.name": self.stream,
                "job.default.system": "sys",
                "task.class": "crash_job:LedgerTask",
                "task.inputs": "sys.in",
                "systems.sys.samza.factory": "kafka",
                "systems.sys.consumer.bootstrap.servers": bootstrap,
                # A changelog that fits into the client's queue is safe there from whatever becomes of the log.
                "systems.sys.consumer.queued.max.messages.kbytes": "1000",
                "systems.sys.consumer.fetch.message.max.bytes": "500000",
                "stores.s.factory": "rocksdb",
                "stores.s.key.serde": "string",
                "stores.s.msg.serde": "string",
                "stores.s.changelog": f"sys.{self.stream}",
                "job.logged.store.base.dir": str(folder),
            }
        )
        self.settings = self._config.systems["sys"]
        self.admin = FACTORY.admin(self.settings, "rig")
        self._bootstrap = bootstrap
        self._clients = [self.admin]
        self._plain = self._kept(FACTORY.producer(self.settings, "rig"))
        self.expected = {}

    def create(self, **config):
        """The changelog, compacted unless `config` says otherwise."""
        given = {"cleanup.policy": "compact"} | {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create(StreamSpec(self.stream, 1, given))

    def write(self, changes, transactional_id=None, end="commit"):
        """Append changes, in a transaction if there is an id; it ends in `commit`, `abort` or not at all (None)."""
        producer = self._plain
        if transactional_id is not None:
            producer = self._kept(FACTORY.producer(self.settings, "rig", transactional_id, 5_000))
            producer.init_transactions()
            producer.begin()
        producer.send_columns(change_columns(self.stream, 0, [(k.encode(), v and v.encode()) for k, v in changes]))
        producer.flush()
        if transactional_id is not None and end is not None:
            getattr(producer, end)()
        if end == "commit":
            self.expected |= dict(changes)

    def forget(self, before):
        """Delete what lies before an offset, as an operator could who has another policy for a while."""
        self.alter("cleanup.policy", "delete")
        self.admin.delete_records(self.ssp, before)
        self.alter("cleanup.policy", "compact")

    def alter(self, name, value):
        """Change the topic's configuration; returns when the broker goes by it."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.stream, incremental_configs=[entry])
        client = AdminClient({"bootstrap.servers": self._bootstrap})
        for answer in client.incremental_alter_configs([resource]).values():
            answer.result(30)
        deadline = SYSTEM_CLOCK.monotonic() + _DEADLINE_S
        while self.admin.describe(self.stream).config[name] != value:
            assert SYSTEM_CLOCK.monotonic() < deadline, f"{self.stream}: {name} is not {value}"
            client.poll(_PAUSE_S)

    def records(self):
        """How many records readers of committed records find."""
        low, high = self.admin.offsets([self.ssp])[self.ssp]
        consumer = FACTORY.consumer(self.settings, "rig")
        consumer.start({self.ssp: low})
        count = 0
        while consumer.position(self.ssp) < high:
            count += sum(len(batch.keys) for batch in consumer.poll(_PAUSE_S, 10_000))
        consumer.close()
        return count

    def restored(self, committed=-1, wrap=lambda consumer: consumer):
        """(contents, result) of the store as a task finds it; `committed`: as `StoreOwner`. `wrap`s the consumer."""
        config = self._config
        opener = StoreOpener(
            config, store_specs(config), serde_registry(config), admin_of=lambda _: self.admin, clock=SYSTEM_CLOCK
        )
        opened = opener.open([StoreOwner("Partition 0", 0, {"s": committed})])
        (stores,) = opener.restore(opened, lambda _: wrap(FACTORY.consumer(self.settings, "rig")))
        try:
            return dict(stores.stores["s"].all()), stores.restored["s"]
        finally:
            stores.close()

    def contents(self):
        """What the store should hold."""
        return {key: value for key, value in self.expected.items() if value is not None}

    def close(self):
        for client in reversed(self._clients):
            client.close()

    def _kept(self, client):
        self._clients.append(client)
        return client
