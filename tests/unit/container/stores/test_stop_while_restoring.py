"""A stop that is asked for while stores are being restored."""

from jobs.memory_job import MemoryJob

from samzapy import SideInputsProcessor
from samzapy.api.system import StreamSpec, change_columns
from samzapy.failpoints import arm

#: More than a restore polls at a time.
MANY = 25_000


class Latest(SideInputsProcessor):
    """The last message of each key."""

    def process(self, message, store):
        return [(message.key, message.message)]


def write(job, stream, count):
    job.producer.send_columns(change_columns(stream, 0, [(b"%d" % number, b"1") for number in range(count)]))
    job.producer.flush()


def stop_at(point, container):
    arm(point, 1, lambda _: container.stop())


def test_a_stop_is_heard_in_a_restore_and_the_next_start_restores_it_all(tmp_path):
    # What somebody else writes to the changelog is state only where no transaction says otherwise.
    job = MemoryJob(tmp_path, 1, **{"task.state.transactions": "false"})
    job.run()
    write(job, "counts-changelog", MANY)
    job.send((0, "7", {"id": 1}))
    container, coordinator = job.container()
    stop_at("restore.batch", container)
    report = container.run()
    assert (report.phase, report.processed, report.commits) == ("done", 0, 0)
    assert 0 < report.restoring["Partition 0/counts"][0] < MANY
    assert ("init", "Partition 0") not in job.task.calls[2:]
    assert coordinator.status().failed == 0
    assert job.run().processed == 1
    assert job.outputs() == [("7", {"count": 2, "id": 1})]


def test_a_stop_is_heard_while_side_inputs_are_read(tmp_path):
    job = MemoryJob(
        tmp_path,
        1,
        **{
            "job.non-logged.store.base.dir": str(tmp_path / "others"),
            "stores.rates.factory": "inmemory",
            "stores.rates.key.serde": "string",
            "stores.rates.msg.serde": "json",
            "stores.rates.side.inputs": "mem.rates",
            "stores.rates.side.inputs.processor.factory": f"{__name__}:Latest",
        },
    )
    job.admin.create(StreamSpec("rates", 1))
    write(job, "rates", MANY)
    container, coordinator = job.container()
    stop_at("fill.batch", container)
    report = container.run()
    assert (report.phase, report.processed, report.commits) == ("done", 0, 0)
    assert not job.task.calls
    assert coordinator.status().failed == 0
    job.send((0, "a", {"id": 1}))
    assert job.run().processed == 1
