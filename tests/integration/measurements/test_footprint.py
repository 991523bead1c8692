"""The needs that `samzapy check` prints for a container, beside those of a container that runs in a process of its
own."""

import os
from contextlib import closing
from uuid import uuid4

import psutil
import pytest
from rigs.job_process import JobProcess

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.supervision.worker_process import files_needed, memory_needed
from samzapy.job.model import ContainerModel, TaskModel
from samzapy.job.planner import plan
from samzapy.storage.spec import store_specs
from samzapy.system.clients import system_factory
from samzapy.verify.processes import until

PARTITIONS, STORES = 8, 3
#: The stated margins: a third, and eight for what comes and goes.
MARGIN, FEW = 4 / 3, 8
#: Standard streams, pipes, the log and the connection to the coordinator.
PROCESS_FILES = 12
OPTIONS = ("--py-files", "keep_task.py", "--config", "job.page.port=0")
TASK = """\
from samzapy.api.task import InitableTask, StreamTask

class Keep(StreamTask, InitableTask):
    def init(self, context):
        self.stores = [context.get_store(f"s{n}") for n in range(3)]

    def process(self, envelope, collector, coordinator):
        for store in self.stores:
            store.put(envelope.key, envelope.message)
"""


class Job:
    """A job of eight tasks with three stores each, and small budgets, on the given system."""

    def __init__(self, folder, system):
        self.name = f"footprint-{uuid4().hex[:8]}"
        self.folder = folder
        self.system = system["systems.s.samza.factory"]
        self.keys = {
            "job.name": self.name,
            "task.class": "keep_task:Keep",
            "task.inputs": f"s.{self.name}",
            "task.commit.ms": "500",
            "task.checkpoint.replication.factor": "1",
            "job.changelog.system": "s",
            "systems.s.samza.key.serde": "string",
            "systems.s.samza.msg.serde": "string",
            "systems.s.samza.offset.default": "oldest",
            "container.cache.max.bytes": "33554432",
            "container.rocksdb.cache.bytes": "8388608",
            "container.rocksdb.write.buffer.bytes": "8388608",
            **system,
        }
        for number in range(STORES):
            self.keys |= {
                f"stores.s{number}.factory": "rocksdb",
                f"stores.s{number}.key.serde": "string",
                f"stores.s{number}.msg.serde": "string",
                f"stores.s{number}.changelog": f"{self.name}-s{number}",
                f"stores.s{number}.changelog.replication.factor": "1",
            }
        (folder / "keep_task.py").write_text(TASK)
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.keys.items()))
        self.config = load_job(self.keys)
        self._settings = self.config.systems["s"]
        self._factory = system_factory(self._settings)
        with closing(self._factory.admin(self._settings, "tests")) as admin:
            admin.create(StreamSpec(self.name, PARTITIONS))

    def send(self, records):
        with closing(self._factory.producer(self._settings, "tests")) as producer:
            for first in range(0, records, 2_000):
                numbers = range(first, first + 2_000)
                producer.send(
                    [
                        OutgoingRecord(self.name, b"%d" % n, os.urandom(250).hex().encode(), n % PARTITIONS)
                        for n in numbers
                    ]
                )
            producer.flush()

    def planned(self):
        model = plan(self.config, dict.fromkeys(self.config.task.inputs, PARTITIONS))
        everything = ContainerModel("0", tuple(task for container in model.containers for task in container.tasks))
        assert all(isinstance(task, TaskModel) for task in everything.tasks)
        engines = store_specs(self.config)
        start, restore, more = (
            sum(part.size for part in parts) for parts in memory_needed(self.config, everything, engines)
        )
        files = files_needed(self.config, everything, engines)
        return start, start + max(restore, more), PROCESS_FILES + files.of_stores + files.of_clients


@pytest.fixture(params=["local", pytest.param("kafka", marks=[pytest.mark.slow, pytest.mark.kafka])])
def job(request, tmp_path):
    if request.param == "local":
        return Job(tmp_path, {"systems.s.samza.factory": "local", "systems.s.path": str(tmp_path / "log.db")})
    servers = request.getfixturevalue("kafka")
    return Job(tmp_path, {"systems.s.samza.factory": "kafka", "systems.s.consumer.bootstrap.servers": servers})


def test_a_container_needs_what_was_planned(job):
    start_bytes, most_bytes, files = job.planned()
    running = JobProcess(job.folder, "job.properties", "--runner", "local", *OPTIONS)
    try:
        running.until_status(lambda status: status["containers"][0]["phase"] == "running", 200)
        process = psutil.Process(running.process.pid)
        idle = process.memory_info().rss
        assert start_bytes / MARGIN < idle < start_bytes * MARGIN, (start_bytes, idle)
        job.send(40_000)
        until(lambda: running.status()["processed"] == 40_000, "40,000 messages", 200)
        seen = process.memory_info().rss, process.num_fds()
    finally:
        running.process.kill()
        running.wait()
    assert idle < seen[0] < most_bytes
    assert files / MARGIN - FEW < seen[1] < files * MARGIN + FEW, (files, seen)
