"""A job on a cluster that is not well, and who sees from outside what comes of it: they ask the cluster as little as
clients can."""

import threading
from collections import Counter
from contextlib import closing, suppress
from itertools import pairwise

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from rigs.numbered_job import NumberedJob
from rigs.numbered_stream import STORES, dump, expected, key_of

from samzapy.clock import SYSTEM_CLOCK
from samzapy.storage.local.directory import store_directory
from samzapy.verify.processes import NoProgress, until, with_children

PARTITIONS = 4
#: The client id of whoever is no part of a job.
OUTSIDE = "outside"
#: 100 numbers per second, in few writes: what a job costs that waits must not drown in what its work costs.
_PAUSE_S, _FED = 0.5, 50
_LOSES_NOTHING = {
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "partitioner": "murmur2_random",
    "client.id": OUTSIDE,
}


class Feeder:
    """Writes consecutive numbers into a topic, each once however long that takes, from `go_on` to `pause`."""

    def __init__(self, bootstrap, topic):
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **_LOSES_NOTHING})
        self._topic = topic
        self.written = 0
        self._turn = threading.Lock()
        self._goes_on = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def go_on(self):
        self._goes_on = True

    def pause(self, timeout_s):
        """Write no more until `go_on`; how many numbers are in the topic then. Fails if they cannot be written in
        time."""
        with self._turn:
            self._goes_on = False
        assert not self._producer.flush(timeout_s), f"{self._topic}: cannot be written to"
        return self.written

    def close(self):
        self._closed.set()
        self._thread.join()

    def _run(self):
        while not self._closed.wait(_PAUSE_S):
            self._producer.poll(0)
            with self._turn:
                if self._goes_on:
                    for number in range(self.written, self.written + _FED):
                        self._producer.produce(self._topic, b"%d" % number, key_of(number))
                    self.written += _FED


class Observer:
    """Reads what the job commits, in a thread: `outputs` by number, the stores by key, and when outputs came."""

    def __init__(self, bootstrap, name):
        self._output = f"{name}-out"
        self._stores = {f"{name}-{store}-changelog": store for store in STORES}
        self.outputs = Counter()
        self.state = {store: {} for store in STORES}
        self._arrivals = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": OUTSIDE,
                "group.id": OUTSIDE,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        topics = [self._output, *self._stores]
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for topic in topics for number in range(PARTITIONS)]
        )
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def close(self):
        self._closed.set()
        self._thread.join()

    def has(self, numbers):
        """Whether each of these came out."""
        return all(number in self.outputs for number in numbers)

    def silence(self, since, until):
        """The longest time between two outputs from `since` to `until`."""
        times = [since, *(at for at in list(self._arrivals) if since < at < until), until]
        return max(later - sooner for sooner, later in pairwise(times))

    def differences(self, written):
        """How many keys of the stores are not what so many numbers make."""
        due = dict(zip(STORES, expected(written), strict=True))
        return sum(
            due[store].get(key) != self.state[store].get(key)
            for store in STORES
            for key in due[store].keys() | self.state[store].keys()
        )

    def _run(self):
        with closing(self._consumer):
            while not self._closed.is_set():
                for message in self._consumer.consume(500, 0.1):
                    if message.error() is None:
                        self._take(message)

    def _take(self, message):
        if message.topic() == self._output:
            self.outputs[int(message.value())] += 1
            self._arrivals.append(SYSTEM_CLOCK.monotonic())
            return
        store = self.state[self._stores[message.topic()]]
        if message.value() is None:
            store.pop(message.key().decode(), None)
        else:
            store[message.key().decode()] = int(message.value())


class ClusterJob(NumberedJob):
    """`last_and_count` with one guarantee under the local runner, fed all the time. Its process is a `samzapy run`."""

    def __init__(self, folder, bootstrap, guarantee):
        self.guarantee = guarantee
        self.state_folder = folder / "state"
        keys = {
            "task.guarantee": guarantee,
            "task.commit.ms": "1000",
            "task.checkpoint.replication.factor": "3",
            "systems.kafka.default.stream.replication.factor": "3",
            "job.logged.store.base.dir": str(self.state_folder),
            **{f"stores.{store}.changelog.replication.factor": "3" for store in STORES},
        }
        super().__init__(folder, guarantee, bootstrap, PARTITIONS, **keys)
        self.topics = [f"{guarantee}-{kind}" for kind in ("in", "out", *(f"{store}-changelog" for store in STORES))]
        self.process = self.start("--runner", "local")
        until(lambda: "container 0: running" in self.process.errors, lambda: self.process.last_words)
        self.feeder = Feeder(bootstrap, f"{guarantee}-in")
        self.observer = Observer(bootstrap, guarantee)

    def go_on(self):
        """Start it again if it has ended."""
        if self.process.exit_code is not None:
            self.process = self.start("--runner", "local")

    def busy_s(self):
        """The CPU seconds of all its processes so far, those that have ended included."""
        total = 0.0
        with suppress(psutil.NoSuchProcess):
            for process in with_children(self.process.process.pid):
                with suppress(psutil.NoSuchProcess):
                    total += sum(process.cpu_times()[:4])
        return total

    def comes_up_to(self, written, timeout_s):
        """Wait until the first so many numbers came out; whether they did. False at once if its process has ended."""
        first = next((number for number in range(written) if number not in self.observer.outputs), written)
        numbers = range(first, written)
        with suppress(NoProgress):
            until(
                lambda: self.process.exit_code is not None or self.observer.has(numbers),
                f"{self.guarantee} does not come up to {written}",
                timeout_s,
            )
        return self.observer.has(numbers)

    def differences(self, written, timeout_s):
        """How many keys of its changelogs are not what so many numbers make, once it has had time for its last
        commit."""
        with suppress(NoProgress):
            until(lambda: not self.observer.differences(written), "the state differs", timeout_s)
        return self.observer.differences(written)

    def stored(self):
        """What its local stores hold, by store and key. It must have ended."""
        contents = {store: {} for store in STORES}
        for store in STORES:
            for number in range(PARTITIONS):
                folder = store_directory(self.state_folder, f"{self.name}-1", store, f"Partition {number}")
                contents[store] |= {key.decode(): int(value) for key, value in dump(folder, store).items()}
        return contents

    def close(self):
        self.feeder.close()
        self.process.close()
        self.observer.close()
