"""The plan of a container's memory, threads and files, by its parts."""

import pytest

from samzapy.admin.footprint import PROCESS_BYTES, TASK_BYTES, footprint
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.job.model import ContainerModel, TaskModel
from samzapy.storage.engines import load_engines

MIB = 2**20


def store(name, **keys):
    given = {"factory": "rocksdb", "key.serde": "string", "msg.serde": "string"}
    given |= {key.replace("_", "."): value for key, value in keys.items()}
    return {f"stores.{name}.{key}": value for key, value in given.items()}


def planned(*parts, tasks=4, system="local", **keys):
    job = {
        "job.name": "j",
        "task.class": "a:B",
        "task.inputs": "s.in",
        "job.changelog.system": "s",
        "systems.s.samza.factory": system,
        "systems.s.consumer.bootstrap.servers": "localhost:9092",
        **{key.replace("_", "."): value for key, value in keys.items()},
    }
    for part in parts:
        job |= part
    config = load_job(job)
    model = ContainerModel(
        "0",
        tuple(TaskModel(f"Partition {n}", frozenset({SystemStreamPartition("s", "in", n)}), n) for n in range(tasks)),
    )
    return footprint(config, model, load_engines(config))


def sizes(shares):
    return {share.name: share.size for share in shares}


def test_a_job_without_stores_needs_its_process_tasks_and_what_it_polls():
    plan = planned()
    assert plan.start_bytes == PROCESS_BYTES + 4 * TASK_BYTES
    assert "object caches, uncommitted changes" not in sizes(plan.running)
    assert plan.restoring == ()
    assert plan.unknown == ()


def test_what_stores_share_is_counted_once_and_what_is_their_own_each_time():
    plan = planned(store("a"), store("b"), store("c", container_cache_size_bytes=str(7 * MIB)))
    running = sizes(plan.running)
    assert running["block cache"] == running["memtables"] == 128 * MIB
    assert running["block cache of c"] == 7 * MIB
    assert running["object caches, uncommitted changes"] == 256 * MIB


def test_a_restore_and_the_run_after_it_are_not_added_up():
    plan = planned(store("a", changelog="a-log", restore_max_bytes=str(2_048 * MIB)))
    assert sizes(plan.restoring) == {"records of changelogs": 2_048 * MIB}
    assert plan.most_bytes == plan.start_bytes + 2_048 * MIB


def test_the_queues_of_kafkas_clients_are_in_it_as_the_job_file_sets_them():
    queue = {"systems.s.producer.queue.buffering.max.kbytes": "1024"}
    running = sizes(planned(queue, system="kafka").running)
    assert (running["consumer of s"], running["producer of s"]) == (16 * MIB, MIB)


def test_files_and_threads_grow_with_tasks_stores_and_clients():
    few, many = planned(store("a")), planned(store("a"), tasks=8)
    assert many.files > few.files
    assert many.threads == few.threads
    assert planned(system="kafka").threads > planned().threads


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (store("m", factory="inmemory"), "m: all entries are in memory"),
        (store("a", object_cache_size="1000"), "objects of caches that are counted in objects: a (1,000)"),
        (store("a"), "a: filters and indexes: about 1.5 B for each of its keys"),
    ],
)
def test_memory_that_no_key_bounds_is_named(part, sentence):
    assert sentence in planned(part).unknown
