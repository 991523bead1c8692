"""The seeded table of docs/how-to/migrate/kafka-streams.md."""

from seeded import SeededCountTask

from samzapy.testing import TestRunner

JOB = {
    "task.inputs": "memory.old-counts,memory.page-views",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.key.serde": "string",
    "systems.memory.default.stream.samza.msg.serde": "json",
    "systems.memory.default.stream.samza.offset.default": "oldest",
    "streams.old-counts.samza.system": "memory",
    "streams.old-counts.samza.bootstrap": "true",
    "stores.counts.factory": "rocksdb",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "long",
    "stores.counts.changelog": "memory.counts-changelog",
}


def test_the_count_goes_on_from_the_old_jobs():
    run = (
        TestRunner.of(SeededCountTask)
        .with_config(JOB)
        .with_input("old-counts", [("/home", {"views": 40})])
        .with_input("page-views", [("/home", {}), ("/home", {})])
        .run()
    )
    assert run.store("counts") == {"/home": 42}
